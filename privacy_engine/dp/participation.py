"""Bounded participation: an unlimited number of releases, each person taking part in only a few of them.

A schedule makes release t = 1, 2, ... from a table T_t with some rows each of many persons. A person takes
part in a release if they have rows in its table and took part in fewer than m releases of the period that
ends with it; otherwise their rows are omitted before anything is measured. With m = 1 and an unlimited
period, each release is about new people (`arrivals`).

Neighbour relation: all rows of one person A in all tables replaced by rows of another person B, in any of the
tables, as many or not: two streams T and T' that are equal except for A's rows in T and B's rows in T'.
Neither the number of rows of a table nor how many persons take part in it is public.

Claim. If each release by itself loses at most (epsilon, delta) whenever at most one person's rows are removed
from the measured records and at most one person's are added, then all releases of any one period together
lose at most (2 m epsilon, 2 m delta), however many there are. Proof:

1. Whether a person takes part in release t is a function of the tables in which this person has rows up to t,
and
   of the times of the releases. No other person's rows affect it. So after the filter, T and T' are equal
   except for A's rows in the releases S that A takes part in, and B's rows in those of B, S'.
2. In any one period |S| <= m: were it more, the one whose filter was applied last would have found m others
   in the period that ends with it. The same holds for S'. Both may be any sets: if they have no release in
   common, 2 m tables of the period differ. That is why the factor is 2 and not 1.
3. Releases outside of S and S' are made from equal tables and lose nothing. Each of the at most 2 m others is
made
   from tables where A's rows are removed, or B's added, or both, and loses (epsilon, delta).
4. Sequential composition (Dwork and Roth 2014, Theorem 3.16) of these 2 m releases, also if later tables,
times and
   parameters were chosen after seeing earlier releases.

Whether a person was present at all, T' = T without A, is the same argument with S only: m epsilon. The factor
2 is the price of the relation of the data set's other claims, one person in place of another, to whose losses
it is added. The operator decides when releases are made, and these times are considered public.

Step 3 requires a release that does not depend on the number of persons: `contributions.with_noisy_number`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.limits import Period, exact
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Promise

REPLACED = (
    2  # persons in whom two neighbouring streams differ: the one who left, and the one who came instead
)


@dataclass(frozen=True, kw_only=True)
class Participation:
    """Limit of the number of releases of a period in which a person takes part.

    >>> year = Participation(releases=4, period=Period.parse("365d"))
    >>> each = PrivacyLoss(epsilon=0.1, neighbours="replace_person")
    >>> year.promise("visits", each).loss.epsilon
    0.8

    Attributes:
        releases: Largest number m of releases, >= 1.
        period: Period: `total`, or a rolling window.
    """

    releases: int
    period: Period

    def __post_init__(self) -> None:
        if type(self.releases) is not int or self.releases < 1:
            raise ValueError(f"releases must be a whole number >= 1, got {self.releases!r}")
        if self.period.name == "release":
            raise ValueError("the period must be total or a number of days such as 365d, got release")

    def promise(self, name: str, each: PrivacyLoss) -> Promise:
        """Return what all releases lose together in any period, given the loss of each.

        Raises:
            ValueError: If the loss is not for persons.
        """
        if each.neighbours is not Neighbours.REPLACE_PERSON:
            raise ValueError(f"the loss of each release must be for replace_person, got {each.neighbours}")
        times = REPLACED * self.releases
        loss = PrivacyLoss(
            epsilon=float(times * exact(each.epsilon)),
            delta=float(times * exact(each.delta)),
            neighbours=each.neighbours,
        )
        return Promise(name=name, loss=loss, period=self.period)

    def takes_part(
        self, persons: npt.NDArray[np.int64], earlier: Sequence[npt.NDArray[np.int64]]
    ) -> npt.NDArray[np.bool_]:
        """(n,) whether the person of each row takes part.

        Args:
            persons: Person of each row, shape (n,), with the same number in every release.
            earlier: Those who took part in each release of the period so far, each person once.

        >>> m_2 = Participation(releases=2, period=Period())
        >>> m_2.takes_part(np.array([8, 7, 8, 9]), [np.array([7]), np.array([7, 8])]).tolist()
        [True, False, True, True]
        """
        none = np.zeros(0, dtype=np.int64)
        known, times = np.unique(np.concatenate([none, *earlier]), return_counts=True)
        return ~np.isin(persons, known[times >= self.releases])
