"""Findings on earlier releases from which differences cannot be judged, or whose people are not followed."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.verification.republication.model import Republication
from privacy_engine.verification.republication.notes import unjudged_text
from privacy_engine.verification.verify import Finding
from privacy_release.steps.memberships.files import (
    IDENTIFIER_FORM,
    MARK,
    OLD_MARK,
    SIGNATURE,
    VALUES,
    file_of,
)

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.lake.log import Publication


def asks_for_differences(policy: "ReleasePolicy") -> bool:
    """Return whether a policy refuses to publish after releases whose differences cannot be judged.

    Policies that do not name the model `republication` publish as before.
    """
    return any(isinstance(model, Republication) for model in policy.across_people)


def made_before(name: str, published: "Sequence[Publication]", form: str) -> int:
    """Return how many releases of a table were recorded in a form that allows no judgement of differences.

    Their files lack the values of classes, or marks of the persons' values, for a sensitive attribute, or
    their marks were made with another form of the identifiers.

    Args:
        name: Name of the release table.
        published: Publications from `EarlierReleases.published`. Those without a file do not count.
        form: Form of the identifiers in the new release.
    """
    found = 0
    for publication in published:
        path = file_of(name, publication.release_id, publication.sha256)
        try:
            columns = pq.read_schema(path).names
            known = (
                pq.read_table(path, columns=[IDENTIFIER_FORM])[IDENTIFIER_FORM].to_pylist()
                if IDENTIFIER_FORM in columns
                else []
            )
        except (OSError, pa.ArrowException):  # missing or damaged: verification refuses it
            continue
        named = [column.removeprefix(SIGNATURE) for column in columns if column.startswith(SIGNATURE)]
        values, marks = ({VALUES + own} for own in named), ({MARK + own, OLD_MARK + own} for own in named)
        without = any(either.isdisjoint(columns) for either in chain(values, marks))
        found += bool(named) and (without or set(known) != {form})
    return found


def unjudged_finding(
    name: str, published: "Sequence[Publication]", form: str, accepted: str | None
) -> "Finding | None":
    """Return the finding on releases from which differences cannot be judged. None if there are none.

    Args:
        name: Name of the release table.
        published: Publications from `EarlierReleases.published`.
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
    name: str, identifiers: Sequence[str], published: "Sequence[Publication]", sha256: str | None = None
) -> "Finding":
    """Return the finding on earlier releases that may be about the same people, who are not followed.

    Args:
        name: Name of the release table.
        identifiers: Columns of the source that name people.
        published: Publications from `EarlierReleases.published`.
        sha256: SHA-256 of the new release. Publishing the same bytes again reveals nothing new.
    """
    count = sum(publication.sha256 != sha256 for publication in published)
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
