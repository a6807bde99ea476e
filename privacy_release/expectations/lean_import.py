"""Import Great Expectations without loading modules that only few of its expectations use.

Importing any part of it imports all of it: each expectation and each source of data, and with them a plotting
library, SciPy's statistics and the clients of object stores. The gate reads whether expectations are met on a
table in memory; it draws nothing and fetches nothing. So these modules are loaded when they are first used,
for example by an expectation that compares distributions. That saves more than a third of the import's
processor time.

Python's own `importlib.util.LazyLoader` does the same, but before 3.11.9 and 3.12.3 a second thread that uses
a module while the first one loads it gets half of it (https://github.com/python/cpython/issues/114763).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import PathFinder
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec

SELDOM_USED = frozenset(
    {
        "altair",  # draws one chart
        "boto3",
        "great_expectations.compatibility.azure",
        "great_expectations.compatibility.google",
        "scipy.stats",  # for three expectations on distributions
    }
)

_UNUSED = "__unused__"  # holds the loader of a module until it is used
_LOADING = RLock()  # one for all modules, because loading one may require another


class _Later:
    """A finder for rarely used modules, which the import system then loads at first use."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the location of a module. None for other modules and for one that is not installed."""
        spec = PathFinder.find_spec(name, path, target) if name in SELDOM_USED else None
        if spec is not None and spec.loader is not None:
            spec.loader = _LaterLoader(spec.loader)
        return spec


class _LaterLoader(Loader):
    """A loader of modules that another loader fills when they are first used."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create a module like the other loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Postpone the execution."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        module.__dict__[_UNUSED] = self._loader
        module.__class__ = _LaterModule


class _LaterModule(ModuleType):
    """A module that is filled when it is first used, and an ordinary one from then on."""

    def __getattribute__(self, name: str) -> object:
        """Return an attribute. The first thread fills the module, and all others wait until it has."""
        with _LOADING:
            own = object.__getattribute__(self, "__dict__")
            if (loader := own.pop(_UNUSED, None)) is not None:
                try:
                    loader.exec_module(self)
                except BaseException:
                    own[_UNUSED] = loader  # the next thread tries again
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]  # it has no other fields
        return ModuleType.__getattribute__(self, name)


def import_great_expectations() -> None:
    """Import it. Modules that were imported earlier are not changed."""
    if "great_expectations" in sys.modules:
        return
    with _put_off():
        import_module("great_expectations")


@contextmanager
def _put_off() -> Iterator[None]:
    """Postpone loading of rarely used modules that are first imported in the block."""
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
