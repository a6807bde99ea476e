"""Addresses that a release may read: no chain, no unlisted protocol, nothing outside of allowed places."""

import os
import re
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from deploy.local.embedded import checkout
from privacy_engine.errors import SchemaError, SpecError
from privacy_release.config import places
from privacy_release.config.places import is_below, require_allowed
from privacy_release.sources.addresses import find_source
from privacy_release.spec.sections.source import SourceSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        pd.DataFrame({"age": [1]}).to_parquet(tmp_path / name / "people.parquet")
    return tmp_path


def test_the_page_lists_the_protocols_and_the_formats_that_are_read() -> None:
    page = (checkout() / "docs" / "sources.md").read_text(encoding="utf-8")
    rows = {row[1].strip(): row for row in (line.split("|") for line in page.splitlines()) if len(row) == 5}
    reported = set(re.findall(r"`([a-z0-9]+)`", rows["any address"][3].partition("only paths, ")[2]))
    assert reported == (places.LOCAL | places.STORES) - {"local"}
    forms = get_args(SourceSpec.model_fields["format"].annotation)
    assert {name.lower() for name in rows} >= {*forms, "query"}


@pytest.mark.parametrize(
    "address",
    [
        "simplecache::s3://bucket/people.parquet",
        "filecache::file:///data/people.parquet",
        "reference::{}",
        "zip://people.parquet::/data/people.zip",
        "blockcache::memory://people.parquet",
    ],
)
def test_a_chain_of_protocols_is_refused(address: str) -> None:
    with pytest.raises(SpecError, match="must not chain protocols"):
        find_source(address)


@pytest.mark.parametrize(
    "address",
    [
        "reference://x",
        "zip://a.zip",
        "ftp://host/a",
        "ssh://host/a",
        "github://a:b@c/d",
        "data:///a",
        "Jlab://x/a",
    ],
)
def test_a_protocol_that_is_not_listed_is_refused(address: str) -> None:
    with pytest.raises(SpecError, match="must be a path, or begin with file://"):
        find_source(address)


def test_the_web_is_read_only_where_the_deployment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("http://127.0.0.1/a.parquet", "HTTPS://127.0.0.1/a.parquet"):
        with pytest.raises(SpecError, match="http_sources"):
            find_source(address)
    monkeypatch.setenv("PRIVACY_HTTP_SOURCES", "allow")
    require_allowed("https://example.org/a.parquet")


def test_a_release_reads_below_the_places_of_the_deployment_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_SOURCES", f"{folder}/ours, s3://bucket/ours")
    (folder / "ours" / "deeper").mkdir()
    (folder / "ours" / "deeper" / "a.parquet").write_bytes((folder / "ours" / "people.parquet").read_bytes())
    (folder / "ours" / "deeper" / "link.parquet").symlink_to(folder / "theirs" / "people.parquet")
    (folder / "link").symlink_to(folder / "theirs")
    for address in (
        f"{folder}/ours/people.parquet",
        f"file://{folder}/ours/*.parquet",
        f"{folder}/ours/../ours/p*",
    ):
        assert len(find_source(address).files) == 1
    for address in (
        f"{folder}/theirs/people.parquet",
        f"{folder}/ours/../theirs/people.parquet",
        f"{folder}/link/people.parquet",
        f"file://{folder}/theirs",
        f"FILE://{folder}/theirs",
        f"file:{folder}/theirs",
        f"{folder}/*/people.parquet",
        f"{folder}/ours/deeper/link.parquet",
        f"{folder}/ours/deeper",
        "/etc/passwd",
        "s3://bucket/theirs/people.parquet",
        "s3://bucket/ours/../theirs/people.parquet",
        "s3://bucket/ours2/people.parquet",
        "abfss://bucket/ours",
    ):
        with pytest.raises(SpecError, match="below one of the places that this deployment allows"):
            find_source(address)
    require_allowed("s3a://bucket/ours/people.parquet")


def test_all_addresses_of_this_machine_are_compared_by_what_they_lead_to(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "ours")
    assert is_below(f"{folder}/link/people.parquet", f"file://{folder}/ours")
    assert not is_below(f"{folder}/ours-too/a", f"{folder}/ours")
    assert is_below(str(folder / "ours"), str(folder / "ours"))


def test_a_file_name_that_is_not_utf8_is_refused_and_not_shown(folder: Path) -> None:
    name = os.fsdecode(os.fsencode(folder / "ours") + b"/caf\xe9-Bob.parquet")
    (folder / "ours" / "people.parquet").rename(name)
    with pytest.raises(SchemaError, match="1 file with a name that is not UTF-8") as caught:
        find_source(str(folder / "ours"))
    assert "Bob" not in str(caught.value)
