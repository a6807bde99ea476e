"""What a run will cost: predicted from samples and reported by `check`, with no record quoted."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import CapacityError, InfeasibleError, IntegrityError, PrivacyEngineError
from privacy_engine.tables.persons import Person
from privacy_release.cli.main import DONE, main
from privacy_release.cli.main import WRONG as WRONG_FILE
from privacy_release.explore.cost import SampleCost, Steps, cost, measured_on_samples
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import RecordsFileRef
from privacy_release.workarea.staged import write_schema
from tests.wrong_files import RELEASE, RIGHT, write_right

SIZES = (500, 1_000, 2_000, 4_000, 8_000)


@pytest.mark.parametrize("rows", [10_000, 32_000, 128_000])
@pytest.mark.parametrize(
    "law",
    [
        lambda n: 3.0,
        lambda n: n / 1e3,
        lambda n: 2 + n / 1e4,
        lambda n: n * np.log(n) / 1e4,
        lambda n: (n / 1e3) ** 2,
        lambda n: 1 + n / 1e3 + (n / 2e3) ** 2,
        lambda n: (n / 1e3) ** 1.5,
    ],
)
def test_a_law_of_growth_is_within_what_is_predicted(law: Callable[[float], float], rows: int) -> None:
    found = cost([SampleCost(rows=n, seconds=law(n), memory=round(1e6 * law(n))) for n in SIZES], rows)
    assert found.seconds[0] <= law(rows) <= found.seconds[1]
    assert found.memory[0] <= 1e6 * law(rows) <= found.memory[1]
    assert found.measured == SIZES[-1]


def test_all_records_are_reported_as_measured() -> None:
    found = cost([SampleCost(rows=n, seconds=n / 7, memory=n) for n in SIZES], SIZES[-1])
    assert found.seconds == (SIZES[-1] / 7, SIZES[-1] / 7)
    assert found.memory == (SIZES[-1], SIZES[-1])


def test_more_records_never_take_less_than_fewer_took() -> None:
    odd = [SampleCost(rows=500, seconds=9.0, memory=900), SampleCost(rows=1_000, seconds=2.0, memory=400)]
    found = cost(odd, 4_000)
    assert found.seconds[0] >= 2.0
    assert found.memory[0] >= 400
    assert cost(odd[:1], 4_000).seconds[1] >= 72.0


@pytest.fixture
def steps(home: Path, work: WorkArea, people: pd.DataFrame) -> Steps:
    schema = load_spec(home / "releases" / "people.yaml").method_schema()
    many = pd.concat([people] * 8, ignore_index=True)
    uri = work.path("records.parquet")
    return Steps(
        records=RecordsFileRef(uri=str(uri), rows=len(many), sha256=write_private(uri, parquet_bytes(many))),
        schema=write_schema(work, "records", schema),
        method="mondrian",
        parameters={"k": 5},
        policy={"require": [{"model": "k_anonymity", "k": 5}]},
    )


@pytest.mark.slow  # releases each sample
def test_samples_double_until_all_records_are_released(steps: Steps) -> None:
    points = measured_on_samples(steps)
    rows = [point.rows for point in points]
    assert rows[0] == 500
    assert rows[-1] == steps.records.rows
    assert all(later <= 2 * earlier for earlier, later in pairwise(rows))
    assert all(point.seconds > 0 and point.memory > 50 * 2**20 for point in points)
    assert [p.memory for p in points] == sorted(p.memory for p in points)


@pytest.mark.parametrize(
    ("longest", "patience"), [(1e-9, 1e12), (30, 0)], ids=["no sample begun", "one given up"]
)
def test_samples_end_with_their_time(
    steps: Steps, longest: float, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.explore.cost._PATIENCE", patience)
    with pytest.raises(CapacityError, match="mondrian must be done with 500 records within"):
        measured_on_samples(steps, longest=longest)


@pytest.mark.quick("changed0-InfeasibleError")  # a process each
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"parameters": {"k": 10**6}}, InfeasibleError),
        ({"detector": "okplof", "detector_parameters": {"k": 0}}, PrivacyEngineError),
    ],
)
def test_what_fails_with_all_records_is_reported_as_a_run_would(
    steps: Steps, changed: Mapping[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        measured_on_samples(replace(steps, **changed))


def test_a_process_that_breaks_down_says_no_more_than_how(
    steps: Steps, work: WorkArea, people: pd.DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = replace(steps.read_schema(), person=Person(column="name"))
    file = work.path("nameless.parquet")
    sha256 = write_private(file, parquet_bytes(people.drop(columns="name")))
    records = RecordsFileRef(uri=str(file), rows=len(people), sha256=sha256)
    with pytest.raises(CapacityError, match=r"^mondrian failed on a sample: KeyError$"):
        measured_on_samples(replace(steps, records=records, schema=write_schema(work, "other", schema)))
    output = capfd.readouterr()
    assert output.out + output.err == ""


def test_records_that_changed_are_not_measured(steps: Steps) -> None:
    file = Path(steps.records.uri)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IntegrityError):
        measured_on_samples(steps)


@pytest.mark.slow  # releases samples
def test_check_tells_the_cost_of_a_right_file(
    home: Path, capsys: pytest.CaptureFixture[str], people: pd.DataFrame
) -> None:
    write_right(home)
    assert main(["check", "--cost", str(home / RELEASE)]) == DONE
    output = capsys.readouterr().out
    assert f"right; {len(people):,} records take " in output
    assert " MB, measured" in output
    assert main(["check", "--cost", "--json", str(home / RELEASE)]) == DONE
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["cost"]["rows"] == answer["cost"]["measured"] == len(people)


def test_check_says_where_it_cannot_tell_the_cost(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_right(home)
    (home / RELEASE).write_text(RIGHT[RELEASE] + "engine: fragments\n")
    assert main(["check", "--cost", str(home / RELEASE)]) == DONE
    assert (
        "the cost of a run is only predicted for one table, with the engine local" in capsys.readouterr().out
    )


def test_a_method_that_the_source_cannot_keep_is_a_problem(
    home: Path, capsys: pytest.CaptureFixture[str], people: pd.DataFrame
) -> None:
    write_right(home)
    text = RIGHT[RELEASE].replace("k: 5", f"k: {len(people) + 1}")
    assert text != RIGHT[RELEASE]
    (home / RELEASE).write_text(text)
    assert main(["check", "--cost", str(home / RELEASE)]) == WRONG_FILE
    assert "release: " in capsys.readouterr().err
