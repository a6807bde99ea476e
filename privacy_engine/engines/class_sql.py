"""The SQL that counts classes, for DuckDB on Parquet files."""

import glob
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.engine import Files
from privacy_engine.engines.frames import plain_columns, to_arrow
from privacy_engine.errors import SchemaError
from privacy_engine.tables.classes import SensitiveValues

if TYPE_CHECKING:  # executors of Spark also count classes, without DuckDB
    import duckdb

_RANGE = 1 << 40  # widest range of a column of whole numbers
_NUMBERED = 1_000_000  # most values of another column; they must fit into memory with the records
_RANKED = 50_000  # most values of a column if all columns are sorted
_BITS = 62  # bits of a word
_SHORT = 32  # a word of fewer bits takes half the space


class Source:
    """A table of SQL whose columns are numbered, because DuckDB ignores case in names.

    Attributes:
        sql: Text for a FROM clause.
        schema: Names and types of its columns.
    """

    def __init__(self, table: str, schema: pa.Schema) -> None:
        self.schema = schema
        self.sql = f"{table} AS r({', '.join(f'c{i}' for i in range(len(schema)))})"

    @classmethod
    def of_files(cls, files: Files, schema: pa.Schema) -> "Source":
        """Read Parquet files with exactly these names."""
        listed = ", ".join("'" + glob.escape(str(file)).replace("'", "''") + "'" for file in files)
        # A file's bounds ignore NaN. Without the option DuckDB trusts them and, for instance, skips
        # comparisons with NaN: https://github.com/duckdb/duckdb/issues/25521
        return cls(f"read_parquet([{listed}], hive_partitioning = false, can_have_nan = true)", schema)

    def with_trajectories(self, columns: Sequence[str], person: str) -> tuple["Source", str]:
        """Return the records with one more column for their person's trajectory, and its name.

        The trajectory is represented by the smallest of the persons whose rows, as a multiset, have equal
        values of the columns: a different one for each class, the same in each query. A multiset is
        identified by its size and the sum of the hashes of its rows (Clarke et al., "Incremental multiset
        hash functions and their application to memory integrity checking", ASIACRYPT 2003), which need the
        same space for a thousand rows as for one. They have 128 bits and a salt that no one knows in advance,
        so two multisets with the same sum can neither be constructed nor be expected by chance.

        Args:
            columns: Names of the quasi-identifiers.
            person: Name of the column with the person of each record.
        """
        name = "".join(self.schema.names) + "?"  # longer than any
        every = ", ".join(f"c{i}" for i in range(len(self.schema)))
        # with the length of each value, so that no two rows have the same text
        cells = [f"({key})::VARCHAR" for key in keys(self, columns)]
        texts = [f"coalesce(strlen({cell}) || ':' || {cell}, '-')" for cell in cells]
        row = f"md5_number('{secrets.token_hex(16)}' || {' || '.join(texts)})"
        table = f"""(
            WITH t AS (SELECT {every}, {self.value(person)} AS person FROM {self.sql}),
            hashed AS (SELECT {self.value(person)} AS person, {row} AS cell FROM {self.sql}),
            ways AS (
                SELECT person, count(*) AS n, sum((cell >> 64)::UBIGINT) AS upper,
                    sum((cell & {2**64 - 1}::UHUGEINT)::UBIGINT) AS lower
                FROM hashed GROUP BY person
            ),
            alike AS (SELECT min(person) AS trajectory, n, upper, lower FROM ways GROUP BY n, upper, lower),
            each AS (SELECT person AS one, trajectory FROM ways JOIN alike USING (n, upper, lower))
            SELECT {every}, trajectory FROM t JOIN each ON person IS NOT DISTINCT FROM one
        )"""
        kind = pa.field(name, self.kind(person))
        return Source(table, self.schema.append(kind)), name

    def kept(self, database: "duckdb.DuckDBPyConnection", columns: Sequence[str]) -> "Source":
        """Keep some columns as a table of the database, so that they are read or computed only once."""
        names = list(dict.fromkeys(columns))
        shown = ", ".join(f"c{self.schema.get_field_index(name)}" for name in names)
        database.execute(f"CREATE OR REPLACE TEMP TABLE kept AS SELECT {shown} FROM {self.sql}")
        return Source("kept", pa.schema([self.schema.field(name) for name in names]))

    def kind(self, name: str) -> pa.DataType:
        """Return the type of a column, with dictionaries decoded.

        Raises:
            SchemaError: If there is not exactly one column of that name.
        """
        if self.schema.get_field_index(name) < 0:
            raise SchemaError(f"the files must have one column {name!r}; they have {self.schema.names}")
        return plain_columns(self.schema.empty_table().select([name]), [name]).schema.field(0).type

    def value(self, name: str) -> str:
        """Return a column in which NaN is null, as in a frame, and -0.0 is 0.0.

        Raises:
            SchemaError: If DuckDB cannot distinguish all of its values.
        """
        kind = self.kind(name)
        if t.is_decimal256(kind):  # DuckDB reads it as a double
            raise SchemaError(f"column {name!r} must not be {kind}: cast it to double or text")
        column = f"c{self.schema.get_field_index(name)}"
        return f"nullif({column}, 'nan') + 0::FLOAT" if t.is_floating(kind) else column

    def number(self, name: str) -> str:
        """Like `value`, for numbers; dates become days, times seconds since 1970-01-01."""
        kind = self.kind(name)
        if t.is_date32(kind):
            return f"({self.value(name)} - DATE '1970-01-01')"
        if t.is_timestamp(kind) and kind.tz is None:
            return f"epoch({self.value(name)})"
        if not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
            raise SchemaError(f"column {name!r} must hold numbers, got {kind}")
        return self.value(name)


