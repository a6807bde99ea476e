"""`privacy-release explore`: what is measured, what fails alone, what is hidden, and what `--use` writes."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.explore.choices import Choice
from privacy_release.explore.page import frontier
from privacy_release.explore.specification import with_choice
from tests.servers.pages import Page, require_closed_page

GRID = ["--methods", "mondrian,kacluk", "--k", "2,5,5000", "--jobs", "1", "--format", "json"]


@pytest.fixture
def spec(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    return home / "releases" / "people.yaml"


def explored(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    assert main(["explore", *arguments]) == DONE
    output = capsys.readouterr()
    return json.loads(output.out), output.err


def test_a_long_choice_is_reported_while_it_is_made(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.config.durations.OFTEN", 0.0)
    _, progress = explored(capsys, str(spec), *GRID)
    before_the_first, _, _ = progress.partition("explore ")
    reported = [int(found) for found in re.findall(r"^(\d+) %", progress, re.MULTILINE)]
    assert re.search(r"^\d+ %, about", before_the_first, re.MULTILINE)
    assert reported[-1] == 100


def test_a_grid_is_measured_and_a_choice_that_cannot_be_made_stops_no_other(
    spec: Path, people: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, progress = explored(capsys, str(spec), *GRID)
    by_name = {cell["name"]: cell for cell in output["choices"]}
    assert len(by_name) == 6
    assert {n for n, c in by_name.items() if c["failed"]} == {"mondrian:k=5000,l=2", "kacluk:k=5000,l=2"}
    assert "5000" in by_name["mondrian:k=5000,l=2"]["failed"]
    figures = by_name["mondrian:k=5,l=2"]["figures"]
    assert figures["prosecutor_max"] <= 1 / 5
    wanted = {
        "gcp",
        "non_uniform_entropy",
        "query_error",
        "marginals_1",
        "marginals_2",
        "accuracy",
        "marketer",
    }
    assert wanted <= set(figures)
    assert by_name["mondrian:k=2,l=2"]["missed"]  # the policy asks for 5
    assert "explore 100 %" in progress
    assert output["records"]["explored"] + 40 == len(people)
    page = Path(output["page"])
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.is_relative_to(tmp_path / "curator")
    assert not list((tmp_path / "work").glob("*/*"))
    html = page.read_text()
    require_closed_page(html)
    assert Page(html).text.count("Not for publication") >= 1
    assert not any(name in html for name in people["name"])


def test_no_count_below_the_limit_is_reported_of_a_choice_however_small_its_k(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, _ = explored(
        capsys, str(spec), "--methods", "mondrian", "--k", "2", "--jobs", "1", "--format", "json"
    )
    counts = [
        count
        for cell in output["choices"]
        for column in cell["columns"]
        for count in (*column["before"], *column["after"])
    ]
    assert None in counts
    assert all(count is None or count % 10 == 0 for count in counts)
    assert all(count is None or count >= 10 for count in counts)


def test_a_private_method_is_explored_on_simulated_records_unless_it_is_booked(
    spec: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = yaml.safe_load(spec.read_text())
    fields["schema"] |= {
        "illness": {
            "role": "sensitive",
            "kind": "categorical",
            "categories": ["cold", "cough", "flu", "measles"],
        },
        "visits": {"role": "insensitive", "kind": "numeric", "bounds": [0, 9]},
    }
    fields["release"] = {"method": "privbayes", "epsilon": 1.0}
    spec.write_text(yaml.safe_dump(fields))
    (home / "people.parquet").unlink()  # so that no one can have read it
    output, progress = explored(
        capsys, str(spec), "--methods", "privbayes", "--epsilon", "1,4", "--sample", "300",
        "--jobs", "1", "--format", "json",
    )  # fmt: skip
    assert output["records"]["origin"] == "simulated"
    assert "the source is not read" in progress
    assert [cell["failed"] for cell in output["choices"]] == [None, None]
    assert [cell["figures"]["epsilon"] for cell in output["choices"]] == [1, 4]
    assert main(["explore", str(spec), "--book"]) == WRONG
    assert "needs a budget" in capsys.readouterr().err


@pytest.mark.parametrize(("k", "named"), [("2", False), ("2,5", True)])
def test_no_choice_that_breaks_the_policy_is_recommended(
    spec: Path, capsys: pytest.CaptureFixture[str], k: str, named: bool
) -> None:
    assert main(["explore", str(spec), "--methods", "mondrian", "--k", k, "--jobs", "1"]) == DONE
    printed = capsys.readouterr().out
    assert ("--use mondrian:k=5" in printed, "no choice meets the policy" in printed) == (named, not named)


def test_methods_of_two_kinds_are_not_mixed(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", str(spec), "--methods", "mondrian,privbayes"]) == WRONG
    assert "not both" in capsys.readouterr().err
    assert main(["explore", str(spec), "--methods", "mondrian", "--book"]) == WRONG


def test_what_is_used_stands_in_the_file_and_all_else_stays(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = spec.read_text().replace("  method: mondrian", "  method: mondrian # by the office", 1)
    spec.write_text("# kept\n" + text)
    before = spec.read_text().splitlines()
    assert main(["explore", str(spec), "--use", "bottom_up:k=20,l=3"]) == DONE
    after = spec.read_text().splitlines()
    assert yaml.safe_load(spec.read_text())["release"] == {"method": "bottom_up", "k": 20, "l": 3, "seed": 7}
    assert len(before) == len(after)
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 3
    assert "  method: bottom_up # by the office" in after
    assert main(["explore", str(spec), "--use", "bottom_up:k=3,l=2"]) == DONE
    assert "weaker than k_anonymity(k=5)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "mondrian", "unknown:k=2", "mondrian:k=two", "mondrian:k=1"])
def test_a_wrong_point_changes_nothing(spec: Path, name: str) -> None:
    before = spec.read_bytes()
    assert main(["explore", str(spec), "--use", name]) == WRONG
    assert spec.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{method: obpa, weights: {age: 2}, k: 5}  # c", "{method: mondrian, k: 9, seed: 1}  # c"),
        ("{k: 5, method: obpa}", "{k: 9, method: mondrian, seed: 1}"),
        (
            "\n  method: obpa\n  weights:\n    age: 2  # w\n  k: 5 # five\n",
            "\n  method: mondrian\n  k: 9 # five\n  seed: 1\n",
        ),
    ],
)  # fmt: skip
def test_a_file_is_changed_in_one_place_alone(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"name:   a  # x\nrelease: {line}\npolicy: b.yaml\n")
    changed = with_choice(path, {"method": "mondrian", "k": 9, "seed": 1})
    assert changed == f"name:   a  # x\nrelease: {expected}\npolicy: b.yaml\n"


def test_the_frontier_is_what_no_other_choice_beats() -> None:
    def cell(risk: float, loss: float) -> Any:
        choice = Choice(name=f"{risk}-{loss}", method="mondrian", parameters={})
        return {"name": choice.name, "figures": {"prosecutor_max": risk, "gcp": loss}, "missed": []}

    cells = [cell(0.5, 0.1), cell(0.2, 0.3), cell(0.2, 0.2), cell(0.1, 0.25), cell(0.1, 0.9)]
    assert [c["name"] for c in frontier(cells)] == ["0.1-0.25", "0.2-0.2", "0.5-0.1"]
