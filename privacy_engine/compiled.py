"""Compiled functions: machine code that is kept between processes for as long as its sources stay the same.

Numba's own cache looks at the file of a function alone: when a function that it calls has changed, in another
file, the old machine code of both runs. And where no folder can hold the code, numba refuses to import the
function. Here the key is the content of every source that a function can reach, with the versions of the
compiler; numba adds those of Python and the processor. Where no folder can hold the code, a warning says so.

This is the one module outside `engines` that reads and writes files: the sources, and the machine code.
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
    """A decorator that compiles a function at its first call, or loads what an earlier process compiled.

    Args:
        nogil: let other threads run meanwhile.
        parallel: spread `numba.prange` over the cores.
        inline: `always` puts the function's body in the place of each call.
        inner: Only compiled functions call it. The entry point for Python is then not made, which saves a
            fifth of the time to compile.
    """

    def compiled(function: F) -> F:
        # No caller takes the address of a function as C does.
        options = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
        njit: Any = numba.njit  # its annotations leave out two options
        dispatcher: Any = njit(nogil=nogil, parallel=parallel, inline=inline, **options)(function)
        if isinstance(dispatcher, Dispatcher):  # not where numba is told to leave functions as they are
            plain = dispatcher.get_call_template
            dispatcher.get_call_template = _of_types(plain)  # type: ignore[method-assign]  # of this one alone
            # As `cache=True` does with numba's own cache.
            dispatcher._cache = _KernelCache(function)  # type: ignore[attr-defined]  # annotations leave it out
            if inner:
                _keep_from_python(dispatcher)
        kept: F = dispatcher
        return kept

    return compiled


def _of_types(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Have what a compiled function calls compiled for the types of its arguments, not for their values.

    Numba would compile it once more for each literal: for a -1 that is given, and for the 0 that a variable
    has at first.
    """

    def resolved(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        types = tuple(map(numba.types.unliteral, arguments))
        return resolve(types, {name: numba.types.unliteral(given) for name, given in named.items()})

    return resolved


def _keep_from_python(dispatcher: Any) -> None:
    """Have Python refuse to call a function of compiled ones, which would end the process."""

    def add(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(
            f"only compiled functions may call {dispatcher.__name__}; drop `inner` from its decorator"
        )

    dispatcher.add_overload = add  # without it Python finds nothing to call, and has it compiled
    dispatcher._compile_for_args = refuse


@cache
def cache_folder() -> Path | None:
    """Where machine code is kept: the first folder that can be written; None where there is none.

    That is below $NUMBA_CACHE_DIR where it is set, else beside the package, else in the user's cache.
    """
    return next(filter(_is_writable, _folders()), None)


def source_digest(module: Path) -> str:
    """A digest of the sources of this package that a module can reach, and of the compiler's versions.

    What a module does not import it cannot call, nor take a constant from.
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
    """Where machine code may be, best first."""
    # Two installations must not take turns in overwriting each other's code.
    own = _CacheLocator.get_suitable_cache_subpath(__file__)
    if named := config.CACHE_DIR:  # type: ignore[attr-defined]  # numba sets its settings by their names
        return (Path(named) / own,)
    user = Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    return _PACKAGE / "__pycache__" / "kernels", user / own


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Permissions alone do not tell: the file system may be read-only.
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
    """The sources that a source imports; a package that is imported as a whole stands for all its modules."""
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
        f"{', '.join(map(str, _folders()))}: every process compiles anew, for up to a minute or two; "
        "set NUMBA_CACHE_DIR to such a folder",
        RuntimeWarning,
        stacklevel=2,
    )


class _ByContent(_CacheLocator):
    """What names and dates the machine code of a function."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # numba's name: it is told in a warning
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
    """Machine code of a function; looked for in all folders, kept in the first that can be written."""

    _impl_class = _ResultsByContent

    def _load_overload(self, signature: Any, target: Any) -> Any:
        key = self._index_key(signature, target.codegen())
        for folder in _folders():
            with suppress(OSError):  # a folder that is not there, or is another user's
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
        except OSError:  # also a full disk: what was compiled runs all the same
            _warn_that_nothing_is_kept()

    def _index(self, folder: Path) -> IndexDataCacheFile:
        stamp = self._cache_file._source_stamp
        return IndexDataCacheFile(str(folder), self._impl.filename_base, stamp)
