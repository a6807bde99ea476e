"""The origin and the form of released columns, for the data dictionary and the lineage.

Everything here follows from schemas, whose domains are public, and from the released bytes. So it reveals no
more than the table does. If a guarantee is differentially private, nothing is counted at all.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import COUNTERFEITS, SUPPRESSED, Role, bounds_of
from privacy_release.manifest.manifest import Claims

if TYPE_CHECKING:  # the engine imports pandas, which is only needed when a release is made
    import pyarrow as pa

    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.schema import DataSchema

MOST_LABELS = 50  # largest number of listed labels of a domain or level; longer lists are only counted


class Form(StrEnum):
    """How a released column represents its attribute."""

    VALUE = "value"
    LOWER = "lower_bound"
    UPPER = "upper_bound"
    NULL_FLAG = "null_flag"
    MIDPOINT = "midpoint"
    INTERVAL = "interval_text"
    LABEL = "label"
    SET = "set"
    CELL = "value_or_star"
    DRAWN = "drawn"
    RANDOMIZED = "randomized"
    PSEUDONYM = "pseudonym"
    TABLE = "table_name"
    COUNTERFEITS = "counterfeits"


FORM_WORDS: Mapping[Form, str] = {
    Form.VALUE: "The value, not generalized.",
    Form.LOWER: "Lower bound of an interval, which is closed: the bound belongs to it.",
    Form.UPPER: "Upper bound of an interval, which is closed: the bound belongs to it.",
    Form.NULL_FLAG: "Whether the interval in this record also covers missing values.",
    Form.MIDPOINT: "Midpoint of an interval that the release does not show.",
    Form.INTERVAL: "One value, or a closed interval as text: [17, 25] holds 17, 25 and all between.",
    Form.LABEL: "A label of the hierarchy; its level says how far it was generalized, level 0 is the value.",
    Form.SET: "One value, or the set of those that may be meant: {a, b}.",
    Form.CELL: "The value itself, or * if it was suppressed.",
    Form.DRAWN: "Drawn from a differentially private model; no cell is a person's.",
    Form.RANDOMIZED: "A random answer: true with a known chance, else another. Read shares, not cells.",
    Form.PSEUDONYM: "A pseudonym in place of an identifier.",
    Form.TABLE: "Name of the table, among those of the release, that the record belongs to.",
    Form.COUNTERFEITS: "How many records of this record's class are counterfeits, which belong to no person.",
}

_BOUNDS = (Form.LOWER, Form.UPPER)
_NEVER = "never null"


def described_columns(
    source: "DataSchema", released: "DataSchema", claims: Claims
) -> dict[str, dict[str, Any]]:
    """Return source attribute, form, domain and meaning of null of each released column.

    Args:
        source: Schema of the table that was released.
        released: Schema of the released records.
        claims: Claims of the method about the release.
    """
    columns: dict[str, dict[str, Any]] = {}
    for attribute in released.attributes:
        name, form = _origin(attribute, source, released, claims)
        origin = source[name] if name is not None else None
        columns[attribute.name] = {"source": name, "form": form.value} | _domain(origin, form)
        # If a class of nulls can be distinguished from one with nulls, the manifest says how.
        known = claims.columns.get(attribute.name)
        said = (known and known.nulls) or _meaning_of_null(attribute, origin, form)
        other = released.tables and said != _NEVER
        columns[attribute.name]["nulls"] = f"{said}; or the record is of another table" if other else said
    return columns


def _origin(
    attribute: "Attribute", source: "DataSchema", released: "DataSchema", claims: Claims
) -> tuple[str | None, Form]:
    """Return the source attribute of a released column, and the form of its values."""
    from privacy_engine.tables.persons import TABLE

    name = attribute.name
    if name not in source.names:
        for origin in source.names:
            if name in (ends := bounds_of(origin)):
                return origin, (*_BOUNDS, Form.NULL_FLAG)[ends.index(name)]
        return None, Form.COUNTERFEITS if name == COUNTERFEITS else Form.VALUE
    if name == TABLE and released.tables:
        return name, Form.TABLE
    if attribute.pseudonym is not None or (released.linked and name == released.by):
        return name, Form.PSEUDONYM
    if claims.model is not None:
        return name, Form.DRAWN
    if claims.randomization is not None:
        return name, Form.RANDOMIZED if name in claims.randomization.attributes else Form.VALUE
    return name, _generalized(source[name], attribute, claims)


def _generalized(origin: "Attribute", attribute: "Attribute", claims: Claims) -> Form:
    """Return the form in which an anonymizer writes an attribute to a column of the same name."""
    if origin.role is not Role.QUASI_IDENTIFIER:
        return Form.VALUE
    if claims.parameters.get("model") == "suppression":
        return Form.CELL
    if not origin.ordered:
        in_tree = origin.hierarchy is not None or origin.dates is not None
        return Form.LABEL if in_tree else Form.SET
    return Form.INTERVAL if attribute.nominal else Form.MIDPOINT


def _domain(origin: "Attribute | None", form: Form) -> dict[str, Any]:
    """Return the public domain of an attribute, as its schema states it."""
    if origin is None or form in (Form.PSEUDONYM, Form.TABLE, Form.NULL_FLAG):
        return {}
    stated = origin.to_dict()
    domain: dict[str, Any] = {}
    if "bounds" in stated:
        domain["bounds"] = stated["bounds"]
    if origin.categories is not None:
        domain["categories"] = _listed(origin.categories)
    if origin.hierarchy is not None:
        levels = zip(*origin.hierarchy.rows, strict=True)
        domain["levels"] = [_listed(tuple(dict.fromkeys(labels))) for labels in levels]
        if len(origin.hierarchy.rows) <= MOST_LABELS:
            domain["paths"] = [list(path) for path in origin.hierarchy.rows]
    if origin.dates is not None and origin.dates.calendar:
        domain["calendar"] = [period.value for period in origin.dates.calendar]
    return {"domain": domain} if domain else {}


def _listed(labels: tuple[str, ...]) -> dict[str, Any]:
    """Return the number of labels, and the labels if they are few."""
    return {"count": len(labels)} | ({"labels": list(labels)} if len(labels) <= MOST_LABELS else {})


def _meaning_of_null(attribute: "Attribute", origin: "Attribute | None", form: Form) -> str:
    """Return what a null in a column means."""
    allowed = attribute.nullable or attribute.allows_nulls
    if form in (Form.DRAWN, Form.RANDOMIZED):
        said = "drawn as missing" if form is Form.DRAWN else "a random answer, too"
        return f"null: {said}" if allowed else _NEVER
    made = origin is None or form in (Form.TABLE, Form.PSEUDONYM, Form.NULL_FLAG)
    return _NEVER if made or (origin and not origin.allows_nulls) else "null: it was null in the source"


def with_origins(
    claims: Claims,
    source: "DataSchema",
    released: "DataSchema",
    batches: "Iterable[pa.RecordBatch] | None",
) -> dict[str, dict[str, Any]]:
    """Return the columns of a manifest, each with the results of `described_columns` and `changed_shares`.

    Args:
        claims: Claims of the method about the release.
        source: Schema of the table that was released.
        released: Schema of the released records.
        batches: Released records. None if the guarantee hides how many cells were changed.
    """
    columns = described_columns(source, released, claims)
    if batches is not None:
        shares = changed_shares(batches, source, columns)
        if len(released.sensitive) == 1:
            shares[released.sensitive[0].name] = _percent(claims.notes.get("distorted", 0.0))
        for name, share in shares.items():
            columns[name]["changed"] = share
    known = {name: column.stored for name, column in claims.columns.items()}
    return {name: {**known.get(name, {}), **own} for name, own in columns.items()}


def changed_shares(
    batches: "Iterable[pa.RecordBatch]", source: "DataSchema", columns: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Return the share of cells in each generalized column, ignoring nulls, that do not show one value.

    The shares are counted on the released cells, so they reveal nothing new. They are rounded to whole
    percents, but never to 0 or 100. Columns of midpoints are omitted, because they do not show it.

    Args:
        batches: Released records in batches.
        source: Schema of the table that was released.
        columns: Columns from `described_columns`.
    """
    cells = {name: 0 for name, column in columns.items() if Form(column["form"]) in _SHOWN}
    changed = dict(cells)
    pairs = _pairs(columns)
    for batch in batches:
        for name in cells:
            form, origin = Form(columns[name]["form"]), source[str(columns[name]["source"])]
            cells[name] += len(batch) - batch[name].null_count
            if form in _BOUNDS:
                changed[name] += _apart(batch, pairs[str(columns[name]["source"])], origin)
                if columns[name]["nulls"] == SUPPRESSED:
                    cells[name] += batch[name].null_count
                    changed[name] += batch[name].null_count
            else:
                changed[name] += _not_one(batch[name], _shows_one(form, origin))
    return {name: _percent(changed[name] / number) for name, number in cells.items() if number}


