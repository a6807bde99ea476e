"""Everything that a curator needs to know about a synthetic table and its source, within seconds.

Exact figures of the source, every one: never published, and no part of a release.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.attacks.synthetic import (
    Share,
    closeness_to_source,
    distance_to_closest_record,
    membership_inference,
)
from privacy_engine.measures.grouped_marginals import GroupedMarginal, grouped_marginals
from privacy_engine.measures.synthetic_learning import Score, train_on_synthetic
from privacy_engine.measures.synthetic_utility import (
    CorrelationDifference,
    MarginalDistances,
    coded,
    coded_marginal_tvd,
    correlation_difference,
    has_scale,
    wasserstein,
)
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role

WAYS = 3
LEARNING_ROWS = 1_500  # records that a classifier learns from; the cost grows with their square
ATTACK_ROWS = 1_000  # records whose closest one is looked for
LEAST_ROWS = 20  # of a table that anything is learned from
MOST_TARGETS, MOST_CLASSES = 3, 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """The comparison of a synthetic table with its source.

    Attributes:
        marginals: Distances of all marginals of 1, 2 and 3 attributes, if there are that many attributes.
        redrawn: Mean distance of the same marginals if as many records are drawn from the source with
            replacement: the
        effect of chance only.
        groups: Each attribute, source first.
        wasserstein: Wasserstein distance of each attribute on a scale.
        correlation: Difference of the correlation of each pair of attributes.
        scores: Scores of classifiers, by target; empty if no attribute can be one.
        closeness: Closeness of synthetic records to the source, see `closeness_to_source`; None for tables of
            a few records.
        closest_record, membership: Results of the attacks in `privacy_engine.attacks.synthetic`; None without
            a holdout.
    """

    marginals: tuple[MarginalDistances, ...]
    redrawn: tuple[float, ...]
    groups: tuple[GroupedMarginal, ...]
    wasserstein: Mapping[str, float]
    correlation: CorrelationDifference
    scores: Mapping[str, Score]
    closeness: Share | None
    closest_record: Share | None
    membership: Share | None


def assess(
    source: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    holdout: pd.DataFrame | None = None,
) -> Assessment:
    """Measure a synthetic table against its source.

    Marginals, correlations and Wasserstein distances use all records, classifiers and attacks use samples.

    Args:
        source: Records that the synthetic ones were made from, all of them.
        synthetic: Synthetic records that are compared with the source.
        schema: Schema of the source; each attribute but identifiers with a public domain.
        rng: Source of randomness for the samples.
        holdout: Records of the same population that the synthesizer has not seen. Without them it cannot be
            measured whether the synthetic records are closer to people in the source than to people outside:
            none are held back from a release for that.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
    """
    known = schema.without_identifiers()
    names = list(known.names)
    source, synthetic = source.loc[:, names], synthetic.loc[:, names]
    holdout = None if holdout is None else holdout.loc[:, names]
    real, drawn = coded(source, known), coded(synthetic, known)
    again = real.take(rng.integers(len(real), size=len(drawn)))
    ways = range(1, min(WAYS, len(names)) + 1)
    enough = min(len(source), len(synthetic)) >= LEAST_ROWS
    outside = holdout if enough and holdout is not None and len(holdout) >= LEAST_ROWS else None
    return Assessment(
        marginals=tuple(coded_marginal_tvd(real, drawn, w) for w in ways),
        redrawn=tuple(coded_marginal_tvd(real, again, w).mean for w in ways),
        groups=tuple(grouped_marginals([real, drawn], known)),
        wasserstein=wasserstein(source, synthetic, known),
        correlation=correlation_difference(source, synthetic, known),
        scores=_scores(source, synthetic, known, real, rng) if enough else {},
        closeness=closeness_to_source(source, synthetic, known, rng, ATTACK_ROWS) if enough else None,
        closest_record=None
        if outside is None
        else distance_to_closest_record(source, outside, synthetic, known, rng, ATTACK_ROWS),
        membership=None
        if outside is None
        else membership_inference(source, outside, synthetic, known, rng, ATTACK_ROWS),
    )


def _scores(
    source: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: DataSchema,
    real: CodedTable,
    rng: np.random.Generator,
) -> dict[str, Score]:
    """Of classifiers that learn from half of a sample of the source, or from synthetic records."""
    targets = _targets(schema, real)
    if len(schema.names) < 2 or not targets:
        return {}
    mixed = rng.permutation(len(source))[: 2 * LEARNING_ROWS]
    train, test = np.array_split(mixed, 2)
    return train_on_synthetic(
        source.iloc[train], synthetic, source.iloc[test], schema, targets, rng, rows=LEARNING_ROWS
    )


def _targets(schema: DataSchema, real: CodedTable) -> list[str]:
    """Attributes of few unordered values: sensitive ones first, then those whose values are most even."""
    found = []
    for j, attribute in enumerate(schema.attributes):
        counts = np.bincount(real.codes[j], minlength=real.sizes[j])
        if 2 <= real.sizes[j] <= MOST_CLASSES and not has_scale(attribute) and np.count_nonzero(counts) > 1:
            found.append((attribute.role is not Role.SENSITIVE, counts.max() / counts.sum(), attribute.name))
    return [name for _, _, name in sorted(found)[:MOST_TARGETS]]
