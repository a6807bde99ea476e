"""Verify staged bytes against a policy, without Airflow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privacy_engine.engines.checking import verify_files
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import VerificationError
from privacy_engine.progress import portion
from privacy_engine.registry import kind_of
from privacy_engine.verification.republication.model import Attacker, window_of
from privacy_engine.verification.verify import (
    Finding,
    Report,
    across_findings,
    kind_findings,
    set_aside,
    with_counterfeits,
)
from privacy_engine.vocabulary import COUNTERFEITS, counted
from privacy_release.budget.claims import bookkeeping_findings
from privacy_release.lake.log import ReleaseRun
from privacy_release.lake.store import takes_table
from privacy_release.manifest.manifest import Manifest
from privacy_release.sources.text.scan import found_in_release
from privacy_release.spec.floor import floor_policy, under_floor
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.persons import KnownPersons, read_persons
from privacy_release.steps.memberships.recording import owners_of
from privacy_release.steps.memberships.registers import population
from privacy_release.steps.memberships.unjudged import (
    asks_for_differences,
    silence_about_people,
    unjudged_finding,
)
from privacy_release.steps.producers.structure import made_again
from privacy_release.workarea.engines import open_engine
from privacy_release.workarea.people import counted_by_person
from privacy_release.workarea.references import ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.cross_release import Membership
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.lake.store import ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger


@takes_table
def verify_staged(
    staged: StagedRelease,
    policy: "ReleasePolicy",
    ledger: "BudgetLedger | None" = None,
    *,
    table: "ReleaseTable | None" = None,
    run: tuple[str, str] | None = None,
    register: Table | None = None,
    accept_unjudged: str | None = None,
) -> ReportRef:
    """Verify the staged bytes against a policy and the floor policy. Failed rules are reported, not raised.

    No file is loaded as a whole: an engine counts the classes, and each file is hashed before and after. A
    differentially private release is also checked against its budget ledger. If the policy requires models
    across releases, the release is also checked against the earlier releases of its table.

    Args:
        staged: Staged release from `make_release`.
        policy: Policy of the release.
        ledger: Ledger that booked the loss. Required for a differentially private release.
        table: The release table. Required if the policy is about earlier releases.
        run: Release ID and run key of this run, whose own publication is no earlier release.
        register: Register of the population, ingested with the identifier of its persons, for the attacker
            `population`. None: the population is all persons of all releases.
        accept_unjudged: Reason why the release may be published after releases that were made before
            differences could be judged. None: it may not, if the policy names `republication`.

    Raises:
        IntegrityError: If the staged file is not the one that the method made, or the ledger was edited.
        VerificationError: If its columns are not those of the released schema.
        SpecError: If a required ledger or release table is missing, or the floor policy cannot be read.
        CapacityError: If the engine has too little memory or disk.
        LedgerError: If the ledger cannot be reached.
    """
    schema, manifest = staged.read_schema(), staged.read_manifest()
    floor = floor_policy()
    demanded = under_floor(policy, floor)
    loss = staged.privacy_loss
    policy, not_applicable = set_aside(demanded, loss)
    earlier = EarlierReleases(named=table, run=None if run is None else ReleaseRun(*run))
    together = _held_together(staged, manifest, schema, policy, earlier, register)
    policy = together.policy
    measured = replace(policy, attacks=())  # attacks follow later, see `privacy_release.steps.attacks`
    before = _unjudged(staged, policy, earlier, accept_unjudged)
    staged.require_unchanged()
    files = staged.paths()
    with (
        open_engine(staged.engine, Path(staged.uri).parent) as engine,
        counted_by_person(staged, staged.people, schema) as persons,
    ):
        with portion(0.7):
            report = verify_files(
                engine,
                files,
                schema,
                measured,
                loss=loss,
                figures=staged.figures,
                across=together.across,
                by_person=persons,
                year=datetime.now(UTC).year,
            )
        text = text_findings(files, schema, policy)
    staged.require_unchanged()
    counted = _with_counterfeits(report.findings, staged, schema, policy)
    further = (*together.silence, *before, *text, *kind_findings(demanded, kind_of(staged.method)))
    proof = _proof_of_loss(staged, manifest, loss, schema, ledger)
    found = replace(report, findings=(*not_applicable, *counted, *further, *proof)).to_dict()
    with_register = staged.follows_people and register is not None and register.follows_people
    return ReportRef(
        passed=found["passed"],
        sha256=staged.sha256,
        rows=found["rows"],
        classes=found["classes"],
        findings=found["findings"],
        policy=(demanded if not_applicable else policy).to_dict(),
        floor_policy=None if floor is None else {"sha256": floor.sha256},
        persons=found.get("persons"),
        unique_records=found.get("unique_records"),
        compared=together.compared,
        register=register if with_register else None,
    )


def _proof_of_loss(
    staged: StagedRelease,
    manifest: Manifest,
    loss: "PrivacyLoss | None",
    schema: "DataSchema",
    ledger: "BudgetLedger | None",
) -> "tuple[Finding, ...]":
    """Return the findings that prove the claimed loss: by the ledger, or by making the records again."""
    if loss is None:
        return ()
    if not loss.must_be_booked:
        return (made_again(staged),)
    return bookkeeping_findings(staged, manifest, loss, _frames(staged), schema, ledger)


def require_no_counterfeits(files: Sequence[str]) -> None:
    """Raise if the records of a table are to be counted as people, but some belong to no person.

    Raises:
        VerificationError: If a class states that it has counterfeits.
    """
    for file in files:
        if COUNTERFEITS not in pq.read_schema(file).names:
            continue
        counterfeits = pq.read_table(file, columns=[COUNTERFEITS])[COUNTERFEITS]
        if records := pc.sum(pc.not_equal(counterfeits, 0)).as_py():
            raise VerificationError(
                f"{counted(records, 'record is', 'records are')} in classes with counterfeits, and the table "
                "does not show which records belong to no person, so people cannot be counted; verify it in "
                "its work area, with the persons that were kept with it"
            )


def text_findings(
    files: Sequence[str], schema: "DataSchema", policy: "ReleasePolicy"
) -> "tuple[Finding, ...]":
    """Return findings on whether the released text is clean, if the policy requires it."""
    if policy.columns is None or not policy.columns.clean_text:
        return ()
    found = found_in_release(files, schema)
    if not found:
        return (Finding(rule="columns: clean_text as released", threshold=0, measured=0, passed=True),)
    return tuple(
        Finding(
            rule=f"columns: clean_text as released in {column}, {kind.replace('_', ' ')}",
            threshold=0,
            measured=float(records),
            passed=False,
            failing_rows=records,
            remedy="set `text: redact`, give it the role identifier, or list its values in the schema",
        )
        for column, kinds in found.items()
        for kind, records in sorted(kinds.items())
    )


def _frames(staged: StagedRelease) -> "Iterator[pd.DataFrame]":
    """Yield the staged records, part by part."""
    for batch in staged.batches():
        yield to_frame(pa.Table.from_batches([batch]))


@dataclass(frozen=True, kw_only=True)
class _Together:
    """The result of checking a release against the earlier releases of its table.

    Attributes:
        policy: Policy of the release, plus the models across releases that it implies for recurring people.
        across: Findings of these models.
        silence: Finding on people who may be in several releases without being followed.
        compared: Versions of the table that were compared. None if the policy requires no comparison.
    """

    policy: "ReleasePolicy"
    across: "tuple[Finding, ...]" = ()
    silence: "tuple[Finding, ...]" = ()
    compared: list[int] | None = None


def _held_together(
    staged: StagedRelease,
    manifest: Manifest,
    schema: "DataSchema",
    policy: "ReleasePolicy",
    earlier: EarlierReleases,
    register: Table | None,
) -> _Together:
    """Check the policy's rules about people who are in several releases of the table."""
    losses_add_up = manifest.private
    if staged.follows_people:
        policy = replace(policy, across=policy.across_people)
        if not window_of(policy.across, Attacker.POPULATION):
            register = None
        memberships: dict[int, Membership] = {}
        if policy.across:
            memberships = earlier.memberships(
                KnownPersons.of(staged.followed_persons),
                marked=window_of(policy.across, Attacker.CORRECTION),
                registers=register is not None,
            )
        across = _across(staged, schema, policy, memberships, register)
        if unseen := len(staged.unseen(memberships)):
            remedy = f"{unseen} releases were published after this one was made; start a new run"
            across = tuple(found if found.passed else replace(found, remedy=remedy) for found in across)
        compared = list(memberships) if policy.across else staged.earlier
        return _Together(policy=policy, across=across, compared=compared)
    across = _across(staged, schema, policy, {})  # if models are required, the findings give the remedy
    identifiers = staged.source.identifiers
    if policy.repeated_people != "history" or losses_add_up or not identifiers:
        return _Together(policy=policy, across=across)
    published = earlier.published()
    silence = silence_about_people(earlier.table.name, identifiers, published, staged.sha256)
    compared = [publication.version for publication in published]
    return _Together(policy=policy, across=across, silence=(silence,), compared=compared)


