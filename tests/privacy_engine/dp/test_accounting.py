"""The books of a release: exact sums, and a check that fails for each way in which they can be wrong."""

import dataclasses
import json
import math
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import DataSchema, PrivacyLoss
from privacy_engine.dp.accounting import Spend, check_bookkeeping, total
from privacy_engine.dp.amplification import inner_epsilon
from privacy_engine.dp.loss import Neighbours
from privacy_engine.dp.mechanisms import laplace_scale, noisy_max_scale, split

SCHEMA = DataSchema.from_dict(
    {
        "name": {"role": "identifier"},
        "age": {"kind": "numeric", "bounds": [0, 100]},
        "grade": {"categories": ["low", "high"]},
    }
)
CLAIM = PrivacyLoss(epsilon=1.0, neighbours=Neighbours.REPLACE_ONE)


@cache
def books() -> tuple[Spend, ...]:
    """Two picks on one sample of 40 of 100 records and two tables, together epsilon 1."""
    structure, *tables = split(1.0, [2, 1, 1])
    one = split(inner_epsilon(structure, Fraction(40, 100)), [1, 1])[0]
    picks = Spend(
        mechanism="noisy_max",
        target="age, grade",
        epsilon=structure,
        sensitivity=44,
        scale=noisy_max_scale(epsilon=one, sensitivity=44),
        runs=2,
        sample=(40, 100),
    )
    return (picks, *(laplace(epsilon) for epsilon in tables))


def laplace(epsilon: float) -> Spend:
    scale = laplace_scale(epsilon=epsilon, sensitivity=2)
    return Spend(mechanism="discrete_laplace", target="age", epsilon=epsilon, sensitivity=2, scale=scale)


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=40))
def test_a_total_never_claims_less_than_was_spent(epsilons: list[float]) -> None:
    loss = total(
        (
            Spend(mechanism="noisy_max", target="age", epsilon=e, delta=1e-9, sensitivity=1, scale=9)
            for e in epsilons
        ),
        Neighbours.REPLACE_ONE,
    )
    exact = sum(map(Fraction, epsilons))
    assert exact <= Fraction(loss.epsilon) <= exact * (1 + Fraction(1, 10**15))
    assert Fraction(loss.delta) >= len(epsilons) * Fraction(1e-9)
    assert loss.neighbours is Neighbours.REPLACE_ONE


@given(st.floats(1e-3, 10), st.integers(1, 40))
def test_the_parts_of_a_split_add_up_to_no_more_than_the_whole(epsilon: float, parts: int) -> None:
    assert total(map(laplace, split(epsilon, [1] * parts)), Neighbours.REPLACE_ONE).epsilon <= epsilon


@given(st.floats(1e-3, 10), st.integers(1, 30), st.integers(1, 1000))
def test_the_noise_of_a_sampled_selection_gives_the_epsilon_it_was_made_for(
    epsilon: float, runs: int, m: int
) -> None:
    one = split(inner_epsilon(epsilon, Fraction(m, 1000)), [1] * runs)[0]
    spend = Spend(
        mechanism="noisy_max",
        target="age",
        epsilon=epsilon,
        sensitivity=7,
        scale=noisy_max_scale(epsilon=one, sensitivity=7),
        runs=runs,
        sample=(m, 1000),
    )
    assert spend.epsilon_of_noise <= epsilon
    assert spend.epsilon_of_noise == pytest.approx(epsilon, rel=1e-12)


def test_a_total_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        total([], Neighbours.REPLACE_ONE)


def test_spends_survive_json() -> None:
    for spend in books():
        assert Spend.from_dict(json.loads(json.dumps(spend.to_dict()))) == spend


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "numpy_laplace"}, "mechanism must be one of"),
        ({"epsilon": 0}, "epsilon must be > 0 and finite, got 0"),
        ({"epsilon": math.nan}, "epsilon must be > 0"),
        ({"scale": 0.0}, "scale must be > 0"),
        ({"sensitivity": math.inf}, "sensitivity must be > 0 and finite"),
        ({"delta": 1.0}, "delta must be in"),
        ({"runs": 0}, "runs must be >= 1"),
        ({"sample": (5, 4)}, "sample must be"),
        ({"sample": (0, 4)}, "sample must be"),
    ],
)
def test_an_impossible_spend_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spend.from_dict(laplace(0.5).to_dict() | change)


