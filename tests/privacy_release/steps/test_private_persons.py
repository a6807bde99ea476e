"""Private releases of tables with many rows a person: the loss, the books and the words are about persons."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import privacy_release
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import BudgetExceededError, IntegrityError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.steps.curator import by_weight, compare_synthetic
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import EngineRef, StagedRelease
from tests.ledgers import new_ledger
from tests.tables import SPENDING

CANARY = "canary-of-a-patient"
ROWS, PERSONS = 3_917, 230
FIELDS: dict[str, Any] = {
    "patient": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "district": {"role": "quasi_identifier", "categories": ["a", "b", "c"]},
    "illness": {"role": "sensitive", "categories": list("uvwxyz")},
    "person": "patient",
}
SCHEMA = DataSchema.from_dict(FIELDS)
POLICY = ReleasePolicy(max_epsilon=1.0)
BOUNDS = {"max_rows": {"max_rows": 4}, "weight": {"weight": "person"}}
ENGINES = {
    "local": None,
    "fragments": read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}),
}
bounds = pytest.mark.parametrize("bound", BOUNDS)


def visits() -> pd.DataFrame:
    """Few patients have most of the visits."""
    rng = np.random.default_rng(5)
    patient = np.concatenate([np.arange(PERSONS), (rng.random(ROWS - PERSONS) ** 3 * PERSONS).astype(int)])
    return pd.DataFrame(
        {
            "patient": [f"{CANARY}-{i}" for i in patient],
            "age": 20 + patient % 60,
            "district": np.array(list("abc"))[patient % 3],
            "illness": rng.choice(list("uvwxyz"), ROWS),
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> str:
    visits().to_parquet(tmp_path / "visits.parquet", index=False)
    return str(tmp_path / "visits.parquet")


def granted(tmp_path: Path, neighbours: Neighbours = Neighbours.REPLACE_PERSON) -> BudgetLedger:
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("patients", Limit(epsilon=2.0, neighbours=neighbours), reason="a test", by="officer")
    return made


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    return granted(tmp_path)


def released(
    source: str, work: WorkArea, ledger: BudgetLedger, engine: EngineRef | None = None, **parameters: Any
) -> StagedRelease:
    table = privacy_release.ingest(source, SCHEMA, work, engine=engine)
    budget = Budget(dataset="patients", run="run 1", ledger=ledger)
    given = {"epsilon": 1.0, "classes": 4, "fits": 1, **parameters}
    return make_release(table, work, method="latent_class", parameters=given, policy=SPENDING, budget=budget)


@pytest.mark.quick("local-weight", "fragments-max_rows")  # each bound and each engine
@bounds
@pytest.mark.parametrize("engine", ENGINES)
def test_a_release_is_made_booked_and_verified_for_persons(
    source: str, work: WorkArea, ledger: BudgetLedger, bound: str, engine: str
) -> None:
    staged = released(source, work, ledger, ENGINES[engine], **BOUNDS[bound])
    report = verify_staged(staged, POLICY, ledger)
    assert report.passed
    rules = [finding["rule"] for finding in report.findings]
    assert "claims about one row where several may be of one person" in rules
    assert staged.loss == {"epsilon": 1.0, "delta": 0.0, "neighbours": "replace_person"}
    (booked,) = [e for e in ledger.history("patients") if e.event.value == "reserve"]
    assert booked.neighbours is Neighbours.REPLACE_PERSON
    manifest = json.loads(Path(staged.manifest).read_text())
    assert manifest["person"] == {"column": "patient"}
    assert manifest["booking"]["neighbours"] == "replace_person"
    assert manifest["model"]["source_persons"] == PERSONS
    assert manifest["model"]["contribution"] == BOUNDS[bound]
    assert staged.rows == PERSONS if bound == "weight" else PERSONS <= staged.rows <= 4 * PERSONS


@bounds
def test_neither_the_number_of_rows_nor_a_person_is_in_what_is_published(
    source: str, work: WorkArea, ledger: BudgetLedger, bound: str
) -> None:
    staged = released(source, work, ledger, **BOUNDS[bound])
    for path in (staged.manifest, staged.report, staged.model, staged.schema):
        text = Path(path).read_text()
        assert CANARY not in text
        assert f"{ROWS:,}" not in text
        assert f" {ROWS}," not in text
    assert CANARY.encode() not in Path(staged.uri).read_bytes()


@bounds
def test_the_report_says_whom_the_promise_is_for_and_what_a_record_stands_for(
    source: str, work: WorkArea, ledger: BudgetLedger, bound: str
) -> None:
    words = " ".join(Path(released(source, work, ledger, **BOUNDS[bound]).report).read_text().split())
    assert "all rows of any one person exchanged for another person&#39;s" in words
    assert "The guarantee is for all rows of one person." in words
    assert "The guarantee is for one record." not in words
    assert ("first choosing a person" in words) == (bound == "weight")
    assert ("comes from a noisy count" in words) == (bound == "max_rows")


def test_a_budget_for_rows_does_not_pay_for_persons(source: str, work: WorkArea, tmp_path: Path) -> None:
    ledger = granted(tmp_path, Neighbours.REPLACE_ONE)
    with pytest.raises(BudgetExceededError, match="needs replace_person, and these do not add"):
        released(source, work, ledger, max_rows=4)
    assert [entry.event.value for entry in ledger.history("patients")] == ["grant"]


def test_a_data_set_without_a_budget_is_reported_for_whom_to_grant_it(
    source: str, work: WorkArea, ledger: BudgetLedger
) -> None:
    table = privacy_release.ingest(source, SCHEMA, work)
    budget = Budget(dataset="others", run="run 1", ledger=ledger)
    with pytest.raises(BudgetExceededError, match="--neighbours replace_person"):
        make_release(
            table, work, method="privbayes", parameters={"max_rows": 2}, policy=SPENDING, budget=budget
        )


def test_a_claim_about_rows_fails_the_verification(source: str, work: WorkArea, ledger: BudgetLedger) -> None:
    """As if someone edited both the reference and the manifest."""
    staged = released(source, work, ledger, weight="person")
    of_rows = {**staged.loss, "neighbours": "replace_one"}
    manifest = json.loads(Path(staged.manifest).read_text()) | {"loss": of_rows}
    write_private(Path(staged.manifest), json.dumps(manifest).encode())
    with pytest.raises(IntegrityError, match="manifest must claim"):
        verify_staged(staged, POLICY, ledger)
    report = verify_staged(replace(staged, loss=of_rows), POLICY, ledger)
    failed = {finding["rule"] for finding in report.findings if not finding["passed"]}
    assert "claims about one row where several may be of one person" in failed
    assert "epsilon booked in the ledger, at least the claimed" in failed


def test_without_a_bound_nothing_is_booked(source: str, work: WorkArea, ledger: BudgetLedger) -> None:
    with pytest.raises(SchemaError, match=r"`max_rows: m` or `weight: person`"):
        released(source, work, ledger)
    assert [entry.event.value for entry in ledger.history("patients")] == ["grant"]


def test_random_answers_stay_refused(source: str, work: WorkArea, ledger: BudgetLedger) -> None:
    table = privacy_release.ingest(source, SCHEMA, work)
    budget = Budget(dataset="patients", run="run 1", ledger=ledger)
    with pytest.raises(SchemaError, match="names the person of each row"):
        make_release(table, work, method="errph", parameters={"epsilon": 1.0}, policy=SPENDING, budget=budget)


def test_a_retry_on_the_same_bytes_costs_nothing(source: str, work: WorkArea, ledger: BudgetLedger) -> None:
    table = privacy_release.ingest(source, SCHEMA, work)
    budget = Budget(dataset="patients", run="run 1", ledger=ledger)
    given = {"epsilon": 1.0, "classes": 2, "fits": 1, "max_rows": 3}
    one, other = (
        make_release(
            table, work, method="latent_class", parameters=given, policy=SPENDING, budget=budget, label=label
        )
        for label in ("one", "other")
    )
    assert one.sha256 == other.sha256
    assert [e.event.value for e in ledger.history("patients")] == ["grant", "reserve", "commit"]


@pytest.mark.quick("max_rows")  # the specification does not know the bound
@bounds
def test_it_runs_from_a_specification(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger, bound: str
) -> None:
    visits().to_parquet(home / "people.parquet", index=False)
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump({"max_epsilon": 1.0}))
    reported = yaml.safe_load((home / "releases" / "people.yaml").read_text())
    kept = {name: reported[name] for name in ("name", "source", "policy", "publish")}
    kind = {"kind": "categorical"}  # where the fields name no other
    columns = {name: kind | fields for name, fields in FIELDS.items() if name != "person"}
    given = {"method": "latent_class", "epsilon": 1, "classes": 2, "fits": 1, **BOUNDS[bound]}
    kept |= {"schema": columns, "person": "patient", "release": given, "budget": {"dataset": "patients"}}
    kept["source"] = {"uri": reported["source"]["uri"]}
    (home / "releases" / "people.yaml").write_text(yaml.safe_dump(kept))
    run_release(load_spec(home / "releases" / "people.yaml"), lake, "1", work, ledger=ledger)
    (published,) = releases(lake.table("people"))
    assert published["state"] == "current"
    assert manifest_of(lake.table("people"), "1")["loss"]["neighbours"] == "replace_person"
    kept["source"]["nulls"] = "drop"
    (home / "releases" / "people.yaml").write_text(yaml.safe_dump(kept))
    with pytest.raises(SpecError, match="nulls must be fail or keep with a budget"):
        load_spec(home / "releases" / "people.yaml")


def test_a_curator_compares_with_persons_that_weigh_alike() -> None:
    """One of two persons has 99 of 100 rows; off by 6 standard errors once in 5e8."""
    frame = pd.DataFrame({"who": [1] * 9_900 + [2] * 100, "x": [0] * 9_900 + [1] * 100})
    assert abs(by_weight(frame, "who")["x"].mean() - 0.5) < 6 * 0.5 / 100


def test_synthesizers_that_weigh_persons_are_compared_apart_from_those_that_do_not(
    source: str, work: WorkArea, ledger: BudgetLedger
) -> None:
    table = privacy_release.ingest(source, SCHEMA, work)
    budget = Budget(dataset="patients", run="run 1", ledger=ledger)
    made = [
        make_release(
            table,
            work,
            method="latent_class",
            parameters={"epsilon": 0.5, "classes": 4, "fits": 1, **bound},
            policy=SPENDING,
            budget=budget,
            label=label,
        )
        for label, bound in BOUNDS.items()
    ]
    reports = [verify_staged(staged, POLICY, ledger) for staged in made]
    with pytest.raises(SpecError, match="must weight persons equally or none"):
        compare_synthetic(table, made, reports, title="both", public=False)
    page = compare_synthetic(table, made[1:], reports[1:], title="weighed", public=False)
    assert "booked for all of patients</span> epsilon 0.5<" in page
    assert CANARY not in page
