"""From the trigger to the retraction, as a person sees it: in Chromium, in Airflow's UI, on a real run."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests.servers.airflow_api import ask
from tests.servers.scheduler import has_left_its_worker
from tests.ui.conftest import DESKTOP, PHONE, SIZES, WAIT, opened
from tests.ui.server import Server
from tests.waiting import wait_for

pytestmark = [pytest.mark.ui]

ANONYMIZED, SYNTHETIC, ATTACKED = "adult_occupation", "adult_synthetic_weekly", "adult_attacked"
APPROVE = "approve"
NARROW_AND_WIDE = SIZES[:2]  # the style sheet has no other rules for a screen that is larger still
PAGES = (
    "/privacy/releases",
    "/privacy/budget",
    "/privacy/static/pages.css",
    "/privacy/report?dag_id=x&run_id=y",
)


def trigger_with_approval(server: Server, page: Any, dag_id: str = ANONYMIZED) -> str:
    """Trigger the release by the button in the UI, with approval switched on; the id of the run."""
    page.goto(f"{server.address}/dags/{dag_id}", wait_until="domcontentloaded")
    page.get_by_role("button", name="Trigger").click()
    form = page.get_by_role("dialog")
    switch = form.locator("input[name=element_approval]")
    switch.locator("xpath=ancestor::label").click()
    assert switch.is_checked()
    wanted = re.compile(f"/dags/{dag_id}/dagRuns$")
    with page.expect_response(wanted) as triggered:
        form.get_by_role("button", name="Trigger", exact=True).click()
    made = triggered.value.json()
    assert made["conf"]["approval"] is True
    page.goto("about:blank")  # Airflow's page would keep browser and server busy until the next one
    return str(made["dag_run_id"])


def place_of(run_id: str) -> str:
    """Of a run of the release, in the addresses of UI and API."""
    return f"/dags/{ANONYMIZED}/runs/{quote(run_id, safe='')}"


def requested(server: Server, run_id: str, dag_id: str = ANONYMIZED) -> str:
    """The task that waits for a person, once it does."""
    tasks = f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances"

    def waiting() -> str | None:
        state = {task["task_id"]: task["state"] for task in server.call("GET", tasks)["task_instances"]}
        assert not {"failed", "upstream_failed"} & set(state.values()), state
        waits = state.get(APPROVE) == "awaiting_input"
        return APPROVE if waits and has_left_its_worker(server.log, APPROVE, run_id) else None

    return wait_for(waiting, "the question for approval", every=0.5)


def answer(server: Server, page: Any, run_id: str, option: str, comment: str) -> None:
    """Answer the question in the form that Airflow shows."""
    page.goto(
        f"{server.address}{place_of(run_id)}/tasks/{APPROVE}/required_actions", wait_until="domcontentloaded"
    )
    page.get_by_role("button", name=option, exact=True).wait_for()
    page.locator("[name=element_comment]").fill(comment)
    with page.expect_response(re.compile("/hitlDetails$")) as answered:
        page.get_by_role("button", name=option, exact=True).click()
    assert answered.value.ok


def approval_page(run_id: str, dag_id: str = ANONYMIZED) -> str:
    """The address of the page on which a release is decided on, as Airflow's form names it."""
    place = {"dag_id": dag_id, "run_id": run_id, "task_id": APPROVE, "map_index": -1}
    return f"/privacy/approval?{urlencode(place)}"


def open_approval(server: Server, page: Any, run_id: str, dag_id: str = ANONYMIZED) -> None:
    """Open the page on which a release is decided on."""
    page.goto(f"{server.address}{approval_page(run_id, dag_id)}")
    page.get_by_role("heading", name="Publish a new release").wait_for()


def finished(server: Server, dag_id: str, run_id: str) -> str:
    """The state that the run ended in."""

    def ended() -> str | None:
        state = server.call("GET", f"/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}")["state"]
        return str(state) if state in ("success", "failed") else None

    return wait_for(ended, f"the end of {dag_id}", every=0.5)


