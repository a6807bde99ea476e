"""Linkage: someone who knows a part of a person's record looks for the rest in the release.

Two attackers. One knows a random half of the quasi-identifiers of each target, and picks at random one of the
released records that are nearest in these (after Giomi et al. 2023, section 5.2, who compare two releases of
different attributes). The other has a public register of the whole population, with the quasi-identifiers of
everyone, or some of them. The person behind a released record is any of those in the register whom its cells
cover in these (the journalist of El Emam and Dankar 2008).

A guess is right if the record is the person's own: it also covers what the attacker did not know, and among m
equal records it is the right one with a probability of 1 in m. In a class of k people that is at most 1 in k.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.cells import Bools, Cells, Floats, Ints
from privacy_engine.attacks.seeking import Target, covered_people, covers_own
from privacy_engine.attacks.trial import Case, Rate, Tries


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """Find a person's record by a part of it.

    Attributes:
        known: Share of a person's quasi-identifiers that is known, 0 < known <= 1; at least one is known.
    """

    known: float = 0.5
    name: ClassVar[str] = "linkage"

    def __post_init__(self) -> None:
        if not 0 < self.known <= 1:
            raise ValueError(f"known must be above 0 and at most 1, got {self.known}")

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run with a part of the record; and with a register, if there is one."""
        chosen = case.space.places([a.name for a in case.source.quasi_identifiers])
        if not len(chosen):
            chosen = np.arange(len(case.space.names))
        groups = [case.attacked, case.control]
        target = Target.of(case.space, case.released)
        count = max(1, round(self.known * len(chosen)))
        known = [_some(len(g), len(case.space.names), chosen, count, rng) for g in groups]
        main, control = (target.taken_for_own(g, k) for g, k in zip(groups, known, strict=True))
        blind = target.taken_for_own(groups[0], np.zeros_like(known[0]))
        found = {"a part of the record": _tries(main, control, blind, rng)}
        if len(case.register):
            register = Blocks.of(case.space, case.register)
            named = [_named(case, target, group, chosen, register) for group in groups]
            anybody = np.full(len(groups[0]), 1.0 / len(case.register))
            found["a public register"] = _tries(named[0], named[1], anybody, rng)
        return found


def _some(people: int, attributes: int, chosen: Ints, count: int, rng: np.random.Generator) -> Bools:
    """(people, attributes) a random choice of a number of the attributes for each person."""
    known = np.zeros((people, attributes), np.bool_)
    chosen = rng.permuted(np.tile(chosen, (people, 1)), axis=1)[:, :count]
    np.put_along_axis(known, chosen, values=True, axis=1)
    return known


def _named(case: Case, target: Target, people: Cells, chosen: Ints, register: Blocks) -> Floats:
    """(t,) probability to name a person by their record: one of those in the register whom it covers.

    The record is the nearest in all attributes in question; the register is searched for what it contains.
    """
    whole = np.zeros((len(people), len(case.space.names)), np.bool_)
    whole[:, chosen] = True
    listed_by = np.zeros_like(whole)
    listed_by[:, case.listed_by] = True
    _, which = target.nearest(people, whole)
    records = target.records.take(which)
    listed, _ = covered_people(case.space, records, register, listed_by, len(case.register) + 1)
    # If the register has no one whom the record covers, no one is named.
    own = covers_own(case.space, records, people, whole) & (listed > 0)
    return np.where(own, 1.0 / np.maximum(listed, 1), 0.0)


def _tries(main: Floats, control: Floats, blind: Floats, rng: np.random.Generator) -> Tries:
    def rate(chances: Floats) -> Rate:
        return Rate.of(rng.random(len(chances)) < chances)

    return Tries(main=rate(main), control=rate(control), baseline=rate(blind))
