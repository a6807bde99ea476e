"""The named operators of the randomizers: the secret, what is booked, what is refused, what is published."""

import json
import secrets
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import airflow_privacy_release
from airflow_privacy_release import (
    BudgetGuardOperator,
    ERRPHOperator,
    IngestParquetOperator,
    LocalLaplaceOperator,
    PublishOperator,
    RetractOperator,
    TRROperator,
    VerifyOperator,
)
from airflow_privacy_release.operators.methods import RandomizerOperator
from privacy_engine.dp.limits import Limit
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.registry import load_method, method_class, method_names
from privacy_engine.release import parameters_of
from privacy_release.budget.budget import booking_key
from privacy_release.budget.secrets import last_fingerprint
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references.files import read_schema
from tests.ledgers import new_ledger

NAMED = [
    operator
    for name in airflow_privacy_release.__all__
    if isinstance(operator := getattr(airflow_privacy_release, name), type)
    and issubclass(operator, RandomizerOperator)
]
SCHEMA: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "town": {"role": "quasi_identifier", "categories": ["north", "south"]},
    "disease": {"role": "sensitive", "categories": ["cold", "flu", "gout"], "nullable": True},
}
POLICY = {"max_epsilon": 10, "max_delta": 0, "max_breach": 0.8}
BREACH = {"max_breach": 0.8}
named = pytest.mark.parametrize("operator", NAMED, ids=lambda c: c.__name__)
claiming = pytest.mark.parametrize(
    "operator", [ERRPHOperator, LocalLaplaceOperator], ids=lambda c: c.__name__
)


def context(task_id: str = "task", run_id: str = "run 1", map_index: int = -1) -> Any:
    task = SimpleNamespace(dag_id="people", run_id=run_id, task_id=task_id, map_index=map_index)
    return {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}


def people(rows: int = 400, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    disease = rng.choice(np.array(["cold", "flu", "gout", None], dtype=object), rows)
    return pd.DataFrame(
        {
            "name": [f"person-{i:04d}" for i in range(rows)],
            "age": rng.integers(20, 80, rows),
            "town": rng.choice(["north", "south"], rows),
            "disease": disease,
        }
    )


def set_secret(monkeypatch: pytest.MonkeyPatch, password: str | None = None) -> str:
    """The connection `people_secret` with this password, or a new one."""
    chosen = secrets.token_hex(32) if password is None else password
    value = json.dumps({"conn_type": "generic", "password": chosen})
    monkeypatch.setenv("AIRFLOW_CONN_PEOPLE_SECRET", value)
    return chosen


@pytest.fixture
def secret(airflow_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return set_secret(monkeypatch)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=30.0), reason="a test", by="officer")
    return made


@pytest.fixture
def ingest(tmp_path: Path, work_root: Path, airflow_home: Path) -> Any:
    """Ingests a table into the work area of a run, with the identifier that answers are memoised by."""

    def ingested(
        frame: pd.DataFrame | None = None,
        run_id: str = "run 1",
        individual: str | None = "name",
        **schema: Any,
    ) -> Any:
        path = tmp_path / "people.parquet"
        (people() if frame is None else frame).to_parquet(path, index=False)
        fields = {name: {**field, **schema.get(name, {})} for name, field in SCHEMA.items()}
        operator = IngestParquetOperator(
            task_id="ingest", uri=str(path), schema=fields, individual=individual
        )
        return operator.execute(context("ingest", run_id))

    return ingested


def randomized(table: Any, operator: Any = ERRPHOperator, run_id: str = "run 1", **given: Any) -> Any:
    """A memoised release of epsilon 6 that `people` pays for, unless otherwise said."""
    arguments = {
        "budget": "people",
        "policy": {"max_epsilon": 100, "max_delta": 0},
        "epsilon": 6.0,
        "randomness": "memoised",
        "secret": "people_secret",
        **given,
    }
    if arguments["budget"] is None:
        del arguments["policy"]
    arguments = {name: value for name, value in arguments.items() if value is not None}
    made = operator(task_id="randomize", table=table, **arguments)
    return made.execute(context("randomize", run_id))


