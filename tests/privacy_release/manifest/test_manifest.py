"""Manifests of every version and kind are read, and given back as they were stored.

The files in `golden` are stored manifests: those of 0.1 were written by that version.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from privacy_engine.errors import IntegrityError
from privacy_release.cli.text import manifest_lines
from privacy_release.evidence.criteria import HIPAA, NIST, WP29, answers
from privacy_release.lake.read import manifest_of
from privacy_release.manifest.manifest import PUBLISHED, Claims, Manifest
from privacy_release.reports.dictionary import dictionary, guarantee_in_short
from privacy_release.reports.registry import Deployment, deployment_record
from tests import golden
from tests.import_graph import PACKAGES, ROOT
from tests.made import made_release

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
SCHEMA = json.loads((ROOT / "docs" / "manifest.schema.json").read_text(encoding="utf-8"))
OF_FIELDS = Draft202012Validator(SCHEMA | {"required": []})  # of each by itself
# What publishes the mapping that its caller wrote; and the engine, which knows no stored release.
STORED = {"privacy_release/lake/publish.py", "privacy_engine/randomizers/randomization.py"}
SECRET = "Alice"
LITERAL = re.compile(
    r"""(\b|_)manifest(_of)?(\([^()]*\))?(\[|\.get\()["']|["'] (not )?in (\w+\.)?(read_)?manifest\b"""
)


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_stored_manifest_is_given_back_to_the_byte(file: Path) -> None:
    stored = file.read_bytes()
    manifest = Manifest.from_dict(json.loads(stored))
    assert json.dumps(manifest.to_dict(), indent=2, allow_nan=False).encode() == stored


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_each_golden_manifest_keeps_the_published_schema(file: Path) -> None:
    stored = json.loads(file.read_bytes())
    Draft202012Validator(SCHEMA).validate(stored)
    assert set(PUBLISHED) <= stored.keys() <= Manifest.known().keys()


@pytest.mark.parametrize("name", golden.EXAMPLES)
def test_a_release_of_each_kind_keeps_the_published_schema(shared: Path, name: str) -> None:
    made = made_release(shared, name)
    stored = manifest_of(made.lake.table(made.spec.publish.table), made.release_id)
    Draft202012Validator(SCHEMA).validate(stored)
    assert Manifest.from_dict(stored).to_dict() == stored


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_what_is_derived_from_a_manifest_can_be_made_of_every_golden_one(file: Path) -> None:
    manifest = Manifest.from_dict(json.loads(file.read_bytes()))
    types = dict.fromkeys(manifest.columns, "string")
    columns = {name: column.to_dict() for name, column in manifest.columns.items()}
    made = dictionary(manifest, columns, table="people", release="1", types=types)
    assert made["guarantee"]["short"] == guarantee_in_short(manifest)
    assert manifest.software.version in made["cite"]
    assert {answer.standard for answer in answers(manifest)} == {WP29, HIPAA, NIST}
    assert manifest_lines(manifest.to_dict())
    if manifest.loss is not None:
        said = Deployment(
            curator="c", curator_type="Nonprofit", intended_use="a test", region="r", authors=("a",)
        )
        record = deployment_record(manifest, said, table="people", published="2026-01-01", releases=1)
        parameters = record["deployment"]["privacy_loss"]["privacy_parameters"]
        assert parameters["epsilon"] == manifest.loss.claimed.epsilon


def test_the_golden_manifests_have_every_field() -> None:
    found = set().union(*(json.loads(file.read_bytes()) for file in GOLDEN))
    assert found == Manifest.known().keys()


@pytest.mark.parametrize("name", Manifest.known())
def test_a_type_that_the_schema_refuses_is_refused_with_the_name_of_the_field(name: str) -> None:
    for wrong in (True, "text", 1, 0.5, [SECRET], {"a": [SECRET]}):
        given = {name: wrong}
        if not OF_FIELDS.is_valid(given):
            with pytest.raises(IntegrityError, match=rf"`{name}[`.\[].* must be .*, got ") as refused:
                Manifest.from_dict(given)
            assert SECRET not in str(refused.value)
        else:
            Manifest.from_dict(given)


def test_fields_of_a_later_version_are_kept_in_their_order() -> None:
    stored: dict[str, Any] = {"later": {"b": 1, "a": [2]}, "loss": None, "method": "mondrian"}
    stored["columns"] = {"age": {"unit": "years", "role": "sensitive", "kind": "numeric"}}
    manifest = Manifest.from_dict(stored)
    assert json.dumps(manifest.to_dict()) == json.dumps(stored)
    assert manifest.columns["age"].to_dict()["unit"] == "years"


def test_what_is_given_back_is_a_copy() -> None:
    manifest = Manifest.from_dict({"parameters": {"k": 5}})
    manifest.to_dict()["parameters"]["k"] = 2
    assert manifest.to_dict() == {"parameters": {"k": 5}}


def test_a_manifest_is_extended_by_what_is_known_of_it() -> None:
    claims = Claims.from_dict({"method": "mondrian", "loss": None, "later": 1})
    manifest = claims.extended({"sha256": "0", "history": None})
    assert manifest.to_dict() == {"method": "mondrian", "loss": None, "later": 1, "sha256": "0"}
    assert (manifest.sha256, manifest.history) == ("0", None)


@pytest.mark.parametrize(
    ("stored", "private"),
    [
        ({"loss": None}, False),
        ({"loss": {"epsilon": 1, "delta": 0, "neighbours": "replace_one"}}, True),
        ({"loss": None, "randomization": {}}, True),
    ],
)
def test_a_loss_or_random_answers_hide_the_counts_of_the_source(
    stored: dict[str, Any], private: bool
) -> None:
    assert Manifest.from_dict(stored).private is private


def test_no_other_module_reads_a_manifest_by_literal_keys() -> None:
    files = [file for package, home in PACKAGES.items() for file in (home / package).rglob("*.py")]
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if LITERAL.search(line)
    ]
    assert [line for line in found if line.partition(":")[0] not in STORED] == []


def test_a_manifest_is_assembled_at_staging_and_extended_where_it_is_published() -> None:
    files = [file for file in (ROOT / "privacy_release").rglob("*.py") if ".extended(" in file.read_text()]
    assert {str(file.relative_to(ROOT / "privacy_release")) for file in files} == {
        "steps/producers/staging.py",
        "steps/publish.py",
    }


@pytest.mark.parametrize(
    "line",
    [
        'rows = manifest["rows"]',
        "loss = trained.manifest.get('loss')",
        'claimed = release.manifest()["randomization"]',
        'staged.read_manifest()["parameters"]',
        'manifest_of(table, last["release_id"]).get("figures")',
        'if "history" not in manifest:',
        'private = "randomization" in staged.read_manifest()',
    ],
)
def test_a_literal_key_would_be_found(line: str) -> None:
    assert LITERAL.search(line)
