"""LatentClass: a latent class model fitted to a few noisy joint tables.

The recommended synthesizer. It answers the structure search of PrivBayes and DPSM-Bayes (Zhu, Xu, Ya) with
the observation that at the epsilons of a publication (.05 to 2) parent sets can hardly be told apart, while
one hidden variable carries most of what people's attributes have in common. The release is a Bayesian network
with one hidden root.

     1  parts of epsilon, or rho, for dependencies, single attributes, choices, views
     2  find attributes that others determine, and leave them to these                noisy max, noise
     3  measure each attribute of more than 8 values, smooth, join rare values                   noise
     4  candidates = sets of attributes with at most n e_view / (theta sensitivity) cells; pairs with more
        cells over groups of their values
     5  first: disjoint sets that hold each attribute that was not measured in step 3
     6  repeat, as often as the candidates bring new pairs and the budget allows:
     7      fresh = the candidates with many new pairs
     8      V = the one of them whose table the model gets most wrong                        noisy max
     9      measure the table of V                                                               noise
    10      fit the model to all that was measured
    11  one class if the classes foretell noisy tables no better than independent attributes do
    12  release the mean of `fits` models, each fitted from a start of its own, its single attributes moved to
        what all tables say of them where noise does not explain the difference, as a network

Where not even a single attribute stands clear of the noise, all goes to single attributes.

Neighbour relation: one record replaced by any other, the number of records n public; or all records of one
person, see ``privacy_engine.dp.contributions``: everything that is noised is a table of counts, or changes by
no more than a known multiple of what one does, so that a person's m records count m times. Steps 4, 5, 7, 10
to 12, the smoothing and the joining read noisy tables and public sizes alone: post-processing. Steps 2, 3, 8,
9 compose sequentially; what step 2 does not spend, since a dependency was not found, the later steps do:
their parts depend on noisy results alone, and the sum never exceeds epsilon, which is all that pure epsilon
asks of parts that are chosen on the way (Rogers, Roth, Ullman, Vadhan: Privacy Odometers and Filters, 2016).

With delta 0 the claim is of pure epsilon, and the noise discrete Laplace. With a delta > 0 it is (epsilon,
delta), by the largest rho of zCDP that implies it: the same parts are then parts of rho, which add in the
same way (``privacy_engine.dp.zcdp``), the noise is discrete Gaussian, and k tables have sqrt(k) times the
noise of one instead of k times. ``privacy_engine.dp.noise`` has both, and draws no more than the whole.

Taken from others: views of several attributes that cover the pairs (Qardaji, Yang, Li: PriView, 2014);
choosing what the model gets most wrong (Hardt, Ligett, McSherry: MWEM, 2012; McKenna, Mullins, Sheldon,
Miklau: AIM, 2022); joining rare values (McKenna, Miklau, Sheldon: MST, 2021); a mixture of product
distributions fitted to noisy marginals by gradients (Aydore et al.: Relaxed Adaptive Projection, 2021; Liu,
Vietri, Wu: Iterative Methods for Private Synthetic Data, 2021). Ours: few classes, started by EM and drawn
together by a prior in the units of the known noise; a mean of several fits; views restricted to those that
bring new pairs; one record replaced as the neighbour, and every number that a claim rests on an integer.

Where more than a third of the attributes are on scales of 32 values or more, by the schema, pairs of these
are counted over groups four times as coarse and EM takes more steps: a ridge in 10,000 noisy cells is told by
few of them. Of a correlation of .95 between two scales of 100 values .87 is left at epsilon 1, where it was
.67; on Adult's age, hours and weight in 64 bins beside three other attributes nothing changes. Beside twelve
others the distance of marginals would grow by 3 % with groups three times as coarse, and by 10 % with eight:
so not where such scales are few.

One set of defaults for all tables, chosen on a few splits of NLTCS and Adult (16 bins): so figures on these
two are somewhat too good for a table that was never tried. ACS and NIST's table were not looked at for that.

Where the error sits, on one split of Adult with all 15 columns at epsilon .8, 3-way total variation distance
of the model with 32 classes and 4 fits: .103 in all; .071 from the same tables without their noise; .052
from all pairs without noise; .025 is what a bootstrap sample of the records has. So both the noise of the
tables and the pairs that are in none of them cost more than the form of the model.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import Neighbours, PrivacyLoss, rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.dp.zcdp import epsilon_of_part
from privacy_engine.latent import dependencies
from privacy_engine.latent.dependencies import Dependency, candidates
from privacy_engine.latent.latent_classes import (
    LatentClasses,
    View,
    fit,
    mean_of,
    random_start,
    uniform,
    with_single_values,
)
from privacy_engine.latent.rare_values import ValueGroups, coarse_groups, sums_by_group
from privacy_engine.latent.replicates import SEED as REPLICATE_SEED
from privacy_engine.latent.replicates import STEPS as REPLICATE_STEPS
from privacy_engine.latent.replicates import Imitated, replicated
from privacy_engine.latent.view_design import Coverage, Members, candidate_views, partition
from privacy_engine.progress import portion, tracked
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.postprocess import likely_values, project_to_simplex
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.synthesizers.synthesizer import Learned, Synthesizer, check_whole
from privacy_engine.tables.domains import BinnedDomain, CodedTable, DatedDomain
from privacy_engine.tables.marginals import WeightedRecords, contingency

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Groups = tuple[Ints | None, ...]

# Of candidates and starting points: they look random, are the same each time, and hide nothing.
SEED = 20261120
NARROW = 8  # values up to which an attribute is not measured by itself: joint tables say enough of it
ENOUGH = 20  # scales of noise in the mean count of an attribute: from there on joint tables need it more
SMALL_VIEW = 16  # cells that a view should hold at least, such as those of four binary attributes
MOST_CELLS = 2048  # of a view: bounds the time of the fits
RARE = 1.5  # standard deviations of noise that a value's count must exceed to stand alone
PAIRS_A_VIEW = 2  # typical pairs' cells that a view should have room for, where the budget is small
REPEATS, COUPLING = 2, 0.3  # of the comparison with independent attributes, and how much noise it adds
TELLING = 8.0  # scales of noise in the mean count of a value, below which no choice of views tells more
LARGE_PAIR = 256  # cells that a pair is worth: from there on groups of values are counted
COVERED = 0.85  # part of the sets that would bring all pairs together: the last bring few
MOST_PROBABILITIES = 500_000  # of all replicates together: some megabytes of the stored model
LEAST_COARSE = 3  # groups of an attribute in a table of groups
LONG_SCALE = 32  # values on a scale, from which on neighbours are much alike
MANY_LONG = 1 / 3  # of the attributes, from which on pairs of long scales are what the table is about
FEWER_CELLS = 4  # times less cells of a table of groups of two long scales, where there are many
SEARCH_SHARE, TEST_SHARE, FUNCTION_SHARE = 0.015, 0.01, 0.04  # parts of epsilon for one dependency
ROUND_STEPS = {"em_steps": 15, "descent_steps": 40}
LAST_STEPS = {"em_steps": 30, "descent_steps": 100}
MORE_STEPS = {"em_steps": 100, "descent_steps": 100}  # a ridge along two long scales takes EM longer


@dataclass(frozen=True, kw_only=True)
class LatentClass(Synthesizer):
    """Fit a latent class model to a few noisy tables, chosen where it errs most: the recommended synthesizer.

    Views are chosen where the model errs and measured with noise; the claim is epsilon, or (epsilon,
    delta).

    Attributes:
        delta: Delta of the claim: 0 for pure epsilon; > 0 and far below 1 over the number of persons, such
            as 1e-9, for (epsilon, delta) with Gaussian noise, which is less where many tables are measured.
        classes: Number of hidden classes of one fitted model, >= 1; 1 makes the attributes independent.
        fits: Number of models whose mean is released, >= 1.
        rounds: Number of views (tables of a few attributes) that are measured, >= 1, where the budget is
            enough for any; more where an attribute would be in none. None for as many as are useful, at
            most three for every two attributes.
        width: Most attributes of a view, >= 1.
        theta: Least ratio of a view's mean cell to its noise, > 0: bounds its cells.
        attribute_share: Largest part of epsilon that goes to the attributes of many values, in (0, 1).
        selection_share: Part of the rest that chooses views, in (0, 1).
        rules: Most functional dependencies that are searched for, 0 .. 5.
        replicates: Number of models that are fitted to the noisy tables with noise added once more, which
            give answers intervals; 0 for none, else 2 .. 100. They cost no epsilon.
    """

    delta: float = 0.0
    classes: int = 16
    fits: int = 8
    rounds: int | None = None
    width: int = 6
    theta: float = 2.0
    attribute_share: float = 0.4
    selection_share: float = 0.1
    rules: int = 3
    replicates: int = 20
    key: ClassVar[str] = "latent_class"

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.delta) not in (int, float) or not 0 <= self.delta < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {self.delta!r}")
        self._loss_of(by_person=False)  # refuses an epsilon that is too small for any noise at this delta
        for name in ("classes", "fits", "rounds", "width"):
            value = getattr(self, name)
            if not (type(value) is int and value >= 1) and not (name == "rounds" and value is None):
                raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
        check_whole("rules", self.rules, 0, 5)
        check_whole("replicates", self.replicates, 0, 100)
        if self.replicates == 1:
            raise ValueError("replicates must be 0 for none, or at least 2: one has no spread, got 1")
        if type(self.theta) not in (int, float) or not 0 < self.theta < math.inf:
            raise ValueError(f"theta must be a finite number > 0, got {self.theta!r}")
        for name in ("attribute_share", "selection_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}")

    def _loss_of(self, *, by_person: bool) -> PrivacyLoss:
        unit = Neighbours.REPLACE_PERSON if by_person else Neighbours.REPLACE_ONE
        return PrivacyLoss.within(self.epsilon, self.delta, unit)

    def _spending(self, part: float) -> Self:
        return replace(self, epsilon=epsilon_of_part(part, self.delta) if self.delta else part)

    def noise(self) -> NoiseBudget:
        """What a measurement may spend: epsilon, or the rho that implies (epsilon, delta)."""
        return NoiseBudget.of(self._loss_of(by_person=False))

    def measurement_parameters(self) -> dict[str, Any]:
        """As of any synthesizer; delta only where there is one, as it was before there was any."""
        told = super().measurement_parameters()
        return told if self.delta else {name: value for name, value in told.items() if name != "delta"}

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Measure, choose and fit, as in the box above."""
        learned = replace(self, replicates=0).learn_replicated(coded)
        return learned.network, learned.spends

    def learn_replicated(self, coded: CodedTable) -> Learned:
        """The same, and replicates of the model."""
        run = Run(self, coded)
        with portion(0.7):
            run.measure()
        with portion(0.3):
            return run.learned()


