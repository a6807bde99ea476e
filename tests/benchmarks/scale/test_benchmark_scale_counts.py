"""The benchmark of counting: the engine and the plans that were written by hand have the same answers."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale import scale_counts
from benchmarks.scale.scale_counts import QUESTIONS, Asked
from benchmarks.tables import Table, of_frame
from deploy.local.samples.synthetic_adult import synthetic_adult


@pytest.fixture(scope="module")
def table() -> Table:
    return of_frame(synthetic_adult(300, rng=np.random.default_rng(1)), "generated")


@pytest.mark.slow  # it measures processes
def test_persons_are_counted_alike_by_both(table: Table, tmp_path: Path) -> None:
    file = tmp_path / "visits.parquet"
    scale_counts.write_visits(table, 3_000, file)
    engine, plan = scale_counts.measure(QUESTIONS[1], file, tmp_path)
    assert plan is not None
    assert {"classes", "too small", "k", "l", "t"} <= engine.answers.keys() & plan.answers.keys()
    assert engine.answers["classes"] > 100
    assert min(engine.peak, plan.peak) > 10**7


def test_other_answers_are_no_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"ask_engine": 2.0, "ask_plan": 3.0}

    class Apart:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> "Apart":
            return self

        def __exit__(self, *_: object) -> None: ...
        def submit(self, ask: object, *_: object) -> "Apart":
            self.found = Asked(1.0, 1, {"k": answers[ask.__name__]})  # type: ignore[attr-defined]
            return self

        def result(self) -> Asked:
            return self.found

    monkeypatch.setattr(scale_counts, "ProcessPoolExecutor", Apart)
    with pytest.raises(ValueError, match=r"k must be 3\.0 by hand, got 2\.0"):
        scale_counts.measure(QUESTIONS[0], tmp_path / "none", tmp_path)
    assert scale_counts.measure(QUESTIONS[0], tmp_path / "none", tmp_path, alone=True)[1] is None
    answers["ask_plan"] = math.nextafter(2.0, 3.0)
    scale_counts.measure(QUESTIONS[0], tmp_path / "none", tmp_path)


def test_a_table_without_plans_by_hand_tells_the_engine_alone(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[bool] = []

    def measure(*_: object, alone: bool) -> tuple[Asked, None]:
        requested.append(alone)
        return Asked(2.0 ** len(requested), 3 << 20, {"classes": 5}), None

    monkeypatch.setattr(scale_counts, "measure", measure)
    found = scale_counts.lines(table, [100, 200], tmp_path, alone=True)
    assert requested == [True] * 2 * len(QUESTIONS)
    assert found[:2] == [
        ["records, 14 values", "100", "5", "2.0", "", "", "", "3", ""],
        ["records, 14 values", "200", "5", "32.0", "", "", "4.00", "3", ""],
    ]
    assert list(tmp_path.iterdir()) == []
