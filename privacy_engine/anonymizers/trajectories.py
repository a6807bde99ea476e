"""Linked rows: an anonymizer groups whole persons, and the rows of each group are aligned.

A pseudonym links the rows of a person, so a class consists of persons whose rows, as a multiset, have equal
quasi-identifiers. After Nergiz, Atzori, Saygin: Towards trajectory anonymization: a generalization-based
approach (2008), who group trajectories, match their points one to one, generalize each match to a common
cover, and suppress points without a match.

Deviations: persons are grouped by any anonymizer, on one summary row per person; matches
are optimal assignments of one person at a time, the person with fewest rows first, where the paper aligns
strings; in groups that are not large each person is matched once more when all others are known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.compiled import kernel
from privacy_engine.errors import SchemaError
from privacy_engine.measures.recoding import Recoding, released_order
from privacy_engine.recoding.grouping.boxes import Codes, Floats, Ints, Space, enlarge, tabulate, union_cost
from privacy_engine.recoding.grouping.people import Scope, hold_by_person
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.encoding import Domain, EncodedTable, OrderedDomain, domain_labels
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.linked import released_schema, stacked, with_carried
from privacy_engine.tables.persons import TABLE, person_codes, trajectories
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, PrivacyModel, concerns
from privacy_engine.vocabulary import Kind, Role

QUANTILES = (0.25, 0.75)  # of the rows of a person, by which their values of an ordered attribute are known
MOST_AGAIN = 100  # persons of a group, up to which each is matched once more: quadratic in them
MOST_PAIRS = 4_000_000  # pairs of rows that are matched in one assignment: a second, and 32 MB
_SYMBOLS = np.array(list("abcdefghijklmnopqrstuvwxyz234567"))  # base32, RFC 4648
_LENGTH = 8


@dataclass(frozen=True)
class People:
    """The persons of one table, or of several, one row each.

    Attributes:
        table: Summary of the rows of each person, as quasi-identifiers; and for each sensitive attribute a
            code for their values.
        of: For each table, (n,) the row of that table for each of its records.
    """

    table: EncodedTable
    of: tuple[Ints, ...]


def people_of(
    tables: Sequence[EncodedTable], models: Sequence[PrivacyModel], rng: np.random.Generator
) -> People:
    """The persons of tables.

    A quasi-identifier that is constant for each person is used unchanged. A varying one is represented by
    quantiles of a person's rows, which have a total weight of one, or by their most frequent value if it has
    no order. One more column per table has the number of rows, as its logarithm: of persons with n and with m
    > n rows, the second loses the share 1 - n/m, about log(m/n), in each of the quasi-identifiers, so it has
    the weight of all of them; no rows count as a factor of e less than one. Someone without rows in a table
    has nulls for it. A sensitive attribute with requirements only on distinct values has a code for each set
    of values; for another, one of a person's values is drawn, so that all persons are expected to have the
    distribution that the models are about. Someone without a value has one drawn from another person: a
    missing value is not a value.

    Args:
        tables: Tables with their persons, 0 .. p - 1, each of whom has a row in one of them.
        models: Requirements on the sensitive values.
        rng: Draws the values.
    """
    every = [_rows_of(encoded) for encoded in tables]
    count = max(int(own.who.max()) for own in every) + 1
    attributes = sum(encoded.codes.shape[1] for encoded in tables)
    columns: list[tuple[Attribute, Domain, Codes]] = []
    for i, own in enumerate(every):
        for attribute, domain, codes in _summaries(own):
            named = replace(attribute, name=f"{i}: {attribute.name}") if len(every) > 1 else attribute
            columns.append((named, *_for_everybody(domain, codes, own.who, count)))
        columns.append(_number_of(own, count, attributes, f"{i}: " if len(every) > 1 else ""))
    codes = np.stack([column for _, _, column in columns], axis=1)
    sets = [(own, *_sets(column, own.persons)) for own in every for column in own.encoded.sensitive]
    ranked = np.lexsort([*(_spread(s, own.who, count) for own, s, _ in reversed(sets)), *codes.T[::-1]])
    place = np.empty(count, dtype=np.int64)
    place[ranked] = np.arange(count)
    secrets = [a for own in every for a in own.encoded.schema.sensitive]
    domains = [domain for own in every for domain in own.encoded.sensitive_domains]
    values = [codes for own in every for codes in own.encoded.sensitive]
    secret = []
    for (own, s, several), attribute, domain, held in zip(sets, secrets, domains, values, strict=True):
        drawn = _drawn(held, place[own.who][own.persons], count, rng)
        distinct = several and _only_distinct(models, attribute.name)
        everybody = _spread(s, own.who, count)[ranked] if distinct else drawn
        none = everybody < 0
        if none.any():
            everybody[none] = rng.choice(everybody[~none], int(none.sum()))
        secret.append((everybody, _flat(int(s.max()) + 1) if distinct else domain))
    table = EncodedTable(
        schema=DataSchema(tuple([a for a, _, _ in columns] + secrets)),
        table=pd.DataFrame(
            {a.name: cells for own in every for a, cells in _first_cells(own, ranked, count)},
            index=range(count),
        ),
        codes=np.ascontiguousarray(codes[ranked], np.int32),
        domains=tuple(domain for _, domain, _ in columns),
        sensitive=np.array([s for s, _ in secret], np.int32).reshape(len(secret), count),
        sensitive_domains=tuple(domain for _, domain in secret),
        rows=np.arange(count),
        public=frozenset().union(*(own.encoded.public for own in every)),
    )
    return People(table, tuple(place[own.who][own.persons] for own in every))


class _Rows(NamedTuple):
    """Return the rows of one table by person, for those who have some.

    who: (w,) their numbers among all persons, ascending.
    persons: (n,) 0 .. w - 1, whose each record is.
    first, many: (w,) in the order of the persons, where those of each begin, and how many they are.
    """

    encoded: EncodedTable
    who: Ints
    persons: Ints
    first: Ints
    many: Ints


def _rows_of(encoded: EncodedTable) -> _Rows:
    assert encoded.persons is not None
    who, persons = np.unique(encoded.persons, return_inverse=True)
    many = np.bincount(persons)
    return _Rows(encoded, who, persons, np.cumsum(many) - many, many)


def _summaries(own: _Rows) -> Iterator[tuple[Attribute, Domain, Codes]]:
    """What sums up the rows of each person of a table."""
    encoded = own.encoded
    for attribute, domain, codes in zip(
        encoded.schema.quasi_identifiers, encoded.domains, encoded.codes.T, strict=True
    ):
        yield from _summary(attribute, domain, codes, own.persons, own.first, own.many)


def _spread(codes: Ints, who: Ints, count: int) -> Ints:
    """(count,) codes of persons (w,); -1 = of another person."""
    everybody = np.full(count, -1, dtype=np.int64)
    everybody[who] = codes
    return everybody


def _for_everybody(domain: Domain, codes: Codes, who: Ints, count: int) -> tuple[Domain, Codes]:
    """Spread the codes (w,) of some persons over all persons (count,), with nulls for the others."""
    if len(who) == count:
        return domain, codes
    if NULL not in domain_labels(domain):
        domain = domain.with_leaf(NULL) if isinstance(domain, Hierarchy) else domain.with_null()
    everybody = np.full(count, domain_labels(domain).index(NULL), dtype=np.int32)
    everybody[who] = codes
    return domain, everybody


def _first_cells(own: _Rows, ranked: Ints, count: int) -> Iterator[tuple[Attribute, pd.Series]]:
    """Of each sensitive attribute the cell of a person's first row, in the order of the persons."""
    first = np.argsort(own.persons, kind="stable")[own.first]
    rows = np.zeros(count, dtype=np.int64)  # of who has none: any
    rows[own.who] = first
    for attribute in own.encoded.schema.sensitive:
        yield attribute, own.encoded.table[attribute.name].take(rows[ranked]).reset_index(drop=True)


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


