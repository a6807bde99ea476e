"""Steps 4 and 5 of LatentClass: which views to measure, by sizes, noisy counts and parts of the budget."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs
from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.rare_values import ValueGroups, coarse_groups, sums_by_group
from privacy_engine.synthesizers.latent.related_pairs import LARGE_PAIR, PairPlan
from privacy_engine.synthesizers.latent.view_design import Coverage, Members, candidate_views, partition

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Groups = tuple[Ints | None, ...]

SMALL_VIEW = 16  # cells that a view should hold at least, such as those of four binary attributes
MOST_CELLS = 2048  # of a view: bounds the time of the fits
PAIRS_A_VIEW = 2  # typical pairs' cells that a view should have room for, where the budget is small
COVERED = 0.85  # part of the sets that would bring all pairs together: the last bring few
LEAST_COARSE = 3  # groups of an attribute in a table of groups
LONG_SCALE = 32  # values on a scale, from which on neighbours are much alike
MANY_LONG = (
    1 / 3
)  # of the attributes, share of attributes from which on pairs of long scales dominate the table
FEWER_CELLS = 4  # factor by which tables of two long scales have fewer cells, if there are many


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedAttributes:
    """The free attributes, with rare values joined: what step 3 found.

    Attributes:
        plan: Parts of the budget, and which attributes are free.
        groups: Groups of each attribute's values.
        likely: Shares of the groups of each attribute that was measured by itself; None for the others.
        on_scale: Number of groups of each attribute that lie on a scale.
        long: Attributes on a long scale; none if they are one, or few among the others.
        views: Tables of the attributes that were measured by themselves.
    """

    plan: BudgetPlan
    groups: tuple[ValueGroups, ...]
    likely: tuple[Floats | None, ...]
    on_scale: tuple[int, ...]
    long: frozenset[int]
    views: tuple[View, ...]

    @classmethod
    def of(cls, inputs: Inputs, plan: BudgetPlan, measured: Mapping[int, tuple[ValueGroups, View]]) -> Self:
        """The attributes of a plan.

        Args:
            inputs: Inputs of the run, of which no record is read.
            plan: Parts of the budget and the free attributes.
            measured: Groups and table of each attribute that was measured by itself.
        """
        bins = [inputs.bins(a) for a in plan.free]
        groups = [
            measured[a][0] if a in measured else ValueGroups.single(size) for a, size in enumerate(plan.sizes)
        ]
        long = frozenset(a for a, size in enumerate(bins) if size >= LONG_SCALE)
        return cls(
            plan=plan,
            groups=tuple(groups),
            likely=tuple(measured[a][1].cells if a in measured else None for a in range(len(groups))),
            on_scale=tuple(
                int(own.group_of[size - 1]) + 1 if size else 0 for own, size in zip(groups, bins, strict=True)
            ),
            long=long if len(long) > max(1, MANY_LONG * len(bins)) else frozenset(),
            views=tuple(view for _, view in measured.values()),
        )

    @property
    def sizes(self) -> list[int]:
        """Number of groups of each attribute."""
        return [groups.size for groups in self.groups]

    def coverage(self, views: tuple[View, ...]) -> Coverage:
        """Attributes and pairs that some views hold."""
        covered = Coverage(sizes=self.sizes)
        for view in views:
            covered.add(view.members)
        return covered

    def coarse(self, pair: Members, cells: int) -> Groups:
        """Return groups of the values of two attributes whose table has at most a number of cells."""
        if self.long and self.long.issuperset(pair):
            cells = max(cells // FEWER_CELLS, LEAST_COARSE**2)
        side = math.isqrt(cells)
        first, second = (self.groups[a].size for a in pair)
        most = (cells // second, second) if second <= side else (min(first, side), cells // min(first, side))
        return tuple(
            coarse_groups(self._shares(a), size, self.on_scale[a]) if size < self.groups[a].size else None
            for a, size in zip(pair, most, strict=True)
        )

    def _shares(self, attribute: int) -> Floats:
        likely = self.likely[attribute]
        return np.ones(self.groups[attribute].size) if likely is None else likely


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewPlan:
    """The sets of attributes that may be measured, and the parts of the budget for one of them.

    Attributes:
        attributes: The free attributes.
        rounds: Number of views to measure.
        first: Sets that are measured first, without a choice.
        candidates: Sets to choose from afterwards.
        grouping: Coarser groups of the values of pairs with too many cells.
        for_choice: Part of one choice.
        for_view: Part of one view.
        view_error: Mean size of the noise in a cell of a view.
    """

    attributes: GroupedAttributes
    rounds: int = 0
    first: tuple[Members, ...] = ()
    candidates: tuple[Members, ...] = ()
    grouping: Mapping[Members, Groups] = field(default_factory=dict)
    for_choice: float = 0.0
    for_view: float = 0.0
    view_error: float = 0.0

    @classmethod
    def of(
        cls, inputs: Inputs, attributes: GroupedAttributes, *, rounds: int | None, width: int, theta: float
    ) -> Self:
        """Steps 4 and 5, the number of rounds and their parts.

        Args:
            inputs: Inputs of the run, of which no record is read.
            attributes: The free attributes.
            rounds: Number of views to measure, as for `LatentClass`; None: as many as are useful.
            width: Most attributes of a view, as for `LatentClass`.
            theta: Least ratio of a view's mean cell to its noise, as for `LatentClass`.
        """
        plan, sizes, noise, rng = attributes.plan, attributes.sizes, inputs.noise, inputs.rng
        if not plan.joint:
            return cls(attributes=attributes)
        # Cells of one view that had all of it; r views have r ** (1 / power) times the noise.
        useful = inputs.n / (inputs.scale(plan.planned_with or plan.for_views, inputs.change) * theta)
        typical = min(max((sum(sizes) / len(sizes)) ** 2, SMALL_VIEW), LARGE_PAIR)  # a pair's cells
        most = min(max(int((useful / (PAIRS_A_VIEW * typical)) ** noise.power), 1), plan.most_rounds)
        covered = attributes.coverage(attributes.views)
        count = rounds or 1
        while True:
            cells = _cells(attributes, useful / count ** (1 / noise.power))
            fine = candidate_views(sizes, cells=cells, width=width, rng=rng)
            grouping = _grouped_pairs(attributes, fine, cells) if width > 1 else {}
            candidates = (*fine, *grouping)
            needed = math.ceil(COVERED * covered.missing(candidates))
            if rounds or count >= min(needed, most):
                break
            count = min(max(count + 1, (count + needed) // 2), most)
        # First each attribute that was not measured by itself, once: this requires no choice.
        unseen = [a for a in range(len(sizes)) if a not in plan.wide]
        first = partition(sizes, unseen, cells=cells, width=width, rng=rng)
        for members in first:
            covered.add(members)
        if not rounds and count <= len(first) and covered.missing(candidates):
            count = len(first) + 1
        count = max(count, len(first))
        chosen = count - len(first)
        left = (
            plan.for_views if chosen else rounded_down(Fraction(plan.for_views) + Fraction(plan.for_choices))
        )
        for_view = split(left, [1] * count)[0]
        return cls(
            attributes=attributes,
            rounds=count,
            first=tuple(first),
            candidates=candidates,
            grouping=grouping,
            for_choice=split(plan.for_choices, [1] * chosen)[0] if chosen else 0.0,
            for_view=for_view,
            view_error=noise.mean_error(for_view, inputs.change),
        )

    @classmethod
    def of_pairs(cls, inputs: Inputs, attributes: GroupedAttributes, pairs: PairPlan) -> Self:
        """All pairs of the attributes of a wide table as candidates; large ones over groups of values.

        Args:
            inputs: Inputs of the run, of which no record is read.
            attributes: The free attributes, all measured by themselves.
            pairs: Number of pairs and their parts.
        """
        sizes = attributes.sizes
        candidates = tuple(itertools.combinations(range(len(sizes)), 2))
        return cls(
            attributes=attributes,
            rounds=pairs.pairs,
            candidates=candidates,
            grouping={
                pair: attributes.coarse(pair, LARGE_PAIR)
                for pair in candidates
                if sizes[pair[0]] * sizes[pair[1]] > LARGE_PAIR
            },
            for_choice=pairs.for_choice,
            for_view=pairs.for_view,
            view_error=inputs.noise.mean_error(pairs.for_view, inputs.change),
        )

    def counts(self, inputs: Inputs, members: Members) -> Ints:
        """The table of a view over groups of values. It reads the records and has no noise."""
        counts = inputs.counts([self.attributes.plan.free[member] for member in members])
        coarse = self.grouping.get(members, (None,) * len(members))
        for axis, (member, group_of) in enumerate(zip(members, coarse, strict=True)):
            counts = self.attributes.groups[member].sums(counts, axis)
            if group_of is not None:
                counts = sums_by_group(counts, group_of, axis)
        return counts

    def names(self, inputs: Inputs, members: Members) -> str:
        """Names of the attributes of a view, for the books."""
        return inputs.names([self.attributes.plan.free[member] for member in members])


def _cells(attributes: GroupedAttributes, useful: float) -> float:
    """Most cells of a view. Any two attributes that were not measured by themselves fit."""
    narrow = sorted(size for a, size in enumerate(attributes.sizes) if a not in attributes.plan.wide)
    return min(max(useful, math.prod(narrow[-2:])), MOST_CELLS)


def _grouped_pairs(attributes: GroupedAttributes, fine: list[Members], cells: float) -> dict[Members, Groups]:
    """Groups of the pairs that are in no set of attributes, so that their tables fit."""
    met = Coverage()
    for members in fine:
        met.add(members)
    return {
        pair: attributes.coarse(pair, int(cells))
        for pair in itertools.combinations(range(len(attributes.groups)), 2)
        if pair not in met.pairs and cells >= LEAST_COARSE**2
    }
