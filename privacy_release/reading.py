"""Reading a published release without knowing how a lake is laid out, and being told what it is."""

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
from privacy_release.query.questions import asked

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
    """The records of a release, which is named with its guarantee on stderr.

    Nothing but the lake is needed: no Airflow, no specification, no ledger. `.to_pandas()` makes a data frame
    of what comes back.

    Args:
        uri: the lake: a folder, or an address such as `s3://releases/open`.
        table: name of the release table.
        release: id of the release; None: the one that was published last and still stands.
        storage_options: of an object store, as `deltalake` names them; without keys, they come from the
            environment.
        quiet: say nothing.

    Raises:
        ValueError: if the address or the name is not well-formed.
        PublishError: if there is no such release, or the lake cannot be reached.
        IntegrityError: if the table does not hold what was published.
    """
    lake = _lake(uri, storage_options)
    entry = _entry(lake.table(table), release)
    rows = read_release(lake.table(table), entry["release_id"])
    if not quiet:
        told = dictionary_of(lake.table(table), entry["release_id"])
        sys.stderr.write(
            f"{table}, release {entry['release_id']} of {entry['committed'][:10]}: "
            f"{counted(entry['rows'], 'record')}\n"
            f"guarantee: {_guarantee(entry, told)}\n"
        )
    return rows


def dictionary(
    uri: str | Path,
    table: str,
    *,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The data dictionary of a release; arguments and errors as of `read`.

    Raises:
        PublishError: besides, if the release was published without one.
    """
    lake = _lake(uri, storage_options)
    entry = _entry(lake.table(table), release)
    told = dictionary_of(lake.table(table), entry["release_id"])
    if told is None:
        raise PublishError(f"the release in {table} has no data dictionary: it was published without one")
    return told


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
    """A count, share or mean in the confidential table, by groups, with its interval.

    Of a private synthetic release with replicates: the model's answer, and an interval that holds the
    confidential value with about the chance `level`. Of a k-anonymous release: certain bounds, and
    an estimate between them. Columns have the names of the source. `privacy_release.query.intervals` says
    what is in an interval.

    Args:
        uri: see `read`, and so `table`, `release` and `storage_options`.
        table: see `read`.
        ask: `count`, `share` or `mean`.
        of: the column whose mean is asked.
        by: at most three columns.
        where: column to a value, to a list of values, or to a pair (low, high), both inside, None being open.
        level: chance that an interval holds the value, in (0, 1).
        release: see `read`.
        storage_options: see `read`.

    Raises:
        QueryError: if the release gives no interval for the question; it says why.
        PublishError, IntegrityError: as `read`.
    """
    lake = _lake(uri, storage_options)
    question = asked(ask, of, by, where)
    return answer(lake.table(table), _entry(lake.table(table), release)["release_id"], question, level=level)


def replicates(
    uri: str | Path,
    table: str,
    *,
    release: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> "pa.Table":
    """The file of replicates beside a private synthetic release; arguments and errors as of `read`.

    Raises:
        PublishError: besides, if the release was published without one.
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
    """The newest publication of a release, or the newest one that stands."""
    for entry in newest_releases(table):
        if entry["release_id"] == release or (release is None and entry["state"] == State.CURRENT.value):
            return entry
    raise PublishError(
        f"table {table.name} at {table.lake.root} must have {'such a release' if release else 'a release'}; "
        "check the address, the names and the rights, or see `privacy-release inspect`"
    )


def _guarantee(entry: Mapping[str, Any], told: Mapping[str, Any] | None) -> str:
    """What is promised of a release, in a line; of one without a dictionary what its commit says."""
    if told is not None:
        return str(told["guarantee"]["short"])
    figures = entry["figures"]
    rules = [finding["rule"] for finding in figures.get("measured") or ()]
    if loss := figures.get("loss"):
        rules.append(f"epsilon={loss['epsilon']:g}, delta={loss['delta']:g}")
    return ", ".join(rules) or "none is told"
