"""The records of a table that is never loaded, as codes of public domains: what every measure step reads.

An engine encodes the records where they lie, a batch at a time and by the very code that encodes a table in
memory, and counts the distinct combinations of codes. So the counts are those of the table in memory, and a
method that adds the same noise to them measures the same.

Whether a table can be measured must not depend on its number of distinct combinations: one replaced record
can change that number, and no budget pays for revealing it. So refusals for lack of memory depend on the
number of records and the sizes of the domains, both public. Counting each marginal in the files instead is
not an option: a structure is chosen among up to 250,000 families, each of which would be a pass.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from privacy_engine.dp.contributions import Contribution, contributed, person_numbers
from privacy_engine.engines.engine import Engine, Files
from privacy_engine.engines.frames import plain_columns, to_frame
from privacy_engine.errors import CapacityError, IntegrityError, SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.domains import (
    CodedTable,
    PublicDomain,
    Storage,
    code_type,
    public_domains,
    require_public_domains,
    undeclared_nulls,
    with_nullable_types,
)
from privacy_engine.tables.faults import ValueRule, described
from privacy_engine.tables.schema import DataSchema, nameless_records
from privacy_engine.vocabulary import Role

_FAULTS = pa.schema({"attribute": pa.int32(), "rule": pa.string(), "value": pa.string()})
PERSON = "person"  # column of persons' numbers, next to the codes, which are named by digits
_NO_CODE = "no code"  # of a null that another method would let pass


def coded_files(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    levels: Mapping[str, int] | None = None,
    earlier: Mapping[str, Storage] | None = None,
) -> CodedTable:
    """Check a table in files against its schema and encode all but its identifiers, equal records once.

    Args:
        engine: Engine that reads the files and limits the memory.
        files: Parquet files of the table.
        schema: Schema with a public domain for each attribute.
        levels: Level of the hierarchy at which an attribute's values are distinguished; 0 if not named.
        earlier: Storages of the release that this one continues, see ``with_nullable_types``.

    Raises:
        SchemaError: As ``CodedTable.encode``, with the same problems and counts.
        CapacityError: If the distinct records might not fit into memory, by public figures.
        IntegrityError: If the files change while they are read.
    """
    require_public_domains(schema)  # before any value is read
    columns, rows, released = engine.columns(files), engine.rows(files), schema.without_identifiers()
    schema.check_columns(columns.names)
    if not rows:
        raise SchemaError("the table is empty: nothing can be released")
    empty = to_frame(plain_columns(columns.empty_table(), released.names))
    empty = with_nullable_types(empty, released, earlier)
    storages = {a.name: Storage.of(empty[a.name], a) for a in released.attributes}
    domains = public_domains(schema, storages, levels or {}, fine=True)
    kind = np.dtype(code_type(domains))
    most = most_combinations(domains, rows, engine.memory)
    kinds = pa.schema([(str(number), pa.from_numpy_dtype(kind)) for number in range(len(domains))])
    encode = Encode(schema=released, levels=dict(levels or {}), kinds=kinds, earlier=earlier)
    codes = np.empty((len(domains), most), dtype=kind)  # pages that are never written take no memory
    weights = np.empty(most, dtype=np.int64)
    found = _fill(codes, weights, engine.count_coded(files, released.names, encode, kinds))
    if found is None:
        raise refusal(engine, files, released, empty)
    if found > most or int(weights[:found].sum()) != rows:
        raise IntegrityError(
            f"the records counted must be the {rows} of the files: these changed while they were read; run "
            "from ingest again"
        )
    return CodedTable(
        domains=domains,
        storages=storages,
        codes=np.ascontiguousarray(codes[:, :found]),
        weights=weights[:found].copy(),
    )


def coded_people(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    contribution: Contribution,
    levels: Mapping[str, int] | None = None,
    earlier: Mapping[str, Storage] | None = None,
) -> CodedTable:
    """The same for a table with many rows per person: the contribution of each person.

    The number of persons is public, that of rows is not: the memory limit depends on the former.

    Args:
        engine: Engine that reads the files and limits the memory.
        files: Parquet files of the table, with the column of the person.
        schema: Schema with a public domain for each attribute; it names the person.
        contribution: Most of each person.
        levels: Level of the hierarchy at which an attribute's values are distinguished, as for
            ``coded_files``.
        earlier: Storages of the release that this one continues, as for ``coded_files``.

    Raises:
        SchemaError, CapacityError, IntegrityError: As ``coded_files``.
    """
    require_public_domains(schema)  # before any value is read
    released = schema.without_identifiers()
    columns = engine.columns(files)
    schema.check_columns(columns.names)
    if not engine.rows(files):
        raise SchemaError("the table is empty: nothing can be released")
    read = [*released.names, schema.by]
    empty = with_nullable_types(to_frame(plain_columns(columns.empty_table(), read)), released, earlier)
    storages = {a.name: Storage.of(empty[a.name], a) for a in released.attributes}
    domains = public_domains(schema, storages, levels or {}, fine=True)
    persons = sum(engine.class_sizes(files, [schema.by]).values())
    most_combinations(domains, persons * contribution.units(persons), engine.memory)
    kind = np.dtype(code_type(domains))
    names = [str(number) for number in range(len(domains))]
    kinds = pa.schema([*((name, pa.from_numpy_dtype(kind)) for name in names), (PERSON, pa.int64())])
    encode = Encode(schema=schema.select(read), levels=dict(levels or {}), kinds=kinds, earlier=earlier)
    seen = 0

    def parts() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        nonlocal seen
        for part in engine.count_coded(files, read, encode, kinds, whole=PERSON):
            if part.column(PERSON).null_count:
                raise refusal(engine, files, schema.select(read), empty)
            codes = np.array([part.column(name).to_numpy() for name in names], dtype=kind)
            who = part.column(PERSON).to_numpy()
            seen += len(np.unique(who))
            yield codes, who, part.column("count").to_numpy().astype(np.int64)

    none = CodedTable(domains=domains, storages=storages, codes=np.empty((len(domains), 0), dtype=kind))
    coded = contributed(none, parts(), contribution, persons)
    if seen != persons:  # a person whose rows are in two parts would contribute twice
        raise IntegrityError(
            f"the rows counted must be those of {persons} persons, each in one part, got {seen}: the files "
            "changed while they were read; run from ingest again"
        )
    return coded


def _fill(codes: npt.NDArray[Any], weights: npt.NDArray[np.int64], parts: Iterable[pa.Table]) -> int | None:
    """Write the counted combinations to (d, most) codes and (most,) weights; how many, or more than fit.

    None where a record does not fit the schema.
    """
    end = 0
    for part in parts:
        start, end = end, end + len(part)
        if part.column(0).null_count:
            return None
        if end > len(weights):
            return end
        for number, row in enumerate(codes):
            row[start:end] = part.column(number).to_numpy()
        weights[start:end] = part.column("count").to_numpy()
    return end


def most_combinations(domains: Sequence[PublicDomain], rows: int, memory: int) -> int:
    """Return the largest number of distinct combinations of codes, only from public figures.

    Args:
        domains: Domains of all attributes.
        rows: Number of records.
        memory: Bytes that the combinations, and what counting them takes, may fill.

    Raises:
        CapacityError: If they might fill more.
    """
    most = min(rows, math.prod(domain.size for domain in domains))
    # A code for each attribute and a weight; and for each thread that counts, the cell of a table.
    each = len(domains) * np.dtype(code_type(domains)).itemsize + 8 + 4 * nb.get_num_threads()
    if (needed := most * each) > memory:
        raise CapacityError(
            f"{rows} records of {len(domains)} attributes can be {most} distinct ones, which take "
            f"{needed / 1e6:.0f} MB, but the engine may take {memory / 1e6:.0f} MB: give it more memory, or "
            "the attributes fewer bins or a hierarchy level in `levels`"
        )
    return most


@dataclass(frozen=True, kw_only=True)
class Encode:
    """Records to their codes; where one of them does not fit the schema, to a row of nulls.

    Attributes:
        schema: Schema of the input, without identifiers except the person's.
        levels: Level of the hierarchy at which an attribute's values are distinguished, as for
            ``coded_files``.
        kinds: Fields of the codes, named by their index, because an attribute may have any name.
        earlier: Storages of the release that this one continues, as for ``coded_files``.
    """

    schema: DataSchema
    levels: Mapping[str, int]
    kinds: pa.Schema
    earlier: Mapping[str, Storage] | None = None

    def __call__(self, records: pa.Table) -> pa.Table:
        """(n, d) codes, or (1, d) nulls; and the number of each record's person, if requested."""
        frame = with_nullable_types(to_frame(records), self.schema, self.earlier)
        try:
            codes = CodedTable.encode(frame, self.schema, self.levels, fine=True).codes
        except SchemaError:  # `refusal` reports it for the table as a whole
            return pa.Table.from_pylist([dict.fromkeys(self.kinds.names)], schema=self.kinds)
        rows = [pa.array(row) for row in codes]
        if PERSON in self.kinds.names:
            rows.append(pa.array(person_numbers(frame[self.schema.by], exact=self.schema.exact_persons)))
        return pa.Table.from_arrays(rows, schema=self.kinds)


