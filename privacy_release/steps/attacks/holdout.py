"""People who are left out of a release, so that attacks on it have a control.

Who is left out goes by a keyed hash of a person's place in the table, never by what is in a record: of n
people always the same number, whatever they are like. So for a differentially private method the table
without them is a stable transformation. Take two tables of n people that differ in one of them, in place:
the same places are left out of both, and what is left differs in that one person or not at all. The loss of
the method on what is left is the loss of the release.

The key is drawn once a run and lies in its work area beside the records: a retry leaves out the same people,
and nobody can tell afterwards who they were.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import InfeasibleError, SpecError
from privacy_engine.tables.columns import factorize
from privacy_release.steps.attacks.shadows import require_enough
from privacy_release.steps.history import with_records
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import FileRef, Table
from privacy_release.workarea.staged import read_schema

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.verification.attack_risk import AttackRisk

_KEY = "holdout.key"
LEAST = 2  # people on either side


def hold_out(table: Table, work: WorkArea, share: float, rules: "Sequence[AttackRisk]" = ()) -> Table:
    """The table without a share of its people, whose records are kept aside in the work area.

    Args:
        table: what is to be released.
        work: where the people who are left out, and the key, are kept until teardown.
        share: of the people, above 0 and at most 0.5.
        rules: for which they are held out; what too few people cannot be attacked by is refused here, before
            a release is made and paid for.

    Returns:
        The table to go on with; its `holdout` is the file of the others.

    Raises:
        SpecError: if the table is of several, its rows are linked, or no step may hold it in memory.
        InfeasibleError: if there are too few people.
        IntegrityError: if the table changed since it was ingested.
    """
    schema = read_schema(table.schema)
    if schema.tables or schema.linked:
        raise SpecError(
            "attacks are on one table whose rows are not linked; take attack_risk out of the policy, or "
            "release the tables apart"
        )
    if table.engine is not None:
        raise SpecError(
            "attacks hold the table in memory; take attack_risk out of the policy, or the engine local"
        )
    frame = read_private(table.uri, table.sha256)
    persons = factorize(frame[schema.by]).codes if schema.by else None
    out = _left_out(len(frame), persons, share, _key(work))
    require_enough(int(out.sum()) if persons is None else len(np.unique(persons[out])), rules)
    kept, aside = work.path("holdout.kept.parquet"), work.path("holdout.aside.parquet")
    return replace(
        with_records(table, frame, ~out, kept, work.path("holdout.persons.parquet")),
        source=replace(table.source, holdout=share),
        holdout=FileRef(uri=str(aside), sha256=write_private(aside, parquet_bytes(frame[out]))),
    )


def _left_out(
    rows: int, persons: "npt.NDArray[np.int64] | None", share: float, key: bytes
) -> "npt.NDArray[np.bool_]":
    """(rows,) which records are of people who are left out: those with the smallest keyed hashes."""
    places = np.arange(rows) if persons is None else persons
    people = int(places.max(initial=-1)) + 1
    count = round(share * people)
    if min(count, people - count) < LEAST:
        raise InfeasibleError(
            f"a share {share:g} of {people} people cannot be held out for attacks: at least {LEAST} must be "
            "left on either side; take a larger table, or attack_risk out of the policy"
        )
    hashes = [hmac.digest(key, str(place).encode(), hashlib.sha256) for place in range(people)]
    chosen = np.zeros(people, np.bool_)
    chosen[sorted(range(people), key=hashes.__getitem__)[:count]] = True
    return np.asarray(chosen[places])


def _key(work: WorkArea) -> bytes:
    """The key of this run, drawn when it is first asked for."""
    path: Path = work.recall(_KEY)
    if not path.is_file():
        write_private(path, secrets.token_bytes(32))
    return path.read_bytes()
