"""A release of random answers by its specification: what may stand in it, and its run without Airflow."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from privacy_engine.dp.limits import Limit
from privacy_engine.errors import SpecError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from tests.ledgers import new_ledger

SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "hierarchy": "hierarchies/zip.csv"},
    "illness": {
        "role": "sensitive",
        "kind": "categorical",
        "categories": ["cold", "cough", "flu", "measles"],
    },
    "visits": {"role": "quasi_identifier", "kind": "ordinal", "bounds": [0, 9]},
}
RELEASE = {"method": "errph", "p_0": 0.5, "randomness": "memoised", "secret": "people_secret"}
Write = Callable[..., Path]


def but(**changes: Any) -> dict[str, Any]:
    """The release with changed fields; those that are None are left out."""
    return {name: value for name, value in {**RELEASE, **changes}.items() if value is not None}


@pytest.fixture
def write(home: Path) -> Write:
    """Write the specification of a memoised release; fields that are None are left out."""

    def written(**changes: Any) -> Path:
        path = home / "releases" / "people.yaml"
        fields = {
            **yaml.safe_load(path.read_text()),
            "schema": SCHEMA,
            "release": RELEASE,
            "policy": "policies/random.yaml",
            "budget": {"dataset": "people"},
            **changes,
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        path.write_text(yaml.safe_dump(fields, sort_keys=False))
        (home / "policies" / "random.yaml").write_text("max_epsilon: 12\nmax_delta: 0\n")
        return path

    return written


TWO = {**SCHEMA, "visits": {"role": "identifier", "kind": "ordinal"}}
NONE = {**SCHEMA, "name": {"role": "insensitive", "kind": "categorical"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": but(randomness=None, secret=None)}, "release.randomness must be memoised on a schedule"),
        ({"release": but(randomness="seeded", secret=None)}, "must be memoised on a schedule"),
        ({"release": but(secret=None)}, "release.secret, the connection of the secret, requires"),
        ({"release": but(randomness="system")}, "requires randomness: memoised, and the other way round"),
        (
            {"release": {"method": "mondrian", "k": 5, "secret": "x"}},
            "requires randomness: memoised",
        ),
        ({"release": but(replaces="the old one")}, "release.replaces"),
        ({"schema": NONE}, "schema must have a single identifier by which answers are memoised"),
        ({"schema": TWO}, "name it as release.individual if there are several"),
        ({"release": but(individual="zip")}, "schema must have a single identifier"),
        ({"release": but(p_0=None)}, "release.epsilon or p_0 requires a budget"),
    ],
    ids=str,
)
def test_what_would_wear_the_answers_out_is_refused(
    changes: dict[str, Any], message: str, write: Write
) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec(write(**changes))


@pytest.mark.parametrize(
    ("changes", "individual"),
    [
        ({}, "name"),
        ({"schema": TWO, "release": but(individual="visits")}, "visits"),
        ({"schedule": None, "release": but(randomness=None, secret=None)}, None),
        ({"release": but(replaces="0" * 32)}, "name"),
    ],
    ids=str,
)
def test_the_identifier_that_is_kept_is_the_one_that_answers_go_by(
    changes: dict[str, Any], individual: str | None, write: Write
) -> None:
    assert load_spec(write(**changes)).individual == individual


# The run without Airflow


@pytest.fixture
def ledger(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The ledger, the lake and the folders of the command line; an epsilon of 30 for `people`."""
    places = {"LEDGER": "ledger.db", "WORK_AREA": "work", "CURATOR": "curator"}
    for name, place in places.items():
        monkeypatch.setenv(f"PRIVACY_{name}", str(tmp_path / place))
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    monkeypatch.setenv("PRIVACY_SECRET", secrets.token_hex(32))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=30.0), reason="a test", by="officer")
    return made


def test_runs_repeat_their_answers_and_are_booked_once_for_the_same_records(
    write: Write, ledger: BudgetLedger, lake: Lake, tmp_path: Path
) -> None:
    path = str(write())
    for week in ("week 1", "week 2"):
        assert main(["run", path, "--release-id", week]) == DONE
    assert len({entry["sha256"] for entry in releases(lake.table("people"))}) == 1
    assert [entry.event.value for entry in ledger.check("people")] == ["grant", "reserve", "commit"]
    assert list(read_release(lake.table("people"), "week 2").column_names) == [
        "age",
        "zip",
        "illness",
        "visits",
    ]
    assert not (tmp_path / "curator").exists()  # nothing is compared with the source
    assert not list((tmp_path / "work").rglob("*"))


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (None, "must be in the environment variable PRIVACY_SECRET"),
        ("too short", "at least 32 random bytes, got 9"),
    ],
)
def test_a_run_without_its_secret_fails_before_its_records_are_read(
    secret: str | None,
    message: str,
    write: Write,
    home: Path,
    ledger: BudgetLedger,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PRIVACY_SECRET")
    if secret is not None:
        monkeypatch.setenv("PRIVACY_SECRET", secret)
    path = str(write())
    (home / "people.parquet").unlink()
    assert main(["run", path]) == WRONG
    assert message in capsys.readouterr().err


def test_shares_are_reconstructed_on_the_command_line_with_standard_errors(
    write: Write, ledger: BudgetLedger, lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", str(write()), "--release-id", "week 1"]) == DONE
    capsys.readouterr()
    assert main(["reconstruct", f"{lake.root}/people", "week 1", "--csv"]) == DONE
    (tmp_path / "shares.csv").write_text(capsys.readouterr().out)
    shares = pd.read_csv(tmp_path / "shares.csv")
    assert set(shares["attribute"]) == {"zip", "illness"}
    assert shares.groupby("attribute")["share"].sum().to_numpy() == pytest.approx(1)
    assert (shares["standard_error"] > shares["randomization_error"]).all()
    assert main(["reconstruct", f"{lake.root}/people", "week 1", "--numbers"]) == DONE
    assert capsys.readouterr().out.split()[:3] == ["attribute", "mean", "mean_error"]


def test_only_random_answers_are_reconstructed(
    write: Write, ledger: BudgetLedger, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = write(release={"method": "mondrian", "k": 5}, budget=None, policy="policies/people.yaml")
    assert main(["run", str(plain), "--release-id", "week 1"]) == DONE
    assert main(["reconstruct", f"{lake.root}/people", "week 1"]) == WRONG
    assert "must be a randomized one, but its method is mondrian" in capsys.readouterr().err


def test_a_policy_limits_the_breach_coefficient(
    write: Write, home: Path, ledger: BudgetLedger, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write()
    (home / "policies" / "random.yaml").write_text("max_breach: 0.35\n")
    assert main(["run", str(path)]) != DONE
    # Of the grid with 6 values: k p_0^2 / ((k - 1) p_0 + 1) = 0.429; of 10 visits 0.4545.
    assert "max_breach measured 0.4545" in capsys.readouterr().err
    assert releases(lake.table("people")) == []


def test_a_manifest_tells_the_randomization_and_no_exact_figure_of_the_source(
    write: Write, ledger: BudgetLedger, lake: Lake
) -> None:
    assert main(["run", str(write()), "--release-id", "week 1"]) == DONE
    manifest = manifest_of(lake.table("people"), "week 1")
    assert set(manifest["source"]) == {"files", "identifiers"}
    assert set(manifest["figures"]) == {"breach"}
    assert manifest["loss"]["epsilon"] == manifest["randomization"]["epsilon"]["person"]
