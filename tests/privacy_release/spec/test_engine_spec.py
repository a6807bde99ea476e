"""The field `engine` of a specification: what it may say, what it goes with, and the tasks that it makes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from airflow_privacy_release.pipeline import release_dag
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import SpecError
from privacy_engine.fragments.plan import fragmentable
from privacy_engine.registry import is_anonymizer, load_method, method_class, method_names, needs_whole_table
from privacy_release.cli.main import DONE, main
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.spec.engine import EngineSpec
from privacy_release.spec.model import json_schema, load_spec
from privacy_release.workarea.engines import DEFAULT_ROWS, read_engine
from tests import tables

Write = Callable[..., Path]
PUBLIC = tables.fields(**tables.PUBLIC, visits={"bounds": [0, 9]})
PRIVATE = {
    "schema": PUBLIC,
    "release": {"method": "privbayes", "epsilon": 0.5},
    "budget": {"dataset": "people"},
}


@pytest.fixture
def write(home: Path) -> Write:
    """Write the release with changed fields."""

    def written(**changes: Any) -> Path:
        path = home / "releases" / "people.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes, sort_keys=False))
        return path

    return written


def chain(path: Path) -> dict[str, set[str]]:
    """The tasks of a release's DAG, and what each waits for, without the name of the group."""
    dag = release_dag(load_spec(path))
    return {
        task.task_id.rpartition(".")[2]: {name.rpartition(".")[2] for name in task.upstream_task_ids}
        for task in dag.tasks
    }


MISTAKES = [
    pytest.param(
        "sparc",
        r"engine\.kind: must be 'local', 'fragments' or 'spark', got 'sparc'; correct it.*mean spark",
        id="kind",
    ),
    pytest.param(5, "engine: must be local, fragments or spark, or a mapping with kind", id="number"),
    pytest.param({"rows": 5_000}, r"engine\.kind: is missing; add it", id="no-kind"),
    pytest.param(
        {"kind": "fragments", "row": 5_000},
        r"engine\.row: is not a known field; .*did you mean rows\?",
        id="misspelt",
    ),
    pytest.param(
        {"kind": "fragments", "rows": 10},
        r"engine\.rows: must be greater than or equal to 1000",
        id="too-few-rows",
    ),
    pytest.param(
        {"kind": "fragments", "memory": "1 TB"},
        r"engine\.memory: must be an amount such as 1GB, at least 200MB, got '1 TB'",
        id="memory",
    ),
    pytest.param(
        {"kind": "fragments", "memory": "1MB"}, r"engine\.memory: must .* at least 200MB", id="no-memory"
    ),
    pytest.param(
        {"kind": "fragments", "processes": 0}, r"engine\.processes: must be greater", id="no-process"
    ),
    pytest.param(
        {"kind": "local", "rows": 5_000},
        "rows cannot be combined with kind local.*remove it",
        id="local-rows",
    ),
    pytest.param(
        {"kind": "fragments", "connection": "spark_default"},
        "connection cannot be combined with kind fragments",
        id="connection-of-no-spark",
    ),
    pytest.param(
        {"kind": "spark", "mapped": True}, "mapped cannot be combined with kind spark", id="mapped-spark"
    ),
]


@pytest.mark.parametrize(("engine", "message"), MISTAKES)
def test_each_mistake_is_named_by_field_and_remedy(engine: Any, message: str, write: Write) -> None:
    path = write(engine=engine)
    with pytest.raises(SpecError, match=message) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: ")


BESIDE = [
    pytest.param({"release": {"method": "rfka", "k": 5}}, "rfka must see the whole table", id="features"),
]


@pytest.mark.parametrize("kind", ["fragments", "spark"])
@pytest.mark.parametrize(("changes", "message"), BESIDE)
def test_what_needs_the_whole_table_is_refused_at_parse_time(
    kind: str, changes: dict[str, Any], message: str, write: Write
) -> None:
    with pytest.raises(SpecError, match=rf"{message}.*choose .*engine local"):
        load_spec(write(engine=kind, **changes))
    load_spec(write(engine="local"))


def test_people_are_followed_in_fragments_and_not_on_spark(write: Write) -> None:
    history = {"identifier": "name"}
    spec = load_spec(write(engine="fragments", history={**history, "hold_back": 2}))
    (cut,) = [task for task in release_dag(spec).tasks if task.task_id.endswith("cut")]
    assert (cut.series, cut.lake) == (spec.publish.table, spec.publish.lake)
    assert cut.history == {"policy": spec.policy, "hold_back": 2}
    with pytest.raises(SpecError, match=r"history cannot be combined with engine spark.*choose engine local"):
        load_spec(write(engine="spark", history=history))


