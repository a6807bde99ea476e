"""Attacks on a synthetic table: does it remember the records that it was made from?

Each measures one attacker, with the records at hand. **None certifies an epsilon**: a stronger attacker may
see more, and a release that withstands all of these may have no privacy at all. They can only find a method
out, such as one that copies its records. What they give are figures of the source, for the curator alone.

The distance of two records is Gower's (1971), summed: for an attribute with bounds or order how far apart the
values are in the public extent, for any other 0 (equal) or 1, and 1 between a null and a value.
"""

from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.compiled import kernel
from privacy_engine.measures.synthetic_utility import coded, has_scale, positions
from privacy_engine.tables.schema import DataSchema

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]

MOST_POINTS = (
    50_000  # real or synthetic records that others are close to; a copy is found only beside its original
)
Z95 = 1.959964  # of the normal distribution: 2.5 % are above


@dataclass(frozen=True, kw_only=True)
class Share:
    """A probability that is 1/2 where nothing is remembered, with its 95 % interval.

    Attributes:
        value: as measured, 0 .. 1.
        error: standard error.
    """

    value: float
    error: float

    @property
    def low(self) -> float:
        """Lower end."""
        return max(0.0, self.value - Z95 * self.error)

    @property
    def high(self) -> float:
        """Upper end."""
        return min(1.0, self.value + Z95 * self.error)

    @property
    def remembers(self) -> bool:
        """Whether chance alone hardly explains it: the interval is above 1/2 (false alarm: 2.5 %)."""
        return self.low > 0.5


@dataclass(frozen=True)
class Points:
    """Records as points.

    Attributes:
        places: (n, p) float64 in 0 .. 1, attributes on a scale, NaN = null.
        codes: (n, c) int32, the others.
    """

    places: FloatArray
    codes: CodeArray

    @classmethod
    def of_table(cls, table: pd.DataFrame, schema: DataSchema) -> "Points":
        """Place the records; `SchemaError` if they do not fit the schema or a domain is not public."""
        attributes, encoded = schema.without_identifiers().attributes, coded(table, schema)
        places = [positions(table[a.name], a) for a in attributes if has_scale(a)]
        codes = [encoded.codes[j] for j, a in enumerate(attributes) if not has_scale(a)]
        return cls(
            np.array(places, np.float64).reshape(len(places), len(table)).T.copy(),
            np.array(codes, np.int32).reshape(len(codes), len(table)).T.copy(),
        )

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: IntArray) -> "Points":
        """Some of the records."""
        return Points(self.places[rows], self.codes[rows])

    def sample(self, rows: int, rng: np.random.Generator) -> "Points":
        """At most so many, drawn at random without replacement."""
        return self if len(self) <= rows else self.take(rng.choice(len(self), rows, replace=False))

    def joined(self, other: "Points") -> "Points":
        """These, then those."""
        return Points(np.vstack([self.places, other.places]), np.vstack([self.codes, other.codes]))


def distance_to_closest_record(
    train: pd.DataFrame,
    holdout: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    rows: int = 5_000,
) -> Share:
    """Share of the synthetic records whose closest real record was trained on, rather than held out.

    Where k real records are equally close, each counts 1/k. Both groups of real records are cut to the same
    size; if nothing is remembered, which of them a real record is in is chance, and the share is 1/2 (Platzer
    and Reutterer 2021, "Holdout-based empirical assessment of mixed-type synthetic data", section 3.2).

    The standard error is exact for that case: the share is ``sum_j w_j z_j`` over the N real records, with
    the share w_j of the synthetic records that j is closest to and z_j = 1 for half of them at random, so its
    variance is ``(sum w_j^2 - 1/N) / 4 * N / (N - 1)``. A few real records that are close to many synthetic
    ones make it large: a count of synthetic records would promise more than was seen.

    Args:
        train: records that the synthetic ones were made from.
        holdout: records of the same population that were not.
        synthetic: synthetic records.
        schema: of all three; each attribute but identifiers with a public domain.
        rng: draws rows where there are more than are used.
        rows: how many synthetic records are asked about.

    Raises:
        SchemaError: if a table does not fit the schema, or a domain is not public.
    """
    known, unknown, drawn = (Points.of_table(table, schema) for table in (train, holdout, synthetic))
    size = min(MOST_POINTS, len(known), len(unknown))
    real, asked = known.sample(size, rng).joined(unknown.sample(size, rng)), drawn.sample(rows, rng)
    weights = _closest_shares(asked, real)
    n = 2 * size
    variance = max(0.0, float(weights @ weights) - 1 / n) / 4 * n / (n - 1)
    return Share(value=float(weights[:size].sum()), error=float(np.sqrt(variance)))


def closeness_to_source(
    source: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    rows: int = 2_000,
) -> Share:
    """Chance that a synthetic record is closer to the people of the source than one of them is to the others.

    The distance of a synthetic record to the closest of the source, against that of a source record to the
    closest other one; equal ones count half. New records of the same population are as far away as people
    are from each other (1/2), copies closer, coarse or noisy records farther (below 1/2). It needs no
    holdout, and sees less than `distance_to_closest_record`: a synthesizer that copies some people and is far
    from the others passes. The standard error is DeLong's, as if distances were independent.

    Args:
        source: records that the synthetic ones were made from.
        synthetic: synthetic records.
        schema: of both; each attribute but identifiers with a public domain.
        rng: draws rows where there are more than are used.
        rows: how many records of each table are asked about.

    Raises:
        SchemaError: if a table does not fit the schema, or a domain is not public.
        ValueError: if a table has fewer than two records.
    """
    _require(source=(len(source), 2), synthetic=(len(synthetic), 2))
    real = Points.of_table(source, schema).sample(MOST_POINTS, rng)
    asked = Points.of_table(synthetic, schema).sample(rows, rng)
    people = rng.permutation(len(real))[:rows]
    return _chance_of_more(_distance(real.take(people), real, itself=people), _distance(asked, real))


