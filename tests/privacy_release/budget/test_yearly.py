"""A promise in equal parts: each release spends its own, and one more than it is for is refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from privacy_engine.dp.limits import Accounting, Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Parts, Promise, equal_part
from privacy_engine.dp.zcdp import pure_rho, zcdp_rho
from privacy_engine.errors import BudgetExceededError, SpecError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release import run_release
from privacy_release.budget.claims import bookkeeping_findings
from privacy_release.budget.yearly import Yearly
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.manifest.manifest import Manifest
from privacy_release.spec.model import load_spec
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from tests.ledgers import new_ledger
from tests.tables import SPENDING

ONE = Neighbours.REPLACE_ONE
YEAR = Yearly(name="people", epsilon=1.0, delta=1e-9, releases=3, period="365d")
PART = equal_part(PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=ONE), 3, gaussian=False)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> BudgetLedger:
    made = new_ledger(tmp_path / "ledger.db", clock=clock)
    year = Limit(epsilon=1.0, delta=1e-9, period=Period.parse("365d"))
    made.grant("people", year, reason="a test", by="officer")
    return made


def book(ledger: BudgetLedger, key: str, loss: PrivacyLoss = PART, *, commit: bool = True) -> str:
    booking = ledger.reserve("people", key, loss, promise=YEAR.promise(PART))
    if commit:
        ledger.commit("people", key, "a model", token=booking.token)
    return booking.token


# What a part is


@pytest.mark.parametrize("releases", [1, 2, 12, 52, 365])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
def test_all_parts_together_keep_the_promise(releases: int, delta: float) -> None:
    promised = PrivacyLoss(epsilon=1.0, delta=delta, neighbours=ONE)
    part = equal_part(promised, releases, gaussian=False)
    by_sum = releases * part.epsilon <= 1.0 + 1e-12
    assert by_sum or releases * pure_rho(part.epsilon) <= zcdp_rho(1.0, delta)
    if delta:
        gaussian = equal_part(promised, releases, gaussian=True)
        assert gaussian.rho is not None
        assert releases * gaussian.rho <= zcdp_rho(1.0, delta)
        assert gaussian.delta == delta


def test_a_part_of_zcdp_is_larger_where_there_are_many_releases() -> None:
    promised = PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=ONE)
    few, many = (equal_part(promised, r, gaussian=False).epsilon for r in (4, 52))
    assert few == 0.25
    assert many > 1.2 / 52


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True])
def test_a_wrong_number_of_releases_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="releases must be a whole number"):
        equal_part(PrivacyLoss(epsilon=1.0, neighbours=ONE), wrong, gaussian=False)
    with pytest.raises(ValueError, match="releases must be a whole number"):
        Parts(releases=wrong, epsilon=0.1)


def test_a_promise_is_read_back_from_an_entry() -> None:
    promise = YEAR.promise(PART)
    assert Promise.of_detail(promise.to_detail(), ONE) == promise


# What the ledger lets through


def test_the_promise_is_counted_once_and_one_release_more_is_refused(ledger: BudgetLedger) -> None:
    for key in "abc":
        book(ledger, key)
        (standing,) = ledger.standing("people")
        assert standing.spent == 1
    book(ledger, "a")  # a retry finds its own
    with pytest.raises(BudgetExceededError, match=r"is for 3 releases, and all of them were made. Wait"):
        book(ledger, "d")
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        ledger.require("people", PART, promise=YEAR.promise(PART))


def test_a_reservation_counts_until_it_is_given_back(ledger: BudgetLedger) -> None:
    book(ledger, "a")
    book(ledger, "b")
    token = book(ledger, "c", commit=False)
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        book(ledger, "d")
    ledger.cancel("people", "c", token=token)
    book(ledger, "d")
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        book(ledger, "c")


def test_a_release_after_the_first_left_the_period_is_let_through(ledger: BudgetLedger, clock: Clock) -> None:
    for key in "abc":
        book(ledger, key)
        clock.now += timedelta(days=7)
    clock.now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=364)
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        book(ledger, "d")
    clock.now += timedelta(days=2)
    book(ledger, "d")
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        book(ledger, "e")


def test_a_reservation_that_is_committed_late_counts_from_then_on(ledger: BudgetLedger, clock: Clock) -> None:
    token = book(ledger, "a", commit=False)
    clock.now += timedelta(days=300)
    book(ledger, "b")
    ledger.commit("people", "a", "a model", token=token)
    clock.now += timedelta(days=100)  # a was reserved 400 days ago, and seen 100 days ago
    book(ledger, "c")
    with pytest.raises(BudgetExceededError, match="all of them were made"):
        book(ledger, "d")


@pytest.mark.parametrize("other", [0.1, 0.34])
def test_another_loss_is_no_part(ledger: BudgetLedger, other: float) -> None:
    with pytest.raises(BudgetExceededError, match="consists of equal parts"):
        book(ledger, "a", PrivacyLoss(epsilon=other, neighbours=ONE))


def test_a_budget_below_the_promise_refuses_the_first_release(ledger: BudgetLedger) -> None:
    less = Limit(epsilon=0.9, delta=1e-9, period=Period.parse("365d"))
    ledger.grant("people", less, reason="a test", by="officer")
    with pytest.raises(BudgetExceededError, match=r"cannot pay .* under the promise people, 3 releases"):
        book(ledger, "a")


# What a specification says


def spec_with(home: Path, **changes: Any) -> Path:
    """A release of 300 people, with a promise for two releases a year."""
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text())
    kept = {name: fields[name] for name in ("name", "policy", "publish")}
    kept["source"] = {"uri": fields["source"]["uri"]}
    kept["schema"] = {
        "town": {"role": "quasi_identifier", "kind": "categorical", "categories": ["north", "south"]},
        "illness": {"role": "sensitive", "kind": "categorical", "categories": ["cold", "flu", "gout"]},
    }
    kept["release"] = {"method": "privbayes"}  # of pure epsilon
    over_time = {"regime": "yearly", "epsilon": 1.0, "delta": 1e-9, "releases": 2}
    kept["budget"] = {"dataset": "people", "promise": over_time}
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump({"max_epsilon": 1.0, "max_delta": 1e-9}))
    path.write_text(yaml.safe_dump(kept | changes))
    return path


def write_people(home: Path, week: int) -> None:
    rng = np.random.default_rng(week)
    columns = {"town": rng.choice(["north", "south"], 300), "illness": rng.choice(["cold", "flu"], 300)}
    pd.DataFrame(columns).to_parquet(home / "people.parquet", index=False)


def test_two_releases_of_a_promise_are_made_from_a_specification_and_the_third_is_refused(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    spec = load_spec(spec_with(home))
    assert spec.release.parameters["epsilon"] == 0.5
    messages: list[str] = []
    for week in ("1", "2"):
        write_people(home, int(week))
        run_release(spec, lake, week, work, ledger=ledger, watch=lambda _, text: messages.append(text))
        manifest = manifest_of(lake.table("people"), week)
        assert manifest["loss"]["epsilon"] == 0.5
        assert manifest["over_time"] == {
            "releases": 2,
            "period": "365d",
            "loss": {"epsilon": 1.0, "delta": 1e-9, "neighbours": "replace_one"},
            "part": {"epsilon": 0.5, "delta": 0.0},
        }
    assert any("epsilon 0.5 of people, under a promise of epsilon 1" in text for text in messages)
    write_people(home, 3)
    with pytest.raises(BudgetExceededError, match="is for 2 releases, and all of them were made"):
        run_release(spec, lake, "3", work, ledger=ledger)
    assert len(releases(lake.table("people"))) == 2
    (standing,) = ledger.standing("people")
    assert standing.spent == 1


def test_a_manifest_that_tells_another_part_is_found(
    home: Path, ledger: BudgetLedger, work: WorkArea
) -> None:
    import privacy_release
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.budget.budget import Budget

    write_people(home, 1)
    schema = DataSchema.from_dict(
        {"town": {"categories": ["north", "south"]}, "illness": {"categories": ["cold", "flu", "gout"]}}
    )
    table = privacy_release.ingest(str(home / "people.parquet"), schema, work)
    budget = Budget(dataset="people", run="people/1", ledger=ledger, schedule=YEAR)
    parameters = {"epsilon": PART.epsilon, "classes": 2, "fits": 1}
    staged = privacy_release.make_release(
        table, work, method="latent_class", parameters=parameters, policy=SPENDING, budget=budget
    )
    assert verify_staged(staged, ReleasePolicy(max_epsilon=1.0), ledger).passed
    assert "each of 3 releases spends an equal part, epsilon 0.3333" in " ".join(
        Path(staged.report).read_text().split()
    )
    manifest = staged.read_manifest().to_dict()
    rule = "promise of the schedule that the manifest tells otherwise than the ledger"
    for change in ({"part": {"epsilon": 0.1, "delta": 0.0}}, {"releases": 52}):
        reported = Manifest.from_dict(manifest | {"over_time": manifest["over_time"] | change})
        found = bookkeeping_findings(staged, reported, PART, [], staged.read_schema(), ledger)
        assert [f.rule for f in found if not f.passed] == [rule]
    with pytest.raises(SpecError, match="must spend an equal part of the promise"):
        privacy_release.make_release(
            table,
            work,
            method="latent_class",
            parameters={"epsilon": 0.2},
            policy=SPENDING,
            budget=budget,
            label="other",
        )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"release": {"method": "latent_class", "epsilon": 0.4}}, "must be omitted with budget.promise"),
        ({"release": {"method": "errph", "secret": "s", "randomness": "memoised"}}, "memoised answers"),
        ({"budget": {"dataset": "p", "promise": {"regime": "yearly", "releases": 52}}}, "epsilon"),
        (
            {"budget": {"dataset": "p", "promise": {"regime": "yearly", "epsilon": 1, "releases": 0}}},
            "releases",
        ),
        (
            {
                "budget": {
                    "dataset": "p",
                    "promise": {"regime": "yearly", "epsilon": 1e-12, "delta": 1e-30, "releases": 52},
                }
            },
            "too small for any Gaussian noise",
        ),
    ],
)
def test_a_specification_that_cannot_keep_a_promise_is_refused(
    home: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SpecError, match=expected):
        load_spec(spec_with(home, **changes))


def test_a_specification_that_was_worked_out_is_read_again_as_it_is(home: Path) -> None:
    spec = load_spec(spec_with(home))
    path = spec_with(home, release={"method": "privbayes", "epsilon": spec.release.parameters["epsilon"]})
    assert load_spec(path).release.parameters["epsilon"] == 0.5


def test_parts_with_gaussian_noise_fill_a_limit_that_is_accounted_as_zcdp(
    home: Path, lake: Lake, work: WorkArea, ledger: BudgetLedger
) -> None:
    year = Limit(epsilon=1.0, delta=1e-9, period=Period.parse("365d"), accounting=Accounting.ZCDP)
    ledger.grant("people", year, reason="a test", by="officer")
    given = {"method": "latent_class", "classes": 2, "fits": 1}
    spec = load_spec(spec_with(home, release=given))
    rho = zcdp_rho(1.0, 1e-9)
    for week in ("1", "2"):
        write_people(home, int(week))
        run_release(spec, lake, week, work, ledger=ledger)
        loss = manifest_of(lake.table("people"), week)["loss"]
        assert loss["delta"] == 1e-9
        assert rho / 2 * (1 - 1e-9) <= loss["rho"] <= rho / 2
    (standing,) = ledger.standing("people")
    assert 0.999 <= float(standing.spent) <= 1.0
    write_people(home, 3)
    with pytest.raises(BudgetExceededError, match="is for 2 releases, and all of them were made"):
        run_release(spec, lake, "3", work, ledger=ledger)


def test_a_part_of_rho_is_booked_with_its_rho(ledger: BudgetLedger) -> None:
    promised = PrivacyLoss(epsilon=1.0, delta=1e-9, neighbours=ONE)
    part = equal_part(promised, 3, gaussian=True)
    promise = YEAR.promise(part)
    assert promise.is_part(part)
    without = PrivacyLoss(epsilon=part.epsilon, delta=part.delta, neighbours=ONE)
    assert not promise.is_part(without)
