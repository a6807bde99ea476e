"""Work of a process that knows numba before its share of the cores is set."""

from collections.abc import Mapping
from typing import Any

import numba
import pyarrow as pa


def compiling(fragment: int, records: pa.Table) -> Mapping[str, Any]:
    """Numba reads its settings again when it compiles, and refuses others than those it began with."""
    threads = numba.get_num_threads()
    return {"threads": threads, "next": numba.njit(lambda number: number + 1)(fragment)}