@pytest.mark.parametrize("kind", ["fragments", "spark"])
@pytest.mark.parametrize(
    "changes",
    [
        {"schema": PUBLIC, "release": {"method": "errph", "p_0": 0.5}, "schedule": None},
        {"outliers": {"action": "report"}},
        {**PRIVATE, "budget": {"dataset": "people", "curator_report": True}},
    ],
    ids=["answers", "outliers", "curator"],
)
def test_what_an_engine_goes_with(kind: str, changes: dict[str, Any], write: Write) -> None:
    assert load_spec(write(engine=kind, **changes)).scaled


def test_a_curators_report_on_a_large_table_is_written_only_where_it_is_asked_for(write: Write) -> None:
    fields = {**PRIVATE, "budget": {"dataset": "people", "curator_report": True}}
    silent = {**PRIVATE, "budget": {"dataset": "people"}}
    assert load_spec(write(engine="fragments", **fields)).reports_to_curator
    assert not load_spec(write(engine="fragments", **silent)).reports_to_curator
    assert load_spec(write(engine="local", **silent)).reports_to_curator


def test_the_methods_that_are_refused_are_those_that_the_engine_refuses() -> None:
    anonymizers = [name for name in method_names() if issubclass(method_class(name), Anonymizer)]
    assert [name for name in method_names() if is_anonymizer(name)] == anonymizers
    refused = set()
    for name in anonymizers:
        try:
            fragmentable(load_method(name))
        except SpecError:
            refused.add(name)
    assert refused == {name for name in anonymizers if needs_whole_table(name)}


def test_a_kind_alone_stands_for_its_mapping(write: Write) -> None:
    short, long = load_spec(write(engine="fragments")), load_spec(write(engine={"kind": "fragments"}))
    assert short.engine == long.engine
    assert read_engine(short.engine.settings) == read_engine("fragments")
    assert (short.engine.rows, short.scaled, short.mapped) == (DEFAULT_ROWS, True, True)
    assert not load_spec(write(engine="local")).scaled


def test_the_settings_of_a_file_are_those_of_the_engine(write: Write) -> None:
    given = {"kind": "fragments", "rows": 7_000, "memory": "2GB", "processes": 3}
    found = read_engine(load_spec(write(engine={**given, "mapped": False})).engine.settings)
    assert found == read_engine(given)
    assert set(EngineSpec.model_fields) == {*found.to_ref(), "mapped"}


def test_editors_know_both_forms() -> None:
    schema = json_schema()
    short, long = schema["properties"]["engine"]["anyOf"]
    assert short["enum"] == ["local", "fragments", "spark"]
    assert long["$ref"].endswith("/EngineSpec")
    assert schema["$defs"]["EngineSpec"]["properties"]["kind"]["enum"] == short["enum"]


def test_without_an_engine_the_tasks_are_what_they_were(write: Write) -> None:
    tasks = chain(write())
    assert tasks == chain(write(engine="local"))
    assert set(tasks) == {"ingest", "validate", "release", "verify", "publish", "cleanup", "done"}


def test_fragments_are_mapped_tasks_between_validation_and_the_release(write: Write) -> None:
    tasks = chain(write(engine="fragments"))
    assert set(tasks) == {*chain(write(engine="local")), "cut", "release_fragment"}
    assert tasks["cut"] == {"validate"}
    assert tasks["release_fragment"] == {"cut"}
    assert tasks["release"] == {"release_fragment"}
    assert tasks["verify"] == {"release"}
    assert release_dag(load_spec(write(engine="fragments"))).get_task("release_fragment").is_mapped


@pytest.mark.parametrize(
    ("engine", "more"),
    [({"kind": "fragments", "mapped": False}, {}), ("spark", {}), ("fragments", PRIVATE)],
    ids=["pool", "spark", "private"],
)
def test_one_task_does_the_rest(engine: Any, more: dict[str, Any], write: Write) -> None:
    tasks = chain(write(engine=engine, **more))
    assert "cut" not in tasks
    assert tasks["release"] == {"validate"}
    assert "curator_report" not in tasks


def test_the_command_line_works_in_a_process_pool(write: Write, home: Path, tmp_path: Path) -> None:
    rows = pd.read_parquet(home / "people.parquet")
    large = pd.concat([rows] * 12, ignore_index=True)
    large["name"] = [f"person-{i:04d}" for i in range(len(large))]
    large.to_parquet(home / "people.parquet")
    path = write(engine={"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1})
    lake = Lake(root=str(tmp_path / "lake"))
    assert main(["run", str(path), "--lake", lake.root]) == DONE
    (entry,) = releases(lake.table("people"))
    assert read_release(lake.table("people"), entry["release_id"]).num_rows == len(large)
    assert manifest_of(lake.table("people"), entry["release_id"])["fragments"]["count"] >= 2
