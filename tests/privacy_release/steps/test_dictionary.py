"""The data dictionary beside a release: what it tells of each column, and what it must not tell."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable

import privacy_release
from privacy_engine.errors import IntegrityError, PublishError
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_release.lake.log import publications
from privacy_release.lake.read import dictionary_of, read_release
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.store import Lake, get
from privacy_release.manifest.manifest import Claims
from privacy_release.reports.dictionary import _domain_words, dictionary_html, guarantee_in_short
from privacy_release.spec.files import load_policy
from privacy_release.steps.producers.job import Description, Job, ProducedRelease
from privacy_release.steps.producers.staging import stage
from privacy_release.workarea.area import WorkArea
from tests.beginnings import Beginnings
from tests.reading import publish_synthetic
from tests.servers.pages import Page, require_closed_page

NAME = "people"
FIELDS: dict[str, Any] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "hierarchy": [["N1", "N", "*"], ["N2", "N", "*"], ["S1", "S", "*"]]},
    "job": {"role": "quasi_identifier", "categories": ["clerk", "cook"]},
    "born": {"role": "quasi_identifier", "kind": "date", "precision": "month"},
    "seen": {"role": "quasi_identifier", "kind": "date", "calendar": ["month", "year"]},
    "<b>illness</b>": {"role": "sensitive"},
    "note": {"role": "insensitive"},
}
SCHEMA = DataSchema.from_dict(FIELDS)
POLICY = load_policy({"require": [{"model": "k_anonymity", "k": 5}]})
Dictionary = Callable[..., dict[str, Any]]


def records(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    day = pd.Timestamp("2024-01-01")
    return pd.DataFrame(
        {
            "name": [f"canary-{i}" for i in range(rows)],
            "age": rng.integers(20, 60, rows),
            "zip": rng.choice(["N1", "N2", "S1"], rows),
            "job": rng.choice(["clerk", "cook"], rows),
            "born": (day + pd.to_timedelta(rng.integers(0, 90, rows), "D")).date,
            "seen": (day + pd.to_timedelta(rng.integers(0, 300, rows), "D")).date,
            "<b>illness</b>": rng.choice(["flu", "cold"], rows),
            "note": [None, *rng.choice(["x", "y"], rows - 1)],
        }
    )


@pytest.fixture(scope="module")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Beginnings:
    return Beginnings(tmp_path_factory.mktemp("beginnings"))


@pytest.fixture
def published(tmp_path: Path, work: WorkArea, lake: Lake, beginnings: Beginnings) -> Dictionary:
    """Publishes a release; its dictionary, as it stands in the lake. The first one in a lake is copied."""

    def made(into: Lake, release: str, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        records().to_parquet(tmp_path / "people.parquet", index=False)
        table = privacy_release.ingest(str(tmp_path / "people.parquet"), SCHEMA, work)
        given = {"k": 5, **parameters}
        staged = privacy_release.make_release(table, work, method=method, parameters=given, seed=1)
        report = privacy_release.verify_staged(staged, POLICY)
        privacy_release.publish_staged(staged, report, into.table(NAME), release)
        described = dictionary_of(into.table(NAME), release)
        assert described is not None
        return described

    def publish(
        release: str = "1", method: str = "mondrian", into: Lake = lake, **parameters: Any
    ) -> dict[str, Any]:
        root = Path(into.root)
        if root != Path(lake.root) or root.exists():
            return made(into, release, method, parameters)
        key = (release, method, *parameters.items())
        found: dict[str, Any] = beginnings.after(
            key, [root], partial(made, into, release, method, parameters)
        )
        return found

    return publish


def columns(reported: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in reported["columns"]}


def test_it_tells_how_each_column_was_made(published: Dictionary) -> None:
    reported = published()
    found = columns(reported)
    assert {name: (c["form"], c["type"]) for name, c in found.items()} == {
        "age_from": ("lower_bound", "long"),
        "age_to": ("upper_bound", "long"),
        "zip": ("label", "string"),
        "job": ("set", "string"),
        "born_from": ("lower_bound", "date"),
        "born_to": ("upper_bound", "date"),
        "seen": ("label", "string"),
        "<b>illness</b>": ("value", "string"),
        "note": ("value", "string"),
    }
    assert found["age_from"]["domain"] == found["age_to"]["domain"] == {"bounds": [0, 120]}
    levels = found["zip"]["domain"]["levels"]
    assert [level["labels"] for level in levels] == [["N1", "N2", "S1"], ["N", "S"], ["*"]]
    assert found["job"]["domain"]["categories"] == {"count": 2, "labels": ["clerk", "cook"]}
    assert found["seen"]["domain"] == {"calendar": ["month", "year"]}
    assert found["age_from"]["null"] == "never null"
    assert found["note"]["null"] == "null: it was null in the source"
    assert reported["guarantee"]["short"] == "k-anonymity (k=5)"
    assert "release 1" in reported["cite"]


def test_bounds_and_midpoints_name_their_attribute(published: Dictionary, lake: Lake) -> None:
    ends = columns(published(intervals="bounds"))
    low, high = (name for name, column in ends.items() if column["source"] == "age")
    assert [ends[name]["form"] for name in (low, high)] == ["lower_bound", "upper_bound"]
    assert {ends[name]["domain"]["bounds"][1] for name in (low, high)} == {120}
    rows = read_release(lake.table(NAME), "1").to_pandas()
    assert ends[low]["changed"] == pytest.approx((rows[low] != rows[high]).mean(), abs=0.0051)
    born = [name for name, column in ends.items() if column["source"] == "born"]
    months = [pd.to_datetime(rows[name]).dt.to_period("M") for name in born]
    assert ends[born[0]]["changed"] == pytest.approx((months[0] != months[1]).mean(), abs=0.0051)
    middle = columns(published(into=Lake(root=f"{lake.root}-2"), intervals="midpoint"))["age"]
    assert (middle["form"], "changed" in middle) == ("midpoint", False)


def test_it_tells_a_suppressed_number_from_a_missing_one(published: Dictionary, lake: Lake) -> None:
    found = columns(published(method="obpa", model="suppression"))
    rows = read_release(lake.table(NAME), "1").to_pandas()
    for name in ("age", "born"):
        low, high = rows[f"{name}_from"], rows[f"{name}_to"]
        assert (low.isna() == high.isna()).all()
        for column in (f"{name}_from", f"{name}_to"):
            assert found[column]["null"].startswith("null: the value was suppressed")
            assert found[column]["changed"] == pytest.approx(low.isna().mean(), abs=0.0101)
    assert found["zip"]["form"] == "value_or_star"
    assert (found["age_from"]["type"], found["born_to"]["type"]) == ("long", "date")


def test_shares_of_changed_cells_are_those_of_the_released_table(published: Dictionary, lake: Lake) -> None:
    found = columns(published(intervals="text"))
    rows = read_release(lake.table(NAME), "1").to_pandas()
    one = {
        "age": rows["age"].str.isdigit(),
        "zip": rows["zip"].isin(["N1", "N2", "S1"]),
        "job": rows["job"].isin(["clerk", "cook"]),
        "seen": rows["seen"].str.len() == len("2024-01"),
        "born": rows["born"].str.len() == len("2024-01"),
    }
    for name, kept in one.items():
        assert found[name]["changed"] == pytest.approx(1 - kept.mean(), abs=0.0101), name
        assert (found[name]["changed"] in (0, 1)) == (kept.mean() in (0, 1)), name
    assert found["note"].get("changed") is None


def test_it_is_a_proof_that_the_commit_names(published: Dictionary, lake: Lake) -> None:
    reported = published()
    (entry,) = publications(lake.table(NAME))
    assert set(entry.further) == {"dictionary.json", "dictionary.html"}
    for name, digest in entry.further.items():
        data = get(lake, f"_proof/{NAME}/{digest}.{name.rpartition('.')[2]}")
        assert hashlib.sha256(data).hexdigest() == digest
    assert json.loads(get(lake, f"_proof/{NAME}/{entry.further['dictionary.json']}.json")) == reported
    path = Path(lake.root) / f"_proof/{NAME}/{entry.further['dictionary.json']}.json"
    path.write_bytes(path.read_bytes().replace(b"never null", b"often null"))
    with pytest.raises(IntegrityError, match="dictionary of table people"):
        dictionary_of(lake.table(NAME), "1")


def test_a_retraction_takes_it_along_and_a_cleaning_leaves_it(published: Dictionary, lake: Lake) -> None:
    published()
    assert clean_orphans(lake.table(NAME)) == 0
    retract(lake.table(NAME), "1", "wrong source")
    (entry,) = publications(lake.table(NAME))
    assert entry.tombstone is not None
    left = {path.name for path in (Path(lake.root) / "_proof" / NAME).iterdir()}
    assert left == {f"{entry.tombstone.sha256}.json"}
    with pytest.raises(PublishError, match="retracted"):
        dictionary_of(lake.table(NAME), "1")


def test_the_page_is_closed_escaped_and_holds_no_one(published: Dictionary) -> None:
    html = dictionary_html(published())
    require_closed_page(html)
    assert "canary" not in html
    page = Page(html)
    assert "b" not in {tag for tag, _ in page.tags}
    assert "<b>illness</b>" in page.text
    assert "0 to 120, both inside" in page.text
    assert "level 1: N, S" in page.text


def test_the_table_says_it_to_every_client_and_stays_up_to_date(published: Dictionary, lake: Lake) -> None:
    published()
    table = DeltaTable(lake.table(NAME).address)
    assert "k-anonymity (k=5)" in table.metadata().description
    comments = {field.name: field.metadata.get("comment", "") for field in table.schema().fields}
    assert "Quasi-identifier" in comments["age_from"]
    assert "which is closed" in comments["age_from"]
    before = table.version()
    published("2")
    assert DeltaTable(lake.table(NAME).address).version() == before + 1  # nothing to say again
    published("3", k=6)
    assert "k-anonymity (k=6)" in DeltaTable(lake.table(NAME).address).metadata().description
    assert [entry.release_id for entry in publications(lake.table(NAME))] == ["1", "2", "3"]


def test_a_new_column_comes_with_its_comment_and_an_old_one_is_described_again(
    published: Dictionary, lake: Lake
) -> None:
    published(intervals="text")
    bounds = published("2", intervals="bounds")
    low = next(c["name"] for c in bounds["columns"] if c["form"] == "lower_bound")
    fields = {
        f.name: f.metadata.get("comment", "") for f in DeltaTable(lake.table(NAME).address).schema().fields
    }
    assert "Lower bound" in fields[low]
    assert "Of age." in fields[low]
    DeltaTable(lake.table(NAME).address).alter.set_column_metadata(low, {"comment": "stale"})
    published("3", intervals="bounds")
    fields = {
        f.name: f.metadata.get("comment", "") for f in DeltaTable(lake.table(NAME).address).schema().fields
    }
    assert "Lower bound" in fields[low]


def test_of_a_private_release_it_tells_no_count_of_the_source(tmp_path: Path, lake: Lake) -> None:
    publish_synthetic(tmp_path, lake, name=NAME)
    described = dictionary_of(lake.table(NAME), "1")
    assert described is not None
    assert {column["form"] for column in described["columns"]} == {"drawn"}
    assert all("changed" not in column and column["changed_hidden"] for column in described["columns"])
    assert "suppressed" not in described
    assert "epsilon 1 " in described["guarantee"]["sentences"][0]
    assert "left out" not in dictionary_html(described)


def test_long_lists_of_labels_are_counted_and_not_reported(tmp_path: Path, work: WorkArea) -> None:
    from privacy_release.reports.columns import described_columns

    codes = [f"{i:03d}" for i in range(200)]
    tree = Hierarchy.prefixes(codes, keep=(1,))
    fields = {"zip": {"role": "quasi_identifier", "hierarchy": [list(row) for row in tree.rows]}}
    schema = DataSchema.from_dict(fields)
    released = DataSchema.from_dict({"zip": {"role": "quasi_identifier"}})
    reported = described_columns(schema, released, Claims.from_dict({}))["zip"]
    assert reported["domain"]["levels"] == [
        {"count": 200},
        {"count": 2, "labels": ["0**", "1**"]},
        {"count": 1, "labels": ["*"]},
    ]


def test_a_release_is_published_if_its_dictionary_cannot_be_made(
    tmp_path: Path, work: WorkArea, lake: Lake
) -> None:
    records().to_parquet(tmp_path / "people.parquet", index=False)
    table = privacy_release.ingest(str(tmp_path / "people.parquet"), SCHEMA, work)
    staged = privacy_release.make_release(table, work, method="mondrian", parameters={"k": 5}, seed=1)
    report = privacy_release.verify_staged(staged, POLICY)
    columns = Path(staged.columns)
    columns.write_bytes(columns.read_bytes().replace(b"lower_bound", b"canary-form"))
    published = privacy_release.publish_staged(staged, report, lake.table(NAME), "1")
    assert published.left_out == [{"figure": "the dictionary", "error": "ValueError"}]
    assert json.loads(Path(published.manifest).read_bytes())["left_out"] == published.left_out
    (entry,) = publications(lake.table(NAME))
    assert entry.further == {}
    assert len(read_release(lake.table(NAME), "1")) == staged.rows


def test_a_manifest_names_missing_figures(tmp_path: Path, work: WorkArea, lake: Lake) -> None:
    records().to_parquet(tmp_path / "people.parquet", index=False)
    table = privacy_release.ingest(str(tmp_path / "people.parquet"), SCHEMA, work)
    staged = privacy_release.make_release(table, work, method="mondrian", parameters={"k": 5}, seed=1)
    manifest = staged.read_manifest()
    assert not manifest.left_out
    job = Job(work=work)
    job.attempts.make("the network", lambda: 1 / 0)
    made = ProducedRelease(
        claims=manifest,
        schema=SCHEMA,
        figures={},
        sha256=staged.sha256,
        description=Description(data=lambda: 1 / 0),
        seconds=1,
        seeded=True,
    )
    left_out = stage(made, table, job).read_manifest().left_out
    assert [entry["figure"] for entry in left_out] == ["the network", "the report"]
    assert {entry["error"] for entry in left_out} == {"ZeroDivisionError"}


def test_numbers_of_a_dictionary_are_written_as_people_write_them() -> None:
    loss = {"epsilon": 0.123456, "delta": 1e-9, "neighbours": "replace_one"}
    assert guarantee_in_short(Claims.from_dict({"guarantees": [], "loss": loss})) == (
        "differential privacy (epsilon=0.1235, delta=1e-9)"
    )
    bounds = {"bounds": [0.5, 2_000_000.0]}
    assert _domain_words(bounds) == "0.5 to 2000000, both inside"
