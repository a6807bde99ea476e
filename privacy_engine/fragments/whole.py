"""Facts about the whole table that a fragment requires."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.engines.checking import sensitive_values
from privacy_engine.engines.engine import Engine, Files
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import SensitiveValues
from privacy_engine.tables.columns import factorize, is_rounded
from privacy_engine.tables.encoding import Domain, records_with, sensitive_domain
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role


@dataclass(frozen=True)
class WholeTable:
    """A table without its records. PRIVATE: it holds values of the source.

    Attributes:
        rows: Number of records, > 0.
        schema: Schema of the source, closed: each quasi-identifier whose domain is not public has that of the
            table, so that losses are charged against one domain in all fragments.
        sensitive: Sensitive attribute -> its values in the table; of those attributes that matter.
    """

    rows: int
    schema: DataSchema
    sensitive: Mapping[str, SensitiveValues]

    @classmethod
    def of_files(
        cls, engine: Engine, files: Files, schema: DataSchema, sensitive: Sequence[str]
    ) -> "WholeTable":
        """Of a table in files.

        Args:
            engine: Engine that reads the files.
            files: Parquet files of the table.
            schema: Schema of the table.
            sensitive: Sensitive attributes whose values matter; all are held in memory.

        Raises:
            SchemaError: If the table has no record.
        """
        rows = engine.rows(files)
        if not rows:
            raise SchemaError("the table is empty: nothing can be released")
        known = schema.select(sensitive) if sensitive else None
        values = sensitive_values(engine, files, known, person=schema.by or None) if known else {}
        return cls(rows, closed(schema, engine, files), values)

    @property
    def sensitive_names(self) -> tuple[str, ...]:
        """(s,) the sensitive attributes that matter, in the schema's order."""
        return tuple(a.name for a in self.schema.sensitive if a.name in self.sensitive)

    @cached_property
    def sensitive_domains(self) -> tuple[Domain, ...]:
        """(s,) the domains of their codes in the encoding of a fragment."""
        return tuple(sensitive_domain(self.schema[n], self.sensitive[n]) for n in self.sensitive_names)

    @cached_property
    def sensitive_counts(self) -> tuple[npt.NDArray[np.int64], ...]:
        """(s,) of each the (m,) records of the table with each value."""
        return tuple(
            records_with(self.sensitive[name], self.schema[name], domain)
            for name, domain in zip(self.sensitive_names, self.sensitive_domains, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        return {
            "rows": self.rows,
            "schema": self.schema.to_dict(),
            "sensitive": {
                name: _values_to_dict(values, self.schema[name]) for name, values in self.sensitive.items()
            },
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "WholeTable":
        """Read what ``to_dict`` writes. A sensitive value that is no number is then known by its text."""
        schema = DataSchema.from_dict(given["schema"])
        values = {
            name: _values_from_dict(fields, schema[name]) for name, fields in given["sensitive"].items()
        }
        return cls(given["rows"], schema, values)


def closed(schema: DataSchema, engine: Engine, files: Files) -> DataSchema:
    """The schema with a domain for each quasi-identifier: the table's where it names none."""
    attributes = tuple(
        _closed(a, engine, files) if a.role is Role.QUASI_IDENTIFIER and not a.has_public_domain else a
        for a in schema.attributes
    )
    return replace(schema, attributes=attributes)


def widened(schema: DataSchema, source: DataSchema, before: DataSchema) -> DataSchema:
    """Return a closed schema whose domains also have the values of an earlier one.

    Args:
        schema: Schema that `closed` returned for the table.
        source: The same before it was closed.
        before: Closed schema of an earlier release, whose cells may be published again.
    """
    known = {a.name: a for a in before.quasi_identifiers}
    attributes = tuple(
        _widened(a, known[a.name]) if a.name in known and not source[a.name].has_public_domain else a
        for a in schema.attributes
    )
    return replace(schema, attributes=attributes)


def _widened(attribute: Attribute, before: Attribute) -> Attribute:
    if attribute.categories is not None and before.categories is not None:
        both = dict.fromkeys((*before.categories, *attribute.categories))
        return replace(attribute, categories=tuple(both))
    ends = [a.bounds for a in (attribute, before) if a.bounds is not None]
    if not ends:
        return attribute
    return replace(attribute, bounds=(min(low for low, _ in ends), max(high for _, high in ends)))


def _closed(attribute: Attribute, engine: Engine, files: Files) -> Attribute:
    if attribute.ordered or attribute.dates is not None:
        ends = engine.extent(files, attribute.name)
        if ends is None or ends[0] == ends[1] or not all(map(math.isfinite, ends)):
            return attribute  # one value is its own domain; others are refused when records are read
        return replace(attribute, bounds=(float(ends[0]), float(ends[1])))
    coded = factorize(to_frame(engine.contingency(files, [attribute.name]))[attribute.name])
    texts = coded.texts
    found = tuple(dict.fromkeys(texts[i] for i in coded.ascending()))
    # The table's values are not a list by its author: for policies it is still free text.
    return replace(attribute, categories=found or None, unlisted=attribute.is_free_text)


def _values_to_dict(values: SensitiveValues, attribute: Attribute) -> dict[str, Any]:
    column: list[float | str | None]
    numbers = attribute.ordered and attribute.categories is None
    if numbers and (attribute.dates is not None or not is_rounded(values.column)):
        column = [None if math.isnan(v) else v for v in attribute.numbers(values.column).tolist()]
    else:
        coded = factorize(values.column)
        texts = [*coded.texts, None]  # code -1, a null, reads the last
        column = [texts[code] for code in coded.codes]
    return {
        "values": column,
        "codes": values.codes.tolist(),
        "size": values.size,
        "counts": values.counts.tolist(),
        "weights": None if values.weights is None else values.weights.tolist(),
    }


def _values_from_dict(given: Mapping[str, Any], attribute: Attribute) -> SensitiveValues:
    numbers = attribute.ordered and attribute.categories is None
    in_full = numbers and any(isinstance(value, str) for value in given["values"])
    if in_full:
        decimals = pa.array([None if value is None else Decimal(value) for value in given["values"]])
        column = pd.Series(decimals, dtype=pd.ArrowDtype(decimals.type))
    else:
        column = pd.Series(given["values"], dtype="float64" if numbers else "str")
    if attribute.dates is not None:
        column = attribute.dates.clock.column(column.to_numpy())
    known = SensitiveValues.of(column, np.zeros(len(column), dtype=np.int64), attribute)
    return replace(
        known,
        codes=np.array(given["codes"], dtype=np.int32),
        size=given["size"],
        counts=np.array(given["counts"], dtype=np.int64),
        weights=None if given["weights"] is None else np.array(given["weights"], dtype=np.float64),
    )