def _number_of(own: _Rows, count: int, attributes: int, prefix: str) -> tuple[Attribute, Domain, Codes]:
    """The column of the numbers of rows."""
    rows = np.zeros(count, dtype=np.int64)
    rows[own.who] = own.many
    numbers, codes = np.unique(rows, return_inverse=True)
    values = np.log(np.maximum(numbers, 1)) - (numbers == 0)
    domain = OrderedDomain(values, tuple(map(str, numbers)), 0.0, 1.0 / attributes)
    attribute = Attribute(name=f"{prefix}number of rows", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC)
    return attribute, domain, codes.astype(np.int32)


def _sets(codes: Codes, persons: Ints) -> tuple[Ints, bool]:
    """(p,) a number for each distinct set of values, sorted by them; and whether one has several."""
    pairs = np.unique(persons * (int(codes.max()) + 1) + codes)
    who, value = np.divmod(pairs, int(codes.max()) + 1)
    ways = np.empty(int(persons.max()) + 1, dtype=object)
    ways[:] = trajectories(value, who)
    return np.unique(ways, return_inverse=True)[1].astype(np.int64), len(pairs) > len(ways)


def _drawn(codes: Codes, persons: Ints, count: int, rng: np.random.Generator) -> Ints:
    """(count,) of each person one of their values, each as likely; -1 = has none."""
    size = int(codes.max()) + 1
    who, value = np.divmod(np.unique(persons * size + codes), size)
    several, many = np.unique(who, return_counts=True)
    drawn: Ints = value[np.cumsum(many) - many + (rng.random(len(many)) * many).astype(np.int64)]
    return _spread(drawn, several, count)


