"""The memberships of releases: private files that record which person is in which class of which release.

They are needed by models about several releases of the same people. A person is identified by a keyed hash of
an identifier column. The hash is taken while the source is read, kept next to the table in the run's work
area, and follows the records into the release. Once a release is published, its memberships are kept in the
curator's folder, readable only by the service user, until the release is retracted. Without the key, no one
can find out who a hash belongs to. With another key, the persons of two releases could not be compared, so a
file with another key is refused. Neither hashes nor key are ever published.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.errors import IntegrityError, SchemaError, SpecError, VerificationError
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.normal import FORM, normal_forms
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, Membership, MInvariance
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_engine.verification.republication.model import Republication, subtracting
from privacy_engine.verification.republication.notes import unjudged_text
from privacy_engine.verification.verify import Finding
from privacy_engine.vocabulary import Departures
from privacy_release.config.settings import curator_folder
from privacy_release.lake.log import State
from privacy_release.lake.read import releases
from privacy_release.steps.memberships.last import last_release, read_waiting, write_waiting
from privacy_release.steps.memberships.marks import marks_of, values_of
from privacy_release.steps.memberships.regions import (
    Regions,
    in_fragments,
    read_pieces,
    regions_of_frame,
    require_one_cut,
)
from privacy_release.steps.memberships.registers import population_of, read_population, write_population
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.people import WRITTEN, Identification, require_form
from privacy_release.workarea.references import PersonsRef, ReportRef, StagedRelease, Table, need
from privacy_release.workarea.staged import read_schema

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.republication.incremental import LastRelease
    from privacy_engine.verification.cross_release import CrossReleaseModel
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.lake.store import ReleaseTable

_LEAST = 2  # smallest allowed k if only `m` is given
_RESERVE = 1.0
_PERSON, _CLASS, _KEY, _RELEASE = "person", "class", "key", "sha256 of the release"
_RECORDS, _FORM, _WRITTEN = "records of the release", "form of the identifiers", "person as written"
_SIGNATURE, _SET, _CELL, _VALUES = "signature of ", "set of ", "cell of ", "values of "
_SALT, _MARK = "salt", "mark of "
_OWNER, _OWNERS = "number of the person", "form of the persons"
_REGISTER, _WAITING, _SCHEMA = "sha256 of the register", "sha256 of who waits", "schema of the release"
_KINDS = (
    "register",
    "records",
    "waiting",
    "fragments",
)  # files that are kept with the memberships of a release


class Persons:
    """The persons of a table's records, in order, collected while the table is copied.

    Two spellings that read the same are one person, who then has several records and is refused.

    Args:
        identification: Identifier column and key of the hashes.
        exact: Whether two spellings of an identifier that read the same are two persons.
    """

    def __init__(self, identification: Identification, *, exact: bool = False) -> None:
        self._by = identification
        self._exact = exact
        self._hashes: list[npt.NDArray[np.object_]] = []  # each (3, n), as from `_hashes_of`
        self._nulls = 0

    @property
    def column(self) -> str:
        """Name of the identifier column."""
        return self._by.column

    def add(self, identifiers: "pd.Series") -> None:
        """Add the identifiers of the next records.

        Whole numbers count as the same person in either number type, and as text.
        """
        coded = factorize(identifiers)
        self._nulls += coded.nulls
        # About 1 s for 1,000,000 records.
        written = [self._by.person(text) for text in coded.texts]
        read, forms = written, coded.texts
        if not self._exact:
            forms = normal_forms(coded.texts)
            both = zip(coded.texts, forms, written, strict=True)
            read = [own if form == text else self._by.person(form) for text, form, own in both]
        salts = [self._by.salt(form) for form in forms]
        self._hashes.append(np.array([read, written, salts], dtype=object)[:, coded.codes[coded.codes >= 0]])

    def write(self, path: Path) -> PersonsRef:
        """Write the persons to a private file. Raises the errors of `hashes`."""
        form = WRITTEN if self._exact else FORM
        self.hashes()  # raises if a record has no person, or two share one
        return write_persons(self._all, path, self._by.key_id, form)

    @property
    def _all(self) -> "npt.NDArray[np.object_]":
        """All hashes, shape (3, n), as from `_hashes_of`."""
        return np.concatenate(self._hashes, axis=1)

    def hashes(self) -> "npt.NDArray[np.object_]":
        """Person of each record as text, shape (n,).

        Raises:
            SchemaError: If identifiers are missing or repeated, with the column and the numbers of records.
        """
        hashes: npt.NDArray[np.object_] = self._all[0]
        repeated = len(hashes) - len(set(hashes.tolist()))
        if self._nulls or repeated:
            raise SchemaError(
                f"{self.column} must identify one person per record: {self._nulls} records have no value, "
                f"{repeated} repeat another's; correct the source, aggregate it by person, or choose another "
            )
        return hashes


def write_persons(hashes: "npt.NDArray[np.object_]", path: Path, key_id: str, form: str) -> PersonsRef:
    """Write the persons of a table's records to a private file.

    Args:
        hashes: Hash of the person, hash of the identifier as written, and salt of the person's marks, for
            each record, shape (3, n). None for counterfeits and for unknown salts.
        path: Path of the file.
        key_id: ID of the key of the hashes.
        form: Form of the identifiers that were hashed.
    """
    frame = pd.DataFrame(dict(zip((_PERSON, _WRITTEN, _SALT), hashes, strict=True)))
    sha256 = write_private(path, parquet_bytes(frame))
    return PersonsRef(uri=str(path), sha256=sha256, key=key_id, form=form)


def read_persons(persons: PersonsRef) -> "npt.NDArray[np.object_]":
    """Return the person of each record as text, shape (n,). None for counterfeits, which belong to no person.

    Raises:
        IntegrityError: If the file is missing or changed.
    """
    hashes: npt.NDArray[np.object_] = _hashes_of(persons)[0]
    return hashes


def _hashes_of(persons: PersonsRef) -> "npt.NDArray[np.object_]":
    """Return persons, hashes of the identifiers as written, and salts of their marks, shape (3, n).

    A file that was written before marks existed has None for each salt.
    """
    found = read_private(persons.uri, persons.sha256).astype(object)
    found = found.reindex(columns=[_PERSON, _WRITTEN, _SALT])
    found = found.where(found.notna(), None)
    return np.stack([found[name].to_numpy(dtype=object) for name in found.columns])


def follow(
    persons: PersonsRef,
    rows: "npt.NDArray[Any]",
    path: Path,
    before: "npt.NDArray[np.object_] | None" = None,
) -> PersonsRef:
    """Write the persons of selected records, by position or flag, to a new file.

    Args:
        persons: Persons of n records.
        rows: Positions of the selected records. -1 is a counterfeit; n and above refer to `before`.
        path: Path of the new file.
        before: Persons of further records, whose salts are not known, shape (l,).
    """
    known = _hashes_of(persons)
    if before is not None:
        known = np.concatenate([known, np.stack([before, before, np.full(len(before), None)])], axis=1)
    found = known[:, rows].copy()
    if rows.dtype != np.bool_:
        found[:, rows < 0] = None
    followed = write_persons(found, path, persons.key, persons.form)
    return replace(followed, owners=persons.owners)


def with_records(
    table: Table, frame: "pd.DataFrame", kept: "npt.NDArray[np.bool_]", path: Path, persons: Path
) -> Table:
    """Return the table with a selection of its records, in their order, and with their persons.

    Args:
        table: Table to take records from.
        frame: Its records, shape (n, columns).
        kept: Flag of each record that stays, shape (n,).
        path: Path of the new file.
        persons: Path of the file of their persons, where the table has persons.
    """
    return replace(
        table,
        uri=str(path),
        rows=int(kept.sum()),
        sha256=write_private(path, parquet_bytes(frame[kept])),
        persons=None if table.persons is None else follow(table.persons, kept, persons),
    )


def staged_membership(staged: StagedRelease) -> "Membership":
    """Return the class of each person in a staged release, read from its bytes.

    Raises:
        IntegrityError: If a file is missing or changed.
    """
    frame, schema = read_private(staged.uri, staged.sha256), read_schema(staged.schema)
    return Membership.of_table(
        read_persons(need(staged.persons, "persons")), frame, schema, owners_of(staged)
    )


def owners_of(staged: StagedRelease) -> "npt.NDArray[np.int64] | None":
    """Return the number of each record's person, the same in every run, shape (n,). None if all differ.

    Raises:
        IntegrityError: If the file is missing, changed or about other records.
    """
    if need(staged.persons, "persons").owners is None:
        return None
    people = staged.people
    if people is None or people.of != staged.sha256:
        raise IntegrityError(
            "the persons of the staged records must be stored with them; run the release again"
        )
    found = read_private(people.uri, people.sha256)["person"].to_numpy(dtype="int64")
    if len(found) != staged.rows:
        raise IntegrityError("there must be one person per released record; run the release again")
    return found


def known(table: "ReleaseTable | None") -> "ReleaseTable":
    """Return the release table, which a policy about earlier releases needs.

    Raises:
        SpecError: If the table is not known.
    """
    if table is None:
        raise SpecError(
            "the policy is also about the earlier releases of the table, so verify needs the name of the "
            "table and its lake"
        )
    return table


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
    persons: PersonsRef,
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
        marked: Number of the newest releases whose sensitive values are read, too, for persons who are in
            the new one. This takes about 5 s per 1,000,000 persons.
        registers: Whether the register of each release is read, too, if one was kept.

    Raises:
        VerificationError: If a membership is not recorded, or was recorded with another key or form.
        IntegrityError: If a file is missing, damaged or not the published one.
        PublishError: If the lake cannot be reached.
    """
    found, entries = {}, published_releases(table, but)
    recorded = _recorded(table.name, entries)
    for place, entry in enumerate(entries):
        path = _path(table.name, entry["release_id"], entry["sha256"])
        sha256 = _require_recorded(path, recorded.get(path), table.name, entry)
        values, version = place >= len(entries) - marked, int(entry["version"])
        found[version] = _read(
            read_private(path, sha256), path, table.name, persons, entry, marked=values, register=registers
        )
    return found


