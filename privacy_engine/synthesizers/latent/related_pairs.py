"""Steps 4 to 10 of LatentClass for wide tables: a forest of related pairs, as far as noise shows them.

With more than ``WIDE`` attributes, views cannot hold a useful part of all pairs: each would have little
budget, and so would the single attributes, of which every marginal is made. So nearly all of the budget goes
to single attributes, and as much to pairs as their dependence is worth.

    1  T, M = mean excess dependence of the d / 2 most dependent pairs, and the median of all    noise
    2  P, x = number of pairs and part of the budget that lower the expected distance most; P = 0 if T does
       not exceed the noise
    3  measure each attribute with 1 - x of the rest                                            noise
    4  repeat P times:
    5      V = the pair of attributes not connected so far that is furthest from independence   noisy max
    6      measure the table of V; ignore it if noise explains its distance from independence    noise
    7  measure P / 10 pairs at random among those that the others connect only by way of others    noise

If M is large, nearly all pairs depend on each other, as if on one hidden thing. Then, for up to
``MOST_VIEWED`` attributes, steps 3 to 10 of ``LatentClass`` follow: classes find such a thing from views that
hold only some of the pairs.

The pairs are a forest, as in MST (McKenna, Miklau, Sheldon: Winning the NIST Contest, 2021). Its trees are
fitted apart. Many attributes that are connected may depend on one thing, which classes represent best, or
form a chain, of which classes make dependences that do not exist. The pairs of step 7 show which: if parts of
few attributes predict them better, the tree is cut where the dependence is least.

The dependence of a pair is the L1 distance between its table and the product of its margins, in records:
``dependence`` over n, rounded down. Replacing one record changes it by at most 6, see
``dependence_sensitivity``, and m records by 6 m: floor(x / n) changes by at most the whole number that bounds
the change of x / n. A public number per pair is subtracted: what independent attributes have on average. If
each of some numbers changes by at most c, the sum of the largest h changes by at most h c, over h, rounded
down, by at most c; and their median by at most c. So T and M change by at most 6 m each. Step 2, and the
groups of values that steps 5 and 6 count, only depend on noisy results and public sizes.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change
from privacy_engine.synthesizers.bayes.scores import dependence, dependence_sensitivity
from privacy_engine.synthesizers.bayes.structure import Candidates
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.parts import connected
from privacy_engine.tables.marginals import WeightedRecords

Ints = npt.NDArray[np.int64]
Pair = tuple[int, int]

WIDE = 32  # attributes from which on views cannot hold a useful part of all pairs
MOST_VIEWED = 100  # attributes up to which views are fitted in a short time
FIGURES_SHARE = 0.0075  # part of the budget for T and M
CLEAR = 2.0  # scales of noise that are subtracted from them
EVERYWHERE = 0.05  # share of the records by which the median must exceed chance
MEAN_SIZE = math.sqrt(2 / math.pi)  # of a standard normal deviate
CHOICE_SHARE = 0.3  # part of the budget for pairs that chooses them
SHARES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)  # of the budget, for pairs
CHECKS = 0.1  # other pairs for each related one
IMPLIED = 2.0  # related pairs for each measured one
LARGE_PAIR = 256  # cells from which on groups of values are counted


def chance_dependence(n: int, cells: int) -> int:
    """L1 distance from independence, in records, that n records of independent attributes have, at most.

    A cell of share p has a deviation of at most sqrt(n p); the sum of sqrt(p) over c cells is at most
    sqrt(c).

    >>> chance_dependence(10_000, 16)
    319
    """
    return math.floor(MEAN_SIZE * math.sqrt(n * cells))


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Result of step 1, in records; what noise explains is subtracted.

    Attributes:
        strongest: Mean excess dependence of the most dependent pairs.
        median: Median of all pairs.
    """

    strongest: float
    median: float

    @classmethod
    def of(cls, inputs: Inputs, free: Sequence[int], part: float) -> Self:
        """Measure both with a part of the budget."""
        change = Change(counts=2, by=dependence_sensitivity(1) * inputs.coded.each)
        figures = np.array(dependence_figures(inputs.records, free))
        noisy = inputs.noise.add(figures, part, change, target=inputs.names(free))
        strongest, median = (noisy - CLEAR * inputs.scale(part, change)).tolist()
        return cls(strongest=strongest, median=median)

    def are_everywhere(self, attributes: int, n: int) -> bool:
        """Whether most pairs of not too many attributes depend on each other."""
        return self.median > EVERYWHERE * n and attributes <= MOST_VIEWED


