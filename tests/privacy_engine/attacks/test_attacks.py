"""Attacks on a release: each sees what leaks, is silent on noise, and says so where it is blind."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privacy_engine.attacks import singling_out
from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.inference import Inference
from privacy_engine.attacks.linkage import Linkage
from privacy_engine.attacks.membership import MembershipInference
from privacy_engine.attacks.repeated import Averaging, Intersection
from privacy_engine.attacks.singling_out import SinglingOut
from privacy_engine.attacks.trial import (
    Attack,
    AttackOutcome,
    Case,
    Evidence,
    Rate,
    Tries,
    Verdict,
    case_of,
    try_attack,
)
from privacy_engine.errors import SchemaError
from privacy_engine.registry import ATTACKS, load_attack
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_engine.vocabulary import AttackName, Kind, Role
from tests.synthetic_tables import SCHEMA, people

ON_ONE_RELEASE: dict[str, Attack] = {
    "singling out": SinglingOut(),
    "linkage": Linkage(),
    "inference": Inference(trees=5),
    "membership": MembershipInference(),
}


# The attacker knows all of a person but whether they are ill.
KNOWN = replace(
    SCHEMA,
    attributes=tuple(
        replace(a, role=Role.QUASI_IDENTIFIER) if a.role is Role.INSENSITIVE else a for a in SCHEMA.attributes
    ),
)


def copy_of(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The records without their names, in another order."""
    return table.drop(columns="name").iloc[rng.permutation(len(table))].reset_index(drop=True)


