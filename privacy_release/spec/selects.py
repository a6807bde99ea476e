"""Analyse the text of a SELECT: the view that it reads, and the columns that its columns are computed from.

DuckDB parses the text. If anything is not understood, there is no result, so that a rule on columns refuses
it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

RECORDS = "records"  # name of the table in a step's query
RECORD = "_record"  # column with the number of a record
ROW_NUMBER = "file_row_number"  # DuckDB's column from which that number is computed
# Text that every database reads the same way: no comment, backslash, backtick or dollar quote.
_PLAIN = re.compile(r"(?:(?!--|/\*)[\w\s.,:*=<>!()'\"%+/-]|\$release)*;?\s*")
_NOT_PLAIN = ("modifiers", "group_expressions", "group_sets", "having", "sample", "qualify")
# Classes of expressions that only name a column.
_UNDERSTOOD = (
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION"),
    *("CONSTANT", "FUNCTION", "OPERATOR", "TYPE", "WINDOW"),
)
_STAR_PARTS = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list", "expr", "columns")


def view_of(sql: str) -> str | None:
    """Return the view of a query that only selects columns of it. None for any other query.

    DuckDB parses it. A text that databases may read in different ways, because of comments, backslashes or
    quotes, is not understood.

    >>> view_of("SELECT age, sex FROM public.visits WHERE day = :release")
    'public.visits'
    >>> view_of("SELECT patient AS age FROM public.visits")
    >>> view_of("SELECT age FROM visits WHERE age > 1 UNION SELECT patient FROM visits")
    """
    plain = re.sub(r"\{release(?::[^{}']*)?\}|:release\w*", "$release", sql.replace("\\:", ":"))
    query = _parsed(plain) if _PLAIN.fullmatch(plain) else None
    if query is None:
        return None
    table, columns = query["from_table"], query["select_list"]
    name = ".".join(table[part] for part in ("catalog_name", "schema_name", "table_name") if table[part])
    if len(columns) == 1 and columns[0]["class"] == "STAR":
        return None if any(columns[0].get(part) for part in _STAR_PARTS) else name
    plain_ones = (
        c["class"] == "COLUMN_REF" and not c["alias"] and len(c["column_names"]) == 1 for c in columns
    )
    return name if all(plain_ones) else None


def computed_of(sql: str, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of `RECORDS` that each column of a query is computed from.

    Args:
        sql: Text of the query.
        columns: Columns of the table, without `RECORD`.

    Returns:
        Only what is known. A missing column of the query may be computed from any column.

    >>> computed_of("SELECT _record, age, age // 10 AS decade FROM records", ["age", "sex"])
    {'_record': (), 'age': ('age',), 'decade': ('age',)}
    """
    query = _parsed(sql)
    if query is None or query["from_table"]["table_name"] != RECORDS or query["from_table"]["schema_name"]:
        return {}
    made: list[tuple[str, list[str] | None]] = []
    for item in query["select_list"]:
        if item["class"] != "STAR":
            made.append((item["alias"] or (item.get("column_names") or [""])[-1], _columns_in(item)))
        elif any(item.get(part) for part in _STAR_PARTS if part != "exclude_list"):
            return {}
        else:
            made += [(name, [name]) for name in columns]
    found: dict[str, set[str] | None] = {}
    for name, parts in made:  # of two columns with one name, it is not known which one stays
        before = found.get(name, set())
        known = parts is not None and set(parts) <= {RECORD, *columns}
        found[name] = before | set(parts or ()) if known and before is not None else None
    return {
        name: tuple(column for column in columns if column in of)
        for name, of in found.items()
        if of is not None
    }


def _parsed(sql: str) -> dict[str, Any] | None:
    """Parse a query that only selects from one table. None for any other query.

    It contains no other query, does not group or sample, and its table has no alias.
    """
    import duckdb

    with duckdb.connect(":memory:") as database:
        found = database.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    parsed: dict[str, Any] = json.loads(found[0]) if found else {"error": True}
    if parsed["error"] or len(parsed["statements"]) != 1:
        return None
    query: dict[str, Any] = parsed["statements"][0]["node"]
    if query["type"] != "SELECT_NODE" or query["cte_map"]["map"] or any(query.get(p) for p in _NOT_PLAIN):
        return None
    table = query["from_table"]
    if (
        table["type"] != "BASE_TABLE"
        or table["alias"]
        or table["sample"]
        or _has_query(query["where_clause"])
    ):
        return None
    return query


def _has_query(expression: Any) -> bool:
    """Return whether an expression contains a query."""
    if isinstance(expression, Mapping):
        return expression.get("class") == "SUBQUERY" or any(map(_has_query, expression.values()))
    return isinstance(expression, list) and any(map(_has_query, expression))


def _columns_in(expression: Any) -> list[str] | None:
    """Return the columns that an expression names. None if it names more than columns of the one table."""
    if isinstance(expression, list):
        parts = [_columns_in(part) for part in expression]
        return None if None in parts else [name for part in parts for name in part or ()]
    if not isinstance(expression, Mapping):
        return []
    if expression.get("class") not in (None, *_UNDERSTOOD):
        return None
    if expression.get("class") == "COLUMN_REF":
        *table, name = expression["column_names"]
        return [name] if table in ([], [RECORDS]) else None
    return _columns_in(list(expression.values()))
