"""What several known rows of one person give away, although nothing in a release links them.

Each class may hold l values of a sensitive attribute, and yet whoever knows several rows of a person, and
that the attribute is the same in all of them, looks for it among the values that the classes of all these
rows have in common: intersection, as of releases over time in Ganta, Kasiviswanathan, Smith, "Composition
attacks and auxiliary information in data privacy" (2008). Persons with more than one value are not found so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from privacy_engine.verification.models import DistinctLDiversity, PrivacyModel

if TYPE_CHECKING:  # a policy is read wherever DAGs are parsed, and pandas takes long to load
    from privacy_engine.tables.persons import ValuesLeft


@dataclass(frozen=True, kw_only=True)
class RowIntersection:
    """Of each person whose rows all have one sensitive value, at least l values are in all their classes.

    Where each row counts as a person, it is distinct l-diversity.

    Attributes:
        l: least number of values that are left.
        attribute: the sensitive attribute; None means each of the table's.

    >>> RowIntersection(l=1)
    Traceback (most recent call last):
    ValueError: l must be >= 2, got 1
    """

    l: int  # noqa: E741  the field's own symbol
    attribute: str | None = None
    name: ClassVar[str] = "row_intersection"

    def __post_init__(self) -> None:
        self.of_class()  # which asks the same of its parameters

    @property
    def threshold(self) -> float:
        """l."""
        return float(self.l)

    def of_class(self) -> DistinctLDiversity:
        """What it asks of each class where each row counts as a person."""
        return DistinctLDiversity(l=self.l, attribute=self.attribute)


ROW_MODELS: Mapping[str, type[Any]] = {RowIntersection.name: RowIntersection}


def persons_below(left: ValuesLeft, least: int) -> int:
    """Persons of whom fewer than so many values are left."""
    return int(left.persons[left.left < least].sum())


def figures(found: Mapping[str, ValuesLeft], models: Sequence[PrivacyModel]) -> dict[str, float]:
    """Of the worst sensitive attribute: the fewest values left, and the persons with fewer than l of them.

    Args:
        found: sensitive attribute -> what is left.
        models: what classes keep, the largest distinct l among it; 2 where there is none.

    Returns:
        Empty where no person has one value in all rows.
    """
    known = [left for left in found.values() if len(left.left)]
    if not known:
        return {}
    least = max((model.l for model in models if isinstance(model, DistinctLDiversity)), default=2)
    return {
        "values_left": float(min(left.left[0] for left in known)),
        "persons_below_l": float(max(persons_below(left, least) for left in known)),
    }
