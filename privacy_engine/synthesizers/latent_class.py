"""LatentClass: a latent class model fitted to a few noisy joint tables.

The recommended synthesizer. It answers the structure search of PrivBayes and DPSM-Bayes (Zhu, Xu, Ya) with
the observation that at the epsilons of a publication (.05 to 2) parent sets can hardly be told apart, while
one hidden variable carries most of what people's attributes have in common. The release is a Bayesian network
with one hidden root.

    1  e1, e2, e3 = parts of epsilon for single attributes, choices, views
    2  measure each attribute of more than 8 values, smooth, join rare values   discrete Laplace, e1 in all
    3  candidates = sets of attributes with at most n e_view / (2 theta) cells
    4  repeat `rounds` times:
    5      fresh = the candidates with the most unseen attributes and many new pairs
    6      V = the one of them whose table the model gets most wrong            noisy max, e2 / rounds
    7      measure the table of V                                               discrete Laplace, e3 / rounds
    8      fit the model to all that was measured
    9  release the mean of `fits` models, each fitted from a start of its own, as a network

Neighbour relation: one record replaced by any other, the number of records n public; or all records of one
person, see ``privacy_engine.dp.contributions``: everything that is noised is a table of counts, or changes by
no more than one does, so that a person's m records count m times. Steps 3, 5, 8, 9, the
smoothing and the joining read noisy tables and public sizes alone: post-processing. Steps 2, 6, 7 compose
sequentially.

Taken from others: views of several attributes that cover the pairs (Qardaji, Yang, Li: PriView, 2014);
choosing what the model gets most wrong (Hardt, Ligett, McSherry: MWEM, 2012; McKenna, Mullins, Sheldon,
Miklau: AIM, 2022); joining rare values (McKenna, Miklau, Sheldon: MST, 2021); a mixture of product
distributions fitted to noisy marginals by gradients (Aydore et al.: Relaxed Adaptive Projection, 2021; Liu,
Vietri, Wu: Iterative Methods for Private Synthetic Data, 2021). Ours: few classes, started by EM and drawn
together by a prior in the units of the known noise; a mean of several fits; views restricted to those that
bring new pairs; pure epsilon under replacement, and every number that a claim rests on an integer.

One set of defaults for all tables, chosen on a few splits of NLTCS and Adult (16 bins) with an eye on ACS: so
figures on these tables are somewhat too good for a table that was never tried.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import laplace_counts, laplace_scale, noisy_max, noisy_max_scale, split
from privacy_engine.progress import portion, tracked
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.latent_classes import (
    LatentClasses,
    View,
    fit,
    mean_of,
    random_start,
    uniform,
)
from privacy_engine.synthesizers.postprocess import likely_values, project_to_simplex
from privacy_engine.synthesizers.rare_values import ValueGroups
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.synthesizers.view_design import Coverage, Members, candidate_views
from privacy_engine.tables.domains import BinnedDomain, CodedTable, DatedDomain
from privacy_engine.tables.marginals import WeightedRecords, contingency, table_sensitivity

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Of candidates and starting points: they look random, are the same each time, and hide nothing.
SEED = 20261120
NARROW = 8  # values up to which an attribute is not measured by itself: joint tables say enough of it
ENOUGH = 20  # scales of noise in the mean count of an attribute: from there on joint tables need it more
SMALL_VIEW = 16  # cells that a view should hold at least, such as those of four binary attributes
MOST_CELLS = 2048  # of a view: bounds the time of the fits
RARE = 1.5  # standard deviations of noise that a value's count must exceed to stand alone
ROUND_STEPS = {"em_steps": 10, "descent_steps": 30}
LAST_STEPS = {"em_steps": 30, "descent_steps": 100}


@dataclass(frozen=True, kw_only=True)
class LatentClass(Synthesizer):
    """Views chosen where the model errs, discrete Laplace noise, a latent class model fitted to them.

    Attributes:
        classes: hidden classes of one fitted model, >= 1; 1 makes the attributes independent.
        fits: models of the released mean, >= 1.
        rounds: views measured, >= 1; None = as many as are useful, at most three for every two attributes.
        width: most attributes of a view, >= 1.
        theta: least ratio of a view's mean cell to its noise, > 0: bounds its cells.
        attribute_share: most of epsilon that goes to the attributes of many values, in (0, 1).
        selection_share: part of the rest that chooses views, in (0, 1).
    """

    classes: int = 16
    fits: int = 4
    rounds: int | None = None
    width: int = 5
    theta: float = 3.0
    attribute_share: float = 0.4
    selection_share: float = 0.1
    key: ClassVar[str] = "latent_class"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("classes", "fits", "rounds", "width"):
            value = getattr(self, name)
            if not (type(value) is int and value >= 1) and not (name == "rounds" and value is None):
                raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
        if type(self.theta) not in (int, float) or not 0 < self.theta < math.inf:
            raise ValueError(f"theta must be a finite number > 0, got {self.theta!r}")
        for name in ("attribute_share", "selection_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}")

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Measure, choose and fit, as in the box above."""
        run = Run(self, coded)
        run.measure_attributes()
        run.plan_views()
        with portion(0.7):
            for _ in tracked(range(run.rounds)):
                run.measure_view(run.choose())
        with portion(0.3):
            return run.network(), tuple(run.spends)


