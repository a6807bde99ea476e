"""Latent class models: marginals against enumeration, fitting against models that are known."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from privacy_engine.synthesizers.latent.latent_classes import (
    LatentClasses,
    View,
    _prior,
    em_step,
    fit,
    mean_of,
    misfit,
    random_start,
    uniform,
    with_single_values,
)

SIZES = (2, 3, 2, 4)


@st.composite
def models(draw: st.DrawFn) -> LatentClasses:
    """Models of one to five attributes and up to four classes."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_start(sizes, draw(st.integers(1, 4)), rng)


def by_enumeration(model: LatentClasses) -> np.ndarray:
    """The definition, cell by cell."""
    joint = np.zeros([table.shape[1] for table in model.tables])
    for cell in np.ndindex(*joint.shape):
        for k, weight in enumerate(model.weights):
            joint[cell] += weight * np.prod([t[k, x] for t, x in zip(model.tables, cell, strict=True)])
    return joint


def exact_view(model: LatentClasses, members: tuple[int, ...], scale: float = 1e-3) -> View:
    cells = model.marginal(members)
    return View(members=members, cells=cells, scale=scale, projected=cells)


def two_kinds_of_people() -> LatentClasses:
    """60 % answer mostly 0, 40 % mostly the last value."""
    rng = np.random.default_rng(1)
    low = [np.array([0.85, *rng.dirichlet(np.ones(s - 1)) * 0.15]) for s in SIZES]
    return LatentClasses(
        weights=np.array([0.6, 0.4]), tables=tuple(np.stack([row, row[::-1]]) for row in low)
    )


@given(models())
def test_a_marginal_is_the_sum_over_classes_and_the_other_attributes(model: LatentClasses) -> None:
    joint = by_enumeration(model)
    d = joint.ndim
    for size in range(1, d + 1):
        for members in itertools.combinations(range(d), size):
            expected = joint.sum(axis=tuple(a for a in range(d) if a not in members))
            assert np.allclose(model.marginal(members), expected)


@given(models(), models())
def test_the_mean_of_models_has_the_mean_of_their_marginals(a: LatentClasses, b: LatentClasses) -> None:
    small, large = sorted((a, b), key=lambda m: len(m.tables))
    if [t.shape[1] for t in small.tables] != [t.shape[1] for t in large.tables[: len(small.tables)]]:
        large = random_start([t.shape[1] for t in small.tables], 3, np.random.default_rng(0))
    cut = LatentClasses(weights=large.weights, tables=large.tables[: len(small.tables)])
    expected = (by_enumeration(small) + by_enumeration(cut)) / 2
    assert np.allclose(by_enumeration(mean_of([small, cut])), expected)


