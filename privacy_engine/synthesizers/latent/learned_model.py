"""Steps 11 and 12 of LatentClass: the released model, only from noisy tables, and its replicates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.progress import tracked
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.dependencies import Dependency
from privacy_engine.synthesizers.latent.large_attributes import LargeAttributes
from privacy_engine.synthesizers.latent.latent_classes import (
    LatentClasses,
    View,
    fit,
    random_start,
)
from privacy_engine.synthesizers.latent.parts import MOST_TOGETHER, Part, connected, small_parts, views_within
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.related_pairs import WIDE
from privacy_engine.synthesizers.latent.replicates import SEED as REPLICATE_SEED
from privacy_engine.synthesizers.latent.replicates import STEPS as REPLICATE_STEPS
from privacy_engine.synthesizers.latent.replicates import Imitated, replicated
from privacy_engine.synthesizers.latent.unmeasured_pairs import implied_views
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes
from privacy_engine.synthesizers.postprocess import project_to_simplex
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable

Floats = npt.NDArray[np.float64]

CLASSES = (8, 16, 32, 64)  # numbers of classes of one model, of which the best is taken
TYPICAL_CLASSES = 16  # while views are chosen, and of the parts of a wide table
MOST_CLASSES = 256  # of all models of a part together: more models of few classes than of many
REPEATS, COUPLING = 2, 0.3  # of the comparison of numbers of classes, and how much noise it adds
MANY_TABLES = 8 * REPEATS  # from which on their differences show how clear a sum of them is
CLEARLY_WORSE = 2.0  # standard errors of the difference between two numbers of classes
MOST_PROBABILITIES = 500_000  # of all replicates together: some megabytes of the stored model
PARTS_FITS = 4  # times fewer fits of each part, where there are several
ROUND_STEPS = {"em_steps": 15, "descent_steps": 40}
LAST_STEPS = {"em_steps": 30, "descent_steps": 100}
MORE_STEPS = {"em_steps": 100, "descent_steps": 100}  # a ridge along two long scales takes EM longer


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """All that was measured: what steps 1 to 10 found.

    Attributes:
        inputs: Inputs of the run; from here on no record is read.
        found: Dependencies, in the order in which they were found.
        attributes: The free attributes.
        views: Noisy tables, those of single attributes first.
        checks: In a wide table, the noisy tables of other pairs, by which its model is chosen; else None.
        large: Attributes that are drawn last; the inputs have groups of their values, or not even these.
    """

    inputs: Inputs
    found: tuple[Dependency, ...]
    attributes: GroupedAttributes
    views: tuple[View, ...]
    checks: tuple[View, ...] | None = None
    large: LargeAttributes = field(default_factory=LargeAttributes)


def learn_model(measured: Measurement, *, classes: int | None, fits: int, replicates: int) -> Learned:
    """Steps 11 and 12, and replicates.

    Args:
        measured: Results of steps 1 to 10.
        classes: Number of hidden classes, as for `LatentClass`.
        fits: Number of models whose mean is released, as for `LatentClass`.
        replicates: Number of replicates, as for `LatentClass`; 0: none.
    """
    inputs, attributes = measured.inputs, measured.attributes
    together = connected(measured.views, len(attributes.sizes))
    steps = MORE_STEPS if attributes.long else LAST_STEPS
    if measured.checks is None:
        choice = ClassChoice.of(
            measured.views,
            together,
            attributes.sizes,
            attributes.on_scale,
            classes=classes,
            imitated=inputs.noise.imitated,
            rng=inputs.rng,
        )
    else:
        wide = TYPICAL_CLASSES if classes is None else classes
        checked = [part for members in together for part in _checked(measured, members, wide)]
        choice = ClassChoice(classes=wide, predicting=tuple(checked if wide > 1 else ()))
        if len(checked) > 1:  # each is small; their number bounds the time
            steps, fits = ROUND_STEPS, math.ceil(fits / PARTS_FITS)
    if len(attributes.sizes) > WIDE and steps is not ROUND_STEPS:
        fits = math.ceil(fits * WIDE / len(attributes.sizes))
    parts = fitted_parts(
        (*measured.views, *(measured.checks or ())),
        attributes.sizes,
        attributes.on_scale,
        choice,
        fits=fits,
        steps=steps,
        rng=inputs.rng,
    )
    return learned_of(
        parts,
        on_scale=attributes.on_scale,
        groups=attributes.groups,
        free=attributes.plan.free,
        found=measured.found,
        coded=inputs.coded,
        noise=inputs.noise,
        replicates=replicates,
    )


@dataclass(frozen=True, kw_only=True)
class ClassChoice:
    """Which attributes have classes, and how many.

    Attributes:
        classes: Number of classes of each part.
        predicting: Disjoint sets of attributes whose joint tables classes predict. All others are
            independent.
        implied: Those of them that are fitted to the tables of `unmeasured_pairs` as well.
    """

    classes: int
    predicting: tuple[Members, ...]
    implied: frozenset[Members] = frozenset()

    @classmethod
    def of(
        cls,
        views: Sequence[View],
        together: Sequence[Members],
        sizes: Sequence[int],
        on_scale: Sequence[int],
        *,
        classes: int | None,
        imitated: Imitated,
        rng: np.random.Generator,
    ) -> Self:
        """Step 11: the number of classes that predicts noisy tables best, or nearly so with fewer classes.

        The coupled bootstrap (Oliveira, Lei, Tibshirani: Unbiased Risk Estimation in the Normal Means
        Problem, 2021): noise w of the known scale is added to the noisy tables t. The model is fitted to
        t + w sqrt(c) and must predict t - w / sqrt(c). Both are uncorrelated, as if the records had been
        measured twice.

        Args:
            views: Noisy tables of these attributes.
            together: Disjoint sets of attributes that views connect.
            sizes: Number of values of each attribute.
            on_scale: Number of leading values of each attribute that lie on a scale.
            classes: Number of classes, as for `LatentClass`; where one class predicts better, a set has none.
            imitated: Function that draws noise of the views' distribution.
            rng: Draws the noise that is added, and the starts.
        """
        counts = [count for count in (CLASSES if classes is None else (classes,)) if count > 1]
        missed, implied = dict[Members, dict[int, list[float]]](), set[Members]()
        for members in together if counts else ():
            own, own_sizes, own_scale = within(views, sizes, on_scale, members)
            if implied_views(own, own_sizes, own_scale):
                implied.add(members)
            missed[members] = {count: [] for count in (1, *counts)}
            for _ in range(REPEATS):
                fitted, predicted = _coupled(own, imitated, rng)
                if members in implied:
                    fitted += implied_views(fitted, own_sizes, own_scale, only_if_close=False)
                for count, found in missed[members].items():
                    start = random_start(own_sizes, count, rng)
                    model = fit(fitted, start, on_scale=own_scale, **ROUND_STEPS)
                    found.extend(_misses(model, own, predicted))
        fewest = _fewest(
            {
                count: [of[1 if sum(of[1]) < sum(of[count]) else count] for of in missed.values()]
                for count in counts
            }
        )
        predicting = tuple(members for members, of in missed.items() if sum(of[fewest]) < sum(of[1]))
        return cls(classes=fewest, predicting=predicting, implied=frozenset(implied.intersection(predicting)))


def _fewest(missed: Mapping[int, Sequence[Sequence[float]]]) -> int:
    """The least number of classes that does not predict tables clearly worse than the best number does.

    A few tables do not show by how much tables differ: for these, the best number is taken.

    Args:
        missed: For each number of classes, what its models miss of each table, by sets of attributes.
    """
    tables = {count: np.concatenate([[], *of]) for count, of in missed.items()}
    if not any(of.size for of in tables.values()):
        return 1
    most = min(tables, key=lambda count: float(tables[count].sum()))
    for count in sorted(tables):
        worse = tables[count] - tables[most]
        if worse.sum() <= CLEARLY_WORSE * math.sqrt(worse.size) * worse.std():
            return count if worse.size >= MANY_TABLES else most
    return most


def fitted_parts(
    views: Sequence[View],
    sizes: Sequence[int],
    on_scale: Sequence[int],
    choice: ClassChoice,
    *,
    fits: int,
    steps: Mapping[str, int],
    rng: np.random.Generator,
) -> list[Part]:
    """Step 12: the models of each part.

    Args:
        views: Noisy tables of these attributes.
        sizes: Number of values of each attribute.
        on_scale: Number of leading values of each attribute that lie on a scale.
        choice: Parts and their classes.
        fits: Most models of a part.
        steps: Steps of a fit.
        rng: Draws the starts.
    """
    parts = []
    fits = max(1, min(fits, MOST_CLASSES // choice.classes))
    for members, classes, own_fits in shared(sizes, choice.predicting, choice.classes, fits):
        own, own_sizes, own_scale = within(views, sizes, on_scale, members)
        is_implied = members in choice.implied
        together = (*own, *(implied_views(own, own_sizes, own_scale) if is_implied else ()))
        starts = [random_start(own_sizes, classes, rng) for _ in range(own_fits)]
        fitted = [fit(together, start, on_scale=own_scale, **steps) for start in tracked(starts)]
        parts.append(Part(members=members, views=own, fitted=tuple(fitted), is_implied=is_implied))
    return parts


def within(
    views: Sequence[View], sizes: Sequence[int], on_scale: Sequence[int], members: Members
) -> tuple[tuple[View, ...], list[int], list[int]]:
    """The views, sizes and scales of some attributes, which are numbered by their order among these."""
    return views_within(views, members), [sizes[m] for m in members], [on_scale[m] for m in members]


def shared(
    sizes: Sequence[int], connected: Sequence[Members], classes: int, fits: int
) -> list[tuple[Members, int, int]]:
    """The attributes of each part, its number of classes and of fits: one of each where all are independent.

    Args:
        sizes: Number of values of each attribute.
        connected: Disjoint sets of attributes that are fitted together.
        classes: Number of classes of a part, as for `LatentClass`.
        fits: Number of models of a part, as for `LatentClass`.
    """
    met = {member for members in connected for member in members}
    rest = tuple(a for a in range(len(sizes)) if a not in met)
    return [*((members, classes, fits) for members in connected), *([(rest, 1, 1)] if rest else [])]


def _misses(model: LatentClasses, views: Sequence[View], predicted: Sequence[Floats]) -> list[float]:
    """For each joint table to predict, the sum of squares that a model misses, in units of the noise."""
    return [
        float((((model.marginal(view.members, view.groups) - cells) / view.scale) ** 2).sum())
        for view, cells in zip(views, predicted, strict=True)
        if len(view.members) > 1
    ]


def _checked(measured: Measurement, members: Members, classes: int) -> list[Members]:
    """Attributes that views connect, or small parts of them if these predict other pairs better."""
    attributes, checks = measured.attributes, views_within(measured.checks or (), members)
    if len(members) <= MOST_TOGETHER:
        return [members]
    views = views_within(measured.views, members)
    small = small_parts(views, len(members))
    found: list[float] = []
    for sets in ([tuple(range(len(members)))], small):
        of_part: dict[int, tuple[int, int, LatentClasses]] = {}
        for number, part in enumerate(sets):
            of = [members[m] for m in part]
            sizes, on_scale = ([o[m] for m in of] for o in (attributes.sizes, attributes.on_scale))
            start = random_start(sizes, classes, measured.inputs.rng)
            model = fit(views_within(views, part), start, on_scale=on_scale, **ROUND_STEPS)
            of_part |= {member: (number, place, model) for place, member in enumerate(part)}
        found.append(sum(_missed(view, of_part, views) for view in checks))
    return [members] if found[0] < found[1] else [tuple(members[m] for m in part) for part in small]


def _missed(
    view: View, of_part: Mapping[int, tuple[int, int, LatentClasses]], views: Sequence[View]
) -> float:
    """Sum of squares, in units of the noise, that models of parts miss of the table of a pair."""
    groups = view.groups or (None, None)
    places = [of_part.get(member) for member in view.members]
    first, second = places
    if first is not None and second is not None and first[0] == second[0]:
        expected = first[2].marginal([first[1], second[1]], groups)
    else:
        alone = [next(v.cells for v in views if v.members == (member,)) for member in view.members]
        expected = np.multiply.outer(
            *(c if g is None else np.bincount(g, c) for c, g in zip(alone, groups, strict=True))
        )
    return float((((expected - view.cells) / view.scale) ** 2).sum())


def _coupled(
    views: Sequence[View], imitated: Imitated, rng: np.random.Generator
) -> tuple[tuple[View, ...], list[Floats]]:
    """Views to fit, and cells to predict; the noise of tables of single attributes is not raised."""
    fitted, predicted = [], []
    for view in views:
        is_joint = len(view.members) > 1
        noise = imitated(rng, math.sqrt(2) * view.scale, view.cells.shape) * is_joint
        cells = view.cells + noise * COUPLING**0.5
        projected = project_to_simplex(cells, 1) if is_joint else view.projected
        fitted.append(replace(view, cells=cells, projected=projected))
        predicted.append(view.cells - noise / COUPLING**0.5)
    return tuple(fitted), predicted


def learned_of(
    parts: Sequence[Part],
    *,
    on_scale: Sequence[int],
    groups: Sequence[ValueGroups],
    free: Sequence[int],
    found: Sequence[Dependency],
    coded: CodedTable,
    noise: NoiseBudget,
    replicates: int,
) -> Learned:
    """Step 12, and replicates: the mean of the fits as a network. Of `coded` no record is read.

    Arguments as for `replicates_of` and `as_network`; ``noise`` is the budget that measured the views.
    """
    models = [part.model() for part in parts]
    found_again = replicates_of(
        parts,
        models,
        count=replicates,
        on_scale=on_scale,
        groups={coded.names[a]: g for a, g in zip(free, groups, strict=True)},
        imitated=noise.imitated,
    )
    network = as_network(
        [(p.members, m) for p, m in zip(parts, models, strict=True)], groups, free, found, coded
    )
    return Learned(network=network, spends=tuple(noise.spends), replicates=found_again)


def replicates_of(
    parts: Sequence[Part],
    models: Sequence[LatentClasses],
    *,
    count: int,
    on_scale: Sequence[int],
    groups: Mapping[str, ValueGroups],
    imitated: Imitated,
) -> ReplicateModels | None:
    """Fit the model of views with noise added once more; None if none are requested, or they are too large.

    Args:
        parts: Parts with the views that they were fitted to.
        models: Model of each part that is released.
        count: Number of replicates.
        on_scale: Number of groups of each attribute that lie on a scale, shape (d,).
        groups: Groups of the values of each attribute by its name, in the order of the model's tables.
        imitated: Noise distributed as that of the views.
    """
    classes = parts[0].classes
    values = sum(len(g.group_of) for g in groups.values())
    if not count or count * classes * values > MOST_PROBABILITIES:
        return None
    rng = np.random.default_rng(REPLICATE_SEED)
    made = [
        replicated(
            part.views,
            model,
            part.fitted,
            partial(_fit_again, part=part, on_scale=[on_scale[m] for m in part.members]),
            imitated=imitated,
            count=count,
            rng=rng,
        )
        for part, model in zip(parts, models, strict=True)
    ]
    sizes = [len(part.members) for part in parts]
    names, tables = list(groups), {}
    for part, again in zip(parts, made, strict=True):
        for i, member in enumerate(part.members):
            table = groups[names[member]].spread(np.array([m.tables[i] for m in again.models]))
            tables[names[member]] = np.repeat(table, classes // part.classes, axis=1)
    several = [(part, again) for part, again in zip(parts, made, strict=True) if part.classes == classes]
    weights = np.array([[m.weights / m.weights.sum() for m in again.models] for _, again in several])
    return ReplicateModels(
        weights=weights[0] if len(several) == 1 else weights.swapaxes(0, 1),
        tables={name: tables[name] for name in names},
        misfit=tuple(np.average([again.misfit for again in made], axis=0, weights=sizes).tolist()),
        unseen=max(again.unseen for again in made),
        together=tuple(
            tuple(names[part.members[m]] for m in members)
            for part, again in zip(parts, made, strict=True)
            for members in again.together
        ),
        parts=tuple(tuple(names[m] for m in part.members) for part, _ in several[1:]),
    )


def _fit_again(
    noisy: Sequence[View], start: LatentClasses, *, part: Part, on_scale: Sequence[int]
) -> LatentClasses:
    """Fit a replicate of a part."""
    sizes = [table.shape[1] for table in start.tables]
    implied = implied_views(noisy, sizes, on_scale, only_if_close=False) if part.is_implied else ()
    return fit((*noisy, *implied), start, on_scale=on_scale, **REPLICATE_STEPS)


def as_network(
    models: Sequence[tuple[Members, LatentClasses]],
    groups: Sequence[ValueGroups],
    free: Sequence[int],
    found: Sequence[Dependency],
    coded: CodedTable,
) -> BayesianNetwork:
    """Models over groups of values as a network over values, with a hidden root each.

    Attributes that depend on no class are children of the first root, with equal distributions. Attributes
    that others determine follow, the last found first: what determines may be determined itself.

    Args:
        models: Attributes of each part and its model; one of a single class comes last, if there are several.
        groups: Groups of the values of each free attribute.
        free: Numbers of the free attributes.
        found: Dependencies, in the order in which they were found.
        coded: Table of which names and sizes are read.
    """
    roots: list[Node] = []
    children: list[Node] = []
    for members, model in models:
        weights = model.weights / model.weights.sum()
        if not roots or len(weights) > 1:
            roots.append(
                Node(attribute=hidden_name([*coded.names, *(r.attribute for r in roots)]), table=weights)
            )
        root = roots[-1] if len(weights) > 1 else roots[0]
        for member, table in zip(members, model.tables, strict=True):
            spread = groups[member].spread(np.repeat(table, len(root.table) // len(table), axis=0))
            children.append(
                Node(
                    attribute=coded.names[free[member]],
                    parents=(root.attribute,),
                    table=spread / spread.sum(axis=1, keepdims=True),
                )
            )
    determined = [
        Node(
            attribute=coded.names[d.determined],
            parents=(coded.names[d.determining],),
            table=np.eye(coded.sizes[d.determined])[d.function],
        )
        for d in reversed(found)
    ]
    return BayesianNetwork(
        names=(*coded.names, *(root.attribute for root in roots)),
        sizes=(*coded.sizes, *(len(root.table) for root in roots)),
        nodes=(*roots, *children, *determined),
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
