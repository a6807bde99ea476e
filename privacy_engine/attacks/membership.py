"""Membership: is a person among those from whom the release was made?

Two attackers; the better one is chosen on one half of the people and evaluated on the other. The first takes
anyone close to a released record for a member (nearest record). The second compares that distance with the
distance to the people outside (density ratio: Chen et al. 2020, "GAN-Leaks", section 4.5; van Breugel et al.
2023, "DOMIAS"). Each says yes above a limit that a share of the outsiders exceeds. `main` is the share of
members, `control` that of outsiders, taken for members: guessing takes equally many of both.

A third of the outsiders is the reference of the density ratio, a third sets the limits, and a third is
evaluated. With shadow releases of the same method, a third attacker learns from them; see `shadow`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy_engine.attacks.cells import Cells, Floats
from privacy_engine.attacks.inference import cross_fitted
from privacy_engine.attacks.seeking import Target
from privacy_engine.attacks.shadow import scores_of
from privacy_engine.attacks.trial import Case, Tries

LEAST = 30  # outsiders, ten for each purpose


@dataclass(frozen=True, kw_only=True)
class MembershipInference:
    """Distinguish people in the release from others.

    Attributes:
        false_alarms: Shares of the outsiders to be taken for members, each above 0 and below 1: a low share
            finds a few people surely, a high one many if outsiders have the same values.
    """

    false_alarms: tuple[float, ...] = (0.1, 0.5)
    name: ClassVar[str] = "membership"

    def __post_init__(self) -> None:
        if not self.false_alarms or not all(0 < share < 1 for share in self.false_alarms):
            raise ValueError(f"false_alarms must be above 0 and below 1, got {self.false_alarms}")

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run with the release only, and with shadows; empty if there are too few outsiders."""
        third = len(case.outsiders) // 3
        if 3 * third < LEAST:
            return {}
        rows = np.arange(3 * third).reshape(3, third)
        reference, setting, held_out = (case.outsiders.take(r) for r in rows)
        release = Target.of(case.space, case.released)
        beside = Target.of(case.space, reference)
        most = len(case.targets)
        groups = (setting.sample(most, rng), case.attacked, held_out.sample(most, rng))
        near = [_distance(release, group) for group in groups]
        far = [_distance(beside, group) for group in groups]
        ratio = [(f - n) / np.maximum(f + n, 1e-9) for n, f in zip(near, far, strict=True)]
        by_release = {"nearest record": [-n for n in near], "density ratio": ratio}
        found = {"people in the release": self._taken(by_release, rng)}
        if by_shadows := scores_of(case, rng):
            three = [by_shadows.setting, by_shadows.people, by_shadows.held_out]
            found["people in the release, by shadow models"] = self._taken({"shadows": three}, rng)
        return found

    def _taken(self, scores: Mapping[str, list[Floats]], rng: np.random.Generator) -> Tries:
        """Count people and outsiders taken for members, by the scores of those who set limits and of both."""
        # Equal scores are put in random order, or a limit shared by many would raise the false alarms.
        mixed = {how: [s + 1e-9 * rng.random(len(s)) for s in three] for how, three in scores.items()}
        right = {
            f"{how} {share}": tuple(score > np.quantile(limit, 1 - share) for score in (inside, outside))
            for how, (limit, inside, outside) in mixed.items()
            for share in self.false_alarms
        }
        main, control = cross_fitted(right)
        # Without the release, as many of the members would be found as of the outsiders.
        return Tries(main=main, control=control, baseline=control)


def _distance(target: Target, people: Cells) -> Floats:
    return target.nearest(people, np.ones((len(people), len(target.space.names)), np.bool_))[0]
