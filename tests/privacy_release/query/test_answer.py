"""Queries on releases: what they answer, which releases they name, and that nothing else can be reached."""

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import IntegrityError, PublishError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.publish import publish
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake, table_names
from privacy_release.query.answer import allowed, answer
from privacy_release.query.child import open_database
from privacy_release.query.process import Files, Limits, QueryProcess
from privacy_release.query.rules import QueryError, tables_of
from privacy_release.query.sources import Snapshot, take_snapshot
from privacy_release.workarea.area import sha256_file

FIGURES = {
    "method": "mondrian",
    "measured": [
        {"rule": "k_anonymity(k=2)", "measured": 3.0, "passed": True},
        {"rule": "max_gcp", "measured": 0.1, "passed": True},
    ],
    "loss": None,
}
LOSS = {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}


def publish_ages(
    lake: Lake,
    release: str,
    age: int,
    name: str = "people",
    rows: int = 4,
    run: str | None = None,
    **more: Any,
) -> None:
    """Publish a release of two columns, whose ages are all the same number."""
    staged = Path(lake.root).with_name("staged.parquet")
    columns = {"age": [age] * rows, "illness": ["flu", "cold"] * (rows // 2), **more.pop("columns", {})}
    pq.write_table(pa.table(columns), staged)
    manifest = {**FIGURES, **more}
    digest = sha256_file(staged)
    publish(lake.table(name), release, staged, manifest, b"<p>fine</p>", expected_sha256=digest, run_key=run)


@pytest.fixture
def send(lake: Lake) -> Any:
    return partial(publish_ages, lake)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with one release, which no test changes."""
    lake = Lake(root=str(tmp_path_factory.mktemp("shown") / "lake"))
    publish_ages(lake, "r1", 30, columns={"a b": [1.5, None, 2.5, 3.5]})
    return lake


@pytest.fixture(scope="module")
def closed(shown: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of a query's process: what it refuses leaves it as it was."""
    seen = [take_snapshot(shown, "people", None, every_release=False)]
    with open_database(Files(shown, seen).tables, 1_000_000_000) as database:
        yield database


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that only reads the text of queries: to open one takes longer than a test."""
    with duckdb.connect() as opened:
        yield opened


def ages(lake: Lake, **options: Any) -> list[int]:
    """The different ages that a query sees, without a process for it."""
    seen = [
        take_snapshot(lake, "people", options.pop("release", None), **{"every_release": False, **options})
    ]
    found = run_unchecked(lake, seen, "SELECT DISTINCT age FROM people ORDER BY age")
    return [age for (age,) in found]


def answered_ages(lake: Lake, **options: Any) -> list[int]:
    """The same by a query."""
    given = answer(lake, "SELECT DISTINCT age FROM people ORDER BY age", **options)
    return given.rows.column("age").to_pylist()


# Which releases are answered from


def test_answer_has_columns_rows_and_the_release_with_its_guarantee(shown: Lake) -> None:
    given = answer(shown, "SELECT illness, count(*) AS people FROM people GROUP BY illness ORDER BY illness")
    assert given.columns == ("illness", "people")
    assert given.rows.to_pylist() == [{"illness": "cold", "people": 2}, {"illness": "flu", "people": 2}]
    (source,) = given.sources
    assert (source.table, source.release, source.rows, source.method) == ("people", "r1", 4, "mondrian")
    assert source.guarantees == ("k_anonymity(k=2), measured 3",)
    assert source.loss is None


def test_answer_names_the_loss_of_a_differentially_private_release(lake: Lake, send: Any) -> None:
    send("r1", 30, loss=LOSS, measured=[])
    (source,) = take_snapshot(lake, "people", None, every_release=False).sources
    assert source.loss == LOSS
    assert "differential privacy, epsilon 0.5, neighbours replace_one" in str(source)


def test_release_without_a_proven_model_is_said_to_have_none(lake: Lake, send: Any) -> None:
    send("r1", 30, measured=[])
    (source,) = take_snapshot(lake, "people", None, every_release=False).sources
    assert "no guarantee proven" in str(source)


def test_table_stands_for_the_release_that_was_first_published_last(lake: Lake, send: Any) -> None:
    send("w1", 30, run="a")
    send("w2", 40, run="b")
    assert ages(lake) == [40]
    send("w1", 31, run="c")  # late data of the first week
    assert ages(lake) == [40]
    assert ages(lake, release="w1") == [31]


def test_every_release_has_a_column_that_names_it_and_each_is_a_source(lake: Lake, send: Any) -> None:
    send("w1", 30)
    send("w2", 40, columns={"new": [1, 2, 3, 4]})
    given = answer(
        lake, "SELECT DISTINCT release, age, new IS NULL AS old FROM people ORDER BY 1", every_release=True
    )
    assert [tuple(row.values()) for row in given.rows.to_pylist()] == [("w1", 30, True), ("w2", 40, False)]
    assert [source.release for source in given.sources] == ["w1", "w2"]


def test_column_of_another_release_does_not_exist(lake: Lake, send: Any) -> None:
    send("w1", 30)
    send("w2", 40, columns={"new": [1, 2, 3, 4]})
    seen = [take_snapshot(lake, "people", "w1", every_release=False)]
    with pytest.raises(duckdb.Error, match='"new" not found'):
        run_unchecked(lake, seen, "SELECT new FROM people")
    seen = [take_snapshot(lake, "people", None, every_release=False)]
    with pytest.raises(duckdb.Error, match='"release" not found'):
        run_unchecked(lake, seen, "SELECT release FROM people")


def test_retracted_release_is_never_answered(lake: Lake, send: Any) -> None:
    send("w1", 30)
    send("w2", 40)
    retract(lake.table("people"), "w2", "wrong source")
    assert ages(lake) == ages(lake, every_release=True) == [30]
    with pytest.raises(QueryError, match="'w2' of table people was retracted"):
        ages(lake, release="w2")
    retract(lake.table("people"), "w1", "wrong source")
    with pytest.raises(QueryError, match="must have a release that is not retracted"):
        ages(lake)


def test_release_that_was_retracted_and_published_again_is_answered(lake: Lake, send: Any) -> None:
    send("w1", 30, run="a")
    retract(lake.table("people"), "w1", "wrong source")
    send("w1", 31, run="b")
    assert ages(lake, release="w1") == [31]


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT * FROM people", ["people"]),
        ("SELECT (SELECT max(age) FROM others) FROM people", ["people", "others"]),
        ("WITH Mine AS (SELECT * FROM people) SELECT * FROM mine", ["people"]),
        ("SELECT * FROM people p JOIN others o USING (age)", ["people", "others"]),
        ("WITH others AS (SELECT * FROM people) SELECT * FROM others", ["people"]),
        ("WITH people AS (SELECT * FROM people) SELECT * FROM people", ["people"]),
        ("WITH a AS (SELECT 1 AS age), b AS (FROM a) SELECT * FROM b JOIN people USING (age)", ["people"]),
        ("SELECT * FROM (WITH others AS (FROM people) FROM others), others", ["people", "others"]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION SELECT i % 3 FROM n) FROM n, others", ["others"]),
        ("DESCRIBE people", ["people"]),
        ("FROM people PIVOT (count(*) FOR illness IN ('flu', 'cold'))", ["people"]),
        ("SELECT age FROM people UNION ALL SELECT age FROM others", ["people", "others"]),
    ],
)  # fmt: skip
def test_tables_that_a_query_reads_are_known_exactly(
    parser: duckdb.DuckDBPyConnection, sql: str, read: list[str]
) -> None:
    assert sorted(tables_of(parser, sql)) == sorted(read)


@pytest.mark.parametrize(
    "sql", ["SELECT nothing(age) FROM people", "SELECT nothing(age) OVER () FROM people"]
)
def test_a_function_is_checked_also_over_a_window(parser: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises(QueryError, match="there is no function nothing"):
        tables_of(parser, sql)


def test_ordinary_sql_is_answered(shown: Lake) -> None:
    sql = """
        SELECT illness, round(avg("a b"), 2) AS mean, quantile_cont(age, 0.5), count(*) FILTER (age > 1),
            row_number() OVER (ORDER BY illness), max(sum(age)) OVER (), split_part(illness, 'l', 1),
            CASE WHEN illness LIKE 'f%' THEN 1 ELSE 0 END, list_transform([1, 2], lambda x: x + 1),
            current_date IS NULL, now() > TIMESTAMP '2020-01-01', string_agg(illness, ',' ORDER BY age)
        FROM people, unnest([1]) AS t(one), range(1) WHERE age BETWEEN 1 AND 99 AND illness IN ('flu', 'cold')
        GROUP BY illness HAVING count(*) > 0 ORDER BY illness DESC LIMIT 5
    """
    assert answer(shown, sql).rows.num_rows == 2


def test_names_and_releases_with_quotes_are_names_and_the_tables_that_were_read_are_named(
    lake: Lake, send: Any
) -> None:
    release = 'it\'s "1"/x'
    send(release, 30, name="my-table", columns={'odd "name': [1, 2, 3, 4]})
    send(release, 30, name="others")
    send(release, 30, name="more")
    given = answer(lake, 'SELECT sum("odd ""name") AS s FROM "my-table", others', release=release)
    assert given.rows.to_pylist() == [{"s": 40}]
    assert sorted(source.table for source in given.sources) == ["my-table", "others"]


# What is refused

SECRET = "a secret outside of the lake"
ESCAPES = [
    ("SELECT * FROM read_csv('{file}')", "table function read_csv"),
    ("SELECT * FROM read_text('{file}')", "table function read_text"),
    ("SELECT * FROM read_blob('{file}'), people", "table function read_blob"),
    ("SELECT * FROM parquet_scan('{file}')", "table function parquet_scan"),
    ("SELECT * FROM read_duckdb('{file}')", "table function read_duckdb"),
    ("SELECT * FROM glob('{folder}/*')", "table function glob"),
    ("SELECT * FROM '{file}'", "has no table"),
    ('SELECT * FROM "{file}"', "has no table"),
    ("SELECT * FROM 's3://bucket/x.parquet'", "has no table"),
    ("COPY people TO '{folder}/out.csv'", "got COPY"),
    ("COPY (SELECT * FROM people) TO '{folder}/out.csv'", "got COPY"),
    ("EXPORT DATABASE '{folder}/out'", "got EXPORT"),
    ("ATTACH '{folder}/other.db'", "got ATTACH"),
    ("INSTALL httpfs", "got LOAD"),
    ("LOAD httpfs", "got LOAD"),
    ("SET enable_external_access = true", "got SET"),
    ("RESET lock_configuration", "got SET"),
    ("PRAGMA database_list", "must be a SELECT"),
    ("CALL pragma_version()", "got CALL"),
    ("CREATE TABLE t AS SELECT * FROM people", "got CREATE"),
    ("CREATE MACRO f(x) AS x", "got CREATE"),
    ("PREPARE p AS SELECT 1", "got PREPARE"),
    ("EXPLAIN ANALYZE SELECT * FROM people", "got EXPLAIN"),
    ("DROP VIEW people", "got DROP"),
    ("SELECT * FROM people; COPY people TO '{folder}/out.csv'", "exactly one statement, got 2"),
    ("SELECT 1 FROM people; SELECT 2", "exactly one statement, got 2"),
    ("-- nothing", "exactly one statement, got 0"),
    ("WITH a AS (INSERT INTO people VALUES (1, 'x') RETURNING *) SELECT * FROM a", "only read, got INSERT"),
    ("WITH a AS (DELETE FROM people RETURNING *) SELECT * FROM a", "only read, got DELETE"),
    ("WITH a AS (UPDATE people SET age = 1 RETURNING *) SELECT * FROM a", "only read, got UPDATE"),
    ("WITH read_csv AS (FROM people) SELECT * FROM read_csv('{file}')", "table function read_csv"),
    ("SELECT getenv('PRIVACY_SECRET') FROM people", "no function getenv"),
    ("SELECT current_setting('memory_limit') FROM people", "function current_setting is not allowed here"),
    ("SELECT getvariable('x') FROM people", "function getvariable is not allowed here"),
    ("SELECT write_log('x') FROM people", "function write_log is not allowed here"),
    ("SELECT sleep_ms(1) FROM people", "function sleep_ms is not allowed here"),
    ("SELECT pg_sleep(1) FROM people", "function pg_sleep is not allowed here"),
    ("SELECT random() FROM people", "function random is not allowed here"),
    ("SELECT SetSeed(0.5) FROM people", "is not allowed here"),
    ("SELECT pg_get_viewdef(1) FROM people", "function pg_get_viewdef is not allowed here"),
    ("SELECT json_serialize_plan('FROM people') FROM people", "is not allowed here"),
    ("SELECT * FROM query('COPY people TO ''{folder}/out.csv''')", "table function query"),
    ("SELECT * FROM query_table('secret_rows')", "table function query_table"),
    ("SELECT * FROM json_execute_serialized_sql('x')", "table function json_execute_serialized_sql"),
    ("SELECT * FROM duckdb_settings()", "table function duckdb_settings"),
    ("SELECT * FROM pragma_table_info('people')", "table function pragma_table_info"),
    ("SELECT * FROM python_arrow_scan(1, 2, 3)", "table function python_arrow_scan"),
    ("SELECT * FROM information_schema.tables", "named by one word"),
    ("SELECT * FROM pg_catalog.pg_class", "named by one word"),
    ("SELECT * FROM main.people", "named by one word"),
    ("SELECT * FROM sqlite_master", "has no table"),
    ("SELECT * FROM duckdb_tables", "has no table"),
    ("SHOW TABLES", "SHOW lists nothing"),
    ("SELECT * FROM (SHOW ALL TABLES)", "SHOW lists nothing"),
    ("SELECT * FROM secret_rows", "has no table"),
    ("SELECT * FROM lake", "has no table"),
    ('SELECT * FROM "files 0"', "has no table"),
    ('SELECT * FROM people JOIN "files 0" USING (age)', "has no table"),
    ("SELECT * FROM people AT (VERSION => 0)", "no AT clause"),
    ("SELECT * FROM people, People", "differ in more than case"),
    ("SELECT $1 FROM people", "no parameters"),
    ("PIVOT people ON illness", "must be a SELECT, got MULTI"),
    ("SELECT 1", "must read a release table"),
    ("SELEC * FROM people", "syntax error"),
    ("SELECT * FROM '../lake/people'", "has no table"),
]  # fmt: skip


def look_up(parser: duckdb.DuckDBPyConnection, lake: Lake, sql: str) -> None:
    """What `answer` does before it runs a query, without a process for it."""
    for name in allowed(tables_of(parser, sql), None):
        take_snapshot(lake, name, None, every_release=False)


@pytest.mark.parametrize(("sql", "message"), ESCAPES)
def test_query_that_asks_for_more_than_releases_is_refused(
    parser: duckdb.DuckDBPyConnection,
    shown: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    message: str,
) -> None:
    secret_rows = pa.table({"age": [30], "secret": [SECRET]})  # noqa: F841 -- what a replacement scan would find
    monkeypatch.setenv("PRIVACY_SECRET", SECRET)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text(SECRET)
    with pytest.raises(QueryError) as caught:
        look_up(parser, shown, sql.format(file=outside / "secret.csv", folder=outside))
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
    assert [path.name for path in outside.iterdir()] == ["secret.csv"]


def test_database_has_no_more_memory_than_its_query() -> None:
    with open_database([], 300 * 2**20) as database:
        found = database.sql("SELECT current_setting('memory_limit')").fetchall()
    assert found == [("300.0 MiB",)]


def run_unchecked(lake: Lake, seen: list[Snapshot], sql: str) -> Any:
    """What the database of a query's process says to SQL that no rule has seen."""
    with open_database(Files(lake, seen).tables, 1_000_000_000) as database:
        return database.sql(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM secret_rows",
        "COPY people TO '{file}.out'",
        "ATTACH '{file}.db'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "LOAD httpfs",
    ],
)
def test_database_is_closed_even_to_what_the_rules_would_let_pass(
    closed: duckdb.DuckDBPyConnection, tmp_path: Path, sql: str
) -> None:
    secret_rows = pa.table({"secret": [SECRET]})  # noqa: F841 -- what a replacement scan would find
    secret = tmp_path / "secret.csv"
    secret.write_text(SECRET)
    with pytest.raises(duckdb.Error) as caught:
        closed.sql(sql.format(file=secret)).fetchall()
    assert SECRET not in str(caught.value)
    assert secret.read_text() == SECRET
    assert not list(tmp_path.glob("secret.csv.*"))


def test_wrong_table_or_column_is_named_without_a_value(
    parser: duckdb.DuckDBPyConnection, shown: Lake
) -> None:
    with pytest.raises(QueryError, match=r"has no table 'unknown'; its tables are: people"):
        look_up(parser, shown, "SELECT * FROM unknown")
    with pytest.raises(QueryError, match='"nothing" not found in FROM clause') as caught:
        answer(shown, "SELECT nothing FROM people")
    assert "flu" not in str(caught.value)


def test_value_that_cannot_be_converted_is_not_quoted(shown: Lake) -> None:
    with pytest.raises(QueryError, match="TRY_CAST") as caught:
        answer(shown, "SELECT sum(CAST(illness AS INTEGER)) FROM people")
    assert not re.search("flu|cold", str(caught.value))


def test_only_the_tables_that_a_caller_may_ask_are_answered(shown: Lake) -> None:
    assert allowed(["people"], ["people"]) == ["people"]
    with pytest.raises(QueryError, match="'people' may not be queried; allowed are others"):
        answer(shown, "SELECT * FROM people", tables=["others"])


def test_answer_that_is_too_long_is_refused_and_not_cut(lake: Lake, send: Any) -> None:
    send("r1", 30, rows=3_000)
    assert answer(lake, "FROM people", limits=Limits(rows=3_000)).rows.num_rows == 3_000
    with pytest.raises(QueryError, match="at most 2,999 rows"):
        answer(lake, "FROM people", limits=Limits(rows=2_999))


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 0 FROM n) SELECT max(i) FROM n, people",
            marks=pytest.mark.slow,  # the process is ended whatever it does
        ),
        "SELECT count(*) FROM people, range(10000000) a, range(10000000) b",
    ],
)
def test_query_that_would_never_end_is_stopped(shown: Lake, sql: str) -> None:
    with pytest.raises(QueryError, match=r"must end within 0\.2 seconds"):
        answer(shown, sql, limits=Limits(seconds=0.2))


