"""What the columns of a release are made from, for its data dictionary and its lineage.

Everything here follows from schemas, whose domains are public, and from the released bytes. So it tells no
reader more than the table does; where a guarantee is one of differential privacy, nothing is counted at all.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from privacy_engine.vocabulary import COUNTERFEITS, SUPPRESSED, Role, bounds_of
from privacy_release.manifest.manifest import Claims

if TYPE_CHECKING:  # the engine imports pandas: only where a release is made
    import pyarrow as pa

    from privacy_engine.tables.schema import Attribute, DataSchema

MOST_LABELS = 50  # of a domain or a level of a hierarchy that are listed; of more, how many there are


class Form(StrEnum):
    """How a released column writes what it is about."""

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
    Form.NULL_FLAG: "Whether the interval beside it covers missing values, too.",
    Form.MIDPOINT: "Midpoint of an interval that the release does not tell.",
    Form.INTERVAL: "One value, or a closed interval as text: [17, 25] holds 17, 25 and all between.",
    Form.LABEL: "A label of the hierarchy; its level says how far it was generalized, level 0 is the value.",
    Form.SET: "One value, or the set of those that may be meant: {a, b}.",
    Form.CELL: "The value as it is, or * where it was suppressed.",
    Form.DRAWN: "Drawn from a differentially private model; no cell is a person's.",
    Form.RANDOMIZED: "A random answer: true with a known chance, else another. Read shares, not cells.",
    Form.PSEUDONYM: "A pseudonym in the place of an identifier.",
    Form.TABLE: "Which of the tables of the release the record is of.",
    Form.COUNTERFEITS: "How many records of this record's class are of nobody.",
}

_BOUNDS = (Form.LOWER, Form.UPPER)
_NEVER = "never null"


def columns_told(source: "DataSchema", released: "DataSchema", claims: Claims) -> dict[str, dict[str, Any]]:
    """Source attribute, form, domain and meaning of null of each released column.

    Args:
        source: of the table that was released.
        released: of what it became.
        claims: What the method says of the release.
    """
    told: dict[str, dict[str, Any]] = {}
    for attribute in released.attributes:
        name, form = _origin(attribute, source, released, claims)
        origin = source[name] if name is not None else None
        told[attribute.name] = {"source": name, "form": form.value} | _domain(origin, form)
        # Where a class of nulls can be told from one with nulls, the manifest says how.
        known = claims.columns.get(attribute.name)
        said = (known and known.nulls) or _meaning_of_null(attribute, origin, form)
        other = released.tables and said != _NEVER
        told[attribute.name]["nulls"] = f"{said}; or the record is of another table" if other else said
    return told


def _origin(
    attribute: "Attribute", source: "DataSchema", released: "DataSchema", claims: Claims
) -> tuple[str | None, Form]:
    """The attribute of the source that a released column is about, and how it tells it."""
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
    """How an anonymizer writes an attribute in a column of the same name."""
    if origin.role is not Role.QUASI_IDENTIFIER:
        return Form.VALUE
    if claims.parameters.get("model") == "suppression":
        return Form.CELL
    if not origin.ordered:
        in_tree = origin.hierarchy is not None or origin.dates is not None
        return Form.LABEL if in_tree else Form.SET
    return Form.INTERVAL if attribute.nominal else Form.MIDPOINT


def _domain(origin: "Attribute | None", form: Form) -> dict[str, Any]:
    """The public domain of an attribute, as its schema states it."""
    if origin is None or form in (Form.PSEUDONYM, Form.TABLE, Form.NULL_FLAG):
        return {}
    stated = origin.to_dict()
    told: dict[str, Any] = {}
    if "bounds" in stated:
        told["bounds"] = stated["bounds"]
    if origin.categories is not None:
        told["categories"] = _listed(origin.categories)
    if origin.hierarchy is not None:
        levels = zip(*origin.hierarchy.rows, strict=True)
        told["levels"] = [_listed(tuple(dict.fromkeys(labels))) for labels in levels]
        if len(origin.hierarchy.rows) <= MOST_LABELS:
            told["paths"] = [list(path) for path in origin.hierarchy.rows]
    if origin.dates is not None and origin.dates.calendar:
        told["calendar"] = [period.value for period in origin.dates.calendar]
    return {"domain": told} if told else {}


def _listed(labels: tuple[str, ...]) -> dict[str, Any]:
    """How many labels there are, and which, if they are few."""
    return {"count": len(labels)} | ({"labels": list(labels)} if len(labels) <= MOST_LABELS else {})


def _meaning_of_null(attribute: "Attribute", origin: "Attribute | None", form: Form) -> str:
    """What a null in a column says."""
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
    """The columns of a manifest, each with what `columns_told` and `changed_shares` tell of it.

    Args:
        claims: What the method says of the release.
        source: of the table that was released.
        released: of what it became.
        batches: the released records; None where the guarantee hides how many cells were changed.
    """
    told = columns_told(source, released, claims)
    if batches is not None:
        shares = changed_shares(batches, source, told)
        if len(released.sensitive) == 1:
            shares[released.sensitive[0].name] = _percent(claims.notes.get("distorted", 0.0))
        for name, share in shares.items():
            told[name]["changed"] = share
    known = {name: column.stored for name, column in claims.columns.items()}
    return {name: {**known.get(name, {}), **own} for name, own in told.items()}


def changed_shares(
    batches: "Iterable[pa.RecordBatch]", source: "DataSchema", told: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    """Share of the cells of each generalized column, missing values aside, that do not show one value.

    It is read off the released cells themselves, so it tells nothing that they do not. It is rounded to whole
    percents, but never to none or all. Midpoints do not show it, and are left out.

    Args:
        batches: the released records.
        source: of the table that was released.
        told: of `columns_told`.
    """
    cells = {name: 0 for name, column in told.items() if Form(column["form"]) in _SHOWN}
    changed = dict(cells)
    pairs = _pairs(told)
    for batch in batches:
        for name in cells:
            form, origin = Form(told[name]["form"]), source[str(told[name]["source"])]
            cells[name] += len(batch) - batch[name].null_count
            if form in _BOUNDS:
                changed[name] += _apart(batch, pairs[str(told[name]["source"])], origin)
                if told[name]["nulls"] == SUPPRESSED:
                    cells[name] += batch[name].null_count
                    changed[name] += batch[name].null_count
            else:
                changed[name] += _not_one(batch[name], _shows_one(form, origin))
    return {name: _percent(changed[name] / number) for name, number in cells.items() if number}


def _not_one(column: "pa.Array", shows: Callable[[str], bool]) -> int:
    """How many cells of text, nulls aside, do not show one value."""
    import pyarrow.compute as pc

    counts = pc.value_counts(column.cast("string").drop_null())
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return sum(number for value, number in pairs if not shows(value))


_SHOWN = (*_BOUNDS, Form.INTERVAL, Form.LABEL, Form.SET, Form.CELL)


def _pairs(told: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The lower and the upper bound of each attribute that has them, in this order."""
    found: dict[str, list[str]] = {}
    for bound in _BOUNDS:
        for name, column in told.items():
            if column["form"] == bound:
                found.setdefault(str(column["source"]), []).append(name)
    return found


def _apart(batch: "pa.RecordBatch", ends: list[str], origin: "Attribute") -> int:
    """In how many records two bounds are of different values; of dates, of different periods."""
    import numpy as np
    import pyarrow.compute as pc

    low, high = (batch[name] for name in ends)
    if origin.dates is None:
        return int(pc.sum(pc.not_equal(low, high)).as_py() or 0)
    first, last = (origin.dates.numbers(column.to_pandas()) for column in (low, high))
    return int(np.count_nonzero((first != last) & ~np.isnan(first)))


def _shows_one(form: Form, origin: "Attribute") -> Callable[[str], bool]:
    """Whether a cell of text shows one value."""
    if form is Form.CELL:
        return lambda cell: cell != "*"
    if form is Form.INTERVAL:  # a value with such punctuation stands in quotes
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
    """Rounded to whole percents, but to none and all only where it is exactly that."""
    return share if share in (0.0, 1.0) else min(max(round(share, 2), 0.01), 0.99)