@settings(max_examples=30)
@given(models(), st.integers(0, 2**32 - 1))
def test_slopes_are_the_derivatives_of_the_misfit(model: LatentClasses, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = len(model.tables)
    members = [tuple(sorted(rng.choice(d, rng.integers(1, d + 1), replace=False).tolist())) for _ in range(3)]
    noisy = [model.marginal(m) + rng.normal(0, 0.1, [model.tables[a].shape[1] for a in m]) for m in members]
    views = [View(members=m, cells=c, scale=0.3, projected=c) for m, c in zip(members, noisy, strict=True)]
    parts = (model.weights, model.tables)
    _, slopes = misfit(views, parts)
    arrays = [model.weights, *model.tables]
    for array, slope in zip(arrays, slopes, strict=True):
        place = tuple(int(rng.integers(size)) for size in array.shape)
        before, step = array[place], 1e-6
        array[place] = before + step
        up = misfit(views, parts)[0]
        array[place] = before - step
        down = misfit(views, parts)[0]
        array[place] = before
        assert slope[place] == pytest.approx(before * (up - down) / (2 * step), rel=1e-3, abs=1e-6)


@settings(max_examples=30)
@given(models())
def test_em_raises_the_likelihood_of_the_views(model: LatentClasses) -> None:
    truth = random_start([t.shape[1] for t in model.tables], 2, np.random.default_rng(5))
    views = [exact_view(truth, tuple(range(len(model.tables))))]

    def likelihood(at: LatentClasses) -> float:
        return float((views[0].cells * np.log(at.marginal(views[0].members))).sum())

    # The pseudo-counts cost little against one whole record a view.
    assert likelihood(em_step(views, model)) >= likelihood(model) - 5e-3


def test_views_of_pairs_recover_a_model_they_do_not_hold_in_full() -> None:
    truth = two_kinds_of_people()
    views = [exact_view(truth, pair) for pair in itertools.combinations(range(4), 2)]
    start = random_start(SIZES, 2, np.random.default_rng(2))
    found = fit(views, start, em_steps=30, descent_steps=200)
    assert np.abs(found.marginal((0, 1, 2, 3)) - by_enumeration(truth)).max() < 5e-3
    assert np.sort(found.weights) == pytest.approx([0.4, 0.6], abs=0.02)


def test_a_fit_keeps_the_blas_to_one_thread_and_gives_the_others_back() -> None:
    """Threads that wait for each other over tiny systems cost many times what one thread needs."""
    seen = set()

    def blas_threads() -> set[int]:
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    class Watched(np.ndarray):
        def ravel(self, *_: object) -> np.ndarray:
            """Read in every step of the descent."""
            seen.update(blas_threads())
            return np.asarray(self).ravel()

    cells = two_kinds_of_people().marginal((0, 1))
    views = [View(members=(0, 1), cells=cells.view(Watched), scale=0.1, projected=cells)]
    with threadpool_limits(limits=2, user_api="blas"):
        fit(
            views,
            random_start(SIZES, 2, np.random.default_rng(6)),
            em_steps=1,
            descent_steps=2,
        )
        assert blas_threads() == {2}
    assert seen == {1}


def test_negative_noisy_cells_do_not_pull_the_fit_away() -> None:
    """Views of the same pair with much noise, of which about a third of the cells are negative."""
    truth = two_kinds_of_people()
    rng = np.random.default_rng(7)
    noise = rng.laplace(scale=0.2, size=(400, 2, 3))
    views = [
        View(
            members=(0, 1),
            cells=truth.marginal((0, 1)) + error,
            scale=0.2,
            projected=np.abs(truth.marginal((0, 1))),
        )
        for error in noise
    ]
    found = fit(
        views,
        random_start(SIZES, 3, np.random.default_rng(3)),
        em_steps=5,
        descent_steps=200,
    )
    assert np.abs(found.marginal((0, 1)) - truth.marginal((0, 1))).max() < 0.03


def test_noise_that_drowns_everything_leaves_independent_attributes() -> None:
    truth = two_kinds_of_people()
    views = [exact_view(truth, pair, scale=10.0) for pair in itertools.combinations(range(4), 2)]
    start = random_start(SIZES, 4, np.random.default_rng(4))
    found = fit(views, start, em_steps=0, descent_steps=300)
    product = np.multiply.outer(found.marginal((0,)), found.marginal((1,)))
    assert np.abs(found.marginal((0, 1)) - product).max() < 1e-3


def test_groups_of_values_have_the_sum_of_their_probabilities() -> None:
    model = two_kinds_of_people()
    pairs = np.array([0, 0, 1, 1])
    whole = by_enumeration(model).sum(axis=(0, 2))  # attributes 1 and 3
    expected = whole.reshape(3, 2, 2).sum(axis=2)
    assert np.allclose(model.marginal((1, 3), (None, pairs)), expected)


def test_a_view_of_groups_teaches_the_values_in_them_alike() -> None:
    """Pairs of values that always come in the same class: their groups tell all that there is to learn."""
    table = np.array([[0.45, 0.45, 0.05, 0.05], [0.1, 0.1, 0.4, 0.4]])
    truth = LatentClasses(weights=np.array([0.5, 0.5]), tables=(table, table))
    pairs = np.array([0, 0, 1, 1])
    joint = truth.marginal((0, 1), (pairs, pairs))
    alone = View(members=(0,), cells=truth.marginal((0,)), scale=1e-4, projected=truth.marginal((0,)))
    views = [
        View(members=(0, 1), cells=joint, scale=1e-4, projected=joint, groups=(pairs, pairs)),
        alone,
        replace(alone, members=(1,)),
    ]
    start = random_start((4, 4), 2, np.random.default_rng(8))
    found = fit(views, start, em_steps=30, descent_steps=200)
    assert np.abs(found.marginal((0, 1), (pairs, pairs)) - joint).max() < 5e-3
    assert np.abs(found.marginal((0, 1)) - truth.marginal((0, 1))).max() < 0.01


@pytest.mark.parametrize("on_scale", [0, 1, 4, 5])
def test_the_pull_of_the_prior_is_the_derivative_of_its_cost(on_scale: int) -> None:
    z = np.random.default_rng(9).normal(size=(3, 5))
    _, pull = _prior(z, on_scale)
    for place in np.ndindex(*z.shape):
        step = np.zeros_like(z)
        step[place] = 1e-6
        slope = (_prior(z + step, on_scale)[0] - _prior(z - step, on_scale)[0]) / 2e-6
        assert pull[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_on_a_scale_a_spike_in_one_class_costs_more_than_a_slope() -> None:
    spike, slope = np.zeros((2, 9)), np.zeros((2, 9))
    spike[0, 4] = 3.0
    slope[0] = np.linspace(0, 1, 9) * np.linalg.norm(spike - spike.mean()) / 2
    costs = [_prior(z, 9)[0] - _prior(z, 0)[0] for z in (spike, slope)]
    assert costs[0] > 20 * costs[1] > 0


def test_a_uniform_model_is_uniform() -> None:
    assert np.allclose(by_enumeration(uniform((2, 3))), np.full((2, 3), 1 / 6))


def test_single_values_are_what_the_views_say_of_them() -> None:
    """One class cannot hold two attributes that agree; each by itself it can."""
    single = np.array([0.7, 0.2, 0.06, 0.04])
    cells = np.diag(single)
    view = View(members=(0, 1), cells=cells, scale=1e-4, projected=cells)
    crooked = LatentClasses(weights=np.ones(1), tables=(np.array([[0.97, 0.01, 0.01, 0.01]]),) * 2)
    for table in with_single_values(crooked, [view]).tables:
        assert table[0] == pytest.approx(single, abs=1e-3)


def test_noise_moves_no_single_values() -> None:
    rng = np.random.default_rng(5)
    true = np.array([0.7, 0.2, 0.06, 0.04])
    model = LatentClasses(weights=np.ones(1), tables=(true[None, :],))
    moved = 0
    for _ in range(100):
        cells = true + rng.laplace(scale=0.01, size=4)
        view = View(members=(0,), cells=cells, scale=0.01, projected=cells)
        moved += not np.allclose(with_single_values(model, [view]).tables[0], true)
    assert moved <= 5


def test_dependencies_outlast_the_step_to_single_values() -> None:
    model = LatentClasses(
        weights=np.array([0.6, 0.4]), tables=(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.5, 0.5]] * 2))
    )
    cells = np.array([0.3, 0.7])
    moved = with_single_values(model, [View(members=(0,), cells=cells, scale=1e-5, projected=cells)])
    (a, b), (c, d) = moved.tables[0]
    assert a * d / (b * c) == pytest.approx(36)  # .9 * .8 / (.1 * .2)
    assert moved.weights == pytest.approx(model.weights)
    assert moved.marginal([0]) == pytest.approx(cells, abs=1e-3)
