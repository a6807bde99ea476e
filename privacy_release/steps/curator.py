"""The curator's report on a private release, from what was staged; without Airflow."""

from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_release.work.parquet import read_private
from privacy_release.work.references import StagedRef, TableRef
from privacy_release.work.staged import read_manifest, read_schema

if TYPE_CHECKING:
    import pandas as pd

SEED = 20_261_122  # of the drawing; the same for every report, so that two of them compare


def by_weight(frame: "pd.DataFrame", person: str) -> "pd.DataFrame":
    """As many records, each drawn by first drawing a person: what such a release is to be like."""
    rows = frame.groupby(person)[person].transform("size")
    return frame.sample(len(frame), replace=True, weights=1 / rows, random_state=SEED, ignore_index=True)


def report_to_curator(source: TableRef, staged: StagedRef, name: str, release_id: str) -> str:
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
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.release import Release
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_release.reports.curator import write_curator_report

    if "model" not in staged or staged["loss"] is None:
        raise SpecError(
            f"a curator's report is about a synthetic release, {staged['method']} made none; leave it out"
        )
    release = Release(
        table=read_private(staged["uri"], staged["sha256"]),
        schema=read_schema(staged["schema"]),
        method=staged["method"],
        parameters=read_manifest(staged["manifest"])["parameters"],
        guarantees=(),
        loss=PrivacyLoss(**staged["loss"]),
        model=SynthesizerModel.from_json(Path(staged["model"]).read_text()),
    )
    frame, schema = read_private(source["uri"], source["sha256"]), read_schema(source["schema"])
    if release.model is not None and "weight" in release.model.parameters:
        frame = by_weight(frame, schema.by)
    return str(write_curator_report(release, frame, schema, name=name, release_id=release_id))