def _recorded(name: str, entries: Sequence[Mapping[str, Any]]) -> dict[Path, str]:
    """Return the SHA-256 of each publication's membership file at publication, by path.

    Runs that publish the same bytes again share one file, which the newest run wrote. Publications of earlier
    versions state no SHA-256.
    """
    found = {}
    for entry in entries:
        if stated := entry["figures"].get("membership"):
            found[_path(name, entry["release_id"], entry["sha256"])] = str(stated["sha256"])
    return found


def _require_recorded(path: Path, recorded: str | None, name: str, entry: Mapping[str, Any]) -> str:
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


def asks_for_differences(policy: "ReleasePolicy") -> bool:
    """Return whether a policy refuses to publish after releases whose differences cannot be judged.

    Policies that do not name the model `republication` publish as before.
    """
    return any(isinstance(model, Republication) for model in policy.across_people)


def made_before(name: str, published: Sequence[Mapping[str, Any]], form: str) -> int:
    """Return how many releases of a table were recorded in a form that allows no judgement of differences.

    Their files lack the values of classes, or marks of the persons' values, for a sensitive attribute, or
    their marks were made with another form of the identifiers.

    Args:
        name: Name of the release table.
        published: Publications from `published_releases`. Those without a file do not count.
        form: Form of the identifiers in the new release.
    """
    found = 0
    for entry in published:
        path = _path(name, entry["release_id"], entry["sha256"])
        try:
            columns = pq.read_schema(path).names
            known = pq.read_table(path, columns=[_FORM])[_FORM].to_pylist() if _FORM in columns else []
        except (OSError, pa.ArrowException):  # missing or damaged: verification refuses it
            continue
        named = [column.removeprefix(_SIGNATURE) for column in columns if column.startswith(_SIGNATURE)]
        without = any(kind + own not in columns for own in named for kind in (_VALUES, _MARK))
        found += bool(named) and (without or set(known) != {form})
    return found


