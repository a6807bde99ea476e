"""Interpret arguments of the command line: lakes, tables, schemas, and the work area."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import PrivacyEngineError
from privacy_release.config.settings import PROJECT_FILE, airflow_home, setting, work_area_address

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.lake.store import Lake, ReleaseTable


class WrongArgumentError(PrivacyEngineError):
    """An argument on the command line is wrong."""


@contextmanager
def usage(argument: str) -> Iterator[None]:
    """Turn errors into errors about an argument. Only for calls whose messages quote no record."""
    try:
        yield
    except PrivacyEngineError:
        raise
    except ValueError as error:
        raise WrongArgumentError(f"{argument}: {error}") from None


def released_schema(path: Path) -> "DataSchema":
    """Return the schema in a file, or that of a release's specification.

    A released quasi-identifier has no domain. For a specification, it is known whether the source's had one.
    """
    from privacy_engine.vocabulary import Role
    from privacy_release.spec.files import load_schema
    from privacy_release.spec.model import load_spec
    from privacy_release.spec.reading import read_mapping

    fields = read_mapping(path)
    whole = isinstance(fields.get("schema"), Mapping) and "source" in fields
    if "release" not in fields or not (whole or isinstance(fields.get("tables"), Mapping)):
        return load_schema(path)
    schema = load_spec(path).method_schema().ingested()
    schema = schema.with_pseudonym() if schema.linked else schema.without_identifiers()
    attributes = (
        replace(a, unlisted=a.is_free_text) if a.role is Role.QUASI_IDENTIFIER else a
        for a in schema.attributes
    )
    return replace(schema, attributes=tuple(attributes))


def table_of(target: str) -> "ReleaseTable":
    """Return the release table of LAKE/TABLE."""
    root, _, name = target.rstrip("/").rpartition("/")
    lake = lake_at(root or ("/" if target.startswith("/") else "."), "LAKE/TABLE")
    with usage("LAKE/TABLE"):
        return lake.table(name)


def lake_at(root: str, argument: str = "--lake") -> "Lake":
    """Return the lake in a folder or at an address. Keys of an object store come from the environment."""
    from privacy_release.lake.store import Lake

    with usage(argument):
        return Lake(root=root if "://" in root else str(Path(root).expanduser().absolute()))


def default_lake() -> str:
    """Return the configured lake, for `lake_default` if Airflow has no such connection."""
    home = airflow_home()
    chosen = setting("lake") or (f"{home}/lake" if home else None)
    if chosen is None:
        raise WrongArgumentError(
            f"the lake must be named: give --lake DIR, set PRIVACY_LAKE, or write it into a {PROJECT_FILE}"
        )
    return chosen


def work_root() -> Path:
    """Return the folder of work areas. Without Airflow, it is in the user's private cache folder."""
    from privacy_release.workarea.area import work_area_root

    # A command is one process on one machine, so its area need not be shared.
    if work_area_address() is None and (setting("work_area") or airflow_home()):
        with usage("PRIVACY_WORK_AREA"):
            return work_area_root()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(cache).expanduser() / "privacy-release" / "work_area").absolute()


def write_whole(path: Path, data: bytes) -> None:
    """Write the file of `--output` atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongArgumentError(
            f"--output: the file must be writable, got {os.strerror(error.errno or 0)}"
        ) from None
