"""The classification of a deployment: what it refuses, whichever way a source is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from deltalake import write_deltalake

import privacy_release
from privacy_engine.errors import SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role
from privacy_release.lake.store import Lake
from privacy_release.sources.databases.query import Query
from privacy_release.sources.versions import DeltaVersion
from privacy_release.spec.classification import STANDS_FOR, classification, classified
from privacy_release.spec.files import load_tables
from privacy_release.spec.selects import view_of
from privacy_release.steps.ingest import TableSource, ingest_tables
from privacy_release.transforms.function import FunctionStep
from privacy_release.transforms.query import SqlStep
from privacy_release.transforms.transform import transform
from privacy_release.workarea.area import WorkArea

Classes = Callable[..., Path]
AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
ILL = {"role": "sensitive", "kind": "categorical"}
TOWN = {"role": "insensitive", "kind": "categorical"}
COLUMNS = {"age": "quasi_identifier", "ill": "sensitive", "town": "insensitive", "*name": "identifier"}


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Classes:
    """Sets the classification: its fields."""

    def put(**fields: Any) -> Path:
        path = tmp_path / "classes.yaml"
        path.write_text(yaml.safe_dump(fields, sort_keys=False))
        monkeypatch.setenv("PRIVACY_CLASSIFICATION", str(path))
        return path

    return put


@pytest.fixture
def source(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {"age": [30.0, 40.0] * 20, "ill": ["flu", "gout", "cold", "flu"] * 10, "town": ["a", "b"] * 20}
    )
    (tmp_path / "hospital").mkdir()
    frame.to_parquet(tmp_path / "hospital" / "visits.parquet", index=False)
    return tmp_path / "hospital" / "visits.parquet"


def schema(**fields: Any) -> DataSchema:
    return DataSchema.from_dict({"age": AGE, "ill": ILL, "town": TOWN, **fields})


@pytest.mark.parametrize("of", Role)
@pytest.mark.parametrize("role", Role)
def test_a_role_stands_for_a_class_as_the_table_says(classes: Classes, role: Role, of: Role) -> None:
    classes(unlisted="author", columns={"x": of.value})
    declared = schema(x={"role": role.value, "kind": "categorical"})
    if role in STANDS_FOR[of]:
        assert classified(declared, addresses=["/a"]) is not None
        return
    with pytest.raises(SpecError, match=rf"x is classified as {of.value}, so it must be .*got {role.value}"):
        classified(declared, addresses=["/a"])


def test_no_class_is_given_a_weaker_role() -> None:
    """A change of the table must be made here, too."""
    assert {of.value: sorted(role.value for role in roles) for of, roles in STANDS_FOR.items()} == {
        "identifier": ["identifier"],
        "quasi_identifier": ["identifier", "quasi_identifier"],
        "sensitive": ["identifier", "sensitive"],
        "insensitive": ["identifier", "insensitive", "quasi_identifier"],
    }


def test_columns_without_a_class_are_refused_unless_they_are_left_to_the_author(classes: Classes) -> None:
    classes(columns={"age": "quasi_identifier"})
    with pytest.raises(SpecError, match=r"ill has no class.*town has no class"):
        classified(schema(), addresses=["/a"])
    classes(columns={"age": "quasi_identifier"}, unlisted="author")
    assert classified(schema(), addresses=["/a"])
    classes(columns={"age": "quasi_identifier", "ill": "sensitive", "town": "insensitive"})
    assert classified(schema(secret={"role": "identifier"}), addresses=["/a"])  # it stays behind


def test_only_an_identifier_is_released_as_a_pseudonym(classes: Classes) -> None:
    pseudonym = {"role": "identifier", "pseudonym": {"scope": "release", "connection": "keys"}}
    classes(columns=COLUMNS)
    assert classified(schema(surname=pseudonym), addresses=["/a"])
    message = "only identifiers are released as pseudonyms"
    with pytest.raises(SpecError, match=f"town is classified as insensitive, but {message}"):
        classified(schema(town=pseudonym), addresses=["/a"])
    with pytest.raises(SpecError, match="unknown has no class"):
        classified(schema(unknown=pseudonym), addresses=["/a"])
    linked = {"column": "town", "rows": "linked"}
    with pytest.raises(SpecError, match=message):
        classified(schema(town={"role": "identifier"}, person=linked), addresses=["/a"])


def test_kind_and_meaning_are_those_of_the_class(classes: Classes) -> None:
    classes(columns={**COLUMNS, "town": {"role": "insensitive", "kind": "ordinal", "meaning": "place"}})
    with pytest.raises(
        SpecError, match="town must be of the kind ordinal, got categorical; town must state the "
    ):
        classified(schema(), addresses=["/a"])
    town = {"role": "insensitive", "kind": "ordinal", "categories": ["a", "b"], "meaning": "place"}
    assert classified(schema(town=town), addresses=["/a"])


def test_the_first_source_and_the_first_pattern_decide(classes: Classes) -> None:
    classes(
        columns={"age": "quasi_identifier", "ill": "sensitive", "*": "identifier"},
        sources=[
            {"address": "s3://hospital/open/*", "columns": {"TOWN": "insensitive"}},
            {"address": "s3://hospital/*", "unlisted": "author"},
        ],
    )
    assert classified(schema(), addresses=["s3a://hospital//open/./a.parquet"])
    for address in (
        "s3://hospital/closed/a.parquet",
        "s3://hospital/open/../a.parquet",
        "gs://hospital/open/a",
    ):
        with pytest.raises(SpecError, match="town is classified as identifier"):
            classified(schema(), addresses=[address])
    with pytest.raises(SpecError, match=r"must be of one source of the classification .*, got 2"):
        classified(schema(), addresses=["s3://hospital/open/a.parquet", "s3://hospital/b.parquet"])


def test_each_way_to_read_a_source_is_compared_with_it(
    classes: Classes, source: Path, work: WorkArea
) -> None:
    path = classes(columns={**COLUMNS, "ill": "identifier"})
    write_deltalake(str(source.parent / "delta"), pd.read_parquet(source))
    everything: list[Any] = [
        *(str(source), str(source.parent / "*.parquet")),
        DeltaVersion(uri=str(source.parent / "delta")),
    ]
    message = f"contradict the classification {path}: ill is classified"
    for read in everything:
        with pytest.raises(SpecError, match=message):
            privacy_release.ingest(read, schema(), work)
    fields = {"age": AGE, "ill": ILL, "town": TOWN, "surname": {"role": "identifier"}}
    more = {"surname": {"role": "identifier"}, "age": AGE}
    several = load_tables({"visits": {"schema": fields}, "more": {"schema": more}}, "surname")
    with pytest.raises(SpecError, match=message):
        ingest_tables({name: TableSource(uri=str(source)) for name in ("visits", "more")}, several, work)
    assert not list(work.create().folder.glob("*.parquet"))


def test_a_link_leads_to_the_class_of_where_it_leads(classes: Classes, source: Path, work: WorkArea) -> None:
    open_folder = source.parent.parent / "open"
    open_folder.mkdir()
    (open_folder / "visits.parquet").symlink_to(source)
    classes(
        columns={"age": "quasi_identifier", "ill": "sensitive"},
        sources=[
            {"address": str(open_folder / "*"), "columns": {"town": "insensitive"}},
            {"address": str(source.parent / "*"), "columns": {"town": "identifier"}},
        ],
    )
    with pytest.raises(SpecError, match="town is classified as identifier"):
        privacy_release.ingest(str(open_folder / "visits.parquet"), schema(), work)


def test_all_files_of_a_folder_are_of_one_source(classes: Classes, source: Path, work: WorkArea) -> None:
    (source.parent / "ward.parquet").write_bytes(source.read_bytes())
    classes(
        columns={"age": "quasi_identifier", "ill": "sensitive"},
        sources=[
            {"address": str(source), "columns": {"town": "insensitive"}},
            {"address": str(source.parent / "*"), "columns": {"town": "identifier"}},
        ],
    )
    assert privacy_release.ingest(str(source), schema(), work, label="one").source.classification
    with pytest.raises(SpecError, match=r"must be of one source of the classification .*, got 2"):
        privacy_release.ingest(str(source.parent / "*.parquet"), schema(), work)


VIEWS = {
    "columns": {"age": "quasi_identifier", "ill": "sensitive"},
    "sources": [{"connection": "ward", "view": "public.visits", "columns": {"town": "insensitive"}}],
}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age, ill, town FROM public.visits",
        "SELECT * FROM public.visits WHERE day = :release AND age > 3;",
        "SELECT age, ill, town FROM public.visits WHERE day = '{release:%Y-%m-%d}'",
    ],
)
def test_a_query_that_selects_columns_of_a_listed_view_is_of_that_view(classes: Classes, sql: str) -> None:
    classes(**VIEWS)
    assert classified(schema(), query=("ward", sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age, ill, town FROM public.patients",
        "SELECT age, name AS ill, town FROM public.visits",
        "SELECT age, upper(name) AS ill, town FROM public.visits",
        "SELECT age, ill, town FROM public.visits UNION SELECT age, name, town FROM public.visits",
        "SELECT age, ill, town FROM public.visits JOIN public.patients USING (id)",
        "SELECT age, ill, town FROM (SELECT age, name AS ill, town FROM public.patients)",
        "WITH visits AS (SELECT * FROM patients) SELECT * FROM visits",
        "SELECT age, ill, town FROM public.visits WHERE id IN (SELECT id FROM public.patients)",
        "SELECT * REPLACE (name AS ill) FROM public.visits",
        "SELECT age, ill, town FROM public.visits v(age, name, ill)",
        "SELECT age, ill /*! , name */, town FROM public.visits",
        "SELECT age, ill, town FROM public.visits -- more",
        "SELECT age, ill, town FROM public.visits WHERE a = '\\' UNION SELECT name FROM patients WHERE b = '",
        "SELECT age, ill, town FROM public.visits WHERE a = '\\'' UNION SELECT name FROM p WHERE b = '",
        "SELECT age, ill, town FROM public.visits; SELECT 1",
        "SELECT age, ill FROM public.visits WHERE a = $$ x $$",
        "no query",
    ],
)
def test_every_other_query_is_refused(classes: Classes, work: WorkArea, sql: str) -> None:
    classes(**VIEWS)
    with pytest.raises(
        SpecError, match=r"source.sql must select columns of one of the views .*\(public.visits\)"
    ):
        privacy_release.ingest(Query(connection="ward", url="sqlite://", sql=sql), schema(), work)


def test_a_query_of_a_listed_view_through_another_connection_is_refused(classes: Classes) -> None:
    classes(**VIEWS)
    with pytest.raises(SpecError, match="for the connection other"):
        classified(schema(), query=("other", "SELECT age FROM public.visits"))


def test_a_derived_column_has_the_class_of_what_it_is_made_of(classes: Classes) -> None:
    born = {"role": "identifier", "kind": "date"}
    since = {"derive": {"years_between": ["born", "2026-01-01"]}, "kind": "numeric"}
    classes(columns={**COLUMNS, "born": "quasi_identifier"})
    declared = {"born": born, "years": {**since, "role": "insensitive"}}
    with pytest.raises(
        SpecError, match="years is computed from born, so it must be identifier or quasi_identifier"
    ):
        classified(schema(**declared), addresses=["/a"])
    assert classified(schema(born=born, years={**since, "role": "quasi_identifier"}), addresses=["/a"])
    classes(columns=COLUMNS)
    with pytest.raises(
        SpecError, match="years is computed from born, so it must be identifier, got insensitive"
    ):
        classified(schema(**declared), addresses=["/a"])
    classes(columns={**COLUMNS, "born": "quasi_identifier"}, made={"years": "insensitive"})
    assert classified(schema(**declared), addresses=["/a"])
    classes(columns=COLUMNS, unlisted="author")
    assert classified(schema(**declared), addresses=["/a"])


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT *, age // 10 AS x FROM records",
            "x is computed from age, so it must be identifier or quasi_",
        ),
        ("SELECT *, ill AS x FROM records", "x is computed from ill, so it must be identifier or sensitive"),
        (
            "SELECT *, age || ill AS x FROM records",
            "x is computed from age, ill, so it must be identifier, got",
        ),
        ("SELECT *, town AS x FROM records", ""),
        ("SELECT *, upper(town) AS x FROM records", ""),
        ("SELECT *, (SELECT max(town) FROM records) AS x FROM records", "x is computed from age, ill, town"),
        (
            "SELECT *, town AS ill, town AS x FROM records",
            "ill is computed from ill, town, so it must be identifier, got",
        ),
        (
            "SELECT _record, age, ill, ill AS b, b AS town FROM records",
            "town is computed from age, ill, town",
        ),
        ("SELECT *, #2 AS x FROM records", "x is computed from age, ill, town"),
        (
            "SELECT _record, age, town AS ill, ill AS town, town AS x FROM records",
            "town is computed from ill",
        ),
        ("SELECT _record, age, ill, town, town AS x FROM records r", "x is computed from age, ill, town"),
        ("SELECT * REPLACE (ill AS town), town AS x FROM records", "town is computed from age, ill, town"),
    ],
)
def test_a_step_of_the_release_gives_no_column_a_weaker_role(
    classes: Classes, source: Path, work: WorkArea, sql: str, expected: str
) -> None:
    classes(columns=COLUMNS)
    table = privacy_release.ingest(str(source), schema(), work)
    step, made = SqlStep(sql=sql, memory=1 << 28), schema(x=TOWN)
    if not expected:
        assert transform(table, work, step, schema=made).rows == 40
        return
    with pytest.raises(SpecError, match=expected):
        transform(table, work, step, schema=made)
    classes(columns=COLUMNS, made={"x": "insensitive"})
    with pytest.raises(VerificationError, match="were not checked against the classification"):
        transform(table, work, step, schema=made)


def test_a_second_step_does_not_undo_what_the_first_one_had_to_declare(
    classes: Classes, source: Path, work: WorkArea
) -> None:
    classes(columns=COLUMNS)
    table = privacy_release.ingest(str(source), schema(), work)
    first = SqlStep(sql="SELECT _record, age, ill, age AS town FROM records", memory=1 << 28)
    table = transform(table, work, first, schema=schema(town={**AGE}), label="first")
    second = SqlStep(sql="SELECT * FROM records", memory=1 << 28)
    numbers = {"role": "insensitive", "kind": "numeric"}
    with pytest.raises(
        SpecError, match="town is computed from town, so it must be identifier or quasi_identifier"
    ):
        transform(table, work, second, schema=schema(town=numbers), label="second")
    assert transform(table, work, second, schema=schema(town={**AGE}), label="third").rows == 40


def test_nothing_is_known_of_a_step_in_python(classes: Classes, source: Path, work: WorkArea) -> None:
    classes(columns=COLUMNS)
    table = privacy_release.ingest(str(source), schema(), work)
    step = FunctionStep(function=lambda records: records)
    with pytest.raises(SpecError, match="age is computed from age, ill, town, so it must be identifier, got"):
        transform(table, work, step)
    other = privacy_release.ingest(str(source), schema(), work, label="other")
    with pytest.raises(SpecError, match="town is computed from age, ill, town"):
        transform(table, work, SqlStep(sql="SELECT * FROM records", memory=1 << 28), others={"more": other})


def test_what_was_read_under_another_classification_is_not_published(
    classes: Classes, source: Path, work: WorkArea, lake: Lake
) -> None:
    policy = privacy_release.load_policy({"require": [{"model": "k_anonymity", "k": 2}]})

    def publish() -> None:
        staged = privacy_release.make_release(table, work, method="mondrian", parameters={"k": 2}, seed=1)
        privacy_release.publish_staged(
            staged, privacy_release.verify_staged(staged, policy), lake.table("people"), "r1"
        )

    table = privacy_release.ingest(str(source), schema(), work)
    classes(columns=COLUMNS)
    with pytest.raises(
        VerificationError, match=r"were not checked against the classification .*run the release again"
    ):
        publish()
    table = privacy_release.ingest(str(source), schema(), work, label="again")
    classes(columns=COLUMNS, unlisted="refuse")
    with pytest.raises(VerificationError, match="set or changed since"):
        publish()
    assert not (Path(lake.root) / "people").exists()
    table = privacy_release.ingest(str(source), schema(), work, label="third")
    publish()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("columns: {age: quasi}", "columns.age: the role must be one of"),
        ("columns: {age: {role: sensitive, sensitivity: high}}", "columns.age.sensitivity: is not known"),
        ("columns: {age: {kind: numeric}}", "columns.age: the role must be one of"),
        ("columns: [age]", "columns: must be a mapping"),
        ("\n\nunlisted: allow", "line 3: unlisted: must be refuse or author"),
        ("sauces: []", r"sauces: is not known; .*did you mean sources"),
        ("sources: [{address: /a, view: v}]", "sources.0: must have an address, or a connection and a view"),
        ("sources: [{connection: ward}]", "sources.0: must have an address, or a connection and a view"),
        ("sources: [{address: 1}]", "sources.0: must have an address, or a connection and a view"),
        ("sources: [/a]", "sources.0: must be a mapping"),
        ("sources: {address: /a}", "sources: must be a list"),
        ("", "must be a mapping"),
    ],
)
def test_a_classification_that_cannot_be_understood_stops_every_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, work: WorkArea, text: str, expected: str
) -> None:
    path = tmp_path / "classes.yaml"
    path.write_text(text)
    monkeypatch.setenv("PRIVACY_CLASSIFICATION", str(path))
    with pytest.raises(SpecError, match=rf"the classification .*{expected}.*nothing is released without it"):
        privacy_release.ingest(str(source), schema(), work)


def test_a_missing_file_or_a_relative_path_stops_every_release(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/nowhere/classes.yaml", "classes.yaml"):
        monkeypatch.setenv("PRIVACY_CLASSIFICATION", path)
        with pytest.raises(SpecError, match="nothing is released without it"):
            classification()
    monkeypatch.delenv("PRIVACY_CLASSIFICATION")
    assert classification() is None
    assert view_of("") is None
