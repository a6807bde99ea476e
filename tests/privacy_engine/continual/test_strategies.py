"""What is noised over a year, and how much of it changes with one person: against brute force."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from privacy_engine.continual.strategies import UNIT, Kind, Strategy, strategy

CELLS = 3
Floats = npt.NDArray[np.float64]


def histories(releases: int, changes: int) -> Floats:
    """(h, releases, CELLS) every history of at most so many changes, as unit vectors; absent is none."""
    states = np.vstack([np.eye(CELLS), np.zeros((1, CELLS))])
    paths = itertools.product(range(CELLS + 1), repeat=releases)
    kept = [p for p in paths if sum(a != b for a, b in itertools.pairwise(p)) <= changes]
    return np.asarray(states[np.array(kept)])


def largest_change(rows: npt.NDArray[np.int64], changes: int) -> tuple[float, float]:
    """Over all pairs of histories: the largest sum of squares, and of absolute values."""
    measured = np.einsum("mt,htc->hmc", rows.astype(float), histories(rows.shape[1], changes))
    flat = measured.reshape(len(measured), -1)
    apart = flat[:, None] - flat[None]
    return float((apart**2).sum(-1).max()), float(np.abs(apart).sum(-1).max())


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("releases", "changes"), [(1, 0), (3, 0), (3, 2), (4, 1), (4, 2), (5, 1)])
def test_no_pair_of_histories_changes_the_rows_by_more_than_the_sensitivity(
    kind: Kind, releases: int, changes: int
) -> None:
    made = strategy(kind, releases, changes)
    squared, absolute = largest_change(made.rows, changes)
    assert made.squared_sensitivity / 2 <= squared <= made.squared_sensitivity
    assert made.sensitivity / 2 <= absolute <= made.sensitivity


@pytest.mark.parametrize("kind", [Kind.TREE, Kind.SQUARE_ROOT])
def test_a_person_of_more_changes_exceeds_the_sensitivity_of_fewer(kind: Kind) -> None:
    claimed = strategy(kind, 5, 0)
    squared, absolute = largest_change(claimed.rows, 2)
    assert squared > claimed.squared_sensitivity
    assert absolute > claimed.sensitivity


def test_each_week_by_itself_needs_no_bound_of_changes() -> None:
    # Two people in different cells in all of 52 weeks: 1 off in two cells a week.
    assert strategy(Kind.EACH_WEEK, 52, None).squared_sensitivity == 2 * 52
    assert strategy(Kind.EACH_WEEK, 52, None).sensitivity == 2 * 52
    # With a bound that says more than (A) does: each of 52 weeks is in as many prefixes, 2 * 52 + 8 * 51.
    assert strategy(Kind.EACH_WEEK, 52, 1).squared_sensitivity == 2 * 52


def test_the_tree_of_four_weeks_by_hand() -> None:
    # Nodes that hold week 1: 1, 1-2, 1-4; week 2: 2, 1-2, 1-4; week 3: 3, 3-4, 1-4; week 4: 4, 3-4, 1-4.
    # So every column of C has three ones: 2 * 3 + 8 * 3 for one change, 2 * 3 + 4 * 3 in absolute values.
    tree = strategy(Kind.TREE, 4, 1)
    assert tree.squared_sensitivity == 30
    assert tree.sensitivity == 18
    assert [list(tree.rows_of(t)) for t in range(4)] == [[0], [1, 2], [3], [4, 5, 6]]


def test_the_square_root_is_one_of_the_differences_of_weeks() -> None:
    # (1 - z)^(1/2) = 1 - 1/2 z - 1/8 z^2 - 1/16 z^3 - ...; squared it is 1 - z.
    lower = strategy(Kind.SQUARE_ROOT, 4, 1).rows
    assert lower[3].tolist() == [-UNIT // 16, -UNIT // 8, -UNIT // 2, UNIT]
    squared = (lower / UNIT) @ (lower / UNIT)
    assert np.allclose(squared, np.eye(4) - np.eye(4, k=-1), atol=1e-4)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("releases", [2, 12, 26, 52, 53, 64, 365])
def test_the_bound_of_changes_applies_to_every_length_of_a_period(kind: Kind, releases: int) -> None:
    made = strategy(kind, releases, 1)
    gram = made._columns.T @ made._columns
    assert made.squared_sensitivity <= 2 * gram[0, 0] + 8 * max(np.diag(gram)[1:])


def test_columns_that_do_not_fall_from_the_diagonal_get_the_bound_for_any_history() -> None:
    # Weeks 1 and 3 together and week 2 alone: increments of weeks 1 and 3 have more in common than 1 and 2.
    odd = Strategy(rows=np.array([[2, -2, 0, 0], [0, 0, 1, 0], [0, 1, -1, 1]]), changes=1)
    assert odd.squared_sensitivity == 2 * (16 + 1 + 9)


@pytest.mark.parametrize(
    ("kind", "releases", "changes", "told"),
    [
        (Kind.TREE, 52, None, "give changes"),
        (Kind.SQUARE_ROOT, 52, None, "give changes"),
        (Kind.EACH_WEEK, 0, None, "from 1 to 400"),
        (Kind.EACH_WEEK, True, None, "from 1 to 400"),
        (Kind.TREE, 401, 1, "from 1 to 400"),
        (Kind.TREE, 52, -1, "changes must be"),
        (Kind.TREE, 52, 1.0, "changes must be"),
    ],
)
def test_a_wrong_number_is_refused(kind: Kind, releases: int, changes: int | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        strategy(kind, releases, changes)


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of the last release"):
        Strategy(rows=np.eye(3, dtype=np.int64)[::-1], changes=None)