def refusal(engine: Engine, files: Files, schema: DataSchema, empty: pd.DataFrame) -> SchemaError:
    """All that is wrong with a table, by column, rule and count.

    Args:
        engine: Reads the files.
        files: Parquet files of a table that does not fit.
        schema: Schema without identifiers except the person's.
        empty: Table without its records, for the types.
    """
    rows: dict[tuple[int, str], int] = defaultdict(int)
    distinct: dict[tuple[int, str], int] = defaultdict(int)
    for part in engine.count_coded(files, schema.names, FaultyValues(schema=schema), _FAULTS):
        for attribute, rule, count in zip(
            *(part.column(name).to_pylist() for name in ("attribute", "rule", "count")), strict=True
        ):
            rows[attribute, rule] += count
            distinct[attribute, rule] += 1

    def problems(number: int, attribute: Attribute) -> Iterator[str]:
        if wrong := attribute.type_problem(empty[attribute.name]):
            yield wrong
        for rule in ValueRule:
            if count := rows[number, rule]:
                yield described(rule, rows=count, distinct=distinct[number, rule])

    named = list(enumerate(schema.attributes))
    found = [
        f"{a.name}: {p}" for number, a in named if a.role is not Role.IDENTIFIER for p in problems(number, a)
    ]
    if nameless := rows[len(named), _NO_CODE]:
        found.append(nameless_records(schema.by, nameless))
    if found:
        return SchemaError("; ".join(found))
    return undeclared_nulls({a.name: rows[number, _NO_CODE] for number, a in named})


@dataclass(frozen=True, kw_only=True)
class FaultyValues:
    """Records to one row for each value that breaks a rule of its attribute, or is a null without a code."""

    schema: DataSchema

    def __call__(self, records: pa.Table) -> pa.Table:
        """(f, 3) number of the attribute, rule, and the value where distinct ones are counted."""
        frame = to_frame(records)
        found: list[tuple[int, str, str]] = []
        if self.schema.by in self.schema.names:
            nameless = int(frame[self.schema.by].isna().sum())
            found += [(len(self.schema.attributes), _NO_CODE, "")] * nameless
        for number, attribute in enumerate(self.schema.attributes):
            if attribute.role is Role.IDENTIFIER:
                continue
            column = frame[attribute.name]
            if attribute.type_problem(column) is None:
                faults = attribute.faults(column)
                found += [(number, rule.value, value) for rule in faults for value in faults[rule].elements()]
            if not attribute.nullable:
                found += [(number, _NO_CODE, "")] * int(column.isna().sum())
        columns = zip(*found, strict=True) if found else ((), (), ())
        return pa.Table.from_arrays(
            [pa.array(values, kind) for values, kind in zip(columns, _FAULTS.types, strict=True)],
            schema=_FAULTS,
        )
