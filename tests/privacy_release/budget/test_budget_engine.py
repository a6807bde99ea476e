"""A budget spent on a table that is never loaded: the same order of steps, and the same refusals."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine import load_method
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import CapacityError, InfeasibleError, IntegrityError, SchemaError
from privacy_engine.synthesizers import synthesizer
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_release.budget.budget import Budget, PaidModel, measured_model
from privacy_release.budget.claims import _values_in_domains
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import parquet_bytes
from privacy_release.workarea.references import EngineRef, SourceRef, Table
from privacy_release.workarea.staged import write_schema
from tests.ledgers import new_ledger

SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
        "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
        "disease": {"role": "sensitive", "categories": ["cold", "flu", "gout"], "nullable": True},
    }
)
ENGINE = read_engine("fragments")


def people(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "town": rng.choice(["north", "south"], rows),
            "disease": rng.choice(["cold", "flu", None], rows),
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    return made


def table_of(frame: pd.DataFrame, work: WorkArea, engine: EngineRef = ENGINE) -> Table:
    """A table in the work area, too large to be loaded."""
    data = parquet_bytes(frame)
    path = work.path("ingest.parquet")
    path.write_bytes(data)
    return Table(
        uri=str(path),
        rows=len(frame),
        sha256=hashlib.sha256(data).hexdigest(),
        schema=write_schema(work, "ingest", SCHEMA),
        source=SourceRef(uri="x", files=1, fingerprint="x", rows=1, dropped=0, identifiers=[]),
        engine=engine,
    )


def measured(table: Table, ledger: BudgetLedger, run: str = "run 1", **parameters: Any) -> PaidModel:
    method = load_method("privbayes", epsilon=0.4, **parameters)
    return measured_model(method, table, SCHEMA, Budget(dataset="people", run=run, ledger=ledger))


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.history("people")]


def test_a_table_that_is_not_loaded_is_paid_for_measured_and_kept(
    work: WorkArea, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(people(), work)
    monkeypatch.setattr(Table, "frame", None)  # what would load it
    model = measured(table, ledger).model
    assert model.rows == 300
    assert model.network.names == ("age", "town", "disease")
    assert events(ledger) == ["grant", "reserve", "commit"]


def test_the_same_bytes_cost_nothing_again_and_are_not_read_again(
    work: WorkArea, ledger: BudgetLedger
) -> None:
    table = table_of(people(), work)
    first = measured(table, ledger)
    Path(table.uri).unlink()
    again = measured(table, ledger, "run 2")
    assert again.text == first.text
    assert events(ledger) == ["grant", "reserve", "commit"]


REFUSED = {
    "unseen value": (
        people().assign(town="west"),
        SchemaError,
        "town: the categories miss 1 distinct value",
    ),
    "out of the bounds": (people().assign(age=130), SchemaError, "age: 300 values are out of the bounds"),
    "null": (people().assign(town=None), SchemaError, "town: 300 values are null"),
    "too small": (people(1), InfeasibleError, "at least 2 records"),
    "missing column": (people().drop(columns="town"), SchemaError, r"columns \['town'\] are missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_does_not_fit_gives_the_reservation_back(
    work: WorkArea, ledger: BudgetLedger, case: str
) -> None:
    frame, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        measured(table_of(frame, work), ledger)
    assert events(ledger) == ["grant", "reserve", "cancel"]


def test_too_little_memory_gives_the_reservation_back(work: WorkArea, ledger: BudgetLedger) -> None:
    with pytest.raises(CapacityError, match="give it more memory, or the attributes fewer bins"):
        measured(table_of(people(), work, replace(ENGINE, memory=100)), ledger)
    assert events(ledger) == ["grant", "reserve", "cancel"]


def test_a_file_that_changed_since_ingest_is_not_read(work: WorkArea, ledger: BudgetLedger) -> None:
    table = table_of(people(), work)
    Path(table.uri).write_bytes(parquet_bytes(people(299)))
    with pytest.raises(IntegrityError, match="recorded sha256"):
        measured(table, ledger)
    assert events(ledger) == ["grant", "reserve", "cancel"]


def test_a_file_that_changes_while_it_is_read_gets_no_noise(
    work: WorkArea, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(people(), work)
    read = synthesizer.coded_files

    def read_and_change(*given: Any) -> CodedTable:
        coded = read(*given)
        Path(table.uri).write_bytes(parquet_bytes(people(299)))
        return coded

    monkeypatch.setattr(synthesizer, "coded_files", read_and_change)
    with pytest.raises(IntegrityError, match="recorded sha256"):
        measured(table, ledger)
    assert events(ledger) == ["grant", "reserve", "cancel"]


def test_nothing_is_left_in_the_work_area(work: WorkArea, ledger: BudgetLedger) -> None:
    table = table_of(people(), work)
    before = sorted(Path(table.uri).parent.rglob("*"))
    measured(table, ledger)
    assert sorted(Path(table.uri).parent.rglob("*")) == before


def test_values_outside_of_their_domain_are_added_up_over_the_parts_of_a_release() -> None:
    released = people(90)
    released.loc[[3, 40, 80], "town"] = "west"
    released.loc[[4, 5, 60, 89], "age"] = 121

    def parts() -> Iterator[pd.DataFrame]:
        yield from (released.iloc[start : start + 20] for start in range(0, 90, 20))

    assert _values_in_domains(parts(), SCHEMA) == _values_in_domains([released], SCHEMA)
    assert [finding.measured for finding in _values_in_domains(parts(), SCHEMA)] == [4, 3, 0]