def unjudged_finding(
    name: str, published: Sequence[Mapping[str, Any]], form: str, accepted: str | None
) -> "Finding | None":
    """Return the finding on releases from which differences cannot be judged. None if there are none.

    Args:
        name: Name of the release table.
        published: Publications from `published_releases`.
        form: Form of the identifiers in the new release.
        accepted: Reason why a release may be published after them. None: it may not.
    """
    if not (count := made_before(name, published, form)):
        return None
    return Finding(
        rule="history: accept_unjudged",
        threshold=0,
        measured=float(count),
        passed=accepted is not None,
        remedy=unjudged_text(count) if accepted is None else "",
        note=f"differences from {count} earlier releases are not judged, accepted because: {accepted}"
        if accepted is not None
        else "",
    )


def silence_about_people(
    name: str, identifiers: Sequence[str], published: Sequence[Mapping[str, Any]], sha256: str | None = None
) -> "Finding":
    """Return the finding on earlier releases that may be about the same people, who are not followed.

    Args:
        name: Name of the release table.
        identifiers: Columns of the source that name people.
        published: Publications from `published_releases`.
        sha256: SHA-256 of the new release. Publishing the same bytes again reveals nothing new.
    """
    count = sum(entry["sha256"] != sha256 for entry in published)
    remedy = (
        f"table {name} has {count} earlier releases that people named by {', '.join(identifiers)} may be in; "
        "declare `history` in the specification (person and membership_key of the ingest operator), retract "
        "what was published without it, or use a policy that allows it"
    )
    return Finding(
        rule="repeated_people: history",
        threshold=0,
        measured=float(count),
        passed=count == 0,
        remedy=remedy if count else "",
    )


