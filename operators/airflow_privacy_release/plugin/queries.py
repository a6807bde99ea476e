"""Queries of analysts: how many run at once, their limits, and the log of who queried what.

The limits are options of Airflow's configuration section `privacy_release`, per process of the API server.
A query may contain what its author knows of a person. So its text is kept only in the file that the option
`query_log` names. Airflow's own audit log has the rest, and the hash of the text.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.configuration import conf
from airflow.models.log import Log
from airflow.utils.session import create_session
from anyio import CapacityLimiter, create_task_group, to_thread
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.plugin.auth import Rights, name_of
from airflow_privacy_release.plugin.connections import lakes
from airflow_privacy_release.plugin.views.releases import Listed
from privacy_engine.errors import PrivacyEngineError
from privacy_release.lake.log import Publication
from privacy_release.query.answer import Answer, Limits, QueryError, QueryStoppedError, Stop, answer

_SECTION = "privacy_release"


class SentQuery(BaseModel):
    """A query that an analyst sends.

    Attributes:
        sql: A single SELECT in DuckDB's dialect on tables of the lake.
        lake: Connection id of the lake.
        release: Id of the release to query in each table; None: the newest.
        every_release: Whether a table contains all of its releases that the analyst may see.
        form: Format of the answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sql: str
    lake: str = DEFAULT_LAKE
    release: str | None = None
    every_release: bool = False
    form: Literal["json", "csv", "arrow"] = "json"


class UnknownLakeError(QueryError):
    """There is no lake of that connection id."""


class BusyError(PrivacyEngineError):
    """Too many queries are being answered. Send the query again in a few seconds."""


class OneAtATimeError(BusyError):
    """Another query of the same user is being answered."""


class RecordError(PrivacyEngineError):
    """A query could not be logged, so it is not answered."""


@dataclass(kw_only=True)
class _Query:
    """A query on its way to an answer, an error or neither (its client disconnected)."""

    question: SentQuery
    user: BaseUser
    stop: Stop = field(default_factory=Stop)
    begun: float = field(default_factory=monotonic)
    answer: Answer | None = None
    error: PrivacyEngineError | None = None

    def work(self) -> None:
        """Find the answer and log the outcome, in a separate thread."""
        try:
            self.answer = self._answered()
        except PrivacyEngineError as error:
            self.error = error
        finally:
            self.record()

    def _answered(self) -> Answer:
        self.stop.check()
        question = self.question
        lake = lakes().lakes.get(question.lake)
        if lake is None:
            raise UnknownLakeError("There is no such lake.")
        rights = Rights(self.user)

        def sees(table: str, entry: Publication) -> bool:
            row = Listed(lake=question.lake, table=table, entry=entry)
            return rights.reads_release(row.dag_id, question.lake)

        return answer(
            lake,
            question.sql,
            form=question.form,
            release=question.release,
            every_release=question.every_release,
            sees=sees,
            limits=_limits(),
            stop=self.stop,
        )

    def record(self) -> None:
        """Log who queried what, before the answer is sent.

        Raises:
            RecordError: If it cannot be logged.
        """
        entry = self._public_fields()
        try:
            _write_file(entry | {"sql": self.question.sql, "reason": str(self.error or "")})
            with create_session() as session:
                session.add(
                    Log(
                        event="privacy_release.query",
                        owner=str(self.user.get_id()),
                        owner_display_name=name_of(self.user),
                        extra=json.dumps(entry),
                    )
                )
        except (OSError, SQLAlchemyError):
            raise RecordError(
                "The query could not be written to the query log, so it is not answered. "
                "Contact the administrator of this Airflow."
            ) from None

    def _public_fields(self) -> dict[str, Any]:
        """Return what any log may contain: no word of the query, and nothing of its answer."""
        sources = () if self.answer is None else self.answer.sources
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": str(self.user.get_id()),
            "lake": self.question.lake,
            "sources": [[source.table, source.release, source.version] for source in sources],
            "sha256": hashlib.sha256(self.question.sql.encode(errors="replace")).hexdigest(),
            "form": self.question.form,
            "outcome": self._outcome(),
            "rows": 0 if self.answer is None else self.answer.count,
            "bytes": 0 if self.answer is None else len(self.answer.data),
            "cpu_seconds": round(self.stop.cpu, 3),
            "seconds": round(monotonic() - self.begun, 3),
        }

    def _outcome(self) -> str:
        if self.stop.is_set:
            return "stopped"
        if self.answer is not None:
            return "answered"
        return "refused" if isinstance(self.error, QueryError) else "failed"


class Desk:
    """Limits the number of running and waiting queries; a user may have one at a time."""

    def __init__(self) -> None:
        self._asking: set[str] = set()
        self._limiter: CapacityLimiter | None = None

    async def ask(self, request: Request, user: BaseUser, question: SentQuery) -> Answer:
        """Answer a question in a thread, which is stopped if the client disconnects.

        Raises:
            BusyError: If no slot is free.
            RecordError: If it cannot be logged.
            PrivacyEngineError: As for `privacy_release.query.answer.answer`.
        """
        who = str(user.get_id())
        if who in self._asking:
            raise OneAtATimeError("Another query of yours is still running. Wait until it is finished.")
        at_once = conf.getint(_SECTION, "query_at_once", fallback=2)
        if len(self._asking) >= at_once + conf.getint(_SECTION, "query_waiting", fallback=8):
            raise BusyError("Too many queries are running. Send the query again in a few seconds.")
        if self._limiter is None:
            self._limiter = CapacityLimiter(at_once)
        query = _Query(question=question, user=user)
        self._asking.add(who)
        try:
            begun = await _until_gone(request, query.stop, query.work, self._limiter)
            if not begun:
                await to_thread.run_sync(query.record)
        finally:
            self._asking.discard(who)
        if query.error is not None:
            raise query.error
        if query.answer is None:
            raise QueryStoppedError("the query was stopped because its client disconnected")
        return query.answer


async def _until_gone(
    request: Request, stop: Stop, work: Callable[[], None], limiter: CapacityLimiter
) -> bool:
    """Do the work once it is its turn. Return whether it began before the client disconnected."""
    begun = False
    problems: list[RecordError] = []

    def begin() -> None:
        nonlocal begun
        begun = True
        try:
            work()
        except RecordError as error:  # a task group would wrap it
            problems.append(error)

    async with create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            stop.set()
            group.cancel_scope.cancel()  # no need to wait for its turn; work that has begun is waited for

        group.start_soon(watch)
        await to_thread.run_sync(begin, limiter=limiter)
        group.cancel_scope.cancel()
    if problems:
        raise problems[0]
    return begun


def _limits() -> Limits:
    return Limits(
        rows=conf.getint(_SECTION, "query_rows", fallback=10_000),
        size=conf.getint(_SECTION, "query_bytes", fallback=64_000_000),
        seconds=conf.getfloat(_SECTION, "query_seconds", fallback=30.0),
        memory=conf.getint(_SECTION, "query_memory", fallback=700_000_000),
    )


def _write_file(entry: dict[str, Any]) -> None:
    """Append a line to the file that `query_log` names; only the service user can read it."""
    named = conf.get(_SECTION, "query_log", fallback="")
    if not named:
        return
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(Path(named), flags, 0o600), "ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # several API servers may share the file
        stream.write((json.dumps(entry) + "\n").encode())
        stream.flush()
        os.fsync(stream.fileno())
