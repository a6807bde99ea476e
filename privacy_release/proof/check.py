"""Check from nothing but a table's bytes whether it contains what was signed: yes, or no with all reasons.

Only the table is read: its log, its data files and its proofs. Each file is copied to a private folder and
hashed on the way, and the copy is measured. No cell value is reported.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import IntegrityError, PrivacyEngineError, PublishError
from privacy_engine.foreign import translated
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.notes import notes_on_earlier
from privacy_engine.vocabulary import counted
from privacy_release.lake.commits import newest_first
from privacy_release.lake.log import (
    Publication,
    State,
    data_files_in,
    existing_table,
    newest,
)
from privacy_release.lake.log_faults import log_entry
from privacy_release.lake.store import ReleaseTable, chunks, listing, read_all
from privacy_release.manifest.manifest import Manifest
from privacy_release.proof.chain import Statement, chain_of, read_files
from privacy_release.proof.faults import Fault, FaultError, Reason
from privacy_release.proof.keys import PublicKey
from privacy_release.proof.measure import Remeasurement, measured_again, unshown
from privacy_release.proof.published_keys import Validity, trusted_keys
from privacy_release.proof.rows import filled_columns, rows_digest
from privacy_release.proof.statement import proofs_of
from privacy_release.spec.floor import Floor
from privacy_release.workarea.engines import DEFAULT_MEMORY, read_memory
from privacy_release.workarea.file_sets import Part, list_bytes

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Reader features that the log of a table may require. Others could show other rows than those in the files.
_FEATURES = frozenset({"timestampNtz"})
_PLAIN_READER, _LISTED = (
    1,
    3,
)  # reader versions of Delta's protocol: without features, and with a list of them


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A release that was checked.

    Attributes:
        sequence: Position of its statement in the chain.
        statement: SHA-256 of its envelope.
        key: ID of the key that signed it.
        signed: Time of the signature, as the statement itself says.
        rows, files: Numbers of its rows and files in the table.
        rewritten: Whether another tool wrote its rows into other files. They are the same rows.
        approval: Approval in the proof. None if there is none.
        ledger_entry: Data set and hash of the entry that booked its loss. Empty if there is none.
        findings: Findings measured again on the rows.
        on_trust: Reason why a rule was not measured again, by rule.
        over_time: Sentences of the proof on the attackers with earlier releases that were considered.
    """

    release: str
    sequence: int
    statement: str
    key: str
    signed: str
    rows: int = 0
    files: int = 0
    rewritten: bool = False
    approval: Mapping[str, Any] | None = None
    ledger_entry: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    on_trust: Mapping[str, str] = field(default_factory=dict)
    over_time: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a check.

    Attributes:
        sequence: Position of the table's last statement, to be used as `since` next time.
        statement: SHA-256 of the last statement.
        reasons: Reasons why the answer is no. Empty: the answer is yes.
        releases: Releases that were checked, oldest first.
    """

    lake: str
    table: str
    version: int | None
    sequence: int
    statement: str | None
    reasons: list[Reason]
    releases: list[Checked]

    @property
    def right(self) -> bool:
        """Whether the answer is yes."""
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"right": self.right} | asdict(self)


def check_table(
    table: ReleaseTable,
    keys: Sequence[PublicKey],
    *,
    release_id: str | None = None,
    demanded: Floor | None = None,
    since: int = 0,
) -> Verdict:
    """Check the current releases of a table, or one of them, and the chain of all.

    Args:
        table: The release table.
        keys: Public keys that are trusted.
        release_id: ID of the only release whose rows are checked. None: all, and that there are no others.
        demanded: Policy that the releases must meet in addition to their own. None: none.
        since: Smallest allowed position of the last statement, from an earlier check. A table that was
            restored to an older state has a smaller one.

    Raises:
        PublishError: If there is no such table, or the lake cannot be reached.
        CapacityError: If memory or disk are too small.
    """
    memory = read_memory(DEFAULT_MEMORY)
    with (
        tempfile.TemporaryDirectory(prefix="privacy-release-check-") as spill,
        LocalEngine(memory=memory, spill=Path(spill)) as engine,
    ):
        return _Check(table, keys, demanded, engine).run(release_id, since)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The rows of a release in the table, copied to one private file with the release's own columns."""

    file: Path
    count: int
    files: int
    rewritten: bool


