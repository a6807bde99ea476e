"""The edge between the engine's errors and Airflow's: what is retried, and that no cell value reaches a log.

Libraries quote cells in their messages (`could not convert string to float: '...'`), and Airflow logs the
exception of a failed task with all that led to it. Hence only messages of our own leave a task; of any
other error only the type and the place do.
"""

import functools
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from airflow_privacy_release.compat import AirflowException, AirflowFailException
from airflow_privacy_release.task.run import local_files, progressing
from privacy_engine.errors import (
    CapacityError,
    EngineError,
    LedgerError,
    PrivacyEngineError,
    PublishError,
    SourceError,
    WorkAreaError,
)
from privacy_engine.foreign import is_panic, translated
from privacy_release.work.settings import let_idle_threads_sleep

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

PACKAGES = frozenset(
    {"airflow_privacy_release", "privacy_release", "privacy_engine"}
)  # whose places are told

P = ParamSpec("P")
R = TypeVar("R")
Operator = TypeVar("Operator", bound="BaseOperator")


class _Frame(NamedTuple):
    module: str
    file: str
    line: int


class UnexpectedError(AirflowException):
    """Something that this project did not foresee; a retry may help (network, another worker)."""


def guarded(
    execute: Callable[Concatenate[Operator, P], R],
) -> Callable[Concatenate[Operator, P], R]:
    """Make an operator's `execute` find its files, and raise only errors that may be logged.

    It tells how far it is, see `progressing`. Where workers share no folder, the files that it was told of
    are fetched before, and those that it tells of are sent after, see `local_files`.

    - An error of the engine fails the task at once, with its own message: the same input would fail again.
    - A `PublishError`, `LedgerError`, `WorkAreaError`, `SourceError`, `EngineError` or `CapacityError` is
      retried: the lake, the ledger, the store or the database may be back by then, and another worker may
      have the memory. So is another library's error that means as much: no memory, no disk, or a breakdown
      of native code.
    - Any other error is retried as `UnexpectedError`, which names type and place and drops the message.
    """

    @functools.wraps(execute)
    def run(self: Operator, /, *args: P.args, **kwargs: P.kwargs) -> R:
        let_idle_threads_sleep()
        try:
            context: Any = args[0] if args else kwargs["context"]  # Airflow gives it by its name
            with local_files(self, context) as work, progressing(self, context):
                return work.send(execute(self, *args, **kwargs))
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            safe = _safe(error, type(self).__name__)
        # Raised out here, it has no context: the original error would be logged along with it.
        raise safe

    return run


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
    withheld = "its message is withheld, it may quote records; repeat the step where they may be seen"
    return UnexpectedError(
        f"{step} failed with {type(error).__name__} at {_place(error)}: {_told(error) or withheld}"
    )


def _told(error: BaseException) -> str:
    """What may be told: the words of the system, and messages that are about code."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) if isinstance(error, ImportError | NameError) else ""


def _place(error: BaseException) -> str:
    """File and line of the innermost frame, and of the innermost one in this project."""
    walked = traceback.walk_tb(error.__traceback__)
    frames = [_Frame(f.f_globals.get("__name__", ""), f.f_code.co_filename, line) for f, line in walked]
    ours = [frame for frame in frames if frame.module.partition(".")[0] in PACKAGES]
    chosen = dict.fromkeys(_short(frame) for frame in (*ours[-1:], *frames[-1:]))
    return ", in ".join(chosen) or "an unknown place"


def _short(frame: _Frame) -> str:
    return f"{'/'.join(Path(frame.file).parts[-3:])}:{frame.line}"
