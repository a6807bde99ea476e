"""Structure file: exactly the columns of another release, with invented records.

Analysts write and test their code with it before they have access to the data. The records are a function of
the schema, the parameters and a seed. No record of a person is read, so the privacy loss is 0, and anyone who
has the three can make the same file again. Values are drawn independently from the public domains: a
structure file shows what a release looks like, and nothing that is true of people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.parameters import require_types
from privacy_engine.registry import (
    DEFAULT_LIKE,
    is_anonymizer,
    kind_of,
    load_method,
    method_names,
    needs_whole_table,
    shown_method,
)
from privacy_engine.release import Release, parameters_of
from privacy_engine.structure.invented import invented
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel
from privacy_engine.vocabulary import ReleaseKind


def _like_mondrian() -> dict[str, Any]:
    return {"method": DEFAULT_LIKE}


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Invent records in the columns of another release, without reading a record.

    The release has the columns, types, labels, interval forms and null marks of the release that `like`
    describes, made of invented records. The privacy loss is 0.

    Attributes:
        rows: Number of invented records, >= 1; of several tables, of all together. If `like` suppresses
            records, fewer are released.
        like: Release whose columns the file has, as in the field `release` of a specification: an anonymizer
            or synthesizer and its parameters, such as {method: mondrian, k: 10, intervals: text}. Mondrian
            with its default parameters unless given.
        types: Type of a column of the source, as pandas names it, such as {age: int32}, where it does not
            follow from the schema. Numbers are int64 if both bounds are whole and float64 otherwise.
    """

    rows: int = 1000
    like: Mapping[str, Any] = field(default_factory=_like_mondrian)
    types: Mapping[str, str] = field(default_factory=dict)
    key: ClassVar[str] = "structure"

    def __post_init__(self) -> None:
        require_types(self)
        if self.rows < 1:
            raise ValueError(f"rows must be >= 1, got {self.rows}")
        for name, kind in self.types.items():
            _require_type(name, kind)
        object.__setattr__(self, "like", dict(self.like))
        object.__setattr__(self, "types", dict(self.types))
        _ = self.shown  # raises if there is no such release

    @property
    def shown(self) -> Any:
        """The method whose columns the file has, with its parameters."""
        name, parameters = shown_method(self.key, {"like": self.like})
        # Some choose columns from the records, or answer with other values: these are not known without them.
        others = [other for other in method_names() if _has_known_columns(other)]
        if name not in others:
            raise ValueError(f"like must have a method, one of {others}, got {name!r}")
        try:
            return load_method(name, **parameters)
        except (TypeError, ValueError) as error:
            raise ValueError(f"like: {error}") from None

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """None: the claim is the privacy loss."""
        return ()

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss:
        """Epsilon 0, for all records of a person: the release is the same whatever they are."""
        unit = Neighbours.REPLACE_PERSON if schema.by else Neighbours.REPLACE_ONE
        return PrivacyLoss(epsilon=0.0, neighbours=unit)

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Invent the records. No cell of the table is read, only the types of its columns.

        Raises:
            SchemaError: If the schema leaves a domain to the records.
            InfeasibleError: If `like` cannot release as few records as `rows`.
        """
        types = {str(name): str(kind) for name, kind in table.dtypes.items()}
        return self.with_types(types, schema).invent(schema, rng)

    def with_types(self, types: Mapping[str, str], schema: DataSchema) -> "Structure":
        """Return the method with the types of all columns for which they are not given.

        Columns of dates, text and identifiers have the type that follows from the schema.
        """
        numbers = [a.name for a in schema.attributes if a.dates is None and a.pseudonym is None]
        known = {n: k for n, k in types.items() if n in numbers and n != schema.by and _is_plain(k)}
        return replace(self, types={**known, **self.types})

    def invent(self, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Invent the records from schema and parameters, without a source; as `release`."""
        made = self._shown_of(invented(schema, self.rows, rng, self.types), schema, rng)
        return replace(
            made,
            method=self.key,
            parameters=parameters_of(self),
            guarantees=(),
            loss=self.privacy_loss(schema),
            rows=None,
            notes={},
        )

    def _shown_of(self, records: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Return the release of invented records by `like`. Only anonymizers change their form."""
        if is_anonymizer(self.shown.key):
            made: Release = self.shown.release(records, schema, rng)
            return made
        plain = schema.without_identifiers()
        return Release(
            table=records[list(plain.names)],
            schema=plain,
            method=self.key,
            parameters={},
            guarantees=(),
        )


def _has_known_columns(name: str) -> bool:
    kinds = (ReleaseKind.ANONYMIZED, ReleaseKind.SYNTHETIC)
    return kind_of(name) in kinds and not needs_whole_table(name)


def _require_type(name: str, kind: str) -> None:
    try:
        plain = _is_plain(kind)
    except TypeError:
        plain = False
    if not plain:
        raise ValueError(
            f"types[{name!r}] must be a type of numbers or truth values that pandas knows, such as int32, "
            f"float32 or bool, got {kind!r}"
        )


def _is_plain(kind: str) -> bool:
    """Return whether a column type is one of numbers or truth values."""
    found = pd.api.types.pandas_dtype(kind)
    return bool(pd.api.types.is_numeric_dtype(found))
