"""The SQL that counts classes, for DuckDB on Parquet files."""

import glob
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from privacy_engine.engines.engine import Files
from privacy_engine.engines.frames import plain_columns, to_arrow
from privacy_engine.errors import IntegrityError, SchemaError
from privacy_engine.tables.classes import CountedClasses, SensitiveValues


class Source:
    """A table of SQL whose columns go by number: DuckDB minds no case in names.

    Attributes:
        sql: for a FROM clause.
        schema: names and types of its columns.
    """

    def __init__(self, table: str, schema: pa.Schema) -> None:
        self.schema = schema
        self.sql = f"{table} AS r({', '.join(f'c{i}' for i in range(len(schema)))})"

    @classmethod
    def of_files(cls, files: Files, schema: pa.Schema) -> "Source":
        """Parquet files, by their very names."""
        listed = ", ".join("'" + glob.escape(str(file)).replace("'", "''") + "'" for file in files)
        # A file's bounds pass over NaN. Without the option DuckDB takes them at their word, and for instance
        # leaves out comparisons with NaN: https://github.com/duckdb/duckdb/issues/25521
        return cls(f"read_parquet([{listed}], hive_partitioning = false, can_have_nan = true)", schema)

    def with_trajectories(self, columns: Sequence[str], person: str) -> tuple["Source", str]:
        """The same records, and the name of one more column that stands for the trajectory of their person.

        It is the least of the persons whose rows, as a multiset, have equal values of the columns: another
        for each class, and the same in each query.

        Args:
            columns: the quasi-identifiers.
            person: the column that tells whose record each is.
        """
        name = "".join(self.schema.names) + "?"  # longer than any
        every = ", ".join(f"c{i}" for i in range(len(self.schema)))
        cell = f"dense_rank() OVER (ORDER BY {', '.join(keys(self, columns))})"
        table = f"""(
            WITH t AS (SELECT {every}, {self.value(person)} AS person, {cell} AS cell FROM {self.sql}),
            ways AS (SELECT person, list_sort(list(cell)) AS way FROM t GROUP BY person),
            alike AS (SELECT min(person) AS trajectory, list(person) AS people FROM ways GROUP BY way),
            each AS (SELECT unnest(people) AS one, trajectory FROM alike)
            SELECT {every}, trajectory FROM t JOIN each ON person IS NOT DISTINCT FROM one
        )"""
        kind = pa.field(name, self.kind(person))
        return Source(table, self.schema.append(kind)), name

    def kind(self, name: str) -> pa.DataType:
        """Type of a column, dictionaries decoded.

        Raises:
            SchemaError: if there is not one column of that name.
        """
        if self.schema.get_field_index(name) < 0:
            raise SchemaError(f"the files must have one column {name!r}; they have {self.schema.names}")
        return plain_columns(self.schema.empty_table().select([name]), [name]).schema.field(0).type

    def value(self, name: str) -> str:
        """A column in which NaN is null, as in a frame, and -0.0 is 0.0.

        Raises:
            SchemaError: if DuckDB cannot tell all of its values apart.
        """
        kind = self.kind(name)
        if t.is_decimal256(kind):  # DuckDB reads it as a double
            raise SchemaError(f"column {name!r} must not be {kind}: cast it to double or text")
        column = f"c{self.schema.get_field_index(name)}"
        return f"nullif({column}, 'nan') + 0::FLOAT" if t.is_floating(kind) else column

    def number(self, name: str) -> str:
        """The same, of a column of numbers; of dates days, of times seconds since 1970-01-01."""
        kind = self.kind(name)
        if t.is_date32(kind):
            return f"({self.value(name)} - DATE '1970-01-01')"
        if t.is_timestamp(kind) and kind.tz is None:
            return f"epoch({self.value(name)})"
        if not (t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)):
            raise SchemaError(f"column {name!r} must hold numbers, got {kind}")
        return self.value(name)