@dataclass(frozen=True, kw_only=True)
class Past:
    """The earlier releases of a table, and what a new release must guarantee together with them.

    Values that are not given are taken from the policy, which judges the release in any case.

    Attributes:
        table: The release table.
        policy: Policy of the release combined with the floor policy.
        run: Release ID and run key of this run, so that a retry does not count itself as an earlier release.
        k, m, departures, reserve, counterfeits, hold_back: Guarantee over all releases and options to keep
            it, as in `privacy_release.spec.model.HistorySpec`.
    """

    table: "ReleaseTable"
    policy: "ReleasePolicy"
    run: tuple[str, str]
    k: int | None = None
    m: Mapping[str, int] | None = None
    departures: str | None = None
    reserve: float | None = None
    counterfeits: float | None = None
    hold_back: int | None = None

    def memberships(self, persons: PersonsRef) -> "dict[int, Membership]":
        """Return the memberships of the earlier releases, by version. Raises as `earlier_releases`."""
        marked = 1 if self.subtracted else 0
        return earlier_releases(self.table, persons, self.run, marked=marked)

    @property
    def requested(self) -> "tuple[CrossReleaseModel, ...]":
        """The policy's models over all releases."""
        return self.policy.across_people or self.policy.across_of_each

    @property
    def subtracted(self) -> bool:
        """Whether the policy names an attacker who computes differences between releases."""
        return subtracting(self.requested)

    def across(self, kept: Mapping[str, Any]) -> "tuple[CrossReleaseModel, ...]":
        """Return the models that must hold over all releases: the policy's, and those kept in addition."""
        (model, *_) = (m for m in self.requested if isinstance(m, Republication) and m.subtracts)
        own = [replace(model, k=kept["k"], m=m, attribute=name) for name, m in kept["m"].items()]
        return (*self.requested, *(own or [replace(model, k=kept["k"])]))

    def last(self, memberships: "Mapping[int, Membership]") -> "tuple[LastRelease, dict[str, int]] | None":
        """Return the newest release as published, and the number of releases that each person has waited.

        Args:
            memberships: Memberships from `memberships`.

        Returns:
            None if there is no earlier release, or it was made before classes could be published again.

        Raises:
            IntegrityError: If the kept copy is missing or was changed.
        """
        if not memberships:
            return None
        version = max(memberships)
        entries = published_releases(self.table, self.run)
        (entry,) = (e for e in entries if e["version"] == version)
        path = _path(self.table.name, entry["release_id"], entry["sha256"])
        recorded = _recorded(self.table.name, entries).get(path)
        sha256 = _require_recorded(path, recorded, self.table.name, entry)
        return read_last(path, sha256, memberships[version], entry)

    def in_fragments(self, persons: PersonsRef) -> "tuple[EarlierFragments, ...]":
        """Return the earlier releases as they were made in fragments, oldest first.

        Raises:
            VerificationError: As `earlier_releases`, or if one of them was made in one piece or in fragments
                of another cut.
            IntegrityError: If a file is missing, damaged or not the published one.
            PublishError: If the lake cannot be reached.
        """
        found, entries = list[EarlierFragments](), published_releases(self.table, self.run)
        recorded, name = _recorded(self.table.name, entries), self.table.name
        for entry in entries:
            newest, what = entry is entries[-1], f"version {entry['version']} of table {name}"
            path = _path(name, entry["release_id"], entry["sha256"])
            sha256 = _require_recorded(path, recorded.get(path), name, entry)
            frame = in_fragments(read_private(path, sha256), what)
            membership = _read(frame, path, name, persons, entry, marked=newest, register=False)
            regions, last = regions_of_frame(frame), None
            if newest:
                pieces = read_pieces(frame, _beside(path, "fragments"))
                last = read_last(path, sha256, membership, entry, (pieces, regions.fragments))
            found.append(
                EarlierFragments(
                    version=int(entry["version"]), membership=membership, regions=regions, last=last
                )
            )
        require_one_cut([release.regions.cut.tree for release in found])
        return tuple(found)

    def kept(self, schema: "DataSchema") -> dict[str, Any]:
        """Return the parameters that every person is guaranteed over all releases.

        Raises:
            SpecError: If neither the parameters nor the policy state any, or counterfeits have no m.
        """
        models = self.requested
        of_k = [model for model in models if isinstance(model, CrossReleaseKAnonymity)]
        by_attackers = [model for model in models if isinstance(model, Republication)]
        k, m = self.k, dict(self.m or {})
        if k is None:
            k = max([*(model.k for model in of_k), *(model.k for model in by_attackers)], default=None)
        if self.m is None:
            for model in (model for model in models if isinstance(model, MInvariance | Republication)):
                names = [a.name for a in schema.sensitive] if model.attribute is None else [model.attribute]
                m |= {name: max(model.m, m.get(name, 0)) for name in names if model.m is not None}
        if k is None and not m:
            raise SpecError(
                "history must state what is guaranteed over all releases, because the policy has no k and no "
                "l; set k or m in history, or keep: false"
            )
        if self.counterfeits and not m:
            raise SpecError(
                "history.counterfeits complete sets of sensitive values, but neither m nor policy requires "
                "any; set m in history, or remove counterfeits"
            )
        strict = any(model.departures is Departures.KNOWN for model in of_k) or not of_k or bool(by_attackers)
        departures = self.departures or (Departures.KNOWN if strict else Departures.UNKNOWN)
        reserve = _RESERVE if self.reserve is None else self.reserve
        kept = {"k": k or _LEAST, "m": m, "departures": Departures(departures), "reserve": reserve}
        if self.subtracted:
            kept["hold_back"] = self.hold_back or 0
        if any(isinstance(model, MInvariance) and model.unique for model in models):
            kept["unique"] = True
        return kept | ({"counterfeits": self.counterfeits} if self.counterfeits else {})


