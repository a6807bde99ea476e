"""What several known rows of one person reveal, although nothing in a release links them.

Each class may have l values of a sensitive attribute. Yet someone who knows several rows of a person, and
that the attribute is the same in all of them, only needs to consider the values that the classes of all these
rows have in common: intersection, as for releases over time in Ganta, Kasiviswanathan, Smith, "Composition
attacks and auxiliary information in data privacy" (2008). Persons with more than one value are not found this
way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from privacy_engine.verification.models import DistinctLDiversity, PrivacyModel

if TYPE_CHECKING:  # policies are read when DAGs are parsed, and pandas loads slowly
    from privacy_engine.tables.persons import ValuesLeft


@dataclass(frozen=True, kw_only=True)
class RowIntersection:
    """For each person whose rows all have one sensitive value, at least l values occur in all their classes.

    If each row counts as a person, this is distinct l-diversity.

    Attributes:
        l: Least number of values that remain possible.
        attribute: Name of the sensitive attribute; None for each of the table's.

    >>> RowIntersection(l=1)
    Traceback (most recent call last):
    ValueError: l must be >= 2, got 1
    """

    l: int  # noqa: E741  the field's own symbol
    attribute: str | None = None
    name: ClassVar[str] = "row_intersection"

    def __post_init__(self) -> None:
        self.of_class()  # which checks the parameters

    @property
    def threshold(self) -> float:
        """l."""
        return float(self.l)

    def of_class(self) -> DistinctLDiversity:
        """The requirement on each class if each row counts as a person."""
        return DistinctLDiversity(l=self.l, attribute=self.attribute)


ROW_MODELS: Mapping[str, type[Any]] = {RowIntersection.name: RowIntersection}


def persons_below(left: ValuesLeft, least: int) -> int:
    """Return the number of persons with fewer values left than required."""
    return int(left.persons[left.left < least].sum())


def figures(found: Mapping[str, ValuesLeft], models: Sequence[PrivacyModel]) -> dict[str, float]:
    """Return the fewest values left for the worst sensitive attribute, and the persons with fewer than l.

    Args:
        found: Values left by sensitive attribute.
        models: Models of classes; l is their largest distinct l, or 2 if there is none.

    Returns:
        Empty if no person has one value in all rows.
    """
    known = [left for left in found.values() if len(left.left)]
    if not known:
        return {}
    least = max((model.l for model in models if isinstance(model, DistinctLDiversity)), default=2)
    return {
        "values_left": float(min(left.left[0] for left in known)),
        "persons_below_l": float(max(persons_below(left, least) for left in known)),
    }
