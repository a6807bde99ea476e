"""The gate of attacks: a leaking release is refused, a kept bound is reported without a figure, no leaks."""

import io
import json
import re
import stat
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from privacy_engine.attacks.trial import Results
from privacy_engine.errors import InfeasibleError, SchemaError, SpecError, VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.attack_risk import AttackRisk
from privacy_engine.verification.models import rule_of
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.vocabulary import AttackName
from privacy_release.evidence.archive import pack
from privacy_release.lake.read import manifest_of, releases
from privacy_release.lake.store import Lake, get
from privacy_release.proof.keys import SigningKey
from privacy_release.running.run import run_release
from privacy_release.spec.check import check_files
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.steps.approval_question import question
from privacy_release.steps.attacks.holdout import hold_out
from privacy_release.steps.attacks.tries import AttackedRelease, _trial, attack_staged, require_attacked
from privacy_release.steps.ingest import ingest
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import read_private
from privacy_release.workarea.references import AttackRef, ReportRef, TrialRef, plain
from tests import tables
from tests.ledgers import new_ledger
from tests.privacy_release.proof import signed_tables

N = 1000
INFERENCE = {"model": "attack_risk", "attack": "inference", "excess": 0.5}
LINKAGE = {"model": "attack_risk", "attack": "linkage", "excess": 0.5}
MINIMALITY = {"model": "attack_risk", "attack": "minimality", "excess": 0.15}
MEMBERSHIP = {"model": "attack_risk", "attack": "membership", "excess": 0.5}


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def write(home: Path) -> Any:
    """Write the release with rules about attacks; its people have an illness that nothing tells.

    The number of visits is released as it is. Everybody's own number makes the records recognizable, which
    membership sees: a release that keeps k and l and leaks.
    """

    def written(*rules: dict[str, Any], own_visits: bool = False, **changed: Any) -> ReleaseSpec:
        rng = np.random.default_rng(5)
        table = pd.DataFrame(
            {
                "name": [f"person-{i:04d}" for i in range(N)],
                "age": rng.random(N) * 100,
                "zip": rng.choice(["N1", "N2", "S1", "S2"], N),
                "illness": rng.choice(["cold", "cough", "flu", "measles"], N),
                "visits": rng.permutation(N) + 31_000 if own_visits else np.zeros(N, np.int64),
            }
        )
        table.to_parquet(home / "people.parquet")
        policy = tables.POLICY | {"require": [*tables.POLICY["require"], *rules]}
        schema = tables.fields(visits={"unique": {"allow": "a test"}})
        fields = {"schema": schema, "expectations": None} | changed
        return load_spec(tables.write_release(home, policy, **fields))

    return written


def report_of(lake: Lake) -> str:
    """The report of the release that was published last."""
    entry = releases(lake.table("people"))[-1]
    return get(lake, lake.table("people").proof(f"{entry['report_sha256']}.html")).decode()


