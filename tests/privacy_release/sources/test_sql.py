"""The rows of a query as a source, of a PostgreSQL server and of SQLite, also through ADBC; what fails."""

import datetime as dt
import os
import threading
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from privacy_engine.errors import SchemaError, SourceError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.databases.query import Query, url_of_environment
from privacy_release.sources.databases.types import LONGEST, array_of
from privacy_release.spec.placeholders import ReleaseName
from privacy_release.steps.ingest import ingest
from privacy_release.steps.producers.staging import public_source
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import Table
from tests.servers import postgres
from tests.waiting import wait_for

SECRET = "canary-7391"
SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier", "kind": "categorical"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "born": {"role": "quasi_identifier", "kind": "date", "bounds": ["1900-01-01", "2030-01-01"]},
        "seen": {"role": "insensitive", "kind": "timestamp", "as_is": True},
        "smoker": {"role": "quasi_identifier", "kind": "categorical", "categories": ["True", "False"]},
        "weight": {"role": "insensitive", "kind": "numeric"},
        "paid": {"role": "insensitive", "kind": "numeric"},
        "illness": {"role": "sensitive", "kind": "categorical", "nullable": True},
    }
)
CREATE = (
    "CREATE TABLE visits (name text, age integer, born date, seen timestamp, smoker boolean, weight numeric,"
    " paid numeric(10,2), illness varchar(20), day date)"
)
INSERT = "INSERT INTO visits VALUES (:name, :age, :born, :seen, :smoker, :weight, :paid, :illness, :day)"
DAY = dt.date(2026, 11, 2)


def rows(n: int = 40) -> list[dict[str, object]]:
    return [
        {
            "name": f"{SECRET}-{i}",
            "age": 20 + i % 50,
            "born": dt.date(1980, 1, 1) + dt.timedelta(days=i % 7),
            "seen": dt.datetime(2026, 11, 2, 6, i % 5),
            "smoker": i % 2 == 0,
            "weight": Decimal("70.25") + i % 4,
            "paid": Decimal("12.50") + i % 3,
            "illness": None if i < 12 else ["flu", "cold"][i % 2],
            "day": DAY if i % 4 else DAY - dt.timedelta(days=1),
        }
        for i in range(n)
    ]


@pytest.fixture
def database(postgres_server: URL) -> str:
    url = postgres.new_schema(postgres_server)
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(CREATE))
        connection.execute(text(INSERT), rows())
    return url


COLUMNS = "name, age, born, seen, smoker, weight, paid, illness"


def query(url: str, sql: str = f"SELECT {COLUMNS} FROM visits ORDER BY name", release: str = "r1") -> Query:
    reported, values = ReleaseName.of(release).bound(sql)
    return Query(connection="hospital", url=url, sql=reported, values=values)


def read(table: Table) -> pa.Table:
    return pq.read_table(table.uri)


def through(url: str, driver: str) -> str:
    """The same database by another driver."""
    return make_url(url).set(drivername=driver).render_as_string(hide_password=False)


DRIVERS = pytest.mark.parametrize("driver", ["postgresql", "adbc+postgresql"])


@DRIVERS
def test_each_type_of_postgresql_comes_out_as_it_is(database: str, work: WorkArea, driver: str) -> None:
    table = ingest(query(through(database, driver)), SCHEMA, work)
    found, expected = read(table), sorted(rows(), key=lambda row: str(row["name"]))
    assert "name" not in found.column_names
    types = {field.name: str(field.type) for field in found.schema}
    assert types["age"] == "int32"
    assert types["smoker"] == "bool"
    assert types["weight"] == "double"  # without a precision in the database
    assert types["paid"] == "decimal128(10, 2)"
    for name in ("age", "smoker", "weight", "paid", "illness"):
        got = found.column(name).to_pylist()
        assert [
            None if v is None else type(v)(e) for v, e in zip(got, (r[name] for r in expected), strict=True)
        ] == got
        assert got.count(None) == sum(row[name] is None for row in expected)
    assert [str(v)[:10] for v in found.column("born").to_pylist()] == [str(r["born"]) for r in expected]
    assert [str(v)[:19] for v in found.column("seen").to_pylist()] == [str(r["seen"]) for r in expected]


