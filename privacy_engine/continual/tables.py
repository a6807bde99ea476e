"""Tables of a standing population, release after release, noised once for all releases of a period.

Neighbour relation: the whole history of one person is replaced by another person's, of at most
`strategy.changes` changes after the first release, see `privacy_engine.continual.strategies`.

Claim. All noisy rows that `ContinualTables` will ever hold, of all its tables and releases together, are
rho-zCDP with rho = the sum of `rhos`; what is made of them is post-processing.

Proof. Table k has the rows of the strategy over its own counts. A history is, in each table, a person's cell
a week, with no more changes than the history has: so the rows of table k change by at most S^2 =
`strategy.squared_sensitivity` in the sum of squares. `_noised` gives each cell of each row discrete Gaussian
noise of the one scale sqrt(S^2 / (2 rhos[k])) that `gaussian_counts` has for that S^2, once: a row that is
held is never drawn again. The noises are independent, so that all rows of table k together are one draw of
`gaussian_counts`, which is rhos[k]-zCDP; that its coordinates are published one after the other changes
nothing for histories that do not react to them. The tables compose, and rho's add.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privacy_engine.continual.estimates import estimate, likely_drift
from privacy_engine.continual.strategies import Strategy
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.loss import rounded_up
from privacy_engine.dp.mechanisms import gaussian_counts, gaussian_scale

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_LARGEST_COUNT = 2**40  # times the coefficients of a row, it must fit into 63 bits


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What was known of a table before its first row: noisy counts of the first release.

    Attributes:
        cells: (cells,) float64.
        variance: of the noise of a cell, > 0.
    """

    cells: Floats
    variance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ContinualTables:
    """The tables so far. `noisy` is differentially private; `exact` is not and stays with the curator.

    Attributes:
        strategy: which sums are noised.
        rhos: (k,) of each table, for all releases.
        exact: (k,) each (t, cells) int64, the counted tables of the t releases so far.
        noisy: (k,) each (rows measured so far, cells) int64.
        known: (k,) or empty: earlier measurements of the first release, paid for elsewhere.
    """

    strategy: Strategy
    rhos: tuple[float, ...]
    exact: tuple[Ints, ...]
    noisy: tuple[Ints, ...]
    known: tuple[Known, ...] = ()

    @classmethod
    def begun(
        cls, strategy: Strategy, rhos: Sequence[float], sizes: Sequence[int], known: Sequence[Known] = ()
    ) -> "ContinualTables":
        """Before the first release; nothing is measured.

        Raises:
            ValueError: if the numbers of tables differ, or a rho is out of range.
        """
        if len(rhos) != len(sizes) or (known and len(known) != len(sizes)):
            raise ValueError(f"there must be one rho a table, got {len(rhos)} for {len(sizes)} tables")
        for rho in rhos:
            gaussian_scale(rho=rho, squared_sensitivity=strategy.squared_sensitivity)
        return cls(
            strategy=strategy,
            rhos=tuple(rhos),
            exact=tuple(np.zeros((0, size), dtype=np.int64) for size in sizes),
            noisy=tuple(np.zeros((0, size), dtype=np.int64) for size in sizes),
            known=tuple(known),
        )

    @property
    def released(self) -> int:
        """t."""
        return len(self.exact[0])

    @property
    def rho(self) -> float:
        """Of all releases of the period together."""
        return rounded_up(sum(map(Fraction, self.rhos), Fraction(0)))

    def after(self, tables: Sequence[Ints]) -> "ContinualTables":
        """With the tables of the next release counted, and the rows measured that end with it.

        Args:
            tables: (k,) each (cells,) int64, of people whose changes are bounded as the strategy says.

        Raises:
            ValueError: if the period is over, or the tables are not those of before.
        """
        if self.released == self.strategy.releases:
            raise ValueError(
                f"the promise is for {self.strategy.releases} releases, and all of them were made; wait for "
                "the next period"
            )
        if [table.shape for table in tables] != [(held.shape[1],) for held in self.exact]:
            raise ValueError("the tables must be those of the first release, cell by cell")
        exact = tuple(np.vstack([held, table]) for held, table in zip(self.exact, tables, strict=True))
        noisy = tuple(
            np.vstack([held, self._noised(counts, rho)])
            for held, counts, rho in zip(self.noisy, exact, self.rhos, strict=True)
        )
        return replace(self, exact=exact, noisy=noisy)

    def _noised(self, exact: Ints, rho: float) -> Ints:
        """The rows that end with the last of the tables (t, cells)."""
        if exact.size and int(np.abs(exact).max()) > _LARGEST_COUNT:
            raise ValueError(f"a count must be at most 2**40, got more in a table of {exact.shape[1]} cells")
        rows = self.strategy.rows[list(self.strategy.rows_of(len(exact) - 1)), : len(exact)]
        return gaussian_counts(rows @ exact, rho=rho, squared_sensitivity=self.strategy.squared_sensitivity)

    def estimates(self, *, smoothed: bool = True) -> list[Known]:
        """(k,) each table of the last release, as all noisy rows so far tell it.

        Args:
            smoothed: whether a table may be taken to change slowly, as slowly as its noisy rows do.

        Raises:
            ValueError: before the first release.
        """
        if not self.released:
            raise ValueError("there must be a release before its tables can be told; count one with `after`")
        return [self._estimate(number, smoothed) for number in range(len(self.rhos))]

    def _estimate(self, number: int, smoothed: bool) -> Known:
        t = self.released
        rows = self.strategy.rows[: len(self.noisy[number]), :t].astype(np.float64)
        unit = np.abs(rows).max()  # of the coefficients: then a row's noise is in units of a count's
        rows, noisy = rows / unit, self.noisy[number] / unit
        variances = np.full(len(noisy), (self._scale(number) / unit) ** 2)
        if self.known:
            earlier = self.known[number]
            rows = np.vstack([np.eye(1, t), rows])
            noisy = np.vstack([earlier.cells, noisy])
            variances = np.append(earlier.variance, variances)
        drift = likely_drift(rows, variances, noisy) if smoothed else math.inf
        found = estimate(rows, variances, drift)
        return Known(cells=found.weights @ noisy, variance=found.variance)

    def _scale(self, number: int) -> float:
        return gaussian_scale(rho=self.rhos[number], squared_sensitivity=self.strategy.squared_sensitivity)

    def spends(self, names: Sequence[str]) -> tuple[Spend, ...]:
        """One mechanism a table, for all releases."""
        return tuple(
            Spend(
                mechanism="discrete_gaussian",
                target=name,
                rho=rho,
                sensitivity=self.strategy.squared_sensitivity,
                scale=self._scale(number),
            )
            for number, (name, rho) in enumerate(zip(names, self.rhos, strict=True))
        )
