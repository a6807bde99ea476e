"""Read who is in which class of the earlier releases of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_release.lake.log import State
from privacy_release.lake.read import releases
from privacy_release.steps.memberships.files import (
    CELL,
    CLASS,
    IDENTIFIER_FORM,
    KEY,
    MARK,
    OLD_MARK,
    OWNER,
    OWNERS,
    PERSON,
    RECORDS,
    REGISTER,
    RELEASE,
    SET,
    SIGNATURE,
    VALUES,
    beside,
    columns_of,
    file_of,
)
from privacy_release.steps.memberships.marks import salts_of, values_of
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.memberships.registers import read_population
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.people import WRITTEN, require_form

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_release.lake.store import ReleaseTable


@dataclass(frozen=True, kw_only=True)
class EarlierReleases:
    """The releases of a table that were published and not retracted, without the publication of one run.

    Attributes:
        named: The release table. None if the caller did not name it.
        run: Release ID and run key of the run whose own publication is omitted, as in `published_releases`.
    """

    named: "ReleaseTable | None"
    run: tuple[str, str] | None

    @property
    def table(self) -> "ReleaseTable":
        """The release table, which a policy about earlier releases needs.

        Raises:
            SpecError: If it was not named.
        """
        if self.named is None:
            raise SpecError(
                "the policy is also about the earlier releases of the table, so verify needs the name of the "
                "table and its lake"
            )
        return self.named

    def published(self) -> list[dict[str, Any]]:
        """Return the publications, oldest first. Raises as `published_releases`."""
        return published_releases(self.table, self.run)

    def memberships(
        self, persons: KnownPersons, *, marked: int = 0, registers: bool = False
    ) -> "dict[int, Membership]":
        """Return the memberships by version. Arguments and errors are as for `earlier_releases`."""
        return earlier_releases(self.table, persons, self.run, marked=marked, registers=registers)


def published_releases(table: "ReleaseTable", but: tuple[str, str] | None = None) -> list[dict[str, Any]]:
    """Return all publications in a table that were not retracted, oldest first.

    Args:
        table: The release table.
        but: Release ID and run key of a run whose own publication is omitted, because a retry publishes the
            same bytes or nothing.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    return [
        entry
        for entry in releases(table)
        if entry["state"] != State.RETRACTED and (entry["release_id"], entry["run_key"]) != but
    ]


def earlier_releases(
    table: "ReleaseTable",
    persons: KnownPersons,
    but: tuple[str, str] | None = None,
    *,
    marked: int = 0,
    registers: bool = False,
) -> "dict[int, Membership]":
    """Return the memberships of all releases of a table that were published and not retracted, by version.

    Releases that were replaced are included, because readers may have kept them.

    Args:
        table: The release table.
        persons: Persons of the new release. The earlier memberships must use the same key and form.
        but: Release ID and run key of a run whose own publication is omitted, as in `published_releases`.
        marked: Number of the newest releases whose sensitive values are read, too. This takes about 5 s per
            1,000,000 persons.
        registers: Whether the register of each release is read, too, if one was kept.

    Raises:
        VerificationError: If a membership is not recorded, or was recorded with another key or form.
        IntegrityError: If a file is missing, damaged or not the published one.
        PublishError: If the lake cannot be reached.
    """
    found, entries = {}, published_releases(table, but)
    recorded = recorded_hashes(table.name, entries)
    for place, entry in enumerate(entries):
        path = file_of(table.name, entry["release_id"], entry["sha256"])
        sha256 = require_recorded(path, recorded.get(path), table.name, entry)
        values, version = place >= len(entries) - marked, int(entry["version"])
        found[version] = read_membership(
            read_private(path, sha256), path, table.name, persons, entry, marked=values, register=registers
        )
    return found


def recorded_hashes(name: str, entries: Sequence[Mapping[str, Any]]) -> dict[Path, str]:
    """Return the SHA-256 of each publication's membership file at publication, by path.

    Runs that publish the same bytes again share one file, which the newest run wrote. Publications of earlier
    versions state no SHA-256.
    """
    found = {}
    for entry in entries:
        if stated := entry["figures"].get("membership"):
            found[file_of(name, entry["release_id"], entry["sha256"])] = str(stated["sha256"])
    return found


def require_recorded(path: Path, recorded: str | None, name: str, entry: Mapping[str, Any]) -> str:
    """Raise if a membership file is missing or is not the published one.

    Args:
        path: Path of the file.
        recorded: SHA-256 that was published with the release. None if none was published.
        name: Name of the release table.
        entry: Publication of the release.

    Returns:
        The SHA-256 of the file.
    """
    if not path.is_file() and recorded is None:
        raise VerificationError(
            f"version {entry['version']} of table {name} was published without recording who is in "
            "it, so it cannot be compared with this release; retract it, or publish under a new table name"
        )
    found = sha256_file(path) if path.is_file() else None
    if found is None or found != (recorded or found):
        problem = "is missing" if found is None else "is not the file that was published: its SHA-256 differs"
        raise IntegrityError(
            f"the membership file of release {entry['release_id']}, version {entry['version']} of table "
            f"{name}, {problem}. Differences from this release cannot be judged without it. Restore "
            f"{path.name} from a backup of the curator's folder, or retract the release."
        )
    return found


