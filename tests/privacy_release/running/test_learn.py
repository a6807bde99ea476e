"""The section `learn` of a release file: naive Bayes from each published release, without Airflow."""

import json
from pathlib import Path
from typing import Any

import pytest

from privacy_engine.errors import SpecError
from privacy_engine.learning.stored import model_from_dict
from privacy_release.lake.read import releases
from privacy_release.lake.store import Lake
from privacy_release.plan.plan import plan_of
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.private_run import PRIVATE, run_private

ANSWERS = {"method": "errph", "epsilon": 20}
LEARN = {"target": "illness", "shrinkage": False}
# By transformed numbers, which claim no epsilon: without a budget.
FREE = {**PRIVATE, "budget": None, "release": {"method": "trr"}, "learn": LEARN}


def stored(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "lake" / "_models" / "people" / "r1.json").read_text()))


def test_a_model_of_the_published_release_is_stored_in_its_lake(tmp_path: Path) -> None:
    said = list[str]()
    run_private(
        tmp_path,
        tables.people(),
        lambda stage, text: said.append(f"{stage}: {text}"),
        release=ANSWERS,
        learn={**LEARN, "features": ["age"], "alpha": 2},
    )
    kept = stored(tmp_path)
    model = model_from_dict(kept)
    assert (kept["table"], kept["releases"]) == ("people", ["r1"])
    assert (model.label_, list(model.feature_names_in_)) == ("illness", ["age"])
    assert (model.shrinkage, model.alpha) == (False, 2)
    assert model.class_count_.sum() == len(tables.people())
    assert (tmp_path / "lake" / "_models" / "people" / "r1.html").is_file()
    assert any(text.startswith("learn: ") and text.endswith("r1.json") for text in said)


def test_a_model_that_cannot_be_stored_leaves_the_release_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr("privacy_release.steps.learning.put", full)
    home = tables.write_home(tmp_path / "home", None, {"max_breach": 1}, **FREE)
    lake = Lake(root=str(tmp_path / "lake"))
    with WorkArea(tmp_path / "work", "run") as work:
        done = run_release(load_spec(home / "releases" / "people.yaml"), lake, "r1", work)
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["r1"]
    assert any("the model of the release" in text for text in done.warnings)


def test_the_model_is_trained_after_the_commit(tmp_path: Path) -> None:
    home = tables.write_home(
        tmp_path, None, {"max_epsilon": 30}, **{**PRIVATE, "release": ANSWERS, "learn": LEARN}
    )
    plan = plan_of(load_spec(home / "releases" / "people.yaml"))
    assert plan.before()["learn"] == {"publish"}
    assert [step.name for step in plan.last()] == ["publish", "learn"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": {"method": "privbayes", "epsilon": 1}}, "privbayes makes none"),
        ({"learn": {"target": "age"}}, "learn.target must be a column with listed values, age is a numeric"),
        ({"learn": {"target": "name"}}, r"learn: \['name'\] must be released columns"),
        ({"learn": {"target": "illnes"}}, "did you mean illness"),
        ({"learn": {**LEARN, "features": ["height"]}}, r"learn: \['height'\] must be released columns"),
        ({"learn": {**LEARN, "features": ["age", "illness"]}}, "target and features must be distinct"),
        ({"learn": {**LEARN, "features": []}}, "learn.features"),
        ({"learn": {**LEARN, "alpha": -1}}, "learn.alpha"),
        ({"learn": {}}, "learn.target"),
    ],
    ids=str,
)
def test_a_model_that_could_not_be_trained_is_refused_in_the_file(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    fields = {**PRIVATE, "release": ANSWERS, "learn": LEARN, **changes}
    home = tables.write_home(tmp_path, None, {"max_epsilon": 30}, **fields)
    with pytest.raises(SpecError, match=message):
        load_spec(home / "releases" / "people.yaml")
