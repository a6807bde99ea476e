"""A source that several processes copy in shares: the records and refusals of one process that copies all."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privacy_release
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.budget.budget import Budget
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.sources import shares
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.pseudonyms import Naming, PseudonymKey
from privacy_release.sources.reading import check_source
from privacy_release.sources.records import CopyRules
from privacy_release.sources.shares import Workers
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import transform
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.file_sets import files_of, is_list
from privacy_release.workarea.parquet import read_private
from tests.ledgers import new_ledger
from tests.tables import SPENDING

CANARY = "jane.roe@canary.example"
FIELDS: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier", "kind": "categorical"},
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
    "illness": {"role": "sensitive", "kind": "categorical"},
    "remark": {"role": "insensitive", "kind": "categorical"},
    "visits": {"role": "insensitive", "kind": "numeric"},
}
SCHEMA = DataSchema.from_dict(FIELDS)
TWO = read_engine({"kind": "fragments", "processes": 2})
SHARE = 200  # records


def people(rows: int, seed: int = 1) -> dict[str, Any]:
    """Columns with names that no other seed has, and a null in the last record."""
    rng = np.random.default_rng(seed)
    return {
        "name": pa.array([f"{seed}-{row}" for row in range(rows)]),
        "age": pa.array(rng.integers(0, 121, rows)),
        "illness": pa.array(["flu", "cold", "gout"]).take(pa.array(rng.integers(0, 3, rows))),
        "remark": pa.array(["none", "well"]).take(pa.array(rng.integers(0, 2, rows))),
        "visits": pa.array(np.arange(rows) % 9, mask=np.arange(rows) == rows - 1),
    }


def with_last(columns: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    """The columns with another value in the last record."""
    values = pa.array(columns[name])
    return {**columns, name: pa.array([*values.to_pylist()[:-1], value], values.type)}


@dataclass
class Folders:
    """A source of seven files, of 700 records, and where copies of it go."""

    source: Path
    work: WorkArea

    def write(self, number: int, columns: dict[str, Any]) -> Path:
        self.source.mkdir(exist_ok=True)
        path = self.source / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    def copy(self, schema: DataSchema = SCHEMA, *, apart: bool = True, **options: Any) -> Copied:
        source, engine = find_source(str(self.source)), options.pop("engine", TWO)
        workers = Workers(
            engine=engine, rows=check_source(source, schema).rows, work=self.work, many=1, share=SHARE
        )
        target = self.work.path("copy.parquet")
        return copy_source(source, schema, target, CopyRules(**options), workers=workers if apart else None)

    def left(self) -> list[str]:
        """Names of what stands in the work area."""
        return sorted(path.name for path in self.work.folder.iterdir())


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """The source and the folder of copies."""
    made = Folders(tmp_path / "source", WorkArea(tmp_path / "work", "shares"))
    for number in range(7):
        made.write(number, people(100, number))
    return made


def test_shares_are_some_files_each_and_a_large_file_is_one_in_several_parts(folders: Folders) -> None:
    folders.write(3, people(450, 3))
    copied = folders.copy()
    parts = files_of(copied.path, copied.sha256)
    rows = [pq.read_metadata(part).num_rows for part in parts]
    # the files 0 and 1; 2 and 3; 4 and 5; 6
    assert rows == [200, 200, 200, 150, 200, 100]
    assert [part.name for part in parts] == [f"part-{n:05d}.parquet" for n in range(6)]
    assert all(part.stat().st_mode & 0o777 == 0o600 for part in parts)
    assert folders.left() == ["copy.files", "copy.files.json"]


def test_a_copy_in_shares_has_what_one_process_finds_and_does_not_depend_on_who_copied(
    folders: Folders,
) -> None:
    folders.write(6, with_last(people(100, 6), "remark", f"write to {CANARY}"))
    folders.write(2, with_last(people(100, 2), "remark", f"or {CANARY}"))
    schema = DataSchema.from_dict({**FIELDS, "remark": {**FIELDS["remark"], "text": "redact"}})
    alone = folders.copy(schema, apart=False)
    frame = read_private(alone.path, alone.sha256)
    copies = [folders.copy(schema), folders.copy(schema, engine=read_engine("fragments"))]
    for copied in copies:
        pd.testing.assert_frame_equal(read_private(copied.path, copied.sha256), frame)
        assert copied.text == alone.text == {"remark": {"email": 2}}
        for fact in ("fingerprint", "rows", "dropped", "schema"):
            assert getattr(copied, fact) == getattr(alone, fact)
    assert copies[0].sha256 == copies[1].sha256
    assert (frame["remark"] == "write to [email]").sum() == 1


def test_persons_have_one_number_and_one_pseudonym_in_all_shares(folders: Folders) -> None:
    key = PseudonymKey(b"k" * 32)
    naming = Naming(series="s", release="r", key_of=lambda _: key)
    twice = {**FIELDS, "alias": {"role": "identifier", "pseudonym": {"connection": "c", "scope": "series"}}}
    for number in range(7):
        names = people(100, 1)
        folders.write(
            number, {**names, "alias": pa.array([f"{number}-{n}" for n in names["name"].to_pylist()])}
        )
    schema = DataSchema.from_dict({**twice, "person": "name"})
    copied = folders.copy(schema, naming=naming)
    alone = folders.copy(schema, naming=naming, apart=False)
    assert is_list(copied.path)
    frame = read_private(copied.path, copied.sha256)
    assert frame["name"].nunique() == 100
    assert frame.groupby("name").size().eq(7).all()
    assert frame["alias"].tolist() == read_private(alone.path, alone.sha256)["alias"].tolist()


def test_nulls_are_dropped_and_counted_over_all_shares(folders: Folders) -> None:
    for number in (0, 6):
        folders.write(number, with_last(people(100, number), "age", None))
    copied = folders.copy(nulls="drop")
    assert (copied.rows, copied.dropped) == (700, 2)
    assert len(read_private(copied.path, copied.sha256)) == 698


@pytest.mark.quick(
    "an identifier that another share has", "text of two shares", "three parts that do not fit"
)  # of each kind of summary
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            lambda f: f.write(6, people(100, 0)),
            r"name: 100 records repeat another's value",
            id="an identifier that another share has",
        ),
        pytest.param(
            lambda f: [f.write(n, with_last(people(100, n), "remark", CANARY)) for n in (0, 6)],
            r"remark: email in 2 records",
            id="text of two shares",
        ),
        pytest.param(
            lambda f: [f.write(n, people(100, n) | {"remark": people(100, n)["name"]}) for n in range(7)],
            r"remark: about 700 different values in 700 records",
            id="a column that is unique in all shares together",
        ),
        pytest.param(
            lambda f: f.write(6, with_last(people(100, 6), "age", 999)),
            r"^6\.parquet, records 1 to 100: age: 1 value is out of the bounds[^(]*$",
            id="a value out of bounds",
        ),
        pytest.param(
            lambda f: [f.write(n, with_last(people(100, n), "age", None)) for n in (1, 3, 5)],
            r"^1\.parquet, .*; 3\.parquet, .*; 5\.parquet, .*\(later records were not checked\)$",
            id="three parts that do not fit",
        ),
        pytest.param(
            lambda f: [f.write(n, {**people(100, n), "age": pa.nulls(100, pa.int64())}) for n in range(7)],
            r"^0\.parquet, .*age: 100 values are null.*; 1\.parquet.*; 2\.parquet.*\(later records",
            id="nulls alone",
        ),
    ],
)
def test_what_all_files_together_break_is_refused_and_nothing_is_left(
    folders: Folders, change: Callable[[Folders], object], expected: str
) -> None:
    change(folders)
    with pytest.raises(SchemaError, match=expected) as caught:
        folders.copy()
    assert CANARY not in str(caught.value)
    assert folders.left() == []


def replaced(folders: Folders, columns: dict[str, Any], number: int = 5) -> Callable[[], Copied]:
    """A copy whose file of this number is another one than when its footer was looked at."""
    source = find_source(str(folders.source))
    rows = check_source(source, SCHEMA).rows
    workers = Workers(engine=TWO, rows=rows, work=folders.work, many=1, share=SHARE)
    folders.write(number, columns)
    return partial(copy_source, source, SCHEMA, folders.work.path("copy.parquet"), workers=workers)


def test_files_that_change_between_their_footers_and_their_records_are_refused(folders: Folders) -> None:
    with pytest.raises(IntegrityError, match="more records than its footer said"):
        replaced(folders, people(301, 5))()
    other = {**people(100, 5), "age": pa.array(np.linspace(0, 1, 100))}
    with pytest.raises(SchemaError, match=r"4\.parquet and 5\.parquet differ in \['age'\]"):
        replaced(folders, other)()
    assert folders.left() == []


def test_the_first_file_of_a_share_has_the_types_of_the_first_of_all(folders: Folders) -> None:
    folders.write(5, people(100, 5))
    other = {**people(100, 6), "age": pa.array(np.linspace(0, 1, 100))}
    with pytest.raises(SchemaError, match=r"0\.parquet and 6\.parquet differ in \['age'\]"):
        replaced(folders, other, 6)()
    assert folders.left() == []


def test_a_damaged_file_is_named_and_leaves_nothing(folders: Folders) -> None:
    again = replaced(folders, people(100, 5))
    path = folders.source / "5.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SchemaError, match=r"5\.parquet must be a whole Parquet file"):
        again()
    assert folders.left() == []


def test_what_one_place_must_look_at_is_copied_by_one_process(folders: Folders) -> None:
    class People:
        column = "name"

        def add(self, identifiers: pd.Series) -> None:
            """Take them."""

    assert is_list(folders.copy().path)
    assert not is_list(folders.copy(people=People()).path)
    source = find_source(str(folders.source))
    few = Workers(engine=TWO, rows=[100] * 7, work=folders.work)
    assert not is_list(copy_source(source, SCHEMA, folders.work.path("few.parquet"), workers=few).path)
    one = find_source(str(folders.source / "0.parquet"))
    lonely = Workers(engine=TWO, rows=[100], work=folders.work, many=1)
    assert not is_list(copy_source(one, SCHEMA, folders.work.path("one.parquet"), workers=lonely).path)


def test_executors_that_may_write_nothing_hold_files_in_memory_which_must_be_small(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = folders.copy(apart=False)
    frame = read_private(alone.path, alone.sha256)
    monkeypatch.setattr(shares, "require_sealed", lambda engine: True)
    copied = folders.copy()
    assert is_list(copied.path)
    pd.testing.assert_frame_equal(read_private(copied.path, copied.sha256), frame)
    monkeypatch.setattr(shares, "IN_MEMORY", 100)
    assert not is_list(folders.copy().path)


def test_files_in_the_memory_of_a_process_are_read_by_it(folders: Folders) -> None:
    store = fsspec.filesystem("memory")
    for path in folders.source.iterdir():
        store.pipe_file(f"/shares/{path.name}", path.read_bytes())
    try:
        source = find_source("memory://shares")
        workers = Workers(engine=TWO, rows=[100] * 7, work=folders.work, many=1, share=SHARE)
        copied = copy_source(source, SCHEMA, folders.work.path("copy.parquet"), workers=workers)
    finally:
        store.rm("/shares", recursive=True)
    assert not is_list(copied.path)


def test_a_file_system_that_cannot_be_sent_is_read_by_one_process(folders: Folders) -> None:
    store = fsspec.filesystem("file", skip_instance_cache=True)
    store.session = lambda: None  # as those of some providers
    store.__class__ = type("Unsendable", (type(store),), {"__reduce__": lambda self: self.session})
    source = find_source(str(folders.source), filesystem=store)
    workers = Workers(engine=TWO, rows=[100] * 7, work=folders.work, many=1, share=SHARE)
    copied = copy_source(source, SCHEMA, folders.work.path("copy.parquet"), workers=workers)
    assert not is_list(copied.path)
    assert len(read_private(copied.path, copied.sha256)) == 700


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sources are copied in shares, too."""
    monkeypatch.setattr("privacy_release.steps.ingest.Workers", partial(Workers, many=1, share=SHARE))


