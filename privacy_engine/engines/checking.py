"""Verification and risks of released records in files, of which only counts come into memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.engines.engine import Engine, Files
from privacy_engine.engines.frames import to_frame
from privacy_engine.judge.policy import ReleasePolicy
from privacy_engine.judge.verification import Finding, Report, check_columns, verify_classes
from privacy_engine.measures.risk import PartFigures
from privacy_engine.tables.classes import Classes, CountedClasses, SensitiveValues
from privacy_engine.tables.schema import DataSchema


def verify_files(
    engine: Engine,
    files: Files,
    schema: DataSchema,
    policy: ReleasePolicy,
    *,
    loss: PrivacyLoss | None = None,
    figures: Mapping[str, float] | None = None,
    across: Sequence[Finding] | None = None,
) -> Report:
    """Measure every rule of a policy on released records in Parquet files.

    The report is the one that `verify` gives on the records; arguments and errors as there, and `across` as
    for `verify_classes`.

    Raises:
        VerificationError: if columns are missing, unknown, or identifiers, or a model across releases is
            demanded and its findings are not given.
        SchemaError: if a file is no whole Parquet file.
    """
    columns = engine.columns(files).names
    check_columns(columns, schema)
    parts = _parts(engine, files, schema)
    return verify_classes(parts, columns, schema, policy, loss=loss, figures=figures, across=across)


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What is known of released records once their classes were counted.

    Attributes:
        report: of `verify_files`.
        risk: the figures of `risk.figures`.
        sizes: (c,) int64 records in each class, ascending.
    """

    report: Report
    risk: dict[str, float]
    sizes: npt.NDArray[np.int64]


def examine_files(engine: Engine, files: Files, schema: DataSchema, policy: ReleasePolicy) -> Examined:
    """Policy, risks and class sizes of released records in Parquet files, which are counted once for all.

    Raises:
        VerificationError, SchemaError: as `verify_files`.
    """
    risk, sizes = PartFigures(), [np.zeros(0, dtype=np.int64)]

    def seen(parts: Iterable[Classes]) -> Iterator[Classes]:
        for part in parts:
            risk.add(part)
            sizes.append(part.sizes)
            yield part

    columns = engine.columns(files).names
    check_columns(columns, schema)
    report = verify_classes(seen(_parts(engine, files, schema)), columns, schema, policy)
    return Examined(report=report, risk=risk.figures(), sizes=np.sort(np.concatenate(sizes)))


def sensitive_values(engine: Engine, files: Files, schema: DataSchema) -> dict[str, SensitiveValues]:
    """The values of each sensitive attribute in the whole table, and how many records have each."""
    found = {}
    for attribute in schema.sensitive:
        counted = engine.contingency(files, [attribute.name])
        values = to_frame(counted.select([attribute.name]))[attribute.name]
        found[attribute.name] = SensitiveValues.of(
            values, counted.column("count").to_numpy().astype(np.int64), attribute
        )
    return found


def _parts(engine: Engine, files: Files, schema: DataSchema) -> Iterator[Classes]:
    """The classes of the records; before them a part of none, so that an empty table has attributes, too."""
    values = sensitive_values(engine, files, schema)
    none = np.zeros(0, dtype=np.int64)
    yield CountedClasses.of_entries(none, dict.fromkeys(values, (none, none, none)), values)
    yield from engine.sensitive_counts(files, [a.name for a in schema.quasi_identifiers], values)
