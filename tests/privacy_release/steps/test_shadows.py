"""Shadow releases at the gate: they find what no nearness shows, are made once, and cost no budget."""

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from privacy_engine import registry
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import equal_part
from privacy_engine.errors import InfeasibleError, IntegrityError, SpecError, VerificationError
from privacy_engine.release import Release, parameters_of
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import AttackName
from privacy_release.budget.schedules import schedule_named
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake, get
from privacy_release.running.run import run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.spec.sections.budget import schedule_of
from privacy_release.steps.attacks.holdout import hold_out
from privacy_release.steps.attacks.shadows import shadows_kept
from privacy_release.steps.attacks.tries import AttackedRelease, attack_staged
from privacy_release.steps.ingest import ingest
from privacy_release.steps.release import make_release
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea, sha256_file
from privacy_release.workarea.engines import read_engine
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.presence import Mark, Owner
from privacy_release.workarea.references import StagedRelease, Table
from privacy_release.workarea.remote.keys import KEY_VARIABLE, Wrapping
from privacy_release.workarea.remote.scratch import Scratch
from privacy_release.workarea.remote.store import Store
from tests import tables
from tests.ledgers import new_ledger

N = 600
AXIS = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 1]}
MEMBERSHIP = {"model": "attack_risk", "attack": "membership", "excess": 0.6, "holdout": 0.4}
RULE = AttackRisk(attack=AttackName.MEMBERSHIP, excess=0.6, shadows=4)