def _flat(size: int) -> Hierarchy:
    return Hierarchy.flat(tuple(map(str, range(size))))


def _only_distinct(models: Sequence[PrivacyModel], attribute: str) -> bool:
    """Return whether the requirements on an attribute only concern distinct values."""
    own = [m for m in models if getattr(m, "attribute", None) in (None, attribute)]
    return all(isinstance(model, DistinctLDiversity | KAnonymity) for model in own)


def linked_recoding(
    tables: Sequence[EncodedTable],
    people: People,
    grouped: Recoding,
    models: Sequence[PrivacyModel],
    suppression_limit: float,
) -> list[Recoding]:
    """Of each table a recoding whose every class is one position in the trajectories of a group of persons.

    Rows beyond those of the person with fewest in the group are suppressed, table by table. The rest is
    counted exactly, and groups that miss a model are merged and aligned again.

    Args:
        tables: Encoded tables that share the persons.
        people: Persons of the rows of all tables.
        grouped: Groups of persons, of their table.
        models: Models that every group must satisfy.
        suppression_limit: Share of the records that may be suppressed to meet the models; those that find no
            match are suppressed whatever it is, and count.

    Raises:
        SchemaError: If the method changes sensitive values.
    """
    if (grouped.encoded.sensitive != people.table.sensitive).any():
        raise SchemaError(
            "sensitive values cannot be changed where rows are linked: a person has several, which the "
            "method sees as one; take `repair: merge`, or `rows: linked` out of person"
        )
    groups, of = grouped.labels, np.concatenate(people.of)
    summed, scopes = _summed(tables, people), _scopes(tables, models)
    aligners = [_Aligner(encoded, own, len(groups)) for encoded, own in zip(tables, people.of, strict=True)]
    while True:
        positions = [aligner.positions(groups) for aligner in aligners]
        labels = np.where(np.concatenate(positions) >= 0, groups[of], -1)
        held = hold_by_person(summed, labels, summed.geometry(), models, suppression_limit, scopes)
        merged = np.full(len(groups), -1, dtype=np.int64)
        merged[of[held >= 0]] = held[held >= 0]
        if merged.max(initial=-1) == groups.max(initial=-1) and ((merged < 0) == (groups < 0)).all():
            return [
                _by_position(encoded, groups[own], position)
                for encoded, own, position in zip(tables, people.of, positions, strict=True)
            ]
        groups = merged


def _by_position(encoded: EncodedTable, groups: Ints, position: Ints) -> Recoding:
    """The recoding by group and position of each record (n,); -1 = suppressed."""
    width = int(position.max(initial=0)) + 1
    kept = (position >= 0) & (groups >= 0)
    return Recoding.of_labels(encoded, np.where(kept, groups * width + position, -1))


def _summed(tables: Sequence[EncodedTable], people: People) -> EncodedTable:
    """The records of all tables below each other, each with what sums up its person's.

    Of a sensitive attribute that a table does not have its records have code 0, which no scope uses.
    """
    of = np.concatenate(people.of)
    ends = np.cumsum([len(encoded) for encoded in tables])
    rows = []
    for encoded, end in zip(tables, ends, strict=True):
        for codes in encoded.sensitive:
            rows.append(np.zeros(len(of), dtype=np.int32))
            rows[-1][end - len(encoded) : end] = codes
    return replace(
        people.table,
        table=pd.DataFrame(index=range(len(of))),
        codes=people.table.codes[of],
        sensitive=np.array(rows, np.int32).reshape(len(rows), len(of)),
        sensitive_domains=tuple(domain for encoded in tables for domain in encoded.sensitive_domains),
        rows=np.arange(len(of)),
        persons=of,
    )


