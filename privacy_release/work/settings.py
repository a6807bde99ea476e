"""Where things are: environment variables first, then Airflow's configuration section `privacy_release`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from privacy_release.work.host import answer_of

SECTION = "privacy_release"
# Option of the section -> environment variable, which wins: a shell can move things for one command.
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
    }
)


def setting(option: str) -> str | None:
    """The value of an option of `VARIABLES`; None where nobody set it.

    Airflow's configuration is asked only in processes that have loaded Airflow: reading it takes seconds and
    writes files to its home, and the command line tool works without.
    """
    chosen = os.environ.get(VARIABLES[option])
    if chosen or "airflow" not in sys.modules:
        return chosen or None
    configured = answer_of("setting")
    return configured(option) if configured else None


def work_area_address() -> str | None:
    """The option `work_area` where it is an address, such as `s3://bucket/work`, and no folder."""
    chosen = setting("work_area")
    return chosen if chosen and "://" in chosen else None


def scratch_folder() -> Path:
    """Where tasks keep their own files on this machine: the option `scratch`, else that of `$AIRFLOW_HOME`.

    Raises:
        ValueError: as `folder_of`.
    """
    return folder_of("scratch", "scratch")


def curator_folder() -> Path:
    """The option `curator`, else `curator` under `$AIRFLOW_HOME`.

    Raises:
        ValueError: as `folder_of`.
    """
    return folder_of("curator", "curator")


def folder_of(option: str, name: str) -> Path:
    """The folder that an option names, else the one of this name under `$AIRFLOW_HOME`.

    Raises:
        ValueError: if the option names a relative folder, which would move with the working directory.
    """
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow")
    folder = Path(setting(option) or home / name).expanduser()
    if not folder.is_absolute():
        raise ValueError(
            f"the folder must be given as an absolute path; set {VARIABLES[option]}, or {option} in the "
            f"section [{SECTION}] of Airflow's configuration, to one"
        )
    return folder


def default_lake_root() -> str:
    """Where releases go without a connection: the option `lake`, else `lake` under `$AIRFLOW_HOME`."""
    chosen = setting("lake")
    if chosen and "://" in chosen:
        return chosen
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow")
    return str(Path(chosen or home / "lake").expanduser().absolute())