def test_unknown_and_missing_fields_of_a_spend_are_refused() -> None:
    fields = laplace(0.5).to_dict()
    with pytest.raises(ValueError, match="a spend must have the fields"):
        Spend.from_dict(fields | {"colour": "red"})
    with pytest.raises(ValueError, match="a spend must have the fields"):
        Spend.from_dict({name: value for name, value in fields.items() if name != "scale"})


def test_right_books_pass() -> None:
    findings = check_bookkeeping(CLAIM, books(), SCHEMA, CLAIM)
    assert all(finding.passed for finding in findings)
    assert len({finding.rule for finding in findings}) == len(findings) == 6


def test_a_booking_of_more_than_the_claim_passes() -> None:
    ample = PrivacyLoss(epsilon=2.0, delta=1e-9, neighbours=Neighbours.REPLACE_ONE)
    assert all(finding.passed for finding in check_bookkeeping(CLAIM, books(), SCHEMA, ample))


OVER = math.nextafter(1.0, 0.0)
WRONG_BOOKS = {
    "one more mechanism than the claim covers": (
        {"spends": [*books(), laplace(1e-9)]},
        "epsilon of all mechanisms",
    ),
    "the last bit of the claim": (
        {"spends": [laplace(1.0)], "loss": dataclasses.replace(CLAIM, epsilon=OVER), "booked": CLAIM},
        "epsilon of all mechanisms",
    ),
    "a delta that is not claimed": (
        {"spends": [dataclasses.replace(laplace(0.5), delta=1e-12)]},
        "delta of all mechanisms",
    ),
    "half the noise": (
        {"spends": [dataclasses.replace(s, scale=s.scale / 2) for s in books()]},
        "mechanisms with too little noise",
    ),
    "a selection twice as often": (
        {"spends": [dataclasses.replace(books()[0], runs=4), *books()[1:]]},
        "mechanisms with too little noise",
    ),
    "a larger share of the records": (
        {"spends": [dataclasses.replace(books()[0], sample=(80, 100)), *books()[1:]]},
        "mechanisms with too little noise",
    ),
    "no booking": ({"booked": None}, "epsilon booked in the ledger"),
    "too small a booking": (
        {"booked": dataclasses.replace(CLAIM, epsilon=OVER)},
        "epsilon booked in the ledger",
    ),
    "a booking for other neighbours": (
        {"booked": dataclasses.replace(CLAIM, neighbours=Neighbours.ADD_REMOVE)},
        "epsilon booked in the ledger",
    ),
    "a booking without the delta": (
        {"loss": dataclasses.replace(CLAIM, delta=1e-9)},
        "delta booked in the ledger",
    ),
    "a domain read from the data": (
        {"schema": DataSchema.from_dict({"age": {"kind": "numeric"}, "grade": {"categories": ["a", "b"]}})},
        "domain is not in the schema",
    ),
    "no mechanism": ({"spends": []}, "mechanisms with too little noise"),
}


@pytest.mark.parametrize("case", WRONG_BOOKS)
def test_wrong_books_fail_by_the_rule_they_break(case: str) -> None:
    change, rule = WRONG_BOOKS[case]
    given_books = {"loss": CLAIM, "spends": books(), "schema": SCHEMA, "booked": CLAIM} | change
    failed = [finding.rule for finding in check_bookkeeping(**given_books) if not finding.passed]
    assert any(rule in text for text in failed), failed


def test_an_identifier_needs_no_public_domain() -> None:
    assert not SCHEMA["name"].has_public_domain
    assert check_bookkeeping(CLAIM, books(), SCHEMA, CLAIM)[-1].measured == 0
