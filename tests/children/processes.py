"""Processes that do a test's work, and end by SIGKILL or wait for the test at a step of it.

They are forked from a server that has imported what they need, so that each costs milliseconds.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from typing import Any

from deploy.local.embedded import checkout
from tests.children.fault_points import arm

KILL, MEET = "kill", "meet"
# What the work imports only once it needs it: each process would again.
LATE = (
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "deltalake.fs",
    "duckdb",
    "pyarrow.dataset",
)


def kill_me() -> None:
    """End this process; no clean-up runs."""
    os.kill(os.getpid(), signal.SIGKILL)


_TEST: list[Connection] = []  # in a child: the line to the test


def report(value: Any) -> None:
    """Report a value to the test, and go on."""
    _TEST[0].send(("reported", value))


def meet() -> None:
    """Report to the test that this process is here, and wait until it says go."""
    _TEST[0].send(("ready", None))
    _TEST[0].recv()


@cache
def _context() -> ForkServerContext:
    """The server; it finds the modules of the tests by the environment that it is started with."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.children.work", "tests.object_stores.publisher", *LATE])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(checkout())
    try:
        ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


class Child:
    """A process that does one piece of work.

    Args:
        work: A function of a module.
        *arguments: What it gets.
        at: What happens at which step: `KILL` ends the process there, at `MEET` it waits for `go`.
        environment: Variables to set first.
        **more: Further arguments of the work.
    """

    def __init__(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        at: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        self._here, there = multiprocessing.Pipe()
        self._result: Any = None
        given = (there, work, arguments, more, dict(at or {}), dict(environment or {}))
        self._process = _context().Process(target=_do, args=given)
        self._process.start()
        there.close()

    def reported(self) -> Any:
        """The next value that it reports."""
        kind, value = self._here.recv()
        assert kind == "reported"
        return value

    def ready(self) -> None:
        """Wait until it reaches its next meeting point."""
        try:
            assert self._here.recv() == ("ready", None)
        except EOFError:
            raise AssertionError("the process ended before it reached the meeting point") from None

    def go(self) -> None:
        """Let it go on from the meeting point."""
        self._here.send("go")

    def kill(self) -> None:
        """End it by SIGKILL; to be waited for by `killed`."""
        self._process.kill()

    def killed(self) -> None:
        """Wait for its end by SIGKILL."""
        self.ended()
        assert self._process.exitcode == -signal.SIGKILL

    def done(self) -> Any:
        """Wait for its end; what the work returned."""
        self.ended()
        assert self._process.exitcode == 0
        return self._result

    def ended(self) -> Any:
        """Wait for its end, by SIGKILL or of the work; what the work returned, None if it was killed."""
        with suppress(EOFError, ConnectionResetError):
            _, self._result = self._here.recv()
        self._process.join()
        assert self._process.exitcode in (0, -signal.SIGKILL)
        return self._result


def at_once(*children: Child, meetings: int = 1) -> list[Any]:
    """Let all reach each meeting point before any goes on; what they returned."""
    for _ in range(meetings):
        for child in children:
            child.ready()
        for child in children:
            child.go()
    return [child.done() for child in children]


def _do(
    connection: Connection,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    more: dict[str, Any],
    at: dict[str, str],
    environment: dict[str, str],
) -> None:
    _TEST.append(connection)
    os.environ.update(environment)
    for point, act in at.items():
        arm(point, kill_me if act == KILL else meet)
    connection.send(("done", work(*arguments, **more)))
