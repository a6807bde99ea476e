"""A release with a budget by its specification: what may stand in it, and its whole run without Airflow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from privacy_engine.dp.limits import Limit
from privacy_engine.errors import SpecError
from privacy_release.cli.main import DONE, REFUSED, main
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
    "visits": {"role": "insensitive", "kind": "ordinal", "bounds": [0, 9]},
}
Write = Callable[..., Path]


@pytest.fixture
def write(home: Path) -> Write:
    """Write the specification of a private release; fields that are None are left out."""

    def written(**changes: Any) -> Path:
        path = home / "releases" / "people.yaml"
        fields = {
            **yaml.safe_load(path.read_text()),
            "schema": SCHEMA,
            "release": {"method": "privbayes", "epsilon": 0.4},
            "policy": "policies/private.yaml",
            "budget": {"dataset": "people"},
            **changes,
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        path.write_text(yaml.safe_dump(fields, sort_keys=False))
        (home / "policies" / "private.yaml").write_text("max_epsilon: 0.5\nmax_delta: 0\n")
        return path

    return written


def test_a_budget_is_read_with_its_defaults(write: Write) -> None:
    budget = load_spec(write()).budget
    assert budget is not None
    assert (budget.dataset, budget.ledger, budget.when_short) == ("people", "ledger_default", "fail")
    assert budget.curator_report is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": {}}, "budget.dataset: is missing"),
        ({"budget": {"dataset": "a b"}}, "budget.dataset: must be 1 to 100 letters"),
        (
            {"budget": {"dataset": "people", "when_short": "wait"}},
            "budget.when_short: must be 'skip' or 'fail'",
        ),
        ({"budget": {"dataset": "people", "legder": "x"}}, "budget.legder: is not a known field"),
        ({"release": {"method": "privbayes"}}, "release.epsilon requires a budget"),
        (
            {"source": {"uri": "people.parquet", "nulls": "drop"}},
            "source.nulls must be fail or keep with a budget",
        ),
        ({"outliers": {"action": "suppress"}}, "must not precede a differentially private method"),
        ({"outliers": {"action": "set_aside"}}, "must not precede a differentially private method"),
    ],
    ids=str,
)
def test_what_cannot_stand_beside_a_budget_is_named(
    changes: dict[str, Any], message: str, write: Write
) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec(write(**changes))


@pytest.mark.parametrize("outliers", [{"action": "report"}, {"action": "fail", "max_share": 0.5}], ids=str)
def test_counting_outliers_and_gating_on_them_may_stand_beside_a_budget(
    outliers: dict[str, Any], write: Write
) -> None:
    assert load_spec(write(outliers=outliers)).outliers is not None


# The run without Airflow


@pytest.fixture
def ledger(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The ledger, the lake and the folders of the command line; an epsilon of 1 for `people`."""
    places = {"LEDGER": "ledger.db", "WORK_AREA": "work", "CURATOR": "curator"}
    for name, place in places.items():
        monkeypatch.setenv(f"PRIVACY_{name}", str(tmp_path / place))
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    return made


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.check("people")]


def test_a_private_release_keeps_nulls_as_one_more_value_and_every_record(
    write: Write, ledger: BudgetLedger, lake: Lake
) -> None:
    path = write(source={"uri": "people.parquet", "nulls": "keep"}, expectations=None)
    table = pd.read_parquet(path.parents[1] / "people.parquet")
    for column in ("age", "zip", "illness", "visits"):
        table[column] = table[column].mask(table.index % 4 == 0)
    table.to_parquet(path.parents[1] / "people.parquet", index=False)
    assert main(["run", str(path), "--release-id", "week 1"]) == DONE
    assert manifest_of(lake.table("people"), "week 1")["rows"] == len(table)
    domains = load_spec(path).data_schema()
    assert all(domains[name].nullable for name in ("age", "zip", "illness", "visits"))
    assert not domains["name"].nullable


def test_a_run_books_verifies_publishes_and_tells_the_curator_alone(
    write: Write, ledger: BudgetLedger, lake: Lake, tmp_path: Path
) -> None:
    assert main(["run", str(write()), "--release-id", "week 1"]) == DONE
    assert events(ledger) == ["grant", "reserve", "commit"]
    assert read_release(lake.table("people"), "week 1").num_rows == 200
    manifest = manifest_of(lake.table("people"), "week 1")
    assert manifest["booking"]["entry_hash"] in {entry.hash for entry in ledger.history("people")}
    assert all(finding["passed"] for finding in manifest["measured"])
    (report,) = (tmp_path / "curator").rglob("*.html")
    assert report.stat().st_mode & 0o777 == 0o600
    assert not list((tmp_path / "work").rglob("*"))


@pytest.mark.slow  # `budget/test_budget` repeats a release of the same bytes
def test_a_run_again_on_the_same_records_costs_nothing(
    write: Write, ledger: BudgetLedger, lake: Lake
) -> None:
    path = str(write())
    for week in ("week 1", "week 2", "week 3"):
        assert main(["run", path, "--release-id", week]) == DONE
    assert events(ledger) == ["grant", "reserve", "commit"]
    assert len({entry["sha256"] for entry in releases(lake.table("people"))}) == 1


def test_a_run_beyond_the_budget_is_refused_before_its_records_are_read(
    write: Write, home: Path, ledger: BudgetLedger, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(release={"method": "privbayes", "epsilon": 1.5}))
    (home / "policies" / "private.yaml").write_text("max_epsilon: 2\n")
    (home / "people.parquet").unlink()
    assert main(["run", path]) == REFUSED
    assert "data set people cannot pay epsilon 1.5" in capsys.readouterr().err
    assert releases(lake.table("people")) == []
    assert events(ledger) == ["grant"]


def test_a_private_method_without_a_budget_is_refused_before_its_records_are_read(
    write: Write, home: Path, ledger: BudgetLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(budget=None))
    (home / "people.parquet").unlink()
    assert main(["run", path]) != DONE
    assert "must name the budget that it spends" in capsys.readouterr().err


def test_a_budget_for_a_method_that_spends_none_is_refused(
    write: Write, ledger: BudgetLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    """An epsilon requires a budget, and is no parameter of an anonymizer."""
    assert main(["run", str(write(release={"method": "mondrian", "k": 5, "epsilon": 0.4}))]) != DONE
    assert "unknown parameters ['epsilon']" in capsys.readouterr().err


def test_a_release_in_the_address_of_its_source_stands_for_its_id(
    write: Write, home: Path, ledger: BudgetLedger, lake: Lake, people: pd.DataFrame
) -> None:
    (home / "weeks").mkdir()
    for rows, name in ((100, "w_1"), (150, "w_2")):
        people.head(rows).to_parquet(home / "weeks" / f"{name}.parquet")
    source = {"uri": "weeks/{release}.parquet", "columns": list(people.columns), "nulls": "fail"}
    path = str(write(source=source))
    for release in ("w/1", "w_2"):  # a slash in an id must not lead to another folder
        assert main(["run", path, "--release-id", release]) == DONE
    assert {entry["rows"] for entry in releases(lake.table("people"))} == {100, 150}
    assert events(ledger) == ["grant", *["reserve", "commit"] * 2]


def test_validation_may_gate_a_private_release_on_its_records(
    write: Write, home: Path, ledger: BudgetLedger, lake: Lake, people: pd.DataFrame
) -> None:
    people.head(8).to_parquet(home / "people.parquet")  # the suite asks for ten
    assert main(["run", str(write())]) != DONE
    assert events(ledger) == ["grant"]
    assert releases(lake.table("people")) == []
