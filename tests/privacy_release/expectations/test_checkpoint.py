"""A named Checkpoint of a file context: its actions run, and no value or hash of a record reaches them."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import great_expectations as gx
import pandas as pd
import pytest
import yaml
from great_expectations.checkpoint.actions import (
    APINotificationAction,
    MicrosoftTeamsNotificationAction,
    SlackNotificationAction,
    UpdateDataDocsAction,
    ValidationAction,
)
from great_expectations.checkpoint.checkpoint import CheckpointResult
from great_expectations.render.renderer import SlackRenderer

import privacy_release
from privacy_engine.errors import SpecError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.expectations.checkpoint import run_actions, suites_of
from privacy_release.expectations.gate import run_suite
from privacy_release.lake.store import Lake
from privacy_release.spec.files import load_suite
from privacy_release.spec.model import load_spec

CANARY = "canary-7731"
BETWEEN = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "age", "min_value": 0}}
IN_SET = {
    "type": "expect_column_values_to_be_in_set",
    "kwargs": {"column": "illness", "value_set": ["none"], "result_format": "COMPLETE"},
}
DISTINCT = {
    "type": "expect_column_distinct_values_to_be_in_set",
    "kwargs": {"column": "illness", "value_set": ["none"]},
}
# What cannot be evaluated on text, and says so by quoting it.
MEAN = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "illness", "min_value": 1}}
OLDEST = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "age", "max_value": 1}}
REVEALING = (IN_SET, DISTINCT, MEAN, OLDEST)
AGE = 773155  # of one person


class OwnAction(ValidationAction):
    """Code of a user."""

    type: Literal["own"] = "own"

    def run(self, checkpoint_result: CheckpointResult, action_context: Any = None) -> dict[str, Any]:
        raise AssertionError("it must not be run")


class OwnRenderer(SlackRenderer):
    """Likewise, within an action of Great Expectations."""


@dataclass
class Inbox:
    """What actions have sent."""

    url: str
    letters: list[bytes] = field(default_factory=list)


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.letters.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        found = Inbox(url=f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A file context with one suite, validation and checkpoint, `daily`."""

    path: Path

    def files(self) -> dict[str, bytes]:
        """All that is in it."""
        return {str(p.relative_to(self.path)): p.read_bytes() for p in self.path.rglob("*") if p.is_file()}

    def edit(self, name: str, **fields: Any) -> None:
        """Change fields of a stored object."""
        path = self.path / name
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))


