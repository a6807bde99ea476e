"""The privacy expectations: exact at the threshold, on any index, without a value in any result or page."""

import json
from typing import Any

import great_expectations as gx
import pandas as pd
import pytest
from great_expectations.compatibility.pydantic import ValidationError
from great_expectations.render.renderer import ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView

from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.verification.models import EntropyLDiversity, RecursiveCLDiversity, TCloseness
from privacy_release.expectations.table_expectations import (
    ExpectTableToBeKAnonymous,
    ExpectTableToBeLDiverse,
    ExpectTableToBeTClose,
    PrivacyExpectation,
)

QI = ["zip"]


def table(classes: list[list[Any]], names: list[Any] | None = None) -> pd.DataFrame:
    """One class a list of sensitive values."""
    names = names or [f"z{i}" for i in range(len(classes))]
    rows = [(name, value) for name, values in zip(names, classes, strict=True) for value in values]
    return pd.DataFrame(rows, columns=["zip", "disease"])


def result_of(frame: pd.DataFrame, expectation: PrivacyExpectation, result_format: str = "COMPLETE") -> Any:
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("p").add_dataframe_asset("a")
    batch = asset.add_batch_definition_whole_dataframe("b").get_batch(batch_parameters={"dataframe": frame})
    return batch.validate(expectation, result_format=result_format)


def test_every_class_of_k_is_k_anonymous_and_one_of_k_minus_1_is_not() -> None:
    frame = table([["a"] * 3, ["a"] * 4])
    assert result_of(frame, ExpectTableToBeKAnonymous(k=3, quasi_identifiers=QI)).success
    failed = result_of(frame, ExpectTableToBeKAnonymous(k=4, quasi_identifiers=QI))
    assert not failed.success
    assert failed.result == {
        "observed_value": 3,
        "details": {"classes": 2, "failing_classes": 1, "rows": 7, "failing_rows": 3},
    }


def test_a_null_is_its_own_value_in_the_quasi_identifiers() -> None:
    frame = table([["a"] * 3, ["a"] * 2], names=["z", None])
    assert not result_of(frame, ExpectTableToBeKAnonymous(k=3, quasi_identifiers=QI)).success
    assert result_of(frame, ExpectTableToBeKAnonymous(k=2, quasi_identifiers=QI)).success


def test_a_null_is_its_own_value_in_the_sensitive_attribute() -> None:
    frame = table([["a", None], ["b", None]])
    assert result_of(frame, ExpectTableToBeLDiverse(l=2, quasi_identifiers=QI, sensitive="disease")).success
    assert not result_of(
        frame, ExpectTableToBeLDiverse(l=3, quasi_identifiers=QI, sensitive="disease")
    ).success


@pytest.mark.parametrize("index", [[0, 0, 0, 0, 0, 0], [5, 3, 1, 0, 2, 4], ["x", "x", "y", "y", "z", None]])
def test_the_index_and_the_order_of_the_records_do_not_matter(index: list[Any]) -> None:
    expectations = [
        ExpectTableToBeKAnonymous(k=3, quasi_identifiers=QI),
        ExpectTableToBeLDiverse(l=2, quasi_identifiers=QI, sensitive="disease"),
        ExpectTableToBeTClose(t=0.4, quasi_identifiers=QI, sensitive="disease"),
    ]
    frame = table([["a", "b", "b"], ["a", "c", "c"]])
    shuffled = frame.iloc[[4, 0, 2, 5, 1, 3]].set_axis(index)
    for expectation in expectations:
        assert result_of(frame, expectation).result == result_of(shuffled, expectation).result


def test_distinct_diversity_is_exact_at_l() -> None:
    frame = table([["a", "a", "b"], ["a", "b", "c"]])
    two, three = (ExpectTableToBeLDiverse(l=l, quasi_identifiers=QI, sensitive="disease") for l in (2, 3))  # noqa: E741  the field's own symbol
    assert result_of(frame, two).result["observed_value"] == 2
    assert result_of(frame, two).success
    assert not result_of(frame, three).success
    assert result_of(frame, three).result["details"]["failing_rows"] == 3


