"""What all differentially private synthesizers share: measure once, sample as often as one likes.

Neighbour relation: one record replaced, the number of records public. Pure epsilon.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.engines.engine import Engine, Files
from privacy_engine.errors import InfeasibleError
from privacy_engine.judge.models import PrivacyModel
from privacy_engine.release import Release, parameters_of
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.measuring import coded_files
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.domains import CodedTable, decode, public_domains
from privacy_engine.tables.schema import DataSchema

LEAST_ROWS = 2  # no sensitivity here is derived for a table of one record
PART = 500_000  # records that are drawn at a time


@dataclass(frozen=True, kw_only=True)
class Synthesizer(ABC):
    """A release method that measures a noisy distribution of the records and draws new records from it.

    Attributes:
        epsilon: the whole privacy loss of a measurement, > 0; one record replaced, their number public.
        rows: how many records to draw; None = as many as the source has.
        levels: attribute to the level of its hierarchy at which its values are told apart; the values
            themselves (level 0) where not named. Released values are leaves in any case.
    """

    epsilon: float = 1.0
    rows: int | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    key: ClassVar[str]

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon)
        _ = self.loss  # refuses an epsilon that is no loss
        if self.rows is not None:
            check_whole("rows", self.rows, 1)
        if not isinstance(self.levels, Mapping):
            raise ValueError(
                f"levels must be a mapping from attribute to level, got {type(self.levels).__name__}"
            )
        for attribute, level in self.levels.items():
            check_whole(f"levels[{attribute!r}]", level, 0)
        object.__setattr__(self, "levels", dict(self.levels))

    @property
    def loss(self) -> PrivacyLoss:
        """Epsilon, for one record replaced; ``ValueError`` if it is not positive and finite."""
        return PrivacyLoss(epsilon=self.epsilon, neighbours=Neighbours.REPLACE_ONE)

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """None: the claim is the privacy loss."""
        return ()

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss:
        """Epsilon, for one record replaced."""
        return self.loss

    @abstractmethod
    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """The algorithm: a noisy network, and what each mechanism spent on it.

        Refusals (``InfeasibleError``) come before any noise is drawn.
        """

    def measurement_parameters(self) -> dict[str, Any]:
        """The parameters that shape what is measured, plain values; the number of records drawn is none."""
        return {name: value for name, value in parameters_of(self).items() if name != "rows"}

    def measure(self, table: pd.DataFrame, schema: DataSchema) -> SynthesizerModel:
        """Spend the budget. The noise is the operating system's: it cannot be seeded, so store the model.

        Raises:
            SchemaError: if a domain is not public, or the table does not fit the schema.
            InfeasibleError: if the table is too small, or a domain too large. Nothing was measured then.
        """
        return self.measure_coded(CodedTable.encode(table, schema, self.levels))

    def measure_files(self, engine: Engine, files: Files, schema: DataSchema) -> SynthesizerModel:
        """The same of a table in files that is never loaded.

        Raises:
            SchemaError, InfeasibleError: as ``measure``.
            CapacityError: as ``coded_files``. Nothing was measured then.
        """
        return self.measure_coded(coded_files(engine, files, schema, self.levels))

    def measure_coded(self, coded: CodedTable) -> SynthesizerModel:
        """The same of records that were encoded at this method's levels.

        Raises:
            InfeasibleError: as ``measure``.
        """
        if len(coded) < LEAST_ROWS:
            raise InfeasibleError(f"a table must have at least {LEAST_ROWS} records, got {len(coded)}")
        network, spends = self.learn(coded)
        return SynthesizerModel(
            method=self.key,
            parameters=self.measurement_parameters(),
            network=network,
            rows=len(coded),
            spends=spends,
            loss=self.loss,
            storages=coded.storages,
        )

    def sample(
        self, model: SynthesizerModel, schema: DataSchema, rows: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Independent records from a model: post-processing, costs nothing, repeatable from a seed.

        Their order says nothing of the source's: no record of it is read.

        Raises:
            ValueError: if the schema is not the one that the model was measured with.
        """
        return pd.concat(list(self.sample_parts(model, schema, rows, rng)), ignore_index=True)

    def sample_parts(
        self,
        model: SynthesizerModel,
        schema: DataSchema,
        rows: int,
        rng: np.random.Generator,
        size: int = PART,
    ) -> Iterator[pd.DataFrame]:
        """The same records part by part, so that no more than a part is in memory.

        Args:
            model: that was measured.
            schema: it was measured with.
            rows: to draw, in all.
            rng: draws them; another size of the parts gives other records.
            size: most records of a part, >= 1.

        Raises:
            ValueError: as ``sample``, before the first part is drawn.
        """
        check_whole("size", size, 1)
        network = model.network
        if set(schema.without_identifiers().names) != set(model.storages):
            raise ValueError("the schema must be the one that the model was measured with: other attributes")
        domains = public_domains(schema, model.storages, model.parameters["levels"])
        if any(network.size(domain.name) != domain.size for domain in domains):
            raise ValueError("the schema must be the one that the model was measured with: other domains")
        shown = [network.names.index(domain.name) for domain in domains]  # without hidden attributes
        counts = [min(size, rows - start) for start in range(0, rows, size)] or [0]
        return (decode(network.sample(count, rng)[shown], domains, rng) for count in counts)

    def release_of(self, model: SynthesizerModel, schema: DataSchema, rng: np.random.Generator) -> Release:
        """A release of records drawn from a model; equal models and seeds give equal releases.

        Raises:
            ValueError: if another method measured the model, or the schema is another one.
        """
        first, others = self.release_parts(model, schema, rng)
        return replace(first, table=pd.concat([first.table, *others], ignore_index=True))

    def release_parts(
        self, model: SynthesizerModel, schema: DataSchema, rng: np.random.Generator, size: int = PART
    ) -> tuple[Release, Iterator[pd.DataFrame]]:
        """The same, with the first part of the records as its table; and the other parts, not drawn yet.

        Arguments as of ``sample_parts``, errors as of ``release_of``.
        """
        if model.method != self.key:
            raise ValueError(f"the model must be one of {self.key!r}, got one of {model.method!r}")
        parts = self.sample_parts(model, schema, model.rows if self.rows is None else self.rows, rng, size)
        first = Release(
            table=next(parts),
            schema=schema.without_identifiers(),
            method=self.key,
            parameters=parameters_of(self),
            guarantees=(),
            loss=model.loss,
            model=model,
        )
        return first, parts

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Measure and sample; ``rng`` serves the sampling alone.

        Raises:
            SchemaError, InfeasibleError: as ``measure``.
        """
        return self.release_of(self.measure(table, schema), schema, rng)


def check_number(name: str, value: object) -> None:
    """Refuse with ``ValueError`` what is no number; truths are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}")


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse with ``ValueError`` what is no whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
        upper = f" and <= {most}" if most else ""
        raise ValueError(f"{name} must be a whole number >= {least}{upper}, got {value!r}")
