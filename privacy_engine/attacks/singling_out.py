"""Singling out: a predicate, derived from the release, that is true for exactly one person.

After Giomi et al. (2023), section 5.1; the notion is from the Article 29 Working Party's opinion 05/2014, and
from Cohen and Nissim, "Towards formalizing the GDPR's notion of singling out" (2020). The attacker picks a
released record and some of its cells, such that no other released record matches, and claims: exactly one
person has values that match. There are predicates on one attribute, and on several:

* **values**: the person's values are in the cells of the record, in the fewest attributes that single it out
of
  some random sets, or in the whole record;
* **ranges**, for ordered attributes including dates: at most the record's upper end if the record lies below
  the median of the release, at least its lower end if it lies above (a cell of any other attribute as
  before). For one attribute these are the ends of the release, if one record is there. As in the paper;
* **near** ranges, up to `NEAR` beyond the record on either side: values that were changed a little match no
one
  exactly, but still the person approximately. Our addition.

The best kind of predicate on several attributes is chosen on one half of the people and evaluated on the
other, and vice versa, so the choice does not bias the result.

Deviation: the predicates are evaluated on the people in the release and those outside of it together. A
predicate is right if exactly one person of all of them matches. If the release only reveals the population,
that person is in the release as often, in proportion, as not; so the right predicates about outsiders are the
control, and their tries are counted in proportion. The paper evaluates on tables of two sizes and corrects by
a model of how often a predicate singles out in each.

The baseline is predicates from values of the release in random order; for one attribute, where shuffling
changes nothing, from the outsiders' values. An attacker who targets one person in n is right by luck with a
probability of up to 1/e (Cohen and Nissim). A class that k people share singles no one out by itself; with an
additional value that only one of them has it does, and beyond luck if k is small.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.cells import Bools, Cells, Floats, Ints, alone
from privacy_engine.attacks.seeking import Target, covered_people
from privacy_engine.attacks.trial import Case, Rate, Tries

FEW, LEAST = (
    0.01,
    100,
)  # share and number of unique people in an attribute below which nothing can be measured
NEAR = 0.02  # share of an attribute's extent within which a value is near
RANGES = 5_000  # most predicates of ranges, because each is checked on all released records
MOST_PAIRS = 2e9  # most predicates times people; beyond that, fewer predicates are tried


@dataclass(frozen=True)
class _Predicates:
    """Claims about exactly one person each.

    Attributes:
        cells: Cells that contain the person's values, (p,).
        used: Whether each attribute is part of the claim, shape (p, a).
        tried: Number of records for which a predicate was searched.
    """

    cells: Cells
    used: Bools
    tried: int


_Way = Callable[[Cells], _Predicates]


@dataclass(frozen=True, kw_only=True)
class SinglingOut:
    """Predicates that single out one released record.

    Attributes:
        predicates: Most predicates of each kind, >= 1.
        sets: Number of random sets of attributes for each record, in addition to all of them; >= 1.
    """

    predicates: int = 20_000
    sets: int = 8
    name: ClassVar[str] = "singling_out"

    def __post_init__(self) -> None:
        for field in ("predicates", "sets"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be >= 1, got {getattr(self, field)}")

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run on one attribute, if some people are unique in one; and on several."""
        attributes = len(case.space.names)
        everybody = Blocks.of(case.space, case.people.joined(case.outsiders))
        most = min(self.predicates, max(1, int(MOST_PAIRS / max(len(everybody.cells), 1))))
        one = np.eye(attributes, dtype=np.bool_)
        numbered, found = case.people.numbered, dict[str, Tries]()
        lone = np.any([alone(numbered, np.array([j])) for j in range(attributes)], axis=0)
        if lone.sum() >= max(LEAST, FEW * len(lone)):
            ways: dict[str, _Way] = {"values and ends": lambda cells: _of_one(cells, one, most, rng)}
            found["one attribute"] = _best(case, ways, case.outsiders, everybody)
        if attributes > 1:
            sizes = rng.integers(2, attributes + 1, self.sets)
            several = np.array([rng.permutation(attributes) < size for size in sizes])
            whole = np.ones((1, attributes), np.bool_)
            several = np.vstack([several, whole])
            ways = {
                "values": lambda cells: _values(cells, several, most, rng),
                "whole record": lambda cells: _values(cells, whole, most, rng),
            }
            if case.space.ordered:
                ways["ranges"] = lambda cells: _ranges(case, cells, several, most, rng)
                ways["near"] = lambda cells: _windows(case, cells, several, most, rng)
            found["several attributes"] = _best(case, ways, case.released.shuffled(rng), everybody)
        return found


def _best(case: Case, ways: Mapping[str, _Way], known: Cells, everybody: Blocks) -> Tries:
    """Return the best way on the other half of the people, from the release and from knowledge without it."""
    each = {how: _halves(case, way(case.released), way(known), everybody) for how, way in ways.items()}
    parts = []
    for chosen_on, judged_on in ((0, 1), (1, 0)):
        best = max(each, key=lambda how: each[how][chosen_on].excess)
        parts.append(each[best][judged_on])
    return Tries(
        main=parts[0].main + parts[1].main,
        control=parts[0].control + parts[1].control,
        baseline=parts[0].baseline + parts[1].baseline,
    )


