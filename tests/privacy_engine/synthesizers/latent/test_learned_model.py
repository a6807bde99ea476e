"""The number of classes: as many as noisy tables require, and no more."""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from privacy_engine.synthesizers.latent.latent_classes import LatentClasses, View, random_start
from privacy_engine.synthesizers.latent.learned_model import (
    LAST_STEPS,
    MOST_CLASSES,
    ClassChoice,
    _fewest,
    fitted_parts,
)
from privacy_engine.synthesizers.postprocess import project_to_simplex

Floats = npt.NDArray[np.float64]
DEVIATION = 1e-4


def normal(rng: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Floats:
    return rng.normal(0, deviation, shape)


def noisy_pairs(tables: dict[tuple[int, int], Floats], rng: np.random.Generator) -> list[View]:
    views = []
    for members, exact in tables.items():
        cells = exact + normal(rng, DEVIATION, exact.shape)
        projected = project_to_simplex(cells, 1)
        views.append(View(members=members, cells=cells, scale=DEVIATION / 2**0.5, projected=projected))
    return views


def pairs_of(model: LatentClasses) -> dict[tuple[int, int], Floats]:
    pairs = itertools.combinations(range(len(model.tables)), 2)
    return {pair: model.marginal(pair) for pair in pairs}


def choice(views: Sequence[View], sizes: Sequence[int], classes: int | None = None) -> ClassChoice:
    return ClassChoice.of(
        views,
        [tuple(range(len(sizes)))],
        sizes,
        (0,) * len(sizes),
        classes=classes,
        imitated=normal,
        rng=np.random.default_rng(7),
    )


def test_few_groups_of_people_need_few_classes() -> None:
    rng = np.random.default_rng(1)
    sizes = (3, 4, 3, 5, 4)
    found = choice(noisy_pairs(pairs_of(random_start(sizes, 3, rng)), rng), sizes)
    assert found.classes <= 16
    assert found.predicting == ((0, 1, 2, 3, 4),)


def test_a_ridge_along_many_values_needs_many_classes() -> None:
    rng = np.random.default_rng(2)
    ridge = 0.9 * np.eye(24) / 24 + 0.1 / 24**2
    independent = np.full((24, 2), 1 / 48)
    views = noisy_pairs({(0, 1): ridge, (0, 2): independent, (1, 2): independent}, rng)
    assert choice(views, (24, 24, 2)).classes >= 32


def test_independent_attributes_have_no_classes() -> None:
    rng = np.random.default_rng(3)
    sizes = (3, 4, 3, 5)
    found = choice(noisy_pairs(pairs_of(random_start(sizes, 1, rng)), rng), sizes)
    assert (found.predicting, found.implied) == ((), frozenset())


def test_one_class_asks_for_no_comparison() -> None:
    assert choice([], (2, 2), classes=1) == ClassChoice(classes=1, predicting=())


def test_fewer_classes_are_taken_unless_they_miss_clearly_more() -> None:
    rng = np.random.default_rng(4)
    best = rng.normal(100, 1, 40)
    assert _fewest({8: [best + rng.normal(0.1, 1, 40)], 64: [best]}) == 8
    assert _fewest({8: [best + rng.normal(2.0, 1, 40)], 64: [best]}) == 64


@pytest.mark.parametrize(("classes", "models"), [(8, 8), (32, 8), (64, 4), (300, 1)])
def test_the_more_classes_a_model_has_the_fewer_models_are_fitted(classes: int, models: int) -> None:
    rng = np.random.default_rng(5)
    views = noisy_pairs(pairs_of(random_start((2, 2), 2, rng)), rng)
    steps = {"em_steps": 1, "descent_steps": 1}
    chosen = ClassChoice(classes=classes, predicting=((0, 1),))
    (part,) = fitted_parts(views, (2, 2), (0, 0), chosen, fits=8, steps=steps, rng=rng)
    assert len(part.fitted) == models
    assert classes * models <= max(MOST_CLASSES, classes)


def test_what_no_view_holds_follows_the_tree_where_it_is_used() -> None:
    """A chain of three attributes: its ends correlate, though no view holds both."""
    rng = np.random.default_rng(6)
    given = 0.85 * np.eye(6) + 0.15 / 6
    joint = np.einsum("ab,bc->abc", given / 6, given)
    views = noisy_pairs({(0, 1): joint.sum(axis=2), (1, 2): joint.sum(axis=0)}, rng)
    off = {}
    for is_implied in (False, True):
        sets = ((0, 1, 2),)
        chosen = ClassChoice(classes=32, predicting=sets, implied=frozenset(sets if is_implied else ()))
        (part,) = fitted_parts(
            views, (6,) * 3, (0,) * 3, chosen, fits=2, steps=LAST_STEPS, rng=np.random.default_rng(8)
        )
        off[is_implied] = float(np.abs(part.model().marginal((0, 2)) - joint.sum(axis=1)).sum())
    assert off[True] < off[False] / 2
