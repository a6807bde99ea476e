"""Evaluate conditions on released cells: which records surely meet them, and which may.

A source column is found among the released columns by the data dictionary, which says how each is written:
exactly, as two bounds, as text, as a set, as a label of a hierarchy, or not at all.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_release.query.questions import Condition, Value
from privacy_release.query.rules import QueryError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Truths = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]

DAY = 86_400
UNKNOWN = "\0"  # a label that is none of the released ones


@dataclass(frozen=True, kw_only=True, eq=False)
class Meant:
    """The possible values of the cells of one source column.

    Attributes:
        name: Name of the column.
        cell_of: Number of each record's cell, shape (n,).
        sets: Possible values of each cell, including None if it may be null. None instead of a set: the
            range in `low` and `high`.
        low, high: Ends of each cell's range, both included.
        nulls: Whether each cell with a range may also be null.
        kind: `label`, `whole`, `real`, `date` or `timestamp`.
        every: All values of its domain. None if they are not listed.
        domain: Range of its domain, and whether it has nulls. Infinite if it is not stated.
    """

    name: str
    cell_of: "npt.NDArray[np.int64]"
    sets: Sequence[frozenset[Value] | None]
    low: Sequence[float]
    high: Sequence[float]
    nulls: Sequence[bool]
    kind: str
    every: frozenset[Value] | None = None
    domain: tuple[float, float, bool] = (-math.inf, math.inf, True)

    def with_hidden(self, count: int) -> "Meant":
        """Return the same with this number of hidden records, which may have any value of the domain."""
        if not count:
            return self
        low, high, null = self.domain
        known: frozenset[Value] | None = self.every
        if known is None and self.kind == "label":
            known = frozenset([UNKNOWN, *(v for cell in self.sets if cell is not None for v in cell)])
        elif known is not None and null:
            known |= {None}
        return replace(
            self,
            cell_of=np.append(self.cell_of, np.full(count, len(self.sets))),
            sets=[*self.sets, known],
            low=[*self.low, low],
            high=[*self.high, high],
            nulls=[*self.nulls, null],
        )

    def meeting(self, conditions: Sequence[Condition]) -> "tuple[Truths, Truths]":
        """Return whether each record surely meets all of some conditions, and whether it may, shape (n,)."""
        verdicts = [self._cell(cell, conditions) for cell in range(len(self.sets))]
        surely, maybe = np.array(verdicts, dtype=np.bool_).reshape(-1, 2).T
        return surely[self.cell_of], maybe[self.cell_of]

    def _cell(self, cell: int, conditions: Sequence[Condition]) -> tuple[bool, bool]:
        possible = self.sets[cell]
        if possible is None:
            surely, maybe = _of_range(conditions, self.low[cell], self.high[cell], self.kind)
            possible = frozenset([None]) if self.nulls[cell] else frozenset()
        else:
            surely, maybe = True, False
        met = [all(meets(c, value, self.kind) for c in conditions) for value in possible]
        return surely and all(met), maybe or any(met)

    def likely(self, conditions: Sequence[Condition]) -> "tuple[Floats, Floats, Floats]":
        """Return how likely each record meets the conditions, if all open values are equally likely.

        Returns:
            The share of its values that meets them, 0 to 1; the share of those that are numbers; and their
            mean, each of shape (n,). NaN if the values have no ends, and for a mean without numbers.
        """
        found = [self._likely_cell(cell, conditions) for cell in range(len(self.sets))]
        part, numbers, mean = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return part[self.cell_of], numbers[self.cell_of], mean[self.cell_of]

    def _likely_cell(self, cell: int, conditions: Sequence[Condition]) -> tuple[float, float, float]:
        possible = self.sets[cell]
        if possible is None:
            return self._likely_range(cell, conditions)
        met = [v for v in possible if all(meets(c, v, self.kind) for c in conditions)]
        numbers = [v for v in met if isinstance(v, float)]
        mean = sum(numbers) / len(numbers) if numbers else math.nan
        return len(met) / max(len(possible), 1), len(numbers) / max(len(met), 1), mean

    def _likely_range(self, cell: int, conditions: Sequence[Condition]) -> tuple[float, float, float]:
        """Like `likely`, for a cell with a range. Null counts as one more value, but not among doubles."""
        low, high = self.low[cell], self.high[cell]
        part, mean = _likely_of_range(conditions, low, high, self.kind)
        values = high - low + 1
        if not self.nulls[cell] or not math.isfinite(values) or (self.kind == "real" and low < high):
            return part, 1.0, mean
        numbers = part * values
        met = numbers + all(meets(c, None, self.kind) for c in conditions)
        return met / (values + 1), numbers / met if met else 0.0, mean

    def require_known(self, conditions: Sequence[Condition]) -> None:
        """Raise if a listed value cannot be in any record, for example because of a typing error.

        Raises:
            QueryError: Naming the column and how many of the values are in no domain.
        """
        if self.kind == "label":
            if self.every is None:
                return
            known = self.every.union(*(cell for cell in self.sets if cell is not None))
            require_in_domain(self.name, conditions, self.kind, known.__contains__)
        else:
            low, high, _ = self.domain
            require_in_domain(
                self.name, conditions, self.kind, lambda v: isinstance(v, float) and low <= v <= high
            )

    @property
    def shown(self) -> list[frozenset[Value] | None]:
        """Return the sets of the cells that occur in records."""
        return [self.sets[cell] for cell in sorted(set(self.cell_of.tolist()))]

    @property
    def may_be_null(self) -> "Truths":
        """Return whether each record may be null, shape (n,)."""
        found = [None in (of_cell or ()) or null for of_cell, null in zip(self.sets, self.nulls, strict=True)]
        return np.array(found, dtype=np.bool_)[self.cell_of]

    def numbers(self, conditions: Sequence[Condition]) -> "tuple[Any, Any]":
        """Return the smallest and largest number of each record that meets the conditions, or NaN."""
        ends = [self._ends(cell, conditions) for cell in range(len(self.sets))]
        low, high = np.array(ends, dtype=np.float64).reshape(-1, 2).T
        return low[self.cell_of], high[self.cell_of]

    def _ends(self, cell: int, conditions: Sequence[Condition]) -> tuple[float, float]:
        possible = self.sets[cell]
        if possible is not None:
            found = [
                v
                for v in possible
                if isinstance(v, float) and all(meets(c, v, self.kind) for c in conditions)
            ]
            return (min(found), max(found)) if found else (math.nan, math.nan)
        low, high = self.low[cell], self.high[cell]
        for condition in conditions:
            if condition.values is not None:
                raise QueryError(
                    f"the mean of {self.name} has bounds only for a range of it, not for a list of its values"
                )
            first, last = closed_range(condition, self.kind)
            low, high = max(low, first), min(high, last)
        return (low, high) if low <= high else (math.nan, math.nan)


def require_in_domain(
    column: str, conditions: Sequence[Condition], kind: str, is_known: Callable[[Value], bool]
) -> None:
    """Raise if listed values are in no domain. Null is allowed for any column.

    Raises:
        QueryError: If there is one.
    """
    listed = [as_kind(v, kind, column) for c in conditions for v in c.values or () if v is not None]
    strange = sum(not is_known(value) for value in listed)
    if strange:
        raise QueryError(
            f"{column} must be compared with values of its domain, {strange} of {len(listed)} given "
            f"{'is' if strange == 1 else 'are'} outside of it; the data dictionary of the release lists the "
            "domain"
        )


def _likely_of_range(
    conditions: Sequence[Condition], low: float, high: float, kind: str
) -> tuple[float, float]:
    """Return the share of a range's numbers that meets the conditions, and their mean. See `likely`."""
    if low == high:
        is_met = all(meets(condition, low, kind) for condition in conditions)
        return float(is_met), low if is_met else math.nan
    if not (math.isfinite(low) and math.isfinite(high)):
        return math.nan if conditions else 1.0, math.nan
    first, last = low, high
    for condition in conditions:
        if condition.values is None:
            ends = closed_range(condition, kind)
            first, last = max(first, ends[0]), min(last, ends[1])
    if first > last:
        return 0.0, math.nan
    mean = (first + last) / 2
    lists = [condition for condition in conditions if condition.values is not None]
    if kind == "real":
        wanted = all(condition.negated for condition in lists)
        return (last - first) / (high - low) if wanted else 0.0, mean
    named = {v for c in lists for v in numbers_of(c, kind) if first <= v <= last and v == math.floor(v)}
    met = sum(all(meets(condition, v, kind) for condition in lists) for v in named)
    if all(condition.negated for condition in lists):
        met += int(last - first + 1) - len(named)
    return met / (high - low + 1), mean