@dataclass(frozen=True, kw_only=True)
class Filtering:
    """Random places, but none near a true one: meant to protect, it tells who is true.

    No one is near a released record, so only shadows show it.
    """

    distance: float = 0.03
    drawn: int = 2_000
    key: ClassVar[str] = "filtering"
    calls: ClassVar[list[int]] = []
    dies_after: ClassVar[int] = -1

    def guarantees(self, schema: DataSchema) -> tuple[Any, ...]:
        return ()

    def privacy_loss(self, schema: DataSchema) -> PrivacyLoss | None:
        return None

    def release(self, table: pd.DataFrame, schema: DataSchema, rng: np.random.Generator) -> Release:
        if len(self.calls) == self.dies_after:
            raise OSError("the worker died")
        self.calls.append(len(table))
        drawn = rng.random((self.drawn, 2))
        far = np.abs(drawn[:, None] - table[["x", "y"]].to_numpy()[None]).sum(axis=2).min(axis=1)
        return Release(
            table=pd.DataFrame(drawn[far > self.distance], columns=["x", "y"]),
            schema=schema.without_identifiers(),
            method=self.key,
            parameters=parameters_of(self),
            guarantees=(),
        )


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def filtering(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Its method among the registered ones; how many records each call of it was given."""
    entry = registry.MethodEntry(home=f"{__name__}:Filtering", family=registry.Family.ANONYMIZER)
    monkeypatch.setattr(registry, "METHODS", MappingProxyType({**registry.METHODS, Filtering.key: entry}))
    monkeypatch.setattr(Filtering, "calls", calls := [])
    return calls


@pytest.fixture
def places(home: Path, filtering: list[int]) -> Callable[..., ReleaseSpec]:
    """Write a release of places by the method that filters."""
    table = np.random.default_rng(5).random((N, 2))
    pd.DataFrame(table, columns=["x", "y"]).to_parquet(home / "people.parquet")

    def written(rule: Mapping[str, Any]) -> ReleaseSpec:
        policy = {"require": [dict(rule)], "columns": {"forbid": ["name"]}}
        path = tables.write_release(
            home,
            policy,
            source={"uri": "people.parquet", "columns": ["x", "y"]},
            schema={"x": AXIS, "y": AXIS},
            expectations=None,
            release={"method": "filtering", "seed": 7},
        )
        return load_spec(path)

    return written


def test_the_gate_refuses_a_leak_that_only_shadows_see(
    places: Any, lake: Lake, work: WorkArea, filtering: list[int]
) -> None:
    # By the release alone the excess is about -0.1, by shadows 0.96 +- 0.03: far from the bound of 0.6.
    run_release(places(MEMBERSHIP), lake, "r1", work)
    assert filtering == [360]
    with pytest.raises(VerificationError, match=r"shadows=4.* by shadow models the excess risk is"):
        run_release(places(MEMBERSHIP | {"shadows": 4}), lake, "r2", work)
    assert filtering == [360, 360, *[60] * 4]
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["r1"]


@pytest.fixture
def released(places: Any, home: Path, work: WorkArea, filtering: list[int]) -> tuple[Table, StagedRelease]:
    """A table without 240 people who were held out, and its release."""
    schema = places(MEMBERSHIP).data_schema()
    table = hold_out(ingest(str(home / "people.parquet"), schema, work), work, 0.4)
    staged = make_release(table, work, method="filtering", seed=7)
    filtering.clear()
    return table, staged


def files_of(work: WorkArea) -> dict[str, str]:
    """The files of shadows, and their hashes."""
    return {path.name: sha256_file(path) for path in work.folder.glob("shadow-*")}


def test_shadows_are_made_once_and_more_of_them_begin_with_the_same(
    released: Any, work: WorkArea, filtering: list[int]
) -> None:
    messages: list[str] = []
    made, files = shadows_kept(RULE, *released, work, messages.append), files_of(work)
    assert filtering == [60] * 4
    assert messages == [f"shadow {n} of 4, of 60 of 240 records held out" for n in (1, 2, 3, 4)]
    assert {stat.S_IMODE(path.stat().st_mode) for path in work.folder.glob("shadow-*")} == {0o600}
    again = shadows_kept(RULE, *released, work)
    more = shadows_kept(replace(RULE, shadows=6), *released, work)
    assert filtering == [60] * 6
    assert files.items() <= files_of(work).items()
    for one, two, three in zip(made, again, more[:4], strict=True):
        assert one.release.equals(two.release)
        assert one.release.equals(three.release)
        assert one.inside.tolist() == two.inside.tolist() == three.inside.tolist()


def test_they_are_of_whole_people_each_in_every_second_one(released: Any, work: WorkArea) -> None:
    made = shadows_kept(RULE, *released, work)
    times = np.bincount(np.concatenate([shadow.inside for shadow in made]), minlength=240)
    assert np.bincount(times).tolist() == [120, 0, 120]


def test_after_a_crash_only_what_is_missing_is_made(
    released: Any, work: WorkArea, filtering: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(Filtering, "dies_after", 2)
        with pytest.raises(OSError, match="died"):
            shadows_kept(RULE, *released, work)
    before = files_of(work)
    assert len(before) == 4  # two shadows, each with its hash
    whole = shadows_kept(RULE, *released, work)
    assert filtering == [60] * 4
    assert before.items() <= files_of(work).items()
    # Records whose hash was not written any more were never attacked with: they are drawn again.
    (third,) = work.folder.glob("shadow-*-2.json")
    third.unlink()
    redrawn = shadows_kept(RULE, *released, work)
    assert filtering == [60] * 5
    assert [a.inside.tolist() for a in redrawn] == [a.inside.tolist() for a in whole]


def test_another_machine_goes_on_with_the_shadows_of_the_first(
    released: Any, filtering: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a secret of thirty-two bytes, or more"
    store = Store(root=f"file://{tmp_path}/bucket", wrapping=Wrapping(secret.encode(), KEY_VARIABLE))
    mark, found = Mark(key="people/run 1", owner=Owner.RUN), []
    monkeypatch.setattr(Filtering, "dies_after", 3)
    for machine in ("one", "another"):
        with Scratch(tmp_path / machine, "attack", run=store.of(mark.key), mark=mark) as scratch:
            if machine == "one":
                with pytest.raises(OSError, match="died"):
                    shadows_kept(RULE, *released, scratch)
                monkeypatch.setattr(Filtering, "dies_after", -1)
            else:
                shadows_kept(RULE, *released, scratch)
            found.append(files_of(scratch))
    first, second = found
    assert len(first) == 6
    assert first.items() <= second.items()
    assert filtering == [60] * 4


@pytest.mark.parametrize("what", ["records", "no records", "hash", "inside", "no JSON"])
def test_a_shadow_that_was_changed_is_refused(
    what: str, released: Any, work: WorkArea, filtering: list[int]
) -> None:
    shadows_kept(RULE, *released, work)
    (records,), (reported,) = (
        list(work.folder.glob(f"shadow-*-1.{ending}")) for ending in ("parquet", "json")
    )
    said = json.loads(reported.read_bytes())
    match what:
        case "records":
            (other,) = work.folder.glob("shadow-*-0.parquet")
            records.write_bytes(other.read_bytes())
        case "no records":
            records.unlink()
        case "hash":
            reported.write_text(json.dumps(said | {"sha256": "0" * 64}))
        case "inside":
            reported.write_text(json.dumps(said | {"inside": said["inside"][1:]}))
        case "no JSON":
            reported.write_text("[")
    with pytest.raises(IntegrityError, match="run from ingest again"):
        shadows_kept(RULE, *released, work)
    assert len(filtering) == 4


def test_to_attack_again_is_no_second_chance(released: Any, work: WorkArea, filtering: list[int]) -> None:
    table, staged = released
    policy = ReleasePolicy.from_dict(
        {"require": [MEMBERSHIP | {"shadows": 4}], "columns": {"forbid": ["name"]}}
    )
    attacked = AttackedRelease(table=table, staged=staged, report=verify_staged(staged, policy))
    said = []
    for _ in range(2):
        with pytest.raises(VerificationError, match="by shadow models the excess risk is") as refused:
            attack_staged(attacked, title="people", release_id="r1", work=work)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert filtering == [60] * 4
    with pytest.raises(SpecError, match="kept in the work area of the run, but none was given"):
        attack_staged(attacked, title="people", release_id="r1")


def test_a_method_with_other_parameters_has_other_shadows(
    released: Any, work: WorkArea, filtering: list[int]
) -> None:
    table, staged = released
    shadows_kept(RULE, table, staged, work)
    other = make_release(table, work, method="filtering", parameters={"drawn": 1_000}, label="other")
    filtering.clear()
    shadows_kept(RULE, table, other, work)
    assert filtering == [60] * 4
    assert len(files_of(work)) == 16


def test_too_few_people_are_refused_before_the_method_runs(
    places: Any, lake: Lake, work: WorkArea, filtering: list[int]
) -> None:
    few = MEMBERSHIP | {"holdout": 0.1, "shadows": 4}
    with pytest.raises(
        InfeasibleError, match=r"shadows=4\) makes shadow.* at least 80 of them, got 60; raise holdout"
    ):
        run_release(places(few), lake, "r1", work)
    assert filtering == []


def test_check_finds_too_few_people_where_it_reads_the_source(
    places: Any,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    filtering: list[int],
) -> None:
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "checked"))
    path = str(home / "releases" / "people.yaml")
    for holdout, found in ((0.1, WRONG), (0.2, DONE)):
        places(MEMBERSHIP | {"holdout": holdout, "shadows": 4})
        assert main(["check", "--no-source", path]) == DONE
        assert main(["check", path]) == found
        assert ("needs at least 80 of them, got 60" in capsys.readouterr().err) is (found == WRONG)
    assert filtering == []
    assert not list((tmp_path / "checked").iterdir())


@pytest.fixture
def listed(home: Path) -> Callable[..., Path]:
    """Write a release of people that their names are looked for in."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "name": [f"person-{i:04d}" for i in range(N)],
            "age": rng.random(N) * 100,
            "zip": rng.choice(["N1", "N2", "S1", "S2"], N),
            "illness": rng.choice(["cold", "cough", "flu", "measles"], N),
            **{axis: rng.random(N) for axis in "xyz"},  # by which a planted record is surely found
        }
    )
    table.to_parquet(home / "people.parquet")
    axes = {axis: AXIS | {"bins": 4} for axis in "xyz"}
    columns = tables.fields("name", "age", "zip", "illness", **tables.PUBLIC, **axes)

    def written(policy: Mapping[str, Any], **changed: Any) -> Path:
        source = {"uri": "people.parquet", "columns": list(columns)}
        fields = {"schema": columns, "source": source, "schedule": None, "expectations": None} | changed
        return tables.write_release(home, policy, **fields)

    return written


