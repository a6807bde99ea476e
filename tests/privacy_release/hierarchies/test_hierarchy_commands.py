"""`privacy-release hierarchy`: drafts that a release takes at once, what they miss of a column, the page."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.tables.hierarchy import Hierarchy
from privacy_release.cli.main import main
from privacy_release.spec.files import read_hierarchy
from tests.servers.pages import Page

CANARY = "canary-town"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Schools whose pay goes with them, ages, postcodes; one school is of one person alone."""
    rng = np.random.default_rng(3)
    schools = {"law": 0.9, "medicine": 0.9, "arts": 0.5, "music": 0.5, "none": 0.1, "some": 0.1}
    school = rng.choice(list(schools), 600)
    pay = ["high" if rng.random() < schools[s] else "low" for s in school]
    table = pd.DataFrame(
        {
            "school": [*school, CANARY],
            "pay": [*pay, "low"],
            "age": rng.integers(18, 70, 601),
            "code": rng.choice(["13053", "13068", "14850", "14853"], 601),
            "day": pd.to_datetime("2020-01-01").date(),
            "text": "2020-01-01",
            "blank": [*["a", " b", "c"] * 200, "d"],
        }
    )
    table.to_parquet(tmp_path / "people.parquet", index=False)
    return tmp_path / "people.parquet"


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


def infer(source: Path, column: str, by: str, *more: str) -> Hierarchy:
    output = source.with_name(f"{column}.csv")
    assert (
        main(["hierarchy", "infer", str(source), "--column", column, "--by", by, *more, "-o", str(output)])
        == 0
    )
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    return read_hierarchy(output)


def test_values_that_tell_the_same_of_a_target_are_in_one_group(source: Path, capsys: Any) -> None:
    found = infer(source, "school", "target", "--target", "pay", "--levels", "3")
    groups: dict[str, set[str]] = {}
    for value, group, _ in found.rows:
        groups.setdefault(group, set()).add(value)
    assert groups == {
        "law | medicine": {"law", "medicine"},
        "arts | music": {"arts", "music"},
        "none | some": {"none", "some"},
        "others": {CANARY},
    }
    assert found.untruthful_rows() == 0
    said = capsys.readouterr().out
    assert "7 -> 4 -> 1 nodes per level" in said
    assert "1 of 7 values are held by fewer than 10 records" in said
    assert CANARY not in said


def test_a_value_of_few_persons_is_in_no_label_though_it_has_many_records(source: Path) -> None:
    people = pd.read_parquet(source)
    people["person"] = [*range(600), 0]
    again = pd.concat([people, people.iloc[[600] * 50]], ignore_index=True)
    again.to_parquet(source, index=False)
    requested = ("--target", "pay", "--levels", "3", "--person", "person")
    rows = {row[0]: row for row in infer(source, "school", "target", *requested).rows}
    assert rows[CANARY] == (CANARY, "others", "*")
    assert not [row for value, row in rows.items() if value != CANARY and CANARY in "".join(row)]


def test_a_target_may_have_any_name(source: Path) -> None:
    expected = infer(source, "school", "target", "--target", "pay")
    source.with_name("school.csv").unlink()
    pd.read_parquet(source).rename(columns={"pay": "value"}).to_parquet(source, index=False)
    assert infer(source, "school", "target", "--target", "value") == expected


def test_values_are_read_as_a_release_reads_them(source: Path, capsys: Any) -> None:
    people = pd.read_parquet(source)
    people.assign(age=people["age"].astype(float).where(people.index > 3)).to_parquet(source, index=False)
    ages = infer(source, "age", "intervals", "--bounds", "18", "69")
    requested = [
        "hierarchy",
        "check",
        str(source.with_name("age.csv")),
        "--source",
        str(source),
        "--column",
        "age",
    ]
    assert main(requested) == 0
    assert "not in the hierarchy" not in capsys.readouterr().out
    source.with_name("age.csv").unlink()
    assert set(infer(source, "age", "prefixes").values) <= set(ages.values)


def test_intervals_prefixes_and_calendars_are_drafted(source: Path) -> None:
    ages = infer(source, "age", "intervals", "--bounds", "18", "69", "--levels", "5,10")
    assert ages.rows[2] == ("20", "20-24", "20-29", "*")
    assert infer(source, "code", "prefixes").rows[0] == ("13053", "1305*", "130**", "13***", "1****", "*")
    bounds = ("--bounds", "2020-01-01", "2020-12-31", "--levels", "day,month,year")
    assert infer(source, "text", "calendar", *bounds).rows[31] == ("2020-02-01", "2020-02", "2020", "*")


