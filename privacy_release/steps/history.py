"""Who is in which release: private files, for models that are about several releases of the same people.

A person is known here by a keyed hash of an identifier column. It is taken while the source is read, kept
beside the table in the run's work area, and follows the records into the release. Once a release is
published, which person is in which class of it is kept in the curator's folder, readable by the service user
alone, until the release is retracted. Without the key nobody can tell who a hash is; with another key the
persons of two releases could not be compared, so a file of another key is refused. Neither hashes nor key are
ever published.
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

_LEAST = 2  # persons who cannot be told apart, where sensitive values alone are to be kept
_RESERVE = 1.0
_PERSON, _CLASS, _KEY, _RELEASE = "person", "class", "key", "sha256 of the release"
_RECORDS, _FORM, _WRITTEN = "records of the release", "form of the identifiers", "person as written"
_SIGNATURE, _SET, _CELL, _VALUES = "signature of ", "set of ", "cell of ", "values of "
_SALT, _MARK = "salt", "mark of "
_OWNER, _OWNERS = "number of the person", "form of the persons"
_REGISTER, _WAITING, _SCHEMA = "sha256 of the register", "sha256 of who waits", "schema of the release"
_KINDS = ("register", "records", "waiting")  # files beside the memberships of a release


class Persons:
    """Who the records of a table are about, in its order, taken down while the table is copied.

    Two spellings that read the same are one person, who has several records then, and is refused.

    Args:
        identification: the column, and the key of the hashes.
        exact: whether two spellings of an identifier that read the same are two persons.
    """

    def __init__(self, identification: Identification, *, exact: bool = False) -> None:
        self._by = identification
        self._exact = exact
        self._hashes: list[npt.NDArray[np.object_]] = []  # each (3, n): as of `_hashes_of`
        self._nulls = 0

    @property
    def column(self) -> str:
        """The identifier of the persons."""
        return self._by.column

    def add(self, identifiers: "pd.Series") -> None:
        """Take the identifiers of the next records.

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
        """Write them to a private file of their own; errors as of `hashes`."""
        form = WRITTEN if self._exact else FORM
        self.hashes()  # refuses records without a person of their own
        return write_persons(self._all, path, self._by.key_id, form)

    @property
    def _all(self) -> "npt.NDArray[np.object_]":
        """(3, n) as of `_hashes_of`."""
        return np.concatenate(self._hashes, axis=1)

    def hashes(self) -> "npt.NDArray[np.object_]":
        """(n,) text: who each record is about.

        Raises:
            SchemaError: naming the column and how many records have no identifier, or one that another has.
        """
        hashes: npt.NDArray[np.object_] = self._all[0]
        repeated = len(hashes) - len(set(hashes.tolist()))
        if self._nulls or repeated:
            raise SchemaError(
                f"{self.column} must identify one person a record: {self._nulls} records have no value, "
                f"{repeated} repeat another's; mend the source, aggregate it by person, or choose another"
            )
        return hashes


def write_persons(hashes: "npt.NDArray[np.object_]", path: Path, key_id: str, form: str) -> PersonsRef:
    """Write who the records of a table are about, in its order.

    Args:
        hashes: (3, n) text of each record: a hash of the person, one of the identifier as it is written, and
            the salt of the person's marks; None of a counterfeit, and of salts that are not known.
        path: of the file.
        key_id: of the key of the hashes.
        form: of the identifiers that they are hashes of.
    """
    frame = pd.DataFrame(dict(zip((_PERSON, _WRITTEN, _SALT), hashes, strict=True)))
    sha256 = write_private(path, parquet_bytes(frame))
    return PersonsRef(uri=str(path), sha256=sha256, key=key_id, form=form)


def read_persons(persons: PersonsRef) -> "npt.NDArray[np.object_]":
    """(n,) text: who the records are about; None of a counterfeit, which is of nobody.

    Raises:
        IntegrityError: if the file is missing or changed.
    """
    hashes: npt.NDArray[np.object_] = _hashes_of(persons)[0]
    return hashes


