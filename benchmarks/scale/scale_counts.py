"""What counting k, l and t costs, by records and by persons.

``python -m benchmarks.scale.scale_counts ROWS...`` measures tables of these sizes.

Each question is asked of an engine, and of DuckDB by a plan that was written by hand for this one question,
with as much memory, or more where it needs it; each in a separate process. The answers are compared with
each other. CPU seconds are of all threads, from the first query on; the peak is resident memory, with Python
and libraries. With ``--alone`` there is no plan by hand.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import markdown_table
from benchmarks.scale.scale_tables import FIELDS, GROUP, SENSITIVE, parts
from benchmarks.scale.scale_usage import held
from benchmarks.tables import Table, adult
from privacy_engine.engines.checking import sensitive_values
from privacy_engine.engines.engine import Grouping
from privacy_engine.engines.local import LocalEngine
from privacy_engine.tables.persons import Person
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.tally import tallied

MEMORY = 800_000_000  # bytes for the engine
LIMIT = 0.6  # of it, that the plan gives to DuckDB: as much as the engine does
SEED, ROWS_OF_A_PERSON, REPEATED = 1, 3, 0.2
PERSON, MANY, VALUES = "person", "diagnosis", 500  # another sensitive attribute, and how many values it has
QUASI = [name for name in FIELDS if name != SENSITIVE]
POLICY = ReleasePolicy(require=(KAnonymity(k=2), DistinctLDiversity(l=2), TCloseness(t=0.5)))


@dataclass(frozen=True)
class Question:
    """What is counted: k, l and t for one sensitive attribute.

    Attributes:
        title: in the table.
        sensitive: the attribute.
        by_person: whether a person counts one, and not each record.
    """

    title: str
    sensitive: str
    by_person: bool


QUESTIONS = (
    Question("records, 14 values", SENSITIVE, False),
    Question("persons, 14 values", SENSITIVE, True),
    Question(f"records, {VALUES} values", MANY, False),
    Question(f"persons, {VALUES} values", MANY, True),
)


@dataclass(frozen=True)
class Asked:
    """What a question took, and its answers by name."""

    cpu: float
    peak: int
    answers: Mapping[str, float]


def write_visits(table: Table, rows: int, file: Path) -> None:
    """Records of `scale_tables` with a person for each three, and one more sensitive attribute.

    A fifth of a person's later records repeat the quasi-identifiers of the first, so that persons have
    several records in a class. Few of the 500 values are common: a Zipf distribution.
    """
    writer, start = None, 0
    for number, made in enumerate(parts(table, rows, SEED)):
        rng = np.random.default_rng([SEED + 1, number])
        places = np.arange(len(made))
        later = (start + places) % ROWS_OF_A_PERSON * (rng.random(len(made)) < REPEATED)
        quasi = made.select(QUASI).take(np.maximum(places - later, 0))
        many = rng.zipf(1.2, len(made)).clip(max=10**6) % VALUES
        visits = quasi.append_column(SENSITIVE, made.column(SENSITIVE))
        visits = visits.append_column(MANY, pa.array(many.astype(np.int16)))
        visits = visits.append_column(PERSON, pa.array((start + places) // ROWS_OF_A_PERSON))
        writer = writer or pq.ParquetWriter(file, visits.schema, compression="zstd", store_schema=False)
        writer.write_table(visits, row_group_size=GROUP)
        start += len(made)
    if writer is not None:
        writer.close()


def ask_engine(question: Question, file: str, folder: str) -> Asked:
    """The answers of the engine, as verification has them."""
    roles = {name: {"role": "quasi_identifier"} for name in QUASI}
    schema = DataSchema.from_dict({**roles, question.sensitive: {"role": "sensitive"}})
    person = PERSON if question.by_person else None
    if person is not None:
        schema = replace(schema, person=Person(column=person))
    fold = partial(tallied, policy=POLICY, schema=schema, by_person=question.by_person, of_table=False)
    with LocalEngine(memory=MEMORY, spill=Path(folder)) as engine:
        before = time.process_time()
        values = sensitive_values(engine, [file], schema, person=person)
        grouping = Grouping(columns=QUASI, sensitive=values, person=person)
        (folded,) = engine.fold_classes([file], grouping, fold)
        cpu = time.process_time() - before
    k, l, t = folded["judged"]  # noqa: E741  the field's own symbol
    answers = {"classes": folded["classes"], "too small": k["failing_classes"]}
    answers |= {"k": k["measured"], "l": l["measured"], "t": t["measured"]}
    return Asked(cpu, held(os.getpid()), answers)


def ask_plan(question: Question, file: str, folder: str) -> Asked:
    """The answers of a plan by hand; it leaves t out where there are many values, and fingerprints.

    Where the limit of the engine does not suffice for it, it gets twice as much, and twice as much again.
    """
    for more in (1, 2, 4):
        with suppress(duckdb.OutOfMemoryException):
            return _ask_plan(question, file, folder, int(MEMORY * LIMIT * more))
    raise MemoryError(f"{question.title} of {file} needs more memory by hand")


def _ask_plan(question: Question, file: str, folder: str, limit: int) -> Asked:
    config = {"memory_limit": f"{limit}B", "temp_directory": folder, "threads": 2}
    with duckdb.connect(config={**config, "preserve_insertion_order": False}) as database:
        database.execute("SET enable_progress_bar = false")
        database.execute("SET enable_external_file_cache = false")
        before = time.process_time()
        source = f"read_parquet('{file}')"
        database.execute(
            "CREATE TABLE known AS SELECT value, row_number() OVER () - 1 AS code, n FROM "
            f"(SELECT {question.sensitive} AS value, count(*) AS n FROM {source} GROUP BY value)"
        )
        answers = {}
        for sql in _plan(database, question, source):
            found = database.execute(sql)
            names = [column[0] for column in found.description or ()]
            answers |= dict(zip(names, map(float, found.fetchall()[0]), strict=True))
        return Asked(time.process_time() - before, held(os.getpid()), answers)


def _plan(database: duckdb.DuckDBPyConnection, question: Question, source: str) -> Iterator[str]:
    """The queries; each is asked before the next one is made."""
    keys = ", ".join(f'"{name}"' for name in QUASI)
    records = f"(SELECT {keys}, {PERSON}, code FROM {source} JOIN known ON value = {question.sensitive})"
    size = 'count(*) AS classes, count_if(n < 2) AS "too small", min(n) AS k'
    if question.sensitive == MANY:
        pairs = f"SELECT {keys}, count(*) AS n FROM {records} GROUP BY {keys}, {{}}"
        if question.by_person:
            people = f"SELECT count(*) AS n FROM ({pairs.format(PERSON)}) GROUP BY {keys}"
            yield f"SELECT {size} FROM ({people})"
            several = f"SELECT count(*) AS l FROM ({pairs.format('code')}) GROUP BY {keys}"
            yield f"SELECT min(l) AS l FROM ({several})"
        else:
            classes = f"SELECT sum(n) AS n, count(*) AS l FROM ({pairs.format('code')}) GROUP BY {keys}"
            yield f"SELECT {size}, min(l) AS l FROM ({classes})"
        return
    ((values,),) = database.execute("SELECT count(*) FROM known").fetchall()
    if question.by_person:
        masks = "SELECT {}, bit_or(1::UBIGINT << code) AS m FROM {} GROUP BY {}"
        weight = [f"sum(if(m & {1 << v} > 0, 1.0::DOUBLE / bit_count(m), 0)) AS w{v}" for v in range(values)]
        weights = f"count(*) AS n, bit_count(bit_or(m)) AS l, {', '.join(weight)}"
        whole = f"SELECT {weights} FROM ({masks.format(PERSON, records, PERSON)})"
        pairs = masks.format(f"{keys}, {PERSON}", records, f"{keys}, {PERSON}")
        classes = f"SELECT {weights} FROM ({pairs}) GROUP BY {keys}"
        (everybody,) = database.execute(whole).fetchall()
        shares = [float(share) / everybody[0] for share in everybody[2:]]
    else:
        weight = [f"count_if(code = {v}) AS w{v}" for v in range(values)]
        several = " + ".join(f"(w{v} > 0)::INT" for v in range(values))
        counts = f"SELECT count(*) AS n, {', '.join(weight)} FROM {records} GROUP BY {keys}"
        classes = f"SELECT *, {several} AS l FROM ({counts})"
        found = database.execute("SELECT n / sum(n) OVER () FROM known ORDER BY code").fetchall()
        shares = [float(share) for (share,) in found]
    distance = " + ".join(f"abs(w{v} / n - {share!r})" for v, share in enumerate(shares))
    yield f"SELECT {size}, min(l) AS l, max({distance}) / 2 AS t FROM ({classes})"


def measure(
    question: Question, file: Path, folder: Path, *, alone: bool = False
) -> tuple[Asked, Asked | None]:
    """The engine and, unless it runs alone, the plan, one after the other.

    Raises:
        ValueError: if their answers differ.
    """
    found = []
    for ask in (ask_engine,) if alone else (ask_engine, ask_plan):
        with (
            tempfile.TemporaryDirectory(dir=folder) as spill,
            ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as apart,
        ):
            found.append(apart.submit(ask, question, str(file), spill).result())
    engine, plan = found[0], None if alone else found[1]
    for name, answer in {} if plan is None else plan.answers.items():
        if not math.isclose(answer, engine.answers[name], rel_tol=1e-9):
            raise ValueError(f"{question.title}: {name} must be {answer} by hand, got {engine.answers[name]}")
    return engine, plan


def lines(table: Table, sizes: list[int], folder: Path, *, alone: bool = False) -> list[list[str]]:
    """One line for each question and number of rows, with the exponent against the smaller number."""
    found: dict[Question, list[list[str]]] = {question: [] for question in QUESTIONS}
    last: dict[Question, tuple[int, float]] = {}
    for rows in sizes:
        file = folder / f"{rows}.parquet"
        write_visits(table, rows, file)
        for question in QUESTIONS:
            engine, plan = measure(question, file, folder, alone=alone)
            before = last.get(question)
            grown = "" if before is None else f"{math.log(engine.cpu / before[1], rows / before[0]):.2f}"
            last[question] = rows, engine.cpu
            line = [question.title, f"{rows:,}", f"{int(engine.answers['classes']):,}", f"{engine.cpu:.1f}"]
            line += ["", ""] if plan is None else [f"{plan.cpu:.1f}", f"{engine.cpu / plan.cpu:.2f}"]
            line += [grown, f"{engine.peak >> 20:,}", "" if plan is None else f"{plan.peak >> 20:,}"]
            print(f"[scale] {' | '.join(line)}", file=sys.stderr, flush=True)
            found[question].append(line)
        file.unlink()
    return [line for own in found.values() for line in own]


HEADS = ["counted", "rows", "classes", "CPU s", "plan by hand", "ratio", "exponent", "peak MiB", "by hand"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", type=int, metavar="ROWS", help="of each table")
    parser.add_argument("--alone", action="store_true", help="leave the plans by hand out")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = lines(adult(), asked.rows, Path(folder), alone=asked.alone)
    print(markdown_table(HEADS, made))


if __name__ == "__main__":
    main()
