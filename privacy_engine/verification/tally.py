"""Models held against the classes of a table, some of the classes at a time, wherever these are counted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from privacy_engine.tables.classes import Classes
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel, asks_of, require_distances, rule_of
from privacy_engine.verification.policy import ReleasePolicy


@dataclass
class Judged:
    """A model held against classes, some at a time.

    Attributes:
        model, rule: that is measured, and its name in a report.
        measured: the number of the worst class; nan where there is none.
        classes: that were measured.
        failing_classes, failing_rows: of them, how many do not satisfy the model.
    """

    model: PrivacyModel
    rule: str
    measured: float = math.nan
    classes: int = 0
    failing_classes: int = 0
    failing_rows: int = 0

    def add(self, classes: Classes) -> None:
        """Measure classes that were not measured before."""
        violations = self.model.violations(classes)
        self._take(
            measured=self.model.measure(classes),
            classes=len(classes),
            failing_classes=int(violations.sum()),
            failing_rows=int(classes.sizes[violations].sum()),
        )

    def to_dict(self) -> dict[str, float]:
        """Plain numbers, which `take` takes."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    def take(self, numbers: Mapping[str, float]) -> None:
        """Add what another one measured on other classes."""
        self._take(**numbers)  # type: ignore[arg-type]  # whole numbers but for the first

    def _take(self, measured: float, classes: int, failing_classes: int, failing_rows: int) -> None:
        if classes or not self.classes:  # what no class is like counts only where there is none
            worse = min if self.model.at_least else max
            self.measured = worse(self.measured, measured) if self.classes else measured
        self.classes += classes
        self.failing_classes += failing_classes
        self.failing_rows += failing_rows


class Tally:
    """What a policy's models of classes say of a table, some of its classes at a time; tallies add up.

    The numbers of a tally are a few for each model, however many classes it saw.

    Args:
        policy: whose models of classes are measured; those of known rows, too, where each row counts as a
            person.
        schema: of the released records.
        by_person: whether the classes are counted by persons.

    Attributes:
        judged: the models, in the order of the policy.
        rows, classes: of the table, so far.

    Raises:
        SchemaError: if the policy asks for a distance that a sensitive attribute does not have.
    """

    def __init__(self, policy: ReleasePolicy, schema: DataSchema, *, by_person: bool) -> None:
        require_distances(policy.require, {a.name: a for a in schema.sensitive})
        self.judged = [Judged(model, rule_of(model)) for model in policy.require]
        if not by_person:
            self.judged += [Judged(model.of_class(), rule_of(model)) for model in policy.known_rows]
        self.rows = self.classes = 0
        sensitive = [a.name for a in schema.sensitive] if schema.tables else []
        self._of_rows = [judged for judged in self.judged if not asks_of(judged.model, sensitive)]

    def add(self, part: Classes) -> None:
        """Measure some classes of all records: each class once, whole."""
        self.rows, self.classes = self.rows + part.records, self.classes + len(part)
        for judged in self._of_rows:
            judged.add(part)

    def add_of_table(self, part: Classes) -> None:
        """The same, where the records are of several tables, of one with sensitive attributes."""
        for judged in self.judged:
            if asks_of(judged.model, part.sensitive):
                judged.add(part)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which `take` takes."""
        return {
            "rows": self.rows,
            "classes": self.classes,
            "judged": [judged.to_dict() for judged in self.judged],
        }

    def take(self, tally: Mapping[str, Any]) -> None:
        """Add a tally of other classes by the same policy."""
        self.rows, self.classes = self.rows + tally["rows"], self.classes + tally["classes"]
        numbers: Sequence[Mapping[str, float]] = tally["judged"]
        for judged, own in zip(self.judged, numbers, strict=True):
            if own["classes"]:
                judged.take(own)


def tallied(
    parts: Iterable[Classes], policy: ReleasePolicy, schema: DataSchema, *, by_person: bool, of_table: bool
) -> dict[str, Any]:
    """The tally of some classes as plain values, wherever they are counted.

    Args:
        parts: the classes, part by part.
        policy: as of `Tally`.
        schema: as of `Tally`.
        by_person: as of `Tally`.
        of_table: whether they are of one of several tables.
    """
    tally = Tally(policy, schema, by_person=by_person)
    add = tally.add_of_table if of_table else tally.add
    for part in parts:
        add(part)
        del part  # or two of them are in memory while the next one is made
    return tally.to_dict()
