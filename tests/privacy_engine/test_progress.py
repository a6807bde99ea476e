"""Shares of work: nested, in threads, reported in steps, and never of work that failed."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from privacy_engine.progress import LEAST, advance, apart, portion, reporting_to, tracked


def test_no_one_needs_to_listen() -> None:
    with portion(0.5):
        advance(0.5)
    assert list(tracked(range(3))) == [0, 1, 2]


def test_a_part_of_a_part_counts_its_share_of_a_share() -> None:
    shares: list[float] = []
    with reporting_to(shares.append):
        with portion(0.5):
            for _ in tracked("ab"):
                advance(0.5)
        advance(0.75)
    assert shares == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.75, 1.0])


def test_what_a_loop_leaves_out_is_done_when_its_part_is() -> None:
    shares: list[float] = []
    with reporting_to(shares.append):
        with portion(0.5):
            for number in tracked(range(10)):
                if number == 1:
                    break
        advance(0.6)
    assert shares == pytest.approx([0.05, 0.5, 0.6, 1.0])


def test_less_than_before_and_more_than_all_are_passed_over() -> None:
    shares: list[float] = []
    with reporting_to(shares.append):
        for share in (0.5, 0.2, -1.0, 7.0, 0.9):
            advance(share)
        for _ in tracked(range(5), total=2):
            pass
    assert shares == [0.5, 1.0]


def test_work_that_failed_is_never_reported_as_done() -> None:
    shares: list[float] = []

    def fail() -> None:
        with reporting_to(shares.append), portion(0.5):
            advance(0.5)
            raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        fail()
    assert shares == [0.25]
    advance(0.9)  # no listener is called any more
    assert shares == [0.25]


def test_small_steps_are_reported_together() -> None:
    shares: list[float] = []
    with reporting_to(shares.append):
        for _ in tracked(range(100_000)):
            pass
    assert len(shares) <= 1 / LEAST
    assert shares[-1] == 1.0


def test_threads_tell_of_the_part_that_they_were_begun_in() -> None:
    shares: list[float] = []
    with reporting_to(shares.append), portion(0.5), ThreadPoolExecutor(4) as pool:
        works = [apart(lambda: [advance(step / 50) for step in range(50)], 1 / 8) for _ in range(8)]
        list(pool.map(lambda work: work(), works))
        assert shares[-1] == pytest.approx(0.5, abs=2 * LEAST)
    assert all(one < other for one, other in itertools.pairwise(shares))


def test_work_inside_of_work_has_its_own_listener() -> None:
    outer: list[float] = []
    inner: list[float] = []
    with reporting_to(outer.append):
        with reporting_to(inner.append):
            advance(0.5)
        advance(0.25)
    assert (inner, outer) == ([0.5, 1.0], [0.25, 1.0])
