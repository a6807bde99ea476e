"""Releases of several tables: from their sources to the lake, all or nothing, and what must not pass."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable

from privacy_engine.errors import IntegrityError, PublishError, SchemaError, SpecError, VerificationError
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.publish import publish
from privacy_release.lake.read import dictionary_of, manifest_of, read_release, read_tables, releases
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.query.answer import answer
from privacy_release.running.run import run_release
from privacy_release.spec.check import check_files
from privacy_release.spec.files import load_policy
from privacy_release.spec.model import load_spec
from privacy_release.steps.ingest import TableSource, ingest_tables
from privacy_release.steps.outliers import detect_outliers
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.release import make_release
from privacy_release.steps.validate import validate
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.references import StagedRelease, Table
from tests.children.fault_points import arm, crashed
from tests.clinic_release import POLICY, REST, TABLES, clinic_spec, files_in, written
from tests.several_tables import clinic, recounted

RULES = load_policy(yaml.safe_load(POLICY))
OWN = {"patients": ["age", "district"], "visits": ["month", "ward", "age"]}


def ingested(folder: Path, work: WorkArea) -> Table:
    spec = clinic_spec(folder)
    assert spec.tables is not None
    sources = {name: TableSource(uri=own.source.uri, nulls="keep") for name, own in spec.tables.items()}
    return ingest_tables(sources, spec.data_schema(), work)


@pytest.fixture
def table(tmp_path: Path, work: WorkArea) -> Table:
    return ingested(tmp_path, work)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StagedRelease, StagedRelease]]:
    """Two releases of one work area, which no test changes."""
    folder, parameters = tmp_path_factory.mktemp("clinic"), {"k": 4, "l": 2}
    with WorkArea(folder / "work", "clinic/run") as work:
        table = ingested(folder, work)
        first, second = (
            make_release(
                table,
                work,
                method="bottom_up",
                parameters=parameters,
                seed=seed,
                label=f"{seed}",
                title="clinic",
            )
            for seed in (7, 8)
        )
        yield first, second


@pytest.fixture(scope="module")
def made(both: tuple[StagedRelease, StagedRelease]) -> StagedRelease:
    return both[0]


def test_the_tables_reach_the_lake_as_one_release(tmp_path: Path, lake: Lake, work: WorkArea) -> None:
    outcome = run_release(clinic_spec(tmp_path), lake, "r1", work)
    rows = read_release(lake.table("clinic"), "r1").to_pandas()
    found = recounted(rows, OWN, {"visits": "illness"})
    findings = {f["rule"]: f["measured"] for f in outcome.report.findings}
    assert findings["k_anonymity(k=4)"] == min(reported["k"] for reported in found) >= 4
    least = min(reported["visits"] for reported in found if "visits" in reported)
    assert findings["distinct_l_diversity(l=2)"] == least >= 2
    assert outcome.report.classes == len(found)
    tables = read_tables(lake.table("clinic"), "r1")
    ages, months = ["age_from", "age_to", "age_null"], ["month_from", "month_to", "month_null"]
    assert tables["patients"].column_names == ["patient", *ages, "district", "insurer"]
    assert tables["visits"].column_names == ["patient", *months, "ward", "illness", *ages]
    manifest = manifest_of(lake.table("clinic"), "r1")
    assert {name: own.num_rows for name, own in tables.items()} == {
        name: reported["rows"] for name, reported in manifest["tables"].items()
    }
    assert not set(rows["patient"]) & set(clinic()["visits"]["patient"])
    assert manifest["sha256"] == outcome.report.sha256
    assert set(manifest["source"]["tables"]) == {"patients", "visits"}
    assert "uri" not in json.dumps(manifest["source"])
    reported = dictionary_of(lake.table("clinic"), "r1")
    assert reported is not None
    assert {name: set(own) for name, own in reported["tables"].items()} == {
        "patients": {"patient", *ages, "district", "insurer"},
        "visits": {"patient", *months, "ward", "illness", *ages},
    }
    columns = {column["name"]: column for column in reported["columns"]}
    assert (columns["patient"]["form"], columns["patient"]["null"]) == ("pseudonym", "never null")
    assert all("of another table" in columns[name]["null"] for name in ("month_from", "ward", "insurer"))


def test_the_classes_of_the_released_bytes_can_be_counted_in_sql(made: StagedRelease) -> None:
    counted = duckdb.sql(
        f"""
        SELECT min(persons), count(*) FROM (
            SELECT count(*) AS persons FROM (
                SELECT patient, list_sort(list((
                    table_name, age_from, age_to, district, month_from, month_to, ward
                ))) AS way
                FROM read_parquet('{made.uri}') GROUP BY patient
            ) GROUP BY way
        )
        """
    ).fetchall()
    assert counted[0][0] >= 4
    assert counted[0][1] == json.loads(Path(made.manifest).read_bytes())["classes"]


def test_a_person_has_one_number_in_all_tables_and_no_identifier_is_copied(
    table: Table, work: WorkArea
) -> None:
    rows, source = pq.read_table(table.uri).to_pandas(), clinic()
    by_name = {}
    for name in ("patients", "visits"):
        reported = rows.loc[rows["table_name"] == name, "patient"].to_numpy()
        for person, number in zip(source[name]["patient"], reported, strict=True):
            assert by_name.setdefault(person, number) == number
    assert len(set(by_name.values())) == len(by_name)
    assert not list(work.folder.glob("ingest.*s.parquet"))
    assert table.rows == len(rows) == sum(map(len, source.values()))


def test_no_identifier_is_in_any_file_of_a_release(tmp_path: Path, work: WorkArea, lake: Lake) -> None:
    spec = clinic_spec(tmp_path)
    files_in(tmp_path, {name: t.assign(patient="canary-" + t["patient"]) for name, t in clinic().items()})
    run_release(spec, lake, "r1", work)
    files = [path for root in (work.folder, tmp_path / "lake") for path in root.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        text = pd.read_parquet(path).to_csv() if path.suffix == ".parquet" else path.read_text()
        assert "canary" not in text


def test_the_person_may_have_another_name_in_a_table(tmp_path: Path, lake: Lake, work: WorkArea) -> None:
    text = TABLES.replace("    schema:\n      patient:", "    person: Id\n    schema:\n      Id:     ", 1)
    spec = clinic_spec(tmp_path, text + REST)
    source = pd.read_parquet(tmp_path / "patients.parquet").rename(columns={"patient": "Id"})
    source.to_parquet(tmp_path / "patients.parquet", index=False)
    run_release(spec, lake, "r1", work)
    persons = {n: set(t["patient"].to_pylist()) for n, t in read_tables(lake.table("clinic"), "r1").items()}
    assert len(persons["patients"] & persons["visits"]) > 20


def test_the_report_names_the_tables(made: StagedRelease) -> None:
    text = Path(made.report).read_text()
    for words in ("Several tables are one release", "patients: age", "visits: month", "table visits"):
        assert words in text
    assert "visits: age" not in text  # it is carried, and not a separate cell


# What must not pass


def with_records(staged: StagedRelease, frame: pd.DataFrame, folder: Path) -> StagedRelease:
    """Other bytes in the place of the staged ones, with all hashes set right."""
    sha256 = write_private(path := folder / "other.parquet", parquet_bytes(frame))
    people = replace(staged.people, of=sha256)
    return replace(staged, uri=str(path), sha256=sha256, people=people)


def test_a_cell_of_one_visit_changed_fails(tmp_path: Path, made: StagedRelease) -> None:
    frame = pd.read_parquet(made.uri)
    frame.loc[frame.index[-1], "ward"] = "{a, b, c, d}"
    report = verify_staged(with_records(made, frame, tmp_path), RULES)
    assert not report.passed
    assert report.findings[0]["measured"] == 1


def test_a_value_in_a_row_of_another_table_fails(tmp_path: Path, made: StagedRelease) -> None:
    frame = pd.read_parquet(made.uri)
    frame.loc[0, "illness"] = "a"
    with pytest.raises(VerificationError, match=r"patients does not have the columns \['illness'\]"):
        verify_staged(with_records(made, frame, tmp_path), RULES)


def test_a_visit_of_another_pseudonym_fails(tmp_path: Path, made: StagedRelease) -> None:
    frame = pd.read_parquet(made.uri)
    frame.loc[frame.index[-1], "patient"] = frame["patient"].iloc[0]
    with pytest.raises(VerificationError, match="one pseudonym for each person"):
        verify_staged(with_records(made, frame, tmp_path), RULES)


def test_bytes_that_changed_after_the_verification_are_not_published(
    tmp_path: Path, made: StagedRelease, lake: Lake
) -> None:
    staged = with_records(made, frame := pd.read_parquet(made.uri), tmp_path)
    report = verify_staged(staged, RULES)
    write_private(Path(staged.uri), parquet_bytes(frame.iloc[1:]))
    with pytest.raises(IntegrityError):
        publish_staged(staged, report, lake.table("clinic"), "r1")
    assert releases(lake.table("clinic")) == []


def test_fragments_and_methods_without_classes_are_refused(table: Table, work: WorkArea) -> None:
    engine = read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1})
    with pytest.raises(SpecError, match="cannot be linked with engine fragments"):
        make_release(table, work, method="mondrian", parameters={"k": 4}, engine=engine)
    for method in ("errph", "latent_class"):
        with pytest.raises(SpecError, match="which make no classes"):
            make_release(table, work, method=method)


def test_steps_of_one_table_refuse_several(table: Table, work: WorkArea) -> None:
    with pytest.raises(SpecError, match="outliers are searched in one table"):
        detect_outliers(table, work)
    suite = {"name": "any", "expectations": []}
    for name in (None, "stays"):
        with pytest.raises(SpecError, match=r"one of the tables \['patients', 'visits'\]"):
            validate(table, suite, name)


def test_each_table_is_validated_by_its_own_rows(table: Table) -> None:
    rows = {"type": "expect_table_row_count_to_be_between", "severity": "critical"}
    many = len(clinic()["patients"])
    suite = {"name": "s", "expectations": [rows | {"kwargs": {"min_value": many, "max_value": many}}]}
    assert validate(table, suite, "patients")["passed"] == 1
    with pytest.raises(SchemaError, match="row_count"):
        validate(table, suite, "visits")
    null = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "month"}}
    validate(table, {"name": "s", "expectations": [null | {"severity": "critical"}]}, "visits")


def test_a_source_that_does_not_fit_is_refused_by_table_and_nothing_stays(
    tmp_path: Path, work: WorkArea
) -> None:
    spec = clinic_spec(tmp_path)
    tables = clinic()
    tables["visits"].loc[[0, 1], "month"] = 99
    files_in(tmp_path, tables)
    with pytest.raises(SchemaError, match=r"table visits: .*month: 2 values are out of the bounds"):
        run_release(spec, Lake(root=str(tmp_path / "lake")), "r1", work)
    tables["visits"] = tables["visits"].drop(columns="ward")
    files_in(tmp_path, tables)
    with pytest.raises(SchemaError, match=r"table visits: .*'ward'"):
        run_release(spec, Lake(root=str(tmp_path / "lake")), "r1", work)
    assert not (tmp_path / "lake").exists()


def test_columns_of_one_name_and_two_types_are_refused(tmp_path: Path, work: WorkArea) -> None:
    text = TABLES.replace(
        "month:    {role", "insurer:  {role: insensitive, kind: categorical}\n      month:    {role"
    )
    spec = clinic_spec(tmp_path, text + REST)
    tables = clinic()
    tables["visits"]["insurer"] = 1
    files_in(tmp_path, tables)
    with pytest.raises(SchemaError, match="'insurer' must have one type in all tables"):
        run_release(spec, Lake(root=str(tmp_path / "lake")), "r1", work)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REST + "source: {uri: a}\n", "a separate source, schema"),
        (REST + "history: {identifier: patient}\n", "combined with history"),
        (REST + "outliers: {method: okplof}\n", "combined with outliers"),
        (REST + "budget: {dataset: people}\n", "combined with a budget"),
        (REST + "engine: fragments\n", "engine local"),
        (REST.replace("bottom_up, k: 4, l: 2", "latent_class, epsilon: 1"), "by an anonymizer"),
        (REST.replace("person: patient", "person: {column: patient, rows: independent}"), "must be linked"),
        (REST.replace("person: patient", "person: {none: households}"), "must share a person"),
        (REST.replace("person: patient", ""), "must share a person"),
        (REST.replace("person: patient", "person: age"), "role identifier"),
    ],
)
def test_what_does_not_stand_beside_tables_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec(written(tmp_path, TABLES + text))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("carry: [age]", "carry: [illness]"), "already has it"),
        (("carry: [age]", "carry: [insurer]"), "must be a quasi-identifier of one other"),
        (("ward:  ", "age:   "), "age"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec(written(tmp_path, TABLES.replace(*change) + REST)).data_schema()


def test_one_table_is_not_several_and_none_is_missing(tmp_path: Path) -> None:
    first = TABLES.split("  visits:")[0]
    with pytest.raises(SpecError, match="tables"):
        load_spec(written(tmp_path, first + REST))
    with pytest.raises(SpecError, match="source: is missing; add it, or describe several tables"):
        load_spec(written(tmp_path, REST))


def test_pseudonyms_must_be_allowed_by_the_policy(tmp_path: Path) -> None:
    spec = clinic_spec(tmp_path)
    check_files(spec, None)
    (tmp_path / "policy.yaml").write_text("require: [{model: k_anonymity, k: 4}]\npseudonyms: forbid\n")
    with pytest.raises(SpecError, match=r"pseudonyms of \['patient'\]"):
        check_files(spec, None)


# All or nothing


def send(lake: Lake, staged: StagedRelease, run: str) -> Any:
    report = verify_staged(staged, RULES)
    return publish_staged(staged, report, lake.table("clinic"), "r", run_key=run)


def publish_alone(lake: Lake, staged: StagedRelease, run: str) -> None:
    """Publish the staged files, without the steps around it."""
    manifest = json.loads(Path(staged.manifest).read_bytes())
    files, digest = Path(staged.uri), staged.sha256
    publish(
        lake.table("clinic"),
        "r",
        files,
        manifest,
        Path(staged.report),
        expected_sha256=digest,
        run_key=run,
    )


def shown(lake: Lake) -> dict[str, set[str]]:
    """The pseudonyms in each table, as our reader tells, and any Delta client that knows nothing of us."""
    fields = {
        name: set(own["patient"].to_pylist()) for name, own in read_tables(lake.table("clinic"), "r").items()
    }
    plain = DeltaTable(lake.table("clinic").address).to_pandas()
    assert fields == {name: set(own["patient"]) for name, own in plain.groupby("table_name")}
    return fields


def pseudonyms(staged: StagedRelease) -> dict[str, set[str]]:
    frame = pd.read_parquet(staged.uri)
    return {str(name): set(own["patient"]) for name, own in frame.groupby("table_name")}


@pytest.mark.quick("between_proofs", "after_commit")  # `lake/test_publish` has each point for one table
@pytest.mark.parametrize("point", ["between_proofs", "before_commit", "data_on_disk", "after_commit"])
def test_a_crash_leaves_all_old_tables_or_all_new_ones_and_a_retry_publishes_once(
    both: tuple[StagedRelease, StagedRelease], lake: Lake, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = both
    send(lake, old, "run 1")
    crashed(monkeypatch, point, publish_alone, lake, new, "run 2")
    assert shown(lake) == pseudonyms(new if point == "after_commit" else old)
    done = send(lake, new, "run 2")
    assert done.already == (point == "after_commit")
    assert shown(lake) == pseudonyms(new)
    assert [entry["state"] for entry in releases(lake.table("clinic"))] == ["superseded", "current"]


def test_racing_publishers_leave_the_tables_of_the_last_one(
    both: tuple[StagedRelease, StagedRelease], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(lake, both[0], "run 0")
    arm("before_commit", lambda: publish_alone(lake, both[0], "run 1"), monkeypatch.setattr)
    publish_alone(lake, both[1], "run 2")
    assert shown(lake) == pseudonyms(both[1])
    assert [e["state"] for e in releases(lake.table("clinic"))] == ["superseded", "superseded", "current"]


def test_a_retraction_takes_all_tables_back(made: StagedRelease, lake: Lake, tmp_path: Path) -> None:
    send(lake, made, "run 1")
    retract(lake.table("clinic"), "r", "wrong source")
    with pytest.raises(PublishError, match="retracted"):
        read_tables(lake.table("clinic"), "r")
    assert len(DeltaTable(lake.table("clinic").address).to_pandas()) == 0
    assert not list((tmp_path / "lake" / "clinic").rglob("*.parquet"))


def test_a_release_of_one_table_has_no_tables(home: Path, lake: Lake, work: WorkArea) -> None:
    run_release(load_spec(home / "releases" / "people.yaml"), lake, "r", work)
    with pytest.raises(PublishError, match="of one table"):
        read_tables(lake.table("people"), "r")


def test_the_tables_are_queried_by_their_name(made: StagedRelease, lake: Lake) -> None:
    send(lake, made, "run 1")
    statement = "SELECT table_name, count(*) AS n FROM clinic GROUP BY table_name ORDER BY table_name"
    reported = answer(lake, statement)
    expected = [(name, own.num_rows) for name, own in sorted(read_tables(lake.table("clinic"), "r").items())]
    assert [tuple(row.values()) for row in reported.rows.to_pylist()] == expected


def test_the_command_line_runs_checks_and_verifies_it(
    tmp_path: Path, lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    spec = written(tmp_path)
    assert main(["check", str(spec)]) == DONE
    assert main(["run", str(spec), "--lake", lake.root, "--release-id", "r1"]) == DONE
    capsys.readouterr()
    rows = read_release(lake.table("clinic"), "r1")
    pq.write_table(rows, tmp_path / "copy.parquet")
    policy = tmp_path / "asked.yaml"
    policy.write_text("require: [{model: k_anonymity, k: 4}, {model: distinct_l_diversity, l: 2}]\n")
    report = ["verify", str(tmp_path / "copy.parquet"), "--policy", str(policy), "--schema", str(spec)]
    assert main(report) == DONE
    pq.write_table(rows.slice(1), tmp_path / "copy.parquet")
    assert main(report) == REFUSED
    assert "FAILED    k_anonymity(k=4)" in capsys.readouterr().out
