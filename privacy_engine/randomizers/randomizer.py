"""Base of all randomizers: the way from a table to a release of random answers."""

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import choice
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.dp.mechanisms import laplace_counts
from privacy_engine.errors import SchemaError, SecretError
from privacy_engine.parameters import require_types
from privacy_engine.progress import tracked
from privacy_engine.randomizers.attributes import listed_domain
from privacy_engine.randomizers.breach import breach_note
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.numeric import Grid, Transformation
from privacy_engine.randomizers.randomization import Mechanism, Randomization
from privacy_engine.randomizers.randomness import (
    KeyedSource,
    Question,
    Randomness,
    Secret,
    SeededSource,
    Source,
    SystemSource,
)
from privacy_engine.release import Release, parameters_of
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize, floats, value_text
from privacy_engine.tables.domains import Storage, require_row_each
from privacy_engine.tables.persons import person_codes
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel
from privacy_engine.vocabulary import Role, counted


@dataclass(frozen=True, kw_only=True)
class RandomizedRelease(Release):
    """A release whose attributes were randomized one by one.

    Attributes:
        randomization: Probabilities with which each attribute was randomized; they are public, and needed to
            learn from the release.
    """

    randomization: Randomization

    def manifest(self) -> dict[str, Any]:
        """Return the facts of every release, and how it was randomized."""
        return super().manifest() | {"randomization": self.randomization.to_dict()}


