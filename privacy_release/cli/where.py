"""`privacy-release where`: show which lake, ledger, work area and files are used, and where this is set."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.cli.arguments import default_lake, work_root
from privacy_release.config.host import answer_of
from privacy_release.config.settings import (
    PROJECT,
    PROJECT_FILE,
    airflow_home,
    configuration_file,
    curator_folder,
    project_file,
    scratch_folder,
    set_by,
    setting,
    work_area_address,
)
from privacy_release.workarea.sweep import idle_limit

_EPILOG = f"""\
Each place is searched in this order: the environment variable; the section [privacy_release] of Airflow's
configuration; the project file, which is the one named by ${PROJECT}, else the nearest {PROJECT_FILE} in or
above the working directory, else in or above Airflow's folder of DAGs; a default. Tasks of Airflow use the
connections lake_default and ledger_default before all of these, if they exist: --airflow checks them.
"""
_BY_DEFAULT = "by default"


@dataclass(frozen=True)
class Place:
    """A place that is used.

    Attributes:
        name: Name of the option.
        what: Purpose of the place.
        place: Location, without user and password.
        origin: Origin of the setting.
        state: Whether it can be used. Empty if it was not checked.
        wrong: Whether it cannot be used.
    """

    name: str
    what: str
    place: str
    origin: str
    state: str = ""
    wrong: bool = False


def add_where_command(parser: argparse.ArgumentParser) -> None:
    """Declare `where`."""
    parser.description = "Show which lake, ledger, work area and files are used here, and where this is set."
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--airflow", action="store_true", help="also ask Airflow for its connections, which takes seconds"
    )
    parser.set_defaults(command=where)


def where(arguments: argparse.Namespace) -> int:
    """Run the command `where`. Return 2 if a place cannot be used."""
    places = [*_surroundings(), *_settings()]
    if "://" in next(found.place for found in places if found.name == "work_area"):
        places.append(
            _place("scratch", "local files of a task with a remote work area", scratch_folder, _state)
        )
    if arguments.airflow:
        places += _connections({found.name: found for found in places})
    if arguments.json:
        print(json.dumps([asdict(found) for found in places], indent=2))
    else:
        print("\n".join(line for found in places for line in _lines(found)))
    return 2 if any(found.wrong for found in places) else 0


def _lines(found: Place) -> Iterator[str]:
    mark = "! " if found.wrong else "  "
    yield f"{mark}{found.name:<14} {found.place}"
    yield f"{'':<17}{found.what}; {found.origin}{f'; {found.state}' if found.state else ''}"


def _surroundings() -> Iterator[Place]:
    """Yield the project, and Airflow."""
    what = "places that this project sets"
    try:
        file = project_file()
        origin = f"${PROJECT}" if PROJECT in os.environ else "nearest one"
        yield Place("project file", what, str(file or "none"), origin if file else f"no {PROJECT_FILE} found")
    except SpecError as error:
        yield Place("project file", what, os.environ.get(PROJECT, ""), f"${PROJECT}", str(error), wrong=True)
    home, file = airflow_home(), configuration_file()
    if home is None:
        yield Place("Airflow home", "Airflow's folder", "none", "none found")
    else:
        origin = "$AIRFLOW_HOME" if os.environ.get("AIRFLOW_HOME") else _BY_DEFAULT
        state = f"{file} is {'read' if file and file.is_file() else 'not there'}"
        yield Place("Airflow home", "Airflow's folder", str(home), origin, state)


def _settings() -> Iterator[Place]:
    from privacy_release.spec.files import include_folder

    yield _place("home", "folder that contains include/", lambda: include_folder().parent, _files)
    yield _place("lake", "lake of releases", default_lake, _state)
    yield _place("work_area", "raw and staged records during a run", _work_area, _state)
    yield _place("curator", "files that only the curator may read", curator_folder, _state)
    yield _place("ledger", "spent privacy budgets", _ledger, _state)
    yield _place("work_area_idle", "time after which an idle work area counts as abandoned", idle_limit)
    yield _place("connections", "hosts that may set connections", lambda: setting("connections") or "any")
    yield _place("context_plugins", "code of contexts", lambda: setting("context_plugins") or "refuse")
    yield _place("sources", "places that releases may read", lambda: setting("sources") or "anywhere")
    yield _place("http_sources", "sources on the web", lambda: setting("http_sources") or "refuse")
    yield _place(
        "text_recognizer", "additional recognizer of text", lambda: setting("text_recognizer") or "none"
    )
    yield _place(
        "paper_releases", "releases of the papers' methods", lambda: setting("paper_releases") or "hide"
    )
    yield _place("floor_policy", "policy that every release must meet", _floor)
    yield _place("signing_key", "key that signs releases", lambda: setting("signing_key") or "none")


def _work_area() -> object:
    return work_area_address() or work_root()


def _ledger() -> str:
    from privacy_release.ledger.database import database_url, shown
    from privacy_release.ledger.default import default_place

    return shown(database_url(default_place()))


def _floor() -> str:
    from privacy_release.spec.floor import floor_policy

    floor = floor_policy()
    return "none" if floor is None else str(floor.path)


def _place(
    option: str, what: str, found: Callable[[], object], state: Callable[[str], str] | None = None
) -> Place:
    try:
        place = str(found())
        origin = set_by(option).origin or _BY_DEFAULT
    except (PrivacyEngineError, ValueError) as error:
        return Place(option, what, "unknown", "not found", str(error), wrong=True)
    if state is None or "://" in place:
        return Place(option, what, place, origin)
    try:
        return Place(option, what, place, origin, state(place))
    except OSError as error:
        return Place(option, what, place, origin, str(error), wrong=True)


def _state(place: str) -> str:
    """Return whether a file or folder can be used.

    Raises:
        OSError: If it cannot.
    """
    path = Path(place)
    if path.exists():
        if not os.access(path, os.W_OK | (os.X_OK if path.is_dir() else 0)):
            raise OSError("exists, but this user may not write to it")
        return "is there"
    above = next(folder for folder in path.parents if folder.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise OSError(f"does not exist, and this user may not create it in {above}")
    return "is created by its first use"


def _files(place: str) -> str:
    """Return the number of files of each kind in the include folder."""
    include = Path(place) / "include"
    counts = {kind: sum(1 for _ in (include / kind).glob("*.yaml")) for kind in ("releases", "policies")}
    return "include/ has " + ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _connections(places: dict[str, Place]) -> Iterator[Place]:
    """Yield what tasks of Airflow use instead of some settings."""
    connected = answer_of("connected")
    if connected is None:
        raise SpecError("--airflow needs the package airflow-privacy-release, which is not installed here")
    for option, place in connected().items():
        name, what, ours = f"{option}_default", f"the {option} of tasks", places[option]
        if place is None:
            yield Place(name, what, "none", "no such connection of Airflow", f"tasks use the {option} above")
        elif place == ours.place:
            yield Place(name, what, place, "connection of Airflow", f"the same as the {option} above")
        else:
            state = f"differs from the {option} above, which the command line uses"
            yield Place(name, what, place, "connection of Airflow", state, wrong=True)
