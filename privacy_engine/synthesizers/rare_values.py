"""Rare values of an attribute, joined before joint counts are taken and told apart again afterwards.

What a noisy count cannot tell from nothing only adds noisy cells to every joint table (the domain compression
of McKenna, Miklau, Sheldon: Winning the NIST Contest (MST), 2021). The groups come from noisy counts alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_SHARE = 1e-5  # of a value whose noisy count is gone: it may still exist


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueGroups:
    """The groups of the values of one attribute.

    Attributes:
        group_of: (s,) int64, the group of each value, 0 .. size - 1.
        shares: (s,) the probability of each value within its group, the same in all records.
    """

    group_of: Ints
    shares: Floats

    @classmethod
    def single(cls, size: int) -> "ValueGroups":
        """Every value for itself."""
        return cls(group_of=np.arange(size), shares=np.ones(size))

    @classmethod
    def joining_rare(cls, noisy: Ints, likely: Floats, least: float) -> "ValueGroups":
        """Values with a noisy count of at most ``least`` in one group, the last; the largest stands alone.

        Args:
            noisy: (s,) counts.
            likely: (s,) probabilities made from them, which tell how a group's values share it.
            least: records that a value must exceed.

        >>> groups = ValueGroups.joining_rare(
        ...     np.array([40, 3, 55, -2]), np.array([0.4, 0.03, 0.56, 0.01]), 5.0
        ... )
        >>> groups.group_of.tolist(), groups.shares.round(2).tolist()
        ([0, 2, 1, 2], [1.0, 0.75, 1.0, 0.25])
        """
        kept = noisy > least
        kept[np.argmax(noisy)] = True
        group_of = np.where(kept, np.cumsum(kept) - 1, kept.sum())
        likely = likely + LEAST_SHARE
        return cls(group_of=group_of, shares=likely / np.bincount(group_of, likely)[group_of])

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.group_of.max()) + 1

    def sums(self, counts: Ints, axis: int = 0) -> Ints:
        """Counts with the values of one axis added up to groups."""
        by_value = np.moveaxis(counts, axis, 0)
        summed = np.zeros((self.size, *by_value.shape[1:]), dtype=np.int64)
        np.add.at(summed, self.group_of, by_value)
        return np.moveaxis(summed, 0, axis)

    def spread(self, tables: Floats) -> Floats:
        """Probabilities of groups (..., size) as those of values (..., s)."""
        return np.asarray(tables[..., self.group_of] * self.shares)
