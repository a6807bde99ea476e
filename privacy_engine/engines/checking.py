"""Verification and risks of released records in files; only counts are held in memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.engines.engine import Engine, Files, Fold, Grouping
from privacy_engine.engines.frames import to_frame
from privacy_engine.errors import SchemaError
from privacy_engine.measures.risk import PartFigures
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import Classes, SensitiveValues
from privacy_engine.tables.persons import TABLE, Person, ValuesLeft, shares_of_persons
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification import known_rows
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.tally import tallied
from privacy_engine.verification.uniqueness import as_declared
from privacy_engine.verification.verify import (
    CountedRecords,
    Finding,
    Report,
    attributes_of,
    check_columns,
    require_own_cells,
    require_own_pseudonyms,
    require_persons,
    verify_tallies,
)
from privacy_engine.vocabulary import Role

PSEUDONYM, PERSON = "pseudonym", "person"  # columns of a file in which both are compared


def verify_files(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    figures: Mapping[str, float] | None = None,
    across: Sequence[Finding] | None = None,
    by_person: Files | None = None,
    year: int | None = None,
) -> Report:
    """Measure every rule of a policy on released records in Parquet files.

    The report is the same as that of `verify` on the records. Arguments and errors as there, and `across` as
    for `CountedRecords`.

    If the schema names a person, `by_person` has the quasi-identifiers and sensitive attributes of the same
    records, and in the column of that name the person of each record. Persons are counted then. If rows are
    linked, the released pseudonyms are counted; `by_person`, if given, has the columns `PSEUDONYM` and
    `PERSON` of the same records, and both are compared.

    Raises:
        VerificationError: If columns are missing, unknown, or identifiers, a model across releases is
            required and its findings are not given, or a pseudonym belongs to several persons.
        SchemaError: If a file is not a complete Parquet file.
    """
    columns = engine.columns(files).names
    check_columns(columns, schema)
    policy = as_declared(policy, schema)
    require_persons(schema, by_person is not None, loss)
    needed = attributes_of(policy.known_rows, schema)
    judging = _Judging(policy, schema, by_person=schema.linked or by_person is not None)
    tallies, persons = _counted(engine, files, schema, by_person, judging)
    tables, known = _by_table(engine, files, schema, needed, judging) if schema.tables else ((), {})
    counted = CountedRecords(
        columns=columns,
        tallies=chain(tallies, tables),
        across=across,
        persons=persons,
        known=known or _known(engine, files, schema, by_person, needed),
        values=partial(_values, engine, files),
        sizes=partial(engine.class_sizes, files),
    )
    return verify_tallies(counted, schema, policy, loss=loss, figures=figures, year=year)


@dataclass(frozen=True, kw_only=True)
class Examined:
    """The result of counting the classes of released records.

    Attributes:
        report: Report of `verify_files`.
        risk: Figures of `risk.figures`, and of `known_rows.figures` if persons were counted.
        sizes: Number of persons in a class -> number of classes of that size, ascending; if each record
            counts as a person, number of records.
    """

    report: Report
    risk: dict[str, float]
    sizes: dict[int, int]


@dataclass(frozen=True)
class _Judging:
    """Folds classes where they are counted, for `Engine.fold_classes`; it can be pickled."""

    policy: ReleasePolicy
    schema: DataSchema
    by_person: bool
    of_table: bool = False

    def __call__(self, parts: Iterable[Classes]) -> dict[str, Any]:
        given = {"by_person": self.by_person, "of_table": self.of_table}
        return tallied(parts, self.policy, self.schema, **given)


class _Examining(_Judging):
    """Like `_Judging`, with the figures that `examine_files` adds to the policy's."""

    def __call__(self, parts: Iterable[Classes]) -> dict[str, Any]:
        risk, sizes = PartFigures(), Counter[int]()

        def seen() -> Iterator[Classes]:
            for part in parts:
                risk.add(part)
                own, classes = np.unique(part.people, return_counts=True)
                sizes.update(dict(zip(own.tolist(), classes.tolist(), strict=True)))
                yield part
                del part

        tally = super().__call__(seen())
        return {"tally": tally, "risk": risk.to_dict(), "sizes": [*sizes.items()]}


def examine_files(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    by_person: Files | None = None,
) -> Examined:
    """Check the policy, the risks and the class sizes of released records in Parquet files in one count.

    Arguments as for `verify_files`; if the schema names a person, sizes are of persons.

    Raises:
        VerificationError, SchemaError: As for `verify_files`.
    """
    if schema.tables:
        raise SchemaError("the rows of several tables cannot be examined together. Verify them instead")
    columns = engine.columns(files).names
    check_columns(columns, schema)
    policy = as_declared(policy, schema)
    require_persons(schema, by_person is not None)
    examining = _Examining(policy, schema, by_person=schema.linked or by_person is not None)
    folded, persons = _counted(engine, files, schema, by_person, examining)
    every = [a.name for a in schema.sensitive]
    known = _known(engine, files, schema, by_person, every)
    risk, sizes = PartFigures(every), Counter[int]()

    def tallies() -> Iterator[Mapping[str, Any]]:
        for result in folded:
            risk.take(result["risk"])
            sizes.update(dict(result["sizes"]))
            yield result["tally"]

    counted = CountedRecords(
        columns=columns,
        tallies=tallies(),
        persons=persons,
        known=known,
        sizes=partial(engine.class_sizes, files),
    )
    report = verify_tallies(counted, schema, policy)
    figures = risk.figures() | known_rows.figures(known, policy.require)
    return Examined(report=report, risk=figures, sizes=dict(sorted(sizes.items())))


