"""Check the chain of statements of a table against its commits: each signed, each after the one before."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from privacy_release.lake.commits import Commit
from privacy_release.lake.log import statement_files
from privacy_release.lake.store import ReleaseTable, read_all
from privacy_release.proof.envelope import opened
from privacy_release.proof.faults import Fault, FaultError
from privacy_release.proof.published_keys import Validity, replaced_by
from privacy_release.proof.statement import COMMIT, FILES, STATEMENT, signed_part, statement_of

Say = Callable[[Fault, str, str | None], None]  # fault, description, and release that it concerns
_BY_KIND = {"table": str, "sequence": int, "time": str, "note": dict}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement whose signature is valid.

    Attributes:
        sha256: SHA-256 of its envelope.
        key_id: ID of the key that signed it.
        time: Time of the signature, as the statement itself says.
        predicate: Content of the statement.
    """

    sha256: str
    key_id: str
    time: datetime
    predicate: Mapping[str, Any]

    @property
    def sequence(self) -> int:
        """Its position in the chain, from 1."""
        return int(self.predicate["sequence"])

    @property
    def note(self) -> Mapping[str, Any]:
        """The note of the commit that it is about."""
        return dict(self.predicate["note"])


def chain_of(
    table: ReleaseTable, commits: Iterable[Commit], keys: Mapping[str, Validity], say: Say
) -> dict[int, Statement]:
    """Return the valid statements of a table, by the versions that they are about. Report faults in others.

    Args:
        table: The release table.
        commits: All commits of the table, oldest first.
        keys: Trusted keys, by ID.
        say: Callback that receives faults.

    Raises:
        PublishError: If the lake cannot be reached.
    """
    found: dict[int, Statement] = {}
    last, expected, retired = None, 1, set[str]()
    seen: dict[str, int] = {}
    for commit in commits:
        note = commit.note
        if not commit.noted or not isinstance(note, Mapping):
            continue
        release = str(note.get("release"))
        sha256 = statement_of(note)
        if sha256 is None:
            if expected > 1:
                say(
                    Fault.UNSIGNED,
                    f"version {commit.version} ({note.get('action')}) has no statement",
                    release,
                )
            continue
        if sha256 in seen:
            text = f"version {commit.version} names the statement of version {seen[sha256]} again"
            say(Fault.CHAIN, f"{text}: something older was restored", release)
            continue
        seen[sha256] = commit.version
        try:
            statement = read_statement(table, sha256, keys)
            _require_about(statement, table.name, note)
        except FaultError as fault:
            say(fault.fault, f"the statement of version {commit.version}: {fault}", release)
            last, expected = sha256, expected + 1
            continue
        if statement.key_id in retired:
            text = f"the key {statement.key_id[:16]} signed version {commit.version} after it was replaced"
            say(Fault.KEY_REPLACED, text, release)
        retired |= replaced_by(keys, statement.key_id)
        if (statement.sequence, statement.predicate["previous"]) != (expected, last):
            say(Fault.CHAIN, _broken(commit.version, statement, expected), release)
        found[commit.version] = statement
        last, expected = sha256, statement.sequence + 1
    return found


def read_statement(table: ReleaseTable, sha256: str, keys: Mapping[str, Validity]) -> Statement:
    """Read a statement of a table, if it is signed by a trusted key that was valid then.

    Raises:
        FaultError: If something is wrong with it.
        PublishError: If the lake cannot be reached.
    """
    path = table.proof(statement_files(sha256)[0])
    (data,) = read_all(table.lake, [path])
    if data is None:
        raise FaultError(Fault.STATEMENT_MISSING, f"{path} is not there")
    predicate, key_id, moment, _ = _signed(data, keys, COMMIT)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise FaultError(Fault.STATEMENT_CHANGED, "it has another sha256 than the commit says")
    if not all(isinstance(predicate.get(key), kind) for key, kind in _BY_KIND.items()):
        raise FaultError(Fault.STATEMENT_CHANGED, "it lacks what every statement says")
    return Statement(sha256=sha256, key_id=key_id, time=moment, predicate=predicate)


def read_files(table: ReleaseTable, statement: str, keys: Mapping[str, Validity]) -> dict[str, str]:
    """Return path and SHA-256 of the data files of a commit, as signed after it.

    Args:
        table: The release table.
        statement: SHA-256 of the statement about the commit.
        keys: Trusted keys, by ID.

    Raises:
        FaultError: If something is wrong with it.
        PublishError: If the lake cannot be reached.
    """
    path = table.proof(statement_files(statement)[1])
    (data,) = read_all(table.lake, [path])
    if data is None:
        raise FaultError(
            Fault.STATEMENT_MISSING,
            f"{path}, about the data files, is not there: if its publication was interrupted, run it again",
        )
    predicate, _, _, subjects = _signed(data, keys, FILES)
    if predicate.get("statement") != statement:
        raise FaultError(Fault.STATEMENT_CHANGED, "the one about the data files is about another commit")
    return {str(each["name"]): str(each["digest"]["sha256"]) for each in subjects}


def _signed(
    data: bytes, keys: Mapping[str, Validity], kind: str
) -> tuple[dict[str, Any], str, datetime, list[Any]]:
    """Return predicate, key, time and subjects of a statement, if a trusted key signed it in time."""
    payload, signers = opened(data, {key_id: shown.key for key_id, shown in keys.items()})
    if (payload.get("_type"), payload.get("predicateType")) != (STATEMENT, kind):
        raise FaultError(Fault.STATEMENT_CHANGED, f"it must be an in-toto Statement of the type {kind}")
    key_id, predicate = min(signers), payload.get("predicate")
    try:
        moment = datetime.fromisoformat(predicate["time"])  # type: ignore[index]  # caught below
        covered = keys[key_id].covers(moment)
        subjects = list(payload["subject"])
    except (KeyError, TypeError, ValueError):
        raise FaultError(Fault.STATEMENT_CHANGED, "it lacks its time or its subjects") from None
    if not covered:
        text = f"the key {key_id[:16]} was not valid at {moment.isoformat()}, when it signed"
        raise FaultError(Fault.KEY_NOT_VALID, text)
    assert isinstance(predicate, dict)
    return predicate, key_id, moment, subjects


def _require_about(statement: Statement, name: str, note: Mapping[str, Any]) -> None:
    """Raise if a statement is about another table, or about another note than that of the commit."""
    if statement.predicate["table"] != name:
        raise FaultError(Fault.OTHER_TABLE, f"it is about the table {statement.predicate['table']}")
    signed, committed = statement.note, signed_part(note)
    differing = sorted(key for key in {*signed, *committed} if not _same(signed.get(key), committed.get(key)))
    if differing:
        raise FaultError(Fault.NOTE, f"the commit says otherwise of {', '.join(differing)}")


def _same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Delta may change the last digit of numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return _number(one) and _number(other) and math.isclose(one, other, rel_tol=1e-12)
    return type(one) is type(other) and one == other


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _broken(version: int, statement: Statement, expected: int) -> str:
    """Describe where the chain is broken."""
    text = f"version {version} has statement {statement.sequence}, and {expected} must come next"
    if statement.sequence > expected:
        return f"{text}: {statement.sequence - expected} releases or retractions are missing"
    if statement.sequence < expected:
        return f"{text}: something older was restored"
    return f"version {version} follows another statement than the one before it"