def test_the_manifest_has_a_hash_of_the_query_and_no_text_of_it(database: str, work: WorkArea) -> None:
    sql = f"SELECT {COLUMNS} FROM visits WHERE illness = 'flu' OR illness IS NULL ORDER BY name"
    reported = ingest(query(database, sql), SCHEMA, work).source
    assert reported.uri == "query of hospital"
    assert len(reported.query) == 64
    assert "flu" not in str(reported)
    assert url_password(database) not in str(reported)


def url_password(url: str) -> str:
    return str(make_url(url).password)


def test_the_fingerprint_is_of_the_query_and_of_the_rows(database: str, work: WorkArea) -> None:
    first = ingest(query(database), SCHEMA, work, label="a").source.fingerprint
    again = ingest(query(database), SCHEMA, work, label="b").source.fingerprint
    other = ingest(
        query(database, f"SELECT {COLUMNS} FROM visits WHERE true ORDER BY name"), SCHEMA, work, label="c"
    ).source.fingerprint
    with create_engine(database, poolclass=NullPool).begin() as connection:
        connection.execute(
            text("UPDATE visits SET age = age + 1 WHERE name = :name"), {"name": f"{SECRET}-3"}
        )
    changed = ingest(query(database), SCHEMA, work, label="d").source.fingerprint
    assert first == again
    assert len({first, other, changed}) == 3


@DRIVERS
def test_the_date_of_the_release_is_bound_and_not_pasted(database: str, work: WorkArea, driver: str) -> None:
    database = through(database, driver)
    sql = f"SELECT {COLUMNS} FROM visits WHERE day = {{release:%Y-%m-%d}}"
    table = ingest(query(database, sql, "2026-11-02"), SCHEMA, work)
    assert table.rows == sum(row["day"] == DAY for row in rows())
    attack = "x' OR 'a' = 'a"
    with pytest.raises(SchemaError, match="the table is empty"):
        ingest(
            query(database, f"SELECT {COLUMNS} FROM visits WHERE name = {{release}}", attack), SCHEMA, work
        )


@DRIVERS
def test_a_colon_or_a_percent_in_a_query_begins_no_parameter(
    database: str, work: WorkArea, driver: str
) -> None:
    database = through(database, driver)
    sql = f"SELECT {COLUMNS} FROM visits WHERE name LIKE '%:x%' OR name::text LIKE 'canary%' AND 10 % 3 = 1"
    assert ingest(query(database, sql), SCHEMA, work).rows == 40


@pytest.mark.quick(
    "postgresql", "cannot be read or cast"
)  # the other driver has its own error of a cast only
@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"SELECT {COLUMNS} FROM nowhere WHERE name = '{SECRET}'", "names a table that does not exist"),
        (f"SELECT {COLUMNS}, heart FROM visits", "names a column that does not exist"),
        ("SELECT name, age FROM visits", "missing|must have"),
        (f"SELECT {COLUMNS}, day FROM visits", "day"),
        (f"SELECT {COLUMNS} FROM visits WHERE age > 200", "the table is empty"),
        (f"SELECT {COLUMNS} FROM visits WHERE CAST(name AS integer) = 1", "cannot be read or cast"),
        (f"SELECT {COLUMNS.replace('paid', 'ARRAY[paid] AS paid')} FROM visits", "cast it in the query"),
        (f"SELECT {COLUMNS.replace('paid', 'age AS paid, paid')} FROM visits", "more than once"),
        ("SELECT FROM WHERE", "not valid SQL"),
        (
            f"WITH gone AS (DELETE FROM visits RETURNING *) SELECT {COLUMNS} FROM gone",
            "more than read|would write",
        ),
    ],
)
@DRIVERS
def test_what_fails_names_the_remedy_and_no_value(
    database: str, work: WorkArea, sql: str, said: str, driver: str
) -> None:
    # A value that cannot be cast ends the rows of ADBC without a code: that may be tried again.
    expected = SourceError if driver.startswith("adbc") and said == "cannot be read or cast" else SchemaError
    with pytest.raises(expected, match=said) as caught:
        ingest(query(through(database, driver), sql), SCHEMA, work)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for secret in (SECRET, url_password(database), "postgresql"):
        assert secret not in str(caught.value)
    assert not list(work.folder.glob("*.parquet"))
    with create_engine(database, poolclass=NullPool).connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM visits")).scalar() == 40