def keys(source: Source, columns: Sequence[str]) -> list[str]:
    """What the records of a class share; without a column all records are one class."""
    return [source.value(name) for name in columns] or ["true"]


def combinations_sql(source: Source, columns: Sequence[str], part: str = "true") -> str:
    """One row for each combination of values of the columns, and ``n``, how often it occurs.

    Args:
        source: the files.
        columns: that are combined.
        part: condition on the records, which holds for all that share a combination or none.
    """
    shared = keys(source, columns)
    shown = "".join(f"{key} AS k{i}, " for i, key in enumerate(shared[: len(columns)]))
    return f"SELECT {shown}count(*) AS n FROM {source.sql} WHERE {part} GROUP BY {', '.join(shared)}"


def named(combinations: pa.Table, source: Source, columns: Sequence[str]) -> pa.Table:
    """Rows of `combinations_sql` with the names and types of the columns, and ``count``.

    Raises:
        SchemaError: if one of them is named ``count``.
    """
    if "count" in columns:
        raise SchemaError("a column named 'count' cannot be counted: rename it")
    kinds = [pa.field(name, source.kind(name)) for name in columns]
    result = pa.schema([*kinds, pa.field("count", pa.int64())])
    return combinations.rename_columns(result.names).cast(result)


def sizes_sql(source: Source, columns: Sequence[str]) -> str:
    """One row for each size of a class: ``size``, and ``classes``, how many have it."""
    sizes = f"SELECT n FROM ({combinations_sql(source, columns)})"
    return f"SELECT n AS size, count(*) AS classes FROM ({sizes}) GROUP BY n ORDER BY n"


def is_wide(sensitive: Mapping[str, SensitiveValues], most: int) -> bool:
    """Whether a class is one row of `wide_columns`; otherwise it has a list of the values that are in it."""
    return sum(values.size for values in sensitive.values()) <= most


def wide_columns(codes: Sequence[str], sensitive: Mapping[str, SensitiveValues]) -> dict[str, str]:
    """What is counted of each class, by name: its records, and those with each of the sensitive values.

    Numbers of a fixed width: whoever groups can spill them, adds them up before anything is sent elsewhere,
    and needs neither lists nor a second grouping. DuckDB and Spark read the expressions alike.

    Args:
        codes: the column that has the codes of each attribute.
        sensitive: sensitive attribute -> its values in the whole table.
    """
    told = {"n": "count(*)"}
    for i, (code, values) in enumerate(zip(codes, sensitive.values(), strict=True)):
        told |= {f"n{i}_{value}": f"count_if({code} = {value})" for value in range(values.size)}
    return told


def wide_sql(source: Source, columns: Sequence[str], sensitive: Mapping[str, SensitiveValues]) -> str:
    """One row a class, of `wide_columns`; the codes come from tables ``values_i``, as of `people_sql`."""
    group, records = _coded_records(source, columns, list(sensitive), "true")
    counts = wide_columns([f"s{i}" for i in range(len(sensitive))], sensitive)
    told = ", ".join(f"({expression})::BIGINT AS {name}" for name, expression in counts.items())
    return f"SELECT {told} FROM ({records}) GROUP BY {group}"


def counted_wide(rows: pa.RecordBatch, sensitive: Mapping[str, SensitiveValues]) -> CountedClasses:
    """The classes of rows of `wide_columns`.

    Raises:
        IntegrityError: if a record has a value that is not among the known ones.
    """
    sizes = rows.column("n").to_numpy()
    entries = {}
    for i, (name, values) in enumerate(sensitive.items()):
        counts = np.zeros((len(sizes), values.size), np.int64)
        for value in range(values.size):
            counts[:, value] = rows.column(f"n{i}_{value}").to_numpy()
        if not np.array_equal(counts.sum(axis=1), sizes):
            raise changed_values()
        classes, codes = np.nonzero(counts)
        entries[name] = (classes, codes, counts[classes, codes])
    return CountedClasses.of_entries(sizes, entries, sensitive)


