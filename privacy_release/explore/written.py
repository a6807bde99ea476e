"""Write measurements to files: of each choice in the work area, and the page of all in the curator's folder.

Only the service user can read the page, and it is outside of every lake.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_release.explore.cells import MeasuredChoice, failed
from privacy_release.explore.choices import Choice, ChoiceRef
from privacy_release.explore.page import render
from privacy_release.explore.specification import fields_of, flow, with_choice
from privacy_release.reports.curator import write_for_curator
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import MeasuredRef, RecordsRef

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec


def keep_measured(found: MeasuredChoice, work: WorkArea, label: str) -> MeasuredRef:
    """Write the measurements of a choice to the work area.

    Args:
        found: Figures of a choice, and its columns before and after.
        work: Work area of the run.
        label: Prefix of the file name.
    """
    path = work.path(f"{label}.measured.json")
    sha256 = write_private(path, json.dumps(found).encode())
    return MeasuredRef(name=found["name"], made=found["failed"] is None, uri=str(path), sha256=sha256)


def joined(choices: Iterable[ChoiceRef], kept: Iterable[MeasuredRef]) -> list[MeasuredChoice]:
    """Return the measurements of all choices, in their order, with an entry for those without one.

    Raises:
        IntegrityError: If a file is missing or changed.
    """
    found: dict[str, MeasuredChoice] = {}
    for ref in kept:
        ref.require_unchanged()
        found[ref.name] = json.loads(Path(ref.uri).read_bytes())
    ended = "its task ended without a measurement, see the log of the task"
    return [found.get(ref["name"]) or failed(Choice(**ref), ended) for ref in choices]


def write_page(
    cells: Sequence[MeasuredChoice],
    records: RecordsRef,
    spec: "ReleaseSpec",
    file: Path,
    *,
    run: str = "explore",
) -> Path:
    """Write the page into the curator's folder, replacing one of the same release and run. Return its path.

    Args:
        cells: Measured figures of each choice.
        records: Records that they were measured on.
        spec: Specification of the release.
        file: Path of the specification, as the command takes it.
        run: Name of the page.

    Raises:
        IntegrityError: If the folder is a link or belongs to another user.
        SpecError: If the form of the specification's file changed in the meantime.
        ValueError: If the folder is given by a relative path.
    """

    def yaml_of(cell: MeasuredChoice) -> tuple[str, str]:
        choice = Choice(name=cell["name"], method=cell["method"], parameters=cell["parameters"])
        fields = fields_of(spec, choice)
        return flow(fields), with_choice(file, fields)

    html = render(cells, records, title=spec.name, file=str(file), yaml_of=yaml_of)
    return write_for_curator(html, spec.name, run)
