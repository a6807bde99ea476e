"""Nobody is counted with more changes than are paid for, whatever becomes of anybody else."""

import itertools

import numpy as np
import pytest

from privacy_engine.continual.changes import CountedPeople


def follow(weeks: list[dict[int, int]], most: int) -> list[dict[int, int]]:
    """Person -> counted value, week by week."""
    seen: list[dict[int, int]] = []
    held: CountedPeople | None = None
    for week in weeks:
        people = np.array(list(week), dtype=np.int64)
        codes = np.array([list(week.values())], dtype=np.uint8)
        held = CountedPeople.first(people, codes) if held is None else held.after(people, codes, most)
        here = held.people[held.present].tolist()
        seen.append(dict(zip(here, held.counted[0].tolist(), strict=True)))
    return seen


def test_who_is_past_the_bound_stays_as_last_counted() -> None:
    weeks = [{1: 0, 2: 0}, {1: 1, 2: 0}, {1: 2, 3: 5}, {1: 0, 2: 7, 3: 6}]
    assert follow(weeks, most=1) == [
        {1: 0, 2: 0},
        {1: 1, 2: 0},
        {1: 1, 3: 5},  # 1 had a change before; 2 leaves, and 3 arrives: their first
        {1: 1, 3: 5},  # 2 may not come back, nor 3 change
    ]
    assert follow(weeks, most=0) == [{1: 0, 2: 0}] * 4
    assert follow(weeks, most=9) == weeks


def test_who_is_frozen_is_counted_after_leaving() -> None:
    assert follow([{1: 0}, {1: 1}, {2: 0}], most=1) == [{1: 0}, {1: 1}, {1: 1, 2: 0}]


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_what_is_counted_of_a_person_is_a_function_of_their_own_history(most: int) -> None:
    rng = np.random.default_rng(3)
    weeks = [{p: int(rng.integers(3)) for p in range(40) if rng.random() < 0.7} for _ in range(9)]
    together = follow(weeks, most)
    for person in range(40):
        alone = follow(
            [{p: v for p, v in week.items() if p in (person, 99)} | {99: 0} for week in weeks], most
        )
        path = [week.get(person) for week in together]
        assert path == [week.get(person) for week in alone]
        assert sum(a != b for a, b in itertools.pairwise(path)) <= most


def test_two_records_of_a_person_are_refused() -> None:
    with pytest.raises(ValueError, match="one record a release"):
        CountedPeople.first(np.array([1, 2, 1]), np.zeros((1, 3), np.uint8))


def test_more_changes_than_are_kept_are_refused() -> None:
    held = CountedPeople.first(np.array([1]), np.zeros((1, 1), np.uint8))
    with pytest.raises(ValueError, match="from 0 to 30000"):
        held.after(np.array([1]), np.zeros((1, 1), np.uint8), 30_001)