def keys(source: Source, columns: Sequence[str]) -> list[str]:
    """Return the values that the records of a class share; without columns all records are one class."""
    return [source.value(name) for name in columns] or ["true"]


def combinations_sql(source: Source, columns: Sequence[str]) -> str:
    """Return a query with a row for each combination of values, and ``n``, its number of records.

    Args:
        source: Files of the table.
        columns: Columns to combine.
    """
    shared = keys(source, columns)
    shown = "".join(f"{key} AS k{i}, " for i, key in enumerate(shared[: len(columns)]))
    return f"SELECT {shown}count(*) AS n FROM {source.sql} GROUP BY {', '.join(shared)}"


def class_sizes_sql(source: Source, columns: Sequence[str]) -> str:
    """Return a query with a row for each class size, ascending, and the number of classes of that size.

    Args:
        source: Files of the table.
        columns: Columns whose values the records of a class share.
    """
    return f"SELECT n, count(*) AS classes FROM ({combinations_sql(source, columns)}) GROUP BY n ORDER BY n"


def named(combinations: pa.Table, source: Source, columns: Sequence[str]) -> pa.Table:
    """Give rows of `combinations_sql` the names and types of the columns, and ``count``.

    Raises:
        SchemaError: If one of them is named ``count``.
    """
    if "count" in columns:
        raise SchemaError("a column named 'count' cannot be counted: rename it")
    kinds = [pa.field(name, source.kind(name)) for name in columns]
    result = pa.schema([*kinds, pa.field("count", pa.int64())])
    return combinations.rename_columns(result.names).cast(result)


@dataclass(frozen=True)
class Digit:
    """A number that represents the value of a record in one or several columns.

    Attributes:
        sql: Expression of the number, from 0; for a value with too many bits, the value itself.
        bits: Number of bits; None: it is a separate word.
        first: Number of the code 0; a smaller number is not a code.
    """

    sql: str
    bits: int | None
    first: int = 0


