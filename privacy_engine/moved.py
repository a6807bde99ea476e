"""Former names of modules and arguments, which work until version 0.3 and warn."""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
_LAST = "0.3"


def redirect(moved: Mapping[str, str]) -> None:
    """Let modules that moved be imported by their former names, too.

    Args:
        moved: Present name of each moved module or package by its former name; a package includes its
            modules.
    """
    sys.meta_path.insert(0, _Former(moved))  # first, since other finders would load a second copy of a module


def renamed(former: str, present: str) -> Callable[[F], F]:
    """Let a function accept an argument by its former keyword, too.

    Args:
        former: Former name of the argument.
        present: Present name of the argument.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def accepting(*args: Any, **kwargs: Any) -> Any:
            if former in kwargs:
                warnings.warn(
                    f"the argument {former} of {function.__name__} is now {present}; the former name ends "
                    f"with version {_LAST}",
                    DeprecationWarning,
                    stacklevel=2,
                )
                if present in kwargs:
                    raise TypeError(f"{function.__name__} got both {present} and {former}, its former name")
                kwargs[present] = kwargs.pop(former)
            return function(*args, **kwargs)

        return cast(F, accepting)

    return decorate


class _Former(MetaPathFinder, Loader):
    """Finds a module by its former name; both names give the same module object."""

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = dict(sorted(moved.items(), reverse=True))  # a module before its package
        self.packages = {former.partition(".")[0] for former in moved}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:  # nearly every import of a process
            return None
        for former, present in self.moved.items():
            if fullname == former or fullname.startswith(f"{former}."):
                name = present + fullname.removeprefix(former)
                warnings.warn(
                    f"{fullname} is now {name}; the former name ends with version {_LAST}",
                    DeprecationWarning,
                    stacklevel=2,
                )
                return ModuleSpec(fullname, self, loader_state=name)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(spec.loader_state)
        spec.loader_state = module.__spec__  # the import system replaces it; `exec_module` restores it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
