"""Check the source of a specification: rehearse its plan up to the release."""

import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.errors import (
    InfeasibleError,
    MissingSourceError,
    PrivacyEngineError,
    Problem,
    ProblemsError,
    SchemaError,
    SecretError,
    SpecError,
)
from privacy_release.checking.rules import FEW, CheckRules
from privacy_release.running.preparing import source_table
from privacy_release.sources.addresses import find_source
from privacy_release.spec.floor import under_floor
from privacy_release.steps.counts import counts_hidden
from privacy_release.steps.curator import write_missing_values
from privacy_release.steps.types import check_types_of

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.explore.cost import Cost
    from privacy_release.spec.model import ReleaseSpec
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.references import Table


@dataclass(frozen=True, kw_only=True)
class CheckedSource:
    """A source that was read.

    Attributes:
        cost: Cost of a run, or the reason why it is unknown. None: it was not requested.
        left_out: Names of files of the source that are not read.
    """

    cost: "Cost | str | None"
    left_out: Sequence[str]


def check_source(spec: "ReleaseSpec", rules: CheckRules) -> CheckedSource | None:
    """Rehearse the plan of a specification. None if the source is not read.

    Problems name columns, rules and counts. Values are only for the curator.

    Raises:
        ProblemsError: If something is wrong, with all problems.
        PrivacyEngineError: If a step of the plan fails.
    """
    if rules.source is not None:
        return _rehearsed(spec, rules) if rules.source else None
    if not _is_small(spec):
        return None
    try:
        return _rehearsed(spec, rules)
    except ProblemsError:
        raise
    except (SecretError, SpecError):  # a key that only users who run it have
        return None


def _rehearsed(spec: "ReleaseSpec", rules: CheckRules) -> CheckedSource:
    read = spec.model_copy(update={"outliers": None})
    if read.source is not None:  # a check does not wait
        source = read.source.model_copy(update={"when_missing": "fail", "wait": None})
        read = read.model_copy(update={"source": source})
    policy = under_floor(spec.release_policy(), rules.floor)
    with rules.area(f"cli/check/{spec.name}/{secrets.token_hex(4)}") as work:
        try:
            with _counts_hidden(spec, rules):
                table = source_table(read, rules.release_id, read.data_schema(), work, policy=policy)
        except SchemaError as error:
            raise ProblemsError([_problem_of(error, read, work, rules)]) from None
        except InfeasibleError as error:  # too few people to hold out
            raise ProblemsError([Problem(text=f"policy: {error}", path=("policy",))]) from None
        _check_types(spec, table, rules)
        cost = _cost(spec, policy, table, work, rules) if rules.cost else None
        return CheckedSource(cost=cost, left_out=table.source.files_left_out)


def _problem_of(error: SchemaError, spec: "ReleaseSpec", work: "WorkArea", rules: CheckRules) -> Problem:
    if isinstance(error, MissingSourceError):
        return Problem(text=str(error), path=("source", "uri"))
    try:
        file = write_missing_values(spec, rules.release_id, work) if rules.curator else None
    except ValueError as wrong:  # about the folder. It quotes no record
        if isinstance(wrong, PrivacyEngineError):
            raise
        raise SpecError(f"PRIVACY_CURATOR: {wrong}") from None
    missed = f"; the missing values: {file}" if file else ""
    return Problem(text=f"{error}{missed}", path=("schema",))


def _is_small(spec: "ReleaseSpec") -> bool:
    """Return whether the source has few records on this machine, and problems may be reported as counts.

    The actions of a checkpoint may send messages, so it is only run on request.
    """
    if not spec.reads_records:
        return True
    suites = [spec.suite_given, *(table.suite_given for table in (spec.tables or {}).values())]
    if any(isinstance(suite, dict) for suite in suites):
        return False
    rows = 0
    for source in spec.sources:
        if spec.budget is not None or source.uri is None or source.format != "parquet" or "{" in source.uri:
            return False
        try:
            found = find_source(source.uri)
        except MissingSourceError:
            return False
        except SchemaError:  # reading it reports why
            return True
        if not found.is_local:
            return False
        rows += sum(map(_rows_of, found.files))
    return rows <= FEW


def _rows_of(file: str) -> int:
    """Return the number of records in a file's footer. 0 if it has none, which reading reports."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):
        return 0


def _counts_hidden(spec: "ReleaseSpec", rules: CheckRules) -> AbstractContextManager[None]:
    """Raise what the block finds in the records without counts, if a budget pays for the release."""
    return counts_hidden(spec.name, rules.release_id, is_paid=spec.budget is not None)


def _check_types(spec: "ReleaseSpec", table: "Table", rules: CheckRules) -> None:
    """Compare the types of the source with those of the release table, if a lake is configured."""
    if (lake := rules.lake()) is None:
        return
    try:
        check_types_of(spec, table, lake.table(spec.publish.table))
    except SchemaError as error:
        raise ProblemsError([Problem(text=str(error), path=("schema",))]) from None


def _cost(
    spec: "ReleaseSpec", policy: "ReleasePolicy", table: "Table", work: "WorkArea", rules: CheckRules
) -> "Cost | str":
    """Return the cost of a run, or why it is unknown. A failing method is a problem."""
    from privacy_release.explore.cost import cost_of

    try:
        with _counts_hidden(spec, rules):
            return cost_of(spec, policy, table, work)
    except SpecError as error:
        return str(error)
    except PrivacyEngineError as error:
        raise ProblemsError([Problem(text=f"release: {error}", path=("release",))]) from None
