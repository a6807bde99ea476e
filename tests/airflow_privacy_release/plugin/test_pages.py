"""What the pages on releases show, and how: escaped, under a strict policy, and without a record."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_privacy_release.plugin.responses import CONTENT_POLICY, REPORT_POLICY, STATIC
from privacy_engine.verification.republication.notes import NOT_JUDGED
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from tests.airflow_privacy_release.plugin.conftest import DICTIONARY, REPORT, Visit
from tests.airflow_privacy_release.plugin.test_access import one
from tests.servers.pages import Page

HTML = "<img src=x onerror=alert(1)>&amp;'\""


def links_to(page: str, text: str) -> list[str]:
    """Where the links of a page lead that lead to another one."""
    addresses = (str(a.get("href", "")) for tag, a in Page(text).tags if tag == "a")
    return [address for address in addresses if address.startswith(f"/privacy/{page}?")]


def rows_of(page: str) -> list[str]:
    """Release ids of the list, in its order."""
    return re.findall(r'aria-label="Choose \S+, release (\S+), version', page)


@pytest.fixture
def officer(visit: Callable[..., Visit]) -> Visit:
    return visit("officer")


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that publishes them leaves a copy of `some` releases."""
    return tmp_path_factory.mktemp("pages") / "lake"


@pytest.fixture
def some(publish_people: Callable[..., int], airflow_lake: Lake, shared_lake: Path) -> None:
    """Four releases of two tables, one of which is retracted: published once, then copied."""
    assert airflow_lake.folder is not None
    if shared_lake.exists():
        shutil.copytree(shared_lake, airflow_lake.folder)
        return
    publish_people("b", k=5, rows=30)
    publish_people("a", k=9, rows=20)
    loss = {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    publish_people(
        "d", table="noisy", rows=10, manifest={"method": "privbayes", "loss": loss, "measured": []}
    )
    publish_people("c", k=7, rows=40)
    retract(airflow_lake.table("people"), "c", "the source was wrong")
    shutil.copytree(airflow_lake.folder, shared_lake)


def test_the_list_tells_what_was_measured_spent_and_approved(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    findings = [
        {"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 11.0, "passed": True},
        {
            "rule": "distinct_l_diversity(attribute=illness, l=2)",
            "threshold": 2,
            "measured": 3.0,
            "passed": True,
        },
        {"rule": "t_closeness(t=0.3)", "threshold": 0.3, "measured": 0.125, "passed": True},
    ]
    loss = {"epsilon": 0.75, "delta": 0.0, "neighbours": "replace_one"}
    approval = {"by": {"id": "7", "name": "Ada"}, "at": "2026-11-20T10:00:00+00:00", "comment": "fine"}
    publish_people(rows=1234, manifest={"measured": findings, "loss": loss, "approval": approval})
    page = officer.get("/releases").text
    cells = dict(re.findall(r'<td role="cell" data-label="([^"]+)"[^>]*>(.*?)</td>', page, re.DOTALL))
    shown = {name: cells[name] for name in ("k", "l", "t", "Epsilon", "Rows", "Approved by")}
    assert shown == {
        "k": "11",
        "l": "3",
        "t": "0.125",
        "Epsilon": "0.75",
        "Rows": "1,234",
        "Approved by": "Ada",
    }


def test_a_release_of_several_tables_tells_what_each_has(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    tables = {"patients": {"columns": ["age"]}, "<visits>": {"columns": ["month", "illness"]}}
    counts = {name: {"rows": 1_000 + i, "suppressed": 2} for i, name in enumerate(tables)}
    version = publish_people(manifest={"person": {"column": "who", "tables": tables}, "tables": counts})
    page = officer.get("/release", {"lake": "lake_default", "table": "people", "version": version}).text
    fields = dict(re.findall(r'<tr><th scope="row">Table (.*?)</th><td>(.*?)</td></tr>', page))
    assert fields == {"patients": "1,000 records: age", "&lt;visits&gt;": "1,001 records: month, illness"}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({}, ["c", "d", "a", "b"]),
        ({"sort": "rows"}, ["c", "b", "a", "d"]),
        ({"sort": "rows", "dir": "asc"}, ["d", "a", "b", "c"]),
        ({"sort": "k"}, ["a", "c", "b", "d"]),
        ({"sort": "k", "dir": "asc"}, ["b", "c", "a", "d"]),
        ({"sort": "nothing known", "dir": "asc"}, ["c", "d", "a", "b"]),
        ({"table": "noisy"}, ["d"]),
        ({"status": "retracted"}, ["c"]),
        ({"method": "mondrian", "status": "published", "sort": "release", "dir": "asc"}, ["a", "b"]),
        ({"q": "NOIS"}, ["d"]),
        ({"q": "nowhere"}, []),
        ({"page": "-1"}, ["c", "d", "a", "b"]),
    ],
    ids=str,
)
def test_the_query_filters_and_orders_the_list(
    officer: Visit, some: None, query: dict[str, str], shown: list[str]
) -> None:
    assert rows_of(officer.get("/releases", query).text) == shown


def test_a_long_list_is_shown_in_pages_that_miss_and_repeat_nothing(
    officer: Visit, publish_people: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_privacy_release.plugin.views import selection

    monkeypatch.setattr(selection, "PAGE_SIZE", 2)
    for name in "abcde":
        publish_people(name)
    pages = [rows_of(officer.get("/releases", {"sort": "release", "page": n}).text) for n in (1, 2, 3)]
    assert pages == [["e", "d"], ["c", "b"], ["a"]]


def test_a_release_that_a_later_run_replaced_is_superseded(
    officer: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    first = publish_people("week", rows=5)
    publish_people("week", rows=6, dag_id="others")
    assert "superseded" in officer.get("/release", one(first)).text


@pytest.mark.parametrize("path", ["/release", "/retract", "/report/release"])
def test_html_in_a_name_is_shown_as_text(
    officer: Visit, publish_people: Callable[..., int], path: str
) -> None:
    approval = {"by": HTML, "at": HTML, "comment": HTML}
    version = publish_people(
        HTML,
        manifest={
            "method": HTML,
            "parameters": {HTML: HTML},
            "columns": {HTML: {"role": HTML, "kind": HTML}},
            "approval": approval,
        },
    )
    for page in (officer.get(path, one(version)).text, officer.get("/releases").text):
        read = Page(page)
        assert HTML in read.text or "&amp;" not in HTML
        assert not [tag for tag, _ in read.tags if tag == "img"]
        assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]


def test_html_in_names_is_text_in_comparisons_and_trends_too(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    fields = {"method": HTML, "parameters": {HTML: HTML}, "columns": {HTML: {"role": HTML, "kind": HTML}}}
    versions = [publish_people(HTML + name, manifest=fields) for name in "ab"]
    picks = [("pick", json.dumps(["lake_default", "people", version])) for version in versions]
    for page in (officer.get("/compare", picks).text, officer.get("/trend", {"table": "people"}).text):
        read = Page(page)
        assert "<img src=x onerror=alert(1)>" in read.text
        assert not [tag for tag, _ in read.tags if tag == "img"]


@pytest.mark.parametrize(
    "path",
    ["/releases", "/budget", "/nothing", "/release", "/trend?table=people", "/report?dag_id=x&run_id=y"],
)
def test_every_page_forbids_what_it_does_not_need(officer: Visit, some: None, path: str) -> None:
    answer = officer.get(path)
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    read = Page(answer.text)
    assert not [a for _, a in read.tags if "style" in a]
    assert not [tag for tag, _ in read.tags if tag == "style"]
    sources = [a["src"] for tag, a in read.tags if tag == "script"]
    sources += [a["href"] for tag, a in read.tags if tag == "link"]
    assert sources
    assert all(str(source).startswith("/privacy/static/") for source in sources)
    assert len(sources) == sum(tag in ("script", "link") for tag, _ in read.tags)


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    allowed = dict(rule.strip().split(" ", 1) for rule in CONTENT_POLICY.split(";"))
    assert allowed["default-src"] == "'none'"
    assert set(allowed.values()) == {"'none'", "'self'"}


def test_a_report_is_served_as_it_was_published_in_a_sandbox(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    version = publish_people()
    answer = officer.get("/report/published", one(version))
    assert answer.text == REPORT
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert REPORT_POLICY.startswith("sandbox;")
    frames = [a for tag, a in Page(officer.get("/report/release", one(version)).text).tags if tag == "iframe"]
    assert len(frames) == 2  # with the page's script, and without it
    assert all(frame["sandbox"] is None for frame in frames)  # the attribute is there and allows nothing


def test_a_dictionary_is_served_as_it_was_published_to_those_who_may_see_the_release(
    visit: Callable[..., Visit], publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    visitor, version = visit("visitor"), publish_people(dictionary=DICTIONARY)
    (link,) = links_to("dictionary", visitor.get("/release", one(version)).text)
    page = Page(visitor.get(link.removeprefix("/privacy")).text)
    sources = {a["src"] for tag, a in page.tags if tag == "iframe" and "src" in a}
    (address,) = (str(source).removeprefix("/privacy") for source in sources)
    answer = visitor.get(address)
    assert (answer.status_code, answer.text) == (200, DICTIONARY)
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert airflow_lake.folder is not None
    for file in (airflow_lake.folder / "_proof" / "people").glob("*.html"):
        file.write_text("<script>alert(1)</script>")
    assert (visitor.get(address).status_code, "alert" in visitor.get(address).text) == (503, False)


def test_a_release_without_a_dictionary_says_so(officer: Visit, publish_people: Callable[..., int]) -> None:
    version = publish_people()
    assert links_to("dictionary", officer.get("/release", one(version)).text) == []
    assert "published without a data dictionary" in officer.get("/dictionary", one(version)).text
    assert officer.get("/dictionary/published", one(version)).status_code == 404


def test_an_altered_report_is_not_shown(
    officer: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    version = publish_people()
    assert airflow_lake.folder is not None
    (report,) = (airflow_lake.folder / "_proof" / "people").glob("*.html")
    report.write_text("<script>alert(1)</script>")
    answer = officer.get("/report/published", one(version))
    assert answer.status_code == 503
    assert "alert" not in answer.text


def test_a_retracted_release_shows_why_and_has_no_report(
    officer: Visit, some: None, airflow_lake: Lake
) -> None:
    version = next(
        int(v)
        for v in re.findall(
            r'version (\d+)"', officer.get("/releases", {"q": "c", "status": "retracted"}).text
        )
    )
    page = officer.get("/release", one(version)).text
    assert "the source was wrong" in page
    assert "Retract ..." not in page
    for what in ("report", "dictionary"):
        assert officer.get(f"/{what}/published", one(version)).status_code == 404
    for path in ("/report/release", "/dictionary"):
        assert "Retracted: the source was wrong" in officer.get(path, one(version)).text


def test_two_releases_are_compared_with_the_earlier_on_the_left(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    versions = publish_people("old", rows=200, k=5), publish_people("new", rows=150, k=10)
    picks = [("pick", json.dumps(["lake_default", "people", version])) for version in reversed(versions)]
    text = Page(officer.get("/compare", picks).text).text
    assert "Records (differs) 200 150 -50 (-25 %)" in text
    assert "k_anonymity(k=5) (differs) 5 (limit 5) 10 (limit 5) +5 (+100 %)" in text
    assert text.index("old") < text.index("new")


def test_of_a_retracted_release_what_stays_in_the_log_is_compared(
    officer: Visit, publish_people: Callable[..., int], airflow_lake: Lake
) -> None:
    versions = publish_people("old", k=5), publish_people("new", k=10)
    retract(airflow_lake.table("people"), "old", "the source was wrong")
    picks = [("pick", json.dumps(["lake_default", "people", version])) for version in versions]
    text = Page(officer.get("/compare", picks).text).text
    assert "Status (differs) retracted published" in text
    assert "k_anonymity(k=5) (differs) 5 (limit 5) 10 (limit 5)" in text


def test_the_page_of_a_release_says_which_attackers_were_judged(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    by_model = {"rule": "republication(k=5)", "threshold": 5.0, "measured": 7.0, "passed": True}
    judged = publish_people("new", manifest={"measured": [by_model | {"note": "difference 7"}]})
    unjudged = publish_people("old", manifest={"measured": [], "history": {"releases": 1}})
    assert "republication(k=5): difference 7." in Page(officer.get("/release", one(judged)).text).text
    assert NOT_JUDGED in Page(officer.get("/release", one(unjudged)).text).text


def test_an_approval_is_reported_and_a_release_that_no_one_was_asked_about_is_not_approved_by_anybody(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    approval = {"by": "Ada", "at": "2026-11-20T10:00:00+00:00", "comment": "fine", "automatic": False}
    requested = publish_people("asked", manifest={"approval": approval})
    alone = publish_people("alone", manifest={"approval": {"by": None, "at": "now", "automatic": True}})
    assert "Ada, 2026-11-20 10:00 UTC : fine" in Page(officer.get("/release", one(requested)).text).text
    assert "Approved by no approval was required" in Page(officer.get("/release", one(alone)).text).text


@pytest.mark.parametrize(
    "picks",
    [
        [],
        ["[]"],
        ['["lake_default", "people", 1]'],
        ["x", "y"],
        ['["a", "b", "c"]'] * 2,
        ["1", "2"],
        ["{}"] * 3,
    ],
    ids=str,
)
def test_other_than_two_addresses_cannot_be_compared(officer: Visit, picks: list[str]) -> None:
    assert officer.get("/compare", [("pick", pick) for pick in picks]).status_code == 422


def test_the_trend_draws_each_figure_over_the_releases_that_are_not_retracted(
    officer: Visit, some: None
) -> None:
    read = Page(officer.get("/trend", {"table": "people"}).text)
    labels = [a["aria-label"] or "" for tag, a in read.tags if tag == "svg"]
    assert "Records released: from 30 to 20 over 2 releases" in labels
    assert "k, measured: size of the smallest class: from 5 to 9 over 2 releases" in labels
    assert "Prosecutor risk, highest: from 20 % (1 in 5) to 11.1 % (1 in 9) over 2 releases" in labels


def test_published_figures_of_attacks_are_shown_and_drawn(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    outcomes = [
        {"subject": subject, "excess": excess, "low": -0.1, "high": 0.2}
        for subject, excess in (("illness", 0.11), ("<i>", -0.03))
    ]
    about = {"attack": "inference", "bound": 0.3, "confidence": 0.95}
    first = publish_people(release_id="w1", manifest={"attacks": [about | {"outcomes": outcomes}]})
    publish_people(release_id="w2", manifest={})
    publish_people(release_id="w3", manifest={"attacks": [about | {"outcomes": outcomes[1:]}]})
    text = officer.get("/release", one(first)).text
    assert "Attacks on this release" in text
    plots = [a["aria-label"] or "" for tag, a in Page(text).tags if tag == "svg"]
    assert plots[0] == "Excess risk 0.11 (-0.10 to 0.20), bound 0.3"
    assert "-0.03 (-0.10 to 0.20)" in text
    assert "<i>" not in text
    read = Page(officer.get("/trend", {"table": "people"}).text)
    labels = [a["aria-label"] or "" for tag, a in read.tags if tag == "svg"]
    assert "Excess risk: inference: from 0.11 to -0.03 over 2 releases, bound 0.3" in labels


def test_of_a_private_release_no_figure_of_the_source_is_shown(
    officer: Visit, publish_people: Callable[..., int]
) -> None:
    loss = {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    version = publish_people(manifest={"loss": loss, "figures": {}})
    assert "Utility and risk" not in officer.get("/release", one(version)).text


def test_a_lake_that_cannot_be_read_is_named_and_hides_nothing_else(
    officer: Visit, some: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__LAKES", "broken, missing")
    monkeypatch.setenv(
        "AIRFLOW_CONN_BROKEN", json.dumps({"conn_type": "fs", "extra": {"path": "/proc/1/none"}})
    )
    text = Page(officer.get("/releases").text).text
    assert "connection missing does not exist" in text
    assert rows_of(officer.get("/releases").text) == ["c", "d", "a", "b"]


def test_releases_of_a_configured_lake_are_listed_once(
    officer: Visit, some: None, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__LAKES", "archive")
    monkeypatch.setenv(
        "AIRFLOW_CONN_ARCHIVE", json.dumps({"conn_type": "fs", "extra": {"path": airflow_lake.root}})
    )
    assert rows_of(officer.get("/releases").text) == ["c", "d", "a", "b"]


def test_a_lake_of_a_connection_in_airflows_database_is_found(
    officer: Visit, some: None, airflow_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    extra = json.dumps({"path": airflow_lake.root})
    monkeypatch.setenv("AIRFLOW__PRIVACY_RELEASE__LAKES", "stored")
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE_DEFAULT", json.dumps({"conn_type": "fs", "extra": {"path": "/none"}})
    )
    with create_session() as session:
        session.add(Connection(conn_id="stored", conn_type="fs", extra=extra))
    try:
        assert rows_of(officer.get("/releases").text) == ["c", "d", "a", "b"]
        assert officer.get("/release", one(1, "stored")).status_code == 200
    finally:
        with create_session() as session:
            session.execute(delete(Connection).where(Connection.conn_id == "stored"))


def test_every_file_of_the_pages_look_is_there(visit: Callable[..., Visit]) -> None:
    for name, (_, _, kind) in STATIC.items():
        found = visit("visitor").get(f"/static/{name}")
        assert (found.status_code, len(found.content) > 0) == (200, True), name
        assert found.headers["content-type"].startswith(kind), name


def test_a_browser_that_has_a_static_file_is_not_sent_it_again(visit: Callable[..., Visit]) -> None:
    first = visit("visitor").get("/static/pages.css")
    assert first.headers["content-type"].startswith("text/css")
    headers: dict[str, Any] = {**visit("visitor").headers, "If-None-Match": first.headers["etag"]}
    again = first.request.url.path, visit("visitor").client.get("/privacy/static/pages.css", headers=headers)
    assert (again[1].status_code, again[1].content) == (304, b"")


def commit_of(lake: Lake, table: str, version: int) -> Path:
    assert lake.folder is not None
    return lake.folder / table / "_delta_log" / f"{version:020d}.json"


def test_a_damaged_note_is_shown_as_such_and_hides_no_other_release(
    officer: Visit, some: None, airflow_lake: Lake
) -> None:
    commit = commit_of(airflow_lake, "people", 1)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            del action["commitInfo"]["privacy_release"]["rows"]
    commit.write_text("\n".join(map(json.dumps, actions)))
    page = officer.get("/releases")
    assert (page.status_code, rows_of(page.text)) == (200, ["c", "d", "a", "b"])
    assert '<span class="status damaged">damaged</span>' in page.text
    shown = officer.get("/release", one(1))
    assert shown.status_code == 200
    assert "The note in the commit of this release is damaged: rows is missing." in shown.text
    assert "Open the report" not in shown.text
    assert officer.get("/release", one(2)).status_code == 200


def test_a_damaged_table_is_named_and_hides_no_other_one(
    officer: Visit, some: None, airflow_lake: Lake
) -> None:
    commit_of(airflow_lake, "noisy", 0).unlink()
    page = officer.get("/releases")
    assert (page.status_code, rows_of(page.text)) == (200, ["c", "a", "b"])
    assert "Not everything could be read." in page.text
    assert "the log of table noisy" in page.text
