"""A release as the pages on reading have it, and the snippets of these pages."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privacy_release
from privacy_engine.dp.limits import Limit
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.budget.budget import Budget
from privacy_release.lake.layout import TableRules
from privacy_release.lake.store import Lake
from privacy_release.proof.statement import StatementSigner
from privacy_release.spec.files import load_policy
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Published
from tests import synthetic_tables
from tests.ledgers import new_ledger
from tests.tables import SPENDING

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (DOCS / "reading.md", DOCS / "reference_tables.md")
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUERY = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ZIPS = [["N1", "N", "*"], ["N2", "N", "*"], ["S1", "S", "*"], ["S2", "S", "*"]]
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "zip": {"role": "quasi_identifier", "hierarchy": ZIPS},
        "illness": {"role": "sensitive"},
    }
)


def people(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "zip": rng.choice([row[0] for row in ZIPS], rows),
            "illness": rng.choice(["cold", "flu"], rows),
        }
    )


def publish_people(
    folder: Path,
    lake: Lake,
    release: str = "1",
    *,
    name: str = "people",
    k: int = 5,
    intervals: str = "bounds",
    rules: TableRules | None = None,
    signer: StatementSigner | None = None,
    run_key: str | None = None,
) -> Published:
    """A release of 200 people."""
    folder.mkdir(parents=True, exist_ok=True)
    people().to_parquet(folder / "people.parquet", index=False)
    with WorkArea(folder / "work", f"test/{release}") as work:
        table = privacy_release.ingest(str(folder / "people.parquet"), SCHEMA, work)
        given = {"k": k, "intervals": intervals}
        staged = privacy_release.make_release(table, work, method="mondrian", parameters=given, seed=1)
        policy = load_policy({"require": [{"model": "k_anonymity", "k": 5}]})
        report = privacy_release.verify_staged(staged, policy)
        return privacy_release.publish_staged(
            staged, report, lake.table(name), release, rules=rules, signer=signer, run_key=run_key
        )


def publish_synthetic(
    folder: Path,
    lake: Lake,
    release: str = "1",
    *,
    name: str = "synthetic",
    run: str = "run 1",
    parameters: Mapping[str, Any] | None = None,
) -> Published:
    """A differentially private release, of a model of 437 people."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = synthetic_tables.people(437, np.random.default_rng(1))
    rows.to_parquet(folder / "source.parquet", index=False)
    ledger = new_ledger(folder / "ledger.db")
    ledger.grant("people", Limit(epsilon=8.0), reason="a test", by="officer")
    with WorkArea(folder / "work", f"test/{name}/{release}") as work:
        source = str(folder / "source.parquet")
        table = privacy_release.ingest(source, synthetic_tables.SCHEMA, work, nulls="keep")
        budget = Budget(dataset="people", run=run, ledger=ledger)
        given = {"epsilon": 1.0, "classes": 4, "fits": 1, **(parameters or {})}
        staged = privacy_release.make_release(
            table, work, method="latent_class", parameters=given, policy=SPENDING, budget=budget
        )
        report = privacy_release.verify_staged(staged, ReleasePolicy(max_epsilon=1.0), ledger)
        return privacy_release.publish_staged(staged, report, lake.table(name), release)


def snippets() -> list[str]:
    """The Python of the pages, in its order; the first says where the lake is."""
    found = [text for page in PAGES for text in SNIPPET.findall(page.read_text(encoding="utf-8"))]
    assert found[0].startswith("lake = ")
    return found


def queries() -> tuple[str, str, str]:
    """The SQL of the page on reading: a range of a number, the mean of a number, and a label."""
    between, mean, label = QUERY.findall(PAGES[0].read_text(encoding="utf-8"))
    return between, mean, label
