"""Read a published release without knowing the layout of a lake, with its guarantee on stderr."""

import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from privacy_engine.errors import PublishError
from privacy_engine.vocabulary import counted
from privacy_release.lake.log import State
from privacy_release.lake.read import dictionary_of, newest_releases, proof_of, read_release
from privacy_release.lake.replicates import REPLICATES
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.query.intervals import intervals as answer
from privacy_release.query.questions import question_from

if TYPE_CHECKING:
    import pyarrow as pa


def read(
    uri: str | Path,
    table: str,
    *,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> "pa.Table":
    """Return the records of a release, and print its guarantee on stderr.

    Only the lake is needed: no Airflow, no specification, no ledger. Call `.to_pandas()` on the result to get
    a data frame.

    Args:
        uri: Lake: a folder, or an address such as `s3://releases/open`.
        table: Name of the release table.
        release: ID of the release. None: the one that was published last and is not retracted.
        storage_options: Options of an object store, as `deltalake` names them. Keys that are missing come
            from the environment.
        quiet: Whether to print nothing.

    Raises:
        ValueError: If the address or the name is not well-formed.
        PublishError: If there is no such release, or the lake cannot be reached.
        IntegrityError: If the table does not contain what was published.
    """
    lake = _lake(uri, storage_options)
    entry = _entry(lake.table(table), release)
    rows = read_release(lake.table(table), entry["release_id"])
    if not quiet:
        described = dictionary_of(lake.table(table), entry["release_id"])
        sys.stderr.write(
            f"{table}, release {entry['release_id']} of {entry['committed'][:10]}: "
            f"{counted(entry['rows'], 'record')}\n"
            f"guarantee: {_guarantee(entry, described)}\n"
        )
    return rows


def dictionary(
    uri: str | Path,
    table: str,
    *,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the data dictionary of a release. Arguments and errors are as for `read`.

    Raises:
        PublishError: Also if the release was published without one.
    """
    lake = _lake(uri, storage_options)
    entry = _entry(lake.table(table), release)
    described = dictionary_of(lake.table(table), entry["release_id"])
    if described is None:
        raise PublishError(f"the release in {table} has no data dictionary: it was published without one")
    return described


def intervals(
    uri: str | Path,
    table: str,
    *,
    ask: str = "count",
    of: str | None = None,
    by: Sequence[str] | str = (),
    where: Mapping[str, Any] | None = None,
    level: float = 0.95,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> "pa.Table":
    """Return a count, share or mean in the confidential table, by groups, with its interval.

    For a private synthetic release with replicates: the model's answer, and an interval that covers the
    confidential value with about the probability `level`. For a k-anonymous release: certain bounds, and an
    estimate between them. Columns have the names of the source. `privacy_release.query.intervals` explains
    what an interval covers.

    Args:
        uri: Lake, see `read`.
        table: Name of the release table.
        ask: `count`, `share` or `mean`.
        of: Column whose mean is requested.
        by: Columns to group by, at most three.
        where: Condition on each column: a value, a list of values, or a pair (low, high), both included, of
            which None is open.
        level: Probability that an interval covers the value, in (0, 1).
        release: ID of the release, see `read`.
        storage_options: Options of an object store, see `read`.

    Raises:
        QueryError: If the release gives no interval for the question, with the reason.
        PublishError, IntegrityError: As `read`.
    """
    lake = _lake(uri, storage_options)
    question = question_from(ask, of, by, where)
    return answer(lake.table(table), _entry(lake.table(table), release)["release_id"], question, level=level)


def replicates(
    uri: str | Path,
    table: str,
    *,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> "pa.Table":
    """Return the file of replicates of a private synthetic release. Arguments and errors are as for `read`.

    Raises:
        PublishError: Also if the release was published without one.
    """
    lake = _lake(uri, storage_options)
    data = proof_of(lake.table(table), _entry(lake.table(table), release)["release_id"], REPLICATES)
    if data is None:
        raise PublishError(f"the release in {table} has no replicates: it was published without any")
    return pq.read_table(io.BytesIO(data))


def _lake(uri: str | Path, options: Mapping[str, str] | None) -> Lake:
    root = str(uri) if "://" in str(uri) else str(Path(uri).expanduser().absolute())
    return Lake(root=root, storage_options=tuple((options or {}).items()))


def _entry(table: ReleaseTable, release: str | None) -> dict[str, Any]:
    """Return the newest publication of a release, or of the newest release that is not retracted."""
    for entry in newest_releases(table):
        if entry["release_id"] == release or (release is None and entry["state"] == State.CURRENT.value):
            return entry
    raise PublishError(
        f"table {table.name} at {table.lake.root} must have {'such a release' if release else 'a release'}; "
        "check the address, the names and the permissions, or see `privacy-release inspect`"
    )


def _guarantee(entry: Mapping[str, Any], described: Mapping[str, Any] | None) -> str:
    """Return the guarantee of a release in one line. Without a dictionary, from its commit."""
    if described is not None:
        return str(described["guarantee"]["short"])
    figures = entry["figures"]
    rules = [finding["rule"] for finding in figures.get("measured") or ()]
    if loss := figures.get("loss"):
        rules.append(f"epsilon={loss['epsilon']:g}, delta={loss['delta']:g}")
    return ", ".join(rules) or "not stated"
