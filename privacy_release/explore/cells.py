"""Measure one choice: its release is made, measured and discarded. Only figures are kept."""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_engine.measures.distributions import Distribution, Withheld, distributions, protected
from privacy_engine.measures.grouped_marginals import grouped_marginals
from privacy_engine.release import Release
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from privacy_release.explore.choices import Choice, without_persons
from privacy_release.reports.figures import measure
from privacy_release.running.booked import booked_release
from privacy_release.spec.methods import build_method
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import RecordsFileRef, RecordsRef
from privacy_release.workarea.staged import finite

if TYPE_CHECKING:
    import pandas as pd

    from privacy_release.budget.budget import Budget
    from privacy_release.workarea.area import WorkArea


class ColumnRef(TypedDict):
    """A column before and after.

    Attributes:
        before: Number of records of each group, rounded. None: hidden, because it is too small.
        after: Expected number in the release, protected in the same way, because it could reveal `before`.
        reason: Reason why there is nothing to show. None if there is something.
    """

    name: str
    groups: list[str]
    before: list[int | None]
    after: list[int | None]
    reason: str | None


class MeasuredChoice(TypedDict):
    """A choice with its measurements.

    Attributes:
        failed: Reason why there is no release. The other fields are empty then.
        figures: Figures by name: those of `utility` and `risk`; `marginals_1`, `marginals_2`: mean distance
            of the marginals; `accuracy`, `accuracy_source`, `accuracy_majority`: of classifiers; `epsilon`.
        missed: Rules of the policy that it does not meet, with the measured numbers.
        seconds: Duration of the method in seconds.
    """

    name: str
    method: str
    parameters: dict[str, Any]
    failed: str | None
    figures: dict[str, float]
    missed: list[str]
    columns: list[ColumnRef]
    rows: int
    seconds: float


def measured(
    choice: Choice,
    records: RecordsRef,
    work: "WorkArea | None" = None,
    budget: "Budget | None" = None,
    policy: "ReleasePolicy | None" = None,
) -> MeasuredChoice:
    """Make the release of a choice and measure it. A failure is reported and does not affect other choices.

    Args:
        choice: Choice to measure.
        records: Records to measure it on.
        work: Work area for staging a release that a budget pays for.
        budget: Budget that pays, if the records are those of a data set with a budget.
        policy: Policy of a release that a budget pays for, including the floor policy.
    """
    cell = failed(choice, None)
    try:
        _measure(choice, records, cell, work, budget, policy)
    except PrivacyEngineError as error:
        cell["failed"] = " ".join(str(error).split())
    except MemoryError:
        cell["failed"] = "it needs more memory than there is; use fewer records with --sample"
    except Exception as error:  # noqa: BLE001  choices are independent; its message may quote records
        cell["failed"] = f"unexpected {type(error).__name__}"
    return cell


def failed(choice: Choice, reason: str | None) -> MeasuredChoice:
    """Return a choice without measurements, with the reason. None: not measured yet."""
    return MeasuredChoice(
        name=choice.name,
        method=choice.method,
        parameters=dict(choice.parameters),
        failed=reason,
        figures={},
        missed=[],
        columns=[],
        rows=0,
        seconds=0.0,
    )


def _measure(
    choice: Choice,
    records: RecordsRef,
    cell: MeasuredChoice,
    work: "WorkArea | None",
    budget: "Budget | None",
    policy: "ReleasePolicy | None",
) -> None:
    frame, schema = _frame(records.made_from), records.read_schema()
    rng = np.random.default_rng(records.seed)
    if records.origin == "booked":
        release, seconds = _booked(choice, records, work, budget, policy)
    else:
        parameters = choice.parameters if schema.by else without_persons(choice.parameters)
        method = build_method(choice.method, parameters)
        if records.origin == "source" and method.privacy_loss(schema) is not None:
            raise SpecError(f"{choice.method} spends privacy on the source, but nothing books it; book it")
        began = time.perf_counter()
        release = method.release(frame, schema, rng)
        seconds = time.perf_counter() - began
    cell["rows"], cell["seconds"] = len(release.table), seconds
    rng = np.random.default_rng(records.seed)  # each choice is measured in the same way
    if release.recoding is not None:
        _anonymized(release, records, cell, rng)
    else:
        _synthesized(release, frame, records, cell, rng)
    cell["figures"] = finite(cell["figures"])
    cell["missed"] = _missed(release, records, cell["figures"])


def _booked(
    choice: Choice,
    records: RecordsRef,
    work: "WorkArea | None",
    budget: "Budget | None",
    policy: "ReleasePolicy | None",
) -> "tuple[Release, float]":
    """Return a release that the budget pays for. The same bytes and choice cost nothing again."""
    if budget is None or work is None:
        raise SpecError("records of people are only explored if a budget pays; name the one that does")
    assert records.table is not None
    return booked_release(
        records.table,
        work,
        method=choice.method,
        parameters=choice.parameters,
        label=choice.name.replace(":", "-"),
        budget=budget,
        policy=policy,
    )


