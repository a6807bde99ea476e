"""What private releases are beside their source, in exact figures of it: for the curator; without Airflow."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import IntegrityError, SpecError
from privacy_engine.release import Release
from privacy_engine.tables.faults import Rule
from privacy_release.reports.comparison import require_comparable
from privacy_release.reports.curator import write_curator_report, write_for_curator
from privacy_release.reports.synthesizers import compared, labels_of, render_synthesizers
from privacy_release.sources.addresses import find_source
from privacy_release.sources.files import local_files
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import ReportRef, StagedRelease, Table, need
from privacy_release.workarea.staged import read_manifest, read_schema

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_release.spec.model import ReleaseSpec

SEED = 20_261_122  # of the drawing; the same for every report, so that two of them compare


def write_missing_values(spec: "ReleaseSpec", release_id: str, work: WorkArea) -> Path | None:
    """Write the values of a source that its categories and hierarchies miss into the curator's folder.

    Args:
        spec: of a release of Parquet files.
        release_id: what `{release}` stands for in their address.
        work: where files of an object store are kept meanwhile.

    Returns:
        The file, lines of `column;value;records` that nobody else can read; None where no value is missed.

    Raises:
        SpecError: if the source is another one.
        SchemaError: if it cannot be read.
        IntegrityError: if the curator's folder is a link or another user's.
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
        raise SpecError("--curator shows values of one table of Parquet files; leave it out for others")
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
                if missed := faults.get(Rule.CATEGORIES, none) | faults.get(Rule.HIERARCHY, none):
                    found.setdefault(attribute.name, Counter()).update(missed)
    return found


def by_weight(frame: "pd.DataFrame", person: str) -> "pd.DataFrame":
    """As many records, each drawn by first drawing a person: what such a release is to be like."""
    rows = frame.groupby(person)[person].transform("size")
    return frame.sample(len(frame), replace=True, weights=1 / rows, random_state=SEED, ignore_index=True)


def model_of(staged: StagedRelease) -> "SynthesizerModel":
    """The model that the records of a synthetic release were drawn from."""
    from privacy_engine.synthesizers.model import SynthesizerModel

    return SynthesizerModel.from_json(Path(need(staged.model, "model")).read_text())


def compare_synthetic(
    source: Table,
    staged: Sequence[StagedRelease],
    reports: Sequence[ReportRef],
    *,
    title: str,
    public: bool,
) -> str:
    """A page that holds synthetic releases of one table against it: epsilon, loss, use and an attack.

    Args:
        source: what they were made from.
        staged: the releases.
        reports: what verification found on each, in the same order.
        title: for people.
        public: whether everybody may know exact figures of the source; else the page warns.

    Raises:
        SpecError: if there is nothing to compare, a release is not synthetic, or only some weigh persons.
        IntegrityError: if a file of the work area is missing or changed, or a report is about other bytes.
    """
    from privacy_engine.measures.synthetic_assessment import assess

    require_comparable(staged, reports)
    if other := sorted({s.method for s in staged if s.model is None or s.loss is None}):
        raise SpecError(
            f"synthesizers are compared, {', '.join(other)} draws no records from a model; leave it out, or "
            "take CompareOperator, which compares anonymizers"
        )
    if any(s.source.fingerprint != source.source.fingerprint for s in staged):
        raise IntegrityError("the source must be the table that the releases were made from; pass that one")
    frame, schema = read_private(source.uri, source.sha256), read_schema(source.schema)
    parameters = [model_of(s).parameters for s in staged]
    weighed = {"weight" in given for given in parameters}
    if len(weighed) > 1:
        raise SpecError(
            "synthesizers are compared where all weigh persons or none does: each would be held against "
            "another truth; compare them apart"
        )
    if weighed == {True}:
        frame = by_weight(frame, schema.by)
    # One seed for all: the same records are redrawn, learned from and attacked beside each of them.
    found = [
        assess(frame, read_private(s.uri, s.sha256), schema, np.random.default_rng(SEED)) for s in staged
    ]
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
    """Write how near a synthetic release is to its source; the path of the file, which must stay inside.

    Args:
        source: what the release was made from.
        staged: the release.
        name: of the release; each has a folder of its own.
        release_id: of this one.

    Raises:
        SpecError: if the release was not drawn from a differentially private model.
        IntegrityError: if a file of the work area is missing or changed.
    """
    if staged.model is None or staged.loss is None:
        raise SpecError(
            f"a curator's report is about a synthetic release, {staged.method} made none; leave it out"
        )
    release = Release(
        table=read_private(staged.uri, staged.sha256),
        schema=read_schema(staged.schema),
        method=staged.method,
        parameters=dict(read_manifest(staged.manifest).parameters),
        guarantees=(),
        loss=PrivacyLoss(**staged.loss),
        model=model_of(staged),
    )
    frame, schema = read_private(source.uri, source.sha256), read_schema(source.schema)
    if release.model is not None and "weight" in release.model.parameters:
        frame = by_weight(frame, schema.by)
    aside = source.holdout
    holdout = None if aside is None else read_private(aside.uri, aside.sha256)
    path = write_curator_report(release, frame, schema, name=name, release_id=release_id, holdout=holdout)
    return str(path)
