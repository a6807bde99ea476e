"""All release specifications of the include folder: the usable ones, and what is wrong with the others.

One bad file is one bad file: whatever is in it, the others are found as if it were not there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.config.problems import wrong
from privacy_release.spec.check import check_files
from privacy_release.spec.files import include_folder
from privacy_release.spec.floor import Floor, floor_policy
from privacy_release.spec.lines import located
from privacy_release.spec.model import ReleaseSpec, ScheduleSpec, load_spec
from privacy_release.spec.rules.judge import judged

_SUFFIXES = (".yaml", ".yml")
_MOST_TOLD = 50  # faults in one error
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The specifications of a folder.

    Attributes:
        read: those whose own file is right, by file.
        usable: those of them whose other files are right, too, and keep the floor policy.
        faults: one sentence for each release that is not usable, and one for a floor that cannot be read.
    """

    read: Mapping[Path, ReleaseSpec]
    usable: Mapping[Path, ReleaseSpec]
    faults: tuple[str, ...]


def readable_specs() -> list[ReleaseSpec]:
    """The specifications whose own file is right, by name."""
    return list(_read(release_files(), None)[0].values())


def catalogue() -> Catalogue:
    """All specifications, with the files that they name."""
    faults, floor = list[str](), None
    try:
        floor = floor_policy()
    except SpecError as error:  # no release goes on without it, but their DAGs stay to be seen
        faults.append(str(error))
    read, unread = _read(release_files(), floor)
    faults += unread
    usable = {}
    for path, spec in read.items():
        _, fault = attempted(path, partial(check_files, spec, floor))
        if fault is None:
            usable[path] = spec
        else:
            faults.append(fault)
    return Catalogue(read=read, usable=usable, faults=tuple(faults))


def only_of_its_name(path: Path) -> None:
    """Refuse a file beside which another one is of the same release: one `.yaml`, one `.yml`.

    Raises:
        SpecError: naming the others.
    """
    same = (path.with_suffix(suffix) for suffix in _SUFFIXES)
    _only(path, [other for other in same if other.name != path.name and other.exists()])


def release_files() -> list[Path]:
    """The files of all releases of the include folder."""
    return sorted(p for p in (include_folder() / "releases").glob("*.y*ml") if p.suffix in _SUFFIXES)


def attempted(place: Path, make: Callable[[], Made]) -> tuple[Made | None, str | None]:
    """What was made of one file, or a sentence about why nothing was: the others are made all the same."""
    try:
        return make(), None
    except PrivacyEngineError as error:
        told = str(located(place, error))
        return None, told if told.startswith(str(place)) else str(wrong(place, told))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the fault of this file alone
        return None, str(wrong(place, f"cannot be used, {type(error).__name__}: {error}"))


def raise_if_any(faults: Iterable[str]) -> None:
    """Complain about releases that are left out.

    Raises:
        SpecError: naming each file, its fields and what to do.
    """
    told = list(faults)
    if more := told[_MOST_TOLD:]:
        told = [*told[:_MOST_TOLD], f"and {len(more):,} more"]
    if told:
        raise SpecError("\n".join(["these releases are not scheduled:", *told]))


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


def _read(files: Iterable[Path], floor: Floor | None) -> tuple[dict[Path, ReleaseSpec], list[str]]:
    specs, faults = {}, []
    for path, others in _by_release(files):
        _, fault = attempted(path, partial(_only, path, others))
        if fault is not None:
            faults.append(fault)
            continue
        spec, fault = attempted(path, partial(_right_alone, path, floor))
        if spec is not None:
            specs[path] = spec
        if fault is not None:
            faults.append(fault)
    return specs, faults


def _right_alone(path: Path, floor: Floor | None) -> ReleaseSpec:
    """Read a specification whose own file is right; mistakes are reported with those of its other files."""
    spec = load_spec(path, judge=False)
    if judged(spec.facts()).problems:
        check_files(spec, floor)
    return spec


def _only(path: Path, others: Iterable[Path]) -> None:
    if names := ", ".join(other.name for other in others):
        raise wrong(path, f"must be the only file of its name, there is {names}; remove one")


def _by_release(files: Iterable[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Each release's file, and the others of its name: one may end in `.yaml` and one in `.yml`."""
    for _, same in groupby(sorted(files), key=lambda path: path.stem):
        first, *others = same
        yield first, others
