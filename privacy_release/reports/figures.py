"""Figures of a release: what the data lost, how exposed people are, and the bound of the loss."""

import math
from typing import TYPE_CHECKING

from privacy_engine.measures import risk, utility
from privacy_engine.recoding.nearness.least_boxes import least_gcp
from privacy_engine.tables.linked import ReleasedClasses
from privacy_engine.verification import known_rows
from privacy_engine.verification.models import KAnonymity
from privacy_release.workarea.staged import finite

if TYPE_CHECKING:
    import numpy as np

    from privacy_engine.release import Release

# A figure for those who decide on a release. It comes from the source and cannot be read off the released
# table, as the other figures of loss nearly can: it is in no manifest and no report.
BOUND = "gcp_bound"


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Loss of information, and risk of the released records, by name; what is not finite is left out."""
    release = release.of_persons
    return lost_of(release, rng), risk_of(release)


def lost_of(release: "Release", rng: "np.random.Generator") -> dict[str, float]:
    """Notes of the method and loss of information, by name."""
    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    if release.recodings:
        lost |= utility.figures_of_tables(list(release.recodings.values()))
    return finite(lost)


def risk_of(release: "Release") -> dict[str, float]:
    """Risk of the released records by name."""
    released = ReleasedClasses.of_table(release.table, release.schema, release.persons)
    at_risk = risk.figures(released.whole)
    if released.tables:
        at_risk["hasr"] = max(map(risk.hasr, released.tables.values()))
    if released.whole.persons is not None:
        secret = [a.name for a in release.schema.sensitive]
        known = {name: released.of_attribute(name).values_left(name) for name in secret}
        at_risk |= known_rows.figures(known, release.guarantees)
    return finite(at_risk)


def loss_bound(release: "Release") -> dict[str, float]:
    """``gcp_bound``, below which no k-anonymous release of this table can lose, where it is known.

    It is rounded down to two digits: not even the officer needs to be told the source more exactly.
    Nothing is told of linked rows, of other methods than anonymizers, and of very large tables.
    """
    asked = [model.k for model in release.guarantees if isinstance(model, KAnonymity)]
    if release.recoding is None or release.trajectories is not None or not asked:
        return {}
    bound = least_gcp(release.recoding.encoded, max(asked))
    return {} if bound is None else {BOUND: _rounded_down(bound)}


def _rounded_down(bound: float) -> float:
    """To two digits."""
    scale = 10.0 ** (1 - math.floor(math.log10(bound))) if bound > 0 else 1.0
    return math.floor(bound * scale) / scale
