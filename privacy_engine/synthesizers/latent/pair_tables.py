"""Tables of single attributes and related pairs of a wide table, by the box of ``related_pairs``."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from privacy_engine.progress import tracked
from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs
from privacy_engine.synthesizers.latent.latent_classes import CLEARLY, View
from privacy_engine.synthesizers.latent.noisy_tables import measure_attributes, measure_view, misfit_score
from privacy_engine.synthesizers.latent.parts import Forest
from privacy_engine.synthesizers.latent.related_pairs import (
    Figures,
    PairPlan,
    chance_dependence,
    other_pairs,
)
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def measure_pairs(
    inputs: Inputs, free: Sequence[int], whole: float, figures: Figures
) -> tuple[GroupedAttributes, tuple[View, ...], tuple[View, ...]]:
    """Steps 2 to 7 of the box of `related_pairs`.

    Returns:
        The attributes of a wide table; their tables and those of related pairs; the tables of other pairs.
    """
    pairs = PairPlan.of(inputs, [inputs.coded.sizes[a] for a in free], whole, figures.strongest)  # 2
    attributes = measure_attributes(inputs, BudgetPlan.alone(inputs, free, pairs.for_attributes))  # 3
    if not pairs.pairs:
        return attributes, attributes.views, ()
    plan = ViewPlan.of_pairs(inputs, attributes, pairs)
    scores = _dependences(inputs, plan)
    names = [plan.names(inputs, pair) for pair in plan.candidates]
    forest, views = Forest(len(free)), list(attributes.views)
    left_over = list(range(len(scores)))
    for _ in tracked(range(pairs.pairs)):  # 4
        left_over = [i for i in left_over if forest.joins(plan.candidates[i])]
        chosen = inputs.noise.choose(
            scores[left_over],
            plan.for_choice,
            by=inputs.change.summed,
            targets=[names[i] for i in left_over],
        )
        pair = plan.candidates[left_over[chosen]]  # 5
        view = measure_view(inputs, plan, pair, partial(plan.counts, inputs))  # 6
        if _is_related(inputs, plan, view):
            views.append(view)
        forest.connect(pair)
    checks = [  # 7
        measure_view(inputs, plan, pair, partial(plan.counts, inputs))
        for pair in other_pairs(views, len(free), pairs.checks, inputs.rng)
    ]
    return attributes, tuple(views), tuple(checks)


def _is_related(inputs: Inputs, plan: ViewPlan, view: View) -> bool:
    """Whether the noisy table of a pair is further from independence than noise and chance explain."""
    expected = np.multiply.outer(*_shares(plan, view.members))
    alone = [plan.attributes.views[a] for a in view.members]
    # Squares of chance add up to at most 1 / n on average; the largest of many pairs has several times that.
    noise = (
        view.cells.size * view.variance
        + (1 + CLEARLY) / inputs.n
        + sum(a.cells.size * a.variance for a in alone)
    )
    clear = CLEARLY * math.sqrt(5 * view.cells.size) * view.variance
    return float(((view.cells - expected) ** 2).sum()) > noise + clear


def _shares(plan: ViewPlan, pair: Members) -> list[Floats]:
    """The shares of the groups of two attributes, as a table of the pair counts them."""
    alone = [plan.attributes.views[a].cells for a in pair]
    groups = plan.grouping.get(pair, (None, None))
    return [
        cells if group_of is None else np.bincount(group_of, cells).astype(np.float64)
        for cells, group_of in zip(alone, groups, strict=True)
    ]


def _dependences(inputs: Inputs, plan: ViewPlan) -> Ints:
    """(c,) how far the table of each candidate pair is from independence, beyond noise and chance."""
    off = [view.cells.size * view.scale for view in plan.attributes.views]
    scores = []
    for pair in plan.candidates:
        counts = plan.counts(inputs, pair)
        expected = np.rint(inputs.n * np.multiply.outer(*_shares(plan, pair))).astype(np.int64)
        noise = counts.size * plan.view_error + inputs.n * sum(off[a] for a in pair)
        scores.append(misfit_score(counts, expected, round(noise) + chance_dependence(inputs.n, counts.size)))
    return np.array(scores, dtype=np.int64)
