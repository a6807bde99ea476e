"""What a suite says is never run as code, fetched or written: each attack leaves no trace."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SpecError
from privacy_release.expectations.conditions import LONGEST, rebuilt
from privacy_release.expectations.gate import run_suite
from privacy_release.expectations.known import ALLOWED, REFUSED

TABLE = pd.DataFrame(
    {"age": [1, 2, 30], "town": ["a", "b", "a"], "zip code": ["1", "2", "3"], "doc": ["{}"] * 3}
)


def suite(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"name": "s", "expectations": [{"type": kind, "kwargs": kwargs}]}


def with_condition(condition: Any, parser: str = "pandas") -> dict[str, Any]:
    return suite(
        "expect_column_values_to_be_between",
        column="age",
        min_value=0,
        max_value=99,
        row_condition=condition,
        condition_parser=parser,
    )


@pytest.mark.parametrize(
    "attack",
    [
        "@pd.io.common.os.system('touch {marker}') == 0",
        "@__import__('os').system('touch {marker}') == 0",
        "`age`.to_csv('{marker}')",
        "age.to_csv('{marker}') == 1",
        "@pd.read_csv('/etc/passwd').size > 0",
        "age > age.mean()",
        "index.map(print) == 1",
        "age.__class__ == 1",
        "(lambda: 1)() == 1",
        "age[0] > 1",
        "age > 1; age > 2",
        "age = 3",
        "age > 1 # ",
        "`age` > 1 ` `",
        "f'{{age}}' == '1'",
        "age ** 2 > 3",
    ],
)
def test_a_row_condition_runs_nothing(attack: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = attack.format(marker=marker)
    with pytest.raises(SpecError, match="row_condition is not understood"):
        run_suite(TABLE, with_condition(text))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("age > 3", [30]),
        ("age>=2 and town=='a'", [30]),
        ("age > 1 & ~(town == 'b') | age == 1", [1, 30]),
        ("town in ['b', \"c\"]", [2]),
        ("town not in ['b'] and not age == 1", [30]),
        ("`zip code` == '2'", [2]),
        ("0 < age < 3", [1, 2]),
        ("age == age and age > -1.5e0", [1, 2, 30]),
    ],
)
def test_an_ordinary_condition_means_what_it_meant(condition: str, left: list[int]) -> None:
    assert TABLE.query(rebuilt(condition))["age"].tolist() == left == TABLE.query(condition)["age"].tolist()
    assert run_suite(TABLE, with_condition(condition))["success"]


@given(st.text(alphabet="age@`'\"()[]., ><=!&|~-0123_\\n", max_size=30))
def test_what_is_rebuilt_is_made_of_the_grammar(text: str) -> None:
    try:
        made = rebuilt(text)
    except SpecError:
        return
    assert "@" not in made.replace("'", "").split("`")[0]
    assert rebuilt(made) == made


def test_a_condition_of_another_parser_or_of_any_length_is_refused() -> None:
    for condition, parser in (
        ("age > 3", "spark"),
        ({"column": "age"}, "pandas"),
        ("a" * LONGEST + " > 1", "pandas"),
    ):
        with pytest.raises(SpecError, match="row_condition must"):
            run_suite(TABLE, with_condition(condition, parser))


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_a_schema_fetches_nothing(name: str) -> None:
    requests: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)

    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            for address in (f"http://127.0.0.1:{server.server_port}/x", "file:///etc/passwd", "other.json"):
                schema = {"type": "object", "properties": {"a": [{name: address}]}}
                with pytest.raises(
                    SpecError, match=r"json_schema: .* must lead to a place in the schema itself"
                ):
                    run_suite(
                        TABLE,
                        suite("expect_column_values_to_match_json_schema", column="doc", json_schema=schema),
                    )
        finally:
            server.shutdown()
            thread.join()
    assert requests == []
    local = {"$defs": {"a": {"type": "object"}}, "$ref": "#/$defs/a"}
    assert run_suite(
        TABLE, suite("expect_column_values_to_match_json_schema", column="doc", json_schema=local)
    )["success"]


def test_every_expectation_of_great_expectations_is_allowed_or_refused() -> None:
    import great_expectations.expectations.core  # noqa: F401  registers them
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    import privacy_release.expectations.table_expectations  # noqa: F401  registers ours

    assert not ALLOWED & REFUSED
    assert set(list_registered_expectation_implementations()) == ALLOWED | REFUSED


@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_a_query_is_no_expectation(kind: str) -> None:
    with pytest.raises(SpecError, match="no such expectation is run here"):
        run_suite(TABLE, suite(kind, unexpected_rows_query="SELECT 1"))


def test_an_expectation_that_someone_registered_is_not_run() -> None:
    from great_expectations.expectations.expectation import ColumnMapExpectation

    class ExpectColumnValuesToBeMine(ColumnMapExpectation):
        map_metric = "column_values.nonnull"

    assert ExpectColumnValuesToBeMine
    with pytest.raises(SpecError, match="no such expectation is run here"):
        run_suite(TABLE, suite("expect_column_values_to_be_mine", column="age"))
