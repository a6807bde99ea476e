"""What a child process does at a step that a test chose: end at once, or wait for the parent."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def kill_me() -> None:
    """End this process; no clean-up runs."""
    os.kill(os.getpid(), signal.SIGKILL)


def say(text: str) -> None:
    """Tell the parent a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def rendezvous() -> None:
    """Tell the parent that the step is reached, and wait until it says go."""
    say("ready")
    sys.stdin.readline()


def after(step: Callable[..., Any], act: Callable[[], None], *, on_call: int = 1) -> Callable[..., Any]:
    """The step, then the act, on its n-th call."""
    calls = 0

    def watched(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        result = step(*args, **kwargs)
        calls += 1
        if calls == on_call:
            act()
        return result

    return watched


def before(step: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    """The act, then the step, on its first call."""
    pending = [act]

    def watched(*args: Any, **kwargs: Any) -> Any:
        if pending:
            pending.pop()()
        return step(*args, **kwargs)

    return watched