def membership_inference(
    members: pd.DataFrame,
    non_members: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    rows: int = 5_000,
) -> Share:
    """Area under the curve (AUC) of an attacker who tells people in the source from people who are not.

    The attacker has the synthetic table and a reference of people known to be outside, and takes for a member
    whoever is close to the synthetic records for somebody so close to the reference: score ``(r - s) / (r +
    s)`` of the distances to the closest record of each, 0 where both are 0. Without the reference a person
    who is far from everybody would be mistaken for a non-member (calibration of Chen et al. 2020,
    "GAN-Leaks", section 4.5; DOMIAS of van Breugel et al. 2023 compares densities likewise). 1/2 is guessing.
    Standard error by DeLong et al. (1988).

    Args:
        members: records that the synthetic ones were made from.
        non_members: records of the same population that were not; half of them become the reference.
        synthetic: synthetic records.
        schema: of all three; each attribute but identifiers with a public domain.
        rng: draws the reference, and rows where there are more than are used.
        rows: how many members, and how many non-members, are asked about.

    Raises:
        SchemaError: if a table does not fit the schema, or a domain is not public.
        ValueError: if there are fewer than 2 members or 4 non-members.
    """
    _require(members=(len(members), 2), non_members=(len(non_members), 4))
    inside, outside, drawn = (Points.of_table(t, schema) for t in (members, non_members, synthetic))
    mixed = rng.permutation(len(outside))
    half = len(outside) // 2
    reference = outside.take(mixed[:half]).sample(MOST_POINTS, rng)
    model = drawn.sample(MOST_POINTS, rng)
    groups = inside.sample(rows, rng), outside.take(mixed[half:]).sample(rows, rng)
    return _chance_of_more(*(_nearness(_distance(g, reference), _distance(g, model)) for g in groups))


def _require(**tables: tuple[int, int]) -> None:
    for name, (rows, least) in tables.items():
        if rows < least:
            raise ValueError(f"{name} must have at least {least} records to be compared, got {rows}")


def _nearness(reference: FloatArray, model: FloatArray) -> FloatArray:
    """(n,) -1 .. 1, how much closer the model is than the reference."""
    total = reference + model
    return (reference - model) / np.where(total > 0, total, 1.0)


def _distance(asked: Points, points: Points, itself: IntArray | None = None) -> FloatArray:
    """(asked,) distance to the closest point; ``itself`` (asked,) is the point that is the record's own."""
    own = np.full(len(asked), -1) if itself is None else itself
    return _closest(asked.places, asked.codes, points.places, points.codes, own)[0]


def _closest_shares(asked: Points, points: Points) -> FloatArray:
    """(points,) share of the asked records that each point is closest to, in parts where several are."""
    own = np.full(len(asked), -1)
    far, ties = _closest(asked.places, asked.codes, points.places, points.codes, own)
    return _credit(points.places, points.codes, asked.places, asked.codes, far, ties) / len(asked)


def _chance_of_more(x: FloatArray, y: FloatArray) -> Share:
    """Pr(X > Y) + Pr(X = Y) / 2 of independent draws; standard error by DeLong et al. (1988), equation 5."""
    placed_x, placed_y = _below(x, y), 1.0 - _below(y, x)
    variance = placed_x.var(ddof=1) / len(x) + placed_y.var(ddof=1) / len(y)
    return Share(value=float(placed_x.mean()), error=float(np.sqrt(variance)))


def _below(x: FloatArray, y: FloatArray) -> FloatArray:
    """(len(x),) share of y below each x, equal ones half."""
    ranked = np.sort(y)
    return (np.searchsorted(ranked, x, "left") + np.searchsorted(ranked, x, "right")) / (2 * len(y))


@kernel(inline="always")
def _gower(
    places: FloatArray, codes: CodeArray, i: int, at: FloatArray, of: CodeArray, j: int, limit: float
) -> float:
    """Distance of record i and point j; where it is above the limit, something above the limit."""
    d = 0.0
    for a in range(codes.shape[1]):
        if codes[i, a] != of[j, a]:
            d += 1.0
    for a in range(places.shape[1]):
        if d > limit:
            break
        x, y = places[i, a], at[j, a]
        if x == x and y == y:  # NaN is not equal to itself
            d += abs(x - y)
        elif x == x or y == y:
            d += 1.0
    return d


@kernel(parallel=True)
def _closest(
    places: FloatArray, codes: CodeArray, at: FloatArray, of: CodeArray, itself: IntArray
) -> tuple[FloatArray, IntArray]:
    """(q,) distance of each query to the closest point but itself, and how many are as close.

    Brute force over at most some thousand queries and `MOST_POINTS` points.
    """
    far, ties = np.full(len(places), np.inf), np.zeros(len(places), np.int64)
    for i in nb.prange(len(places)):
        best, equal = np.inf, 0
        for j in range(len(at)):
            if j == itself[i]:
                continue
            d = _gower(places, codes, i, at, of, j, best)
            if d < best:
                best, equal = d, 1
            elif d == best:
                equal += 1
        far[i], ties[i] = best, equal
    return far, ties


@kernel(parallel=True)
def _credit(
    at: FloatArray, of: CodeArray, places: FloatArray, codes: CodeArray, far: FloatArray, ties: IntArray
) -> FloatArray:
    """(points,) how many queries each point is closest to, shared among equally close ones."""
    weight = np.zeros(len(at))
    for j in nb.prange(len(at)):
        for i in range(len(places)):
            if _gower(places, codes, i, at, of, j, far[i]) == far[i]:
                weight[j] += 1.0 / ties[i]
    return weight
