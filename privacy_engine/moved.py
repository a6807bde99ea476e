"""Former names of modules, which can be imported until version 0.3 and warn."""

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_LAST = "0.3"


def redirect(moved: Mapping[str, str]) -> None:
    """Import the modules of packages that moved by their former names, too.

    Args:
        moved: Former name of a module or package to its present one; modules of a package move with it.
    """
    sys.meta_path.insert(0, _Former(moved))  # others would find a second copy of a moved package's modules


class _Former(MetaPathFinder, Loader):
    """Finds present modules by former names; each is one module under both."""

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
        spec.loader_state = module.__spec__  # the import puts its own in its place
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
