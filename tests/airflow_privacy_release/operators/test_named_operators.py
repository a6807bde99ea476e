"""The operators named after a method: what Airflow refuses, what can be mapped, and what a hover tells."""

import inspect
import re
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

import airflow_privacy_release
from airflow_privacy_release import ILPLDiversityOperator, MondrianOperator, PrivBayesOperator
from airflow_privacy_release.operators.method import MethodOperator
from privacy_engine.registry import method_class
from tests.operator_arguments import arguments, classes, own_arguments

ALL = [
    getattr(airflow_privacy_release, name)
    for name in airflow_privacy_release.__all__
    if name.endswith("Operator")
]
NAMED = [operator for operator in ALL if issubclass(operator, MethodOperator)]
named = pytest.mark.parametrize("operator", NAMED, ids=lambda c: c.__name__)
TABLE = {"uri": "file:///somewhere"}
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)$", re.MULTILINE)


@pytest.fixture
def dag() -> Iterator[DAG]:
    with DAG("people", schedule=None, default_args={"k": 17}) as made:
        yield made


def needed(operator: type[BaseOperator]) -> dict[str, Any]:
    """The required arguments of an operator."""
    return {
        n: TABLE if n == "table" else "people" for n, p in arguments(operator).items() if p.default is p.empty
    }


def described(cls: type) -> dict[str, str]:
    """The entries of Args in a class's own docstring."""
    _, _, after = inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:\n")
    entries = ENTRY.findall(re.split(r"^\w", after, maxsplit=1, flags=re.MULTILINE)[0])
    return {name: text for names, text in entries for name in names.split(", ")}


@named
def test_an_unknown_argument_is_refused(operator: type[MethodOperator], dag: DAG) -> None:
    with pytest.raises(TypeError, match=f"(?s){operator.__name__}.*'spelt_wrong'"):
        operator(task_id="release", spelt_wrong=1, **needed(operator))


@named
def test_a_missing_argument_is_refused(operator: type[MethodOperator], dag: DAG) -> None:
    for name in needed(operator):
        given = {other: value for other, value in needed(operator).items() if other != name}
        with pytest.raises(TypeError, match=f"missing keyword argument '{name}'"):
            operator(task_id="release", **given)


@named
def test_an_unknown_argument_of_a_mapped_task_is_refused(operator: type[MethodOperator], dag: DAG) -> None:
    unknown = "got an unexpected keyword argument 'spelt_wrong'"
    with pytest.raises(TypeError, match=rf"{operator.__name__}\.partial\(\) {unknown}"):
        operator.partial(task_id="release", spelt_wrong=1, **needed(operator))
    with pytest.raises(TypeError, match=rf"{operator.__name__}\.expand\(\) {unknown}"):
        operator.partial(task_id="release", **needed(operator)).expand(spelt_wrong=[1])


@named
def test_every_parameter_can_be_mapped(operator: type[MethodOperator], dag: DAG) -> None:
    for name in arguments(operator):
        fixed = {other: value for other, value in needed(operator).items() if other != name}
        operator.partial(task_id=f"by_{name}", **fixed).expand(**{name: [1, 2]})
        assert name in dag.get_task(f"by_{name}").template_fields


def test_a_mapped_task_has_the_fixed_and_the_mapped_parameters_and_the_defaults(dag: DAG) -> None:
    ILPLDiversityOperator.partial(task_id="anonymize", table=TABLE, price="whole").expand(k=[5, 10, 20])
    mapped: Any = dag.get_task("anonymize")
    one = mapped.unmap({"k": 10})
    assert {name: getattr(one, name) for name in ("table", "k", "l", "price", "repair", "seed")} == {
        "table": TABLE,
        "k": 10,
        "l": 3,
        "price": "whole",
        "repair": "merge",
        "seed": None,
    }


def test_a_shared_parameter_may_stand_in_the_default_args_of_a_dag(dag: DAG) -> None:
    assert MondrianOperator(task_id="anonymize", table=TABLE).k == 17


def test_the_ui_shows_the_shared_parameters_and_the_methods_own() -> None:
    assert MondrianOperator.template_fields == (
        *("table", "title", "requires", "k", "l", "require", "suppression_limit", "intervals", "seed"),
        *("history", "series", "lake", "rule"),
    )


def test_the_books_are_no_parameter_of_the_method() -> None:
    assert PrivBayesOperator.parameters == (
        *("epsilon", "rows", "levels", "max_rows", "weight", "quantile_share"),
        *("structure_share", "degree", "theta", "cell_limit"),
    )


def test_a_users_subclass_keeps_the_parameters_of_the_method() -> None:
    class OurOperator(MondrianOperator):
        def __init__(self, *, name: str, **kwargs: Any) -> None:
            super().__init__(table={"uri": name}, **kwargs)

    assert OurOperator.parameters == MondrianOperator.parameters
    assert OurOperator.template_fields == MondrianOperator.template_fields


@pytest.mark.parametrize("operator", ALL, ids=lambda c: c.__name__)
def test_a_docstring_describes_the_arguments_that_its_class_declares(operator: type[BaseOperator]) -> None:
    for cls in classes(operator):
        assert set(described(cls)) == set(own_arguments(cls)), cls.__name__


@named
def test_a_docstring_names_the_values_of_a_parameter_that_has_few(operator: type[MethodOperator]) -> None:
    meanings = {name: text for cls in classes(operator) for name, text in described(cls).items()}
    for name, hint in typing.get_type_hints(method_class(operator.method)).items():
        for kind in typing.get_args(hint) or (hint,):
            if isinstance(kind, type) and issubclass(kind, Enum):
                assert not [m.value for m in kind if f"`{m.value}`" not in meanings[name]], name
