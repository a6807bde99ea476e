"""Airflow's real web application with the pages in it, three users, and lakes and ledgers to look at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import sha256_file
from tests.ledgers import new_ledger
from tests.servers.airflow_app import OWN_DAG, AirflowApp

FOREIGN_DAG = "others"
DICTIONARY = "<!DOCTYPE html><title>Data dictionary</title><p>What each column says.</p>"
REPORT = "<!DOCTYPE html><title>Report</title><style>p { color: teal }</style><p>The report.</p>"


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The pages as one user, or no user, sees them."""

    client: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    def get(self, path: str, query: Any = None) -> Any:
        """Ask for a page below `/privacy`."""
        return self.client.get(f"/privacy{path}", params=query, headers=self.headers, follow_redirects=False)

    def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Send a form to a page below `/privacy`."""
        return self.client.post(f"/privacy{path}", data=fields, headers=self.headers, follow_redirects=False)


@pytest.fixture
def web(airflow_web: AirflowApp, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's web application with its plugins."""
    for name, value in airflow_web.settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")  # as Airflow's own main module sets it
    return airflow_web.client


@pytest.fixture
def visit(
    web: Any,
    airflow_web: AirflowApp,
    dags: None,
    airflow_lake: Lake,
    ledger_file: BudgetLedger,
) -> Callable[[str | None], Visit]:
    """The pages as a user sees them; None has not logged in."""
    return lambda user: Visit(client=web, headers=airflow_web.logins[user] if user else {})


@pytest.fixture(scope="module")
def dags(airflow_home: Path) -> Iterator[None]:
    """Two DAGs that Airflow knows; other modules of the session may have run DAGs of the same names."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    ids = (OWN_DAG, FOREIGN_DAG)
    with create_session() as session:
        session.merge(DagBundleModel(name="pages"))
        session.flush()
        known = {dag_id for dag_id in ids if session.get(DagModel, dag_id) is not None}
        for dag_id in set(ids) - known:
            session.add(DagModel(dag_id=dag_id, bundle_name="pages", timetable_type="none"))
    yield
    with create_session() as session:
        for dag_id in set(ids) - known:
            session.delete(session.get(DagModel, dag_id))


@pytest.fixture
def ledger_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """The default ledger, empty."""
    monkeypatch.setenv("PRIVACY_LEDGER", str(tmp_path / "ledger.db"))
    return new_ledger(tmp_path / "ledger.db")


@pytest.fixture
def publish_people(airflow_lake: Lake, tmp_path: Path) -> Callable[..., int]:
    """Publish a small release; the version of the table that it made."""

    def publish_one(
        release_id: str = "2026-11-16",
        *,
        table: str = "people",
        dag_id: str | None = OWN_DAG,
        rows: int = 7,
        k: float = 5,
        manifest: Mapping[str, Any] | None = None,
        report: str = REPORT,
        dictionary: str | None = None,
    ) -> int:
        staged, page = tmp_path / "staged.parquet", tmp_path / "report.html"
        pq.write_table(pa.table({"age": ["[20, 30]"] * rows, "illness": ["flu"] * rows}), staged)
        page.write_text(report)
        fields = {
            "method": "mondrian",
            "parameters": {"k": 5},
            "guarantees": [{"model": "k_anonymity", "k": 5}],
            "loss": None,
            "rows": rows,
            "figures": {"gcp_lca": 0.25, "prosecutor_max": 1 / k, "suppressed_records": 3.0},
            "columns": {"age": {"role": "quasi_identifier", "kind": "categorical"}},
            "measured": [
                {"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": float(k), "passed": True}
            ],
        }
        return publish(
            airflow_lake.table(table),
            release_id,
            staged,
            fields | dict(manifest or {}),
            page,
            expected_sha256=sha256_file(staged),
            run_key=f"{dag_id}/run_of_{release_id}" if dag_id else None,
            proofs=None if dictionary is None else {"dictionary.html": dictionary.encode()},
        ).version

    return publish_one
