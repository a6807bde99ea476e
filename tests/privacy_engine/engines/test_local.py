"""The engine of one machine: equal values are one class wherever they stand, and nothing stays behind."""

import decimal
import stat
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import CapacityError, IntegrityError, SchemaError
from privacy_engine.tables.classes import SensitiveValues
from tests.privacy_engine.engines.tables import Modulo, combinations, counted, describe, written
from tests.servers.disk import files_of_at_most

NAN = float("nan")
few = settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
records = st.lists(
    st.tuples(
        st.sampled_from(["a", "A", "", " ", "a\0", "ä", "1", None]),
        st.sampled_from([0.0, -0.0, 1.0, -1.5, NAN, float("inf"), None]),
        st.sampled_from([1, 2**53, 2**53 + 1, -1, None]),
        st.sampled_from([True, False, None]),
    ),
    max_size=8,
)
TYPES = {"q": pa.string(), "Q": pa.float64(), "n": pa.int64(), "b": pa.bool_()}


def table_of(rows: list[tuple[object, ...]]) -> pa.Table:
    """NaN stays NaN beside null; two columns differ in case alone."""
    columns = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, TYPES.values(), strict=True)],
        names=list(TYPES),
    )


@few
@given(records, st.permutations(list(TYPES)), st.integers(0, 4), st.integers(1, 3), st.integers(1, 3))
def test_combinations_are_counted_as_one_by_one(
    local: LocalEngine,
    tmp_path: Path,
    rows: list[tuple[object, ...]],
    order: list[str],
    wide: int,
    files: int,
    group: int,
) -> None:
    table, columns = table_of(rows), order[:wide]
    paths = written(table, tmp_path, files=files, rows=group)
    expected = combinations(table, columns)
    assert counted(local.contingency(paths, columns)) == expected
    assert local.class_sizes(paths, columns) == Counter(expected.values())
    local.records, whole = 1, local.records  # as where they do not fit into memory
    try:
        assert local.class_sizes(paths, columns) == Counter(expected.values())
    finally:
        local.records = whole
    assert local.rows(paths) == len(rows)


def test_a_class_over_files_and_row_groups_is_one_class(local: LocalEngine, tmp_path: Path) -> None:
    table = pa.table({"zip": ["a", "b", "a", "b", "a", None, None]})
    paths = written(table, tmp_path, files=4, rows=1)
    assert local.class_sizes(paths, ["zip"]) == {2: 2, 3: 1}


@pytest.mark.parametrize("known", [0.0, 10.0])
def test_nan_is_null_where_the_bounds_of_a_file_pass_over_it(
    local: LocalEngine, tmp_path: Path, known: float
) -> None:
    # pyarrow says that all values of such a column are the known one; DuckDB would believe it
    paths = written(pa.table({"n": [known, NAN, NAN]}), tmp_path)
    assert counted(local.contingency(paths, ["n"])) == {(known,): 1, (None,): 2}
    assert local.extent(paths, "n") == (known, known)
    table = local.contingency(paths, ["n"])
    values = SensitiveValues.of(to_frame(table)["n"], table["count"].to_numpy(), None)
    (classes,) = local.classes(paths, Grouping(columns=[], sensitive={"n": values}))
    assert classes.counts("n").counts.tolist() == [1, 2]


def test_counted_values_keep_the_types_of_the_files(local: LocalEngine, tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["x", None]).dictionary_encode(),
            "small": pa.array([200, None], pa.uint8()),
            "half": pa.array(np.array([1, 2], np.float16)),
            "money": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(12, 2)),
            "day": pa.array([date(2026, 1, 2), None]),
            "time": pa.array([1, 2], pa.timestamp("ns", "UTC")),
            "bytes": pa.array([b"\xff", None]),
            "nothing": pa.nulls(2),
        }
    )
    found = local.contingency(written(table, tmp_path), table.column_names)
    kinds = {field.name: field.type for field in found.schema}
    assert kinds.pop("text") == pa.string()
    assert kinds.pop("count") == pa.int64()
    assert kinds == {name: table.schema.field(name).type for name in kinds}
    assert counted(found) == combinations(table, table.column_names)


def test_a_type_whose_values_would_run_together_is_refused(local: LocalEngine, tmp_path: Path) -> None:
    wide = pa.array([decimal.Decimal(10**40), decimal.Decimal(10**40 + 1)], pa.decimal256(50, 0))
    paths = written(pa.table({"q": wide}), tmp_path)
    with pytest.raises(SchemaError, match="'q' must not be decimal256"):
        local.class_sizes(paths, ["q"])