class Run:
    """One run of the algorithm: the books, the views so far and the model fitted to them.

    Attributes that another one determines leave the run: from then on an attribute's number is its place
    among those that are ``free``. Records are read by ``find_dependencies``, ``measure_attributes``,
    ``choose`` and ``measure_view`` alone, and what they read passes through a mechanism.
    """

    def __init__(self, method: LatentClass, coded: CodedTable) -> None:
        self.method = method
        self.coded = coded
        self.records = WeightedRecords.of(coded)
        self.n = len(coded)
        self.noise = method.noise()
        self.change = Change.of_table(coded.each)
        self.exception = Change.of_count(coded.each)
        self.rng = np.random.default_rng(SEED)
        self.free = list(range(len(coded.sizes)))
        self.dependencies: list[Dependency] = []
        self.views: list[View] = []
        self.coverage = Coverage()
        self._search, rest = self._search_parts()
        self._share_out(self.noise.whole if self._search is None else rest)
        # The least part that any step can need: refused, if at all, before any noise is drawn.
        choices = split(self.for_choices, [1] * self.most_rounds)[:1] if self.joint else ()
        least = min([*self.for_attributes, *choices])
        self.noise.scale_of_choice(least, by=self.change.summed)

    def _search_parts(self) -> tuple[tuple[float, float, float] | None, float]:
        """The parts of one choice, one test and one table of a dependency; and the least that will be left.

        None where there is nothing to look for, or the budget could not tell a dependency from none.
        """
        parts = (SEARCH_SHARE, TEST_SHARE, FUNCTION_SHARE)
        *each, rest = split(self.noise.whole, (*parts, 1 - sum(parts) * self.method.rules))
        choice, test, function = each
        scale = self._scale(test, self.exception)
        possible = self.method.rules and candidates(self.coded.sizes, ())
        if not possible or scale > dependencies.TOLERANCE * 2 * self.n:
            return None, self.noise.whole
        return (choice, test, function), rest

    def _share_out(self, whole: float) -> None:
        """Split what is left among attributes of many values, choices of views, and views.

        Where the budget is too small for joint tables, all of it goes to the attributes alone.
        """
        self.sizes = [self.coded.sizes[a] for a in self.free]
        self.joint = self._mean_count(whole, self.sizes) >= TELLING and len(self.sizes) > 1
        self.wide = [a for a, size in enumerate(self.sizes) if size > NARROW or not self.joint]
        sizes = [self.sizes[a] for a in self.wide]
        self.for_attributes: tuple[float, ...] = ()
        self.for_choices = self.for_views = 0.0
        self.most_rounds = 0
        power = self.noise.power
        if sizes and self.joint:
            share = (ENOUGH / self._mean_count(whole, sizes)) ** power
            share = min(self.method.attribute_share, share)
            on_attributes, whole = split(whole, (share, 1 - share))
        else:
            on_attributes = whole
        if sizes:  # the least sum of all cells' errors: for epsilon square roots
            self.for_attributes = split(on_attributes, [size ** (power / (power + 1)) for size in sizes])
        if self.joint:
            shares = (self.method.selection_share, 1 - self.method.selection_share)
            self.for_choices, self.for_views = split(whole, shares)
            self.most_rounds = self.method.rounds or math.ceil(1.5 * len(self.sizes))

    def _scale(self, part: float, change: Change) -> float:
        """The scale of Laplace noise with the standard deviation that the noise of a part has."""
        return self.noise.deviation(part, change) / math.sqrt(2)

    def _mean_count(self, whole: float, sizes: Sequence[int]) -> float:
        """The mean count of a value, in scales of noise, if attributes of these sizes were all measured."""
        scale = self._scale(whole, self.change) * math.pow(len(sizes), 1 / self.noise.power)
        return self.n * len(sizes) / (sum(sizes) * scale)

    def measure(self) -> None:
        """Steps 2 to 10."""
        self.find_dependencies()
        self.measure_attributes()
        self.plan_views()
        for _ in tracked(range(self.rounds)):
            self.measure_view(self.choose())

    def find_dependencies(self) -> None:
        """Step 2."""
        left = Fraction(self.noise.whole)
        if self._search is not None:
            choice, test, function = self._search
            for _ in range(self.method.rules):
                left -= Fraction(choice) + Fraction(test)
                pair = self._likeliest_dependency(choice)
                if pair is None:
                    left += Fraction(choice) + Fraction(test)
                    break
                if not self._holds(pair, test):
                    break
                left -= Fraction(function)
                self._keep(pair, function)
        self.free = [a for a in self.free if a not in {d.determined for d in self.dependencies}]
        self._share_out(rounded_down(left))

    def _likeliest_dependency(self, part: float) -> tuple[int, int] | None:
        pairs = candidates(self.coded.sizes, [d.determined for d in self.dependencies])
        if not pairs:
            return None
        scores = [dependencies.score(contingency(self.records, pair), self.n) for pair in pairs]
        chosen = self.noise.choose(
            np.array(scores, dtype=np.int64),
            part,
            by=dependencies.SCORE_SENSITIVITY * self.coded.each,
            targets=[self._names(pair) for pair in pairs],
        )
        return pairs[chosen]

    def _holds(self, pair: tuple[int, int], part: float) -> bool:
        exceptions = np.array([self.n - dependencies.kept(contingency(self.records, pair))])
        noisy = self.noise.add(exceptions, part, self.exception, target=self._names(pair))
        scale = self._scale(part, self.exception)
        return bool(noisy[0] <= dependencies.TOLERANCE * self.n + dependencies.CLEAR * scale)

    def _keep(self, pair: tuple[int, int], part: float) -> None:
        noisy = self.noise.add(contingency(self.records, pair), part, self.change, target=self._names(pair))
        determining, determined = pair
        function = noisy.argmax(axis=1).astype(np.int64)
        self.dependencies.append(
            Dependency(determining=determining, determined=determined, function=function)
        )

    def measure_attributes(self) -> None:
        """Step 3."""
        self.groups = [ValueGroups.single(size) for size in self.sizes]
        self.likely: list[Floats | None] = [None] * len(self.sizes)
        for attribute, part in zip(self.wide, self.for_attributes, strict=True):
            noisy = self._noisy(self._contingency((attribute,)), (attribute,), part)
            scale = self._scale(part, self.change)
            on_scale = self._on_scale(attribute)
            likely = likely_values(noisy, self.n, scale=scale, on_scale=on_scale)
            least = RARE * self.noise.deviation(part, self.change)
            if on_scale:
                groups = ValueGroups.joining_neighbours(likely, least / self.n, on_scale)
            else:
                groups = ValueGroups.joining_rare(noisy, likely, least)
            self.groups[attribute] = groups
            self.likely[attribute] = grouped = np.bincount(groups.group_of, likely).astype(np.float64)
            self._add((attribute,), cells=grouped, mended=grouped, part=part)
            self.coverage.add((attribute,))
        self.sizes = [groups.size for groups in self.groups]
        self.coverage.sizes = self.sizes
        self.on_scale = [self._groups_on_scale(a) for a in range(len(self.sizes))]
        self.long = self._long_scales()

    def plan_views(self) -> None:
        """Steps 4 and 5, the number of rounds and their parts."""
        self.rounds = self.measured = 0
        if not self.joint:
            return
        # Cells of one view that had all of it; r views have r ** (1 / power) times the noise.
        useful = self.n / (self._scale(self.for_views, self.change) * self.method.theta)
        power = self.noise.power
        mean = sum(self.sizes) / len(self.sizes)
        typical = min(max(mean**2, SMALL_VIEW), LARGE_PAIR)  # a pair's cells
        most = min(max(int((useful / (PAIRS_A_VIEW * typical)) ** power), 1), self.most_rounds)
        self.rounds = self.method.rounds or 1
        while True:
            cells = self._cells(useful / self.rounds ** (1 / power))
            self.candidates, self.coarse = self._candidates(cells)
            needed = math.ceil(COVERED * self.coverage.missing(self.candidates))
            if self.method.rounds or self.rounds >= min(needed, most):
                break
            self.rounds = min(max(self.rounds + 1, (self.rounds + needed) // 2), most)
        # First each attribute once that was not measured by itself: they need no choice.
        unseen = [a for a in range(len(self.sizes)) if a not in self.wide]
        self.first = partition(self.sizes, unseen, cells=cells, width=self.method.width, rng=self.rng)
        self.rounds = max(self.rounds, len(self.first))
        chosen = self.rounds - len(self.first)
        self.for_choice = split(self.for_choices, [1] * chosen)[0] if chosen else 0.0
        left = (
            self.for_views if chosen else rounded_down(Fraction(self.for_views) + Fraction(self.for_choices))
        )
        self.for_view = split(left, [1] * self.rounds)[0]
        self.view_error = self.noise.mean_error(self.for_view, self.change)
        self.tables: dict[Members, Ints] = {}
        self.model = (
            fit(self.views, self._start(), on_scale=self.on_scale, **ROUND_STEPS)
            if self.views
            else uniform(self.sizes)
        )

    def _cells(self, useful: float) -> float:
        """Most cells of a view. Any two attributes that were not measured by themselves fit."""
        narrow = sorted(size for a, size in enumerate(self.sizes) if a not in self.wide)
        return min(max(useful, math.prod(narrow[-2:])), MOST_CELLS)

    def _candidates(self, cells: float) -> tuple[list[Members], dict[Members, Groups]]:
        """Sets of attributes to measure; and for pairs with too many cells the groups that are counted."""
        fine = candidate_views(self.sizes, cells=cells, width=self.method.width, rng=self.rng)
        met = Coverage()
        for members in fine:
            met.add(members)
        coarse: dict[Members, Groups] = {
            pair: self._coarse(pair, int(cells))
            for pair in itertools.combinations(range(len(self.sizes)), 2)
            if pair not in met.pairs and cells >= LEAST_COARSE**2 and self.method.width > 1
        }
        return [*fine, *coarse], coarse

    def _coarse(self, pair: Members, cells: int) -> Groups:
        """Groups of the values of two attributes whose table has at most so many cells."""
        if self.long and self.long.issuperset(pair):
            cells = max(cells // FEWER_CELLS, LEAST_COARSE**2)
        side = math.isqrt(cells)
        first, second = (self.sizes[a] for a in pair)
        most = (cells // second, second) if second <= side else (min(first, side), cells // min(first, side))
        return tuple(
            coarse_groups(self._likely(a), size, self._groups_on_scale(a)) if size < self.sizes[a] else None
            for a, size in zip(pair, most, strict=True)
        )

    def choose(self) -> Members:
        """Steps 7 and 8."""
        if self.measured < len(self.first):
            return self.first[self.measured]  # which needs no look at the records
        fresh = self.coverage.freshest(self.candidates, self.rounds - self.measured)
        scores = np.array([self._misfit(members) for members in fresh], dtype=np.int64)
        names = [self._free_names(members) for members in fresh]
        return fresh[self.noise.choose(scores, self.for_choice, by=self.change.summed, targets=names)]

    def measure_view(self, members: Members) -> None:
        """Steps 9 and 10."""
        noisy = self._noisy(self._grouped(members), members, self.for_view)
        mended = project_to_simplex(noisy, self.n)
        groups = self.coarse.get(members, ())
        self._add(members, cells=noisy / self.n, mended=mended, part=self.for_view, groups=groups)
        self.coverage.add(members)
        self.measured += 1
        self.model = fit(self.views, self._start(), on_scale=self.on_scale, **ROUND_STEPS)

    def learned(self) -> Learned:
        """Steps 11 and 12, and replicates."""
        classes, fits = (self.method.classes, self.method.fits) if self._classes_tell_more() else (1, 1)
        starts = [random_start(self.sizes, classes, self.rng) for _ in range(fits)]
        steps = MORE_STEPS if self.long else LAST_STEPS
        fitted = [fit(self.views, start, on_scale=self.on_scale, **steps) for start in tracked(starts)]
        return learned_of(
            self.method,
            self.views,
            fitted,
            on_scale=self.on_scale,
            groups=self.groups,
            free=self.free,
            found=self.dependencies,
            coded=self.coded,
            noise=self.noise,
        )

    def _classes_tell_more(self) -> bool:
        """Whether the classes foretell joint tables better than independent attributes do.

        The coupled bootstrap (Oliveira, Lei, Tibshirani: Unbiased Risk Estimation in the Normal Means
        Problem, 2021): noise w of the known scale is added to the noisy tables t, t + w sqrt(c) is fitted and
        t - w / sqrt(c) foretold. The two are uncorrelated, as if the records had been measured twice.
        """
        joint = [len(view.members) > 1 for view in self.views]
        if self.method.classes == 1 or not any(joint):
            return False
        lead = 0.0
        for _ in range(REPEATS):
            fitted, foretold = [], []
            for view, is_joint in zip(self.views, joint, strict=True):
                noise = self.noise.imitated(self.rng, math.sqrt(2) * view.scale, view.cells.shape) * is_joint
                cells = view.cells + noise * COUPLING**0.5
                mended = project_to_simplex(cells, 1) if is_joint else view.mended
                fitted.append(replace(view, cells=cells, mended=mended))
                foretold.append(view.cells - noise / COUPLING**0.5)
            starts = [random_start(self.sizes, classes, self.rng) for classes in (1, self.method.classes)]
            models = [fit(fitted, start, on_scale=self.on_scale, **ROUND_STEPS) for start in starts]
            for view, cells, is_joint in zip(self.views, foretold, joint, strict=True):
                if is_joint:
                    off = [(m.marginal(view.members, view.groups) - cells) / view.scale for m in models]
                    lead += float((off[0] ** 2).sum() - (off[1] ** 2).sum())
        return lead > 0

    def _misfit(self, members: Members) -> int:
        expected = self.n * self.model.marginal(members, self.coarse.get(members, ()))
        rounded = np.rint(expected).astype(np.int64)
        return misfit_score(self._grouped(members), rounded, round(rounded.size * self.view_error))

    def _grouped(self, members: Members) -> Ints:
        """Counts over the groups of values, kept for the next round."""
        if members not in self.tables:
            counts = self._contingency(members)
            coarse = self.coarse.get(members, (None,) * len(members))
            for axis, (member, group_of) in enumerate(zip(members, coarse, strict=True)):
                counts = self.groups[member].sums(counts, axis)
                if group_of is not None:
                    counts = sums_by_group(counts, group_of, axis)
            self.tables[members] = counts
        return self.tables[members]

    def _contingency(self, members: Members) -> Ints:
        return contingency(self.records, [self.free[member] for member in members])

    def _on_scale(self, attribute: int) -> int:
        domain = self.coded.domains[self.free[attribute]]
        return domain.bins if isinstance(domain, BinnedDomain | DatedDomain) else 0

    def _long_scales(self) -> frozenset[int]:
        """Attributes on a long scale; none where they are one, or few among the others."""
        found = frozenset(a for a in range(len(self.free)) if self._on_scale(a) >= LONG_SCALE)
        return found if len(found) > max(1, MANY_LONG * len(self.free)) else frozenset()

    def _groups_on_scale(self, attribute: int) -> int:
        on_scale = self._on_scale(attribute)
        return int(self.groups[attribute].group_of[on_scale - 1]) + 1 if on_scale else 0

    def _likely(self, attribute: int) -> Floats:
        likely = self.likely[attribute]
        return np.ones(self.sizes[attribute]) if likely is None else likely

    def _noisy(self, counts: Ints, members: Members, part: float) -> Ints:
        return self.noise.add(counts, part, self.change, target=self._free_names(members))

    def _add(
        self, members: Members, *, cells: Floats, mended: Floats, part: float, groups: Groups = ()
    ) -> None:
        scale = self._scale(part, self.change) / self.n
        self.views.append(View(members=members, cells=cells, scale=scale, mended=mended, groups=groups))

    def _names(self, attributes: Sequence[int]) -> str:
        return ", ".join(self.coded.names[a] for a in attributes)

    def _free_names(self, members: Members) -> str:
        return self._names([self.free[member] for member in members])

    def _start(self) -> LatentClasses:
        return random_start(self.sizes, self.method.classes, self.rng)


def misfit_score(counts: Ints, expected: Ints, noise: int) -> int:
    """How far a table is from a model's, beyond the noise that measuring it would add.

    It changes by no more than the table does, `table_sensitivity` (triangle inequality). Tight: all cells
    that move may move away from their fixed numbers.

    Args:
        counts: of the records.
        expected: whole numbers of the same shape, made from noisy tables alone.
        noise: the expected sum of the noise over the cells, which the public sizes give.
    """
    return int(np.abs(counts - expected).sum()) - noise


def learned_of(
    method: LatentClass,
    views: Sequence[View],
    fitted: Sequence[LatentClasses],
    *,
    on_scale: Sequence[int],
    groups: Sequence[ValueGroups],
    free: Sequence[int],
    found: Sequence[Dependency],
    coded: CodedTable,
    noise: NoiseBudget,
) -> Learned:
    """Step 12, and replicates: the mean of the fits as a network. Of `coded` no record is read.

    Arguments as of `replicates_of` and `as_network`; ``noise`` is what the views were measured with.
    """
    model = with_single_values(mean_of(fitted), views)
    replicates = replicates_of(
        method,
        views,
        model,
        fitted,
        on_scale=on_scale,
        groups={coded.names[a]: g for a, g in zip(free, groups, strict=True)},
        imitated=noise.imitated,
    )
    network = as_network(model, groups, free, found, coded)
    return Learned(network=network, spends=tuple(noise.spends), replicates=replicates)


def replicates_of(
    method: LatentClass,
    views: Sequence[View],
    model: LatentClasses,
    fitted: Sequence[LatentClasses],
    *,
    on_scale: Sequence[int],
    groups: Mapping[str, ValueGroups],
    imitated: Imitated,
) -> ReplicateModels | None:
    """The same model of views noised once more; None where nobody asks, or they would be too large.

    Args:
        method: that says how many.
        views: that the model was fitted to.
        model: as it is released.
        fitted: the models that it is the mean of.
        on_scale: (d,) how many groups of each attribute lie on a scale.
        groups: attribute to the groups of its values, in the order of the model's tables.
        imitated: noise of the views' law.
    """
    count, classes = method.replicates, len(fitted[0].weights)
    values = sum(len(g.group_of) for g in groups.values())
    if not count or count * classes * values > MOST_PROBABILITIES:
        return None
    found = replicated(
        views,
        model,
        fitted,
        lambda noisy, start: fit(noisy, start, on_scale=on_scale, **REPLICATE_STEPS),
        imitated=imitated,
        count=count,
        rng=np.random.default_rng(REPLICATE_SEED),
    )
    names = list(groups)
    tables = zip(*(m.tables for m in found.models), strict=True)
    return ReplicateModels(
        weights=np.array([m.weights / m.weights.sum() for m in found.models]),
        tables={
            name: of_values.spread(np.array(table))
            for (name, of_values), table in zip(groups.items(), tables, strict=True)
        },
        misfit=found.misfit,
        unseen=found.unseen,
        together=tuple(tuple(names[m] for m in members) for members in found.together),
    )


def as_network(
    model: LatentClasses,
    groups: Sequence[ValueGroups],
    free: Sequence[int],
    found: Sequence[Dependency],
    coded: CodedTable,
) -> BayesianNetwork:
    """A model over groups of values as a network over values, with one hidden root.

    Attributes that others determine follow, the last found first: what determines may be determined itself.
    """
    hidden = hidden_name(coded.names)
    root = Node(attribute=hidden, table=model.weights / model.weights.sum())
    spread = [g.spread(table) for g, table in zip(groups, model.tables, strict=True)]
    children = [
        Node(attribute=coded.names[a], parents=(hidden,), table=table / table.sum(axis=1, keepdims=True))
        for a, table in zip(free, spread, strict=True)
    ]
    determined = [
        Node(
            attribute=coded.names[d.determined],
            parents=(coded.names[d.determining],),
            table=np.eye(coded.sizes[d.determined])[d.function],
        )
        for d in reversed(found)
    ]
    return BayesianNetwork(
        names=(*coded.names, hidden),
        sizes=(*coded.sizes, len(model.weights)),
        nodes=(root, *children, *determined),
    )


def hidden_name(names: Sequence[str]) -> str:
    """A name for the hidden root that no attribute has.

    >>> hidden_name(["age", "latent class"])
    'latent class_'
    """
    name = "latent class"
    while name in names:
        name += "_"
    return name
