"""A digest of all that the machine code of a kernel depends on, so that nothing else makes it stale.

Machine code contains a function's bytecode, the values of its global names, and the functions that it calls.
The layout of its arguments follows from their classes, which annotations name. Each of these is described by
its content: a comment, a docstring, or another function of the same file changes nothing.

Where something is not understood here, the content of whole files counts: of the kernel's file and all files
of this package that it imports, directly or not. To compile once too often costs seconds; old machine code
could break a guarantee.
"""

import hashlib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, EnumType
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(rb"^[ \t]*(?:from|import) privacy_engine([.\w]*)", re.MULTILINE)
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def kernel_digest(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Return a digest of a function, of what it reaches, and of the compiler's versions.

    Args:
        function: Function to compile, whose module has been imported completely.
        options: Options of the compiler for this function.
    """
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    digest.update(_source_digest(_PACKAGE / "compiled.py"))
    for text in _Description(function).of_function(function, options):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


class _Description:
    """The texts that describe a function, each function and class once.

    Args:
        root: Function whose file stands for what is not understood.
    """

    def __init__(self, root: Callable[..., Any]) -> None:
        self.root = root
        self.numbers: dict[int, int] = {}  # identity of a described function or class -> its number

    def of_function(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Iterator[str]:
        """Yield texts for the code, what its names stand for, and the classes of its arguments."""
        if (again := self._again(function)) is not None:
            yield again
            return
        yield f"function {sorted(options.items())}"
        code, names = function.__code__, dict[str, Any]()
        yield from _of_code(code, function.__doc__, function.__globals__, names)
        for name, value in names.items():
            yield from self.of_value(name, value)
        for cell in function.__closure__ or ():
            yield from self.of_value("closure", cell.cell_contents)
        yield from self.of_value("defaults", function.__defaults__)
        yield from self.of_value("defaults by name", tuple(sorted((function.__kwdefaults__ or {}).items())))
        hints = _hints_of(function)
        if len(hints) < code.co_argcount + code.co_kwonlyargcount + 1:  # one is for the result
            yield self._of_files()
        for name, hint in hints.items():
            yield from self.of_class(name, hint)

    def of_value(self, name: str, value: Any) -> Iterator[str]:
        """Yield texts for a value that a function uses."""
        kind = type(value)
        if isinstance(value, Dispatcher):
            yield name
            yield from self.of_function(value.py_func, value.targetoptions)
        elif kind in _PLAIN:
            yield f"{name} {kind.__name__} {value!r}"
        elif kind is tuple:
            yield f"{name} tuple {len(value)}"
            for part in value:
                yield from self.of_value("part", part)
        elif isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biufc":
            yield f"{name} {value.dtype.str} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, type):
            yield from self.of_class(name, value)
        elif isinstance(value, types.ModuleType) and not _is_ours(value.__name__):
            yield f"{name} {value.__name__}"
        else:
            yield f"{name} {self._of_files()}"

    def of_class(self, name: str, hint: Any) -> Iterator[str]:
        """Yield texts for a class, or for the classes of an annotation."""
        if parts := typing.get_args(hint):
            yield f"{name} {typing.get_origin(hint)}"
            for part in parts:
                yield from self.of_class("part", part)
        elif isinstance(hint, EnumType):
            members: list[Enum] = list(hint)
            yield f"{name} {hint.__qualname__} {[(member.name, member.value) for member in members]}"
        elif isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
            yield f"{name} {hint.__qualname__} {hint._fields}"
            if (again := self._again(hint)) is not None:
                yield again
                return
            hints = _hints_of(hint)
            if len(hints) < len(hint._fields):
                yield self._of_files()
            for field, of in hints.items():
                yield from self.of_class(field, of)
        elif _is_ours(getattr(hint, "__module__", "")):
            yield f"{name} {hint} {self._of_files()}"
        else:
            yield f"{name} {hint}"

    def _again(self, what: Any) -> str | None:
        """Return a text for what was described before; None if it was not."""
        if (number := self.numbers.get(id(what))) is not None:
            return f"number {number}"
        self.numbers[id(what)] = len(self.numbers)
        return None

    def _of_files(self) -> str:
        return source_digest(Path(self.root.__code__.co_filename))


def _of_code(
    code: types.CodeType, doc: str | None, known: Mapping[str, Any], names: dict[str, Any]
) -> Iterator[str]:
    """Yield texts for bytecode without line numbers, and collect the values of its global names."""
    yield f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_names} {code.co_varnames}"
    yield f"{code.co_freevars} {code.co_cellvars} {code.co_code.hex()} {code.co_exceptiontable.hex()}"
    names |= {name: known[name] for name in code.co_names if name in known}
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _of_code(constant, None, known, names)
        elif not (place == 0 and doc is not None and constant == doc):
            yield _constant(constant)


def _constant(constant: Any) -> str:
    """Return a text for a constant of bytecode, the same for sets in another order."""
    if isinstance(constant, frozenset):
        return f"frozenset {sorted(map(_constant, constant))}"
    if isinstance(constant, tuple):
        return f"tuple {[*map(_constant, constant)]}"
    return f"{type(constant).__name__} {constant!r}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE.name


def _hints_of(what: Any) -> dict[str, Any]:
    """Return annotations; none if a name of theirs is only known to a type checker."""
    try:
        return typing.get_type_hints(what)
    except NameError:
        return {}


@cache
def source_digest(path: Path) -> str:
    """Return a digest of a source and all sources of this package that it imports, directly or not."""
    digest = hashlib.sha256()
    reached: set[Path] = set()
    waiting = [path]
    while waiting:
        if (path := waiting.pop()) not in reached:
            reached.add(path)
            waiting += _imported(path)
    for path in sorted(reached):
        digest.update(_source_digest(path))
    return digest.hexdigest()


@cache
def _source(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _source_digest(path: Path) -> bytes:
    return hashlib.sha256(_source(path)).digest()


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Return the sources that a source imports; importing a package counts as importing all its modules."""
    return tuple(
        source for name in _IMPORT.findall(_source(path)) for source in _sources(name.decode().split(".")[1:])
    )


def _sources(parts: list[str]) -> Iterator[Path]:
    place = _PACKAGE.joinpath(*parts)
    if place.is_dir():
        yield from sorted(place.rglob("*.py"))
    else:
        yield place.with_suffix(".py")
