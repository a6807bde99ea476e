import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_privacy_release.hooks.spark import SparkHook
from airflow_privacy_release.provider import get_provider_info
from privacy_engine.errors import SpecError
from privacy_release.workarea.engines import open_engine, read_engine
from privacy_release.workarea.spark_session import SparkCluster

SECRET = "SECRET-0c1d2e3f"


def connect(monkeypatch: pytest.MonkeyPatch, name: str, *, password: str = "", **extra: object) -> None:
    text = json.dumps({"conn_type": "privacy_spark", "password": password, "extra": extra})
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", text)


@pytest.fixture
def closed() -> str:
    """An address at which no one listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_a_connection_names_the_cluster_its_settings_and_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.executor.memory": "4g"}
    connect(monkeypatch, "cluster", master="spark://one:7077", conf=conf, password=SECRET)
    cluster = SparkHook("cluster").get_conn()
    assert cluster == SparkCluster(master="spark://one:7077", conf=conf, secret=SECRET)
    assert SECRET not in repr(cluster)


@pytest.mark.parametrize("name", ["spark_default", "elsewhere"])
def test_without_a_connection_there_is_no_cluster(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    ref = read_engine({"kind": "spark", "connection": name})
    with pytest.raises(SpecError, match=f"connection {name} does not exist"), open_engine(ref, tmp_path):
        pass


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"master": 5},
        {"master": ""},
        {"master": "local", "conf": ["x"]},
        {"master": "local", "conf": {"x": 1}},
    ],
    ids=str,
)
def test_a_connection_that_cannot_be_used_is_refused(
    extra: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "broken", **extra)
    with pytest.raises(SpecError, match="connection broken"):
        SparkHook("broken").get_conn()


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_address_at_which_no_one_listens_is_refused_at_once(
    scheme: str, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("privacy_release.workarea.spark_session._java", lambda: sys.executable)
    connect(monkeypatch, "gone", master=f"{scheme}://{closed}", password=SECRET)
    ref = read_engine({"kind": "spark", "connection": "gone"})
    with (
        pytest.raises(SpecError, match=f"must listen at {scheme}://{closed}") as caught,
        open_engine(ref, tmp_path),
    ):
        pass
    assert SECRET not in str(caught.value)
    assert SparkHook("gone").test_connection() == (False, str(caught.value))


def test_without_java_there_is_no_session_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    connect(monkeypatch, "here", master="local[2]")
    ref = read_engine({"kind": "spark", "connection": "here"})
    with pytest.raises(SpecError, match="needs Java 17 or newer"), open_engine(ref, tmp_path):
        pass


def test_without_pyspark_the_extra_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    connect(monkeypatch, "here", master="local[2]")
    ref = read_engine({"kind": "spark", "connection": "here"})
    with pytest.raises(SpecError, match=r"install privacy-release\[spark\]"):
        open_engine(ref, tmp_path).__enter__()


def test_a_driver_of_this_machine_listens_to_this_machine_alone(tmp_path: Path) -> None:
    for master in ("local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"):
        settings = SparkCluster(master=master).settings(tmp_path, 10**9)
        assert settings["spark.driver.bindAddress"] == "127.0.0.1"
        assert settings["spark.ui.enabled"] == "false"
    assert "spark.driver.host" not in SparkCluster(master="spark://10.0.0.7:7077").settings(tmp_path, 10**9)


def test_a_secret_comes_with_encryption(tmp_path: Path) -> None:
    settings = SparkCluster(master="spark://one:7077", secret=SECRET).settings(tmp_path, 10**9)
    assert settings["spark.authenticate.secret"] == SECRET
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert settings[name] == "true"


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"master": "spark://one:7077"}, "spark.authenticate, spark.network.crypto.enabled, spark.io"),
        (
            {"master": "yarn", "password": SECRET, "conf": {"spark.io.encryption.enabled": "false"}},
            "writes, but spark.io.encryption.enabled is not set",
        ),
        ({"master": "sc://one:15002", "password": SECRET}, "Spark Connect does not expose the setting"),
        ({"master": "spark://one:7077", "password": SECRET}, "which only exists in a task of Airflow"),
    ],
    ids=["no secret", "no encryption on disk", "connect", "no run"],
)
def test_a_cluster_gets_nothing_of_an_encrypted_work_area_that_it_would_not_encrypt(
    expected: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", "s3://nowhere/work")
    connect(monkeypatch, "cluster", **expected)  # type: ignore[arg-type]  # password and extra
    ref = read_engine({"kind": "spark", "connection": "cluster"})
    with pytest.raises(SpecError, match=said) as caught, open_engine(ref, tmp_path):
        pass
    assert SECRET not in str(caught.value)


def test_the_settings_of_the_connection_go_before_ours(tmp_path: Path) -> None:
    conf = {"spark.driver.memory": "9g", "spark.ui.enabled": "true"}
    assert SparkCluster(master="local[2]", conf=conf).settings(tmp_path, 10**9).items() >= conf.items()


def test_the_secret_of_a_cluster_is_entered_blindly() -> None:
    (kind,) = (k for k in get_provider_info()["connection-types"] if k["connection-type"] == "privacy_spark")
    assert "secret" not in kind["conn-fields"]
    assert "password" not in kind["ui-field-behaviour"]["hidden-fields"]
