"""`privacy-release check`: right or wrong for each file, with what only the engine and the gate can know."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from deploy.local.embedded import checkout
from privacy_engine.dp.limits import Limit
from privacy_release.checking import source
from privacy_release.cli.main import DONE, main
from privacy_release.cli.main import WRONG as WRONG_FILE
from privacy_release.lake.store import Lake
from privacy_release.spec.catalogue import catalogue
from tests import tables
from tests.bad_files import write_neighbour
from tests.ledgers import new_ledger
from tests.wrong_files import (
    HIERARCHY,
    POLICY,
    RELEASE,
    RIGHT,
    WRONG,
    Wrong,
    row_of,
    write_right,
    write_wrong,
)


def test_all_releases_of_the_include_folder_are_checked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_neighbour(home)
    (home / "policies" / "people.yaml").write_text("zz: 2024-02-31\n")
    assert main(["check"]) == WRONG_FILE
    output = capsys.readouterr()
    assert output.out == f"{home / 'releases' / 'steady.yaml'}: right\n"
    assert str(home / "releases" / "people.yaml") in output.err
    assert main(["check", str(home / "releases" / "steady.yaml")]) == DONE


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (("release", "k"), 1, "k must be"),
        (("release", "unknown"), 1, "unknown"),
        (("schema", "age", "bounds"), [90, 17], "bounds must be two finite numbers"),
    ],
)
def test_what_only_the_engine_knows_is_checked(
    home: Path, place: tuple[str, ...], value: object, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "releases" / "people.yaml"
    fields = here = yaml.safe_load(path.read_text())
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    path.write_text(yaml.safe_dump(fields))
    assert main(["check", str(path)]) == WRONG_FILE
    assert expected in capsys.readouterr().err


def test_an_expectation_that_no_one_knows_is_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = home / "expectations" / "people.json"
    suite.write_text(suite.read_text().replace("not_be_null", "not_be_nul"))
    assert main(["check", str(home / "releases" / "people.yaml")]) == WRONG_FILE
    assert "did you mean expect_column_values_to_not_be_null" in capsys.readouterr().err


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.about)
def test_a_wrong_file_is_reported_by_file_line_field_and_what_is_meant(
    case: Wrong, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_neighbour(home)
    write_wrong(home, case)
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    place, _, text = line.partition(": ")
    assert place == f"{home / (case.found or case.file)}:{case.line}"
    assert case.says in text
    if case.file != RELEASE and not case.found:
        text = text.removesuffix(f" (named by {home / RELEASE})")
    assert main(["check", "--json", str(home / RELEASE)]) == WRONG_FILE
    (file,) = json.loads(capsys.readouterr().out)
    (problem,) = file["problems"]
    assert (problem["line"], problem["field"], problem["problem"]) == (case.line, case.field, text)
    faults = [fault for fault in catalogue().faults if str(home / RELEASE) in fault]
    assert [f"line {case.line}: {text}" in fault for fault in faults] == [True] * case.parsed


def test_the_file_that_all_wrong_ones_are_made_of_is_right(home: Path) -> None:
    write_right(home)
    assert main(["check", str(home / RELEASE)]) == DONE


def test_all_independent_problems_of_a_release_are_reported_at_once(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    changes = {
        RELEASE: ("  k: 5", "  k: 1"),
        POLICY: ("max_suppressed: 0.1", "max_suppressed: -1\nmax_gpc: 1"),
        HIERARCHY: ("S1;south;*", "S1;*"),
    }
    for file, (old, new) in changes.items():
        (home / file).write_text(RIGHT[file].replace(old, new))
    write_neighbour(home)
    assert main(["check", str(home / RELEASE), str(home / "releases" / "steady.yaml")]) == WRONG_FILE
    output = [line.partition(": ")[0] for line in capsys.readouterr().err.splitlines()]
    own = [(HIERARCHY, 3), (POLICY, 7), (POLICY, 6), (RELEASE, 17)]
    assert output[:4] == [f"{home / file}:{line}" for file, line in own]
    assert len(output) == 8  # of the second release, which has separate files, too


def test_all_fields_of_a_release_file_are_reported_at_once(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    text = RIGHT[RELEASE].replace("mondrian", "mondrain").replace("kind: numeric", "kind: number")
    (home / RELEASE).write_text(text)
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    output = [line.split(":")[1] for line in capsys.readouterr().err.splitlines()]
    assert output == ["8", "13", "16"]


def test_an_asset_of_someone_elses_dag_is_named(home: Path) -> None:
    write_right(home)
    (home / RELEASE).write_text(RIGHT[RELEASE].replace('"@daily"', "{assets: [customers, steady]}"))
    write_neighbour(home)
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    assert main(["check", "--published", "customers,orders", str(home / RELEASE)]) == DONE


def test_a_release_that_waits_for_itself_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_right(home)
    (home / RELEASE).write_text(RIGHT[RELEASE].replace('"@daily"', "{asset: people}"))
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    assert "the asset people, which no other release publishes" in capsys.readouterr().err


def test_each_column_that_the_engine_refuses_is_reported_beside_that_of_the_person(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    text = (
        RIGHT[RELEASE]
        .replace("[0, 120]", "[120, 0]")
        .replace("{role: insensitive, ", "{bounds: [9, 1], role: insensitive, ")
    )
    (home / RELEASE).write_text(text + "person: name\n")
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    output = [line.split(":")[1] for line in capsys.readouterr().err.splitlines()]
    assert output == ["8", "13"]


def test_a_policy_of_less_loss_than_the_method_has_is_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    (home / POLICY).write_text("max_epsilon: 1\n")
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    assert f"{RELEASE}:15: release: mondrian claims no differential privacy" in capsys.readouterr().err


def test_what_a_file_names_is_never_a_secret_or_a_value(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    wrong = RIGHT[RELEASE].replace("lake: lake_default", "lake: hunter 2").replace("k: 5", "k: hunter2")
    wrong = wrong.replace(
        "kind: numeric, bounds: [0, 120]", "kind: numeric, bins: hunter2, nullable: hunter2"
    )
    (home / RELEASE).write_text(wrong)
    (home / HIERARCHY).write_text(RIGHT[HIERARCHY].replace("N2;north;*", "hunter2;north;hunter2"))
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    output = capsys.readouterr()
    assert "hunter" not in output.err + output.out


@pytest.fixture
def missing(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release whose hierarchy has no row for a value of the source."""
    for option in ("PRIVACY_CURATOR", "PRIVACY_WORK_AREA"):
        monkeypatch.setenv(option, str(tmp_path / option))
    write_right(home)
    (home / HIERARCHY).write_text(RIGHT[HIERARCHY].replace("S2;south;*\n", ""))
    return home


