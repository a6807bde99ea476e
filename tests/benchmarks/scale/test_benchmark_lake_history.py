"""The benchmark of long histories: that it measures real calls, and judges by the numbers."""

import pytest

from benchmarks.scale.lake_history import BAR, CONSTANT, LIST, PUBLISH, describe, measure

FLAT = dict.fromkeys((*CONSTANT, LIST), 0.01)


def test_every_call_is_measured():
    found = measure(3)
    assert set(found) == set(FLAT)
    assert min(found.values()) > 0


@pytest.mark.parametrize(
    ("growth", "judged"), [(BAR, "- **Holds**: publish"), (3.0, "- **Does not hold**: publish")]
)
def test_growth_beyond_the_bar_is_reported(growth, judged):
    grown = FLAT | {PUBLISH: growth * FLAT[PUBLISH]}
    assert judged in describe({100: FLAT, 5_000: grown}).blocks[-1]


def test_a_list_of_everything_is_compared_with_no_bar():
    assert LIST.lower() not in describe({100: FLAT, 5_000: FLAT}).blocks[-1]
