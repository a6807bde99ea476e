"""Steps 3 and 9 of LatentClass: noisy tables of single attributes and of views."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs, split_by_size
from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan
from privacy_engine.synthesizers.postprocess import likely_values, project_to_simplex

Ints = npt.NDArray[np.int64]

RARE = 1.5  # standard deviations of noise that a value's count must exceed to be separate


def measure_attributes(inputs: Inputs, plan: BudgetPlan) -> GroupedAttributes:
    """Step 3: measure each attribute of many values, smooth, and join its rare values."""
    measured, noisy_counts = {}, {}
    for attribute, part in zip(plan.wide, plan.for_attributes, strict=True):
        own = (plan.free[attribute],)
        noisy = inputs.noise.add(inputs.counts(own), part, inputs.change, target=inputs.names(own))
        bins, scale = inputs.bins(own[0]), inputs.scale(part, inputs.change)
        likely = likely_values(noisy, inputs.n, scale=scale, on_scale=bins)
        least = RARE * inputs.noise.deviation(part, inputs.change)
        if bins:
            groups = ValueGroups.joining_neighbours(likely, least / inputs.n, bins)
        else:
            groups = ValueGroups.joining_rare(noisy, likely, least)
        cells = np.bincount(groups.group_of, likely).astype(np.float64)
        view = View(members=(attribute,), cells=cells, scale=scale / inputs.n, projected=cells, groups=())
        measured[attribute], noisy_counts[attribute] = (groups, view), noisy
    return replace(GroupedAttributes.of(inputs, plan, measured), noisy=noisy_counts)


def measure_again(
    inputs: Inputs, attributes: GroupedAttributes, views: tuple[View, ...]
) -> tuple[GroupedAttributes, tuple[View, ...]]:
    """Spend all that is left on single attributes, over the groups of values that they have.

    Args:
        inputs: Inputs of the run.
        attributes: The free attributes, as measured before.
        views: Noisy tables so far, those of single attributes first.

    Returns:
        The attributes and the tables, with the mean of both counts, weighted by precision, of an attribute
        that was measured by itself before.
    """
    plan, before = attributes.plan, {view.members[0]: view for view in attributes.views}
    groups, singles = [], []
    parts = split_by_size(inputs.noise.left, plan.sizes, inputs.noise.power)
    for attribute, part in enumerate(parts):
        own = (plan.free[attribute],)
        noisy = inputs.noise.add(inputs.counts(own), part, inputs.change, target=inputs.names(own))
        scale, group_of = inputs.scale(part, inputs.change), attributes.groups[attribute].group_of
        if attribute in before:
            scales = np.array([scale, inputs.n * before[attribute].scale])
            mean = np.average([noisy, attributes.noisy[attribute]], axis=0, weights=scales**-2)
            noisy, scale = np.rint(mean).astype(np.int64), float((scales**-2).sum() ** -0.5)
        likely = likely_values(noisy, inputs.n, scale=scale, on_scale=inputs.bins(own[0]))
        cells = np.bincount(group_of, likely).astype(np.float64)
        groups.append(ValueGroups.of(group_of, likely))
        singles.append(
            View(members=(attribute,), cells=cells, scale=scale / inputs.n, projected=cells, groups=())
        )
    attributes = replace(attributes, groups=tuple(groups), views=tuple(singles))
    return attributes, (*singles, *views[len(before) :])


def measure_view(inputs: Inputs, plan: ViewPlan, members: Members, counts: Callable[[Members], Ints]) -> View:
    """Step 9: the noisy table of a view."""
    target = plan.names(inputs, members)
    noisy = inputs.noise.add(counts(members), plan.for_view, inputs.change, target=target)
    return View(
        members=members,
        cells=noisy / inputs.n,
        scale=inputs.scale(plan.for_view, inputs.change) / inputs.n,
        projected=project_to_simplex(noisy, inputs.n),
        groups=plan.grouping.get(members, ()),
    )


def misfit_score(counts: Ints, expected: Ints, noise: int) -> int:
    """How far a table is from a model's, beyond the noise that measuring it would add.

    It changes by no more than the table does, `table_sensitivity` (triangle inequality). Tight: all cells
    that move may move away from their fixed numbers.

    Args:
        counts: Counts of the records.
        expected: Whole numbers of the same shape, made only from noisy tables.
        noise: Expected sum of the noise over the cells, which the public sizes give.
    """
    return int(np.abs(counts - expected).sum()) - noise
