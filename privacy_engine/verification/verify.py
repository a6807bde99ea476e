"""Verify that a released table meets a policy, from the released records only."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.tables.classes import EquivalenceClasses, class_labels
from privacy_engine.tables.linked import ReleasedClasses
from privacy_engine.tables.persons import TABLE, ValuesLeft
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.all_columns import AllColumnsKAnonymity
from privacy_engine.verification.attack_risk import NOT_TRIED
from privacy_engine.verification.column_checks import Broken, Values, broken
from privacy_engine.verification.counterfeits import without_person, wrong_counts
from privacy_engine.verification.cross_release import CrossReleaseModel, History, Membership
from privacy_engine.verification.known_rows import RowIntersection, persons_below
from privacy_engine.verification.models import classes_asked, rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.model import Republication
from privacy_engine.verification.tally import JudgedModel, Tally, tallied
from privacy_engine.verification.uniqueness import (
    NEARLY,
    Sizes,
    Uniqueness,
    as_declared,
    counted_attributes,
    nearly_unique_columns,
    uniqueness_of,
)
from privacy_engine.vocabulary import COUNTERFEITS, ReleaseKind, counted


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one rule of a policy on a release.

    Attributes:
        rule: Model or limit with its parameters, as text.
        threshold, measured: Limit and measured number in the same unit; None if nothing could be measured.
        passed: Whether the rule holds.
        failing_classes, failing_rows: Number of classes and rows that fail, if the rule is about classes.
        failing_persons: Number of persons who fail, if the rule is about all rows of a person.
        remedy: Advice on how to meet the rule; empty if there is no better advice than to use another method.
        note: Which parts of the rule were judged and which were not, if it has parts.
    """

    rule: str
    threshold: float
    measured: float | None
    passed: bool
    failing_classes: int = 0
    failing_rows: int = 0
    failing_persons: int = 0
    remedy: str = ""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; persons, remedy and note only if the finding has them."""
        optional = ("failing_persons", "remedy", "note")
        return {name: value for name, value in asdict(self).items() if value or name not in optional}


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings on a release. It passes if there is at least one finding and all of them pass.

    Attributes:
        rows: Number of released records.
        classes: Number of classes of equal quasi-identifiers.
        findings: Findings, one for each rule.
        persons: Number of persons of the records; None: each record counts as a person.
        unique_records: Share of the records that are unique, see `Uniqueness.shares`.
    """

    rows: int
    classes: int
    findings: tuple[Finding, ...]
    persons: int | None = None
    unique_records: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the release may be published."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; infinite and undefined numbers become None."""
        return {
            "passed": self.passed,
            "rows": self.rows,
            "classes": self.classes,
            **({} if self.persons is None else {"persons": self.persons}),
            **({"unique_records": dict(self.unique_records)} if self.unique_records else {}),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def raise_if_failed(self) -> None:
        """Raise if the release does not pass.

        Raises:
            VerificationError: If it fails; the message names each failed rule, its threshold, the measured
                number and counts.
        """
        if not self.passed:
            failed = [_sentence(finding) for finding in self.findings if not finding.passed]
            raise VerificationError(
                "the release does not keep its policy: "
                + ("; ".join(failed) or "the policy has no rule")
                + ". Use stricter parameters or another method. No method may change the policy"
            )


def verify(
    table: pd.DataFrame,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    figures: Mapping[str, float] | None = None,
    persons: npt.NDArray[np.object_] | None = None,
    earlier: Sequence[Membership] = (),
    source: DataSchema | None = None,
    year: int | None = None,
) -> Report:
    """Measure every rule of a policy on released records.

    Args:
        table: Released records with all columns of the schema.
        schema: Schema of the released records. Its identifiers must not be among the columns.
        policy: Policy that must be met.
        loss: Privacy loss that the release claims; it is compared with limits on epsilon and delta.
        figures: ``suppressed``, ``gcp``, ``distorted`` and ``breach`` as shares, for the limits on them.
        persons: Person of each row as text, shape (n,); None for counterfeit rows. Required if the schema
            names a person, and for the models across releases. If rows are linked, the released pseudonyms
            identify the persons; they are compared with these if given.
        earlier: Earlier releases that may be about the same people.
        source: Schema of the source, with which the models across releases parse its cells; None: a cell
            covers only an equal one.
        year: Year of the release; required by a policy that limits ages.

    Returns:
        The report. A failed rule does not raise.

    Raises:
        VerificationError: If columns are missing, unknown, or identifiers, a model across releases is
            required and cannot be measured, a pseudonym belongs to several persons, or ages are limited and
            the year is not given.
    """
    check_columns(list(table.columns), schema)
    policy = as_declared(policy, schema)
    require_persons(schema, persons is not None, loss)
    _require_own(table, schema, persons)
    released = ReleasedClasses.of_table(table, schema, persons if schema.by else None)
    whole, across, known = released.whole, None, None
    if whole.persons is not None:
        names = attributes_of(policy.known_rows, schema)
        known = {name: released.of_attribute(name).values_left(name) for name in names}
    if policy.across:
        people = Membership.of_classes(_known_persons(policy, schema, loss, persons), whole, table, schema)
        across = _across_findings(policy, whole, people, earlier, source)
    parts = ((whole, False), *((own, True) for own in released.tables.values()))
    by_person = whole.persons is not None
    counted = CountedRecords(
        columns=list(table.columns),
        tallies=(tallied([part], policy, schema, by_person=by_person, of_table=own) for part, own in parts),
        across=across,
        persons=None if whole.persons is None else len(np.unique(whole.persons)),
        known=known,
        values=partial(_values, table),
        sizes=partial(_sizes, table),
    )
    report = verify_tallies(counted, schema, policy, loss=loss, figures=figures, year=year)
    if persons is None:
        return report
    return replace(report, findings=tuple(with_counterfeits(report.findings, table, schema, policy, persons)))


def _require_own(table: pd.DataFrame, schema: DataSchema, persons: npt.NDArray[np.object_] | None) -> None:
    """Raise for pseudonyms of several persons, and cells of another table; errors as for `verify`."""
    if schema.linked and persons is not None:
        both = [table[schema.by], pd.Series(schema.person_codes(persons))]
        distinct = (
            len(np.unique(class_labels(columns, len(table)))) for columns in (both[:1], both[1:], both)
        )
        require_own_pseudonyms(schema, *distinct)
    if schema.tables:
        whose = table[TABLE].fillna("").to_numpy()
        cells = table.notna().groupby(whose).sum()
        require_own_cells(schema, {name: dict(cells.loc[name]) for name in cells.index})


def _values(table: pd.DataFrame, name: str) -> tuple[pd.Series, npt.NDArray[np.int64]]:
    counted = table[name].value_counts(dropna=True)
    return pd.Series(counted.index), counted.to_numpy().astype(np.int64)


def _sizes(table: pd.DataFrame, names: Sequence[str]) -> dict[int, int]:
    labels = class_labels([table[name] for name in names], len(table))
    own, counts = np.unique(np.bincount(labels), return_counts=True)
    return {int(size): int(n) for size, n in zip(own, counts, strict=True) if size}


def require_persons(schema: DataSchema, known: bool, loss: PrivacyLoss | None = None) -> None:
    """Raise if the schema allows several rows per person and the persons are not known.

    Raises:
        VerificationError: If the person of each row is not known, or rows are linked in a release with a
            privacy loss, which is not claimed for trajectories.
    """
    if schema.linked and loss is not None and loss.must_be_booked:
        raise VerificationError(
            "a release with a privacy loss must not link the rows of a person, because its claim "
            "does not cover trajectories. Remove `rows: linked` from the schema"
        )
    if schema.by and not schema.linked and not known and loss is None:
        raise VerificationError(
            f"{schema.by} names the person of each row, but the persons of the released rows are not "
            "known, and rows are not people. Verify the release in its work area, where the persons "
            "are kept"
        )


def require_own_pseudonyms(schema: DataSchema, pseudonyms: int, persons: int, pairs: int) -> None:
    """Raise unless each pseudonym belongs to exactly one person, and each person has one pseudonym.

    Args:
        schema: Schema of the released records.
        pseudonyms: Number of distinct pseudonyms.
        persons: Number of persons.
        pairs: Number of distinct pairs of both.

    Raises:
        VerificationError: If two persons share a pseudonym, or one has two.
    """
    if not pseudonyms == persons == pairs:
        raise VerificationError(
            f"{schema.by} must be one pseudonym for each person, got {pseudonyms} pseudonyms of {persons} "
            f"persons in {pairs} pairs of both. Run the release again"
        )


def require_own_cells(schema: DataSchema, filled: Mapping[Any, Mapping[str, int]]) -> None:
    """Raise for rows of no table, and for values in columns that a row's table does not have.

    Args:
        schema: Schema of the released records, covering all tables of the release.
        filled: Number of cells that are not null, by value of the column `TABLE` and by column.

    Raises:
        VerificationError: If there are any.
    """
    own = {t.name: {schema.by, TABLE, *t.columns} for t in schema.tables}
    if foreign := [value for value in filled if value not in own]:
        raise VerificationError(
            f"{TABLE} must be one of {list(own)} in every row, it has {len(foreign)} other values; run the "
            "release again"
        )
    for name, cells in filled.items():
        if stray := [column for column, n in cells.items() if n and column not in own[name]]:
            raise VerificationError(
                f"table {name} does not have the columns {stray}, so they must be null in its rows; run the "
                "release again"
            )


def across_findings(
    table: pd.DataFrame,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    persons: npt.NDArray[np.object_] | None = None,
    earlier: Sequence[Membership] = (),
    source: DataSchema | None = None,
    register: Membership | None = None,
    owners: npt.NDArray[np.int64] | None = None,
) -> tuple[Finding, ...]:
    """Measure the models across releases of a policy; none if it requires none.

    Arguments as for ``verify``; of ``table`` only the quasi-identifiers and sensitive attributes are read.
    ``register`` is the population at the time of the release, and ``owners`` (n,) the person of each record,
    both as in `Membership`: with owners, ``persons`` identify the records.

    Raises:
        VerificationError: If a model across releases is required and cannot be measured.
    """
    if not policy.across:
        return ()
    known = _known_persons(policy, schema, loss, persons)
    classes = EquivalenceClasses.of_table(table, schema)
    people = replace(Membership.of_classes(known, classes, table, schema, owners), register=register)
    return _across_findings(policy, classes, people, earlier, source)


def with_counterfeits(
    findings: Sequence[Finding],
    table: pd.DataFrame,
    schema: DataSchema,
    policy: ReleasePolicy,
    persons: npt.NDArray[np.object_],
) -> list[Finding]:
    """Return the findings on a release that may contain counterfeits: records that belong to no person.

    Models that count the members of a class only count persons, because anyone can subtract the published
    number of counterfeits; all other models see the published records. An additional finding checks that
    number.

    Args:
        findings: Findings on all of its records.
        table: Released records, counterfeits included.
        schema: Schema of the released records.
        policy: Policy that must be met.
        persons: Person of each row, shape (n,); None for counterfeits.
    """
    fake = without_person(persons)
    claimed = table[COUNTERFEITS] if COUNTERFEITS in table and not schema.linked else None
    if claimed is None and not fake.any():
        return list(findings)
    counting = [model for model in policy.require if hasattr(model, "k")]
    alone = [JudgedModel(model, rule_of(model)) for model in counting]
    for model in alone:
        model.add(EquivalenceClasses.of_table(table[~fake].reset_index(drop=True), schema))
    of_persons = {model.rule: _finding(model) for model in alone}
    labels = EquivalenceClasses.of_table(table, schema).labels
    wrong = wrong_counts(labels, fake, claimed)
    without_persons = int((np.bincount(labels[~fake], minlength=int(labels.max(initial=-1)) + 1) == 0).sum())
    finding = Finding(
        rule="counterfeits: each class tells their number",
        threshold=0,
        measured=float(len(wrong) + without_persons),
        passed=not len(wrong) and not without_persons,
        failing_classes=len(wrong) + without_persons,
        failing_rows=int(np.isin(labels, wrong).sum()),
    )
    worse = [_worse(f, of_persons[f.rule]) if f.rule in of_persons else f for f in findings]
    return [*worse, finding]


def _worse(one: Finding, other: Finding) -> Finding:
    """Return the finding that fails, or the other one."""
    return one if not one.passed else other


def set_aside(policy: ReleasePolicy, loss: PrivacyLoss | None) -> tuple[ReleasePolicy, tuple[Finding, ...]]:
    """Set aside the rules about people for a release that depends on no record of theirs.

    Args:
        policy: Policy that must be met.
        loss: Privacy loss that the release claims. With any loss but 0, all rules stay. A claim of 0 is no
            proof: only call this where it is proven, because these rules are then not measured.

    Returns:
        The rules that are measured, among them that epsilon is 0, and a finding for each that is not.
    """
    if loss is None or loss.must_be_booked:
        return policy, ()
    models: tuple[Any, ...] = policy.rules
    rules = [(rule_of(model), model.threshold) for model in models]
    rules += [(name, getattr(policy, name)) for name in _OF_RECORDS]
    findings = tuple(
        Finding(rule=rule, threshold=threshold, measured=None, passed=True, note=NOT_APPLICABLE)
        for rule, threshold in rules
        if threshold is not None
    )
    return policy.of_invented_records(), findings


def kind_findings(policy: ReleasePolicy, kind: ReleaseKind | None) -> tuple[Finding, ...]:
    """Return the finding on whether the policy allows releases of a kind; none if it allows all.

    Args:
        policy: Policy that must be met.
        kind: Kind of the release. None for a method that is not known, which only a policy without `kinds`
            allows.
    """
    if policy.kinds is None:
        return ()
    allowed = kind in policy.kinds
    remedy = "" if allowed else f"use a method that makes one of these, not {kind or 'unknown'} ones"
    rule = f"kinds: {', '.join(policy.kinds)}"
    return (Finding(rule=rule, threshold=1, measured=float(allowed), passed=allowed, remedy=remedy),)


NOT_APPLICABLE = "Not applicable: the records are invented, so none is about a person."
_OF_RECORDS = ("max_suppressed", "max_gcp", "max_distorted", "max_breach", "unique_records")


@dataclass(frozen=True, kw_only=True)
class CountedRecords:
    """Released records, as far as the rules of a policy need them.

    Attributes:
        columns: All columns of the records.
        tallies: Tallies of all classes, each in one of them, from `tallied`; only consumed after everything
            else has been checked.
        across: Result of ``across_findings``; required if the policy has models across releases, which are
            about people and not about counts of classes.
        persons: Number of persons; required if the classes were counted by persons.
        known: Values left of each sensitive attribute of ``attributes_of``; required likewise.
        values: Values of the columns; required if the policy has rules for them.
        sizes: Sizes of the classes of some columns; required if the policy limits unique records.
    """

    columns: Sequence[str]
    tallies: Iterable[Mapping[str, Any]] = ()
    across: Sequence[Finding] | None = None
    persons: int | None = None
    known: Mapping[str, ValuesLeft] | None = None
    values: Values | None = None
    sizes: Sizes | None = None


def verify_tallies(
    counted: CountedRecords,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    figures: Mapping[str, float] | None = None,
    year: int | None = None,
) -> Report:
    """Measure every rule of a policy on released records whose classes were tallied elsewhere.

    The report is the same as that of `verify` on the records.

    Args:
        counted: Columns of the records, and what was counted of them.
        schema: Schema of the released records, as for `verify`.
        policy: Policy that must be met.
        loss: Privacy loss that the release claims; it is compared with limits on epsilon and delta.
        figures: Shares for the limits on them, by name, as for `verify`.
        year: Year of the release; required by a policy that limits ages.

    Raises:
        VerificationError: If columns are missing, unknown, or identifiers, if an argument that the policy
            requires is not given, or ages are limited and the year is not given.
        SchemaError: If the policy requires a distance that a sensitive attribute does not have.
    """
    check_columns(counted.columns, schema)
    policy = as_declared(policy, schema)
    by_person = counted.persons is not None
    require_persons(schema, by_person, loss)
    if counted.across is None and policy.across:
        demanded = ", ".join(model.name for model in policy.across)
        raise VerificationError(
            f"the policy requires {demanded}, which follows people through releases. Pass the findings on "
            "people, or remove it from the policy"
        )
    tally = Tally(policy, schema, by_person=by_person)
    none = ReleasedClasses.of_table(pd.DataFrame(columns=list(counted.columns)), schema)
    for judged in tally.judged:  # nothing fails yet; a model that cannot be measured at all raises here
        for empty in classes_asked(judged.model, none):
            judged.add(empty)
    for part in counted.tallies:
        tally.take(part)
    found = [_finding(judged) for judged in tally.judged]
    if by_person:
        found += known_rows_findings(policy, counted.known or {}, tally.rows)
    limits = [*_limit_findings(policy, loss, figures), *_pseudonym_findings(policy, schema)]
    limits += untried_findings(policy)
    of_columns = column_findings(policy, schema, counted.values, tally.rows, year)
    alone, of_alone = unique_findings(policy, schema, counted.sizes, by_person=by_person, loss=loss)
    return Report(
        rows=tally.rows,
        classes=tally.classes,
        persons=counted.persons,
        findings=(*found, *(counted.across or ()), *limits, *of_columns, *of_alone),
        unique_records=alone,
    )


def unique_findings(
    policy: ReleasePolicy,
    schema: DataSchema,
    sizes: Sizes | None,
    *,
    by_person: bool,
    loss: PrivacyLoss | None,
) -> tuple[dict[str, float], list[Finding]]:
    """Return the share of unique records, and the policy's findings on that and on nearly unique columns.

    Args:
        policy: Policy that must be met, from `as_declared`.
        schema: Schema of the released records.
        sizes: Sizes of the classes of some columns; None: they are not counted.
        by_person: Whether a person may have several records.
        loss: Privacy loss that the release claims; None if it claims none.

    Raises:
        VerificationError: If the policy requires sizes that are not counted.
    """
    of_values = counted_attributes(policy, [a.name for a in schema.sensitive])
    unique = policy.columns is not None and policy.columns.no_unique_columns and loss is None
    if sizes is None:
        if policy.all_columns or policy.unique_records is not None or unique:
            raise VerificationError(
                "the policy limits unique records, but their values are not counted. Verify the records "
                "themselves, or remove all_columns_k_anonymity, unique_records and no_unique_columns"
            )
        return {}, []
    counted = cache(sizes)

    def once(columns: Sequence[str]) -> Mapping[int, int]:
        """Those of a single sensitive column are needed twice."""
        return counted(tuple(columns))

    measured = uniqueness_of(schema, once)
    found = [_all_columns_finding(model, measured, by_person) for model in policy.all_columns]
    if policy.unique_records is not None and loss is None:
        found += [
            _limit_finding(f"unique_records in {_WHERE[name]}", policy.unique_records, share)
            for name, share in measured.shares.items()
        ]
    nearly = nearly_unique_columns(schema, None if unique else list(of_values), once)
    for name, share in nearly.items():
        if name in of_values:
            found.append(_meaningless(of_values[name], name, share))
        if unique:
            remedy = "give it the role identifier, so that it is not copied, or coarsen it"
            rule = f"columns: no_unique_columns as released in {name}"
            found.append(Finding(rule=rule, threshold=NEARLY, measured=share, passed=False, remedy=remedy))
    return measured.shares, found


_WHERE = {
    "not_sensitive": "the columns that are not sensitive",
    "sensitive": "the sensitive columns",
}


def _all_columns_finding(model: AllColumnsKAnonymity, measured: Uniqueness, by_person: bool) -> Finding:
    """If a person may have several equal records, counting records reveals nothing about them."""
    small = {n: classes for n, classes in measured.others.items() if n < model.k}
    return Finding(
        rule=rule_of(model),
        threshold=model.threshold,
        measured=None if by_person or not measured.others else float(min(measured.others)),
        passed=bool(measured.others) and not small and not by_person,
        failing_classes=sum(small.values()),
        failing_rows=sum(n * classes for n, classes in small.items()),
        remedy="give the insensitive columns the role quasi_identifier, or do not release them",
    )


def _meaningless(rule: str, column: str, share: float) -> Finding:
    """Return a failed finding: a model counts the values of a column that are nearly all different."""
    return Finding(
        rule=f"{rule} of {column}, which must not be nearly unique",
        threshold=NEARLY,
        measured=share,
        passed=False,
        remedy=(
            "nearly each record has a different value, so any class is diverse: make it an identifier, "
            "release it coarser, or use t_closeness instead"
        ),
    )


def column_findings(
    policy: ReleasePolicy, schema: DataSchema, values: Values | None, rows: int, year: int | None
) -> list[Finding]:
    """Check the rules for columns: one finding for each rule that all columns meet, else one per column.

    Arguments as for `verify_tallies`; ``rows`` are the released records.

    Raises:
        VerificationError: If there are such rules and the values, or the year of the release, are not given.
    """
    rules = policy.columns
    if rules is None:
        return []
    if values is None or (rules.age_group_from is not None and year is None):
        raise VerificationError(
            "the policy has rules for columns, but their values or the year of the release are not known. "
            "Pass both, or remove `columns` from the policy"
        )
    found = broken(rules, schema, values, year)
    kept = [name for name in rules.names if name not in {b.rule for b in found}]
    return [
        *(Finding(rule=f"columns: {name}", threshold=0, measured=0, passed=rows > 0) for name in kept),
        *(broken_finding(b, rows) for b in found),
    ]


def untried_findings(policy: ReleasePolicy) -> list[Finding]:
    """Return findings for the rules about attacks, which a released table by itself cannot be checked for."""
    return [
        Finding(rule=rule_of(r), threshold=r.threshold, measured=None, passed=False, remedy=NOT_TRIED)
        for r in policy.attacks
    ]


def broken_finding(fault: Broken, rows: int) -> Finding:
    """Return the finding for a rule that a column breaks, with the number of records that do."""
    records = rows if fault.records is None else fault.records
    return Finding(
        rule=f"columns: {fault.rule} in {fault.column}",
        threshold=0,
        measured=float(records),
        passed=False,
        failing_rows=records,
        remedy=fault.remedy,
    )


def attributes_of(models: Sequence[RowIntersection], schema: DataSchema) -> tuple[str, ...]:
    """Return the sensitive attributes that models of known rows are about.

    Raises:
        SchemaError: If there is none, or one is not sensitive.
    """
    every = tuple(a.name for a in schema.sensitive)
    names = [name for model in models for name in ([model.attribute] if model.attribute else every)]
    if models and (not every or not set(names) <= set(every)):
        raise SchemaError(
            f"row_intersection requires a sensitive attribute, the table has {sorted(every)}. Name "
            "one of them, or give one attribute that role"
        )
    return tuple(dict.fromkeys(names))


def known_rows_findings(policy: ReleasePolicy, known: Mapping[str, ValuesLeft], rows: int) -> list[Finding]:
    """Return the findings of the models of known rows; none if the policy has none."""
    return [_known_rows_finding(model, known, rows) for model in policy.known_rows]


def _known_rows_finding(model: RowIntersection, known: Mapping[str, ValuesLeft], rows: int) -> Finding:
    found = [known[model.attribute]] if model.attribute else list(known.values())
    least = min((int(left.left[0]) for left in found if len(left.left)), default=None)
    return Finding(
        rule=rule_of(model),
        threshold=model.threshold,
        measured=None if least is None else float(least),
        passed=rows > 0 and (least is None or least >= model.l),
        failing_rows=max(int(left.records[left.left < model.l].sum()) for left in found),
        failing_persons=max(persons_below(left, model.l) for left in found),
    )


def _finding(judged: JudgedModel) -> Finding:
    """Return a model's finding on all classes."""
    return Finding(
        rule=judged.rule,
        threshold=judged.model.threshold,
        measured=judged.measured if math.isfinite(judged.measured) else None,
        passed=judged.classes > 0 and not judged.failing_classes,
        failing_classes=judged.failing_classes,
        failing_rows=judged.failing_rows,
    )


def check_columns(columns: Sequence[str], schema: DataSchema) -> None:
    """Check the columns of a release against its schema.

    Raises:
        VerificationError: If columns are missing, unknown, repeated, or identifiers.
    """
    expected = [a.name for a in schema.without_identifiers().attributes]
    if leaked := [a.name for a in schema.identifiers if a.name in columns]:
        raise VerificationError(f"identifiers {leaked} are in the release. They must never be published")
    if schema.linked and schema.by not in expected:
        raise VerificationError(
            f"rows are linked, so the schema of the release must have the pseudonyms, {schema.by}, as an "
            "insensitive column"
        )
    if missing := [name for name in expected if name not in columns]:
        raise VerificationError(f"columns {missing} are missing from the release, so it cannot be verified")
    if unknown := [str(c) for c in columns if c not in expected]:
        raise VerificationError(f"columns {unknown} are not in the schema, so what they reveal is unknown")
    if len(set(columns)) < len(columns):
        raise VerificationError("column names of a release must be distinct")


def _across_findings(
    policy: ReleasePolicy,
    classes: EquivalenceClasses,
    people: Membership,
    earlier: Sequence[Membership],
    source: DataSchema | None,
) -> tuple[Finding, ...]:
    history = History(new=people, earlier=tuple(earlier), source=source)
    return tuple(_across_finding(model, history, classes) for model in policy.across)


def _known_persons(
    policy: ReleasePolicy,
    schema: DataSchema,
    loss: PrivacyLoss | None,
    persons: npt.NDArray[np.object_] | None,
) -> npt.NDArray[np.object_]:
    """Return whose records are released, or raise if models across releases cannot be measured."""
    demanded = ", ".join(model.name for model in policy.across)
    if schema.linked:
        raise VerificationError(
            f"the policy requires {demanded}, which follows one record per person, but here a "
            "pseudonym links several records. Remove it from the policy, or `rows: linked` from the "
            "schema"
        )
    if loss is not None:
        raise VerificationError(
            f"the policy requires {demanded}, which is about people in classes and does not apply to "
            "a release with a privacy loss: losses add up over releases, and a budget limits their "
            "sum. Remove it"
        )
    if persons is None:
        raise VerificationError(
            f"the policy requires {demanded}, but the persons of the released records are not known. Set "
            "history.identifier in the specification to the column that identifies a person"
        )
    return persons


def _across_finding(model: CrossReleaseModel, history: History, classes: EquivalenceClasses) -> Finding:
    note = ""
    if isinstance(model, Republication):
        judged = model.judge(history, classes)
        measured, note = judged.per_person, judged.sentence
    else:
        measured = model.per_person(history, classes)
    missed = measured < model.threshold
    return Finding(
        rule=rule_of(model),
        threshold=model.threshold,
        measured=float(measured.min()) if len(measured) else None,
        passed=len(measured) > 0 and not missed.any(),
        failing_classes=len(np.unique(history.new.labels[missed])),
        failing_rows=int(missed.sum()),
        note=note,
    )


def _limit_findings(
    policy: ReleasePolicy, loss: PrivacyLoss | None, figures: Mapping[str, float] | None
) -> list[Finding]:
    found = []
    for name in ("suppressed", "gcp", "distorted", "breach"):
        limit = getattr(policy, f"max_{name}")
        if limit is not None:
            found.append(_limit_finding(f"max_{name}", limit, (figures or {}).get(name)))
    if policy.max_epsilon is not None:
        found.append(_limit_finding("max_epsilon", policy.max_epsilon, loss.epsilon if loss else None))
    if policy.max_delta is not None:
        found.append(_limit_finding("max_delta", policy.max_delta, loss.delta if loss else None))
    return found


def _pseudonym_findings(policy: ReleasePolicy, schema: DataSchema) -> list[Finding]:
    """Count the columns of pseudonyms that the policy refuses, if it has a rule for them.

    Pseudonyms that link rows are drawn again for each release.
    """
    if policy.pseudonyms is None:
        return []
    scopes = [a.pseudonym.scope.value for a in schema.attributes if a.pseudonym]
    scopes += ["random"] if schema.linked else []
    refused = sum(map(policy.refuses_pseudonyms, scopes))
    return [_limit_finding(f"pseudonyms: {policy.pseudonyms}", 0, refused)]


def _limit_finding(rule: str, limit: float, measured: float | None) -> Finding:
    known = measured if measured is not None and math.isfinite(measured) else None
    passed = known is not None and known <= limit
    return Finding(rule=rule, threshold=limit, measured=known, passed=passed)


def _sentence(finding: Finding) -> str:
    measured = "nothing measurable" if finding.measured is None else f"{finding.measured:.6g}"
    text = f"{finding.rule} measured {measured}"
    rows = counted(finding.failing_rows, "row")
    if finding.failing_persons:
        text += f", missed by {counted(finding.failing_persons, 'person')} with together {rows}"
    if finding.failing_classes:
        text += f", missed by {counted(finding.failing_classes, 'class', 'classes')} of together {rows}"
    if finding.note:
        text += f" ({finding.note})"
    if finding.remedy:
        unit = " row" if finding.measured == 1 else " rows"
        text += f"{unit if finding.failing_rows else ''}: {finding.remedy}"
    return text
