"""Steps between ingest and release: what they make, whose records these are, and what is refused."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import IntegrityError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.cli.main import main
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.spec.model import load_spec
from privacy_release.steps.ingest import ingest
from privacy_release.steps.memberships.persons import read_persons
from privacy_release.steps.outliers import Action, detect_outliers
from privacy_release.steps.release import make_release
from privacy_release.transforms.function import FunctionStep
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import Numbers, Output, transform
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.people import Identification
from privacy_release.workarea.references import Table
from tests import tables

KEY = "k" * 40
FIELDS: dict[str, Any] = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "zip": {"role": "quasi_identifier", "kind": "categorical"},
    "illness": {"role": "sensitive", "kind": "categorical"},
}
DECADES: dict[str, Any] = {
    "decade": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 12]},
    "illness": FIELDS["illness"],
}
TOWNS = {"zip": FIELDS["zip"], "town": {"role": "quasi_identifier", "kind": "categorical"}}
N = 60


def sql(text: str) -> SqlStep:
    return SqlStep(sql=text, memory=200_000_000)


def visits(people: int = N) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [f"person-{i % people:03d}" for i in range(N)],
            "age": [20 + i for i in range(N)],
            "zip": [f"N{i % 3}" for i in range(N)],
            "illness": [("flu", "cold", "gout")[i % 3] for i in range(N)],
        }
    )


@pytest.fixture
def ingested(tmp_path: Path, work: WorkArea) -> Callable[..., Table]:
    def read(frame: pd.DataFrame, fields: dict[str, Any], label: str = "ingest", **more: Any) -> Table:
        path = tmp_path / f"{label}.parquet"
        frame.to_parquet(path, index=False)
        return ingest(str(path), DataSchema.from_dict(fields), work, label=label, **more)

    return read


@pytest.fixture
def table(ingested: Callable[..., Table]) -> Table:
    return ingested(visits(), FIELDS)


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(table.uri).to_pylist()
    return found


def test_a_query_filters_and_derives_and_is_recorded(table: Table, work: WorkArea) -> None:
    text = "SELECT _record, age // 10 AS decade, illness FROM records WHERE age >= 40"
    made = transform(table, work, sql(text), schema=DataSchema.from_dict(DECADES))
    expected = Counter((age // 10, ill) for age, ill in visits()[["age", "illness"]].to_numpy() if age >= 40)
    assert Counter((row["decade"], row["illness"]) for row in rows(made)) == expected
    assert set(made.read_schema().names) == {"decade", "illness"}
    (reported,) = made.source.transforms
    assert (reported.before, reported.rows, reported.row_by_row) == (60, 40, False)
    assert made.source.fingerprint == table.source.fingerprint
    assert made.sha256 != table.sha256
    again = transform(table, work, sql(text), schema=DataSchema.from_dict(DECADES), label="again")
    other = transform(table, work, sql(f"{text} "), schema=DataSchema.from_dict(DECADES), label="other")
    assert again.sha256 == made.sha256
    assert again.source.transforms[0].code == reported.code != other.source.transforms[0].code
    staged = make_release(made, work, method="mondrian", parameters={"k": 5}, seed=1)
    manifest = staged.read_manifest()
    assert list(manifest.source.transforms) == [reported.to_ref()]
    assert text not in json.dumps(manifest.to_dict())


def test_a_query_has_no_more_memory_than_its_step(table: Table, work: WorkArea) -> None:
    text = "SELECT _record, age, current_setting('memory_limit') AS illness FROM records"
    schema = DataSchema.from_dict({name: FIELDS[name] for name in ("age", "illness")})
    made = transform(table, work, SqlStep(sql=text, memory=200 * 2**20), schema=schema)
    assert {row["illness"] for row in rows(made)} == {"200.0 MiB"}


def test_another_table_can_be_joined(ingested: Callable[..., Table], table: Table, work: WorkArea) -> None:
    towns = pd.DataFrame({"zip": ["N0", "N1", "N2"], "town": ["Ulm", "Bonn", "Ulm"]})
    other = ingested(towns, TOWNS, "towns")
    text = "SELECT records.* EXCLUDE (zip), towns.town FROM records JOIN towns USING (zip)"
    schema = {name: fields for name, fields in FIELDS.items() if name not in ("name", "zip")}
    made = transform(
        table,
        work,
        sql(text),
        others={"towns": other},
        schema=DataSchema.from_dict(schema | {"town": TOWNS["town"]}),
    )
    assert Counter(row["town"] for row in rows(made)) == {"Ulm": 40, "Bonn": 20}


@pytest.mark.parametrize("frame", ["pandas", "arrow"])
def test_a_function_does_the_same_as_a_query(table: Table, work: WorkArea, frame: Any) -> None:
    def adults(records: Any) -> Any:
        if isinstance(records, pa.Table):
            return records.filter(pa.compute.greater(records["age"], 40))
        return records[records["age"] > 40]

    made = transform(table, work, FunctionStep(function=adults, frame=frame))
    wanted = transform(table, work, sql("SELECT * FROM records WHERE age > 40"), label="sql")
    assert rows(made) == rows(wanted)
    assert made.source.transforms[0].name == "adults"


def test_times_that_were_read_on_the_clock_of_a_zone_are_not_moved_by_a_step(
    ingested: Callable[..., Table], work: WorkArea
) -> None:
    seen = {"role": "insensitive", "kind": "timestamp", "zone": "Asia/Tokyo", "as_is": True}
    at = pd.Timestamp("2020-03-14T23:30", tz="UTC")
    table = ingested(visits().assign(seen=at)[["age", "seen"]], {"age": FIELDS["age"], "seen": seen})
    made = transform(table, work, sql("SELECT * FROM records"))
    assert {row["seen"].isoformat() for row in rows(made)} == {"2020-03-15T08:30:00"}


def test_persons_stay_with_their_rows(ingested: Callable[..., Table], work: WorkArea) -> None:
    """The person need not be selected, and cannot be changed: it comes back by the record's number."""
    table = ingested(visits(people=20), FIELDS | {"person": {"column": "name"}})
    person_of = {row["age"]: row["name"] for row in rows(table)}
    for label, text in {
        "kept": "SELECT * FROM records WHERE age > 30",
        "lost": "SELECT * EXCLUDE (name) FROM records WHERE age > 30 ORDER BY age DESC",
        "changed": "SELECT * REPLACE (7 AS name) FROM records WHERE age > 30",
        "joined": "SELECT r.* FROM records r, range(2) WHERE age > 30",
    }.items():
        made = transform(table, work, sql(text), label=label)
        found = rows(made)
        assert len(found) == 49 * (2 if label == "joined" else 1)
        pairs = {(row["name"], person_of[row["age"]]) for row in found}
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}) == 20
        assert made.read_schema().by == "name"


