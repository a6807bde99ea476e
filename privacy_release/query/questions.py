"""Questions that can be answered with an interval: counts, shares and means of some records, by some columns.

Write them in Python, or in SQL of one form:

    SELECT [columns,] count(*) | avg(column), ... FROM table [WHERE conditions] [GROUP BY columns]
    [ORDER BY columns]

where the conditions, joined by AND, compare a column with constants by =, <>, <, <=, >, >=, BETWEEN, IN,
IS NULL or IS NOT NULL. Everything else is refused with a reason.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from privacy_release.query.rules import QueryError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Value = str | float | None

FORM = (
    "SELECT [columns,] count(*) or avg(column) FROM table [WHERE ... AND ...] [GROUP BY columns] "
    "[ORDER BY columns of the answer]"
)
MOST_GROUPED = 3


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on a column: one of some values, or a number or date in a range with open or closed ends.

    Attributes:
        values: Text, numbers, and dates as ISO text. None among them is null. None instead of a set: the
            range counts.
        negated: Whether the values are excluded, and null as well unless it is among them.
    """

    column: str
    values: frozenset[Value] | None = None
    negated: bool = False
    low: float | str = -math.inf
    high: float | str = math.inf
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, kw_only=True)
class Measure:
    """`count`, `share` or `mean` of a column. `name` is that of the answer's column."""

    kind: str
    of: str | None = None
    name: str = "count"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Some measures of the records that meet all conditions, by columns.

    Attributes:
        order: Columns by which the answer is sorted, each with whether it is descending. Nulls are last.

    Raises:
        QueryError: If there are too many columns, or a measure is unknown.
    """

    measures: tuple[Measure, ...]
    by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.by)) < len(self.by) or len(self.by) > MOST_GROUPED:
            raise QueryError(
                f"intervals are given by at most {MOST_GROUPED} different columns, got {len(self.by)}"
            )
        for measure in self.measures:
            if measure.kind not in ("count", "share", "mean"):
                raise QueryError(f"intervals are given for count, share and mean, got {measure.kind!r}")
            if (measure.kind == "mean") != (measure.of is not None):
                raise QueryError("a mean requires a column; a count and a share have none")


def question_from(
    kind: str, of: str | None, by: Sequence[str] | str, where: Mapping[str, Any] | None
) -> Question:
    """Return a question given as Python values.

    Args:
        kind: `count`, `share` or `mean`.
        of: Column whose mean is requested.
        by: Columns to group by.
        where: Condition on each column: a value, a list or set of values, or a pair (low, high), both
            included, of which None is open.

    Raises:
        QueryError: If it is no question.
    """
    conditions = []
    for column, wanted in (where or {}).items():
        if isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise QueryError(
                    f"{column}: a range must be a pair (low, high); list single values in a list"
                )
            low, high = (_plain(end) for end in wanted)
            conditions.append(
                Condition(
                    column=column,
                    low=-math.inf if low is None else low,
                    high=math.inf if high is None else high,
                )
            )
        else:
            many = isinstance(wanted, Collection) and not isinstance(wanted, str)
            values = frozenset(map(_plain, wanted if many else [wanted]))
            conditions.append(Condition(column=column, values=values))
    return Question(
        measures=(Measure(kind=kind, of=of, name=kind if of is None else f"mean_{of}"),),
        by=(by,) if isinstance(by, str) else tuple(by),
        where=tuple(conditions),
    )


def question_of(parser: "DuckDBPyConnection", sql: str) -> tuple[str, Question]:
    """Parse a question in SQL that `tables_of` has checked. Return its table and the question.

    Raises:
        QueryError: If its form has no intervals.
    """
    tree = json.loads(parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0])
    node = tree["statements"][0]["node"]
    source = node.get("from_table") or {}
    unknown = [key for key in ("having", "qualify", "sample") if node.get(key)]
    if (
        node["type"] != "SELECT_NODE"
        or source.get("type") != "BASE_TABLE"
        or [part for part in node["modifiers"] if part["type"] != "ORDER_MODIFIER"]
        or node["cte_map"]["map"]
        or unknown
        or len(node.get("group_sets") or ()) > 1
    ):
        raise _other_form("something else, such as a join, a subquery, DISTINCT, HAVING or LIMIT")
    by = tuple(_column(part) for part in node["group_expressions"])
    measures, shown = [], []
    for part in node["select_list"]:
        if part["class"] == "COLUMN_REF":
            shown.append(_column(part))
        else:
            measures.append(_measure(part))
    if sorted(shown) != sorted(by) or not measures:
        raise _other_form("other columns than those of GROUP BY, or no count or mean")
    return source["table_name"], Question(
        measures=tuple(measures),
        by=tuple(shown),
        where=tuple(_conditions(node["where_clause"])),
        order=tuple(_orders(node["modifiers"], node["select_list"], [*shown, *(m.name for m in measures)])),
    )


def _orders(
    modifiers: Sequence[dict[str, Any]], select: Sequence[dict[str, Any]], columns: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """Return the columns of ORDER BY, by name in the answer, number, or the selected expression."""
    for part in (part for modifier in modifiers for part in modifier["orders"]):
        by = part["expression"]
        if by["class"] == "CONSTANT" and by["literal"]["text"].isdecimal():
            number = int(by["literal"]["text"]) - 1
            by = select[number] if 0 <= number < len(select) else by
        if by["class"] == "COLUMN_REF":
            name = _column(by)
        elif by["class"] == "FUNCTION":
            name = next((_name_of(s) for s in select if _is_same(s, by)), "")
        else:
            name = ""
        if name not in columns or part["null_order"] not in ("ORDER_DEFAULT", "NULLS LAST"):
            raise _other_form("ORDER BY something else than columns of the answer, nulls last")
        yield name, part["type"] == "DESCENDING"


def _name_of(selected: dict[str, Any]) -> str:
    return _column(selected) if selected["class"] == "COLUMN_REF" else _measure(selected).name


def _is_same(selected: dict[str, Any], by: dict[str, Any]) -> bool:
    """Return whether the same function of the same column is selected."""
    if selected["class"] != "FUNCTION":
        return False
    one, other = _measure(selected), _measure(by)
    return (one.kind, one.of) == (other.kind, other.of)


def _measure(part: dict[str, Any]) -> Measure:
    name, arguments = part.get("function_name"), _arguments(part)
    plain = part["class"] == "FUNCTION" and not part.get("distinct") and not part.get("filter")
    if plain and name in ("count_star", "count") and not arguments:
        return Measure(kind="count", name=part["alias"] or "count")
    if plain and name in ("avg", "mean") and len(arguments) == 1:
        of = _column(arguments[0])
        return Measure(kind="mean", of=of, name=part["alias"] or f"mean_{of}")
    raise _other_form("another function, or an expression")


def _arguments(part: dict[str, Any]) -> list[dict[str, Any]]:
    found = part.get("arguments") or part.get("children") or []
    return [argument.get("expression", argument) for argument in found]


def _conditions(part: dict[str, Any] | None) -> list[Condition]:
    if part is None:
        return []
    kind = part["type"]
    if kind == "CONJUNCTION_AND":
        return [condition for child in part["children"] for condition in _conditions(child)]
    if kind == "COMPARE_BETWEEN":
        column, low, high = _column(part["input"]), _constant(part["lower"]), _constant(part["upper"])
        return [Condition(column=column, low=_end(low), high=_end(high))]
    if kind in ("COMPARE_IN", "COMPARE_NOT_IN"):
        first, *others = part["children"]
        values = frozenset(map(_constant, others))
        negated = kind == "COMPARE_NOT_IN"
        return [
            Condition(column=_column(first), values=values | {None} if negated else values, negated=negated)
        ]
    if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        column = _column(part["children"][0])
        return [Condition(column=column, values=frozenset([None]), negated=kind == "OPERATOR_IS_NOT_NULL")]
    if part["class"] == "COMPARISON":
        return [_comparison(part, kind)]
    raise _other_form("a condition with OR, NOT, LIKE, a function or an expression")


def _comparison(part: dict[str, Any], kind: str) -> Condition:
    left, right = part["left"], part["right"]
    if left["class"] != "COLUMN_REF":
        left, right = right, left
        kind = kind.replace("LESS", "+").replace("GREATER", "LESS").replace("+", "GREATER")
    column, value = _column(left), _constant(right)
    if kind == "COMPARE_EQUAL":
        return Condition(column=column, values=frozenset([value]))
    if kind == "COMPARE_NOTEQUAL":
        return Condition(column=column, values=frozenset([value, None]), negated=True)
    if kind in ("COMPARE_GREATERTHAN", "COMPARE_GREATERTHANOREQUALTO"):
        return Condition(column=column, low=_end(value), low_open=kind == "COMPARE_GREATERTHAN")
    if kind in ("COMPARE_LESSTHAN", "COMPARE_LESSTHANOREQUALTO"):
        return Condition(column=column, high=_end(value), high_open=kind == "COMPARE_LESSTHAN")
    raise _other_form("a comparison other than =, <>, <, <=, >, >=")


def _end(value: Value) -> float | str:
    if value is None:
        raise _other_form("a comparison with NULL; write IS NULL")
    return value


def _column(part: dict[str, Any]) -> str:
    if part["class"] != "COLUMN_REF":
        raise _other_form("an expression in the place of a column")
    return str(part["column_names"][-1])


def _constant(part: dict[str, Any]) -> Value:
    if part["type"] == "OPERATOR_CAST":
        part = part["child"]
    literal = part.get("literal")
    if literal is None:
        raise _other_form("a comparison with something else than a constant")
    kind, text = literal["kind"], literal.get("text")
    if kind == "NULL":
        return None
    return float(text) if kind in ("INTEGER", "NUMERIC") else str(text)


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    return float(value)


def _other_form(what: str) -> QueryError:
    return QueryError(
        f"intervals are given for {FORM}; got {what}. Use that form; or query without --intervals the "
        "columns as they are released, which the data dictionary lists, such as age_from and age_to of age"
    )