def test_a_bound_that_is_kept_is_reported_without_figures(
    write: Any, lake: Lake, work: WorkArea, curator: Path
) -> None:
    seen: list[tuple[str, str]] = []
    # The illness is drawn at random: an excess above the bound of 0.5 is ten standard errors away.
    done = run_release(write(INFERENCE), lake, "r1", work, lambda s, text: seen.append((s, text)))
    assert done.published.rows == 900
    manifest = manifest_of(lake.table("people"), "r1")
    reported = [f for f in manifest["measured"] if f["rule"].startswith("attack_risk")]
    assert [(f["threshold"], f["measured"], f["passed"]) for f in reported] == [(0.5, None, True)]
    assert manifest["source"]["holdout"] == 0.1
    assert "outcomes" not in json.dumps(manifest)
    report = report_of(lake)
    assert re.findall(r"bound kept|at most [\d.]+", report[report.index('id="attacks"') :])[:2] == [
        "bound kept",
        "at most 0.5",
    ]
    assert "Excess risk 0" not in report
    (page,) = curator.rglob("*.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "Inference" in page.read_text()
    assert [kind for kind, _ in seen if kind == "attack"] == ["attack"] * 2
    (trial,) = done.report.attacks.trials
    assert [o["subject"] for o in trial.outcomes] == ["illness"]
    assert "person-" not in json.dumps(plain([done.report, done.staged, seen]))


def test_figures_that_the_steward_publishes_are_rounded_and_tell_no_rate(
    write: Any, lake: Lake, work: WorkArea
) -> None:
    # As above: an excess above the bound of 0.5 is ten standard errors away.
    done = run_release(write(INFERENCE | {"publish_figures": True}), lake, "r1", work)
    (manifest,) = manifest_of(lake.table("people"), "r1")["attacks"]
    (exact,) = done.report.attacks.trials[0].outcomes
    (outcome,) = manifest["outcomes"]
    assert (manifest["attack"], manifest["bound"], manifest["confidence"]) == ("inference", 0.5, 0.95)
    assert outcome.keys() == {"subject", "excess", "low", "high"}
    assert outcome["low"] <= exact["low"] <= outcome["low"] + 0.01
    assert outcome["high"] - 0.01 <= exact["high"] <= outcome["high"]
    assert all(round(outcome[name], 2) == outcome[name] for name in ("excess", "low", "high"))
    label = re.search(r'aria-label="Excess risk (\S+) \((\S+) to (\S+)\), bound (\S+)"', report_of(lake))
    assert label is not None  # of the plot
    shown = dict(zip(("excess", "low", "high"), map(float, label.groups()[:3]), strict=True))
    assert shown == {name: outcome[name] for name in shown}
    assert float(label[4]) == 0.5
    (course,) = question(done.staged, done.report, lake.table("people"), "r2")["excess"]
    before, now = course["releases"]
    assert (before["release"], before["excess"]) == ("r1", outcome["excess"])
    assert now == {"release": "r2", "committed": "", **{name: exact[name] for name in shown}}
    data = pack(lake.table("people"), "r1", [SigningKey.new()], pdf=False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert "Attacks that were tried" in archive.read("evidence.html").decode()
        texts = b"".join(archive.read(name) for name in archive.namelist())
    for secret in (b"person-", b"holdout.key", b'"planted"', b'"main"', b'"control"'):
        assert secret not in texts


def test_a_release_that_leaks_is_refused_and_nothing_is_published(
    write: Any, lake: Lake, work: WorkArea, curator: Path
) -> None:
    with pytest.raises(VerificationError, match=r"attack=membership.*excess risk is") as refused:
        run_release(write(INFERENCE, MEMBERSHIP, own_visits=True), lake, "r1", work)
    assert "inference" not in str(refused.value)
    assert not releases(lake.table("people"))
    (page,) = curator.rglob("*.html")
    assert "person-" not in page.read_text()


@pytest.fixture
def streets(write: Any, home: Path) -> Any:
    """Write the release of people in streets of two houses, of which a share gave one house one illness."""

    def written(alike: float) -> ReleaseSpec:
        spec, rng, count = write(MINIMALITY), np.random.default_rng(6), 40
        houses = [(f"house{s}{h}", f"street{s}", "*") for s in range(count) for h in "ab"]
        (home / "hierarchies" / "zip.csv").write_text("\n".join(";".join(row) for row in houses))
        own = np.repeat(np.arange(2 * count), [8, 18] * count)
        ill = rng.integers(0, 4, len(own))
        one = own % 2 == 0
        same = one & (own < 2 * alike * count)
        ill[same] = rng.integers(0, 4, 2 * count)[own[same]]
        table = pd.DataFrame(
            {
                "name": [f"person-{i:04d}" for i in range(len(own))],
                "age": 50.0,
                "zip": np.array([row[0] for row in houses])[own],
                "illness": np.array(["cold", "cough", "flu", "measles"])[ill],
                "visits": 0,
            }
        )
        table.iloc[rng.permutation(len(table))].to_parquet(home / "people.parquet")
        return spec

    return written


def test_what_the_rule_forbade_to_cut_is_inferred_and_refused(
    streets: Any, lake: Lake, work: WorkArea
) -> None:
    # Only who is held out is random: the least risk in the interval is then 0.24 +- 0.014, the bound 0.15.
    with pytest.raises(
        VerificationError, match=r"attack=minimality.*on illness the excess risk is"
    ) as refused:
        run_release(streets(alike=0.9), lake, "r1", work)
    assert not releases(lake.table("people"))
    assert not re.search("person-|house|street|measles", str(refused.value))


@pytest.mark.slow  # the engine keeps the bound quickly; the refusal above shows that it is connected
def test_a_release_that_the_rule_did_not_make_coarser_keeps_the_bound(
    streets: Any, lake: Lake, work: WorkArea
) -> None:
    done = run_release(streets(alike=0.0), lake, "r1", work)
    (trial,) = done.report.attacks.trials
    assert [(o["subject"], o["verdict"]) for o in trial.outcomes] == [("illness", "quiet")]
    assert trial.outcomes[0]["planted"] > 0.15
    assert "Someone who knows the rules of the release" in report_of(lake)


def test_minimality_is_refused_where_it_has_nothing_to_reverse(write: Any, home: Path) -> None:
    spec = write(MINIMALITY)
    check_files(spec, None)
    policy = {"require": [tables.POLICY["require"][0], MINIMALITY]}
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump(policy))
    with pytest.raises(SpecError, match=r"no model of sensitive values; k-anonymity .* remove the rule"):
        check_files(spec, None)
    schema = tables.fields(**tables.PUBLIC, visits={"bounds": [0, 9]})
    for method in ("latent_class", "errph"):
        with pytest.raises(SpecError, match=f"{method} makes no classes .* remove the rule"):
            check_files(write(MINIMALITY, schema=schema, release={"method": method}, schedule=None), None)


def test_no_figure_of_a_private_release_leaves_the_curators_report(
    write: Any, lake: Lake, work: WorkArea, home: Path, tmp_path: Path
) -> None:
    from privacy_engine.dp.limits import Limit

    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    requested = INFERENCE | {"publish_figures": True}  # it publishes nothing here
    spec = write(
        requested,
        schema=(schema := tables.fields("name", "age", "zip", "illness", **tables.PUBLIC)),
        source={"uri": "people.parquet", "columns": list(schema)},
        release={"method": "latent_class", "epsilon": 1.0, "classes": 2, "fits": 1},
        budget={"dataset": "people"},
    )
    rules = {"require": [requested], "max_epsilon": 1, "max_delta": 0}
    (home / "policies" / "people.yaml").write_text(yaml.safe_dump(rules))
    seen: list[tuple[str, str]] = []
    done = run_release(spec, lake, "r1", work, lambda step, text: seen.append((step, text)), ledger=ledger)
    attacking = [text for step, text in seen if step == "attack"]
    assert "inference" in attacking
    assert not re.search(r"900|1,?000", " ".join(attacking))  # how many people the source has
    manifest = manifest_of(lake.table("people"), "r1")
    assert not [f for f in manifest["measured"] if f["rule"].startswith("attack_risk")]
    assert manifest["policy"]["require"][0]["model"] == "attack_risk"
    assert "attacks" not in manifest
    assert done.report.attacks.trials[0].to_ref().keys() == {"rule", "attack", "bound", "passed"}
    report = report_of(lake)
    reported = report[report.index('id="attacks"') : report.index('id="meaning"')]
    assert "bound kept" in reported
    assert "<svg" not in reported


def test_no_figure_of_a_randomized_release_without_a_loss_leaves_the_curators_report(
    write: Any, lake: Lake, work: WorkArea, home: Path
) -> None:
    """One column is released as it is, so that no loss is claimed; the others are random all the same."""
    requested = LINKAGE | {"excess": 0.3, "publish_figures": True}
    spec = write(
        requested,
        schema=tables.fields(**tables.PUBLIC),
        release={"method": "errph", "epsilon": 1.0},
        schedule=None,
    )
    policy = home / "policies" / "people.yaml"
    policy.write_text(yaml.safe_dump({"require": [requested], "max_breach": 1}))
    done = run_release(spec, lake, "r1", work)
    assert done.staged.loss is None
    (trial,) = done.report.attacks.trials
    assert trial.to_ref().keys() == {"rule", "attack", "bound", "passed"}
    assert not [f for f in done.report.findings if f["rule"].startswith("attack_risk")]
    assert "attacks" not in manifest_of(lake.table("people"), "r1")
    assert "<svg" not in report_of(lake).partition('id="attacks"')[2].partition('id="meaning"')[0]
    policy.write_text(yaml.safe_dump({"require": [requested | {"excess": 0.9}], "max_breach": 1}))
    with pytest.raises(VerificationError, match=r"linkage.* is not kept\. The figures are in the curator's"):
        run_release(spec, lake, "r2", work)


@pytest.fixture
def listed(write: Any, home: Path) -> Any:
    """Write the release with a public register of everybody, some columns of which differ."""

    def written(*rules: dict[str, Any], columns: tuple[str, ...] = ("age", "zip"), **changed: Any) -> Any:
        spec = write(*rules, public_register={"uri": "voters.parquet", "columns": list(columns)})
        voters = pd.read_parquet(home / "people.parquet")[["age", "zip"]].assign(**changed)
        voters.to_parquet(home / "voters.parquet")
        return spec

    return written


def test_linkage_tries_to_name_people_by_a_public_register(listed: Any, lake: Lake, work: WorkArea) -> None:
    # An attacker who knows half of two attributes finds at most every second planted record, and in a class
    # of 5 and more no one oftener than once in five times: .3 is eight standard errors from both.
    done = run_release(listed(LINKAGE | {"excess": 0.3}), lake, "r1", work)
    (trial,) = done.report.attacks.trials
    part, register = trial.outcomes
    assert (part["subject"], register["subject"]) == ("a part of the record", "a public register")
    assert register["planted"] > 0.5
    assert "voters" not in json.dumps([done.report.to_ref(), manifest_of(lake.table("people"), "r1")])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"age": 130.0}, "age"),
        ({"age": "old"}, "age"),
        ({"zip": "elsewhere"}, "zip"),
    ],
    ids=["out of bounds", "text for a number", "not in the hierarchy"],
)
def test_a_register_that_does_not_fit_the_schema_is_refused_before_a_release_is_made(
    listed: Any, lake: Lake, work: WorkArea, changed: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SchemaError, match=expected) as refused:
        run_release(listed(LINKAGE, **changed), lake, "r1", work)
    assert "elsewhere" not in str(refused.value)
    assert not releases(lake.table("people"))


