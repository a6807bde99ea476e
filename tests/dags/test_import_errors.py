"""A broken release shows as an import error and takes no other DAG down."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select


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
    (home.folder / "policies" / "no_policy.yaml").unlink()
    load()
    message = shown()[0]["release_errors.py"]
    for name in ("no_policy", "no_yaml", "no_mapping"):
        assert str(home.spec(name)) in message


def test_the_import_error_goes_when_the_release_is_mended(home: Any, load: Callable[[], Any]) -> None:
    home.write(name="mended", release={"method": "mondrain"})
    load()
    assert shown()[0]
    home.write(name="mended")
    assert "mended" in load().dags
    errors, stale = shown()
    assert errors == {}
    assert not stale["mended"]
