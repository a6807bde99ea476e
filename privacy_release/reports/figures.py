"""Figures of a release: information loss, disclosure risk, and the lower bound of the loss."""

import math
from collections.abc import Mapping
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

# A figure for the reviewer. It comes from the source and cannot be derived from the released table, as the
# other figures of loss nearly can. So it is in no manifest and no report.
BOUND = "gcp_bound"
_LOSSES = ("gcp", "gcp_lca", "gcp_own")


def measure(release: "Release", rng: "np.random.Generator") -> tuple[dict[str, float], dict[str, float]]:
    """Return information loss and risk of the released records, by name. Non-finite figures are omitted."""
    release = release.of_persons
    return lost_of(release, rng), risk_of(release)


def lost_of(release: "Release", rng: "np.random.Generator") -> dict[str, float]:
    """Return the notes of the method and its information loss, by name."""
    lost = dict(release.notes)
    if release.recoding is not None:
        lost |= utility.figures(release.recoding, rng)
    if release.recodings:
        lost |= utility.figures_of_tables(list(release.recodings.values()))
    return finite(lost)


def risk_of(release: "Release") -> dict[str, float]:
    """Return the risk of the released records, by name."""
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
    """Return ``gcp_bound``, a lower bound on the loss of every k-anonymous release of this table.

    The bound is rounded down to two digits, so that not even the reviewer learns the source more exactly.
    It is omitted for linked rows, for methods other than anonymizers, and for very large tables.
    """
    demanded = [model.k for model in release.guarantees if isinstance(model, KAnonymity)]
    if release.recoding is None or release.trajectories is not None or not demanded:
        return {}
    bound = least_gcp(release.recoding.encoded, max(demanded))
    return {} if bound is None else {BOUND: _rounded_down(bound)}


def _rounded_down(bound: float) -> float:
    """Round down to two digits."""
    scale = 10.0 ** (1 - math.floor(math.log10(bound))) if bound > 0 else 1.0
    return math.floor(bound * scale) / scale


def counted_in(figures: Mapping[str, float], suppressed: int, rows: int, attributes: int) -> dict[str, float]:
    """Return the figures of a release over all records, including those suppressed before the method ran.

    A suppressed record has lost everything, see `privacy_engine.measures.utility`. Figures that cannot be
    derived from those of the other records (entropy, query error) are omitted.

    Args:
        figures: Figures over the records that the method was given.
        suppressed: Number of records suppressed before.
        rows: Number of records that the method was given.
        attributes: Number of quasi-identifiers.
    """
    if not suppressed or "suppressed_records" not in figures:
        return dict(figures)
    n, before = rows + suppressed, figures["suppressed_records"]
    over_all = {
        name: value for name, value in figures.items() if name not in ("non_uniform_entropy", "query_error")
    }
    over_all |= {name: (figures[name] * rows + suppressed) / n for name in _LOSSES if name in figures}
    over_all["suppressed_records"] = before + suppressed
    over_all["suppressed"] = over_all["suppressed_records"] / n
    if "suppressed_cells" in figures:
        over_all["suppressed_cells"] = figures["suppressed_cells"] + suppressed * attributes
    if "discernibility" in figures:  # the sum of the squared class sizes, and n for each suppressed record
        over_all["discernibility"] = (
            figures["discernibility"] - before * rows + over_all["suppressed_records"] * n
        )
    if "distorted" in figures:
        over_all["distorted"] = figures["distorted"] * rows / n
    return over_all