@DRIVERS
def test_a_database_that_is_not_there_is_reported_without_its_address(
    database: str, work: WorkArea, driver: str
) -> None:
    database = through(database, driver)
    for url in (
        make_url(database).set(port=1),
        make_url(database).set(password="hunter2"),
        make_url(database).set(host="nowhere.invalid"),
    ):
        with pytest.raises(SourceError, match="of connection hospital cannot be reached") as caught:
            ingest(query(url.render_as_string(hide_password=False)), SCHEMA, work)
        for secret in ("hunter2", "nowhere", str(url.username), url_password(database)):
            assert secret not in str(caught.value)


@DRIVERS
def test_a_connection_that_drops_on_the_way_leaves_nothing(
    database: str, postgres_server: URL, work: WorkArea, driver: str
) -> None:
    slow = (
        f"SELECT {COLUMNS} FROM (SELECT visits.*, pg_sleep(0.001) FROM visits, generate_series(1, 100000)) v"
    )
    admin = create_engine(postgres_server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    user = make_url(database).username
    stop = threading.Event()

    terminate = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = :user"
        " AND (query LIKE 'DECLARE%' OR query LIKE 'FETCH%' OR query LIKE 'COPY%')"
    )

    def cut() -> None:
        with admin.connect() as connection:
            wait_for(
                lambda: stop.is_set() or connection.execute(terminate, {"user": user}).all(),
                "the query to begin",
            )

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        with pytest.raises(SourceError, match="the connection dropped"):
            ingest(query(through(database, driver), slow), SCHEMA, work)
    finally:
        stop.set()
        thread.join()
    assert not list(work.folder.glob("*.parquet"))


@pytest.mark.slow  # needs tables of two sizes
def test_memory_does_not_grow_with_the_rows(database: str, work: WorkArea) -> None:
    def peak(copies: int) -> int:
        sql = f"SELECT {COLUMNS} FROM visits, generate_series(1, {copies})"
        tracemalloc.start()
        with query(database, sql).opened(SCHEMA, None) as records:
            total = sum(len(batch) for batch in records.batches)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == 40 * copies
        return found

    small, large = peak(500), peak(2_500)  # 20,000 and 100,000 rows
    assert large < 1.5 * small


@pytest.mark.parametrize("driver", ["sqlite", "adbc+sqlite"])
def test_a_query_of_sqlite_takes_types_from_its_values_and_the_schema(
    tmp_path: Path, work: WorkArea, driver: str
) -> None:
    url = f"sqlite:///{tmp_path / 'visits.db'}"
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
            "born": {"role": "quasi_identifier", "kind": "date", "format": "%Y-%m-%d", "precision": "day"},
            "weight": {"role": "insensitive", "kind": "numeric"},
            "illness": {"role": "sensitive", "kind": "categorical"},
        }
    )
    with create_engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE visits (age, born, weight, illness)"))
        connection.execute(
            text("INSERT INTO visits VALUES (:a, :b, :w, :i)"),
            [{"a": 20 + i % 9, "b": f"1980-01-0{1 + i % 5}", "w": None, "i": "flu"} for i in range(30)],
        )
    found = read(ingest(query(through(url, driver), "SELECT * FROM visits"), schema, work))
    assert str(found.schema.field("age").type) == "int64"
    assert str(found.schema.field("weight").type) == "double"
    for sql, said in (
        ("SELECT * FROM nowhere", "names a table that does not exist"),
        ("SELECT age, heart FROM visits", "names a column that does not exist"),
    ):
        with pytest.raises(SchemaError, match=said):
            ingest(query(through(url, driver), sql), schema, work)
    with create_engine(url).begin() as connection:
        connection.execute(text(f"UPDATE visits SET age = '{SECRET}' WHERE rowid = 30"))
    with pytest.raises(SchemaError, match=r"column 'age'|age: must be a number") as caught:
        ingest(query(through(url, driver), "SELECT * FROM visits"), schema, work)
    assert SECRET not in str(caught.value)


