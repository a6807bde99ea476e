"""The rule packs on Synthea's tables, through the whole pipeline: what passes, and what each one stops."""

import re
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from deploy.local.samples import synthea
from deploy.local.samples.adult import provided
from privacy_engine.errors import PrivacyEngineError, SchemaError, SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.column_checks import broken_by_schema
from privacy_engine.verification.verify import verify
from privacy_release.cli.arguments import released_schema
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.files import load_policy
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea

INCLUDE = Path(__file__).parents[3] / "include"
EXAMPLE = "visits_safe_harbor"
PACKS = ("hipaa_safe_harbor", "smallest_cell_11", "european_research")
Spec = dict[str, Any]
Change = Callable[[Spec, pd.DataFrame], pd.DataFrame]
SIGNED = {"signed_by": "Jo Sample, privacy officer", "reason": "terms that a system fills in"}
THIS_YEAR = datetime.now(UTC).year


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    """Synthea's own records where they are provided, else such as the samples are made of."""
    files = [provided(f"synthea_{name}.parquet") for name in ("patients", "encounters")]
    if None not in files:
        people, had = (pd.read_parquet(file) for file in files if file)
    else:
        people = synthea.patients(120, np.random.default_rng(1))
        had = synthea.encounters(people, np.random.default_rng(2))
    return synthea.with_patients(had, people).head(4_000).iloc[::4]


