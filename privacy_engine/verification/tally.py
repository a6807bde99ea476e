"""Check models on the classes of a table in parts, wherever the classes are counted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from privacy_engine.tables.classes import Classes
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import PrivacyModel, concerns, require_distances, rule_of
from privacy_engine.verification.policy import ReleasePolicy


@dataclass
class JudgedModel:
    """A model and its result on the classes measured so far.

    Attributes:
        model, rule: Model that is measured, and its name in a report.
        measured: Number of the worst class; nan if there is none.
        classes: Number of classes that were measured.
        failing_classes, failing_rows: Number of classes, and of their rows, that do not satisfy the model.
    """

    model: PrivacyModel
    rule: str
    measured: float = math.nan
    classes: int = 0
    failing_classes: int = 0
    failing_rows: int = 0

    def add(self, classes: Classes) -> None:
        """Measure further classes."""
        violations = self.model.violations(classes)
        self._take(
            measured=self.model.measure(classes),
            classes=len(classes),
            failing_classes=int(violations.sum()),
            failing_rows=int(classes.sizes[violations].sum()),
        )

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers for `take`."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    def take(self, numbers: Mapping[str, float]) -> None:
        """Add the result of another instance on other classes."""
        self._take(**numbers)  # type: ignore[arg-type]  # whole numbers except the first

    def _take(self, measured: float, classes: int, failing_classes: int, failing_rows: int) -> None:
        if classes or not self.classes:  # the result on no classes counts only if there are none
            worse = min if self.model.at_least else max
            self.measured = worse(self.measured, measured) if self.classes else measured
        self.classes += classes
        self.failing_classes += failing_classes
        self.failing_rows += failing_rows


class Tally:
    """The results of a policy's models on a table, some of its classes at a time. Tallies add up.

    A tally has a few numbers per model, however many classes it saw.

    Args:
        policy: Policy whose models of classes are measured, and those of known rows if each row counts as a
            person.
        schema: Schema of the released records.
        by_person: Whether the classes are counted by persons.

    Attributes:
        judged: Models with their results, in the order of the policy.
        rows, classes: Numbers of rows and classes of the table so far.

    Raises:
        SchemaError: If the policy requires a distance that a sensitive attribute does not have.
    """

    def __init__(self, policy: ReleasePolicy, schema: DataSchema, *, by_person: bool) -> None:
        require_distances(policy.require, {a.name: a for a in schema.sensitive})
        self.judged = [JudgedModel(model, rule_of(model)) for model in policy.require]
        if not by_person:
            self.judged += [JudgedModel(model.of_class(), rule_of(model)) for model in policy.known_rows]
        self.rows = self.classes = 0
        sensitive = [a.name for a in schema.sensitive] if schema.tables else []
        self._of_rows = [judged for judged in self.judged if not concerns(judged.model, sensitive)]

    def add(self, part: Classes) -> None:
        """Measure some classes of all records: each class once and complete."""
        self.rows, self.classes = self.rows + part.records, self.classes + len(part)
        for judged in self._of_rows:
            judged.add(part)

    def add_of_table(self, part: Classes) -> None:
        """Measure some classes of one table with sensitive attributes, if the records belong to several."""
        for judged in self.judged:
            if concerns(judged.model, part.sensitive):
                judged.add(part)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `take`."""
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
    """Return the tally of some classes as plain values, wherever they are counted.

    Args:
        parts: Classes, part by part.
        policy: Policy whose models are measured, as for `Tally`.
        schema: Schema of the released records.
        by_person: Whether the classes are counted by persons.
        of_table: Whether the classes belong to one of several tables.
    """
    tally = Tally(policy, schema, by_person=by_person)
    add = tally.add_of_table if of_table else tally.add
    for part in parts:
        add(part)
        del part  # otherwise two parts are in memory while the next one is made
    return tally.to_dict()
