"""Settings from the environment, then Airflow's configuration, then a project file, then Airflow's home.

A project file, `privacy_release.toml`, has options by name; its folders are relative to the file. It is the
one named by $PRIVACY_RELEASE_PROJECT, or else the nearest one in or above Airflow's folder of DAGs. The
command line first searches in and above the working directory; processes of Airflow do not, because theirs
differ. Settings of the deployment take precedence over those of the project.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from privacy_engine.errors import SecretError, SpecError
from privacy_release.config.host import answer_of

SECTION = "privacy_release"
# Option of the section -> environment variable, which takes precedence: a shell can set it for one command.
VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "home": "PRIVACY_RELEASE_HOME",
        "lake": "PRIVACY_LAKE",
        "work_area": "PRIVACY_WORK_AREA",
        "work_area_connection": "PRIVACY_WORK_AREA_CONNECTION",
        "scratch": "PRIVACY_SCRATCH",
        "curator": "PRIVACY_CURATOR",
        "ledger": "PRIVACY_LEDGER",
        "work_area_idle": "PRIVACY_WORK_AREA_IDLE",
        "floor_policy": "PRIVACY_FLOOR_POLICY",
        "classification": "PRIVACY_CLASSIFICATION",
        "signing_key": "PRIVACY_SIGNING_KEY",
        "connections": "PRIVACY_CONNECTIONS",
        "context_plugins": "PRIVACY_CONTEXT_PLUGINS",
        "sources": "PRIVACY_SOURCES",
        "http_sources": "PRIVACY_HTTP_SOURCES",
        "text_recognizer": "PRIVACY_TEXT_RECOGNIZER",
        "paper_releases": "PRIVACY_PAPER_RELEASES",
    }
)
PROJECT_FILE = "privacy_release.toml"
PROJECT = "PRIVACY_RELEASE_PROJECT"
_NO_PATHS = frozenset(
    {
        *("work_area_idle", "work_area_connection", "connections", "context_plugins", "sources"),
        *("http_sources", "text_recognizer", "paper_releases"),
    }
)


@dataclass(frozen=True)
class Setting:
    """The value of a setting and its origin. If it is not set, `value` is None and `origin` is empty."""

    value: str | None = None
    origin: str = ""


def setting(option: str) -> str | None:
    """Return the value of an option of `VARIABLES`. None if it is not set.

    Raises:
        SpecError: If the project file cannot be parsed.
    """
    return set_by(option).value


def set_by(option: str) -> Setting:
    """Return the value of an option of `VARIABLES`, and its origin.

    Raises:
        SpecError: If the project file cannot be parsed.
    """
    if chosen := os.environ.get(VARIABLES[option]):
        return Setting(chosen, f"${VARIABLES[option]}")
    return _of_airflow(option) or _of_project(option) or Setting()


def secret(variable: str) -> str | None:
    """Return a secret: a variable, or else the text of the file named by this variable with `_FILE`.

    Line ends at the end of the file are ignored. None if neither is set.

    Raises:
        SecretError: If the file does not exist, cannot be read, or is empty.
    """
    if given := os.environ.get(variable):
        return given
    file = os.environ.get(f"{variable}_FILE")
    if not file:
        return None
    try:
        found = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        found_type = type(error).__name__
    else:
        found_type = "an empty one"
        if found:
            return found
    raise SecretError(
        f"${variable}_FILE must name a file that this user can read, got {found_type}; correct it"
    )


def let_idle_threads_sleep() -> None:
    """Make idle threads of compiled loops sleep, unless the environment says otherwise.

    By default they spin for milliseconds after each loop, which for tables of some hundred records takes more
    processor time than the loops. OpenMP reads the variable once, before the first loop.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def airflow_home() -> Path | None:
    """Return Airflow's folder: $AIRFLOW_HOME, or else `~/airflow` if it exists. None if there is none."""
    chosen = os.environ.get("AIRFLOW_HOME")
    home = Path(chosen or "~/airflow").expanduser().absolute()
    return home if chosen or (home / "airflow.cfg").is_file() else None


def project_file() -> Path | None:
    """Return the project file. None if there is none, or $PRIVACY_RELEASE_PROJECT is empty.

    Raises:
        SpecError: If $PRIVACY_RELEASE_PROJECT names no existing file.
    """
    chosen = os.environ.get(PROJECT)
    if chosen is None:
        folders = (folder for start in _starts() for folder in (start, *start.parents))
        return next((folder / PROJECT_FILE for folder in folders if (folder / PROJECT_FILE).is_file()), None)
    if not chosen:
        return None
    file = Path(chosen).expanduser().absolute()
    file = file / PROJECT_FILE if file.is_dir() else file
    if not file.is_file():
        raise SpecError(f"${PROJECT} must name a project file, or be empty for none; {file} does not exist")
    return file


def _starts() -> list[Path]:
    """Return the folders in and above which a project file is searched."""
    home = airflow_home()
    dags = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER") or _in_file("core", "dags_folder")
    found = [] if "airflow" in sys.modules else [Path.cwd()]
    return [*found, *([Path(dags).expanduser()] if dags else [home / "dags"] if home else [])]


