"""The section `schema` of a release file: role, kind and treatment of each column."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from privacy_engine.vocabulary import has_public_domain
from privacy_release.spec.fields import (
    Bound,
    Connection,
    Label,
    Meaning,
    Moment,
    Period,
    Rare,
    Whole,
    plain_bound,
)
from privacy_release.spec.rules.text import unknown
from privacy_release.spec.sections.section import Category, IncludeFile, Name, Section
from privacy_release.spec.sections.source import SourceSpec


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a reason, a text that is not blank; write one")
    return value


class PseudonymSpec(Section):
    """The pseudonyms that replace an identifier, see `privacy_release.sources.pseudonyms`.

    Attributes:
        connection: Airflow connection ID whose password is the key. Without Airflow, the key is
            $PRIVACY_PSEUDONYM_KEY.
        scope: Scope in which equal identifiers have equal pseudonyms: one `release`, or a `series` of them.
        series: Name of the series, if it is not that of this release. Tables with the same series and key
            share pseudonyms.
    """

    connection: Connection
    scope: Literal["release", "series"]
    series: Name | None = None


class ShiftSpec(Section):
    """The shift of a person's dates, see `privacy_release.sources.person_dates`.

    Attributes:
        connection: Airflow connection ID whose password is the key. Without Airflow, the key is
            $PRIVACY_PSEUDONYM_KEY.
        days: Largest number of days in either direction. Dates are always moved by at least one day.
        scope: Scope in which a person's dates are moved by the same number: one `release`, or a `series`.
        series: Name of the series, if it is not that of this release.
    """

    connection: Connection
    days: Whole = Field(ge=1, le=36_500)
    scope: Literal["release", "series"]
    series: Name | None = None


class DeriveSpec(Section):
    """A column of whole numbers derived from dates, see `privacy_engine.tables.date_form.Derivation`.

    Exactly one of the fields must be set. It names columns of the schema that are dates or timestamps. One
    end of a span may also be a day, such as 2026-01-01.

    Attributes:
        years_between: Complete years from the first date to the second, such as an age.
        days_between: Days from the first date to the second.
        days_since_first: Days since the person's first date in all files of the source.
    """

    years_between: tuple[Moment, Moment] | None = None
    days_between: tuple[Moment, Moment] | None = None
    days_since_first: Label | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("must have exactly one of years_between, days_between, days_since_first")
        return self


class AllowSpec(Section):
    """An exemption, with the reason that goes into the manifest.

    Attributes:
        allow: Reason for the exemption.
    """

    allow: Annotated[str, AfterValidator(_not_blank)]


class SignatureSpec(Section):
    """The confirmation by a named person that free text may be released, which goes into the manifest.

    Attributes:
        signed_by: Name and office of the person.
        reason: Reason why the text identifies no one.
    """

    signed_by: Annotated[str, AfterValidator(_not_blank)]
    reason: Annotated[str, AfterValidator(_not_blank)]


def _rule_form(value: object) -> str:
    return "leave" if isinstance(value, Mapping | AllowSpec) else "redaction"


def _text_rule(value: object) -> object:
    if value != "redact" and _rule_form(value) == "redaction":
        raise ValueError("must be redact, or `{allow: <reason>}`; correct it")
    return value


def _leave(value: object) -> object:
    if _rule_form(value) != "leave":
        raise ValueError("must be `{allow: <reason>}`, with a reason that goes into the manifest; correct it")
    return value


TextRule = Annotated[
    Annotated[Literal["redact"], Tag("redaction")] | Annotated[AllowSpec, Tag("leave")],
    Discriminator(_rule_form),
    BeforeValidator(_text_rule),
]


class YearSpec(Section):
    """A year relative to the year of the release.

    Attributes:
        years_before_release: Number of years before the release.
    """

    years_before_release: Whole = Field(ge=1)


def _bottom_code(value: object) -> object:
    return value if isinstance(value, Mapping | YearSpec) else plain_bound(value)


BottomCode = Annotated[float | str | YearSpec, BeforeValidator(_bottom_code)]


class AttributeSpec(Section):
    """One column, see `privacy_engine.tables.attribute.Attribute`. Its role must have been decided.

    Attributes:
        pseudonym: Pseudonyms that replace an identifier.
        text: Action if released text contains addresses, numbers or names of persons: `redact`, or an
            exemption with a reason. By default the source is refused.
        unique: Exemption for an insensitive column with nearly one value per record or person.
        free_text: Person who signs for text without listed values, if the policy requires it.
        exact: Exemption to count spellings of a text as different values, for a sensitive attribute or the
            identifier that names the person. By default, spellings that read the same count once.
        top_code, bottom_code: Largest and smallest value. Values beyond it are replaced by it. As bottom,
            `{years_before_release: 90}` is the year 90 years before that of the release.
        prefix: Number of leading characters of a code that are kept. Numbers are first padded with zeros to
            `width`.
        rare: Prefixes that are replaced by zeros, or the name of a list of them.
        meaning: Meaning of the values, for policies that require it.
        shift: Shift of dates, by the same number of days for all dates of a person.
        derive: Derivation of the column from dates. The source has no column of its name.
    """

    role: Literal["identifier", "quasi_identifier", "sensitive", "insensitive"]
    kind: Literal["categorical", "ordinal", "numeric", "date", "timestamp"]
    categories: tuple[Category, ...] | None = Field(default=None, min_length=1)
    bounds: tuple[Bound, Bound] | None = None
    bins: Whole | None = Field(default=None, ge=1)
    scale: Literal["linear", "log", "quantiles"] | None = None
    hierarchy: IncludeFile | None = None
    nullable: bool = False
    format: Label | None = None
    zone: Label | None = None
    precision: Period | None = None
    calendar: tuple[Period, ...] | None = Field(default=None, min_length=1)
    bin: Period | None = None
    as_is: bool = False
    top_code: Bound | None = None
    bottom_code: BottomCode | None = None
    prefix: Whole | None = Field(default=None, ge=1)
    width: Whole | None = Field(default=None, ge=1)
    rare: Rare | None = None
    meaning: Meaning | None = None
    shift: ShiftSpec | None = None
    derive: DeriveSpec | None = None
    pseudonym: PseudonymSpec | None = None
    text: TextRule | None = None
    unique: Annotated[AllowSpec, BeforeValidator(_leave)] | None = None
    free_text: SignatureSpec | None = None
    exact: Annotated[AllowSpec, BeforeValidator(_leave)] | None = None

    @property
    def nominal(self) -> bool:
        """Whether its values have no order."""
        return self.kind == "categorical"

    @property
    def hierarchical(self) -> bool:
        """Whether it has a hierarchy."""
        return self.hierarchy is not None

    @property
    def is_free_text(self) -> bool:
        """Whether it may release text that no schema lists, as in `privacy_engine.tables.attribute`."""
        return self.nominal and self.role != "identifier" and not has_public_domain(self)

    @property
    def spanned(self) -> bool:
        """Whether it is generalized to intervals of numbers or dates."""
        named = self.nominal or self.hierarchical or self.categories is not None
        return not named and self.calendar is None

    @model_validator(mode="after")
    def _pseudonym_fits(self) -> Self:
        if self.pseudonym is not None and self.role != "identifier":
            raise ValueError("pseudonym requires a column with the role identifier; correct the role")
        return self


def check_read(source: SourceSpec, attributes: Mapping[str, AttributeSpec]) -> None:
    """Refuse columns that are read without a role, and columns with a role that are not read."""
    read = source.columns
    if read is None:
        return
    if len(set(read)) < len(read):
        raise ValueError("source.columns must be distinct; remove the repeated ones")
    if strangers := [c for c in read if c not in attributes]:
        raise ValueError(
            f"source.columns [{unknown(strangers, attributes)}] must be in schema; give each a role or do "
            "not read them"
        )
    if made := [c for c in read if attributes[c].derive is not None]:
        raise ValueError(f"source.columns {made} must not be derived, they are not read; remove them")
    if unread := [n for n, a in attributes.items() if n not in read and a.derive is None]:
        raise ValueError(
            f"columns {unread} of schema must be in source.columns; add them or drop them from schema"
        )


def fields_of(attributes: Mapping[str, AttributeSpec], source: SourceSpec) -> dict[str, dict[str, Any]]:
    """Return attributes as plain values for `load_schema`."""
    fields = {name: a.model_dump(mode="json", exclude_none=True) for name, a in attributes.items()}
    if source.nulls == "keep":  # as in `DataSchema.keeping_nulls`: another null can make a loss larger
        for name, attribute in attributes.items():
            fields[name]["nullable"] |= attribute.role != "identifier"
    return fields