def test_query_that_is_nested_without_end_is_refused(shown: Lake) -> None:
    with pytest.raises(QueryError):
        answer(shown, f"SELECT {'(' * 3000}1{')' * 3000} FROM people")


def test_contradictory_wishes_are_refused(shown: Lake) -> None:
    with pytest.raises(QueryError, match="remove one of both"):
        answer(shown, "FROM people", release="r1", every_release=True)


@pytest.mark.parametrize("name", ["rows", "size", "seconds", "memory", "length", "depth"])
def test_limit_that_lets_nothing_pass_is_refused(name: str) -> None:
    with pytest.raises(QueryError, match=f"{name} must be positive, got 0"):
        Limits(**{name: 0})


def test_rows_that_another_tool_added_are_noticed(lake: Lake, send: Any) -> None:
    from deltalake import write_deltalake

    send("r1", 30)
    more = pa.table({"age": [1], "illness": ["forged"], "release": ["r1"]})
    write_deltalake(lake.table("people").address, more, mode="append")
    with pytest.raises(IntegrityError, match="must hold 4 rows of the requested releases, got 5"):
        answer(lake, "FROM people")


def test_lake_out_of_reach_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises((PublishError, QueryError)):
        answer(Lake(root=str(tmp_path / "file")), "FROM people")