@pytest.fixture
def include(tmp_path: Path, visits: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An include folder with the packs, and the sample beside it."""
    folder = tmp_path / "home" / "include"
    (folder / "releases").mkdir(parents=True)
    shutil.copytree(INCLUDE / "policies", folder / "policies")
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(folder.parent))
    write(folder, visits)
    return folder


def write(include: Path, table: pd.DataFrame) -> None:
    sample = include.parent / "data/samples/visits.parquet"
    sample.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(sample)


def example() -> Spec:
    fields: Spec = yaml.safe_load((INCLUDE / "releases" / f"{EXAMPLE}.yaml").read_text())
    stages = ("expectations", "outliers")  # of columns that are its own, which the tests change
    return {name: value for name, value in fields.items() if name not in stages}


def path_of(include: Path, fields: Spec) -> Path:
    path = include / "releases" / f"{EXAMPLE}.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def publish(include: Path, lake: Lake, tmp_path: Path, fields: Spec) -> pd.DataFrame:
    with WorkArea(tmp_path / "work", "1") as work:
        run_release(load_spec(path_of(include, fields)), lake, "1", work)
    return read_release(lake.table(EXAMPLE), "1").to_pandas()


def test_safe_harbor_on_synthea(include: Path, lake: Lake, tmp_path: Path, visits: pd.DataFrame) -> None:
    released = publish(include, lake, tmp_path, example())
    names = {"PATIENT", "SSN", "FIRST", "LAST", "ADDRESS", "CITY", "COUNTY"}
    assert not names & set(released)
    cells = set(released.astype(str).to_numpy().ravel())
    for name in names:
        assert not cells & set(visits[name].dropna().astype(str)), name
    for name in ("BIRTHDATE", "START"):
        low, high = (pd.to_datetime(released[f"{name}_{end}"]).dropna() for end in ("from", "to"))
        assert set(low.dt.strftime("%m-%d")) == {"01-01"}  # whole years
        assert set(high.dt.strftime("%m-%d")) == {"12-31"}
        assert low.dt.year.min() >= THIS_YEAR - 90
    died = pd.to_datetime(released["DEATHDATE"].dropna())
    assert len(died)
    assert set(zip(died.dt.month, died.dt.day, strict=True)) == {(1, 1)}
    codes = set(released["ZIP"].str.findall(r"\w+").explode())
    own = {zip_code[:3] for zip_code in visits["ZIP"].dropna()}
    assert codes <= own | {"000"}
    assert all(len(code) == 3 for code in codes)
    columns = manifest_of(lake.table(EXAMPLE), "1")["columns"]
    assert (
        columns["BIRTHDATE_from"]["codes"]
        == f"{THIS_YEAR - 90} stands for {THIS_YEAR - 90} and what is before it"
    )
    assert columns["DESCRIPTION"]["free_text"]["signed_by"] == "Jo Sample, privacy officer"
    assert "stands for 17 rare prefixes (us_zip3_census_2000)" in columns["ZIP"]["codes"]
    (report,) = (p for p in Path(lake.root).rglob("*.html") if "Release report" in p.read_text())
    assert "codes of ZIP" in report.read_text()
    assert (visits["BIRTHDATE"].map(lambda day: day.year) < THIS_YEAR - 90).any()  # or nothing was grouped


def planted(name: str, value: Any, row: int = 7) -> Change:
    def change(_: Spec, table: pd.DataFrame) -> pd.DataFrame:
        column = table[name].copy()
        column.iloc[row] = value
        return table.assign(**{name: column})

    return change


def added(name: str, values: Callable[[int], Any], **about: Any) -> Change:
    def change(fields: Spec, table: pd.DataFrame) -> pd.DataFrame:
        fields["schema"][name] = {"role": "insensitive", "kind": "categorical", **about}
        fields["source"]["columns"].append(name)
        return table.assign(**{name: values(len(table))})

    return change


def declaring(name: str, **other: Any) -> Change:
    def change(fields: Spec, table: pd.DataFrame) -> pd.DataFrame:
        own = fields["schema"][name] | other
        fields["schema"][name] = {field: value for field, value in own.items() if value is not None}
        return table

    return change


def several(*changes: Change) -> Change:
    def change(fields: Spec, table: pd.DataFrame) -> pd.DataFrame:
        for one in changes:
            table = one(fields, table)
        return table

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (planted("DESCRIPTION", "call 617-555-0123 at noon"), SchemaError, "DESCRIPTION: phone in 1 record"),
        (
            added(
                "AGE",
                lambda n: ["forty"] * (n - 1) + ["ask Mrs. Ellen Brown"],
                meaning="age",
                free_text=SIGNED,
            ),
            SchemaError,
            "AGE: name in 1 record",
        ),
        (
            declaring("DESCRIPTION", text={"allow": "it is fine"}),
            SpecError,
            "DESCRIPTION must meet clean_text",
        ),
        (declaring("RACE", meaning=None), SpecError, "RACE must meet declared: state its meaning"),
        (
            declaring("DESCRIPTION", free_text=None),
            SpecError,
            "DESCRIPTION must meet no_free_text: list its values",
        ),
        (declaring("RACE", categories=None), SpecError, "RACE must meet no_free_text"),
        (declaring("CITY", role="quasi_identifier"), SpecError, r"CITY must meet forbid\(.*\): give it"),
        (
            added("NOTE", lambda n: np.arange(n).astype(str), meaning="other", unique={"allow": "drawn"}),
            SpecError,
            "NOTE must meet no_unique_columns",
        ),
        (
            added("NOTE", lambda n: [f"note {i}" for i in range(n)], meaning="other", free_text=SIGNED),
            SchemaError,
            "NOTE: about 1,000 different values",
        ),
    ],
)
def test_what_stops_a_release_under_safe_harbor(
    include: Path,
    lake: Lake,
    tmp_path: Path,
    visits: pd.DataFrame,
    change: Change,
    error: type[PrivacyEngineError],
    message: str,
) -> None:
    require_stopped(include, lake, tmp_path, visits, change, error, message)


# Changes and what verification says of each; those of a list are changes of one release.
FOUND: list[list[tuple[Change, str]]] = [
    [
        (
            planted("DESCRIPTION", "seen on 03/14/2020"),
            "clean_text as released in DESCRIPTION, date measured 1 row",
        ),
        (
            planted("DESCRIPTION", "see www.example.org/p/7", row=8),
            "clean_text as released in DESCRIPTION, url measured 1 row",
        ),
        (declaring("START", precision="day"), r"date_precision\(year\) in START"),
        (declaring("DEATHDATE", precision="day"), r"date_precision\(year\) in DEATHDATE"),
        (declaring("BIRTHDATE", bottom_code=None), r"age_group_from\(90\) in BIRTHDATE"),
        (
            added("AGE", lambda n: [93] + [40] * (n - 1), kind="numeric", meaning="age"),
            r"age_group_from\(90\) in AGE measured 1 row: state `top_code: 90`",
        ),
        (declaring("ZIP", prefix=4, rare=None), r"postcode_characters\(3\) in ZIP"),
    ],
    [
        (declaring("DEATHDATE", precision="month"), r"date_precision\(year\) in DEATHDATE"),
        (
            declaring("BIRTHDATE", bottom_code=date(THIS_YEAR - 91, 1, 1)),
            r"age_group_from\(90\) in BIRTHDATE_from [^;]*years_before_release: 90",
        ),
        (declaring("ZIP", prefix=None, width=None, rare=None), r"postcode_characters\(3\) in ZIP"),
    ],
    [
        (
            several(planted("ZIP", "03601"), declaring("ZIP", rare=None)),
            r"rare_postcodes\(us_zip3_census_2000\) in ZIP",
        )
    ],
]


@pytest.mark.parametrize("found", FOUND, ids=["days", "months", "rare postcodes"])
def test_what_verification_finds_under_safe_harbor_is_all_named(
    include: Path, lake: Lake, tmp_path: Path, visits: pd.DataFrame, found: list[tuple[Change, str]]
) -> None:
    change = several(*(one for one, _ in found))
    messages = [message for _, message in found]
    require_stopped(include, lake, tmp_path, visits, change, VerificationError, *messages)


def require_stopped(
    include: Path,
    lake: Lake,
    tmp_path: Path,
    visits: pd.DataFrame,
    change: Change,
    error: type[PrivacyEngineError],
    *messages: str,
) -> None:
    fields = example()
    write(include, change(fields, visits))
    with pytest.raises(error) as caught:
        publish(include, lake, tmp_path, fields)
    assert [message for message in messages if not re.search(message, str(caught.value))] == []
    assert not Path(lake.root, EXAMPLE).exists()
    assert not re.search(r"617-555-0123|03/14/2020|03601|\b93\b", str(caught.value))


def test_an_age_and_a_postcode_that_are_numbers_pass_coded(
    include: Path, lake: Lake, tmp_path: Path, visits: pd.DataFrame
) -> None:
    fields = example()
    change = added("AGE", lambda n: [93, None] + [40] * (n - 2), kind="numeric", meaning="age", top_code=90)
    numbers = visits["ZIP"].astype("int64")
    write(include, change(fields, visits).assign(ZIP=numbers))
    released = publish(include, lake, tmp_path, fields)
    assert released["AGE"].max() == 90
    assert released["AGE"].isna().sum() == 1
    codes = set(released["ZIP"].str.findall(r"\w+").explode())
    assert codes <= {f"{number:05d}"[:3] for number in numbers} | {"000"}
    assert any(code.startswith("0") and code != "000" for code in codes)


@pytest.mark.parametrize(("rows", "passes"), [("linked", True), (None, False)])
def test_random_pseudonyms_may_be_released_and_keyed_ones_may_not(
    include: Path, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str | None, passes: bool
) -> None:
    """164.514(c): a code must not be derived from information about the individual; a keyed hash is."""
    monkeypatch.setenv("PRIVACY_PSEUDONYM_KEY", "k" * 40)
    fields = example()
    if rows:
        fields["person"] = {"column": "PATIENT", "rows": rows}
        fields["release"] = {"method": "mondrian", "k": 2}
        keep = ("PATIENT", "GENDER", "RACE", "STATE")
        fields["schema"] = {name: about for name, about in fields["schema"].items() if name in keep}
        fields["source"]["columns"] = list(fields["schema"])
        released = publish(include, lake, tmp_path, fields)
        assert released["PATIENT"].nunique() > 2
    else:
        fields["schema"]["SSN"]["pseudonym"] = {"connection": "c", "scope": "release"}
        with pytest.raises(SpecError, match=r"pseudonyms of \['SSN'\] must meet `pseudonyms: random`"):
            publish(include, lake, tmp_path, fields)


def test_the_command_line_verifies_a_table_under_the_pack(
    include: Path, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = {"AGE": {"role": "quasi_identifier", "kind": "numeric", "meaning": "age"}}
    schema["NOTE"] = {"role": "insensitive", "kind": "categorical", "meaning": "other", "free_text": SIGNED}
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(schema))
    notes = {"call 617-555-0123": REFUSED, "in good health": DONE}
    for note, code in notes.items():
        pd.DataFrame({"AGE": [90, 3], "NOTE": [note, "well"]}).to_parquet(tmp_path / "t.parquet")
        files = [str(tmp_path / "t.parquet"), "--schema", str(tmp_path / "schema.yaml")]
        assert main(["verify", *files, "--policy", str(include / "policies/hipaa_safe_harbor.yaml")]) == code
        said = capsys.readouterr()
        assert "617" not in said.out + said.err
        assert ("clean_text as released in NOTE, phone" in said.err) is (code == REFUSED)


@pytest.mark.parametrize("free", [(), ("RACE",)])
def test_a_specification_gives_verify_the_quasi_identifiers_that_are_free_text(
    include: Path, free: tuple[str, ...]
) -> None:
    fields = example()
    for name in free:
        del fields["schema"][name]["categories"]
    path = include / "releases" / f"{EXAMPLE}.yaml"
    path.write_text(yaml.safe_dump(fields))
    rules = load_policy(include / "policies" / "hipaa_safe_harbor.yaml").columns
    assert rules is not None
    broken = broken_by_schema(rules, released_schema(path))
    assert [(found.rule, found.column) for found in broken] == [("no_free_text", name) for name in free]


@pytest.mark.slow  # `test_fragments` compares the engines on another policy
@pytest.mark.parametrize("engine", ["fragments"])
def test_fragments_are_compared_with_the_pack(include: Path, lake: Lake, tmp_path: Path, engine: str) -> None:
    fields = {**example(), "engine": {"kind": engine, "rows": 1_000, "memory": "300MB", "processes": 1}}
    released = publish(include, lake, tmp_path, fields)
    assert (pd.to_datetime(released["BIRTHDATE_from"]).dt.strftime("%m-%d") == "01-01").all()
    assert (pd.to_datetime(released["BIRTHDATE_to"]).dt.strftime("%m-%d") == "12-31").all()
    manifest = manifest_of(lake.table(EXAMPLE), "1")
    assert "codes" in manifest["columns"]["ZIP"]
    assert {f["rule"] for f in manifest["measured"] if f["passed"]} >= {"columns: date_precision(year)"}


def cells(schema: dict[str, str]) -> Spec:
    """A release of these columns, each with its role."""
    return {
        "name": EXAMPLE,
        "source": {"uri": "../data/samples/visits.parquet", "columns": list(schema), "nulls": "keep"},
        "schema": {name: {"role": role, "kind": "categorical"} for name, role in schema.items()},
        "person": "PATIENT",
        "release": {"method": "bottom_up", "k": 11},
        "policy": "policies/smallest_cell_11.yaml",
        "publish": {"lake": "lake_default", "table": EXAMPLE},
    }


QUASI = {"PATIENT": "identifier", "GENDER": "quasi_identifier", "MARITAL": "quasi_identifier"}


def test_every_cell_of_every_table_of_a_release_is_of_eleven_persons(
    include: Path, lake: Lake, tmp_path: Path
) -> None:
    released = publish(include, lake, tmp_path, cells(QUASI))
    assert set(released) == {"GENDER", "MARITAL"}
    (finding,) = [
        f for f in manifest_of(lake.table(EXAMPLE), "1")["measured"] if f["rule"] == "k_anonymity(k=11)"
    ]
    assert finding["measured"] >= 11


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"release": {"method": "bottom_up", "k": 10}}, SpecError, r"k_anonymity\(k=10\) is weaker than"),
        ({"schema": {**QUASI, "RACE": "sensitive"}}, SpecError, r"RACE must meet roles\(quasi_identifier\)"),
    ],
)
def test_what_stops_a_release_under_smallest_cell_11(
    include: Path, lake: Lake, tmp_path: Path, change: Spec, error: type[PrivacyEngineError], message: str
) -> None:
    fields = cells(change.get("schema", QUASI)) | {k: v for k, v in change.items() if k != "schema"}
    with pytest.raises(error, match=message):
        publish(include, lake, tmp_path, fields)


def test_a_suppressed_record_is_a_cell_that_a_total_tells() -> None:
    """CMS: no cell of 1 to 10 may be derived, and excluded cases count."""
    schema = DataSchema.from_dict({"x": {"role": "quasi_identifier"}})
    policy = load_policy(INCLUDE / "policies/smallest_cell_11.yaml")
    for share, passes in ((0.0, True), (0.01, False)):
        report = verify(pd.DataFrame({"x": ["a"] * 11}), schema, policy, figures={"suppressed": share})
        assert report.passed is passes


def test_the_european_preset_on_synthea(include: Path, lake: Lake, tmp_path: Path) -> None:
    fields = example() | {
        "policy": "policies/european_research.yaml",
        # of some random orders the smallest class of k = 11 has twelve persons
        "release": {
            "method": "bottom_up",
            "k": 12,
            "l": 3,
            "seed": 1,
            "require": [{"model": "t_closeness", "t": 0.5}],
        },
    }
    del fields["schema"]["DEATHDATE"], fields["schema"]["ZIP"]
    fields["source"]["columns"] = list(fields["schema"])
    publish(include, lake, tmp_path, fields)
    rules = {
        f["rule"].partition("(")[0] for f in manifest_of(lake.table(EXAMPLE), "1")["measured"] if f["passed"]
    }
    assert rules >= {"k_anonymity", "distinct_l_diversity", "t_closeness", "row_intersection"}
    fields["release"]["k"] = 11
    with pytest.raises(SpecError, match=r"k_anonymity\(k=11\) is weaker than"):
        publish(include, lake, tmp_path, fields)


@pytest.mark.slow  # several releases; what is refused is quick
def test_a_draft_under_safe_harbor_is_finished_by_roles_and_meanings(
    include: Path, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = include.parent / "data/samples/visits.parquet"
    assert main(["schema", "infer", str(table), "--preset", "hipaa_safe_harbor"]) == DONE
    text = capsys.readouterr().out
    drafted = yaml.safe_load(text)
    roles = {name: column["role"] for name, column in drafted["schema"].items()}
    removed = {name for name, role in roles.items() if role == "identifier"}
    assert removed >= {"PATIENT", "SSN", "FIRST", "LAST", "ADDRESS", "CITY", "COUNTY", "LAT", "DRIVERS"}
    zip_code = {"prefix": 3, "width": 5, "rare": "us_zip3_census_2000", "meaning": "postcode"}
    assert drafted["schema"]["ZIP"] == {"role": "TODO", "kind": "categorical", **zip_code}
    for name in ("BIRTHDATE", "DEATHDATE", "START", "STOP"):
        assert drafted["schema"][name]["precision"] == "year"
        assert drafted["schema"][name]["bottom_code"] == {"years_before_release": 90}
    (include / "releases/visits.yaml").write_text(text)
    with pytest.raises(SpecError, match=r"schema.PROVIDER.meaning"):
        load_spec(include / "releases/visits.yaml")
    done = text.replace("role: TODO", "role: insensitive").replace("meaning: TODO", "meaning: other")
    fields = yaml.safe_load(done)
    for name, column in fields["schema"].items():
        column.pop("categories", None)  # those of few records are not shown
        if column["kind"] == "categorical" and column["role"] != "identifier" and "prefix" not in column:
            column["free_text"] = SIGNED
        column["role"] = "quasi_identifier" if name in ("BIRTHDATE", "GENDER") else column["role"]
    for name in (
        "HEALTHCARE_EXPENSES",
        "HEALTHCARE_COVERAGE",
        "INCOME",
        "PAYER_COVERAGE",
        "TOTAL_CLAIM_COST",
    ):  # nearly one value a person
        fields["schema"][name]["role"] = "identifier"
    fields["source"]["nulls"] = "keep"
    fields |= {"name": EXAMPLE, "person": "PATIENT", "publish": {"table": EXAMPLE}}
    released = publish(include, lake, tmp_path, fields)
    assert not removed & set(released)


@pytest.mark.quick("hipaa_safe_harbor")  # a draft is many releases
@pytest.mark.parametrize("pack", PACKS)
def test_a_draft_of_each_pack_names_its_policy(
    include: Path, visits: pd.DataFrame, capsys: pytest.CaptureFixture[str], pack: str
) -> None:
    write(include, visits[["PATIENT", "BIRTHDATE", "GENDER", "ZIP", "DESCRIPTION"]])
    table = include.parent / "data/samples/visits.parquet"
    assert main(["schema", "infer", str(table), "--preset", pack]) == DONE
    drafted = yaml.safe_load(capsys.readouterr().out)
    fields = load_policy(include / drafted["policy"]).to_dict().get("require", [])
    for model in fields:
        if model["model"] == "k_anonymity":
            assert drafted["release"]["k"] == model["k"]


@pytest.mark.parametrize("pack", PACKS)
def test_each_pack_is_a_policy_and_has_its_page(pack: str) -> None:
    policy = load_policy(INCLUDE / "policies" / f"{pack}.yaml")
    assert policy.weaker_than(policy) == []
    assert policy.columns is not None
    page = (INCLUDE.parent / "docs/rule_packs.md").read_text()
    assert f"policies/{pack}.yaml" in page


def test_the_european_preset_bounds_the_risk_at_nine_in_a_hundred() -> None:
    policy = load_policy(INCLUDE / "policies/european_research.yaml").to_dict()
    k = next(model["k"] for model in policy["require"] if model["model"] == "k_anonymity")
    assert 1 / k <= 0.09 < 1 / (k - 1)
