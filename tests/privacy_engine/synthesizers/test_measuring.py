"""Tables that are measured without being loaded: the counts, the types and the refusals of one in memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine import Attribute, DataSchema, Hierarchy, SchemaError, load_method
from privacy_engine.dp.accounting import check_bookkeeping
from privacy_engine.engines.frames import to_arrow, to_frame
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import CapacityError, InfeasibleError, IntegrityError
from privacy_engine.synthesizers.measuring import coded_files, most_combinations
from privacy_engine.tables.domains import CodedTable, Storage, public_domain
from privacy_engine.tables.marginals import WeightedRecords, contingency
from tests.contract.tables import quick

CITIES = Hierarchy(
    (("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*"), ("Zug", "north", "*"))
)
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [17, 90], "bins": 16},
        "grade": {"kind": "ordinal", "bounds": [1, 5], "nullable": True},
        "income": {"kind": "numeric", "bounds": [0.1, 0.7], "bins": 7, "nullable": True},
        "share": {"role": "sensitive", "kind": "numeric", "bounds": [-1.5, 1.5]},
        "size": {"kind": "ordinal", "categories": ["S", "M", "L"]},
        "city": {"role": "sensitive", "hierarchy": "cities", "nullable": True},
        "ill": {"categories": [True, False]},
        "insured": {"categories": [True, False], "nullable": True},
        "count": {"categories": [1, 2, 3]},
        "weight": {"kind": "ordinal", "categories": [0.5, 1, 2], "nullable": True},
    },
    {"cities": CITIES},
)
PAIR = DataSchema.from_dict({"sex": {"categories": ["f", "m"]}, "smokes": {"categories": ["no", "yes"]}})


def people(n: int = 600, seed: int = 1) -> pd.DataFrame:
    """Every type of column, with nulls where they are allowed, and numbers on the edges of bins."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0.1, 0.7, 8)
    income = rng.choice([*edges, *np.nextafter(edges[1:], 0), *rng.uniform(0.1, 0.7, 9), np.nan], n)
    return pd.DataFrame(
        {
            "name": [f"canary {i}" for i in range(n)],
            "age": rng.integers(17, 91, n),
            "grade": pd.array(rng.choice([1, 2, 3, 4, 5, None], n), dtype="Int64"),
            "income": income,
            "share": rng.choice([-1.5, -0.0, 0.0, 0.1, 1.5], n),
            "size": rng.choice(["S", "M", "L"], n),
            "city": rng.choice([*CITIES.values, None], n),
            "ill": rng.random(n) < 0.5,
            "insured": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "count": rng.integers(1, 4, n).astype(np.int8),
            "weight": rng.choice([0.5, 1.0, 2.0, np.nan], n),
        }
    )


def smokers(n: int = 2000) -> pd.DataFrame:
    """Two attributes that depend on each other: 30 % of the women and 80 % of the men smoke."""
    man = np.arange(n) % 2 == 1
    smokes = np.arange(n) % 20 < np.where(man, 16, 6)
    return pd.DataFrame({"sex": np.where(man, "m", "f"), "smokes": np.where(smokes, "yes", "no")})


def written(folder: Path, table: pa.Table, files: int = 3, group: int = 70) -> list[str]:
    """The records in several files of unequal length, in small row groups."""
    ends = [len(table) * i * i // files**2 for i in range(files + 1)]
    paths = [str(folder / f"part-{i}.parquet") for i in range(files)]
    for path, start, end in zip(paths, ends, ends[1:], strict=False):
        pq.write_table(table.slice(start, end - start), path, row_group_size=group)
    return paths


def loaded(files: list[str]) -> pd.DataFrame:
    """The same records in memory, in the types that every step of a release gives them."""
    return to_frame(pa.concat_tables([pq.read_table(file) for file in files]))


def counts(coded: CodedTable) -> dict[tuple[int, ...], int]:
    """How often each combination of codes occurs."""
    records = WeightedRecords.of(coded)
    return dict(zip(zip(*records.codes.tolist(), strict=True), records.weights.tolist(), strict=True))


@pytest.fixture(scope="module")
def spill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spill")


@pytest.fixture(scope="module")
def engine(spill: Path) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=spill) as opened:
        yield opened


# --- what is counted