def test_a_source_is_compared_with_its_hierarchies_in_counts(
    missing: Path, people: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = int((people["zip"] == "S2").sum())
    assert main(["check", "--no-source", str(missing / RELEASE)]) == DONE
    capsys.readouterr()
    assert main(["check", str(missing / RELEASE)]) == WRONG_FILE
    output = capsys.readouterr()
    assert f"{RELEASE}:9: " in output.err
    assert f"the hierarchy misses 1 distinct value in {rows} rows" in output.err
    assert "S2" not in output.err + output.out
    assert not (tmp_path / "PRIVACY_CURATOR").exists()
    assert not [path for path in (tmp_path / "PRIVACY_WORK_AREA").rglob("*") if path.is_file()]


def test_a_large_source_is_read_only_where_asked(
    missing: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(missing / RELEASE)
    monkeypatch.setattr(source, "FEW", 199)  # of 200 records
    assert main(["check", path]) == DONE
    assert capsys.readouterr().out == f"{path}: right; the source was not read (--source)\n"
    assert main(["check", "--no-source", path]) == DONE
    assert capsys.readouterr().out == f"{path}: right\n"
    assert main(["check", "--source", path]) == WRONG_FILE
    monkeypatch.setattr(source, "FEW", 200)
    assert main(["check", path]) == WRONG_FILE
    capsys.readouterr()
    (missing / "people.parquet").unlink()
    assert main(["check", path]) == DONE
    assert "the source was not read" in capsys.readouterr().out
    (missing / "people.parquet").write_bytes(b"no Parquet file")
    assert main(["check", path]) == WRONG_FILE
    assert main(["check", "--no-source", "--source", path]) == WRONG_FILE


def test_the_values_that_a_hierarchy_misses_are_written_for_the_curator_alone(
    missing: Path, people: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = int((people["zip"] == "S2").sum())
    assert main(["check", "--curator", str(missing / RELEASE)]) == WRONG_FILE
    output = capsys.readouterr()
    assert "S2" not in output.err + output.out
    (file,) = (path for path in (tmp_path / "PRIVACY_CURATOR").rglob("*") if path.is_file())
    assert str(file) in output.err
    assert file.read_text() == f"column;value;records\nzip;S2;{rows}\n"
    assert file.stat().st_mode & 0o077 == 0


def test_a_source_that_fits_is_right(missing: Path) -> None:
    write_right(missing)
    assert main(["check", "--curator", str(missing / RELEASE)]) == DONE


def test_an_approver_who_is_no_user_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_right(home)
    text = RIGHT[RELEASE] + "approval:\n  assigned_to: [olga, oficer]\n"
    (home / RELEASE).write_text(text)
    assert main(["check", "--users", "olga,officer", str(home / RELEASE)]) == WRONG_FILE
    output = capsys.readouterr().err
    assert (
        f"{RELEASE}:24: approval.assigned_to names oficer, which is no user (did you mean officer?)" in output
    )
    assert main(["check", "--users", "olga,oficer", str(home / RELEASE)]) == DONE


def test_the_page_of_mistakes_says_what_check_says() -> None:
    page = (checkout() / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert len(WRONG) >= 20
    assert "\n".join(map(row_of, WRONG)) in page
    assert f"```yaml\n{RIGHT[RELEASE]}```" in page


def test_a_source_that_is_not_there_is_reported_at_its_address(
    missing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (missing / "people.parquet").unlink()
    assert main(["check", "--curator", str(missing / RELEASE)]) == WRONG_FILE
    assert f"{RELEASE}:4: " in capsys.readouterr().err


def test_what_a_schedule_promises_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    weekly = checkout() / "include" / "releases" / "adult_synthetic_weekly.yaml"
    assert main(["check", str(weekly)]) == 0
    promise = "Each person's loss is at most epsilon 1 and delta 1e-9 in any 365 days"
    assert promise in capsys.readouterr().out
    assert main(["check", "--json", str(weekly)]) == 0
    (output,) = json.loads(capsys.readouterr().out)
    assert output["promise"].startswith(promise)
    assert "spends epsilon 0.5 in addition, once" in output["promise"]


def write_private(home: Path, max_epsilon: float = 1) -> None:
    """Write a release that spends an epsilon of 1, which is right unless the policy allows less."""
    write_right(home)
    private = yaml.safe_load((home / RELEASE).read_text())
    private |= {"budget": {"dataset": "people"}, "release": {"method": "privbayes", "epsilon": 1}}
    private["schema"] = tables.fields("name", "age", "illness", **tables.PUBLIC)
    private["source"]["columns"] = list(private["schema"])
    (home / RELEASE).write_text(yaml.safe_dump(private))
    (home / POLICY).write_text(f"max_epsilon: {max_epsilon}\n")


def test_mistakes_of_a_file_hide_none_of_what_it_says_with_its_policy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_private(home)
    private = yaml.safe_load((home / RELEASE).read_text())
    del private["schema"]["illness"]["categories"]
    (home / RELEASE).write_text(yaml.safe_dump(private))
    policy = {"require": [{"model": "distinct_l_diversity", "l": 2, "attribute": "ilness"}]}
    (home / POLICY).write_text(yaml.safe_dump(policy))
    assert main(["check", "--no-source", str(home / RELEASE)]) == WRONG_FILE
    first, second = sorted(capsys.readouterr().err.splitlines(), key=lambda line: "policy" in line)
    assert "attributes ['illness'] have no public domain" in first
    assert "did you mean illness?" in second


def test_what_could_not_be_judged_is_reported_and_wrong_only_where_asked(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_private(home)
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    path = str(home / RELEASE)
    assert main(["check", path]) == DONE
    unread = "the source was not read (--source)"  # which is reported in counts
    assert capsys.readouterr().out == f"{path}: right; {unread}; not judged: ledger\n"
    assert main(["check", "--strict", path]) == WRONG_FILE
    assert not (tmp_path / "ledger.db").exists()
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=0.5), reason="a test", by="officer")
    capsys.readouterr()
    assert main(["check", path]) == DONE
    output = capsys.readouterr().out.splitlines()
    assert output[0] == f"{path}: right; {unread}"
    assert output[1].startswith(f"{path}: not now: data set people cannot pay epsilon 1")
    assert main(["check", "--strict", path]) == WRONG_FILE
    ledger.grant("people", Limit(epsilon=2), reason="a test", by="officer")
    assert main(["check", "--strict", path]) == DONE


def test_check_and_run_refuse_an_old_copy_of_the_ledger(
    home: Path,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_private(home)
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    file = tmp_path / "ledger.db"
    monkeypatch.setenv("PRIVACY_LEDGER", str(file))
    ledger = new_ledger(file)
    ledger.grant("people", Limit(epsilon=2), reason="a test", by="officer")
    shutil.copy(file, tmp_path / "old.db")
    assert main(["run", str(home / RELEASE), "--release-id", "1"]) == DONE
    shutil.copy(tmp_path / "old.db", file)
    capsys.readouterr()
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    assert "lacks one: it was replaced by an old copy" in capsys.readouterr().err
    assert main(["run", str(home / RELEASE), "--release-id", "2"]) != DONE
    assert "lacks one: it was replaced by an old copy" in capsys.readouterr().err
    (standing,) = ledger.standing("people")
    assert standing.spent == 0


def test_a_ledger_out_of_reach_hides_no_mistake(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.db").write_text("no ledger")
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    for epsilon, said in ((0.5, "max_epsilon 1"), (1, "ledger.db")):
        write_private(home, epsilon)
        assert main(["check", str(home / RELEASE)]) == WRONG_FILE
        output = capsys.readouterr().err.splitlines()
        assert len(output) == 1
        assert said in output[0]


def test_a_second_release_of_people_no_one_follows_is_reported_by_the_lake(
    home: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_right(home)
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    release = yaml.safe_load((home / RELEASE).read_text()) | {"schedule": None}
    (home / RELEASE).write_text(yaml.safe_dump(release))
    assert main(["run", str(home / RELEASE), "--release-id", "1"]) == DONE
    policy = yaml.safe_load((home / POLICY).read_text()) | {"repeated_people": "history"}
    (home / POLICY).write_text(yaml.safe_dump(policy))
    assert main(["check", str(home / RELEASE)]) == WRONG_FILE
    assert "table people has 1 earlier releases" in capsys.readouterr().err


def test_bins_that_are_too_coarse_for_their_bounds_are_warned_of(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_private(home)
    private = yaml.safe_load((home / RELEASE).read_text())
    private["schema"]["age"] |= {"kind": "numeric", "bounds": [0, 100_000_000], "scale": "linear"}
    (home / RELEASE).write_text(yaml.safe_dump(private))
    assert main(["check", "--no-source", str(home / RELEASE)]) == DONE
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert "age: 10 bins of equal width between 0 and 100,000,000 cannot distinguish most values" in line


def test_a_delta_that_raises_the_noise_of_few_attributes_is_warned_of(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_private(home)
    private = yaml.safe_load((home / RELEASE).read_text())
    private["release"] = {"method": "latent_class", "epsilon": 1, "delta": 1e-9}
    (home / RELEASE).write_text(yaml.safe_dump(private))
    assert main(["check", "--no-source", str(home / RELEASE)]) == DONE
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert "with 2 attributes, noise at delta 1e-09 is 2.0 times the noise without a delta" in line
