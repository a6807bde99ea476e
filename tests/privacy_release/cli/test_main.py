"""The command line: what each command prints and returns, and that a refusal leaves nothing behind."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from fsspec.implementations.memory import MemoryFileSystem

import privacy_release
from privacy_engine.errors import PublishError, SpecError
from privacy_engine.registry import method_names
from privacy_engine.vocabulary import COUNTERFEITS
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.spec.methods import describe_methods, described_methods
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.presence import Owner
from tests.made import Made

ROOT = Path(__file__).parents[3]
COLUMNS = ["name", "age", "zip", "illness", "visits"]
COMMANDS = [
    ["run"],
    ["verify"],
    ["inspect"],
    ["retract"],
    ["schema"],
    ["schema", "infer"],
    ["schema", "json"],
    ["clean"],
]


@pytest.fixture(autouse=True)
def places(home: Path, tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)


@pytest.fixture
def spec(home: Path) -> str:
    return str(home / "releases" / "people.yaml")


def edit(path: str | Path, **fields: Any) -> None:
    path = Path(path)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}, sort_keys=False))


def left_behind(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "work").rglob("*"))


@pytest.fixture
def first(made: Callable[..., Made], lake: Lake) -> str:
    """A release of the same file, which is in the lake; its ID."""
    shutil.copytree(made().lake.root, lake.root)
    return made().release_id


@pytest.fixture
def released(made: Callable[..., Made], tmp_path: Path) -> Path:
    """The records of that release."""
    records = privacy_release.read_release(made().lake.table("people"), made().release_id)
    pq.write_table(records, tmp_path / "released.parquet")
    return tmp_path / "released.parquet"


@pytest.fixture
def manifest(made: Callable[..., Made], tmp_path: Path) -> Path:
    """Its manifest."""
    found = privacy_release.manifest_of(made().lake.table("people"), made().release_id)
    (tmp_path / "manifest.json").write_text(json.dumps(found))
    return tmp_path / "manifest.json"


def test_run_publishes_and_says_where_and_what_and_no_value_of_a_person(
    spec: str, people: pd.DataFrame, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", spec, "--release-id", "r1"]) == DONE
    out, err = capsys.readouterr()
    assert privacy_release.read_release(lake.table("people"), "r1").num_rows == 200
    assert "rows      200" in out
    assert "passed    k_anonymity(k=5): measured 5" in out
    assert all(stage in err for stage in ("ingest", "validate", "release", "verify", "publish"))
    assert not [value for value in {*people["name"], *people["illness"]} if value in out + err]
    (manifest, report) = (
        line.split()[1] for line in out.splitlines() if line.startswith(("manifest", "report"))
    )
    assert json.loads(Path(manifest).read_text())["rows"] == 200
    assert "<html" in Path(report).read_text()
    assert left_behind(tmp_path) == []


def percents(err: str) -> list[int]:
    """Those of the lines that say how far it is."""
    return [
        int(found) for found in re.findall(r"^(\d+) %(?:, about \d+ (?:s|min) left)?$", err, re.MULTILINE)
    ]


def test_run_says_in_a_log_how_far_it_is_until_all_is_done(
    spec: str, people: pd.DataFrame, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 0.0)  # as if each step took ten seconds
    assert main(["run", spec, "--release-id", "r1"]) == DONE
    err = capsys.readouterr().err
    reported = percents(err)
    assert reported == sorted(reported)
    assert reported.count(100) == 1
    assert len({*reported}) > 5
    assert not [value for value in {*people["name"], *people["illness"]} if value in err]


def test_a_short_run_says_in_a_log_nothing_of_how_far_it_is_and_is_named_by_the_time(
    spec: str, lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 3600.0)
    assert main(["run", spec]) == DONE
    assert percents(capsys.readouterr().err) == []
    (entry,) = privacy_release.releases(lake.table("people"))
    assert entry["release_id"].startswith("cli__2")


def test_a_run_that_is_refused_never_says_that_all_is_done(
    spec: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 0.0)
    edit(spec, release={"method": "mondrian", "k": 5, "l": 200})
    assert main(["run", spec, "--release-id", "r1"]) != DONE
    output = percents(capsys.readouterr().err)
    assert output
    assert 100 not in output


def test_run_shows_a_bar_with_percent_in_a_terminal(
    spec: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # at the end of what a terminal shows
            while more := os.read(here, 4096):
                shown.append(more)

    edit(spec, expectations=None)
    monkeypatch.setenv("TERM", "xterm")
    reader = Thread(target=read)
    reader.start()
    with os.fdopen(there, "w") as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        assert main(["run", spec, "--release-id", "r1"]) == DONE
    reader.join()
    os.close(here)
    reported = [int(found) for found in re.findall(r"(\d+) %", b"".join(shown).decode(errors="replace"))]
    assert reported == sorted(reported)
    assert reported[-1] == 100
    assert privacy_release.read_release(lake.table("people"), "r1").num_rows == 200


def test_run_prints_alerts_and_publishes_all_the_same(
    spec: str, lake: Lake, people: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(spec, alerts={"rows": {"falls_by": 0.2}, "prosecutor_max": {"above": 0.01}, "t": {"above": 0.5}})
    assert main(["run", spec, "--release-id", "r1"]) == DONE
    first = capsys.readouterr().out
    people.head(150).to_parquet(Path(spec).parents[1] / "people.parquet")
    assert main(["run", spec, "--release-id", "r2"]) == DONE
    second = capsys.readouterr().out
    warned = [line for line in second.splitlines() if line.startswith("warning ")]
    assert warned[0] == ("warning   Records released: 150, more than 20 % below 200, the last release")
    assert warned[1].startswith("warning   Prosecutor risk, highest: 20 % (1 in 5), above 1 %")
    assert warned[2].startswith("warning   alerts are incomplete: t of this release are not known")
    assert "Records released" not in first
    assert first.count("warning   ") == 2
    assert privacy_release.read_release(lake.table("people"), "r2").num_rows == 150
    assert not [value for value in {*people["name"], *people["illness"]} if value in second]


def test_run_takes_another_lake_and_keeps_the_work_area_where_asked(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    assert main(["run", spec, "--lake", str(other), "--release-id", "r1", "--keep-work"]) == DONE
    assert privacy_release.read_release(Lake(root=str(other)).table("people"), "r1").num_rows == 200
    assert [path.name for path in left_behind(tmp_path) if path.name == "staged.parquet"]
    assert "contains raw records, remove it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("requested", "code", "words"),
    [
        ({"require": [{"model": "k_anonymity", "k": 50}]}, WRONG, "release: k_anonymity(k=5) is weaker than"),
        ({"max_gcp": 0.001}, REFUSED, "the release does not keep its policy: max_gcp measured"),
    ],
)
def test_policy_stricter_than_the_method_is_refused_and_leaves_nothing(
    spec: str,
    home: Path,
    lake: Lake,
    first: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    requested: dict[str, Any],
    code: int,
    words: str,
) -> None:
    edit(home / "policies" / "people.yaml", **requested)
    assert main(["run", spec, "--release-id", "r2"]) == code
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert [entry["release_id"] for entry in privacy_release.releases(lake.table("people"))] == [first]
    assert privacy_release.read_release(lake.table("people"), first).num_rows == 200
    assert left_behind(tmp_path) == []


def test_guarantee_that_cannot_be_met_is_refused(spec: str, tmp_path: Path, lake: Lake) -> None:
    edit(spec, release={"method": "mondrian", "k": 500})
    assert main(["run", spec]) == REFUSED
    assert privacy_release.releases(lake.table("people")) == []
    assert left_behind(tmp_path) == []


def truncate(home: Path) -> None:
    data = (home / "people.parquet").read_bytes()
    (home / "people.parquet").write_bytes(data[:-100])


def change(home: Path, **columns: Any) -> None:
    table = pd.read_parquet(home / "people.parquet")
    table.assign(**columns).to_parquet(home / "people.parquet")


BAD_INPUTS = [
    pytest.param(truncate, "people.parquet must be a whole Parquet file", id="truncated"),
    pytest.param(
        lambda home: (home / "people.parquet").unlink(), "people.parquet must be a Parquet file", id="gone"
    ),
    pytest.param(lambda home: change(home, age="old"), "age: must be a number", id="wrong-type"),
    pytest.param(
        lambda home: change(home, age=121), "age: 200 values are out of the bounds", id="out-of-bounds"
    ),
    pytest.param(lambda home: change(home, zip="XX"), "zip: the hierarchy miss", id="unseen-category"),
    pytest.param(lambda home: change(home, illness=None), "illness: must be text", id="only-nulls"),
    pytest.param(
        lambda home: (
            pd.read_parquet(home / "people.parquet").drop(columns="zip").to_parquet(home / "people.parquet")
        ),
        "'zip'] are missing",
        id="missing-column",
    ),
    pytest.param(
        lambda home: pd.read_parquet(home / "people.parquet").head(0).to_parquet(home / "people.parquet"),
        "the table is empty",
        id="empty",
    ),
    pytest.param(
        lambda home: (home / "hierarchies" / "zip.csv").write_text("N1;north;*\n"),
        "zip: the hierarchy miss",
        id="tree",
    ),
    pytest.param(
        lambda home: (home / "expectations" / "people.json").write_text('{"name": "s", "expectations": []}'),
        "at least one of expectations",
        id="suite",
    ),
    pytest.param(
        lambda home: edit(home / "releases" / "people.yaml", policy="none.yaml"),
        "policy: the file",
        id="spec",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), BAD_INPUTS)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    spec: str,
    home: Path,
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Any,
    message: str,
) -> None:
    spoil(home)
    assert main(["run", spec]) == WRONG
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("privacy-release: ")
    assert message in last
    assert privacy_release.releases(lake.table("people")) == []
    assert left_behind(tmp_path) == []


def test_unreachable_lake_is_one_clear_line_and_leaves_nothing(
    spec: str, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(lake.root).write_text("a file stands where the lake should be")
    assert main(["run", spec]) == WRONG
    assert "check the lake's address" in capsys.readouterr().err.splitlines()[-1]
    assert left_behind(tmp_path) == []


def test_lake_must_be_named(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PRIVACY_LAKE")
    assert main(["run", spec]) == WRONG
    assert "give --lake DIR, set PRIVACY_LAKE, or write it into a" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--release-id", " padded "], ["--lake", "s3://key:secret@bucket"]],
    ids=["release-id", "lake"],
)
def test_wrong_argument_is_named(spec: str, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["run", spec, *arguments]) == WRONG
    err = capsys.readouterr().err
    assert arguments[0] in err
    assert "secret@" not in err


class Terminated(MemoryFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A store during whose download the process is stopped."""

    protocol = "gcs"
    opened = 0
    number = signal.SIGTERM

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("gcs://", "memory://")))

    def _open(self, path: str, *args: Any, **kwargs: Any) -> Any:
        if Terminated.opened:  # the footer was read before: these are the records
            signal.raise_signal(Terminated.number)
        Terminated.opened += 1
        return super()._open(path, *args, **kwargs)