def test_entropy_diversity_is_exact_at_l() -> None:
    # two values, equally often: the entropy is log 2, so 2 holds and anything above does not
    frame = table([["a", "b"], ["a", "b", "c"]])
    kwargs: dict[str, Any] = {"quasi_identifiers": QI, "sensitive": "disease", "diversity": "entropy"}
    assert result_of(frame, ExpectTableToBeLDiverse(l=2, **kwargs)).success
    failed = result_of(frame, ExpectTableToBeLDiverse(l=2.01, **kwargs))
    assert not failed.success
    assert failed.result["observed_value"] == pytest.approx(2.0)


def test_recursive_diversity_is_strict_at_c() -> None:
    # counts 4, 2, 1: r_1 / (r_2 + r_3) = 4/3 must be smaller than c
    frame = table([["a"] * 4 + ["b"] * 2 + ["c"]])
    kwargs: dict[str, Any] = {"quasi_identifiers": QI, "sensitive": "disease", "diversity": "recursive"}
    assert result_of(frame, ExpectTableToBeLDiverse(l=2, c=1.34, **kwargs)).success
    assert not result_of(frame, ExpectTableToBeLDiverse(l=2, c=4 / 3, **kwargs)).success


def test_an_infinite_measure_is_reported_as_none_and_the_result_is_json() -> None:
    frame = table([["a", "a"]])
    expectation = ExpectTableToBeLDiverse(
        l=2, c=9, quasi_identifiers=QI, sensitive="disease", diversity="recursive"
    )
    result = result_of(frame, expectation)
    assert not result.success
    assert result.result["observed_value"] is None
    assert "Infinity" not in json.dumps(result.to_json_dict())


def test_equal_distance_closeness_is_exact_at_t() -> None:
    # shares 1, 0 against 1/2, 1/2: the distance is 1/2 * (1/2 + 1/2) = 0.5
    frame = table([["a", "a"], ["b", "b"]])
    kwargs: dict[str, Any] = {"quasi_identifiers": QI, "sensitive": "disease"}
    assert result_of(frame, ExpectTableToBeTClose(t=0.5, **kwargs)).success
    failed = result_of(frame, ExpectTableToBeTClose(t=0.49, **kwargs))
    assert not failed.success
    assert failed.result["observed_value"] == 0.5
    assert failed.result["details"]["failing_classes"] == 2


def test_ordered_distance_closeness_is_exact_at_t() -> None:
    # class 1: 3k, 4k, 5k of 3k .. 11k: 0.375 (Li, Li and Venkatasubramanian 2007, section 4)
    frame = table([[3, 4, 5], [6, 11, 8], [7, 9, 10]])
    kwargs: dict[str, Any] = {"quasi_identifiers": QI, "sensitive": "disease", "distance": "ordered"}
    assert result_of(frame, ExpectTableToBeTClose(t=0.375, **kwargs)).success
    failed = result_of(frame, ExpectTableToBeTClose(t=0.374, **kwargs))
    assert not failed.success
    assert failed.result["observed_value"] == pytest.approx(0.375)
    assert failed.result["details"]["failing_rows"] == 3


def test_ordered_distance_takes_the_order_of_an_ordered_categorical() -> None:
    order = ["low", "middle", "high"]  # alphabetically high would be first
    frame = table([["low", "middle"], ["high", "high"]])
    ranked = frame.assign(disease=pd.Categorical(frame["disease"], categories=order, ordered=True))
    numbers = frame.assign(disease=frame["disease"].map({"low": 0, "middle": 1, "high": 2}))
    expectation = ExpectTableToBeTClose(t=1, quasi_identifiers=QI, sensitive="disease", distance="ordered")
    assert result_of(ranked, expectation).result == result_of(numbers, expectation).result


