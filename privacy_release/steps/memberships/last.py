"""The newest release of a table as published, kept for the next release, which may publish classes again.

A copy of the released records and the list of waiting persons are kept with the memberships of a release in
the curator's folder. The memberships contain their SHA-256, so a changed or exchanged copy is refused, and
nothing is read from the lake, which others can write to. The copy does not say whose records they are. The
memberships give the persons of each class, and their marks show which record of the class is theirs. If the
release was recorded by an earlier version, the marks of persons who are not in the new release cannot be
read, so the remaining records of the class are assigned to them in any order.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError
from privacy_engine.republication.incremental import LastRelease
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_release.steps.memberships.earlier import MembershipFile
from privacy_release.steps.memberships.files import SCHEMA, WAITING, beside
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private

if TYPE_CHECKING:
    import numpy.typing as npt

_PERSON, _WAITED = "person", "releases"


def write_waiting(waited: Mapping[str, int], path: Path) -> str:
    """Write the number of releases that each person has waited to a private file. Return its SHA-256."""
    columns = {_PERSON: list(waited), _WAITED: list(waited.values())}
    return write_private(
        path, parquet_bytes(pd.DataFrame(columns).astype({_PERSON: object, _WAITED: "int64"}))
    )


def read_waiting(path: str, sha256: str) -> dict[str, int]:
    """Read a file of `write_waiting`.

    Raises:
        IntegrityError: If the file is missing or changed.
    """
    frame = read_private(path, sha256)
    return dict(zip(frame[_PERSON].tolist(), frame[_WAITED].tolist(), strict=True))


def last_release(
    table: "pd.DataFrame",
    schema: DataSchema,
    membership: "Membership",
    fragments: "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None" = None,
) -> "LastRelease":
    """Assign the records of a release to its persons.

    Args:
        table: Released records, shape (n, columns).
        schema: Schema of the records.
        membership: Persons of the release, with the values of those who are in the new release.
        fragments: Fragment of each record, shape (n,), and of each person, shape (n,), if the release was
            made in fragments.

    Raises:
        IntegrityError: If classes or values differ from those of the persons.
    """
    places = np.array([str(i) for i in range(len(table))], dtype=object)
    found = Membership.of_table(places, table, schema)
    rows = _keyed(found, {name: _texts(found, name) for name in found.values})
    known = {name: _texts(membership, name) for name in found.values}
    people = _keyed(membership, known)
    if fragments is not None:
        for frame, own in zip((rows, people), fragments, strict=True):
            frame["class"] = frame["class"] + [f" {fragment}" for fragment in own.tolist()]
    if len(rows) != len(people) or sorted(rows["class"]) != sorted(people["class"]):
        raise IntegrityError("the records of the last release must match its persons; restore both files")
    owner = np.full(len(table), -1)
    certain = people[[*known]].notna().all(axis=1) if known else pd.Series(True, index=people.index)
    for keys, part in (([*rows.columns], people[certain]), (["class"], people[~certain])):
        left = rows[owner < 0]
        left = left.assign(turn=left.groupby(keys).cumcount())
        part = part.assign(turn=part.groupby(keys).cumcount())
        joined = part.reset_index().merge(left.reset_index(), on=[*keys, "turn"], suffixes=("", "_row"))
        owner[joined["index_row"]] = joined["index"]
    if (owner < 0).any():
        raise IntegrityError("the values of the last release must match its persons; restore both files")
    owners = None if membership.owners is None else membership.owners[owner]
    return LastRelease(table=table, persons=membership.persons[owner], owners=owners)


def _keyed(membership: "Membership", values: "Mapping[str, npt.NDArray[np.object_]]") -> "pd.DataFrame":
    """Return the cells of each person's class, as one text, and the person's values."""
    names = sorted(membership.boxes)
    cells = zip(*(membership.boxes[name][membership.first] for name in names), strict=True)
    of_class = [json.dumps(own) for own in cells]
    labels: Any = membership.labels.tolist()
    return pd.DataFrame({"class": [of_class[label] for label in labels], **values})


def _texts(membership: "Membership", name: str) -> "npt.NDArray[np.object_]":
    """Return the hash of each person's value, shape (n,), None where it is unknown."""
    texts = np.array([*membership.counts[name].texts, None], dtype=object)
    values = membership.values.get(name, np.full(len(membership), -1))
    return texts[values]


def read_last(
    file: MembershipFile,
    membership: "Membership",
    fragments: "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None" = None,
) -> "tuple[LastRelease, dict[str, int]] | None":
    """Read the kept copy of a release whose classes may be published again, as for `Past.last`.

    `fragments` is as for `last_release`.
    """
    frame, path = file.frame(), file.path
    if WAITING not in frame:
        return None
    waited = read_waiting(str(beside(path, "waiting")), frame[WAITING].iloc[0])
    records = read_private(str(beside(path, "records")), file.publication.sha256)
    schema = DataSchema.from_dict(json.loads(frame[SCHEMA].iloc[0]))
    return last_release(records, schema, membership, fragments), waited
