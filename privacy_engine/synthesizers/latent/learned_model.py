"""Steps 11 and 12 of LatentClass: the released model, only from noisy tables, and its replicates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.progress import tracked
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.dependencies import Dependency
from privacy_engine.synthesizers.latent.latent_classes import (
    LatentClasses,
    View,
    fit,
    mean_of,
    random_start,
    with_single_values,
)
from privacy_engine.synthesizers.latent.rare_values import ValueGroups
from privacy_engine.synthesizers.latent.replicates import SEED as REPLICATE_SEED
from privacy_engine.synthesizers.latent.replicates import STEPS as REPLICATE_STEPS
from privacy_engine.synthesizers.latent.replicates import Imitated, replicated
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes
from privacy_engine.synthesizers.postprocess import project_to_simplex
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable

REPEATS, COUPLING = 2, 0.3  # of the comparison with independent attributes, and how much noise it adds
MOST_PROBABILITIES = 500_000  # of all replicates together: some megabytes of the stored model
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
    """

    inputs: Inputs
    found: tuple[Dependency, ...]
    attributes: GroupedAttributes
    views: tuple[View, ...]


def learn_model(measured: Measurement, *, classes: int, fits: int, replicates: int) -> Learned:
    """Steps 11 and 12, and replicates.

    Args:
        measured: Results of steps 1 to 10.
        classes: Number of hidden classes, as for `LatentClass`.
        fits: Number of models whose mean is released, as for `LatentClass`.
        replicates: Number of replicates, as for `LatentClass`; 0: none.
    """
    inputs, attributes = measured.inputs, measured.attributes
    if not classes_predict_more(measured, classes):
        classes, fits = 1, 1
    steps = MORE_STEPS if attributes.long else LAST_STEPS
    fitted = [
        fit(measured.views, start, on_scale=attributes.on_scale, **steps)
        for start in tracked(_starts(measured, [classes] * fits))
    ]
    return learned_of(
        measured.views,
        fitted,
        on_scale=attributes.on_scale,
        groups=attributes.groups,
        free=attributes.plan.free,
        found=measured.found,
        coded=inputs.coded,
        noise=inputs.noise,
        replicates=replicates,
    )


def classes_predict_more(measured: Measurement, classes: int) -> bool:
    """Return whether the classes predict joint tables better than independent attributes do.

    The coupled bootstrap (Oliveira, Lei, Tibshirani: Unbiased Risk Estimation in the Normal Means Problem,
    2021): noise w of the known scale is added to the noisy tables t. The model is fitted to t + w sqrt(c) and
    must predict t - w / sqrt(c). Both are uncorrelated, as if the records had been measured twice.
    """
    inputs, views = measured.inputs, measured.views
    joint = [len(view.members) > 1 for view in views]
    if classes == 1 or not any(joint):
        return False
    lead = 0.0
    for _ in range(REPEATS):
        fitted, predicted = [], []
        for view, is_joint in zip(views, joint, strict=True):
            noise = inputs.noise.imitated(inputs.rng, math.sqrt(2) * view.scale, view.cells.shape) * is_joint
            cells = view.cells + noise * COUPLING**0.5
            projected = project_to_simplex(cells, 1) if is_joint else view.projected
            fitted.append(replace(view, cells=cells, projected=projected))
            predicted.append(view.cells - noise / COUPLING**0.5)
        models = [
            fit(fitted, start, on_scale=measured.attributes.on_scale, **ROUND_STEPS)
            for start in _starts(measured, (1, classes))
        ]
        for view, cells, is_joint in zip(views, predicted, joint, strict=True):
            if is_joint:
                off = [(m.marginal(view.members, view.groups) - cells) / view.scale for m in models]
                lead += float((off[0] ** 2).sum() - (off[1] ** 2).sum())
    return lead > 0


def _starts(measured: Measurement, classes: Sequence[int]) -> list[LatentClasses]:
    """Starting points with these numbers of classes."""
    return [random_start(measured.attributes.sizes, count, measured.inputs.rng) for count in classes]


def learned_of(
    views: Sequence[View],
    fitted: Sequence[LatentClasses],
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
    model = with_single_values(mean_of(fitted), views)
    found_again = replicates_of(
        views,
        model,
        fitted,
        count=replicates,
        on_scale=on_scale,
        groups={coded.names[a]: g for a, g in zip(free, groups, strict=True)},
        imitated=noise.imitated,
    )
    network = as_network(model, groups, free, found, coded)
    return Learned(network=network, spends=tuple(noise.spends), replicates=found_again)


def replicates_of(
    views: Sequence[View],
    model: LatentClasses,
    fitted: Sequence[LatentClasses],
    *,
    count: int,
    on_scale: Sequence[int],
    groups: Mapping[str, ValueGroups],
    imitated: Imitated,
) -> ReplicateModels | None:
    """Fit the model of views with noise added once more; None if none are requested, or they are too large.

    Args:
        views: Views that the model was fitted to.
        model: Model that is released.
        fitted: Models whose mean is the released one.
        count: Number of replicates.
        on_scale: Number of groups of each attribute that lie on a scale, shape (d,).
        groups: Groups of the values of each attribute by its name, in the order of the model's tables.
        imitated: Noise distributed as that of the views.
    """
    classes = len(fitted[0].weights)
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