@pytest.mark.parametrize("dtype", ["str", "category", object])
def test_ordered_distance_refuses_a_column_without_an_order(dtype: Any) -> None:
    frame = table([["a", "b"], ["a", "b"]]).astype({"disease": dtype})
    expectation = ExpectTableToBeTClose(t=1, quasi_identifiers=QI, sensitive="disease", distance="ordered")
    result = result_of(frame, expectation)
    assert not result.success
    assert "needs numbers, dates or an ordered categorical" in str(result.exception_info)


@pytest.mark.parametrize(
    "expectation",
    [
        ExpectTableToBeKAnonymous(k=2, quasi_identifiers=QI),
        ExpectTableToBeLDiverse(l=2, quasi_identifiers=QI, sensitive="disease"),
        ExpectTableToBeTClose(t=1, quasi_identifiers=QI, sensitive="disease"),
    ],
)
def test_an_empty_table_satisfies_nothing(expectation: PrivacyExpectation) -> None:
    result = result_of(table([["a"]]).head(0), expectation.copy())
    assert not result.success
    assert not result.exception_info["raised_exception"]


def test_a_missing_column_is_named() -> None:
    result = result_of(table([["a"]]), ExpectTableToBeKAnonymous(k=2, quasi_identifiers=["zip", "age"]))
    assert not result.success
    assert "the table must have the columns ['age']" in str(result.exception_info)


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (ExpectTableToBeKAnonymous, {"k": 1}),
        (ExpectTableToBeKAnonymous, {"k": 5.7}),
        (ExpectTableToBeKAnonymous, {"k": True}),
        (ExpectTableToBeKAnonymous, {"k": "5"}),
        (ExpectTableToBeKAnonymous, {"k": 5, "quasi_identifiers": []}),
        (ExpectTableToBeKAnonymous, {"k": 5, "row_condition": "age > 3"}),
        (ExpectTableToBeLDiverse, {"l": 1, "sensitive": "disease"}),
        (ExpectTableToBeLDiverse, {"l": 2.5, "sensitive": "disease"}),
        (ExpectTableToBeLDiverse, {"l": float("nan"), "sensitive": "disease", "diversity": "entropy"}),
        (ExpectTableToBeLDiverse, {"l": 2, "sensitive": "disease", "diversity": "other"}),
        (ExpectTableToBeLDiverse, {"l": 2, "sensitive": "disease", "diversity": "recursive"}),
        (ExpectTableToBeLDiverse, {"l": 2, "sensitive": "disease", "diversity": "recursive", "c": 0}),
        (ExpectTableToBeLDiverse, {"l": 2, "sensitive": "disease", "c": 3}),
        (ExpectTableToBeLDiverse, {"l": 2}),
        (ExpectTableToBeTClose, {"t": 1.1, "sensitive": "disease"}),
        (ExpectTableToBeTClose, {"t": -0.1, "sensitive": "disease"}),
        (ExpectTableToBeTClose, {"t": 0.2, "sensitive": "disease", "distance": "hierarchical"}),
    ],
)
def test_arguments_that_are_no_guarantee_are_refused(
    kind: type[PrivacyExpectation], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        kind(**{"quasi_identifiers": QI} | kwargs)


EXPECTATIONS = [
    ExpectTableToBeKAnonymous(k=5, quasi_identifiers=["zip", "age"], severity="warning"),
    ExpectTableToBeLDiverse(l=3, quasi_identifiers=QI, sensitive="disease"),
    ExpectTableToBeLDiverse(l=2.5, quasi_identifiers=QI, sensitive="disease", diversity="entropy"),
    ExpectTableToBeLDiverse(l=3, c=4, quasi_identifiers=QI, sensitive="disease", diversity="recursive"),
    ExpectTableToBeTClose(t=0.2, quasi_identifiers=QI, sensitive="disease", distance="ordered"),
]


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=lambda e: e.expectation_type)
def test_an_expectation_survives_json(expectation: PrivacyExpectation) -> None:
    written = gx.ExpectationSuite(name="s", expectations=[expectation.copy()]).to_json_dict()
    read = gx.ExpectationSuite(**json.loads(json.dumps(written))).expectations[0]
    assert type(read) is type(expectation)
    assert read.configuration.kwargs == expectation.configuration.kwargs
    assert read.severity == expectation.severity


