"""One column of a table: its role, kind, public domain and hierarchy."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.choice import E, choice
from privacy_engine.errors import SchemaError
from privacy_engine.tables.coding import CODING_FIELDS, Coding, read_number
from privacy_engine.tables.columns import factorize, floats, is_atomic, is_number, value_text
from privacy_engine.tables.date_form import FORM_FIELDS, DateForm, Derivation
from privacy_engine.tables.dates import DATES, TIMES, end_of_bounds, is_dated
from privacy_engine.tables.direct_identifiers import (
    FIELDS,
    Allowed,
    Pseudonym,
    Signature,
    TextRule,
    read_fields,
    written_fields,
)
from privacy_engine.tables.faults import (
    Faults,
    faults_of_codes,
    faults_of_dates,
    faults_of_labels,
    faults_of_numbers,
    problems_of,
)
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.normal import normal_forms
from privacy_engine.tables.scales import Scale
from privacy_engine.vocabulary import Kind, Meaning, Role, counted, has_public_domain

_CLOCKS = {Kind.DATE: DATES, Kind.TIMESTAMP: TIMES}
_NO_TEXT = (Kind.NUMERIC, *_CLOCKS)


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One column.

    Attributes:
        name: Name of the column.
        role: Meaning for the people in the table.
        kind: Comparisons that its values allow.
        categories: Public domain of a categorical or ordinal attribute, ordinal ones in order.
        bounds: Public domain of a numeric (or integer ordinal) attribute, both ends included; for a date in
            days, for a timestamp in seconds since 1970-01-01, also given as ISO dates.
        bins: Number of public bins between the bounds, for methods that need bins; of equal width unless
            `scale` or wide bounds say otherwise.
        scale: How the bins of a number lie, for synthesizers: equal in width (`linear`), equal in the
            logarithm (`log`), or between private quantiles (`quantiles`). None: quantiles if the bounds are
            wide, see `privacy_engine.tables.scales.are_wide`, else linear.
        hierarchy: Generalization tree over the values; dates have `dates.calendar` instead.
        nullable: Whether the attribute may be null; null is then a separate value, which no interval and no
            node of a hierarchy except its root covers.
        dates: Form of a date or timestamp: how it is read, cut and generalized; None for any other kind.
        pseudonym: Pseudonym that replaces an identifier in the release, where the attribute is insensitive.
        text: Action if released text has addresses, numbers or names of persons: `redact`, or a permission
            with a reason; None: the source is refused.
        unique: Permission for an insensitive column with nearly one value per record or person.
        free_text: Signature for text whose values the schema does not list, for policies that require it.
        unlisted: Whether it is the released form of a quasi-identifier that was free text.
        exact: Permission to count the spellings of a text as different values, see
            `privacy_engine.tables.normal`; for sensitive attributes, and for the identifier of the person.
        coding: How values are coded when the table is read. Bounds are given for the source and become those
            of the codes; categories and hierarchy are those of the codes.
        meaning: Meaning of the values, for policies that require it.
        derive: How a numeric or ordinal attribute is derived from dates when the source is read, which has no
            such column; None: it is a column of the table.

    Raises:
        SchemaError: If the parts contradict each other.
    """

    name: str
    role: Role = Role.INSENSITIVE
    kind: Kind = Kind.CATEGORICAL
    categories: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    bins: int | None = None
    scale: Scale | None = None
    hierarchy: Hierarchy | None = None
    nullable: bool = False
    dates: DateForm | None = None
    pseudonym: Pseudonym | None = None
    text: TextRule | None = None
    unique: Allowed | None = None
    free_text: Signature | None = None
    unlisted: bool = False
    exact: Allowed | None = None
    coding: Coding | None = None
    meaning: Meaning | None = None
    derive: Derivation | None = None

    def __post_init__(self) -> None:
        clock = _CLOCKS.get(self.kind)
        if clock is not None and self.dates is None:
            object.__setattr__(self, "dates", DateForm(clock=clock))
        problem = self._contradiction_of_dates() if self.dates else None
        problem = problem or self._contradiction_of_coding() or self._contradiction() or self._misplaced()
        if problem:
            raise SchemaError(f"attribute {self.name!r}: {problem}")

    def _contradiction_of_dates(self) -> str | None:
        form = self.dates
        if form is None or form.clock != _CLOCKS.get(self.kind):
            return f"the fields of dates must fit a {self.kind.value}. Give it that kind of clock"
        if self.categories is not None or (self.hierarchy is not None and not form.calendar):
            return "a date has no categories and no hierarchy. Give it a calendar, such as [month, year]"
        if self.bounds is not None:
            bounds = form.bounds(self.bounds)
            if bounds is None or bounds[0] >= bounds[1]:
                return (
                    "bounds must be two ISO dates or times without a zone, the lower first and in an earlier "
                    f"{form.cut_to.value}"
                )
            object.__setattr__(self, "bounds", bounds)
            if form.bounds(form.widened(bounds)) is None:
                return "shift would lead out of the calendar. State narrower bounds"
        if form.shift is not None and self.role is Role.IDENTIFIER:
            return "shift applies only to released dates. Remove it"
        if form.bin is not None and (self.bins is not None or self.bounds is None):
            return "bin requires bounds, and replaces bins"
        if form.calendar and self.role is not Role.QUASI_IDENTIFIER:
            return "calendar applies only to quasi-identifiers. State precision instead"
        if form.as_is and self.role is not Role.INSENSITIVE:
            return "as_is applies only to insensitive attributes. State precision instead"
        if form.precision is None and not form.as_is:
            if self.role is Role.INSENSITIVE:
                return (
                    "an insensitive date distinguishes people. State the precision to which it is released, "
                    "such as precision: month, or as_is: true to release it unchanged"
                )
            if self.role is Role.SENSITIVE:
                return "a sensitive date must state the precision of its values, such as precision: month"
        return None

    def _contradiction_of_coding(self) -> str | None:
        """Check the coding, cut the codes of dates like dates, and make the bounds those of the codes."""
        if self.meaning is not None and self.dates is not None and self.meaning is not Meaning.DATE:
            return f"meaning must be date if the kind is {self.kind.value}. Correct one of them"
        coding = self.coding
        if coding is None:
            return None
        if self.role is Role.IDENTIFIER:
            return "codes apply only to released attributes. Remove them, or correct the role"
        if coding.of_text:
            return (
                None
                if self.kind is Kind.CATEGORICAL
                else "prefix applies only to text. Make it kind: categorical"
            )
        if self.dates is None and not self._of_numbers:
            return (
                "top_code and bottom_code apply to numbers and dates without categories and "
                "hierarchy. Put the ends into the categories or the hierarchy"
            )
        if self.dates is not None and self.dates.as_is:
            return "as_is releases values unchanged. Remove top_code and bottom_code, or as_is"
        if self.dates is not None and self.dates.shift:
            return "shift moves values away from top_code and bottom_code. Remove them, or shift"
        if self.dates is not None:
            coding = coding.cut(self.dates.cut)
        if self.bounds is not None and self.bounds[0] < self.bounds[1]:
            coding = replace(coding, source=coding.source or self.bounds)
            bounds = coding.within(self.bounds)
            if bounds[0] >= bounds[1]:
                return "top_code and bottom_code must leave more than one value of those within the bounds"
            object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "coding", coding)
        return None

    def _contradiction(self) -> str | None:
        if not self.name or not isinstance(self.name, str):
            return "the name must be a non-empty string"
        if self.bounds is not None and (
            self.kind is Kind.CATEGORICAL
            or not all(math.isfinite(b) for b in self.bounds)
            or self.bounds[0] >= self.bounds[1]
        ):
            return "bounds must be two finite numbers, the lower first, on a numeric or ordinal attribute"
        if self.bounds is not None and not math.isfinite(self.bounds[1] - self.bounds[0]):
            return "bounds are too far apart. Narrow them"
        if self.categories is not None and (
            self.kind is Kind.NUMERIC
            or len(set(self.categories)) < len(self.categories)
            or not self.categories
        ):
            return "categories must be distinct and at least one, on a categorical or ordinal attribute"
        if self.bounds is not None and self.categories is not None:
            return "give bounds or categories, not both"
        if self.bins is not None and (type(self.bins) is not int or self.bins < 1 or self.bounds is None):
            return "bins must be a positive whole number and require bounds"
        if self.scale is not None and (self.bounds is None or self.dates is not None or self.hierarchy):
            return "scale requires bounds, on numbers without a hierarchy. Remove it, or add bounds"
        if self.hierarchy is not None and (
            missing := set(self.categories or ()) - set(self.hierarchy.values)
        ):
            return f"the hierarchy misses {len(missing)} of the categories. Add a row for each"
        if self.hierarchy is not None and (untrue := self.hierarchy.untruthful_rows()):
            rows = counted(untrue, "row of the hierarchy has", "rows of the hierarchy have")
            return f"{rows} a label that does not apply to the value. Correct it"
        return None

    def _misplaced(self) -> str | None:
        """Return the field about direct identifiers that the role does not allow."""
        if self.pseudonym is not None:
            role = Role.INSENSITIVE if self.pseudonym.key else Role.IDENTIFIER
            if self.role is not role:
                return f"a pseudonym replaces an identifier, so the role must be {role.value}"
        if self.text is not None and (self.role is Role.IDENTIFIER or self.kind in _NO_TEXT):
            return "text applies only to released text columns. Remove it"
        if self.free_text is not None and (self.role is Role.IDENTIFIER or self.kind in _NO_TEXT):
            return "free_text applies only to released text columns. Remove it"
        if self.unique is not None and self.role is not Role.INSENSITIVE:
            return "unique applies only to insensitive attributes. Remove it"
        if self.exact is not None and self.role not in (Role.SENSITIVE, Role.IDENTIFIER):
            return "exact applies only to sensitive attributes and identifiers. Remove it"
        if self.derive is not None and (
            self.role is Role.IDENTIFIER or self.kind not in (Kind.NUMERIC, Kind.ORDINAL)
        ):
            return "an attribute derived from dates is a released number. Make it numeric or ordinal"
        return None

    @property
    def about(self) -> Meaning | None:
        """Meaning of the values; a date or timestamp has it by its kind."""
        return self.meaning or (Meaning.DATE if self.dates is not None else None)

    @property
    def is_free_text(self) -> bool:
        """Whether text may be released that no schema lists: a categorical column without a domain.

        The released form of a quasi-identifier never has a domain; there `unlisted` says so.
        """
        released = self.role is not Role.IDENTIFIER and self.pseudonym is None
        return released and self.kind is Kind.CATEGORICAL and not self.has_public_domain

    @property
    def ordered(self) -> bool:
        """Whether it is recoded by intervals: any kind but categorical, and without a hierarchy."""
        in_tree = self.hierarchy is not None or (self.dates is not None and bool(self.dates.calendar))
        return self.kind is not Kind.CATEGORICAL and not in_tree

    @property
    def nominal(self) -> bool:
        """Whether its values have no order."""
        return self.kind is Kind.CATEGORICAL

    @property
    def hierarchical(self) -> bool:
        """Whether it has a hierarchy."""
        return self.hierarchy is not None

    @property
    def has_public_domain(self) -> bool:
        """Whether the domain comes from the schema and never from the data."""
        return has_public_domain(self)

    def counted_as(self, texts: Sequence[str]) -> list[str]:
        """Return the form of some values in which values or persons are counted.

        It is the normal form, the same for all spellings of a text; if `exact`, the text itself.
        """
        return normal_forms(texts) if self.exact is None else list(texts)

    @property
    def allows_nulls(self) -> bool:
        """Whether null is allowed in the column."""
        return self.nullable or self.role in (Role.IDENTIFIER, Role.INSENSITIVE)

    def problems(self, column: pd.Series) -> list[str]:
        """Return the problems of a column, by rule and count; empty if it fits."""
        wrong = self.type_problem(column)
        return [wrong] if wrong else problems_of(self.faults(column))

    def type_problem(self, column: pd.Series) -> str | None:
        """Return the problem of the type of a column, if any."""
        if not is_atomic(column):
            return "must hold one text, number, date or truth value per cell, and no bytes. Split the column"
        if self.dates is not None:
            return self.dates.type_problem(column)
        if is_dated(column):
            return (
                f"holds dates or times, got {column.dtype}. Make it kind: date or kind: timestamp, not "
                f"{self.kind.value}"
            )
        if self._of_numbers and not is_number(column):
            return f"must be a number, got {column.dtype}. Convert the column, or make it categorical"
        if self.coding is not None:
            whole = pd.api.types.is_integer_dtype(column.dtype)
            return self.coding.type_problem(number=is_number(column), whole=whole)
        return None

    def faults(self, column: pd.Series) -> Faults:
        """Return the faults of the values of a column of the right type; those of its parts add up."""
        if self.dates is not None:
            return faults_of_dates(
                self.dates.read(column).faults(nullable=self.allows_nulls),
                self.dates.numbers(column),
                self.source_bounds,
            )
        if self._of_numbers:
            return faults_of_numbers(column, nullable=self.allows_nulls, bounds=self.source_bounds)
        leaves = self.hierarchy.values if self.hierarchy else None
        if self.coding is None:
            return faults_of_labels(
                column, nullable=self.allows_nulls, categories=self.categories, leaves=leaves
            )
        coded = factorize(column)
        misfits = self.coding.misfits(coded.texts, number=is_number(column))
        return faults_of_codes(coded.codes, misfits) or faults_of_labels(
            self.coding.prefixes(column),
            nullable=self.allows_nulls,
            categories=self.categories,
            leaves=leaves,
        )

    @property
    def source_bounds(self) -> tuple[float, float] | None:
        """The bounds of values before they are coded."""
        return (self.coding.source if self.coding else None) or self.bounds

    def numbers(self, column: pd.Series) -> npt.NDArray[np.float64]:
        """(n,) values of a column of numbers; days for a date, seconds for a timestamp, cut. NaN = null."""
        numbers = floats(column) if self.dates is None else self.dates.numbers(column)
        return numbers if self.coding is None else self.coding.clipped(numbers)

    def normal(self, column: pd.Series) -> pd.Series:
        """Return a checked column as used after ingest: dates in one type and cut, values coded."""
        if self.dates is not None:
            if self.coding is None:
                return self.dates.normal(column)
            return self.dates.clock.column(self.numbers(column), column.name)
        if self.coding is None:
            return column
        return self.coding.prefixes(column) if self.coding.of_text else self.coding.clipped_column(column)

    def as_of(self, day: date) -> "Attribute":
        """Return the attribute for a release of that day, see `Coding.as_of`."""
        if self.coding is None or self.coding.years_before_release is None:
            return self

        def number_of(first: date) -> float:
            known = end_of_bounds(first, self.dates.clock, upper=False) if self.dates else None
            return float(first.year if known is None else known)

        return replace(self, coding=self.coding.as_of(day, number_of))

    def codes_in_words(self) -> str:
        """Explanation of its codes in a sentence; empty if values are not coded."""
        return self.coding.meaning_of(self._label, dated=self.dates is not None) if self.coding else ""

    def _label(self, number: float) -> str:
        if self.dates is None:
            return value_text(number)
        return self.dates.labels(np.array([number]))[0]

    @property
    def _of_numbers(self) -> bool:
        return self.ordered and self.categories is None

    def ingested(self) -> "Attribute":
        """Return the attribute after a source is read: derived or shifted, with bounds that fit."""
        if self.dates is None or self.dates.shift is None:
            return replace(self, derive=None)
        bounds = self.dates.widened(self.bounds) if self.bounds is not None else None
        return replace(self, bounds=bounds, dates=replace(self.dates, shift=None))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``; the hierarchy is written out in full."""
        out: dict[str, Any] = {"role": self.role.value, "kind": self.kind.value}
        if self.categories is not None:
            out["categories"] = list(self.categories)
        if (bounds := self.source_bounds) is not None:
            out["bounds"] = self.dates.bounds_text(bounds) if self.dates else list(bounds)
        if self.bins is not None:
            out["bins"] = self.bins
        if self.scale is not None:
            out["scale"] = self.scale.value
        if self.hierarchy is not None:
            out["hierarchy"] = [list(row) for row in self.hierarchy.rows]
        if self.dates is not None:
            out |= self.dates.to_dict()
        if self.nullable:
            out["nullable"] = True
        if self.coding is not None:
            out |= self.coding.to_dict(self._written)
        if self.meaning is not None:
            out["meaning"] = self.meaning.value
        if self.unlisted:
            out["unlisted"] = True
        if self.derive is not None:
            out["derive"] = self.derive.to_dict()
        return out | self.direct_identifiers()

    def _written(self, number: float) -> float | str:
        """Return a number of its scale, as schemas state it."""
        if self.dates is None:
            return number
        return self.dates.clock.labels(np.array([number], dtype=np.int64), self.dates.clock.unit)[0]

    def direct_identifiers(self) -> dict[str, Any]:
        """Pseudonym, text, unique, free_text and exact as plain values, if given."""
        return written_fields(self.pseudonym, self.text, self.unique, self.free_text, self.exact)

    @classmethod
    def from_dict(
        cls, name: str, fields: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy] | None = None
    ) -> "Attribute":
        """Read the output of ``to_dict``; a hierarchy may also be a key of ``hierarchies``."""
        if not isinstance(fields, Mapping):
            raise SchemaError(f"attribute {name!r} must be a mapping with role and kind")
        if unknown := sorted(set(map(str, fields)) - _FIELDS):
            raise SchemaError(f"attribute {name!r}: unknown fields {unknown}; known are {sorted(_FIELDS)}")
        kind = _member(Kind, fields.get("kind", Kind.CATEGORICAL), name, "kind")
        form = _date_form(kind, fields, name)
        bounds = fields.get("bounds")
        meaning, scale = fields.get("meaning"), fields.get("scale")
        return cls(
            name=name,
            role=_member(Role, fields.get("role", Role.INSENSITIVE), name, "role"),
            kind=kind,
            dates=form,
            categories=_texts(fields.get("categories"), name),
            bounds=_pair(bounds, name) if form is None or bounds is None else bounds,
            bins=fields.get("bins"),
            scale=None if scale is None else _member(Scale, scale, name, "scale"),
            hierarchy=_hierarchy(fields.get("hierarchy"), name, hierarchies or {}),
            nullable=_flag(fields.get("nullable", False), name),
            unlisted=_flag(fields.get("unlisted", False), name, "unlisted"),
            coding=_coding(form, fields, name),
            meaning=None if meaning is None else _member(Meaning, meaning, name, "meaning"),
            derive=_derivation(fields.get("derive"), name),
            **read_fields(fields, name),
        )


_FIELDS = {
    *("role", "kind", "categories", "bounds", "bins", "scale", "hierarchy", "nullable", "derive"),
    *FORM_FIELDS,
    *FIELDS,
    *CODING_FIELDS,
    "meaning",
    "unlisted",
}


def _member(enum: type[E], value: object, name: str, field: str) -> E:
    try:
        return choice(enum, value, field)
    except ValueError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _texts(values: Any, name: str) -> tuple[str, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list | tuple) or not all(isinstance(v, str | int | float) for v in values):
        raise SchemaError(
            f"attribute {name!r}: categories must be a list of texts or numbers, none of them null"
        )
    return tuple(map(value_text, values))


def _derivation(given: Any, name: str) -> Derivation | None:
    try:
        return None if given is None else Derivation.from_dict(given)
    except SchemaError as error:
        raise SchemaError(f"attribute {name!r}: {error}") from None


def _flag(value: Any, name: str, field: str = "nullable") -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"attribute {name!r}: {field} must be true or false")
    return value


def _pair(values: Any, name: str) -> tuple[float, float] | None:
    if values is None:
        return None
    if not isinstance(values, list | tuple) or [type(v) in (int, float) for v in values] != [True, True]:
        raise SchemaError(f"attribute {name!r}: bounds must be two numbers, the lower first")
    return float(values[0]), float(values[1])


def _date_form(kind: Kind, fields: Mapping[str, Any], attribute: str) -> DateForm | None:
    """What is said of a date; None of an attribute of another kind, of which none of it may be said."""
    given = {name: fields[name] for name in FORM_FIELDS if fields.get(name) not in (None, False)}
    clock = _CLOCKS.get(kind)
    if clock is None and not given:
        return None
    if clock is None:
        raise SchemaError(
            f"attribute {attribute!r}: {sorted(given)} are of dates: make it kind: date or kind: timestamp, "
            "or leave them out"
        )
    if fields.get("hierarchy") is not None:
        raise SchemaError(
            f"attribute {attribute!r}: dates have no hierarchy of their own: give calendar, such as "
            "[month, year]"
        )
    try:
        return DateForm.of(clock, given)
    except SchemaError as error:
        raise SchemaError(f"attribute {attribute!r}: {error}") from None


def _coding(form: DateForm | None, fields: Mapping[str, Any], attribute: str) -> Coding | None:
    """What is said of codes; None where nothing is."""

    def read(field: str, value: Any) -> float:
        if form is None:
            return read_number(field, value)
        number = end_of_bounds(value, form.clock, upper=False)
        if number is None:
            raise SchemaError(f"{field} must be an ISO date without a zone, such as 1935-01-01")
        return float(number)

    given = {name: fields[name] for name in CODING_FIELDS if fields.get(name) is not None}
    try:
        return Coding.of(given, read)
    except SchemaError as error:
        raise SchemaError(f"attribute {attribute!r}: {error}") from None


def _hierarchy(value: Any, name: str, hierarchies: Mapping[str, Hierarchy]) -> Hierarchy | None:
    if value is None or isinstance(value, Hierarchy):
        return value
    if isinstance(value, str):
        if value not in hierarchies:
            raise SchemaError(
                f"attribute {name!r}: no hierarchy {value!r} was given; given are {sorted(hierarchies)}"
            )
        return hierarchies[value]
    if not isinstance(value, list | tuple) or not all(isinstance(row, list | tuple) for row in value):
        raise SchemaError(
            f"attribute {name!r}: hierarchy must be a name, or a list of rows from value to root"
        )
    return Hierarchy(tuple(tuple(map(value_text, row)) for row in value))