@cache
def _read(uri: str, sha256: str) -> "pd.DataFrame":
    return read_private(uri, sha256)


def _frame(file: RecordsFileRef) -> "pd.DataFrame":
    """Read a file once per process, because its choices are measured on the same records."""
    return _read(file.uri, file.sha256)


def _anonymized(release: "Release", records: RecordsRef, cell: MeasuredChoice, rng: Any) -> None:
    """Measure loss and risk as for any release, and an analyst's error."""
    from privacy_engine.measures.analyst import marginal_errors, train_on_release

    recoding = release.recoding
    assert recoding is not None
    loss, risk = measure(release, rng)
    one, two = marginal_errors(recoding)
    cell["figures"] = {**loss, **risk, "marginals_1": one, "marginals_2": two}
    if records.target is not None:
        test = EncodedTable.encode(_frame(records.held_out), records.read_schema())
        cell["figures"] |= _scores(train_on_release(recoding, test, records.target, rng))
    for shown in distributions(recoding, records.smallest_count):
        if isinstance(shown, Withheld):
            cell["columns"].append(
                ColumnRef(name=shown.attribute, groups=[], before=[], after=[], reason=shown.reason)
            )
        else:
            cell["columns"].append(_column(shown, records.smallest_count))


def _synthesized(
    release: "Release", frame: "pd.DataFrame", records: RecordsRef, cell: MeasuredChoice, rng: Any
) -> None:
    """Measure how close the drawn records are to those of the model."""
    from privacy_engine.measures.synthetic_assessment import LEARNING_ROWS
    from privacy_engine.measures.synthetic_learning import train_on_synthetic
    from privacy_engine.measures.synthetic_utility import coded, coded_marginal_tvd

    schema = replace(records.read_schema().without_identifiers(), person=None)
    names = list(schema.names)
    real, drawn = coded(frame.loc[:, names], schema), coded(release.table.loc[:, names], schema)
    assert release.loss is not None
    cell["figures"] = {"epsilon": release.loss.epsilon, "delta": release.loss.delta}
    for ways in range(1, min(2, len(names)) + 1):
        cell["figures"][f"marginals_{ways}"] = coded_marginal_tvd(real, drawn, ways).mean
    if (target := records.target) is not None and len(names) > 1:
        test = _frame(records.held_out).loc[:, names]
        of = (frame.loc[:, names], release.table.loc[:, names], test)
        cell["figures"] |= _scores(train_on_synthetic(*of, schema, [target], rng, rows=LEARNING_ROWS)[target])
    for marginal in grouped_marginals([real, drawn], schema):
        before, after = (np.array(shares) for shares in marginal.shares)
        counts = np.rint(before * len(frame)).astype(np.int64)
        cell["columns"].append(
            _column(
                Distribution(
                    attribute=marginal.attribute,
                    ordered=marginal.ordered,
                    groups=marginal.groups,
                    before=protected(counts, records.smallest_count),
                    after=tuple((after * len(release.table)).tolist()),
                ),
                records.smallest_count,
            )
        )


def _column(shown: "Distribution", smallest_count: int) -> ColumnRef:
    return ColumnRef(
        name=shown.attribute,
        groups=list(shown.groups),
        before=list(shown.before),
        after=list(protected(np.rint(shown.after).astype(np.int64), smallest_count)),
        reason=None,
    )


def _scores(score: Any) -> dict[str, float]:
    return {
        "accuracy": score.synthetic,
        "accuracy_source": score.real,
        "accuracy_majority": score.majority,
    }


def _missed(release: "Release", records: RecordsRef, figures: Mapping[str, float]) -> list[str]:
    """Return the rules of the policy that the release does not meet, on the records it was made from."""
    policy = of_one_release(ReleasePolicy.from_dict(records.policy))
    if policy is None:
        return []
    report = verify(
        release.table,
        release.schema,
        policy,
        loss=release.loss,
        figures=figures,
        persons=release.persons,
        year=datetime.now(UTC).year,
    )
    return [
        f"{f.rule}: {'nothing measurable' if f.measured is None else format(f.measured, '.4g')}"
        for f in report.findings
        if not f.passed
    ]


def of_one_release(policy: "ReleasePolicy") -> "ReleasePolicy | None":
    """Return the policy without rules about earlier releases and attacks, which are not measured here."""
    models = policy.require or policy.known_rows or policy.all_columns
    own = (models, policy.columns, policy.max_epsilon, policy.max_breach)
    if not any(rule is not None and rule != () for rule in own):
        return None
    return replace(policy, across=(), attacks=(), repeated_people=None)
