"""The image, built from the Dockerfile and run by buildah, which needs no daemon."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deploy.local.embedded import checkout

PROGRAMS = ("buildah", "debootstrap")
TAG = "privacy-release:tested"
USER = 50_000  # the image's own
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# As the compose file runs every service: nothing can be written but volumes, and no right is left.
CONFINED = (
    "mount -o remount,ro,bind / && exec setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs "
    '--bounding-set=-all --inh-caps=-all "$@"'
)


@dataclass(frozen=True)
class Image:
    """A built image, and a container of it.

    Attributes:
        folder: of all that buildah keeps.
    """

    folder: Path

    def command(self, *arguments: object) -> list[str]:
        """The command line of buildah with what it keeps here."""
        kept = ("--root", self.folder / "root", "--runroot", self.folder / "run")
        return ["buildah", *map(str, (*kept, "--storage-driver", self.driver, *arguments))]

    @cached_property
    def driver(self) -> str:
        """How it keeps layers: one upon the other where the kernel can, else each as a copy of all below."""
        probe = ("--root", self.folder / "probe", "--runroot", self.folder / "probed", "info")
        command = ["buildah", "--storage-driver", "overlay", *map(str, probe)]
        done = subprocess.run(command, capture_output=True, check=False)
        return "vfs" if done.returncode else "overlay"

    def buildah(self, *arguments: object) -> str:
        """Run buildah; what it wrote to standard output."""
        return finished(self.command(*arguments))

    def build(self, wheels: Sequence[Path], methods: Sequence[str]) -> None:
        """Build it of these wheels, on the base that the Dockerfile names where a registry has it.

        Args:
            wheels: of this checkout.
            methods: that it has compiled.
        """
        context = self.folder / "context"
        for name in ("locks", "deploy"):
            shutil.copytree(checkout() / name, context / name)
        for name in ("Dockerfile", ".dockerignore"):
            shutil.copy(checkout() / name, context)
        (context / "dist").mkdir()
        for wheel in wheels:
            shutil.copy(wheel, context / "dist")
        given = [f"--build-arg=PYTHON={self._base()}", f"--build-arg=METHODS={' '.join(methods)}"]
        self.buildah("bud", "--isolation", "chroot", *given, "--tag", TAG, context)
        self.buildah("from", "--name", "container", TAG)

    def remove(self) -> None:
        """All of it, and what is mounted there."""
        subprocess.run(self.command("rm", "--all"), capture_output=True, check=False)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in reversed(mounted):
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(
        self, *command: str, volumes: Mapping[Path, str], environment: Mapping[str, str] | None = None
    ) -> str:
        """Run a command in it, confined; its output."""
        return finished(self.confined(*command, volumes=volumes, environment=environment or {}))

    def confined(
        self, *command: str, volumes: Mapping[Path, str], environment: Mapping[str, str]
    ) -> list[str]:
        """What runs a command as the image's user, with a read-only root and without capabilities.

        Args:
            command: and its arguments.
            volumes: folder or file of this machine -> where the container has it.
            environment: besides that of the image.
        """
        given = [f"--env={name}={value}" for name, value in environment.items()]
        given += [f"--volume={folder}:{place}" for folder, place in volumes.items()]
        # The right to make the root read-only; `setpriv` takes it away with all others.
        given += ["--isolation=chroot", "--user=root", "--cap-add=CAP_SYS_ADMIN"]
        confined = CONFINED.format(user=USER)
        return self.command("run", *given, "container", "--", "sh", "-c", confined, "sh", *command)

    def _base(self) -> str:
        """The Dockerfile's base, else Debian with its own Python of the same minor version."""
        (named,) = re.findall(r"^ARG PYTHON=(\S+)$", (checkout() / "Dockerfile").read_text(), re.MULTILINE)
        try:
            self.buildah("pull", "--quiet", f"docker.io/library/{named}")
        except AssertionError:
            return self._debian()
        return f"docker.io/library/{named}"

    def _debian(self) -> str:
        packages = "ca-certificates,python-is-python3,python3,python3-venv"
        root = self.folder / "debian"
        command = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root)]
        finished(command)
        if CERTIFICATES.exists():  # a machine may trust more than Debian does
            shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
        container = self.buildah("from", "scratch")
        self.buildah("add", container, root, "/")
        for name, value in os.environ.items():
            if name in ("PIP_INDEX_URL", "PIP_CERT", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
                self.buildah("config", "--env", f"{name}={value}", container)
        for name in ("PIP_CERT", "SSL_CERT_FILE"):
            self.buildah("config", "--env", f"{name}={CERTIFICATES}", container)
        self.buildah("commit", "--quiet", "--rm", container, "localhost/debian")
        shutil.rmtree(root)
        return "localhost/debian"


def finished(command: Sequence[str]) -> str:
    """What a command that succeeds writes to standard output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout.strip()


def missing() -> list[str]:
    """What keeps this machine from building it."""
    programs = [program for program in PROGRAMS if shutil.which(program) is None]
    return programs if os.geteuid() == 0 else [*programs, "the rights of root"]
