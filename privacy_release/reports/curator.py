"""The curator's report on a synthetic release: how close it is to its source, in exact figures of the source.

It is private: a file that only the service user can read, in a folder that only the service user can enter.
It is outside of the work area, which is removed with the run, and never in the lake. **Publishing it, or any
figure in it, voids the differential privacy of the release.**
"""

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_release.config.settings import curator_folder
from privacy_release.reports.charts import HeatMap, Scale, heat_map, interval
from privacy_release.reports.release import page_template
from privacy_release.reports.synthetic import network_of
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.attacks.synthetic import Share
    from privacy_engine.measures.synthetic_assessment import Assessment
    from privacy_engine.measures.synthetic_utility import CorrelationDifference
    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema

WORST = 5  # number of marginals and pairs that are named
FULL = 0.5  # difference of correlations at which a cell of the heat map is full
SEED = 20_140_622  # of the sampling of records; the same for every report, so that reports can be compared


def write_curator_report(
    release: "Release",
    source_table: "pd.DataFrame",
    schema: "DataSchema",
    *,
    name: str,
    release_id: str,
    folder: Path | None = None,
    holdout: "pd.DataFrame | None" = None,
) -> Path:
    """Assess a synthetic release and write the report. An earlier one of the same name and ID is replaced.

    Args:
        release: Synthetic records, on the domains of ``schema``.
        source_table: Records that the release was made from.
        schema: Schema of the source.
        name: Name of the release. Each has its own folder.
        release_id: ID of the release.
        folder: Folder of all curators' reports. Default: `curator_folder`.
        holdout: Records of the same population that were not in the source. None if there are none.

    Raises:
        SchemaError: If a table does not fit the schema, or a domain is not public.
        IntegrityError: If the folder is a link or belongs to another user.
        OSError: If the file cannot be written.
    """
    html = render_curator_report(
        release, source_table, schema, name=name, release_id=release_id, holdout=holdout
    )
    return write_for_curator(html, name, release_id, folder=folder)


def write_for_curator(
    text: str | bytes, name: str, release_id: str, *, ending: str = ".html", folder: Path | None = None
) -> Path:
    """Write a file that only the service user can read, and return its path. An earlier one is replaced.

    Args:
        text: Content of the file.
        name: Name of the release or DAG. Each has its own folder.
        release_id: ID of the release or run.
        ending: Ending of the file's name.
        folder: Folder of all curators' files. Default: `curator_folder`.

    Raises:
        IntegrityError: If the folder is a link or belongs to another user.
        OSError: If the file cannot be written.
    """
    path = WorkArea(folder or curator_folder(), name).path(curator_file(release_id, ending))
    write_private(path, text if isinstance(text, bytes) else text.encode())
    return path


def read_for_curator(folder: Path, release_id: str, ending: str, largest: int) -> bytes | None:
    """Read at most `largest` bytes of a file that `write_for_curator` wrote. None if there is none.

    Raises:
        OSError: If the file is a link, or cannot be read.
    """
    path = folder / curator_file(release_id, ending)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return file.read(largest)
    except FileNotFoundError:
        return None


def curator_file(release_id: str, ending: str) -> str:
    """Return the name of a curator's file about a release or run."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", release_id)[:60]
    digest = hashlib.sha256(release_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-{digest}{ending}"


def render_curator_report(
    release: "Release",
    source_table: "pd.DataFrame",
    schema: "DataSchema",
    *,
    name: str,
    release_id: str,
    holdout: "pd.DataFrame | None" = None,
) -> str:
    """Return the report as HTML. Arguments and errors are as for `write_curator_report`."""
    from privacy_engine.measures.synthetic_assessment import ATTACK_ROWS, LEARNING_ROWS, assess

    found = assess(source_table, release.table, schema, np.random.default_rng(SEED), holdout)
    correlation, heat = found.correlation, _heat(found.correlation)
    return page_template("curator.html.j2").render(
        title=name,
        release_id=release_id,
        release=release,
        source_rows=len(source_table),
        found=found,
        marginals=_marginals(found),
        attributes=_attributes(found),
        heat=heat,
        pairs=[
            (cell.pair, *(float(m[cell.row, cell.column]) for m in (correlation.real, correlation.synthetic)))
            for cell in heat.largest(WORST)
        ],
        scores=found.scores,
        attacks=_attacks(found),
        network=network_of(release),
        learning_rows=LEARNING_ROWS,
        attack_rows=ATTACK_ROWS,
        has_holdout=found.membership is not None,
    )


def _marginals(found: "Assessment") -> list[dict[str, Any]]:
    """Return marginals by number of attributes, with the worst by name. Bars are shares of the longest."""
    longest = max(max(m.mean for m in found.marginals), max(found.redrawn), 1e-9)
    return [
        {
            "ways": ways,
            "count": len(marginal.subsets),
            "mean": marginal.mean,
            "share": marginal.mean / longest,
            "redrawn": redrawn,
            "redrawn_share": redrawn / longest,
            "worst": [(", ".join(names), tvd) for names, tvd in marginal.worst(WORST)],
        }
        for ways, (marginal, redrawn) in enumerate(zip(found.marginals, found.redrawn, strict=True), start=1)
    ]


def _attributes(found: "Assessment") -> list[dict[str, Any]]:
    """Return each attribute with its distances and the bars of its groups."""
    distance = dict(
        zip((names[0] for names in found.marginals[0].subsets), found.marginals[0].tvd, strict=True)
    )
    attributes = []
    for marginal in found.groups:
        real, drawn = marginal.shares
        longest = max(*real, *drawn, 1e-9)
        attributes.append(
            {
                "name": marginal.attribute,
                "tvd": float(distance[marginal.attribute]),
                "wasserstein": found.wasserstein.get(marginal.attribute),
                "rows": [
                    {"label": g, "real": a, "synthetic": b, "real_share": a / longest, "share": b / longest}
                    for g, a, b in zip(marginal.groups, real, drawn, strict=True)
                ],
            }
        )
    return attributes


def _heat(correlation: "CorrelationDifference") -> HeatMap:
    """Return a map of the differences between the correlations of each pair."""
    real, synthetic = correlation.real, correlation.synthetic
    return heat_map(
        correlation.names,
        lambda i, j: min(float(correlation.difference[i, j]), 1.0),
        lambda i, j: f"source {real[i, j]:.3f}, synthetic {synthetic[i, j]:.3f}",
        full=FULL,
    )


def _attacks(found: "Assessment") -> list[dict[str, Any]]:
    """Return the result of each attack, with its interval on a line from 0 to 1."""
    measured: list[tuple[str, str, Share | None]] = [
        (
            "Closeness to the source",
            "Probability that a synthetic record is closer to the source than a source record is to the "
            "others. Near 1, people are copied. 0.5 is as for new people. Lower is coarser than people are.",
            found.closeness,
        ),
        (
            "Distance to closest record",
            "Share of the synthetic records whose closest person is in the source rather than held out.",
            found.closest_record,
        ),
        (
            "Membership inference",
            "Area under the curve of an attacker who separates source people from held-out people. 0.5 is "
            "guessing.",
            found.membership,
        ),
    ]
    return [
        {
            "name": name,
            "meaning": meaning,
            "share": share,
            "chart": interval(
                share.low,
                share.value,
                share.high,
                scale=Scale(low=0.0, high=1.0),
                nothing=0.5,
                label=f"{share.value:.3f}, from {share.low:.3f} to {share.high:.3f} on a scale of 0 to 1",
            ),
        }
        for name, meaning, share in measured
        if share
    ]