def _hashes_of(persons: PersonsRef) -> "npt.NDArray[np.object_]":
    """(3, n) the persons, the hashes of the identifiers as they are written, and the salts of their marks.

    A file that was written before there were marks has None for each salt.
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
    """The persons of some of the records, by position or flag, in a file of their own.

    Args:
        persons: of n records.
        rows: of the records, -1 of a counterfeit, which is no person's; n and more: of those before.
        path: of the file.
        before: (l,) persons of further records, whose salts are not known.
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
    """The table with some of its records, in their order, and with their persons.

    Args:
        table: The table.
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
    """Who is in which class of a staged release, read from its bytes.

    Raises:
        IntegrityError: if a file is missing or changed.
    """
    frame, schema = read_private(staged.uri, staged.sha256), read_schema(staged.schema)
    return Membership.of_table(
        read_persons(need(staged.persons, "persons")), frame, schema, owners_of(staged)
    )


def owners_of(staged: StagedRelease) -> "npt.NDArray[np.int64] | None":
    """(n,) whose record each is, the same number in every run; None where each is of another person.

    Raises:
        IntegrityError: if the file is missing, changed or of other records.
    """
    if need(staged.persons, "persons").owners is None:
        return None
    people = staged.people
    if people is None or people.of != staged.sha256:
        raise IntegrityError(
            "the persons of the staged records must stand beside them; run the release again"
        )
    found = read_private(people.uri, people.sha256)["person"].to_numpy(dtype="int64")
    if len(found) != staged.rows:
        raise IntegrityError("there must be one person for each released record; run the release again")
    return found


def known(table: "ReleaseTable | None") -> "ReleaseTable":
    """The release table of a policy that is about its earlier releases.

    Raises:
        SpecError: if the table is not known.
    """
    if table is None:
        raise SpecError(
            "the policy is about the earlier releases of the table, too; verify needs the name of the "
            "table and its lake"
        )
    return table


def published_releases(table: "ReleaseTable", but: tuple[str, str] | None = None) -> list[dict[str, Any]]:
    """Every publication in a table that was not retracted, oldest first.

    Args:
        table: The release table.
        but: release id and run key of a run whose own publication is left out: a retry of it publishes the
            same bytes or nothing.

    Raises:
        PublishError: if the lake cannot be reached.
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
    """Who is in which class of each release of a table that was published and not retracted, by version.

    What a later run replaced counts, too: whoever read it may have kept it.

    Args:
        table: The release table.
        persons: of the new release, by whose hashes the earlier ones are known, too.
        but: as of `published_releases`.
        marked: Number of the newest releases of which the values of persons are read, too, for those who are
            in the new one: about 5 s for each 1,000,000 persons.
        registers: Whether the register of each release is read, too, where one was kept.

    Raises:
        VerificationError: if it is not on record for one of them, or was recorded with another key or form.
        IntegrityError: if a file is missing, damaged or not the one that was published.
        PublishError: if the lake cannot be reached.
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
    """The SHA-256 of the file of each publication as it was published, by path.

    Runs that publish the same bytes again have one file, which the newest of them wrote. Publications of
    earlier versions state none.
    """
    found = {}
    for entry in entries:
        if stated := entry["figures"].get("membership"):
            found[_path(name, entry["release_id"], entry["sha256"])] = str(stated["sha256"])
    return found


def _require_recorded(path: Path, recorded: str | None, name: str, entry: Mapping[str, Any]) -> str:
    """Refuse a membership file that is missing or is not the published one.

    Args:
        path: Path of the file.
        recorded: SHA-256 that was published with the release; None where none was.
        name: Name of the release table.
        entry: Publication of the release.

    Returns:
        The SHA-256 of the file.
    """
    if not path.is_file() and recorded is None:
        raise VerificationError(
            f"version {entry['version']} of table {name} was published without recording who is in "
            "it, so it cannot be held against this release; retract it, or publish under a new table name"
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
    """Whether a policy refuses a release after those that were made before differences could be judged.

    Those whose policy does not name the model `republication` are published as before.
    """
    return any(isinstance(model, Republication) for model in policy.across_people)


def made_before(name: str, published: Sequence[Mapping[str, Any]], form: str) -> int:
    """How many releases of a table were recorded so that differences from them cannot be judged.

    Their files have the classes of sensitive attributes, and not the values of the classes or no marks of the
    values of persons, or marks that were made by another form of the identifiers.

    Args:
        name: of the release table.
        published: what `published_releases` gave; those that nothing is kept of do not count.
        form: of the identifiers in the new release.
    """
    found = 0
    for entry in published:
        path = _path(name, entry["release_id"], entry["sha256"])
        try:
            columns = pq.read_schema(path).names
            known = pq.read_table(path, columns=[_FORM])[_FORM].to_pylist() if _FORM in columns else []
        except (OSError, pa.ArrowException):  # it is missing or damaged, which verification refuses
            continue
        asked = [column.removeprefix(_SIGNATURE) for column in columns if column.startswith(_SIGNATURE)]
        without = any(kind + own not in columns for own in asked for kind in (_VALUES, _MARK))
        found += bool(asked) and (without or set(known) != {form})
    return found


def unjudged_finding(
    name: str, published: Sequence[Mapping[str, Any]], form: str, accepted: str | None
) -> "Finding | None":
    """The finding on releases from which differences cannot be judged; None where there are none.

    Args:
        name: of the release table.
        published: what `published_releases` gave.
        form: of the identifiers in the new release.
        accepted: Reason why a release may be published after them; None: it may not.
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
    """How many releases a table has that may be about the same people, of whom nothing is followed.

    Args:
        name: of the release table.
        identifiers: columns of the source that name people.
        published: what `published_releases` gave.
        sha256: of the release; the same bytes again tell nothing more of anybody.
    """
    count = sum(entry["sha256"] != sha256 for entry in published)
    remedy = (
        f"table {name} has {count} earlier releases that people named by {', '.join(identifiers)} may be in; "
        "declare `history` in the specification (person and membership_key of the ingest operator), retract "
        "what was published without it, or ask for a policy that allows it"
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
    """The earlier releases of a table, and what a new one is to keep together with them.

    What is not said is taken from the policy, which judges the release in any case.

    Attributes:
        table: The release table.
        policy: what must hold, that of the release and the floor policy together.
        run: release id and run key of who asks: a retry does not stand in its own way.
        k, m, departures, reserve, counterfeits, hold_back: as of `privacy_release.spec.model.HistorySpec`.
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
        """Who is in which class of each earlier release, by version; errors as of `earlier_releases`."""
        marked = 1 if self.subtracted else 0
        return earlier_releases(self.table, persons, self.run, marked=marked)

    @property
    def asked(self) -> "tuple[CrossReleaseModel, ...]":
        """What the policy asks for over all releases."""
        return self.policy.across_people or self.policy.across_of_each

    @property
    def subtracted(self) -> bool:
        """Whether the policy names an attacker who subtracts one release from another."""
        return subtracting(self.asked)

    def across(self, kept: Mapping[str, Any]) -> "tuple[CrossReleaseModel, ...]":
        """What must hold over all releases: what the policy asks for, and what is kept besides."""
        (model, *_) = (m for m in self.asked if isinstance(m, Republication) and m.subtracts)
        own = [replace(model, k=kept["k"], m=m, attribute=name) for name, m in kept["m"].items()]
        return (*self.asked, *(own or [replace(model, k=kept["k"])]))

    def last(self, memberships: "Mapping[int, Membership]") -> "tuple[LastRelease, dict[str, int]] | None":
        """The newest release as it was published, and how many releases persons have waited since.

        Args:
            memberships: as `memberships` gave them.

        Returns:
            None where there is no earlier release, or it was made before classes could be published again.

        Raises:
            IntegrityError: if what is kept of it is missing or was changed.
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

    def kept(self, schema: "DataSchema") -> dict[str, Any]:
        """What is kept over all releases of a person.

        Raises:
            SpecError: if neither is said nor follows from the policy, or counterfeits have no m to keep.
        """
        asked = self.asked
        of_k = [model for model in asked if isinstance(model, CrossReleaseKAnonymity)]
        by_attackers = [model for model in asked if isinstance(model, Republication)]
        k, m = self.k, dict(self.m or {})
        if k is None:
            k = max([*(model.k for model in of_k), *(model.k for model in by_attackers)], default=None)
        if self.m is None:
            for model in (model for model in asked if isinstance(model, MInvariance | Republication)):
                names = [a.name for a in schema.sensitive] if model.attribute is None else [model.attribute]
                m |= {name: max(model.m, m.get(name, 0)) for name in names if model.m is not None}
        if k is None and not m:
            raise SpecError(
                "history must say what is kept over all releases of a person, for the policy has no k and no "
                "l; write k or m into it, or keep: false"
            )
        if self.counterfeits and not m:
            raise SpecError(
                "history.counterfeits complete sets of sensitive values, and neither m nor the policy asks "
                "for any; write m into history, or remove counterfeits"
            )
        strict = any(model.departures is Departures.KNOWN for model in of_k) or not of_k or bool(by_attackers)
        departures = self.departures or (Departures.KNOWN if strict else Departures.UNKNOWN)
        reserve = _RESERVE if self.reserve is None else self.reserve
        kept = {"k": k or _LEAST, "m": m, "departures": Departures(departures), "reserve": reserve}
        if self.subtracted:
            kept["hold_back"] = self.hold_back or 0
        if any(isinstance(model, MInvariance) and model.unique for model in asked):
            kept["unique"] = True
        return kept | ({"counterfeits": self.counterfeits} if self.counterfeits else {})


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let nobody else publish into a table between the look at its releases and the record of this one.

    Two releases that were each held against the earlier ones know nothing of each other. The lock ends with
    the process that has it; it is a file of the curator's folder, which all workers see.
    """
    path = WorkArea(curator_folder() / "membership", name).path("lock")
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def refuse_unseen(table: "ReleaseTable", run: tuple[str, str], report: ReportRef) -> None:
    """Refuse a release that was verified before another one of its table was published.

    Raises:
        VerificationError: if there are such releases, by their number.
    """
    if report.compared is None:
        return
    mine = (run[0], report.sha256)  # the same bytes, by whatever run
    unseen = [
        entry
        for entry in published_releases(table, run)
        if entry["version"] not in report.compared and (entry["release_id"], entry["sha256"]) != mine
    ]
    if unseen:
        raise VerificationError(
            f"{len(unseen)} releases of table {table.name} were published after this one was verified "
            "together with the earlier ones; start a new run"
        )


def is_recorded(staged: StagedRelease, name: str, release_id: str) -> bool:
    """Return whether the membership file of a release exists. Its content is not checked."""
    return _path(name, release_id, staged.sha256).is_file()


def record(staged: StagedRelease, name: str, release_id: str, register: Table | None = None) -> str:
    """Keep who is in which class of a release of a table; doing it again changes nothing.

    Args:
        staged: the release.
        name: of the release table.
        release_id: of the release.
        register: of the population at its time, whose persons are kept, too.

    Returns:
        The SHA-256 of the file, which is published with the release.
    """
    kept = need(staged.persons, "persons")
    membership, (persons, _, salts) = staged_membership(staged), _hashes_of(kept)
    own = salts[persons != None]  # noqa: E711 - of each element
    columns = {_PERSON: membership.persons, _CLASS: membership.labels}
    signatures = {_SIGNATURE + name: texts for name, texts in membership.signatures.items()}
    sets = {_SET + name: texts for name, texts in membership.sets.items()}
    cells = {_CELL + name: texts for name, texts in membership.boxes.items()}
    values = {
        _VALUES + name: pd.Series(counts.to_json(), dtype=object).to_numpy()[membership.labels]
        for name, counts in membership.counts.items()
    }
    if any(salt is not None for salt in own):  # a person who left has none, and another form has none at all
        marked = marks_of(membership, own, staged.sha256)
        values |= {_MARK + name: texts for name, texts in marked.items()}
    frame = pd.DataFrame({**columns, **signatures, **sets, **cells, **values}).assign(
        **{_KEY: kept.key, _FORM: kept.form, _RELEASE: staged.sha256}
    )
    if membership.owners is not None:
        frame[_OWNER], frame[_OWNERS] = membership.owners, kept.owners
    frame[_RECORDS] = staged.rows
    frame = frame.sort_values(_PERSON, ignore_index=True)  # the order must not tell whose which record is
    path = _path(name, release_id, staged.sha256)
    if staged.waiting is not None:
        frame[_WAITING] = write_waiting(
            read_waiting(staged.waiting.uri, staged.waiting.sha256), _beside(path, "waiting")
        )
        frame[_SCHEMA] = read_schema(staged.schema).to_json()
        copy = write_private(_beside(path, "records"), Path(staged.uri).read_bytes())
        if copy != staged.sha256:
            raise IntegrityError("the records of the release changed since they were staged; start a new run")
    if (everybody := population(register, kept)) is not None:
        frame[_REGISTER] = write_population(everybody, _beside(path, "register"))
    return write_private(path, parquet_bytes(frame))


def read_last(
    path: Path, sha256: str, membership: "Membership", entry: Mapping[str, Any]
) -> "tuple[LastRelease, dict[str, int]] | None":
    """What is kept of a release whose classes may be published again; as of `Past.last`."""
    frame = read_private(str(path), sha256)
    if _WAITING not in frame:
        return None
    waited = read_waiting(str(_beside(path, "waiting")), frame[_WAITING].iloc[0])
    records = read_private(str(_beside(path, "records")), entry["sha256"])
    schema = DataSchema.from_dict(json.loads(frame[_SCHEMA].iloc[0]))
    return last_release(records, schema, membership), waited


def forget_unpublished(staged: StagedRelease, name: str, release_id: str) -> None:
    """Remove what `record` kept of staged bytes that were not published."""
    _remove(_path(name, release_id, staged.sha256))


def forget(table: "ReleaseTable", release_id: str) -> int:
    """Remove what is kept about the people of a retracted release; how many files that were."""
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
    """One file for each publication, in a folder that the service user alone can enter."""
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
    """Who is in which class of a publication, by the hashes that the persons have now."""
    # Those that were recorded before it was told of which release they are have no such column.
    records = set(frame.get(_RECORDS, [len(frame)]))  # with the counterfeits, which are not followed
    if records != {entry["rows"]} or set(frame.get(_RELEASE, [])) - {entry["sha256"]}:
        raise IntegrityError(
            f"{path.name}, what is kept about the people of version {entry['version']} of table {name}, is "
            "of another release; restore it, or retract that release"
        )
    if _KEY not in frame or set(frame[_KEY]) != {persons.key}:
        raise VerificationError(
            f"who is in the earlier releases of table {name} was recorded with another key, so persons "
            "cannot be compared; bring the key back, or retract those releases"
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
            "identifiers were written in two ways; retract it, or publish under a new table name"
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
            sets=_columns(frame, _SET),  # none of those that were recorded before sets were kept
            boxes=_columns(frame, _CELL),  # none of those that were recorded before cells were kept
            counts=counts,  # none of those that were recorded before the values of classes were kept
            values=_values(frame, counts, labels, persons, entry["sha256"]) if marked else {},
            register=everybody,
        )
    except (IntegrityError, KeyError, TypeError, ValueError):
        raise IntegrityError(
            f"what is kept about the people of table {name} is damaged; restore {path.name}, or retract that "
            "release"
        ) from None


def _require_owners(frame: "pd.DataFrame", persons: PersonsRef, what: str) -> None:
    """Refuse a release whose persons cannot be compared with those of the new one.

    Raises:
        VerificationError: if it is known of one of both alone whose records they are, or by other forms.
    """
    forms = set(frame.get(_OWNERS, []))
    if len(frame) and forms != ({persons.owners} if persons.owners is not None else set()):
        raise VerificationError(
            f"{what} was made with another `person`, or with another `exact` of it, so persons cannot be "
            "compared; bring it back, retract that release, or publish under a new table name"
        )


def _counts(frame: "pd.DataFrame") -> "dict[str, ClassValues]":
    """The multiset of values of each class, by the sensitive attribute."""
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
    """The values of those who are among the persons now, as of `values_of`.

    None of those that were recorded before there were marks, or by another form: then the salts are others.
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
    """The register of a release; None where none was kept, or one by another form of the identifiers.

    Raises:
        IntegrityError: if it is missing or changed.
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
    """The persons of a register that a run has read; None where it has none, or not whose records they are.

    Raises:
        SpecError: if they are known by another key or form than the persons of the release.
        IntegrityError: if a file is missing or changed.
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
    """(n,) text of each column of a kind, by the attribute that it is about; None of a null."""
    return {
        name.removeprefix(kind): frame[name].astype(object).where(frame[name].notna(), None).to_numpy()
        for name in frame.columns
        if name.startswith(kind)
    }
