"""Errors passed from a Spark worker to the caller, and Spark's own errors without what they quote.

Spark writes a worker's exception, with the records that its text may quote, into its logs and into the
driver's exception. So only the type of an error leaves a worker, and its message if the error is one of this
project. The driver raises only errors of this project, without Spark's as context: a logger would show it
too.
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
    """The only exception that leaves a worker; its text contains no cell."""


def from_worker(action: Callable[[], R]) -> R:
    """Return the result of an action in a worker.

    Raises:
        WorkerError: For any error.
    """
    try:
        return action()
    except Exception as error:  # noqa: BLE001  Spark must not see any error
        description = description_of(error)
    # No other error is being handled here that Python would attach and Spark would print.
    raise WorkerError(_MARK + json.dumps(description))


def description_of(error: Exception) -> dict[str, str | None]:
    """Return type and message of a known error, or of the nearest public one; of any other only its type."""
    error = translated(error, "the work on a fragment") or error
    if isinstance(error, PrivacyEngineError):
        kind = next(k.__name__ for k in type(error).__mro__ if getattr(errors, k.__name__, None) is k)
        return {"error": kind, "message": str(error)}
    return {"error": type(error).__name__, "message": None}


def error_of(description: Mapping[str, Any]) -> PrivacyEngineError:
    """Return the error that was described."""
    if description["message"] is not None:
        kind: type[PrivacyEngineError] = getattr(errors, description["error"])
        return kind(description["message"])
    return EngineError(
        f"the work on a fragment failed with {description['error']} in a Spark worker. Its message may quote "
        "records and is not shown. To see it, release some of the records with the engine `local`"
    )


def in_our_words(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that uses Spark to raise only errors of this project."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except PrivacyEngineError:
            raise
        except Exception as error:  # noqa: BLE001  py4j, gRPC and Spark share no base
            failure = failure_of(error)
        raise failure  # here, so that it has no context

    return call


def failure_of(error: Exception) -> PrivacyEngineError:
    """Return the error that replaces an exception of Spark's: a worker's error, or only its kind."""
    text = _text(error)
    if (reported := _worker_error_in(text)) is not None:
        return reported
    if "No module named 'privacy_engine'" in text:
        return SpecError(
            "the Python of Spark's executors does not have this package in the same version. Install "
            "it there, or name a Python that has it as spark.pyspark.python in the `conf` of the "
            "connection"
        )
    if unreadable := re.search(_UNREADABLE, text):
        file = re.search(r"(?i)error while reading file (\w+:/[^\n]*?\.parquet)", text)
        name = unquote(file[1]).rpartition("/")[2] if file else "every Parquet file"
        return SchemaError(
            f"{name} must be complete and readable by all executors under the same path, got "
            f"{unreadable[0]}. "
            "Write it again, or keep the work area on storage that driver and executors share"
        )
    if "maxResultSize" in text:
        return CapacityError(
            "an answer is larger than spark.driver.maxResultSize. Raise that limit in the "
            "`conf` of the connection, and the driver's memory with it, or request fewer distinct values"
        )
    kind = getattr(error, "getCondition", lambda: None)() or type(error).__name__
    if lost := re.search(_LOST, text):
        return CapacityError(
            f"executors died before their tasks ended, {lost[0]} ({kind}), several times. Give them "
            "more memory, make the fragments smaller, or check the cluster. Then retry"
        )
    return EngineError(f"Spark failed with {kind}. Check the cluster, then retry")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001  py4j reads the text from the Java process, which may have died
        return f"{type(error).__name__}, and then {type(failed).__name__}"


def _worker_error_in(text: str) -> PrivacyEngineError | None:
    _, marked, rest = text.partition(_MARK)
    if not marked:
        return None
    try:
        return error_of(json.JSONDecoder().raw_decode(rest)[0])
    except ValueError:  # truncated in transit
        return None
