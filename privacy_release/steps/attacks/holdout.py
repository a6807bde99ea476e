"""Hold people out of a release, as the control group of attacks.

The people are chosen by a keyed hash of their position in the table, never by the content of a record, and
of n people always the same number is held out. So for a differentially private method, the table without
them is a stable transformation. Take two tables of n people that differ in one person at the same position:
the same positions are held out of both, and the remaining tables differ in at most that person. The loss of
the method on the remaining table is therefore the loss of the release.

The key is drawn once per run and kept in its work area with the records. A retry holds out the same people,
and no one can find out later who they were.
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
from privacy_release.steps.memberships.persons import with_records
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import FileRef, Table

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.verification.attack_risk import AttackRisk

_KEY = "holdout.key"
LEAST = 2  # people held out, and people left


def hold_out(table: Table, work: WorkArea, share: float, rules: "Sequence[AttackRisk]" = ()) -> Table:
    """Return the table without a share of its people. Their records are kept in the work area.

    Args:
        table: Table that is to be released.
        work: Work area in which the held-out people and the key are kept until teardown.
        share: Share of the people to hold out, above 0 and at most 0.5.
        rules: Rules that need the people. If there are too few people for a rule, this raises before a
            release is made and paid for.

    Returns:
        The remaining table. Its `holdout` is the file of the held-out records.

    Raises:
        SpecError: If there are several tables, rows are linked, or no step may hold the table in memory.
        InfeasibleError: If there are too few people.
        IntegrityError: If the table changed since it was ingested.
    """
    schema = table.read_schema()
    if schema.tables or schema.linked:
        raise SpecError(
            "attacks need one table whose rows are not linked; remove attack_risk from the policy, or "
            "release the tables separately"
        )
    if table.is_in_fragments:
        raise SpecError(
            "attacks hold the table in memory; remove attack_risk from the policy, or use the engine local"
        )
    frame = table.frame()
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
    """Return a flag for each record, shape (rows,): whether its person has a smallest keyed hash."""
    places = np.arange(rows) if persons is None else persons
    people = int(places.max(initial=-1)) + 1
    count = round(share * people)
    if min(count, people - count) < LEAST:
        raise InfeasibleError(
            f"a share {share:g} of {people} people cannot be held out for attacks: at least {LEAST} must be "
            "held out and at least as many left; use a larger table, or remove attack_risk from the policy"
        )
    hashes = [hmac.digest(key, str(place).encode(), hashlib.sha256) for place in range(people)]
    chosen = np.zeros(people, np.bool_)
    chosen[sorted(range(people), key=hashes.__getitem__)[:count]] = True
    return np.asarray(chosen[places])


def _key(work: WorkArea) -> bytes:
    """Return the key of this run. It is drawn on first use."""
    path: Path = work.recall(_KEY)
    if not path.is_file():
        write_private(path, secrets.token_bytes(32))
    return path.read_bytes()
