"""Attacks on a synthetic table: does it remember the records that it was made from?

Each function measures one attacker, with the records at hand. **None certifies an epsilon**: a stronger
attacker may see more, and a release that withstands all of these may have no privacy at all. They can only
expose a method, such as one that copies its records. The results are figures of the source, only for the
curator.

The distance of two records is Gower's (1971), summed: for an attribute with bounds or order, the distance of
the values within the public extent; for any other, 0 (equal) or 1; and 1 between a null and a value.
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

MOST_POINTS = 50_000  # real or synthetic records; a copy is only found if its original is among them
Z95 = 1.959964  # quantile of the normal distribution: 2.5 % are above


@dataclass(frozen=True, kw_only=True)
class Share:
    """A probability that is 1/2 where nothing is remembered, with its 95 % interval.

    Attributes:
        value: Measured value, 0 .. 1.
        error: Standard error of the value.
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
        """Whether chance hardly explains it: the interval is above 1/2 (false alarm: 2.5 %)."""
        return self.low > 0.5


@dataclass(frozen=True)
class Points:
    """Records as points.

    Attributes:
        places: Attributes on a scale, shape (n, p), in 0 .. 1, NaN = null.
        codes: Other attributes, shape (n, c) int32.
    """

    places: FloatArray
    codes: CodeArray

    @classmethod
    def of_table(cls, table: pd.DataFrame, schema: DataSchema) -> "Points":
        """Convert records; `SchemaError` if they do not fit the schema or a domain is not public."""
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
        """Return some of the records."""
        return Points(self.places[rows], self.codes[rows])

    def sample(self, rows: int, rng: np.random.Generator) -> "Points":
        """Draw at most a number of records at random, without replacement."""
        return self if len(self) <= rows else self.take(rng.choice(len(self), rows, replace=False))

    def joined(self, other: "Points") -> "Points":
        """Append other records."""
        return Points(np.vstack([self.places, other.places]), np.vstack([self.codes, other.codes]))


def distance_to_closest_record(
    train: pd.DataFrame,
    holdout: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    rows: int = 5_000,
) -> Share:
    """Return the share of the synthetic records whose closest real record was trained on, not held out.

    Of k equally close real records each counts 1/k. Both groups of real records are cut to the same size. If
    nothing is remembered, the group of a real record is chance, and the share is 1/2 (Platzer and Reutterer
    2021, "Holdout-based empirical assessment of mixed-type synthetic data", section 3.2).

    The standard error is exact for that case: the share is ``sum_j w_j z_j`` over the N real records, with
    the share w_j of the synthetic records that j is closest to and z_j = 1 for half of them at random, so its
    variance is ``(sum w_j^2 - 1/N) / 4 * N / (N - 1)``. A few real records that are close to many synthetic
    ones make it large: counting synthetic records instead would claim more precision than there is.

    Args:
        train: Records that the synthetic ones were made from.
        holdout: Records of the same population that were not used.
        synthetic: Synthetic records that are released.
        schema: Schema of all three; each attribute but identifiers with a public domain.
        rng: Source of randomness for sampling rows.
        rows: Most synthetic records to compare.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
    """
    known, unknown, drawn = (Points.of_table(table, schema) for table in (train, holdout, synthetic))
    size = min(MOST_POINTS, len(known), len(unknown))
    real, queries = known.sample(size, rng).joined(unknown.sample(size, rng)), drawn.sample(rows, rng)
    weights = _closest_shares(queries, real)
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
    """Return the chance that a synthetic record is closer to the source than its people are to each other.

    The distance of a synthetic record to the closest of the source is compared with that of a source record
    to the closest other one; equal distances count half. New records of the same population are as far away
    as people are from each other (1/2), copies are closer, coarse or noisy records farther (below 1/2). It
    requires no holdout, and sees less than `distance_to_closest_record`: a synthesizer that copies some
    people and is far from the others passes. The standard error is DeLong's, as if distances were
    independent.

    Args:
        source: Records that the synthetic ones were made from.
        synthetic: Synthetic records that are released.
        schema: Schema of both; each attribute but identifiers with a public domain.
        rng: Source of randomness for sampling rows.
        rows: Most records of each table to compare.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
        ValueError: If a table has fewer than two records.
    """
    _require(source=(len(source), 2), synthetic=(len(synthetic), 2))
    real = Points.of_table(source, schema).sample(MOST_POINTS, rng)
    queries = Points.of_table(synthetic, schema).sample(rows, rng)
    people = rng.permutation(len(real))[:rows]
    return _chance_of_more(_distance(real.take(people), real, itself=people), _distance(queries, real))