@dataclass(frozen=True, kw_only=True)
class EarlierFragments:
    """An earlier release that was made in fragments.

    Attributes:
        version: Version of the release table.
        membership: Classes of its persons within the fragments.
        regions: Region of each of these persons.
        last: Last release from `Past.last`, if this one is the newest. None for all others.
    """

    version: int
    membership: "Membership"
    regions: Regions
    last: "tuple[LastRelease, dict[str, int]] | None" = None


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Lock a table from the look at its releases until the new one is recorded.

    Without the lock, two releases could each be compared with the earlier ones but not with each other. The
    lock is a file of the curator's folder, which all workers share, and ends with the process that holds it.
    """
    path = WorkArea(curator_folder() / "membership", name).path("lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def refuse_unseen(table: "ReleaseTable", run: tuple[str, str], report: ReportRef) -> None:
    """Raise if another release of the table was published after this one was verified.

    Raises:
        VerificationError: With the number of such releases.
    """
    if report.compared is None:
        return
    mine = (run[0], report.sha256)  # the same bytes, from any run
    unseen = [
        entry
        for entry in published_releases(table, run)
        if entry["version"] not in report.compared and (entry["release_id"], entry["sha256"]) != mine
    ]
    if unseen:
        raise VerificationError(
            f"{len(unseen)} releases of table {table.name} were published after this one was verified "
            "against the earlier ones; start a new run"
        )


def is_recorded(staged: StagedRelease, name: str, release_id: str) -> bool:
    """Return whether the membership file of a release exists. Its content is not checked."""
    return _path(name, release_id, staged.sha256).is_file()


def record(staged: StagedRelease, name: str, release_id: str, register: Table | None = None) -> str:
    """Record the memberships of a release. Recording the same release again changes nothing.

    Args:
        staged: Reference to the staged release.
        name: Name of the release table.
        release_id: ID of the release.
        register: Register of the population at the time of the release, whose persons are kept, too.

    Returns:
        The SHA-256 of the file, which is published with the release.
    """
    kept = need(staged.persons, "persons")
    membership, (persons, _, salts) = staged_membership(staged), _hashes_of(kept)
    own = salts[persons != None]  # noqa: E711 - elementwise
    columns = {_PERSON: membership.persons, _CLASS: membership.labels}
    signatures = {_SIGNATURE + name: texts for name, texts in membership.signatures.items()}
    sets = {_SET + name: texts for name, texts in membership.sets.items()}
    cells = {_CELL + name: texts for name, texts in membership.boxes.items()}
    values = {
        _VALUES + name: pd.Series(counts.to_json(), dtype=object).to_numpy()[membership.labels]
        for name, counts in membership.counts.items()
    }
    if any(salt is not None for salt in own):  # salts of persons who left, or of another form, are missing
        marked = marks_of(membership, own, staged.sha256)
        values |= {_MARK + name: texts for name, texts in marked.items()}
    frame = pd.DataFrame({**columns, **signatures, **sets, **cells, **values}).assign(
        **{_KEY: kept.key, _FORM: kept.form, _RELEASE: staged.sha256}
    )
    if membership.owners is not None:
        frame[_OWNER], frame[_OWNERS] = membership.owners, kept.owners
    frame[_RECORDS] = staged.rows
    path = _path(name, release_id, staged.sha256)
    if staged.waiting is not None:
        frame[_WAITING] = write_waiting(
            read_waiting(staged.waiting.uri, staged.waiting.sha256), _beside(path, "waiting")
        )
        frame[_SCHEMA] = read_schema(staged.schema).to_json()
        copy = write_private(_beside(path, "records"), Path(staged.uri).read_bytes())
        if copy != staged.sha256:
            raise IntegrityError("the records of the release changed since they were staged; start a new run")
    if staged.regions is not None:
        table, schema = read_private(staged.uri, staged.sha256), read_schema(staged.schema)
        regions = Regions.read(staged.regions)
        frame = frame.assign(**regions.kept(persons, table, schema, _beside(path, "fragments")))
    if (everybody := population(register, kept)) is not None:
        frame[_REGISTER] = write_population(everybody, _beside(path, "register"))
    frame = frame.sort_values(_PERSON, ignore_index=True)  # the order must not reveal whose record is whose
    return write_private(path, parquet_bytes(frame))


def read_last(
    path: Path,
    sha256: str,
    membership: "Membership",
    entry: Mapping[str, Any],
    fragments: "tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None" = None,
) -> "tuple[LastRelease, dict[str, int]] | None":
    """Read the kept copy of a release whose classes may be published again, as for `Past.last`.

    `fragments` is as for `last_release`.
    """
    frame = read_private(str(path), sha256)
    if _WAITING not in frame:
        return None
    waited = read_waiting(str(_beside(path, "waiting")), frame[_WAITING].iloc[0])
    records = read_private(str(_beside(path, "records")), entry["sha256"])
    schema = DataSchema.from_dict(json.loads(frame[_SCHEMA].iloc[0]))
    return last_release(records, schema, membership, fragments), waited


def forget_unpublished(staged: StagedRelease, name: str, release_id: str) -> None:
    """Remove what `record` kept about staged bytes that were not published."""
    _remove(_path(name, release_id, staged.sha256))


def forget(table: "ReleaseTable", release_id: str) -> int:
    """Remove what is kept about the people of a retracted release. Return the number of removed files."""
    kept = {entry["sha256"] for entry in published_releases(table) if entry["release_id"] == release_id}
    removed = 0
    for entry in releases(table):
        if entry["release_id"] == release_id and entry["sha256"] not in kept:
            path = _path(table.name, release_id, entry["sha256"])
            removed += path.is_file()
            _remove(path)
    return removed


def _remove(path: Path) -> None:
    for file in (path, *(_beside(path, kind) for kind in _KINDS)):
        file.unlink(missing_ok=True)


def _path(name: str, release_id: str, sha256: str) -> Path:
    """Return the path of a publication's file, in a folder that only the service user can enter."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "_", release_id)[:60]
    digest = hashlib.sha256(json.dumps([name, release_id, sha256]).encode()).hexdigest()[:16]
    return WorkArea(curator_folder() / "membership", name).path(f"{slug}-{digest}.parquet")


