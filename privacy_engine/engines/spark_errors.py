"""Errors on their way from a worker of Spark to the caller, and Spark's own, without what they quote.

Spark writes a worker's exception, with the records that its text may quote, into its logs and into the
driver's exception. So what leaves a worker is the type of an error, and its message if it is one of ours; and
what leaves the driver is one of ours, without Spark's as its context: a logger would show that too.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from privacy_engine import errors
from privacy_engine.errors import CapacityError, EngineError, PrivacyEngineError, SchemaError, SpecError
from privacy_engine.foreign import translated

P = ParamSpec("P")
R = TypeVar("R")
_MARK = "privacy engine: "
_UNREADABLE = r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|PATH_NOT_FOUND|FileNotFoundException"
_LOST = r"ExecutorLostFailure|exited unexpectedly|MetadataFetchFailedException|OutOfMemoryError"


class WorkerError(Exception):
    """The only exception that leaves a worker; its text holds no cell."""


def from_worker(action: Callable[[], R]) -> R:
    """What an action in a worker gives back.

    Raises:
        WorkerError: whatever it raises.
    """
    try:
        return action()
    except Exception as error:  # noqa: BLE001  whatever it is, Spark must not get to see it
        told = told_of(error)
    # Here no other error is in hand, that Python would attach to this one and Spark would print.
    raise WorkerError(_MARK + json.dumps(told))


def told_of(error: Exception) -> dict[str, str | None]:
    """Type and message of an error of ours, or of the nearest one that others know; of any other its type."""
    error = translated(error, "the work on a fragment") or error
    if isinstance(error, PrivacyEngineError):
        kind = next(k.__name__ for k in type(error).__mro__ if getattr(errors, k.__name__, None) is k)
        return {"error": kind, "message": str(error)}
    return {"error": type(error).__name__, "message": None}


def error_of(told: Mapping[str, Any]) -> PrivacyEngineError:
    """The error that was told of."""
    if told["message"] is not None:
        kind: type[PrivacyEngineError] = getattr(errors, told["error"])
        return kind(told["message"])
    return EngineError(
        f"the work on a fragment must succeed, got {told['error']} in a worker of Spark; its message may "
        "quote records and was left there: release some of the records with the engine `local` to see it"
    )


def in_our_words(method: Callable[P, R]) -> Callable[P, R]:
    """A function that asks Spark, and raises nothing but errors of ours."""

    @wraps(method)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except PrivacyEngineError:
            raise
        except Exception as error:  # noqa: BLE001  py4j, gRPC and Spark share no base
            failure = failure_of(error)
        raise failure  # here, so that it has no context

    return asked


def failure_of(error: Exception) -> PrivacyEngineError:
    """What to say instead of an exception of Spark's: an error that a worker told of, or the kind alone."""
    text = _text(error)
    if (told := _worker_error_in(text)) is not None:
        return told
    if "No module named 'privacy_engine'" in text:
        return SpecError(
            "the Python of Spark's executors must have this package, in the same version, and has not; "
            "install it there, or name a Python that has it as spark.pyspark.python in the `conf` of the "
            "connection"
        )
    if unreadable := re.search(_UNREADABLE, text):
        file = re.search(r"(?i)error while reading file (\w+:/[^\n]*?\.parquet)", text)
        name = unquote(file[1]).rpartition("/")[2] if file else "every Parquet file"
        return SchemaError(
            f"{name} must be whole, and readable for all executors under the same path, got {unreadable[0]}; "
            "write it again, or keep the work area on storage that driver and executors share"
        )
    if "maxResultSize" in text:
        return CapacityError(
            "an answer must fit into the driver, got more than spark.driver.maxResultSize; raise it in the "
            "`conf` of the connection, and the driver's memory with it, or ask for fewer distinct values"
        )
    kind = getattr(error, "getCondition", lambda: None)() or type(error).__name__
    if lost := re.search(_LOST, text):
        return CapacityError(
            f"executors must live as long as their tasks, got {lost[0]} ({kind}) several times; give them "
            "more memory, make the fragments smaller, or look at the cluster; then retry"
        )
    return EngineError(f"Spark must finish what it is asked for, got {kind}; look at the cluster, then retry")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001  py4j asks the Java for the text, which may have died
        return f"{type(error).__name__}, and then {type(failed).__name__}"


def _worker_error_in(text: str) -> PrivacyEngineError | None:
    _, marked, rest = text.partition(_MARK)
    if not marked:
        return None
    try:
        return error_of(json.JSONDecoder().raw_decode(rest)[0])
    except ValueError:  # cut off on its way
        return None
