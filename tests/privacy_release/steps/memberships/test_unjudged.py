"""Earlier releases whose files do not allow to judge differences."""

from pathlib import Path

import pandas as pd
import pytest

from privacy_release.lake.log import Publication
from privacy_release.steps.memberships.files import file_of
from privacy_release.steps.memberships.unjudged import made_before

VALUES, MARKS, OLD_MARKS = "values of disease", "value mark of disease", "mark of disease"


@pytest.mark.parametrize(
    ("columns", "form", "count"),
    [
        ((VALUES, MARKS), "read", 0),
        ((VALUES, OLD_MARKS), "read", 0),
        ((VALUES,), "read", 1),
        ((MARKS,), "read", 1),
        ((VALUES, MARKS), "as written", 1),
    ],
)
def test_values_of_classes_and_marks_in_the_form_of_now_are_needed(
    curator: Path, publication: Publication, columns: tuple[str, ...], form: str, count: int
) -> None:
    path = file_of("people", publication.release_id, publication.sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = {name: ["a text"] for name in ("signature of disease", *columns)}
    pd.DataFrame({**cells, "form of the identifiers": form}).to_parquet(path)
    assert made_before("people", [publication], "read") == count
