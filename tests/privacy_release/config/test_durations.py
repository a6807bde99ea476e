"""Lines about work that lasts: none before ten seconds, one every ten, and the end only after another."""

from collections.abc import Iterator

import pytest

from privacy_release.config.durations import Pace, how_far


@pytest.fixture
def said() -> list[tuple[float, float | None]]:
    return []


def paced(said: list[tuple[float, float | None]], times: list[float]) -> Pace:
    clock: Iterator[float] = iter(times)
    return Pace(lambda share, left: said.append((share, left)), lambda: next(clock))


def test_short_work_says_nothing_not_even_that_it_ended(said: list[tuple[float, float | None]]) -> None:
    pace = paced(said, [100.0, 103.0, 115.0])
    pace(0.5)
    pace(1.0)
    assert said == []


def test_long_work_says_at_most_one_line_every_ten_seconds_and_its_end(
    said: list[tuple[float, float | None]],
) -> None:
    pace = paced(said, [0.0, 9.0, 10.0, 15.0, 30.0, 31.0])
    for share in (0.1, 0.2, 0.3, 0.6, 1.0):
        pace(share)
    assert said == [(0.2, pytest.approx(40.0)), (0.6, pytest.approx(20.0)), (1.0, 0.0)]


def test_before_anything_is_done_no_one_knows_what_is_left(said: list[tuple[float, float | None]]) -> None:
    pace = paced(said, [0.0, 11.0])
    pace(0.0)
    assert said == [(0.0, None)]
    assert how_far(*said[0]) == "0 %"
