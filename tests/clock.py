"""Time as a test sets it: nothing waits while it passes, and files are as old as a test needs them."""

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

_SLEEP = time.sleep


class Clock:
    """Replaces the clock of this process for a test: a sleep does something else and takes no time.

    Attributes:
        seconds: What the clock shows after `stop`, 0 at first; each sleep adds its length.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        self._monkeypatch = monkeypatch

    def in_sleep(self, act: Callable[[float], object] = lambda seconds: None) -> None:
        """Let every sleep of this thread do this and return; nothing by default.

        Other threads go on sleeping: one that looks for work again and again would take a whole core. So does
        PySpark, which waits for its JVM.
        """
        thread = threading.get_ident()

        def sleep(seconds: float) -> None:
            caller = str(sys._getframe(1).f_globals["__name__"])
            if threading.get_ident() != thread or caller.startswith("pyspark."):
                _SLEEP(seconds)
                return
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