def _of_airflow(option: str) -> Setting | None:
    """Return an option from Airflow's configuration.

    Airflow itself is only used in processes that have loaded it, because loading takes seconds and writes
    files to its home. Otherwise its variables and its file are read, which covers all but secrets and
    commands.
    """
    if "airflow" in sys.modules and (configured := answer_of("setting")):
        value = configured(option)
        return Setting(value, f"[{SECTION}] {option} of Airflow's configuration") if value else None
    variable = f"AIRFLOW__{SECTION.upper()}__{option.upper()}"
    if value := os.environ.get(variable):
        return Setting(value, f"${variable}")
    value = _in_file(SECTION, option)
    return Setting(value, f"[{SECTION}] {option} in {configuration_file()}") if value else None


def option_of_airflow(section: str, option: str) -> str | None:
    """Return an option from Airflow's environment or file, without loading Airflow. None if it is not set.

    Raises:
        LookupError: If only Airflow can read it: its file cannot be read, or the text needs expanding.
    """
    file = configuration_file()
    if file is not None and file.exists() and _read_configuration(file, _stamp(file)) is None:
        raise LookupError(f"{file} cannot be read")
    found = os.environ.get(f"AIRFLOW__{section.upper()}__{option.upper()}")
    if found is None:
        found = _in_file(section, option)
    if found and re.search(r"[$~%{]", found):
        raise LookupError(f"[{section}] {option} has to be expanded")
    return found


def configuration_file() -> Path | None:
    """Return the path of Airflow's configuration file, which may not exist."""
    home = airflow_home()
    chosen = os.environ.get("AIRFLOW_CONFIG") or (home and home / "airflow.cfg")
    return Path(chosen).expanduser() if chosen else None


def _in_file(section: str, option: str) -> str | None:
    file = configuration_file()
    return (_read_configuration(file, _stamp(file)) or {}).get((section, option)) if file else None


def _of_project(option: str) -> Setting | None:
    """Return an option from the project file, with absolute folders."""
    file = project_file()
    if file is None:
        return None
    value = _read_project(file, _stamp(file)).get(option)
    if value is None:
        return None
    if option not in _NO_PATHS and "://" not in value:
        value = os.path.normpath(file.parent / Path(value).expanduser())
    return Setting(value, str(file))


def _stamp(file: Path) -> tuple[int, int]:
    """Return a value that changes when the file does."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _read_configuration(file: Path, stamp: tuple[int, int]) -> Mapping[tuple[str, str], str] | None:
    """Return the options in Airflow's file, by section and option. None if it cannot be read."""
    parser = RawConfigParser(strict=False)
    try:
        parser.read(file, encoding="utf-8")
    except (Error, OSError, UnicodeDecodeError):
        return None
    return {(name, option): value for name in parser.sections() for option, value in parser.items(name)}


@lru_cache(maxsize=8)
def _read_project(file: Path, stamp: tuple[int, int]) -> Mapping[str, str]:
    """Return the options of a project file.

    Raises:
        SpecError: If it is not TOML, or has an unknown option, or one that is not text.
    """
    try:
        options = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        where = re.search(r"\(at [\w ,]+\)", str(error))
        problem = f"{type(error).__name__} {where[0] if where else ''}".rstrip()
        raise SpecError(f"{file} must be readable TOML, got {problem}; correct it") from None
    for name, value in options.items():
        if name not in VARIABLES:
            raise SpecError(f"{file}: {name} is no option; there are {', '.join(VARIABLES)}")
        if not isinstance(value, str) or not value:
            raise SpecError(f"{file}: {name} must be text, got {type(value).__name__}")
    return options


def work_area_address() -> str | None:
    """Return the option `work_area` if it is an address, such as `s3://bucket/work`, and no folder."""
    chosen = setting("work_area")
    return chosen if chosen and "://" in chosen else None


def scratch_folder() -> Path:
    """Return the folder for local files of tasks: the option `scratch`, or else that of `$AIRFLOW_HOME`.

    Raises:
        ValueError: As `folder_of`.
    """
    return folder_of("scratch", "scratch")


def curator_folder() -> Path:
    """Return the option `curator`, or else `curator` under `$AIRFLOW_HOME`.

    Raises:
        ValueError: As `folder_of`.
    """
    return folder_of("curator", "curator")


def folder_of(option: str, name: str) -> Path:
    """Return the folder of an option, or else the folder of this name under `$AIRFLOW_HOME`.

    Raises:
        ValueError: If the option is a relative path, which would depend on the working directory.
    """
    folder = Path(setting(option) or _default_home() / name).expanduser()
    if not folder.is_absolute():
        raise ValueError(
            f"the folder must be given as an absolute path; set {VARIABLES[option]}, or {option} in the "
            f"section [{SECTION}] of Airflow's configuration, to one"
        )
    return folder


def default_lake_root() -> str:
    """Return the lake without a connection: the option `lake`, or else `lake` under `$AIRFLOW_HOME`."""
    chosen = setting("lake")
    if chosen and "://" in chosen:
        return chosen
    return str(Path(chosen or _default_home() / "lake").expanduser().absolute())


def _default_home() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow")
