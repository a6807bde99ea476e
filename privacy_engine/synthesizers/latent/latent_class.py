"""LatentClass: a latent class model fitted to a few noisy joint tables.

The recommended synthesizer. It answers the structure search of PrivBayes and DPSM-Bayes (Zhu, Xu, Ya) with
the observation that at the epsilons of a publication (.05 to 2) parent sets can hardly be distinguished,
while one hidden variable carries most of what people's attributes have in common. The release is a Bayesian
network with one hidden root.

     1  parts of epsilon, or rho, for dependencies, single attributes, choices, views
     2  find attributes that others determine, and derive them                noisy max, noise
     3  measure each attribute of more than 8 values, smooth, join rare values                   noise
     4  candidates = sets of attributes with at most n e_view / (theta sensitivity) cells; pairs with more
        cells over groups of their values
     5  first: disjoint sets that hold each attribute that was not measured in step 3
     6  repeat, as often as the candidates bring new pairs and the budget allows:
     7      fresh = the candidates with many new pairs
     8      V = the one of them whose table the model gets most wrong                        noisy max
     9      measure the table of V                                                               noise
    10      fit the model to all that was measured
    11  the number of classes of 8 .. 64 that predicts noisy tables best; one class if independent attributes
        predict them better; tables of the pairs that no view holds, as a tree of the measured pairs implies
        them, unless the tree misses measured pairs by more than their noise
    12  release the mean of `fits` models, each fitted from a separate start, its single attributes moved to
        the values in all tables unless noise explains the difference, as a network

A table with nominal attributes of 100 values or more first follows the box of ``large_search``. All steps
here then read groups of their values, or not even these, and spend what is left.

If not even a single attribute exceeds the noise, the whole budget goes to single attributes. So does all that
is left before step 3 if dependences are worth less than what views cost single attributes (``view_worth``),
unless ``rounds`` is given. A table of more than 32 attributes follows the box of ``related_pairs`` instead of
steps 3 to 10, unless most of its pairs depend on each other. Sets of attributes that no view connects have
separate classes.

With Gaussian noise and few records, step 3 measures every attribute: sums over a view of many cells have more
noise than the same part spent on its attributes, as noise adds in squares there.

Neighbour relation: one record replaced by any other, the number of records n public; or all records of one
person, see ``privacy_engine.dp.contributions``: everything with noise is a table of counts, or changes by at
most a known multiple of such a table's change, so a person's m records count m times. Steps 4, 5, 7, 10 to
12, the smoothing and the joining only read noisy tables and public sizes: post-processing. Steps 2, 3, 8 and
9, and T of ``view_worth``, compose sequentially. If step 2 finds no dependency, later steps spend its
remainder, and T decides on the parts of later steps. So parts depend only on noisy results, and their sum
never exceeds epsilon, which is all that pure epsilon requires of parts that are chosen on the way (Rogers,
Roth, Ullman, Vadhan: Privacy Odometers and Filters, 2016).

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

If more than a third of the attributes are on scales of 32 values or more, by the schema, pairs of these are
counted over groups four times as coarse, and EM takes more steps: a ridge in 10,000 noisy cells shows in few
of them. Of a correlation of .95 between two scales of 100 values, .87 remains at epsilon 1, instead of .67;
on Adult's age, hours and weight in 64 bins with three other attributes nothing changes. With twelve others,
the distance of marginals would grow by 3 % with groups three times as coarse, and by 10 % with eight times:
so this is not done if such scales are few.

One set of defaults for all tables. The shares of the budget were chosen on a few splits of NLTCS and Adult
(16 bins), so figures on these two are somewhat better than for a new table; the number of classes and the
tables of unmeasured pairs (step 11) on generated tables of twelve forms. At epsilon 1.6 with a delta these
two reduce the 3-way distance of eleven of the twelve, by up to 47 % (blocks of five attributes, .071 to
.038).

Sources of error, on one split of Adult with all 15 columns at epsilon .8, 3-way total variation distance of
the model with 32 classes and 4 fits: .103 in total; .071 from the same tables without their noise; .052 from
all pairs without noise; .025 for a bootstrap sample of the records. So both the noise of the tables and the
pairs that are in none of them cost more than the form of the model.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import Neighbours, PrivacyLoss, rounded_down
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.dp.zcdp import epsilon_of_part
from privacy_engine.progress import portion, tracked
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.latent import dependencies
from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs, Search
from privacy_engine.synthesizers.latent.dependencies import Dependency, candidates
from privacy_engine.synthesizers.latent.large_attributes import LargeAttributes
from privacy_engine.synthesizers.latent.large_search import LargeShare, find_large, without_large
from privacy_engine.synthesizers.latent.latent_classes import (
    LatentClasses,
    View,
    fit,
    random_start,
    uniform,
)
from privacy_engine.synthesizers.latent.learned_model import (
    ROUND_STEPS,
    TYPICAL_CLASSES,
    Measurement,
    learn_model,
)
from privacy_engine.synthesizers.latent.noisy_tables import measure_attributes, measure_view, misfit_score
from privacy_engine.synthesizers.latent.pair_tables import measure_pairs
from privacy_engine.synthesizers.latent.related_pairs import WIDE, Figures, figures_part
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan
from privacy_engine.synthesizers.latent.view_worth import worthwhile
from privacy_engine.synthesizers.synthesizer import Learned, Synthesizer, check_whole
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.schema import DataSchema

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

REFIT = 1.1  # factor by which the views of a wide table grow from one fit to the next
CLEARLY_MORE = 1.1  # times the noise, from which on a delta is warned of


@dataclass(frozen=True, kw_only=True)
class LatentClass(Synthesizer):
    """Fit a latent class model to a few noisy tables, chosen where it errs most: the recommended synthesizer.

    Views are chosen where the model errs and measured with noise; the claim is epsilon, or (epsilon,
    delta).

    Attributes:
        delta: Delta of the claim: 0 for pure epsilon; > 0 and far below 1 over the number of persons, such
            as 1e-9, for (epsilon, delta) with Gaussian noise, which is less for records of more than
            eight attributes or so, and more for those of four.
        classes: Number of hidden classes of one fitted model, >= 1; 1 makes the attributes independent. None
            for the one of 8, 16, 32 and 64 that predicts noisy tables best, which needs no epsilon.
        fits: Number of models whose mean is released, >= 1; fewer where they would have more than 256 classes
            together.
        rounds: Number of views (tables of a few attributes) that are measured, >= 1, where the budget is
            enough for any; more where an attribute would be in none. None for as many as are useful, at
            most three for every two attributes.
        width: Most attributes of a view, >= 1.
        theta: Least ratio of a view's mean cell to its noise, > 0: bounds its cells.
        attribute_share: Largest part of epsilon that goes to the attributes of many values, in (0, 1).
        selection_share: Part of the rest that chooses views, in (0, 1).
        rules: Most functional dependencies that are searched for, 0 .. 5.
        replicates: Number of models that are fitted to the noisy tables with noise added once more, which
            give answers intervals; 0 for none, else 2 .. 100. They cost no epsilon. Answers about attributes
            of 100 nominal values or more have none.
    """

    delta: float = 0.0
    classes: int | None = None
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
        self._loss_of(by_person=False)  # raises for an epsilon that is too small for any noise at this delta
        for name in ("classes", "fits", "rounds", "width"):
            value = getattr(self, name)
            if not (type(value) is int and value >= 1) and not (
                name in ("classes", "rounds") and value is None
            ):
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

    def noise_warnings(self, schema: DataSchema) -> list[str]:
        """Return a warning if the delta raises the noise of single attributes clearly."""
        attributes, change = len(schema.without_identifiers().attributes), Change.of_table(1)
        noise = [own.noise() for own in (self, replace(self, delta=0.0))]
        with_delta, pure = (own.deviation(own.whole / attributes, change) for own in noise)
        if with_delta < CLEARLY_MORE * pure:
            return []
        return [
            f"with {attributes} attributes, noise at delta {self.delta:g} is {with_delta / pure:.1f} times "
            "the noise without a delta at the same epsilon. Leave the delta out, unless the losses of many "
            "releases are added up"
        ]

    @property
    def round_classes(self) -> int:
        """Number of classes while views are chosen."""
        return self.classes or TYPICAL_CLASSES

    def noise(self) -> NoiseBudget:
        """What a measurement may spend: epsilon, or the rho that implies (epsilon, delta)."""
        return NoiseBudget.of(self._loss_of(by_person=False))

    def measurement_parameters(self) -> dict[str, Any]:
        """As for any synthesizer, without a delta of 0, and with the classes by which views are chosen.

        So a measurement keeps its name in the books: the number of classes of the released model is chosen
        after it, from its noisy tables.
        """
        parameters = super().measurement_parameters() | {"classes": self.round_classes}
        return (
            parameters
            if self.delta
            else {name: value for name, value in parameters.items() if name != "delta"}
        )

    def plan_of(self, inputs: Inputs, free: Sequence[int], whole: float) -> BudgetPlan:
        """Split a part of the budget among the steps for these attributes."""
        return BudgetPlan.of(
            inputs,
            free,
            whole,
            attribute_share=self.attribute_share,
            selection_share=self.selection_share,
            rounds=self.rounds,
        )

    def views_of(self, inputs: Inputs, attributes: GroupedAttributes) -> ViewPlan:
        """Plan which views of these attributes to measure."""
        return ViewPlan.of(inputs, attributes, rounds=self.rounds, width=self.width, theta=self.theta)

    def measured(self, coded: CodedTable) -> Measurement:
        """Steps 1 to 10 of the box above.

        Only `find_large`, `find_dependencies` and `measure_attributes`, through `Inputs.counts` and
        `PartnerSearch.table`, `Figures.of` and `worthwhile`, through `excess_dependences`, and `choose` and
        `measure_view`, through `ViewPlan.counts`, read the records. What they read passes through a
        mechanism.
        """
        inputs = Inputs.of(coded, self.noise())
        share, large = LargeShare.of(inputs), LargeAttributes()
        search = Search.of(inputs, self.rules, share.rest if share else inputs.noise.whole)  # 1
        self.plan_of(inputs, range(len(coded.sizes)), search.rest).require_enough(inputs)
        if share is not None:
            large, left = find_large(inputs, share)
            inputs = without_large(inputs, large)
            search = Search.of(inputs, self.rules, left)
        found, left = find_dependencies(inputs, search)  # 2
        determined = {dependency.determined for dependency in found}
        free = [a for a in range(len(inputs.coded.sizes)) if a not in determined]
        plan = self.plan_of(inputs, free, left)
        is_wide = plan.joint and len(free) > WIDE and self.width > 1
        if is_wide:
            on_figures, left = figures_part(left)
            figures = Figures.of(inputs, free, on_figures)
            if not figures.are_everywhere(len(free), inputs.n):
                attributes, pairs, checks = measure_pairs(inputs, free, left, figures)
                return Measurement(
                    inputs=inputs,
                    found=found,
                    attributes=attributes,
                    views=pairs,
                    checks=checks,
                    large=large,
                )
            plan = self.plan_of(inputs, free, left)
        elif plan.joint and self.rounds is None and self.width > 1:
            plan = worthwhile(inputs, plan, left, plan_of=self.plan_of, views_of=self.views_of)
        attributes = measure_attributes(inputs, plan)  # 3
        views = self.views_of(inputs, attributes)  # 4, 5
        counts = cache(partial(views.counts, inputs))
        classes = self.round_classes
        fitted = FittedViews.of(inputs, views, attributes.views, classes)
        for number in tracked(range(views.rounds)):  # 6
            if number < len(views.first):
                members = views.first[number]  # without reading the records
            else:
                members = choose(inputs, views, fitted, number, counts)  # 7, 8
            measured = measure_view(inputs, views, members, counts)  # 9
            fitted = fitted.with_view(inputs, views, measured, classes, often=not is_wide)  # 10
        return Measurement(inputs=inputs, found=found, attributes=attributes, views=fitted.views, large=large)

    def learned_from(self, measured: Measurement) -> Learned:
        """Steps 11 and 12, and replicates."""
        learned = learn_model(measured, classes=self.classes, fits=self.fits, replicates=self.replicates)
        return learned._replace(network=measured.large.restored(learned.network))

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Measure, choose and fit, as in the box above."""
        learned = replace(self, replicates=0).learn_replicated(coded)
        return learned.network, learned.spends

    def learn_replicated(self, coded: CodedTable) -> Learned:
        """The same, and replicates of the model."""
        with portion(0.7):
            measured = self.measured(coded)
        with portion(0.3):
            return self.learned_from(measured)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedViews:
    """The tables that were measured so far, and the model fitted to them.

    Attributes:
        views: Noisy tables, those of single attributes first.
        model: The model; uniform as long as there is no table, or if there are to be none of several
            attributes.
        seen: Number of views that the model was fitted to.
    """

    views: tuple[View, ...]
    model: LatentClasses
    seen: int = 0

    @classmethod
    def of(cls, inputs: Inputs, plan: ViewPlan, views: tuple[View, ...], classes: int) -> Self:
        """Step 10: fit the model again, from a new start."""
        attributes = plan.attributes
        if not views or not plan.rounds:
            return cls(views=views, model=uniform(attributes.sizes))
        start = random_start(attributes.sizes, classes, inputs.rng)
        model = fit(views, start, on_scale=attributes.on_scale, **ROUND_STEPS)
        return cls(views=views, model=model, seen=len(views))

    def with_view(self, inputs: Inputs, plan: ViewPlan, view: View, classes: int, *, often: bool) -> Self:
        """One more view; if not ``often``, the model is only fitted again once there are a tenth more."""
        views = (*self.views, view)
        if often or len(views) >= REFIT * self.seen:
            return type(self).of(inputs, plan, views, classes)
        return replace(self, views=views)


