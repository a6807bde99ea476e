"""Rare values of an attribute, joined before joint counts are taken and separated again afterwards.

A value whose noisy count cannot be distinguished from zero only adds noisy cells to every joint table (the
domain compression of McKenna, Miklau, Sheldon: Winning the NIST Contest (MST), 2021). The groups only depend
on noisy counts.
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
        group_of: Group of each value, 0 .. size - 1, shape (s,) int64.
        shares: Probability of each value within its group, the same in all records, shape (s,).
    """

    group_of: Ints
    shares: Floats

    @classmethod
    def single(cls, size: int) -> "ValueGroups":
        """Return a separate group for each value."""
        return cls(group_of=np.arange(size), shares=np.ones(size))

    @classmethod
    def joining_rare(cls, noisy: Ints, likely: Floats, least: float) -> "ValueGroups":
        """Put values with a noisy count of at most ``least`` into the last group; the largest is separate.

        Args:
            noisy: Counts, shape (s,).
            likely: Probabilities made from them, by which the values of a group share it, shape (s,).
            least: Records that a value must exceed.

        >>> groups = ValueGroups.joining_rare(
        ...     np.array([40, 3, 55, -2]), np.array([0.4, 0.03, 0.56, 0.01]), 5.0
        ... )
        >>> groups.group_of.tolist(), groups.shares.round(2).tolist()
        ([0, 2, 1, 2], [1.0, 0.75, 1.0, 0.25])
        """
        kept = noisy > least
        kept[np.argmax(noisy)] = True
        group_of = np.where(kept, np.cumsum(kept) - 1, kept.sum())
        return cls.of(group_of, likely)

    @classmethod
    def joining_neighbours(cls, likely: Floats, least: float, on_scale: int) -> "ValueGroups":
        """Values on a scale joined with their neighbours until each group's probability reaches the least.

        A value that reaches it is a separate group. The rest at the end of the scale joins the last group,
        and a value beyond the scale, such as a null, is a group.

        Args:
            likely: Probabilities, shape (s,).
            least: Least count of a group.
            on_scale: Number of leading values that lie on the scale, >= 1.

        >>> ValueGroups.joining_neighbours(
        ...     np.array([0.1, 0.1, 0.4, 0.05, 0.25, 0.1]), 0.2, 6
        ... ).group_of.tolist()
        [0, 0, 1, 2, 3, 3]
        """
        group_of = np.zeros(len(likely), dtype=np.int64)
        group, mass = 0, 0.0
        for value in range(on_scale):
            if mass and (mass >= least or likely[value] >= least > mass * 2):
                group, mass = group + 1, 0.0
            group_of[value] = group
            mass += likely[value]
        if group and mass < least:
            group_of[group_of == group] = group = group - 1
        group_of[on_scale:] = group + 1 + np.arange(len(likely) - on_scale)
        return cls.of(group_of, likely)

    @classmethod
    def of(cls, group_of: Ints, likely: Floats) -> "ValueGroups":
        """Groups whose values share it by their probabilities."""
        likely = likely + LEAST_SHARE
        return cls(group_of=group_of, shares=likely / np.bincount(group_of, likely)[group_of])

    @property
    def size(self) -> int:
        """Number of groups."""
        return int(self.group_of.max()) + 1

    def sums(self, counts: Ints, axis: int = 0) -> Ints:
        """Counts with the values of one axis added up to groups."""
        return sums_by_group(counts, self.group_of, axis)

    def spread(self, tables: Floats) -> Floats:
        """Probabilities of groups (..., size) as those of values (..., s)."""
        return np.asarray(tables[..., self.group_of] * self.shares)


def sums_by_group(counts: Ints, group_of: Ints, axis: int) -> Ints:
    """Counts with the values of one axis added up to groups."""
    by_value = np.moveaxis(counts, axis, 0)
    summed = np.zeros((int(group_of.max()) + 1, *by_value.shape[1:]), dtype=np.int64)
    np.add.at(summed, group_of, by_value)
    return np.moveaxis(summed, 0, axis)


def coarse_groups(likely: Floats, most: int, on_scale: int) -> Ints:
    """(s,) groups of values: along a scale of about equal probability, else rare ones joined.

    Args:
        likely: Probabilities, shape (s,).
        most: Groups, >= 1.
        on_scale: Number of leading values that lie on a scale; the others are not neighbours.
    """
    beyond = len(likely) - on_scale
    if not on_scale or most <= beyond:
        order = np.argsort(-likely, kind="stable")
        rank = np.empty(len(likely), dtype=np.int64)
        rank[order] = np.arange(len(likely))
        return np.minimum(rank, most - 1)
    # The square root of the probability: a compromise between equal width and equal mass.
    weight = np.sqrt(likely[:on_scale])
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    group_of = np.floor(middle * (most - beyond)).astype(np.int64)
    group_of = np.unique(group_of, return_inverse=True)[1].astype(np.int64)
    return np.append(group_of, group_of[-1] + 1 + np.arange(beyond))
