"""What every method and detector must tell of its progress: rising shares, 1 at the end, and nothing else."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine import load_method, method_names
from privacy_engine.progress import reporting_to
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.registry import detector_names, load_detector
from privacy_engine.release import Release
from privacy_engine.synthesizers.synthesizer import Synthesizer
from privacy_engine.verification.models import TCloseness
from tests.contract.tables import PUBLIC_SCHEMA, family, people, quick

# Further ways through the anonymizers: blocks in threads, regrouping, quotas, suppression, other orders.
FURTHER: dict[str, tuple[str, dict[str, Any]]] = {
    "blocks": ("bottom_up", {"k": 3, "block_size": 40}),
    "regrouping": ("bottom_up", {"k": 3, "regroup": 2}),
    "quotas": ("bottom_up", {"k": 3, "require": (TCloseness(t=0.3),)}),
    "cuts by quotas": ("mondrian", {"k": 3, "require": (TCloseness(t=0.3),)}),
    "suppression": ("mondrian", {"k": 3, "require": (TCloseness(t=0.3),), "suppression_limit": 0.3}),
    "gain": ("greedy_hamdist", {"order": "gain", "suppression_limit": 0.1}),
}
CASES = (
    FURTHER
    | {name: (name, {}) for name in method_names()}
    | {name: (name, {"randomness": "seeded"}) for name in family(Randomizer)}
)
cases = pytest.mark.parametrize("case", CASES)


def shares_of(work: Callable[[], Any]) -> list[float]:
    shares: list[float] = []
    with reporting_to(shares.append):
        work()
    return shares


def made(case: str, table: pd.DataFrame) -> Release:
    name, parameters = CASES[case]
    release: Release = quick(name, **parameters).release(table, PUBLIC_SCHEMA, np.random.default_rng(5))
    return release


@cache
def heard(case: str) -> tuple[Release, list[float]]:
    """A release that is made once, for reading only, and the shares that were reported meanwhile."""
    releases: list[Release] = []
    shares = shares_of(lambda: releases.append(made(case, people())))
    return releases[0], shares


@cases
def test_shares_rise_and_end_at_one_which_comes_once(case: str) -> None:
    _, reported = heard(case)
    assert all(type(share) is float and 0 < share <= 1 for share in reported)
    assert all(one < other for one, other in itertools.pairwise(reported))
    assert reported[-1] == 1.0
    assert len(reported) >= 3  # of more than that it began and ended


@pytest.mark.parametrize("name", detector_names())
def test_shares_of_detectors_rise_and_end_at_one(name: str) -> None:
    reported = shares_of(lambda: load_detector(name).detect(people(), PUBLIC_SCHEMA))
    assert all(one < other for one, other in itertools.pairwise(reported))
    assert reported[-1] == 1.0
    assert len(reported) >= 3


@pytest.mark.parametrize(
    "case", [c for c in CASES if not load_method(CASES[c][0]).privacy_loss(PUBLIC_SCHEMA)]
)
def test_a_release_is_the_same_whether_anybody_listens_or_not(case: str) -> None:
    release, _ = heard(case)
    pd.testing.assert_frame_equal(release.table, made(case, people()).table)


@pytest.mark.parametrize("name", family(Synthesizer))
def test_records_drawn_from_a_model_are_the_same_whether_anybody_listens_or_not(name: str) -> None:
    method = quick(name)
    model = method.measure(people(), PUBLIC_SCHEMA)  # its noise cannot be seeded
    with reporting_to(lambda share: None):
        reported = method.release_of(model, PUBLIC_SCHEMA, np.random.default_rng(5))
    unheard = method.release_of(model, PUBLIC_SCHEMA, np.random.default_rng(5))
    pd.testing.assert_frame_equal(reported.table, unheard.table)


# One way in threads, and one method of each family: all report to the same listener.
@pytest.mark.quick("blocks", "mondrian", "privbayes", "local_laplace", "structure")
@cases
def test_a_listener_that_fails_loses_no_release_and_hears_nothing_more(case: str) -> None:
    shares: list[float] = []

    def fail(share: float) -> None:
        shares.append(share)
        raise OSError("no one is there")

    with reporting_to(fail):
        release = made(case, people())
    assert len(release.table)
    assert len(shares) == 1
