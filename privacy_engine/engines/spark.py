"""The engine on Spark, for tables that one machine cannot hold: a classic session or Spark Connect.

Only DataFrames are used, so both kinds of session work.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from privacy_engine.engines.class_order import ordered_classes
from privacy_engine.engines.engine import Apart, Assign, Code, Files, Fold, Grouping, TrajectoryFiles, Work
from privacy_engine.engines.frames import to_frame
from privacy_engine.engines.parquet import common_schema, footer, subset
from privacy_engine.engines.profiling import SAMPLE, SEED, cuts
from privacy_engine.engines.spark_columns import Columns, carried_type, key_names
from privacy_engine.engines.spark_errors import in_our_words
from privacy_engine.engines.spark_workers import (
    FOLDED,
    FRAGMENT,
    POSITION,
    WIDE,
    WORKED,
    Counted,
    Parts,
    assigning,
    check_sums,
    coding,
    counted_rows,
    folding,
    is_wide,
    numbered_work,
    opening,
    result_of,
    wide_columns,
    working,
)
from privacy_engine.errors import IntegrityError, PrivacyEngineError, SchemaError, SpecError
from privacy_engine.tables.classes import SensitiveValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 26),
    # Skipping the records of a damaged file would change the table.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
_PATTERN = re.compile(r"[\[\]{}*?\\]")
_LOCAL = "^file:/+"  # Spark writes one slash or three
_MEMORY = 10**9
_ENTRIES = 2_000_000  # about 50 MB sent to the driver


def _several_tables() -> SchemaError:
    return SchemaError(
        "rows of several tables can only be counted by the engine `local`. Verify them with it"
    )


class SparkEngine:
    """`Engine` on a session that the caller starts and stops.

    The driver and all executors must read the files under the same path, or the files must be split into
    parts. The executors' Python must have this package.

    Args:
        session: Spark session, classic or Connect; some of its SQL settings are changed.
        memory: Bytes that an answer may use in this process.
        entries: Approximate number of rows in a part of `count_coded`.
        wide: Most sensitive values for which each has a column of counts.
        parts: Splits a file that only the driver can read into parts; None: executors read the files.
    """

    @in_our_words
    def __init__(
        self,
        session: "SparkSession",
        *,
        memory: int = _MEMORY,
        entries: int = _ENTRIES,
        wide: int = WIDE,
        parts: Parts | None = None,
    ) -> None:
        self._session = session
        self.memory = memory
        self._entries = entries
        self._wide = wide
        self._parts = parts
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)

    def columns(self, files: Files) -> pa.Schema:
        """See `Engine`.

        Raises:
            SchemaError: Like all methods, if a file is not a complete Parquet file, the files differ in
                columns, or Spark would change the values of a column.
        """
        _columns(files)
        return common_schema(files)

    def rows(self, files: Files) -> int:
        """See `Engine`."""
        return sum(footer(file).num_rows for file in files)

    @in_our_words
    def class_sizes(self, files: Files, columns: Sequence[str]) -> dict[int, int]:
        """See `Engine`."""
        keyed, keys = self._keyed(files, columns)
        sizes = keyed.groupBy(*keys).count().groupBy("count").count().toDF("size", "classes")
        found = sizes.where("size > 0").toArrow().sort_by("size")
        return dict(zip(found["size"].to_pylist(), found["classes"].to_pylist(), strict=True))

    def fold_classes(self, files: Files, grouping: Grouping, fold: Fold) -> Iterator[Mapping[str, Any]]:
        """See `Engine`. Records, or counts of them, are sent once to where their class is counted and folded.

        Raises:
            IntegrityError: If the values differ from those that ``sensitive`` counts, because the files
                changed.
        """
        sensitive, by_person = grouping.sensitive, grouping.person is not None
        if by_person or not is_wide(sensitive, self._wide):
            classes = self._ordered(files, grouping)
            counted: Counted = partial(ordered_classes, by_person=by_person)
        else:
            classes, counted = self._counted_wide(files, grouping), counted_rows
        results = self._collected(classes, folding(sensitive, counted, fold))
        if by_person:  # a person counts once in a class for a value, however many records they have
            records = sum(part["records"] for part in results)
            same = all(values.counts.sum() == records for values in sensitive.values())
        else:
            same = check_sums(results, sensitive)
        if not same:
            raise _changed(sensitive)
        yield from (part["fold"] for part in results)

    @in_our_words
    def _collected(self, classes: "DataFrame", work: Any) -> list[Mapping[str, Any]]:
        found = classes.mapInArrow(work, FOLDED).toArrow()
        return [result_of(outcome) for outcome in found["outcome"].to_pylist()]

    @in_our_words
    def _counted_wide(self, files: Files, grouping: Grouping) -> "DataFrame":
        """Build a row per class, of `wide_columns`: counts are added up before they are sent, once."""
        keyed, keys = self._coded_keys(files, grouping.columns, grouping.sensitive)
        counts = wide_columns([f"e{i}" for i in range(len(grouping.sensitive))], grouping.sensitive)
        sums = [self._expression(f"{counted} as {name}") for name, counted in counts.items()]
        return keyed.groupBy(*keys).agg(*sums).select(*counts).where("n > 0")

    @in_our_words
    def _ordered(self, files: Files, grouping: Grouping) -> "DataFrame":
        """Return the records for `ordered_classes`, sent once and sorted so that a class is together."""
        who = [] if grouping.person is None else [grouping.person]
        keyed, keys = self._coded_keys(files, [*grouping.columns, *who], grouping.sensitive)
        shared, person = keys[: len(grouping.columns)], keys[len(grouping.columns) :]
        if grouping.linked and person:
            keyed, shared = self._trajectories(keyed, shared, *person)
        codes = [f"coalesce(e{i}, -1) as e{i}" for i in range(len(grouping.sensitive))]
        records = keyed.selectExpr(*shared, *person, *codes)
        sent = records.repartition(*shared) if shared else records.repartition(1)
        by = [*shared, *person]
        return sent.sortWithinPartitions(*by) if by else sent

    @in_our_words
    def person_weights(self, files: Files, column: str, person: str, values: SensitiveValues) -> pa.Table:
        """See `Engine`."""
        keyed, (who,) = self._coded_keys(files, [person], {column: values})
        value = "e0"
        had = keyed.select(who, value).distinct()
        parts = had.groupBy(who).agg(self._expression("count(*) as parts")).toDF("person", "parts")
        joined = had.join(parts, had[who].eqNullSafe(parts["person"]))
        found = joined.groupBy(value, "parts").count().toArrow()
        if found[value].null_count:
            raise _changed({column: values})
        return pa.table({"code": found[value], "parts": found["parts"], "persons": found["count"]})

    @in_our_words
    def values_left(
        self,
        files: Files,
        columns: Sequence[str],
        sensitive: Mapping[str, SensitiveValues],
        person: str,
        *,
        linked: bool = False,
    ) -> pa.Table:
        """See `Engine`."""
        keyed, (*keys, who) = self._coded_keys(files, [*columns, person], sensitive)
        value = "e0"
        if linked:
            keyed, keys = self._trajectories(keyed, keys, who)
        said = self._expression
        alike = keyed.groupBy(who).agg(
            said("count(*) as n"),
            said(f"count(distinct {value}) + max(if({value} is null, 1, 0)) as several"),
        )
        alike = alike.where("several = 1").select(said(f"{who} as person"), "n")
        # a struct, because a set of values omits nulls
        joined = keyed.join(alike, keyed[who] == alike["person"], "left")
        classes = joined.groupBy(*keys).agg(
            said("collect_set(person) as people"), said(f"collect_set(struct({value} as v)) as had")
        )
        met = classes.selectExpr("explode(people) as person", "had").selectExpr("person", "explode(had) as v")
        times = met.groupBy("person", "v").count()
        most = times.groupBy("person").agg(said("max(count) as most")).toDF("one", "most")
        known = times.join(most, times["person"] == most["one"]).where("count = most")
        left = known.groupBy("person").agg(said("count(*) as left"))
        found = (
            left.join(alike, "person")
            .groupBy("left")
            .agg(said("count(*) as persons"), said("sum(n) as records"))
        )
        return found.toArrow().sort_by("left")

    def filled_cells(self, files: Files, column: str) -> dict[Any, dict[str, int]]:
        """Not supported: see `trajectories_by_table`."""
        raise _several_tables()

    def trajectories_by_table(
        self, files: Files, columns: Sequence[str], person: str, table: str, kept: Mapping[str, Sequence[str]]
    ) -> TrajectoryFiles:
        """Not supported: no method makes a release of several tables on Spark."""
        raise _several_tables()

    @in_our_words
    def contingency(self, files: Files, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        keyed, keys = self._keyed(files, columns)
        counts = keyed.groupBy(*keys).count().where("count > 0")
        return _columns(files).counted(counts.toArrow(), columns)

    def count_coded(
        self,
        files: Files,
        columns: Sequence[str],
        code: Code,
        kinds: pa.Schema,
        *,
        whole: str | None = None,
    ) -> Iterator[pa.Table]:
        """See `Engine`. The counts stay on the executors' disks until their part is requested."""
        made = Columns.of(kinds)
        counts, parts = self._coded(files, columns, code, made)
        shared = made.carried if whole is None else [made.carried[kinds.names.index(whole)]]
        place = f"xxhash64({', '.join(shared)})"
        try:
            for part in range(parts):
                yield self._coded_part(counts, f"pmod({place}, {parts}) = {part}", made)
        finally:
            with suppress(PrivacyEngineError):  # the session itself may have failed
                self._forget(counts)

    @in_our_words
    def _coded(
        self, files: Files, columns: Sequence[str], code: Code, made: Columns
    ) -> tuple["DataFrame", int]:
        """Return the frequency of each row, and the number of parts to request it in."""
        from pyspark import StorageLevel

        known = _columns(files)
        given = Columns(pa.schema([known.field(name) for name in columns]))
        pairs = zip(columns, given.carried, strict=True)
        read = self._read(files).selectExpr(*(f"{known.carrying(name)} as {own}" for name, own in pairs))
        empty = self._session.createDataFrame(made.carry(made.schema.empty_table()))
        coded = read.mapInArrow(coding(given, code, made), empty.schema)
        counts = coded.groupBy(*made.carried).count().persist(StorageLevel.DISK_ONLY)
        return counts, -(-counts.count() // self._entries)

    @in_our_words
    def _coded_part(self, counts: "DataFrame", chosen: str, made: Columns) -> pa.Table:
        found = counts.where(chosen).toArrow()
        return made.restored(found.select(made.carried)).append_column("count", found.column("count"))

    @in_our_words
    def extent(self, files: Files, column: str) -> tuple[float, float] | None:
        """See `Engine`."""
        found = self._numbers(files, column).selectExpr("min(x) as least", "max(x) as most").toArrow()
        least, most = found["least"][0].as_py(), found["most"][0].as_py()
        return None if least is None else (least, most)

    @in_our_words
    def quantile_cuts(self, files: Files, column: str, parts: int) -> npt.NDArray[np.float64]:
        """See `Engine`. The cuts are values of the column, from a sample of a million records."""
        _columns(files).number(column)
        return cuts(to_frame(self._sampled(files, SAMPLE, SEED, [column]))[column], parts)

    def sample(self, files: Files, rows: int, seed: int) -> pa.Table:
        """See `Engine`. In the order of the files.

        Raises:
            ValueError: If rows is below 1.
        """
        if rows < 1:
            raise ValueError(f"a sample must have at least one record, got {rows}")
        return self._sampled(files, rows, seed, common_schema(files).names)

    @in_our_words
    def count_fragments(self, files: Files, assign: Assign, columns: Sequence[str]) -> pa.Table:
        """See `Engine`."""
        known, keys = _columns(files), key_names(columns)
        assigned = self._assigned(files, self._read(files), assign, [known.carrying(c) for c in columns])
        keyed = [f"{known.key(name)} as {key}" for name, key in zip(columns, keys, strict=True)]
        counts = assigned.selectExpr(FRAGMENT, *keyed).groupBy(FRAGMENT, *keys).count()
        return known.counted(counts.toArrow(), columns)

    def apply_by_fragment(self, files: Files, assign: Assign, work: Work) -> Iterator[Mapping[str, Any]]:
        """See `Engine`. The results come after all of them are complete, in the order of the fragments.

        Raises:
            PrivacyEngineError: An error of ``assign``, or of ``work`` on the first fragment that failed.
            CapacityError: If executors died repeatedly.
            EngineError: If anything else failed repeatedly; only its type is reported.
            IntegrityError: If a record was in no fragment, or in two.
        """
        yield from map(result_of, self._outcomes(files, assign, work))

    @in_our_words
    def _outcomes(self, files: Files, assign: Assign, work: Work) -> list[str]:
        fragments = np.sort(self.count_fragments(files, assign, [])[FRAGMENT].to_numpy())
        if not len(fragments):
            return []
        numbered = self._numbered(files)
        assigned = self._assigned(files, numbered, assign, numbered.columns)
        # One task per fragment. By a hash, some would share a task, and executors would wait for it.
        spread = assigned.repartitionById(int(fragments[-1]) + 1, FRAGMENT)
        worked = spread.groupBy(FRAGMENT).applyInArrow(working(_columns(files), work), WORKED)
        found, total = worked.toArrow().sort_by(FRAGMENT), self.rows(files)
        done = int(found["rows"].to_numpy().sum())
        if not np.array_equal(found[FRAGMENT].to_numpy(), fragments) or done != total:
            raise IntegrityError(
                f"{total} records were assigned to {len(fragments)} fragments, but {done} were "
                f"processed in {len(found)}, because the files changed or a record was assigned "
                "differently the second time. Run again"
            )
        outcomes: list[str] = found["outcome"].to_pylist()
        return outcomes

    def each(self, count: int, work: Apart, what: str) -> Generator[Mapping[str, Any], None, None]:
        """See `Engine`: one task per part. The results come after all of them are complete.

        Raises:
            PrivacyEngineError: An error of ``work`` on the first part that failed.
            CapacityError: If executors died repeatedly.
            EngineError: If anything else failed repeatedly; only its type is reported.
        """
        yield from map(result_of, self._each(count, work))

    @in_our_words
    def _each(self, count: int, work: Apart) -> list[str]:
        numbers = self._session.range(0, count, 1, max(count, 1))
        found: list[str] = numbers.mapInArrow(numbered_work(work), FOLDED).toArrow()["outcome"].to_pylist()
        return found

    @in_our_words
    def _forget(self, classes: "DataFrame") -> None:
        classes.unpersist()

    @in_our_words
    def _sampled(self, files: Files, rows: int, seed: int, names: Sequence[str]) -> pa.Table:
        total, known = self.rows(files), _columns(files)
        kept = Columns(pa.schema([known.field(name) for name in names]))
        numbered = self._numbered(files)
        if rows < total:
            chosen = subset(total, rows, np.random.default_rng(seed))
            wanted = self._session.createDataFrame(pa.table({"wanted": chosen})).hint("broadcast")
            numbered = numbered.join(wanted, numbered[POSITION] == wanted["wanted"], "left_semi")
        found = numbered.select(POSITION, *map(known.carrying, names)).toArrow().sort_by(POSITION)
        return kept.restored(found.drop_columns(POSITION).rename_columns(kept.carried))

    def _codes(self, values: SensitiveValues, field: pa.Field, number: int) -> "DataFrame":
        """Return the values of a sensitive attribute as in Spark, and the code of each."""
        column = pa.Array.from_pandas(values.column, type=field.type).cast(carried_type(field))
        codes = pa.array(values.codes, pa.int32())
        return self._session.createDataFrame(pa.table({f"v{number}": column, f"e{number}": codes}))

    def _keyed(self, files: Files, names: Sequence[str]) -> tuple["DataFrame", list[str]]:
        """Return some columns as ``k0``, ``k1``, ..., normalized so that equal values compare equal."""
        known, keys = _columns(files), key_names(names)
        keyed = [f"{known.key(name)} as {key}" for name, key in zip(names, keys, strict=True)]
        return self._read(files).selectExpr(*keyed), keys

    def _coded_keys(
        self, files: Files, names: Sequence[str], sensitive: Mapping[str, SensitiveValues]
    ) -> tuple["DataFrame", list[str]]:
        """Like `_keyed`, with the codes of sensitive values as ``e0``, ``e1``, ...; null if unknown."""
        keyed, keys = self._keyed(files, [*names, *sensitive])
        for i, (name, value) in enumerate(zip(sensitive, keys[len(names) :], strict=True)):
            codes = self._codes(sensitive[name], _columns(files).field(name), i).hint("broadcast")
            keyed = keyed.join(codes, keyed[value].eqNullSafe(codes[f"v{i}"]), "left")
        return keyed, keys[: len(names)]

    def _trajectories(
        self, keyed: "DataFrame", keys: Sequence[str], who: str
    ) -> tuple["DataFrame", list[str]]:
        """Return the records with one more column: the smallest of the persons with the same trajectory."""
        said = self._expression
        cells = f"array_sort(collect_list(struct({', '.join(keys) or '0'})))"
        ways = keyed.groupBy(who).agg(said(f"{cells} as way"))
        alike = ways.groupBy("way").agg(said(f"min({who}) as trajectory"))
        each = ways.join(alike, "way").selectExpr(f"{who} as one", "trajectory")
        return keyed.join(each, keyed[who].eqNullSafe(each["one"])).drop("one"), ["trajectory"]

    def _numbers(self, files: Files, column: str) -> "DataFrame":
        """Return a column as ``x``, without nulls."""
        return self._read(files).selectExpr(f"{_columns(files).number(column)} as x").where("x is not null")

    def _assigned(
        self, files: Files, records: "DataFrame", assign: Assign, kept: Sequence[str]
    ) -> "DataFrame":
        """Return some columns of records, and in ``fragment`` the fragment of each record."""
        from pyspark.sql.types import IntegerType, StructField, StructType

        fields = [records.schema[name] for name in dict.fromkeys(kept)]
        schema = StructType([*fields, StructField(FRAGMENT, IntegerType())])
        return records.mapInArrow(assigning(_columns(files), assign, list(dict.fromkeys(kept))), schema)

    def _read(self, files: Files) -> "DataFrame":
        """Return the records, with Spark's column names."""
        if self._parts is not None:
            return self._opened(files, self._parts).drop(POSITION)
        names = _columns(files).carried
        if any(_PATTERN.search(file) for file in files):
            return self._union([self._file(file) for file in files]).toDF(*names)
        return self._session.read.parquet(*map(_uri, files)).toDF(*names)  # one scan for all files

    def _numbered(self, files: Files) -> "DataFrame":
        """Return the records, with the ``position`` of each in the table."""
        if self._parts is not None:
            return self._opened(files, self._parts)
        starts = np.cumsum([0, *(footer(file).num_rows for file in files)])[: len(files)]
        if (numbered := self._numbered_at_once(files, starts)) is not None:
            return numbered
        read = [
            self._file(file).selectExpr(f"_metadata.row_index + {start}L as {POSITION}", "*")
            for file, start in zip(files, starts, strict=True)
        ]
        return self._union(read).toDF(POSITION, *_columns(files).carried)

    def _numbered_at_once(self, files: Files, starts: npt.NDArray[np.int64]) -> "DataFrame | None":
        """Return the same from one scan of several files; None if Spark's names are ambiguous."""
        if len(files) < 2 or any(_PATTERN.search(file) for file in files):
            return None
        read = self._session.read.parquet(*map(_uri, files))
        named = {_place(unquote(path)): _place(path) for path in read.inputFiles()}
        places = [named.get(_place(_uri(file))) for file in files]
        if len({*places} - {None}) < len(files):
            return None
        begins = pa.table({"place": places, "start": starts})
        columns = _columns(files).carried
        path_text = f"regexp_replace(_metadata.file_path, '{_LOCAL}', '/')"
        numbered = read.selectExpr(path_text, "_metadata.row_index", "*").toDF("place", "row", *columns)
        joined = numbered.join(self._session.createDataFrame(begins).hint("broadcast"), "place")
        return joined.selectExpr(f"row + start as {POSITION}", *columns)

    def _opened(self, files: Files, parts_of: Parts) -> "DataFrame":
        """Return the same, from parts that the executors open."""
        known, parts = _columns(files), [part for file in files for part in parts_of(file)]
        carried = known.carry(known.schema.empty_table())
        empty = self._session.createDataFrame(carried.add_column(0, POSITION, pa.array([], pa.int64())))
        numbers = self._session.range(0, len(parts), 1, max(len(parts), 1))
        return numbers.mapInArrow(opening(known, parts), empty.schema)

    def _union(self, tables: Sequence["DataFrame"]) -> "DataFrame":
        return reduce(lambda a, b: a.union(b), tables)

    def _file(self, file: str) -> "DataFrame":
        """Read one file. Spark 4.3 reads each of n files n times if their paths are not patterns."""
        reader = self._session.read
        if _PATTERN.search(file):  # which Spark treats as a pattern unless configured otherwise
            if self._connect:  # which cannot be configured
                raise SpecError(
                    "through Spark Connect, a path must not contain any of []{}*?\\, but that of "
                    f"{PurePath(file).name} does. Move the work area"
                )
            reader = reader.option("__globPaths__", "false")
        return reader.parquet(_uri(file))

    @property
    def _connect(self) -> bool:
        return type(self._session).__module__.startswith("pyspark.sql.connect")

    def _expression(self, text: str) -> Any:
        """Return a column for an expression; each kind of session has its own class."""
        if self._connect:
            from pyspark.sql.connect.functions import expr as connected

            return connected(text)
        from pyspark.sql.functions import expr

        return expr(text)


def _uri(file: str) -> str:
    return file if ":/" in file else f"file:{file}"


def _place(uri: str) -> str:
    """Normalize an address: Spark writes local ones in several ways."""
    return re.sub(_LOCAL, "/", uri)


def _columns(files: Files) -> Columns:
    for file in files:
        if PurePath(file).name.startswith(("_", ".")):
            raise SchemaError(
                f"{PurePath(file).name} must not begin with '_' or '.', because Spark would ignore it. "
                "Rename it"
            )
    return Columns.of(common_schema(files))


def _changed(sensitive: Mapping[str, SensitiveValues]) -> IntegrityError:
    return IntegrityError(
        f"the values of {sorted(sensitive)} differ from those that were counted before, because the "
        "files changed. Run again"
    )
