"""The private choice of a network's structure: one noisy max a pick."""

import secrets
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import noisy_max, noisy_max_scale, split
from privacy_engine.synthesizers.marginals import WeightedRecords
from privacy_engine.synthesizers.scores import once
from privacy_engine.synthesizers.structure import Candidates, Family, FamilyLimit, grow

Score = Callable[[WeightedRecords, Candidates], npt.NDArray[np.int64]]


def greedy_bayes(
    names: Sequence[str],
    records: WeightedRecords,
    limit: FamilyLimit,
    score: Score,
    *,
    sensitivity: int,
    epsilon: float,
) -> tuple[tuple[Family, ...], Spend]:
    """GreedyBayes on all records: the network, and what its selection spent, epsilon / (d - 1) a pick.

    Args:
        names: (d,) the attributes.
        records: all of them, for one record replaced.
        limit: of parents and cells.
        score: (c,) int64 of records and candidates, the higher the better.
        sensitivity: most by which one score changes.
        epsilon: of the whole selection.
    """
    sizes, picks = records.sizes.tolist(), len(names) - 1
    pick = split(epsilon, [1] * picks)[0]
    families = select_families(
        sizes, limit, once(partial(score, records)), epsilon=pick, sensitivity=sensitivity
    )
    return families, selection_spend(names, epsilon=epsilon, pick=pick, sensitivity=sensitivity, runs=picks)


def select_families(
    sizes: Sequence[int],
    limit: FamilyLimit,
    score: Callable[[Candidates], npt.NDArray[np.int64]],
    *,
    epsilon: float,
    sensitivity: int,
) -> tuple[Family, ...]:
    """A network of d families by d - 1 picks; the first attribute is drawn without looking at any record.

    Args:
        sizes: (d,) number of values of each attribute.
        limit: of parents and cells.
        score: (c,) int64 of candidates, the higher the better.
        epsilon: of each pick, one record replaced; the picks compose sequentially.
        sensitivity: most by which one score changes where one record is replaced.
    """
    first = secrets.randbelow(len(sizes))
    return grow(
        sizes, first, limit, lambda pool: noisy_max(score(pool), epsilon=epsilon, sensitivity=sensitivity)
    )


def selection_spend(
    names: Sequence[str],
    *,
    epsilon: float,
    pick: float,
    sensitivity: int,
    runs: int,
    sample: tuple[int, int] | None = None,
) -> Spend:
    """The entry in the books for picks of the same noise.

    Args:
        names: the attributes.
        epsilon: what the picks spend together, after amplification.
        pick: epsilon of one of them, on the records that it sees.
        sensitivity: of the scores, in their units.
        runs: number of picks.
        sample: (m, n) if they saw m of n records.
    """
    return Spend(
        mechanism="noisy_max",
        target=f"structure over {', '.join(names)}",
        epsilon=epsilon,
        sensitivity=sensitivity,
        scale=noisy_max_scale(epsilon=pick, sensitivity=sensitivity),
        runs=runs,
        sample=sample,
    )
