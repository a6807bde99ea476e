"""Linked rows: an anonymizer groups whole persons, and the rows of each group are aligned.

A pseudonym links the rows of a person, so a class is of persons whose rows, as a multiset, have equal
quasi-identifiers. After Nergiz, Atzori, Saygin: Towards trajectory anonymization: a generalization-based
approach (2008), who group trajectories, match their points one to one, generalize each match to what covers
it, and suppress points without a match.

Deviations: persons are grouped by any anonymizer, on one row a person of what sums up their rows; matches
are optimal assignments of one person at a time, the person with fewest rows first, where the paper aligns
strings; in groups that are not large each person is matched once more when all others are known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import linear_sum_assignment

from privacy_engine.compiled import kernel
from privacy_engine.errors import SchemaError
from privacy_engine.grouping.boxes import Codes, Floats, Ints, Space, enlarge, tabulate, union_cost
from privacy_engine.grouping.people import hold_by_person
from privacy_engine.judge.models import DistinctLDiversity, KAnonymity, PrivacyModel
from privacy_engine.measures.recoding import Recoding, released_order
from privacy_engine.tables.encoding import Domain, EncodedTable, OrderedDomain
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.persons import person_codes, trajectories
from privacy_engine.tables.schema import Attribute, DataSchema, Kind, Role

QUANTILES = (0.25, 0.75)  # of the rows of a person, by which their values of an ordered attribute are known
MOST_AGAIN = 100  # persons of a group, up to which each is matched once more: quadratic in them
MOST_PAIRS = 4_000_000  # of rows that are matched in one assignment: a second, and 32 MB
_SYMBOLS = np.array(list("abcdefghijklmnopqrstuvwxyz234567"))  # base32, RFC 4648
_LENGTH = 8


@dataclass(frozen=True)
class People:
    """The persons of a table, one row each.

    Attributes:
        table: what sums up the rows of each person, as quasi-identifiers; and of each sensitive attribute a
            code for their values.
        of: (n,) the row of that table for each record.
    """

    table: EncodedTable
    of: Ints


def people_of(encoded: EncodedTable, models: Sequence[PrivacyModel], rng: np.random.Generator) -> People:
    """The persons of a table.

    A quasi-identifier that is constant for each person stays as it is. Of one that varies stand quantiles of
    a person's rows, which weigh one together, or their most frequent value where it has no order. One column
    more has their number, as its logarithm: of persons with n and with m > n rows, the second loses the share
    1 - n/m, about log(m/n), in each of the quasi-identifiers, so it weighs as much as all of them.
    A sensitive attribute of which distinct values alone are asked has a code for each set of values;
    of another, one of a person's values is drawn, so that all persons are expected to have the distribution
    that the models are about.

    Args:
        encoded: the table, with its persons.
        models: what is asked of the sensitive values.
        rng: draws the values.
    """
    persons = encoded.persons
    assert persons is not None
    order = np.argsort(persons, kind="stable")
    rows = np.bincount(persons)
    first = np.cumsum(rows) - rows
    columns: list[tuple[Attribute, Domain, Codes]] = []
    for attribute, domain, codes in zip(
        encoded.schema.quasi_identifiers, encoded.domains, encoded.codes.T, strict=True
    ):
        columns += _summary(attribute, domain, codes, persons, first, rows)
    columns.append(_number_of(rows, encoded.codes.shape[1]))
    codes = np.stack([column for _, _, column in columns], axis=1)
    sets = [_sets(own, persons) for own in encoded.sensitive]
    ranked = np.lexsort([*(s for s, _ in reversed(sets)), *codes.T[::-1]])
    place = np.empty(len(rows), dtype=np.int64)
    place[ranked] = np.arange(len(rows))
    asked = [_only_distinct(models, a.name) for a in encoded.schema.sensitive]
    secret = [
        (s[ranked], _flat(int(s.max()) + 1)) if distinct and several else (drawn, domain)
        for (s, several), distinct, drawn, domain in zip(
            sets,
            asked,
            (_drawn(own, place[persons], rng) for own in encoded.sensitive),
            encoded.sensitive_domains,
            strict=True,
        )
    ]
    others = [a for a in encoded.schema.attributes if a.role is not Role.QUASI_IDENTIFIER]
    table = EncodedTable(
        schema=DataSchema(tuple([a for a, _, _ in columns] + others)),
        table=encoded.table.take(order[first][ranked]).reset_index(drop=True),
        codes=np.ascontiguousarray(codes[ranked], np.int32),
        domains=tuple(domain for _, domain, _ in columns),
        sensitive=np.array([s for s, _ in secret], np.int32).reshape(len(secret), len(rows)),
        sensitive_domains=tuple(domain for _, domain in secret),
        rows=np.arange(len(rows)),
        public=encoded.public,
    )
    return People(table, place[persons])


def _summary(
    attribute: Attribute, domain: Domain, codes: Codes, persons: Ints, first: Ints, rows: Ints
) -> list[tuple[Attribute, Domain, Codes]]:
    """The columns of a quasi-identifier, one code a person in each."""
    ordered = codes[np.lexsort((codes, persons))]
    if (ordered[first] == ordered[first + rows - 1]).all():
        return [(attribute, domain, ordered[first])]
    if isinstance(domain, OrderedDomain):
        return [
            (
                replace(attribute, name=f"{attribute.name}, quantile {share}"),
                replace(domain, high=domain.low + domain.extent * len(QUANTILES)),
                ordered[first + (share * (rows - 1)).astype(np.int64)],
            )
            for share in QUANTILES
        ]
    size = len(domain.values)
    pairs, times = np.unique(persons * size + codes, return_counts=True)
    who, value = np.divmod(pairs, size)
    most = np.lexsort((-value, times, who))  # the last of each person: the first value of the most frequent
    return [(attribute, domain, value[most][np.cumsum(np.bincount(who)) - 1].astype(np.int32))]


def _number_of(rows: Ints, attributes: int) -> tuple[Attribute, Domain, Codes]:
    """The column of the numbers of rows."""
    numbers, codes = np.unique(rows, return_inverse=True)
    values = np.log(numbers)
    domain = OrderedDomain(values, tuple(map(str, numbers)), 0.0, 1.0 / attributes)
    attribute = Attribute(name="number of rows", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC)
    return attribute, domain, codes.astype(np.int32)


def _sets(codes: Codes, persons: Ints) -> tuple[Ints, bool]:
    """(p,) a number for each distinct set of values, ordered by them alone; and whether one has several."""
    pairs = np.unique(persons * (int(codes.max()) + 1) + codes)
    who, value = np.divmod(pairs, int(codes.max()) + 1)
    ways = np.empty(int(persons.max()) + 1, dtype=object)
    ways[:] = trajectories(value, who)
    return np.unique(ways, return_inverse=True)[1].astype(np.int64), len(pairs) > len(ways)


def _drawn(codes: Codes, persons: Ints, rng: np.random.Generator) -> Ints:
    """(p,) of each person one of their values, each as likely."""
    size = int(codes.max()) + 1
    who, value = np.divmod(np.unique(persons * size + codes), size)
    many = np.bincount(who)
    drawn: Ints = value[np.cumsum(many) - many + (rng.random(len(many)) * many).astype(np.int64)]
    return drawn


def _flat(size: int) -> Hierarchy:
    return Hierarchy.flat(tuple(map(str, range(size))))


def _only_distinct(models: Sequence[PrivacyModel], attribute: str) -> bool:
    """Whether of an attribute nothing but distinct values is asked."""
    own = [m for m in models if getattr(m, "attribute", None) in (None, attribute)]
    return all(isinstance(model, DistinctLDiversity | KAnonymity) for model in own)


def linked_recoding(
    encoded: EncodedTable,
    people: People,
    group: Callable[[EncodedTable], Recoding],
    models: Sequence[PrivacyModel],
    suppression_limit: float,
) -> Recoding:
    """A recoding whose every class is one position in the trajectories of a group of persons.

    Rows beyond those of the person with fewest in the group are suppressed. What is left is counted exactly,
    and groups that miss a model are merged and aligned again.

    Args:
        encoded: the table.
        people: its persons.
        group: makes groups of persons of their table.
        models: what every group must satisfy.
        suppression_limit: share of the records that may be suppressed to meet the models; those that find no
            match are suppressed whatever it is, and count.

    Raises:
        SchemaError: if the method changes sensitive values.
    """
    grouped = group(people.table)
    if (grouped.encoded.sensitive != people.table.sensitive).any():
        raise SchemaError(
            "sensitive values cannot be changed where rows are linked: a person has several, which the "
            "method sees as one; take `repair: merge`, or `rows: linked` out of person"
        )
    groups = grouped.labels
    summed = replace(
        encoded, codes=people.table.codes[people.of], domains=people.table.domains, persons=people.of
    )
    aligner = _Aligner(encoded, people)
    while True:
        position = aligner.positions(groups)
        labels = np.where(position >= 0, groups[people.of], -1)
        held = hold_by_person(summed, labels, summed.geometry(), models, suppression_limit)
        merged = np.full(len(groups), -1, dtype=np.int64)
        merged[people.of[held >= 0]] = held[held >= 0]
        if merged.max(initial=-1) == groups.max(initial=-1) and ((merged < 0) == (groups < 0)).all():
            width = int(position.max(initial=0)) + 1
            return Recoding.of_labels(encoded, np.where(labels >= 0, labels * width + position, -1))
        groups = merged


class _Aligner:
    """Aligns the rows of groups of persons; a group that was aligned before is not aligned again."""

    def __init__(self, encoded: EncodedTable, people: People) -> None:
        self.codes, self.space = encoded.codes, tabulate(encoded.geometry())
        order = np.argsort(people.of, kind="stable")
        self.rows = np.split(order, np.cumsum(np.bincount(people.of))[:-1])
        self.known: dict[bytes, Ints] = {}

    def positions(self, groups: Ints) -> Ints:
        """(n,) the position of each record in its group's trajectories; -1 = suppressed.

        groups: (p,) int64, -1 = in none.
        """
        found = np.full(len(self.codes), -1, dtype=np.int64)
        order = np.argsort(groups, kind="stable")[np.count_nonzero(groups < 0) :]
        for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
            key = members.tobytes()
            if key not in self.known:
                self.known[key] = aligned(self.codes, [self.rows[p] for p in members], self.space)
            found[self.known[key]] = np.arange(self.known[key].shape[1])
        return found


def aligned(codes: Codes, persons: Sequence[Ints], space: Space) -> Ints:
    """The rows of persons that share a position, such that positions cost little.

    Args:
        codes: (n, q) of all records.
        persons: of each, their rows.
        space: costs of the quasi-identifiers.

    Returns:
        (p, m) rows, a line for each person, by the number of their rows; m is the smallest.
    """
    own = sorted(persons, key=len)
    first, *others = own
    chosen = np.empty((len(own), len(first)), dtype=np.int64)
    lo, hi = codes[first].copy(), codes[first].copy()
    chosen[0] = first
    for i, rows in enumerate(others, 1):
        chosen[i] = rows[_matched(lo, hi, codes[rows], space)]
        _cover(lo, hi, codes[chosen[i]], space)
    for i, rows in enumerate(own if len(own) <= MOST_AGAIN else ()):
        _span(codes, np.delete(chosen, i, axis=0), lo, hi, space)
        chosen[i] = rows[_matched(lo, hi, codes[rows], space)]
    return chosen


def _matched(lo: Codes, hi: Codes, codes: Codes, space: Space) -> Ints:
    """(m,) for each of m boxes another one of at least as many rows, at the least cost in all.

    Very many are matched in runs of their order, of which each is matched by itself.
    """
    runs = int(np.ceil(np.sqrt(len(lo) * len(codes) / MOST_PAIRS)))
    order = np.lexsort(lo.T[::-1]) if runs > 1 else np.arange(len(lo))
    found = np.empty(len(lo), dtype=np.int64)
    for boxes, rows in zip(
        np.array_split(order, runs), np.array_split(np.arange(len(codes)), runs), strict=True
    ):
        found[boxes] = rows[linear_sum_assignment(_costs(lo[boxes], hi[boxes], codes[rows], space))[1]]
    return found


@kernel(nogil=True)
def _costs(lo: Codes, hi: Codes, codes: Codes, space: Space) -> Floats:
    """(m, n) cost of each of m boxes once it covers a row."""
    costs = np.empty((len(lo), len(codes)))
    for i in range(len(lo)):
        for j in range(len(codes)):
            costs[i, j] = union_cost(space, lo[i], hi[i], codes[j], codes[j])
    return costs


@kernel(nogil=True)
def _cover(lo: Codes, hi: Codes, codes: Codes, space: Space) -> None:
    """Grow each of m boxes by one row (m, q)."""
    for i in range(len(lo)):
        enlarge(space, lo[i], hi[i], codes[i], codes[i])


@kernel(nogil=True)
def _span(codes: Codes, chosen: Ints, lo: Codes, hi: Codes, space: Space) -> None:
    """Make the boxes (m, q) those of the rows (p, m) that share a position."""
    for i in range(chosen.shape[1]):
        lo[i] = codes[chosen[0, i]]
        hi[i] = codes[chosen[0, i]]
        for p in range(1, len(chosen)):
            enlarge(space, lo[i], hi[i], codes[chosen[p, i]], codes[chosen[p, i]])


def with_pseudonyms(
    table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[np.generic], rng: np.random.Generator
) -> tuple[pd.DataFrame, DataSchema]:
    """Released records with a random pseudonym of their person as the first column, in its order.

    The pseudonyms are dealt out by what is released of the persons: whoever could repeat the random choices
    would learn nothing else from them.

    Args:
        table: the released records.
        schema: of them; it names the person.
        persons: (n,) whose record each is.
        rng: draws the pseudonyms.
    """
    who, rank = person_codes(persons), np.zeros(len(table), dtype=np.int64)
    for name in table.columns:
        codes = pd.factorize(table[name], sort=True)[0].astype(np.int64) + 1
        rank = np.unique(rank * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    ways = trajectories(rank, who)
    name_of = np.empty(len(ways), dtype=object)
    name_of[sorted(range(len(ways)), key=ways.__getitem__)] = _names(len(ways), rng)
    named = table.copy()
    named.insert(0, schema.by, pd.Series(name_of[who], index=table.index, dtype="str"))
    pseudonym = Attribute(name=schema.by, role=Role.INSENSITIVE)
    return named.iloc[released_order(named)], DataSchema((pseudonym, *schema.attributes), schema.person)


def _names(count: int, rng: np.random.Generator) -> list[str]:
    """So many distinct texts."""
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = _SYMBOLS[rng.integers(0, len(_SYMBOLS), (count - len(found), _LENGTH))]
        found |= dict.fromkeys(map("".join, drawn.tolist()))
    return list(found)
