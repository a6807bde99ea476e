"""What one person contributes to the measured records, so that a loss covers all rows of a person.

Neighbour relation: all rows of one person replaced by another person's rows. The number of persons P is
public, the number of rows is not. There are two ways to limit the change by such a replacement:

* ``max_rows`` m: m rows of a person with more are kept, each with equal probability. A person has 1 .. m
  records.
* ``weight`` person: each person is dealt W units, shared by the person's r rows: each row has W / r of them,
  rounded up or down so that they sum to W. Every person has the same weight, whatever r: the measured
  distribution is that of rows drawn by first drawing a person, then one of the person's rows. W is a function
  of P only.

Both follow one rule. A person's rows are sorted by their values, and their M = min(r, m) or W units are laid
along this line at equal distances from a random start U < r, so that row j = 0 .. r - 1 gets

    floor(((j + 1) M + U) / r) - floor((j M + U) / r)

units (systematic sampling; Madow, Madow: On the theory of systematic sampling, 1944). They sum to M, and a
row gets M / r on average over U. U is a hash of the person. So a person's contribution is a function of only
that person and the person's rows: no other person's part of the table changes with them, even if the hash is
known.

Then the contributions of two neighbouring tables differ in at most m, or W, of their records each way. With
`with_public_number` their number is public as well, and they differ in at most that many *replaced* records,
one after the other: anything that changes by S if one record is replaced changes by at most m S, or W S.

If only some persons of a data set take part in a release, their number is not public either: see
`with_noisy_number`.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.dp.amplification import secure_sample
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import pack
from privacy_engine.tables.normal import normal_forms
from privacy_engine.tables.persons import scrambled
from privacy_engine.tables.schema import DataSchema

Ints = npt.NDArray[np.int64]

UNITS = 840  # of a person by weight: up to 8 rows share them without a remainder
MOST_UNITS = 2**24  # of all persons together: limits memory and every product of counts
MOST_COUNT_SHARE = 0.2  # of epsilon, for the number of records
NUMBER_SHARE = 0.1  # of epsilon, for a number of persons, or of their records, that is not public at all
LEAST_PERSONS = 2  # no sensitivity is derived for a table of one
SEED = 20261122  # seed of the records that fill up: they are the same each time, and hide nothing
_WAITING = 2**20  # combinations before they are joined with the others


class Weight(StrEnum):
    """The unit that each record counts for."""

    PERSON = "person"  # each person has the same weight


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """The most that a person contributes: rows, or one weight. Exactly one is given.

    Attributes:
        max_rows: Most rows of a person, >= 1.
        weight: Text `person` for the same weight for each person; None: `max_rows` limits the rows.
    """

    max_rows: int | None = None
    weight: Weight | None = None

    def __post_init__(self) -> None:
        if self.weight is not None:
            object.__setattr__(self, "weight", choice(Weight, self.weight, "weight"))
        given: object = self.max_rows
        if given is not None and (type(given) is not int or given < 1):
            raise ValueError(f"max_rows must be a whole number >= 1, got {given!r}")
        if (self.max_rows is None) == (self.weight is None):
            raise ValueError("set max_rows or weight: person, not both")

    def units(self, persons: int) -> int:
        """Return the most records that a person contributes if there are that many persons: m, or W.

        >>> Contribution(max_rows=4).units(1000), Contribution(weight="person").units(1000)
        (4, 840)
        """
        return self.max_rows or max(1, min(UNITS, MOST_UNITS // max(persons, 1)))


def require_bound(schema: DataSchema, contribution: Contribution | None) -> None:
    """Raise if a claim would be about rows although a person may have several, or about no person at all.

    Raises:
        SchemaError: If it would; the message names the column and both remedies.
    """
    if schema.by and contribution is None:
        raise SchemaError(
            f"{schema.by} names the person of each row, and a person with m rows would have m times the "
            "loss. Limit the contribution of a person with `max_rows: m` or `weight: person`, or aggregate "
            "the table to one row per person and remove `person`"
        )
    if contribution is not None and not schema.by:
        raise SchemaError(
            "max_rows and weight limit a person's contribution, but the schema names no person. Add "
            "`person: <column>`, or remove them"
        )


def person_numbers(column: pd.Series, *, exact: bool = False) -> Ints:
    """(n,) a number for the person of each row, the same in every part of a table; no value may be null.

    Whole numbers are used unchanged, anything else as a 64-bit hash of its text. Two persons with the same
    hash count as one.

    Args:
        column: Identifier of the person of each row, shape (n,).
        exact: Whether two spellings of the same text are two persons.
    """
    if pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy(dtype=np.int64)
    coded = factorize(column)
    texts = coded.texts if exact else normal_forms(coded.texts)
    digests = (hashlib.blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts)
    return np.frombuffer(b"".join(digests), dtype=np.int64)[coded.codes]


def dealt(persons: Ints, keys: Ints, counts: Ints, *, units: int, fill: bool) -> Ints:
    """(u,) number of units of each combination of values of a person.

    Args:
        persons: Person of each combination as a number, shape (u,); with all rows of each person.
        keys: Keys that sort the rows of a person by their values, shape (u,).
        counts: Number of rows of the person with these values, >= 1, shape (u,) int64.
        units: Units M of each person, or the most.
        fill: Whether a person with fewer rows also has M.

    >>> two, keys = np.array([7, 7, 7, 9]), np.array([0, 1, 2, 0])
    >>> dealt(two, keys, np.array([1, 1, 2, 1]), units=8, fill=True).tolist()
    [2, 2, 4, 8]
    """
    order = np.lexsort((keys, persons))
    who, rows = persons[order], counts[order]
    first = np.flatnonzero(np.append(True, who[1:] != who[:-1])[: len(who)])
    person = np.repeat(np.arange(len(first)), np.diff(first, append=len(who)))
    r = np.add.reduceat(rows, first) if len(first) else rows
    mass = np.full(len(r), units) if fill else np.minimum(r, units)
    start = (scrambled(who[first]) % r.astype(np.uint64)).astype(np.int64)
    end = np.cumsum(rows)
    end = end - (end[first] - rows[first])[person]
    at_end = (end * mass[person] + start[person]) // r[person]
    at_begin = ((end - rows) * mass[person] + start[person]) // r[person]
    out = np.empty_like(rows)
    out[order] = at_end - at_begin
    return out


def contributed(
    coded: CodedTable,
    parts: Iterable[tuple[npt.NDArray[Any], Ints, Ints]],
    contribution: Contribution,
    persons: int,
) -> CodedTable:
    """Return what the persons of a table contribute, with equal records merged.

    Args:
        coded: Coded table, for domains and storages.
        parts: Codes (d, u), persons (u,) and counts (u,) of some rows; all rows of a person are in one part.
        contribution: Most that a person contributes.
        persons: Number P of persons.

    Returns:
        The records, with `persons` and `each`.
    """
    units, fill = contribution.units(persons), contribution.weight is not None
    sizes = np.array(coded.sizes, dtype=np.int64)
    joined = (np.zeros((len(sizes), 0), dtype=coded.codes.dtype), np.zeros(0, dtype=np.int64))
    waiting = [joined]
    for codes, who, counts in parts:
        weights = dealt(who, pack(codes, sizes), counts, units=units, fill=fill)
        kept = weights > 0
        waiting.append((codes[:, kept], weights[kept]))
        if sum(len(weights) for _, weights in waiting[1:]) > max(_WAITING, len(joined[1])):
            joined = _joined(waiting, sizes)
            waiting = [joined]
    codes, weights = _joined(waiting, sizes)
    return replace(coded, codes=codes, weights=weights, persons=persons, each=units)


def _joined(parts: list[tuple[npt.NDArray[Any], Ints]], sizes: Ints) -> tuple[npt.NDArray[Any], Ints]:
    """Merge equal combinations, sorted by their values."""
    codes = np.concatenate([codes for codes, _ in parts], axis=1)
    weights = np.concatenate([weights for _, weights in parts])
    _, first, at = np.unique(pack(codes, sizes), return_index=True, return_inverse=True)
    summed = np.zeros(len(first), dtype=np.int64)
    np.add.at(summed, at, weights)
    return np.ascontiguousarray(codes[:, first]), summed


def contributed_rows(coded: CodedTable, persons: Ints, contribution: Contribution) -> CodedTable:
    """Like `contributed`, for a table in memory: coded rows (d, n), and persons (n,)."""
    ones = np.ones(len(persons), dtype=np.int64)
    people = len(np.unique(persons))
    return contributed(coded, [(coded.codes, persons, ones)], contribution, people)


def count_share(epsilon: float, persons: int) -> float:
    """Return the part of epsilon for the number of records: 1 / sqrt(epsilon P), at most .2.

    The relative size of the noise then equals the share of epsilon. It only depends on public figures.

    >>> round(count_share(1.0, 10_000), 3), count_share(1.0, 10)
    (0.01, 0.2)
    """
    return min(MOST_COUNT_SHARE, 1 / math.sqrt(epsilon * persons))


def with_public_number(coded: CodedTable, noise: NoiseBudget, part: float) -> CodedTable:
    """Return as many records as a noisy count says, less its mean noise; omitted, or filled up, at random.

    A person has 1 .. m records, so their number changes by at most m - 1, and lies in P .. m P. Records are
    omitted so that all are equally likely to be kept: give each a random rank and keep the N lowest; then the
    j records of one person among them displace j of the others, so that tables that differ in one person keep
    tables that differ in at most m replaced records. Records that fill up come after all of them, from a list
    that is independent of the records, and the same holds.

    Args:
        coded: Records with at most `each` = m > 1 records of each of its `persons`.
        noise: Noise budget that pays for the count.
        part: Part of the budget for the count.

    Returns:
        A table whose number of records is public.
    """
    persons, most = coded.persons or 0, coded.each
    change = Change.of_count(most - 1)
    counted = noise.add(np.array([len(coded)]), part, change, target="number of rows")[0]
    rows = min(max(int(counted) - math.ceil(noise.scale(part, change)), persons), persons * most)
    return resized(coded, rows)


@dataclass(frozen=True, kw_only=True)
class RowsOfPersons:
    """Coded rows, and the person of each.

    Attributes:
        coded: Unchanged rows, shape (d, n); n may be 0.
        persons: Person of each row as a number, see ``person_numbers``, shape (n,).
    """

    coded: CodedTable
    persons: Ints


def with_noisy_number(
    rows: RowsOfPersons, contribution: Contribution, noise: NoiseBudget, part: float
) -> CodedTable:
    """Return as many contributed records as a noisy count says: nothing about their number is public.

    Neighbours: at most one person's rows removed, and at most one person's added. Claim: the number of
    returned records has the loss of its part of the noise, and for each such number the records of two
    neighbouring tables differ in at most u = `each` replaced ones, so that anything that changes by S if one
    record is replaced changes by at most u S. Proof:

    1. `max_rows` m: u = m. The records contributed are C and a <= m more in one table, C and b <= m more in
       the other, where C is what all others contribute: it is a function of each of them only. So their
       number changes by |a - b| <= m. It is counted with noise for sensitivity m.
    2. `weight` person: the number of persons changes by at most one, and is counted with noise for
    sensitivity 1.
       From then on it replaces P: u = W = `units(P)` is the same for both tables, C and a in {0, W} more in
       one, C and b in {0, W} in the other. P W records are to be returned.
    3. Give each record of C and of the others a random rank, C's the same in both tables, and let the filling
    records
       come after them, in an order independent of the records. The N lowest of one table have i <= a that are
       not of C, and the first N - i of C and filling; of the other, j <= b and the first N - j of the same
       list. They have N - max(i, j) >= N - u in common: at most u are replaced. `resized` draws in this way:
       all records are equally likely, and filling starts from the beginning of one list.

    Args:
        rows: Rows of those who take part; may be empty.
        contribution: Most that a person contributes.
        noise: Noise budget that pays for the count.
        part: Part of the budget for the count.

    Returns:
        The records, with `persons` from the noisy number, at least 2.
    """
    by_weight = contribution.weight is not None
    most = 1 if by_weight else contribution.units(1)
    people = len(np.unique(rows.persons))
    coded = None if by_weight else contributed_rows(rows.coded, rows.persons, contribution)
    change = Change.of_count(most)
    counted = np.array([people if coded is None else len(coded)])
    target = "number of persons" if by_weight else "number of rows"
    noisy = int(noise.add(counted, part, change, target=target)[0]) - math.ceil(noise.scale(part, change))
    if coded is not None:
        number = max(noisy, LEAST_PERSONS * most)
        return replace(resized(coded, number), persons=number // most)
    persons = max(noisy, LEAST_PERSONS)
    units = contribution.units(persons)
    ones = np.ones(len(rows.persons), dtype=np.int64)
    parts = [(rows.coded.codes, rows.persons, ones)]
    coded = contributed(rows.coded, parts, contribution, persons)
    return resized(coded, persons * units)


def resized(coded: CodedTable, rows: int) -> CodedTable:
    """Return a number of the records, or all of them and uniform ones of the public domains."""
    missing = rows - len(coded)
    if missing <= 0:
        return coded.take(secure_sample(len(coded), rows))
    sizes = np.array(coded.sizes)
    drawn = np.floor(np.random.default_rng(SEED).random((missing, len(sizes))) * sizes)
    weights = np.ones(coded.codes.shape[1], np.int64) if coded.weights is None else coded.weights
    return replace(
        coded,
        codes=np.concatenate([coded.codes, drawn.T.astype(coded.codes.dtype)], axis=1),
        weights=np.concatenate([weights, np.ones(missing, dtype=np.int64)]),
    )