def meets(condition: Condition, value: Value, kind: str) -> bool:
    """Return whether a value meets a condition."""
    if condition.values is not None:
        wanted = {as_kind(v, kind, condition.column) for v in condition.values}
        return (value in wanted) != condition.negated
    if value is None:
        return False
    if kind == "label" or isinstance(value, str):
        raise QueryError(f"{condition.column} holds labels, which have no order: list them instead")
    low, high = (_number(end, kind, condition.column) for end in (condition.low, condition.high))
    above = value > low if condition.low_open else value >= low
    return above and (value < high if condition.high_open else value <= high)


def _of_range(conditions: Sequence[Condition], low: float, high: float, kind: str) -> tuple[bool, bool]:
    """Return whether all numbers of a range meet all conditions, and whether some do."""
    if low == high:
        met = all(meets(condition, low, kind) for condition in conditions)
        return met, met
    first, last, listed = low, high, []
    for condition in conditions:
        if condition.values is None:
            ends = closed_range(condition, kind)
            first, last = max(first, ends[0]), min(last, ends[1])
        else:
            listed.append(condition)
    if first > last:
        return False, False
    inside = first == low and last == high
    if not listed:
        return inside, True
    # Listed values are tried one by one. All others meet a condition if it is negated.
    named = {float(v) for c in listed for v in numbers_of(c, kind) if first <= v <= last}
    if kind != "real":
        named = {v for v in named if v == math.floor(v)}
    each = [all(meets(condition, v, kind) for condition in conditions) for v in named]
    has_others = kind == "real" or last - first + 1 > len(named)
    others = all(condition.negated for condition in listed)
    surely = inside and all(each) and (others or not has_others)
    return surely, any(each) or (others and has_others)


