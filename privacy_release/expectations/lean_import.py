"""Great Expectations, imported without loading what only few of its expectations use.

Importing any part of it imports all of it: each expectation and each source of data, and with them a plotting
library, SciPy's statistics and the clients of object stores. The gate reads whether expectations held on a
table in memory; it draws nothing and fetches nothing. So these modules are put off by Python's own
`importlib.util.LazyLoader`: the module objects are the usual ones, and load themselves when first used, such
as by an expectation that compares distributions. That saves more than a third of the import's processor time.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import LazyLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

SELDOM_USED = frozenset(
    {
        "altair",  # draws one chart
        "boto3",
        "great_expectations.compatibility.azure",
        "great_expectations.compatibility.google",
        "scipy.stats",  # for three expectations on distributions
    }
)


class _Later:
    """Finds the modules that are seldom used, for the import system, which then loads them at first use."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is, None for all others and for one that is not installed."""
        spec = PathFinder.find_spec(name, path, target) if name in SELDOM_USED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def import_great_expectations() -> None:
    """Import it; modules that were imported earlier stay as they are."""
    if "great_expectations" in sys.modules:
        return
    with _put_off():
        import_module("great_expectations")


@contextmanager
def _put_off() -> Iterator[None]:
    """Modules that are first imported meanwhile load at first use, if they are seldom used."""
    finder = _Later()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
