"""Releases of the same people by other methods, other seeds and other deliveries, made with the earlier ones.

What each pair of releases tells is counted again in plain Python, from what was released and the identifiers
that these tests know.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException

from airflow_privacy_release import IngestParquetOperator, MondrianOperator, ReleaseOperator
from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.history import Identification, Past, read_persons
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.run import Outcome, run_release
from privacy_release.work.area import WorkArea
from tests.conftest import ILLNESSES, POLICY, REGIONS

KEY = "a secret of the tests alone, long enough"
HISTORY = {"repeated_people": "history"}
FIRST = {"method": "mondrian", "k": 8, "l": 2, "seed": 7}
OTHERS = [
    pytest.param({"method": "bottom_up", "k": 5, "l": 2, "seed": 11}, id="another-method"),
    pytest.param({"method": "mondrian", "k": 5, "l": 2, "rule": "widest", "seed": 7}, id="another-rule"),
]
Specified = Callable[..., ReleaseSpec]
Classes = dict[str, tuple[str, ...]]  # person -> the released cells
Values = dict[tuple[str, ...], set[str]]  # released cells -> the sensitive values beside


@pytest.fixture(autouse=True)
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key, and the folder of what is kept about people."""
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", KEY)
    monkeypatch.setenv(
        "AIRFLOW_CONN_MEMBERSHIP_DEFAULT", json.dumps({"conn_type": "generic", "password": KEY})
    )
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def specified(home: Path) -> Specified:
    """Writes the release of `home` with other fields; None leaves one out."""

    def write(release: Mapping[str, Any], rules: Mapping[str, Any] = HISTORY, **fields: Any) -> ReleaseSpec:
        path = home / "releases" / "people.yaml"
        told = yaml.safe_load(path.read_text()) | {"schedule": None, "history": {"identifier": "name"}}
        told |= {"release": dict(release), "expectations": None} | fields
        path.write_text(yaml.safe_dump({name: value for name, value in told.items() if value is not None}))
        (home / "policies" / "people.yaml").write_text(yaml.safe_dump(POLICY | dict(rules)))
        return load_spec(path)

    return write


class Runs:
    """Runs of releases, whose people are known by name afterwards."""

    def __init__(self, folder: Path, lake: Lake) -> None:
        self.folder, self.lake = folder, lake
        self.people: dict[str, Classes] = {}
        self.values: dict[str, Values] = {}

    def run(self, spec: ReleaseSpec, release: str) -> Outcome:
        names = pd.read_parquet(self.folder / "home" / "include" / "people.parquet")["name"]
        known = {Identification(column="name", key=KEY).person(name): name for name in names}
        with WorkArea(self.folder / "work", release) as work:
            outcome = run_release(spec, self.lake, release, work)
            persons = read_persons(outcome.staged["persons"])
        rows = read_release(self.lake, "people", release).to_pandas()
        cells = list(rows[["age", "zip"]].astype(str).itertuples(index=False, name=None))
        self.people[release] = {
            known[person]: cell for person, cell in zip(persons, cells, strict=True) if person in known
        }
        self.values[release] = {}
        for cell, illness in zip(cells, rows["illness"], strict=True):
            self.values[release].setdefault(cell, set()).add(illness)
        return outcome

    def left(self) -> int:
        """Of all pairs of releases and people in both, the fewest who share somebody's class in both."""
        fewest = []
        for one, other in combinations(self.people.values(), 2):
            both = one.keys() & other.keys()
            fewest += Counter((one[name], other[name]) for name in both).values()
        return min(fewest)

    def kept_values(self) -> bool:
        """Whether everybody's class has the same illnesses in all releases."""
        return all(
            self.values[one][self.people[one][name]] == self.values[other][self.people[other][name]]
            for one, other in combinations(self.people, 2)
            for name in self.people[one].keys() & self.people[other].keys()
        )


@pytest.fixture
def runs(tmp_path: Path, lake: Lake) -> Runs:
    return Runs(tmp_path, lake)


@pytest.mark.parametrize("other", OTHERS)
def test_the_same_people_by_another_method_are_refused_or_made_with_the_history(
    specified: Specified, runs: Runs, lake: Lake, other: dict[str, Any]
) -> None:
    runs.run(specified(FIRST), "1")
    with pytest.raises(
        VerificationError,
        match=r"cross_release_k_anonymity\(k=5.*\) measured \d, missed by \d+ classes of together \d+ rows",
    ):
        runs.run(specified(other, history={"identifier": "name", "keep": False}), "2")
    outcome = runs.run(specified(other), "2")
    assert [entry["release_id"] for entry in releases(lake, "people")] == ["1", "2"]
    assert runs.left() >= 5
    assert runs.kept_values()
    told = manifest_of(lake, "people", "2")
    assert told["method"] == other["method"]
    assert told["history"]["releases"] == 1
    assert told["history"] == {
        "releases": 1,
        "k": 5,
        "m": {"illness": 2},
        "departures": "known",
        "reserve": 1.0,
        "withheld": len(runs.people["1"]) - len(runs.people["2"]),
    }
    assert outcome.report["passed"]
