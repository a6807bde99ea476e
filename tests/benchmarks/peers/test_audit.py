"""Every method with a privacy loss shows at least half of it, never more, and more under every planted fault.

False alarms: a bound exceeds a true loss with probability 1e-10 at most. Misses of the audits by guesses are
computed below from the exact binomial distribution; those of the audits by events are 5 standard errors away.
"""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.auditing import Canaries, loss_of_guesses, loss_shown
from benchmarks.peers.audit import shown
from benchmarks.peers.audit_cases import HALF_NOISE, ONE_ROW, WHOLE_EPSILON, Case, cases, planted
from privacy_engine.dp import mechanisms
from privacy_engine.registry import METHODS, Family
from privacy_engine.synthesizers.bayes import network_synthesizer

pytestmark = pytest.mark.usefixtures("one_thread")  # many small tables

CASES = cases()
# Seconds each. Quick tests audit both kinds of choice (`tests/privacy_engine/dp/test_audit.py`), and hold
# the parts of a split against epsilon in the books of every model (`tests/contract`): only the slow ones show
# that the audits of the report catch these faults too.
LONG = frozenset(
    {
        *("noisy max", "noisy max by rho", "quantile bins", "dependence figures of a wide table"),
        "a large attribute and what it depends on",
        *("privbayes_r, two attributes", "dpsm_bayes, two attributes"),
    }
)
# Multiples of the runs, without which half of the claim is not shown once in 200,000 tests.
EFFORT = {"latent_class with delta, one attribute": 2, "number of rows": 2}
# Faults test the audits, not the engine: the quick tier plants those of the quickest audit of a kind.
QUICK_FAULTS = frozenset(
    {
        "discrete Laplace",
        "latent_class, persons",
        "errph, listed",
    }
)


def audited(case: Case, *fault: str) -> Any:
    """A case, and a fault to plant, for a test that is slow unless they are quick to audit."""
    quick = case.name in QUICK_FAULTS if fault else case.name not in LONG
    marks = () if quick else pytest.mark.slow
    return pytest.param(case, *fault, id=": ".join((case.name, *fault)), marks=marks)


def test_every_method_with_a_privacy_loss_is_audited_with_its_faults() -> None:
    private = {n for n, e in METHODS.items() if e.family in (Family.SYNTHESIZER, Family.RANDOMIZER)}
    assert {case.method for case in CASES} - {None} == private
    for name in private:
        faults = {fault for case in CASES if case.method == name for fault in case.faults}
        assert HALF_NOISE in faults
        assert WHOLE_EPSILON in faults or name == "trr"  # p_0 is of each attribute: there is no split
        assert ONE_ROW in faults or METHODS[name].family is Family.RANDOMIZER  # which take a row a person


# Hundreds of releases each; `tests/privacy_engine/dp` audits each method.
@pytest.mark.quick("discrete Laplace", "discrete Gaussian", "latent_class, persons")
@pytest.mark.parametrize("case", [audited(case) for case in CASES])
def test_a_method_shows_half_of_its_claim_and_no_more_than_all_of_it(case: Case) -> None:
    assert case.claim / 2 <= shown(case, None, EFFORT.get(case.name, 1)) <= case.claim


@pytest.mark.parametrize(("case", "fault"), [audited(case, fault) for case in CASES for fault in case.faults])
def test_a_planted_fault_is_caught(case: Case, fault: str) -> None:
    assert shown(case, fault) > case.claim


def test_a_fault_is_planted_wherever_the_engine_names_the_function_and_is_gone_after() -> None:
    sound = mechanisms.laplace_counts
    with planted(HALF_NOISE):
        assert network_synthesizer.laplace_counts is mechanisms.laplace_counts is not sound
    assert network_synthesizer.laplace_counts is mechanisms.laplace_counts is sound


@pytest.mark.parametrize(("guesses", "claim"), [(1000, 2.5), (2500, 2.5)])
def test_an_audit_of_guesses_misses_less_than_once_in_a_million_runs(guesses: int, claim: float) -> None:
    """Guesses as right as the pair allows: half the claim is shown, and twice the claim is caught."""

    def share(epsilon: float) -> float:
        return float(1 / (1 + np.exp(-epsilon)))

    right = np.arange(guesses + 1)
    bounds = np.array([loss_of_guesses(int(r), guesses) for r in right])
    half, above = right[bounds >= claim / 2].min(), right[bounds > claim].min()
    assert stats.binom.sf(above - 1, guesses, share(claim)) <= 1e-10  # a false alarm
    assert stats.binom.cdf(half - 1, guesses, share(claim)) < 1e-6
    assert stats.binom.cdf(above - 1, guesses, share(2 * claim)) < 1e-6


def test_bounds_are_zero_where_nothing_is_shown() -> None:
    never, always = np.zeros(50, dtype=bool), np.ones(50, dtype=bool)
    assert loss_shown(never, always) == loss_of_guesses(0, 50) == loss_of_guesses(25, 50) == 0
    assert loss_of_guesses(0, 0) == 0


def test_the_coins_are_read_off_shares_without_noise_and_not_off_equal_ones() -> None:
    coins = np.array([True, False, True])
    canaries = Canaries(coins=coins, base=2, each=3)
    table = canaries.table(["a", "b"], "who")
    assert table.groupby("who").size().eq(3).all()
    exact = table["a"].astype(int).value_counts(normalize=True).sort_index().to_numpy()
    assert canaries.guesses([exact, exact]) == (3, 3)
    assert Canaries(coins=~coins, base=2, each=3).guesses([exact]) == (0, 3)
    assert canaries.guesses([np.full(6, 1 / 6)]) == (0, 0)
