"""All release specifications of the include folder: the usable ones, and the faults of the others.

A bad file affects only itself: whatever it contains, the others are found as if it did not exist.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.config.problems import wrong
from privacy_release.config.settings import setting
from privacy_release.spec.check import check_files
from privacy_release.spec.files import include_folder
from privacy_release.spec.floor import Floor, floor_policy
from privacy_release.spec.lines import located
from privacy_release.spec.model import PAPERS, ReleaseSpec, load_spec
from privacy_release.spec.rules.judge import judged
from privacy_release.spec.sections.schedule import ScheduleSpec

_SUFFIXES = (".yaml", ".yml")
_MOST_FAULTS = 50  # largest number of faults in one error
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The specifications of a folder.

    Attributes:
        read: Specifications whose own file is right, by file.
        usable: Those of them whose other files are right, too, and meet the floor policy.
        faults: One sentence for each release that is not usable, and one for a floor that cannot be read.
    """

    read: Mapping[Path, ReleaseSpec]
    usable: Mapping[Path, ReleaseSpec]
    faults: tuple[str, ...]


def readable_specs() -> list[ReleaseSpec]:
    """Return the specifications whose own file is right, by name."""
    return list(_read(release_files(), None)[0].values())


def catalogue() -> Catalogue:
    """Return all specifications, checked with the files that they name."""
    faults, floor = list[str](), None
    try:
        floor = floor_policy()
    except SpecError as error:  # no release runs without the floor, but their DAGs stay visible
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
    """Raise if another file is for the same release: one `.yaml`, one `.yml`.

    Raises:
        SpecError: Naming the others.
    """
    same = (path.with_suffix(suffix) for suffix in _SUFFIXES)
    _only(path, [other for other in same if other.name != path.name and other.exists()])


def release_files() -> list[Path]:
    """Return the files of all releases of the include folder.

    Those in `releases/papers/`, one for each method of the papers that no other release shows, only count if
    the setting `paper_releases` is `show`.

    Raises:
        SpecError: If the setting has another value than `show` or `hide`.
    """
    folder = include_folder() / "releases"
    chosen = setting("paper_releases") or "hide"
    if chosen not in ("show", "hide"):
        raise SpecError(f"the setting paper_releases must be `show` or `hide`, got {chosen!r}")
    folders = [folder, folder / PAPERS] if chosen == "show" else [folder]
    found = (path for one in folders for path in one.glob("*.y*ml"))
    return sorted(path for path in found if path.suffix in _SUFFIXES)


def attempted(place: Path, make: Callable[[], Made]) -> tuple[Made | None, str | None]:
    """Return what was made from one file, or a sentence on why it failed. Other files are not affected."""
    try:
        return make(), None
    except PrivacyEngineError as error:
        reason = str(located(place, error))
        return None, reason if reason.startswith(str(place)) else str(wrong(place, reason))
    except Exception as error:  # noqa: BLE001  any error is the fault of this file only
        return None, str(wrong(place, f"cannot be used, {type(error).__name__}: {error}"))


def raise_if_any(faults: Iterable[str]) -> None:
    """Raise if releases are left out.

    Raises:
        SpecError: Naming each file, its fields and the remedy.
    """
    shown = list(faults)
    if more := shown[_MOST_FAULTS:]:
        shown = [*shown[:_MOST_FAULTS], f"and {len(more):,} more"]
    if shown:
        raise SpecError("\n".join(["these releases are not scheduled:", *shown]))


def partitioned_releases(specs: Iterable[ReleaseSpec]) -> frozenset[str]:
    """Return the releases published by partition: by their own schedule, or like all that they follow."""
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
    """Read a specification whose own file is right. Faults are reported with those of its other files."""
    spec = load_spec(path, judge=False)
    if judged(spec.facts()).problems:
        check_files(spec, floor)
    return spec


def _only(path: Path, others: Iterable[Path]) -> None:
    if names := ", ".join(other.name for other in others):
        raise wrong(path, f"must be the only file of its name, there is {names}; remove one")


def _by_release(files: Iterable[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each release's file with the others of its name: one may end in `.yaml` and one in `.yml`."""
    for _, same in groupby(sorted(files, key=lambda path: (path.stem, path)), key=lambda path: path.stem):
        first, *others = same
        yield first, others
