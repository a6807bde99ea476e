"""The files with the memberships of published releases, in the curator's folder: their columns and paths."""

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privacy_release.config.settings import curator_folder
from privacy_release.workarea.area import WorkArea

if TYPE_CHECKING:
    import numpy.typing as npt

PERSON, CLASS, KEY, RELEASE = "person", "class", "key", "sha256 of the release"
RECORDS, IDENTIFIER_FORM, WRITTEN_PERSON = (
    "records of the release",
    "form of the identifiers",
    "person as written",
)
SIGNATURE, SET, CELL, VALUES = "signature of ", "set of ", "cell of ", "values of "
SALT, OLD_MARK = "salt", "mark of "  # of earlier versions
SECRET, MARK = "secret of the marks", "value mark of "
OWNER, OWNERS = "number of the person", "form of the persons"
REGISTER, WAITING, SCHEMA = "sha256 of the register", "sha256 of who waits", "schema of the release"
_KINDS = ("register", "records", "waiting", "fragments")  # files that are kept with those of a release


def file_of(name: str, release_id: str, sha256: str) -> Path:
    """Return the path of a publication's file, in a folder that only the service user can enter."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", release_id)[:60]
    digest = hashlib.sha256(json.dumps([name, release_id, sha256]).encode()).hexdigest()[:16]
    return WorkArea(curator_folder() / "membership", name).path(f"{slug}-{digest}.parquet")


def beside(path: Path, kind: str) -> Path:
    """Return the path of a further file that is kept with the memberships of a release."""
    return path.with_suffix(f".{kind}.parquet")


def remove(path: Path) -> None:
    """Remove the file of a publication, and those that are kept with it."""
    for file in (path, *(beside(path, kind) for kind in _KINDS)):
        file.unlink(missing_ok=True)


def columns_of(frame: "pd.DataFrame", kind: str) -> "dict[str, npt.NDArray[np.object_]]":
    """Return the columns of a kind, by attribute, each as text of shape (n,) with None for nulls."""
    return {
        name.removeprefix(kind): frame[name].astype(object).where(frame[name].notna(), None).to_numpy()
        for name in frame.columns
        if name.startswith(kind)
    }
