"""A release of a structure file, from the specification to readers, without a source."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import privacy_release
from privacy_engine.errors import PrivacyEngineError, ProblemsError, VerificationError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import ReleaseKind
from privacy_release.checking.rules import CheckRules
from privacy_release.checking.specification import check_specification
from privacy_release.lake.store import Lake
from privacy_release.running import preparing
from privacy_release.running.run import Outcome, run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.invent import invent
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import raise_if_failed
from privacy_release.workarea.area import WorkArea, sha256_file
from tests import clinic_release, tables

ONE_TABLE: Mapping[str, Any] = {
    "schedule": None,
    "expectations": None,
    "schema": tables.fields(**tables.PUBLIC, visits={"bounds": [0, 8]}),
}
LIKE = {"method": "mondrian", "k": 5, "l": 2}
STRUCTURE = {"method": "structure", "rows": 200, "like": LIKE}
NOWHERE = {"uri": "nowhere.parquet", "columns": list(tables.FIELDS), "nulls": "fail"}
Run = Callable[..., Outcome]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(root=str(tmp_path / "lake"))


def specification(folder: Path, rules: Mapping[str, Any] | None = None, **changes: Any) -> ReleaseSpec:
    """The release `people` in a separate include folder."""
    tables.write_home(folder, None, rules, **{**ONE_TABLE, **changes})
    return load_spec(folder / "releases" / "people.yaml")


def run(spec: ReleaseSpec, lake: Lake, folder: Path, name: str = "r1") -> Outcome:
    with WorkArea(folder / "work", name) as work:
        return run_release(spec, lake, name, work)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any step that reads a source fails."""

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("a source was opened")

    for name in ("ingested", "ingest_tables", "await_source", "validated", "searched"):
        monkeypatch.setattr(preparing, name, fail)
    monkeypatch.setattr("privacy_release.sources.addresses.find_source", fail)


def test_it_is_made_verified_and_published_without_a_source(tmp_path: Path, lake: Lake, closed: None) -> None:
    spec = specification(tmp_path / "home", release=STRUCTURE, source=NOWHERE)
    outcome = run(spec, lake, tmp_path)
    rules = {finding["rule"]: finding for finding in outcome.report.findings}
    assert outcome.report.passed
    assert rules["k_anonymity(k=5)"]["note"].startswith("Not applicable")
    assert rules["max_gcp"]["measured"] is None
    assert rules["max_epsilon"]["measured"] == 0
    assert rules["structure: the records follow from schema, parameters and seed"]["measured"] == 1
    assert outcome.report.policy["require"][0] == {"model": "k_anonymity", "k": 5}  # that of the file
    manifest = privacy_release.manifest_of(lake.table("people"), "r1")
    assert manifest["loss"] == {"epsilon": 0.0, "delta": 0.0, "neighbours": "replace_one"}
    assert "booking" not in manifest
    assert (manifest["rows"], manifest["suppressed"], manifest["classes"]) == (200, 0, None)
    assert "nowhere" not in json.dumps(manifest)


def test_a_check_reads_no_source_and_finds_nothing(tmp_path: Path, lake: Lake, closed: None) -> None:
    specification(tmp_path / "home", release=STRUCTURE, source=NOWHERE)
    rules = CheckRules(floor=None, lake=lambda: lake, area=lambda name: WorkArea(tmp_path / "work", name))
    answer = check_specification(tmp_path / "home" / "releases" / "people.yaml", rules)
    assert (answer.problems, answer.read) == ((), True)


def test_the_dictionary_is_that_of_the_release_that_it_shows(tmp_path: Path) -> None:
    described = []
    for name, release in (("structure", STRUCTURE), ("anonymized", LIKE)):
        lake = Lake(root=str(tmp_path / name / "lake"))
        spec = specification(tmp_path / name / "home", release=release)
        run(spec, lake, tmp_path / name)
        columns = privacy_release.dictionary(str(lake.root), "people")["columns"]
        counts = ("changed", "changed_hidden")  # how many cells were generalized is counted on the release
        described.append([{k: v for k, v in column.items() if k not in counts} for column in columns])
    assert described[0] == described[1]


QUESTION = """
SELECT zip, count(*) AS records, avg((age_from + age_to) / 2) AS age, max(visits) AS visits
FROM people WHERE illness = 'flu' AND age_from >= 20 GROUP BY zip ORDER BY zip
"""