@pytest.fixture
def heard(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that is heard: a shell starts what runs in its background deaf to some."""
    before = signal.signal(request.param, signal.default_int_handler)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize(
    "heard", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT], indirect=True
)
def test_run_that_is_stopped_removes_its_work_area(
    heard: signal.Signals,
    spec: str,
    home: Path,
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Terminated.opened, Terminated.number = 0, heard
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "gcs", Terminated)
    fsspec.filesystem("gcs").pipe_file("/people.parquet", (home / "people.parquet").read_bytes())
    edit(spec, source={"uri": "gcs://people.parquet", "columns": COLUMNS})
    before = signal.getsignal(heard)
    assert main(["run", spec]) == 128 + heard
    assert "interrupted" in capsys.readouterr().err
    assert signal.getsignal(heard) is before
    assert privacy_release.releases(lake.table("people")) == []
    assert left_behind(tmp_path) == []


def abandon(tmp_path: Path, key: str) -> WorkArea:
    """The work area of a process that is gone."""
    with WorkArea(tmp_path / "work", key) as work:
        work.path("raw.parquet").write_bytes(b"person-001")
    return work


def test_every_command_first_removes_what_killed_ones_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    abandon(tmp_path, "cli/people/r1/1")
    with WorkArea(tmp_path / "work", "alive") as alive:
        assert main(["list-methods"]) == DONE
        assert capsys.readouterr().err == "removed work areas that killed commands had left: 1\n"
        assert main(["list-methods"]) == DONE
        assert capsys.readouterr().err == ""
        assert [path.name for path in (tmp_path / "work").iterdir()] == [alive.folder.name]


def test_clean_says_what_it_removes_and_a_dry_run_removes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = abandon(tmp_path, "cli/people/r1/1")
    assert main(["clean", "--dry-run"]) == DONE
    out = capsys.readouterr().out
    assert "abandoned          cli/people/r1/1 (last sign of life 0:00:00 ago)" in out
    assert f"1 of 1 work areas in {tmp_path / 'work'} would be removed" in out
    assert work.path("raw.parquet").exists()
    assert main(["clean"]) == DONE
    out = capsys.readouterr().out
    assert "removed            cli/people/r1/1" in out
    assert f"1 of 1 work areas in {tmp_path / 'work'} were removed" in out
    assert left_behind(tmp_path) == []


def test_clean_leaves_what_is_kept_and_what_belongs_to_a_run_and_says_who_removes_it(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with WorkArea(tmp_path / "work", "dag/run 1", Owner.RUN):
        pass
    WorkArea(tmp_path / "work", "old").path("raw.parquet").write_bytes(b"x")
    assert main(["run", spec, "--release-id", "r1", "--keep-work"]) == DONE
    capsys.readouterr()
    assert main(["clean", "--idle", "1 minute"]) == DONE
    out, _ = capsys.readouterr()
    assert re.search(r"^kept +cli/people/r1/.*`clean --kept` removes it$", out, re.MULTILINE)
    assert re.search(r"^of an Airflow run +dag/run 1 .*sweeper DAG", out, re.MULTILINE)
    assert re.search(r"^no mark +old-\w+: .*earlier version", out, re.MULTILINE)
    assert "0 of 3 work areas" in out
    assert main(["clean", "--kept"]) == DONE
    assert "1 of 3 work areas" in capsys.readouterr().out
    assert main(["clean", "--idle", "soon"]) == WRONG
    assert "--idle: must be a whole number of minutes" in capsys.readouterr().err


@pytest.mark.slow  # two processes in a name space of mounts
def test_an_area_on_a_read_only_file_system_is_a_warning_and_a_run_there_says_what_to_do(
    spec: str, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting needs the right to unshare a name space")
    work = abandon(tmp_path, "cli/people/r1/1")
    root = tmp_path / "work"
    code = f"{sys.executable} -m privacy_release.cli.main"
    mounted = f"mount --bind {root} {root} && mount -o remount,ro,bind {root}"
    script = f"{mounted} && ({code} clean; echo code $?; {code} run {spec}; echo code $?)"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    message = f"the work area {work.folder} must be removed, because it is unused and contains records"
    assert f"not removed        {message}" in done.stdout
    assert re.findall(r"code (\d)", done.stdout) == ["2", "2"]
    assert f"warning: {message}, but that failed (Read-only file system)" in done.stderr
    assert f"privacy-release: the folder of work areas, {root}, must be writable" in done.stderr
    assert "Traceback" not in done.stderr
    assert work.path("raw.parquet").exists()


def test_verify_passes_and_fails_by_the_policy(
    spec: str, home: Path, released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "released.yaml").write_text(
        "age: {role: quasi_identifier}\nzip: {role: quasi_identifier}\n"
        "illness: {role: sensitive}\nvisits: {role: insensitive}\n"
    )
    (home / "strict.yaml").write_text("require: [{model: k_anonymity, k: 50}]\n")
    (home / "lax.yaml").write_text("require: [{model: k_anonymity, k: 5}]\n")
    table = str(released)
    for schema in (str(home / "released.yaml"), spec):
        assert main(["verify", table, "--policy", str(home / "lax.yaml"), "--schema", schema]) == DONE
    capsys.readouterr()
    arguments = ["verify", table, "--policy", str(home / "strict.yaml"), "--schema", spec]
    assert main(arguments) == REFUSED
    out, err = capsys.readouterr()
    assert "FAILED    k_anonymity(k=50): measured 5, missed by" in out
    assert err.count("\n") == 1


def test_verify_needs_the_manifest_for_limits_that_no_table_shows(
    spec: str, home: Path, released: Path, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = str(home / "policies" / "people.yaml")
    arguments = ["verify", str(released), "--policy", policy, "--schema", spec]
    assert main(arguments) == REFUSED
    assert "max_gcp: measured nothing measurable" in capsys.readouterr().out
    assert main([*arguments, "--manifest", str(manifest)]) == DONE


def test_verify_counts_no_people_where_some_records_are_no_ones(
    spec: str, home: Path, released: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = home / "lax.yaml"
    policy.write_text("require: [{model: k_anonymity, k: 2}]\n")
    fields = yaml.safe_load(Path(spec).read_text())["schema"] | {COUNTERFEITS: {"role": "insensitive"}}
    schema = home / "released.yaml"
    records = pq.read_table(released)
    del fields["name"]
    schema.write_text(yaml.safe_dump(fields))
    arguments = ["verify", str(released), "--policy", str(policy), "--schema", str(schema)]
    for first, code in ((0, DONE), (1, REFUSED)):
        reported = pa.array([first, *[0] * (len(records) - 1)])
        pq.write_table(records.append_column(COUNTERFEITS, reported), released)
        assert main(arguments) == code
    assert "1 record is in classes with counterfeits" in capsys.readouterr().err


def test_verify_refuses_a_table_with_an_identifier(
    spec: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "schema.yaml").write_text(yaml.safe_dump(yaml.safe_load(Path(spec).read_text())["schema"]))
    policy = str(home / "policies" / "people.yaml")
    arguments = [
        "verify",
        str(home / "people.parquet"),
        "--policy",
        policy,
        "--schema",
        str(home / "schema.yaml"),
    ]
    assert main(arguments) == REFUSED
    assert "identifiers ['name'] are in the release" in capsys.readouterr().err


def test_inspect_lists_releases_and_shows_one(
    spec: str, lake: Lake, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", spec, "--release-id", "r2"])
    capsys.readouterr()
    assert main(["inspect", f"{lake.root}/people"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == [first, "r2"]
    assert all("mondrian" in line for line in lines)
    assert "superseded" in lines[0]
    assert "current" in lines[1]
    assert len(DeltaTable(lake.table("people").address).to_pandas()) == 200  # no person twice
    assert main(["inspect", f"{lake.root}/people", "r2"]) == DONE
    shown = capsys.readouterr().out
    assert "passed    k_anonymity(k=5)" in shown
    assert '"method": "mondrian"' in shown
    pages = [line.split() for line in shown.splitlines()[:2]]
    assert [kind for kind, _ in pages] == ["report", "dictionary"]
    assert all("<!DOCTYPE html>" in Path(address).read_text() for _, address in pages)
    assert "data dictionary</title>" in Path(pages[1][1]).read_text()
    retract(lake.table("people"), "r2", "a test")
    assert main(["inspect", f"{lake.root}/people", "r2"]) == DONE
    assert "_proof" not in capsys.readouterr().out


def test_inspect_shows_a_manifest_file(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(manifest)]) == DONE
    assert "gcp" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["none", "../bad name"], ids=["no-table", "no-name"])
def test_inspect_of_nothing_is_an_error(lake: Lake, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", f"{lake.root}/{target}"]) == WRONG
    assert capsys.readouterr().err.count("\n") == 1


def test_superseded_releases_move_to_a_history_and_are_retracted_there(
    spec: str, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apart = Lake(root=str(tmp_path / "apart"))
    edit(
        spec,
        publish={"table": "people", "superseded": "history", "history_lake": "apart", "grace": "1 minute"},
    )
    run = ["run", spec, "--release-id"]
    assert main([*run, "r1"]) == WRONG
    assert "history lake" in capsys.readouterr().err
    for release_id in ("r1", "r2"):
        assert main([*run, release_id, "--history-lake", apart.root]) == DONE
    assert len(DeltaTable(lake.table("people").address).to_pandas()) == 200
    assert privacy_release.read_release(apart.table("people_history"), "r1").num_rows == 200
    capsys.readouterr()
    assert main(["table", f"{lake.root}/people", "--clear"]) == DONE
    output = capsys.readouterr().out
    assert f"has the mode snapshot; superseded releases: history, in {apart.root}/people_history" in output
    assert "0 releases moved, 0 files erased, 1 left for later" in output
    assert main(["retract", f"{lake.root}/people", "r1", "--reason", "wrong source"]) == DONE
    with pytest.raises(PublishError, match="retracted"):
        privacy_release.read_release(apart.table("people_history"), "r1")
    assert len(DeltaTable(lake.table("people").address).to_pandas()) == 200


def test_another_mode_is_refused_until_the_table_allows_it(
    spec: str, lake: Lake, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(spec, publish={"table": "people", "mode": "partitions"})
    assert main(["run", spec, "--release-id", "r2"]) == WRONG
    assert "--mode partitions" in capsys.readouterr().err
    assert main(["table", f"{lake.root}/people", "--mode", "partitions"]) == DONE
    assert main(["run", spec, "--release-id", "r2"]) == DONE
    assert len(DeltaTable(lake.table("people").address).to_pandas()) == 400
    edit(spec, publish={"table": "people", "mode": "append"})
    capsys.readouterr()
    for command in (["check", spec], ["run", spec, "--release-id", "r3"]):
        assert main(command) == WRONG
        assert "publish.mode: append" in capsys.readouterr().err


def test_retract_takes_a_release_back_once(
    spec: str, lake: Lake, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", spec, "--release-id", "r2"])
    arguments = ["retract", f"{lake.root}/people", first, "--reason", "wrong source"]
    assert [main(arguments), main(arguments)] == [DONE, DONE]
    assert [entry["state"] for entry in privacy_release.releases(lake.table("people"))] == [
        "retracted",
        "current",
    ]
    assert privacy_release.read_release(lake.table("people"), "r2").num_rows == 200
    capsys.readouterr()
    assert main(["retract", f"{lake.root}/people", "r9", "--reason", "wrong"]) == WRONG
    assert main(["retract", f"{lake.root}/people", "r2", "--reason", ""]) == WRONG
    assert capsys.readouterr().err.count("\n") == 2


def draft(capsys: pytest.CaptureFixture[str], table: Path, *arguments: str) -> str:
    assert main(["schema", "infer", str(table), *arguments]) == DONE
    return capsys.readouterr().out


def test_draft_cannot_run_before_a_person_decided_on_every_role(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = draft(capsys, home / "people.parquet")
    path = home / "releases" / "people.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    for column in ("age", "zip", "illness", "visits"):
        assert f"schema.{column}.role: must be" in str(caught.value)
    assert "  name: {role: identifier, kind: categorical}" in text  # each record has its own
    path.write_text(
        text.replace("role: TODO", "role: insensitive").replace("TODO.yaml", "policies/people.yaml")
    )
    assert load_spec(path).data_schema().names == ("name", "age", "zip", "illness", "visits")


def test_draft_guesses_kinds_and_says_what_it_shows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = draft(capsys, home / "people.parquet")
    schema = yaml.safe_load(text)["schema"]
    assert schema["age"] == {"role": "TODO", "kind": "numeric", "bounds": [10, 90]}
    assert schema["visits"]["kind"] == "ordinal"
    assert schema["zip"]["categories"] == ["N1", "N2", "S1", "S2"]
    assert "it contains values from the data" in text


def test_draft_names_no_value_of_few_people(
    home: Path, people: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = people.assign(illness=["plague"] * 9 + ["flu"] * 191, salary=[987_654] + [1_000] * 199)
    rare.to_parquet(home / "rare.parquet")
    text = draft(capsys, home / "rare.parquet").replace(str(home), "")
    assert not [value for value in (*people["name"], "plague", "987") if value in text]
    assert "1 rarer categories are not shown" in text
    assert "200 values in 200 records: not released unchanged" in text
    assert "plague" in draft(capsys, home / "rare.parquet", "--min-count", "9")


def test_draft_refuses_a_count_of_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "infer", str(home / "people.parquet"), "--min-count", "1"]) == WRONG
    assert "--min-count: the least count must be >= 2" in capsys.readouterr().err


def test_schema_json_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "json"]) == DONE
    assert json.loads(capsys.readouterr().out)["properties"]["schema"]


def test_list_methods_shows_every_method_with_parameters_and_guarantees(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list-methods"]) == DONE
    out = capsys.readouterr().out
    for name in method_names():
        assert f"\n{name}\n" in f"\n{out}"
    assert "    k: int = 5" in out
    assert "KAnonymity(k=5)" in out
    assert "differential privacy: none claimed" in out


@pytest.mark.parametrize("command", [[], *COMMANDS, ["list-methods"]], ids=lambda c: " ".join(c) or "all")
def test_help_is_there_for_every_command(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == DONE
    out = capsys.readouterr().out
    assert out.startswith("usage: privacy-release")
    assert len(out.splitlines()) > 4


@pytest.mark.parametrize("arguments", [[], ["run"], ["nonsense"], ["verify", "t"], ["schema"]], ids=" ".join)
def test_wrong_usage_exits_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == WRONG


def test_what_list_methods_prints_is_true_of_the_methods() -> None:
    assert described_methods() == describe_methods(), (
        "run `make docs`, and commit privacy_release/spec/methods.txt"
    )


def test_idle_threads_of_compiled_loops_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert main(["clean", "--dry-run"]) == DONE
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert main(["clean", "--dry-run"]) == DONE
    assert os.environ["OMP_WAIT_POLICY"] == "active"


def test_help_and_light_commands_import_nothing_heavy() -> None:
    heavy = ["pandas", "numpy", "pyarrow", "pydantic", "numba", "airflow", "deltalake", "rich"]
    code = (
        "import sys; from privacy_release.cli.main import build_parser, main; build_parser().format_help(); "
        "main(['list-methods']); main(['clean', '--dry-run']); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.slow  # starts a process for each command
def test_checking_a_suite_and_running_a_release_without_one_import_nothing_that_they_do_not_use(
    spec: str,
) -> None:
    fields = yaml.safe_load(Path(spec).read_text())
    del fields["expectations"]
    plain = Path(spec).with_name("plain.yaml")
    plain.write_text(yaml.safe_dump(fields | {"name": "plain"}, sort_keys=False))
    unused = (
        "airflow",
        "alembic",
        "altair",
        "great_expectations",
        "matplotlib",
        "pyspark",
        "sklearn",
        "sqlalchemy",
    )
    code = (
        "import sys; from privacy_release.cli.main import main; "
        f"code = main(['check', '--no-source', {spec!r}]) or main(['run', {str(plain)!r}]); "
        f"print(code, [m for m in {unused!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_unexpected_error_is_one_line_without_its_message(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise TypeError("person-007")

    monkeypatch.setattr("pyarrow.parquet.read_schema", fails)
    policy, spec = str(home / "policies" / "people.yaml"), str(home / "releases" / "people.yaml")
    arguments = ["verify", str(home / "people.parquet"), "--policy", policy, "--schema", spec]
    assert main(arguments) == WRONG
    err = capsys.readouterr().err
    assert err.startswith("privacy-release: unexpected TypeError")
    assert "person-007" not in err
    with pytest.raises(TypeError):
        main(["--debug", *arguments])


def test_a_manifest_of_another_type_is_refused_by_the_name_of_its_field(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "bad.json").write_text('{"loss": {"epsilon": "person-007"}}')
    policy, spec = str(home / "policies" / "people.yaml"), str(home / "releases" / "people.yaml")
    arguments = ["verify", str(home / "people.parquet"), "--policy", policy, "--schema", spec]
    assert main([*arguments, "--manifest", str(home / "bad.json")]) == REFUSED
    err = capsys.readouterr().err
    assert err.startswith("privacy-release: `loss.epsilon` of the manifest must be a number, got str")
    assert "person-007" not in err
