"""The plan of a release: its steps, what they wait for, and what they do outside of the work area."""

from pathlib import Path
from typing import Any

import pytest

from privacy_release.plan.plan import Plan, plan_of
from privacy_release.plan.step import Effect, Slot, Step
from privacy_release.spec.model import ReleaseSpec, load_spec
from tests import tables
from tests.import_graph import ROOT
from tests.private_run import PRIVATE

SHIPPED = sorted((ROOT / "include" / "releases").rglob("*.yaml"))


def specified(folder: Path, **fields: Any) -> ReleaseSpec:
    home = tables.write_home(folder, tables.people(), {"max_epsilon": 1}, **fields)
    return load_spec(home / "releases" / "people.yaml")


def test_nothing_is_published_before_it_is_verified_attacked_and_approved(tmp_path: Path) -> None:
    spec = specified(
        tmp_path,
        transform={"sql": "SELECT * FROM records"},
        outliers={"method": "okplof", "action": "report"},
        approval={"required": True},
        publish={"table": "people", "evidence": True},
    )
    plan = plan_of(spec, attacked=True)
    assert plan.before() == {
        "ingest": set(),
        "validate": {"ingest"},
        "transform": {"validate"},
        "detect_outliers": {"transform"},
        "hold_out": {"detect_outliers"},
        "release": {"hold_out"},
        "verify": {"release"},
        "attack": {"hold_out", "release", "verify"},
        "approve": {"attack", "release"},
        "publish": {"approve", "attack", "release"},
        "evidence": {"publish"},
    }
    assert [step.name for step in plan.last()] == ["publish", "evidence"]


def test_a_private_release_looks_at_its_budget_before_it_reads_its_source(tmp_path: Path) -> None:
    plan = plan_of(specified(tmp_path, **PRIVATE))
    assert plan.before() == {
        "budget": set(),
        "ingest": {"budget"},
        "release": {"ingest"},
        "verify": {"release"},
        "publish": {"release", "verify"},
        "curator_report": {"release", "ingest"},
    }


def test_a_private_release_looks_at_its_budget_before_it_reads_a_register(tmp_path: Path) -> None:
    register = {"uri": "voters.parquet", "columns": ["age"]}
    waits = plan_of(specified(tmp_path, **PRIVATE, public_register=register)).before()
    assert (waits["register"], waits["ingest"]) == ({"budget"}, {"register"})


def test_each_of_several_tables_is_validated_before_the_release() -> None:
    (clinic,) = [path for path in SHIPPED if path.stem == "clinic_tables"]
    waits = plan_of(load_spec(clinic)).before()
    parts = {name for name in waits if name.startswith("validate_")}
    assert len(parts) > 1
    assert all(waits[name] == {"ingest"} for name in parts)
    assert waits["release"] == {"ingest", *parts}


def test_fragments_are_mapped_and_joined_unless_one_process_makes_them() -> None:
    (cut,) = [path for path in SHIPPED if path.stem == "adult_fragments"]
    spec = load_spec(cut)
    mapped, whole = plan_of(spec).before(), plan_of(spec, mapped=False).before()
    assert (mapped["release"], mapped["release_fragment"]) == ({"release_fragment"}, {"cut"})
    assert set(mapped) - set(whole) == {"cut", "release_fragment"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_prepares_a_table_only_reads_the_source(path: Path) -> None:
    spec = load_spec(path)
    plan = plan_of(spec, attacked=True).rehearsal()
    reads = {Effect.READS_SOURCE} if spec.reads_records else set()
    assert {effect for step in plan.steps for effect in step.effects} == reads


@pytest.mark.parametrize(
    "steps",
    [
        (Step(name="release", takes=(Slot.TABLE,)),),
        (Step(name="verify", after=("release",)),),
        (Step(name="ingest"), Step(name="ingest")),
    ],
    ids=["a table that nothing gives", "a step that is not there", "one name twice"],
)
def test_a_plan_in_which_a_step_lacks_something_is_refused(steps: tuple[Step, ...]) -> None:
    with pytest.raises(ValueError, match="occurs twice, or no earlier step gives"):
        Plan(steps)