def read_membership(
    frame: "pd.DataFrame",
    path: Path,
    name: str,
    persons: KnownPersons,
    entry: Mapping[str, Any],
    *,
    marked: bool,
    register: bool,
) -> "Membership":
    """Read the memberships of a publication, with the hashes that its persons have now."""
    # Files from before the SHA-256 of the release was recorded have no such column.
    records = set(frame.get(RECORDS, [len(frame)]))  # including counterfeits, which are not followed
    if records != {entry["rows"]} or set(frame.get(RELEASE, [])) - {entry["sha256"]}:
        raise IntegrityError(
            f"{path.name}, which records the people of version {entry['version']} of table {name}, is of "
            "another release; restore it, or retract that release"
        )
    if KEY not in frame or set(frame[KEY]) != {persons.key}:
        raise VerificationError(
            f"who is in the earlier releases of table {name} was recorded with another key, so persons "
            "cannot be compared; restore the key, or retract those releases"
        )
    people = frame[PERSON]
    for form in set(frame.get(IDENTIFIER_FORM, [WRITTEN])):
        require_form(form, persons.form, f"version {entry['version']} of table {name}")
        if form != persons.form:
            people = people.map(persons.written).fillna(people)
    if twice := int(people.duplicated().sum()):
        raise VerificationError(
            f"version {entry['version']} of table {name} has {twice} persons in two records, whose "
            "identifiers were spelled in two ways; retract it, or publish under a new table name"
        )
    _require_owners(frame, persons, f"version {entry['version']} of table {name}")
    everybody = _register(frame, path, persons) if register else None
    try:
        labels, counts = frame[CLASS].to_numpy(dtype="int64"), _counts(frame)
        return Membership(
            persons=people.to_numpy(dtype=object),
            labels=labels,
            owners=frame[OWNER].to_numpy(dtype="int64") if OWNER in frame else None,
            signatures=columns_of(frame, SIGNATURE),
            sets=columns_of(frame, SET),  # empty in files from before sets were kept
            boxes=columns_of(frame, CELL),  # empty in files from before cells were kept
            counts=counts,  # empty in files from before the values of classes were kept
            values=_values(frame, counts, labels, persons, entry["sha256"]) if marked else {},
            register=everybody,
        )
    except (IntegrityError, KeyError, TypeError, ValueError):
        raise IntegrityError(
            f"the record of the people of table {name} is damaged; restore {path.name}, or retract that "
            "release"
        ) from None


def _require_owners(frame: "pd.DataFrame", persons: KnownPersons, what: str) -> None:
    """Raise if the persons of a release cannot be compared with those of the new one.

    Raises:
        VerificationError: If persons with several records are known in only one of both, or in other forms.
    """
    forms = set(frame.get(OWNERS, []))
    if len(frame) and forms != ({persons.owners} - {None}):
        raise VerificationError(
            f"{what} was made with another `person`, or with another `exact` for it, so persons cannot be "
            "compared; restore the setting, retract that release, or publish under a new table name"
        )


def _counts(frame: "pd.DataFrame") -> "dict[str, ClassValues]":
    """Return the multiset of values of each class, by sensitive attribute."""
    first = frame.drop_duplicates(CLASS)
    found = {}
    for column in (name for name in frame.columns if name.startswith(VALUES)):
        of_class = dict(zip(first[CLASS].tolist(), first[column].tolist(), strict=True))
        texts = [of_class.get(label, "{}") for label in range(max(of_class, default=-1) + 1)]
        found[column.removeprefix(VALUES)] = ClassValues.from_json(texts)
    return found


def _values(
    frame: "pd.DataFrame",
    counts: "Mapping[str, ClassValues]",
    labels: "npt.NDArray[np.int64]",
    persons: KnownPersons,
    release: str,
) -> "dict[str, npt.NDArray[np.int64]]":
    """Return the sensitive values of the persons of an earlier release, as `values_of`.

    Values in files of earlier versions are known only for persons who are in the source now, and not at all
    if the file is older than marks or has another form of identifiers.
    """
    marks, people = columns_of(frame, MARK), frame[PERSON].tolist()
    if marks and persons.secret is not None:
        return values_of(marks, counts, labels, salts_of(people, persons.secret), release)
    if set(frame.get(IDENTIFIER_FORM, [WRITTEN])) != {persons.form}:
        return {}
    salts = persons.salts
    return values_of(
        columns_of(frame, OLD_MARK), counts, labels, [salts.get(person) for person in people], release
    )


def _register(frame: "pd.DataFrame", path: Path, persons: KnownPersons) -> "Membership | None":
    """Return the register of a release. None if none was kept, or it has another form of the identifiers.

    Raises:
        IntegrityError: If it is missing or changed.
    """
    if REGISTER not in frame or set(frame.get(IDENTIFIER_FORM, [WRITTEN])) != {persons.form}:
        return None
    try:
        return read_population(beside(path, "register"), frame[REGISTER].iloc[0])
    except IntegrityError:
        raise IntegrityError(
            f"{beside(path, 'register').name}, the register that was kept with a release, is missing or was "
            "changed; restore it, or retract that release"
        ) from None