def _read(
    frame: "pd.DataFrame",
    path: Path,
    name: str,
    persons: PersonsRef,
    entry: Mapping[str, Any],
    *,
    marked: bool,
    register: bool,
) -> "Membership":
    """Read the memberships of a publication, with the hashes that its persons have now."""
    # Files from before the SHA-256 of the release was recorded have no such column.
    records = set(frame.get(_RECORDS, [len(frame)]))  # including counterfeits, which are not followed
    if records != {entry["rows"]} or set(frame.get(_RELEASE, [])) - {entry["sha256"]}:
        raise IntegrityError(
            f"{path.name}, which records the people of version {entry['version']} of table {name}, is of "
            "another release; restore it, or retract that release"
        )
    if _KEY not in frame or set(frame[_KEY]) != {persons.key}:
        raise VerificationError(
            f"who is in the earlier releases of table {name} was recorded with another key, so persons "
            "cannot be compared; restore the key, or retract those releases"
        )
    people = frame[_PERSON]
    for form in set(frame.get(_FORM, [WRITTEN])):
        require_form(form, persons.form, f"version {entry['version']} of table {name}")
        if form != persons.form:
            read, written, _ = _hashes_of(persons)
            people = people.map(dict(zip(written, read, strict=True))).fillna(people)
    if twice := int(people.duplicated().sum()):
        raise VerificationError(
            f"version {entry['version']} of table {name} has {twice} persons in two records, whose "
            "identifiers were spelled in two ways; retract it, or publish under a new table name"
        )
    _require_owners(frame, persons, f"version {entry['version']} of table {name}")
    everybody = _register(frame, path, persons) if register else None
    try:
        labels, counts = frame[_CLASS].to_numpy(dtype="int64"), _counts(frame)
        return Membership(
            persons=people.to_numpy(dtype=object),
            labels=labels,
            owners=frame[_OWNER].to_numpy(dtype="int64") if _OWNER in frame else None,
            signatures=_columns(frame, _SIGNATURE),
            sets=_columns(frame, _SET),  # empty in files from before sets were kept
            boxes=_columns(frame, _CELL),  # empty in files from before cells were kept
            counts=counts,  # empty in files from before the values of classes were kept
            values=_values(frame, counts, labels, persons, entry["sha256"]) if marked else {},
            register=everybody,
        )
    except (IntegrityError, KeyError, TypeError, ValueError):
        raise IntegrityError(
            f"the record of the people of table {name} is damaged; restore {path.name}, or retract that "
            "release"
        ) from None


