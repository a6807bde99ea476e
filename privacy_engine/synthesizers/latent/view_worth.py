"""Whether the dependences of a table are worth views, or all of the budget should go to single attributes.

Views cost single attributes budget, and noise on these is in all 3-way marginals, sqrt(3) times as far as in
one attribute. With d attributes, a pair is in a share of 6 / (d (d - 1)) of the 3-way marginals: a dependence
that the model lacks adds about its distance to these. So both are compared, before step 3 of ``LatentClass``:

    1  C = what the planned views add to the error of single attributes, by public sizes and parts
    2  t = mean dependence of the 2 d most dependent pairs with which views are worth 1.5 C
    3  views follow as planned if noise on T would exceed t
    4  T = mean excess dependence of these pairs, with .03 of the budget                            noise
    5  views follow if T exceeds t by two scales of noise; else all that is left goes to single attributes

C is multiplied because a model also makes up dependences from the noise of views. In step 3, T would decide
by chance. It is not measured, for example, for binary attributes and a small budget: their joint tables are
nearly as good for single attributes as these by themselves, so views cost little.

Constants were chosen on generated tables of eleven forms (``benchmarks.peers.dp_forms``).

Neighbour relation: one record replaced, or the m records of a person. T changes by at most 6 m, see
``related_pairs``. Steps 1 to 3 read no record, and step 5 reads T only: post-processing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change
from privacy_engine.synthesizers.bayes.scores import dependence_sensitivity
from privacy_engine.synthesizers.latent.budget_plan import SEED, BudgetPlan, Inputs, split_by_size
from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.related_pairs import (
    CLEAR,
    MEAN_SIZE,
    excess_dependences,
    mean_of_largest,
)
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan

Floats = npt.NDArray[np.float64]
Plan = Callable[[Inputs, Sequence[int], float], BudgetPlan]
PlanViews = Callable[[Inputs, GroupedAttributes], ViewPlan]

LOOK_SHARE = 0.03  # part of the budget for T
RELATED = 2  # pairs for each attribute that T is a mean of
MADE_UP = 1.5  # cost of views, with the dependences that a model makes up from noise, in C


def worthwhile(
    inputs: Inputs, plan: BudgetPlan, whole: float, *, plan_of: Plan, views_of: PlanViews
) -> BudgetPlan:
    """The plan, or one for single attributes if dependences are worth less than what views cost these.

    Args:
        inputs: Inputs of the run.
        plan: Parts of the budget, with joint tables, of which nothing was measured yet.
        whole: Part of the budget that the plan splits.
        plan_of: Function that splits a part of the budget among the steps.
        views_of: Function that plans the views of some attributes.
    """
    look = split(whole, (LOOK_SHARE, 1 - LOOK_SHARE))[0]
    change = Change.of_count(dependence_sensitivity(1) * inputs.coded.each)
    scale = inputs.scale(look, change)
    paying = inputs.n * paying_dependence(inputs, plan, whole, views_of)
    if scale > paying:
        return plan
    figure = np.array([related_dependence(inputs, plan.free)])
    noisy = inputs.noise.add(figure, look, change, target=inputs.names(plan.free))
    left = rounded_down(Fraction(whole) - Fraction(look))
    if noisy[0] <= paying + CLEAR * scale:
        return BudgetPlan.alone(inputs, plan.free, left)
    # A little less for each view, but as many as before: where few are planned, one less would cost more.
    return replace(plan_of(inputs, plan.free, left), planned_with=plan.for_views)


def related_dependence(inputs: Inputs, free: Sequence[int]) -> int:
    """T without noise, in records: a whole number that changes by at most 6 if one record is replaced.

    Args:
        inputs: Inputs of the run, whose records are read.
        free: At least two attributes.
    """
    return mean_of_largest(excess_dependences(inputs.records, free), related_pairs(len(free)))


def related_pairs(attributes: int) -> int:
    """Number of pairs that T is a mean of."""
    return min(RELATED * attributes, math.comb(attributes, 2))


def share_of_a_pair(attributes: int) -> float:
    """Share of the 3-way marginals that have a pair of attributes.

    >>> share_of_a_pair(4)  # two of four triples
    0.5
    """
    return min(6 / (attributes * (attributes - 1)), 1.0)


def paying_dependence(inputs: Inputs, plan: BudgetPlan, whole: float, views_of: PlanViews) -> float:
    """Mean dependence of the related pairs, as a share of the records, with which views are worth their cost.

    Args:
        inputs: Inputs of the run, of which no record is read.
        plan: Parts of the budget.
        whole: Part of the budget that the plan splits.
        views_of: Function that plans the views of some attributes.
    """
    d = len(plan.sizes)
    alone = [_precision(inputs, part) for part in split_by_size(whole, plan.sizes, inputs.noise.power)]
    cost = _error(plan.sizes, _precisions(inputs, plan, views_of)) - _error(plan.sizes, alone)
    return MADE_UP * cost * 2 / (related_pairs(d) * share_of_a_pair(d))


def _error(sizes: Sequence[int], precisions: Sequence[float]) -> float:
    """Expected distance of 3-way marginals by noise on single attributes."""
    apart = [MEAN_SIZE / 2 * size / math.sqrt(known) for size, known in zip(sizes, precisions, strict=True)]
    return math.sqrt(3) * math.fsum(apart) / len(apart)


def _precisions(inputs: Inputs, plan: BudgetPlan, views_of: PlanViews) -> list[float]:
    """Expected precision of a value's share for each attribute in all planned tables.

    Which views will be chosen is not known: each candidate that is as fine as its attributes is as likely.
    """
    found = [0.0] * len(plan.sizes)
    for a, part in zip(plan.wide, plan.for_attributes, strict=True):
        found[a] += _precision(inputs, part)
    even = {
        a: (ValueGroups.single(plan.sizes[a]), View(members=(a,), cells=cells, scale=1.0, projected=cells))
        for a in plan.wide
        for cells in [np.full(plan.sizes[a], 1 / plan.sizes[a])]
    }
    # With other random numbers, so that the views that are planned afterwards are the same in any case.
    imagined = replace(inputs, rng=np.random.default_rng(SEED))
    views = views_of(imagined, GroupedAttributes.of(inputs, plan, even))
    chosen = (views.rounds - len(views.first)) / max(len(views.candidates), 1)
    fine = [members for members in views.candidates if members not in views.grouping]
    for members, number in [*((m, 1.0) for m in views.first), *((m, chosen) for m in fine)]:
        cells = math.prod(plan.sizes[m] for m in members)
        for m in members:
            found[m] += number * _precision(inputs, views.for_view) * plan.sizes[m] / cells
    return found


def _precision(inputs: Inputs, part: float) -> float:
    """Precision of a cell's share of the records in a table that is measured with a part."""
    return (inputs.n / inputs.noise.deviation(part, inputs.change)) ** 2
