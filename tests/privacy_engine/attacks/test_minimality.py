"""Minimality: refusals are reversed, what they tell is found, and what tells nothing raises no alarm."""

from itertools import product
from math import comb

import numpy as np
import pandas as pd
import pytest

from privacy_engine import load_method
from privacy_engine.attacks import natural_cuts
from privacy_engine.attacks.minimality import Minimality
from privacy_engine.attacks.natural_cuts import ReleasedPeople, cuts_of
from privacy_engine.attacks.refusals import CutRules, inferred
from privacy_engine.attacks.trial import AttackOutcome, Case, Evidence, Verdict, case_of, try_attack
from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    Distance,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    SensitiveModel,
    TCloseness,
)
from privacy_engine.vocabulary import Kind, Role

ILL = tuple(f"illness{i}" for i in range(6))
AGES = DataSchema(
    (
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 10_000)),
        Attribute(name="ill", role=Role.SENSITIVE, categories=ILL),
    )
)
STREETS, ONE, OTHER = 60, 5, 15  # streets of two houses with this many people
HOUSES = tuple((f"house{s}{h}", f"street{s}", "*") for s in range(STREETS) for h in "ab")
IN_STREETS = DataSchema(
    (
        Attribute(name="house", role=Role.QUASI_IDENTIFIER, hierarchy=Hierarchy(HOUSES)),
        Attribute(name="ill", role=Role.SENSITIVE, categories=ILL),
    )
)


def enumerated(rules: CutRules, counts: np.ndarray, near: int, slip: float) -> tuple[float, np.ndarray]:
    """Chance of a refusal, and of each value on either side, from all ways to deal the values."""
    ways = np.array([w for w in product(*(range(c + 1) for c in counts)) if sum(w) == near])
    chance = np.array([np.prod([comb(c, x) for c, x in zip(counts, way, strict=True)]) for way in ways])
    chance = chance / chance.sum()
    broken = rules.of_cuts(ways, np.tile(counts, (len(ways), 1))) < 0
    weight = chance * np.where(broken, 1.0, slip)
    mean = weight @ ways / weight.sum()
    return chance[broken].sum(), np.stack([mean / near, (counts - mean) / (counts.sum() - near)])


@pytest.mark.parametrize(
    ("model", "counts", "near"),
    [
        (DistinctLDiversity(l=2), [2, 5], 2),
        (DistinctLDiversity(l=2), [8, 4, 4, 4], 8),
        (DistinctLDiversity(l=3), [9, 8, 3, 2, 2], 8),
        (EntropyLDiversity(l=2.5), [9, 8, 3, 2, 2], 9),
        (RecursiveCLDiversity(c=2, l=2), [7, 4, 4, 4], 6),
        (TCloseness(t=0.2), [9, 8, 3, 2, 2], 8),
        (TCloseness(t=0.15, distance=Distance.ORDERED), [4, 4, 4, 4], 6),
        (AlphaKAnonymity(alpha=0.5, k=2), [2, 1, 1, 1, 1, 1], 2),
        (BetaLikeness(beta=1.0), [3, 20], 4),
        (DeltaDisclosure(delta=1.5), [6, 9, 5], 6),
    ],
    ids=repr,
)
def test_draws_agree_with_all_ways_to_deal_the_values(
    model: SensitiveModel, counts: list[int], near: int
) -> None:
    own = np.array(counts)
    rules = CutRules(models=(model,), prior=own / own.sum())
    reported = inferred(rules, own[None], np.array([near]), np.random.default_rng(1), draws=3_000)
    for slip in (1e-6, 1e-2):
        chance, shares = enumerated(rules, own, near, slip)
        # The relative error of a chance of 1e-5 by 17 levels is about sqrt(17 / 3000) = .075 and, as copies
        # stay alike, some more; of a share it is about .5 / sqrt(3000) = .01.
        assert reported.chance[0] == pytest.approx(chance, rel=0.5)
        np.testing.assert_allclose(reported.shares(slip)[0], shares, atol=0.05)


def test_what_cannot_break_a_rule_tells_nothing() -> None:
    counts = np.array([[3, 3, 3, 3]])  # of six people on a side two values at least
    rules = CutRules(models=(DistinctLDiversity(l=2),), prior=np.full(4, 0.25))
    reported = inferred(rules, counts, np.array([6]), np.random.default_rng(2))
    assert reported.chance.tolist() == [0.0]
    np.testing.assert_allclose(reported.shares(1e-6), 0.25)