def membership_inference(
    members: pd.DataFrame,
    non_members: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    rows: int = 5_000,
) -> Share:
    """Return the area under the curve (AUC) of an attacker who distinguishes members of the source.

    The attacker has the synthetic table and a reference of people known to be outside, and takes for a member
    anyone who is closer to the synthetic records than to the reference: score ``(r - s) / (r + s)`` of the
    distances to the closest record of each, 0 if both are 0. Without the reference, a person who is far from
    everyone would be mistaken for a non-member (calibration of Chen et al. 2020, "GAN-Leaks", section 4.5;
    DOMIAS of van Breugel et al. 2023 compares densities in the same way). 1/2 is guessing.
    Standard error by DeLong et al. (1988).

    Args:
        members: Records that the synthetic ones were made from.
        non_members: Records of the same population that were not used; half of them become the reference.
        synthetic: Synthetic records that are released.
        schema: Schema of all three; each attribute but identifiers with a public domain.
        rng: Source of randomness for the reference and for sampling rows.
        rows: Most members, and most non-members, to compare.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
        ValueError: If there are fewer than 2 members or 4 non-members.
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


def _distance(queries: Points, points: Points, itself: IntArray | None = None) -> FloatArray:
    """(queries,) distance to the closest point; ``itself`` (queries,) is the index of the record itself."""
    own = np.full(len(queries), -1) if itself is None else itself
    return _closest(queries.places, queries.codes, points.places, points.codes, own)[0]


def _closest_shares(queries: Points, points: Points) -> FloatArray:
    """(points,) share of the queries that each point is closest to; equally close points share."""
    own = np.full(len(queries), -1)
    far, ties = _closest(queries.places, queries.codes, points.places, points.codes, own)
    return _credit(points.places, points.codes, queries.places, queries.codes, far, ties) / len(queries)


def _chance_of_more(x: FloatArray, y: FloatArray) -> Share:
    """Pr(X > Y) + Pr(X = Y) / 2 of independent draws; standard error by DeLong et al. (1988), equation 5."""
    placed_x, placed_y = _below(x, y), 1.0 - _below(y, x)
    variance = placed_x.var(ddof=1) / len(x) + placed_y.var(ddof=1) / len(y)
    return Share(value=float(placed_x.mean()), error=float(np.sqrt(variance)))


def _below(x: FloatArray, y: FloatArray) -> FloatArray:
    """(len(x),) share of y below each x; equal values count half."""
    ranked = np.sort(y)
    return (np.searchsorted(ranked, x, "left") + np.searchsorted(ranked, x, "right")) / (2 * len(y))


@kernel(inline="always")
def _gower(
    places: FloatArray, codes: CodeArray, i: int, at: FloatArray, of: CodeArray, j: int, limit: float
) -> float:
    """Return the distance of record i and point j; if above the limit, any number above the limit."""
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
    """(q,) distance of each query to the closest point but itself, and the number of equally close ones.

    Brute force over at most a few thousand queries and `MOST_POINTS` points.
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
    """(points,) number of queries that each point is closest to, shared among equally close ones."""
    weight = np.zeros(len(at))
    for j in nb.prange(len(at)):
        for i in range(len(places)):
            if _gower(places, codes, i, at, of, j, far[i]) == far[i]:
                weight[j] += 1.0 / ties[i]
    return weight
