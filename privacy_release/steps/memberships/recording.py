"""Record who is in which class of a published release, and remove what is kept of a retracted one."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.verification.cross_release import Membership
from privacy_release.config.settings import curator_folder
from privacy_release.lake.log import ReleaseRun, State, publications
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.files import (
    CELL,
    CLASS,
    IDENTIFIER_FORM,
    KEY,
    MARK,
    OWNER,
    OWNERS,
    PERSON,
    RECORDS,
    REGISTER,
    RELEASE,
    SCHEMA,
    SET,
    SIGNATURE,
    VALUES,
    WAITING,
    beside,
    file_of,
    remove,
)
from privacy_release.steps.memberships.last import read_waiting, write_waiting
from privacy_release.steps.memberships.marks import marks_of, salts_of
from privacy_release.steps.memberships.persons import KnownPersons, read_persons
from privacy_release.steps.memberships.regions import Regions
from privacy_release.steps.memberships.registers import population, write_population
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_release.lake.store import ReleaseTable


def staged_membership(staged: StagedRelease) -> "Membership":
    """Return the class of each person in a staged release, read from its bytes.

    Raises:
        IntegrityError: If a file is missing or changed.
    """
    frame, schema = staged.frame(), staged.read_schema()
    return Membership.of_table(read_persons(staged.followed_persons), frame, schema, owners_of(staged))


def owners_of(staged: StagedRelease) -> "npt.NDArray[np.int64] | None":
    """Return the number of each record's person, the same in every run, shape (n,). None if all differ.

    Raises:
        IntegrityError: If the file is missing, changed or about other records.
    """
    if not staged.followed_persons.may_have_several_records:
        return None
    people = staged.people
    if people is None or people.of != staged.sha256:
        raise IntegrityError(
            "the persons of the staged records must be stored with them; run the release again"
        )
    found = people.frame()["person"].to_numpy(dtype="int64")
    if len(found) != staged.rows:
        raise IntegrityError("there must be one person per released record; run the release again")
    return found


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


def refuse_unseen(table: "ReleaseTable", run: ReleaseRun, report: ReportRef) -> None:
    """Raise if another release of the table was published after this one was verified.

    Raises:
        VerificationError: With the number of such releases.
    """
    if not report.was_compared:
        return
    mine = (run.release_id, report.sha256)  # the same bytes, from any run
    published = EarlierReleases(named=table, run=run).published()
    others = (made for made in published if (made.release_id, made.sha256) != mine)
    if unseen := report.unseen(made.version for made in others):
        raise VerificationError(
            f"{len(unseen)} releases of table {table.name} were published after this one was verified "
            "against the earlier ones; start a new run"
        )


def is_recorded(name: str, release_id: str, sha256: str) -> bool:
    """Return whether the membership file of a release of these bytes exists. Its content is not checked."""
    return file_of(name, release_id, sha256).is_file()


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
    kept = staged.followed_persons
    membership, known = staged_membership(staged), KnownPersons.of(kept)
    columns = {PERSON: membership.persons, CLASS: membership.labels}
    signatures = {SIGNATURE + name: texts for name, texts in membership.signatures.items()}
    sets = {SET + name: texts for name, texts in membership.sets.items()}
    cells = {CELL + name: texts for name, texts in membership.boxes.items()}
    values = {
        VALUES + name: pd.Series(counts.to_json(), dtype=object).to_numpy()[membership.labels]
        for name, counts in membership.counts.items()
    }
    if known.secret is not None:
        salts = salts_of(membership.persons.tolist(), known.secret)
        marked = marks_of(membership, salts, staged.sha256)
        values |= {MARK + name: texts for name, texts in marked.items()}
    frame = pd.DataFrame({**columns, **signatures, **sets, **cells, **values}).assign(
        **{KEY: kept.key, IDENTIFIER_FORM: kept.form, RELEASE: staged.sha256}
    )
    if membership.owners is not None:
        frame[OWNER], frame[OWNERS] = membership.owners, kept.owners
    frame[RECORDS] = staged.rows
    path = file_of(name, release_id, staged.sha256)
    if staged.waiting is not None:
        frame[WAITING] = write_waiting(
            read_waiting(staged.waiting.uri, staged.waiting.sha256), beside(path, "waiting")
        )
        frame[SCHEMA] = staged.read_schema().to_json()
        copy = write_private(beside(path, "records"), Path(staged.uri).read_bytes())
        if copy != staged.sha256:
            raise IntegrityError("the records of the release changed since they were staged; start a new run")
    if staged.regions is not None:
        table, schema = staged.frame(), staged.read_schema()
        regions = Regions.read(staged.regions)
        frame = frame.assign(**regions.kept(known.people, table, schema, beside(path, "fragments")))
    if (everybody := population(register, kept)) is not None:
        frame[REGISTER] = write_population(everybody, beside(path, "register"))
    frame = frame.sort_values(PERSON, ignore_index=True)  # the order must not reveal whose record is whose
    return write_private(path, parquet_bytes(frame))


def forget_unpublished(name: str, release_id: str, sha256: str) -> None:
    """Remove what `record` kept about staged bytes that were not published."""
    remove(file_of(name, release_id, sha256))


def forget(table: "ReleaseTable", release_id: str) -> int:
    """Remove what is kept about the people of a retracted release. Return the number of removed files."""
    made = [publication for publication in publications(table) if publication.release_id == release_id]
    kept = {publication.sha256 for publication in made if publication.state is not State.RETRACTED}
    removed = 0
    for publication in made:
        if publication.sha256 not in kept:
            path = file_of(table.name, release_id, publication.sha256)
            removed += path.is_file()
            remove(path)
    return removed
