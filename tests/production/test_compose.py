import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.local.embedded import checkout
from tests.production.compose import FILE, VARIABLE, environment, filled, secrets_of, services

MAKE_SECRETS = checkout() / "deploy" / "make_secrets.py"
SECRET = re.compile(r"password|secret|key|token", re.IGNORECASE)
ONE_SHOT = {"initialize", "privacy-release", "samples"}
DATABASE = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__FERNET_KEY")


def make_secrets(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, MAKE_SECRETS, path], capture_output=True, text=True, check=False, umask=0
    )


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    assert make_secrets(tmp_path / ".env").returncode == 0
    return tmp_path / ".env"


def test_the_compose_file_fits_the_specification() -> None:
    command = [shutil.which("check-jsonschema", path=Path(sys.executable).parent) or "check-jsonschema"]
    command += ["--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_accepts_the_file_with_the_secrets_and_refuses_it_without_any_one(env_file: Path) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    bare = {"PATH": os.environ["PATH"], "HOME": str(env_file.parent)}

    def accepted(env: Path) -> bool:
        command = [program, "--file", str(FILE), "--env-file", str(env), "config", "--quiet"]
        return subprocess.run(command, env=bare, capture_output=True, check=False).returncode == 0

    assert accepted(env_file)
    lines = env_file.read_text().splitlines(keepends=True)
    for name in ("POSTGRES_PASSWORD", "FERNET_KEY", "LEDGER_SIGNING_SECRET"):
        env_file.write_text("".join(line for line in lines if not line.startswith(f"{name}=")))
        assert not accepted(env_file), name


def test_each_secret_of_the_file_is_demanded_wherever_it_stands_and_none_has_a_default(
    env_file: Path,
) -> None:
    made = secrets_of(env_file.read_text())
    found = [match for match in VARIABLE.finditer(FILE.read_text()) if not match["escaped"]]
    demanded = {match["name"] for match in found if match["kind"] == ":?"}
    others = {match["name"] for match in found if match["kind"] != ":?"}
    assert demanded == set(made)
    assert not [name for name in others if SECRET.search(name)]
    for name in made:
        without = {key: value for key, value in made.items() if key != name}
        with pytest.raises(KeyError, match=name):
            filled(FILE.read_text(), without)


def test_no_secret_is_written_out_in_the_file() -> None:
    for name, service in services().items():
        for variable, text in service.get("environment", {}).items():
            # A setting that only names its kind of secret, such as which fields hide theirs, holds none.
            if SECRET.search(variable) and not variable.endswith("SENSITIVE_VAR_CONN_NAMES"):
                assert "${" in text, f"{name}: {variable}"


def test_made_secrets_are_fresh_long_and_readable_by_the_owner_alone(tmp_path: Path, env_file: Path) -> None:
    assert env_file.stat().st_mode & 0o777 == 0o600
    make_secrets(tmp_path / "other")
    first, second = (secrets_of(path.read_text()) for path in (env_file, tmp_path / "other"))
    assert first.keys() == second.keys()
    assert len({*first.values(), *second.values()}) == 2 * len(first)
    assert min(map(len, first.values())) >= 44


def test_made_secrets_are_never_overwritten_nor_shown(env_file: Path) -> None:
    before = env_file.read_text()
    again = make_secrets(env_file)
    assert again.returncode == 1
    assert "kept" in again.stderr
    assert env_file.read_text() == before
    assert not [value for value in secrets_of(before).values() if value in again.stdout + again.stderr]


def test_git_and_the_image_leave_the_secrets_out() -> None:
    assert "/.env" in (checkout() / ".gitignore").read_text().splitlines()
    ignored = (checkout() / ".dockerignore").read_text().splitlines()
    kept = [line for line in ignored if line.startswith("!")]
    assert "*" in ignored
    assert not [line for line in kept if "env" in line]


def test_every_service_is_watched_or_ends_by_itself() -> None:
    for name, service in services().items():
        watched = bool(service.get("healthcheck", {}).get("test"))
        assert watched != (name in ONE_SHOT and service["restart"] == "no"), name


def test_services_of_the_image_can_write_to_their_volumes_and_to_memory_alone() -> None:
    for name, service in services().items():
        if "privacy-release" in service["image"]:
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
            assert [place.split(":")[0] for place in service["tmpfs"]] == ["/tmp"], name
            home = service.get("environment", {}).get("AIRFLOW_HOME", "/tmp")
            assert home.startswith("/tmp"), f"{name}: Airflow writes its configuration to {home}"


def test_every_service_has_limits_and_cannot_gain_rights() -> None:
    for name, service in services().items():
        assert service.keys() >= {"mem_limit", "cpus", "pids_limit"}, name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_every_image_is_pinned_to_one_version() -> None:
    dockerfile = (checkout() / "Dockerfile").read_text()
    images = [service["image"] for service in services().values()]
    images += re.findall(r"^ARG PYTHON=(\S+)$", dockerfile, flags=re.MULTILINE)
    assert len(images) == len(services()) + 1
    for image in images:
        assert re.search(r":\d+\.\d+(\.\d+)?[\w.-]*$", filled(image, {})), image


def test_workers_and_the_command_line_never_see_airflows_database(env_file: Path) -> None:
    made = secrets_of(env_file.read_text())
    for name in ("worker", "privacy-release"):
        settings = environment(name, made)
        assert not set(DATABASE) & settings.keys()
        assert not [value for value in settings.values() if made["AIRFLOW_DB_PASSWORD"] in value]


def test_only_who_releases_or_shows_releases_knows_the_ledgers_secrets(env_file: Path) -> None:
    made = secrets_of(env_file.read_text())
    for name in services():
        text = yaml.safe_dump(environment(name, made), width=10_000)
        knows = made["LEDGER_SIGNING_SECRET"] in text
        assert knows == (name in {"worker", "api-server", "initialize", "privacy-release"}), name
        assert (made["MEMBERSHIP_KEY"] in text) == (name == "worker")


def test_the_floor_policy_reaches_every_part_of_airflow_and_the_command_line(env_file: Path) -> None:
    made = secrets_of(env_file.read_text())
    floor = {"PRIVACY_FLOOR_POLICY": "/opt/airflow/include/policies/floor.yaml"}
    told = {name for name in services() if environment(name, made | floor).items() >= floor.items()}
    assert told >= {"worker", "api-server", "scheduler", "dag-processor", "triggerer", "privacy-release"}
    assert environment("worker", made)["PRIVACY_FLOOR_POLICY"] == ""  # as if nobody had set it


def test_raw_and_staged_records_are_mounted_only_where_they_are_needed() -> None:
    mounts = {name: " ".join(service.get("volumes", [])) for name, service in services().items()}
    assert {name for name, text in mounts.items() if "work:" in text} == {
        "worker",
        "api-server",
        "privacy-release",
    }
    assert "work:/data/work:ro" in mounts["api-server"]
    # Who retracts a release has to remove from the curator's folder who was in it.
    for volume in ("lake", "curator"):
        holders = {name for name, text in mounts.items() if f"{volume}:/data/{volume}" in text}
        assert holders == {"worker", "api-server", "privacy-release"}
    assert {name for name, text in mounts.items() if "/data/source" in text} == {"worker"}
    assert {name for name, text in mounts.items() if "samples:" in text} == {"worker", "samples"}


def test_the_example_releases_find_the_samples_where_they_look_for_them() -> None:
    """Their addresses are relative to the folder `include`."""
    (folder,) = (volume.split(":")[1] for volume in services()["samples"]["volumes"] if "samples:" in volume)
    assert services()["samples"]["command"][-1] == folder
    include = next(
        volume.split(":")[1] for volume in services()["worker"]["volumes"] if "/include:" in volume
    )
    for file in (checkout() / "include" / "releases").glob("*.yaml"):
        spec = yaml.safe_load(file.read_text())
        for table in spec.get("tables", {"": spec}).values():
            address = table["source"]["uri"]
            assert os.path.normpath(f"{include}/{address}").startswith(f"{folder}/"), file.name


def test_the_image_runs_as_a_service_user_with_locked_packages_and_no_build_tools() -> None:
    dockerfile = (checkout() / "Dockerfile").read_text()
    assert re.findall(r"^USER (\S+)$", dockerfile, flags=re.MULTILINE) == ["airflow"]
    assert "--require-hashes" in dockerfile
    locked = (checkout() / "locks/production.lock").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", locked, flags=re.MULTILINE))
    assert {"apache-airflow", "apache-airflow-providers-celery", "apache-airflow-providers-fab"} <= names
    assert not {"pytest", "mypy", "ruff", "hypothesis", "playwright", "uv"} & names


def test_the_image_has_the_versions_that_the_tests_run_with() -> None:
    def versions(file: str) -> dict[str, str]:
        text = (checkout() / file).read_text()
        return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, flags=re.MULTILINE))

    image, tested = versions("locks/production.lock"), versions("locks/development.lock")
    common = image.keys() & tested.keys()
    assert len(common) > 100
    assert {name: image[name] for name in common} == {name: tested[name] for name in common}
