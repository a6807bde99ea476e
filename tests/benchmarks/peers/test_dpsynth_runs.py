"""Runs of dpsynth: which, how they are kept, and what happens without time or without the package."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import dp_tables
from benchmarks.dp_tables import Data, split
from benchmarks.environments import OutOfTimeError, Source, UnavailableError, environment
from benchmarks.peers import dp_peers, dpsynth_runs
from benchmarks.peers.dpsynth_runs import LIMIT, PLAN, SOURCE, TABLES, Run, keep, planned, stored
from privacy_engine import DataSchema

RUN = Run(
    table="Small",
    mechanism="MST",
    epsilon=0.8,
    delta=1e-9,
    rho=0.01,
    commit="abc",
    versions={"jax": "1"},
    iterations=5_000,
    limit=600,
    distance=0.1,
    cpu=20.0,
    peak=1e9,
)


@pytest.fixture
def data() -> Data:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({f"c{i}": rng.integers(0, 2, 100).astype(np.int8) for i in range(3)})
    schema = DataSchema.from_dict({name: {"categories": ["0", "1"]} for name in frame})
    return Data(name="Small", frame=frame, schema=schema, targets={})


def test_at_most_twelve_runs_are_planned_and_aim_gdp_has_each_epsilon_of_each_table(data: Data) -> None:
    other = replace(data, name="Other")
    runs = [(table.name, mechanism, epsilon) for table, mechanism, epsilon in planned([data, other])]
    assert len(runs) == len(set(runs)) == len(TABLES) * sum(map(len, PLAN.values())) <= 12
    assert {run for run in runs if run[1] == "AIM-GDP"} == {
        (name, "AIM-GDP", epsilon) for name in ("Small", "Other") for epsilon in (0.2, 0.8, 1.6)
    }


def test_runs_are_kept_with_their_promise_versions_and_iterations(tmp_path: Path) -> None:
    unfinished = replace(RUN, mechanism="SWIFT", distance=None, cpu=None, peak=None)
    runs = {run.key: run for run in (RUN, unfinished)}
    assert stored(tmp_path / "runs.json") == {}
    keep(runs, tmp_path / "runs.json")
    assert stored(tmp_path / "runs.json") == runs


def test_every_run_in_the_store_is_planned_and_within_the_limit() -> None:
    for run in stored().values():
        assert run.epsilon in PLAN[run.mechanism]
        assert run.commit == SOURCE.commit
        assert run.limit >= LIMIT
        assert run.cpu is None or run.cpu <= run.limit


@pytest.mark.slow  # only a process shows that the system ends it
def test_a_peer_that_uses_up_its_cpu_seconds_is_ended(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loops.py").write_text(
        "def synthetic(table, sizes, budget):\n    while True:\n        pass\n"
    )
    (tmp_path / "ends.py").write_text("def synthetic(table, sizes, budget):\n    return table\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    train, python = split(data, 0).train, Path(sys.executable)
    made = dp_peers.peer_tables(python, "ends", train, [1.0], limit=600)
    assert np.array_equal(made[1.0].table.codes, train.codes)
    with pytest.raises(OutOfTimeError, match="used all of its CPU seconds"):
        dp_peers.peer_tables(python, "loops", train, [1.0], limit=2)


@pytest.mark.slow  # processes stand in for dpsynth's
def test_a_run_that_does_not_finish_is_a_result(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dpsynth_about.py").write_text(
        'print(\'{"versions": {"dpsynth": "1"}, "iterations": {"MST": 7, "SWIFT": 8}}\')\n'
    )
    (tmp_path / "run.py").write_text((dp_peers.SCRIPTS / "run.py").read_text())
    (tmp_path / "dpsynth_mst.py").write_text("def synthetic(t, sizes, rho):\n    while True:\n        pass\n")
    (tmp_path / "dpsynth_swift.py").write_text("def synthetic(t, sizes, rho):\n    return t\n")
    for module in (dp_peers, dpsynth_runs):
        monkeypatch.setattr(module, "SCRIPTS", tmp_path)
    peer = dpsynth_runs.Peer.of(Path(sys.executable))
    loops = dpsynth_runs.measured(peer, data, "MST", 0.8, limit=2)
    assert (loops.distance, loops.cpu, loops.peak) == (None, None, None)
    assert (loops.limit, loops.iterations, loops.versions) == (2, 7, {"dpsynth": "1"})
    ends = dpsynth_runs.measured(peer, data, "SWIFT", 0.8, limit=600)
    assert (ends.distance, ends.iterations) == (0, 8)
    assert ends.cpu is not None
    assert ends.peak is not None
    assert ends.rho > loops.rho  # MST spends more of its budget on choices


def test_a_clone_that_is_not_there_is_an_error_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PRIVACY_DPSYNTH", str(tmp_path / "absent"))
    with pytest.raises(UnavailableError, match=r"PRIVACY_DPSYNTH must name a clone .* is not a folder"):
        dpsynth_runs.interpreter()


def test_a_clone_is_read_instead_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_DPSYNTH", raising=False)
    address = "git+https://github.com/google/dpsynth"
    assert SOURCE.requirement == f"dpsynth @ {address}@{SOURCE.commit}"
    monkeypatch.setenv("PRIVACY_DPSYNTH", str(tmp_path))
    assert SOURCE.requirement == f"dpsynth @ git+{tmp_path.as_uri()}@{SOURCE.commit}"


@pytest.mark.slow  # it makes an environment
def test_a_clone_without_the_commit_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("A_CLONE", str(tmp_path))
    (tmp_path / "peer.txt").write_text("# nothing\n")
    source = Source(
        name="peer", repository="https://example.invalid/peer", commit="0" * 40, variable="A_CLONE"
    )
    with pytest.raises(UnavailableError, match="Set A_CLONE to a clone that has this commit"):
        environment(tmp_path / "peer.txt", source=source)


@pytest.mark.needs_data
@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="PRIVACY_DATA does not name the data folder")
@pytest.mark.parametrize(("load", "records", "attributes"), [(TABLES[0], 19_878, 7), (TABLES[1], 45_211, 17)])
def test_the_tables_have_public_domains_and_numbers_in_16_equal_bins(
    load: object, records: int, attributes: int
) -> None:
    assert callable(load)
    data = load()
    part = split(data, 0)
    assert (len(data.frame), len(part.train), len(part.train.names)) == (
        records,
        round(0.8 * records),
        attributes,
    )
    for attribute, domain in zip(data.schema.attributes, part.train.domains, strict=True):
        if attribute.bounds is not None:
            assert domain.size == dp_tables.BINS + attribute.nullable


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_DATA", str(tmp_path))
    for load in TABLES:
        with pytest.raises(UnavailableError, match="PRIVACY_DATA"):
            load()