def test_hashes_of_persons_stay_with_their_rows(ingested: Callable[..., Table], work: WorkArea) -> None:
    table = ingested(visits(), FIELDS, people=Identification(column="name", key=KEY))
    made = transform(table, work, sql("SELECT * FROM records WHERE age % 7 = 3 ORDER BY age DESC"))
    of = dict(zip((row["age"] for row in rows(table)), read_persons(table.persons), strict=True))
    assert read_persons(made.persons).tolist() == [of[row["age"]] for row in rows(made)]


@dataclass(frozen=True)
class InParts:
    """A step that hands on some records, in batches."""

    parts: Sequence[Sequence[int]]
    name: str = "in parts"
    sha256: str = "0" * 64

    def made_of(self, columns: Sequence[str]) -> dict[str, Sequence[str]]:
        return {}

    @contextmanager
    def run(self, given: Mapping[str, Table], folder: Path) -> Iterator[Output]:
        source = given["records"]
        numbers, frame = Numbers.of(source), source.frame()
        frame["_record"] = numbers.offset + numbers.stride * np.arange(len(frame))
        batches = (
            pa.RecordBatch.from_pandas(frame.iloc[list(part)], preserve_index=False) for part in self.parts
        )
        yield Output(batches=batches, row_by_row=False)


def test_a_record_is_not_repeated_from_one_batch_to_the_next(table: Table, work: WorkArea) -> None:
    assert transform(table, work, InParts([[0, 1], [2]])).rows == 3
    with pytest.raises(SchemaError, match="must not repeat a record"):
        transform(table, work, InParts([[0, 1], [1, 2]]), label="again")


def test_persons_have_no_lasting_numbers_after_a_step(ingested: Callable[..., Table], work: WorkArea) -> None:
    numbering = Identification(column="name", key=KEY)
    table = ingested(visits(20), FIELDS | {"person": "name"}, numbering=numbering)
    assert table.numbered is not None
    assert transform(table, work, sql("SELECT * FROM records")).numbered is None