def test_a_method_that_needs_more_people_says_so(listed: Any, lake: Lake, work: WorkArea) -> None:
    policy = {"require": [{"model": "k_anonymity", "k": 70}, MEMBERSHIP | {"shadows": 4}]}
    spec = load_spec(listed(policy, release={"method": "mondrian", "k": 70, "seed": 7}))
    message = (
        r"shadows=4\): mondrian cannot make a shadow release of 60 of the 240 people held out: .*lower k, or"
    )
    with pytest.raises(InfeasibleError, match=message) as refused:
        run_release(spec, lake, "r1", work)
    assert "person-" not in str(refused.value)
    assert not releases(lake.table("people"))


@pytest.mark.quick("errphmemoised")  # the other methods
@pytest.mark.parametrize(
    "release",
    [
        {"method": "latent_class", "epsilon": 1.0},
        {"method": "errph", "p_0": 0.2, "randomness": "system"},
        {"method": "errph", "p_0": 0.2, "randomness": "memoised", "secret": "memoised_default"},
    ],
    ids=lambda release: release["method"] + release.get("randomness", ""),
)
def test_shadows_of_a_private_release_are_not_booked(
    release: dict[str, Any],
    listed: Any,
    lake: Lake,
    work: WorkArea,
    tmp_path: Path,
    curator: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVACY_SECRET", "s" * 40)
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=20.0), reason="a test", by="officer")
    # The excess is about 0, and with 300 people held out its standard error 0.1: six of them below the bound.
    rule = MEMBERSHIP | {"shadows": 4, "holdout": 0.5, "excess": 0.7}
    policy = {"require": [rule], "max_epsilon": 20, "max_delta": 0}
    spec = load_spec(listed(policy, release=release, budget={"dataset": "people", "curator_report": False}))
    seen: list[str] = []
    done = run_release(spec, lake, "r1", work, lambda step, text: seen.append(text), ledger=ledger)
    assert {f"shadow {number} of 4" for number in (1, 2, 3, 4)} <= set(seen)  # and not of how many people
    assert [e.event.value for e in ledger.check("people")] == ["grant", "reserve", "commit"]
    assert len(files_of(work)) == 8
    (trial,) = done.report.attacks.trials
    assert trial.to_ref().keys() == {"rule", "attack", "bound", "passed", "shadows"}
    manifest = json.dumps(
        [done.report.to_ref(), done.staged.to_ref(), manifest_of(lake.table("people"), "r1")]
    )
    assert "shadow-" not in manifest
    (page,) = curator.rglob("*attacks*.html")
    (entry,) = releases(lake.table("people"))
    report = get(lake, lake.table("people").proof(f"{entry['report_sha256']}.html")).decode()
    for text in (page.read_text(), report):
        assert "They learn from 4 releases that the same method made of other people" in text