def verified(staged: Any, policy: Any = POLICY) -> Any:
    return VerifyOperator(task_id="verify", table=staged, policy=policy).execute(context("verify"))


def published(staged: Any, run_id: str = "run 1", policy: Any = POLICY) -> Any:
    operator = PublishOperator(
        task_id="publish", table=staged, report=verified(staged, policy), name="people"
    )
    return operator.execute(context("publish", run_id))


def spent(ledger: BudgetLedger) -> float:
    (standing,) = ledger.standing("people")
    return float(standing.spent)


def manifest(staged: Any) -> dict[str, Any]:
    return dict(json.loads(Path(staged["manifest"]).read_text()))


def rows(staged: Any) -> pd.DataFrame:
    return pd.read_parquet(staged["uri"])


def test_every_randomizer_has_a_named_operator() -> None:
    keys = {name for name in method_names() if issubclass(method_class(name), Randomizer)}
    assert {operator.method for operator in NAMED} == keys


# What is released


@named
def test_an_operator_releases_random_answers_from_rendered_text_without_identifiers(
    operator: Any, ingest: Any
) -> None:
    given = {"epsilon": "6"} if operator is LocalLaplaceOperator else {"p_0": "0.6"}
    made = operator(task_id="randomize", table=ingest(town={"role": "insensitive"}), **given)
    staged = made.execute(context("randomize"))
    assert list(rows(staged).columns) == ["age", "town", "disease"]
    assert staged["rows"] == 400
    name, value = next(iter(given.items()))
    assert manifest(staged)["parameters"][name] == float(value)
    assert manifest(staged)["seeded"] is False
    assert set(manifest(staged)["source"]) == {"files", "identifiers"}
    assert staged["loss"] is None  # `town` is released as it is


@claiming
def test_a_claim_is_booked_verified_and_published(
    operator: Any, ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake
) -> None:
    staged = randomized(ingest(), operator)
    assert staged["loss"]["epsilon"] == spent(ledger) == pytest.approx(6.0)
    published(staged)
    reported = manifest_of(airflow_lake.table("people"), "run 1")
    assert reported["randomization"]["randomness"] == "memoised"
    assert reported["booking"]["entry_hash"] in {entry.hash for entry in ledger.check("people")}
    assert all(finding["passed"] for finding in reported["measured"])
    assert len(read_release(airflow_lake.table("people"), "run 1")) == 400


def test_no_identifier_and_no_secret_is_in_anything_that_is_staged_or_booked(
    ingest: Any, secret: str, ledger: BudgetLedger, tmp_path: Path
) -> None:
    staged = randomized(ingest())
    files = [Path(staged[part]) for part in ("uri", "manifest", "report", "schema")]
    left = b"".join(path.read_bytes() for path in (*files, tmp_path / "ledger.db"))
    left += json.dumps(staged).encode()
    assert b"person-0" not in left
    assert secret.encode() not in left


def test_the_identifier_is_read_only_where_it_is_asked_for(ingest: Any) -> None:
    kept = json.loads(Path(ingest()["schema"]).read_text())
    behind = json.loads(Path(ingest(individual=None)["schema"]).read_text())
    assert set(kept) - set(behind) == {"name"}
    with pytest.raises(AirflowFailException, match="must be named by an identifier"):
        ingest(individual="town")


# The secret