def noise_of(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Independent columns."""
    return pd.DataFrame({c: rng.permutation(table[c].to_numpy()) for c in table.columns if c != "name"})


def case(seed: int, *, leaky: bool, rows: int = 600, outside: int = 300) -> Case:
    """People and outsiders of one population, and their records or noise of other people as the release."""
    rng = np.random.default_rng(seed)
    inside, outsiders = people(rows, rng), people(outside, rng)
    release = copy_of(inside, rng) if leaky else noise_of(people(rows, rng), rng)
    evidence = Evidence(release=release, source=KNOWN, people=inside, outsiders=outsiders)
    return case_of(evidence, rng, targets=300)


@cache
def cases(*, leaky: bool) -> Case:
    return case(1, leaky=leaky)


@pytest.mark.parametrize("name", ON_ONE_RELEASE)
def test_a_release_of_the_records_themselves_leaks(name: str) -> None:
    found = try_attack(ON_ONE_RELEASE[name], cases(leaky=True), np.random.default_rng(2))
    assert found.worst is not None
    assert found.worst.verdict is Verdict.LEAK
    assert not found.worst.within(0.05)


@pytest.mark.parametrize("name", ON_ONE_RELEASE)
def test_a_planted_leak_is_seen_beside_a_release_of_noise(name: str) -> None:
    found = try_attack(ON_ONE_RELEASE[name], cases(leaky=False), np.random.default_rng(3))
    assert [outcome.sees for outcome in found.outcomes] == [True] * len(found.outcomes)
    assert [outcome.verdict for outcome in found.outcomes] == [Verdict.QUIET] * len(found.outcomes)


def test_noise_raises_few_alarms() -> None:
    alarms = dict.fromkeys(("singling out", "linkage", "membership"), 0)
    for seed in range(5):
        one = case(100 + seed, leaky=False, rows=300, outside=150)
        for name in alarms:
            found = try_attack(ON_ONE_RELEASE[name], one, np.random.default_rng(seed))
            alarms[name] += any(o.verdict is Verdict.LEAK for o in found.outcomes)
    # At a rate of 5 % five alarms in five have a chance of 3e-7.
    assert max(alarms.values()) < 5


def test_an_attack_that_cannot_see_a_leak_is_blind_and_never_within_a_bound() -> None:
    schema = DataSchema((Attribute(name="q", role=Role.QUASI_IDENTIFIER, categories=("a", "b")),))
    rng = np.random.default_rng(4)
    tables = [pd.DataFrame({"q": rng.choice(["a", "b"], 400)}) for _ in range(3)]
    evidence = Evidence(release=tables[0], source=schema, people=tables[1], outsiders=tables[2])
    found = try_attack(Linkage(), case_of(evidence, rng), rng)
    assert [outcome.verdict for outcome in found.outcomes] == [Verdict.BLIND]
    assert not any(outcome.within(0.99) for outcome in found.outcomes)


def test_a_register_names_people_in_raw_records_and_not_in_classes() -> None:
    rng = np.random.default_rng(5)
    schema = DataSchema(
        (
            Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 10_000)),
            Attribute(name="ill", role=Role.SENSITIVE, categories=("yes", "no")),
        )
    )
    everybody = pd.DataFrame({"age": rng.permutation(1000), "ill": rng.choice(["yes", "no"], 1000)})
    inside, outside = everybody.iloc[:600].reset_index(drop=True), everybody.iloc[600:].reset_index(drop=True)
    classes = inside.assign(age_from=inside["age"] // 100 * 100, age_to=inside["age"] // 100 * 100 + 99)
    subject, found = "a public register", {}
    for name, release in (("raw", inside), ("classes", classes.drop(columns="age"))):
        evidence = Evidence(
            release=release, source=schema, people=inside, outsiders=outside, register=everybody[["age"]]
        )
        results = try_attack(Linkage(), case_of(evidence, rng), rng)
        found[name] = next(o for o in results.outcomes if o.subject == subject)
    assert found["raw"].excess > 0.95
    assert found["classes"].verdict is Verdict.QUIET


def test_a_register_of_a_part_of_the_quasi_identifiers_names_no_one_by_what_it_does_not_contain() -> None:
    """Of 20 people of each town and age one name in 20 is right, which is what the register alone tells."""
    rng = np.random.default_rng(8)
    schema = DataSchema(
        (
            Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(0, 100)),
            Attribute(name="town", role=Role.QUASI_IDENTIFIER, categories=("a", "b", "c", "d", "e")),
            Attribute(name="ill", role=Role.SENSITIVE, categories=("yes", "no")),
        )
    )
    place = rng.permutation(1000)
    everybody = pd.DataFrame(
        {
            "age": place % 10,
            "town": np.array(list("abcde"))[place // 10 % 5],
            "ill": rng.choice(["yes", "no"], 1000),
        }
    )
    inside, outside = everybody.iloc[:600].reset_index(drop=True), everybody.iloc[600:].reset_index(drop=True)
    for reported, alike in ((["age", "town"], 20), (["age"], 100), (["town"], 200)):
        evidence = Evidence(
            release=inside, source=schema, people=inside, outsiders=outside, register=everybody[reported]
        )
        tries = Linkage().tries(case_of(evidence, rng), rng)["a public register"]
        # 600 guesses, each right with the chance 1 / alike: of 3 that are expected at least, 17 or more
        # are right with a chance of 1e-8.
        assert abs(tries.main.value - 1 / alike) < 8 * np.sqrt(1 / alike / 600)


def test_a_register_that_has_no_one_of_the_release_names_no_one() -> None:
    rng = np.random.default_rng(9)
    inside, outside = people(200, rng), people(100, rng)
    register = inside[[a.name for a in SCHEMA.quasi_identifiers]].iloc[:0]
    stranger = register.reindex([0])
    evidence = Evidence(release=inside, source=SCHEMA, people=inside, outsiders=outside, register=stranger)
    assert Linkage().tries(case_of(evidence, rng), rng)["a public register"].main.right == 0


def memberships(first: np.ndarray, second: np.ndarray) -> tuple[Membership, ...]:
    persons = np.array([f"p{i}" for i in range(len(first))], dtype=object)
    return tuple(Membership(persons=persons, labels=labels) for labels in (second, first))


def repeated(**given: object) -> Case:
    rng = np.random.default_rng(6)
    inside, outside = people(400, rng), people(100, rng)
    evidence = Evidence(
        release=noise_of(inside, rng), source=SCHEMA, people=inside, outsiders=outside, **given
    )
    return case_of(evidence, rng)


def test_classes_that_are_drawn_again_single_people_out_together() -> None:
    rng = np.random.default_rng(7)
    first, second = (rng.permutation(400) // 10 for _ in range(2))
    again = repeated(memberships=memberships(first, second))
    found = try_attack(Intersection(), again, rng).outcomes[0]
    assert found.verdict is Verdict.LEAK
    assert found.found.main.value > 0.7  # no one of 9 others in one of 40 classes: .976 ** 9 = .80
    same = try_attack(Intersection(), repeated(memberships=memberships(first, first)), rng).outcomes[0]
    assert same.verdict is Verdict.QUIET
    assert same.within(0.05)
    assert not try_attack(Intersection(), repeated(), rng).outcomes


def test_answers_that_are_drawn_again_average_out_and_memoised_ones_do_not() -> None:
    rng = np.random.default_rng(8)
    truth = people(400, np.random.default_rng(6))[["ill"]]

    def answers() -> pd.DataFrame:
        lies = rng.random(400) < 0.4
        flipped = np.where(truth["ill"] == "yes", "no", "yes")
        return pd.DataFrame({"ill": np.where(lies, flipped, truth["ill"])})

    afresh = try_attack(Averaging(), repeated(answers=tuple(answers() for _ in range(25))), rng)
    once = answers()
    memoised = try_attack(Averaging(), repeated(answers=(once,) * 25), rng)
    assert [o.verdict for o in afresh.outcomes] == [Verdict.LEAK]
    assert [o.verdict for o in memoised.outcomes] == [Verdict.QUIET]


def test_a_rate_has_wilsons_interval() -> None:
    # Newcombe (1998), table I: 15 of 148 has .0624 to .1605, 0 of 20 has 0 to .1611.
    assert Rate(right=15, tries=148).interval(0.95) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert Rate(right=0, tries=20).interval(0.95) == pytest.approx((0, 0.1611), abs=5e-5)
    assert Rate(right=0, tries=0).interval(0.95) == (0.0, 1.0)


def test_the_interval_of_the_excess_covers_it() -> None:
    rng = np.random.default_rng(9)
    runs, missed = 400, {(0.3, 0.2): 0, (0.02, 0.02): 0, (0.97, 0.5): 0}
    for main, control in missed:
        excess = (main - control) / (1 - control)
        for inside, outside in zip(
            rng.binomial(600, main, runs), rng.binomial(300, control, runs), strict=True
        ):
            tries = Tries(
                main=Rate(right=int(inside), tries=600),
                control=Rate(right=int(outside), tries=300),
                baseline=Rate(right=0, tries=300),
            )
            low, high = tries.interval(0.95)
            missed[main, control] += not low <= excess <= high
    # At a true coverage of 93 % more than 60 of 400 have a chance of 1e-8.
    assert max(missed.values()) <= 60


def test_guesses_that_no_one_could_make_leave_everything_open() -> None:
    none = Rate(right=0, tries=0)
    assert Tries(main=none, control=none, baseline=none).interval(0.95) == (-np.inf, 1.0)


@pytest.mark.parametrize("name", AttackName)
def test_every_attack_has_a_name_and_a_home(name: AttackName) -> None:
    assert load_attack(name).name == name
    assert list(ATTACKS) == list(AttackName)


@pytest.mark.parametrize(
    "wrong", [lambda: SinglingOut(sets=0), lambda: Linkage(known=0), lambda: Inference(trees=0)]
)
def test_wrong_parameters_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()  # type: ignore[operator]


def test_a_release_of_other_columns_is_refused() -> None:
    rng = np.random.default_rng(10)
    other = pd.DataFrame({"colour": ["red"]})
    with pytest.raises(SchemaError, match="nothing to attack"):
        case_of(Evidence(release=other, source=SCHEMA, people=people(5, rng), outsiders=people(5, rng)), rng)


def numbers(columns: str, **given: object) -> DataSchema:
    return DataSchema(
        tuple(
            Attribute(name=c, role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, bounds=(-1e3, 1e3), **given)
            for c in columns
        )
    )


def test_ranges_single_out_whom_no_value_is_true_of() -> None:
    # Released is everybody, each value .4 above the true one; the median of x is 4.4, of y 3.4. Of the ranges
    # "x <= 1.4, y <= 1.4" is true of the first only, "x <= 2.4, y >= 9.4" and "x >= 9.4, y <= 2.4" of no one
    # (the second has y = 9, the last x = 9); the other two are of two released records, so no one says them.
    inside = pd.DataFrame({"x": [1.0, 2.0, 4.0, 8.0, 9.0], "y": [1.0, 9.0, 3.0, 3.0, 2.0]})
    outside = pd.DataFrame({"x": [5.0], "y": [5.0]})
    rng = np.random.default_rng(11)
    one = case_of(Evidence(release=inside + 0.4, source=numbers("xy"), people=inside, outsiders=outside), rng)
    both = np.ones((1, 2), np.bool_)
    everybody = Blocks.of(one.space, one.people.joined(one.outsiders))
    values = singling_out._values(one.released, both, 10, rng)
    assert [len(who) for who in singling_out._singled(one, values, everybody)] == [0, 0]
    ranges = singling_out._ranges(one, one.released, both, 10, rng)
    within = sorted(zip(*(ranges.cells.low * 8.4 + 1).T.round(1), strict=True))
    assert within == [(1.0, 1.0), (1.0, 9.4), (9.4, 1.0)]
    assert [who.tolist() for who in singling_out._singled(one, ranges, everybody)] == [[0], []]
    ends = singling_out._of_one(one.released, np.eye(2, dtype=np.bool_), 10, rng)
    # x <= 1.4, y <= 1.4; x >= 9.4 and y >= 9.4 are true of no one.
    assert [who.tolist() for who in singling_out._singled(one, ends, everybody)] == [[0], []]
    assert ends.tried == 5 + 4


def changed(table: pd.DataFrame, schema: DataSchema, outside: pd.DataFrame) -> Verdict:
    rng = np.random.default_rng(12)
    evidence = Evidence(release=table, source=schema, people=PLACED, outsiders=outside)
    found = try_attack(SinglingOut(), case_of(evidence, rng, targets=300), rng)
    return {o.subject: o.verdict for o in found.outcomes}["several attributes"]


PLACED, PLACED_ELSEWHERE = (
    pd.DataFrame(np.random.default_rng(seed).normal(0, 100, (400, 6)).clip(-999, 999), columns=list("abcdef"))
    for seed in (13, 14)
)


def test_ranges_see_through_a_little_noise_and_not_through_classes() -> None:
    schema = numbers("abcdef")
    noise = np.random.default_rng(15).normal(0, 2, PLACED.shape)
    assert changed(PLACED + noise, schema, PLACED_ELSEWHERE) is Verdict.LEAK
    assert changed(PLACED_ELSEWHERE + noise, schema, PLACED_ELSEWHERE[:100] + 3) is Verdict.QUIET
    # Ten neighbours in `a` form a class and have one span in each attribute.
    classes = pd.DataFrame(index=PLACED.index)
    group = PLACED["a"].rank().sub(1).floordiv(10)
    for c in PLACED:
        classes[f"{c}_from"] = PLACED[c].groupby(group).transform("min")
        classes[f"{c}_to"] = PLACED[c].groupby(group).transform("max")
    assert changed(classes, schema, PLACED_ELSEWHERE) is Verdict.QUIET


def test_dates_that_are_shifted_a_little_single_out() -> None:
    days = PLACED.round().astype(int)
    inside = pd.DataFrame({c: pd.Timestamp("2020-01-01") + pd.to_timedelta(days[c], unit="D") for c in days})
    later, rng = inside + pd.Timedelta(days=1), np.random.default_rng(16)
    schema = DataSchema(tuple(Attribute(name=c, role=Role.QUASI_IDENTIFIER, kind=Kind.DATE) for c in PLACED))
    one = case_of(Evidence(release=later, source=schema, people=inside, outsiders=later[:100]), rng)
    every = np.ones((1, 6), np.bool_)
    values, near = (
        way(one.released, every)
        for way in (
            lambda *of: singling_out._values(*of, 400, rng),
            lambda *of: singling_out._windows(one, *of, 400, rng),
        )
    )
    people = Blocks.of(one.space, one.people)
    assert not len(singling_out._singled(one, values, people)[0])
    assert len(singling_out._singled(one, near, people)[0]) > 390


def test_a_bound_is_kept_by_the_upper_end_of_the_interval_and_by_a_leak_that_is_seen_above_it() -> None:
    quiet, seen = (
        Tries(
            main=Rate(right=right, tries=100),
            control=Rate(right=20, tries=100),
            baseline=Rate(right=0, tries=100),
        )
        for right in (22, 90)
    )
    outcome = AttackOutcome(attack="inference", subject="illness", found=quiet, planted=seen, confidence=0.95)
    assert outcome.low < 0.0 < outcome.excess < 0.1 < outcome.high < 0.2
    assert [outcome.within(bound) for bound in (0.1, outcome.high, 0.2)] == [False, True, True]
    least = seen.interval(0.95)[0]
    assert [outcome.within(bound) for bound in (least - 0.01, least, 0.9)] == [True, False, False]
