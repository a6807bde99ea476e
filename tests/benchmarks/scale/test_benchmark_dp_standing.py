"""A standing population: who comes and goes, and each regime measured in the weeks that are asked for."""

import numpy as np
import pytest

from benchmarks.scale.years.dp_standing import COURSES, MOVED, errors_by_week, stream
from privacy_engine.dp.zcdp import zcdp_rho

PEOPLE = 1_000


@pytest.mark.parametrize("drift", [False, True])
def test_a_fiftieth_of_the_people_is_replaced_each_week(drift: bool) -> None:
    made = stream(np.random.default_rng(3), people=PEOPLE, drift=drift, weeks=5)
    for before, after in zip(made.people, made.people[1:], strict=False):
        assert len(np.intersect1d(before, after)) == PEOPLE * (1 - MOVED)
    assert len(np.unique(np.concatenate(made.people))) == PEOPLE * (1 + 4 * MOVED)


@pytest.mark.slow  # a release for each week
@pytest.mark.parametrize("regime", ["zCDP parts", "same tables"])
def test_a_regime_gives_an_error_for_each_week_that_is_shown(regime: str) -> None:
    rng = np.random.default_rng(3)
    made = stream(rng, people=PEOPLE, drift=False, weeks=3)
    found = errors_by_week(COURSES[regime], made, rng, (1, 3), (1, 2))
    assert found.shape == (2, 2)
    assert ((found > 0) & (found < 1)).all()


def test_the_promise_has_the_rho_that_the_documentation_tells() -> None:
    assert round(zcdp_rho(1.0, 1e-9), 4) == 0.015