def _require_owners(frame: "pd.DataFrame", persons: PersonsRef, what: str) -> None:
    """Raise if the persons of a release cannot be compared with those of the new one.

    Raises:
        VerificationError: If persons with several records are known in only one of both, or in other forms.
    """
    forms = set(frame.get(_OWNERS, []))
    if len(frame) and forms != ({persons.owners} if persons.owners is not None else set()):
        raise VerificationError(
            f"{what} was made with another `person`, or with another `exact` for it, so persons cannot be "
            "compared; restore the setting, retract that release, or publish under a new table name"
        )


def _counts(frame: "pd.DataFrame") -> "dict[str, ClassValues]":
    """Return the multiset of values of each class, by sensitive attribute."""
    first = frame.drop_duplicates(_CLASS)
    found = {}
    for column in (name for name in frame.columns if name.startswith(_VALUES)):
        of_class = dict(zip(first[_CLASS].tolist(), first[column].tolist(), strict=True))
        texts = [of_class.get(label, "{}") for label in range(max(of_class, default=-1) + 1)]
        found[column.removeprefix(_VALUES)] = ClassValues.from_json(texts)
    return found


def _values(
    frame: "pd.DataFrame",
    counts: "Mapping[str, ClassValues]",
    labels: "npt.NDArray[np.int64]",
    persons: PersonsRef,
    release: str,
) -> "dict[str, npt.NDArray[np.int64]]":
    """Return the sensitive values of persons who are in the new release, as `values_of`.

    Empty for files from before marks existed, or with another form of identifiers, which has other salts.
    """
    if set(frame.get(_FORM, [WRITTEN])) != {persons.form}:
        return {}
    own, _, salts = _hashes_of(persons)
    known = dict(zip(own.tolist(), salts.tolist(), strict=True))
    if None in {salt for person, salt in known.items() if person is not None}:
        return {}
    of_row = [known.get(person) for person in frame[_PERSON].tolist()]
    return values_of(_columns(frame, _MARK), counts, labels, of_row, release)