def _halves(case: Case, claims: _Predicates, blind: _Predicates, everybody: Blocks) -> tuple[Tries, Tries]:
    """Count who is singled out, in every other person."""
    share = len(case.outsiders) / max(len(case.people), 1)
    main, control = _singled(case, claims, everybody)
    baseline, _ = _singled(case, blind, everybody)

    def tries(half: int) -> Tries:
        def rate(who: Ints, tried: float) -> Rate:
            return Rate(right=min(float((who % 2 == half).sum()), tried), tries=tried)

        return Tries(
            main=rate(main, claims.tried / 2),
            control=rate(control, claims.tried * share / 2),
            baseline=rate(baseline, blind.tried / 2),
        )

    return tries(0), tries(1)


def _singled(case: Case, predicates: _Predicates, everybody: Blocks) -> tuple[Ints, Ints]:
    """Return the people in the release, and the outsiders, for whom only one matches; each once."""
    count, who = covered_people(case.space, predicates.cells, everybody, predicates.used, 2)
    singled, people = np.unique(who[count == 1]), len(case.people)
    return singled[singled < people], singled[singled >= people] - people


def _values(released: Cells, sets: Bools, most: int, rng: np.random.Generator) -> _Predicates:
    """Return the cells of records in the smallest of some sets of attributes in which they are unique."""
    rows = rng.permutation(len(released))[:most]
    chosen, numbered = np.full(len(rows), -1), released.numbered
    for i in _smallest_first(sets, rng):
        chosen[alone(numbered, np.flatnonzero(sets[i]))[rows] & (chosen < 0)] = i
    made = np.flatnonzero(chosen >= 0)
    return _Predicates(released.take(rows[made]), sets[chosen[made]], len(rows))


def _of_one(released: Cells, sets: Bools, most: int, rng: np.random.Generator) -> _Predicates:
    """Return unique values of one attribute, and the ends of the release where one record is."""
    values = _values(released, sets, most, rng)
    cells, used, tried = values.cells, [values.used], values.tried
    for j in range(released.low.shape[1]):
        for ends, first in ((released.high[:, j], np.nanmin), (released.low[:, j], np.nanmax)):
            if np.isnan(ends).all():
                continue
            at = np.flatnonzero(ends == first(ends))
            tried += 1
            if len(at) == 1:
                cells, used = (
                    cells.joined(_from_end(released.take(at), j, below=first is np.nanmin)),
                    [*used, sets[[j]]],
                )
    return _Predicates(cells, np.vstack(used), tried)


def _from_end(record: Cells, j: int, *, below: bool) -> Cells:
    """Return a record that also covers what lies beyond it in one attribute, but no null."""
    low, high, null = record.low.copy(), record.high.copy(), record.null.copy()
    null[:, j] = False
    if below:
        low[:, j] = 0.0
    else:
        high[:, j] = 1.0
    return Cells(low, high, null, record.codes)


def _ranges(case: Case, released: Cells, sets: Bools, most: int, rng: np.random.Generator) -> _Predicates:
    """Return ranges from a record away from the median, in the smallest set without another record there."""
    middle: Floats = (released.low + released.high) / 2
    known = np.where(np.isnan(middle).all(axis=0), 0.5, middle)
    rows = rng.permutation(len(released))[: min(most, RANGES)]
    below, some = (middle <= np.nanmedian(known, axis=0))[rows], released.take(rows)
    low, high = np.where(below, 0.0, some.low), np.where(below, some.high, 1.0)
    return _only_within(case, released, some, (low, high), sets, rng)


def _windows(case: Case, released: Cells, sets: Bools, most: int, rng: np.random.Generator) -> _Predicates:
    """Return ranges near a record, in the smallest set without another record there."""
    some = released.sample(min(most, RANGES), rng)
    return _only_within(case, released, some, (some.low - NEAR, some.high + NEAR), sets, rng)


def _only_within(
    case: Case,
    released: Cells,
    some: Cells,
    ends: tuple[Floats, Floats],
    sets: Bools,
    rng: np.random.Generator,
) -> _Predicates:
    """Return the smallest set in which no other released record lies within some ends; nulls stay nulls."""
    nothing = np.isnan(some.low)
    low, high = (np.where(nothing, np.nan, end) for end in ends)
    within = Cells(low, high, some.null, some.codes)
    order = _smallest_first(sets, rng)
    chosen = Target.of(case.space, released).first_alone(within, sets[order])
    made = np.flatnonzero(chosen >= 0)
    return _Predicates(within.take(made), sets[order][chosen[made]], len(some))


def _smallest_first(sets: Bools, rng: np.random.Generator) -> list[int]:
    return sorted(range(len(sets)), key=lambda i: (sets[i].sum(), rng.random()))