def _unjudged(
    staged: StagedRelease,
    policy: "ReleasePolicy",
    earlier: EarlierReleases,
    accepted: str | None,
) -> "tuple[Finding, ...]":
    """Return the finding on releases that were made before differences could be judged."""
    if not staged.follows_people or not asks_for_differences(policy):
        return ()
    form = staged.followed_persons.form
    found = unjudged_finding(earlier.table.name, earlier.published(), form, accepted)
    return () if found is None else (found,)


def _across(
    staged: StagedRelease,
    schema: "DataSchema",
    policy: "ReleasePolicy",
    earlier: "Mapping[int, Membership]",
    register: Table | None = None,
) -> "tuple[Finding, ...]":
    """Return the findings of the models across releases. The classes of all persons are held in memory."""
    if not policy.across:
        return ()
    frame = staged.frame()
    who = _people_of(staged, register)
    source = staged.read_source_schema() if staged.source_schema is not None else None
    return across_findings(
        frame,
        schema,
        policy,
        loss=staged.privacy_loss,
        persons=who.persons,
        earlier=tuple(earlier.values()),
        source=source,
        register=who.register,
        owners=who.owners,
    )


@dataclass(frozen=True, kw_only=True)
class _People:
    """The persons of the released records. All fields are None if people are not followed.

    Attributes:
        persons: Person of each record, shape (n,). None for counterfeits.
        owners: Number of each record's person, shape (n,), as `owners_of`.
        register: Persons of the population at the time of the release, if there is a register.
    """

    persons: "npt.NDArray[np.object_] | None" = None
    owners: "npt.NDArray[np.int64] | None" = None
    register: "Membership | None" = None


def _people_of(staged: StagedRelease, register: Table | None) -> _People:
    """Read the persons of the released records, and those of the register."""
    if not staged.follows_people:
        return _People()
    kept = staged.followed_persons
    return _People(persons=read_persons(kept), owners=owners_of(staged), register=population(register, kept))


def _with_counterfeits(
    findings: "Sequence[Finding]", staged: StagedRelease, schema: "DataSchema", policy: "ReleasePolicy"
) -> "Sequence[Finding]":
    """Adjust findings if records may include counterfeits, which belong to no person and count for no k."""
    if not staged.follows_people:
        return findings
    frame, persons = staged.frame(), read_persons(staged.followed_persons)
    return with_counterfeits(findings, frame, schema, policy, persons)


def raise_if_failed(report: ReportRef) -> None:
    """Raise if the report of a release does not pass.

    Raises:
        VerificationError: Naming each failed rule, the measured number and the counts.
    """
    findings = tuple(Finding(**finding) for finding in report.findings)
    Report(rows=report.rows, classes=report.classes, findings=findings).raise_if_failed()
    if not report.passed:
        raise VerificationError(
            "the report says that the release does not pass, but it has no failed finding; verify it again"
        )
