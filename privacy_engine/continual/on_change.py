r"""Whether the last release still stands: a test a release, all of them paid for at once.

The sparse vector technique (Dwork, Roth: The Algorithmic Foundations of Differential Privacy, 2014, algorithm
1, AboveThreshold), once for each time that it may answer yes:

    1  T' = threshold + discrete Laplace noise of scale 2 s / e        drawn once, never shown
    2  at each release: yes if score + discrete Laplace noise of scale 4 s / e >= T', else no
    3  after a yes the table is measured anew, which is paid for by itself, and a new T' is drawn;
       after `firings` of them nothing is asked any more

Neighbour relation: all records of one person, in all releases, replaced by another person's; the numbers of
records public. `sensitivity` s is the most by which the score of any one release changes then.

Claim. With e = epsilon / firings, all answers of a period are epsilon-DP, however many there are.

Proof. Take the answers from one yes (or the beginning) to the next: no, ..., no at releases 1 .. k - 1, then
yes at k. What is asked there is a function of the records and of what was released before, which is fixed
here. Let q_t and q'_t be the scores in two neighbouring streams, r the noise of the threshold and v_t that of
the answers. Fix v_1 .. v_{k-1}, and let g be the largest q_t + v_t of them, g' the largest q'_t + v_t:
|g - g'| <= s. The answers are these if and only if

    g < threshold + r <= q_k + v_k.

Put r' = r + g' - g and v'_k = v_k + (g' - g) + (q_k - q'_k). Then g' < threshold + r' if and only if g <
threshold + r, and q'_k + v'_k >= threshold + r' if and only if q_k + v_k >= threshold + r: the same answers
for the neighbour. (r, v_k) -> (r', v'_k) is one to one on whole numbers, for scores and noise are whole
numbers; it shifts r by at most s, whose probability then changes by a factor of at most exp(s e / (2 s)) =
exp(e / 2), and v_k by at most 2 s, a factor of at most exp(2 s e / (4 s)) = exp(e / 2). So the probability of
these answers, given v_1 .. v_{k-1} and hence without it, changes by a factor of at most exp(e). If no yes
comes, r alone is shifted: exp(e / 2). Each of the `firings` stretches is a mechanism that ends before the
next one begins, and so is each measurement between them: they compose sequentially, e times firings in all.

For all of a period: epsilon of the tests, and firings + 1 measurements.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import rounded_up
from privacy_engine.dp.mechanisms import laplace_counts, laplace_scale, split

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ChangeTest:
    """What is asked of each release.

    Attributes:
        epsilon: > 0, of all answers of a period together.
        firings: most times that the answer may be yes, >= 1.
        sensitivity: s, of the score of one release, >= 1.
        threshold: score from which on the answer should be yes, whole.
    """

    epsilon: float
    firings: int
    sensitivity: int
    threshold: int

    def __post_init__(self) -> None:
        if type(self.firings) is not int or self.firings < 1:
            raise ValueError(f"firings must be a whole number >= 1, got {self.firings!r}")
        if type(self.threshold) is not int:
            raise ValueError(f"threshold must be a whole number, got {self.threshold!r}")
        _ = self.scale  # refuses what is no epsilon or sensitivity

    @property
    def _half(self) -> float:
        """e / 2, rounded down."""
        return split(self.epsilon, [1] * (2 * self.firings))[0]

    @property
    def scale(self) -> float:
        """Of the noise of an answer: 4 s / e; that of the threshold is half of it.

        >>> ChangeTest(epsilon=1.0, firings=2, sensitivity=2, threshold=100).scale
        16.0
        """
        return laplace_scale(epsilon=self._half, sensitivity=2 * self.sensitivity)

    def spends(self, target: str) -> tuple[Spend, ...]:
        """The mechanisms, of all stretches: the noise of the threshold, and that of the answers."""
        epsilon = rounded_up(Fraction(self._half) * self.firings)
        found = []
        for by in (self.sensitivity, 2 * self.sensitivity):
            scale = laplace_scale(epsilon=self._half, sensitivity=by)
            found.append(
                Spend(
                    mechanism="discrete_laplace",
                    target=target,
                    epsilon=epsilon,
                    sensitivity=by,
                    scale=scale,
                    runs=self.firings,
                )
            )
        return tuple(found)

    def noisy_threshold(self) -> int:
        """T'."""
        return _noised(self.threshold, self._half, self.sensitivity)

    def is_above(self, score: int, noisy_threshold: int) -> bool:
        """Step 2."""
        return _noised(score, self._half, 2 * self.sensitivity) >= noisy_threshold


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The tests so far.

    Attributes:
        test: what is asked.
        noisy_threshold: the curator's alone: whoever knows it learns more from the answers.
        answers: of each release since the first; released.
    """

    test: ChangeTest
    noisy_threshold: int
    answers: tuple[bool, ...] = ()

    @classmethod
    def begun(cls, test: ChangeTest) -> "Watch":
        """Before the first test."""
        return cls(test=test, noisy_threshold=test.noisy_threshold())

    @property
    def fired(self) -> int:
        """How many answers were yes."""
        return sum(self.answers)

    def after(self, score: int) -> "Watch":
        """With the answer of the next release; `answers[-1]` is it."""
        if self.fired == self.test.firings:  # all that was paid for is spent: the last release stands
            return replace(self, answers=(*self.answers, False))
        above = self.test.is_above(score, self.noisy_threshold)
        again = above and self.fired + 1 < self.test.firings
        return replace(
            self,
            noisy_threshold=self.test.noisy_threshold() if again else self.noisy_threshold,
            answers=(*self.answers, above),
        )


def misfit(tables: list[Ints], expected: list[Ints]) -> int:
    """How far some tables are from a model's: the sum of all cells' differences.

    One record replaced moves one in each of two cells of a table, so this changes by at most
    `misfit_sensitivity` (triangle inequality).

    >>> misfit([np.array([3, 4])], [np.array([5, 2])])
    4
    """
    return sum(int(np.abs(t - e).sum()) for t, e in zip(tables, expected, strict=True))


def misfit_sensitivity(tables: int, each: int = 1) -> int:
    """Most by which the misfit of so many tables changes, where a person has at most so many records."""
    return 2 * each * tables


def _noised(value: int, epsilon: float, sensitivity: int) -> int:
    return int(laplace_counts(np.array([value]), epsilon=epsilon, sensitivity=sensitivity)[0])