PUBLIC = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "nullable": True},
        "children": {"role": "insensitive", "kind": "ordinal", "bounds": [0, 9], "nullable": True},
        "born": {"role": "quasi_identifier", "kind": "date", "format": "%Y-%m-%d", "precision": "day"},
        "smoker": {"role": "insensitive", "kind": "categorical", "categories": [True, False]},
        "ward": {"role": "insensitive", "kind": "categorical", "categories": [1, 2]},
        "illness": {"role": "sensitive", "kind": "categorical", "categories": ["flu", "7"]},
    }
)
PUBLIC_TYPES = ["double", "int64", "date32[day]", "bool", "int64", "string"]


@pytest.mark.parametrize("driver", ["sqlite", "adbc+sqlite"])
@pytest.mark.parametrize(
    "record",
    [
        (50, 1, "1980-01-01", 1, 2, "flu"),
        (50.5, 1, "1980-01-01", 0, "2", 7),
        (None, None, "1980-01-01", 1, 2, "flu"),
        (50.0, 1.0, "1980-01-01", 1, 2, "7"),
    ],
)
@pytest.mark.parametrize("others", [(50, 1, "1980-01-01", 1, 2, "flu"), None])
def test_types_by_the_schema_are_the_same_whatever_one_record_is(
    tmp_path: Path, work: WorkArea, driver: str, record: tuple[object, ...], others: tuple[object, ...] | None
) -> None:
    url = f"sqlite:///{tmp_path / 'visits.db'}"
    with create_engine(url).begin() as connection:
        connection.execute(text("CREATE TABLE visits (age, children, born, smoker, ward, illness)"))
        insert = text("INSERT INTO visits VALUES (:a, :b, :c, :d, :e, :f)")
        connection.execute(insert, [dict(zip("abcdef", row, strict=True)) for row in (record, others) if row])
    requested = replace(query(through(url, driver), "SELECT * FROM visits"), types="schema")
    table = ingest(requested, PUBLIC, work)
    assert not table.source.guessed
    found = read(table)
    assert [str(field.type) for field in found.schema] == PUBLIC_TYPES
    age, children, born, smoker, ward, illness = record
    reported = [age, children, dt.date.fromisoformat(str(born)), bool(smoker), int(str(ward)), str(illness)]
    assert list(found.slice(0, 1).to_pylist()[0].values()) == reported


@pytest.mark.parametrize("driver", ["sqlite", "adbc+sqlite"])
def test_a_column_whose_schema_says_no_type_is_refused_and_the_values_are_not_asked(
    work: WorkArea, driver: str
) -> None:
    schema = DataSchema.from_dict({"grade": {"role": "insensitive", "kind": "ordinal"}})
    said = set()
    for value in ("1", "1.5", "NULL"):
        requested = replace(query(f"{driver}://", f"SELECT {value} AS grade"), types="schema")
        with pytest.raises(
            SchemaError, match=r"'grade' must follow from the schema.*give it categories"
        ) as e:
            ingest(requested, schema, work)
        said.add(str(e.value).partition(")")[2])
    assert len(said) == 1


