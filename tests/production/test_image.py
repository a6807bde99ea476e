"""The image that docker-compose.yaml runs, really built, and a release made in it as it is confined there."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.embedded import checkout
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake
from tests.production.conftest import built, visits
from tests.production.image import USER, Image, missing

pytestmark = [pytest.mark.slow, pytest.mark.production, pytest.mark.timeout(2400)]

SPEC = """
name: METHOD
source: {uri: /data/source/visits.parquet}
schema:
  age:       {role: quasi_identifier, kind: numeric, bounds: [0, 99], bins: 5}
  diagnosis: {role: sensitive, kind: categorical, categories: [cold, flu, gout]}
release: {method: METHOD, k: 10}
policy: policies/linkage.yaml
publish: {lake: lake_default, table: METHOD}
"""
PLACES = {
    "PRIVACY_RELEASE_HOME": "/opt/airflow",
    "PRIVACY_LAKE": "/data/lake",
    "PRIVACY_WORK_AREA": "/data/work",
    "PRIVACY_CURATOR": "/data/curator",
    "PRIVACY_LEDGER": "postgresql://ledger@postgres:5432/privacy",
}
# What was compiled and not found among what the image brings.
COUNTED = """
import sys
from numba.core.event import install_recorder
from privacy_release.cli.main import main
with install_recorder("numba:compile") as record:
    code = main(sys.argv[1:])
print("compiled", len(record.buffer))
raise SystemExit(code)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Built of this checkout's wheels; several gigabytes, which go at the end."""
    if lacking := missing():
        pytest.skip(f"not here: {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("image")
    image = Image(folder / "buildah")
    image.folder.mkdir()
    try:
        image.build(built(folder / "wheels"))
        yield image
    finally:
        shutil.rmtree(image.folder, ignore_errors=True)


@pytest.fixture
def volumes(tmp_path: Path) -> dict[Path, str]:
    """Those of the compose file, with its owner; what it mounts read-only nobody else owns."""
    (tmp_path / "include" / "releases").mkdir(parents=True)
    shutil.copytree(checkout() / "include" / "policies", tmp_path / "include" / "policies")
    (tmp_path / "source").mkdir()
    visits(600).to_parquet(tmp_path / "source" / "visits.parquet", index=False)
    for method in ("mondrian", "bottom_up"):
        (tmp_path / "include" / "releases" / f"{method}.yaml").write_text(SPEC.replace("METHOD", method))
    found = {tmp_path / "include": "/opt/airflow/include:ro", tmp_path / "source": "/data/source:ro"}
    for name in ("lake", "work", "curator"):
        (tmp_path / name).mkdir(mode=0o700)
        shutil.chown(tmp_path / name, USER, USER)
        found[tmp_path / name] = f"/data/{name}"
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    return found | {tmp_path / "tmp": "/tmp"}


def test_the_image_makes_releases_as_its_own_user_on_a_read_only_root_and_compiles_nothing(
    image: Image, volumes: dict[Path, str], tmp_path: Path
) -> None:
    for method in ("mondrian", "bottom_up"):
        command = ("run", f"include/releases/{method}.yaml", "--release-id", "r1")
        told = image.run("python", "-c", COUNTED, *command, volumes=volumes, environment=PLACES)
        assert "compiled 0" in told, told
        lake = Lake(root=str(tmp_path / "lake"))
        assert [release["release_id"] for release in releases(lake, method)] == ["r1"]
        assert manifest_of(lake, method, "r1")["parameters"]["k"] == 10
    assert {path.stat().st_uid for path in (tmp_path / "lake").rglob("*")} == {USER}
    assert list((tmp_path / "work").glob("*/*")) == []


def test_a_process_of_the_image_can_write_to_its_volumes_alone(
    image: Image, volumes: dict[Path, str]
) -> None:
    script = (
        "id -u; grep CapEff /proc/self/status; "
        "for place in /opt/airflow /opt/venv /usr /etc /data/source /opt/airflow/include /data/lake; do "
        "touch $place/x 2>/dev/null && echo wrote $place; done; true"
    )
    told = image.run("sh", "-c", script, volumes=volumes).split()
    assert told == [str(USER), "CapEff:", "0" * 16, "wrote", "/data/lake"]


def test_where_tells_the_places_of_a_container(image: Image, volumes: dict[Path, str]) -> None:
    told = image.run("privacy-release", "where", volumes=volumes, environment=PLACES)
    assert "/data/lake\n" in told
    assert "$PRIVACY_LAKE; is there" in told
