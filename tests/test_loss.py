"""Privacy loss: composition adds, and refuses what does not compose."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.dp.loss import Neighbours, PrivacyLoss

losses = st.builds(
    PrivacyLoss,
    epsilon=st.floats(1e-3, 10),
    delta=st.floats(0, 1e-3),
    neighbours=st.just(Neighbours.ADD_REMOVE),
)


@settings(deadline=None)
@given(losses, losses)
def test_composition_adds_and_never_loses_less_than_either_part(a: PrivacyLoss, b: PrivacyLoss) -> None:
    both = a + b
    assert (both.epsilon, both.delta) == (a.epsilon + b.epsilon, a.delta + b.delta)
    assert both.epsilon > max(a.epsilon, b.epsilon)
    assert both.delta >= max(a.delta, b.delta)
    assert both == b + a


def test_losses_for_different_neighbours_do_not_add() -> None:
    with pytest.raises(ValueError, match="add_remove and replace_one do not add"):
        PrivacyLoss(epsilon=1, neighbours="add_remove") + PrivacyLoss(epsilon=1, neighbours="replace_one")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0}, "epsilon must be > 0"),  # no claim is None, never zero
        ({"epsilon": -1}, "epsilon must be > 0"),
        ({"epsilon": math.inf}, "finite"),
        ({"epsilon": math.nan}, "epsilon must be > 0"),
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
