"""Whatever leaves the work area of a private release has one form for tables that differ in one record.

A privacy loss covers the drawn values. These are the channels next to them, each compared here: the files of
the table and their number, their types and names, the fields of manifest, statement and dictionary, the
headings of the report, and the lines of the run. Errors are compared in `test_counts.py`.
"""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests import tables
from tests.private_run import COLUMNS, PRIVATE, run_private

QUICK = ("privbayes",)
SLOW = ("latent_class", "privbayes_r", "dpsm_bayes")
# What one record may be in two tables: the columns that differ in it.
PAIRS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a null among whole numbers": ({"age": 44}, {"age": None}),
    "a null among texts": ({"illness": "flu"}, {"illness": None}),
    "a value that no other record has": ({"illness": "flu"}, {"illness": "measles"}),
    "a number at its bound": ({"age": 44}, {"age": 0}),
}
RELEASE = "2026-01-05"
# What differs between any two runs: hashes, names made of random numbers, moments, and numbers.
_OF_A_RUN = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,}|\d+")

each_pair = pytest.mark.parametrize("pair", PAIRS)


class _Headings(HTMLParser):
    """The texts of headings and table heads, in order of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside = tag in ("h1", "h2", "h3", "h4", "th", "dt", "title")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside and data.strip():
            self.found.append(masked(data.strip()))


def masked(text: str) -> str:
    """A text without what differs between two runs of one table."""
    return _OF_A_RUN.sub("#", text)


def form(value: Any) -> Any:
    """Keys and types of a JSON value; of a list, the set of the forms of its elements."""
    if isinstance(value, dict):
        return {masked(key): form(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(form(part), sort_keys=True) for part in value})
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def form_of_file(path: Path) -> Any:
    """What a file shows apart from its values."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        read = pq.ParquetFile(path)
        return [read.schema_arrow.to_string(show_schema_metadata=True), read.num_row_groups]
    if path.suffix == ".html":
        page = _Headings()
        page.feed(content.decode())
        return page.found
    try:
        return [form(json.loads(line)) for line in content.decode().splitlines()]
    except ValueError:
        return "no JSON"


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], dict[str, Any]]:
    """What was seen of a table that several pairs have, by its records and the method."""
    return {}


@pytest.fixture
def published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: dict[tuple[str, str], dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Publish a private release of a table; what is seen of it outside, by channel."""
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))

    def seen(label: str, table: pd.DataFrame, method: str) -> dict[str, Any]:
        key = (table.to_json(), method)
        if key not in known:
            known[key] = run(tmp_path / label, table, method)
        return known[key]

    def run(folder: Path, table: pd.DataFrame, method: str) -> dict[str, Any]:
        lines: list[str] = []
        lake = run_private(
            folder,
            table.astype({"age": "Int64"}),
            lambda stage, text: lines.append(f"{stage}: {masked(text)}"),
            release_id=RELEASE,
            source={**PRIVATE["source"], "nulls": "keep"},
            release={"method": method, "epsilon": 1},
        )
        root = Path(lake.root)
        files = [path for path in root.rglob("*") if path.is_file()]
        forms = [f"{masked(str(path.relative_to(root)))}: {form_of_file(path)}" for path in files]
        return {"lines": [line.replace(str(folder), "") for line in lines], "files": sorted(forms)}

    return seen


def tables_of(pair: str) -> list[pd.DataFrame]:
    """Two tables of the same number of records that differ in one."""
    table = tables.people().head(60).loc[:, list(COLUMNS)]
    table["illness"] = ["cold", "cough", "flu"] * 20
    return [
        table.assign(**{name: [value, *table[name][1:]]})
        for side in PAIRS[pair]
        for name, value in side.items()
    ]


def compare(pair: str, method: str, published: Callable[..., dict[str, Any]]) -> None:
    """Publish both tables and compare each channel."""
    one, other = (published(str(i), table, method) for i, table in enumerate(tables_of(pair)))
    for channel, seen in one.items():
        assert seen == other[channel], channel
    assert one["files"]
    assert any(".parquet: " in file for file in one["files"])


@each_pair
@pytest.mark.parametrize("method", QUICK)
def test_a_record_shows_in_no_channel(
    pair: str, method: str, published: Callable[..., dict[str, Any]]
) -> None:
    compare(pair, method, published)


@pytest.mark.slow  # four releases a method; the quick methods have the same steps around them
@each_pair
@pytest.mark.parametrize("method", SLOW)
def test_a_record_shows_in_no_channel_of_another_method(
    pair: str, method: str, published: Callable[..., dict[str, Any]]
) -> None:
    compare(pair, method, published)


def test_a_type_that_follows_the_values_is_noticed(tmp_path: Path) -> None:
    forms = []
    for name, values in (("whole", [1, 2]), ("half", [1, 2.5])):
        pd.DataFrame({"age": values}).to_parquet(tmp_path / f"{name}.parquet")
        forms.append(form_of_file(tmp_path / f"{name}.parquet"))
    assert forms[0] != forms[1]
