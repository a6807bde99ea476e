"""Registers: a whole population at the time of a release, kept for later releases.

The register of a release is kept with its memberships in the curator's folder, with the hash of each person
and the text of each known value. The memberships contain its SHA-256, so a changed or exchanged register is
refused. The address that it was read from is never read again.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privacy_engine.errors import SpecError
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.published_boxes import known_texts
from privacy_release.steps.memberships.persons import read_persons
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import PersonsRef, Table

if TYPE_CHECKING:
    import numpy.typing as npt

_PERSON, _VALUE = "person", "value of "


def population_of(register: Table, persons: "npt.NDArray[np.object_]") -> "Membership":
    """Return the persons of an ingested register and their known values.

    Args:
        register: Register that was ingested with the identifier of its persons.
        persons: Hash of each person, in the order of the register, shape (n,).
    """
    frame = register.frame()
    return _population(persons, known_texts(frame, register.read_schema()))


def write_population(population: "Membership", path: Path) -> str:
    """Write a population to a private file and return its SHA-256."""
    values = {_VALUE + name: texts for name, texts in population.boxes.items()}
    return write_private(path, parquet_bytes(pd.DataFrame({_PERSON: population.persons, **values})))


def read_population(path: Path, sha256: str) -> "Membership":
    """Read a file of `write_population`."""
    frame = read_private(path, sha256)
    frame = frame.astype(object).where(frame.notna(), None)
    values = {
        name.removeprefix(_VALUE): frame[name].to_numpy(dtype=object)
        for name in frame.columns
        if name != _PERSON
    }
    return _population(frame[_PERSON].to_numpy(dtype=object), values)


def _population(
    persons: "npt.NDArray[np.object_]", values: "dict[str, npt.NDArray[np.object_]]"
) -> "Membership":
    return Membership(persons=persons, labels=np.arange(len(persons)), boxes=values)


def population(register: Table | None, persons: PersonsRef) -> "Membership | None":
    """Return the persons of the register that a run has read. None if there is none, or it has no persons.

    Raises:
        SpecError: If the register has another key or form than the persons of the release.
        IntegrityError: If a file is missing or changed.
    """
    if register is None or not register.follows_people:
        return None
    own = register.followed_persons
    if (own.key, own.form) != (persons.key, persons.form):
        raise SpecError(
            "the register must be ingested with the membership key of the release and the same identifier, "
            "so that its persons can be found in the release; ingest both with the same `person` and key"
        )
    return population_of(register, read_persons(own))