def test_findings_in_text_of_before_stay_on_record(table: Table, work: WorkArea) -> None:
    found = {"note": {"email": 3}}
    before = replace(table, source=replace(table.source, text=found))
    assert transform(before, work, sql("SELECT * FROM records")).source.text == found


def test_another_table_that_changed_since_it_was_read_is_refused(
    ingested: Callable[..., Table], table: Table, work: WorkArea
) -> None:
    towns = ingested(pd.DataFrame({"zip": ["N0", "N1"], "town": ["A", "B"]}), TOWNS, label="towns")
    pq.write_table(pq.read_table(towns.uri).slice(0, 1), towns.uri)
    with pytest.raises(IntegrityError, match="must have the recorded sha256"):
        transform(table, work, sql("SELECT * FROM records"), others={"towns": towns})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT r.* FROM records r, range(2)", "must not repeat a record"),
        ("SELECT age, zip, illness FROM records", "must keep the column _record"),
        ("SELECT * REPLACE (row_number() OVER () AS _record) FROM records", "but it did"),
        ("SELECT * REPLACE (_record + 1 AS _record) FROM records", "but it did"),
        ("SELECT * REPLACE (NULL AS _record) FROM records", "must keep the column _record"),
        (
            "SELECT zip, max(age) AS age, 'flu' AS illness, count(*) AS _record FROM records GROUP BY zip",
            "change",
        ),
        ("SELECT * FROM records WHERE false", "left no record"),
        ("SELECT * EXCLUDE (zip) FROM records", "zip"),
        ("SELECT *, 1 AS more FROM records", "more"),
        ("SELECT * REPLACE ('old' AS age) FROM records", "age: .*number"),
        ("SELECT * REPLACE (200 + age AS age) FROM records", "age"),
        ("SELECT * REPLACE (NULL AS illness) FROM records", "illness"),
        ("SELECT * FROM read_parquet('/etc/passwd')", "requests a file"),
        pytest.param(
            "SELECT * FROM 'https://example.org/x.parquet'",
            "requests a file|could not be run|does not exist",
            marks=pytest.mark.slow,  # what reads a file is refused alike
        ),
        pytest.param("SELECT * FROM glob('/etc/*')", "requests a file", marks=pytest.mark.slow),
        pytest.param("SELECT * FROM read_text('/etc/hostname')", "requests a file", marks=pytest.mark.slow),
        ("SELECT *, getenv('HOME') AS more FROM records", "does not exist"),
        ("SELECT * FROM work", "does not exist"),
        ("SELECT heart FROM records", "does not exist"),
        ("SELECT * REPLACE (CAST(zip AS INTEGER) AS age) FROM records", "cannot be cast"),
        ("SELEC * FROM records", "not valid SQL"),
    ],
)
def test_what_a_query_must_not_do(table: Table, work: WorkArea, text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        transform(table, work, sql(text))
    assert "person-" not in str(caught.value)
    assert "N0" not in str(caught.value)
    assert not (work.folder / "transform.parquet").exists()
    assert not (work.folder / "transform.made.parquet").exists()


@pytest.mark.quick(
    "COPY records TO '/tmp/x.csv'", "SELECT * FROM records; SELECT 1", ""
)  # another, two, none
@pytest.mark.parametrize(
    "text",
    [
        "COPY records TO '/tmp/x.csv'",
        "SET enable_external_access = true",
        "DROP TABLE records",
        "SELECT * FROM records; SELECT 1",
        "ATTACH '/tmp/x.db'",
        "",
    ],
)
def test_only_one_select_is_run(table: Table, work: WorkArea, text: str) -> None:
    with pytest.raises(SpecError, match="must be one SELECT"):
        transform(table, work, sql(text))


def test_text_with_addresses_is_refused_after_a_step_as_after_ingest(table: Table, work: WorkArea) -> None:
    fields = {"age": FIELDS["age"], "note": {"role": "insensitive", "kind": "categorical"}}
    text = "SELECT _record, age, 'write to ann@example.org' AS note FROM records"
    with pytest.raises(SchemaError, match="note") as caught:
        transform(table, work, sql(text), schema=DataSchema.from_dict(fields))
    assert "ann@" not in str(caught.value)
    unique = "SELECT _record, age, 'x' || _record AS note FROM records"
    with pytest.raises(SchemaError, match="likely identifiers"):
        transform(table, work, sql(unique), schema=DataSchema.from_dict(fields))


def test_a_step_stands_between_ingest_and_release(
    ingested: Callable[..., Table], table: Table, work: WorkArea
) -> None:
    same = sql("SELECT * FROM records")
    staged = make_release(table, work, method="mondrian", parameters={"k": 5}, seed=1)
    with pytest.raises(SpecError, match="between ingest and release"):
        transform(staged, work, same)
    with pytest.raises(SpecError, match="between ingest and release"):
        transform(table, work, same, others={"staged": staged})
    looked = detect_outliers(table, work, method="okplof", parameters={}, action=Action.REPORT)
    with pytest.raises(SpecError, match="must precede the search for outliers"):
        transform(looked, work, same)
    fields = FIELDS | {"name": FIELDS["name"]}
    with pytest.raises(SpecError, match="must have no identifiers"):
        transform(table, work, same, schema=DataSchema.from_dict(fields))
    Path(table.uri).write_bytes(b"other")
    with pytest.raises(Exception, match="must have the recorded sha256"):
        transform(table, work, same)


ALONE = "SELECT * REPLACE (age - age % 5 AS age) FROM records"
LOOKING = {
    "filter": "SELECT * FROM records WHERE age > 30",
    "average": "SELECT * REPLACE (age - (SELECT avg(age) FROM records) AS age) FROM records",
    "window": "SELECT * REPLACE (CAST(avg(age) OVER () AS BIGINT) AS age) FROM records",
    "join": "SELECT a.* FROM records a JOIN records b USING (_record)",
    "distinct": "SELECT DISTINCT * FROM records",
    "limit": "SELECT * FROM records LIMIT 30",
}


def test_only_a_query_that_looks_at_each_row_alone_precedes_random_answers(
    ingested: Callable[..., Table], work: WorkArea
) -> None:
    fields: dict[str, Any] = {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [-100, 100], "bins": 5},
        "illness": {"role": "sensitive", "kind": "categorical", "categories": ["flu", "cold", "gout"]},
    }
    table = ingested(visits()[list(fields)], fields)

    def answer(ref: Table, label: str) -> Any:
        requested: dict[str, Any] = {"p_0": 0.5, "randomness": "seeded"}
        return make_release(ref, work, method="errph", parameters=requested, seed=1, label=f"{label}-answers")

    alone = transform(table, work, sql(ALONE))
    assert alone.source.transforms[0].row_by_row
    staged = answer(alone, "alone")
    (public,) = staged.read_manifest().source.transforms
    assert public == {"name": "sql", "code": alone.source.transforms[0].code}
    for label, text in LOOKING.items():
        made = transform(table, work, sql(text), label=label)
        assert not made.source.transforms[0].row_by_row, label
        with pytest.raises(SpecError, match="independently"):
            answer(made, label)
    # A later step of single records does not hide an earlier one that looked at others.
    later = transform(made, work, sql(ALONE), label="later")
    assert [step.row_by_row for step in later.source.transforms] == [False, True]
    with pytest.raises(SpecError, match="independently"):
        answer(later, "later")
    function = transform(table, work, FunctionStep(function=lambda records: records), label="function")
    with pytest.raises(SpecError, match="independently"):
        answer(function, "function")


def test_a_specification_may_have_a_step(home: Path, lake: Lake, people: pd.DataFrame) -> None:
    schema = tables.fields("zip", decade=DECADES["decade"], illness=FIELDS["illness"])
    text = "SELECT _record, age // 10 AS decade, zip, illness FROM records WHERE age >= 30"
    path = tables.write_release(home, transform={"sql": text, "schema": schema})
    assert main(["check", str(path)]) == 0
    assert main(["run", str(path), "--lake", lake.root, "--release-id", "r1"]) == 0
    released = read_release(lake.table("people"), "r1")
    assert set(released.column_names) >= {"zip", "illness"}
    assert "age" not in released.column_names
    assert released.num_rows == (people["age"] >= 30).sum()
    (manifest,) = manifest_of(lake.table("people"), "r1")["source"]["transforms"]
    assert manifest["rows"] == released.num_rows
    assert set(load_spec(path).method_fields) == {"name", *schema}


def test_a_step_in_a_specification_that_cannot_be_is_refused(home: Path) -> None:
    named = {"sql": "SELECT 1", "schema": {"name": FIELDS["name"]}}
    with pytest.raises(SpecError, match=r"transform.schema .*name.* must have no identifiers"):
        load_spec(tables.write_release(home, transform=named))