@dataclass(frozen=True)
class Order:
    """The order of records for `ordered_classes`, in few words: the records of a class are adjacent.

    Sorting by one 64-bit number takes a quarter of the time of sorting by the columns, and fewer bits mean
    less data written to disk.

    Attributes:
        words: Words of several digits, the first most significant: the class, the person if persons are
            counted, and a code for each sensitive attribute, where -1 is an unknown value.
        joins: Joins with the tables that number the distinct values of a column.
    """

    words: Sequence[Sequence[Digit]]
    joins: Sequence[str]

    @classmethod
    def of(
        cls,
        database: "duckdb.DuckDBPyConnection",
        source: Source,
        columns: Sequence[str],
        sizes: Mapping[str, int],
        person: str | None,
    ) -> "Order":
        """Build the order of the records of some classes; the tables remain in the database.

        Args:
            database: Database with a table ``values_i`` for each sensitive attribute.
            source: Source of the records.
            columns: Columns whose values the records of a class share.
            sizes: Sensitive attribute -> number of its values.
            person: Column with the person of each record; None: records are counted.
        """
        needed = dict.fromkeys([*columns, *([] if person is None else [person])])
        ranges = _ranges(database, source, list(needed))
        spans, joins = _spans(database, source, {name: ranges[name] for name in columns})
        digits = _class_digits(spans)
        if person is not None:
            known = ranges[person]
            value = source.value(person)
            if isinstance(known, range):
                digits.append(Digit(_placed(value, known), len(known).bit_length()))
            else:
                digits.append(Digit(value, None))
        for i, (name, size) in enumerate(sizes.items()):
            digits.append(Digit(f"coalesce(values_{i}.code + 1, 0)", size.bit_length(), first=1))
            joins.append(
                f"LEFT JOIN values_{i} ON values_{i}.value IS NOT DISTINCT FROM {source.value(name)}"
            )
        return cls(_words(digits), joins)

    @classmethod
    def of_values(
        cls, database: "duckdb.DuckDBPyConnection", source: Source
    ) -> tuple["Order", list[range | pa.ChunkedArray | None]]:
        """Build the order by the values of all columns, first column first, and what `values_of` requires."""
        names = source.schema.names
        ranges = _ranges(database, source, names, numbered=_RANKED)
        ranges |= dict.fromkeys(_unlike_their_values(database, source))
        spans, joins = _spans(database, source, ranges)
        digits: list[Digit] = []
        known: list[range | pa.ChunkedArray | None] = []
        for i, ((number, size), known_range) in enumerate(zip(spans, ranges.values(), strict=True)):
            if size is None:
                digits.append(Digit(f"c{i}", None))
                known.append(None)
                continue
            digits.append(Digit(number, (size - 1).bit_length()))
            if isinstance(known_range, range):
                known.append(known_range)
            else:
                ranked = database.sql(f"SELECT value FROM digit_{i} ORDER BY n").to_arrow_table()
                known.append(ranked.column("value"))
        return cls(_words(digits), joins), known

    def sql(self, source: Source) -> str:
        """Return the query of the words, in their order."""
        words = []
        for i, word in enumerate(self.words):
            number = word[0].sql
            for digit in word[1:]:
                number = f"({number}) * {1 << (digit.bits or 0)} + {digit.sql}"
            width = _width(word)
            short = width is not None and width < _SHORT
            words.append(f"({number}){'::INTEGER' if short else ''} AS w{i}")
        by = ", ".join(f"w{i}" for i in range(len(self.words)))
        return f"SELECT {', '.join(words)} FROM {source.sql} {' '.join(self.joins)} ORDER BY {by}"

    def digits(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the digits of the words of some records, one column each."""
        columns: list[pa.Array] = []
        for word, column in zip(self.words, rows.columns, strict=True):
            if len(word) == 1 and not word[0].first:
                columns.append(column)
                continue
            left, numbers_of = column.to_numpy(), []
            for digit in reversed(word[1:]):
                bits = digit.bits or 0
                numbers_of.append((left & ((1 << bits) - 1)) - digit.first)
                left = left >> bits
            columns += [pa.array(numbers) for numbers in (left - word[0].first, *reversed(numbers_of))]
        return pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def _unlike_their_values(database: "duckdb.DuckDBPyConnection", source: Source) -> list[str]:
    """Return the columns with NaN or -0.0, which `Source.value` turns into null and 0.0."""
    names = [name for name in source.schema.names if t.is_floating(source.kind(name))]
    if not names:
        return []
    columns = [f"c{source.schema.get_field_index(name)}" for name in names]
    counts = ", ".join(f"count_if(isnan({c}) OR ({c} = 0 AND signbit({c})))" for c in columns)
    (found,) = database.execute(f"SELECT {counts} FROM {source.sql}").fetchall()
    return [name for name, count in zip(names, found, strict=True) if count]


def values_of(digits: pa.Array, known: range | pa.ChunkedArray | None) -> pa.Array | pa.ChunkedArray:
    """Return the values of a column for the digits that represent them in an order of values."""
    if known is None:
        return digits
    if isinstance(known, range):
        places = digits.to_numpy().astype(np.int64)
        return pa.array(places + known.start, mask=places == len(known))
    return known.take(digits)


def _words(digits: Iterable[Digit]) -> list[list[Digit]]:
    """Pack digits into as few words as possible, keeping their order."""
    words: list[list[Digit]] = []
    for digit in digits:
        if words and _width([*words[-1], digit]) is not None:
            words[-1].append(digit)
        else:
            words.append([digit])
    return words


def _width(word: Sequence[Digit]) -> int | None:
    """Return the bits of some digits together; None if they exceed a word."""
    bits = [digit.bits for digit in word]
    known = [own for own in bits if own is not None]
    return sum(known) if len(known) == len(bits) and sum(known) <= _BITS else None


def _class_digits(spans: Sequence[tuple[str, int | None]]) -> list[Digit]:
    """Combine numbers of known spans into as few digits as possible; the others come first."""
    digits = [Digit(number, None) for number, size in spans if size is None]
    together, span = "0::BIGINT", 1
    for number, size in spans:
        if size is None:
            continue
        if span * size > 1 << _BITS:
            digits.append(Digit(together, (span - 1).bit_length()))
            together, span = "0::BIGINT", 1
        together += f" + {number} * {span}"
        span *= size
    return [*digits, Digit(together, (span - 1).bit_length())]


def _spans(
    database: "duckdb.DuckDBPyConnection", source: Source, ranges: Mapping[str, range | int | None]
) -> tuple[list[tuple[str, int | None]], list[str]]:
    """Return for each column a number of its values and their count, None if unlimited; and the joins."""
    spans: list[tuple[str, int | None]] = []
    joins = []
    for i, (name, known_range) in enumerate(ranges.items()):
        value = source.value(name)
        if known_range is None:
            spans.append((value, None))
        elif isinstance(known_range, range):
            spans.append((_placed(value, known_range), len(known_range) + 1))
        else:
            database.execute(
                f"CREATE OR REPLACE TEMP TABLE digit_{i} AS "
                f"SELECT value, row_number() OVER (ORDER BY value NULLS LAST) - 1 AS n "
                f"FROM (SELECT DISTINCT {value} AS value FROM {source.sql})"
            )
            ((size,),) = database.execute(f"SELECT count(*) FROM digit_{i}").fetchall()
            joins.append(f"JOIN digit_{i} ON digit_{i}.value IS NOT DISTINCT FROM {value}")
            spans.append((f"digit_{i}.n", max(size, 1)))
    return spans, joins


def _placed(value: str, known: range) -> str:
    """Return the index of a whole number in a range, from 0; a null comes after all."""
    return f"coalesce({value}::BIGINT - ({known.start}), {len(known)})"


def _ranges(
    database: "duckdb.DuckDBPyConnection", source: Source, columns: Sequence[str], numbered: int = _NUMBERED
) -> dict[str, range | int | None]:
    """Return the range of a column of whole numbers, or a count of its values; None if there are too many."""
    kinds = {name: source.kind(name) for name in columns}
    queries = [_range_query(f"c{source.schema.get_field_index(name)}", kind) for name, kind in kinds.items()]
    (found,) = database.execute(f"SELECT {', '.join([*queries, 'count(*)'])} FROM {source.sql}").fetchall()
    ranges: dict[str, range | int | None] = {}
    for (name, kind), answer in zip(kinds.items(), found, strict=False):
        if t.is_integer(kind):
            least, most = (answer[0] or 0, answer[1] or 0)
            ranges[name] = range(least, most + 1) if most - least < _RANGE and most < 1 << _BITS else None
        else:
            ranges[name] = answer if answer is not None and answer < numbered else None
    return ranges


def _range_query(column: str, kind: pa.DataType) -> str:
    """Return a query for the range of whole numbers, or for the number of other values."""
    if t.is_integer(kind):
        return f"[min({column}), max({column})]"
    if t.is_nested(kind):
        return "NULL"
    return f"approx_count_distinct({column})"


def values_left_sql(source: Source, columns: Sequence[str], attribute: str, person: str) -> str:
    """Return a query for each number of values ``left``: ``persons``, and ``records`` of theirs.

    A person whose records all have one value can have any of the values that are in all their classes. Values
    are distinguished by their codes in the table ``values_0``, see `coded_values`.
    """
    quasi = [f"q{i}" for i in range(max(len(columns), 1))]
    shared = ", ".join(f"{key} AS {name}" for key, name in zip(keys(source, columns), quasi, strict=True))
    who, value = source.value(person), source.value(attribute)
    own, same = ", ".join(quasi), " AND ".join(f"own.{q} IS NOT DISTINCT FROM had.{q}" for q in quasi)
    return f"""
        WITH r AS (
            SELECT {shared}, {who} AS person, values_0.code AS value FROM {source.sql}
            LEFT JOIN values_0 ON values_0.value IS NOT DISTINCT FROM {value}
        ),
        alike AS (
            SELECT person, count(*) AS n FROM r GROUP BY person
            HAVING count(value) = 0 OR (count(value) = count(*) AND min(value) = max(value))
        ),
        own AS (SELECT DISTINCT {own}, person FROM r SEMI JOIN alike USING (person)),
        had AS (SELECT DISTINCT {own}, value FROM r),
        met AS (SELECT person, value, count(*) AS m FROM own JOIN had ON {same} GROUP BY person, value),
        classes AS (SELECT person, count(*) AS m FROM own GROUP BY person),
        in_all AS (SELECT person FROM met JOIN classes USING (person, m)),
        known AS (SELECT person, count(*) AS left_over FROM in_all GROUP BY person)
        SELECT left_over AS left, count(*) AS persons, sum(n)::BIGINT AS records
        FROM known JOIN alike USING (person) GROUP BY left_over ORDER BY left_over
    """


def coded_values(source: Source, sensitive: Mapping[str, SensitiveValues]) -> dict[str, pa.Table]:
    """Return the tables ``values_i``: each value of a sensitive attribute, and its code."""
    tables = {}
    for i, (name, values) in enumerate(sensitive.items()):
        column = to_arrow(values.column.to_frame(name)).column(name)
        tables[f"values_{i}"] = numbered(column.cast(source.kind(name)), values.codes)
    return tables


def numbered(values: pa.ChunkedArray, codes: npt.NDArray[np.integer[Any]]) -> pa.Table:
    """Return a table of values and their codes."""
    return pa.table({"value": values, "code": codes.astype(np.int64)})
