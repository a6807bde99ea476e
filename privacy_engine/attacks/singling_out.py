"""Singling out: a predicate, read off the release, that is true of exactly one person.

After Giomi et al. (2023), section 5.1; the notion is that of the Article 29 Working Party's opinion 05/2014,
and of Cohen and Nissim, "Towards formalizing the GDPR's notion of singling out" (2020). The attacker takes a
released record and some of its cells, such that no other released record has these, and says: exactly one
person has values that these cells cover. Univariate predicates are of one attribute, multivariate ones of
several, as few as single the record out of some random sets.

Deviation: the predicates are held against the people in the release and those who are not in it, together. A
predicate is right if exactly one person of all of them fits. That person is in the release as often, for
their number, as not, if the release tells of the population alone; so the right predicates about outsiders
are the control, and their tries are counted in proportion. The paper evaluates on tables of two sizes and
corrects by a model of how often a predicate singles out in each.

The baseline are predicates from values in random order, of the release; of one attribute, where that changes
nothing, from the outsiders' values. An attacker who aims at one person in n is right by luck with a chance of
up to 1/e (Cohen and Nissim), so a class that k people share, with a sensitive value beside it, singles out by
no more than luck where k is large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.attacks.cells import Bools, Cells, alone
from privacy_engine.attacks.seeking import covered_people
from privacy_engine.attacks.trial import Case, Rate, Tries

FEW = 0.01  # of the people who stand alone in an attribute: with fewer no predicate of one singles out
MOST_PAIRS = 2e9  # predicates times people; beyond it fewer predicates are tried


@dataclass(frozen=True, kw_only=True)
class SinglingOut:
    """Predicates that single out one released record.

    Attributes:
        predicates: most that are tried of each kind, >= 1.
        sets: random sets of attributes that each record is looked at in, beside all of them; >= 1.
    """

    predicates: int = 20_000
    sets: int = 8
    name: ClassVar[str] = "singling_out"

    def __post_init__(self) -> None:
        for field in ("predicates", "sets"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be >= 1, got {getattr(self, field)}")

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Of one attribute, where some people stand alone in one; and of several."""
        attributes = len(case.space.names)
        one = np.eye(attributes, dtype=np.bool_)
        numbered, found = case.people.numbered(), dict[str, Tries]()
        if np.any([alone(numbered, np.array([j])) for j in range(attributes)], axis=0).mean() >= FEW:
            found["one attribute"] = self._of(case, one, case.outsiders, rng)
        if attributes > 1:
            sizes = rng.integers(2, attributes + 1, self.sets)
            several = np.array([rng.permutation(attributes) < size for size in sizes])
            several = np.vstack([several, np.ones(attributes, np.bool_)])
            found["several attributes"] = self._of(case, several, case.released.shuffled(rng), rng)
        return found

    def _of(self, case: Case, sets: Bools, known: Cells, rng: np.random.Generator) -> Tries:
        """Predicates from the release, and from what is known without it."""
        everybody = case.people.joined(case.outsiders)
        most = min(self.predicates, max(1, int(MOST_PAIRS / max(len(everybody), 1))))
        inside, outside, tried = _right(case, case.released, sets, everybody, most, rng)
        blind = _right(case, known, sets, everybody, most, rng)
        share = len(case.outsiders) / max(len(case.people), 1)
        return Tries(
            main=Rate(right=inside, tries=tried),
            control=Rate(right=outside, tries=tried * share),
            baseline=Rate(right=blind[0], tries=blind[2]),
        )


def _right(
    case: Case, released: Cells, sets: Bools, everybody: Cells, most: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """People in the release and outsiders who are singled out, once each, and how often it was tried."""
    rows = rng.permutation(len(released))[:most]
    order = sorted(range(len(sets)), key=lambda i: (sets[i].sum(), rng.random()))
    chosen, numbered = np.full(len(rows), -1), released.numbered()
    for i in order:
        chosen[alone(numbered, np.flatnonzero(sets[i]))[rows] & (chosen < 0)] = i
    made = np.flatnonzero(chosen >= 0)
    count, who = covered_people(case.space, released.take(rows[made]), everybody, sets[chosen[made]], 2)
    singled = np.unique(who[count == 1])
    inside = int((singled < len(case.people)).sum())
    return inside, len(singled) - inside, len(rows)
