"""What a release left in its folders, for all tests that begin with the same one: made once, then copied."""

import shutil
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any


class Beginnings:
    """States of folders, by the work that left them.

    Args:
        kept: Empty folder for the copies.
    """

    def __init__(self, kept: Path) -> None:
        self._kept = kept
        self._done: dict[Hashable, tuple[Path, Any]] = {}

    def after(self, key: Hashable, folders: Sequence[Path], work: Callable[[], Any]) -> Any:
        """Do some work, or copy the folders that it left the first time; return its result of that time.

        Args:
            key: All that the work depends on.
            folders: Folders that only the work has written to.
            work: Work in these folders.
        """
        assert not any(folder.exists() for folder in folders)
        if key in self._done:
            kept, result = self._done[key]
            for folder in folders:
                shutil.copytree(kept / folder.name, folder)
            return result
        result, kept = work(), self._kept / str(len(self._done))
        for folder in folders:
            shutil.copytree(folder, kept / folder.name)
        self._done[key] = kept, result
        return result