def _not_one(column: "pa.Array", shows: Callable[[str], bool]) -> int:
    """Return the number of cells of text, ignoring nulls, that do not show one value."""
    import pyarrow.compute as pc

    counts = pc.value_counts(column.cast("string").drop_null())
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return sum(number for value, number in pairs if not shows(value))


_SHOWN = (*_BOUNDS, Form.INTERVAL, Form.LABEL, Form.SET, Form.CELL)


def _pairs(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the lower and upper bound columns of each attribute that has them, in this order."""
    found: dict[str, list[str]] = {}
    for bound in _BOUNDS:
        for name, column in columns.items():
            if column["form"] == bound:
                found.setdefault(str(column["source"]), []).append(name)
    return found


def _apart(batch: "pa.RecordBatch", ends: list[str], origin: "Attribute") -> int:
    """Return the number of records whose two bounds differ; for dates, whose periods differ."""
    import numpy as np
    import pyarrow.compute as pc

    low, high = (batch[name] for name in ends)
    if origin.dates is None:
        return int(pc.sum(pc.not_equal(low, high)).as_py() or 0)
    first, last = (origin.dates.numbers(column.to_pandas()) for column in (low, high))
    return int(np.count_nonzero((first != last) & ~np.isnan(first)))


def _shows_one(form: Form, origin: "Attribute") -> Callable[[str], bool]:
    """Return a function that tests whether a cell of text shows one value."""
    if form is Form.CELL:
        return lambda cell: cell != "*"
    if form is Form.INTERVAL:  # a value with such punctuation is in quotes
        return lambda cell: not cell.startswith("[") and not cell.endswith(" or null")
    if form is Form.SET:
        return lambda cell: not cell.startswith("{")
    if origin.hierarchy is not None:
        leaves = frozenset(origin.hierarchy.values)
        return leaves.__contains__
    import numpy as np

    assert origin.dates is not None
    shape = re.sub(r"\d", "0", origin.dates.labels(np.zeros(1))[0])
    return lambda cell: re.sub(r"\d", "0", cell) == shape


def _percent(share: float) -> float:
    """Round to whole percents, but to 0 or 100 only if the share is exactly that."""
    return share if share in (0.0, 1.0) else min(max(round(share, 2), 0.01), 0.99)