def test_the_example_of_wong_et_al_is_reversed() -> None:
    """Their tables 1 and 2: two people of q1 and five of q2 are one class, in which two have HIV.

    Five with two of them keep an alpha of one half, and so do two with one of them. So both of q1 have it.
    The other values, on which their rule is silent, are all different here.
    """
    schema = DataSchema(
        (
            Attribute(name="q", role=Role.QUASI_IDENTIFIER, categories=("q1", "q2")),
            Attribute(name="ill", role=Role.SENSITIVE, categories=("HIV", *ILL)),
        )
    )
    people = pd.DataFrame({"q": ["q1"] * 2 + ["q2"] * 5, "ill": ["HIV", "HIV", *ILL[:5]]})
    release = people.assign(q="{q1, q2}").iloc[[3, 0, 6, 1, 2, 5, 4]].reset_index(drop=True)
    found = ReleasedPeople.of(release, people, schema, np.random.default_rng(3))
    assert found.labels.tolist() == [0] * 7
    (cut,) = cuts_of(found, np.arange(7), 2)
    assert cut.least == 2
    counts = np.array([[2, 1, 1, 1, 1, 1]])
    rules = CutRules(models=(AlphaKAnonymity(alpha=0.5, k=2),), prior=counts[0] / 7)
    reported = inferred(rules, counts, np.array([2]), np.random.default_rng(4)).shares(1e-6)
    np.testing.assert_allclose(reported[0, :, 0], [1, 0], atol=1e-4)
    evidence = Evidence(
        release=release,
        source=schema,
        people=people,
        outsiders=people,
        rules=(AlphaKAnonymity(alpha=0.5, k=2),),
    )
    tries = Minimality().tries(case_of(evidence, np.random.default_rng(5)), np.random.default_rng(6))["ill"]
    assert tries.main.right >= 2
    assert tries.control.right < 2


def in_streets(seed: int, *, alike: float) -> pd.DataFrame:
    """People whose illness is drawn at random, but for one house of a share of the streets, which has one."""
    rng = np.random.default_rng(seed)
    house = np.repeat([row[0] for row in HOUSES], [ONE, OTHER] * STREETS)
    ill = rng.integers(0, len(ILL), len(house))
    for street in range(round(alike * STREETS)):
        first = street * (ONE + OTHER)
        ill[first : first + ONE] = rng.integers(0, len(ILL))
    return pd.DataFrame({"house": house, "ill": np.array(ILL)[ill]})


def case(people: pd.DataFrame, schema: DataSchema, rules: tuple[PrivacyModel, ...], k: int) -> Case:
    """Mondrian's own release of people."""
    rng = np.random.default_rng(7)
    requested = tuple(rule for rule in rules if isinstance(rule, SensitiveModel))
    release = load_method("mondrian", k=k, require=requested).release(people, schema, rng).table
    return case_of(
        Evidence(release=release, source=schema, people=people, outsiders=people[:50], rules=rules), rng
    )


def found_on(one: Case, seed: int) -> AttackOutcome:
    (outcome,) = try_attack(Minimality(), one, np.random.default_rng(seed)).outcomes
    return outcome


RULES = (KAnonymity(k=ONE), DistinctLDiversity(l=2))


@pytest.mark.slow  # needs many classes
def test_houses_that_were_not_distinguished_give_away_what_they_have_in_common() -> None:
    outcome = found_on(case(in_streets(8, alike=0.8), IN_STREETS, RULES, ONE), 9)
    assert outcome.verdict is Verdict.LEAK
    assert outcome.excess > 0.1
    assert not outcome.within(0.1)


@pytest.mark.slow  # needs many classes
def test_some_of_many_classes_are_enough_to_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one = case(in_streets(8, alike=0.8), IN_STREETS, RULES, ONE)
    most = 9 * len(one.evidence.release["house"].unique()) // 10
    monkeypatch.setattr(natural_cuts, "MOST_CLASSES", most)
    outcome = found_on(one, 9)
    assert outcome.verdict is Verdict.LEAK
    found = ReleasedPeople.of(one.evidence.release, one.evidence.people, IN_STREETS, np.random.default_rng(9))
    assert len(found.losses) == most
    assert outcome.found.main.tries == min(len(one.targets), (found.labels >= 0).sum())
    reported = one.evidence.release["house"].to_numpy()[found.rows]
    assert len({*zip(reported, found.released.tolist(), strict=True)}) == most


