"""The result of a release method, and the protocol that every method follows."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.measures.recoding import Recoding, code_forms, null_forms
from privacy_engine.tables.persons import TABLE
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel, model_to_dict

if TYPE_CHECKING:  # a judge of releases compiles no synthesizer
    from privacy_engine.synthesizers.model import SynthesizerModel


@dataclass(frozen=True, kw_only=True)
class Release:
    """A table that may be verified and published.

    Attributes:
        table: Released records in the columns of `schema`.
        schema: Schema of ``table``.
        method: Registry key of the method.
        parameters: Parameters of the method as plain values.
        guarantees: Privacy models that the method claims for ``table``.
        loss: Differential privacy spent; None if there is no DP claim.
        recoding: Recoding of the quasi-identifiers by an anonymizer; None for other methods.
        recodings: Recoding of each table by name, if several tables share a person, instead of ``recoding``.
        rows: Row of the source of each released record, shape (n,) int64, -1 for a counterfeit, which belongs
            to no person. None if the records do not come from the source or the rows are withheld. As private
            as the source.
        persons: Person of each released record, shape (n,), if several records may belong to one person; as
            private as the source.
        model: Model that a synthesizer measured and drew the records from; None for other methods.
        notes: Figures that a reader must know, such as the share of distorted sensitive values.
        trajectories: Number of classes of persons with equal trajectories, if rows are linked; the classes of
            ``recoding`` then hold one row of each person.
    """

    table: pd.DataFrame
    schema: DataSchema
    method: str
    parameters: dict[str, Any]
    guarantees: tuple[PrivacyModel, ...]
    loss: PrivacyLoss | None = None
    recoding: Recoding | None = None
    recodings: Mapping[str, Recoding] = field(default_factory=dict)
    rows: npt.NDArray[np.int64] | None = None
    persons: npt.NDArray[Any] | None = None
    model: "SynthesizerModel | None" = None
    notes: dict[str, float] = field(default_factory=dict)
    trajectories: int | None = None

    @property
    def claims_loss(self) -> bool:
        """Whether the release claims a privacy loss."""
        return self.loss is not None

    @property
    def is_synthetic(self) -> bool:
        """Whether the records were drawn from a measured model."""
        return self.model is not None

    @property
    def hides_participants(self) -> bool:
        """Whether the number of persons who took part is not public."""
        return self.model is not None and not self.model.persons_public

    @property
    def of_persons(self) -> "Release":
        """The release without counterfeits. Risks are measured on it, since the counterfeits are counted."""
        if self.rows is None or (self.rows >= 0).all():
            return self
        own = self.rows >= 0
        return replace(self, table=self.table[own].reset_index(drop=True), rows=self.rows[own])

    def manifest(self) -> dict[str, Any]:
        """Return the facts that may be public: no record and no cell value."""
        recoding = self.recoding
        made = [recoding] if recoding else list(self.recodings.values())
        nulls = {name: form for r in made for name, form in null_forms(r.encoded.schema, self.schema).items()}
        sources = [r.encoded.schema for r in made] or [self.schema]
        codes = {name: form for s in sources for name, form in code_forms(s, self.schema).items()}
        classes = recoding.classes if recoding and self.trajectories is None else self.trajectories
        facts: dict[str, Any] = {
            "method": self.method,
            "parameters": self.parameters,
            "guarantees": [model_to_dict(model) for model in self.guarantees],
            "loss": self.loss.to_dict() if self.loss else None,
            "rows": len(self.table),
            "suppressed": sum(r.suppressed for r in made),
            "classes": classes,
            "columns": {
                a.name: {"role": a.role.value, "kind": a.kind.value}
                | ({"nulls": nulls[a.name]} if a.name in nulls else {})
                | ({"meaning": a.about.value} if a.about else {})
                | ({"codes": codes[a.name]} if a.name in codes else {})
                | a.direct_identifiers()
                | ({"precision": a.dates.cut_to.value} if a.dates and not a.dates.as_is else {})
                for a in self.schema.attributes
            },
            "notes": dict(self.notes),
        }
        if self.recodings:
            released = self.table[TABLE].value_counts()
            facts["tables"] = {
                name: {"rows": int(released.get(name, 0)), "suppressed": r.suppressed}
                for name, r in self.recodings.items()
            }
        if self.model is not None:
            facts["model"] = {
                "network": self.model.structure(),
                "mechanisms": [spend.to_dict() for spend in self.model.spends],
                **self._source_size(self.model),
                "domains": "schema",
            }
        return facts

    def _source_size(self, model: "SynthesizerModel") -> dict[str, Any]:
        """Return the size of the source; if persons may have several rows, only in persons, if public."""
        if model.persons is None:
            return {"source_rows": model.rows}
        drawn = {name: model.parameters[name] for name in ("max_rows", "weight") if name in model.parameters}
        known = {"source_persons": model.persons} if model.persons_public else {"participants": "noisy"}
        return {**known, "contribution": drawn}


class ReleaseMethod(Protocol):
    """A frozen, keyword-only dataclass of parameters with these three methods, see the contract tests."""

    key: ClassVar[str]

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """Return the privacy models that every release by this method satisfies."""

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss | None:
        """Return the differential privacy that a release spends; it does not depend on the data."""

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Make the release.

        Raises:
            SchemaError: If the table does not fit the schema.
            InfeasibleError: If the guarantees cannot be met.
        """


def parameters_of(method: Any) -> dict[str, Any]:
    """Return the fields of a method's dataclass as plain values."""
    return {f.name: _plain(getattr(method, f.name)) for f in dataclasses.fields(method)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value) and hasattr(value, "measure"):
        return model_to_dict(value)  # type: ignore[arg-type]  # a privacy model
    return value