class _Check:
    """A single check, which collects its reasons."""

    def __init__(
        self,
        table: ReleaseTable,
        keys: Sequence[PublicKey],
        demanded: Floor | None,
        engine: LocalEngine,
    ) -> None:
        self.table, self.given, self.demanded = table, keys, demanded
        self.engine = engine  # one for all releases: opening its database takes longer than its queries
        self.reasons: list[Reason] = []
        self.shown: set[str] = set()  # columns of the table in its log
        self.stored: dict[str, str] = {}  # name of a proof -> its path

    def say(self, fault: Fault, text: str, release: str | None = None) -> None:
        """Add a reason."""
        self.reasons.append(Reason(fault=fault, text=text, release=release))

    def run(self, release_id: str | None, since: int) -> Verdict:
        try:
            delta = existing_table(self.table)
            version: int = delta.version()
            self.shown = self.require_plain(delta)
            commits = list(newest_first(self.table, version))[::-1]
            entries = list(newest(self.table, version))[::-1]
        except IntegrityError as error:
            self.say(Fault.LOG, str(error))
            return self.verdict(None, {}, [])
        try:
            keys = trusted_keys(self.table.lake, self.given)
        except FaultError as fault:
            self.say(fault.fault, f"what the lake shows of a trusted key: {fault}")
            keys = {key.id: Validity(key=key) for key in self.given}
        self.stored = {
            file.path.rpartition("/")[2].partition(".")[0]: file.path
            for file in listing(self.table.lake, self.table.proofs)
            if not file.path.endswith(".dsse.json")
        }
        statements = chain_of(self.table, commits, keys, self.say)
        last = max((statement.sequence for statement in statements.values()), default=0)
        if last < since:
            text = f"the last statement is {last}, and {since} was seen before"
            self.say(Fault.TOO_OLD, f"{text}: the table was restored to an older state")
        current = [entry for entry in entries if entry.state in (State.CURRENT, State.DAMAGED)]
        chosen = [e for e in current if release_id in (None, e.release_id)]
        if not chosen:
            what = "no current release" if release_id is None else "no such current release"
            self.say(Fault.NOTHING, f"the table has {what}", release_id)
        checked = [found for entry in chosen if (found := self.release(entry, statements, keys, delta))]
        if release_id is None:
            self.require_no_others(current, delta)
        return self.verdict(version, statements, checked)

    def verdict(
        self, version: int | None, statements: Mapping[int, Statement], checked: list[Checked]
    ) -> Verdict:
        last = max(statements.values(), key=lambda s: s.sequence, default=None)
        return Verdict(
            lake=self.table.lake.root,
            table=self.table.name,
            version=version,
            sequence=last.sequence if last else 0,
            statement=last.sha256 if last else None,
            reasons=self.reasons,
            releases=checked,
        )

    def require_plain(self, table: "DeltaTable") -> set[str]:
        """Return the columns in the log. Report features by which readers see other rows than the files'."""
        protocol = table.protocol()
        required = set(protocol.reader_features or ())
        if protocol.min_reader_version not in (_PLAIN_READER, _LISTED) or required - _FEATURES:
            excess = ", ".join(sorted(required - _FEATURES)) or f"version {protocol.min_reader_version}"
            self.say(Fault.LOG, f"the log asks of its readers what no release does: {excess}")
        return {column.name for column in table.schema().fields}

    def require_no_others(self, current: Sequence[Publication], delta: "DeltaTable") -> None:
        """Report rows that belong to no current release."""
        partitions = {entry.partition for entry in current}
        known = data_files_in(delta, self.table, partitions) if partitions else set()
        if others := len(data_files_in(delta, self.table, None) - known):
            self.say(Fault.FILES, f"the table has {others} data files of no current release")

    def release(
        self,
        entry: Publication,
        statements: Mapping[int, Statement],
        keys: Mapping[str, Validity],
        delta: "DeltaTable",
    ) -> Checked | None:
        """Check one release. None if there is no trusted statement about it."""
        release = entry.release_id
        if entry.state is State.DAMAGED:
            self.say(Fault.NOTE, f"the note of version {entry.version} is damaged: {entry.problem}", release)
            return None
        statement = statements.get(entry.version)
        if statement is None:
            if not any(reason.release == release for reason in self.reasons):
                self.say(Fault.UNSIGNED, f"version {entry.version} has no statement", release)
            return None
        found = Checked(
            release=release,
            sequence=statement.sequence,
            statement=statement.sha256,
            key=statement.key_id,
            signed=statement.time.isoformat(),
            ledger_entry=statement.predicate.get("ledger_entry") or {},
        )
        manifest = self.proofs(statement, release)
        if manifest is not None:
            notes = notes_on_earlier(manifest.findings, followed=manifest.history is not None)
            approval = self.approval(manifest, statement, release)
            found = replace(found, approval=approval, over_time=notes)
        with tempfile.TemporaryDirectory(prefix="privacy-release-check-") as folder:
            try:
                rows = self.rows(entry, statement, keys, delta, Path(folder))
            except (FaultError, IntegrityError, PublishError) as error:
                self.say(error.fault if isinstance(error, FaultError) else Fault.FILES, str(error), release)
                return found
            found = replace(found, rows=rows.count, files=rows.files, rewritten=rows.rewritten)
            if manifest is None:
                return found
            measured = self.measured(rows.file, manifest, statement, release)
        return replace(found, findings=measured.findings, on_trust=measured.on_trust)

    def proofs(self, statement: Statement, release: str) -> Manifest | None:
        """Check every proof of a release against its signed hash. Return the manifest if it is intact."""
        manifest = None
        for what, sha256 in proofs_of(statement.note):
            (data,) = read_all(self.table.lake, [self.stored[sha256]]) if sha256 in self.stored else [None]
            if data is None:
                self.say(Fault.PROOF, f"the {what} {sha256} is not there", release)
            elif hashlib.sha256(data).hexdigest() != sha256:
                self.say(Fault.PROOF, f"the {what} {sha256} is not the one that was signed", release)
            elif what == "manifest":
                try:
                    manifest = Manifest.from_dict(json.loads(data))
                except IntegrityError as error:
                    self.say(Fault.PROOF, str(error), release)
        return manifest

    def rows(
        self,
        entry: Publication,
        statement: Statement,
        keys: Mapping[str, Validity],
        delta: "DeltaTable",
        folder: Path,
    ) -> "_Rows":
        """Check the data files and their rows against what was signed.

        Raises:
            FaultError: If the files are not signed, or have other content.
            IntegrityError: If they cannot be read.
            PublishError: If a file does not exist.
        """
        columns = [str(name) for name in statement.note["columns"]]
        if hidden := set(columns) - self.shown:
            raise FaultError(Fault.LOG, f"the log does not show {counted(len(hidden), 'column')} of it")
        if _has_statistics(self.table, entry.version):
            raise FaultError(Fault.LOG, "the log has statistics of cells, which hide rows from readers")
        signed = read_files(self.table, statement.sha256, keys)
        staged = _staged_files(self.table.name, statement.note)
        if staged and staged != signed:
            raise FaultError(Fault.FILES, "the data files of its commit are not the files that were verified")
        paths = sorted(data_files_in(delta, self.table, [entry.partition]))
        copies = []
        for number, path in enumerate(paths):
            copy, digest = folder / f"{number}.parquet", hashlib.sha256()
            with copy.open("xb") as target:
                for chunk in chunks(self.table.lake, path):
                    digest.update(chunk)
                    target.write(chunk)
            copies.append(copy)
            if any(path in hashes and digest.hexdigest() != hashes[path] for hashes in (signed, staged)):
                raise FaultError(Fault.FILES, f"the data file {path} is not the one that was signed")
        if not copies:
            raise FaultError(Fault.FILES, "the table has no data file of it")
        rewritten = set(paths) != set(signed)
        with self.engine.connection() as database:
            digest_of_rows, count = rows_digest(copies, columns, database)
            if (digest_of_rows, count) != (statement.note["rows_digest"], statement.note["rows"]):
                text = f"the {count} rows are not the {statement.note['rows']} that were signed"
                raise FaultError(Fault.ROWS, text)
            filled = filled_columns(copies, columns, database) if rewritten else []
        if filled:
            raise FaultError(
                Fault.ROWS,
                f"{counted(len(filled), 'column has', 'columns have')} values that are not of the release",
            )
        file = _own_columns(copies, columns, folder)
        return _Rows(file=file, count=count, files=len(paths), rewritten=rewritten)

    def approval(self, manifest: Manifest, statement: Statement, release: str) -> Mapping[str, Any] | None:
        """Report a release without a required approval. Return its approval."""
        approval = manifest.approval
        given = approval is not None and approval.given
        required = statement.predicate.get("demands", {}).get("approval")
        if required and not given:
            self.say(Fault.APPROVAL, "it had to be approved, and no one approved it", release)
        elif self.demanded is not None and self.demanded.approval and not given:
            self.say(Fault.APPROVAL, "you require an approval, and no one approved it", release)
        return None if approval is None else approval.to_dict()

    def measured(self, rows: Path, manifest: Manifest, statement: Statement, release: str) -> Remeasurement:
        """Measure the rules of the release's policy and of the demanded one again."""
        try:
            policy = ReleasePolicy.from_dict(manifest.policy or {})
            schema = DataSchema.from_dict(manifest.schema or {})
        except PrivacyEngineError as error:
            text = f"policy and schema in the manifest must be readable, got {type(error).__name__}"
            self.say(Fault.POLICY, text, release)
            return Remeasurement()
        if self.demanded is not None:
            for weaker in policy.weaker_than(self.demanded.policy):
                self.say(Fault.POLICY, f"{weaker} of what you ask for", release)
        combined = policy if self.demanded is None else policy.with_floor(self.demanded.policy)
        found = measured_again(rows, schema, combined, manifest, statement.time.year, self.engine)
        for rule in [] if self.demanded is None else unshown(policy, self.demanded.policy, found):
            self.say(Fault.POLICY, f"you ask for {rule}, which nothing in the release shows", release)
        for problem in found.wrong:
            self.say(Fault.MEASURED, problem, release)
        return found