# While others publish and retract


def test_answer_is_the_old_or_the_new_release_while_others_publish_and_retract(lake: Lake, send: Any) -> None:
    """Each release has one age only, so an answer that mixes two of them shows two ages."""
    send("first", 0, rows=400)
    done = threading.Event()
    failures: list[BaseException] = []

    def keep_publishing() -> None:
        try:
            for turn in range(1, 5):
                send("week", turn, rows=400, run=f"run {turn}")
                if turn % 2 == 0:
                    retract(lake.table("people"), "week", "again")
        except BaseException as error:  # noqa: BLE001 -- shown by the test's own thread
            failures.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=keep_publishing)
    writer.start()
    seen = []
    while not done.is_set():
        given = answer(lake, "SELECT min(age) AS low, max(age) AS high, count(*) AS n FROM people")
        (row,) = given.rows.to_pylist()
        assert row["low"] == row["high"]
        assert row["n"] == 400
        assert (given.sources[0].release == "first") == (row["low"] == 0)
        seen.append(row["low"])
    writer.join()
    assert not failures
    assert seen
    assert answered_ages(lake) == [0]


def test_release_that_is_retracted_while_it_is_read_is_not_answered_from(
    lake: Lake, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send("w1", 30)
    send("w2", 40)
    send("r1", 30, "others")
    run = QueryProcess.answer
    turns = []

    def run_late(*arguments: Any) -> Any:
        rows = run(*arguments)
        if not turns:
            turns.append("retracted")
            retract(lake.table("people"), "w2", "wrong source")
        return rows

    monkeypatch.setattr(QueryProcess, "answer", run_late)
    both = "SELECT DISTINCT age FROM people UNION SELECT age FROM others"  # of which one is retracted
    assert answer(lake, both).rows.column("age").to_pylist() == [30]
    assert turns


def test_files_that_are_erased_before_they_are_read_lead_to_the_new_answer(
    lake: Lake, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send("w1", 30)
    send("w2", 40)
    run = QueryProcess.answer
    turns = []

    def run_late(*arguments: Any) -> Any:
        if not turns:
            turns.append("retracted")
            retract(lake.table("people"), "w2", "wrong source")
        return run(*arguments)

    monkeypatch.setattr(QueryProcess, "answer", run_late)
    assert answered_ages(lake) == [30]
    assert turns


# The command


@pytest.fixture
def published(lake: Lake, send: Any, work_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake for the command, and no work area that another test has left to be swept."""
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    send("w1", 30, columns={"share": [0.5, None, float("inf"), 1.0]})


@pytest.mark.usefixtures("published")
def test_command_prints_a_table_and_each_source_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "SELECT illness, count(*) AS people FROM people GROUP BY 1 ORDER BY 1"]) == DONE
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "illness  people",
        "-------  ------",
        "cold          2",
        "flu           2",
        "(2 rows)",
    ]
    assert err.startswith("source    people, release w1 (version 1, ")
    assert "k_anonymity(k=2), measured 3" in err


@pytest.mark.usefixtures("published")
def test_command_writes_csv_json_and_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT age, illness, share, age FROM people"
    assert main(["query", sql, "--format", "csv"]) == DONE
    assert capsys.readouterr().out.splitlines()[1] == "30,flu,0.5,30"
    assert main(["query", sql, "--format", "json"]) == DONE
    whole = json.loads(capsys.readouterr().out)
    assert whole["rows"][:3] == [[30, "flu", 0.5, 30], [30, "cold", None, 30], [30, "flu", "inf", 30]]
    assert whole["sources"][0]["release"] == "w1"
    target = tmp_path / "answer.parquet"
    assert main(["query", "FROM people", "--format", "parquet", "--output", str(target)]) == DONE
    table = pq.read_table(target)
    assert table.num_rows == 4
    assert json.loads(table.schema.metadata[b"privacy_release.sources"])[0]["release"] == "w1"
    assert [path.name for path in tmp_path.glob("*answer*")] == ["answer.parquet"]


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # As every refusal of `answer` is reported.
        pytest.param(["SELECT * FROM unknown"], "has no table 'unknown'", marks=pytest.mark.slow),
        pytest.param(["COPY people TO 'x'"], "got COPY", marks=pytest.mark.slow),
        (["FROM people", "--release", "w9"], "must have the release 'w9'"),
        (["FROM people", "--format", "parquet"], "needs --output"),
        (["FROM people", "--output", "none/there/x.csv"], "--output: the file must be writable"),
        (["FROM people", "--limit", "3"], "at most 3 rows"),
    ],
)
def test_command_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["query", *arguments]) == WRONG
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("privacy-release: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.usefixtures("published")
def test_command_asks_one_or_every_release_and_shows_no_control_character(
    send: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    send("w2", 40)
    sql = "SELECT max(age) AS a, max(illness) || chr(27) || '[2J' AS x FROM people"
    assert main(["query", sql, "--release", "w1"]) == DONE
    shown = capsys.readouterr().out
    assert "30" in shown
    assert "\x1b" not in shown
    assert main(["query", "SELECT count(DISTINCT release) AS n FROM people", "--every-release"]) == DONE
    out, err = capsys.readouterr()
    assert out.splitlines()[2].strip() == "2"
    assert err.count("source") == 2


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["query", "--help"])
    assert stop.value.code == DONE
    assert 'privacy-release query "SELECT' in capsys.readouterr().out


def test_tables_are_known_by_their_proofs(lake: Lake, send: Any) -> None:
    assert table_names(lake) == []
    send("r1", 30)
    send("r1", 30, name="others")
    retract(lake.table("others"), "r1", "wrong")
    assert table_names(lake) == ["others", "people"]


def test_rules_alone_read_no_lake() -> None:
    with duckdb.connect() as parser:
        assert tables_of(parser, 'SELECT * FROM a, "b-c", a') == ("a", "b-c")
