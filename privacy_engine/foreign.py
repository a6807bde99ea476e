"""Translate errors of other libraries: out of memory, out of disk space, or a crash in native code.

Their own messages may quote cells. The new message says what ran out or crashed, the error's type, and the
remedy.
"""

import errno
import traceback

from privacy_engine.errors import CapacityError, EngineError, PrivacyEngineError

# By name, because the caller may not have loaded pyarrow, DuckDB or a pool of processes. Python, NumPy and
# Arrow raise a `MemoryError` when memory runs out; a pool breaks when the system kills one of its processes.
_MEMORY = frozenset({"ArrowCapacityError", "OutOfMemoryException", "BrokenProcessPool"})
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def translated(error: BaseException, what: str) -> PrivacyEngineError | None:
    """Return the error to raise instead of another library's, if it is one of these kinds; None otherwise.

    >>> translated(MemoryError(), "people.parquet")
    CapacityError('people.parquet must fit into memory, got MemoryError; take ...')
    >>> translated(KeyError("a cell"), "people.parquet")

    Args:
        error: Error that was caught from the other library.
        what: Name of the file or step that failed; it begins the message.
    """
    if isinstance(error, PrivacyEngineError):
        return None
    kind = type(error).__name__
    if _is_of_memory(error):
        return CapacityError(
            f"{what} must fit into memory, got {kind}; take the engine fragments with fewer rows a fragment, "
            "fewer processes or a smaller memory limit, or give the worker more memory; a retry is safe"
        )
    if isinstance(error, OSError) and error.errno in _DISK:
        return CapacityError(
            f"{what} must fit on the disk, got: {error.strerror or kind}; make space there, or move the "
            "work area or the spill folder to a larger disk; partly written files are removed"
        )
    if is_panic(error):
        return EngineError(
            f"{what} ended in a breakdown (panic) of a native library, got {type(error).__module__}.{kind} "
            f"{_place(error)}; its message is withheld, it may quote records; retry, and if the library "
            "breaks down again, use another version of it"
        )
    return None


def is_panic(error: BaseException) -> bool:
    """Whether Rust code panicked; such an error is no `Exception`, so most handlers do not catch it."""
    return type(error).__name__ == "PanicException" and not isinstance(error, Exception)


def _is_of_memory(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    out_of_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or out_of_memory or bool(names & _MEMORY)


def _place(error: BaseException) -> str:
    """Return the file and line of the Python code that called the crashed function."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "at an unknown place"
    return f"at {'/'.join(frames[-1].filename.split('/')[-2:])}:{frames[-1].lineno}"
