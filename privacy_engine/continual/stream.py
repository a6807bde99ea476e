"""Releases that follow the same tables: chosen with the first one, measured on with each, fitted every time.

Neighbour relation: the whole history of one person is replaced by another one's, who is in the same releases,
so that the number of persons of each release is public. Where the strategy bounds changes, what is counted of
a person has no more of them (`privacy_engine.continual.changes`); where it does not, no history is excluded.

Claim. All releases together are rho-zCDP, rho = `rho_of_promise`, however often a model is made of them.
Proof. The records are read twice. `chosen` reads those of the first release, as LatentClass with the first
part of rho: in them the neighbours differ in one record. `ContinualTables` reads all of them with the other
part (`privacy_engine.continual.tables`). That its tables were chosen by noisy figures is adaptive
composition, for which rho's add (Bun and Steinke 2016, Lemma 2.3); `split` gives no more than the whole.
A model is made of the noisy rows, of the noisy figures of the choice and of a public number of persons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privacy_engine.continual.changes import CountedPeople
from privacy_engine.continual.strategies import Strategy
from privacy_engine.continual.tables import ContinualTables
from privacy_engine.continual.views import FixedViews, chosen
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.zcdp import epsilon_of_part
from privacy_engine.latent.latent_class import LatentClass
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable

Ints = npt.NDArray[np.int64]

FIRST = 0.5  # of rho, for the choice of the tables; it measures the first release, too


@dataclass(frozen=True, kw_only=True, eq=False)
class TableStream:
    """The tables that are followed, and all that the next release goes on from.

    Attributes:
        views: which tables; released.
        tables: what was counted, which stays with the curator, and what was measured of it.
        choice: the mechanisms that chose the tables.
        people: how everybody is counted, where their changes are bounded; stays with the curator.
    """

    views: FixedViews
    tables: ContinualTables
    choice: tuple[Spend, ...]
    people: CountedPeople | None = None

    @classmethod
    def begun(
        cls, method: LatentClass, strategy: Strategy, coded: CodedTable, people: Ints | None = None
    ) -> "TableStream":
        """With the first release.

        Args:
            method: whose loss all releases together have; with a delta.
            strategy: which sums are noised.
            coded: one record a person.
            people: (n,) who they are; needed where changes are bounded.

        Raises:
            ValueError: if the method has no delta, people are missing, or one has two records.
            InfeasibleError: as of `LatentClass`; no noise was drawn.
        """
        require_single(coded)
        counted = None if strategy.changes is None else CountedPeople.first(_known(people), coded.codes)
        first, rest = _parts_of_rho(method)
        begun = chosen(replace(method, epsilon=epsilon_of_part(first, method.delta)), coded)
        sizes = [int(np.prod(shape)) for shape in begun.views.shapes]
        rhos = split(rest, [1] * len(sizes))
        tables = ContinualTables.begun(strategy, rhos, sizes, begun.known)
        return cls(
            views=begun.views,
            tables=tables.after(begun.views.counted(coded)),
            choice=begun.spends,
            people=counted,
        )

    @property
    def number(self) -> int:
        """Of releases so far."""
        return self.tables.released

    def after(self, coded: CodedTable, people: Ints | None = None) -> "TableStream":
        """With the next release; arguments and errors as of `begun`.

        Raises:
            ValueError: if all releases of the strategy were made.
        """
        require_single(coded)
        most, counted = self.tables.strategy.changes, self.people
        if most is not None:
            if counted is None:
                raise ValueError("a stream of bounded changes must know who was counted, and does not")
            counted = counted.after(_known(people), coded.codes, most)
            codes = counted.counted.astype(coded.codes.dtype)
            coded = replace(coded, codes=np.ascontiguousarray(codes), weights=None)
        return replace(self, tables=self.tables.after(self.views.counted(coded)), people=counted)

    def model(self, method: LatentClass, coded: CodedTable) -> SynthesizerModel:
        """The last release's model, by all that was measured so far: post-processing.

        Args:
            method: as of `begun`.
            coded: of the release, for its names and domains and its public number of records.
        """
        fitted = self.views.fitted(self.tables.estimates(), len(coded))
        spends = (*self.choice, *self.tables.spends(self.views.names(coded)))
        return model_of(method, self.views.network(fitted, coded), coded, spends)


def model_of(
    method: LatentClass, network: BayesianNetwork, coded: CodedTable, spends: Sequence[Spend]
) -> SynthesizerModel:
    """A network as a model of the method, with what all of its mechanisms spent; nothing is measured."""
    return method.measured_by(coded, lambda _, __: Learned(network=network, spends=tuple(spends)))


def rho_of_promise(method: LatentClass) -> float:
    """The rho of zCDP that implies the method's epsilon and delta.

    Raises:
        ValueError: if it has no delta.
    """
    if not method.delta:
        raise ValueError("releases that follow tables draw Gaussian noise: give a delta, such as 1e-9")
    return method.noise().whole


def _parts_of_rho(method: LatentClass) -> tuple[float, float]:
    first, rest = split(rho_of_promise(method), (FIRST, 1 - FIRST))
    return first, rest


def _known(people: Ints | None) -> Ints:
    if people is None:
        raise ValueError("who the records are of must be known, to bound how often a person changes")
    return people


def require_single(coded: CodedTable) -> None:
    """Refuse records of which a person may have more than one."""
    if coded.each != 1:
        raise ValueError(f"a person must contribute one record, got up to {coded.each}; take max_rows: 1")