@pytest.mark.parametrize("name", ['quo"ted', "it's", "select", "count", "k0", "n"])
def test_a_column_may_have_any_name(local: LocalEngine, tmp_path: Path, name: str) -> None:
    paths = written(pa.table({name: ["a", "a", "b"], name.upper(): [1, 2, 3]}), tmp_path)
    assert local.class_sizes(paths, [name]) == {1: 1, 2: 1}
    assert local.extent(paths, name.upper()) == (1, 3)


@pytest.mark.parametrize("folder", ["[ab]", "a*", "it's", "zip=7", "a b"])
def test_a_file_is_read_by_its_very_name(local: LocalEngine, tmp_path: Path, folder: str) -> None:
    for name, size in ((folder, 2), ("a", 3), ("b", 4)):  # those that a pattern would find, too
        (tmp_path / name).mkdir()
        written(pa.table({"n": range(size)}), tmp_path / name)
    path = str(tmp_path / folder / "part-0.parquet")
    assert local.class_sizes([path], []) == {2: 1}
    assert local.columns([path]).names == ["n"]  # a folder is no column
    assert counted(local.contingency([path], ["n"])) == {(0,): 1, (1,): 1}


def test_a_column_named_count_cannot_be_counted(local: LocalEngine, tmp_path: Path) -> None:
    paths = written(pa.table({"count": [1]}), tmp_path)
    with pytest.raises(SchemaError, match="rename it"):
        local.contingency(paths, ["count"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, None, -1], (-1.0, 3.0)),
        ([NAN, 2.5, None], (2.5, 2.5)),
        ([None, NAN], None),
        ([], None),
        ([float("-inf"), 0.0], (float("-inf"), 0.0)),
    ],
)
def test_the_extent_is_that_of_the_numbers(
    local: LocalEngine, tmp_path: Path, values: list[float], expected: tuple[float, float] | None
) -> None:
    kind = pa.int64() if 3 in values else pa.float64()
    paths = written(pa.table({"n": pa.array(values, kind)}), tmp_path, files=2)
    assert local.extent(paths, "n") == expected


def test_text_has_no_extent_and_no_quantiles(local: LocalEngine, tmp_path: Path) -> None:
    paths = written(pa.table({"t": ["1"]}), tmp_path)
    for ask in (lambda: local.extent(paths, "t"), lambda: local.quantile_cuts(paths, "t", 2)):
        with pytest.raises(SchemaError, match="'t' must hold numbers, got string"):
            ask()


def test_quantiles_cut_a_column_into_parts_of_about_equal_size(local: LocalEngine, tmp_path: Path) -> None:
    values = np.random.default_rng(3).permutation(10_000).astype(float)
    paths = written(pa.table({"n": values}), tmp_path, files=3)
    cuts = local.quantile_cuts(paths, "n", 8)
    assert np.bincount(np.searchsorted(cuts, values)).tolist() == [1250] * 8
    assert local.quantile_cuts(
        written(pa.table({"n": [5.0] * 9}), tmp_path, name="same"), "n", 4
    ).tolist() == [5]
    nothing = written(pa.table({"n": pa.nulls(3, pa.float64())}), tmp_path, name="nulls")
    assert local.quantile_cuts(nothing, "n", 4).tolist() == []


def test_a_sample_holds_each_record_at_most_once_and_is_the_same_again(
    local: LocalEngine, tmp_path: Path
) -> None:
    paths = written(pa.table({"n": range(1_000), "t": ["x"] * 1_000}), tmp_path, files=3, rows=100)
    for rows in (1, 10, 499, 501, 999):
        found = local.sample(paths, rows, seed=7)
        assert len(set(found["n"].to_pylist())) == rows
        assert found.equals(local.sample(paths, rows, seed=7))
        assert rows == 999 or not found.equals(local.sample(paths, rows, seed=8))
    assert local.sample(paths, 5_000, seed=7)["n"].to_pylist() == list(range(1_000))
    assert (
        len(local.sample(written(pa.table({"n": pa.array([], pa.int8())}), tmp_path, name="no"), 5, 7)) == 0
    )
    with pytest.raises(ValueError, match="at least one record"):
        local.sample(paths, 0, seed=7)


def test_each_record_is_equally_likely_to_be_sampled(local: LocalEngine, tmp_path: Path) -> None:
    paths = written(pa.table({"n": range(10)}), tmp_path, files=2)
    drawn = Counter(n for seed in range(100) for n in local.sample(paths, 3, seed)["n"].to_pylist())
    # each count is binomial(100, 0.3): one of ten is more than 5 deviations (23) off once in 100,000 times
    assert all(abs(drawn[n] - 30) < 23 for n in range(10))