@pytest.mark.parametrize(
    ("password", "message"),
    [
        (None, "people_secret of the secret of memoised answers does not exist"),
        ("short", "at least 32 random"),
    ],
)
def test_a_missing_or_short_secret_fails_for_good_before_anything_is_booked(
    password: str | None,
    message: str,
    ingest: Any,
    ledger: BudgetLedger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if password is not None:
        set_secret(monkeypatch, password)
    with pytest.raises(AirflowFailException, match=message) as caught:
        randomized(ingest())
    assert spent(ledger) == 0
    assert "short" not in str(caught.value).replace("shortest", "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"secret": None}, "need a secret"),
        ({"randomness": "system"}, "only takes a secret with randomness: memoised"),
        ({"randomness": "system", "secret": None, "seed": 7}, "cannot be seeded with randomness: system"),
        ({"seed": "7"}, "cannot be seeded with randomness: memoised"),
    ],
    ids=str,
)
def test_a_secret_or_seed_that_does_not_fit_is_refused(
    given: dict[str, Any], message: str, ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        randomized(ingest(), **given)
    assert spent(ledger) == 0


def test_a_changed_secret_is_refused_at_the_table_of_the_earlier_releases(
    ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(randomized(ingest()))
    old = last_fingerprint(airflow_lake.table("people"))
    set_secret(monkeypatch)
    with pytest.raises(AirflowFailException, match=f"on purpose with replaces: {old}"):
        published(randomized(ingest(), run_id="run 2"), "run 2")
    assert last_fingerprint(airflow_lake.table("people")) == old


def test_a_changed_secret_is_refused_before_anything_is_booked_where_the_table_is_known(
    ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(randomized(ingest(), series="people"))
    old = last_fingerprint(airflow_lake.table("people"))
    set_secret(monkeypatch)
    with pytest.raises(AirflowFailException, match=f"on purpose with replaces: {old}"):
        randomized(ingest(), run_id="run 2", series="people")
    assert spent(ledger) == pytest.approx(6.0)
    randomized(ingest(), run_id="run 2", series="people", replaces=old)
    assert spent(ledger) == pytest.approx(12.0)


def test_a_secret_is_given_up_on_purpose_once_by_naming_its_fingerprint(
    ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(randomized(ingest()))
    old = last_fingerprint(airflow_lake.table("people"))
    set_secret(monkeypatch)
    published(randomized(ingest(), run_id="run 2", replaces=old), "run 2")
    assert manifest_of(airflow_lake.table("people"), "run 2")["replaces"] == old
    assert last_fingerprint(airflow_lake.table("people")) not in (None, old)
    set_secret(monkeypatch)  # the same words permit no further change
    with pytest.raises(AirflowFailException, match="must repeat those of the earlier releases"):
        published(randomized(ingest(), run_id="run 3", replaces=old), "run 3")
    assert spent(ledger) == pytest.approx(18.0)  # each secret answered everybody afresh


def test_a_retracted_release_still_tells_its_secret(
    ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(randomized(ingest()))
    retract = RetractOperator(task_id="retract", name="people", release="run 1", reason="a test")
    retract.execute(context("retract"))
    set_secret(monkeypatch)
    with pytest.raises(AirflowFailException, match="must repeat those of the earlier releases"):
        published(randomized(ingest(), run_id="run 2"), "run 2")


def test_fresh_answers_do_not_follow_memoised_ones(
    ingest: Any, secret: str, ledger: BudgetLedger, airflow_lake: Lake
) -> None:
    published(randomized(ingest()))
    fresh = randomized(ingest(), run_id="run 2", randomness="system", secret=None)
    with pytest.raises(AirflowFailException, match="this release has no secret"):
        published(fresh, "run 2")


# What is booked


def test_memoised_answers_of_the_same_bytes_are_the_same_and_booked_once(
    ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    one = randomized(ingest())
    first = rows(one)
    other = randomized(ingest(run_id="run 2"), run_id="run 2")
    pd.testing.assert_frame_equal(first, rows(other))
    assert one["booking"] == other["booking"]
    assert spent(ledger) == pytest.approx(6.0)


def test_memoised_answers_of_changed_bytes_repeat_for_unchanged_people_and_are_booked_whole(
    ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    before = rows(randomized(ingest()))
    more = pd.concat([people(), people(100, seed=9).assign(name=[f"new {i}" for i in range(100)])])
    after = rows(randomized(ingest(more, run_id="run 2"), run_id="run 2"))
    columns = list(before)
    counts = after.value_counts(columns, dropna=False).sub(
        before.value_counts(columns, dropna=False), fill_value=0
    )
    assert (counts >= 0).all()  # every earlier answer is there again
    assert counts.sum() == 100
    assert spent(ledger) == pytest.approx(12.0)


@pytest.mark.quick("LocalLaplaceOperator")  # one base class stages for both
@claiming
def test_a_retry_takes_the_fresh_answers_that_were_staged_and_books_nothing(
    operator: Any, ingest: Any, ledger: BudgetLedger
) -> None:
    table = ingest()
    fresh = {"randomness": "system", "secret": None}
    one = randomized(table, operator, **fresh)
    data = Path(one["uri"]).read_bytes()
    again = randomized(table, operator, **fresh)
    assert Path(again["uri"]).read_bytes() == data
    assert again["booking"] == one["booking"]
    assert spent(ledger) == pytest.approx(6.0)
    assert all(finding["passed"] for finding in verified(again)["findings"])


def test_fresh_answers_that_are_gone_are_not_drawn_again_for_nothing(
    ingest: Any, ledger: BudgetLedger, work_root: Path
) -> None:
    fresh = {"randomness": "system", "secret": None}
    randomized(ingest(), **fresh)
    WorkArea(work_root, "people/run 1").remove()
    with pytest.raises(AirflowFailException, match="Start a new run"):
        randomized(ingest(), **fresh)
    assert spent(ledger) == pytest.approx(6.0)
    randomized(ingest(run_id="run 2"), run_id="run 2", **fresh)
    assert spent(ledger) == pytest.approx(12.0)


def test_a_refused_table_gives_the_reservation_back(ingest: Any, secret: str, ledger: BudgetLedger) -> None:
    twice = people().assign(name="one for all")
    with pytest.raises(AirflowFailException, match="name: N values occur more than once"):
        randomized(ingest(twice))
    assert spent(ledger) == 0
    randomized(ingest())
    assert spent(ledger) == pytest.approx(6.0)


def test_a_reservation_of_a_dead_attempt_is_used_by_its_retry(ingest: Any, ledger: BudgetLedger) -> None:
    """An attempt that died before its commit released nothing: no one saw what it drew."""
    table, method = ingest(), load_method("errph", epsilon=6.0)
    schema = read_schema(table["schema"])
    requested = parameters_of(method) | {"run": "people/run 1", "task": "randomize"}
    key = booking_key("people", table["sha256"], "errph", requested, schema)
    ledger.reserve("people", key, method.privacy_loss(schema), detail={"run": "people/run 1"})
    staged = randomized(table, randomness="system", secret=None)
    assert staged["booking"]["key"] == key
    assert spent(ledger) == pytest.approx(6.0)
    assert all(finding["passed"] for finding in verified(staged)["findings"])


@pytest.mark.parametrize(
    ("operator", "given", "message"),
    [
        (ERRPHOperator, {"budget": None}, "must name the budget that it spends"),
        (TRROperator, {"epsilon": None}, "makes no differential privacy claim"),
        (ERRPHOperator, {"budget": "others"}, "must have a privacy budget"),
        (ERRPHOperator, {"epsilon": 40.0}, "cannot pay epsilon"),
    ],
    ids=["no budget", "no claim", "unknown data set", "too little left"],
)
def test_a_budget_that_does_not_fit_is_refused(
    operator: Any, given: dict[str, Any], message: str, ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        randomized(ingest(), operator, **given)
    assert spent(ledger) == 0


def test_a_guard_works_out_what_random_answers_cost(airflow_home: Path, ledger: BudgetLedger) -> None:
    def guard(p_0: str, **given: Any) -> Any:
        arguments = {"method": "errph", "parameters": {"p_0": p_0}, "schema": SCHEMA, **given}
        operator = BudgetGuardOperator(
            task_id="budget", dataset="people", policy={"max_epsilon": 100}, action="skip", **arguments
        )
        return operator.execute(context("budget"))

    # ln(1 + k p_0 / (1 - p_0)) for k = 6, 2, and 4 with the null
    assert guard("0.5")["epsilon"] == pytest.approx(np.log(7) + np.log(3) + np.log(5))
    with pytest.raises(AirflowSkipException, match="cannot pay"):
        guard("0.999999")
    for wrong in ({"epsilon": 1.0}, {"schema": None}, {"method": None}):
        with pytest.raises(AirflowFailException, match="either epsilon, or method and schema"):
            guard("0.5", **wrong)


# What is verified


def test_seeded_answers_are_marked_and_no_epsilon_is_verified_of_them(ingest: Any) -> None:
    staged = randomized(ingest(), randomness="seeded", seed="7", secret=None, budget=None)
    reported = manifest(staged)
    assert (reported["seeded"], reported["randomization"]["private_randomness"]) == (True, False)
    assert "Not private" in Path(staged["report"]).read_text()
    with pytest.raises(AirflowFailException, match="max_epsilon measured nothing"):
        verified(staged)


def test_transformed_numbers_have_no_epsilon_and_a_breach_coefficient_of_their_lists(
    ingest: Any, secret: str, airflow_lake: Lake
) -> None:
    staged = randomized(ingest(), TRROperator, epsilon=None, p_0=0.5, budget=None)
    with pytest.raises(AirflowFailException, match="max_epsilon measured nothing"):
        verified(staged)
    with pytest.raises(AirflowFailException, match=r"max_breach measured 0\.4"):
        verified(staged, {"max_breach": 0.3})
    published(staged, policy=BREACH)
    assert manifest_of(airflow_lake.table("people"), "run 1")["loss"] is None


def edited(staged: Any, **changes: Any) -> Any:
    """The staged release with another manifest."""
    path = Path(staged["manifest"])
    path.write_text(json.dumps(manifest(staged) | changes))
    return staged


def test_a_manifest_that_tells_other_probabilities_than_were_paid_for_fails(
    ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    staged = randomized(ingest())
    reported = manifest(staged)["randomization"]
    reported["attributes"]["town"]["other"] = [1, 1]
    with pytest.raises(AirflowFailException, match="manifest tells otherwise than the ledger measured 1"):
        verified(edited(staged, randomization=reported))


def test_other_fresh_answers_than_those_that_were_paid_for_fail(ingest: Any, ledger: BudgetLedger) -> None:
    fresh = {"randomness": "system", "secret": None}
    staged = randomized(ingest(), **fresh)
    other = randomized(ingest(run_id="run 2"), run_id="run 2", **fresh)
    swapped = {**staged, "uri": other["uri"], "sha256": other["sha256"]}
    with pytest.raises(AirflowFailException, match="not those that were paid for measured 1"):
        verified(swapped)


def test_a_release_without_its_booking_fails(ingest: Any, secret: str, ledger: BudgetLedger) -> None:
    staged = randomized(ingest())
    other = {**staged, "booking": {**staged["booking"], "key": "0" * 64}}
    with pytest.raises(AirflowFailException, match="without its committed entry in the ledger measured 1"):
        verified(other)


def test_the_report_tells_each_attribute_s_epsilon_and_what_is_not_promised(
    ingest: Any, secret: str, ledger: BudgetLedger
) -> None:
    page = Path(randomized(ingest())["report"]).read_text()
    for text in ("Epsilon of one person", "Breach coefficient", "Breach width", "memoised", "New values"):
        assert text in page
    assert "at most 7.39 times likelier" in page  # e^2: a third of epsilon 6
    assert "Class sizes" not in page  # equal random answers are no class of people
    assert "Budget left" in page


def test_the_report_on_transformed_numbers_says_that_they_have_no_epsilon(ingest: Any, secret: str) -> None:
    staged = randomized(ingest(), TRROperator, epsilon=None, p_0=0.5, budget=None)
    page = Path(staged["report"]).read_text()
    assert "has no epsilon" in page
    assert "y = a x + b (TRR)" in page