def counts_sql(source: Source, columns: Sequence[str], sensitive: Sequence[str], part: str) -> str:
    """One row a class: lists ``codes`` of sensitive values and ``counts``, how often each occurs in it.

    Each sensitive attribute is counted by itself, so a class has no more entries than each has values. The
    codes of one follow upon those of another, so that one list holds all of them. The codes of attribute i
    come from a table ``values_i`` of value and code; that of a value which is not there is -1.

    Args:
        source: the files.
        columns: the quasi-identifiers.
        sensitive: the sensitive attributes, at least one.
        part: condition on the records, which holds for all of a class or none.
    """
    group, records = _coded_records(source, columns, sensitive, part)
    codes = [f"s{i}" for i in range(len(sensitive))]
    sets = ", ".join(f"({group}, {code})" for code in codes)
    entries = (
        f"SELECT {group}, coalesce({', '.join(codes)}) AS code, count(*) AS n FROM ({records}) "
        f"GROUP BY GROUPING SETS ({sets})"
    )
    return f"SELECT list(code) AS codes, list(n) AS counts FROM ({entries}) GROUP BY {group}"


def people_sql(
    source: Source, columns: Sequence[str], sensitive: Sequence[str], person: str, part: str
) -> str:
    """One row a class: ``n``, its records, ``people``, its persons, and a list ``f0`` for each attribute.

    The list has for each person of the class the list of the codes that they have there, each once. The codes
    come from tables ``values_i``, as those of `counts_sql`; those of each attribute begin at 0.

    Args:
        source: the files.
        columns: the quasi-identifiers.
        sensitive: the sensitive attributes.
        person: the column that tells whose record each is.
        part: condition on the records, which holds for all of a class or none.
    """
    group, records = _coded_records(source, columns, sensitive, part, f"{source.value(person)} AS person")
    had = "".join(f", list(DISTINCT s{i}) AS f{i}" for i in range(len(sensitive)))
    pairs = f"SELECT {group}, count(*) AS n{had} FROM ({records}) GROUP BY {group}, person"
    lists = "".join(f", list(f{i}) AS f{i}" for i in range(len(sensitive)))
    return f"SELECT sum(n)::BIGINT AS n, count(*) AS people{lists} FROM ({pairs}) GROUP BY {group}"


def weights_sql(source: Source, column: str, person: str) -> str:
    """One row for each value of a column and number of values: how many persons have it among so many."""
    had = (
        f"SELECT DISTINCT {source.value(person)} AS person, {source.value(column)} AS value FROM {source.sql}"
    )
    parts = f"SELECT value, count(*) OVER (PARTITION BY person) AS parts FROM ({had})"
    return f"SELECT value, parts, count(*) AS persons FROM ({parts}) GROUP BY value, parts"


def values_left_sql(source: Source, columns: Sequence[str], attribute: str, person: str) -> str:
    """One row for each number of values ``left``: ``persons``, and ``records`` of theirs.

    A person whose records all have one value is looked for among the values that are in all their classes. As
    their own value is in each, those are the values that are met most often in them.
    """
    quasi = [f"q{i}" for i in range(max(len(columns), 1))]
    shared = ", ".join(f"{key} AS {name}" for key, name in zip(keys(source, columns), quasi, strict=True))
    who, value = source.value(person), source.value(attribute)
    return f"""
        WITH r AS (SELECT {shared}, {who} AS person, {value} AS value FROM {source.sql}),
        alike AS (
            SELECT person, count(*) AS n FROM r GROUP BY person
            HAVING count(DISTINCT value) + bool_or(value IS NULL)::INT = 1
        ),
        classes AS (
            SELECT list(DISTINCT alike.person) FILTER (alike.n IS NOT NULL) AS people,
                list(DISTINCT value) AS had
            FROM r LEFT JOIN alike USING (person) GROUP BY {", ".join(quasi)}
        ),
        met AS (SELECT person, unnest(had) AS value FROM (SELECT unnest(people) AS person, had FROM classes)),
        times AS (SELECT person, value, count(*) AS m FROM met GROUP BY person, value),
        most AS (SELECT person, m = max(m) OVER (PARTITION BY person) AS in_all FROM times),
        known AS (SELECT person, count(*) FILTER (in_all) AS left_over FROM most GROUP BY person)
        SELECT left_over AS left, count(*) AS persons, sum(n)::BIGINT AS records
        FROM known JOIN alike USING (person) GROUP BY left_over ORDER BY left_over
    """