@few
@given(records, st.integers(1, 3))
def test_counts_by_fragment_are_those_of_one_by_one(
    local: LocalEngine, tmp_path: Path, rows: list[tuple[object, ...]], files: int
) -> None:
    table, assign = table_of(rows), Modulo("n", 3)
    paths = written(table, tmp_path, files=files, rows=2)
    fragments = pa.array(assign(to_frame(table)))
    expected = combinations(table.append_column("fragment", fragments), ["fragment", "q", "Q", "b"])
    found = local.count_fragments(paths, assign, ["q", "Q", "b"])
    assert found.schema.types == [pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.int64()]
    assert counted(found) == expected


def test_fragments_cannot_be_counted_by_columns_of_the_results_names(
    local: LocalEngine, tmp_path: Path
) -> None:
    paths = written(pa.table({"fragment": [1], "n": [1]}), tmp_path)
    with pytest.raises(SchemaError, match="Rename them"):
        local.count_fragments(paths, Modulo("n", 2), ["fragment"])


def test_a_class_of_one_record_too_few_is_found_among_two_hundred_thousand(
    local: LocalEngine, tmp_path: Path
) -> None:
    zips = np.random.default_rng(1).permutation(np.repeat(np.arange(20_000), 10)).astype(str)
    lacking = np.flatnonzero(zips == "777")[0]
    paths = written(pa.table({"zip": np.delete(zips, lacking)}), tmp_path, files=3, rows=10_000)
    assert local.class_sizes(paths, ["zip"]) == {9: 1, 10: 19_999}


def test_classes_that_are_counted_in_parts_are_those_of_the_whole(tmp_path: Path, spill: Path) -> None:
    rng = np.random.default_rng(1)
    values = [None if v == 7 else float(v) for v in rng.integers(0, 40, 500)]
    table = pa.table({"n": pa.array(values, pa.float64()), "t": rng.integers(0, 3, 500).astype(str)})
    paths = written(table, tmp_path, files=2)
    with LocalEngine(memory=500_000_000, spill=spill, records=20) as engine:
        values = {
            "t": SensitiveValues.of(
                to_frame(found := engine.contingency(paths, ["t"]))["t"], found["count"].to_numpy(), None
            )
        }
        parts = list(engine.classes(paths, Grouping(columns=["n"], sensitive=values)))
        assert len(parts) > 1
        assert Counter(int(size) for part in parts for size in part.sizes) == engine.class_sizes(paths, ["n"])
        assert Counter(combinations(table, ["n"]).values()) == engine.class_sizes(paths, ["n"])


@pytest.mark.parametrize("records", [1, 20, 1_000])
def test_classes_are_those_of_counting_one_by_one(tmp_path: Path, spill: Path, records: int) -> None:
    rng = np.random.default_rng(1)
    keys, values = rng.integers(0, 40, 500), rng.choice(["a", "b", None], 500)
    paths = written(pa.table({"n": keys, "s": pa.array(values, pa.string())}), tmp_path, files=2)
    expected = Counter(zip(keys.tolist(), values.tolist(), strict=True))
    of_class: dict[int, Counter[str | None]] = {}
    for (key, value), count in expected.items():
        of_class.setdefault(key, Counter())[value] = count
    with LocalEngine(memory=500_000_000, spill=spill, records=records) as engine:
        known = counts_of(engine, paths)
        texts = dict(zip(known["s"].codes.tolist(), known["s"].column, strict=True))
        found = []
        for part in engine.classes(paths, Grouping(columns=["n"], sensitive=known)):
            counts = part.counts("s")
            rows = zip(counts.classes.tolist(), counts.values.tolist(), counts.counts.tolist(), strict=True)
            held: list[Counter[str | None]] = [Counter() for _ in range(len(part))]
            for number, code, count in rows:
                held[number][None if pd.isna(texts[code]) else texts[code]] = count
            found += held
    assert sorted(map(repr, map(sorted_items, found))) == sorted(
        map(repr, map(sorted_items, of_class.values()))
    )