def dependence_figures(records: WeightedRecords, free: Sequence[int]) -> tuple[int, int]:
    """T and M without noise: whole numbers that change by at most 6 if one record is replaced.

    Args:
        records: Records with the weight of each.
        free: At least two attributes.
    """
    excess = np.sort(excess_dependences(records, free))
    return mean_of_largest(excess, len(free) // 2), int(excess[len(excess) // 2])


def mean_of_largest(dependences: Ints, count: int) -> int:
    """Mean of the largest dependences, rounded down: it changes by at most what each of them does.

    >>> mean_of_largest(np.array([4, 1, 9]), 2)
    6
    """
    return int(np.sort(dependences)[-count:].sum()) // count


def excess_dependences(records: WeightedRecords, free: Sequence[int]) -> Ints:
    """(pairs,) the dependence of each pair in records, less what independent attributes have on average.

    Args:
        records: Records with the weight of each.
        free: At least two attributes.
    """
    pairs, n = np.array(list(itertools.combinations(free, 2)), dtype=np.int64), records.total
    candidates = Candidates(ids=np.arange(len(pairs)), children=pairs[:, 1], parents=pairs[:, :1])
    cells = records.sizes[pairs].prod(axis=1)
    chance = np.array([chance_dependence(n, int(c)) for c in cells])
    return np.asarray(dependence(records, candidates) // n - chance)


@dataclass(frozen=True, kw_only=True)
class PairPlan:
    """Step 2: the parts of the budget in a wide table.

    Attributes:
        pairs: Number of related pairs to measure.
        checks: Number of other pairs to measure.
        for_attributes: Part of all single attributes.
        for_choice, for_view: Parts of one choice and of one table; 0 if there are none.
    """

    pairs: int
    for_attributes: float
    checks: int = 0
    for_choice: float = 0.0
    for_view: float = 0.0

    @classmethod
    def of(cls, inputs: Inputs, sizes: Sequence[int], whole: float, figure: float) -> Self:
        """Split a part so that the expected mean distance of 3-way marginals is least.

        With d attributes, P of d (d - 1) / 2 pairs are in 6 P / (d (d - 1)) of the triples. A pair that is
        represented lowers a triple's distance by about half its dependence, less the noise of its table and
        of its choice; noise on single attributes, sqrt(3) times an attribute's in a triple, rises as their
        part falls.

        Args:
            inputs: Inputs of the run, of which no record is read.
            sizes: Number of values of each free attribute.
            whole: Part to split.
            figure: Mean dependence of the most dependent pairs, as in `Figures`.
        """
        d, n, noise, change = len(sizes), inputs.n, inputs.noise, inputs.change
        best, found = 0.0, cls(pairs=0, for_attributes=whole)
        if figure <= 0:
            return found
        cells = min(max(sum(size**2 for size in sizes) / d, 4.0), LARGE_PAIR)
        single = d ** (1 / noise.power) * noise.mean_error(whole, change) * sum(sizes) / d / (2 * n)
        numbers = sorted({min(d - 1, math.ceil(d * f)) for f in (0.1, 0.25, 0.5, 0.8, 1.0)})
        for pairs, share in itertools.product(numbers, SHARES):
            for_pairs, rest = split(whole, (share, 1 - share))
            on_choices, on_views = split(for_pairs, (CHOICE_SHARE, 1 - CHOICE_SHARE))
            checks = math.ceil(CHECKS * pairs)
            choice, view = split(on_choices, [1] * pairs)[0], split(on_views, [1] * (pairs + checks))[0]
            likely = noise.scale_of_choice(choice, by=change.summed) * math.log(d * (d - 1) / (2 * pairs))
            lost = (likely + cells * noise.mean_error(view, change)) / figure
            gain = IMPLIED * 6 * pairs / (d * (d - 1)) * figure / (2 * n) * (1 - lost)
            cost = math.sqrt(3) * single * ((1 - share) ** (-1 / noise.power) - 1)
            if gain - cost > best:
                best = gain - cost
                found = cls(pairs=pairs, checks=checks, for_attributes=rest, for_choice=choice, for_view=view)
        return found


def figures_part(whole: float) -> tuple[float, float]:
    """The part of step 1, and what is left."""
    part = split(whole, (FIGURES_SHARE, 1 - FIGURES_SHARE))[0]
    return part, rounded_down(Fraction(whole) - Fraction(part))


def other_pairs(views: Sequence[View], attributes: int, count: int, rng: np.random.Generator) -> list[Pair]:
    """Pairs in no view, at random: of attributes that views connect, or of any if there are fewer.

    Args:
        views: Views measured so far.
        attributes: Number of attributes.
        count: Number of pairs.
        rng: Draws them; it does not affect privacy.
    """
    met = {view.members for view in views}
    inner = [p for tree in connected(views, attributes) for p in itertools.combinations(tree, 2)]
    inner = [pair for pair in inner if pair not in met]
    if len(inner) < count:
        inner = [p for p in itertools.combinations(range(attributes), 2) if p not in met]
    return [inner[i] for i in rng.permutation(len(inner))[:count]]
