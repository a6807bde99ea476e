"""A private release: paid before the records are read, paid once for the same bytes, and verified."""

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privacy_release
from privacy_engine.dp.ledger import Event
from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import (
    BudgetExceededError,
    IntegrityError,
    LedgerError,
    SpecError,
    VerificationError,
)
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget, PaidModel, booking_key
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes
from privacy_release.workarea.references import OutlierRef, StagedRelease, Table, TransformRef, need
from tests.ledgers import new_ledger
from tests.tables import SPENDING

SCHEMA = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "categories": ["cold", "flu", "gout"], "nullable": True},
}
POLICY = ReleasePolicy(max_epsilon=0.5, max_delta=0)


def people(rows: int = 300, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "name": [f"person-{i:03d}" for i in range(rows)],
            "age": rng.integers(20, 80, rows),
            "town": rng.choice(["north", "south"], rows),
            "disease": rng.choice(["cold", "flu", None], rows),
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """A ledger in a file, with an epsilon of 1 for the data set `people`."""
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    return made


@pytest.fixture
def budget(ledger: BudgetLedger) -> Budget:
    return Budget(dataset="people", run="people/run 1", ledger=ledger)


@pytest.fixture
def table(work: WorkArea, tmp_path: Path) -> Table:
    return ingested(people(), work, tmp_path)


def ingested(frame: pd.DataFrame, work: WorkArea, folder: Path, label: str = "ingest", **more: Any) -> Table:
    frame.to_parquet(folder / f"{label}.source.parquet", index=False)
    schema = DataSchema.from_dict(SCHEMA)
    return privacy_release.ingest(str(folder / f"{label}.source.parquet"), schema, work, label=label, **more)


def released(
    table: Table, work: WorkArea, budget: Budget | None, label: str = "staged", **more: Any
) -> StagedRelease:
    given: dict[str, Any] = {"method": "privbayes", "parameters": {"epsilon": 0.4}} | more
    return privacy_release.make_release(table, work, policy=SPENDING, budget=budget, label=label, **given)


def events(ledger: BudgetLedger) -> list[str]:
    return [entry.event.value for entry in ledger.history("people")]


def spent(ledger: BudgetLedger) -> float:
    (standing,) = ledger.standing("people")
    return float(standing.spent)


def run_out_of_memory(model: SynthesizerModel) -> str:
    """A step that fails after the noise was drawn."""
    raise MemoryError


# What is booked, and when


def test_a_private_method_without_a_budget_is_refused_with_the_remedy(table: Table, work: WorkArea) -> None:
    with pytest.raises(SpecError, match="privbayes is differentially private and must name the budget"):
        released(table, work, None)


def test_nothing_is_booked_without_a_policy_or_for_what_it_refuses(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    private: dict[str, Any] = {"method": "privbayes", "parameters": {"epsilon": 0.4}, "budget": budget}
    with pytest.raises(SpecError, match="policy must be given if a budget pays"):
        privacy_release.make_release(table, work, **private)
    with pytest.raises(SpecError, match=r"max_epsilon 0\.4 is weaker than max_epsilon 0\.3"):
        privacy_release.make_release(table, work, policy=ReleasePolicy(max_epsilon=0.3), **private)
    assert events(ledger) == ["grant"]


def test_a_budget_for_a_method_without_a_claim_is_refused(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    with pytest.raises(SpecError, match="mondrian makes no differential privacy claim"):
        released(table, work, budget, method="mondrian", parameters={"k": 5})
    assert events(ledger) == ["grant"]


def test_a_release_is_reserved_and_then_committed_with_its_model(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    assert events(ledger) == ["grant", "reserve", "commit"]
    assert spent(ledger) == 0.4
    booking = ledger.booking("people", staged.booking.key)
    assert booking is not None
    assert booking.model == Path(staged.model).read_text()
    assert booking.detail["run"] == "people/run 1"
    assert staged.loss == {"epsilon": 0.4, "delta": 0.0, "neighbours": "replace_one"}


def test_too_little_budget_fails_before_the_table_is_read(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    Path(table.uri).unlink()
    with pytest.raises(BudgetExceededError, match="data set people cannot pay"):
        released(table, work, budget, parameters={"epsilon": 1.5})
    assert events(ledger) == ["grant"]


def test_a_data_set_without_a_budget_is_refused(table: Table, work: WorkArea, ledger: BudgetLedger) -> None:
    unknown = Budget(dataset="others", run="r", ledger=ledger)
    with pytest.raises(BudgetExceededError, match="must have a privacy budget"):
        released(table, work, unknown)


def test_a_ledger_out_of_reach_fails_before_the_table_is_read(
    table: Table, work: WorkArea, tmp_path: Path
) -> None:
    Path(table.uri).unlink()
    lost = BudgetLedger(str(tmp_path / "no such folder" / "ledger.db"))
    with pytest.raises(LedgerError):
        released(table, work, Budget(dataset="people", run="r", ledger=lost))


def test_an_error_before_the_noise_gives_the_reservation_back(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    Path(table.uri).write_bytes(b"PAR1")
    with pytest.raises(IntegrityError, match="recorded sha256"):
        released(table, work, budget)
    assert events(ledger) == ["grant", "reserve", "cancel"]
    assert spent(ledger) == 0


def test_a_table_that_the_method_refuses_gives_the_reservation_back(
    work: WorkArea, tmp_path: Path, budget: Budget, ledger: BudgetLedger
) -> None:
    few = ingested(people(3), work, tmp_path)
    with pytest.raises(ValueError, match="rows"):
        released(few, work, budget, parameters={"epsilon": 0.4, "degree": 2})
    assert events(ledger) == ["grant", "reserve", "cancel"]


def test_a_domain_that_is_not_public_is_refused_before_anything_is_booked(
    work: WorkArea, tmp_path: Path, budget: Budget, ledger: BudgetLedger
) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    open_ended = DataSchema.from_dict({**SCHEMA, "town": {"role": "quasi_identifier"}})
    table = privacy_release.ingest(str(tmp_path / "people.parquet"), open_ended, work)
    Path(table.uri).unlink()
    with pytest.raises(SpecError, match=r"\['town'\] have no public domain"):
        released(table, work, budget)
    assert events(ledger) == ["grant"]


def test_an_error_after_the_noise_keeps_the_reservation_and_a_retry_goes_on_with_it(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as fault:
        fault.setattr(SynthesizerModel, "to_json", run_out_of_memory)
        with pytest.raises(MemoryError):
            released(table, work, budget)
    assert events(ledger) == ["grant", "reserve"]
    released(table, work, budget)
    assert events(ledger) == ["grant", "reserve", "commit"]
    assert spent(ledger) == 0.4


def test_another_run_s_reservation_is_not_given_back(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run may have drawn its noise by now."""

    with monkeypatch.context() as fault:
        fault.setattr(SynthesizerModel, "to_json", run_out_of_memory)
        with pytest.raises(MemoryError):
            released(table, work, budget)
    Path(table.uri).unlink()
    with pytest.raises(IntegrityError):
        released(table, work, Budget(dataset="people", run="people/run 2", ledger=ledger))
    assert events(ledger) == ["grant", "reserve"]


# One answer for the same bytes


def test_the_same_bytes_cost_nothing_again_and_give_the_very_same_release(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger, tmp_path: Path
) -> None:
    first = released(table, work, budget)
    other = WorkArea(tmp_path / "work", "test/run 2")
    again = ingested(people(), other, tmp_path)
    Path(again.uri).unlink()  # the model is in the ledger: the records are not read again
    second = released(again, other, Budget(dataset="people", run="people/run 2", ledger=ledger))
    assert Path(second.uri).read_bytes() == Path(first.uri).read_bytes()
    assert second.booking == first.booking
    assert events(ledger) == ["grant", "reserve", "commit"]


def test_changed_data_are_a_new_booking(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger, tmp_path: Path
) -> None:
    released(table, work, budget)
    changed = people()
    changed.loc[0, "age"] += 1
    released(ingested(changed, work, tmp_path, "changed"), work, budget, "second")
    assert spent(ledger) == 0.8
    third = people()
    third.loc[1, "age"] += 1
    with pytest.raises(BudgetExceededError, match=r"epsilon 0\.2 is left of epsilon 1"):
        released(ingested(third, work, tmp_path, "third"), work, budget, "third")


def test_another_number_of_records_is_drawn_from_the_same_model(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    first = released(table, work, budget)
    second = released(table, work, budget, "second", parameters={"epsilon": 0.4, "rows": 50})
    assert (first.rows, second.rows) == (300, 50)
    assert first.booking == second.booking
    assert spent(ledger) == 0.4


def test_a_seed_chooses_the_records_and_never_the_noise(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger, tmp_path: Path
) -> None:
    one, two, one_again = (released(table, work, budget, f"seed{i}", seed=s) for i, s in enumerate((1, 2, 1)))
    assert one.sha256 == one_again.sha256 != two.sha256
    elsewhere = new_ledger(tmp_path / "other.db")
    elsewhere.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    # Two measurements of 300 records at epsilon 0.4 are equal with a probability far below 1e-9: some thirty
    # cells, each with noise of scale 20 or more, would have to agree.
    fresh = released(table, work, Budget(dataset="people", run="r", ledger=elsewhere), "fresh", seed=1)
    assert fresh.booking.key == one.booking.key
    assert fresh.booking.model_sha256 != one.booking.model_sha256


def test_the_records_are_drawn_from_the_model_alone(table: Table, work: WorkArea, budget: Budget) -> None:
    """The key is a hash of the exact records: of two keys with one model, the drawn records are the same."""
    staged = released(table, work, budget)
    booking = need(staged.booking, "booking")
    paid = PaidModel(model=staged.read_model(), text=Path(staged.model).read_text(), booking=booking)
    assert replace(paid, booking=replace(booking, key="0" * 64)).seed == paid.seed
    assert replace(paid, booking=replace(booking, model_sha256="0" * 64)).seed != paid.seed


@pytest.mark.parametrize("part", ["dataset", "input_sha256", "method", "parameters", "schema"])
def test_a_booking_key_changes_with_all_that_the_answer_depends_on(part: str) -> None:
    key: dict[str, Any] = {
        "dataset": "people",
        "input_sha256": "a" * 64,
        "method": "privbayes",
        "parameters": {"epsilon": 0.4},
        "schema": DataSchema.from_dict(SCHEMA),
    }
    other = {
        "dataset": "people 2",
        "input_sha256": "b" * 64,
        "method": "dpsm_bayes",
        "parameters": {"epsilon": 0.5},
        "schema": DataSchema.from_dict({**SCHEMA, "town": {"categories": ["north", "south", "west"]}}),
    }
    assert booking_key(**key) == booking_key(**key)
    assert booking_key(**key) != booking_key(**key | {part: other[part]})


def test_an_epsilon_of_1_and_of_1_point_0_are_one_booking() -> None:
    keys = {
        booking_key("people", "a" * 64, "privbayes", {"epsilon": e}, DataSchema.from_dict(SCHEMA))
        for e in (1, 1.0)
    }
    assert len(keys) == 1


# What is reported


def test_the_manifest_says_what_was_spent_on_what_and_where_it_is_booked(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    manifest = staged.read_manifest()
    (reserve,) = [entry for entry in ledger.history("people") if entry.event is Event.RESERVE]
    model = Path(staged.model).read_text()
    loss = {"epsilon": 0.4, "delta": 0.0, "neighbours": "replace_one"}
    assert manifest.loss.to_dict() == loss
    assert manifest.booking.to_dict() == {
        "dataset": "people",
        "entry_hash": reserve.hash,
        "model_sha256": hashlib.sha256(model.encode()).hexdigest(),
        **loss,
    }
    assert [mechanism.to_dict() for mechanism in manifest.model.mechanisms] == staged.mechanisms
    assert sorted(manifest.model.network) == ["age", "disease", "town"]
    assert manifest.seeded is False


def test_nothing_public_tells_a_figure_or_a_hash_of_the_source(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    staged = released(table, work, budget)
    public = Path(staged.manifest).read_text() + Path(staged.report).read_text()
    private = {
        "key": staged.booking.key,
        **{f"salt {entry.number}": entry.salt for entry in ledger.history("people")},
        "input": table.sha256,
        "fingerprint": table.source.fingerprint,
    }
    assert [name for name, text in private.items() if text in public] == []
    assert staged.figures == {}
    assert set(staged.read_manifest().source.to_dict()) == {"files", "identifiers"}
    assert not [name for name in people()["name"] if name in public]


# Verification: what must pass, and what must not


def test_nothing_public_tells_what_the_steps_before_counted(
    table: Table, work: WorkArea, budget: Budget
) -> None:
    derived = TransformRef(name="sql", code="0" * 64, before=60_611, rows=60_612, row_by_row=True)
    found = OutlierRef(
        method="lof",
        action="report",
        records=60_613,
        flagged=60_614,
        share=0.60615,
        pruned=0.60616,
        threshold=6.0617,
        removed=60_618,
        scores="scores.parquet",
    )
    source = replace(table.source, transforms=[derived], text={"town": {"name": 60_619}}, unchecked=60_620)
    staged = released(replace(table, source=source, outliers=[found]), work, budget)
    public = Path(staged.manifest).read_text() + Path(staged.report).read_text()
    assert staged.read_manifest().to_dict()["source"]["transforms"] == [{"name": "sql", "code": "0" * 64}]
    assert not re.findall(r"\b(?:606[12]\d|6\.0617)\b", public.replace(",", ""))


@dataclass(frozen=True)
class Made:
    """A release in a folder, with the ledger that paid it, and a copy of the folder."""

    folder: Path
    kept: Path
    staged: StagedRelease
    ledger: BudgetLedger


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, kept = tmp_path_factory.mktemp("made") / "folder", tmp_path_factory.mktemp("kept") / "folder"
    folder.mkdir()
    ledger = new_ledger(folder / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    work = WorkArea(folder / "work", "test/run 1")
    budget = Budget(dataset="people", run="people/run 1", ledger=ledger)
    staged = released(ingested(people(), work, folder), work, budget)
    shutil.copytree(folder, kept)
    return Made(folder, kept, staged, ledger)


@pytest.fixture
def staged(made: Made) -> StagedRelease:
    """The release of all these tests, as it was made."""
    shutil.rmtree(made.folder)
    shutil.copytree(made.kept, made.folder)
    return made.staged


@pytest.fixture
def books(staged: StagedRelease, made: Made) -> BudgetLedger:
    """The ledger that paid the release."""
    return made.ledger


def failed(staged: StagedRelease, ledger: BudgetLedger, policy: ReleasePolicy = POLICY) -> list[str]:
    """The rules that a release misses."""
    report = privacy_release.verify_staged(staged, policy, ledger)
    missed = [finding["rule"] for finding in report.findings if not finding["passed"]]
    assert report.passed is not bool(missed)
    if missed:
        with pytest.raises(VerificationError):
            privacy_release.raise_if_failed(report)
    return missed


def with_manifest(staged: StagedRelease, edit: Callable[[dict[str, Any]], None]) -> StagedRelease:
    manifest = json.loads(Path(staged.manifest).read_bytes())
    edit(manifest)
    Path(staged.manifest).write_text(json.dumps(manifest))
    return staged


def with_records(staged: StagedRelease, **changes: Any) -> StagedRelease:
    """Other staged bytes, with their true hash: what a faulty method would have made."""
    data = parquet_bytes(pd.read_parquet(staged.uri).assign(**changes))
    Path(staged.uri).write_bytes(data)
    return replace(staged, sha256=hashlib.sha256(data).hexdigest())


def test_a_release_whose_books_are_in_order_is_published(
    staged: StagedRelease, books: BudgetLedger, lake: Lake
) -> None:
    assert failed(staged, books) == []
    report = privacy_release.verify_staged(staged, POLICY, books)
    privacy_release.publish_staged(staged, report, lake.table("people"), "week 1", run_key="people/run 1")
    manifest = privacy_release.manifest_of(lake.table("people"), "week 1")
    assert manifest["booking"]["dataset"] == "people"
    assert len(manifest["measured"]) == len(report.findings) >= 12


def test_a_policy_with_a_smaller_epsilon_refuses_the_release(
    staged: StagedRelease, books: BudgetLedger
) -> None:
    assert failed(staged, books, ReleasePolicy(max_epsilon=0.3)) == ["max_epsilon"]


def test_a_policy_of_other_kinds_refuses_the_release(staged: StagedRelease, books: BudgetLedger) -> None:
    policy = ReleasePolicy(max_epsilon=0.5, kinds=("anonymized", "randomized"))
    assert failed(staged, books, policy) == ["kinds: anonymized, randomized"]


def test_a_private_release_cannot_be_verified_without_its_ledger(staged: StagedRelease) -> None:
    with pytest.raises(SpecError, match="against the ledger that booked it"):
        privacy_release.verify_staged(staged, POLICY)


def test_a_manifest_that_claims_less_than_was_spent_fails(staged: StagedRelease, books: BudgetLedger) -> None:
    claim = {"epsilon": 0.1, "delta": 0.0, "neighbours": "replace_one"}
    less = with_manifest(replace(staged, loss=claim), lambda manifest: manifest.update(loss=claim))
    (rule,) = failed(less, books)
    assert rule.startswith("epsilon of all mechanisms")


@pytest.mark.parametrize("loss", [None, {"epsilon": 0.1, "delta": 0.0, "neighbours": "replace_one"}])
def test_a_manifest_with_another_claim_than_the_release_is_refused(
    staged: StagedRelease, books: BudgetLedger, lake: Lake, loss: Any
) -> None:
    report = privacy_release.verify_staged(staged, POLICY, books)
    other = with_manifest(staged, lambda manifest: manifest.update(loss=loss))
    with pytest.raises(IntegrityError, match="must claim the privacy loss"):
        privacy_release.verify_staged(other, POLICY, books)
    with pytest.raises(IntegrityError, match="must claim the privacy loss"):
        privacy_release.publish_staged(other, report, lake.table("people"), "week 1")
    assert privacy_release.releases(lake.table("people")) == []


def test_a_claim_for_another_neighbour_relation_is_not_covered(
    staged: StagedRelease, books: BudgetLedger
) -> None:
    claim = {"epsilon": 0.4, "delta": 0.0, "neighbours": "add_remove"}
    other = with_manifest(replace(staged, loss=claim), lambda manifest: manifest.update(loss=claim))
    assert any(rule.startswith("epsilon booked in the ledger") for rule in failed(other, books))


def test_a_manifest_that_leaves_a_mechanism_out_fails(staged: StagedRelease, books: BudgetLedger) -> None:
    def drop(manifest: dict[str, Any]) -> None:
        manifest["model"]["mechanisms"].pop()

    assert failed(with_manifest(staged, drop), books) == [
        "mechanisms that the manifest tells otherwise than the ledger's model"
    ]


def without_entry(reference: Any, rules: list[str]) -> None:
    assert "release without its committed entry in the ledger" in rules
    assert any(rule.startswith("epsilon booked in the ledger") for rule in rules), reference


def test_a_release_that_was_never_booked_fails(staged: StagedRelease, books: BudgetLedger) -> None:
    unbooked = replace(staged, booking=None)
    without_entry("no booking", failed(unbooked, books))


def test_a_release_whose_entry_is_missing_from_the_ledger_fails(
    staged: StagedRelease, tmp_path: Path
) -> None:
    other = new_ledger(tmp_path / "other.db")
    other.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    without_entry("another ledger", failed(staged, other))


@pytest.mark.parametrize("state", ["reserved", "cancelled"])
def test_a_release_whose_entry_is_not_committed_fails(
    state: str, staged: StagedRelease, books: BudgetLedger
) -> None:
    loss = PrivacyLoss(epsilon=0.4, neighbours=Neighbours.REPLACE_ONE)
    booking = books.reserve("people", "another key", loss)
    if state == "cancelled":
        books.cancel("people", "another key", token=booking.token)
    reference = replace(staged.booking, key="another key", entry_hash=booking.entry_hash)
    without_entry(state, failed(replace(staged, booking=reference), books))


@pytest.mark.parametrize("field", ["key", "entry_hash", "model_sha256", "dataset"])
def test_a_release_that_names_another_entry_fails(
    field: str, staged: StagedRelease, books: BudgetLedger
) -> None:
    reference = replace(staged.booking, **{field: "0" * 64})
    without_entry(field, failed(replace(staged, booking=reference), books))


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE {entries} SET epsilon = '0.1' WHERE event = 'reserve'",
        "DELETE FROM {entries} WHERE event = 'commit'",
        "UPDATE {models} SET model = replace(model, '0', '1')",
        "UPDATE {entries} SET epsilon = '9' WHERE event = 'grant'",  # not about this release
    ],
)
def test_a_ledger_that_other_hands_changed_stops_the_verification(
    edit: str, staged: StagedRelease, books: BudgetLedger
) -> None:
    from privacy_release.ledger.tables import ENTRIES, MODELS

    with sqlite3.connect(books.place) as connection:
        connection.execute(edit.format(entries=ENTRIES.name, models=MODELS.name))
    with pytest.raises(IntegrityError, match=r"modified outside of this program|changed by other hands"):
        privacy_release.verify_staged(staged, POLICY, books)


@pytest.mark.parametrize(
    ("column", "value"), [("age", 121), ("age", -1), ("age", None), ("town", "west"), ("town", None)]
)
def test_a_released_value_outside_of_its_public_domain_fails(
    column: str, value: Any, staged: StagedRelease, books: BudgetLedger
) -> None:
    values = pd.read_parquet(staged.uri)[column].astype(object)
    values[0] = value
    changed = with_records(staged, **{column: values})
    report = privacy_release.verify_staged(changed, POLICY, books)
    (finding,) = [finding for finding in report.findings if not finding["passed"]]
    assert finding["rule"] == f"values of {column} outside of its public domain"
    assert finding["measured"] == 1
    assert str(value) not in finding["rule"]


def test_a_null_is_a_value_where_the_schema_allows_it(staged: StagedRelease, books: BudgetLedger) -> None:
    assert failed(with_records(staged, disease=pd.Series([None] * 300, dtype="str")), books) == []


def test_a_domain_that_left_the_schema_fails(staged: StagedRelease, books: BudgetLedger) -> None:
    path = Path(staged.schema)
    fields = json.loads(path.read_text())
    del fields["town"]["categories"]
    path.write_text(json.dumps(fields))
    assert "attributes whose domain is not in the schema" in failed(staged, books)


# What must not come before a measurement


def test_outliers_must_not_be_taken_out_before_a_private_method(
    table: Table, work: WorkArea, budget: Budget, ledger: BudgetLedger
) -> None:
    kept = privacy_release.detect_outliers(
        table, work, method="lof", parameters={"top": 3}, action="set_aside"
    )
    with pytest.raises(SpecError, match="must not precede a differentially private method"):
        released(kept, work, budget)
    assert events(ledger) == ["grant"]


def test_records_with_nulls_must_not_be_dropped_before_a_private_method(
    work: WorkArea, tmp_path: Path, budget: Budget, ledger: BudgetLedger
) -> None:
    some = people()
    some.loc[:4, "town"] = None
    table = ingested(some, work, tmp_path, nulls="drop")
    with pytest.raises(SpecError, match="nulls"):
        released(table, work, budget)
    assert events(ledger) == ["grant"]


def test_a_yearly_budget_pays_again_when_the_window_has_passed(
    table: Table, work: WorkArea, tmp_path: Path
) -> None:
    from datetime import UTC, datetime, timedelta

    now = [datetime(2026, 1, 5, tzinfo=UTC)]
    yearly = new_ledger(tmp_path / "yearly.db", clock=lambda: now[0])
    yearly.grant("people", Limit(epsilon=0.4, period=Period.parse("365d")), reason="a test", by="officer")
    budget = Budget(dataset="people", run="r", ledger=yearly)
    released(table, work, budget)
    other = ingested(people(seed=4), work, tmp_path, "other")
    with pytest.raises(BudgetExceededError, match="free again at 2027-01-05"):
        released(other, work, budget, "other-staged")
    now[0] += timedelta(days=365)
    assert released(other, work, budget, "other-staged").rows == 300
