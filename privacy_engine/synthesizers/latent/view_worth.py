"""Whether views are worth their part of the budget, or single attributes need it more.

With d attributes, a pair is in a share of 6 / (d (d - 1)) of the 3-way marginals: a dependence that the model
gets wrong adds about its distance to these. Noise on single attributes is in all 3-way marginals, and there
sqrt(3) times as far as in one attribute. So both are compared in the same unit, twice:

    before any view     If views would clearly raise the noise of single attributes, T is measured, the mean
                        excess dependence of the d / 2 most dependent pairs (``related_pairs``). If T is worth
                        less than that noise, only single attributes are measured; else all views are.
    after each view     What chosen views show of dependences beyond their noise, five of them on average, is
                        about what the next one brings at most, as each is where the model errs most. If the
                        next one's part would be worth more for single attributes, these get all that is left.

A model of many classes follows noise as well. So a view shows no more than its dependences beyond those of
the model, and no more than beyond independence.

Only noisy tables, models and public sizes are read here: post-processing.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.latent.budget_plan import SEED, BudgetPlan, Inputs, split_by_size
from privacy_engine.synthesizers.latent.latent_classes import LatentClasses, View, single_values
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.related_pairs import IMPLIED, MEAN_SIZE
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 0.003  # distance of 3-way marginals up to which views may cost single attributes without a look
WORTH_STOPPING = 0.015  # distance by which all that is left must help single attributes to go there
RECENT = 5  # chosen views that decide whether one more is worth its part: noise is in each


def share_of_a_pair(attributes: int) -> float:
    """Share of the 3-way marginals that have a pair of attributes.

    >>> share_of_a_pair(4)  # two of four triples
    0.5
    """
    return min(6 / (attributes * (attributes - 1)), 1.0)


def gain_of_view(view: View, model: LatentClasses) -> float:
    """Expected reduction of the distance of 3-way marginals if a model gets what a view shows.

    Args:
        view: Noisy table of some attributes.
        model: Model that was fitted to other tables.
    """
    alone = LatentClasses(weights=np.ones(1), tables=tuple((model.weights @ t)[None] for t in model.tables))
    shown = min(_dependence_beyond(view, model), _dependence_beyond(view, alone))
    return IMPLIED * share_of_a_pair(len(model.tables)) * shown


def _dependence_beyond(view: View, model: LatentClasses) -> float:
    """Sum over the pairs of a view of their distance from a model, without margins and beyond noise."""
    off = view.cells - model.marginal(view.members, view.groups)
    found = 0.0
    for axes in itertools.combinations(range(off.ndim), 2):
        table = off.sum(axis=tuple(axis for axis in range(off.ndim) if axis not in axes))
        first, second = (
            model.marginal([view.members[axis]], view.groups[axis : axis + 1] if view.groups else ())
            for axis in axes
        )
        # (I - p 1') R (I - 1 q'), and the deviation of the noise of each of its cells.
        centred = table - np.multiply.outer(first, table.sum(axis=0))
        centred -= np.multiply.outer(centred.sum(axis=1), second)
        deviation = math.sqrt(view.variance * off.size / table.size)
        noise = deviation * np.multiply.outer(_lengths(first), _lengths(second))
        found += float((np.abs(centred) - MEAN_SIZE * noise).sum()) / 2
    return found


def _lengths(shares: Floats) -> Floats:
    """(s,) the length of each row of I - p 1'."""
    return np.asarray(np.sqrt((1 - shares) ** 2 + (len(shares) - 1) * shares**2))


def error_of_attributes(inputs: Inputs, views: Sequence[View], sizes: Sequence[int], part: float) -> float:
    """Expected distance of 3-way marginals that the noise of single attributes causes.

    Args:
        inputs: Inputs of the run, of which no record is read.
        views: Noisy tables so far, of which only the noise is read.
        sizes: Number of values of each attribute.
        part: Part of the budget that is spent on single attributes next, >= 0.
    """
    known = np.array([single_values(views, a, size)[1] for a, size in enumerate(sizes)])
    if part > 0:
        parts = split_by_size(part, sizes, inputs.noise.power)
        known += [(inputs.n / inputs.noise.deviation(own, inputs.change)) ** 2 for own in parts]
    return math.sqrt(3) * MEAN_SIZE / 2 * float(np.mean(np.array(sizes) / np.sqrt(known)))


def is_enough(
    inputs: Inputs, plan: ViewPlan, views: Sequence[View], gains: Sequence[float], left: int
) -> bool:
    """Whether single attributes should get all that is left, as views show less than the next one costs.

    Args:
        inputs: Inputs of the run, of which no record is read.
        plan: Plan of the views.
        views: Noisy tables so far.
        gains: Gain of each chosen view, the last one last.
        left: Number of planned views that are not measured yet, >= 1.
    """
    if not gains:
        return False
    sizes, step = plan.attributes.sizes, plan.for_choice + plan.for_view
    now, after, last = (error_of_attributes(inputs, views, sizes, step * n) for n in (left, left - 1, 0))
    return last - now > WORTH_STOPPING and float(np.mean(gains[-RECENT:])) < after - now


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """What views cost single attributes, and how many pairs they can hold.

    Attributes:
        attributes: Number of attributes.
        cost: Rise of the error of single attributes, if these get all that is left after the first choice.
        pairs: Number of related pairs in the planned views, at most half the number of attributes.
    """

    attributes: int
    cost: float
    pairs: int

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        plan: BudgetPlan,
        whole: float,
        views_of: Callable[[Inputs, GroupedAttributes], ViewPlan],
    ) -> Self:
        """By public sizes and parts of the budget.

        Args:
            inputs: Inputs of the run, of which no record is read.
            plan: Parts of the budget, of which nothing was measured yet.
            whole: Part of the budget that the plan splits.
            views_of: Function that plans the views of some attributes.
        """

        def unread(members: Members, part: float) -> View:
            sizes, scale = [plan.sizes[m] for m in members], inputs.scale(part, inputs.change)
            cells = np.full(sizes, 1 / math.prod(sizes))
            return View(members=members, cells=cells, scale=scale / inputs.n, projected=cells)

        alone = {a: unread((a,), part) for a, part in zip(plan.wide, plan.for_attributes, strict=True)}
        measured = {a: (ValueGroups.single(plan.sizes[a]), view) for a, view in alone.items()}
        imagined = replace(inputs, rng=np.random.default_rng(SEED))
        views = views_of(imagined, GroupedAttributes.of(inputs, plan, measured))
        known = [*alone.values(), *(unread(members, views.for_view) for members in views.first)]
        chosen = views.rounds - len(views.first)
        part = max(chosen - 1, 0) * (views.for_view + views.for_choice)
        with_views = error_of_attributes(inputs, known, plan.sizes, part)
        largest = max((math.comb(len(members), 2) for members in views.candidates), default=0)
        pairs = chosen * largest + sum(math.comb(len(members), 2) for members in views.first)
        return cls(
            attributes=len(plan.sizes),
            cost=with_views - error_of_attributes(inputs, (), plan.sizes, whole),
            pairs=min(pairs, len(plan.sizes) // 2),
        )

    def gain(self, strongest: float) -> float:
        """Expected reduction of the distance of 3-way marginals if a model has the pairs.

        Args:
            strongest: Mean dependence of the most dependent pairs, as a share of the records.
        """
        return IMPLIED * self.pairs * share_of_a_pair(self.attributes) * strongest / 2