def test_trajectories_are_distinguished_by_every_value_of_every_row(
    local: LocalEngine, tmp_path: Path
) -> None:
    """None of these persons has the rows of another, whatever their values look like side by side."""
    of_person = [
        [("ab", "c")],
        [("a", "bc")],
        [(None, "-")],
        [("-", None)],
        [("", "1:a")],
        [("1:a", "")],
        [("x", "y")],
        [("x", "y"), ("x", "y")],
        [("x", "y"), ("y", "x")],
        [("x", "x"), ("y", "y")],
        [("x", "y")] * 3,
    ]
    rows = [(f"p{i}", *row) for i, own in enumerate(of_person) for row in own]
    rows += [("again", *row) for row in reversed(of_person[8])] + [(None, "x", "z")]
    names, firsts, seconds = zip(*rows, strict=True)
    paths = written(pa.table({"who": names, "a": firsts, "b": seconds}), tmp_path, files=2)
    grouping = Grouping(columns=["a", "b"], sensitive={}, person="who", linked=True)
    people = Counter(int(n) for part in local.classes(paths, grouping) for n in part.people)
    assert people == {1: len(of_person), 2: 1}


def sorted_items(counts: Counter[str | None]) -> list[tuple[str, int]]:
    return sorted((str(value), count) for value, count in counts.items())


def counts_of(engine: LocalEngine, paths: list[str]) -> dict[str, SensitiveValues]:
    table = engine.contingency(paths, ["s"])
    return {"s": SensitiveValues.of(to_frame(table)["s"], table["count"].to_numpy(), None)}


def test_files_that_change_between_two_counts_are_noticed(local: LocalEngine, tmp_path: Path) -> None:
    paths = written(pa.table({"q": ["a", "b"], "s": ["x", "y"]}), tmp_path)
    known = counts_of(local, paths)
    for values in (["x", "canary-77"], ["x", "x"]):
        written(pa.table({"q": ["a", "b"], "s": values}), tmp_path)
        with pytest.raises(IntegrityError, match="the files changed") as caught:
            list(local.classes(paths, Grouping(columns=["q"], sensitive=known)))
        assert "canary" not in str(caught.value)


def requested(engine: LocalEngine, paths: list[str]) -> Iterator[object]:
    yield lambda: engine.columns(paths)
    yield lambda: engine.rows(paths)
    yield lambda: engine.class_sizes(paths, ["t"])
    yield lambda: engine.contingency(paths, ["t"])
    yield lambda: engine.extent(paths, "n")
    yield lambda: engine.sample(paths, 2, 1)
    yield lambda: engine.count_fragments(paths, Modulo("n", 2), ["t"])
    yield lambda: list(engine.apply_by_fragment(paths, Modulo("n", 2), describe))


@pytest.mark.parametrize("damage", ["truncated", "missing", "text", "empty"])
def test_a_file_that_is_no_whole_parquet_file_is_named(
    local: LocalEngine, tmp_path: Path, damage: str
) -> None:
    paths = written(pa.table({"t": ["canary-1", "canary-2"], "n": [1, 2]}), tmp_path, files=2)
    path = Path(paths[1])
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"truncated": path.read_bytes()[:-20], "text": b"canary-3, 7", "empty": b""}[damage])
    for ask in requested(local, paths):
        with pytest.raises(SchemaError, match=r"part-1\.parquet (must|does not exist)") as caught:
            ask()
        assert "canary" not in str(caught.value)
        assert str(tmp_path) not in str(caught.value)


def test_damaged_pages_are_an_error_and_not_fewer_records(local: LocalEngine, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"t": rng.integers(0, 10**9, 5_000).astype(str), "n": rng.random(5_000)})
    paths = written(table, tmp_path)
    data = bytearray(Path(paths[0]).read_bytes())
    data[100 : len(data) - 2_000] = bytes(len(data) - 2_100)
    Path(paths[0]).write_bytes(data)
    for ask in list(requested(local, paths))[2:]:
        with pytest.raises(SchemaError, match=r"part-0\.parquet must"):
            ask()


@pytest.mark.parametrize(
    "second", [{"a": ["1"]}, {"a": [1], "b": [1]}, {"b": [1]}], ids=["type", "more columns", "other column"]
)
def test_files_that_differ_in_columns_or_types_are_refused(
    local: LocalEngine, tmp_path: Path, second: dict[str, list[object]]
) -> None:
    paths = [*written(pa.table({"a": [1]}), tmp_path), *written(pa.table(second), tmp_path, name="other")]
    with pytest.raises(SchemaError, match=r"part-0\.parquet and other-0\.parquet differ in \["):
        local.class_sizes(paths, ["a"])


def test_no_file_and_an_unknown_column_are_errors(local: LocalEngine, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="at least one file"):
        local.class_sizes([], ["a"])
    with pytest.raises(SchemaError, match="must have one column 'b'; they have"):
        local.class_sizes(written(pa.table({"a": [1]}), tmp_path), ["b"])


