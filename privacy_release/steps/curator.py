"""Compare private releases with their source, in exact figures that only the curator may see."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.release import Release
from privacy_engine.tables.faults import ValueRule
from privacy_release.reports.comparison import require_comparable
from privacy_release.reports.curator import write_curator_report, write_for_curator
from privacy_release.reports.synthesizers import compared, labels_of, render_synthesizers
from privacy_release.sources.addresses import find_source
from privacy_release.sources.files import local_files
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import ReportRef, StagedRelease, Table, need

if TYPE_CHECKING:
    import pandas as pd

    from privacy_release.spec.model import ReleaseSpec

SEED = 20_261_122  # of the drawing; the same for every report, so that reports can be compared


def write_missing_values(spec: "ReleaseSpec", release_id: str, work: WorkArea) -> Path | None:
    """Write the values of a source that its categories and hierarchies miss into the curator's folder.

    Args:
        spec: Specification of a release of Parquet files.
        release_id: Release ID, which replaces `{release}` in the address of the files.
        work: Work area in which files of an object store are kept during the call.

    Returns:
        The file, with lines of `column;value;records`, readable only by the service's user. None if the
        categories and hierarchies cover all values.

    Raises:
        SpecError: If the source is of another kind.
        SchemaError: If the source cannot be read.
        IntegrityError: If the curator's folder is a link or belongs to another user.
    """
    found = _missing_values(spec, release_id, work)
    if not found:
        return None
    out = io.StringIO()
    rows = ([column, value, count] for column, values in found.items() for value, count in values.items())
    csv.writer(out, delimiter=";", lineterminator="\n").writerows([["column", "value", "records"], *rows])
    return write_for_curator(out.getvalue(), spec.name, "check", ending=".csv")


def _missing_values(spec: "ReleaseSpec", release_id: str, work: WorkArea) -> dict[str, Counter[str]]:
    if spec.tables is not None or spec.only_source.uri is None or spec.only_source.format != "parquet":
        raise SpecError("--curator shows values of one table of Parquet files; omit it for other sources")
    uri = ReleaseName.of(release_id).address(spec.only_source.uri)
    named = [a for a in spec.data_schema().attributes if a.categories is not None or a.hierarchy is not None]
    found: dict[str, Counter[str]] = {}
    for file in local_files(find_source(uri), work.create().folder):
        parquet = pq.ParquetFile(file)
        kept = [a for a in named if a.name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(columns=[a.name for a in kept]):
            frame = to_frame(pa.Table.from_batches([batch]))
            for attribute in kept:
                faults = attribute.faults(frame[attribute.name])
                none = Counter[str]()
                if missed := faults.get(ValueRule.CATEGORIES, none) | faults.get(ValueRule.HIERARCHY, none):
                    found.setdefault(attribute.name, Counter()).update(missed)
    return found


def by_weight(frame: "pd.DataFrame", person: str) -> "pd.DataFrame":
    """Draw as many records, each by first drawing a person: the distribution that such a release imitates."""
    rows = frame.groupby(person)[person].transform("size")
    return frame.sample(len(frame), replace=True, weights=1 / rows, random_state=SEED, ignore_index=True)


def compare_synthetic(
    source: Table,
    staged: Sequence[StagedRelease],
    reports: Sequence[ReportRef],
    *,
    title: str,
    public: bool,
) -> str:
    """Return a page that compares synthetic releases of one table: epsilon, loss, usefulness and an attack.

    Args:
        source: Table that the releases were made from.
        staged: References to the staged releases.
        reports: Verification reports of the releases, in the same order.
        title: Title of the page.
        public: Whether exact figures of the source may be published. Otherwise the page carries a warning.

    Raises:
        SpecError: If there is no release, one is not synthetic, or only some of them weight persons equally.
        IntegrityError: If a file of the work area is missing or changed, or a report is about other bytes.
    """
    from privacy_engine.measures.synthetic_assessment import assess

    require_comparable(staged, reports)
    if other := sorted({s.method for s in staged if not s.is_synthetic}):
        raise SpecError(
            f"only synthesizers are compared, but {', '.join(other)} draws no records from a model; omit it, "
            "or use CompareOperator, which compares anonymizers"
        )
    if any(s.source.fingerprint != source.source.fingerprint for s in staged):
        raise IntegrityError("the source must be the table that the releases were made from; pass that table")
    frame, schema = source.frame(), source.read_schema()
    parameters = [s.read_model().parameters for s in staged]
    weighed = {"weight" in given for given in parameters}
    if len(weighed) > 1:
        raise SpecError(
            "either all releases must weight persons equally or none, because all are compared with one "
            "source; compare the two kinds separately"
        )
    if weighed == {True}:
        frame = by_weight(frame, schema.by)
    # One seed for all releases, so that the same source records are redrawn, learned from and attacked.
    found = [assess(frame, s.frame(), schema, np.random.default_rng(SEED)) for s in staged]
    labels = labels_of([(s.method, given) for s, given in zip(staged, parameters, strict=True)])
    bookings = [need(s.booking, "booking") for s in staged]
    booked = {(b.dataset, b.key): b.epsilon for b in bookings}
    spent: dict[str, float] = {}
    for (dataset, _), epsilon in booked.items():
        spent[dataset] = spent.get(dataset, 0.0) + epsilon
    return render_synthesizers(
        [
            compared(label, b.epsilon, one, passed=report.passed)
            for label, b, report, one in zip(labels, bookings, reports, found, strict=True)
        ],
        reports,
        title=title,
        rows=len(frame),
        redrawn=found[0].redrawn,
        spent=spent,
        public=public,
    )


def report_to_curator(source: Table, staged: StagedRelease, name: str, release_id: str) -> str:
    """Write a private report on how close a synthetic release is to its source, and return its path.

    Args:
        source: Table that the release was made from.
        staged: Reference to the staged release.
        name: Name of the release. Each has its own folder.
        release_id: ID of the release.

    Raises:
        SpecError: If the release was not drawn from a differentially private model.
        IntegrityError: If a file of the work area is missing or changed.
    """
    if not staged.is_synthetic:
        raise SpecError(
            f"a curator's report needs a synthetic release, but {staged.method} makes none; omit the report"
        )
    model = staged.read_model()
    release = Release(
        table=staged.frame(),
        schema=staged.read_schema(),
        method=staged.method,
        parameters=dict(staged.read_manifest().parameters),
        guarantees=(),
        loss=staged.privacy_loss,
        model=model,
    )
    frame, schema = source.frame(), source.read_schema()
    if "weight" in model.parameters:
        frame = by_weight(frame, schema.by)
    aside = source.holdout
    holdout = None if aside is None else aside.frame()
    path = write_curator_report(release, frame, schema, name=name, release_id=release_id, holdout=holdout)
    return str(path)