@pytest.mark.quick("1-1000-{'city': 2}", "1-7-{}", "4-50-{'city': 1}")
@pytest.mark.parametrize("levels", [{}, {"city": 1}, {"city": 2}], ids=str)
@pytest.mark.parametrize(("files", "group"), [(1, 1000), (1, 7), (4, 50)])
def test_the_counts_are_those_of_the_table_in_memory(
    engine: LocalEngine, tmp_path: Path, levels: Mapping[str, int], files: int, group: int
) -> None:
    paths = written(tmp_path, to_arrow(people()), files, group)
    whole, parts = (
        CodedTable.encode(loaded(paths), SCHEMA, levels),
        coded_files(engine, paths, SCHEMA, levels),
    )
    assert counts(parts) == counts(whole)
    assert len(parts) == len(whole) == 600
    assert (parts.names, parts.sizes) == (whole.names, whole.sizes)
    assert parts.storages == whole.storages
    assert parts.codes.dtype == whole.codes.dtype
    assert parts.codes.flags.c_contiguous


@pytest.mark.quick("0", "1")  # other attributes together
@pytest.mark.parametrize("seed", range(5))
def test_every_marginal_is_the_one_of_the_table_in_memory(
    engine: LocalEngine, tmp_path: Path, seed: int
) -> None:
    paths = written(tmp_path, to_arrow(people(200, seed)))
    whole, parts = CodedTable.encode(loaded(paths), SCHEMA), coded_files(engine, paths, SCHEMA)
    members = np.random.default_rng(seed).permutation(10)[:3].tolist()
    assert contingency(parts, members).tolist() == contingency(whole, members).tolist()
    assert contingency(WeightedRecords.of(parts), members).tolist() == contingency(whole, members).tolist()


def test_records_of_many_batches_are_counted_once(engine: LocalEngine, tmp_path: Path) -> None:
    table = smokers(300_000)
    paths = written(tmp_path, to_arrow(table), files=2, group=100_000)
    coded = coded_files(engine, paths, PAIR)
    assert coded.codes.shape == (2, 4)
    assert counts(coded) == {(0, 0): 105_000, (0, 1): 45_000, (1, 0): 30_000, (1, 1): 120_000}


def test_numbers_of_any_type_fall_into_the_bins_of_the_table_in_memory(
    engine: LocalEngine, tmp_path: Path
) -> None:
    schema = DataSchema.from_dict({"n": {"kind": "numeric", "bounds": [0, 250], "bins": 9, "nullable": True}})
    for kind in (pa.uint8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()):
        table = pa.table({"n": pa.array([*range(251), None], kind)})
        paths = written(tmp_path, table)
        whole, parts = CodedTable.encode(loaded(paths), schema), coded_files(engine, paths, schema)
        assert counts(parts) == counts(whole)
        assert parts.storages == whole.storages
        assert parts.storages == {"n": Storage.WHOLE if pa.types.is_integer(kind) else Storage.REAL}


def test_a_null_and_a_nan_are_one_value(engine: LocalEngine, tmp_path: Path) -> None:
    schema = DataSchema.from_dict({"n": {"categories": [1, 2], "nullable": True}})
    paths = written(tmp_path, pa.table({"n": pa.array([None, np.nan, 1.0, 2.0])}), files=1)
    assert counts(coded_files(engine, paths, schema)) == {(0,): 1, (1,): 1, (2,): 2}


def test_a_domain_of_more_than_256_values_takes_wider_codes(engine: LocalEngine, tmp_path: Path) -> None:
    schema = DataSchema.from_dict(
        {"a": {"categories": [f"v{i}" for i in range(300)]}, "b": {"categories": [1]}}
    )
    paths = written(tmp_path, pa.table({"a": ["v299", "v0", "v299"], "b": [1, 1, 1]}), files=1)
    coded = coded_files(engine, paths, schema)
    assert coded.codes.dtype == np.uint16
    assert counts(coded) == {(0, 0): 1, (299, 0): 2}


def test_the_spill_folder_is_left_empty(engine: LocalEngine, spill: Path, tmp_path: Path) -> None:
    coded_files(engine, written(tmp_path, to_arrow(people())), SCHEMA)
    (own,) = spill.iterdir()
    assert [path for path in own.rglob("*") if path.is_file()] == []


# --- what is refused