def test_code_that_was_written_with_it_runs_unchanged_on_the_release(tmp_path: Path) -> None:
    results = []
    for name, release in (("structure", STRUCTURE), ("anonymized", LIKE)):
        lake = Lake(root=str(tmp_path / name / "lake"))
        run(specification(tmp_path / name / "home", release=release), lake, tmp_path / name)
        people = privacy_release.read(str(lake.root), "people", quiet=True)
        by_sql = duckdb.sql(QUESTION).df()
        frame: pd.DataFrame = people.to_pandas()
        chosen = frame[(frame["illness"] == "flu") & (frame["age_from"] >= 20)]
        counts = chosen.groupby("zip").size()
        assert by_sql.set_index("zip")["records"].to_dict() == counts.to_dict()
        results.append((people.schema.remove_metadata(), by_sql.dtypes.to_dict(), len(by_sql) > 0))
    assert results[0] == results[1]


def test_several_tables_share_invented_persons(tmp_path: Path, lake: Lake, closed: None) -> None:
    text = clinic_release.TABLES
    for role, values in (("insensitive", "[a, b]"), ("sensitive", "[flu, gout]")):
        kind = f"role: {role}, kind: categorical"
        text = text.replace(kind, f"{kind}, categories: {values}")
    rest = clinic_release.REST.replace(
        "release: {method: bottom_up, k: 4, l: 2, seed: 7}",
        "release: {method: structure, rows: 120, like: {method: bottom_up, k: 4, l: 2}}",
    )
    path = clinic_release.written(tmp_path, text + rest)
    for name in ("patients", "visits"):
        (tmp_path / f"{name}.parquet").unlink()
    run(load_spec(path), lake, tmp_path)
    records = privacy_release.read(str(lake.root), "clinic", quiet=True).to_pandas()
    persons = {name: set(own["patient"]) for name, own in records.groupby("table_name")}
    assert persons["patients"] & persons["visits"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"expectations": "expectations/people.json"},
            "expectations cannot be combined with",
        ),
        ({"history": {"identifier": "name", "key": "keys"}}, "history cannot be combined"),
        ({"budget": {"dataset": "people"}}, "budget cannot be combined"),
        ({"outliers": {"method": "lof"}}, "outliers cannot be combined"),
        ({"engine": "fragments"}, "engine cannot be combined"),
        ({"schema": tables.fields()}, r"does not list the values of \['illness', 'visits'\]"),
        ({"release": {**STRUCTURE, "like": {"method": "trr"}}}, "like must have a method"),
    ],
)
def test_what_it_cannot_be_is_refused_before_anything_is_made(
    changes: dict[str, Any], words: str, tmp_path: Path, lake: Lake, closed: None
) -> None:
    fields = {"release": STRUCTURE, "source": NOWHERE, **changes}
    with pytest.raises(PrivacyEngineError, match=words):
        run(specification(tmp_path / "home", **fields), lake, tmp_path)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    ("kinds", "release", "allowed"),
    [
        (["structure"], STRUCTURE, True),
        (["structure", "synthetic"], STRUCTURE, True),
        (["structure", "synthetic"], LIKE, False),
        (["anonymized"], STRUCTURE, False),
    ],
)
def test_a_policy_allows_kinds(
    kinds: list[str], release: dict[str, Any], allowed: bool, tmp_path: Path, lake: Lake
) -> None:
    rules = {"kinds": kinds} if kinds == ["structure"] else tables.policy() | {"kinds": kinds}
    spec = specification(tmp_path / "home", rules, release=release)
    if allowed:
        assert run(spec, lake, tmp_path).report.passed
        return
    with pytest.raises(ProblemsError, match=r"policy allows .* releases, got a method for"):
        run(spec, lake, tmp_path)


def test_records_of_people_under_a_loss_of_zero_are_refused(tmp_path: Path) -> None:
    """The slip that voids the claim: a release of records that says that it is a structure file."""
    schema = tables.schema(**tables.PUBLIC, visits={"bounds": [0, 8]})
    policy = ReleasePolicy.from_dict({"kinds": [ReleaseKind.STRUCTURE.value]})
    with WorkArea(tmp_path, "run") as work:
        made, other = (
            make_release(
                invent(schema, work),
                work,
                method="structure",
                parameters={"rows": 50},
                seed=seed,
                label=label,
            )
            for seed, label in ((0, "staged"), (1, "other"))
        )
        assert privacy_release.verify_staged(made, policy).passed
        frame, path = pd.read_parquet(made.uri), work.path("people.parquet")
        frame.assign(illness=tables.people(50)["illness"]).to_parquet(path)
        wrong = [
            replace(made, uri=other.uri, sha256=other.sha256),
            replace(made, uri=str(path), sha256=sha256_file(path)),
            replace(made, method="mondrian"),
        ]
        for release in wrong:
            report = privacy_release.verify_staged(release, policy)
            with pytest.raises(VerificationError, match="follow from schema, parameters and seed"):
                raise_if_failed(report)
