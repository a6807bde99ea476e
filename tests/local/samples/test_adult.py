"""Adult: the same columns from every source, an honest sentence, and no download unchecked."""

import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deploy.local.samples.adult import (
    COLUMNS,
    GENERATED_ROWS,
    download_adult,
    half_of,
    parse_adult,
    sample_table,
)
from deploy.local.samples.synthetic_adult import EDUCATION, synthetic_adult

HIERARCHIES = Path(__file__).parents[3] / "include" / "hierarchies" / "adult"
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (12_285, 1_484_705),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_356),
    "hours-per-week": (1, 99),
}
CATEGORICAL = [name for name, dtype in COLUMNS.items() if dtype == "str"]
MAY_BE_UNKNOWN = {"workclass", "occupation", "native-country"}


@pytest.fixture(scope="module")
def generated() -> pd.DataFrame:
    return synthetic_adult(20_000, rng=np.random.default_rng(1))


@pytest.fixture
def no_local_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/adult.data"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A file and the address under which a local server gives it out."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, request: object, address: object, server: object) -> None:
            super().__init__(request, address, server, directory=str(folder))  # type: ignore[arg-type]  # as given

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder / "adult.data", f"http://127.0.0.1:{server.server_port}/adult.data"
        server.shutdown()
        thread.join()


def uci_text(table: pd.DataFrame) -> str:
    """The table in UCI's own form, which ends with an empty line."""
    known = table.astype(object).where(table.notna(), "?")
    return "".join(", ".join(map(str, row)) + "\n" for row in known.itertuples(index=False)) + "\n"