@pytest.mark.slow  # the command, beside the step
def test_the_command_attacks_a_private_release_by_its_shadows(
    listed: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, place in {"LEDGER": "ledger.db", "WORK_AREA": "work", "LAKE": "lake"}.items():
        monkeypatch.setenv(f"PRIVACY_{name}", str(tmp_path / place))
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    rule = MEMBERSHIP | {"shadows": 4, "holdout": 0.5, "excess": 0.7}  # as above
    path = listed(
        {"require": [rule], "max_epsilon": 1, "max_delta": 0},
        release={"method": "latent_class", "epsilon": 1.0},
        budget={"dataset": "people", "curator_report": False},
    )
    assert main(["check", str(path)]) == DONE
    assert main(["run", str(path), "--release-id", "r1"]) == DONE
    output = capsys.readouterr()
    assert "1 attack bound met" in output.err
    assert "person-" not in output.err + output.out
    assert [entry["release_id"] for entry in releases(lake.table("people"))] == ["r1"]
    assert [e.event.value for e in ledger.check("people")] == ["grant", "reserve", "commit"]
    assert not list((tmp_path / "work").rglob("*"))


PRIVATE = {
    "policy": {"max_epsilon": 1, "max_delta": 0.1},
    "release": {"method": "latent_class", "max_rows": 1},
    "person": "name",
}
EACH = {**PRIVATE, "release": {**PRIVATE["release"], "epsilon": 0.1}}
YEARLY = {"regime": "yearly", "epsilon": 1, "delta": 1e-9, "releases": 10}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({**EACH, "over_time": {"regime": "participation", "releases": 2}}, "promise participation"),
        ({**EACH, "over_time": {"regime": "arrivals"}}, "budget.promise arrivals continues earlier"),
        ({**PRIVATE, "over_time": {**YEARLY, "opening": 0.5}}, "budget.promise yearly continues"),
        ({**PRIVATE, "over_time": YEARLY}, None),
        (
            {"policy": {"require": [{"model": "k_anonymity", "k": 5}]}, "history": {"identifier": "name"}},
            "history",
        ),
        (
            {
                "policy": {"require": [{"model": "k_anonymity", "k": 5}]},
                "history": {"identifier": "name", "keep": False},
            },
            None,
        ),
    ],
    ids=[
        "participation",
        "arrivals",
        "opening",
        "yearly",
        "history",
        "only judged",
    ],
)
def test_check_refuses_shadows_of_what_follows_earlier_releases(
    given: dict[str, Any], expected: str | None, listed: Any, capsys: Any
) -> None:
    given = dict(given)
    policy, over_time = given.pop("policy"), given.pop("over_time", None)
    if over_time is not None:
        given["budget"] = {"dataset": "people", "promise": over_time}
    for shadows in (0, 4):
        rule = MEMBERSHIP | {"shadows": shadows}
        path = listed({**policy, "require": [*policy.get("require", ()), rule]}, **given)
        right = expected is None or not shadows
        assert main(["check", str(path)]) == (DONE if right else WRONG)
        said = capsys.readouterr().err
        if right:
            assert "shadows" not in said
        else:
            assert expected in said
            assert "remove shadows from attack_risk" in said


