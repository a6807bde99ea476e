"""Who is counted with which values, so that nobody changes too often.

What is counted of a person is a function of this person's own history alone: their values of the first
release, then every change (of values, an arrival, a departure) until c have been counted. From then on they
are frozen: counted with the last values, or not at all, whatever becomes of them, until the period ends. So
if the records of one person are replaced in all releases, nobody else is counted otherwise, and both
histories that are counted have at most c changes after the first release: the bound that
`privacy_engine.continual.strategies` needs.

Nothing of this is published. It is the curator's alone: it tells who was in which release with which values.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MOST_CHANGES = 30_000


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedPeople:
    """Everybody who was ever seen, and how they are counted now.

    Attributes:
        people: (p,) int64, ascending: a number or keyed hash of each.
        codes: (d, p) small unsigned integers: the values that they are counted with; of an absent one the
            last.
        present: (p,) whether they are counted.
        changes: (p,) int16, how many changes were counted.
    """

    people: Ints
    codes: npt.NDArray[np.uint32]
    present: npt.NDArray[np.bool_]
    changes: npt.NDArray[np.int16]

    @classmethod
    def first(cls, people: Ints, codes: npt.NDArray[np.integer]) -> "CountedPeople":
        """Those of the first release.

        Raises:
            ValueError: if a person has two records.
        """
        order = _order(people)
        return cls(
            people=people[order],
            codes=codes[:, order].astype(np.uint32),
            present=np.ones(len(people), dtype=np.bool_),
            changes=np.zeros(len(people), dtype=np.int16),
        )

    def after(self, people: Ints, codes: npt.NDArray[np.integer], most: int) -> "CountedPeople":
        """Those of the next release, nobody with more than so many changes in all.

        Args:
            people: (n,) of the release, in any order.
            codes: (d, n).
            most: c, 0 .. MOST_CHANGES.

        Raises:
            ValueError: if a person has two records, or `most` is out of range.
        """
        if not 0 <= most <= MOST_CHANGES:
            raise ValueError(f"most must be from 0 to {MOST_CHANGES} changes, got {most}")
        order = _order(people)
        people, now = people[order], codes[:, order].astype(np.uint32)
        everybody = np.union1d(self.people, people)
        before, here = np.searchsorted(everybody, self.people), np.searchsorted(everybody, people)
        values = np.zeros((len(now), len(everybody)), dtype=np.uint32)
        present = np.zeros(len(everybody), dtype=np.bool_)
        changes = np.zeros(len(everybody), dtype=np.int16)
        values[:, before], present[before], changes[before] = self.codes, self.present, self.changes
        wanted, is_here = values.copy(), np.zeros(len(everybody), dtype=np.bool_)
        wanted[:, here], is_here[here] = now, True
        moved = (is_here != present) | (is_here & (wanted != values).any(axis=0))
        moved &= changes < most
        values[:, moved], present[moved] = wanted[:, moved], is_here[moved]
        changes[moved] += 1
        return CountedPeople(people=everybody, codes=values, present=present, changes=changes)

    def renumbered(self, people: Ints) -> "CountedPeople":
        """The same with other numbers.

        Args:
            people: (p,) the number of each.

        Raises:
            ValueError: if two have the same.
        """
        order = _order(people)
        return CountedPeople(
            people=people[order],
            codes=self.codes[:, order],
            present=self.present[order],
            changes=self.changes[order],
        )

    @property
    def counted(self) -> npt.NDArray[np.uint32]:
        """(d, n) the values of those who are counted now."""
        return np.ascontiguousarray(self.codes[:, self.present])


def _order(people: Ints) -> Ints:
    order = np.argsort(people, kind="stable")
    if (np.diff(people[order]) == 0).any():
        raise ValueError(
            "each person must have one record a release; aggregate the table to one row a person"
        )
    return order