def _staged_files(name: str, note: Mapping[str, Any]) -> dict[str, str]:
    """Return path and SHA-256 of verified files that a commit added unchanged. Empty if it wrote others.

    Raises:
        FaultError: If they are not the set whose hash the note names.
    """
    files = note.get("files", [])
    parts = [Part(name=file["name"], rows=file["rows"], sha256=file["sha256"]) for file in files]
    if files and hashlib.sha256(list_bytes(parts)).hexdigest() != note["sha256"]:
        raise FaultError(Fault.FILES, "the files in the note are not the set that was verified")
    return {f"{name}/{file['path']}": file["sha256"] for file in files}


def _has_statistics(table: ReleaseTable, version: int) -> bool:
    """Return whether a commit's log entry has minima, maxima or null counts of the files that it adds."""
    (data,) = read_all(table.lake, [log_entry(table.name, version)])
    try:
        added = [json.loads(line).get("add") or {} for line in (data or b"").splitlines()]
        statistics = [json.loads(file.get("stats") or "{}") for file in added]
        return any(
            stats.get(kind) for stats in statistics for kind in ("minValues", "maxValues", "nullCount")
        )
    except (ValueError, TypeError, AttributeError):
        return True


def _own_columns(files: Sequence[Path], columns: Sequence[str], folder: Path) -> Path:
    """Copy only these columns of the files' rows to one file. Other columns belong to other releases."""
    target = folder / "rows.parquet"
    try:
        source = ds.dataset([str(file) for file in files]).scanner(columns=list(columns))
        with pq.ParquetWriter(target, source.projected_schema) as writer:
            for batch in source.to_batches():
                writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise translated(error, "copying the rows of the release") or IntegrityError(
            f"the data files must be whole Parquet files, got {type(error).__name__}"
        ) from None
    return target
