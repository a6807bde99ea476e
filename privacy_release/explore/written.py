"""The page of a grid as a file that the service user alone can read, outside of every lake."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_release.explore.cells import Measured
from privacy_release.explore.choices import Choice
from privacy_release.explore.page import render
from privacy_release.explore.records import RecordsRef
from privacy_release.explore.specification import fields_of, flow, with_choice
from privacy_release.reports.curator import write_for_curator

if TYPE_CHECKING:
    from privacy_release.spec.model import ReleaseSpec


def write_page(
    cells: Sequence[Measured],
    records: RecordsRef,
    spec: "ReleaseSpec",
    file: Path,
    *,
    run: str = "explore",
) -> Path:
    """Write the page into the curator's folder, over an earlier one of the same release and run; its path.

    Args:
        cells: what was measured.
        records: on what.
        spec: of the release.
        file: where it stands, as the command takes it.
        run: names the page.

    Raises:
        IntegrityError: if the folder is a link or another user's.
        SpecError: if the specification's file changed its form meanwhile.
        ValueError: if the folder is given by a relative path.
    """

    def yaml_of(cell: Measured) -> tuple[str, str]:
        choice = Choice(name=cell["name"], method=cell["method"], parameters=cell["parameters"])
        fields = fields_of(spec, choice)
        return flow(fields), with_choice(file, fields)

    html = render(cells, records, title=spec.name, file=str(file), yaml_of=yaml_of)
    return write_for_curator(html, spec.name, run)
