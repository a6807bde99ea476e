"""Intervals for counts, shares and means of a confidential table, from a noisy model and its replicates.

An interval is about the value in the measured table, given the published figures. It does not include the
sampling error of that table, nor that of the drawn records, whose number adds an error: the interval is
around the model's answer, which has none. Values within a bin of the schema are assumed to be evenly
distributed, which no noisy figure shows.

The variance is the replicates' mean squared distance from the model's answer, and the misfit, see
``privacy_engine.synthesizers.latent.replicates``: a p (1 - p) for a share, that of a sample of 1 / a records;
for a mean within a group of share p, a times the variance in the group, over p. If the attributes were never
measured together, the model's inference about them beyond independence is uncertain by a part of it,
`INFERRED`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from privacy_engine.synthesizers.replicate_models import ClassTables

Floats = npt.NDArray[np.float64]

INFERRED = 0.35  # standard deviation of an inferred association, as a part of it
TREND = 3.0  # times the variance of an association that was not measured, for means: most of it is a trend


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """An answer for each group.

    Attributes:
        value: Answer of the model: shares of the records, or means, shape (g,); a mean of no records is NaN.
        low, high: Interval, shape (g,).
    """

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicatedModel:
    """A published model with its replicates.

    Attributes:
        model: Model that answers.
        replicates: Replicates of the model, at least two.
        misfit, unseen, together: Variances beyond the noise and the sets of attributes measured together, as
            in ``ReplicateModels``.
    """

    model: ClassTables
    replicates: Sequence[ClassTables]
    misfit: Sequence[float]
    unseen: float
    together: Collection[Collection[str]]

    @cached_property
    def _sets(self) -> tuple[frozenset[str], ...]:
        return tuple(map(frozenset, self.together))

    def shares(self, chosen: Mapping[str, Floats], *, level: float) -> Estimates:
        """The share of the records in each group.

        Args:
            chosen: Attribute to (size, g) the part of each value's records that is in each group, 0 .. 1.
            level: Confidence level of the interval, in (0, 1).
        """
        if not chosen:  # all records, whose number is public
            return Estimates(value=np.ones(1), low=np.ones(1), high=np.ones(1))
        chosen = self._of_roots(chosen)
        ours, theirs = self._masses(chosen)
        variance = ((theirs - ours) ** 2).mean(axis=0) + self._beyond(chosen) * ours * (1 - ours)
        if not self._is_seen(chosen):
            variance += (INFERRED * (ours - self._independent(chosen))) ** 2
        estimates = self._around(ours, variance, level)
        return Estimates(value=ours, low=np.maximum(estimates.low, 0), high=np.minimum(estimates.high, 1))

    def means(self, chosen: Mapping[str, Floats], of: str, numbers: Floats, *, level: float) -> Estimates:
        """The mean of a number in each group, of those of its records that have one.

        Args:
            chosen: Part of each value's records that is in each group, as for ``shares``; also for `of`
                itself, if the question is about some of its values.
            of: Name of the attribute with the number.
            numbers: Number of each of its values, shape (size,); NaN for null.
            level: Confidence level of the interval, in (0, 1).
        """
        known = ~np.isnan(numbers)
        groups = next((weights.shape[1] for weights in chosen.values()), 1)
        given = chosen.get(of, np.ones((len(numbers), groups)))
        counted = self._of_roots({**chosen, of: given * known[:, None]})
        scaled = np.where(known, numbers, 0)[:, None]
        summed = self._of_roots({**chosen, of: given * scaled})
        squares = self._of_roots({**chosen, of: given * scaled**2})
        (shares, their_shares), (sums, their_sums) = self._masses(counted), self._masses(summed)
        with np.errstate(divide="ignore", invalid="ignore"):
            ours, theirs = sums / shares, their_sums / their_shares
            spread = np.maximum(self._masses(squares)[0] / shares - ours**2, 0)
            variance = ((theirs - ours) ** 2).mean(axis=0) + self._beyond(
                counted, trend=TREND
            ) * spread / shares
            if not self._is_seen(counted):
                inferred = ours - self._independent(summed) / self._independent(counted)
                variance += (INFERRED * inferred) ** 2
        return self._around(ours, variance, level)

    def _of_roots(self, chosen: Mapping[str, Floats]) -> dict[str, Floats]:
        """The same question about attributes that no other determines."""
        found: dict[str, Floats] = {}
        for name, weights in chosen.items():
            if name in self.model.follows:
                name, value = self.model.follows[name]
                weights = weights[value]
            found[name] = found[name] * weights if name in found else weights
        return found

    def _masses(self, chosen: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """(g,) of the model and (r, g) of the replicates: the expected product of the weights."""
        return _mass(self.model, chosen), np.array([_mass(tables, chosen) for tables in self.replicates])

    def _independent(self, chosen: Mapping[str, Floats]) -> Floats:
        """The same where attributes are independent."""
        alone = [_mass(self.model, {name: weights}) for name, weights in chosen.items()]
        return np.asarray(np.prod(alone, axis=0))

    def _is_seen(self, chosen: Collection[str]) -> bool:
        return len(chosen) < 2 or any(members.issuperset(chosen) for members in self._sets)

    def _beyond(self, chosen: Collection[str], trend: float = 1.0) -> float:
        """The misfit of a marginal, per p (1 - p)."""
        misfit = self.misfit[min(max(len(chosen), 1), len(self.misfit)) - 1]
        return misfit if self._is_seen(chosen) else misfit + trend * self.unseen

    def _around(self, value: Floats, variance: Floats, level: float) -> Estimates:
        reach = stdtrit(len(self.replicates), (1 + level) / 2) * np.sqrt(variance)
        return Estimates(value=value, low=value - reach, high=value + reach)


def _mass(tables: ClassTables, chosen: Mapping[str, Floats]) -> Floats:
    """(g,) sum over classes of pi_k prod_j sum_x theta_jk(x) w_j(x); for several roots, their product."""
    masses: dict[int, Floats] = {}
    for name, given in chosen.items():
        part, weights = tables.part_of.get(name, 0), tables.weights_of(name)
        masses[part] = masses.get(part, weights[:, None] / weights.sum()) * (tables.tables[name] @ given)
    return np.asarray(np.prod([mass.sum(axis=0) for mass in masses.values()], axis=0))
