"""Read who is in which class of the earlier releases of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_release.lake.log import Publication, ReleaseRun, State, publications
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
        run: Run whose own publication is omitted, because a retry publishes the
            same bytes or nothing. None: no publication is omitted.
    """

    named: "ReleaseTable | None" = None
    run: ReleaseRun | None = None

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

    def published(self) -> list[Publication]:
        """Return the publications, oldest first.

        Releases that were replaced are included, because readers may have kept them.

        Raises:
            PublishError: If the lake cannot be reached.
        """
        return [
            made
            for made in publications(self.table)
            if made.state is not State.RETRACTED and made.run != self.run
        ]

    def files(self) -> "list[MembershipFile]":
        """Return the membership file of each release, oldest first. Raises as `published`.

        Runs that publish the same bytes again share one file, which the newest run wrote.
        """
        name, recorded, found = self.table.name, dict[Path, str](), list[MembershipFile]()
        for made in self.published():
            path = file_of(name, made.release_id, made.sha256)
            if stated := made.figures.get("membership"):
                recorded[path] = str(stated["sha256"])
            found.append(MembershipFile(path=path, table=name, publication=made))
        return [replace(file, recorded=recorded.get(file.path)) for file in found]

    def memberships(
        self, persons: KnownPersons, *, marked: int = 0, registers: bool = False
    ) -> "dict[int, Membership]":
        """Return the memberships of all releases, by version.

        Args:
            persons: Persons of the new release. The earlier memberships must use the same key and form.
            marked: Number of the newest releases whose sensitive values are read, too. This takes about 5 s
                per 1,000,000 persons.
            registers: Whether the register of each release is read, too, if one was kept.

        Raises:
            VerificationError: If a membership is not recorded, or was recorded with another key or form.
            IntegrityError: If a file is missing, damaged or not the published one.
            PublishError: If the lake cannot be reached.
        """
        files = self.files()
        return {
            file.publication.version: file.membership(
                file.frame(), persons, marked=place >= len(files) - marked, register=registers
            )
            for place, file in enumerate(files)
        }


@dataclass(frozen=True, kw_only=True)
class MembershipFile:
    """The file that records who is in which class of an earlier release.

    Attributes:
        path: Path of the file in the curator's folder.
        table: Name of the release table.
        publication: Publication of the release.
        recorded: SHA-256 of the file, as published with the release. None if none was published, as in
            earlier versions.
    """

    path: Path
    table: str
    publication: Publication
    recorded: str | None = None

    @property
    def version(self) -> str:
        """The version of the release table, in words."""
        return f"version {self.publication.version} of table {self.table}"

    def frame(self) -> "pd.DataFrame":
        """Read the file. Raises as `require_recorded`."""
        return read_private(self.path, self.require_recorded())

    def require_recorded(self) -> str:
        """Raise if the file is missing or is not the published one. Return its SHA-256.

        Raises:
            VerificationError: If neither the file nor its SHA-256 was ever recorded.
            IntegrityError: If the file is missing or is not the published one.
        """
        if not self.path.is_file() and self.recorded is None:
            raise VerificationError(
                f"{self.version} was published without recording who is in it, so it cannot be compared "
                "with this release; retract it, or publish under a new table name"
            )
        found = sha256_file(self.path) if self.path.is_file() else None
        if found is None or found != (self.recorded or found):
            problem = (
                "is missing" if found is None else "is not the file that was published: its SHA-256 differs"
            )
            raise IntegrityError(
                f"the membership file of release {self.publication.release_id}, {self.version}, {problem}. "
                "Differences from this release cannot be judged without it. Restore "
                f"{self.path.name} from a backup of the curator's folder, or retract the release."
            )
        return found

    def membership(
        self, frame: "pd.DataFrame", persons: KnownPersons, *, marked: bool, register: bool
    ) -> "Membership":
        """Return the memberships in the file's rows, with the hashes that its persons have now.

        Args:
            frame: Rows of the file, from `frame`.
            persons: Persons of the new release.
            marked: Whether the sensitive values of the persons are read, too.
            register: Whether the register of the release is read, too, if one was kept.

        Raises:
            VerificationError: If it was recorded with another key or form.
            IntegrityError: If the file is damaged or is that of another release.
        """
        # Files from before the SHA-256 of the release was recorded have no such column.
        records = set(frame.get(RECORDS, [len(frame)]))  # including counterfeits, which are not followed
        of_release = set(frame.get(RELEASE, [])) <= {self.publication.sha256}
        if records != {self.publication.rows} or not of_release:
            raise IntegrityError(
                f"{self.path.name}, which records the people of {self.version}, is of another release; "
                "restore it, or retract that release"
            )
        if KEY not in frame or set(frame[KEY]) != {persons.key}:
            raise VerificationError(
                f"who is in the earlier releases of table {self.table} was recorded with another key, so "
                "persons cannot be compared; restore the key, or retract those releases"
            )
        people = frame[PERSON]
        for form in set(frame.get(IDENTIFIER_FORM, [WRITTEN])):
            require_form(form, persons.form, self.version)
            if form != persons.form:
                people = people.map(persons.written).fillna(people)
        if twice := int(people.duplicated().sum()):
            raise VerificationError(
                f"{self.version} has {twice} persons in two records, whose identifiers were spelled in two "
                "ways; retract it, or publish under a new table name"
            )
        _require_owners(frame, persons, self.version)
        everybody = _register(frame, self.path, persons) if register else None
        try:
            labels, counts = frame[CLASS].to_numpy(dtype="int64"), _counts(frame)
            values = _values(frame, counts, labels, persons, self.publication.sha256) if marked else {}
            return Membership(
                persons=people.to_numpy(dtype=object),
                labels=labels,
                owners=frame[OWNER].to_numpy(dtype="int64") if OWNER in frame else None,
                signatures=columns_of(frame, SIGNATURE),
                sets=columns_of(frame, SET),  # empty in files from before sets were kept
                boxes=columns_of(frame, CELL),  # empty in files from before cells were kept
                counts=counts,  # empty in files from before the values of classes were kept
                values=values,
                register=everybody,
            )
        except (IntegrityError, KeyError, TypeError, ValueError):
            raise IntegrityError(
                f"the record of the people of table {self.table} is damaged; restore {self.path.name}, or "
                "retract that release"
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
