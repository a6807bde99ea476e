"""What a refused cut reveals about the people on either side of it.

A class of n people has known sensitive values, and it is unknown who has which: all assignments are equally
likely, so the values of the a people on one side of a cut are a multivariate hypergeometric draw. The cut was
not made. If it would have met the rules on both sides, that has a small probability, a slip, because there
may be other reasons. So assignments that break a rule weigh more, and by Bayes' theorem the shares of the
values on each side differ from those of the class. Wong, Fu, Wang, Pei: Minimality attack in privacy
preserving data publishing, VLDB 2007, compute the same for one rule by counting the possible worlds; here the
rules are the models themselves, and the worlds are sampled.

Assignments that break a rule may be rare. They are found by adaptive multilevel splitting (Cérou and Guyader:
Adaptive multilevel splitting for rare event analysis, 2007; Botev and Kroese 2008, for counting): draws are
ranked by how far both sides are from breaking a rule; those in the nearer half are kept and copied, and each
copy is moved by swapping values across the cut, as in Metropolis sampling, while it stays as near. The
product of the shares that were kept estimates the probability of a refusal. Anything rarer than slips reveals
nothing, and is not searched further.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy_engine.attacks.cells import Bools, Floats, Ints
from privacy_engine.tables.classes import ClassCounts
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.verification.models import SensitiveModel

RAREST = 1e-9  # probability of a refusal below which it is ignored
DRAWS = 64  # draws for each cut
MOVES = 10  # swaps tried with each draw at each level
LEVELS = 40
AT_ONCE = 2_000_000  # counts processed together
BROKEN = -1.0  # the margin of a class that breaks a rule


@dataclass(frozen=True, kw_only=True)
class CutRules:
    """Models of one sensitive attribute, as an algorithm applies them to cuts.

    Attributes:
        models: Models that both sides of a cut must meet.
        prior: Share of each value in the release, shape (m,).
        hierarchy: Hierarchy of the values; None if there is none.
    """

    models: Sequence[SensitiveModel]
    prior: Floats
    hierarchy: Hierarchy | None = None

    def margins(self, counts: Ints) -> Floats:
        """(r,) how far classes are from breaking a rule, as a share of its threshold; `BROKEN` if they do.

        Args:
            counts: People with each value in a class, shape (r, m), at least one person per class.
        """
        classes, values = np.nonzero(counts)
        class_counts = ClassCounts(
            classes=classes,
            values=values,
            counts=counts[classes, values],
            starts=np.searchsorted(classes, np.arange(len(counts))),
            prior=self.prior,
            sizes=counts.sum(axis=1),
        )
        found = np.full(len(counts), np.inf)
        for model in self.models:
            numbers = model.per_class(class_counts, self.hierarchy)
            above = numbers - model.threshold if model.at_least else model.threshold - numbers
            kept = np.maximum(above / max(abs(model.threshold), 1e-9), 0.0)
            found = np.minimum(found, np.where(model.allowed(numbers), kept, BROKEN))
        return found

    def of_cuts(self, near: Ints, whole: Ints) -> Floats:
        """(r,) the margin of the side of each cut that is closer to breaking a rule; both are (r, m)."""
        both = self.margins(np.concatenate([near, whole - near]))
        return np.minimum(both[: len(near)], both[len(near) :])


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """What refusals of cuts reveal.

    Attributes:
        chance: Probability of each refusal if the rules were its only reason, shape (q,); 0 if it is too
            rare.
        usual: Share of each value in the class, shape (q, m).
        refused: Probability of each value of a person on the near and on the far side if a rule was broken,
            shape (q, 2, m).
    """

    chance: Floats
    usual: Floats
    refused: Floats

    def shares(self, slip: float) -> Floats:
        """(q, 2, m) the probability of each value of a person on the near and on the far side.

        Args:
            slip: Probability that a cut is not made for another reason, 0 < slip < 1.
        """
        weight = self.chance / (self.chance + slip * (1 - self.chance))
        belief = (weight * (1 - slip))[:, None, None]
        return self.usual[:, None] + belief * (self.refused - self.usual[:, None])


def inferred(
    rules: CutRules, counts: Ints, near: Ints, rng: np.random.Generator, draws: int = DRAWS
) -> Refusals:
    """Infer what the refusal of each cut reveals.

    Args:
        rules: Rules that refused it.
        counts: People of the class with each value, shape (q, m).
        near: People on one side, shape (q,), at least one on either side.
        rng: Source of randomness.
        draws: Number of draws for each cut; the standard error of a share is at most ``1 / (2 sqrt(draws))``,
            and far less for large sides.
    """
    usual = counts / counts.sum(axis=1, keepdims=True)
    refused = np.repeat(usual[:, None], 2, axis=1)
    chance = np.zeros(len(counts))
    open_ = np.flatnonzero(breakable(rules, counts, near))
    step = max(1, AT_ONCE // (draws * max(counts.shape[1], 1)))
    for first in range(0, len(open_), step):
        cuts = open_[first : first + step]
        own, a = counts[cuts], near[cuts]
        chance[cuts], mean = _split(rules, own, a, rng, draws)
        n = own.sum(axis=1)
        refused[cuts] = np.stack([mean / a[:, None], (own - mean) / (n - a)[:, None]], axis=1)
    return Refusals(chance=chance, usual=usual, refused=refused)


def breakable(rules: CutRules, counts: Ints, near: Ints) -> Bools:
    """(q,) whether the cut breaks a rule if one side has the most frequent values, as far as possible."""
    found = np.zeros(len(counts), np.bool_)
    order = np.argsort(-counts, axis=1, kind="stable")
    ranked = np.take_along_axis(counts, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    for side in (near, counts.sum(axis=1) - near):
        taken = np.clip(side[:, None] - before, 0, ranked)
        own = np.empty_like(counts)
        np.put_along_axis(own, order, taken, axis=1)
        found |= rules.of_cuts(own, counts) < 0 if len(own) else found
    return found


def _split(
    rules: CutRules, counts: Ints, near: Ints, rng: np.random.Generator, draws: int
) -> tuple[Floats, Floats]:
    """(q,) probability that a rule breaks, 0 if too rare; (q, m) mean counts of the near side then."""
    cuts = len(counts)
    state = _dealt(counts, near, draws, rng)
    margin = rules.of_cuts(state.reshape(cuts * draws, -1), np.repeat(counts, draws, axis=0))
    margin = margin.reshape(cuts, draws)
    chance, level = np.ones(cuts), np.full(cuts, np.inf)
    running = np.arange(cuts)
    for _ in range(LEVELS):
        own = margin[running]
        half = np.sort(own, axis=1)[:, (draws - 1) // 2]
        below = np.where(own < level[running, None], own, -np.inf).max(axis=1)  # the next lower level
        half = np.where(half < level[running], half, np.where(np.isfinite(below), below, half))
        kept = own <= half[:, None]
        level[running] = half
        chance[running] *= kept.mean(axis=1)
        chosen = _copied(kept, rng)
        state[running] = np.take_along_axis(state[running], chosen[:, :, None], axis=1)
        margin[running] = np.take_along_axis(own, chosen, axis=1)
        for _ in range(MOVES):
            _swap(rules, counts, state, margin, level, running, rng)
        running = running[(level[running] > BROKEN) & (chance[running] > RAREST)]
        if not len(running):
            break
    chance[level > BROKEN] = 0.0
    return chance, state.mean(axis=1)


def _dealt(counts: Ints, near: Ints, draws: int, rng: np.random.Generator) -> Ints:
    """(q, draws, m) draws of the near side's values, value by value."""
    state = np.zeros((len(counts), draws, counts.shape[1]), np.int64)
    rest = np.repeat(counts.sum(axis=1)[:, None], draws, axis=1)
    left = np.repeat(near[:, None], draws, axis=1)
    for v in range(counts.shape[1]):
        good = np.broadcast_to(counts[:, v, None], rest.shape)
        rest = rest - good
        state[:, :, v] = rng.hypergeometric(good, rest, left)
        left = left - state[:, :, v]
    return state