Make = Callable[..., Folder]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A context whose checkpoint expects ages, for copying."""
    return make_context(tmp_path_factory.mktemp("plain") / "gx", BETWEEN).path


@pytest.fixture
def make(home: Path, plain: Path) -> Make:
    """Makes a context in the include folder, as its owner does."""

    def context(*expectations: Any, **more: Any) -> Folder:
        folder = home / "gx"
        if more or expectations != (BETWEEN,):
            return make_context(folder, *expectations, **more)
        shutil.copytree(plain, folder)
        return Folder(path=folder)

    return context


def make_context(
    folder: Path, *expectations: Any, actions: Any = (), result_format: Any = "COMPLETE"
) -> Folder:
    """Make a context with one suite and the checkpoint `daily`."""
    made = gx.get_context(mode="file", context_root_dir=str(folder))
    frame = made.data_sources.add_pandas("tables").add_dataframe_asset("people")
    batch = frame.add_batch_definition_whole_dataframe("all")
    suite = made.suites.add(gx.ExpectationSuite(**{"name": "people", "expectations": list(expectations)}))
    validation = made.validation_definitions.add(
        gx.ValidationDefinition(name="people", data=batch, suite=suite)
    )
    made.checkpoints.add(
        gx.Checkpoint(
            name="daily",
            validation_definitions=[validation],
            actions=list(actions),
            result_format=result_format,
        )
    )
    return Folder(path=folder)


def everything(inbox: Inbox) -> list[Any]:
    return [
        MicrosoftTeamsNotificationAction(name="teams", teams_webhook=inbox.url),
        SlackNotificationAction(name="slack", slack_webhook=inbox.url, show_failed_expectations=True),
        UpdateDataDocsAction(name="docs"),
    ]


def table() -> pd.DataFrame:
    illness = [f"{CANARY}-{i}" for i in range(20)]
    return pd.DataFrame({"age": [*range(19), AGE], "illness": pd.Series(illness, dtype=object)})


def run(folder: Folder, records: pd.DataFrame) -> list[str]:
    suites = suites_of(str(folder.path), "daily")
    found = [run_suite(records, suite) for suite in suites]
    return run_actions(str(folder.path), "daily", suites, found)


def reported(folder: Folder, inbox: Inbox) -> bytes:
    return b"\n".join([*folder.files().values(), *inbox.letters])


@pytest.mark.quick("COMPLETE")  # the other formats hold less
@pytest.mark.parametrize("result_format", ["COMPLETE", "SUMMARY", "BASIC"])
def test_store_docs_and_actions_learn_which_held_and_no_value_or_hash(
    make: Make, inbox: Inbox, result_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = make(*REVEALING, BETWEEN, actions=everything(inbox), result_format=result_format)
    before = set(folder.files())
    assert run(folder, table()) == []
    left = reported(folder, inbox) + "".join(capfd.readouterr()).encode()
    for hidden in (CANARY, str(AGE), "fingerprint", "Traceback"):
        assert hidden.encode() not in left
    new = [name for name in folder.files() if name not in before]
    (stored,) = (name for name in new if name.startswith("uncommitted/validations/people"))
    results = json.loads(folder.files()[stored])
    held = {one["expectation_config"]["type"]: one["success"] for one in results["results"]}
    assert held == {entry["type"]: entry is BETWEEN for entry in (*REVEALING, BETWEEN)}
    assert all(one["result"] == {} for one in results["results"])
    assert results["statistics"]["unsuccessful_expectations"] == 4
    assert [name for name in new if "data_docs/local_site/validations/people" in name]
    teams, slack = inbox.letters
    assert b"daily" in teams
    assert b"daily - Failure" in slack


@pytest.mark.slow  # what the library does without us
@pytest.mark.parametrize(
    ("result_format", "leaks"), [("COMPLETE", [CANARY, str(AGE)]), ("BOOLEAN_ONLY", ["fingerprint", CANARY])]
)
def test_great_expectations_alone_would_tell_them(
    make: Make, inbox: Inbox, result_format: str, leaks: list[str]
) -> None:
    folder = make(*REVEALING, actions=everything(inbox), result_format=result_format)
    context = gx.get_context(mode="file", context_root_dir=str(folder.path))
    context.checkpoints.get("daily").run(batch_parameters={"dataframe": table()})
    left = reported(folder, inbox)
    assert [hidden for hidden in leaks if hidden.encode() not in left] == []


def test_an_expectation_that_great_expectations_would_drop_is_still_there(make: Make) -> None:
    folder = make(BETWEEN)
    (entry,) = json.loads((folder.path / "expectations/people.json").read_text())["expectations"]
    folder.edit("expectations/people.json", expectations=[entry, entry | {"type": "expect_column_to_exst"}])
    (suite,) = suites_of(str(folder.path), "daily")
    with pytest.raises(SpecError, match="did you mean expect_column_to_exist"):
        run_suite(table(), suite)


def test_there_must_be_such_a_context(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"must be a folder with great_expectations\.yml"):
        suites_of(str(tmp_path), "daily")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "great_expectations.yml").write_text("config_version: nonsense, secret-token\n")
    with pytest.raises(SpecError, match="cannot be opened") as refused:
        suites_of(str(tmp_path), "daily")
    assert "secret-token" not in str(refused.value)


def test_there_must_be_such_a_checkpoint(make: Make) -> None:
    folder = make(BETWEEN)
    with pytest.raises(SpecError, match=r"'dayly' of .* must exist \(did you mean daily\?\)"):
        suites_of(str(folder.path), "dayly")


@pytest.mark.parametrize(
    ("file", "fields", "says"),
    [
        ("checkpoints/daily.json", {"validation_definitions": []}, "must have a validation definition"),
        (
            "checkpoints/daily.json",
            {"validation_definitions": [{"name": "gone", "id": None}]},
            "cannot be loaded: Unable to retrieve validation definition name='gone'",
        ),
        (
            "checkpoints/daily.json",
            {"actions": [{"type": "unheard_of", "name": "x"}]},
            "no action of type unheard_of found.*act on the result in a task behind it",
        ),
        (
            "checkpoints/daily.json",
            {"actions": [{"type": "own", "name": "mine"}]},
            "action 'mine' runs .*OwnAction, which is not Great Expectations' own.*remove it",
        ),
        (
            "checkpoints/daily.json",
            {
                "actions": [
                    {
                        "type": "slack",
                        "name": "mine",
                        "slack_webhook": "http://localhost/secret-token",
                        "renderer": {"class_name": "OwnRenderer", "module_name": __name__},
                    }
                ]
            },
            "action 'mine' runs .*OwnRenderer, which is not Great Expectations' own",
        ),
        (
            "validation_definitions/people.json",
            {
                "data": {
                    "datasource": {"name": "elsewhere", "id": None},
                    "asset": {"name": "people", "id": None},
                    "batch_definition": {"name": "all", "id": None},
                }
            },
            "cannot be loaded: Could not find datasource named 'elsewhere'",
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_refused_by_name(
    make: Make, file: str, fields: dict[str, Any], says: str
) -> None:
    folder = make(BETWEEN)
    folder.edit(file, **fields)
    with pytest.raises(SpecError, match=f"checkpoint 'daily' of .*{says}") as refused:
        suites_of(str(folder.path), "daily")
    assert "secret-token" not in str(refused.value)


def test_a_checkpoint_of_other_data_is_refused(make: Make, tmp_path: Path) -> None:
    folder = make(BETWEEN)
    table().to_csv(tmp_path / "other.csv", index=False)
    context = gx.get_context(mode="file", context_root_dir=str(folder.path))
    asset = context.data_sources.add_pandas("files").add_csv_asset("other", tmp_path / "other.csv")
    batch = asset.add_batch_definition("all")
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(name="other", data=batch, suite=context.suites.get("people"))
    )
    context.checkpoints.add(gx.Checkpoint(name="other", validation_definitions=[validation]))
    with pytest.raises(SpecError, match="'other' in the data source 'files' of type pandas, which is other"):
        suites_of(str(folder.path), "other")


@pytest.fixture
def release(home: Path, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release that names the checkpoint `daily` of the context `gx`."""
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text()) | {"expectations": {"context": "gx", "checkpoint": "daily"}}
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    return path