@pytest.mark.parametrize("driver", ["sqlite", "adbc+sqlite"])
def test_a_query_says_that_types_were_read_off_its_values(work: WorkArea, driver: str) -> None:
    schema = DataSchema.from_dict({"age": {"role": "insensitive", "kind": "numeric"}})
    table = ingest(query(f"{driver}://", "SELECT 1 AS age"), schema, work)
    assert table.source.guessed is True
    assert "guessed" not in public_source(table.source, private=False)


@DRIVERS
def test_a_column_of_nulls_has_the_type_that_postgresql_declares_whatever_it_holds(
    database: str, work: WorkArea, driver: str
) -> None:
    schema = DataSchema.from_dict({"n": {"role": "insensitive", "kind": "numeric"}})
    requested = replace(query(through(database, driver), "SELECT NULL::bigint AS n"), types="schema")
    assert str(read(ingest(requested, schema, work)).schema.field("n").type) == "int64"


def test_a_number_with_decimals_is_not_cut_to_a_whole_one() -> None:
    with pytest.raises(SchemaError, match="'age' must hold values of one type"):
        array_of([1, 2.5], pa.int64(), "age", "query")


@pytest.mark.parametrize(
    "longest",
    [1_000, pytest.param(LONGEST, marks=pytest.mark.slow)],  # the product's own: texts of megabytes
    ids=["shorter", "own"],
)
@pytest.mark.parametrize("driver", ["sqlite", "adbc+sqlite"])
def test_a_text_that_is_too_long_is_refused_before_it_is_looked_through(
    tmp_path: Path, work: WorkArea, driver: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privacy_release.sources.databases.types.LONGEST", longest)
    schema = DataSchema.from_dict({"illness": {"role": "insensitive", "kind": "categorical"}})
    url = f"{driver}:///{tmp_path / 'visits.db'}"
    assert ingest(query(url, f"SELECT hex(zeroblob({longest // 2})) AS illness"), schema, work).rows == 1
    longer = query(url, f"SELECT hex(zeroblob({longest // 2 + 1})) AS illness")
    with pytest.raises(
        SchemaError, match=rf"'illness' must hold no text of more than {longest:,} characters"
    ):
        ingest(longer, schema, work, label="longer")


def test_the_address_of_a_database_is_a_variable_outside_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="PRIVACY_SOURCE_HOSPITAL_DB"):
        url_of_environment("hospital-db")
    monkeypatch.setitem(os.environ, "PRIVACY_SOURCE_HOSPITAL_DB", "sqlite:////x.db")
    assert url_of_environment("hospital-db") == "sqlite:////x.db"


@pytest.mark.parametrize("url", ["hunter2", "nonsense://u:hunter2@h/d", "adbc+nonsense://u:hunter2@h/d"])
def test_a_wrong_address_is_not_repeated(url: str, work: WorkArea) -> None:
    with pytest.raises(SpecError, match="connection hospital") as caught:
        ingest(query(url), SCHEMA, work)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "sql", ["DELETE FROM visits", "SELECT 1; DROP TABLE visits", "", "-- SELECT\nDROP TABLE visits"]
)
def test_only_one_query_that_reads_is_taken(sql: str) -> None:
    with pytest.raises(SpecError, match="one query that begins with SELECT or WITH"):
        ReleaseName.of("r1").bound(sql)


def test_a_placeholder_in_quotes_and_a_release_without_a_date_are_refused() -> None:
    name = ReleaseName.of("manual__2026")
    with pytest.raises(SpecError, match="remove the quotes"):
        name.bound("SELECT * FROM visits WHERE day = '{release:%Y-%m-%d}'")
    between = "SELECT 'a' FROM visits WHERE id = {release} AND ward = 'it''s' AND note <> ''"
    assert name.bound(between)[0] == between.replace("{release}", ":release_0")
    with pytest.raises(SpecError, match="needs a release with a date"):
        name.bound("SELECT * FROM visits WHERE day = {release:%Y-%m-%d}")
