"""Steps 11 and 12 of LatentClass: the released model, only from noisy tables, and its replicates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.progress import tracked
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.dependencies import Dependency
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
from privacy_engine.synthesizers.latent.view_design import Members
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes
from privacy_engine.synthesizers.postprocess import project_to_simplex
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable

Floats = npt.NDArray[np.float64]

REPEATS, COUPLING = 2, 0.3  # of the comparison with independent attributes, and how much noise it adds
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
    """

    inputs: Inputs
    found: tuple[Dependency, ...]
    attributes: GroupedAttributes
    views: tuple[View, ...]
    checks: tuple[View, ...] | None = None


def learn_model(measured: Measurement, *, classes: int, fits: int, replicates: int) -> Learned:
    """Steps 11 and 12, and replicates.

    Args:
        measured: Results of steps 1 to 10.
        classes: Number of hidden classes, as for `LatentClass`.
        fits: Number of models whose mean is released, as for `LatentClass`.
        replicates: Number of replicates, as for `LatentClass`; 0: none.
    """
    inputs, attributes = measured.inputs, measured.attributes
    predicting = predicting_sets(measured, classes)
    steps = MORE_STEPS if attributes.long else LAST_STEPS
    if measured.checks is not None and len(predicting) > 1:  # each is small; their number bounds the time
        steps, fits = ROUND_STEPS, math.ceil(fits / PARTS_FITS)
    elif len(attributes.sizes) > WIDE:
        fits = math.ceil(fits * WIDE / len(attributes.sizes))
    parts = []
    for members, own_classes, own_fits in shared(attributes.sizes, predicting, classes, fits):
        views = views_within((*measured.views, *(measured.checks or ())), members)
        sizes, on_scale = ([of[m] for m in members] for of in (attributes.sizes, attributes.on_scale))
        starts = [random_start(sizes, own_classes, inputs.rng) for _ in range(own_fits)]
        fitted = [fit(views, start, on_scale=on_scale, **steps) for start in tracked(starts)]
        parts.append(Part(members=members, views=views, fitted=tuple(fitted)))
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


def predicting_sets(measured: Measurement, classes: int) -> list[Members]:
    """Sets of attributes that views connect, and whose joint tables classes predict better than none do.

    The coupled bootstrap (Oliveira, Lei, Tibshirani: Unbiased Risk Estimation in the Normal Means Problem,
    2021): noise w of the known scale is added to the noisy tables t. The model is fitted to t + w sqrt(c) and
    must predict t - w / sqrt(c). Both are uncorrelated, as if the records had been measured twice.
    """
    inputs, attributes = measured.inputs, measured.attributes
    together = connected(measured.views, len(attributes.sizes))
    if classes == 1:
        return []
    if measured.checks is not None:
        return [part for members in together for part in _checked(measured, members, classes)]
    predicting = []
    for members in together:
        views = views_within(measured.views, members)
        sizes, on_scale = ([of[m] for m in members] for of in (attributes.sizes, attributes.on_scale))
        lead = 0.0
        for _ in range(REPEATS):
            fitted, predicted = _coupled(inputs, views)
            models = [
                fit(fitted, random_start(sizes, count, inputs.rng), on_scale=on_scale, **ROUND_STEPS)
                for count in (1, classes)
            ]
            for view, cells in zip(views, predicted, strict=True):
                if len(view.members) > 1:
                    off = [(m.marginal(view.members, view.groups) - cells) / view.scale for m in models]
                    lead += float((off[0] ** 2).sum() - (off[1] ** 2).sum())
        if lead > 0:
            predicting.append(members)
    return predicting


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


def _coupled(inputs: Inputs, views: Sequence[View]) -> tuple[list[View], list[Floats]]:
    """Views to fit, and cells to predict; the noise of tables of single attributes is not raised."""
    fitted, predicted = [], []
    for view in views:
        is_joint = len(view.members) > 1
        noise = inputs.noise.imitated(inputs.rng, math.sqrt(2) * view.scale, view.cells.shape) * is_joint
        cells = view.cells + noise * COUPLING**0.5
        projected = project_to_simplex(cells, 1) if is_joint else view.projected
        fitted.append(replace(view, cells=cells, projected=projected))
        predicted.append(view.cells - noise / COUPLING**0.5)
    return fitted, predicted


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
            lambda noisy, start, part=part: fit(  # type: ignore[misc]
                noisy, start, on_scale=[on_scale[m] for m in part.members], **REPLICATE_STEPS
            ),
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
