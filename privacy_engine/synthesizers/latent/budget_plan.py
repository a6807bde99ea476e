"""Step 1 of LatentClass: the parts of the budget, by parameters, public sizes and noisy results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.synthesizers.latent import dependencies
from privacy_engine.tables.domains import BinnedDomain, CodedTable, DatedDomain
from privacy_engine.tables.marginals import WeightedRecords, contingency

Ints = npt.NDArray[np.int64]

# Of candidates and starting points: they look random, are the same each time, and hide nothing.
SEED = 20261120
NARROW = 8  # values up to which an attribute is not measured by itself: joint tables are informative enough
ENOUGH = 20  # scales of noise in the mean count of an attribute: from there on joint tables need it more
TELLING = 8.0  # scales of noise in the mean count of a value, below which no choice of views is informative
SCARCE = 24.0  # the same, below which Gaussian noise is least on attributes that are measured by themselves
MOST_VIEWS = 75  # bounds the time of the fits of wide tables
SEARCH_SHARE, TEST_SHARE, FUNCTION_SHARE = 0.015, 0.01, 0.04  # parts of epsilon for one dependency


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """The records of a run, and the noise through which they are read.

    Attributes:
        coded: The records; names, domains and sizes are public.
        records: The same, weighted, for `counts`.
        noise: Budget of the run, with its books.
        rng: Random numbers that hide nothing.
    """

    coded: CodedTable
    records: WeightedRecords
    noise: NoiseBudget
    rng: np.random.Generator

    @classmethod
    def of(cls, coded: CodedTable, noise: NoiseBudget) -> Self:
        """The inputs of a new run."""
        return cls(
            coded=coded,
            records=WeightedRecords.of(coded),
            noise=noise,
            rng=np.random.default_rng(SEED),
        )

    @property
    def n(self) -> int:
        """Public number of records."""
        return len(self.coded)

    @property
    def change(self) -> Change:
        """Change of a table of counts between neighbours."""
        return Change.of_table(self.coded.each)

    @property
    def exception(self) -> Change:
        """Change of one count between neighbours."""
        return Change.of_count(self.coded.each)

    def scale(self, part: float, change: Change) -> float:
        """Return the scale of Laplace noise with the same standard deviation as a part's noise."""
        return self.noise.deviation(part, change) / math.sqrt(2)

    def mean_count(self, part: float, sizes: Sequence[int]) -> float:
        """The mean count of a value, in scales of noise, if attributes of these sizes were all measured."""
        scale = self.scale(part, self.change) * math.pow(len(sizes), 1 / self.noise.power)
        return self.n * len(sizes) / (sum(sizes) * scale)

    def counts(self, attributes: Sequence[int]) -> Ints:
        """The joint table of some attributes. It reads the records and has no noise."""
        return contingency(self.records, attributes)

    def names(self, attributes: Sequence[int]) -> str:
        """Names of some attributes, for the books."""
        return ", ".join(self.coded.names[a] for a in attributes)

    def bins(self, attribute: int) -> int:
        """Number of bins on the scale of an attribute; 0 if it has none."""
        domain = self.coded.domains[attribute]
        return domain.bins if isinstance(domain, BinnedDomain | DatedDomain) else 0


@dataclass(frozen=True, kw_only=True)
class Search:
    """The parts of the search for dependencies.

    Attributes:
        rules: Most dependencies to find; 0 if there is nothing to look for, or if the budget could not
            distinguish a dependency from none.
        choice, test, function: Parts of one choice, one test and one table.
        rest: Least that is left for the other steps.
        whole: Part of the budget that is left before the search.
    """

    rules: int
    choice: float
    test: float
    function: float
    rest: float
    whole: float

    @classmethod
    def of(cls, inputs: Inputs, rules: int, whole: float) -> Self:
        """Return the search for a number of dependencies at most, with parts of what is left."""
        shares = (SEARCH_SHARE, TEST_SHARE, FUNCTION_SHARE)
        choice, test, function, rest = split(whole, (*shares, 1 - sum(shares) * rules))
        scale = inputs.scale(test, inputs.exception)
        possible = rules and dependencies.candidates(inputs.coded.sizes, ())
        if not possible or scale > dependencies.TOLERANCE * 2 * inputs.n:
            rules, rest = 0, whole
        return cls(rules=rules, choice=choice, test=test, function=function, rest=rest, whole=whole)


