"""Time as a test sets it: nothing waits while it passes, and files are as old as a test needs them."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest


class Clock:
    """Replaces the clock of this process for a test: a sleep does something else and takes no time.

    Attributes:
        seconds: What the clock shows after `stop`, 0 at first; each sleep adds its length.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self._monkeypatch = monkeypatch

    def in_sleep(self, act: Callable[[float], object] = lambda seconds: None) -> None:
        """Let every sleep of this process do this and return; nothing by default."""

        def sleep(seconds: float) -> None:
            self.seconds += seconds
            act(seconds)

        self._monkeypatch.setattr(time, "sleep", sleep)

    def stop(self) -> None:
        """Let time pass during sleeps only."""
        self._monkeypatch.setattr(time, "monotonic", lambda: self.seconds)
        self.in_sleep()


def make_older(path: Path, age: timedelta) -> None:
    """Let a file have been written this long ago."""
    then = time.time() - age.total_seconds()
    os.utime(path, (then, then))