def _set(column: str, rows: slice, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[rows, column] = value
        return table

    return change


def _texts(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(age=table["age"].astype(str))


def _everything(table: pd.DataFrame) -> pd.DataFrame:
    table = _set("age", slice(0, 9), 91)(table)
    table = _set("city", slice(3, 599), "Genf")(table)
    table = _set("share", slice(500, 520), -np.inf)(table)
    return _set("size", slice(100, 400), None)(table)


REFUSED = {
    "unseen": _set("size", slice(3, 560), "XL"),
    "unseen texts": lambda t: t.assign(city=[f"place {i % 50}" for i in range(len(t))]),
    "unseen numbers": _set("count", slice(0, 1), 7),
    "unseen truths": lambda t: t.assign(ill=t["ill"].astype(int)),
    "out of the bounds": _set("age", slice(0, 2), 91),
    "just out of the bounds": _set("income", slice(50, 55), np.nextafter(0.7, 1)),
    "infinite": _set("share", slice(0, 600, 100), np.inf),
    "null without a code": _set("size", slice(0, 600, 7), None),
    "null of a sensitive attribute": _set("share", slice(590, 600), np.nan),
    "nan in a column of truths": lambda t: t.assign(ill=t["ill"].astype("boolean").mask(t["ill"])),
    "texts for numbers": _texts,
    "several": _everything,
    "several with texts": lambda t: _texts(_everything(t)),
    "missing column": lambda t: t.drop(columns="size"),
    "unknown column": lambda t: t.assign(more=1),
    "no record": lambda t: t.head(0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_is_refused_for_the_reasons_of_one_in_memory(
    engine: LocalEngine, tmp_path: Path, case: str
) -> None:
    paths = written(tmp_path, to_arrow(REFUSED[case](people())), files=3)
    with pytest.raises(SchemaError) as whole:
        CodedTable.encode(loaded(paths), SCHEMA)
    with pytest.raises(SchemaError) as parts:
        coded_files(engine, paths, SCHEMA)
    assert str(parts.value) == str(whole.value)


@pytest.mark.parametrize("levels", [{"size": 1}, {"city": 3}, {"street": 1}], ids=str)
def test_levels_are_refused_as_in_memory(
    engine: LocalEngine, tmp_path: Path, levels: Mapping[str, int]
) -> None:
    paths = written(tmp_path, to_arrow(people()))
    with pytest.raises(SchemaError) as whole:
        CodedTable.encode(loaded(paths), SCHEMA, levels)
    with pytest.raises(SchemaError) as parts:
        coded_files(engine, paths, SCHEMA, levels)
    assert str(parts.value) == str(whole.value)


def test_a_domain_that_is_not_public_is_refused_before_a_file_is_opened(engine: LocalEngine) -> None:
    schema = DataSchema.from_dict({"a": {"kind": "numeric"}})
    with pytest.raises(SchemaError, match=r"\['a'\] have no public domain"):
        coded_files(engine, ["/no/such/file.parquet"], schema)


def test_a_refusal_names_no_value(engine: LocalEngine, tmp_path: Path) -> None:
    paths = written(tmp_path, to_arrow(_everything(people())))
    with pytest.raises(SchemaError) as refused:
        coded_files(engine, paths, SCHEMA)
    assert not [word for word in ("Genf", "canary", "91") if word in str(refused.value)]


def test_a_damaged_file_is_refused(engine: LocalEngine, tmp_path: Path) -> None:
    paths = written(tmp_path, to_arrow(people()))
    data = bytearray(Path(paths[2]).read_bytes())
    data[4:4000] = bytes(3996)
    Path(paths[2]).write_bytes(data)
    with pytest.raises(SchemaError, match=r"part-2\.parquet.*damaged"):
        coded_files(engine, paths, SCHEMA)


class _Changing(LocalEngine):
    """An engine whose files are replaced after their records were counted the first time."""

    def rows(self, files: Sequence[str]) -> int:
        found = super().rows(files)
        pq.write_table(to_arrow(smokers(self.later)), files[0])
        return found

    later = 0


@pytest.mark.parametrize("later", [1, 1999, 2001, 5000])
def test_files_that_change_while_they_are_read_are_refused(tmp_path: Path, later: int) -> None:
    schema = DataSchema.from_dict({**PAIR.to_dict(), "sex": {"categories": ["f", "m", "x"]}})
    paths = written(tmp_path, to_arrow(smokers()), files=1)
    with _Changing(memory=10**9, spill=tmp_path) as engine:
        engine.later = later
        with pytest.raises(IntegrityError, match="changed while"):
            coded_files(engine, paths, schema)


# --- memory


def test_what_might_not_fit_is_refused_by_public_figures_whatever_the_records_are(tmp_path: Path) -> None:
    schema = DataSchema.from_dict({name: {"categories": ["x", "y"]} for name in "abcdefghijklmnopqrst"})
    values = np.random.default_rng(0).choice(["x", "y"], (20, 5000))
    said = set()
    for table in (
        pa.table(dict(zip(schema.names, values, strict=True))),
        pa.table(dict.fromkeys(schema.names, ["x"] * 5000)),
    ):
        paths = written(tmp_path, table, files=1)
        with LocalEngine(memory=10**5, spill=tmp_path) as engine, pytest.raises(CapacityError) as refused:
            coded_files(engine, paths, schema)
        said.add(str(refused.value))
    (text,) = said
    assert "5000 records of 20 attributes can be 5000 distinct ones" in text
    assert "give it more memory, or the attributes fewer bins or a hierarchy level" in text


def test_small_domains_need_little_memory_for_any_number_of_records() -> None:
    domains = [public_domain(Attribute(name=n, categories=("x", "y")), Storage.TEXT) for n in "abc"]
    assert most_combinations(domains, 10**12, 10**4) == 8
    assert most_combinations(domains, 5, 10**4) == 5


# --- measuring


@pytest.mark.parametrize("name", ["privbayes", "privbayes_r", "dpsm_bayes", "latent_class"])
def test_every_synthesizer_measures_files(engine: LocalEngine, tmp_path: Path, name: str) -> None:
    method = quick(name, epsilon=1.0)
    paths = written(tmp_path, to_arrow(people()))
    model = method.measure_files(engine, paths, SCHEMA)
    released = SCHEMA.without_identifiers()
    assert model.rows == 600
    assert set(model.storages) == set(released.names)
    assert all(f.passed for f in check_bookkeeping(model.loss, model.spends, SCHEMA, model.loss))
    SCHEMA.without_identifiers().check(method.sample(model, SCHEMA, 300, np.random.default_rng(0)))


@pytest.mark.parametrize("name", ["privbayes", "privbayes_r", "dpsm_bayes"])
@pytest.mark.parametrize("parameters", [{"degree": 0}], ids=str)
def test_with_noise_that_rounds_to_nothing_the_model_is_that_of_the_table_in_memory(
    engine: LocalEngine, tmp_path: Path, name: str, parameters: Mapping[str, int]
) -> None:
    # Noise of scale 2e-8 and less: a single count differs with probability exp(-5e7).
    method = load_method(name, epsilon=1e9, **parameters)
    paths = written(tmp_path, to_arrow(people()))
    assert (
        method.measure_files(engine, paths, SCHEMA).to_json()
        == method.measure(loaded(paths), SCHEMA).to_json()
    )


def test_latent_class_finds_the_same_model_in_files_and_in_memory(
    engine: LocalEngine, tmp_path: Path
) -> None:
    method = load_method("latent_class", epsilon=1e9, classes=4, fits=1, replicates=2)
    paths = written(tmp_path, to_arrow(smokers()))
    assert (
        method.measure_files(engine, paths, PAIR).to_json() == method.measure(loaded(paths), PAIR).to_json()
    )


@pytest.mark.parametrize("sampling", ["one", "fresh"])
def test_dpsm_bayes_finds_the_dependence_in_secret_samples_of_files(
    engine: LocalEngine, tmp_path: Path, sampling: str
) -> None:
    method = load_method("dpsm_bayes", epsilon=5.0, degree=1, sampling=sampling)
    paths = written(tmp_path, to_arrow(smokers(20_000)))
    model = method.measure_files(engine, paths, PAIR)
    joint = model.network.marginal(["sex", "smokes"])
    # 2 counts of noise of scale 1.2 in 20,000: off by .01 once in exp(-160).
    assert np.abs(joint - [[0.35, 0.15], [0.1, 0.4]]).max() < 0.01


def test_a_table_of_one_record_is_too_small(engine: LocalEngine, tmp_path: Path) -> None:
    paths = written(tmp_path, to_arrow(people(1)), files=1)
    with pytest.raises(InfeasibleError, match="at least 2 records, got 1"):
        load_method("privbayes").measure_files(engine, paths, SCHEMA)


def test_numbers_with_wide_bounds_are_counted_on_the_same_grid(engine: LocalEngine, tmp_path: Path) -> None:
    wide = {"kind": "numeric", "bounds": [-1_000_000, 100_000_000]}
    schema = DataSchema.from_dict({"debt": {**wide, "nullable": True}, "rent": {**wide, "scale": "log"}})
    rng = np.random.default_rng(1)
    debt = rng.choice([-5e5, -1.0, 0.0, 3.0, 8e7, 1e8, np.nan], 60)
    table = to_arrow(pd.DataFrame({"debt": debt, "rent": rng.choice([0, 1, 900, 1_000], 60)}))
    files = written(tmp_path, table)
    coded = coded_files(engine, files, schema)
    assert counts(coded) == counts(CodedTable.encode(loaded(files), schema, fine=True))
    assert coded.sizes[0] > 100
