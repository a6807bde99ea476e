"""A broken release shows as an import error and takes no other DAG down."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from airflow_privacy_release.plugin.connections import lakes, ledgers, specifications
from privacy_release.cli.main import WRONG as WRONG_FILE
from privacy_release.cli.main import main
from tests.bad_files import ANY_FILE, ANY_YAML
from tests.wrong_files import HIERARCHY, RELEASE, RIGHT, WRONG


def shown() -> tuple[dict[str, str], dict[str, bool]]:
    """What the UI shows: import errors by file, and which DAGs are switched off."""
    from airflow.models.dag import DagModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session

    with create_session() as session:
        errors = {e.filename: e.stacktrace for e in session.scalars(select(ParseImportError))}
        stale = {dag.dag_id: dag.is_stale for dag in session.scalars(select(DagModel))}
    return errors, stale


def test_a_broken_release_names_file_field_and_remedy_and_the_others_stay(
    home: Any, load: Callable[[], Any]
) -> None:
    home.write(name="broken", release={"method": "mondrain", "k": 5})
    bag = load()
    assert "people" in bag.dags
    assert "broken" not in bag.dags
    errors, stale = shown()
    assert set(errors) == {"release_errors.py"}
    message = errors["release_errors.py"]
    assert str(home.spec("broken")) in message
    assert "release.method: must be one of" in message
    assert not stale["people"]


def test_each_broken_release_is_named(home: Any, load: Callable[[], Any]) -> None:
    home.write(name="no_policy", policy={})
    home.spec("no_yaml").write_text("name: [")
    home.spec("no_mapping").write_text("just words")
    home.write(name="taken_name", columns={"age_to": {"role": "insensitive", "kind": "categorical"}})
    (home.folder / "policies" / "no_policy.yaml").unlink()
    load()
    message = shown()[0]["release_errors.py"]
    for name in ("no_policy", "no_yaml", "no_mapping", "taken_name"):
        assert str(home.spec(name)) in message
    assert "column 'age_to' has the name of a bound of 'age'" in message


def test_the_import_error_says_what_check_says(
    home: Any, load: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of files that are wrong in themselves; the other files that they name are those of the fixture."""
    (home.folder / "hierarchies").mkdir()
    (home.folder / HIERARCHY).write_text(RIGHT[HIERARCHY])
    cases = [
        case for case in WRONG if case.file == RELEASE and case.parsed and case.field not in ("", "name")
    ]
    for number, case in enumerate(cases):
        text = RIGHT[RELEASE].replace(case.old, case.new).replace("name: people\n", f"name: wrong{number}\n")
        home.spec(f"wrong{number}").write_text(text)
    load()
    message = shown()[0]["release_errors.py"]
    assert len(cases) >= 8
    for number, case in enumerate(cases):
        assert main(["check", str(home.spec(f"wrong{number}"))]) == WRONG_FILE
        for reported in capsys.readouterr().err.splitlines():
            place, _, problem = reported.partition(": ")
            file, _, line = place.rpartition(":")
            assert f"line {line}: {problem}" in message
            assert f"{file}: line " in message
        assert case.says in message


def test_the_import_error_goes_when_the_release_is_fixed(home: Any, load: Callable[[], Any]) -> None:
    home.write(name="fixed", release={"method": "mondrain"})
    load()
    assert shown()[0]
    home.write(name="fixed")
    assert "fixed" in load().dags
    errors, stale = shown()
    assert errors == {}
    assert not stale["fixed"]


CASES = {**ANY_FILE, **ANY_YAML}


def goes_on(load: Callable[[], Any], lines: int) -> str:
    """The import error of several releases, while the DAG and the pages of `people` go on."""
    bag = load()
    assert "people" in bag.dags
    errors, stale = shown()
    assert set(errors) == {"release_errors.py"}
    assert not stale["people"]
    assert "people" in {spec.name for spec in specifications()}
    assert (lakes().problems, ledgers().problems) == ((), ())
    reported = errors["release_errors.py"].partition("these releases are not scheduled:\n")[2]
    assert len(reported.strip().splitlines()) == lines
    return reported


@pytest.mark.slow
def test_all_kinds_of_bad_release_files_are_one_error_each(home: Any, load: Callable[[], Any]) -> None:
    for case, make in CASES.items():
        home.write(name=case)
        make(home.spec(case))
    reported = goes_on(load, min(len(CASES), 51))
    assert len(reported) < 1_000 * len(CASES)


def test_a_bad_policy_or_suite_is_an_error_of_its_release(home: Any, load: Callable[[], Any]) -> None:
    home.write(name="policy")
    home.write(name="suite")
    (home.folder / "policies" / "policy.yaml").write_text("zz: 2024-02-31\n")
    (home.folder / "expectations" / "suite.json").write_text("[")
    reported = goes_on(load, 2)
    assert str(home.spec("policy")) in reported
    assert str(home.spec("suite")) in reported


@pytest.mark.quick("lake", "null")  # all DAG files are read for each
@pytest.mark.parametrize(
    "more",
    [
        {"schedule": "0 0 31 2 *"},
        {"publish": {"table": "odd", "lake": "a b é"}},
        {"tags": ["x" * 101]},
        {"description": "a null \0"},
    ],
    ids=["no-such-day", "lake", "tag", "null"],
)
def test_what_airflow_cannot_take_is_an_error_of_its_release(
    more: dict[str, Any], home: Any, load: Callable[[], Any]
) -> None:
    home.write(name="odd", **more)
    assert str(home.spec("odd")) in goes_on(load, 1)


def test_a_release_in_two_files_is_one_error(home: Any, load: Callable[[], Any]) -> None:
    home.write(name="twice")
    home.spec("twice").with_suffix(".yml").write_bytes(home.spec("twice").read_bytes())
    assert "must be the only file of its name" in goes_on(load, 1)


def test_what_is_built_to_find_errors_is_no_dag_of_that_file(home: Any, load: Callable[[], Any]) -> None:
    bag = load()
    assert {Path(dag.fileloc).name for dag in bag.dags.values() if "release" in dag.tags} == {"releases.py"}
    assert shown()[0] == {}


def test_a_floor_that_cannot_be_read_is_an_error_and_the_dags_stay(
    home: Any, load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", "/nowhere/floor.yaml")
    assert "the floor policy /nowhere/floor.yaml" in goes_on(load, 1)