@dataclass(frozen=True, kw_only=True)
class Randomizer(ABC):
    """Randomize the answer of each individual to each attribute.

    Quasi-identifiers and sensitive attributes are randomized. Insensitive attributes are released unchanged,
    and the release then makes no claim for the whole record. Identifiers are dropped, and rows are sorted by
    their released values. If a release makes a claim, it is local differential privacy: the epsilons of the
    attributes add up for a person.

    Attributes:
        randomness: Source of the random bits. `system`: fresh in every release, so that repeated releases
            of the same people weaken their protection. `memoised`: the same answer as long as a value does
            not change; requires a secret. `seeded`: from the seed; not private, and the manifest says so.
        individual: Identifier by which memoised answers are remembered; required if the schema has several.
    """

    randomness: Randomness | str = Randomness.SYSTEM
    individual: str | None = None
    key: ClassVar[str]

    def __post_init__(self) -> None:
        require_types(self)
        object.__setattr__(self, "randomness", choice(Randomness, self.randomness, "randomness"))

    @abstractmethod
    def mechanisms(self, schema: DataSchema) -> dict[str, Mechanism]:
        """Return the mechanism of each randomized attribute, only from parameters and schema.

        Raises:
            SchemaError: If the domain of one is not public.
        """

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """None: the claim is the privacy loss."""
        return ()

    def randomization(self, schema: DataSchema) -> Randomization:
        """Return the randomization of a release, without using data."""
        require_row_each(schema)
        return Randomization(
            mechanisms=self.mechanisms(schema),
            released_as_is=tuple(a.name for a in schema.attributes if a.role is Role.INSENSITIVE),
            randomness=Randomness(self.randomness),
        )

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss | None:
        """The sum of the attributes' computed epsilons; one record replaced, the number of records public.

        None if it is not finite, an attribute is released unchanged, or the bits come from a seed.
        """
        return self.randomization(schema).loss

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> RandomizedRelease:
        """Randomize a table; ``rng`` is used where ``randomness`` is ``seeded`` only.

        Raises:
            SchemaError: If the table does not fit the schema, or a domain is not public.
            SecretError: If the answers are to be memoised: ``with_secret`` does that.
        """
        if self.randomness is Randomness.MEMOISED:
            raise SecretError(
                "memoised answers need a secret, and none was given: name the connection that holds it, or "
                "choose randomness: system for a release that will never be repeated"
            )
        source = SeededSource(rng) if self.randomness is Randomness.SEEDED else SystemSource()
        schema.check(table)
        return self._release(table, schema, source, None)

    def with_secret(self, secret: Secret, fingerprint: str | None = None) -> "Memoised":
        """The same method with the secret of its memoised answers.

        Args:
            secret: Secret of the whole series of releases.
            fingerprint: Fingerprint of the last release's secret; None for the first release of a series, or
                to change the secret on purpose, which answers every value again and adds a full loss to what
                was spent.

        Raises:
            SecretError: If the secret is another.
            ValueError: If the method does not memoise.
        """
        if self.randomness is not Randomness.MEMOISED:
            raise ValueError(f"randomness must be memoised to take a secret, got {self.randomness}")
        if fingerprint is not None:
            secret.require(fingerprint)
        return Memoised(method=self, secret=secret)

    def _release(
        self, table: pd.DataFrame, schema: DataSchema, source: Source, secret: Secret | None
    ) -> RandomizedRelease:
        require_row_each(schema)  # before an answer is drawn
        mechanisms = self.mechanisms(schema)
        table = schema.normalized(table)
        columns = {
            a.name: answers(a, mechanisms[a.name], table[a.name], source)
            if a.name in mechanisms
            else table[a.name].reset_index(drop=True)
            for a in tracked(schema.without_identifiers().attributes)
        }
        return self.release_of(sorted_rows(pd.DataFrame(columns)), schema, secret)

    def release_of(
        self, answers: pd.DataFrame, schema: DataSchema, secret: Secret | None = None
    ) -> RandomizedRelease:
        """The release whose answers were drawn before; no random bit is used.

        Args:
            answers: Table of the release.
            schema: Schema of the randomized table.
            secret: Secret of memoised answers; None if they were not memoised.
        """
        randomization = self.randomization(schema)
        released = schema.without_identifiers().coded()
        return RandomizedRelease(
            table=answers,
            schema=DataSchema(tuple(_released(a, randomization) for a in released.attributes)),
            method=self.key,
            parameters=parameters_of(self),
            guarantees=(),
            loss=randomization.loss,
            notes=breach_note(randomization),
            randomization=Randomization(
                mechanisms=randomization.mechanisms,
                released_as_is=randomization.released_as_is,
                randomness=randomization.randomness,
                secret=secret.fingerprint if secret else None,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Memoised:
    """A release method whose answers are a function of a secret: unchanged values are answered as before.

    Attributes:
        method: Randomizer whose answers are memoised.
        secret: Secret key of the answers, which is never shown.
    """

    method: Randomizer
    secret: Secret

    @property
    def key(self) -> str:
        """That of the method."""
        return self.method.key

    def guarantees(self, schema: DataSchema) -> tuple[PrivacyModel, ...]:
        """Those of the method."""
        return self.method.guarantees(schema)

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss | None:
        """That of the method, once for each value that an individual ever had."""
        return self.method.privacy_loss(schema)

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> RandomizedRelease:
        """Randomize a table; ``rng`` is not used.

        Raises:
            SchemaError: If the table does not fit the schema, a domain is not public, or individuals are
                unknown or repeated.
        """
        schema.check(table)
        individuals = individuals_of(table, schema, self.method.individual)
        return self.method._release(table, schema, KeyedSource(self.secret, individuals), self.secret)

    def release_of(self, answers: pd.DataFrame, schema: DataSchema) -> RandomizedRelease:
        """The release whose answers were drawn before."""
        return self.method.release_of(answers, schema, self.secret)


def individuals_of(table: pd.DataFrame, schema: DataSchema, name: str | None) -> list[bytes]:
    """(n,) who each record is about.

    Raises:
        SchemaError: If the schema does not name one identifier, or its values are null or repeated.
    """
    names = [a.name for a in schema.identifiers]
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        raise SchemaError(
            f"memoised answers need the one identifier that names an individual; the schema has {names}: "
            "give a column the role identifier, and name it as `individual` if there are several"
        )
    column = table[name]
    if nulls := int(column.isna().sum()):
        raise SchemaError(
            f"{name}: {counted(nulls, 'value is', 'values are')} null: an individual must have an identifier"
        )
    people = person_codes(column.to_numpy(), exact=schema[name].exact is not None)
    if repeated := len(people) - len(np.unique(people)):
        raise SchemaError(f"{name}: {repeated} values occur more than once. Keep one record per individual")
    return [value_text(value).encode() for value in column.tolist()]


def answers(attribute: Attribute, mechanism: Mechanism, column: pd.Series, source: Source) -> pd.Series:
    """(n,) the released values of one attribute, in the order of the records."""
    if isinstance(mechanism, Channel):
        domain = listed_domain(attribute, Storage.of(column, attribute))
        question = Question(
            attribute=attribute.name,
            mechanism=mechanism.fingerprint,
            codes=domain.encode(column),
            texts=mechanism.labels,
        )
        released = mechanism.perturb(question.codes, source.words(question)[:, 0])
        return domain.decode(released, np.random.default_rng())  # one value a code: nothing is drawn
    if isinstance(mechanism, Grid):
        points = mechanism.points[_grid_answers(attribute.name, mechanism, column, source)]
        whole = bool((mechanism.points == np.rint(mechanism.points)).all())
        return pd.Series(points.astype(np.int64) if whole else points, name=attribute.name)
    coded = factorize(column)
    fingerprint = hashlib.blake2b(json.dumps(mechanism.to_dict(), sort_keys=True).encode(), digest_size=16)
    question = Question(
        attribute=attribute.name, mechanism=fingerprint.digest(), codes=coded.codes, texts=coded.texts
    )
    return pd.Series(mechanism.transform(floats(column), source.words(question, each=2)), name=attribute.name)


def _grid_answers(name: str, grid: Grid, column: pd.Series, source: Source) -> npt.NDArray[np.int64]:
    codes = grid.codes(floats(column))
    if grid.laplace is not None and isinstance(source, SystemSource):
        # One person moves one code by k - 1 at most.
        noisy = laplace_counts(codes, epsilon=grid.laplace, sensitivity=len(grid.channel) - 1)
        return np.clip(noisy, 0, len(grid.channel) - 1)
    question = Question(
        attribute=name, mechanism=grid.channel.fingerprint, codes=codes, texts=grid.channel.labels
    )
    return grid.channel.perturb(codes, source.words(question)[:, 0])


def sorted_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of their values, so that their places say nothing of the source."""
    ranks = []
    for name in table.columns:
        coded = factorize(table[name])
        rank = np.empty(len(coded.values) + 1, dtype=np.int64)
        rank[coded.ascending()] = np.arange(len(coded.values))
        rank[-1] = len(coded.values)  # a null, -1, comes last
        ranks.append(rank[coded.codes])
    return table.take(np.lexsort(ranks[::-1])).reset_index(drop=True)


def _released(attribute: Attribute, randomization: Randomization) -> Attribute:
    """Return an attribute in the release: numbers that TRR moved have no bounds."""
    if isinstance(randomization.mechanisms.get(attribute.name), Transformation):
        return Attribute(
            name=attribute.name, role=attribute.role, kind=attribute.kind, meaning=attribute.meaning
        )
    return attribute
