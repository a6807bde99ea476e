"""Privacy loss: composition adds, and refuses what does not compose."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.dp.loss import Neighbours, PrivacyLoss, exact_sum, rounded_down

losses = st.builds(
    PrivacyLoss,
    epsilon=st.floats(1e-3, 10),
    delta=st.floats(0, 1e-3),
    neighbours=st.just(Neighbours.ADD_REMOVE),
)


@given(losses, losses)
def test_composition_adds_and_never_loses_less_than_either_part(a: PrivacyLoss, b: PrivacyLoss) -> None:
    both = a + b
    assert (both.epsilon, both.delta) == pytest.approx((a.epsilon + b.epsilon, a.delta + b.delta), rel=1e-15)
    assert both.epsilon > max(a.epsilon, b.epsilon)
    assert both.delta >= max(a.delta, b.delta)
    assert both == b + a


@given(losses, losses)
def test_composition_never_claims_less_than_was_spent(a: PrivacyLoss, b: PrivacyLoss) -> None:
    both = a + b
    assert Fraction(both.epsilon) >= Fraction(a.epsilon) + Fraction(b.epsilon)
    assert Fraction(both.delta) >= Fraction(a.delta) + Fraction(b.delta)


@given(st.lists(st.floats(0, 1e6), max_size=20))
def test_a_sum_is_the_least_float_at_or_above_the_exact_one(numbers: list[float]) -> None:
    exact, above = sum(map(Fraction, numbers)), exact_sum(numbers)
    assert Fraction(math.nextafter(above, -math.inf)) < exact <= Fraction(above)


@given(st.fractions(-1000, 1000))
def test_rounding_down_gives_the_largest_float_at_or_below(exact: Fraction) -> None:
    below = rounded_down(exact)
    assert Fraction(below) <= exact < Fraction(math.nextafter(below, math.inf))


@given(st.lists(losses, min_size=1, max_size=5))
def test_parallel_composition_costs_what_the_dearest_part_costs(parts: list[PrivacyLoss]) -> None:
    together = PrivacyLoss.parallel(parts)
    assert together.epsilon == max(part.epsilon for part in parts)
    assert together.delta == max(part.delta for part in parts)
    assert together.neighbours is Neighbours.ADD_REMOVE


def test_parallel_composition_refuses_no_part_and_different_neighbours() -> None:
    one = PrivacyLoss(epsilon=1, neighbours="add_remove")
    with pytest.raises(ValueError, match="add_remove and replace_one do not add"):
        PrivacyLoss.parallel([one, PrivacyLoss(epsilon=1, neighbours="replace_one")])
    with pytest.raises(ValueError, match="at least one loss"):
        PrivacyLoss.parallel([])


def test_losses_for_different_neighbours_do_not_add() -> None:
    with pytest.raises(ValueError, match="add_remove and replace_one do not add"):
        PrivacyLoss(epsilon=1, neighbours="add_remove") + PrivacyLoss(epsilon=1, neighbours="replace_one")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0, "delta": 1e-9}, "epsilon must be > 0"),
        ({"epsilon": 0, "rho": 0.1}, "epsilon must be > 0"),
        ({"epsilon": -1}, "epsilon must be >= 0"),
        ({"epsilon": math.inf}, "finite"),
        ({"epsilon": math.nan}, "epsilon must be >= 0"),
        ({"epsilon": 1, "delta": -0.1}, "delta must be in"),
        ({"epsilon": 1, "delta": 1}, "delta must be in"),
        ({"epsilon": 1, "neighbours": "cousins"}, "neighbours must be one of"),
    ],
)
def test_a_loss_that_claims_nothing_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PrivacyLoss(**{"neighbours": "add_remove", **fields})


def test_a_composed_delta_of_one_is_refused() -> None:
    half = PrivacyLoss(epsilon=1, delta=0.5, neighbours="add_remove")
    with pytest.raises(ValueError, match="delta must be in"):
        half + half


def test_plain_values_name_the_neighbour_relation() -> None:
    loss = PrivacyLoss(epsilon=0.5, neighbours=Neighbours.REPLACE_ONE)
    assert loss.to_dict() == {"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}
    assert PrivacyLoss(**loss.to_dict()) == loss
