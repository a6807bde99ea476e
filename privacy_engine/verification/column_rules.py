"""What a policy requires of released columns by their meaning: ages, dates, postcodes, names.

The schema declares what a column is about (`Attribute.meaning`). `column_checks` checks released values
against the rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from privacy_engine.choice import choice, did_you_mean
from privacy_engine.errors import SpecError
from privacy_engine.vocabulary import CalendarUnit, Meaning, Role, rare_prefixes, read_rare

PRECISIONS = (
    CalendarUnit.DAY,
    CalendarUnit.MONTH,
    CalendarUnit.QUARTER,
    CalendarUnit.YEAR,
    CalendarUnit.DECADE,
)  # finest first

UNSIGNED = (
    "list its values as `categories`, give it a hierarchy, give it the role identifier, or have a named "
    "person sign for it with `free_text: {signed_by: <name>, reason: <why>}`, which goes into the manifest"
)


@dataclass(frozen=True, kw_only=True)
class ColumnRules:
    """Rules for released columns. A rule that is not stated does not apply. Pseudonyms have their own rule.

    Attributes:
        declared: Whether each column must state its meaning; a date or timestamp does so by its kind.
        roles: Roles that released columns may have; empty: any.
        forbid: Meanings that no released column may have.
        date_precision: Finest period of released dates: day, month, quarter, year or decade.
        age_group_from: Age in years from which on all people form one group. No higher age may be released,
            and no year that lies more than this number of years before that of the release.
        postcode_characters: Most characters of a postcode.
        rare_postcodes: Postcodes that must not be released, or the name of a list of them.
        clean_text: Whether no text that looks like direct identifiers may be released, for any reason.
        no_free_text: Whether no text column may be released whose values the schema does not list, unless a
            named person signs for it.
        no_unique_columns: Whether no nearly unique column may be released, for any reason.

    Raises:
        SpecError: If a value is invalid, or no rule is stated.
    """

    declared: bool = False
    roles: tuple[Role, ...] = ()
    forbid: tuple[Meaning, ...] = ()
    date_precision: CalendarUnit | None = None
    age_group_from: int | None = None
    postcode_characters: int | None = None
    rare_postcodes: str | tuple[str, ...] = ()
    clean_text: bool = False
    no_free_text: bool = False
    no_unique_columns: bool = False

    def __post_init__(self) -> None:
        for name in ("declared", "clean_text", "no_free_text", "no_unique_columns"):
            if not isinstance(getattr(self, name), bool):
                raise SpecError(f"policy columns.{name} must be true or false")
        for name in ("age_group_from", "postcode_characters"):
            given: object = getattr(self, name)
            if given is not None and (type(given) is not int or given < 1):
                raise SpecError(f"policy columns.{name} must be a positive whole number, or omitted")
        if self.date_precision is not None and self.date_precision not in PRECISIONS:
            raise SpecError(f"policy columns.date_precision must be one of {[p.value for p in PRECISIONS]}")
        if not any(getattr(self, f.name) for f in fields(self)):
            raise SpecError("policy columns must state at least one rule. State one, or remove columns")

    @classmethod
    def from_dict(cls, given: Any) -> "ColumnRules":
        """Read plain values.

        Raises:
            SpecError: For unknown fields or values; the message names the field.
        """
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(map(str, given)) - set(known)) if isinstance(given, Mapping) else []
        if unknown or not isinstance(given, Mapping):
            hint = did_you_mean(unknown[0], known) if unknown else ""
            raise SpecError(f"policy columns must be a mapping with some of {known}{hint}")
        read = dict(given)
        try:
            for name, enum in (("roles", Role), ("forbid", Meaning)):
                if name in read and not isinstance(read[name], list | tuple):
                    raise ValueError(f"{name} must be a list")
                if name in read:
                    read[name] = tuple(choice(enum, value, name) for value in read[name])
            if read.get("date_precision") is not None:
                read["date_precision"] = choice(CalendarUnit, read["date_precision"], "date_precision")
            if "rare_postcodes" in read:
                read["rare_postcodes"] = read_rare(read["rare_postcodes"], "rare_postcodes")
        except ValueError as error:
            raise SpecError(f"policy columns: {error}") from None
        return cls(**read)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``: the rules that are stated."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            name: list(map(str, value)) if isinstance(value, tuple) else _plain(value)
            for name, value in values.items()
            if value
        }

    def with_floor(self, floor: "ColumnRules | None") -> "ColumnRules":
        """Combine the rules with those of a floor policy: the stricter of two rules applies.

        Raises:
            SpecError: If no role is left.
        """
        if floor is None:
            return self
        both = self, floor
        roles = [set(rules.roles) for rules in both if rules.roles]
        if roles and not set.intersection(*roles):
            raise SpecError("policy columns.roles must share one with the floor policy; Correct one of them")
        periods = [rules.date_precision for rules in both if rules.date_precision]
        rare = {rules.rare_postcodes for rules in both if rules.rare_postcodes}
        every = tuple(dict.fromkeys(text for listed in rare for text in rare_prefixes(listed)))
        return ColumnRules(
            declared=any(rules.declared for rules in both),
            roles=tuple(role for role in Role if roles and all(role in allowed for allowed in roles)),
            forbid=tuple(m for m in Meaning if any(m in rules.forbid for rules in both)),
            date_precision=max(periods, key=PRECISIONS.index, default=None),
            age_group_from=_smaller(self.age_group_from, floor.age_group_from),
            postcode_characters=_smaller(self.postcode_characters, floor.postcode_characters),
            rare_postcodes=every if len(rare) > 1 else next(iter(rare), ()),
            clean_text=any(rules.clean_text for rules in both),
            no_free_text=any(rules.no_free_text for rules in both),
            no_unique_columns=any(rules.no_unique_columns for rules in both),
        )

    def weaker_than(self, floor: "ColumnRules") -> list[str]:
        """List the rules that are weaker than a floor's. A rule that is not stated is not listed."""
        own, least = self.to_dict(), floor.to_dict()
        less = {
            "roles": set(self.roles) - set(floor.roles),
            "forbid": set(floor.forbid) - set(self.forbid),
            "date_precision": _finer(self.date_precision, floor.date_precision),
            "age_group_from": (self.age_group_from or 0) > (floor.age_group_from or 0),
            "postcode_characters": (self.postcode_characters or 0) > (floor.postcode_characters or 0),
            "rare_postcodes": set(rare_prefixes(floor.rare_postcodes))
            - set(rare_prefixes(self.rare_postcodes)),
        }
        return [
            f"columns.{name} {shown(own[name])} is weaker than columns.{name} {shown(least[name])}"
            for name, weaker in less.items()
            if weaker and name in own and name in least
        ]

    def refuses_text(self, *, free: bool, signed: bool, about: str | None) -> bool:
        """Return whether text is refused because no one signed for it.

        Postcodes and dates whose values are all read by another rule need no signature.

        Args:
            free: Whether the schema does not list the values.
            signed: Whether a named person signs for the column.
            about: Meaning of the column; None if it has none.
        """
        read = (about == Meaning.POSTCODE and self.postcode_characters is not None) or (
            about == Meaning.DATE and self.date_precision is not None
        )
        return self.no_free_text and free and not signed and not read

    @property
    def names(self) -> list[str]:
        """Return the rules that are stated, each with its parameter, as in reports."""
        return [
            name if value is True else f"{name}({shown(value)})" for name, value in self.to_dict().items()
        ]

    def name_of(self, rule: str) -> str:
        """Return a rule with its parameter."""
        return next(name for name in self.names if name.partition("(")[0] == rule)


def _smaller(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _finer(own: CalendarUnit | None, least: CalendarUnit | None) -> bool:
    return own is not None and least is not None and PRECISIONS.index(own) < PRECISIONS.index(least)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, CalendarUnit) else value


def shown(value: Any) -> str:
    """Return a parameter of a rule as text for readers."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
