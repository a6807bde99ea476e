import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.local.embedded import checkout
from tests.production.compose import FILE, VARIABLE, filled, secrets_in, services

MAKE_SECRETS = checkout() / "deploy" / "make_secrets.py"
SECRET = re.compile(r"password|secret|key|token", re.IGNORECASE)
ONE_SHOT = {"initialize", "privacy-release", "samples"}


def make_secrets(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, MAKE_SECRETS, folder, folder.with_name(".env")]
    return subprocess.run(command, capture_output=True, text=True, check=False, umask=0)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder of fresh secrets."""
    assert make_secrets(tmp_path / "secrets").returncode == 0
    return tmp_path / "secrets"


def test_the_compose_file_fits_the_specification() -> None:
    command = [shutil.which("check-jsonschema", path=Path(sys.executable).parent) or "check-jsonschema"]
    command += ["--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_accepts_the_file_and_shows_no_secret(made: Path) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    shutil.copy(FILE, made.parent)
    bare = {"PATH": os.environ["PATH"], "HOME": str(made.parent)}
    command = [program, "--file", str(made.parent / FILE.name), "config"]
    done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(made / "fernet_key") in done.stdout
    assert not [name for name, value in secrets_in(made).items() if value in done.stdout]


def test_each_secret_is_a_file_that_is_made_and_used(made: Path) -> None:
    named = yaml.safe_load(FILE.read_text())["secrets"]
    assert named == {path.name: {"file": f"./secrets/{path.name}"} for path in made.iterdir()}
    used = {name for service in services().values() for name in service.get("secrets", [])}
    assert used == set(named)


def test_a_service_has_the_files_that_its_settings_name_and_no_others() -> None:
    for name, service in services().items():
        text = yaml.safe_dump(service | {"secrets": None}, width=10_000)
        if name == "initialize":
            text += (checkout() / "deploy" / "initialize.sh").read_text()
        assert set(re.findall(r"/run/secrets/([\w.]+)", text)) == set(service.get("secrets", [])), name


def test_no_variable_holds_a_secret() -> None:
    names = [match["name"] for match in VARIABLE.finditer(FILE.read_text()) if match["name"]]
    assert not [name for name in names if SECRET.search(name)]
    for name, service in services().items():
        for variable, text in service.get("environment", {}).items():
            # A setting that only names its kind of secret, such as which fields hide theirs, holds none.
            if SECRET.search(variable) and not variable.endswith(("SENSITIVE_VAR_CONN_NAMES", "_BACKEND")):
                assert "/run/secrets/" in text, f"{name}: {variable}"


def test_made_secrets_are_fresh_and_long_in_a_folder_of_the_owner_alone(tmp_path: Path, made: Path) -> None:
    assert made.stat().st_mode & 0o777 == 0o700
    # Containers read them as other users.
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o444}
    make_secrets(tmp_path / "other")
    first, second = secrets_in(made), secrets_in(tmp_path / "other")
    assert first.keys() == second.keys()
    assert len({*first.values(), *second.values()}) == 2 * len(first)
    assert min(map(len, first.values())) >= 44
    assert not list(tmp_path.glob(".*"))


def test_secrets_of_an_earlier_version_move_from_its_file_to_theirs(tmp_path: Path) -> None:
    earlier = {name: f"kept {name}" for name in ("FERNET_KEY", "REDIS_PASSWORD", "MEMBERSHIP_KEY")}
    env = tmp_path / ".env"
    lines = [f"{name}={value}" for name, value in earlier.items()]
    env.write_text("\n".join(["# ours", "WORKER_MEMORY=4g", *lines, ""]))
    done = make_secrets(tmp_path / "secrets")
    assert done.returncode == 0
    found = secrets_in(tmp_path / "secrets")
    moved = {name: found[name] for name in ("fernet_key", "redis_password", "membership_default")}
    assert list(moved.values()) == list(earlier.values())
    assert len(found["airflow_db_password"]) == 64
    assert env.read_text() == "# ours\nWORKER_MEMORY=4g\n"
    assert env.stat().st_mode & 0o777 == 0o600
    assert "kept" not in done.stdout + done.stderr


def test_an_earlier_versions_file_stays_where_the_folder_is_kept(made: Path) -> None:
    env = made.with_name(".env")
    env.write_text("REDIS_PASSWORD=earlier\n")
    assert make_secrets(made).returncode == 1
    assert env.read_text() == "REDIS_PASSWORD=earlier\n"


def test_made_secrets_are_never_overwritten_nor_shown(made: Path) -> None:
    before = secrets_in(made)
    again = make_secrets(made)
    assert again.returncode == 1
    assert "kept" in again.stderr
    assert secrets_in(made) == before
    assert not [value for value in before.values() if value in again.stdout + again.stderr]


def test_git_and_the_image_leave_the_secrets_out() -> None:
    assert {"/.env", "/secrets/"} <= set((checkout() / ".gitignore").read_text().splitlines())
    ignored = (checkout() / ".dockerignore").read_text().splitlines()
    kept = [line for line in ignored if line.startswith("!")]
    assert "*" in ignored
    assert not [line for line in kept if "env" in line or "secret" in line]


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


def test_a_secret_is_only_where_it_is_needed() -> None:
    """Workers run the code of DAGs: with the key of tokens that could log in as anybody."""
    holders: dict[str, set[str]] = {}
    for name, service in services().items():
        for secret in service.get("secrets", []):
            holders.setdefault(secret, set()).add(name)
    airflow = {"api-server", "scheduler", "dag-processor", "triggerer", "initialize"}
    releasing = {"worker", "api-server", "privacy-release", "initialize"}
    assert holders == {
        "postgres_password": {"postgres"},
        "airflow_db_password": airflow | {"postgres"},
        "fernet_key": airflow,
        "redis_password": airflow | {"redis", "worker"},
        "ledger_db_password": releasing | {"postgres"},
        "ledger_signing_secret": releasing,
        "jwt_secret": {"api-server", "scheduler"},
        "api_secret_key": {"api-server"},
        "admin_password": {"initialize"},
        "worker_connections.json": {"worker"},
    }


def test_the_floor_policy_reaches_every_part_of_airflow_and_the_command_line() -> None:
    variable = "PRIVACY_FLOOR_POLICY"
    fields = {name: found.get("environment", {}).get(variable) for name, found in services().items()}
    for name in ("worker", "api-server", "scheduler", "dag-processor", "triggerer", "privacy-release"):
        assert filled(fields[name], {variable: "floor.yaml"}) == "floor.yaml"
        assert filled(fields[name], {}) == ""  # as if it were not set


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
    for file in (checkout() / "include" / "releases").rglob("*.yaml"):
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
