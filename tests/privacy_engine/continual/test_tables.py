"""Tables over a whole period: what all noisy rows together tell of a person who is in every release."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

from privacy_engine.continual import tables
from privacy_engine.continual.strategies import Kind, Strategy, strategy
from privacy_engine.continual.tables import ContinualTables, Known
from privacy_engine.dp.mechanisms import gaussian_counts

RUNS, RHO, WEEKS = 1_000, 8.0, 8
Path = list[int]


def released(made: Strategy, path: Path, rho: float = RHO) -> ContinualTables:
    """RUNS independent releases of a table of two cells that holds one person, side by side."""
    held = ContinualTables.begun(made, [rho], [2 * RUNS])
    for cell in path:
        held = held.after([np.tile(np.eye(2, dtype=np.int64)[cell], RUNS)])
    return held


def shown_rho(made: Strategy, path: Path, other: Path) -> float:
    """The rho that the best test for these two histories shows: the likelihood ratio of Gaussian noise.

    Its statistic has means that are d apart and a variance v, with rho = d^2 / 2 v. Of twice 1,000 runs d is
    off by more than 7 % and v by more than 19 % once in 1e9 each: 6 of their standard deviations at rho = 8.
    """
    apart = (made.rows @ (np.eye(2)[path] - np.eye(2)[other])).ravel()
    statistics = []
    for history in (path, other):
        noisy = released(made, history).noisy[0]
        statistics.append(noisy.reshape(len(noisy), RUNS, 2).transpose(1, 0, 2).reshape(RUNS, -1) @ apart)
    mean = statistics[0].mean() - statistics[1].mean()
    return float(mean**2 / (statistics[0].var() + statistics[1].var()))


TOLERANCE = 1.45  # of the estimate above: one false alarm in a billion

# Two people who swap places, for kinds with a bound of one change; and who differ in all weeks.
SWAP = ([0] * 5 + [1] * 3, [1] * 5 + [0] * 3)
ALWAYS = ([0] * WEEKS, [1] * WEEKS)


@pytest.mark.parametrize(
    ("kind", "changes", "pair"),
    [(Kind.EACH_WEEK, None, ALWAYS), (Kind.TREE, 1, SWAP), (Kind.SQUARE_ROOT, 1, SWAP)],
)
def test_all_weeks_together_show_at_least_half_of_the_claim_and_no_more_than_it(
    kind: Kind, changes: int | None, pair: tuple[Path, Path]
) -> None:
    shown = shown_rho(strategy(kind, WEEKS, changes), *pair)
    assert shown >= RHO / 2
    assert shown <= RHO * TOLERANCE


def test_half_of_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def quiet(counts: npt.NDArray[np.int64], *, rho: float, squared_sensitivity: int) -> object:
        return gaussian_counts(counts, rho=4 * rho, squared_sensitivity=squared_sensitivity)

    monkeypatch.setattr(tables, "gaussian_counts", quiet)
    assert shown_rho(strategy(Kind.SQUARE_ROOT, WEEKS, 1), *SWAP) > RHO * TOLERANCE


def test_more_changes_than_the_bound_are_caught() -> None:
    # Swaps every week, where one was paid for: who is not frozen is told apart.
    often = ([0, 1] * 4, [1, 0] * 4)
    assert shown_rho(strategy(Kind.TREE, WEEKS, 1), *often) > RHO * TOLERANCE


def test_a_sensitivity_that_forgets_levels_of_the_tree_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = strategy(Kind.TREE, WEEKS, 1).squared_sensitivity
    monkeypatch.setattr(Strategy, "squared_sensitivity", right // 4)
    assert shown_rho(strategy(Kind.TREE, WEEKS, 1), *SWAP) > RHO * TOLERANCE


def test_a_row_is_noised_once() -> None:
    made = strategy(Kind.TREE, 4, 1)
    held = [ContinualTables.begun(made, [0.5], [3])]
    for _ in range(4):
        held.append(held[-1].after([np.array([5, 0, 7])]))
    for earlier, later in itertools.pairwise(held):
        assert (later.noisy[0][: len(earlier.noisy[0])] == earlier.noisy[0]).all()
    assert [len(h.noisy[0]) for h in held] == [0, 1, 3, 4, 7]
    with pytest.raises(ValueError, match="all of them were made"):
        held[-1].after([np.array([5, 0, 7])])


@pytest.mark.parametrize("kind", Kind)
def test_the_estimates_are_off_by_what_they_say(kind: Kind) -> None:
    # 1,500 cells of equal noise: the mean square is off by more than 25 % once in 1e10 (6.8 deviations).
    held = ContinualTables.begun(strategy(kind, 8, 1), [0.05], [1500])
    exact = np.arange(1500) % 50
    for _ in range(7):
        held = held.after([exact])
    (told,) = held.estimates(smoothed=False)
    assert math.isclose(float(((told.cells - exact) ** 2).mean()), told.variance, rel_tol=0.25)
    (smooth,) = held.estimates()
    assert float(((smooth.cells - exact) ** 2).mean()) < told.variance


def test_what_was_known_before_is_used() -> None:
    made = strategy(Kind.SQUARE_ROOT, 8, 1)
    known = [Known(cells=np.full(10, 100.0), variance=0.01)]
    held = ContinualTables.begun(made, [0.001], [10], known).after([np.full(10, 100)])
    (told,) = held.estimates()
    assert told.variance <= 0.01
    assert np.allclose(told.cells, 100, atol=0.01)


def test_the_books_tell_one_mechanism_a_table_for_all_releases() -> None:
    made = strategy(Kind.TREE, 52, 1)
    held = ContinualTables.begun(made, [0.25, 0.5], [3, 4])
    assert held.rho == 0.75
    first, second = held.spends(["age", "age, sex"])
    assert (first.target, first.rho, second.rho) == ("age", 0.25, 0.5)
    assert first.sensitivity == made.squared_sensitivity
    assert not first.is_too_quiet


@pytest.mark.parametrize(
    ("rhos", "sizes", "told"),
    [([0.1], [3, 4], "one rho a table"), ([0.0], [3], "rho must be"), ([math.nan], [3], "rho must be")],
)
def test_wrong_parts_are_refused(rhos: list[float], sizes: list[int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ContinualTables.begun(strategy(Kind.TREE, 4, 1), rhos, sizes)


def test_other_tables_are_refused() -> None:
    held = ContinualTables.begun(strategy(Kind.TREE, 4, 1), [0.1], [3])
    with pytest.raises(ValueError, match="those of the first release"):
        held.after([np.array([1, 2])])
    with pytest.raises(ValueError, match="at most 2"):
        held.after([np.array([1, 2, 2**50])])
