"""Under a privacy budget an error is the same however many records break a rule; the curator gets counts."""

import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from airflow.sdk import DAG

from airflow_privacy_release import IngestParquetOperator, ReleaseOperator
from privacy_engine.errors import (
    BudgetExceededError,
    CapacityError,
    EngineError,
    InfeasibleError,
    IntegrityError,
    PrivacyEngineError,
    SchemaError,
    SpecError,
)
from privacy_release.cli.main import WRONG, main
from privacy_release.steps.counts import counts_hidden, hide_counts
from tests import tables
from tests.private_run import COLUMNS, FIELDS, PRIVATE, run_private

FAILING = {"source": {**PRIVATE["source"], "nulls": "fail"}}  # on nulls
FREE = {"release": {"method": "bottom_up", "k": 5}, "budget": None}
# A value that breaks a rule in its column.
MISTAKES = {
    "a number outside of its bounds": ("age", 1_000),
    "a value outside of its categories": ("illness", "a canary"),
    "a null": ("illness", None),
}


def wrong(column: str, value: Any, records: int) -> pd.DataFrame:
    """Put a value into the first records of a table."""
    table = tables.people()
    table[column] = [value if i < records else kept for i, kept in enumerate(table[column])]
    return table


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The curator's folder."""
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Run a release of a table and return its error."""

    def run(table: pd.DataFrame, rules: dict[str, Any] | None = None, **changes: Any) -> str:
        folder = tmp_path / f"home {len([*tmp_path.iterdir()])}"
        with pytest.raises(PrivacyEngineError) as caught:
            run_private(folder, table, rules=rules, **(FAILING | changes))
        if changes.get("budget", "budget") is not None:  # a traceback would show the original text
            assert caught.value.__suppress_context__
        return str(caught.value).replace(str(folder), "")

    return run


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_of_a_paid_release_has_no_count(
    mistake: str, refused: Callable[..., str], curator: Path
) -> None:
    column, value = MISTAKES[mistake]
    said = {refused(wrong(column, value, records)) for records in (1, 2, 7)}
    assert len(said) == 1
    assert column in said.pop()
    assert [file.suffixes[-2:] for file in curator.rglob("*.txt")] == [[".counts", ".txt"]]
    kept = next(curator.rglob("*.txt")).read_text()
    assert column in kept
    assert "7" in kept
    assert "canary" not in kept


def test_an_error_of_a_free_release_has_its_count(refused: Callable[..., str], curator: Path) -> None:
    assert "7" in refused(wrong("age", 1_000, 7), tables.POLICY, **FREE)
    assert not curator.exists()


def test_lines_of_a_paid_run_count_no_record_of_the_source(tmp_path: Path) -> None:
    lines = []
    for rows in (150, 200):
        reported: list[str] = []
        run_private(
            tmp_path / str(rows),
            tables.people().head(rows),
            lambda stage, text, reported=reported: reported.append(f"{stage}: {text}"),  # type: ignore[misc]
            **FAILING,
        )
        lines.append([line for line in reported if line.startswith(("ingest", "validate", "outliers"))])
    assert lines[0] == lines[1]
    assert "ingest: N records, N dropped for nulls" in lines[0]


@pytest.mark.parametrize("records", [1, 7])
def test_a_check_shows_no_count_either(
    records: int, tmp_path: Path, curator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tables.write_home(tmp_path / "home", wrong("age", 1_000, records), **{**PRIVATE, **FAILING})
    assert main(["check", "--source", str(home / "releases" / "people.yaml")]) == WRONG
    said = capsys.readouterr().err
    assert "age" in said
    assert "N " in said
    assert f" {records} " not in said
    assert f"{records}" in next(curator.rglob("*.counts.txt")).read_text()


@pytest.mark.parametrize("is_paid", [True, False])
def test_a_task_hides_counts_where_a_task_of_its_dag_names_a_budget(
    is_paid: bool, tmp_path: Path, work_root: Path, curator: Path
) -> None:
    wrong("age", 1_000, 7).to_parquet(tmp_path / "people.parquet", index=False)
    with DAG("people", schedule=None) as dag:
        raw = IngestParquetOperator(
            task_id="ingest", uri=str(tmp_path / "people.parquet"), schema=FIELDS, columns=list(COLUMNS)
        )
        if is_paid:
            ReleaseOperator(
                task_id="release",
                table=raw.output,
                method="privbayes",
                parameters={"epsilon": 1},
                budget="people",
                policy={"max_epsilon": 2},
            )
    context: Any = {
        "ti": SimpleNamespace(dag_id=dag.dag_id, run_id="run", task_id="ingest", map_index=-1),
    }
    with pytest.raises(Exception, match="age") as caught:
        raw.execute(context)
    assert caught.type.__name__ == "AirflowFailException"
    assert (" 7 " in str(caught.value)) is not is_paid
    assert curator.exists() is is_paid


@pytest.mark.parametrize("kind", [SchemaError, InfeasibleError, IntegrityError, CapacityError, EngineError])
def test_neither_the_text_nor_the_cause_of_an_error_about_data_has_a_count(
    kind: type[PrivacyEngineError], curator: Path
) -> None:
    with pytest.raises(kind) as caught, counts_hidden("people", "r1", is_paid=True):
        raise kind("the table has 4711 records")
    assert "4711" not in "".join(traceback.format_exception(caught.value))
    (kept,) = curator.rglob("*.counts.txt")
    assert kept.read_text() == "the table has 4711 records"


def test_errors_of_files_and_of_the_ledger_keep_their_numbers() -> None:
    for error in (
        SpecError("k must be at least 2"),
        BudgetExceededError("0.5 is left"),
        SchemaError("a word"),
    ):
        assert hide_counts(error, "people", "r1") is error


def test_a_folder_that_cannot_be_written_loses_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "file"))
    hidden = hide_counts(SchemaError("age: 3 records are wrong"), "people", "r1")
    assert type(hidden) is SchemaError
    assert str(hidden).startswith("age: N records are wrong")
    assert "lost" in str(hidden)