@pytest.mark.parametrize(
    ("expectation", "model"),
    [
        (EXPECTATIONS[2], EntropyLDiversity(l=2.5, attribute="disease")),
        (EXPECTATIONS[3], RecursiveCLDiversity(c=4, l=3, attribute="disease")),
        (EXPECTATIONS[4], TCloseness(t=0.2, attribute="disease", distance="ordered")),  # type: ignore[arg-type]  # it converts
    ],
    ids=["entropy", "recursive", "ordered"],
)
def test_an_expectation_measures_what_the_policys_model_measures(
    expectation: PrivacyExpectation, model: Any
) -> None:
    frame = table([[1, 1, 2, 3, 4], [1, 2, 2, 3, 3], [4, 4, 1, 2, 3]])
    classes = EquivalenceClasses.of_columns(frame, QI, ["disease"])
    result = result_of(frame, expectation.copy())
    assert result.result["observed_value"] == model.measure(classes)
    assert result.result["details"]["failing_classes"] == int(model.violations(classes).sum())


@pytest.mark.quick("distinct-COMPLETE", "entropy-SUMMARY", "recursive-BASIC", "distinct-BOOLEAN_ONLY")
@pytest.mark.parametrize("result_format", ["BOOLEAN_ONLY", "BASIC", "SUMMARY", "COMPLETE"])
@pytest.mark.parametrize("expectation", EXPECTATIONS[1:4], ids=["distinct", "entropy", "recursive"])
def test_no_result_and_no_page_of_data_docs_shows_a_value(
    expectation: PrivacyExpectation, result_format: str
) -> None:
    frame = table([["canary-flu", "canary-flu"], ["canary-flu", "b"]], names=["canary-zip", None])
    context = gx.get_context(mode="ephemeral")
    batch = (
        context.data_sources.add_pandas("p")
        .add_dataframe_asset("a")
        .add_batch_definition_whole_dataframe("b")
    )
    suite = context.suites.add(gx.ExpectationSuite(name="s", expectations=[expectation.copy()]))
    validation = gx.ValidationDefinition(name="v", data=batch, suite=suite)
    context.validation_definitions.add(validation)
    result = validation.run(batch_parameters={"dataframe": frame}, result_format=result_format)
    page = DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(result))
    assert not result.success
    assert "diverse" in page
    assert "canary" not in page
    assert "canary" not in json.dumps(result.to_json_dict())


@pytest.mark.parametrize(
    ("expectation", "sentence"),
    [
        (EXPECTATIONS[0], "Must be k-anonymous: at least 5 records share each combination of zip, age."),
        (EXPECTATIONS[1], "Must be distinct 3-diverse in disease, for each combination of zip."),
        (EXPECTATIONS[2], "Must be entropy 2.5-diverse in disease, for each combination of zip."),
        (EXPECTATIONS[3], "Must be recursive (4.0, 3)-diverse in disease, for each combination of zip."),
        (
            EXPECTATIONS[4],
            "Must be t-close in disease with t = 0.2 (ordered distance), for each combination of zip.",
        ),
    ],
    ids=["k", "distinct", "entropy", "recursive", "t"],
)
def test_an_expectation_reads_as_a_sentence(expectation: PrivacyExpectation, sentence: str) -> None:
    content = expectation._prescriptive_renderer(configuration=expectation.configuration)
    assert str(content[0]) == sentence
    expectation = expectation.copy()
    expectation.render()
    assert expectation.rendered_content is not None
    assert expectation.rendered_content[0].value.template.startswith("Must be")
