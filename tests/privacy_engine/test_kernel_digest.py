"""What makes the machine code of a kernel stale, and what does not."""

import types
from pathlib import Path
from typing import Any

import pytest

from privacy_engine.kernel_digest import kernel_digest

SOURCE = """
from enum import IntEnum
from typing import NamedTuple

import numba
import numpy as np

LIMIT, STEPS, WEIGHTS = 3, (1, 2.5), np.array([1, 2])
UNKNOWN = [1]
UNUSED = 1

class Way(IntEnum):
    UP = 0
    DOWN = 1

class Inner(NamedTuple):
    low: int
    high: int

class Point(NamedTuple):
    x: int
    y: int
    around: Inner

def factory(shift: int):
    @numba.njit
    def shifted(number: int) -> int:
        return number + shift
    return shifted

shifted = factory(5)

@numba.njit
def deepest(number: int) -> int:
    '''Add some.'''
    return number + 11

@numba.njit(nogil=False)
def called(number: int) -> int:
    return deepest(number) if number > 0 else called(number + 1)

@numba.njit
def root(point: Point, times: int = 4) -> int:
    total = sum([point.x * LIMIT for _ in range(times)])
    return total + called(point.y) + STEPS[0] + WEIGHTS[1] + Way.DOWN + shifted(1)

@numba.njit
def unsure(number: int) -> int:
    return number + UNKNOWN[0]

@numba.njit
def untyped(point) -> int:
    return point.x
"""


def digest_of(source: str, name: str, place: Path) -> str:
    """The digest of a kernel of a module that has this source."""
    file = place / f"m{len(list(place.iterdir()))}.py"
    file.write_text(source)
    module = types.ModuleType("privacy_engine.made_up")
    exec(compile(source, str(file), "exec"), module.__dict__)
    dispatcher: Any = getattr(module, name)
    return kernel_digest(dispatcher.py_func, dispatcher.targetoptions)


@pytest.mark.parametrize(
    ("name", "was", "now"),
    [
        ("root", "point.x * LIMIT", "point.x - LIMIT"),
        ("root", "called(point.y)", "called(point.x)"),
        ("root", "LIMIT, STEPS, WEIGHTS = 3", "LIMIT, STEPS, WEIGHTS = 4"),
        ("root", "(1, 2.5)", "(1, 2)"),
        ("root", "np.array([1, 2])", "np.array([1, 3])"),
        ("root", "np.array([1, 2])", "np.array([1, 2], dtype=np.int32)"),
        ("root", "DOWN = 1", "DOWN = 2"),
        ("root", "factory(5)", "factory(6)"),
        ("root", "times: int = 4", "times: int = 5"),
        ("root", "number + 11", "number + 12"),
        ("root", "nogil=False", "nogil=True"),
        ("root", "x: int\n    y: int", "y: int\n    x: int"),
        ("root", "low: int\n    high: int", "high: int\n    low: int"),
        ("root", "low: int\n", "low: float\n"),
        ("called", "number + 1)", "number + 2)"),
        # Not understood, so the content of the file counts.
        ("unsure", "UNKNOWN = [1]", "UNKNOWN = [2]"),
        ("untyped", "x: int\n    y: int", "y: int\n    x: int"),
    ],
)
def test_what_machine_code_depends_on_makes_it_stale(name: str, was: str, now: str, tmp_path: Path) -> None:
    assert SOURCE.count(was) == 1
    assert digest_of(SOURCE, name, tmp_path) != digest_of(SOURCE.replace(was, now), name, tmp_path)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("UNUSED = 1", "UNUSED = 2"),
        ("UNKNOWN = [1]", "UNKNOWN = [2]  # of another function"),
        ("    total = sum", "    # A comment.\n\n    total = sum"),
        ("Add some.", "Add a number to another."),
        ("def untyped", "def renamed"),
    ],
)
def test_what_it_does_not_depend_on_does_not(was: str, now: str, tmp_path: Path) -> None:
    assert SOURCE.count(was) == 1
    assert digest_of(SOURCE, "root", tmp_path) == digest_of(SOURCE.replace(was, now), "root", tmp_path)