def closed_range(condition: Condition, kind: str) -> tuple[float, float]:
    """Return the ends of a condition as a closed range. For whole numbers, both are whole."""
    low, high = (_number(end, kind, condition.column) for end in (condition.low, condition.high))
    if kind == "real":
        return (
            math.nextafter(low, math.inf) if condition.low_open else low,
            math.nextafter(high, -math.inf) if condition.high_open else high,
        )
    if math.isfinite(low):
        low = math.floor(low) + 1.0 if condition.low_open else float(math.ceil(low))
    if math.isfinite(high):
        high = math.ceil(high) - 1.0 if condition.high_open else float(math.floor(high))
    return low, high


def numbers_of(condition: Condition, kind: str) -> list[float]:
    """Return the listed values of a condition that are not null."""
    return [_number(v, kind, condition.column) for v in condition.values or () if v is not None]


def as_kind(value: Value, kind: str, column: str) -> Value:
    """Convert a constant of a query to the form of a column's values: text, a number, or days or seconds.

    Raises:
        QueryError: If it is none.
    """
    if value is None:
        return None
    if kind == "label":
        return value if isinstance(value, str) else f"{value:.15g}"
    return _number(value, kind, column)


def _number(value: str | float, kind: str, column: str) -> float:
    dated = kind in ("date", "timestamp")
    try:
        if dated and isinstance(value, str):
            moment = datetime.fromisoformat(value)
            seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
            return seconds // DAY if kind == "date" else seconds
        return float(value)
    except ValueError:
        raise QueryError(f"{column} must be compared with {'a date' if dated else 'a number'}") from None


def meant_of(name: str, rows: "pa.Table", dictionary: Mapping[str, Any]) -> Meant:
    """Return the possible values of a source column in the released cells.

    Args:
        name: Name of the column.
        rows: Rows of the release.
        dictionary: Data dictionary of the release.

    Raises:
        QueryError: If it is not released, or in a form that does not show single values.
    """
    columns = {column["form"]: column for column in dictionary["columns"] if column["source"] == name}
    if "lower_bound" in columns:
        return _of_bounds(name, columns, rows)
    found = next((column for column in dictionary["columns"] if column["name"] == name), None)
    if found is None:
        named = sorted({column["source"] for column in dictionary["columns"] if column["source"]})
        raise QueryError(f"{name} must be a column of the source, one of {', '.join(named)}")
    cells = rows.column(found["name"]).combine_chunks().dictionary_encode()
    values = [_cell(value) for value in cells.dictionary.to_pylist()]
    kind = _kind(found) if found["form"] == "value" else "label"
    listed = found.get("domain", {})
    every = _every(listed)
    readers: Mapping[str, Callable[[Value], frozenset[Value] | None]] = {
        "value": lambda cell: frozenset([cell]),
        "value_or_star": lambda cell: every if cell == "*" else frozenset([cell]),
        "set": _set,
        "label": lambda cell: _leaves(cell, listed, or_null=_allows_null(found)),
    }
    if found["form"] not in readers:
        raise QueryError(
            f"{name} is released as {found['form'].replace('_', ' ')}, which bounds no count and no mean"
        )
    sets = [readers[found["form"]](value) for value in values]
    if None in sets:
        raise QueryError(f"the data dictionary does not list which values the labels of {name} stand for")
    codes = cells.indices.fill_null(len(sets)).to_numpy(zero_copy_only=False)
    return Meant(
        name=name,
        cell_of=codes.astype("int64"),
        sets=[*sets, frozenset([None])],
        low=[math.nan] * (len(sets) + 1),
        high=[math.nan] * (len(sets) + 1),
        nulls=[False] * (len(sets) + 1),
        kind=kind,
        every=every if kind == "label" else None,
        domain=_domain(found, kind),
    )