def test_the_gate_subtracts_earlier_releases_where_people_are_followed(
    write: Any, lake: Lake, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", "a secret of the tests, long enough for it")
    fields = {"model": "attack_risk", "attack": "difference", "excess": 0.5, "publish_figures": True}
    with pytest.raises(SpecError, match="history must be declared for attack_risk of difference"):
        check_files(write(fields), None)
    spec = write(fields, history={"identifier": "name", "keep": False})
    run_release(spec, lake, "r1", work)  # there is nothing to subtract
    (trial,) = run_release(spec, lake, "r2", work).report.attacks.trials
    subjects = [outcome["subject"] for outcome in trial.outcomes]
    assert subjects == ["illness of people who came", "illness of people who left"]


def test_a_register_that_nothing_uses_or_that_tells_too_much_or_is_csv_is_refused(
    write: Any, listed: Any, home: Path
) -> None:
    with pytest.raises(
        SpecError, match="must be used by the policy or the floor policy: by attack_risk of linkage"
    ):
        check_files(listed(INFERENCE), None)
    for columns in (("age", "illness"), ("name",), ("nothing",), ("age", "age")):
        with pytest.raises(SpecError, match=r"public_register\.columns must be distinct quasi-identifiers"):
            listed(LINKAGE, columns=columns)
    with pytest.raises(
        SpecError, match=r"public_register\.uri must be of Parquet files, got CSV; .* read_csv"
    ):
        write(LINKAGE, public_register={"uri": "voters.csv", "columns": ["age", "zip"]})
    spec = listed(LINKAGE)
    (home / "voters.parquet").unlink()
    check_files(spec, None)  # the file is read by the run


def test_an_attack_without_people_left_out_is_refused(write: Any, home: Path, work: WorkArea) -> None:
    spec = write(INFERENCE)
    table = ingest(str(home / "people.parquet"), spec.data_schema(), work, columns=list(tables.FIELDS))
    staged = signed_tables.staged_release(signed_tables.people(), work.folder, "r1")
    policy = {"require": [{"model": "k_anonymity", "k": 4}, INFERENCE]}
    report = verify_staged(staged, ReleasePolicy.from_dict(policy))
    attacked = AttackedRelease(table=table, staged=staged, report=report)
    with pytest.raises(SpecError, match="no one was; hold them out"):
        attack_staged(attacked, title="people", release_id="r1")


def test_who_is_held_out_follows_the_key_of_the_run_alone(
    write: Any, home: Path, work: WorkArea, tmp_path: Path
) -> None:
    spec = write(INFERENCE, own_visits=True)
    table = ingest(str(home / "people.parquet"), spec.data_schema(), work, columns=list(tables.FIELDS))
    one, again = (hold_out(table, work, 0.1) for _ in range(2))
    assert one == again
    kept = read_private(one.uri, one.sha256)
    aside = read_private(one.holdout.uri, one.holdout.sha256)
    assert (len(kept), len(aside)) == (900, 100)
    assert set(kept["visits"]).isdisjoint(aside["visits"])
    # Other records in the same places: the same places are left out.
    frame = read_private(table.uri, table.sha256)
    frame.assign(name=frame["visits"].astype(str), age=1.5, illness="flu").to_parquet(home / "people.parquet")
    other = ingest(str(home / "people.parquet"), spec.data_schema(), work, columns=list(tables.FIELDS))
    moved = hold_out(other, work, 0.1)
    assert list(read_private(moved.holdout.uri, moved.holdout.sha256)["visits"]) == list(aside["visits"])
    with WorkArea(tmp_path / "work", "test/run 2") as later:  # the places alone reveal no one
        chosen = hold_out(other, later, 0.1).held_out
        assert list(read_private(chosen.uri, chosen.sha256)["visits"]) != list(aside["visits"])
    with pytest.raises(InfeasibleError, match="cannot be held out"):
        hold_out(other, work, 0.001)


def test_bounds_that_no_attack_can_be_tried_for_are_found_beforehand(write: Any) -> None:
    intersection = {"model": "attack_risk", "attack": "intersection", "excess": 0.1}
    with pytest.raises(SpecError, match="history must be declared"):
        check_files(write(intersection), None)
    with pytest.raises(SpecError, match="engine local"):
        check_files(write(INFERENCE, engine={"kind": "fragments"}), None)
    for wrong in ("yes", 1, False):
        with pytest.raises(SpecError, match="publish_figures must be true, or omitted"):
            check_files(write(INFERENCE | {"publish_figures": wrong}), None)
    with pytest.raises(SpecError, match="must not be averaging"):
        check_files(write({**INFERENCE, "attack": "averaging"}), None)


def test_all_rows_of_a_person_are_held_out_or_none(tmp_path: Path, work: WorkArea) -> None:
    fields = {"name": {"role": "identifier"}, "age": tables.FIELDS["age"], "person": "name"}
    pd.DataFrame({"name": [f"p{i % 20}" for i in range(100)], "age": range(100)}).to_parquet(
        tmp_path / "visits.parquet"
    )
    table = ingest(str(tmp_path / "visits.parquet"), DataSchema.from_dict(fields), work)
    left = hold_out(table, work, 0.2)
    kept, aside = (set(read_private(file.uri, file.sha256)["age"] % 20) for file in (left, left.holdout))
    assert (len(kept), len(aside), kept & aside) == (16, 4, set())


def test_a_rule_about_attacks_is_kept_by_a_trial_that_passed_on_these_bytes_alone() -> None:
    rule, own = rule_of(AttackRisk(attack=AttackName.INFERENCE, excess=0.5)), "a" * 64
    trial = TrialRef(rule=rule, attack="inference", bound=0.5, passed=True)
    policy = {"require": [tables.POLICY["require"][0], INFERENCE]}
    report = ReportRef(passed=True, sha256=own, rows=5, classes=1, findings=[], policy=policy)
    require_attacked(replace(report, attacks=AttackRef(sha256=own, trials=[trial], curator="")))
    with pytest.raises(VerificationError, match=r"inference.* was not tried on these bytes"):
        require_attacked(report)
    for sha256, trials in (
        ("b" * 64, [trial]),
        (own, []),
        (own, [replace(trial, passed=False)]),
        (own, [replace(trial, rule=rule.replace("0.5", "0.6"))]),
    ):
        with pytest.raises(VerificationError, match=r"inference.* was not tried on these bytes"):
            require_attacked(replace(report, attacks=AttackRef(sha256=sha256, trials=trials, curator="")))


def test_an_attack_that_had_nothing_to_go_for_keeps_no_bound_but_on_a_first_release() -> None:
    none = Results(attack="inference")
    kept = [
        _trial(AttackRisk(attack=attack, excess=0.5), none, private=False, alone=alone).passed
        for attack in (AttackName.INFERENCE, AttackName.INTERSECTION)
        for alone in (False, True)
    ]
    assert kept == [False, False, False, True]


def test_a_release_whose_attacks_were_not_tried_is_not_published(lake: Lake, tmp_path: Path) -> None:
    staged = signed_tables.staged_release(signed_tables.people(), tmp_path / "work", "r1")
    policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 4}, INFERENCE]})
    with pytest.raises(VerificationError, match="was not tried on these bytes"):
        publish_staged(staged, verify_staged(staged, policy), lake.table("people"), "r1")
    assert not releases(lake.table("people"))
