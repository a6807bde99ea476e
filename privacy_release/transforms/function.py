"""A step as a Python function: a table in, a table out, in memory."""

import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from privacy_engine.engines.frames import to_arrow
from privacy_engine.errors import SpecError
from privacy_release.spec.selects import RECORD, RECORDS
from privacy_release.transforms.query import lost_records
from privacy_release.transforms.transform import Numbers, Output
from privacy_release.workarea.references import Table

Frame = Literal["pandas", "arrow"]


@dataclass(frozen=True, kw_only=True)
class FunctionStep:
    """A function of the table, and of other tables by the names of its parameters.

    Attributes:
        frame: Whether it takes and returns data frames of pandas, or tables of pyarrow.
    """

    function: Callable[..., Any]
    frame: Frame = "pandas"

    @property
    def name(self) -> str:
        """The function's."""
        return str(getattr(self.function, "__name__", "function"))

    @property
    def sha256(self) -> str:
        """SHA-256 of its source, or of its byte code if there is no source."""
        try:
            code = textwrap.dedent(inspect.getsource(self.function)).encode()
        except (OSError, TypeError):
            code = getattr(getattr(self.function, "__code__", None), "co_code", b"")
        return hashlib.sha256(code).hexdigest()

    def made_of(self, columns: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return nothing, because each column may come from any of `records`."""
        return {}

    @contextmanager
    def run(self, tables: Mapping[str, Table], folder: Path) -> Iterator[Output]:
        """Provide the function's result, in the order of the record that each row comes from."""
        if tables[RECORDS].is_in_fragments:
            raise SpecError(
                f"the step {self.name} must have its table in memory, but this one may be larger: write it "
                "as sql, or use the engine local"
            )
        given = {name: table.frame() for name, table in tables.items()}
        records = given.pop(RECORDS)
        numbers = Numbers.of(tables[RECORDS])
        records.insert(0, RECORD, np.arange(len(records)) * numbers.stride + numbers.offset)
        of: Callable[[pd.DataFrame], Any] = to_arrow if self.frame == "arrow" else lambda frame: frame
        made = self.function(of(records), **{name: of(frame) for name, frame in given.items()})
        if not isinstance(made, pa.Table if self.frame == "arrow" else pd.DataFrame):
            raise SpecError(
                f"the step {self.name} must return a table of {self.frame}, got {type(made).__name__}"
            )
        if list(made.column_names if isinstance(made, pa.Table) else made.columns).count(RECORD) != 1:
            raise lost_records(self.name)
        table = made if isinstance(made, pa.Table) else to_arrow(made)
        yield Output(batches=iter(table.sort_by(RECORD).to_batches()), row_by_row=False)