def _copied(kept: Bools, rng: np.random.Generator) -> Ints:
    """(q, draws) the draw for each slot: those that are kept stay, the others get a random one of them."""
    draws = kept.shape[1]
    some = np.argsort(np.where(kept, rng.random(kept.shape), 2.0), axis=1)  # the kept ones first, shuffled
    turn = np.arange(draws) % kept.sum(axis=1)[:, None]
    return np.where(kept, np.arange(draws), np.take_along_axis(some, turn, axis=1))


def _swap(
    rules: CutRules,
    counts: Ints,
    state: Ints,
    margin: Floats,
    level: Floats,
    running: Ints,
    rng: np.random.Generator,
) -> None:
    """Swap a person of either side in each draw, in place, if the cut stays at its level."""
    draws, m = state.shape[1:]
    own = state[running].reshape(-1, m)
    whole = np.repeat(counts[running], draws, axis=0)
    given, taken = _person(own, rng), _person(whole - own, rng)
    rows = np.flatnonzero(given != taken)
    moved = own[rows]
    moved[np.arange(len(rows)), given[rows]] -= 1
    moved[np.arange(len(rows)), taken[rows]] += 1
    if not len(rows):
        return
    new = rules.of_cuts(moved, whole[rows])
    fine = new <= level[running[rows // draws]]
    cut, draw = running[rows[fine] // draws], rows[fine] % draws
    state[cut, draw] = moved[fine]
    margin[cut, draw] = new[fine]


def _person(counts: Ints, rng: np.random.Generator) -> Ints:
    """(r,) the value of a random person from each row's counts."""
    upto = np.cumsum(counts, axis=1)
    place = (rng.random(len(counts)) * upto[:, -1]).astype(np.int64)
    return np.asarray((upto <= place[:, None]).sum(axis=1), np.int64)
