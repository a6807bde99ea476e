"""Errors on their way out of a worker, without Spark."""

import json
import traceback

import pytest

from privacy_engine.engines.spark_errors import (
    description_of,
    error_of,
    failure_of,
    from_worker,
    in_our_words,
)
from privacy_engine.errors import CapacityError, EngineError, InfeasibleError, SchemaError, SpecError

CANARY = "CANARY-5b21"


class StricterError(InfeasibleError):
    """An error type that the driver need not know."""


def raising(error: Exception) -> None:
    raise error


def quoting() -> None:
    try:
        raise KeyError(CANARY)
    except KeyError:
        raise ValueError(f"cannot convert {CANARY}")  # noqa: B904  as careless libraries do


def test_what_leaves_a_worker_has_neither_text_nor_context_of_a_foreign_error() -> None:
    with pytest.raises(Exception, match="ValueError") as caught:
        from_worker(quoting)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", [InfeasibleError('9 rows "cannot" {be} so'), SchemaError("a\nb")], ids=repr)
def test_an_error_of_ours_is_found_in_whatever_spark_makes_of_it(error: Exception) -> None:
    with pytest.raises(Exception, match="privacy engine") as caught:
        from_worker(lambda: raising(error))
    wrapped = RuntimeError(
        f"Job aborted: Traceback (most recent call last):\n{caught.value}\n\n\tat java.lang"
    )
    found = failure_of(wrapped)
    assert (type(found), str(found)) == (type(error), str(error))


def test_an_error_type_that_is_not_known_everywhere_arrives_as_its_nearest_known_one() -> None:
    found = error_of(json.loads(json.dumps(description_of(StricterError("lower k")))))
    assert (type(found), str(found)) == (InfeasibleError, "lower k")


def test_an_error_that_was_cut_off_is_still_reported_without_its_text() -> None:
    found = failure_of(RuntimeError(f'privacy engine: {{"error": "SchemaError", "message": "{CANARY}'))
    assert type(found) is EngineError
    assert CANARY not in str(found)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[FAILED_READ_FILE.NO_HINT] Error while reading file", SchemaError),
        ("Total size of results is bigger than spark.driver.maxResultSize (1024.0 MiB)", CapacityError),
        ("java.io.FileNotFoundException: File does not exist", SchemaError),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", CapacityError),
        ("Python worker exited unexpectedly (crashed)", CapacityError),
        ("ModuleNotFoundError: No module named 'privacy_engine'", SpecError),
        ("something else", EngineError),
    ],
)
def test_spark_s_own_errors_become_what_one_can_do_about_them(text: str, kind: type[Exception]) -> None:
    found = failure_of(RuntimeError(f"{text} {CANARY}"))
    assert type(found) is kind
    assert CANARY not in str(found)


def test_nothing_foreign_leaves_the_driver() -> None:
    with pytest.raises(EngineError) as caught:
        in_our_words(quoting)()
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_an_error_that_cannot_say_what_it_is_is_reported_by_its_kind() -> None:
    class DeadError(Exception):
        def __str__(self) -> str:
            raise ConnectionError(CANARY)

    assert "failed with DeadError" in str(failure_of(DeadError()))
