"""The floor policy of a deployment: it holds for every release, and no release file can lower it."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import privacy_release
from privacy_engine.errors import SpecError, VerificationError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.catalogue import catalogue, readable_specs
from privacy_release.spec.floor import floor_policy
from privacy_release.spec.model import load_spec
from privacy_release.steps.approval import approval_of
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.references import StagedRelease

Floor = Callable[..., Path]


@pytest.fixture
def set_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Floor:
    """Sets the floor policy: models as (name, parameters), and other fields."""

    def put(*models: dict[str, Any], **more: Any) -> Path:
        path = tmp_path / "floor.yaml"
        path.write_text(yaml.safe_dump({"require": list(models), **more}))
        monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(path))
        return path

    return put


@pytest.fixture
def staged(home: Path, work: WorkArea) -> StagedRelease:
    spec = load_spec(home / "releases" / "people.yaml")
    table = privacy_release.ingest(spec.source.uri, spec.data_schema(), work, columns=spec.source.columns)
    return privacy_release.make_release(table, work, method="mondrian", parameters={"k": 5, "l": 2}, seed=7)


def k(number: int) -> dict[str, Any]:
    return {"model": "k_anonymity", "k": number}


def weak() -> ReleasePolicy:
    return privacy_release.load_policy({"require": [k(2)], "max_suppressed": 1})


def test_without_the_setting_there_is_no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_FLOOR_POLICY", raising=False)
    assert floor_policy() is None


def test_a_release_is_verified_under_its_policy_and_the_floor(
    staged: StagedRelease, set_floor: Floor
) -> None:
    assert privacy_release.verify_staged(staged, weak()).passed
    set_floor(k(50), max_suppressed=0.25)
    report = privacy_release.verify_staged(staged, weak())
    assert not report.passed
    assert {f["rule"]: f["passed"] for f in report.findings} == {
        "k_anonymity(k=2)": True,
        "k_anonymity(k=50)": False,
        "max_suppressed": True,
    }
    assert report.policy["max_suppressed"] == 0.25


def test_the_manifest_records_the_sha256_of_the_floor(
    staged: StagedRelease, lake: Lake, set_floor: Floor
) -> None:
    path = set_floor(k(3))
    privacy_release.publish_staged(
        staged, privacy_release.verify_staged(staged, weak()), lake.table("people"), "r1"
    )
    manifest = manifest_of(lake.table("people"), "r1")
    assert manifest["floor_policy"] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert k(3) in manifest["policy"]["require"]


def test_what_was_verified_without_the_floor_of_today_is_not_published(
    staged: StagedRelease, lake: Lake, set_floor: Floor
) -> None:
    without = privacy_release.verify_staged(staged, weak())
    set_floor(k(3))
    under_three = privacy_release.verify_staged(staged, weak())
    set_floor(k(4))
    for report in (without, under_three):
        with pytest.raises(VerificationError, match=r"floor policy .*floor\.yaml.*verify it again"):
            privacy_release.publish_staged(staged, report, lake.table("people"), "r1")
    assert privacy_release.publish_staged(
        staged, privacy_release.verify_staged(staged, weak()), lake.table("people"), "r1"
    )


def test_a_floor_that_asks_for_an_approval_publishes_nothing_without(
    home: Path, staged: StagedRelease, lake: Lake, work: WorkArea, set_floor: Floor
) -> None:
    set_floor(k(3), approval=True)
    report = privacy_release.verify_staged(staged, weak())
    by_none = approval_of(report, None, "2026-01-01")
    for approved in (None, by_none):
        with pytest.raises(VerificationError, match="requires an approval of every release"):
            privacy_release.publish_staged(staged, report, lake.table("people"), "r1", approved=approved)
    (fault,) = catalogue().faults
    assert "approval.required must be true" in fault
    spec = load_spec(home / "releases" / "people.yaml")
    with pytest.raises(SpecError, match="must be approved"):
        run_release(spec, lake, "r2", work)
    assert run_release(spec, lake, "r2", work, approved_by="officer").published.rows == 200


@pytest.mark.parametrize(
    ("own", "floor", "expected"),
    [
        ({"require": [k(4)]}, {"require": [k(5)]}, "k_anonymity(k=4) is weaker than k_anonymity(k=5)"),
        ({"require": [k(4), k(6)]}, {"require": [k(5)]}, None),
        ({"require": [k(4)]}, {"max_gcp": 0.5, "require": [k(4)]}, None),
        ({"require": [k(4)], "max_gcp": 0.6}, {"max_gcp": 0.5, "require": [k(4)]}, "max_gcp 0.6 is weaker"),
        (
            {"require": [{"model": "t_closeness", "t": 0.3}]},
            {"require": [{"model": "t_closeness", "t": 0.2, "attribute": "a"}]},
            "t_closeness(t=0.3, distance=equal) is weaker",
        ),
        (
            {"require": [{"model": "t_closeness", "t": 0.1}]},
            {"require": [{"model": "t_closeness", "t": 0.2, "attribute": "a"}]},
            None,
        ),
        (
            {"require": [{"model": "t_closeness", "t": 0.1, "attribute": "a"}]},
            {"require": [{"model": "t_closeness", "t": 0.2}]},
            None,  # it is silent of the other attributes
        ),
        (
            {
                "require": [
                    {"model": "t_closeness", "t": t, "attribute": name}
                    for name, t in (("a", 0.3), ("b", 0.1))
                ]
            },
            {"require": [{"model": "t_closeness", "t": 0.2}]},
            "is weaker",
        ),
        (
            {"require": [{"model": "alpha_k_anonymity", "alpha": 0.1, "k": 3}]},
            {"require": [{"model": "alpha_k_anonymity", "alpha": 0.5, "k": 5}]},
            "is weaker",
        ),
        (
            {"require": [{"model": "m_invariance", "m": 2}]},
            {"require": [{"model": "m_invariance", "m": 3}]},
            "weaker",
        ),
    ],
)
def test_what_a_policy_says_is_compared_with_the_floor(
    own: dict[str, Any], floor: dict[str, Any], expected: str | None
) -> None:
    found = ReleasePolicy.from_dict(own).weaker_than(ReleasePolicy.from_dict(floor))
    assert [expected in sentence for sentence in found] == ([True] if expected else [])


def test_a_policy_that_says_less_than_the_floor_is_an_error_of_its_releases(
    home: Path, lake: Lake, work: WorkArea, set_floor: Floor
) -> None:
    floor = set_floor(k(6))
    (fault,) = catalogue().faults
    for part in (home / "releases" / "people.yaml", home / "policies" / "people.yaml", floor):
        assert str(part) in fault
    assert "k_anonymity(k=5) is weaker than k_anonymity(k=6)" in fault
    with pytest.raises(SpecError, match="is weaker"):
        run_release(load_spec(home / "releases" / "people.yaml"), lake, "r1", work)


UNREADABLE = {
    None: "FileNotFoundError",
    "require: [": "must be YAML",
    "require: []": "must require at least one model",
    "require: [{model: k_anonymity, k: 5}]\napproval: perhaps": "approval must be true or false",
    "require: [{model: k_anonymity, k: 5}]\nunknown: 1": "floor.yaml: line 2: policy: unknown fields",
}


def test_a_floor_that_cannot_be_read_stops_every_release_and_no_page(
    home: Path, staged: StagedRelease, lake: Lake, work: WorkArea, set_floor: Floor
) -> None:
    report = privacy_release.verify_staged(staged, weak())
    path = set_floor(k(3))
    spec = load_spec(home / "releases" / "people.yaml")
    steps = (
        lambda: run_release(spec, lake, "r1", work),
        lambda: privacy_release.ingest(spec.source.uri, spec.data_schema(), work),
        lambda: privacy_release.verify_staged(staged, weak()),
        lambda: privacy_release.publish_staged(staged, report, lake.table("people"), "r1"),
    )
    for content, expected in UNREADABLE.items():
        path.unlink() if content is None else path.write_text(content)
        for step in steps:
            with pytest.raises(SpecError, match=f"the floor policy .*{expected}.*PRIVACY_FLOOR_POLICY"):
                step()
        assert [spec.name for spec in readable_specs()] == ["people"]
        found = catalogue()
        assert [spec.name for spec in found.usable.values()] == ["people"]  # its DAG stays to be seen
        assert len(found.faults) == 1


def test_a_floor_by_a_relative_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", "floor.yaml")
    with pytest.raises(SpecError, match="must be an absolute path"):
        floor_policy()


def test_the_commands_keep_the_floor(
    home: Path, tmp_path: Path, lake: Lake, set_floor: Floor, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work"))
    spec, policy = home / "releases" / "people.yaml", home / "policies" / "people.yaml"
    policy.write_text(yaml.safe_dump({"require": [{"model": "distinct_l_diversity", "l": 2}]}))
    assert main(["check", str(spec)]) == DONE
    table = tmp_path / "released.parquet"
    assert main(["run", str(spec), "--lake", lake.root, "--release-id", "r1"]) == DONE
    privacy_release.read_release(lake.table("people"), "r1").to_pandas().to_parquet(table)
    verify = ["verify", str(table), "--policy", str(policy), "--schema", str(spec)]
    assert main(verify) == DONE
    set_floor(k(150))
    assert main(verify) == REFUSED
    assert main(["run", str(spec), "--lake", lake.root, "--release-id", "r2"]) == WRONG
    policy.write_text(yaml.safe_dump({"require": [k(3)]}))
    capsys.readouterr()
    assert main(["check"]) == WRONG
    assert "k_anonymity(k=3) is weaker than k_anonymity(k=150)" in capsys.readouterr().err