def _coded_records(
    source: Source, columns: Sequence[str], sensitive: Sequence[str], part: str, *others: str
) -> tuple[str, str]:
    """The columns ``q0, q1, ...`` that a class shares, and records of them and of codes ``s0, s1, ...``."""
    quasi = [f"q{i}" for i in range(max(len(columns), 1))]
    selected = [
        *(f"{key} AS {name}" for key, name in zip(keys(source, columns), quasi, strict=True)),
        *others,
        *(f"coalesce(values_{i}.code, -1) AS s{i}" for i in range(len(sensitive))),
    ]
    joins = [
        f"LEFT JOIN values_{i} ON values_{i}.value IS NOT DISTINCT FROM {source.value(name)}"
        for i, name in enumerate(sensitive)
    ]
    return ", ".join(quasi), f"SELECT {', '.join(selected)} FROM {source.sql} {' '.join(joins)} WHERE {part}"


def coded_values(
    source: Source, sensitive: Mapping[str, SensitiveValues], *, in_one_list: bool
) -> dict[str, pa.Table]:
    """The tables ``values_i``; `counts_sql` has the codes of all attributes in one list, one upon another."""
    tables, first = {}, 0
    for i, (name, values) in enumerate(sensitive.items()):
        column = to_arrow(values.column.to_frame(name)).column(name).cast(source.kind(name))
        tables[f"values_{i}"] = pa.table({"value": column, "code": values.codes.astype(np.int64) + first})
        first += values.size if in_one_list else 0
    return tables


def counted(rows: pa.RecordBatch, sensitive: Mapping[str, SensitiveValues]) -> CountedClasses:
    """The classes of rows of `counts_sql`.

    Raises:
        IntegrityError: if a record has a value that is not among the known ones.
    """
    lengths = rows.column("codes").value_lengths().to_numpy().astype(np.int64)
    codes, counts = (rows.column(name).flatten().to_numpy() for name in ("codes", "counts"))
    if (codes < 0).any():
        raise changed_values()
    classes = np.repeat(np.arange(len(lengths)), lengths)
    entries: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
    first = 0
    for name, values in sensitive.items():
        own = (codes >= first) & (codes < first + values.size)
        entries[name] = (classes[own], codes[own] - first, counts[own])
        first += values.size
    classes, _, counts = next(iter(entries.values()))  # each record has one value of any attribute
    sizes = np.bincount(classes, counts, len(lengths)).astype(np.int64)
    return CountedClasses.of_entries(sizes, entries, sensitive)


def counted_people(rows: pa.RecordBatch, sensitive: Mapping[str, SensitiveValues]) -> CountedClasses:
    """The classes of rows of `people_sql`.

    Raises:
        IntegrityError: if a record has a value that is not among the known ones.
    """
    people = rows.column("people").to_numpy()
    had = {}
    for i, name in enumerate(sensitive):
        sets = rows.column(f"f{i}").flatten()
        codes = sets.flatten().to_numpy().astype(np.int64)
        if (codes < 0).any():
            raise changed_values()
        had[name] = (np.repeat(np.arange(len(sets)), sets.value_lengths().to_numpy()), codes)
    class_of = np.repeat(np.arange(len(people)), people)
    return CountedClasses.of_people(rows.column("n").to_numpy(), class_of, had, sensitive)


def changed_values() -> IntegrityError:
    """Whatever was counted before is no longer so."""
    return IntegrityError(
        "sensitive values must be those that were counted before, got others: the files changed while they "
        "were read; run the release again"
    )
