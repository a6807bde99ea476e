"""SQL on published releases: analysts query, and only released data answers.

Every answer names the releases that it was made from and the guarantees of each. Nothing else can be read: a
query is one SELECT on release tables (`rules`), and runs in a separate process (`process`) whose database has
only the files of the releases, no network, no extensions and no settings to change. It sees each table at one
version, so a release that is published or retracted meanwhile is seen as before or as after, never in part.
If a release is retracted before the answer is ready, it is not used.

Guarantees are those of each single release. A query on several releases, or on every release of a table,
reads more about people who are in several than each release's guarantee covers: k-anonymity does not survive
composition, and epsilons of releases about the same people add up.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from privacy_engine.errors import PublishError
from privacy_release.lake.log import ATTEMPTS
from privacy_release.lake.store import Lake
from privacy_release.query.forms import FORMS
from privacy_release.query.process import (
    Limits,
    QueryProcess,
    QueryStoppedError,
    ReadingError,
    Stop,
)
from privacy_release.query.rules import QueryError, check_size
from privacy_release.query.sources import (
    Sees,
    Snapshot,
    Source,
    check_rows,
    everything,
    has_moved,
    is_retracted,
    take_snapshot,
)

__all__ = ["Answer", "Limits", "QueryError", "QueryStoppedError", "Source", "Stop", "answer"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a query.

    Attributes:
        columns: Names of the columns, in order. A query may repeat one.
        form: Format of `data`: a stream of Arrow, a CSV file with a header, or a JSON array of rows.
        count: Number of rows.
        sources: Every release that was read, by table.
        cpu: Processor seconds of its processes, including their start.
    """

    columns: tuple[str, ...]
    form: str
    data: bytes = field(repr=False)
    count: int
    sources: tuple[Source, ...]
    cpu: float

    @property
    def rows(self) -> "pa.Table":
        """The rows of an answer in the form `arrow`."""
        if self.form != "arrow":
            raise ValueError(f"the answer must have been requested as arrow, got {self.form}")
        return pa.ipc.open_stream(self.data).read_all()

    def as_json(self) -> bytes:
        """Return columns, rows and sources of an answer in the form `json`."""
        if self.form != "json":
            raise ValueError(f"the answer must have been requested as json, got {self.form}")
        columns = json.dumps(self.columns, ensure_ascii=False)
        sources = json.dumps([asdict(source) for source in self.sources], ensure_ascii=False)
        head, tail = f'{{"columns": {columns}, "rows": ', f', "sources": {sources}}}\n'
        return head.encode() + self.data + tail.encode()


def answer(
    lake: Lake,
    sql: str,
    *,
    form: str = "arrow",
    tables: Collection[str] | None = None,
    release: str | None = None,
    every_release: bool = False,
    sees: Sees = everything,
    limits: Limits | None = None,
    stop: Stop | None = None,
) -> Answer:
    """Answer a query from published releases that are not retracted.

    A table's name means its newest release: the one that was first published last.

    Args:
        lake: Lake with the tables.
        sql: One SELECT in DuckDB's dialect. Tables have their names in the lake, quoted if they have a
            hyphen.
        form: `arrow`, `csv` or `json`.
        tables: Names of the only tables that may be queried. None: all tables of the lake.
        release: ID of the release to query in each table, instead of the newest.
        every_release: Whether a table's name means all of its releases, with a column `release`.
        sees: Function of a table and a publication that returns whether the user may see it. Publications
            that may not be seen count as missing.
        limits: Limits of the query.
        stop: Means for another thread to stop this query only.

    Raises:
        QueryError: If the query is wrong, not allowed or exceeds a limit, or a release does not exist.
        QueryStoppedError: If it was stopped by ``stop``.
        CapacityError: If no process for the query starts.
        PublishError: If the lake cannot be reached.
        IntegrityError: If a table does not have the rows that were published.
    """
    limits, stop = limits or Limits(), stop or Stop()
    if form not in FORMS:
        raise QueryError(f"the form must be one of {', '.join(FORMS)}, got {form!r}")
    if release is not None and every_release:
        raise QueryError("a query is for one release or for every release; remove one of both")
    check_size(sql, limits.length, limits.depth)
    seconds = 0.0
    for _ in range(ATTEMPTS):
        stop.check()
        process = QueryProcess(limits, stop, seconds)
        seen: list[Snapshot] = []
        try:
            with process:
                for name in allowed(process.tables_of(sql, form), tables):
                    taken = take_snapshot(lake, name, release, every_release=every_release, sees=sees)
                    seen.append(taken)
                    check_rows(lake, taken)
                columns, data, count = process.answer(lake, seen)
        except (PublishError, ReadingError):
            if any(has_moved(lake, table) for table in seen):
                continue  # a release was retracted and its files erased while they were read
            raise
        finally:
            seconds = process.seconds
            stop.cpu += process.cpu
        if not any(is_retracted(lake, table) for table in seen):
            sources = tuple(source for table in seen for source in table.sources)
            return Answer(columns=columns, form=form, data=data, count=count, sources=sources, cpu=stop.cpu)
    raise PublishError(f"the lake changed during each of {ATTEMPTS} attempts to run the query; run it again")


def allowed(names: Collection[str], tables: Collection[str] | None) -> Collection[str]:
    """Return the tables that a query reads. Raise if there is none, or one may not be queried."""
    if not names:
        raise QueryError("a query must read a release table, got none; list them with `inspect`")
    closed = [name for name in names if tables is not None and name not in tables]
    if closed:
        raise QueryError(
            f"table {closed[0]!r} may not be queried; allowed are {', '.join(sorted(tables or ()))}"
        )
    return names
