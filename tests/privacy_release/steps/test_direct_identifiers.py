"""Releases with pseudonyms and text that was looked through: what is published, reported, and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import privacy_release
from privacy_engine.errors import SchemaError, SecretError, SpecError, VerificationError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.lake.read import manifest_of, read_release
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.sources.pseudonyms import Naming, PseudonymKey
from privacy_release.spec.check import check_files
from privacy_release.spec.model import load_spec
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import raise_if_failed, verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.references import StagedRelease
from tests import tables

KEY = "key-of-pseudonyms-that-no-one-must-see"
ENGINES = {
    "local": None,
    "fragments": read_engine({"kind": "fragments", "rows": 1_000, "memory": "300MB", "processes": 1}),
}


def with_pseudonyms(scope: str, **policy: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = tables.fields(name={"pseudonym": {"connection": "pseudonyms", "scope": scope}})
    return tables.spec(schema=schema, expectations=None), {**tables.POLICY, **policy}


def written(home: Path, spec: dict[str, Any], policy: dict[str, Any]) -> Path:
    (home / "policies/people.yaml").write_text(yaml.safe_dump(policy))
    (home / "releases/people.yaml").write_text(yaml.safe_dump(spec))
    return home / "releases/people.yaml"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_PSEUDONYM_KEY", KEY)


def released(home: Path, lake: Lake, work: WorkArea, scope: str, release: str, **policy: Any) -> pd.DataFrame:
    spec = load_spec(written(home, *with_pseudonyms(scope, **policy)))
    run_release(spec, lake, release, work)
    return read_release(lake.table("people"), release).to_pandas()


@pytest.mark.parametrize("scope", ["release", "series"])
def test_a_release_has_a_pseudonym_a_person_and_tells_how_far_it_reaches(
    home: Path, lake: Lake, tmp_path: Path, scope: str
) -> None:
    made = []
    for number in ("1", "2"):
        with WorkArea(tmp_path / "work", number) as work:
            made.append(released(home, lake, work, scope, number))
    assert all(frame["name"].nunique() == len(frame) > 100 for frame in made)
    assert bool(set(made[0]["name"]) & set(made[1]["name"])) is (scope == "series")
    everything = [p for p in tmp_path.rglob("*") if p.is_file() and p != home / "people.parquet"]
    kept = b"".join(path.read_bytes() for path in everything)
    assert KEY.encode() not in kept
    assert b"person-0" not in kept
    manifest = manifest_of(lake.table("people"), "2")["columns"]["name"]
    fingerprint = PseudonymKey(KEY.encode()).fingerprint
    assert manifest == {
        "role": "insensitive",
        "kind": "categorical",
        "pseudonym": {"scope": scope, "series": "people", "key": fingerprint},
    }
    report = next(p for p in everything if p.name.endswith("report.html")).read_text()
    assert f"Pseudonyms of {'a series' if scope == 'series' else 'this release'}" in report
    assert "disguise, not a guarantee" in report


@pytest.mark.quick("local", "fragments-series")  # the other engine reads the same fields
@pytest.mark.parametrize(
    ("scope", "policies"),
    [("release", {"forbid": False, "release": True}), ("series", {"release": False, "any": True})],
    ids=["release", "series"],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_verification_holds_them_against_the_policy(
    home: Path, work: WorkArea, scope: str, policies: dict[str, bool], engine: str
) -> None:
    staged = staged_by(home, work, with_pseudonyms(scope)[0], engine)
    for allowed, passes in policies.items():
        _, policy = with_pseudonyms(scope, pseudonyms=allowed)
        report = verify_staged(staged, ReleasePolicy.from_dict(policy))
        (finding,) = [f for f in report.findings if f["rule"] == f"pseudonyms: {allowed}"]
        assert (finding["measured"], finding["passed"], report.passed) == (0 if passes else 1, passes, passes)
        if not passes:
            with pytest.raises(VerificationError, match=f"pseudonyms: {allowed} measured 1"):
                raise_if_failed(report)


def staged_by(home: Path, work: WorkArea, fields: dict[str, Any], engine: str) -> StagedRelease:
    spec = load_spec(written(home, fields, tables.POLICY))
    naming = Naming(series="people", release="1")
    table = privacy_release.ingest(
        spec.source.uri, spec.data_schema(), work, naming=naming, engine=ENGINES[engine]
    )
    return make_release(table, work, method="mondrian", parameters={"k": 5, "l": 2}, seed=7)


def test_a_policy_that_forbids_them_stops_before_anything_is_read(
    home: Path, lake: Lake, work: WorkArea
) -> None:
    spec = load_spec(written(home, *with_pseudonyms("series", pseudonyms="release")))
    for step in (lambda: check_files(spec, None), lambda: run_release(spec, lake, "1", work)):
        with pytest.raises(SpecError, match=r"\['name'\] must meet `pseudonyms: release`"):
            step()
    assert not list(work.folder.rglob("*.parquet"))


def test_the_floor_forbids_them_whatever_the_policy_says(
    home: Path, lake: Lake, work: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor = tmp_path / "floor.yaml"
    floor.write_text(yaml.safe_dump({"require": [{"model": "k_anonymity", "k": 2}], "pseudonyms": "forbid"}))
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(floor))
    with pytest.raises(SpecError, match="pseudonyms: forbid"):
        released(home, lake, work, "release", "1")
    with pytest.raises(SpecError, match="pseudonyms: any is weaker than pseudonyms: forbid"):
        released(home, lake, work, "release", "1", pseudonyms="any")


def test_no_release_without_the_key(
    home: Path, lake: Lake, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVACY_PSEUDONYM_KEY")
    with pytest.raises(SecretError, match="PRIVACY_PSEUDONYM_KEY"):
        released(home, lake, work, "series", "1")


@pytest.mark.parametrize("method", ["dpsm_bayes", "trr"])
def test_a_private_method_refuses_them(home: Path, work: WorkArea, method: str) -> None:
    fields, policy = with_pseudonyms("release")
    with pytest.raises(SpecError, match=r"pseudonyms of .* cannot be combined with"):
        load_spec(written(home, {**fields, "schedule": None, "release": {"method": method}}, policy))
    spec = load_spec(written(home, fields, policy))
    naming = Naming(series="people", release="1")
    table = privacy_release.ingest(spec.source.uri, spec.data_schema(), work, naming=naming)
    with pytest.raises(
        SpecError, match=r"pseudonyms of \[.name.\] cannot be combined with .* reveal about each person"
    ):
        make_release(table, work, method=method)


def test_redacted_and_allowed_text_is_reported_by_count(
    work: WorkArea, tmp_path: Path, people: pd.DataFrame
) -> None:
    rng = np.random.default_rng(0)
    notes = rng.choice(["well", "ill"], len(people)).astype(object)
    notes[:3] = ["mail canary@example.org", "call 415-555-0132", "canary2@example.org"]
    people.assign(note=notes, other=notes).to_parquet(tmp_path / "noted.parquet", index=False)
    text = {"role": "insensitive", "kind": "categorical"}
    other = {**text, "text": {"allow": "addresses of the clinic"}}
    schema = tables.schema(note={**text, "text": "redact"}, other=other)
    table = privacy_release.ingest(str(tmp_path / "noted.parquet"), schema, work)
    staged = make_release(table, work, method="mondrian", parameters={"k": 5, "l": 2}, seed=7)
    manifest = json.loads(Path(staged.manifest).read_text())
    assert manifest["source"]["text"] == {
        "note": {"email": 2, "phone": 1},
        "other": {"email": 2, "phone": 1},
    }
    assert manifest["columns"]["note"]["text"] == "redact"
    assert manifest["columns"]["other"]["text"] == {"allow": "addresses of the clinic"}
    assert "canary" not in Path(staged.manifest).read_text()
    assert not any("canary" in str(v) for v in pd.read_parquet(staged.uri)["note"])
    plain = tables.schema(note=text, other=other)
    with pytest.raises(SchemaError, match="note: email in 2 records, phone in 1 record") as caught:
        privacy_release.ingest(str(tmp_path / "noted.parquet"), plain, work, label="again")
    assert "canary" not in str(caught.value)
