"""Write a first draft of a release specification from a table, to be completed by a person.

The draft shows as little of the data as possible: only categories that many records share, and bounds rounded
outward. It decides on no role except for likely identifiers, which are not released: a role without thought
is how a name gets published.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.tables.scales import DEFAULT_BINS, are_wide
from privacy_release.spec.presets import LEFT_BEHIND, Preset, likely_meaning

if TYPE_CHECKING:
    from privacy_engine.engines.local import LocalEngine
    from privacy_engine.engines.profiling import ColumnProfile, DatesProfile

_MOST_CATEGORIES = 50
_FEW_NUMBERS = 20
_IDENTIFYING_SHARE = 0.5
_NEARLY_UNIQUE = 0.9  # values per record from which ingest requires a reason for an insensitive column
_FEW_RECORDS = 50  # number of records below which it requires none
_PERSONS_SHARE = 0.05  # values per record from which there may be as many persons
_CODED_SHARE = 0.01  # values per record from which there may be, if they are long codes
_ROWS_EACH = 1.5  # records per value from which a column may name persons with several records

_NULLS = "  # or keep: null is a value like others; or drop: records with a null are left out"

_ROLES = """\
# DRAFT of a release specification. It cannot run before a person has decided on every TODO:
#   role:   identifier (never released), quasi_identifier (known to others), sensitive (must not be learned),
#           insensitive (released unchanged).
#   person: whose record a row is; {column: ..., rows: linked} where the release must link a person's rows.
#   policy: what must hold before anything is published. The privacy officer owns it.
"""
_POLICY = "TODO.yaml  # such as policies/{name}.yaml, with `require: [{{model: k_anonymity, k: 10}}]`"
_MEANING = """\
#   meaning: what a released column is about; `other` states that it is no identifier of safe harbor.
#           Check the guesses from names, too: docs/rule_packs.md.
"""
_CHECK = """\
# CHECK before this file is shared or committed: it contains values from the data. Categories are shown
# if at least {least} records have them, bounds are the smallest and largest value rounded outward (dates to
# decades). Replace both by what is publicly known of the attribute, and give categorical quasi-identifiers a
# hierarchy.
"""


def draft_spec(
    engine: "LocalEngine",
    files: Sequence[str],
    uri: str,
    name: str,
    *,
    source: Mapping[str, str] | None = None,
    least: int = 10,
    found: Mapping[str, Mapping[str, int]] | None = None,
    preset: Preset | None = None,
) -> str:
    """Return the YAML text of a draft.

    Args:
        engine: Engine that counts the values. The table may be larger than memory.
        files: Files of the records.
        uri: Address of the files.
        name: Name of the release.
        source: Fields of the source instead of `uri`, for a query or a version of a table.
        least: Smallest number of records of a category that is shown.
        found: Direct identifiers in text, by column and kind, see `privacy_release.sources.text.scan`.
        preset: Rule pack that the release is to meet. None: none.

    Raises:
        ValueError: As `check_least`.
        SchemaError: If a file is no complete Parquet file, or the columns of the files differ.
    """
    check_least(least)
    columns = engine.columns(files).names
    profiles = [engine.profile(files, column, least=least, most=_MOST_CATEGORIES) for column in columns]
    lines = [
        f"name: {_yaml(name)}",
        "schedule: null",
        "source:",
        *(f"  {field}: {_yaml(value)}" for field, value in (source or {"uri": uri}).items()),
        f"  columns: {_yaml(columns)}",
        f"  nulls: fail{_NULLS if any(profile.nulls for profile in profiles) else ''}",
        "schema:",
    ]
    for profile in profiles:
        in_text = dict((found or {}).get(profile.name, {}))
        known = profile.dates is not None or profile.unreadable is not None
        line = _left_behind(profile) if preset and preset.safe_harbor else None
        line = line or (None if known else _identifier(profile, in_text))
        lines.append(
            line or _attribute(profile, least, safe_harbor=preset is not None and preset.safe_harbor)
        )
    lines += [
        f"release: {preset.release if preset else '{method: bottom_up, k: 10}'}",
        f"policy: {preset.policy if preset else _POLICY.format(name=name)}",
        f"publish: {{lake: lake_default, table: {_yaml(name)}}}",
    ]
    header = _ROLES + (_MEANING if preset and preset.safe_harbor else "") + _CHECK.format(least=least)
    return header + "\n".join(lines) + "\n"


def check_least(least: int) -> None:
    """Raise if values of a single person would be shown.

    Raises:
        ValueError: If least is below 2.
    """
    if least < 2:
        raise ValueError(
            f"the least count must be >= 2, got {least}: a smaller one would show values of one person"
        )


def draft_name(path: str) -> str:
    """Return a release name from the name of a file or folder.

    >>> draft_name("/data/My people (2026).parquet")
    'My_people_2026'
    """
    stem = Path(path.rstrip("/")).name.removesuffix(".parquet")
    name = "_".join(part for part in "".join(c if c.isascii() and c.isalnum() else " " for c in stem).split())
    return name[:100] or "draft"


def _identifier(column: "ColumnProfile", found: Mapping[str, int]) -> str | None:
    """Return the line of a column that looks like an identifier, without values. None for other columns."""
    kinds = [f"{kind.replace('_', ' ')} in {n:,} records" for kind, n in sorted(found.items())]
    known, names = column.rows - column.nulls, column.whole or not column.number
    if names and known >= _FEW_RECORDS and column.distinct >= _NEARLY_UNIQUE * known:
        kinds.append(f"{column.distinct:,} values in {known:,} records")
    if not kinds:
        return None
    kind = "numeric" if column.number else "categorical"
    released = "redact or allow its text, see docs/identifiers.md" if found else "give it another role"
    return (
        f"  {_yaml(column.name)}: {{role: identifier, kind: {kind}}}  # {'; '.join(kinds)}: not released "
        f"unchanged; to release it, {released}"
    )


def _left_behind(column: "ColumnProfile") -> str | None:
    """Return the line of a column whose name is one that safe harbor removes. None for other columns."""
    meaning = likely_meaning(column.name)
    if meaning not in LEFT_BEHIND:
        return None
    kind = "numeric" if column.number else column.dates.kind.value if column.dates else "categorical"
    return (
        f"  {_yaml(column.name)}: {{role: identifier, kind: {kind}}}  # by its name a {meaning}: safe harbor "
        "removes it"
    )


def _attribute(column: "ColumnProfile", least: int, *, safe_harbor: bool = False) -> str:
    """Return the line of one column: role to be decided, guessed kind, domain as far as it may be shown."""
    meaning = likely_meaning(column.name) if safe_harbor else None
    if meaning == "postcode":
        return (
            f"  {_yaml(column.name)}: {{role: TODO, kind: categorical, prefix: 3, width: 5, "
            "rare: us_zip3_census_2000, meaning: postcode}  # the list must be that of the current census"
        )
    notes = [f"{column.nulls:,} nulls"] if column.nulls else []
    fields = ["role: TODO"]
    if column.unreadable is not None:
        fields.append("kind: TODO")
        notes.append(f"{column.unreadable} is of no kind: cast it in the source, or do not read it")
    elif column.dates is not None:
        own, date_notes = _dates(column.dates, safe_harbor=safe_harbor)
        fields += own
        notes += date_notes
    elif column.number:
        few = column.whole and column.distinct <= _FEW_NUMBERS
        fields.append("kind: ordinal" if few else "kind: numeric")
        if column.whole and column.distinct == column.rows > least:
            notes.append("every record has its own value: an identifier?")
        elif column.extent and 0 < column.extent[1] - column.extent[0] < math.inf:
            low, high = outward(*column.extent)
            fields.append(f"bounds: [{low:.0f}, {high:.0f}]" if column.whole else f"bounds: [{low}, {high}]")
            if not few and are_wide((low, high), DEFAULT_BINS):
                notes.append("wide bounds: synthesizers use `scale: quantiles`; or state log or linear")
    else:
        fields.append("kind: categorical")
        shown, note = _categories(column)
        fields += [f"categories: {_yaml(shown)}"] if shown else []
        notes += [note] if note else []
    if safe_harbor and column.dates is None:
        fields += ["top_code: 90"] if meaning == "age" and column.number else []
        fields.append(f"meaning: {meaning or 'TODO'}")
    if _may_name_persons(column):
        notes.append(
            f"{column.distinct:,} values in {column.rows:,} records: if it identifies whose record a row is, "
            f"it is an identifier, and add `person: {column.name}` below"
        )
    line = f"  {_yaml(column.name)}: {{{', '.join(fields)}}}"
    return line + (f"  # {'; '.join(notes)}" if notes else "")


def _dates(dates: "DatesProfile", *, safe_harbor: bool = False) -> tuple[list[str], list[str]]:
    """Return the fields of a column of dates, with notes: by default no more exact than a month.

    Under safe harbor, no more exact than a year, with years that imply an age over 89 as one group.
    """
    fields, notes = [f"kind: {dates.kind.value}"], ["more exact dates identify people"]
    if dates.formats:
        fields.append(f"format: {_yaml(dates.formats[0])}")
    if len(dates.formats) > 1:
        notes.append(f"all values fit {' and '.join(dates.formats[1:])}, too")
    if dates.shifted:
        notes.append(
            "all times of the day are the same, or two: if they are midnights of another clock, write the "
            "column with a zone and state `zone`"
        )
    if dates.blank:
        notes.append(f"{dates.blank:,} empty texts: make them null in the source or in a transform")
    if safe_harbor:
        fields += ["precision: year", "bottom_code: {years_before_release: 90}"]
    else:
        fields.append("precision: month")
    if dates.decades:
        fields.append(f"bounds: [{', '.join(dates.decades)}]")
    return fields, notes


def _may_name_persons(column: "ColumnProfile") -> bool:
    """Return whether a column has very many values, most in several records, like names of persons.

    A column with many records for each value is more likely a district or a year, unless it has long codes.
    """
    negative = column.extent is not None and column.extent[0] < 0
    measured = column.dates is not None or negative or (column.number and not column.whole)
    if measured or column.distinct <= _MOST_CATEGORIES:
        return False
    least = _CODED_SHARE if column.codes else _PERSONS_SHARE
    return least * column.rows <= column.distinct <= column.rows / _ROWS_EACH


def _categories(column: "ColumnProfile") -> tuple[list[str], str | None]:
    """Return the categories that may be shown, and a note on those omitted."""
    if column.distinct > _IDENTIFYING_SHARE * column.rows:
        return [], "most values are in a single record: an identifier or free text?"
    if column.distinct > _MOST_CATEGORIES or not column.common:
        return [], f"{column.distinct:,} categories, not shown: give a hierarchy, see `hierarchy infer`"
    hidden = column.distinct - len(column.common)
    note = f"{hidden} rarer categories are not shown: add or merge them" if hidden else None
    return list(column.common), note


def outward(low: float, high: float) -> tuple[float, float]:
    """Return bounds that contain both numbers, on a grid of about the size of their distance.

    >>> outward(17, 88), outward(0.12, 0.31)
    ((10.0, 90.0), (0.1, 0.4))
    """
    step = 10.0 ** math.floor(math.log10(high - low))
    digits = max(0, -math.floor(math.log10(step)))
    return round(math.floor(low / step) * step, digits), round(math.ceil(high / step) * step, digits)


def _yaml(value: Any) -> str:
    """Return a value on one line, quoted if YAML requires it."""
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
