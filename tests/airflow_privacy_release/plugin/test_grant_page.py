"""Who may edit the ledger's connection grants budgets, by the form made for them, and it is written down."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_release.ledger.ledger import BudgetLedger
from tests.airflow_privacy_release.plugin.conftest import Visit
from tests.airflow_privacy_release.plugin.test_retract_pages import token_of
from tests.servers.pages import Page

PEOPLE = {"ledger": "ledger_default", "dataset": "people"}


@pytest.fixture
def officer(visit: Callable[..., Visit]) -> Visit:
    return visit("officer")


def form(visit: Visit, dataset: str = "people", known: str = "", **other: Any) -> dict[str, Any]:
    """The filled-in form of a user."""
    fields = {"ledger": "ledger_default", "dataset": known}
    token = token_of(visit.get("/grant", fields).text)
    filled = {
        "token": token,
        "dataset": dataset,
        "known": known,
        "epsilon": "1.5",
        "period": "days",
        "days": "30",
    }
    return fields | filled | {"reason": "the board of November", "sure": "yes"} | other


def test_a_limit_is_set_and_the_ledger_and_airflows_audit_log_name_who_did_and_why(
    officer: Visit, ledger_file: BudgetLedger
) -> None:
    from airflow.models.log import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    answer = officer.post("/grant", form(officer))
    assert (answer.status_code, answer.headers["location"]) == (303, "/privacy/budget")
    (standing,) = ledger_file.standing("people")
    assert (standing.limit.epsilon, standing.limit.period.name) == (1.5, "30d")
    (entry,) = ledger_file.history("people")
    assert entry.detail == {"period": "30d", "reason": "the board of November", "by": "officer"}
    assert "1.5 of 1.5 left, in any 30 days" in Page(officer.get("/budget").text).text
    with create_session() as session:
        newest = select(Log).where(Log.event == "privacy_release.grant").order_by(Log.id.desc())
        found = session.scalars(newest).first()
        assert found is not None
        assert found.owner == "officer"
        fields = json.loads(found.extra or "")
    assert fields | {"epsilon": 1.5, "dataset": "people", "reason": "the board of November"} == fields


def test_who_may_not_edit_the_ledgers_connection_sees_no_button_and_is_refused(
    visit: Callable[..., Visit], officer: Visit, ledger_file: BudgetLedger
) -> None:
    filled = form(officer)
    for user in ("visitor", "steward"):
        assert "/grant" not in visit(user).get("/budget").text
        assert visit(user).get("/grant", PEOPLE).status_code == 403
        assert visit(user).post("/grant", filled).status_code == 403
    assert "/grant" in officer.get("/budget").text
    assert ledger_file.datasets() == ()


def test_a_form_of_another_user_ledger_or_data_set_or_from_before_a_booking_grants_nothing(
    officer: Visit, ledger_file: BudgetLedger
) -> None:
    ledger_file.grant("people", Limit(epsilon=1.0), reason="board", by="officer")
    stale = form(officer, known="people")
    assert officer.post("/grant", stale | {"dataset": "others"}).status_code == 403
    assert officer.post("/grant", stale | {"known": ""}).status_code == 403
    assert officer.post("/grant", stale | {"token": "made up"}).status_code == 403
    loss = PrivacyLoss(epsilon=0.5, delta=0.0, neighbours=Neighbours.REPLACE_ONE)
    ledger_file.reserve("people", "key", loss, detail={"run": "people/week", "method": "privbayes"})
    answer = officer.post("/grant", stale)
    assert answer.status_code == 403
    assert "something has been spent or granted since" in Page(answer.text).text
    assert officer.get("/grant", {"ledger": "elsewhere", "dataset": "people"}).status_code == 404
    assert [standing.limit.epsilon for standing in ledger_file.standing("people")] == [1.0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epsilon": "much"}, "Epsilon and delta must be numbers"),
        ({"epsilon": "-1"}, "epsilon of a limit must be >= 0"),
        ({"epsilon": "nan"}, "epsilon of a limit must be >= 0 and finite"),
        ({"delta": "1"}, "delta of a limit must be in [0, 1)"),
        ({"days": "0"}, "a number of days"),
        ({"neighbours": "unknown"}, "unknown"),
        ({"reason": " "}, "Enter a reason"),
        ({"sure": ""}, "Confirm"),
        ({"dataset": "a" * 300}, "printable characters"),
    ],
)
def test_what_is_wrong_is_said_in_the_form_which_keeps_what_was_typed(
    officer: Visit, ledger_file: BudgetLedger, wrong: dict[str, str], said: str
) -> None:
    answer = officer.post("/grant", form(officer, **wrong))
    assert answer.status_code == 422
    assert said in Page(answer.text).text
    assert 'value="1.5"' in answer.text or "epsilon" in wrong
    assert ledger_file.datasets() == ()


def test_the_form_knows_the_limits_and_the_relation_of_the_data_set(
    officer: Visit, ledger_file: BudgetLedger
) -> None:
    limit = Limit(epsilon=2.0, neighbours=Neighbours.REPLACE_PERSON)
    ledger_file.grant("people", limit, reason="board", by="officer")
    page = officer.get("/grant", PEOPLE).text
    assert "2 of 2 left, in total" in Page(page).text
    assert 'value="replace_person" selected' in page
    other = officer.post("/grant", form(officer, known="people", neighbours="replace_one"))
    assert "is for replace_person" in Page(other.text).text
    assert (
        officer.post("/grant", form(officer, known="people", neighbours="replace_person")).status_code == 303
    )


def test_a_limit_whose_releases_add_by_rho_is_set_and_shown_with_its_rho(
    officer: Visit, ledger_file: BudgetLedger
) -> None:
    bad = officer.post("/grant", form(officer, accounting="zcdp", delta="0"))
    assert bad.status_code == 422
    assert "delta of a limit accounted as zcdp must be" in Page(bad.text).text
    assert officer.post("/grant", form(officer, accounting="zcdp", delta="1e-9")).status_code == 303
    ledger_file.reserve("people", "key", PrivacyLoss.of_zcdp(0.01, 1e-9, Neighbours.REPLACE_ONE))
    shown = Page(officer.get("/budget").text).text
    assert "Rho 0.01 spent, 0.02249 of 0.03249 left; epsilon is computed at delta 1e-9." in shown
    again = officer.get("/grant", PEOPLE).text
    assert '<option value="zcdp" selected>' in again