def _scopes(tables: Sequence[EncodedTable], models: Sequence[PrivacyModel]) -> Sequence[Scope]:
    """Return which of the records of all tables each model is about; empty if there is one table."""
    if len(tables) == 1:
        return ()
    table_of = np.repeat(np.arange(len(tables)), [len(encoded) for encoded in tables])
    secret = [encoded.sensitive_names for encoded in tables]
    every = [name for names in secret for name in names]
    of_all = Scope(tuple(m for m in models if not concerns(m, every)), None, ())
    of_each = [
        Scope(tuple(m for m in models if concerns(m, names)), table_of == i, names)
        for i, names in enumerate(secret)
    ]
    return [of_all, *(scope for scope in of_each if scope.models)]


class _Aligner:
    """Aligns the rows of groups of persons; a group that was aligned before is not aligned again."""

    def __init__(self, encoded: EncodedTable, of: Ints, persons: int) -> None:
        self.codes, self.space = encoded.codes, tabulate(encoded.geometry())
        order = np.argsort(of, kind="stable")
        self.rows = np.split(order, np.cumsum(np.bincount(of, minlength=persons))[:-1])
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
        codes: Codes of all records, shape (n, q).
        persons: Rows of each person.
        space: Costs of the quasi-identifiers.

    Returns:
        (p, m) rows, a line for each person, by the number of their rows; m is the smallest.
    """
    own = sorted(persons, key=len)
    if not own or not len(own[0]):
        return np.empty((len(own), 0), dtype=np.int64)
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
    """(m,) another box for each of m boxes, of at least as many rows, at the least total cost.

    Very many are matched in runs of their order, each of which is matched separately.
    """
    # Its import takes a third of a second, and every anonymizer imports this module.
    from scipy.optimize import linear_sum_assignment

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
    """Set the boxes (m, q) to the boxes of the rows (p, m) that share a position."""
    for i in range(chosen.shape[1]):
        lo[i] = codes[chosen[0, i]]
        hi[i] = codes[chosen[0, i]]
        for p in range(1, len(chosen)):
            enlarge(space, lo[i], hi[i], codes[chosen[p, i]], codes[chosen[p, i]])


def joined_release(
    schema: DataSchema,
    names: Sequence[str],
    rendered: Sequence[tuple[pd.DataFrame, DataSchema]],
    places: Sequence[Ints],
    persons: npt.NDArray[np.generic],
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, DataSchema, Ints]:
    """The released rows of all tables below each other, with pseudonyms; their schema; and where they stood.

    Args:
        schema: Schema of the source.
        names: Names of the tables; a single empty one if the source is one table.
        rendered: Released rows of each table and their schema.
        places: For each table, (m,) index of these rows in the source.
        persons: Person of each row of the source, shape (n,).
        rng: Draws the pseudonyms.

    Raises:
        SchemaError: If tables get different columns with one name, or a carried table has several rows per
            person.
    """
    tables = [table.reset_index(drop=True) for table, _ in rendered]
    if not schema.tables:
        released, described = tables[0], rendered[0][1]
    else:
        schemas = {name: own for name, (_, own) in zip(names, rendered, strict=True)}
        carried = with_carried(
            schema, dict(zip(names, tables, strict=True)), schemas, [persons[own] for own in places]
        )
        released, described = stacked(carried), released_schema(schema, carried, schemas)
    rows = np.concatenate(places)
    released = released.set_axis(pd.Index(rows), axis="index")
    released, described = with_pseudonyms(released, described, persons[rows], rng)
    if schema.tables:
        order = np.argsort(released[TABLE].map(names.index).to_numpy(), kind="stable")
        released = released.iloc[order]
    return released.reset_index(drop=True), described, released.index.to_numpy()


def with_pseudonyms(
    table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[np.generic], rng: np.random.Generator
) -> tuple[pd.DataFrame, DataSchema]:
    """Released records with a random pseudonym of their person as the first column, in its order.

    The pseudonyms are assigned by the released values of the persons: someone who could repeat the random
    choices would learn nothing else from them.

    Args:
        table: Released records without a column for the person.
        schema: Schema of the rows, which names the person.
        persons: Person of each row, shape (n,).
        rng: Draws the pseudonyms.
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
    """Return a number of distinct texts."""
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = _SYMBOLS[rng.integers(0, len(_SYMBOLS), (count - len(found), _LENGTH))]
        found |= dict.fromkeys(map("".join, drawn.tolist()))
    return list(found)