def find_dependencies(inputs: Inputs, search: Search) -> tuple[tuple[Dependency, ...], float]:
    """Step 2: return the dependencies, and the remaining budget."""
    left, found = Fraction(search.whole), list[Dependency]()
    for _ in range(search.rules):
        pair = _likeliest_dependency(inputs, found, search.choice)
        if pair is None:
            break
        left -= Fraction(search.choice) + Fraction(search.test)
        if not _holds(inputs, pair, search.test):
            break
        left -= Fraction(search.function)
        found.append(_dependency(inputs, pair, search.function))
    return tuple(found), rounded_down(left)


def _likeliest_dependency(inputs: Inputs, found: Sequence[Dependency], part: float) -> tuple[int, int] | None:
    pairs = candidates(inputs.coded.sizes, [d.determined for d in found])
    if not pairs:
        return None
    scores = [dependencies.score(inputs.counts(pair), inputs.n) for pair in pairs]
    chosen = inputs.noise.choose(
        np.array(scores, dtype=np.int64),
        part,
        by=dependencies.SCORE_SENSITIVITY * inputs.coded.each,
        targets=[inputs.names(pair) for pair in pairs],
    )
    return pairs[chosen]


def _holds(inputs: Inputs, pair: tuple[int, int], part: float) -> bool:
    exceptions = np.array([inputs.n - dependencies.kept(inputs.counts(pair))])
    noisy = inputs.noise.add(exceptions, part, inputs.exception, target=inputs.names(pair))
    scale = inputs.scale(part, inputs.exception)
    return bool(noisy[0] <= dependencies.TOLERANCE * inputs.n + dependencies.CLEAR * scale)