@pytest.mark.parametrize(
    ("over_time", "alone"),
    [
        ({"regime": "participation", "releases": 2}, False),
        ({**YEARLY, "opening": 0.5}, False),
        (YEARLY, True),
    ],
    ids=lambda value: value["regime"] if isinstance(value, dict) else str(value),
)
def test_the_gate_refuses_shadows_of_a_release_that_tells_of_earlier_ones(
    over_time: dict[str, Any], alone: bool, released: Any, work: WorkArea
) -> None:
    table, staged = released
    schedule = schedule_named("people", schedule_of(over_time))
    epsilon, delta = getattr(schedule, "epsilon", 1.0), getattr(schedule, "delta", 0.0)
    loss = PrivacyLoss.within(epsilon, delta, Neighbours.REPLACE_PERSON)
    if over_time == YEARLY or "opening" in over_time:
        loss = equal_part(loss, schedule.releases, gaussian=True)
    manifest = json.loads(Path(staged.manifest).read_bytes()) | {"over_time": schedule.to_dict(loss)}
    Path(staged.manifest).write_text(json.dumps(manifest))
    if alone:
        assert len(shadows_kept(RULE, table, staged, work)) == 4
    else:
        with pytest.raises(SpecError, match="its method cannot make such"):
            shadows_kept(RULE, table, staged, work)


def test_the_gate_refuses_shadows_of_a_release_that_was_made_with_earlier_ones_or_in_fragments(
    released: Any, work: WorkArea
) -> None:
    table, staged = released
    cut = replace(staged, engine=read_engine("fragments"))
    with pytest.raises(SpecError, match="was made in fragments"):
        shadows_kept(RULE, table, cut, work)
    manifest = json.loads(Path(staged.manifest).read_bytes()) | {"history": {"releases": 1, "k": 5}}
    Path(staged.manifest).write_text(json.dumps(manifest))
    with pytest.raises(SpecError, match="release without history and promise"):
        shadows_kept(RULE, table, staged, work)


@pytest.mark.quick(
    "mondrian", "rfka", "privbayes", "errph", "structure"
)  # of each family, and of each special parameter
@pytest.mark.parametrize("name", registry.method_names())
def test_every_method_makes_shadows_from_what_its_manifest_tells(
    name: str, listed: Any, home: Path, work: WorkArea
) -> None:
    path = listed({"require": [{"model": "k_anonymity", "k": 2}]}, release={"method": "mondrian"})
    schema = load_spec(path).data_schema()
    table = hold_out(ingest(str(home / "people.parquet"), schema, work, individual="name"), work, 0.2)
    manifest = work.path("some.manifest.json")
    parameters = parameters_of(registry.load_method(name))
    if registry.is_randomizer(name):
        parameters["randomness"] = "memoised"
    if "trees" in parameters:
        parameters["trees"] = 20
    manifest.write_text(json.dumps({"method": name, "parameters": parameters}))
    claims = {"method": name, "guarantees": [], "loss": None, "figures": {}, "seconds": 0.0}
    staged = StagedRelease.from_ref(table.to_ref() | claims | {"manifest": str(manifest), "report": ""})
    made = shadows_kept(RULE, table, staged, work)
    assert [len(shadow.inside) for shadow in made] == [30] * 4
    assert all("name" not in shadow.release for shadow in made)
    assert all(len(shadow.release) > 0 for shadow in made)


def test_of_people_with_several_records_each_is_in_a_shadow_as_a_whole(
    listed: Any, home: Path, work: WorkArea
) -> None:
    path = listed(
        {"require": [{"model": "k_anonymity", "k": 2}]}, release={"method": "mondrian"}, person="name"
    )
    people = pd.read_parquet(home / "people.parquet")
    pd.concat([people, people[: N // 2]]).to_parquet(home / "people.parquet")
    schema = load_spec(path).data_schema()
    table = hold_out(ingest(str(home / "people.parquet"), schema, work), work, 0.2, [RULE])
    aside = read_private(table.holdout.uri, table.holdout.sha256)
    staged = make_release(table, work, method="mondrian", parameters={"k": 2}, seed=7)
    for shadow in shadows_kept(RULE, table, staged, work):
        inside = set(aside[schema.by].iloc[shadow.inside])
        assert len(inside) == 30
        assert sorted(shadow.inside) == np.flatnonzero(aside[schema.by].isin(inside)).tolist()
    with pytest.raises(InfeasibleError, match="got 60"):
        hold_out(table, work, 0.125, [RULE])  # 60 people, though of about 90 records
