"""What is spent and left of each budget, how it came to that, and to whom it is shown."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_release.ledger.ledger import BudgetLedger
from tests import tables
from tests.airflow_privacy_release.plugin.conftest import OWN_DAG, Visit
from tests.servers.pages import Page

NOW = datetime.now(UTC).replace(microsecond=0)
HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture
def moments(ledger_file: BudgetLedger) -> Callable[[int], BudgetLedger]:
    """The ledger as it was some days ago."""
    return lambda days: BudgetLedger(ledger_file.url, clock=lambda: NOW - timedelta(days=days))


@pytest.fixture
def spender(home: Path) -> str:
    """A release whose specification spends the budget `people`; its DAG is the one that all may read."""
    path = home / "releases" / "people.yaml"
    spec = yaml.safe_load(path.read_text())
    spec |= {
        "name": OWN_DAG,
        "schema": tables.fields(**tables.PUBLIC, visits={"bounds": [0, 9]}),
        "release": {"method": "privbayes", "epsilon": 0.4},
        "budget": {"dataset": "people"},
    }
    path.write_text(yaml.safe_dump(spec))
    return OWN_DAG


def loss(epsilon: float) -> PrivacyLoss:
    return PrivacyLoss(epsilon=epsilon, delta=0.0, neighbours=Neighbours.REPLACE_ONE)


def spend(ledger: BudgetLedger, key: str, epsilon: float, run: str = f"{OWN_DAG}/week") -> None:
    held = ledger.reserve("people", key, loss(epsilon), detail={"run": run, "method": "privbayes"})
    ledger.commit("people", key, "{}", token=held.token)


def grant(ledger: BudgetLedger, epsilon: float, period: str = "365d", **detail: str) -> None:
    limit = Limit(epsilon=epsilon, period=Period.parse(period))
    ledger.grant("people", limit, **({"reason": "board", "by": "officer"} | detail))


def text_of(visit: Visit) -> str:
    return Page(visit.get("/budget").text).text


def test_spent_and_left_are_the_ledgers(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(50), 2.0)
    grant(moments(50), 0.5, "release")
    spend(moments(40), "k1", 0.4)
    spend(moments(10), "k2", 0.3)
    text = text_of(visit("visitor"))
    assert "1.3 of 2 left, in any 365 days" in text
    assert "Epsilon 0.7 spent" in text
    assert "At most 0.5 for each release" in text
    assert "people (epsilon 0.4 each)" in text
    assert "low" not in text.split("Privacy budget", 2)[2]


def test_what_ran_out_of_the_window_counts_no_more_and_the_chart_shows_it(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(50), 1.0, "30d")
    spend(moments(45), "k1", 0.4)
    spend(moments(5), "k2", 0.1)
    page = visit("visitor").get("/budget").text
    assert "0.9 of 1 left, in any 30 days" in Page(page).text
    drawn = re.findall(r"<title>\d{4}-\d\d-\d\d \d\d:\d\d UTC: (\S+) left</title>", page)
    assert drawn == ["1", "0.6", "1", "0.9", "0.9"]  # granted, spent, expired, spent, now


def test_a_reservation_that_is_not_committed_is_reported_and_one_given_back_is_not_spent(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(9), 1.0)
    detail = {"run": f"{OWN_DAG}/r", "method": "privbayes"}
    one, _ = (moments(8).reserve("people", key, loss(0.25), detail=detail) for key in ("k1", "k2"))
    moments(7).cancel("people", "k1", token=one.token)
    assert "Epsilon 0.25 spent, 0.25 of it reserved by runs that have not ended" in text_of(visit("visitor"))


@pytest.mark.parametrize(
    ("spends", "warning"),
    [
        ([0.5], ""),
        ([0.5, 0.25], "Too little epsilon for the next release, which needs epsilon 0.4."),
        ([0.5, 0.5], "Too little epsilon for the next release, which needs epsilon 0.4."),
    ],
    ids=["enough", "short", "spent"],
)
def test_a_budget_that_does_not_pay_the_next_release_is_marked_low(
    visit: Callable[..., Visit],
    spender: str,
    moments: Callable[[int], BudgetLedger],
    spends: list[float],
    warning: str,
) -> None:
    grant(moments(9), 1.0)
    for i, epsilon in enumerate(spends):
        spend(moments(8 - i), f"k{i}", epsilon)
    page = visit("visitor").get("/budget").text
    assert ('class="status low"' in page) == bool(warning)
    assert warning in Page(page).text


def test_a_delta_that_is_used_up_is_shown_and_named(
    visit: Callable[..., Visit], home: Path, spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    path = home / "releases" / "people.yaml"
    spec = yaml.safe_load(path.read_text())
    spec["release"] = {"method": "latent_class", "epsilon": 0.1286, "delta": 1e-9}
    path.write_text(yaml.safe_dump(spec))
    limit = Limit(epsilon=1.5, delta=1e-9, period=Period.parse("365d"))
    moments(9).grant("people", limit, reason="board", by="officer")
    requested = PrivacyLoss(epsilon=0.6286, delta=1e-9, neighbours=Neighbours.REPLACE_ONE)
    moments(8).reserve("people", "key", requested)
    text = text_of(visit("visitor"))
    assert "Epsilon: 0.8714 of 1.5 left, in any 365 days" in text
    assert "Delta 1e-9 spent, 0 of 1e-9 left." in text
    assert "Too little delta for the next release, which needs delta 1e-9." in text


def test_the_history_is_newest_first_and_tells_no_key(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(9), 1.0)
    spend(moments(8), "5ecret0key", 0.25)
    page = visit("officer").get("/budget").text
    assert re.findall(r'data-label="What">([^<]+)<', page) == ["model stored", "spent", "limit set"]
    assert "5ecret0key" not in page
    assert "in any 365 days, by officer: board" in Page(page).text


def test_a_run_of_a_dag_that_may_not_be_read_is_not_named(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(9), 1.0)
    spend(moments(8), "k1", 0.25, run="others/unseen")
    spend(moments(7), "k2", 0.25, run=f"{OWN_DAG}/shown")
    assert "unseen" in visit("officer").get("/budget").text
    page = visit("visitor").get("/budget").text
    assert "unseen" not in page
    assert "shown" in page


def test_a_budget_that_no_readable_dag_spends_is_for_those_who_may_read_the_ledgers_connection(
    visit: Callable[..., Visit], moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(9), 1.0)
    assert "No budget to show" in text_of(visit("visitor"))
    assert "1 of 1 left" in text_of(visit("officer"))


def test_html_in_a_reason_is_shown_as_text(
    visit: Callable[..., Visit], moments: Callable[[int], BudgetLedger]
) -> None:
    grant(moments(9), 1.0, reason=HTML, by=HTML)
    page = Page(visit("officer").get("/budget").text)
    assert HTML in page.text
    assert not [tag for tag, _ in page.tags if tag == "img"]


def test_an_edited_ledger_is_shown_as_such_and_its_figures_are_not(
    visit: Callable[..., Visit], spender: str, moments: Callable[[int], BudgetLedger], tmp_path: Path
) -> None:
    import sqlite3

    grant(moments(9), 1.0)
    spend(moments(8), "k1", 0.25)
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("update privacy_ledger_entry set epsilon = '0.01' where event = 'reserve'")
    database.close()
    text = text_of(visit("visitor"))
    assert "This budget cannot be shown" in text
    assert "left, in any" not in text


@pytest.fixture
def no_ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("PRIVACY_LEDGER", "postgresql://unknown@127.0.0.1:1/nothing")
    return


def test_an_unreachable_ledger_is_named_without_failing_the_page(
    visit: Callable[..., Visit], no_ledger: None
) -> None:
    answer = visit("officer").get("/budget")
    assert answer.status_code == 200
    assert "Not everything could be read" in answer.text
