"""Each error that the page of troubleshooting names is what a user gets, word for word."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from deploy.local.embedded import checkout
from docs.tutorial.make_loans import loans
from privacy_release.cli.main import main

PAGE = (checkout() / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)
TWO = (3, 5)  # records: of one, the error is in the singular
Change = Callable[[pd.DataFrame], pd.DataFrame]
# The first words of an error -> what was done to the table of the tutorial.
FAULTS: dict[str, Change] = {
    "... values are null": lambda t: t.assign(branch=t["branch"].where(~t.index.isin(TWO))),
    "the categories miss": lambda t: t.assign(
        branch=t["branch"].mask(t.index == 3, "Elsewhere").mask(t.index == 5, "Far")
    ),
    "the hierarchy misses": lambda t: t.assign(
        postcode=t["postcode"].mask(t.index == 3, "99999").mask(t.index == 5, "9")
    ),
    "... values are out of": lambda t: t.assign(born=t["born"].where(~t.index.isin(TWO), 1800)),
    "columns [...] are missing": lambda t: t.drop(columns="born"),
    "columns [...] are not in": lambda t: t.assign(colour="red"),
    "... must be a number": lambda t: t.assign(born=t["born"].astype(str)),
    "... records repeat": lambda t: t.assign(card=t["card"].where(~t.index.isin(TWO), t["card"][4])),
    "the table is empty": lambda t: t.head(0),
    "... rows cannot be": lambda t: t.head(5),
    "distinct l-diversity": lambda t: t.assign(topic="crime"),
    "... must be a whole": lambda t: t,
    "... must be approved": lambda t: t,
    "could not store": lambda t: t,
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return loans(300)


@pytest.mark.parametrize("error", DOCUMENTED)
def test_an_error_is_reported_as_the_page_says(
    error: str, table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (change,) = (made for start, made in FAULTS.items() if error.startswith(start))
    for name, folder in (
        ("loans.yaml", "releases"),
        ("library.yaml", "policies"),
        ("postcodes.csv", "hierarchies"),
    ):
        (tmp_path / "include" / folder).mkdir(parents=True)
        shutil.copy(checkout() / "docs" / "tutorial" / name, tmp_path / "include" / folder / name)
    release = tmp_path / "include" / "releases" / "loans.yaml"
    release.write_text(re.sub(r"  columns: .*\n", "", release.read_text()))  # all columns are read
    source = tmp_path / "loans.parquet"
    change(table).to_parquet(source, index=False)
    if error.startswith("... must be a whole"):
        source.write_bytes(source.read_bytes()[:2_000])
    lake = tmp_path / "lake"
    if error.startswith("could not store"):
        lake.write_text("a file")
    approved = [] if error.startswith("... must be approved") else ["--approved-by", "Olga Officer"]
    command = ["run", str(tmp_path / "include" / "releases" / "loans.yaml"), "--lake", str(lake), *approved]
    assert main(command) in (1, 2)
    said = " ".join(capsys.readouterr().err.split("privacy-release: ", 1)[1].split())
    assert re.search(".*".join(map(re.escape, error.split("..."))), said), said


def test_every_fault_is_on_the_page() -> None:
    assert all(any(error.startswith(start) for error in DOCUMENTED) for start in FAULTS)
