"""The verifier: what must fail, what may pass, and what a report says."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.counterfeits import counterfeits_column
from privacy_engine.verification.models import (
    DeltaDisclosure,
    DistinctLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
)
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import Finding, Report, verify
from privacy_engine.vocabulary import COUNTERFEITS

SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "zip": {"role": "quasi_identifier"},
        "disease": {"role": "sensitive", "nullable": True},
        "visits": {"kind": "numeric"},
    }
)


def test_a_class_of_counterfeits_alone_is_found_though_it_tells_their_number() -> None:
    schema = DataSchema((*SCHEMA.without_identifiers().attributes, counterfeits_column()))
    table = released(2, 2).assign(**{COUNTERFEITS: [0, 0, 2, 2]})
    persons = np.array(["a", "b", None, None], dtype=object)
    report = verify(table, schema, ReleasePolicy(require=(DistinctLDiversity(l=2),)), persons=persons)
    assert [f.rule for f in report.findings if not f.passed] == [
        "counterfeits: each class tells their number"
    ]


def released(*sizes: int) -> pd.DataFrame:
    """One class of each size; its diseases are all distinct."""
    zips = np.repeat([f"zip {i}" for i in range(len(sizes))], sizes)
    diseases = [f"disease {i}" for size in sizes for i in range(size)]
    return pd.DataFrame({"zip": zips, "disease": diseases, "visits": 1.0}).astype(
        {"zip": object, "disease": object}
    )


def policy(*models: PrivacyModel, **limits: float) -> ReleasePolicy:
    return ReleasePolicy(require=models or (KAnonymity(k=2),), **limits)


def test_classes_of_exactly_k_pass() -> None:
    report = verify(released(5, 7, 5), SCHEMA, policy(KAnonymity(k=5)))
    assert report.passed
    assert report.findings == (Finding(rule="k_anonymity(k=5)", threshold=5.0, measured=5.0, passed=True),)
    assert (report.rows, report.classes) == (17, 3)
    report.raise_if_failed()


def test_a_class_of_one_record_too_few_fails_and_is_counted() -> None:
    report = verify(released(5, 4, 9, 3), SCHEMA, policy(KAnonymity(k=5)))
    assert not report.passed
    (finding,) = report.findings
    assert (finding.measured, finding.failing_classes, finding.failing_rows) == (3.0, 2, 7)
    with pytest.raises(
        VerificationError, match=r"k_anonymity\(k=5\) measured 3, missed by 2 classes of together 7 rows"
    ):
        report.raise_if_failed()


def test_one_rule_that_fails_fails_the_release_and_only_it_is_named() -> None:
    report = verify(released(5, 5), SCHEMA, policy(KAnonymity(k=5), DistinctLDiversity(l=6)))
    assert [finding.passed for finding in report.findings] == [True, False]
    assert not report.passed
    with pytest.raises(VerificationError) as caught:
        report.raise_if_failed()
    assert "distinct_l_diversity" in str(caught.value)
    assert "k_anonymity" not in str(caught.value)


def test_records_that_differ_in_a_null_alone_are_of_two_classes() -> None:
    table = released(4)
    table.loc[0, "zip"] = None
    report = verify(table, SCHEMA, policy(KAnonymity(k=2)))
    assert report.findings[0].measured == 1
    assert not report.passed


def test_the_row_index_is_ignored() -> None:
    table = released(3, 3)
    assert verify(table.set_axis([0] * 6), SCHEMA, policy(KAnonymity(k=3), DistinctLDiversity(l=3))).passed
    assert verify(table.set_axis(range(6)[::-1]), SCHEMA, policy(DistinctLDiversity(l=3))).passed


def test_an_empty_release_never_passes() -> None:
    report = verify(released(3).iloc[:0], SCHEMA, policy(KAnonymity(k=2), TCloseness(t=1)))
    assert [(f.passed, f.measured) for f in report.findings] == [(False, 0.0), (False, None)]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign(name="Ann"), r"identifiers \['name'\] are in the release"),
        (lambda t: t.drop(columns="zip"), r"columns \['zip'\] are missing"),
        (lambda t: t.assign(shoe=1), r"columns \['shoe'\] are not in the schema"),
        (lambda t: pd.concat([t, t[["zip"]]], axis=1), "distinct"),
    ],
    ids=["identifier", "missing", "unknown", "repeated"],
)
def test_columns_other_than_the_schemas_are_refused(spoil: object, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        verify(spoil(released(5)), SCHEMA, policy())


@pytest.mark.parametrize("name", ["suppressed", "gcp", "distorted", "breach"])
@pytest.mark.parametrize(
    ("figure", "passed"), [(0.1, True), (0.0, True), (0.11, False), (None, False), (math.nan, False)]
)
def test_a_limit_holds_for_a_figure_within_it_and_fails_where_there_is_none(
    name: str, figure: float | None, passed: bool
) -> None:
    figures = {} if figure is None else {name: figure}
    report = verify(released(5), SCHEMA, policy(**{f"max_{name}": 0.1}), figures=figures)
    assert report.findings[-1].rule == f"max_{name}"
    assert report.findings[-1].passed is report.passed is passed


def test_a_limit_fails_where_no_figures_are_given_at_all() -> None:
    assert not verify(released(5), SCHEMA, policy(max_gcp=1.0)).passed


@pytest.mark.parametrize(
    ("loss", "passed"),
    [
        (None, [False, False]),  # no claim is no small claim
        (PrivacyLoss(epsilon=1, delta=1e-6, neighbours="add_remove"), [True, True]),
        (PrivacyLoss(epsilon=1.1, delta=0, neighbours="add_remove"), [False, True]),
        (PrivacyLoss(epsilon=0.5, delta=1e-5, neighbours="add_remove"), [True, False]),
    ],
)
def test_limits_on_the_privacy_loss_need_a_claim_within_them(
    loss: PrivacyLoss | None, passed: list[bool]
) -> None:
    report = verify(released(5), SCHEMA, policy(max_epsilon=1.0, max_delta=1e-6), loss=loss)
    assert [finding.passed for finding in report.findings[1:]] == passed
    assert report.passed is all(passed)


def test_a_report_without_a_finding_never_passes() -> None:
    report = Report(rows=5, classes=1, findings=())
    assert not report.passed
    with pytest.raises(VerificationError, match="the policy has no rule"):
        report.raise_if_failed()


@pytest.mark.parametrize(
    "model", [RecursiveCLDiversity(c=3, l=6), DeltaDisclosure(delta=2)], ids=lambda m: m.name
)
def test_an_infinite_measure_becomes_none_and_strict_json(model: PrivacyModel) -> None:
    report = verify(released(5, 3), SCHEMA, policy(model))
    assert not report.passed
    assert report.to_dict()["findings"][0]["measured"] is None
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert json.loads(text)["findings"][0]["passed"] is False
    with pytest.raises(VerificationError, match="measured nothing measurable"):
        report.raise_if_failed()


def test_a_policy_about_sensitive_values_of_a_table_without_any_is_refused() -> None:
    schema = SCHEMA.select(["zip", "visits"])
    with pytest.raises(SchemaError, match="requires a sensitive attribute"):
        verify(released(5)[["zip", "visits"]], schema, policy(DistinctLDiversity(l=2)))


def test_no_cell_value_stands_in_a_report_or_an_error() -> None:
    table = released(2, 3).replace({"zip 0": "canary-7f3a", "disease 1": "canary-91bc"})
    report = verify(
        table,
        SCHEMA,
        policy(KAnonymity(k=3), DistinctLDiversity(l=3), TCloseness(t=0.01, attribute="disease")),
    )
    with pytest.raises(VerificationError) as caught:
        report.raise_if_failed()
    assert "canary" not in json.dumps(report.to_dict()) + str(caught.value)


def test_the_released_table_is_not_changed() -> None:
    table = released(3, 4)
    before = table.copy(deep=True)
    verify(table, SCHEMA, policy(KAnonymity(k=2), TCloseness(t=0.5)))
    pd.testing.assert_frame_equal(table, before)