def test_a_release_that_no_rule_made_coarser_is_quiet_and_within_a_bound() -> None:
    people = in_streets(10, alike=0.0)[: STREETS // 2 * (ONE + OTHER)]
    outcome = found_on(case(people, IN_STREETS, RULES, ONE), 11)
    assert outcome.verdict is Verdict.QUIET
    assert outcome.within(0.15)


def aged(seed: int, rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(0, 2_000, rows), "ill": rng.choice(ILL, rows)})


@pytest.mark.slow  # a rate of alarms needs many tables
def test_values_that_are_dealt_at_random_raise_few_alarms() -> None:
    """The classes are those of k-anonymity, of twice k; no rule made them, whatever the attacker believes."""
    rules, alarms = (KAnonymity(k=10), EntropyLDiversity(l=4)), 0
    for seed in range(6):
        people, rng = aged(100 + seed), np.random.default_rng(seed)
        release = load_method("mondrian", k=20).release(people, AGES, rng).table
        evidence = Evidence(release=release, source=AGES, people=people, outsiders=people[:50], rules=rules)
        alarms += found_on(case_of(evidence, rng), seed).verdict is Verdict.LEAK
    # At a rate of 2.5 %, of which the interval is sure, three alarms of 6 or more have a chance of .03 %.
    assert alarms < 3


def test_people_who_are_all_alike_are_no_place_for_a_cut_and_the_attack_is_blind() -> None:
    people = aged(12).assign(age=50)
    outcome = found_on(case(people, AGES, (KAnonymity(k=5), DistinctLDiversity(l=2)), 5), 13)
    assert outcome.verdict is Verdict.BLIND
    assert not outcome.within(0.99)


def test_rules_that_are_silent_on_sensitive_values_leave_nothing_to_attack() -> None:
    one = case(aged(14), AGES, (KAnonymity(k=5),), 5)
    assert not try_attack(Minimality(), one, np.random.default_rng(15)).outcomes
    other = case(aged(14), AGES, (KAnonymity(k=5), DistinctLDiversity(l=2)), 5)
    elsewhere = (KAnonymity(k=5), DistinctLDiversity(l=2, attribute="wage"))
    evidence = Evidence(
        release=other.evidence.release,
        source=AGES,
        people=other.evidence.people,
        outsiders=other.evidence.outsiders,
        rules=elsewhere,
    )
    again = case_of(evidence, np.random.default_rng(16))
    assert not try_attack(Minimality(), again, np.random.default_rng(17)).outcomes


def test_very_many_sensitive_values_are_refused_without_naming_one() -> None:
    schema = DataSchema((AGES["age"], Attribute(name="ill", role=Role.SENSITIVE)))
    people = aged(18).assign(ill=[f"own{i}" for i in range(400)])
    one = case(people, schema, (KAnonymity(k=5), DistinctLDiversity(l=2)), 5)
    with pytest.raises(
        SchemaError, match="ill: minimality is tried on at most 200 sensitive values"
    ) as refused:
        Minimality().tries(one, np.random.default_rng(19))
    assert "own" not in str(refused.value)


def test_everybody_is_found_in_the_class_of_a_strict_partition() -> None:
    people = aged(20)
    release = load_method("mondrian", k=10).release(people, AGES, np.random.default_rng(21))
    found = ReleasedPeople.of(release.table, people, AGES, np.random.default_rng(22))
    assert found.labels[release.rows].tolist() == found.released.tolist()


def test_cuts_leave_k_people_on_either_side_and_stand_beside_the_median() -> None:
    people = pd.DataFrame({"age": [1, 1, 2, 3, 3, 3, 4, 9, 9, 9], "ill": [ILL[0]] * 10})
    release = people.drop(columns="age").assign(age_from=1, age_to=9)
    found = ReleasedPeople.of(release, people, AGES, np.random.default_rng(23))
    sides = [people["age"][cut.near].max() for cut in cuts_of(found, np.arange(10), 2)]
    assert sides == [1, 2, 3, 4]  # the fifth and sixth person are 3: cuts below and above it, and at the ends
    assert [people["age"][cut.near].max() for cut in cuts_of(found, np.arange(10), 4)] == [3]
    assert not cuts_of(found, np.arange(10), 5)
