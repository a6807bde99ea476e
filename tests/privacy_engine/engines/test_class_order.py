"""Classes that are counted as their records go by: those of counting one by one, wherever a batch ends."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.engines.class_order import ordered_classes
from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import IntegrityError
from privacy_engine.tables.classes import CountedClasses, SensitiveValues
from tests.privacy_engine.engines.tables import combinations, written

SIZES = {"ill": 3, "pay": 70}  # one of them with more values than a class has columns for
Row = tuple[str | None, int | None, str | None, int, int]  # of the class two columns, person, codes
rows_of_people = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from([0, 1, None]),
        st.sampled_from(["Ann", "Bob", "Cy", None]),
        st.integers(0, 2),
        st.sampled_from([0, 1, 64, 69]),
    ),
    max_size=30,
)


def values() -> dict[str, SensitiveValues]:
    """Values that stand for their codes."""
    found = {}
    for name, size in SIZES.items():
        codes, ones = np.arange(size, dtype=np.int32), np.ones(size, np.int64)
        found[name] = SensitiveValues(pd.Series(codes), codes, size, ones, None, ones.astype(float))
    return found


def in_order(rows: list[Row], batch: int, *, by_person: bool) -> Iterator[pa.RecordBatch]:
    """The records as an engine sorts them, n at a time."""
    kinds = {"k0": pa.string(), "k1": pa.int64(), "who": pa.string(), "s0": pa.int64(), "s1": pa.int64()}
    rows = sorted(rows, key=lambda row: [repr(value) for value in row[:3]])
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    table = pa.table({name: pa.array(columns[i], kind) for i, (name, kind) in enumerate(kinds.items())})
    yield from (table if by_person else table.drop_columns("who")).to_batches(max_chunksize=batch)


def reported(part: CountedClasses) -> list[object]:
    """Each class as plain numbers: size, persons, and of each attribute entries and distinct values."""
    found: list[object] = []
    for i, (size, people) in enumerate(zip(part.sizes, part.people, strict=True)):
        attributes = []
        for name in part.sensitive:
            counts = part.counts(name)
            own = counts.classes == i
            persons = counts.counts if counts.persons is None else counts.persons
            entries = zip(counts.values[own], counts.counts[own], persons[own], strict=True)
            attributes.append(([(int(v), float(w), int(p)) for v, w, p in entries], int(counts.distinct[i])))
        found.append((int(size), int(people), attributes))
    return found


def one_by_one(rows: list[Row], *, by_person: bool) -> list[object]:
    """The same by the definitions, with sets."""
    classes: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        classes[row[:2]].append(row)
    found: list[object] = []
    for own in classes.values():
        people = [row[2] for row in own] if by_person else list(range(len(own)))
        attributes = []
        for column in (3, 4):
            fingerprints: dict[object, set[int]] = defaultdict(set)
            for person, row in zip(people, own, strict=True):
                fingerprints[person].add(int(row[column]))
            parts: dict[int, Counter[int]] = defaultdict(Counter)
            for had in fingerprints.values():
                for value in had:
                    parts[value][len(had)] += 1
            weights = {v: sum(n / among for among, n in sorted(parts[v].items())) for v in sorted(parts)}
            entries = [(value, float(w), parts[value].total()) for value, w in weights.items()]
            attributes.append((entries, min(len(parts), len({*map(frozenset, fingerprints.values())}))))
        found.append((len(own), len(set(people)), attributes))
    return found


@given(rows_of_people, st.integers(1, 12), st.booleans())
def test_classes_in_order_are_those_of_counting_one_by_one(
    rows: list[Row], batch: int, by_person: bool
) -> None:
    parts = ordered_classes(in_order(rows, batch, by_person=by_person), values(), by_person=by_person)
    found = [classes for part in parts for classes in reported(part)]
    assert sorted(map(repr, found)) == sorted(map(repr, one_by_one(rows, by_person=by_person)))


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_a_person_over_batches_counts_once_and_in_each_class_by_itself(batch: int) -> None:
    rows: list[Row] = [
        *[("a", 0, "Ann", 0, 0)] * 5,  # held together by the rows of one person
        ("a", 0, "Ann", 1, 0),
        ("a", 0, "Bob", 1, 0),
        ("b", 0, "Ann", 2, 0),  # who is in a second class, with another value
        *[("b", 0, None, 2, 0)] * 2,  # no one knows whose: one person at least
    ]
    parts = ordered_classes(in_order(rows, batch, by_person=True), values(), by_person=True)
    assert [classes for part in parts for classes in reported(part)] == [
        (7, 2, [([(0, 0.5, 1), (1, 1.5, 2)], 2), ([(0, 2.0, 2)], 1)]),
        (3, 2, [([(2, 2.0, 2)], 1), ([(0, 2.0, 2)], 1)]),
    ]


@pytest.mark.parametrize("code", [-1, None])
@pytest.mark.parametrize("by_person", [False, True])
def test_a_value_that_was_not_counted_is_noticed(code: int | None, by_person: bool) -> None:
    rows = [("a", 0, "Ann", 0, 0), ("a", 0, "Bob", code, 0), ("b", 0, "Bob", 0, 0)]
    parts = ordered_classes(in_order(rows, 2, by_person=by_person), values(), by_person=by_person)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError, match="the files changed"):
        list(parts)


@pytest.mark.parametrize("persons", [1, 7, 200_000])
def test_a_class_takes_no_more_memory_the_more_records_it_has(persons: int) -> None:
    """Of one person's many rows as of many persons' rows no more than some batches are held at a time."""
    rows, batch = 200_000, 2_000
    who = np.sort(np.arange(rows) % persons)
    table = pa.table({"k": np.zeros(rows, np.int64), "who": who, "s": np.arange(rows) % 3})
    held = []

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, batch):
            own = table.slice(first, batch)
            yield pa.concat_tables([own]).take(np.arange(batch)).to_batches()[0]
            held.append(pa.total_allocated_bytes())

    known = {"ill": values()["ill"]}
    (part,) = ordered_classes(batches(), known, by_person=True)
    assert part.people.tolist() == [persons]
    assert (
        part.counts("ill").persons.tolist()
        == np.bincount(  # type: ignore[union-attr]
            pd.DataFrame({"who": who, "s": table["s"]}).drop_duplicates()["s"]
        ).tolist()
    )
    assert max(held) - min(held) < 10 * table.nbytes * batch / rows


def test_classes_are_distinguished_by_all_values_of_columns_of_any_range(tmp_path: Path, spill: Path) -> None:
    """Numbers from end to end of 64 bits, more columns than one word holds, and texts that differ late."""
    rng = np.random.default_rng(3)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    drawn = rng.integers(0, 2, (9, 600))
    columns = {
        "ends": pa.array(np.array([least, most])[drawn[0]]),
        "unsigned": pa.array(np.array([0, 2**64 - 1], np.uint64)[drawn[1]]),
        "text": pa.array(np.array(["x" * 40 + "a", "x" * 40 + "b"])[drawn[2]]),
        "known": pa.array([None if d else 0 for d in drawn[3]], pa.int8()),
        "real": pa.array([None if d else -0.0 for d in drawn[4]], pa.float64()),
        **{f"wide {i}": pa.array(drawn[i] * (2**39 + 1) - i) for i in range(5, 8)},
    }
    table = pa.table({**columns, "s": rng.integers(0, 80, 600), "who": rng.integers(0, 50, 600)})
    paths, names = written(table, tmp_path, files=2), list(columns)
    with LocalEngine(memory=500_000_000, spill=spill, records=7) as engine:
        found = engine.contingency(paths, ["s"])
        known = {"s": SensitiveValues.of(found["s"].to_pandas(), found["count"].to_numpy(), None)}
        for person in (None, "who"):
            parts = list(engine.classes(paths, Grouping(columns=names, sensitive=known, person=person)))
            sizes = Counter(int(size) for part in parts for size in part.sizes)
            assert sizes == Counter(combinations(table, names).values())
            people = sorted(int(n) for part in parts for n in part.people)
            pairs = Counter(key[:-1] for key in combinations(table, [*names, "who"]))
            assert person is None or people == sorted(pairs.values())


@pytest.mark.slow  # needs a table larger than its memory
def test_persons_of_a_table_that_exceeds_the_memory_are_those_of_one_that_does_not(
    tmp_path: Path, spill: Path
) -> None:
    rng = np.random.default_rng(1)
    rows = 300_000
    table = {"q": rng.integers(0, 10**6, rows).astype(str), "s": rng.integers(0, 90, rows)}
    paths = written(pa.table({**table, "who": rng.integers(0, 10**9, rows).astype(str)}), tmp_path)
    found = []
    for memory in (100_000_000, 2_000_000_000):
        with LocalEngine(memory=memory, spill=spill) as engine:
            counted = engine.contingency(paths, ["s"])
            known = {"s": SensitiveValues.of(counted["s"].to_pandas(), counted["count"].to_numpy(), None)}
            grouping = Grouping(columns=["q"], sensitive=known, person="who")
            sums: Counter[tuple[int, int]] = Counter()
            for part in engine.classes(paths, grouping):
                sums.update(zip(part.sizes.tolist(), part.people.tolist(), strict=True))
            found.append(sums)
    assert found[0] == found[1]
    assert sum(size * classes for (size, _), classes in found[0].items()) == rows


@pytest.mark.parametrize("ranked", [0, 3, 50_000])
def test_records_in_the_order_of_their_values_are_those_that_came(
    tmp_path: Path, spill: Path, ranked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands for a value while it is sorted: nulls last, before them NaN, and no bit changes."""
    rng, n = np.random.default_rng(5), 900
    texts = np.array(["b", "a", None, "é", "Z", ""], object)
    reals = np.array([None, float("nan"), -0.0, 0.0, 0.25, -7.5], object)
    columns = {
        "small": pa.array([None if v > 2 else int(v) for v in rng.integers(-3, 4, n)], pa.int8()),
        "text": pa.array(texts[rng.integers(0, 6, n)], pa.string()),
        "plain": pa.array(rng.integers(0, 3, n) / 4 - 0.25, pa.float32()),
        "code": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, n), pa.int8()), ["q", "p", "r"]),
        "day": pa.array(np.array(["2020-01-01", "1969-05-05"], "M8[D]")[rng.integers(0, 2, n)]),
        "far": pa.array(np.array([-(2**63), 2**63 - 1, 5])[rng.integers(0, 3, n)]),
        "real": pa.array(reals[rng.integers(0, 6, n)].tolist(), pa.float64()),
    }
    table = pa.table(columns)
    monkeypatch.setattr("privacy_engine.engines.class_sql._RANKED", ranked)
    with LocalEngine(memory=500_000_000, spill=spill, records=70) as engine:
        found = pa.concat_tables(engine.ordered(written(table, tmp_path, files=3)))
    assert found.schema.types == table.schema.types

    def place(row: tuple[object, ...]) -> list[tuple[bool, bool, object]]:
        return [(v is None, v != v, 0 if v is None or v != v else v) for v in row]

    def rows(of: pa.Table) -> list[tuple[object, ...]]:
        return list(zip(*(column.to_pylist() for column in of.columns), strict=True))

    came = rows(found)
    assert list(map(place, came)) == sorted(map(place, came))
    assert Counter(map(repr, came)) == Counter(map(repr, rows(table)))
