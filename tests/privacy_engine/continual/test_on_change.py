"""The test whether a release still stands: by hand, by all its answers' probabilities, and by its scales."""

import itertools
import math

import numpy as np
import pytest

from privacy_engine.continual import on_change
from privacy_engine.continual.on_change import ChangeTest, Watch, misfit, misfit_sensitivity

REACH = 250


def mass(scale: float) -> dict[int, float]:
    """The discrete Laplace distribution, cut off where 1e-13 is left."""
    a = math.exp(-1 / scale)
    return {z: (1 - a) / (1 + a) * a ** abs(z) for z in range(-REACH, REACH + 1)}


def probabilities(
    scores: tuple[int, ...], *, sensitivity: int, epsilon: float, answer_scale: float = 4.0
) -> dict[tuple[bool, ...], float]:
    """Of each sequence of answers of one stretch that ends with the first yes; by the box, threshold 0."""
    threshold = mass(2 * sensitivity / epsilon)
    answer = mass(answer_scale * sensitivity / epsilon)
    zs = np.array(list(answer))
    at_least = np.append(np.cumsum(np.array(list(answer.values()))[::-1])[::-1], 0)

    def is_above(score: int, noisy: int) -> float:
        return float(at_least[np.clip(noisy - score - zs[0], 0, len(zs))])

    found: dict[tuple[bool, ...], float] = {}
    for noisy, p in threshold.items():
        for k, score in enumerate(scores):
            q = is_above(score, noisy)
            yes = (*[False] * k, True)
            found[yes] = found.get(yes, 0) + p * q
            p *= 1 - q
        no = (False,) * len(scores)
        found[no] = found.get(no, 0) + p
    return found


def worst(epsilon: float, answer_scale: float = 4.0) -> float:
    """The largest privacy loss of any answers, where the scores of three releases move by at most 2 each."""
    shown = 0.0
    for scores in itertools.product((0, 2), repeat=3):
        for moves in itertools.product((-2, 2), repeat=3):
            other = tuple(a + b for a, b in zip(scores, moves, strict=True))
            mine, theirs = (
                probabilities(s, sensitivity=2, epsilon=epsilon, answer_scale=answer_scale)
                for s in (scores, other)
            )
            shown = max(shown, *(abs(math.log(mine[a] / theirs[a])) for a in mine))
    return shown


def test_no_answers_tell_more_than_claimed() -> None:
    # The box's probabilities, summed up: at most epsilon, and at least half.
    assert 0.5 <= worst(1.0) <= 1.0


def test_answers_with_a_quarter_of_the_noise_tell_more_than_claimed() -> None:
    assert worst(1.0, answer_scale=1.0) > 1.0


def test_the_code_has_the_scales_of_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, int]] = []

    def count(counts: np.ndarray, *, epsilon: float, sensitivity: int) -> np.ndarray:
        asked.append((epsilon, sensitivity))
        return counts

    monkeypatch.setattr(on_change, "laplace_counts", count)
    watch = Watch.begun(ChangeTest(epsilon=2.0, firings=2, sensitivity=3, threshold=5))
    for score in (4, 5, 1, 9, 9):
        watch = watch.after(score)
    # Two yes: of 2.0 each stretch has 1.0, half of it for the threshold. After the second nothing is asked.
    assert watch.answers == (False, True, False, True, False)
    assert [s / e for e, s in asked] == [6.0, 12.0, 12.0, 6.0, 12.0, 12.0]
    assert watch.test.scale == 12.0


def test_the_code_answers_with_the_probabilities_of_the_box() -> None:
    # 1,500 runs: a share of p = .5 is off by more than .07 once in 1e7.
    test = ChangeTest(epsilon=1.0, firings=1, sensitivity=2, threshold=0)
    expected = probabilities((0, 3), sensitivity=2, epsilon=1.0)
    yes = [Watch.begun(test).after(0).after(3).answers for _ in range(1500)]
    for answers in {(True,), (False, True), (False, False)}:
        share = sum(a[: len(answers)] == answers for a in yes) / len(yes)
        assert abs(share - expected[answers]) < 0.07


def test_the_misfit_moves_by_two_a_table_with_one_record() -> None:
    before = [np.array([3, 4, 0]), np.array([7, 0])]
    moved = [np.array([2, 4, 1]), np.array([6, 1])]
    model = [np.array([3, 4, 0]), np.array([7, 0])]
    assert misfit(moved, model) - misfit(before, model) == misfit_sensitivity(2) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"firings": 0},
        {"firings": 1.5},
        {"sensitivity": 0},
        {"threshold": 0.5},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    right = {"epsilon": 1.0, "firings": 1, "sensitivity": 2, "threshold": 3}
    with pytest.raises(ValueError, match=r"must be"):
        ChangeTest(**(right | wrong))  # type: ignore[arg-type]