def test_what_a_hierarchy_misses_is_counted_and_shown_to_the_curator_alone(
    source: Path, curator: Path, capsys: Any
) -> None:
    infer(source, "school", "target", "--target", "pay")
    path = source.with_name("school.csv")
    path.write_text(
        "".join(line for line in path.read_text().splitlines(True) if not line.startswith(CANARY))
    )
    requested = ["hierarchy", "check", str(path), "--source", str(source), "--column", "school"]
    assert main(requested) == 1
    assert main([*requested, "--curator"]) == 1
    said = capsys.readouterr()
    assert "1 of the 7 values of the column are not in the hierarchy" in said.out
    assert CANARY not in said.out + said.err
    (kept,) = curator.rglob("*.csv")
    assert kept.read_text() == f"value;records\n{CANARY};1\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert main(["hierarchy", "check", str(path)]) == 0


def test_the_page_draws_the_tree_and_hides_the_share_of_a_few(source: Path) -> None:
    infer(source, "school", "target", "--target", "pay", "--levels", "3")
    page = source.with_name("school.html")
    requested = ["hierarchy", "show", str(source.with_name("school.csv")), "-o", str(page)]
    assert main([*requested, "--source", str(source), "--column", "school"]) == 0
    html = page.read_text()
    text = Page(html).text
    assert "7 values" in text
    assert "100 %" in text
    assert text.count("hidden") >= 3  # the one, another beside it, and the words above the tree
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_an_export_with_another_delimiter_is_read(tmp_path: Path) -> None:
    (tmp_path / "arx.csv").write_text("\ufeffa, vowel, *\nb, consonant, *\n", encoding="utf-8")
    requested = [
        "hierarchy",
        "import",
        str(tmp_path / "arx.csv"),
        "--delimiter",
        ",",
        "-o",
        str(tmp_path / "out.csv"),
    ]
    assert main(requested) == 0
    assert read_hierarchy(tmp_path / "out.csv").rows == (("a", "vowel", "*"), ("b", "consonant", "*"))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("infer SOURCE --column age --by intervals -o OUT", "needs --bounds"),
        ("infer SOURCE --column school --by target -o OUT", "needs --target"),
        ("infer SOURCE --column school --by target --target day -o OUT", "one value only"),
        ("infer SOURCE --column school --by target --target pay --levels 2,4 -o OUT", "must decrease"),
        ("infer SOURCE --column day --by target --target pay -o OUT", "held by at least 10, got 1"),
        ("infer SOURCE --column day --by calendar --bounds 2020-01-01 2021-01-01 -o OUT", "`calendar` in"),
        ("infer SOURCE --column blank --by prefixes -o OUT", "1 of 4 values are empty, begin or end"),
        ("infer SOURCE --column age --by intervals --bounds 0 30000000 -o OUT", "at most 100,000 whole"),
        ("infer SOURCE --column code --by prefixes --levels 2,4 -o OUT", "must decrease"),
        ("infer SOURCE --column age --by intervals --bounds 0 x -o OUT", "invalid literal"),
        (
            "infer SOURCE --column text --by calendar --bounds 2020-01-01 2019-01-01 -o OUT",
            "earlier one first",
        ),
        (
            "infer SOURCE --column text --by calendar --bounds 2020-01-01 2021-01-01 "
            "--levels week,year -o OUT",
            "week",
        ),
        ("infer SOURCE --column nothing --by prefixes -o OUT", "must have the columns ['nothing']"),
        ("infer NOWHERE --column age --by prefixes -o OUT", "must be a Parquet file"),
        ("infer SOURCE --column code --by prefixes -o SOURCE", "exists and is kept"),
        ("infer SOURCE --column code --by prefixes -o NOWHERE/x.csv", "cannot be written"),
        ("check NOWHERE", "NOWHERE"),
        ("check SOURCE --source SOURCE", "go together"),
        ("show SOURCE --k 1 -o OUT", "--k must be >= 2"),
        ("import SOURCE --delimiter ;; -o OUT", "one character"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    source: Path, tmp_path: Path, capsys: Any, command: str, said: str
) -> None:
    before = source.read_bytes()
    names = {"SOURCE": str(source), "OUT": str(tmp_path / "out"), "NOWHERE": str(tmp_path / "NOWHERE")}
    words = [names.get(word, word.replace("NOWHERE", names["NOWHERE"])) for word in command.split()]
    try:
        code = main(["hierarchy", *words])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code != 0
    output = capsys.readouterr().err
    assert said in output
    assert CANARY not in output
    assert not (tmp_path / "out").exists()
    assert source.read_bytes() == before


def test_a_level_that_puts_nothing_together_and_an_untrue_label_are_reported(
    tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "idle.csv").write_text("a;x;*\nb;y;*\n")
    assert main(["hierarchy", "check", str(tmp_path / "idle.csv")]) == 1
    assert "levels [1] combine nothing" in capsys.readouterr().out
    (tmp_path / "untrue.csv").write_text("19;0-19;*\n20;0-19;*\n21;20-29;*\n")
    assert main(["hierarchy", "check", str(tmp_path / "untrue.csv")]) == 1
    assert "1 value has a wrong label" in capsys.readouterr().out
