"""Release files that lie about the roles of columns, under three floors: what stops each, and what does not.

What a release file declares is its author's word. `docs/reference_limits.md` says what still passes each
floor; the table below is what it says.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from deploy.local.embedded import checkout
from privacy_engine.errors import PrivacyEngineError
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.check import check_files
from privacy_release.spec.floor import floor_policy
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea

ROWS = 240
ALLOW = {"allow": "numbers drawn for this table"}

NAME = CODE = {"role": "identifier", "kind": "categorical"}
AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120], "meaning": "age"}
POSTCODE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99_999], "meaning": "postcode"}
SEX = {"role": "quasi_identifier", "kind": "categorical", "meaning": "other"}
COUNTRY = {"role": "quasi_identifier", "kind": "categorical", "meaning": "region"}
DIAGNOSIS = {"role": "sensitive", "kind": "categorical", "meaning": "other"}
INCOME = {"role": "identifier", "kind": "numeric"}
HONEST: dict[str, dict[str, Any]] = {
    **{"name": NAME, "code": CODE, "age": AGE, "postcode": POSTCODE, "sex": SEX},
    **{
        "diagnosis": DIAGNOSIS,
        "income": INCOME,
        "hobby": {"role": "insensitive", "kind": "categorical", "meaning": "other"},
    },
}
OTHER = {"kind": "categorical", "meaning": "other"}
NUMBER = {"kind": "numeric", "meaning": "other"}
ONLY_COUNTRY = {
    "age": {**AGE, "role": "insensitive"},
    "postcode": {**POSTCODE, "role": "insensitive"},
    "sex": {**SEX, "role": "insensitive"},
    "country": COUNTRY,
}

# Lie -> columns that it declares otherwise, and its own step, if it has one.
LIES: dict[str, tuple[dict[str, dict[str, Any] | None], dict[str, Any] | None]] = {
    "a name as the sensitive attribute": ({"name": {**OTHER, "role": "sensitive"}, "diagnosis": None}, None),
    "a name in addition to the sensitive attribute": ({"name": {**OTHER, "role": "sensitive"}}, None),
    "a name that is allowed": (
        {"name": {**OTHER, "role": "insensitive", "unique": ALLOW, "text": ALLOW}},
        None,
    ),
    "a hash of the name that is allowed": ({"code": {**OTHER, "role": "insensitive", "unique": ALLOW}}, None),
    "a hash of the name as sensitive": ({"code": {**OTHER, "role": "sensitive"}, "diagnosis": None}, None),
    "quasi-identifiers as insensitive": (ONLY_COUNTRY, None),
    "quasi-identifiers as sensitive": (
        {
            **ONLY_COUNTRY,
            "age": {**NUMBER, "role": "sensitive"},
            "postcode": {**NUMBER, "role": "sensitive"},
            "sex": None,
        },
        None,
    ),
    "age and postcode as insensitive": (
        {**ONLY_COUNTRY, "sex": SEX, "hobby": None},
        None,
    ),
    "a decoy as the sensitive attribute": (
        {"hobby": {**OTHER, "role": "sensitive"}, "diagnosis": {**OTHER, "role": "insensitive"}},
        None,
    ),
    "the sensitive attribute as a quasi-identifier": (
        {"diagnosis": {**OTHER, "role": "quasi_identifier"}, "hobby": {**OTHER, "role": "sensitive"}},
        None,
    ),
    "an exact income as the sensitive attribute": (
        {"income": {**NUMBER, "role": "sensitive"}, "diagnosis": None},
        None,
    ),
    "an income in two numbers": (
        {"income": {**NUMBER, "role": "sensitive"}},
        {
            "sql": "SELECT * EXCLUDE (income), income // 1000 AS high, income % 1000 AS low FROM records",
            "drop": ["income"],
            "add": {"high": {**NUMBER, "role": "insensitive"}, "low": {**NUMBER, "role": "insensitive"}},
        },
    ),
    "a hash that a step of the release makes": (
        {},
        {
            "sql": "SELECT *, hash(age, postcode, sex) % 1000000 AS score FROM records",
            "add": {"score": {**NUMBER, "role": "insensitive", "unique": ALLOW}},
        },
    ),
}

EASY = {
    "require": [{"model": "k_anonymity", "k": 5}, {"model": "distinct_l_diversity", "l": 2}],
    "pseudonyms": "forbid",
}
HARD = {
    **EASY,
    "columns": {
        "declared": True,
        "forbid": ["name", "contact", "number"],
        "no_unique_columns": True,
        "clean_text": True,
    },
}
HARDEST = {**HARD, "insensitive": "as_quasi_identifiers", "unique_records": 0.05}
CLASSES = {
    "unlisted": "refuse",
    "columns": {
        **{"name": "identifier", "code": "identifier", "income": "identifier"},
        "age": {"role": "quasi_identifier", "meaning": "age"},
        **{"postcode": "quasi_identifier", "sex": "quasi_identifier", "country": "quasi_identifier"},
        **{"diagnosis": "sensitive", "hobby": "insensitive"},
    },
}

COUNTED = "must not be nearly unique"
UNIQUE = "unique_records in"
ALL = "all_columns_k_anonymity"
BY_COLUMNS = r"columns: no_unique_columns|columns\.no_unique_columns|no_unique_columns"
# Lie -> what the three floors say of it, and the classification by itself; empty: it is published.
SAID: dict[str, tuple[str, str, str, str]] = {
    "a name as the sensitive attribute": (COUNTED, COUNTED, COUNTED, "name is classified as identifier"),
    "a name in addition to the sensitive attribute": (
        COUNTED,
        COUNTED,
        COUNTED,
        "name is classified as identifier",
    ),
    "a name that is allowed": ("", BY_COLUMNS, BY_COLUMNS, "name is classified as identifier"),
    "a hash of the name that is allowed": ("", BY_COLUMNS, BY_COLUMNS, "code is classified as identifier"),
    "a hash of the name as sensitive": (COUNTED, COUNTED, COUNTED, "code is classified as identifier"),
    "quasi-identifiers as insensitive": ("", "", ALL, "postcode is classified as quasi_identifier"),
    "quasi-identifiers as sensitive": (
        "",
        "",
        f"{UNIQUE} the sensitive columns",
        "age is classified as quasi_identifier",
    ),
    "age and postcode as insensitive": ("", "", ALL, "age is classified as quasi_identifier"),
    "a decoy as the sensitive attribute": ("", "", ALL, "diagnosis is classified as sensitive"),
    "the sensitive attribute as a quasi-identifier": ("", "", "", "diagnosis is classified as sensitive"),
    "an exact income as the sensitive attribute": (
        COUNTED,
        COUNTED,
        COUNTED,
        "income is classified as identifier",
    ),
    "an income in two numbers": ("", "", ALL, "income is classified as identifier"),
    "a hash that a step of the release makes": (
        "",
        BY_COLUMNS,
        BY_COLUMNS,
        "score is computed from age, postcode, sex, so it must be identifier or quasi_identifier",
    ),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(11)
    names = [f"{first} {last}" for first in "ABCDEFGHIJ" for last in range(ROWS // 10)]
    frame = pd.DataFrame(
        {
            "name": names,
            "code": [hashlib.sha256(name.encode()).hexdigest()[:16] for name in names],
            "age": rng.integers(18, 90, ROWS).astype(float),
            "postcode": rng.integers(10_000, 10_400, ROWS).astype(float),
            "sex": rng.choice(["f", "m"], ROWS),
            "country": "north",
            "diagnosis": rng.choice(["cold", "flu", "gout", "mumps"], ROWS),
            "income": 20_000 + np.arange(ROWS) // 15 * 1_000 + np.arange(ROWS) % 15,
            "hobby": rng.choice(["chess", "go"], ROWS),
        }
    )
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    frame.to_parquet(path, index=False)
    return path


def released(lie: str, people: Path, folder: Path, *, checked: bool = True) -> None:
    """Check the file of a lie as the DAG processor does, and run it to its publication."""
    changed, step = LIES[lie]
    schema = {name: of for name, of in {**HONEST, **changed}.items() if of is not None}
    fields: dict[str, Any] = {
        "name": "people",
        "source": {"uri": str(people), "columns": list(schema)},
        "schema": schema,
        "release": {"method": "mondrian", "k": 5, "l": 2, "seed": 3},
        "policy": "policy.yaml",
        "publish": {"table": "people"},
    }
    if step is not None:
        made = {
            n: a for n, a in schema.items() if a["role"] != "identifier" and n not in step.get("drop", [])
        }
        fields["transform"] = {"sql": step["sql"], "schema": {**made, **step["add"]}}
    (folder / "releases").mkdir()
    (folder / "policy.yaml").write_text("require: [{model: k_anonymity, k: 5}]")
    path = folder / "releases" / "people.yaml"
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    spec = load_spec(path)
    if checked:
        check_files(spec, floor_policy())
    with WorkArea(folder / "work", "lies") as work:
        run_release(spec, Lake(root=str(folder / "lake")), "r1", work)


FLOORS = {"easy": EASY, "hard": HARD, "hardest": HARDEST}
PASSES = {
    ("a name that is allowed", "easy"),
    ("quasi-identifiers as sensitive", "hard"),
    ("the sensitive attribute as a quasi-identifier", "hardest"),
}


def lies() -> Iterator[Any]:
    """Each lie under each floor; a case that follows from a stricter or an easier floor is slow.

    So is what passes, but for `PASSES`: that is no guarantee, and an honest release passes in a quick test.
    """
    for lie, (*of_floors, _) in SAID.items():
        for i, name in enumerate(FLOORS):
            passes_a_stricter_one = not of_floors[i] and "" in of_floors[i + 1 :]
            stopped_by_an_easier_one = bool(of_floors[i]) and of_floors[i] in of_floors[:i]
            passes = not of_floors[i] and (lie, name) not in PASSES
            follows = passes or passes_a_stricter_one or stopped_by_an_easier_one
            yield pytest.param(lie, name, id=f"{lie}-{name}", marks=[pytest.mark.slow] if follows else [])


@pytest.mark.parametrize(("lie", "floor"), lies())
def test_what_stops_a_lie_about_roles(
    lie: str, floor: str, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "floor.yaml").write_text(yaml.safe_dump(FLOORS[floor]))
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(tmp_path / "floor.yaml"))
    said = SAID[lie][[*FLOORS].index(floor)]
    if not said:
        released(lie, people, tmp_path)
        return
    with pytest.raises(PrivacyEngineError, match=said):
        released(lie, people, tmp_path)
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "run"])
@pytest.mark.parametrize("lie", LIES)
def test_a_classification_stops_a_lie_where_a_file_is_checked_and_where_it_is_run(
    lie: str, checked: bool, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "classes.yaml").write_text(yaml.safe_dump(CLASSES))
    monkeypatch.setenv("PRIVACY_CLASSIFICATION", str(tmp_path / "classes.yaml"))
    if checked:
        monkeypatch.setattr("tests.privacy_release.spec.test_lies.run_release", None)
    with pytest.raises(PrivacyEngineError, match=SAID[lie][3]):
        released(lie, people, tmp_path, checked=checked)
    assert not (tmp_path / "lake").exists()


def test_the_page_says_what_still_passes() -> None:
    page = (checkout() / "docs" / "reference_limits.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.count("|") == 6]
    fields = {row[0].strip(): tuple("passes" in cell for cell in row[1:]) for row in rows}
    assert {lie: fields[lie] for lie in SAID} == {
        lie: tuple(not why for why in said) for lie, said in SAID.items()
    }


@pytest.mark.quick("hardest")  # which has all rules of the others
@pytest.mark.parametrize("floor", FLOORS.values(), ids=FLOORS)
def test_an_honest_release_is_published_under_each(
    floor: dict[str, Any], people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIES, "none", ({"hobby": None}, None))
    (tmp_path / "floor.yaml").write_text(yaml.safe_dump(floor))
    (tmp_path / "classes.yaml").write_text(yaml.safe_dump(CLASSES))
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(tmp_path / "floor.yaml"))
    monkeypatch.setenv("PRIVACY_CLASSIFICATION", str(tmp_path / "classes.yaml"))
    released("none", people, tmp_path)