class Run:
    """One run of the algorithm: the books, the views so far and the model fitted to them.

    Records are read by ``measure_attributes``, ``choose`` and ``measure_view`` alone, and what they read
    passes through a mechanism.
    """

    def __init__(self, method: LatentClass, coded: CodedTable) -> None:
        self.method = method
        self.coded = coded
        self.records = WeightedRecords.of(coded)
        self.n = len(coded)
        self.sensitivity = table_sensitivity(coded)
        self.wide = [a for a, size in enumerate(coded.sizes) if size > NARROW]
        self.for_attributes, rest = self._attribute_epsilons()
        self.for_choices, self.for_views = split(rest, (method.selection_share, 1 - method.selection_share))
        self.most_rounds = method.rounds or math.ceil(1.5 * len(coded.sizes))
        # The least part that any step can need: refused, if at all, before any noise is drawn.
        least = min(*self.for_attributes, split(self.for_choices, [1] * self.most_rounds)[0], math.inf)
        noisy_max_scale(epsilon=least, sensitivity=self.sensitivity)
        self.rng = np.random.default_rng(SEED)
        self.groups = [ValueGroups.single(size) for size in coded.sizes]
        self.views: list[View] = []
        self.spends: list[Spend] = []
        self.coverage = Coverage()

    def _attribute_epsilons(self) -> tuple[tuple[float, ...], float]:
        """Epsilon of each attribute of many values, and what is left of the whole."""
        epsilon = self.method.epsilon
        sizes = [self.coded.sizes[a] for a in self.wide]
        if not sizes:
            return (), epsilon
        share = min(self.method.attribute_share, ENOUGH * self.sensitivity * sum(sizes) / (self.n * epsilon))
        part, rest = split(epsilon, (share, 1 - share))
        return split(part, [math.sqrt(size) for size in sizes]), rest  # sqrt: least sum of all cells' errors

    def measure_attributes(self) -> None:
        """Step 2."""
        for attribute, epsilon in zip(self.wide, self.for_attributes, strict=True):
            noisy = self._noisy(contingency(self.records, (attribute,)), (attribute,), epsilon)
            domain = self.coded.domains[attribute]
            likely = likely_values(
                noisy,
                self.n,
                scale=laplace_scale(epsilon=epsilon, sensitivity=self.sensitivity),
                on_scale=domain.bins if isinstance(domain, BinnedDomain | DatedDomain) else 0,
            )
            groups = ValueGroups.joining_rare(noisy, likely, RARE * self._deviation(epsilon))
            self.groups[attribute] = groups
            grouped: Floats = np.bincount(groups.group_of, likely).astype(np.float64)
            self._add((attribute,), cells=grouped, mended=grouped, epsilon=epsilon)
            self.coverage.add((attribute,))

    def plan_views(self) -> None:
        """Step 3: the number of rounds, their parts of epsilon, the candidates."""
        self.sizes = [groups.size for groups in self.groups]
        useful = self.n * self.for_views / (self.sensitivity * self.method.theta)  # cells, in all rounds
        narrow = sorted(self.sizes[a] for a in range(len(self.sizes)) if a not in self.wide)
        typical = max((sum(self.sizes) / len(self.sizes)) ** 2, SMALL_VIEW)  # a pair's cells
        fitting = min(max(int(useful / typical), math.ceil(len(narrow) / 2), 1), self.most_rounds)
        self.rounds = self.method.rounds or fitting
        self.for_choice = split(self.for_choices, [1] * self.rounds)[0]
        self.for_view = split(self.for_views, [1] * self.rounds)[0]
        self.view_scale = laplace_scale(epsilon=self.for_view, sensitivity=self.sensitivity)
        # Any two attributes that were not measured by themselves fit, so that none is left out.
        cells = min(max(useful / self.rounds, math.prod(narrow[-2:])), MOST_CELLS)
        self.candidates = candidate_views(self.sizes, cells=cells, width=self.method.width, rng=self.rng)
        self.measured = 0
        self.tables: dict[Members, Ints] = {}
        self.model = fit(self.views, self._start(), **ROUND_STEPS) if self.views else uniform(self.sizes)

    def choose(self) -> Members:
        """Steps 5 and 6."""
        fresh = self.coverage.freshest(self.candidates, self.rounds - self.measured)
        scores = np.array([self._misfit(members) for members in fresh], dtype=np.int64)
        chosen = fresh[noisy_max(scores, epsilon=self.for_choice, sensitivity=self.sensitivity)]
        self._book("noisy_max", chosen, self.for_choice)
        return chosen

    def measure_view(self, members: Members) -> None:
        """Steps 7 and 8."""
        noisy = self._noisy(self._grouped(members), members, self.for_view)
        mended = project_to_simplex(noisy, self.n)
        self._add(members, cells=noisy / self.n, mended=mended, epsilon=self.for_view)
        self.coverage.add(members)
        self.measured += 1
        self.model = fit(self.views, self._start(), **ROUND_STEPS)

    def network(self) -> BayesianNetwork:
        """Step 9."""
        starts = [self._start() for _ in range(self.method.fits)]
        model = mean_of([fit(self.views, start, **LAST_STEPS) for start in tracked(starts)])
        return as_network(model, self.groups, self.coded)

    def _misfit(self, members: Members) -> int:
        expected = np.rint(self.n * self.model.marginal(members)).astype(np.int64)
        return misfit_score(self._grouped(members), expected, round(expected.size * self.view_scale))

    def _grouped(self, members: Members) -> Ints:
        """Counts over the groups of values, kept for the next round."""
        if members not in self.tables:
            counts = contingency(self.records, members)
            for axis, member in enumerate(members):
                counts = self.groups[member].sums(counts, axis)
            self.tables[members] = counts
        return self.tables[members]

    def _noisy(self, counts: Ints, members: Members, epsilon: float) -> Ints:
        self._book("discrete_laplace", members, epsilon)
        return laplace_counts(counts, epsilon=epsilon, sensitivity=self.sensitivity)

    def _add(self, members: Members, *, cells: Floats, mended: Floats, epsilon: float) -> None:
        deviation = self._deviation(epsilon) / self.n
        self.views.append(View(members=members, cells=cells, deviation=deviation, mended=mended))

    def _book(self, mechanism: str, members: Members, epsilon: float) -> None:
        scale_of = laplace_scale if mechanism == "discrete_laplace" else noisy_max_scale
        spend = Spend(
            mechanism=mechanism,
            target=", ".join(self.coded.names[member] for member in members),
            epsilon=epsilon,
            sensitivity=self.sensitivity,
            scale=scale_of(epsilon=epsilon, sensitivity=self.sensitivity),
        )
        self.spends.append(spend)

    def _deviation(self, epsilon: float) -> float:
        """Standard deviation of the noise of a cell: sqrt(2) scales, as of continuous Laplace noise."""
        return math.sqrt(2) * laplace_scale(epsilon=epsilon, sensitivity=self.sensitivity)

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


def as_network(model: LatentClasses, groups: Sequence[ValueGroups], coded: CodedTable) -> BayesianNetwork:
    """A model over groups of values as a network over values, with one hidden root."""
    hidden = hidden_name(coded.names)
    root = Node(attribute=hidden, table=model.weights / model.weights.sum())
    spread = [g.spread(table) for g, table in zip(groups, model.tables, strict=True)]
    children = [
        Node(attribute=name, parents=(hidden,), table=table / table.sum(axis=1, keepdims=True))
        for name, table in zip(coded.names, spread, strict=True)
    ]
    return BayesianNetwork(
        names=(*coded.names, hidden), sizes=(*coded.sizes, len(model.weights)), nodes=(root, *children)
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
