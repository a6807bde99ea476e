"""The holders of each value of a column: persons if their column is named, otherwise records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd


@dataclass(frozen=True)
class Holders:
    """The values of a column as a release reads them, each with the numbers of its holders.

    Attributes:
        by_value: Distinct numbers of the persons, or records, with each value, shape (m,), ascending.
    """

    by_value: "Mapping[str, npt.NDArray[np.int64]]"

    @classmethod
    def of(cls, column: "pd.Series", person: "pd.Series | None" = None) -> "Holders":
        """Return the holders of a column's values. Nulls are omitted.

        Raises:
            SchemaError: If there is no value, a value cannot be stored in one line of a file, or a record has
                no person.
        """
        found = factorize(column)
        texts = found.texts
        if not texts:
            raise SchemaError(f"{column.name}: the column has no value; name another one")
        if unfit := sum(text != text.strip() or not text.isprintable() or not text for text in texts):
            raise SchemaError(
                f"{column.name}: {unfit:,} of {len(texts):,} values are empty, begin or end with a blank or "
                "have a line end, which a hierarchy's file does not keep; correct them at the source"
            )
        whose = np.arange(len(column)) if person is None else factorize(person).codes
        if (whose < 0).any():
            raise SchemaError(f"{person.name if person is not None else ''}: every record must have a person")
        order = np.argsort(found.codes, kind="stable")
        starts = np.searchsorted(found.codes[order], np.arange(len(texts) + 1))
        return cls({text: np.unique(whose[order[starts[i] : starts[i + 1]]]) for i, text in enumerate(texts)})

    @property
    def values(self) -> list[str]:
        """All values, in order."""
        return sorted(self.by_value)

    def together(self, values: Iterable[str]) -> int:
        """Return the number of holders of any of these values, 0 for values without holders."""
        found = [self.by_value[value] for value in values if value in self.by_value]
        return len(np.unique(np.concatenate(found))) if found else 0

    def rare(self, k: int) -> set[str]:
        """Return the values with fewer than `k` holders."""
        return {value for value, whose in self.by_value.items() if len(whose) < k}