def leaves(name: str) -> set[str]:
    return {
        line.split(";")[0] for line in (HIERARCHIES / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    }


def test_equal_seeds_generate_equal_records() -> None:
    first, second = (synthetic_adult(500, rng=np.random.default_rng(3)) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_different_seeds_generate_different_records() -> None:
    first, second = (synthetic_adult(500, rng=np.random.default_rng(seed)) for seed in (3, 4))
    assert not first.equals(second)


@pytest.mark.parametrize("n", [0, 1, 777])
def test_generator_gives_exactly_n_rows_with_the_contract_of_columns_and_types(n: int) -> None:
    table = synthetic_adult(n, rng=np.random.default_rng(3))
    assert len(table) == n
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == COLUMNS
    assert list(table) == list(COLUMNS)


def test_generator_refuses_a_negative_number_of_rows() -> None:
    with pytest.raises(ValueError, match="n must be >= 0, got -1"):
        synthetic_adult(-1, rng=np.random.default_rng(3))


@pytest.mark.parametrize("column", CATEGORICAL)
def test_every_generated_category_is_a_leaf_of_the_shipped_hierarchy(
    generated: pd.DataFrame, column: str
) -> None:
    assert set(generated[column].dropna()) <= leaves(column)


@pytest.mark.parametrize("column", BOUNDS)
def test_no_generated_number_lies_outside_the_public_bounds(generated: pd.DataFrame, column: str) -> None:
    low, high = BOUNDS[column]
    assert generated[column].between(low, high).all()


def test_unknown_values_stand_only_where_adult_has_them(generated: pd.DataFrame) -> None:
    assert {name for name in generated if generated[name].isna().any()} == MAY_BE_UNKNOWN
    assert 0.88 < len(generated.dropna()) / len(generated) < 0.97


def test_an_unknown_work_class_has_no_occupation(generated: pd.DataFrame) -> None:
    idle = generated["workclass"].isna() | (generated["workclass"] == "Never-worked")
    assert generated["occupation"].isna().equals(idle)


def test_education_and_its_number_agree(generated: pd.DataFrame) -> None:
    assert generated["education"].equals(
        generated["education-num"].map(lambda i: EDUCATION[i - 1]).astype("str")
    )


def test_husbands_are_married_men_and_wives_married_women(generated: pd.DataFrame) -> None:
    spouses = generated[generated["relationship"].isin(["Husband", "Wife"])]
    assert spouses["marital-status"].isin(["Married-civ-spouse", "Married-AF-spouse"]).all()
    assert ((spouses["relationship"] == "Husband") == (spouses["sex"] == "Male")).all()


def test_generated_attributes_depend_on_each_other_as_in_life(generated: pd.DataFrame) -> None:
    rich = generated["salary-class"] == ">50K"
    married = generated["marital-status"] == "Married-civ-spouse"
    single = generated["marital-status"] == "Never-married"
    professional = generated["occupation"] == "Prof-specialty"
    school = generated["education-num"]
    # 20,000 records: the standard error of each difference is under 0.02, every margin is over five of them.
    assert rich[married].mean() > rich[~married].mean() + 0.2
    assert rich[school >= 13].mean() > rich[school < 13].mean() + 0.15
    assert single[generated["age"] < 25].mean() > single[generated["age"] >= 50].mean() + 0.5
    assert professional[school >= 14].mean() > professional[school <= 9].mean() + 0.3


def test_a_part_is_half_of_the_records_and_another_half_for_another_text(generated: pd.DataFrame) -> None:
    one, again, other = (half_of(generated, text) for text in ("week 1", "week 1", "week 2"))
    assert len(one) == (len(generated) + 1) // 2
    assert one.equals(again)
    assert not one.equals(other)


def test_local_file_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed_port: str) -> None:
    local = synthetic_adult(50, rng=np.random.default_rng(5))
    local.to_parquet(tmp_path / "adult.parquet", index=False)
    monkeypatch.setenv("PRIVACY_DATA", str(tmp_path))
    table, source = sample_table(tmp_path / "cache", url=closed_port)
    pd.testing.assert_frame_equal(table, local)
    assert source == "UCI Adult, 50 records, from the folder that PRIVACY_DATA names."


@pytest.mark.usefixtures("no_local_data")
def test_without_data_and_network_the_records_are_generated_and_it_says_so(
    tmp_path: Path, closed_port: str
) -> None:
    table, source = sample_table(tmp_path, url=closed_port)
    assert len(table) == GENERATED_ROWS
    assert source.startswith("30,000 generated records")
    assert "not real people: UCI's file could not be fetched (ConnectionError)" in source


@pytest.mark.usefixtures("no_local_data")
def test_wrong_bytes_are_refused_and_it_says_so(tmp_path: Path, served: tuple[Path, str]) -> None:
    file, url = served
    file.write_text(uci_text(synthetic_adult(100, rng=np.random.default_rng(6))), encoding="utf-8")
    cache = tmp_path / "cache"
    table, source = sample_table(cache, url=url)
    assert len(table) == GENERATED_ROWS
    assert "refused because its SHA-256 is not that of UCI's file" in source
    assert not any(path.is_file() for path in cache.rglob("*"))


@pytest.mark.usefixtures("no_local_data")
def test_a_missing_page_is_not_taken_for_wrong_bytes(tmp_path: Path, served: tuple[Path, str]) -> None:
    _, source = sample_table(tmp_path / "cache", url=served[1])
    assert "UCI's file could not be fetched (HTTPError)" in source


@pytest.mark.usefixtures("no_local_data")
def test_a_spoilt_copy_in_the_cache_is_not_used(tmp_path: Path, closed_port: str) -> None:
    (tmp_path / "adult.data").write_text("39, spoilt\n", encoding="utf-8")
    _, source = sample_table(tmp_path, url=closed_port)
    assert source.startswith("30,000 generated records")


@pytest.mark.usefixtures("no_local_data")
def test_a_cache_folder_that_cannot_be_made_does_not_stop_the_sample(
    tmp_path: Path, closed_port: str
) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    table, source = sample_table(tmp_path / "taken" / "cache", url=closed_port)
    assert len(table) == GENERATED_ROWS
    assert "ConnectionError" not in source


def test_text_form_reads_back_as_the_same_table(tmp_path: Path, generated: pd.DataFrame) -> None:
    some = generated.head(2_000)
    (tmp_path / "adult.data").write_text(uci_text(some), encoding="utf-8")
    pd.testing.assert_frame_equal(parse_adult(tmp_path / "adult.data"), some)


@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="needs adult.parquet in the folder PRIVACY_DATA")
def test_the_real_download_passes_the_checksum_gives_the_reference_table_and_is_cached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, served: tuple[Path, str], closed_port: str
) -> None:
    reference = pd.read_parquet(Path(os.environ["PRIVACY_DATA"]) / "adult.parquet")
    monkeypatch.delenv("PRIVACY_DATA")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    file, url = served
    # UCI's file, byte for byte: otherwise the checksum would refuse it.
    file.write_text(uci_text(reference), encoding="utf-8")
    table, source = sample_table(tmp_path / "cache", url=url)
    pd.testing.assert_frame_equal(table, reference)
    assert source.startswith("UCI Adult, 32,561 records")
    assert download_adult(tmp_path / "cache", url=closed_port).is_file()