def sensitive_values(
    engine: Engine, files: Files, schema: DataSchema, *, person: str | None = None
) -> dict[str, SensitiveValues]:
    """Return the values of each sensitive attribute in the whole table, with the records that have each.

    Args:
        engine: Engine that counts.
        files: Parquet files of the table.
        schema: Schema of the table.
        person: Column with the person of each record; values are then weighted by persons. None: by records.
    """
    found = {}
    for attribute in schema.sensitive:
        counted = engine.contingency(files, [attribute.name])
        values = SensitiveValues.of(
            to_frame(counted.select([attribute.name]))[attribute.name],
            counted.column("count").to_numpy().astype(np.int64),
            attribute,
        )
        if person is not None:
            values = replace(values, weights=_weights(engine, files, attribute.name, person, values))
        found[attribute.name] = values
    return found


def _weights(
    engine: Engine, files: Files, column: str, person: str, values: SensitiveValues
) -> npt.NDArray[np.float64]:
    """(size,) the number of persons with each value; a person with several values counts in equal parts."""
    weights = engine.person_weights(files, column, person, values)
    codes, parts, persons = (
        weights.column(name).to_numpy().astype(np.int64) for name in ("code", "parts", "persons")
    )
    return shares_of_persons(codes, parts, persons, values.size)


def _counted(
    engine: Engine, files: Files, schema: DataSchema, by_person: Files | None, fold: Fold
) -> tuple[Iterator[Mapping[str, Any]], int | None]:
    """Return the folded classes and the number of persons; None if each record counts as a person."""
    if schema.linked and by_person is not None:
        combinations = ([PSEUDONYM], [PERSON], [PSEUDONYM, PERSON])
        require_own_pseudonyms(schema, *(_distinct(engine, by_person, names) for names in combinations))
    if schema.tables:
        require_own_cells(schema, engine.filled_cells(files, TABLE))
        schema = replace(schema, attributes=tuple(a for a in schema.attributes if a not in schema.sensitive))
    counted = files if schema.linked else by_person
    if counted is None:
        return _folded(engine, files, schema, None, fold), None
    return _folded(engine, counted, schema, schema.by, fold), _distinct(engine, counted, [schema.by])


def _distinct(engine: Engine, files: Files, columns: Sequence[str]) -> int:
    """Return the number of combinations of values in some columns."""
    return sum(engine.class_sizes(files, columns).values())


def _known(
    engine: Engine, files: Files, schema: DataSchema, by_person: Files | None, attributes: Sequence[str]
) -> dict[str, ValuesLeft]:
    """Return the values left to someone who knows all rows of a person; empty if records are persons."""
    counted = files if schema.linked else by_person
    if counted is None:
        return {}
    quasi = [a.name for a in schema.quasi_identifiers]
    values = sensitive_values(engine, counted, schema.select(attributes)) if attributes else {}
    found = {
        name: engine.values_left(counted, quasi, {name: own}, schema.by, linked=schema.linked)
        for name, own in values.items()
    }
    return {name: ValuesLeft(*(column.to_numpy() for column in left.columns)) for name, left in found.items()}


def _values(engine: Engine, files: Files, column: str) -> tuple[pd.Series, npt.NDArray[np.int64]]:
    """Return the distinct values of a column without null, and the number of records with each."""
    counted = engine.contingency(files, [column])
    values = to_frame(counted.select([column]))[column]
    known = values.notna().to_numpy(dtype=np.bool_)
    return values[known], counted.column("count").to_numpy().astype(np.int64)[known]


def _by_table(
    engine: Engine, files: Files, schema: DataSchema, attributes: Sequence[str], judging: _Judging
) -> tuple[Iterator[Mapping[str, Any]], dict[str, ValuesLeft]]:
    """Return the tallies of each table with a sensitive attribute, and the values left of them."""
    quasi = [a.name for a in schema.quasi_identifiers]
    kept = {t.name: [a.name for a in schema.of_table(t.name).sensitive] for t in schema.tables}
    kept = {name: sensitive for name, sensitive in kept.items() if sensitive}
    written = engine.trajectories_by_table(files, quasi, schema.by, TABLE, kept)
    label = Attribute(name=written.label, role=Role.QUASI_IDENTIFIER)
    person = Person(column=schema.by)
    known: dict[str, ValuesLeft] = {}
    parts = []
    for name, sensitive in kept.items():
        own = DataSchema((label, *(schema[a] for a in sensitive)), person)
        needed = [a for a in attributes if a in sensitive]
        known |= _known(engine, [], own, [written.files[name]], needed)
        of_table = replace(judging, of_table=True)
        parts.append(_folded(engine, [written.files[name]], own, schema.by, of_table))
    return chain.from_iterable(parts), known


def _folded(
    engine: Engine, files: Files, schema: DataSchema, person: str | None, fold: Fold
) -> Iterator[Mapping[str, Any]]:
    """Fold the classes of the records."""
    grouping = Grouping(
        columns=[a.name for a in schema.quasi_identifiers],
        sensitive=sensitive_values(engine, files, schema, person=person),
        person=person,
        linked=schema.linked,
    )
    yield from engine.fold_classes(files, grouping, fold)
