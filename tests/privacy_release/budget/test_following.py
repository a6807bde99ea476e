"""A schedule that chooses its tables once: who opens it, what each release pays, and what a retry gets."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from privacy_engine.dp.ledger import Event, promise_of
from privacy_engine.dp.limits import Accounting, Limit, Period
from privacy_engine.dp.zcdp import zcdp_rho
from privacy_engine.errors import BudgetExceededError, SpecError
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.domains import Storage
from privacy_release import run_release
from privacy_release.budget.following import FOLLOWS, earlier_model
from privacy_release.lake.read import manifest_of, read_release, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests.ledgers import new_ledger

YEARLY = {"regime": "yearly", "epsilon": 1.0, "delta": 1e-9, "releases": 2, "opening": 1.0}
SUM = Limit(epsilon=2.0, delta=2e-9, period=Period.parse("365d"))


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", SUM, reason="a test", by="officer")
    return made


def spec_with(home: Path, **changes: Any) -> Path:
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text())
    kept = {name: fields[name] for name in ("name", "policy", "publish")}
    kept["source"] = {"uri": fields["source"]["uri"]}
    kept["schema"] = {
        "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["north", "south"]},
        "illness": {"role": "sensitive", "kind": "categorical", "categories": ["cold", "flu", "gout"]},
    }
    kept["release"] = {"method": "latent_class", "classes": 2, "fits": 1, "rules": 0, "replicates": 2}
    kept["budget"] = {"dataset": "people", "promise": YEARLY, "curator_report": False}
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump({"max_epsilon": 1.0, "max_delta": 1e-9}))
    path.write_text(yaml.safe_dump(kept | changes))
    return path


def write_people(home: Path, week: int, rows: int = 3_000) -> None:
    rng = np.random.default_rng(week)
    town = rng.choice(["north", "south"], rows)
    ill = np.where(rng.random(rows) < np.where(town == "north", 0.8, 0.2), "cold", "flu")
    pd.DataFrame({"town": town, "illness": ill}).to_parquet(home / "people.parquet", index=False)


def of_week(home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger, week: int, **more: Any) -> Any:
    write_people(home, week)
    run_release(load_spec(home / "releases" / "people.yaml"), lake, str(week), work, ledger=ledger, **more)
    return manifest_of(lake.table("people"), str(week))


def committed(ledger: BudgetLedger) -> list[SynthesizerModel]:
    found = []
    for entry in ledger.history("people"):
        if entry.event is Event.COMMIT:
            booking = ledger.booking("people", entry.key)
            assert booking is not None
            assert booking.model is not None
            found.append(SynthesizerModel.from_json(booking.model))
    return found


def test_the_first_release_is_paid_once_and_the_others_in_parts(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    spec_with(home)
    first, *later = (of_week(home, lake, work, ledger, week) for week in (1, 2, 3))
    assert (first["loss"]["epsilon"], first["loss"]["delta"]) == (1.0, 1e-9)
    assert "over_time" not in first
    for manifest in later:
        assert manifest["loss"]["rho"] <= zcdp_rho(1.0, 1e-9) / 2
        assert manifest["over_time"]["opening"] == {"epsilon": 1.0, "delta": 1e-9}
    (standing,) = ledger.standing("people")
    assert (standing.spent, standing.spent_delta) == (2, 2 * standing.spent_delta / 2)
    with pytest.raises(BudgetExceededError, match="is for 2 releases, and all of them were made"):
        of_week(home, lake, work, ledger, 4)
    assert len(releases(lake.table("people"))) == 3
    one, *others = committed(ledger)
    (name,) = {entry.detail[FOLLOWS] for entry in ledger.history("people") if FOLLOWS in entry.detail}
    assert earlier_model(ledger, "people", "of the next one", name) == others[-1]
    assert earlier_model(ledger, "people", "of the next one", "another schedule") is None
    assert {spend.target for spend in others[-1].spends} <= {spend.target for spend in one.spends}
    assert "noisy_max" not in {spend.mechanism for model in others for spend in model.spends}


def test_a_schedule_keeps_the_type_of_a_nullable_column_whatever_its_files_declare(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    """A writer that declares whole numbers as doubles while some are missing, and later as integers."""
    age = {"role": "insensitive", "kind": "numeric", "bounds": [0, 4], "nullable": True}
    spec = spec_with(home)
    fields = yaml.safe_load(spec.read_text())
    spec.write_text(yaml.safe_dump(fields | {"schema": {**fields["schema"], "age": age}}))
    for week, kind in ((1, pa.float64()), (2, pa.int64())):
        write_people(home, week, rows=100)
        people = pq.read_table(home / "people.parquet")
        ages = pa.array(np.arange(len(people)) % 5).cast(kind)
        pq.write_table(people.append_column("age", ages), home / "people.parquet")
        run_release(load_spec(spec), lake, str(week), work, ledger=ledger)
    assert [model.storages["age"] for model in committed(ledger)] == [Storage.REAL, Storage.REAL]
    assert read_release(lake.table("people"), "2")["age"].type == pa.float64()


def test_a_rerun_repeats_its_release_and_costs_nothing(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    spec_with(home)
    made = [of_week(home, lake, work, ledger, week)["booking"] for week in (1, 2)]
    rows, entries = read_release(lake.table("people"), "2"), ledger.history("people")
    # The same bytes, after the schedule went on.
    assert [of_week(home, lake, work, ledger, week)["booking"] for week in (1, 2)] == made
    assert read_release(lake.table("people"), "2").equals(rows)
    assert ledger.history("people") == entries


def test_a_limit_that_adds_rho_has_room_for_both(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    """An opening of rho and parts of rho make 2 rho, which is an epsilon of far less than 2."""
    zcdp = Limit(epsilon=1.5, delta=1e-9, period=Period.parse("365d"), accounting=Accounting.ZCDP)
    ledger.grant("people", zcdp, reason="a test", by="officer")
    spec_with(home)
    for week in (1, 2, 3):
        of_week(home, lake, work, ledger, week)
    (standing,) = ledger.standing("people")
    assert 1.9 * zcdp_rho(1.0, 1e-9) < float(standing.rho or 0) <= 2 * zcdp_rho(1.0, 1e-9)
    assert standing.spent < 1.5


def test_the_budget_must_cover_the_opening_before_a_record_is_read(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    less = Limit(epsilon=0.9, delta=2e-9, period=Period.parse("365d"))
    ledger.grant("people", less, reason="a test", by="officer")
    spec_with(home)
    (home / "people.parquet").unlink()
    with pytest.raises(BudgetExceededError, match="cannot pay"):
        run_release(load_spec(home / "releases" / "people.yaml"), lake, "1", work, ledger=ledger)
    assert [entry for entry in ledger.history("people") if entry.event is Event.RESERVE] == []


def test_another_schema_or_method_is_not_measured_by_the_tables_of_the_first(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    spec_with(home)
    of_week(home, lake, work, ledger, 1)
    spec_with(home, release={"method": "latent_class", "classes": 3, "fits": 1, "rules": 0})
    entries = ledger.history("people")
    with pytest.raises(SpecError, match="opened with another schema or other parameters"):
        of_week(home, lake, work, ledger, 2)
    assert ledger.history("people") == entries


@pytest.mark.parametrize("method", ["privbayes", "dpsm_bayes"])
def test_a_method_that_chooses_no_tables_is_refused(home: Path, method: str) -> None:
    with pytest.raises(SpecError, match="chooses no tables"):
        load_spec(spec_with(home, release={"method": method}))


def test_two_runs_that_begin_at_once_both_pay_and_the_next_follows_the_first(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    ledger.grant("people", Limit(epsilon=3.0, delta=3e-9, period=SUM.period), reason="a test", by="officer")
    spec_with(home)
    write_people(home, 1)
    booking = ledger.reserve(
        "people", "f" * 64, _opening_loss(), detail={"run": "another", "method": "latent_class"}
    )
    of_week(home, lake, work, ledger, 2)
    text = committed(ledger)[0].to_json()
    ledger.commit("people", "f" * 64, text, token=booking.token, detail={FOLLOWS: "people"})
    of_week(home, lake, work, ledger, 3)
    promises = [
        promise_of(entry) is None for entry in ledger.history("people") if entry.event is Event.COMMIT
    ]
    assert promises == [True, True, False]


def _opening_loss() -> Any:
    from privacy_engine.dp.loss import Neighbours, PrivacyLoss

    return PrivacyLoss.within(1.0, 1e-9, Neighbours.REPLACE_ONE)


class _DiedError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("week", [1, 2])
def test_a_release_that_died_after_its_booking_is_the_same_turn_when_it_is_tried_again(
    home: Path,
    lake: Lake,
    work: WorkArea,
    ledger: BudgetLedger,
    monkeypatch: pytest.MonkeyPatch,
    week: int,
) -> None:
    """Also where another run has opened the schedule meanwhile, as with the first release here."""
    ledger.grant("people", Limit(epsilon=3.0, delta=3e-9, period=SUM.period), reason="a test", by="officer")
    spec_with(home)
    if week == 2:
        of_week(home, lake, work, ledger, 1)

    def dies(*_: Any, **__: Any) -> Any:
        raise _DiedError

    with monkeypatch.context() as patched:
        patched.setattr(LatentClass, "measured_by", dies)
        with pytest.raises(_DiedError):
            of_week(home, lake, work, ledger, week)
    if week == 1:
        of_week(home, lake, work, ledger, 3)
    of_week(home, lake, work, ledger, week)
    events = [
        (e.event, promise_of(e) is None) for e in ledger.history("people") if e.event is not Event.GRANT
    ]
    reserved = [own for event, own in events if event is Event.RESERVE]
    assert len(reserved) == len([event for event, _ in events if event is Event.COMMIT]) == 2
    assert reserved == [True, week == 1]