def test_the_database_has_a_share_of_the_memory_and_less_while_python_encodes(
    tmp_path: Path, spill: Path
) -> None:
    paths = written(pa.table({"n": [1, 2]}), tmp_path)
    found = []

    def look(records: pa.Table) -> pa.Table:
        found.append(limit_of(engine))
        return records

    with LocalEngine(memory=1000 * 2**20, spill=spill) as engine:
        assert limit_of(engine) == "600.0 MiB"
        list(engine.count_coded(paths, ["n"], look, pa.schema({"n": pa.int64()})))
        assert (found, limit_of(engine)) == (["400.0 MiB"], "600.0 MiB")


def limit_of(engine: LocalEngine) -> str:
    """The most memory that the engine's database may use."""
    with engine._database.cursor() as cursor:
        (limit,) = cursor.execute("SELECT current_setting('memory_limit')").fetchone() or ("",)
    return str(limit)


def test_what_fits_neither_memory_nor_disk_is_an_error_that_says_so(tmp_path: Path, spill: Path) -> None:
    rng = np.random.default_rng(1)
    columns = {name: rng.integers(0, 2**62, 200_000) for name in "abcdefgh"}
    paths = written(pa.table(columns), tmp_path)
    with (
        LocalEngine(memory=30_000_000, spill=spill) as engine,
        files_of_at_most(200_000),
        pytest.raises(CapacityError, match="Give the engine more memory, or a spill folder with more"),
    ):
        engine.class_sizes(paths, list("abcdefgh"))
    assert not list(spill.iterdir())


@pytest.mark.quick("300")  # of one and of few, some are seen elsewhere
@pytest.mark.parametrize("fragments", [1, 3, 300])
def test_each_fragment_gets_its_records_in_their_order(tmp_path: Path, spill: Path, fragments: int) -> None:
    rng = np.random.default_rng(1)
    n = 70_000
    numbers = rng.permutation(n)
    table = pa.table(
        {
            "n": numbers,
            "t": pa.array(rng.integers(0, 9, n).astype(str)).dictionary_encode(),
            "x": rng.random(n),
        }
    )
    paths = written(table, tmp_path, files=2, rows=20_000)
    folder = tmp_path / "fragments"
    folder.mkdir()
    with LocalEngine(memory=5_000_000_000 if fragments == 1 else 5_000_000, spill=spill) as engine:
        found = engine.partition_by_fragment(paths, Modulo("n", fragments), folder)
    assert list(found) == list(range(fragments))
    assert sorted(p.name for p in folder.iterdir()) == [f"fragment-{f:05d}.parquet" for f in range(fragments)]
    for fragment in range(0, fragments, 70):
        stored = pq.ParquetFile(found[fragment]).read()
        mask = pa.array(numbers % fragments == fragment)
        assert stored.equals(table.filter(mask).cast(stored.schema))


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path, spill: Path) -> None:
    paths = written(pa.table({"n": np.random.default_rng(1).random(100_000)}), tmp_path)
    with (
        LocalEngine(memory=500_000_000, spill=spill) as engine,
        files_of_at_most(100_000),
        pytest.raises(CapacityError, match="must fit on the disk, got: File too large; make space there"),
    ):
        list(engine.apply_by_fragment(paths, Modulo("n", 2), describe))
    assert not list(spill.iterdir())


def test_the_spill_folder_is_private_while_it_is_there_and_removed_in_the_end(
    tmp_path: Path, spill: Path
) -> None:
    paths = written(pa.table({"n": range(10)}), tmp_path)
    with LocalEngine(memory=500_000_000, spill=spill, here=10**6) as engine:
        for _ in engine.apply_by_fragment(paths, Modulo("n", 3), describe):
            (own,) = spill.iterdir()
            assert stat.S_IMODE(own.stat().st_mode) == 0o700
            assert stat.S_IMODE(next(own.glob("fragments-*")).stat().st_mode) == 0o700
    assert not list(spill.iterdir())
    with pytest.raises(RuntimeError), LocalEngine(memory=500_000_000, spill=spill):
        raise RuntimeError
    assert not list(spill.iterdir())


def test_the_database_reaches_no_extension(local: LocalEngine) -> None:
    said = dict(
        local._database.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name LIKE '%extension%'"
        ).fetchall()
    )
    assert said["autoload_known_extensions"] == said["autoinstall_known_extensions"] == "false"
    assert said["allow_community_extensions"] == "false"
