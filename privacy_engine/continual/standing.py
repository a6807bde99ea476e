"""A release that stands until a booked noisy test says that the records have moved away from it.

Neighbour relation: as of `privacy_engine.continual.stream`; nobody's changes are bounded.

Claim. All releases together are epsilon-DP, epsilon of the method, however many they are. Proof. The records
are read by the first measurement and at most `anew` more, each of which is a run of LatentClass of an equal
part of (1 - TESTS) epsilon; and by at most `anew` stretches of tests, one before each further measurement,
each with an equal part of TESTS epsilon (`privacy_engine.continual.on_change`, with one firing). Each of
these begins when the one before it has ended, and is chosen by what was released: they compose sequentially.
After the last measurement nothing of the records is read any more. The misfit is to figures that are fixed
before the test: the model of the release that stands, which is public, times the public number of records.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privacy_engine.continual.on_change import ChangeTest, Watch, misfit, misfit_sensitivity
from privacy_engine.continual.stream import model_of, require_single
from privacy_engine.continual.tables import Known
from privacy_engine.continual.views import FixedViews, chosen
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import split
from privacy_engine.latent.latent_class import LatentClass
from privacy_engine.latent.latent_classes import LatentClasses
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.domains import CodedTable

Ints = npt.NDArray[np.int64]

TESTS = 0.2  # of epsilon, for all tests


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a release stands.

    Attributes:
        anew: most times that it is measured anew, >= 1.
        tolerance: share of the records that a table must have moved, in the mean, to be measured anew: in
            (0, 1]; a record that moved is in another cell of every table.
    """

    anew: int
    tolerance: float

    def __post_init__(self) -> None:
        if type(self.anew) is not int or self.anew < 1:
            raise ValueError(f"anew must be a whole number >= 1, got {self.anew!r}")
        if type(self.tolerance) not in (int, float) or not 0 < self.tolerance <= 1:
            raise ValueError(f"tolerance must be in (0, 1], got {self.tolerance!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """The release that stands, and the test of whether it still does.

    Attributes:
        patience: how long it stands.
        views: the tables that were measured for it; released, as is all but `watch`.
        known: (k,) its noisy tables, as counts.
        rows: the public number of records that it was measured in.
        spends: all mechanisms so far, those of the present tests included.
        number: of releases so far.
        since: the number of the release that stands, from 1.
        measured: how many were measured.
        watch: the present tests, which stay with the curator; None once all that was paid for is spent.
    """

    patience: Patience
    views: FixedViews
    known: tuple[Known, ...]
    rows: int
    spends: tuple[Spend, ...]
    number: int
    since: int
    measured: int
    watch: Watch | None

    @classmethod
    def begun(cls, method: LatentClass, patience: Patience, coded: CodedTable) -> "Standing":
        """With the first release.

        Args:
            method: whose loss all releases together have; of pure epsilon.
            patience: how long each stands.
            coded: one record a person.

        Raises:
            ValueError: if the method has a delta.
            InfeasibleError: as of `LatentClass`; no noise was drawn.
        """
        return _measured(method, patience, coded, spends=(), number=1, measured=1)

    @property
    def is_new(self) -> bool:
        """Whether the last release was measured, and is no earlier one that stands."""
        return self.since == self.number

    def after(self, method: LatentClass, coded: CodedTable) -> "Standing":
        """With the next release: the same one, or one that is measured anew; arguments as of `begun`."""
        require_single(coded)
        number = self.number + 1
        if self.watch is None:
            return replace(self, number=number)
        expected = self.views.expected(self._fitted, len(coded))
        watch = self.watch.after(misfit(self.views.counted(coded), expected))
        if not watch.answers[-1]:
            return replace(self, number=number, watch=watch)
        return _measured(
            method, self.patience, coded, spends=self.spends, number=number, measured=self.measured + 1
        )

    def model(self, method: LatentClass, coded: CodedTable) -> SynthesizerModel:
        """Of the release that stands: the same as when it was measured. `coded` gives names and domains."""
        network = self.views.network(self._fitted, coded)
        model = model_of(method, network, coded, self.spends)
        return replace(model, rows=self.rows, persons=None if coded.persons is None else self.rows)

    @property
    def _fitted(self) -> LatentClasses:
        return self.views.fitted(self.known, self.rows)


def _measured(
    method: LatentClass,
    patience: Patience,
    coded: CodedTable,
    *,
    spends: Sequence[Spend],
    number: int,
    measured: int,
) -> Standing:
    """A release that is measured anew, and the tests of whether it stands."""
    require_single(coded)
    tests, each = _parts(method, patience)
    begun = chosen(replace(method, epsilon=each), coded)
    watch, spent = None, (*spends, *begun.spends)
    if measured <= patience.anew:
        test = ChangeTest(
            epsilon=tests,
            firings=1,
            sensitivity=misfit_sensitivity(len(begun.known)),
            threshold=_threshold(patience, len(begun.known), len(coded)),
        )
        watch, spent = Watch.begun(test), (*spent, *test.spends("whether the release stands"))
    return Standing(
        patience=patience,
        views=begun.views,
        known=begun.known,
        rows=len(coded),
        spends=spent,
        number=number,
        since=number,
        measured=measured,
        watch=watch,
    )


def _threshold(patience: Patience, tables: int, rows: int) -> int:
    """The misfit of tables of which that share of the records moved: out of one cell, and into another."""
    return math.ceil(2 * patience.tolerance * tables * rows)


def _parts(method: LatentClass, patience: Patience) -> tuple[float, float]:
    """Epsilon of the tests before one measurement, and of a measurement."""
    if method.delta:
        raise ValueError(f"a release that stands is of pure epsilon: leave delta out, got {method.delta}")
    tests, measurements = split(method.epsilon, (TESTS, 1 - TESTS))
    return split(tests, [1] * patience.anew)[0], split(measurements, [1] * (patience.anew + 1))[0]