def _register(frame: "pd.DataFrame", path: Path, persons: PersonsRef) -> "Membership | None":
    """Return the register of a release. None if none was kept, or it has another form of the identifiers.

    Raises:
        IntegrityError: If it is missing or changed.
    """
    if _REGISTER not in frame or set(frame.get(_FORM, [WRITTEN])) != {persons.form}:
        return None
    try:
        return read_population(_beside(path, "register"), frame[_REGISTER].iloc[0])
    except IntegrityError:
        raise IntegrityError(
            f"{_beside(path, 'register').name}, the register that was kept with a release, is missing or was "
            "changed; restore it, or retract that release"
        ) from None


def _beside(path: Path, kind: str) -> Path:
    return path.with_suffix(f".{kind}.parquet")


def population(register: Table | None, persons: PersonsRef) -> "Membership | None":
    """Return the persons of the register that a run has read. None if there is none, or it has no persons.

    Raises:
        SpecError: If the register has another key or form than the persons of the release.
        IntegrityError: If a file is missing or changed.
    """
    if register is None or register.persons is None:
        return None
    own = register.persons
    if (own.key, own.form) != (persons.key, persons.form):
        raise SpecError(
            "the register must be ingested with the membership key of the release and the same identifier, "
            "so that its persons can be found in the release; ingest both with the same `person` and key"
        )
    return population_of(register, read_persons(own))


def _columns(frame: "pd.DataFrame", kind: str) -> "dict[str, npt.NDArray[np.object_]]":
    """Return the columns of a kind, by attribute, each as text of shape (n,) with None for nulls."""
    return {
        name.removeprefix(kind): frame[name].astype(object).where(frame[name].notna(), None).to_numpy()
        for name in frame.columns
        if name.startswith(kind)
    }
