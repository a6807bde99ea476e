"""The services of docker-compose.yaml in the image: each with its mounts alone, as the image's own user."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.production.compose import filled, services, volumes
from tests.production.image import USER, Image
from tests.production.topology import Services

# A mount of the kernel's, or of a device: there the rights of files decide, and the user has none.
KERNEL = ("/proc", "/sys", "/dev")


@dataclass(kw_only=True)
class Contained(Services):
    """Services in containers of the image; their folder of logs holds what Docker would keep in volumes."""

    image: Image

    def make_volumes(self) -> None:
        """Folders for all volumes, with owner and mode of what the image has there, as Docker makes them."""
        image = services()["worker"]["image"]
        for service in (name for name, reported in services().items() if reported["image"] == image):
            for volume, place in self.mounts(service).items():
                if volume.name in volumes() and not volume.exists():
                    user, group, mode = self._owner_and_mode(place.split(":")[0])
                    volume.mkdir()
                    os.chown(volume, int(user), int(group))
                    volume.chmod(int(mode, 8))

    def _owner_and_mode(self, place: str) -> list[str]:
        """Of a folder of the image."""
        reported = ""
        while (
            not reported
        ):  # on a busy machine buildah can end before it has passed on what a quick command wrote
            reported = self.image.run("stat", "--format", "%u %g %a", place, volumes={})
        return reported.split()

    def mounts(self, service: str) -> dict[Path, str]:
        """What the compose file mounts into a service: folder or file of this machine -> place."""
        found = {}
        for text in services()[service].get("volumes", []):
            name, place = filled(text, {}).split(":", 1)
            found[self.logs / name] = place
        for name in services()[service].get("secrets", []):
            found[self.logs / "secrets" / name] = f"/run/secrets/{name}:ro"
        return found

    def run(self, service: str, *command: str, environment: Mapping[str, str]) -> str:
        return self.image.run(*command, volumes=self._all_mounts(service), environment=environment)

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        (service,) = (
            service
            for service, found in services().items()
            if found.get("command") == ["airflow", *name.split()]
        )
        mounts = self._all_mounts(service)
        command = self.image.confined("airflow", *name.split(), volumes=mounts, environment=settings or {})
        self.launch(name, command, self.environment)

    def _all_mounts(self, service: str) -> dict[Path, str]:
        """Also the folder that Docker would keep in memory."""
        memory = self.logs / "memory" / service
        memory.mkdir(parents=True, exist_ok=True)
        memory.chmod(0o1777)
        return self.mounts(service) | {memory: "/tmp"}

    def processes(self, service: str) -> list[psutil.Process]:
        """Those of a service that live, without what confines them."""
        _, *words = services()[service]["command"]
        begun = psutil.Process(self.running[" ".join(words)].pid)
        found = []
        for child in begun.children(recursive=True):
            with unless_it_ended(child):
                if child.uids().real == USER and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
        return found


@contextmanager
def unless_it_ended(process: psutil.Process) -> Iterator[None]:
    """What is asked of a process that has ended meanwhile does not count: many live for a moment."""
    try:
        yield
    except (OSError, psutil.NoSuchProcess):
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            raise


def writable(process: psutil.Process) -> set[str]:
    """Where something is mounted that a process of the image's user may write to."""
    lines = Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines()
    mounts = {line.split()[4]: line.split()[5].split(",")[0] for line in lines}  # the last one lies on top
    return {
        place
        for place, mode in mounts.items()
        if mode == "rw"
        and not place.startswith(KERNEL)
        and _is_open(Path(f"/proc/{process.pid}/root{place}"))
    }


def _is_open(path: Path) -> bool:
    found = path.stat()
    return bool(found.st_mode & 0o002) or (found.st_uid == USER and bool(found.st_mode & 0o200))