def in_airflow(page: Any, title: str) -> Any:
    """What Airflow shows of a page of ours."""
    return page.frame_locator(f"iframe[title='{title}']")


def open_report_tab(server: Server, page: Any, place: str) -> Any:
    """Open the tab of a run or a task by its name; our page in it."""
    page.goto(f"{server.address}{place}", wait_until="domcontentloaded")
    page.get_by_role("link", name="Release report").click()
    tab = in_airflow(page, "Release report")
    tab.locator("h1").wait_for()
    return tab


def open_in_menu(server: Server, page: Any, name: str) -> Any:
    page.goto(f"{server.address}/", wait_until="domcontentloaded")
    page.get_by_role("link", name=name, exact=True).click()
    view = in_airflow(page, name)
    view.locator("h1").wait_for()
    return view


def coloured(element: Any, colour: str) -> None:
    """Wait until an element has this background.

    Not by `evaluate`, whose timeout ends when the element is found.
    """
    from playwright.sync_api import expect

    expect(element).to_have_css("background-color", colour, timeout=WAIT)


@pytest.fixture(scope="module")
def budget_at_first(server: Server) -> str:
    """What the budget page shows before anything is released."""
    return get(server, "/privacy/budget")


def get(server: Server, address: str) -> str:
    """A page as the officer is sent it."""
    return ask(server.address, "GET", address, token=server.token("officer")).decode()


@pytest.fixture(scope="module")
def runs(server: Server, browser: Any, budget_at_first: str) -> dict[str, str]:
    """Both example releases, triggered by REST and published; run ids by DAG."""
    made = {}
    for dag_id in (ANONYMIZED, SYNTHETIC):
        wait_for_dag(server, dag_id)
        body = {"logical_date": None}
        made[dag_id] = str(server.call("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"])
    assert {finished(server, dag_id, run_id) for dag_id, run_id in made.items()} == {"success"}
    return made


@pytest.fixture(scope="module")
def waiting(server: Server, runs: dict[str, str]) -> str:
    """A run that waits for a person; the last test that needs it answers."""
    made = server.call(
        "POST", f"/dags/{ANONYMIZED}/dagRuns", {"logical_date": None, "conf": {"approval": True}}
    )
    requested(server, run_id := str(made["dag_run_id"]))
    return run_id


def wait_for_dag(server: Server, dag_id: str) -> None:
    def known() -> bool:
        return dag_id in {dag["dag_id"] for dag in server.call("GET", "/dags?limit=100")["dags"]}

    wait_for(known, f"the DAG {dag_id}", every=0.5)


