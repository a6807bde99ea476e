"""All release specifications of the include folder: the readable ones, and what is wrong with the others."""

from collections.abc import Iterable
from pathlib import Path

from privacy_engine.errors import SpecError
from privacy_release.spec.files import include_folder
from privacy_release.spec.model import ReleaseSpec, ScheduleSpec, load_spec


def readable_specs() -> list[ReleaseSpec]:
    """The specifications without an error, by name."""
    return _read()[0]


def raise_if_broken() -> None:
    """Complain about the specifications that `readable_specs` leaves out.

    Raises:
        SpecError: naming each file, its fields and what to do.
    """
    _, errors = _read()
    if errors:
        raise SpecError("\n".join(["these releases are not scheduled:", *errors]))


def partitioned_releases(specs: Iterable[ReleaseSpec]) -> frozenset[str]:
    """Releases that are published by partition: by their own schedule, or as all that they follow are."""
    followers = {spec.name: spec.schedule for spec in specs if isinstance(spec.schedule, ScheduleSpec)}
    found = {name for name, schedule in followers.items() if schedule.partitions is not None}
    while more := {
        name
        for name, schedule in followers.items()
        if name not in found and schedule.upstream and set(schedule.upstream) <= found
    }:
        found |= more
    return frozenset(found)


def _read() -> tuple[list[ReleaseSpec], list[str]]:
    specs, errors = [], []
    for path in _files():
        try:
            specs.append(load_spec(path))
        except SpecError as error:
            errors.append(str(error))
    return specs, errors


def _files() -> list[Path]:
    return sorted(p for p in (include_folder() / "releases").glob("*.y*ml") if p.suffix in (".yaml", ".yml"))
