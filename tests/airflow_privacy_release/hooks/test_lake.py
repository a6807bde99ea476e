import json
from pathlib import Path

import pytest

from airflow_privacy_release.hooks.lake import LakeHook, lake_of
from privacy_engine.errors import SpecError


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **extra: object) -> None:
    text = json.dumps({"conn_type": "privacy_lake", "extra": extra})
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", text)


def test_a_connection_names_the_lake_and_the_keys_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(
        monkeypatch,
        "partners",
        path="s3://bucket/open",
        storage_options={"AWS_REGION": "eu", "AWS_ALLOW_HTTP": True},
    )
    lake = lake_of("partners")
    assert lake.root == "s3://bucket/open"
    assert lake.options == {"AWS_REGION": "eu", "AWS_ALLOW_HTTP": "true"}


def test_only_the_default_lake_needs_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_LAKE_DEFAULT", raising=False)
    monkeypatch.setenv("PRIVACY_LAKE", str(tmp_path))
    assert lake_of("lake_default").root == str(tmp_path)
    with pytest.raises(SpecError, match="the Airflow connection elsewhere does not exist"):
        lake_of("elsewhere")


@pytest.mark.parametrize("extra", [{}, {"path": 5}, {"path": "relative/folder"}])
def test_a_connection_without_a_usable_place_is_refused(
    extra: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "broken", **extra)
    with pytest.raises(SpecError, match="connection broken"):
        lake_of("broken")


def test_the_test_button_tells_whether_the_lake_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "here", path=str(tmp_path))
    assert LakeHook("here").test_connection() == (True, f"the lake {tmp_path} has 0 release tables")
    usable, why = LakeHook("elsewhere").test_connection()
    assert not usable
    assert "elsewhere" in why