def test_a_release_is_triggered_reported_approved_listed_and_retracted_in_the_browser(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("officer", by_form=True)
    run_id = trigger_with_approval(server, page)
    requested(server, run_id)
    tab = open_report_tab(server, page, place_of(run_id))
    assert tab.locator("h1 .status").inner_text() == "not published"
    tab.frame_locator("iframe.report").get_by_role("heading", name=ANONYMIZED).wait_for()
    picture(page, "run-report-before-approval")
    page.goto(f"{server.address}{place_of(run_id)}/tasks/{APPROVE}/required_actions")
    page.get_by_role("link", name="Decide on the page of this approval").wait_for()
    picture(page, "approval")
    assert run_id not in released(server)
    open_approval(server, page, run_id)
    page.frame_locator("iframe.report").get_by_role("heading", name=ANONYMIZED).wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.get_by_role("button", name="Approve", exact=True).bounding_box()["y"] < 1.5 * height
            picture(page, f"approval-page-{width}-{scheme}", whole=True)
    records = page.get_by_role("region", name="Some records").locator("tbody tr")
    assert records.count() == 20
    assert len({row.inner_text() for row in records.all()}) > 15  # not all of one class
    assert page.get_by_role("button", name="Reject", exact=True).is_hidden()
    page.get_by_label("Comment").fill("fine by a test")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("heading", name="Answered").wait_for()
    assert finished(server, ANONYMIZED, run_id) == "success"

    tab = open_report_tab(server, page, place_of(run_id))
    report = tab.frame_locator("iframe.report")
    report.get_by_role("heading", name=ANONYMIZED).wait_for()
    assert tab.locator("h1 .status").inner_text() == "published"
    report.get_by_text("k-anonymity").first.wait_for()
    picture(page, "run-report")
    tab = open_report_tab(server, page, f"{place_of(run_id)}/tasks/release")
    tab.frame_locator("iframe.report").get_by_role("heading", name=ANONYMIZED).wait_for()
    picture(page, "task-report")

    listed = open_in_menu(server, page, "Releases")
    row = listed.get_by_role("row").filter(has=listed.get_by_role("link", name=run_id))
    assert row.locator("[data-label='Approved by']").inner_text() == "officer"
    picture(page, "releases")
    row.get_by_role("link", name=run_id).click()
    listed.get_by_text("fine by a test").first.wait_for()
    listed.get_by_role("link", name="Retract ...").click()
    listed.get_by_label("Why").fill("retracted by a test")
    listed.get_by_label("I want to retract this release.").check()
    picture(page, "retract")
    listed.get_by_role("button", name="Retract").click()
    listed.get_by_text("retracted by a test").first.wait_for()
    assert listed.locator("h1 .status").inner_text() == "retracted"
    picture(page, "retracted")

    tab = open_report_tab(server, page, place_of(run_id))
    tab.get_by_text("Retracted: retracted by a test").wait_for()
    assert tab.locator("iframe").count() == 0


def test_a_rejected_release_fails_publishes_nothing_and_leaves_no_report(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("officer")
    run_id = trigger_with_approval(server, page)
    requested(server, run_id)
    visitor = log_in("visitor")
    forbidden = visitor.request.patch(
        f"{server.address}/api/v2/dags/{ANONYMIZED}/dagRuns/{quote(run_id, safe='')}"
        f"/taskInstances/{APPROVE}/-1/hitlDetails",
        data={"chosen_options": ["Approve"], "params_input": {}},
    )
    assert forbidden.status == 403
    assert visitor.goto(f"{server.address}{approval_page(run_id)}").status == 403
    open_approval(server, page, run_id)
    page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
    page.get_by_text("Reject ...").click()
    page.get_by_label("Why").fill("not by a test")
    picture(page, "approval-page-reject")
    page.get_by_role("button", name="Reject", exact=True).click()
    assert page.get_by_role("heading", name="Publish a new release").is_visible()  # it was not confirmed
    page.get_by_label("I want to reject this release.").check()
    page.get_by_role("button", name="Reject", exact=True).click()
    page.get_by_role("heading", name="Answered").wait_for()
    assert finished(server, ANONYMIZED, run_id) == "failed"
    assert run_id not in released(server)
    tab = open_report_tab(server, page, place_of(run_id))
    tab.get_by_text("did not publish it").wait_for()
    assert tab.locator("iframe").count() == 0
    assert not list((server.root / ".airflow" / "work_area").iterdir())
    picture(page, "run-report-rejected")


def test_what_attackers_gain_is_seen_before_a_release_is_approved_and_with_it_afterwards(
    server: Server,
    log_in: Callable[..., Any],
    picture: Callable[..., None],
    accessible: Callable[[Any], None],
) -> None:
    def fits(page: Any, width: int, name: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width in dict(NARROW_AND_WIDE):
            accessible(page)
        picture(page, name, whole=True)

    wait_for_dag(server, ATTACKED)
    release_before(server, ATTACKED)
    page = log_in("officer")
    run_id = trigger_with_approval(server, page, ATTACKED)
    requested(server, run_id, ATTACKED)
    open_approval(server, page, run_id, ATTACKED)
    gained = page.get_by_role("table", name="What each attack gains on this release")
    reported = [row.inner_text() for row in gained.get_by_role("rowheader").all()]
    assert {"singling out", "linkage", "inference", "minimality"} == set(reported)
    accessible(page)
    picture(page, "approval-attacked", whole=True)
    page.get_by_label("Comment").fill("attacked by a test")
    page.get_by_role("button", name="Approve", exact=True).click()
    page.get_by_role("heading", name="Answered").wait_for()
    assert finished(server, ATTACKED, run_id) == "success"
    one = {"lake": "lake_default", "table": ATTACKED, "version": 2}
    page.goto(f"{server.address}/privacy/release?{urlencode(one)}")
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        bars = page.get_by_role("region", name="Attacks on this release").get_by_role("rowheader")
        assert {row.inner_text().partition(":")[0] for row in bars.all()} == {
            "Singling out",
            "Linkage",
            "Inference",
            "Minimality",
        }
        fits(page, width, f"release-attacked-{width}")
    page.goto(f"{server.address}/privacy/trend?{urlencode({'table': ATTACKED})}")
    page.get_by_text("Inference", exact=False).first.wait_for()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        fits(page, width, f"trend-attacked-{width}")


def release_before(server: Server, name: str) -> None:
    """Publish an earlier release of a table, without Airflow."""
    spec = load_spec(server.root / "include" / "releases" / f"{name}.yaml")
    with WorkArea(server.root / "earlier", name) as work:
        run_release(spec, Lake(root=str(server.root / ".lake")), "earlier", work)


def released(server: Server) -> set[str]:
    """Ids of the published releases."""
    page = get(server, "/privacy/releases")
    return set(re.findall(r'aria-label="Choose \S+, release (\S+), version', page))


def test_the_budget_drops_by_what_a_private_release_spends(
    server: Server,
    budget_at_first: str,
    runs: dict[str, str],
    log_in: Callable[..., Any],
    picture: Callable[..., None],
) -> None:
    assert "1.5 of 1.5 left, in any 365 days" in budget_at_first
    page = log_in("officer")
    budget = open_in_menu(server, page, "Budget")
    budget.get_by_role("heading", name="1 of 1.5 left, in any 365 days").wait_for()
    budget.get_by_text("History").click()
    budget.get_by_text(runs[SYNTHETIC]).first.wait_for()
    picture(page, "budget")


def test_two_releases_are_chosen_with_the_keyboard_and_compared(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("officer")
    page.goto(f"{server.address}/privacy/releases?table={SYNTHETIC}&table=")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    boxes = page.locator("input[name=pick]")
    button = page.locator("[data-pick-button]")
    assert button.is_disabled()
    for i in (0, boxes.count() - 1):
        boxes.nth(i).focus()
        page.keyboard.press("Space")
    assert button.is_enabled()
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Two releases compared").wait_for()
    assert page.locator("tr.differs").count() > 0
    picture(page, "compare", whole=True)


def test_typing_into_the_search_hides_the_other_rows(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any]
) -> None:
    page = log_in("officer")
    page.goto(f"{server.address}/privacy/releases")
    rows = page.locator("tr[data-text]:visible")
    before = rows.count()
    page.get_by_label("Search").type(SYNTHETIC[:9])
    assert 0 < rows.count() < before
    assert all(SYNTHETIC in row.inner_text() for row in rows.all())
    assert page.locator("[data-count]").inner_text() == str(rows.count())


def test_every_page_fits_a_phone_in_light_and_dark_and_breaks_no_rule_of_its_policy(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    for scheme, paper in (("light", "rgb(245, 246, 248)"), ("dark", "rgb(16, 21, 28)")):
        page = log_in("officer", scheme)
        complaints: list[str] = []
        requested: list[str] = []
        page.on("console", lambda message, expected=complaints: expected.append(message.text))
        page.on("request", lambda request, expected=requested: expected.append(request.url))
        for name, address in addresses(runs).items():
            assert page.goto(f"{server.address}{address}").ok, name
            for size, (width, height) in {"desktop": DESKTOP, "phone": PHONE, "large": SIZES[-1]}.items():
                page.set_viewport_size({"width": width, "height": height})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, size)
                coloured(page.locator("body"), paper)
                picture(page, f"{name}-{size}-{scheme}", whole=name != "report")
        assert not [text for text in complaints if "Content Security Policy" in text]
        assert requested
        assert not [url for url in requested if not url.startswith(f"{server.address}/privacy/")]


def addresses(runs: dict[str, str]) -> dict[str, str]:
    """One of each page, by a name for its picture."""
    one = {"lake": "lake_default", "table": ANONYMIZED, "version": 1}
    return {
        "releases": "/privacy/releases",
        "release": f"/privacy/release?{urlencode(one)}",
        "retract": f"/privacy/retract?{urlencode(one)}",
        "trend": f"/privacy/trend?{urlencode({'table': ANONYMIZED})}",
        "budget": "/privacy/budget",
        "grant": f"/privacy/grant?{urlencode({'ledger': 'ledger_default', 'dataset': 'adult'})}",
        "report": f"/privacy/report?{urlencode({'dag_id': ANONYMIZED, 'run_id': runs[ANONYMIZED]})}",
    }


def test_no_page_has_a_serious_fault_of_accessibility(
    server: Server,
    runs: dict[str, str],
    waiting: str,
    log_in: Callable[..., Any],
    accessible: Callable[[Any], None],
) -> None:
    for scheme in ("light", "dark"):
        page = log_in("officer", scheme)
        for address in (*addresses(runs).values(), approval_page(waiting)):
            assert page.goto(f"{server.address}{address}").ok
            for width, height in NARROW_AND_WIDE:
                page.set_viewport_size({"width": width, "height": height})
                accessible(page)


def test_a_release_that_is_sent_back_in_airflows_own_form_ends_without_failure_or_publication(
    server: Server, waiting: str, log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("officer")
    answer(server, page, waiting, "Send back", "coarser ages")
    assert finished(server, ANONYMIZED, waiting) == "success"
    assert waiting not in released(server)
    page.goto(f"{server.address}{approval_page(waiting)}")
    page.get_by_text("coarser ages").wait_for()
    picture(page, "approval-page-sent-back")


def test_a_theme_chosen_in_airflow_rules_the_pages_and_the_report(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("officer", "light")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(f"{server.address}/privacy/static/pages.css")  # of the same origin, and drawn at once
    page.evaluate("localStorage.setItem('theme', 'dark')")
    tab = open_report_tab(server, page, place_of(runs[ANONYMIZED]))
    report = tab.frame_locator("iframe.report")
    report.get_by_role("heading", name=ANONYMIZED).wait_for()
    for body in (tab.locator("body"), report.locator("body")):
        coloured(body, "rgb(16, 21, 28)")
    (one,) = (url for url in requested if "/privacy/report/published?" in url)
    assert one.endswith("&theme=dark")  # and was not read once more for it
    picture(page, "run-report-dark")


def test_a_visitor_sees_releases_and_may_not_retract(
    server: Server, runs: dict[str, str], log_in: Callable[..., Any], picture: Callable[..., None]
) -> None:
    page = log_in("visitor")
    address = urlencode({"lake": "lake_default", "table": ANONYMIZED, "version": 1})
    page.goto(f"{server.address}/privacy/release?{address}")
    assert re.search(r"10\s*size of the smallest class", page.locator("main").inner_text())
    assert page.get_by_role("link", name="Retract ...").count() == 0
    assert page.goto(f"{server.address}/privacy/retract?{address}").status == 403
    picture(page, "forbidden")
    fields = {
        "lake": "lake_default",
        "table": ANONYMIZED,
        "version": "1",
        "token": "x",
        "reason": "x",
        "sure": "yes",
    }
    assert page.request.post(f"{server.address}/privacy/retract", form=fields).status == 403


def test_who_is_not_logged_in_is_refused_everywhere(server: Server, browser: Any) -> None:
    window = opened(browser)
    for address in (*PAGES, "/privacy/docs", "/privacy/openapi.json", "/privacy/nothing"):
        assert window.request.get(f"{server.address}{address}").status == 401, address
    assert window.request.post(f"{server.address}/privacy/retract").status == 401
    window.close()
