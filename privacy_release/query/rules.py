"""Rules for queries on releases: one SELECT that reads release tables, and nothing else.

DuckDB's own parser reads the query, and its tree is checked against lists of what is allowed: a kind of
statement, table or function that is not in these lists is refused. The database that then runs the query is
also closed by its configuration (`privacy_release.query.answer`). These rules report clearly, in advance,
what is refused, and which tables are used.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb

from privacy_engine.errors import PrivacyEngineError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_QUERIES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"}
_TABLES = {
    "BASE_TABLE",
    "SUBQUERY",
    "JOIN",
    "EMPTY",
    "EXPRESSION_LIST",
    "PIVOT",
    "SHOW_REF",
    "TABLE_FUNCTION",
}
_MODIFIERS = {"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"}
_ORDERS = {"ORDER_DEFAULT", "ASCENDING", "DESCENDING"}
_PARTS = _QUERIES | _TABLES | _MODIFIERS | _ORDERS
_EXPRESSIONS = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLLATE",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "LAMBDA",
    "LAMBDA_REF",
    "OPERATOR",
    "POSITIONAL_REFERENCE",
    "STAR",
    "SUBQUERY",
    "TYPE",
    "WINDOW",
}
# Table functions that make rows from their arguments. All others can reach files, settings or databases.
_TABLE_FUNCTIONS = {"unnest", "range", "generate_series"}
_CLOCK = {
    "now",
    "today",
    "current_date",
    "transaction_timestamp",
    "get_current_timestamp",
    "get_current_time",
}
# Functions that take SQL, or the inner state of an aggregate, as a value.
_CLOSED = {"combine", "combine_aggr", "finalize", "to_aggregate_state", "invoke"}
_CLOSED_PREFIXES = ("__", "json_serialize_", "json_deserialize_")


class QueryError(PrivacyEngineError, ValueError):
    """A query is wrong, or requests more than published releases."""


_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*")
_BRACKET = re.compile(r"[(\[{]|[)\]}]")


def check_size(sql: str, length: int, depth: int) -> None:
    """Raise if a query is too long or too deep for a parser.

    Args:
        sql: Text of the user.
        length: Largest number of characters.
        depth: Largest depth of nested brackets outside of quotes.

    Raises:
        QueryError: See above.
    """
    if len(sql) > length:
        raise QueryError(f"a query must have at most {length:,} characters, got {len(sql):,}; shorten it")
    if not sql.isascii() and sql != sql.encode(errors="ignore").decode():
        raise QueryError("a query must be text that UTF-8 can write; remove lone surrogates")
    deepest = now = 0
    for bracket in _BRACKET.findall(_TEXT.sub("", sql)):
        now = now + 1 if bracket in "([{" else max(0, now - 1)
        deepest = max(deepest, now)
    if deepest > depth:
        raise QueryError(
            f"a query must have brackets within brackets {depth} deep at most, got {deepest}; split it"
        )


def tables_of(parser: "DuckDBPyConnection", sql: str) -> tuple[str, ...]:
    """Return the tables that a query reads, each once, as spelled there, without those of its WITH clause.

    Args:
        parser: Database that is used for nothing else.
        sql: Text of the user.

    Raises:
        QueryError: If it is no SQL, not exactly one SELECT, or something in it is not allowed.
    """
    try:
        statements = parser.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(first_line(error)) from None
    if len(statements) != 1:
        raise QueryError(f"a query must be exactly one statement, got {len(statements)}; run them separately")
    kind = statements[0].type.name
    if kind != "SELECT":
        raise QueryError(f"a query must be a SELECT, got {_words(kind)}; releases can only be read")
    try:
        tree = _tree(parser, sql)
        names = tuple(dict.fromkeys(_read(tree, frozenset(), _Functions(parser))))
    except RecursionError:
        raise QueryError("a query must not be nested that deeply; split it") from None
    if len({name.casefold() for name in names}) < len(names):
        raise QueryError("tables of one query must differ in more than case; spell each in one way")
    return names


def first_line(error: Exception) -> str:
    """Return DuckDB's message about a query's text, without the excerpt below it."""
    said = str(error).partition("\n\nLINE ")[0]
    return " ".join(said.split())


def _tree(parser: "DuckDBPyConnection", sql: str) -> dict[str, Any]:
    """Return the query as parsed."""
    answer = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree: dict[str, Any] = json.loads(answer[0][0])
    if tree["error"]:
        raise QueryError(f"a query must be a plain SELECT; {tree['error_message']}")
    return tree


def _read(part: Any, common: frozenset[str], functions: "_Functions") -> Iterator[str]:
    """Yield names of the tables that a part of a query reads. `common` are names in outer WITH clauses."""
    if isinstance(part, list):
        for item in part:
            yield from _read(item, common, functions)
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if "class" in part:
        _check_expression(part, functions)
    elif isinstance(kind, str):
        _check_part(part, kind)
        if kind == "BASE_TABLE" and part["table_name"].casefold() not in common:
            yield part["table_name"]
        if kind == "TABLE_FUNCTION":
            part = {**part, "function": part["function"]["arguments"]}
    for entry in (part.get("cte_map") or {}).get("map", ()):
        query, name = entry["value"], entry["key"].casefold()
        # A common table sees itself only if it is recursive: otherwise its name is that of a release table.
        recursive = _first_node(query) == "RECURSIVE_CTE_NODE"
        yield from _read(query, common | {name} if recursive else common, functions)
        common |= {name}
    for key, value in part.items():
        if key != "cte_map":
            yield from _read(value, common, functions)


def _first_node(query: dict[str, Any]) -> str:
    node = query.get("query_node") or query.get("query", {}).get("node", {})
    return str(node.get("type"))


def _check_part(part: dict[str, Any], kind: str) -> None:
    """Raise if a part of a query, such as a table reference, is not known to be harmless."""
    if kind.endswith("_QUERY_NODE"):
        raise QueryError(f"a query must only read, got {_words(kind[: -len('_QUERY_NODE')])} in it")
    if kind not in _PARTS:
        raise QueryError(f"a query must be a plain SELECT, got {_words(kind)} in it; write it without")
    if kind == "BASE_TABLE":
        if part.get("catalog_name") or part.get("schema_name"):
            raise QueryError(
                "tables must be named by one word, as in the lake; there are no other schemas and databases"
            )
        if part.get("at_clause"):
            raise QueryError("a table has no AT clause here; name the release instead")
    if kind == "SHOW_REF" and not part.get("query"):
        raise QueryError("SHOW lists nothing here; DESCRIBE a table, or list releases with `inspect`")
    if kind == "TABLE_FUNCTION" and part["function"].get("function_name") not in _TABLE_FUNCTIONS:
        name = part["function"].get("function_name", "an expression")
        raise QueryError(
            f"a query must read release tables, got the table function {name}; allowed are "
            f"{', '.join(sorted(_TABLE_FUNCTIONS))}"
        )


def _check_expression(part: dict[str, Any], functions: "_Functions") -> None:
    kind = part["class"]
    if kind == "PARAMETER":
        raise QueryError("a query has no parameters here; write the value into it")
    if kind not in _EXPRESSIONS:
        raise QueryError(f"a query must be a plain SELECT, got {_words(kind)} in it; write it without")
    if kind == "FUNCTION" or part["type"] == "WINDOW_AGGREGATE":
        functions.check(part["function_name"])


class _Functions:
    """The functions of the database, and which of them depend only on their arguments."""

    def __init__(self, parser: "DuckDBPyConnection") -> None:
        self._parser = parser
        self._allowed = set(_TABLE_FUNCTIONS)

    @cached_property
    def _known(self) -> Mapping[str, Sequence[tuple[str, str, str]]]:
        """Kind, stability and macro of all functions, by name: to look up one takes as long."""
        found = defaultdict(list)
        for name, *function in self._parser.execute(
            "SELECT lower(function_name), function_type, stability, macro_definition FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')"
        ).fetchall():
            found[name].append(tuple(function))
        return found

    def check(self, name: str) -> None:
        """Raise if a function is unknown, or has other effects or sources than its arguments.

        Raises:
            QueryError: Naming it.
        """
        if name in self._allowed:
            return
        found = self._known.get(name)  # the parser writes names in lower case
        if not found:
            raise QueryError(f"there is no function {name}; see DuckDB's list of functions")
        pure = all(kind == "macro" or stability == "CONSISTENT" for kind, stability, _ in found)
        internal = name in _CLOSED or name.startswith(_CLOSED_PREFIXES)
        macros = [text for kind, _, text in found if kind == "macro"]
        if internal or not (pure or name in _CLOCK) or not all(map(self._is_open, macros)):
            raise QueryError(
                f"the function {name} is not allowed here: the value of a function must follow from its "
                "arguments, or be the time"
            )
        self._allowed.add(name)

    def _is_open(self, macro: str) -> bool:
        """Return whether a macro is allowed, based on its definition."""
        try:
            return not list(_read(_tree(self._parser, f"SELECT {macro}"), frozenset(), self))
        except QueryError:
            return False


def _words(kind: str) -> str:
    return kind.replace("_", " ")
