"""SQL on published releases: analysts ask, and only released data answer.

Every answer names the releases that it was made from and what each of them guarantees. Nothing else can be
reached: a query is one SELECT on release tables (`rules`), and runs in a process of its own
(`process`) whose database has no files but those of the releases, no network, no extensions and no
settings to change. It sees the tables through views on one version each, so a release that is published or
retracted meanwhile shows as before or as after, never in part; a release that was retracted before the answer
is ready is not answered from.

Guarantees are each release's own. A query on several of them, or on every release of a table, reads more
about the people who are in several than each of them says: k-anonymity does not survive composition, and
epsilons of releases about the same people add up.
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
    """What a query gave.

    Attributes:
        columns: their names, in order; a query may repeat one.
        form: of `data`: a stream of Arrow, a CSV file with a head, or a JSON array of rows.
        count: rows.
        sources: every release that was read, by table.
        cpu: seconds of processor time that its processes took, their start included.
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
            raise ValueError(f"the answer must have been asked for as arrow, got {self.form}")
        return pa.ipc.open_stream(self.data).read_all()

    def as_json(self) -> bytes:
        """Columns, rows and sources of an answer in the form `json`."""
        if self.form != "json":
            raise ValueError(f"the answer must have been asked for as json, got {self.form}")
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

    A table's name stands for its newest release: the one that was published last for the first time.

    Args:
        lake: where the tables are.
        sql: one SELECT in DuckDB's dialect; each table by its name in the lake, quoted where it has a hyphen.
        form: `arrow`, `csv` or `json`.
        tables: only these may be asked; None allows all of the lake.
        release: ask this release of each table that the query names, instead of the newest.
        every_release: a table's name stands for all of its releases, and has a column `release`.
        sees: given a table and a publication, whether who asks may see it; one that may not be seen is not
            there.
        limits: what the query may take.
        stop: by which another thread ends this query, and no other.

    Raises:
        QueryError: if the query is wrong, not allowed or takes too much, or a release does not exist.
        QueryStoppedError: if it was ended by ``stop``.
        CapacityError: if no process for the query starts.
        PublishError: if the lake cannot be reached.
        IntegrityError: if a table does not hold the rows that were published.
    """
    limits, stop = limits or Limits(), stop or Stop()
    if form not in FORMS:
        raise QueryError(f"the form must be one of {', '.join(FORMS)}, got {form!r}")
    if release is not None and every_release:
        raise QueryError("either one release or every release can be asked; leave one out")
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
                continue  # a release was retracted, and its files erased, while they were read
            raise
        finally:
            seconds = process.seconds
            stop.cpu += process.cpu
        if not any(is_retracted(lake, table) for table in seen):
            sources = tuple(source for table in seen for source in table.sources)
            return Answer(columns=columns, form=form, data=data, count=count, sources=sources, cpu=stop.cpu)
    raise PublishError(f"the lake changed under each of {ATTEMPTS} attempts to answer; ask again")


def allowed(names: Collection[str], tables: Collection[str] | None) -> Collection[str]:
    """The tables that a query reads, if there is one and all may be asked."""
    if not names:
        raise QueryError("a query must read a release table, got none; list them with `inspect`")
    closed = [name for name in names if tables is not None and name not in tables]
    if closed:
        raise QueryError(
            f"table {closed[0]!r} may not be asked; allowed are {', '.join(sorted(tables or ()))}"
        )
    return names
