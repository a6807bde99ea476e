"""Synthetic records drawn part by part: as many, of one form, and described as what they are."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.dp.limits import Limit
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_release.budget.budget import Budget
from privacy_release.spec.files import load_schema
from privacy_release.steps.producers.synthetic import draw_parts
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from tests.ledgers import new_ledger
from tests.rendered import render_report
from tests.servers.pages import Page, require_closed_page
from tests.tables import SPENDING

SCHEMA = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "bins": 6},
    "zip": {"role": "quasi_identifier", "kind": "categorical", "hierarchy": "hierarchies/zip.csv"},
    "illness": {
        "role": "sensitive",
        "kind": "categorical",
        "categories": ["cold", "cough", "flu", "measles"],
        "nullable": True,
    },
    "visits": {"role": "insensitive", "kind": "ordinal", "bounds": [0, 9], "nullable": True},
}
ENGINE = read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1})
METHOD = PrivBayes(epsilon=1.0)


@pytest.fixture
def source(home: Path, people: pd.DataFrame) -> str:
    """With a few nulls, so that some parts have some and others none."""
    people["visits"] = people["visits"].astype("Int64")
    people.loc[[3, 60], "visits"] = pd.NA
    people.loc[[7], "illness"] = None
    people.to_parquet(home / "people.parquet", index=False)
    return str(home / "people.parquet")


@pytest.fixture
def model(source: str) -> SynthesizerModel:
    return METHOD.measure(pd.read_parquet(source), load_schema(SCHEMA))


def test_parts_have_one_form_and_are_all_there(model: SynthesizerModel, tmp_path: Path) -> None:
    path = tmp_path / "drawn.parquet"
    drawn = draw_parts(METHOD, model, load_schema(SCHEMA), np.random.default_rng(1), path, size=9)
    assert drawn.rows == pq.read_metadata(path).num_rows == 200
    assert drawn.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(drawn.release.table) == 9
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_report_says_of_how_many_records_its_shares_are(model: SynthesizerModel, tmp_path: Path) -> None:
    path = tmp_path / "drawn.parquet"
    drawn = draw_parts(METHOD, model, load_schema(SCHEMA), np.random.default_rng(1), path, size=9)
    html = render_report(drawn.release, {}, {}, title="People", source_rows=200, rows=drawn.rows)
    require_closed_page(html)
    assert "Records released 200" in Page(html).text
    assert "Shares of the first 9 released records" in Page(html).text
    whole = draw_parts(METHOD, model, load_schema(SCHEMA), np.random.default_rng(1), path)
    text = render_report(whole.release, {}, {}, title="People", source_rows=200, rows=whole.rows)
    assert "Shares of the released records" in Page(text).text


def test_an_engine_draws_the_records_that_one_process_draws_from_the_same_model(
    source: str, work: WorkArea, tmp_path: Path
) -> None:
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    budget = Budget(dataset="people", run="people/1", ledger=ledger, connection="ledger_default")
    table = privacy_release.ingest(source, load_schema(SCHEMA), work)
    release = {"method": "privbayes", "parameters": {"epsilon": 1.0}, "budget": budget, "policy": SPENDING}
    whole = privacy_release.make_release(table, work, label="whole", **release)
    parts = privacy_release.make_release(table, work, label="parts", engine=ENGINE, **release)
    pd.testing.assert_frame_equal(pd.read_parquet(whole.uri), pd.read_parquet(parts.uri))
    assert float(ledger.standing("people")[0].spent) == 1.0
    assert (parts.engine, parts.rows, whole.engine is not None) == (ENGINE, 200, False)
    manifests = [json.loads(Path(staged.manifest).read_text()) for staged in (whole, parts)]
    assert manifests[0] | {"sha256": ""} == manifests[1] | {"sha256": ""}
    assert {path.stat().st_mode & 0o777 for path in work.folder.iterdir()} == {0o600}
