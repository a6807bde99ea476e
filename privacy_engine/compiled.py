"""Compiled functions whose machine code is cached on disk until one of their sources changes.

Numba's own cache checks only the file that defines a function: if a called function changes in another file,
the old machine code of both still runs. And if no folder can hold the code, numba refuses to import the
function. The key used here covers the content of every source that a function can reach and the versions of
the compiler; numba adds those of Python and the processor. If no folder can hold the code, a warning says so.

This is the only module outside `engines` that reads and writes files: the sources and the machine code.
"""

import hashlib
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import llvmlite
import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.dispatcher import Dispatcher
from numba.misc.appdirs import AppDirs

F = TypeVar("F", bound=Callable[..., Any])
_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(rb"^[ \t]*(?:from|import) privacy_engine([.\w]*)", re.MULTILINE)


def kernel(
    *,
    nogil: bool = False,
    parallel: bool = False,
    inline: Literal["never", "always"] = "never",
    inner: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that compiles a function on its first call, or loads its cached machine code.

    Args:
        nogil: Whether the function releases the GIL while it runs.
        parallel: Whether `numba.prange` runs on all cores.
        inline: `always` replaces each call by the function's body.
        inner: Whether only compiled functions call the function. It then gets no entry point for Python,
            which saves a fifth of the compile time.
    """

    def compiled(function: F) -> F:
        # No caller needs a C function pointer.
        options = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
        njit: Any = numba.njit  # its annotations leave out two options
        dispatcher: Any = njit(nogil=nogil, parallel=parallel, inline=inline, **options)(function)
        if isinstance(dispatcher, Dispatcher):  # not if NUMBA_DISABLE_JIT is set
            plain = dispatcher.get_call_template
            dispatcher.get_call_template = _of_types(plain)  # type: ignore[method-assign]  # this instance only
            # As `cache=True` does with numba's own cache.
            dispatcher._cache = _KernelCache(function)  # type: ignore[attr-defined]  # annotations leave it out
            if inner:
                _keep_from_python(dispatcher)
        kept: F = dispatcher
        return kept

    return compiled


def _of_types(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Make numba compile a called function for the types of its arguments, not for literal values.

    Otherwise numba would compile it again for each literal: for an argument -1, or for the initial 0 of a
    variable.
    """

    def resolved(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        types = tuple(map(numba.types.unliteral, arguments))
        return resolve(types, {name: numba.types.unliteral(given) for name, given in named.items()})

    return resolved


def _keep_from_python(dispatcher: Any) -> None:
    """Make a call from Python raise an error; without its entry point, the call would end the process."""

    def add(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(
            f"only compiled functions may call {dispatcher.__name__}; drop `inner` from its decorator"
        )

    dispatcher.add_overload = add  # the default would look for the missing entry point
    dispatcher._compile_for_args = refuse


@cache
def cache_folder() -> Path | None:
    """Return the first writable folder for machine code; None if there is none.

    It is below $NUMBA_CACHE_DIR if that is set, otherwise next to the package or in the user's cache.
    """
    return next(filter(_is_writable, _folders()), None)


def source_digest(module: Path) -> str:
    """Return a digest of the sources in this package that a module can reach and of the compiler's versions.

    A module can only call functions and use constants of modules that it imports.
    """
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    reached: set[Path] = set()
    waiting = [module]
    while waiting:
        if (path := waiting.pop()) not in reached:
            reached.add(path)
            waiting += _imported(path)
    for path in sorted(reached):
        digest.update(_source_digest(path))
    return digest.hexdigest()


@cache
def _folders() -> tuple[Path, ...]:
    """Return the folders that may hold machine code, the preferred one first."""
    # Two installations must not keep overwriting each other's code.
    own = _CacheLocator.get_suitable_cache_subpath(__file__)
    if named := config.CACHE_DIR:  # type: ignore[attr-defined]  # numba sets its settings by their names
        return (Path(named) / own,)
    user = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    return _PACKAGE / "__pycache__" / "kernels", user / own


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Permissions are not enough: the file system may be read-only.
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


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


@cache
def _warn_that_nothing_is_kept() -> None:
    warnings.warn(
        f"compiled functions must be kept in a folder that can be written, found none of "
        f"{', '.join(map(str, _folders()))}: every process compiles them again, for up to a minute or two; "
        "set NUMBA_CACHE_DIR to such a folder",
        RuntimeWarning,
        stacklevel=2,
    )


class _ByContent(_CacheLocator):
    """Names the cache files of a function and gives the stamp that keeps them valid."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # numba reads this attribute for a warning
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> "_ByContent":
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(cache_folder() or _folders()[0])

    def get_source_stamp(self) -> str:
        return source_digest(Path(self._py_file))

    def get_disambiguator(self) -> str:
        return f"{Path(self._py_file).parent.name}-{self._line}"


class _ResultsByContent(CompileResultCacheImpl):
    _locator_classes = [_ByContent]  # noqa: RUF012 -- numba declares it so


class _KernelCache(FunctionCache):
    """Machine code of a function: searched for in all folders, saved in the first writable one."""

    _impl_class = _ResultsByContent

    def _load_overload(self, signature: Any, target: Any) -> Any:
        key = self._index_key(signature, target.codegen())
        for folder in _folders():
            with suppress(OSError):  # the folder is missing or belongs to another user
                if (kept := self._index(folder).load(key)) is not None:
                    return self._impl.rebuild(target, kept)
        return None

    def _save_overload(self, signature: Any, result: Any) -> None:
        if not self._impl.check_cachable(result):
            return
        folder = cache_folder()
        try:
            if folder is None:
                raise FileNotFoundError
            folder.mkdir(parents=True, exist_ok=True)  # it may have been removed meanwhile
            self._index(folder).save(self._index_key(signature, result.codegen), self._impl.reduce(result))
        except OSError:  # also a full disk: the compiled function runs anyway
            _warn_that_nothing_is_kept()

    def _index(self, folder: Path) -> IndexDataCacheFile:
        stamp = self._cache_file._source_stamp
        return IndexDataCacheFile(str(folder), self._impl.filename_base, stamp)