@pytest.mark.usefixtures("shared")
def test_all_steps_read_a_table_that_was_copied_in_shares(
    folders: Folders, tmp_path: Path, ledger: BudgetLedger
) -> None:
    among = {"column": "age", "max_value": 120}
    suite = {
        "name": "ages",
        "expectations": [
            {"type": "expect_column_values_to_be_between", "kwargs": among},
            {"type": "expect_table_row_count_to_equal", "kwargs": {"value": 700}},
        ],
    }
    engine = replace(TWO, rows=200)
    policy = privacy_release.load_policy({"require": [{"model": "k_anonymity", "k": 5}]})
    domains = {
        "illness": {"categories": ["flu", "cold", "gout"]},
        "remark": {"categories": ["none", "well"]},
        "visits": {"bounds": [0, 9], "nullable": True},
    }
    schema = DataSchema.from_dict(
        {name: {**reported, **domains.get(name, {})} for name, reported in FIELDS.items()}
    )
    with WorkArea(tmp_path / "area", "shares") as work:
        table = privacy_release.ingest(str(folders.source), schema, work, engine=engine)
        assert is_list(table.uri)
        assert len(files_of(table.uri, table.sha256)) == 4
        assert privacy_release.validate(table, suite)["success"]
        seen = transform(table, work, SqlStep(sql="SELECT * FROM records WHERE age < 100", memory=10**9))
        assert seen.source.transforms[0].before == 700
        ages = read_private(table.uri, table.sha256)["age"]
        assert read_private(seen.uri, seen.sha256)["age"].tolist() == ages[ages < 100].tolist()
        staged = privacy_release.make_release(table, work, method="mondrian", parameters={"k": 5}, seed=1)
        assert json.loads(Path(staged.manifest).read_bytes())["fragments"]["count"] > 2
        privacy_release.raise_if_failed(privacy_release.verify_staged(staged, policy))
        budget = Budget(dataset="people", run="people/1", ledger=ledger)
        small = {"epsilon": 1.0, "classes": 2, "fits": 1}
        private = privacy_release.make_release(
            table,
            work,
            method="latent_class",
            parameters=small,
            policy=SPENDING,
            budget=budget,
            label="private",
        )
        assert private.rows > 0
        work.remove()


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """One with enough for a release."""
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=2.0), reason="a test", by="officer")
    return made