def _of_bounds(name: str, columns: Mapping[str, Mapping[str, Any]], rows: "pa.Table") -> Meant:
    """Return the values of two columns of bounds, and whether the interval covers null, too."""
    low, high = (
        [_cell(v) for v in rows.column(columns[form]["name"]).to_pylist()]
        for form in ("lower_bound", "upper_bound")
    )
    flag = columns.get("null_flag")
    nulls = rows.column(flag["name"]).to_pylist() if flag else [False] * len(low)
    place: dict[Any, int] = {}
    cell_of = [place.setdefault(cell, len(place)) for cell in zip(low, high, nulls, strict=True)]
    least, largest = _domain_ends(columns["lower_bound"])
    sets: list[frozenset[Value] | None] = []
    ends: list[tuple[float, float]] = []
    for first, last, is_null in place:
        withheld = first is None and not is_null  # suppressed: any value, or none if nulls are allowed
        sets.append(frozenset([None]) if first is None and is_null else None)
        ends.append((least, largest) if withheld or first is None else (float(first), float(last)))
    return Meant(
        name=name,
        cell_of=np.array(cell_of, dtype=np.int64),
        sets=sets,
        low=[a for a, _ in ends],
        high=[b for _, b in ends],
        nulls=[bool(is_null) for _, _, is_null in place],
        kind=_kind(columns["lower_bound"]),
        domain=(least, largest, flag is not None),
    )


def _domain_ends(column: Mapping[str, Any]) -> tuple[float, float]:
    """Return the bounds of a column in the schema. Infinite if there are none."""
    stated = column.get("domain", {}).get("bounds")
    if not stated:
        return -math.inf, math.inf
    low, high = (_number(end, _kind(column), column["name"]) for end in stated)
    return low, high


def _domain(column: Mapping[str, Any], kind: str) -> tuple[float, float, bool]:
    ends = (0.0, 0.0) if kind == "label" else _domain_ends(column)
    return *ends, _allows_null(column)


def _allows_null(column: Mapping[str, Any]) -> bool:
    return bool(column.get("null", "") != "never null")


def _every(listed: Mapping[str, Any]) -> frozenset[Value] | None:
    if "paths" in listed:
        return frozenset(path[0] for path in listed["paths"])
    labels = listed.get("categories", {}).get("labels")
    return frozenset(labels) if labels else None


def _leaves(cell: Value, listed: Mapping[str, Any], *, or_null: bool) -> frozenset[Value] | None:
    """Return the values under a label of a hierarchy. None if they are unknown, or the root covers null."""
    leaves = frozenset(path[0] for path in listed.get("paths", ()) if cell in path)
    root = {path[-1] for path in listed.get("paths", ())}
    return (leaves | {None} if or_null and cell in root else leaves) or None


def _set(cell: Value) -> frozenset[Value]:
    """Parse `{a, b}`, `{a, null}`, or one value. Values that look like a set are in quotes."""
    text = str(cell)
    if not (text.startswith("{") and text.endswith("}")):
        return frozenset([_unquoted(text)])
    parts, part, quoted = [], "", False
    for mark in text[1:-1]:
        quoted = quoted != (mark == '"')
        if mark == "," and not quoted:
            parts.append(part)
            part = ""
        else:
            part += mark
    found = [p.strip() for p in (*parts, part)]
    return frozenset(None if p == "null" else _unquoted(p) for p in found)


def _unquoted(text: str) -> str:
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text


def _kind(column: Mapping[str, Any]) -> str:
    """Return how the values of a column are compared, by its type in the table."""
    kind = column["type"]
    if kind in ("date", "timestamp") or kind.startswith("timestamp"):
        return "date" if kind == "date" else "timestamp"
    if kind in ("long", "integer", "short", "byte"):
        return "whole"
    return "real" if kind in ("double", "float") or kind.startswith("decimal") else "label"


def _cell(value: Any) -> Value:
    """Convert a released cell to the form in which it is compared."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).timestamp()
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    return float(value)
