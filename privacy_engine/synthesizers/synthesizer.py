"""Base of all differentially private synthesizers: measure once, sample any number of times.

Neighbour relation: one record replaced, the number of records public. If the schema names a person: all rows
of one person replaced, the number of persons public, the number of rows not; a person's contribution is
limited before anything is measured, see ``privacy_engine.dp.contributions``. If only some persons take part
in a release, ``measure_participants`` claims the same loss if the rows of at most one of them are removed and
those of at most one are added, and considers no number of persons as public. Pure epsilon, unless a method
states otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.contributions import (
    NUMBER_SHARE,
    Contribution,
    RowsOfPersons,
    Weight,
    contributed_rows,
    count_share,
    person_numbers,
    require_bound,
    with_noisy_number,
    with_public_number,
)
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.engines.engine import Engine, Files
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.parameters import require_types
from privacy_engine.progress import portion
from privacy_engine.release import Release, parameters_of
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.measuring import coded_files, coded_people
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.quantile_bins import (
    Bins,
    binned,
    largest,
    pending,
    share_of_all,
    spread,
    with_quantile_bins,
)
from privacy_engine.synthesizers.replicate_models import ReplicateModels
from privacy_engine.tables.domains import CodedTable, PublicDomain, Storage, decode, public_domains
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel

LEAST_ROWS = 2  # no sensitivity here is derived for a table of one record
PART = 500_000  # records that are drawn at a time
QUANTILE_SHARE = 0.08  # of epsilon, for the quantile bins of one number


class Learned(NamedTuple):
    """The result of an algorithm.

    Attributes:
        network: Noisy distribution of the records.
        spends: Spends of all mechanisms that read the records.
        replicates: Replicates of the model, only from noisy figures; None for a method without them.
        follow: Plain values of noisy figures, by which later releases go on; None where none do.
    """

    network: BayesianNetwork
    spends: tuple[Spend, ...]
    replicates: ReplicateModels | None = None
    follow: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Synthesizer(ABC):
    """Measure a noisy distribution of the records, and draw new records from it.

    The measurement is differentially private. Neighbours differ in one record, which is replaced, and the
    number of records is public. If the schema names a person, they differ in all rows of one person, and the
    number of persons is public.

    Attributes:
        epsilon: Whole privacy loss of a measurement, > 0, for one record replaced; with `max_rows` or
            `weight`, for all rows of one person.
        rows: Number of records to draw. None: as many as the source has; with `max_rows`, about as many as
            contributed, by a noisy count; with `weight`, as many as there are persons.
        levels: Level of its hierarchy at which the values of an attribute are distinguished, by attribute; 0,
            the values themselves, for the others. Released values are leaves in any case.
        max_rows: Most rows of a person that are measured, >= 1, chosen at random; requires a schema that
            names a person.
        weight: Alternative to `max_rows`: `person`, all rows of a person weigh one together. The records
            drawn are then like rows found by first choosing a person, each with equal probability, and then
            one of that person's rows.
        quantile_share: Part of epsilon (of rho, with a delta) for the quantile bins of a number with wide
            bounds or `scale: quantiles`, in (0, 1); of several such numbers together at most .25, or this
            if it is more. Nothing is spent on it if the schema has none.
    """

    epsilon: float = 1.0
    rows: int | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    max_rows: int | None = None
    weight: Weight | None = None
    quantile_share: float = QUANTILE_SHARE
    key: ClassVar[str]

    def __post_init__(self) -> None:
        require_types(self)
        check_number("epsilon", self.epsilon)
        if not PrivacyLoss(epsilon=self.epsilon, neighbours=Neighbours.REPLACE_ONE).must_be_booked:
            raise ValueError(f"epsilon must be > 0 and finite, got {self.epsilon}")
        if self.weight is not None:
            object.__setattr__(self, "weight", choice(Weight, self.weight, "weight"))
        _ = self.contribution  # raises for an invalid one
        if self.rows is not None:
            check_whole("rows", self.rows, 1)
        check_number("quantile_share", self.quantile_share)
        if not 0 < self.quantile_share < 1:
            raise ValueError(f"quantile_share must be in (0, 1), got {self.quantile_share}")
        for attribute, level in self.levels.items():
            check_whole(f"levels[{attribute!r}]", level, 0)
        object.__setattr__(self, "levels", dict(self.levels))

    @property
    def contribution(self) -> Contribution | None:
        """What bounds the rows of a person; None where each row counts as a person."""
        if self.max_rows is None and self.weight is None:
            return None
        return Contribution(max_rows=self.max_rows, weight=self.weight)

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """None: the claim is the privacy loss."""
        return ()

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss:
        """Epsilon, for one record replaced; for all rows of one person, where the schema names it.

        Raises:
            SchemaError: If it names one and neither `max_rows` nor `weight` is given, or vice versa.
        """
        require_bound(schema, self.contribution)
        return self._loss_of(by_person=bool(schema.by))

    def noise_warnings(self, schema: DataSchema) -> list[str]:
        """Return where other parameters promise as much with less noise. No record is read."""
        return []

    def _loss_of(self, *, by_person: bool) -> PrivacyLoss:
        unit = Neighbours.REPLACE_PERSON if by_person else Neighbours.REPLACE_ONE
        return PrivacyLoss(epsilon=self.epsilon, neighbours=unit)

    def _spending(self, part: float) -> Self:
        """Learn from records with a part of what may be spent."""
        return replace(self, epsilon=part)

    @abstractmethod
    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """The algorithm: a noisy network, and what each mechanism spent on it.

        Refusals (``InfeasibleError``) come before any noise is drawn, and follow from public figures: where
        persons contributed the records, not from the records' number.
        """

    def require_feasible(self, coded: CodedTable, rows: int) -> None:  # noqa: B027  many refuse nothing
        """Raise as `learn` would, for a number of records with the domains of a table or smaller ones.

        Called before noise is drawn for these domains. Refusals must only become rarer with fewer values.

        Args:
            coded: Table whose names, domains, persons and `each` are read, and no record.
            rows: Number of records.

        Raises:
            InfeasibleError: As ``learn``.
        """

    def learn_replicated(self, coded: CodedTable) -> "Learned":
        """Like `learn`, with replicates of the model from noisy figures; None for a method without them."""
        return Learned(*self.learn(coded))

    def measurement_parameters(self) -> dict[str, Any]:
        """Return the parameters that affect the measurement, without the number of drawn records.

        A limit of a person's contribution is only included if there is one, and a share for quantiles if it
        is not the default, so that a measurement without them keeps its name in the books. Replicates are
        never included, because they are made from the measurement.
        """
        parameters = parameters_of(self)
        unbounded = {name for name in ("max_rows", "weight") if parameters[name] is None}
        if self.quantile_share == QUANTILE_SHARE:
            unbounded.add("quantile_share")
        return {
            name: value
            for name, value in parameters.items()
            if name not in {"rows", "replicates", *unbounded}
        }

    def coded(self, table: pd.DataFrame, schema: DataSchema) -> CodedTable:
        """Return what is measured of a table: its records as codes; for persons, what each contributes.

        Raises:
            SchemaError: As ``measure``.
        """
        self._require_known_persons(schema)
        coded = CodedTable.encode(table, schema, self.levels, fine=True)
        if self.contribution is None:
            return coded
        return contributed_rows(
            coded, person_numbers(table[schema.by], exact=schema.exact_persons), self.contribution
        )

    def coded_files(
        self,
        engine: Engine,
        files: Files,
        schema: DataSchema,
        earlier: Mapping[str, Storage] | None = None,
    ) -> CodedTable:
        """The same of a table in files that is never loaded.

        Args:
            engine: Reads the files.
            files: Parquet files of the table.
            schema: Schema with a public domain for each attribute.
            earlier: Storages of the release that this one continues; None if it continues none.

        Raises:
            SchemaError, CapacityError: As ``measure_files``.
        """
        self._require_known_persons(schema)
        if self.contribution is None:
            return coded_files(engine, files, schema, self.levels, earlier)
        return coded_people(engine, files, schema, self.contribution, self.levels, earlier)

    def _require_known_persons(self, schema: DataSchema) -> None:
        require_bound(schema, self.contribution)
        if schema.by and schema.by not in schema.names:
            raise SchemaError(
                f"{schema.by} names the person of each row and is not among the columns: add it to the "
                "schema as an identifier"
            )

    def measure(self, table: pd.DataFrame, schema: DataSchema) -> SynthesizerModel:
        """Spend the budget. The noise is the operating system's: it cannot be seeded, so store the model.

        Raises:
            SchemaError: If a domain is not public, or the table does not fit the schema, or the schema names
                a person and nothing bounds what one contributes.
            InfeasibleError: If the table is too small, or a domain too large. Nothing was measured then.
        """
        return self.measure_coded(self.coded(table, schema))

    def measure_files(self, engine: Engine, files: Files, schema: DataSchema) -> SynthesizerModel:
        """The same of a table in files that is never loaded.

        Raises:
            SchemaError, InfeasibleError: As ``measure``.
            CapacityError: As ``coded_files``. Nothing was measured then.
        """
        return self.measure_coded(self.coded_files(engine, files, schema))

    def measure_coded(self, coded: CodedTable) -> SynthesizerModel:
        """The same of what ``coded`` or ``coded_files`` of this method gave.

        Raises:
            InfeasibleError: As ``measure``.
            ValueError: If it is of rows, and the method of persons, or vice versa.
        """
        return self.measured_by(coded, lambda method, records: method.learn_replicated(records))

    def measured_by(
        self, coded: CodedTable, learn: "Callable[[Self, CodedTable], Learned]"
    ) -> SynthesizerModel:
        """The same by another algorithm than ``learn_replicated``, which may spend as much.

        Args:
            coded: Output of ``coded`` or ``coded_files`` of this method.
            learn: Function from the method with the remaining loss, and its records, to the result.

        Raises:
            InfeasibleError, ValueError: As ``measure_coded``.
        """
        if (coded.persons is None) != (self.contribution is None):
            raise ValueError("the measured records must be encoded by the method that measures them")
        if coded.persons is None and len(coded) < LEAST_ROWS:
            raise InfeasibleError(f"a table must have at least {LEAST_ROWS} records, got {len(coded)}")
        if coded.persons is not None and coded.persons < LEAST_ROWS:
            raise InfeasibleError(f"a table must have at least {LEAST_ROWS} persons, got {coded.persons}")
        noise = NoiseBudget.of(self._loss_of(by_person=coded.persons is not None))
        if coded.persons is not None and self.max_rows is not None and coded.each > 1:
            share = count_share(self.epsilon, coded.persons)
            on_count, left = split(noise.whole, (share, 1 - share))
            coded = with_public_number(coded, noise, on_count)
        else:
            left = noise.whole
        return self._learned(coded, noise, left, learn)

    def _learned(
        self,
        coded: CodedTable,
        noise: NoiseBudget,
        left: float,
        learn: "Callable[[Self, CodedTable], Learned]",
    ) -> SynthesizerModel:
        """Choose quantile bins with a share of what is left, if any are required; learn with the rest."""
        bins: Bins = {}
        if waiting := pending(coded.domains):
            share = share_of_all(self.quantile_share, len(waiting))
            on_bins, left = split(left, (share, 1 - share))
            self._spending(left).require_feasible(largest(coded), len(coded))
            coded, bins = with_quantile_bins(coded, noise, on_bins)
        method = self if left == noise.whole else self._spending(left)
        return self._model(coded, noise, learn(method, coded), bins)

    def coded_participants(
        self, table: pd.DataFrame, schema: DataSchema, takes_part: npt.NDArray[np.bool_]
    ) -> RowsOfPersons:
        """Return the rows of those who take part in a release, possibly none, for ``measure_participants``.

        Args:
            table: All rows, which are all checked against the schema.
            schema: Schema with a public domain for each attribute; it names the person.
            takes_part: Whether the person of each row does, shape (n,).

        Raises:
            SchemaError: As for ``measure``, or if nothing limits a person's contribution.
        """
        self._require_known_persons(schema)
        if self.contribution is None:
            raise SchemaError(
                "participation requires the person of each row. Name it in the schema, and limit what each "
                "contributes at most as max_rows or weight"
            )
        coded = CodedTable.encode(table, schema, self.levels, fine=True).take(np.flatnonzero(takes_part))
        return RowsOfPersons(
            coded=coded, persons=person_numbers(table[schema.by], exact=schema.exact_persons)[takes_part]
        )

    def measure_participants(self, rows: RowsOfPersons) -> SynthesizerModel:
        """Spend the budget on the rows of those who take part in a release, whose number is not public.

        The number of records is measured first, and everything else on that many records. The loss holds if
        the rows of at most one person are removed, and those of at most one added: the count has its part of
        it, and given the count the records differ in at most `each` replaced ones, for which ``learn`` has
        the rest (``contributions.with_noisy_number``).

        Raises:
            InfeasibleError: If the noisy number is too small for the method. It is a noisy answer like any
                other: keep it, and do not measure again.
        """
        if self.contribution is None:
            raise ValueError("the measured records must be encoded by the method that measures them")
        noise = NoiseBudget.of(self._loss_of(by_person=True))
        on_count, rest = split(noise.whole, (NUMBER_SHARE, 1 - NUMBER_SHARE))
        coded = with_noisy_number(rows, self.contribution, noise, on_count)
        model = self._learned(coded, noise, rest, lambda method, records: method.learn_replicated(records))
        return replace(model, persons_public=False)

    def _model(
        self, coded: CodedTable, noise: NoiseBudget, learned: "Learned", bins: Bins
    ) -> SynthesizerModel:
        """What was learned, with the whole loss."""
        return SynthesizerModel(
            method=self.key,
            parameters=self.measurement_parameters(),
            network=learned.network,
            rows=coded.persons if coded.persons is not None and self.weight else len(coded),
            spends=(*noise.spends, *learned.spends),
            loss=self._loss_of(by_person=coded.persons is not None),
            storages=coded.storages,
            persons=coded.persons,
            replicates=learned.replicates,
            follow=learned.follow,
            bins=bins or None,
        )

    def sample(
        self, model: SynthesizerModel, schema: DataSchema, rows: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Records from a model: post-processing, costs nothing, repeatable from a seed.

        Their order reveals nothing about the source's, of which no record is read.

        Raises:
            ValueError: If the schema is not the one that the model was measured with.
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
            model: Model that was measured.
            schema: Schema that the model was measured with.
            rows: Total number of records to draw.
            rng: Draws them; another size of the parts gives other records.
            size: Most records of a part, >= 1.

        Raises:
            ValueError: As ``sample``, before the first part is drawn.
        """
        check_whole("size", size, 1)
        network = model.network
        if set(schema.without_identifiers().names) != set(model.storages):
            raise ValueError("the schema must be the one that the model was measured with: other attributes")
        domains = model_domains(model, schema)
        if any(network.size(domain.name) != domain.size for domain in domains):
            raise ValueError("the schema must be the one that the model was measured with: other domains")
        shown = [network.names.index(domain.name) for domain in domains]  # without hidden attributes
        counts = [min(size, rows - start) for start in range(0, rows, size)] or [0]
        return (decode(network.sample(count, rng)[shown], domains, rng) for count in counts)

    def release_of(self, model: SynthesizerModel, schema: DataSchema, rng: np.random.Generator) -> Release:
        """A release of records drawn from a model; equal models and seeds give equal releases.

        Raises:
            ValueError: If another method measured the model, or the schema is another one.
        """
        first, others = self.release_parts(model, schema, rng)
        return replace(first, table=pd.concat([first.table, *others], ignore_index=True))

    def release_parts(
        self, model: SynthesizerModel, schema: DataSchema, rng: np.random.Generator, size: int = PART
    ) -> tuple[Release, Iterator[pd.DataFrame]]:
        """The same, with the first part of the records as its table; and the other parts, not drawn yet.

        Arguments as for ``sample_parts``, errors as for ``release_of``.
        """
        if model.method != self.key:
            raise ValueError(f"the model must be one of {self.key!r}, got one of {model.method!r}")
        parts = self.sample_parts(model, schema, model.rows if self.rows is None else self.rows, rng, size)
        first = Release(
            table=next(parts),
            schema=schema.without_identifiers().coded(),
            method=self.key,
            parameters=parameters_of(self),
            guarantees=(),
            loss=model.loss,
            model=model,
        )
        return first, parts

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        """Measure and sample; ``rng`` is only used for sampling.

        Raises:
            SchemaError, InfeasibleError: As ``measure``.
        """
        with portion(0.9):
            model = self.measure(table, schema)
        return self.release_of(model, schema, rng)


def model_domains(model: SynthesizerModel, schema: DataSchema) -> tuple[PublicDomain, ...]:
    """Return the domains of a model's codes, for a schema that has its attributes.

    A model that was stored before there were quantile bins has equal bins.
    """
    domains = binned(unjoined_domains(model, schema), model.bins or {})
    return spread(domains, model.bins or {}, model.network)


def unjoined_domains(model: SynthesizerModel, schema: DataSchema) -> tuple[PublicDomain, ...]:
    """Return the domains by which the records of a model were encoded, before bins were joined."""
    return public_domains(
        schema, model.storages, model.parameters["levels"], fine=True, linear=model.bins is None
    )


def check_number(name: str, value: object) -> None:
    """Raise ``ValueError`` unless the value is a number; truth values are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {type(value).__name__}")


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raise ``ValueError`` unless the value is a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
        upper = f" and <= {most}" if most else ""
        raise ValueError(f"{name} must be a whole number >= {least}{upper}, got {value!r}")