@dataclass(frozen=True, kw_only=True)
class BudgetPlan:
    """The parts of all steps after the search for dependencies.

    From here on, an attribute's number is its index among those that are free. If the budget is too small for
    joint tables, all of it goes to single attributes.

    Attributes:
        free: Numbers, in the table, of the attributes that no other one determines.
        sizes: Their numbers of values.
        joint: Whether joint tables are measured.
        wide: Attributes that are measured by themselves.
        for_attributes: Part of each of them.
        for_choices: Part of all choices of views.
        for_views: Part of all views.
        most_rounds: Largest number of views.
        planned_with: Part of all views by which their number and sizes are planned; None for `for_views`.
    """

    free: tuple[int, ...]
    sizes: tuple[int, ...]
    joint: bool
    wide: tuple[int, ...]
    for_attributes: tuple[float, ...] = ()
    for_choices: float = 0.0
    for_views: float = 0.0
    most_rounds: int = 0
    planned_with: float | None = None

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        free: Sequence[int],
        whole: float,
        *,
        attribute_share: float,
        selection_share: float,
        rounds: int | None,
    ) -> Self:
        """Split a part among attributes of many values, choices of views, and views.

        Args:
            inputs: Inputs of the run.
            free: Attributes that no other one determines.
            whole: Part to split.
            attribute_share: Largest part for attributes of many values, in (0, 1), as for `LatentClass`.
            selection_share: Part of the rest that chooses views, in (0, 1), as for `LatentClass`.
            rounds: Number of views to measure, as for `LatentClass`; None: as many as are useful.
        """
        sizes = tuple(inputs.coded.sizes[a] for a in free)
        clear, power = inputs.mean_count(whole, sizes), inputs.noise.power
        joint = clear >= TELLING and len(sizes) > 1
        alone = not joint or (power > 1 and clear < SCARCE)
        wide = tuple(a for a, size in enumerate(sizes) if size > NARROW or alone)
        measured = [sizes[a] for a in wide]
        on_attributes, for_choices, for_views = whole, 0.0, 0.0
        for_attributes: tuple[float, ...] = ()
        if measured and joint:
            share = min(attribute_share, (ENOUGH / inputs.mean_count(whole, measured)) ** power)
            on_attributes, whole = split(whole, (share, 1 - share))
        if measured:
            for_attributes = split_by_size(on_attributes, measured, power)
        if joint:
            for_choices, for_views = split(whole, (selection_share, 1 - selection_share))
        return cls(
            free=tuple(free),
            sizes=sizes,
            joint=joint,
            wide=wide,
            for_attributes=for_attributes,
            for_choices=for_choices,
            for_views=for_views,
            most_rounds=(rounds or min(math.ceil(1.5 * len(sizes)), MOST_VIEWS)) if joint else 0,
        )

    @classmethod
    def alone(cls, inputs: Inputs, free: Sequence[int], whole: float) -> Self:
        """Spend a part on single attributes.

        Args:
            inputs: Inputs of the run.
            free: Attributes that no other one determines.
            whole: Part to split.
        """
        sizes = tuple(inputs.coded.sizes[a] for a in free)
        return cls(
            free=tuple(free),
            sizes=sizes,
            joint=False,
            wide=tuple(range(len(sizes))),
            for_attributes=split_by_size(whole, sizes, inputs.noise.power),
        )

    def require_enough(self, inputs: Inputs) -> None:
        """Raise, before any noise is drawn, if the smallest part of the budget is too small for any step.

        Raises:
            ValueError: If it is.
        """
        choices = split(self.for_choices, [1] * self.most_rounds)[:1] if self.joint else ()
        inputs.noise.scale_of_choice(min([*self.for_attributes, *choices]), by=inputs.change.summed)


def split_by_size(whole: float, sizes: Sequence[int], power: int) -> tuple[float, ...]:
    """Split a part among attributes so that the sum of all cells' errors is least: for epsilon, by roots."""
    return split(whole, [size ** (power / (power + 1)) for size in sizes])
