"""The shipped hierarchies, expectations, policies and releases: true, whole and fitting together."""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from deploy.local.samples.adult import COLUMNS
from deploy.local.samples.customers import branch_visits, delivery
from deploy.local.samples.files import VISITORS
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine.registry import detector_names, is_randomizer, method_names
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.spec.files import load_policy
from privacy_release.spec.model import load_spec
from privacy_release.spec.outliers import Action

INCLUDE = Path(__file__).parents[3] / "include"
HIERARCHIES = sorted((INCLUDE / "hierarchies").rglob("*.csv"))
OF_ADULT = [path for path in HIERARCHIES if path.parent.name == "adult"]
POLICIES = sorted((INCLUDE / "policies").glob("*.yaml"))
RELEASES = sorted((INCLUDE / "releases").rglob("*.yaml"))
SUITES = sorted((INCLUDE / "expectations").glob("*.json"))
NEEDS_DATA = pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="needs the folder PRIVACY_DATA")


def rows_of(path: Path) -> list[list[str]]:
    return [line.split(";") for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def load(path: Path) -> dict[str, Any]:
    """The content of a file, for reading only."""
    text = path.read_text(encoding="utf-8")
    return dict(json.loads(text) if path.suffix == ".json" else yaml.safe_load(text))


@cache
def hierarchy(name: str) -> Hierarchy:
    return Hierarchy.from_csv((INCLUDE / name).read_text(encoding="utf-8"))


def schema_of(release: dict[str, Any]) -> DataSchema:
    names = {fields["hierarchy"] for fields in release["schema"].values() if "hierarchy" in fields}
    trees = {name: hierarchy(name) for name in names}
    return DataSchema.from_dict(release["schema"], trees)


def partitions(rows: list[list[str]]) -> list[set[frozenset[str]]]:
    """The groups of values at each level, whatever their labels and order: the shape of a tree."""
    levels: list[dict[str, set[str]]] = [
        {label: set() for label in column} for column in zip(*rows, strict=True)
    ]
    for row in rows:
        for groups, label in zip(levels, row, strict=True):
            groups[label].add(row[0])
    return [set(map(frozenset, groups.values())) for groups in levels]


def ingested(table: pd.DataFrame, release: dict[str, Any]) -> pd.DataFrame:
    return table[release["source"]["columns"]].dropna().reset_index(drop=True)


def generated() -> pd.DataFrame:
    return synthetic_adult(5_000, rng=np.random.default_rng(2))


def real() -> pd.DataFrame:
    return pd.read_parquet(Path(os.environ["PRIVACY_DATA"]) / "adult.parquet")


SOURCES = [pytest.param(generated, id="generated"), pytest.param(real, id="real", marks=NEEDS_DATA)]


@pytest.mark.parametrize("path", HIERARCHIES, ids=lambda p: p.stem)
def test_hierarchy_is_rectangular_with_unique_leaves_and_one_root(path: Path) -> None:
    rows = rows_of(path)
    assert len({len(row) for row in rows}) == 1
    assert len({row[0] for row in rows}) == len(rows)
    assert {row[-1] for row in rows} == {"*"}
    assert all(cell and cell == cell.strip() for row in rows for cell in row)


@pytest.mark.parametrize("path", HIERARCHIES, ids=lambda p: p.stem)
def test_hierarchy_levels_nest(path: Path) -> None:
    rows = rows_of(path)
    for level in range(len(rows[0]) - 1):
        parents: dict[str, set[str]] = {}
        for row in rows:
            parents.setdefault(row[level], set()).add(row[level + 1])
        assert all(len(above) == 1 for above in parents.values())


@pytest.mark.parametrize("path", HIERARCHIES, ids=lambda p: p.stem)
def test_hierarchy_survives_the_engine_unchanged(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert Hierarchy.from_csv(text).to_csv() == text


def test_every_age_label_covers_its_age() -> None:
    rows = rows_of(INCLUDE / "hierarchies" / "adult" / "age.csv")
    assert [int(row[0]) for row in rows] == list(range(126))
    for age, *labels, _ in rows:
        for label in labels:
            bounds = re.fullmatch(r"(\d+)-(\d+)", label)
            assert bounds is not None
            assert int(bounds[1]) <= int(age) <= int(bounds[2])


@pytest.mark.parametrize(("width", "level"), [(5, 1), (10, 2), (20, 3)])
def test_age_groups_start_at_multiples_of_their_width(width: int, level: int) -> None:
    rows = rows_of(INCLUDE / "hierarchies" / "adult" / "age.csv")
    assert all(row[level].split("-")[0] == str(int(row[0]) // width * width) for row in rows)


@NEEDS_DATA
@pytest.mark.parametrize(
    "path", [p for p in OF_ADULT if p.stem not in ("age", "relationship")], ids=lambda p: p.stem
)
def test_categorical_trees_have_the_shape_of_the_reference_ones(path: Path) -> None:
    reference = Path(os.environ["PRIVACY_DATA"]) / "hierarchies" / "adult" / path.name
    assert partitions(rows_of(path)) == partitions(rows_of(reference))


@NEEDS_DATA
@pytest.mark.parametrize("path", OF_ADULT, ids=lambda p: p.stem)
def test_hierarchy_misses_no_value_of_the_real_table(path: Path) -> None:
    assert set(real()[path.stem].dropna().astype(str)) <= {row[0] for row in rows_of(path)}


@pytest.mark.parametrize("path", RELEASES, ids=lambda p: p.stem)
def test_release_is_named_after_its_file_and_points_to_files_that_exist(path: Path) -> None:
    release = load(path)
    assert release["name"] == path.stem == release["publish"]["table"]
    tables = list(release.get("tables", {"": release}).values())
    files = [release["policy"], *(table["expectations"] for table in tables if "expectations" in table)]
    assert all((INCLUDE / file).is_file() for file in files)
    assert all(list(schema_of(table).names) == table["source"]["columns"] for table in tables)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("path", [p for p in RELEASES if p.stem.startswith("adult")], ids=lambda p: p.stem)
def test_release_schema_accepts_the_sample_table(path: Path, source: Any) -> None:
    release = load(path)
    assert release["source"]["uri"] in (
        "../data/samples/adult.parquet",
        "../data/samples/adult_weeks/{release}.parquet",
    )
    schema_of(release).check(ingested(source(), release))


@pytest.mark.parametrize("path", [p for p in RELEASES if p.stem.startswith("bank")], ids=lambda p: p.stem)
def test_release_schema_accepts_the_simulated_customers_of_every_delivery(path: Path) -> None:
    release = load(path)
    assert release["source"]["uri"] in (
        "../data/samples/bank_customers/{release}.parquet",
        "../data/samples/bank_customers_test.parquet",
    )
    for text in (None, "2026-01-05", "2026-01-12"):
        schema_of(release).check(ingested(delivery(2_000, text), release))


def test_the_visits_to_branches_fit_their_schema_and_meet_their_expectations() -> None:
    release = load(INCLUDE / "releases" / "branch_visits_weekly.yaml")
    table = ingested(branch_visits(VISITORS, "2026-01-05"), release)
    schema_of(release).check(table)
    held = validate(table, load(INCLUDE / release["expectations"]))
    assert [name for name, ok in held.items() if not ok] == []


def test_releases_show_each_kind_of_schedule() -> None:
    given = [load(path).get("schedule", "by hand") for path in RELEASES]
    kinds = {s if isinstance(s, str) else next(iter(s)) for s in given}
    assert kinds == {"@weekly", "asset", "partitions", "by hand"}


def test_asset_schedules_name_a_shipped_release() -> None:
    names = {path.stem for path in RELEASES}
    given = [load(path).get("schedule", "") for path in RELEASES]
    awaited = [schedule["asset"] for schedule in given if "asset" in schedule]
    assert awaited
    assert set(awaited) <= names


@pytest.mark.parametrize("path", RELEASES, ids=lambda p: p.stem)
def test_method_asks_for_no_less_than_its_policy_requires(path: Path) -> None:
    release = load(path)
    required = load(INCLUDE / release["policy"]).get("require", [])
    for model in required:
        for parameter in {"k", "l"} & set(model):
            assert release["release"][parameter] >= model[parameter]
        assert model.get("attribute", "occupation") == "occupation"


@pytest.mark.parametrize("path", RELEASES, ids=lambda p: p.stem)
def test_a_release_that_spends_a_budget_has_public_domains_and_bounds_what_it_spends(path: Path) -> None:
    release = load(path)
    if "budget" not in release:
        assert "max_epsilon" not in load(INCLUDE / release["policy"])
        return
    released = schema_of(release).without_identifiers().attributes
    assert all(attribute.has_public_domain for attribute in released)
    limit = load_policy(INCLUDE / release["policy"])
    spent = load_spec(path).release.parameters
    assert limit.max_epsilon is not None
    assert limit.max_epsilon >= spent["epsilon"]
    assert (limit.max_delta or 0) >= spent.get("delta", 0)


def test_scheduled_releases_of_random_answers_are_memoised_and_name_a_secret() -> None:
    random = [r for path in RELEASES if is_randomizer((r := load(path))["release"]["method"])]
    assert {r["release"]["method"] for r in random} == {"errph", "trr"}
    assert all(
        r["release"]["randomness"] == "memoised" and r["release"]["secret"] for r in random if "schedule" in r
    )


def test_answers_without_a_claim_are_about_no_one_whose_answers_have_one() -> None:
    random = [r for path in RELEASES if is_randomizer((r := load(path))["release"]["method"])]
    claimed, others = (
        {r["source"]["uri"] for r in random if ("budget" in r) is has} for has in (True, False)
    )
    assert claimed.isdisjoint(others)


# Why no outliers are looked for, in words of the file.
WITHOUT_OUTLIERS = {
    "adult_fragments": "the search would hold the whole table in memory",
    "clinic_tables": "the search takes one table",
}


@pytest.mark.parametrize("path", RELEASES, ids=lambda p: p.stem)
def test_every_release_is_validated_and_looked_through_for_outliers_or_says_why_not(path: Path) -> None:
    spec = load_spec(path)
    suites = [table.suite() for table in (spec.tables or {}).values()] or [spec.expectation_suite()]
    if not spec.reads_records:
        assert (suites, spec.outliers) == ([None], None)
        return
    assert all(suite and suite["expectations"] for suite in suites)
    if path.stem in WITHOUT_OUTLIERS:
        assert spec.outliers is None
        assert f"# No outliers: {WITHOUT_OUTLIERS[path.stem]}" in path.read_text(encoding="utf-8")
        return
    assert spec.outliers is not None
    if spec.budget is not None:  # taking records out is what epsilon does not cover
        assert spec.outliers.action is Action.REPORT


def test_every_method_of_a_paper_and_every_detector_is_in_a_release() -> None:
    releases = [load(path) for path in RELEASES]
    assert set(method_names()) - {release["release"]["method"] for release in releases} == {"local_laplace"}
    found = [release["outliers"] for release in releases if "outliers" in release]
    assert {outliers["method"] for outliers in found} == set(detector_names())
    assert "set_aside" in {outliers["action"] for outliers in found}


def test_external_policy_is_stricter_than_internal() -> None:
    def thresholds(name: str) -> dict[str, int]:
        models = load(INCLUDE / "policies" / name)["require"]
        return {key: model[key] for model in models for key in ("k", "l") if key in model}

    external, internal = thresholds("external.yaml"), thresholds("internal.yaml")
    assert external.keys() == internal.keys()
    assert all(external[key] > internal[key] for key in external)


@pytest.mark.parametrize("path", POLICIES, ids=lambda p: p.stem)
def test_policy_is_read_by_the_engine_and_its_limits_can_bind(path: Path) -> None:
    policy = ReleasePolicy.from_yaml(path.read_text(encoding="utf-8"))
    if policy.max_epsilon is not None:
        # Of random answers epsilon bounds a whole record, given to anybody; a breach is bounded beside it.
        assert policy.max_epsilon <= (1 if policy.max_breach is None else 25)
        assert policy.max_delta is not None
        assert policy.max_delta <= 1e-6  # far below 1 over the number of people
        return
    if policy.max_breach is not None:  # random answers without a claim
        assert policy.max_breach < 1
        return
    if policy.kinds == ("structure",):  # nothing about people is released
        assert "kinds: [structure]" in path.read_text(encoding="utf-8")
        return
    if policy.columns is not None:  # a rule pack states what its guideline does
        assert policy.pseudonyms in ("forbid", "random")
        return
    assert any(model.name == "k_anonymity" for model in policy.require)
    assert policy.max_suppressed is not None
    assert policy.max_suppressed < 1
    assert policy.max_gcp is not None
    assert policy.max_gcp < 1


@pytest.mark.parametrize("path", [p for p in SUITES if p.stem.startswith("adult")], ids=lambda p: p.stem)
def test_category_sets_of_the_expectations_are_the_leaves_of_the_hierarchies(path: Path) -> None:
    sets = [
        e["kwargs"] for e in load(path)["expectations"] if e["type"] == "expect_column_values_to_be_in_set"
    ]
    assert sets
    for kwargs in sets:
        leaves = {row[0] for row in rows_of(INCLUDE / "hierarchies" / "adult" / f"{kwargs['column']}.csv")}
        assert set(kwargs["value_set"]) == leaves
        assert kwargs["column"] in COLUMNS


def validate(table: pd.DataFrame, suite: dict[str, Any]) -> dict[str, bool]:
    """Which expectation held, by number and type; BOOLEAN_ONLY, so no value comes back."""
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("tables").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": table})
    result = batch.validate(gx.ExpectationSuite(**suite), result_format="BOOLEAN_ONLY")
    assert len(result.results) == len(suite["expectations"])
    return {f"{i} {r.expectation_config.type}": bool(r.success) for i, r in enumerate(result.results)}


@pytest.mark.parametrize("source", SOURCES)
def test_expectations_hold_on_the_ingested_sample(source: Any) -> None:
    table = ingested(source(), load(INCLUDE / "releases" / "adult_occupation.yaml"))
    held = validate(table, load(INCLUDE / "expectations" / "adult.json"))
    assert [name for name, ok in held.items() if not ok] == []


@pytest.mark.parametrize("path", SUITES, ids=lambda p: p.stem)
def test_each_expectation_can_fail(path: Path) -> None:
    suite = load(path)
    columns = {e["kwargs"]["column"]: e for e in suite["expectations"] if "column" in e["kwargs"]}
    numbers = {
        e["kwargs"]["column"] for e in suite["expectations"] if e["type"].endswith("values_to_be_between")
    }
    spoilt = pd.DataFrame(
        {c: [-1e9, 1e9, np.nan] if c in numbers else ["unheard of", "unheard of", None] for c in columns}
        | {"extra": 1}
    )
    assert [name for name, ok in validate(spoilt, suite).items() if ok] == []