def _dependency(inputs: Inputs, pair: tuple[int, int], part: float) -> Dependency:
    noisy = inputs.noise.add(inputs.counts(pair), part, inputs.change, target=inputs.names(pair))
    determining, determined = pair
    function = noisy.argmax(axis=1).astype(np.int64)
    return Dependency(determining=determining, determined=determined, function=function)


def choose(
    inputs: Inputs, plan: ViewPlan, fitted: FittedViews, number: int, counts: Callable[[Members], Ints]
) -> Members:
    """Steps 7 and 8: the fresh candidate whose table the model gets most wrong.

    Args:
        inputs: Inputs of the run.
        plan: Plan with the candidate views.
        fitted: Model fitted to the views so far.
        number: Number of views measured so far.
        counts: Table of the records of a view.
    """
    covered = plan.attributes.coverage(fitted.views)
    fresh = covered.freshest(plan.candidates, plan.rounds - number)
    scores = []
    for members in fresh:
        expected = inputs.n * fitted.model.marginal(members, plan.grouping.get(members, ()))
        rounded = np.rint(expected).astype(np.int64)
        scores.append(misfit_score(counts(members), rounded, round(rounded.size * plan.view_error)))
    names = [plan.names(inputs, members) for members in fresh]
    chosen = inputs.noise.choose(
        np.array(scores, dtype=np.int64), plan.for_choice, by=inputs.change.summed, targets=names
    )
    return fresh[chosen]
