"""The boundary between the engine's errors and Airflow's: what is retried, and no cell value in a log.

Libraries quote cells in their messages (`could not convert string to float: '...'`), and Airflow logs the
exception of a failed task with its causes. Hence only messages of this project leave a task. Of any other
error, only the type and the place are logged.
"""

import functools
import os
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from airflow_privacy_release.compat import WAITING, AirflowException, AirflowFailException
from airflow_privacy_release.task.paid import is_paid
from airflow_privacy_release.task.run import local_files, progressing, release_id, run_journal
from privacy_engine.errors import (
    CapacityError,
    EngineError,
    IntegrityError,
    LedgerError,
    PrivacyEngineError,
    PublishError,
    SourceError,
    WorkAreaError,
)
from privacy_engine.foreign import is_panic, translated
from privacy_release.config.settings import let_idle_threads_sleep
from privacy_release.workarea.references import plain

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from privacy_release.workarea.journal import Journal

PACKAGES = frozenset(
    {"airflow_privacy_release", "privacy_release", "privacy_engine"}
)  # whose places in the code are logged

P = ParamSpec("P")
Operator = TypeVar("Operator", bound="BaseOperator")


ENTRY = "journal_entry"  # passed by a deferred task to the method that resumes it
_INSIDE: ContextVar[bool] = ContextVar("inside of a guarded call", default=False)
_UPGRADED = (
    "the task began before this deployment was upgraded, so its earlier state cannot be verified. Clear the "
    "run and start again"
)


class _Frame(NamedTuple):
    module: str
    file: str
    line: int


class UnexpectedError(AirflowException):
    """An error that this project did not foresee. A retry may help (network, another worker)."""


def guarded(
    execute: Callable[Concatenate[Operator, P], Any],
) -> Callable[Concatenate[Operator, P], Any]:
    """Decorate an operator's `execute` to take only recorded values and raise only errors safe to log.

    The values that it takes from tasks of this package come from the journal of the run. A value that differs
    fails the task without retries, see `task.chain`. While it runs, its fields in `references` have the types
    given there, and references that it returns become plain values, as XComs must be. It reports its
    progress, see `progressing`. If workers share no folder, its files are fetched before, and those that it
    hands on are sent afterwards, see `local_files`.

    - An error of the engine fails the task at once, with its own message: the same input would fail again.
    - A `PublishError`, `LedgerError`, `WorkAreaError`, `SourceError`, `EngineError` or `CapacityError` is
      retried: the lake, the ledger, the store or the database may be available again, and another worker may
      have the memory. Errors of other libraries with the same meaning are retried as well: no memory, no
      disk, or a crash of native code.
    - Any other error is retried as `UnexpectedError`, which has the type and place but not the message.

    Inside another guarded call, such as a subclass calling `super().execute()`, it only calls `execute`.
    """
    return _guarded(execute, is_recorded=False)


def recorded(
    execute: Callable[Concatenate[Operator, P], Any],
) -> Callable[Concatenate[Operator, P], Any]:
    """Guard a method like `guarded`, and keep the returned value in the run's journal for later tasks.

    A method that resumes after a deferral continues the entry that `execute` began.
    """
    return _guarded(execute, is_recorded=True)


def _guarded(
    execute: Callable[Concatenate[Operator, P], Any], *, is_recorded: bool
) -> Callable[Concatenate[Operator, P], Any]:
    @functools.wraps(execute)
    def run(self: Operator, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        if _INSIDE.get():
            return execute(self, *args, **kwargs)
        let_idle_threads_sleep()
        context: Any = args[0] if args else kwargs["context"]  # Airflow passes it by keyword
        token = _INSIDE.set(True)
        try:
            begun: Any = kwargs.pop(ENTRY, None)
            journal = run_journal(context) if is_recorded or "dag" in context else None
            if journal is not None and (done := _done_before(self, context, journal)) is not None:
                return plain(done)
            with local_files(self, context, journal) as work, progressing(self, context):
                if journal is None or not is_recorded:
                    return work.send(plain(execute(self, *args, **kwargs)))
                if begun is None and "dag" in context and execute.__name__ != "execute":
                    raise IntegrityError(_UPGRADED)
                task, index = context["ti"].task_id, getattr(context["ti"], "map_index", None)
                place = (task, -1 if index is None else index)
                entry = journal.begin(*place) if begun is None else int(begun)
                try:
                    value = work.send(plain(execute(self, *args, **kwargs)))
                except WAITING as waiting:
                    waiting.kwargs = {**(waiting.kwargs or {}), ENTRY: entry}
                    raise
                journal.record(*place, entry, value)
                return value
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            if isinstance(error, PrivacyEngineError) and is_paid(self):
                error = _without_counts(error, context)
            safe = _safe(error, type(self).__name__)
        finally:
            _INSIDE.reset(token)
        # Raised outside of the handler, so that the original error is not logged as its context.
        raise safe

    run.is_recorded = is_recorded  # type: ignore[attr-defined]  # see `task.chain.hands_on`
    return run


def _done_before(operator: Any, context: Mapping[str, Any], journal: "Journal") -> Any:
    """Return the earlier result of a task whose work area is gone, if its operator can reconstruct it."""
    find = getattr(operator, "done_before", None)
    return find(context) if find is not None and journal.is_empty else None


def _without_counts(error: PrivacyEngineError, context: Mapping[str, Any]) -> PrivacyEngineError:
    from privacy_release.steps.counts import hide_counts

    return hide_counts(error, context["ti"].dag_id, release_id(context))


def _safe(error: BaseException, step: str) -> Exception:
    if isinstance(error, AirflowException):
        error.__cause__ = error.__context__ = None
        return error
    if ours := translated(error, step):
        return ours
    if isinstance(
        error, PublishError | LedgerError | WorkAreaError | SourceError | EngineError | CapacityError
    ):
        return type(error)(str(error))
    if isinstance(error, PrivacyEngineError):
        return AirflowFailException(str(error))
    withheld = "its message is withheld because it may quote records. Repeat the step where you may see them"
    return UnexpectedError(
        f"{step} failed with {type(error).__name__} at {_place(error)}: {_message_of(error) or withheld}"
    )


def _message_of(error: BaseException) -> str:
    """Return the message of a system error, or one about code; both quote no record."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) if isinstance(error, ImportError | NameError) else ""


def _place(error: BaseException) -> str:
    """Return file and line of the innermost frame, and of the innermost frame in this project."""
    walked = traceback.walk_tb(error.__traceback__)
    frames = [_Frame(f.f_globals.get("__name__", ""), f.f_code.co_filename, line) for f, line in walked]
    ours = [frame for frame in frames if frame.module.partition(".")[0] in PACKAGES]
    chosen = dict.fromkeys(_short(frame) for frame in (*ours[-1:], *frames[-1:]))
    return ", in ".join(chosen) or "an unknown place"


def _short(frame: _Frame) -> str:
    return f"{'/'.join(Path(frame.file).parts[-3:])}:{frame.line}"
