"""How the columns of a release are to be read: what each stands for, and how general each label is.

Nothing here is counted on records: all follows from the schema of the source, that of the release, and the
form in which intervals were asked for. So it may be told to everybody, beside the release.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from privacy_engine.measures.recoding import Intervals
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.vocabulary import Kind, Role, bounds_of, released_as


class Form(StrEnum):
    """What the cells of a released column are."""

    VALUE = "value"  # of the attribute itself
    LOWER = "lower bound"  # the least value that a record of the class may have
    UPPER = "upper bound"  # the largest
    MIDPOINT = "midpoint"  # between the two; it covers no value
    NULL_FLAG = "null flag"  # whether the interval covers a null
    INTERVAL = "interval text"  # "[17, 25]", or one value
    LABEL = "label"  # a node of a hierarchy, or of the calendar
    SET = "set text"  # "{a, b}", or one value


@dataclass(frozen=True, kw_only=True)
class ReleasedColumn:
    """How one column of a release is to be read.

    Attributes:
        name: of the column.
        source: the attribute that it tells of; None of a column that the release adds.
        form: what its cells are.
        closed: whether an interval has its ends among the values it covers; None where there is none.
        levels: label -> its level in the hierarchy, 0 = a value of the source. Where a label stands on
            several levels, the lowest. Empty where the public domain has no hierarchy.
        height: level of the root; None where there is no hierarchy.
    """

    name: str
    source: str | None
    form: Form
    closed: bool | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    height: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        told = {"source": self.source, "form": self.form.value, "closed": self.closed}
        return told | ({"levels": dict(self.levels), "height": self.height} if self.levels else {})


def released_columns(
    source: DataSchema, released: DataSchema, intervals: Intervals | None = None
) -> tuple[ReleasedColumn, ...]:
    """How each column of a release is to be read, in their order.

    Args:
        source: of the table that was released.
        released: of what it became.
        intervals: the form in which an anonymizer wrote intervals; None: the method recodes nothing, and all
            cells are values.

    >>> source = DataSchema.from_dict(
    ...     {"age": {"role": "quasi_identifier", "kind": "numeric"}, "ill": {"role": "sensitive"}}
    ... )
    >>> shown = DataSchema.from_dict(
    ...     {
    ...         "age_from": {"role": "quasi_identifier", "kind": "numeric"},
    ...         "age_to": {"role": "quasi_identifier", "kind": "numeric"},
    ...         "ill": {"role": "sensitive"},
    ...     }
    ... )
    >>> [(c.source, c.form.value) for c in released_columns(source, shown, Intervals.BOUNDS)]
    [('age', 'lower bound'), ('age', 'upper bound'), ('ill', 'value')]
    """
    found: dict[str, ReleasedColumn] = {}
    for attribute in source.attributes:
        if attribute.role is Role.QUASI_IDENTIFIER and intervals is not None:
            own = _recoded(attribute, released)
        else:
            own = [ReleasedColumn(name=attribute.name, source=attribute.name, form=Form.VALUE)]
        found |= {column.name: column for column in own if column.name in released.names}
    return tuple(
        found.get(name) or ReleasedColumn(name=name, source=None, form=Form.VALUE) for name in released.names
    )


def _recoded(attribute: Attribute, released: DataSchema) -> list[ReleasedColumn]:
    """The columns that a quasi-identifier was released as; none where a method left it out."""
    name, names = attribute.name, released_as(attribute.name, released.names)
    if not names:
        return []
    if name not in names:
        forms = dict(zip(bounds_of(name), (Form.LOWER, Form.UPPER, Form.NULL_FLAG), strict=True))
        return [
            ReleasedColumn(
                name=end, source=name, form=forms[end], closed=None if forms[end] is Form.NULL_FLAG else True
            )
            for end in names
        ]
    if not attribute.ordered:
        tree = _public_tree(attribute)
        if tree is None:
            form = Form.LABEL if attribute.dates is not None else Form.SET
            return [ReleasedColumn(name=name, source=name, form=form)]
        return [
            ReleasedColumn(
                name=name, source=name, form=Form.LABEL, levels=_levels(tree), height=len(tree.rows[0]) - 1
            )
        ]
    if released[name].hierarchy is not None or released[name].kind is Kind.CATEGORICAL:
        return [ReleasedColumn(name=name, source=name, form=Form.INTERVAL, closed=True)]
    return [ReleasedColumn(name=name, source=name, form=Form.MIDPOINT)]


def _public_tree(attribute: Attribute) -> Hierarchy | None:
    """The hierarchy of an attribute, as far as it does not depend on the records."""
    if attribute.hierarchy is not None:
        return attribute.hierarchy
    if attribute.dates is not None and attribute.dates.calendar and attribute.bounds is not None:
        return attribute.dates.hierarchy(*attribute.bounds)
    return None


def _levels(tree: Hierarchy) -> dict[str, int]:
    """Label -> its lowest level; a null is no label."""
    found: dict[str, int] = {}
    for row in tree.rows:
        for level, label in enumerate(row):
            if label != NULL:
                found[label] = min(level, found.get(label, level))
    return found
