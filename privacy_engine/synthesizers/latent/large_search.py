"""Before step 1 of LatentClass: how nominal attributes of many values are drawn, and what they depend on.

    1  count each attribute of ``LARGE`` nominal values or more by itself, join rare values      noise
    2  for each, those with most values first:
    3      with a declared hierarchy: groups = its finest level of at most ``MOST_GROUPS`` groups
    4          draw it given an attribute that has a value for each group, if few records are
               exceptions to that                                                                noise
    5      else V = the attribute on which it depends most, as far as noise lets one read it,
               or none                                                                           noisy max
    6          measure the table of V, of joined values                                          noise
    7          draw it given V if V is large, or a function of it
    8          groups = values whose records have V distributed alike
    9  the model has the groups, and the attribute is drawn given its group, by the counts of step 1; one that
       depends on none has one group, and is counted once more

The later steps of LatentClass read the records with groups in the place of values, or without the attribute.

The score of a pair is the L1 distance between its table and the product of its margins, in records and
rounded down: replacing one record changes it by at most 6, as in ``related_pairs``, for any groups that were
fixed before. A public number per pair is subtracted. For two large attributes the score is at least the
distance that single cells show, which changes by at most 2, see ``readable``. None has a fixed score. If m
records of one person are replaced, all of this changes by m times as much. Exceptions are a count of records.
Groups, functions and estimates only depend on noisy tables and public sizes: post-processing. All steps
compose sequentially.

A value that is not sure to have the one value of V that its noisy cells show is left out if all such values
together have at most ``MOST_LEFT_OUT`` of the records: its share moves to other values with the same value of
V. This is a bias against rare values, in exchange for few records that break the dependency.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.synthesizers.bayes.scores import dependence_sensitivity
from privacy_engine.synthesizers.latent.budget_plan import TELLING, Inputs
from privacy_engine.synthesizers.latent.declared_levels import Level, function_onto, level_for, levels_of
from privacy_engine.synthesizers.latent.dependencies import CLEAR, TOLERANCE
from privacy_engine.synthesizers.latent.large_attributes import LargeAttribute, LargeAttributes
from privacy_engine.synthesizers.latent.noisy_tables import RARE
from privacy_engine.synthesizers.latent.pair_estimates import alike, is_function, is_sure, readable_cells
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.related_pairs import chance_dependence
from privacy_engine.synthesizers.postprocess import likely_values
from privacy_engine.tables.domains import LabelledDomain

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# All chosen on the tables of `benchmarks.peers.dp_nominal` from seeds below 1,000.
LARGE = 100  # nominal values from which on an attribute is drawn last
UNIT = 4.0  # root of the values of an attribute that weighs 1 in the split of the budget, as small ones do
MOST_SHARE = 0.8  # part of the budget for large attributes, if there are others
ALL_SHARE = 0.95  # the same if there are none
COUNT, CHOICE = 0.4, 0.04  # parts of a large attribute's share; the rest is for its table with another one
READ = 3.0  # standard deviations of noise by which a cell must exceed independence to be read by itself
UNREAD = 4.0  # standard deviations of noise, in records, below which a value's cell with another one is lost
DEPENDENT = 0.1  # share of the records by which a dependence must exceed chance to be more than none
MOST_GROUPS = 32  # of a declared level
LEARNED_GROUPS = 10  # of values that are alike
MOST_LEFT_OUT = 0.15  # share of the records whose values may be left out
MOST_CELLS = 2**20  # of the table of a pair, and of a stored distribution


@dataclass(frozen=True, kw_only=True)
class BudgetParts:
    """The parts of the budget for one large attribute.

    Attributes:
        count: Part of its counts.
        choice: Part of the choice of the attribute that it depends on, or of the test of a declared one.
        table: Part of the table of both; 0 where a level is declared.
    """

    count: float
    choice: float
    table: float

    @classmethod
    def of(cls, whole: float, *, declared: bool) -> Self:
        """Split a part."""
        if declared:
            count, choice = split(whole, (1 - CHOICE, CHOICE))
            return cls(count=count, choice=choice, table=0.0)
        count, choice, table = split(whole, (COUNT, CHOICE, 1 - COUNT - CHOICE))
        return cls(count=count, choice=choice, table=table)


@dataclass(frozen=True, kw_only=True)
class LargeShare:
    """The parts of the budget for large attributes.

    Attributes:
        parts: Number of each large attribute, those with most values first, to its parts.
        rest: Least that is left for the other steps.
    """

    parts: Mapping[int, BudgetParts]
    rest: float

    @classmethod
    def of(cls, inputs: Inputs) -> "LargeShare | None":
        """Return the parts; None if there is no large attribute, or if joint tables would not be measured."""
        sizes, domains = inputs.coded.sizes, inputs.coded.domains
        large = [a for a, d in enumerate(domains) if isinstance(d, LabelledDomain) and d.size >= LARGE]
        if not large or len(sizes) < 2:
            return None
        large.sort(key=lambda a: -sizes[a])
        others = [size for a, size in enumerate(sizes) if a not in large]
        weights = [math.sqrt(sizes[a]) / UNIT for a in large]
        share = min(sum(weights) / (sum(weights) + len(others)), MOST_SHARE if others else ALL_SHARE)
        on_large, rest = split(inputs.noise.whole, (share, 1 - share))
        if inputs.mean_count(rest, [*others, *[LEARNED_GROUPS] * len(large)]) < TELLING:
            return None
        parts = {
            a: BudgetParts.of(part, declared=_level(inputs, a) is not None)
            for a, part in zip(large, split(on_large, weights), strict=True)
        }
        for own in parts.values():  # raises for a part that is too small, before any noise is drawn
            inputs.noise.scale_of_choice(own.choice, by=_score_change(inputs))
        return cls(parts=parts, rest=rest)


def _level(inputs: Inputs, attribute: int) -> Level | None:
    return level_for(levels_of(inputs.coded.domains[attribute]), MOST_GROUPS)


def _score_change(inputs: Inputs) -> int:
    return dependence_sensitivity(1) * inputs.coded.each


@dataclass(frozen=True, kw_only=True, eq=False)
class Counted:
    """A large attribute after step 1.

    Attributes:
        groups: Its values, rare ones joined.
        noisy: Noisy counts of the values.
        likely: Probabilities of the values.
        deviation: Standard deviation of the noise of the count of a value.
    """

    groups: ValueGroups
    noisy: Ints
    likely: Floats
    deviation: float

    @property
    def shares(self) -> Floats:
        """(groups,) probabilities of the groups."""
        return np.bincount(self.groups.group_of, self.likely).astype(np.float64)

    @property
    def joined(self) -> npt.NDArray[np.bool_]:
        """(groups,) whether a group has several values."""
        return np.bincount(self.groups.group_of) > 1

    @classmethod
    def of(cls, inputs: Inputs, attribute: int, part: float) -> "Counted":
        """Count an attribute with a part of the budget."""
        noisy, deviation = _counted(inputs, attribute, part)
        return cls.averaged([noisy], [deviation], inputs.n)

    @classmethod
    def averaged(cls, noisy: Sequence[Ints], deviations: Sequence[float], n: int) -> "Counted":
        """The mean of noisy counts, weighted by their precision."""
        precisions = [deviation**-2 for deviation in deviations]
        mean = np.rint(np.average(noisy, axis=0, weights=precisions)).astype(np.int64)
        deviation = sum(precisions) ** -0.5
        likely = likely_values(mean, n, scale=deviation / math.sqrt(2), on_scale=0)
        groups = ValueGroups.joining_rare(mean, likely, RARE * deviation)
        return cls(groups=groups, noisy=mean, likely=likely, deviation=deviation)

    def again(self, inputs: Inputs, attribute: int, part: float) -> "Counted":
        """The same, with one more count by a part of the budget."""
        noisy, deviation = _counted(inputs, attribute, part)
        return self.averaged([self.noisy, noisy], [self.deviation, deviation], inputs.n)


def _counted(inputs: Inputs, attribute: int, part: float) -> tuple[Ints, float]:
    """Noisy counts of the values of an attribute, and the standard deviation of their noise."""
    own = (attribute,)
    noisy = inputs.noise.add(inputs.counts(own), part, inputs.change, target=inputs.names(own))
    return noisy, inputs.noise.deviation(part, inputs.change)


def find_large(inputs: Inputs, share: LargeShare) -> tuple[LargeAttributes, float]:
    """Return how each large attribute is drawn, and the remaining budget."""
    left = Fraction(inputs.noise.whole)
    counted = {a: Counted.of(inputs, a, parts.count) for a, parts in share.parts.items()}  # 1
    search = PartnerSearch(inputs=inputs, counted=counted)
    for attribute, parts in share.parts.items():  # 2
        level = _level(inputs, attribute)
        left -= Fraction(parts.count)
        if level is None:
            left -= search.place(attribute, parts)
        else:
            left -= search.place_declared(attribute, level, parts)
    names, sizes = inputs.coded.names, inputs.coded.sizes
    return LargeAttributes(found=search.in_order(), names=names, sizes=sizes), rounded_down(left)


@dataclass(frozen=True, kw_only=True, eq=False)
class PartnerSearch:
    """Steps 3 to 9.

    Attributes:
        inputs: Inputs of the run.
        counted: Large attributes after step 1.
        found: How large attributes are drawn, of those that were placed so far.
    """

    inputs: Inputs
    counted: Mapping[int, Counted]
    found: dict[int, LargeAttribute] = field(default_factory=dict)

    def place_declared(self, attribute: int, level: Level, parts: BudgetParts) -> Fraction:
        """Steps 3 and 4: find out how an attribute with a declared level is drawn; return what is spent."""
        inputs, likely = self.inputs, self.counted[attribute].likely
        self.found[attribute] = given_groups(attribute, level.group_of, likely)
        for other, domain in enumerate(inputs.coded.domains):
            function = function_onto(level, domain)
            if function is None or attribute in self._ancestors(other):
                continue
            counts = inputs.counts((attribute, other))
            exceptions = np.array([inputs.n - int(counts[np.arange(len(function)), function].sum())])
            target = inputs.names((attribute, other))
            noisy = inputs.noise.add(exceptions, parts.choice, inputs.exception, target=target)
            if noisy[0] <= TOLERANCE * inputs.n + CLEAR * inputs.scale(parts.choice, inputs.exception):
                self.found[attribute] = given_function(attribute, other, function, domain.size, likely)
            return Fraction(parts.choice)
        return Fraction(0)

    def place(self, attribute: int, parts: BudgetParts) -> Fraction:
        """Steps 5 to 9: find out how an attribute is drawn; return what is spent."""
        inputs, own = self.inputs, self.counted[attribute]
        partner = self._most_dependent(attribute, parts)
        if partner is None:
            likely = own.again(inputs, attribute, parts.table).likely
            alone = np.zeros(len(likely), dtype=np.int64)
            self.found[attribute] = given_groups(attribute, alone, likely)
            return Fraction(parts.choice) + Fraction(parts.table)
        pair = (attribute, partner)
        noisy = inputs.noise.add(  # 6
            self.table(pair), parts.table, inputs.change, target=inputs.names(pair)
        )
        deviation = inputs.noise.deviation(parts.table, inputs.change)
        if partner in self.counted:  # 7
            drawn = _given_large(pair, noisy, own, self.counted[partner], deviation, inputs.n)
        elif is_function(noisy[~own.joined], deviation):
            function, likely = _function(noisy, own, deviation, inputs.rng)
            drawn = given_function(attribute, partner, function, noisy.shape[1], likely)
        else:  # 8
            group_of = alike(noisy, inputs.n * own.shares, deviation, LEARNED_GROUPS, inputs.rng)
            drawn = given_groups(attribute, group_of[own.groups.group_of], own.likely)
        self.found[attribute] = drawn
        return Fraction(parts.choice) + Fraction(parts.table)

    def _most_dependent(self, attribute: int, parts: BudgetParts) -> int | None:
        """Step 5: the attribute on which a large one depends most; None if on none."""
        inputs = self.inputs
        candidates = [
            other for other in range(len(inputs.coded.sizes)) if self._may_precede(other, attribute)
        ]
        deviation = inputs.noise.deviation(parts.table, inputs.change)
        scores = []
        for other in candidates:
            counts = self.table((attribute, other))
            score = excess(counts) - round(UNREAD * deviation * min(counts.shape))
            if other in self.counted:
                expected = np.multiply.outer(self.counted[attribute].shares, self.counted[other].shares)
                score = max(score, readable(counts, np.rint(inputs.n * expected + READ * deviation)))
            scores.append(score)
        names = [inputs.names((attribute, other)) for other in candidates]
        chosen = inputs.noise.choose(
            np.array([*scores, round(DEPENDENT * inputs.n)], dtype=np.int64),
            parts.choice,
            by=_score_change(inputs),
            targets=[*names, inputs.names((attribute,))],
        )
        return candidates[chosen] if chosen < len(candidates) else None

    def _may_precede(self, other: int, attribute: int) -> bool:
        most = self._size(other) * max(self._size(attribute), self.inputs.coded.sizes[attribute])
        return (
            attribute not in self._ancestors(other)
            and self.inputs.coded.sizes[other] > 1
            and most <= MOST_CELLS
        )

    def table(self, pair: Sequence[int]) -> Ints:
        """The table of a pair over joined values. It reads the records and has no noise."""
        records, sizes = self.inputs.records, [self._size(a) for a in pair]
        first, second = (
            self.counted[a].groups.group_of[records.codes[a]]
            if a in self.counted
            else records.codes[a].astype(np.int64)
            for a in pair
        )
        cells = np.zeros(sizes[0] * sizes[1], dtype=np.int64)
        np.add.at(cells, first * sizes[1] + second, records.weights)
        return cells.reshape(sizes)

    def _size(self, attribute: int) -> int:
        counted = self.counted.get(attribute)
        return self.inputs.coded.sizes[attribute] if counted is None else counted.groups.size

    def _ancestors(self, attribute: int) -> set[int]:
        """The attribute, and those given which it is drawn."""
        met = {attribute}
        while attribute in self.found and (parent := self.found[attribute].parent) is not None:
            attribute = parent
            met.add(attribute)
        return met

    def in_order(self) -> tuple[LargeAttribute, ...]:
        """What was found, parents before their children."""
        return tuple(sorted(self.found.values(), key=lambda large: len(self._ancestors(large.attribute))))


def excess(counts: Ints) -> int:
    """L1 distance of a table from independence, in records, beyond what chance explains at most."""
    n = int(counts.sum())
    off = np.abs(n * counts - np.multiply.outer(counts.sum(axis=1), counts.sum(axis=0)))
    return int(off.sum()) // n - chance_dependence(n, counts.size)


def readable(counts: Ints, least: Floats) -> int:
    """L1 distance of a table from independence that single cells show, in records.

    It changes by at most 2 if one record is replaced: one cell gains one, another loses one, and both count
    twice, with opposite signs.

    Args:
        counts: Table of the records.
        least: Whole numbers of the same shape, made only from noisy tables, that a cell must exceed.
    """
    return 2 * int(np.maximum(counts - least, 0).sum())


def _given_large(
    pair: tuple[int, int], noisy: Ints, own: Counted, other: Counted, deviation: float, n: int
) -> LargeAttribute:
    """Step 7 for two large attributes: the first is drawn given the second, by what noise lets one read."""
    cells = readable_cells(noisy, n * own.shares, n * other.shares, deviation).T
    table = own.groups.spread(cells)
    return LargeAttribute(
        attribute=pair[0], parent=pair[1], group_of=other.groups.group_of, table=_distributions(table)
    )


def _function(noisy: Ints, own: Counted, deviation: float, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """The function of each value, and probabilities of the values, without unsure ones if they are few."""
    group_of = own.groups.group_of
    sure = is_sure(noisy, deviation) & ~own.joined
    # The largest cell of a sure value counts its records once more.
    known = own.deviation**2 / (own.deviation**2 + deviation**2)
    both = known * noisy.max(axis=1) / noisy.sum() + (1 - known) * own.shares
    likely = np.where(sure[group_of], np.maximum(both[group_of], 0.0), own.likely)
    likely = likely / likely.sum()
    function = noisy.argmax(axis=1)[group_of].astype(np.int64)
    if likely[~sure[group_of]].sum() <= MOST_LEFT_OUT:
        return function, np.where(sure[group_of], likely, 0.0)
    # Each joined value gets one value, in the shares of its group.
    for group in np.flatnonzero(own.joined).tolist():
        members = rng.permutation(np.flatnonzero(group_of == group))
        shares = np.maximum(noisy[group], 0) + 1.0
        ends = np.cumsum(shares / shares.sum())
        middles = (np.cumsum(likely[members]) - likely[members] / 2) / likely[members].sum()
        function[members] = np.minimum(np.searchsorted(ends, middles), len(ends) - 1)
    return function, likely


def given_function(attribute: int, parent: int, function: Ints, size: int, likely: Floats) -> LargeAttribute:
    """An attribute that is drawn given its function, by the probabilities of its values.

    Args:
        attribute: Number of the attribute.
        parent: Number of the attribute that is a function of it.
        function: Value of the parent for each value, shape (s,).
        size: Number of values of the parent.
        likely: Probabilities of the values, which need not sum to 1, shape (s,).
    """
    table = np.zeros((size, len(likely)))
    table[function, np.arange(len(likely))] = likely
    table[table.sum(axis=1) == 0] = likely  # a value that is no value's
    return LargeAttribute(
        attribute=attribute, parent=parent, group_of=np.arange(size), table=_distributions(table)
    )


def given_groups(attribute: int, group_of: Ints, likely: Floats) -> LargeAttribute:
    """An attribute of which the model has groups, and that is drawn given its group.

    Args:
        attribute: Number of the attribute.
        group_of: Group of each value, shape (s,).
        likely: Probabilities of the values, > 0, shape (s,).
    """
    table = np.zeros((int(group_of.max()) + 1, len(likely)))
    table[group_of, np.arange(len(likely))] = likely
    return LargeAttribute(attribute=attribute, parent=None, group_of=group_of, table=_distributions(table))


def _distributions(table: Floats) -> Floats:
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def without_large(inputs: Inputs, large: LargeAttributes) -> Inputs:
    """The inputs of the steps that follow, with the same noise."""
    if not large.found:
        return inputs
    reduced = Inputs.of(large.reduced(inputs.coded), inputs.noise)
    return replace(reduced, rng=inputs.rng)