def test_a_release_runs_its_checkpoint(make: Make, inbox: Inbox, release: Path, lake: Lake) -> None:
    folder = make(BETWEEN, actions=everything(inbox))
    assert main(["check", str(release)]) == DONE
    assert inbox.letters == []  # nothing is reported that was not run
    assert main(["run", str(release), "--release-id", "r1"]) == DONE
    assert privacy_release.read_release(lake.table("people"), "r1").num_rows == 200
    assert len(inbox.letters) == 2
    spec = load_spec(release)
    assert spec.suite_given == {"context": str(folder.path), "checkpoint": "daily"}
    assert load_suite({"context": "gx", "checkpoint": "daily"}) == spec.suite_given


def test_a_checkpoint_that_does_not_hold_stops_the_release_and_tells_so(
    make: Make,
    inbox: Inbox,
    release: Path,
    people: pd.DataFrame,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = make(BETWEEN, IN_SET, MEAN, actions=everything(inbox))
    assert main(["run", str(release)]) == WRONG
    said = "".join(capfd.readouterr())
    assert "2 of 3 expectations failed: expect_column_values_to_be_in_set(illness)" in said
    assert len(inbox.letters) == 2
    for value in {*people["name"], "measles"}:
        assert value.encode() not in reported(folder, inbox) + said.encode()
    assert not (tmp_path / "lake" / "people").exists()


def test_an_action_that_fails_fails_the_step_by_name(
    make: Make, release: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # This action of Great Expectations prints what went wrong, with its address.
    make(BETWEEN, actions=[APINotificationAction(name="api", url="secret-token://127.0.0.1")])
    assert main(["run", str(release)]) != DONE
    said = " ".join("".join(capfd.readouterr()).split())
    assert "the expectations are met, but action 'api' (" in said
    assert "secret-token" not in said


def test_a_wrong_checkpoint_is_found_by_check_with_its_line(
    make: Make, release: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(release)]) == WRONG
    assert "great_expectations.yml must exist" in capfd.readouterr().err
    make(BETWEEN)
    release.write_text(release.read_text().replace("checkpoint: daily", "checkpoint: dayly"))
    (line,) = (
        number
        for number, text in enumerate(release.read_text().splitlines(), 1)
        if text.startswith("  checkpoint:")
    )
    assert main(["check", str(release)]) == WRONG
    said = capfd.readouterr().err
    assert f"{release}:{line}: " in said
    assert "(did you mean daily?)" in said


@pytest.mark.parametrize("way", ["plugins", "elsewhere", "a store", "a site"])
def test_a_context_brings_no_code(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    folder = make(BETWEEN)
    marker = tmp_path / "marker"
    config = yaml.safe_load((folder.path / "great_expectations.yml").read_text())
    code = folder.path / ("own" if way == "elsewhere" else "plugins") / "foreign_of_test.py"
    code.parent.mkdir(exist_ok=True)
    code.write_text(f"open({str(marker)!r}, 'w').close()\nclass Mine:\n    pass\n")
    if way == "elsewhere":
        config["plugins_directory"] = "own/"
    elif way != "plugins":
        part = config["stores" if way == "a store" else "data_docs_sites"]
        part["mine"] = {"module_name": "foreign_of_test", "class_name": "Mine"}
        monkeypatch.syspath_prepend(str(code.parent))
        if way == "a site":
            code.rename(tmp_path / "foreign_of_test.py")
            monkeypatch.syspath_prepend(str(tmp_path))
    (folder.path / "great_expectations.yml").write_text(yaml.safe_dump(config))
    with pytest.raises(SpecError, match=r"code .*context_plugins"):
        suites_of(str(folder.path), "daily")
    assert not marker.exists()


def test_a_deployment_may_allow_contexts_with_code(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(BETWEEN)
    (folder.path / "plugins").mkdir(exist_ok=True)
    (folder.path / "plugins" / "mine.py").write_text("")
    monkeypatch.setenv("PRIVACY_CONTEXT_PLUGINS", "allow")
    assert suites_of(str(folder.path), "daily")
