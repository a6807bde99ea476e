"""`privacy-release check`: right or wrong for each file, with what only the engine and the gate can know."""

from pathlib import Path

import pytest
import yaml

from privacy_release.cli.main import DONE, WRONG, main
from tests.bad_files import write_neighbour


def test_all_releases_of_the_include_folder_are_checked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_neighbour(home)
    (home / "policies" / "people.yaml").write_text("zz: 2024-02-31\n")
    assert main(["check"]) == WRONG
    told = capsys.readouterr()
    assert told.out == f"{home / 'releases' / 'steady.yaml'}: right\n"
    assert str(home / "releases" / "people.yaml") in told.err
    assert main(["check", str(home / "releases" / "steady.yaml")]) == DONE


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("release", "k"), 1, "k must be"),
        (("release", "unknown"), 1, "unknown"),
        (("schema", "age", "bounds"), [90, 17], "bounds must be two finite numbers"),
    ],
)
def test_what_only_the_engine_knows_is_checked(
    home: Path, place: tuple[str, ...], value: object, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "releases" / "people.yaml"
    fields = here = yaml.safe_load(path.read_text())
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    path.write_text(yaml.safe_dump(fields))
    assert main(["check", str(path)]) == WRONG
    assert told in capsys.readouterr().err


def test_an_expectation_that_nobody_knows_is_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = home / "expectations" / "people.json"
    suite.write_text(suite.read_text().replace("not_be_null", "not_be_nul"))
    assert main(["check", str(home / "releases" / "people.yaml")]) == WRONG
    assert "did you mean expect_column_values_to_not_be_null" in capsys.readouterr().err
