"""A search by blocks finds what a search of all records finds, whatever the cells are like."""

import numpy as np
import pytest

from privacy_engine.attacks.blocks import BITS, SIZE, Blocks
from privacy_engine.attacks.cells import Bools, Cells, Space
from privacy_engine.attacks.seeking import SMALLER, Target, covered_people

VALUES = (3, BITS + 40)  # of two attributes without an order; some values of the second share a bit


def space() -> Space:
    """Two attributes in order and two others, whose last two cells cover several values and all."""
    covers = []
    for values in VALUES:
        several = (np.arange(values) % 2 == 0).astype(np.uint8)
        covers.append(np.vstack([np.eye(values, dtype=np.uint8), several, np.ones(values, np.uint8)]))
    return Space(("x", "y"), ("few", "many"), np.array(VALUES, np.int64), tuple(covers))


def records(n: int, rng: np.random.Generator, *, people: bool = False) -> Cells:
    """Random ones on a coarse grid, so that many are equally far, with nulls; of people one value a cell."""
    low = rng.integers(0, 9, (n, 2)) / 8
    high = low if people else np.minimum(low + rng.integers(0, 3, (n, 2)) / 8, 1.0)
    nothing = rng.random((n, 2)) < 0.1
    null = nothing | (np.zeros((n, 2), np.bool_) if people else rng.random((n, 2)) < 0.1)
    codes = np.stack([rng.integers(0, v + (0 if people else 2), n) for v in VALUES], axis=1)
    ends = (np.where(nothing, np.nan, end) for end in (low, high))
    return Cells(*ends, null, codes.astype(np.int32))


def far(of: Space, records: Cells, i: int, people: Cells, t: int) -> list[float]:
    """Distance of a person from a record in each attribute, as the module of `Target` defines it."""
    found = []
    for a in range(2):
        x, low, high = people.low[t, a], records.low[i, a], records.high[i, a]
        if np.isnan(x):
            found.append(0.0 if records.null[i, a] else 1.0)
        elif np.isnan(low):
            found.append(1.0)
        else:
            found.append(low - x if x < low else x - high if x > high else SMALLER * (high - low))
    for c, covers in enumerate(of.covers):
        cell = records.codes[i, c]
        share = (covers[cell].sum() - 1.0) / (covers.shape[1] - 1)
        found.append(SMALLER * share if covers[cell, people.codes[t, c]] else 1.0)
    return found


def distances(of: Space, records: Cells, people: Cells, requested: Bools) -> np.ndarray:
    """(t, r) of each person from each record."""
    return np.array(
        [
            [
                sum(d for d, known in zip(far(of, records, i, people, t), requested[t], strict=True) if known)
                for i in range(len(records))
            ]
            for t in range(len(people))
        ]
    )


@pytest.fixture(params=[1, SIZE, 2 * SIZE + 3])
def found(request: pytest.FixtureRequest) -> tuple[Target, Cells, Bools, np.ndarray]:
    rng = np.random.default_rng(request.param)
    target = Target.of(space(), records(request.param, rng))
    people, requested = records(20, rng, people=True), rng.random((20, 4)) < 0.7
    return target, people, requested, distances(target.space, target.records, people, requested)


def test_the_nearest_record_is_that_of_all_records(
    found: tuple[Target, Cells, Bools, np.ndarray],
) -> None:
    target, people, requested, every = found
    distance, which = target.nearest(people, requested)
    np.testing.assert_array_equal(distance, every.min(axis=1))
    np.testing.assert_array_equal(every[np.arange(len(people)), which], distance)


def test_all_nearest_records_vote_and_are_counted(found: tuple[Target, Cells, Bools, np.ndarray]) -> None:
    target, people, requested, every = found
    near = every <= every.min(axis=1, keepdims=True) + 1e-9
    labels = np.arange(len(target.records)) % 3
    votes = near.astype(float) * target.multiple
    wanted = np.stack([votes[:, labels == label].sum(axis=1) for label in range(3)], axis=1)
    np.testing.assert_array_equal(target.votes(people, requested, labels, 3), wanted)
    own = np.array(
        [
            [max(far(target.space, target.records, i, people, t)) <= SMALLER for i in range(len(labels))]
            for t in range(len(people))
        ]
    )
    wanted = (near & own).sum(axis=1) / votes.sum(axis=1)
    np.testing.assert_allclose(target.taken_for_own(people, requested), wanted, rtol=1e-12)


def test_all_people_whom_a_record_covers_are_counted() -> None:
    rng = np.random.default_rng(7)
    of, some, people = space(), records(30, rng), records(2 * SIZE + 5, rng, people=True)
    requested = rng.random((30, 4)) < 0.6
    covered = np.ones((30, len(people)), np.bool_)
    for i in range(30):
        for t in range(len(people)):
            x, low, high = people.low[t], some.low[i], some.high[i]
            inside = np.where(np.isnan(x), some.null[i], (low <= x) & (x <= high))
            others = [of.covers[c][some.codes[i, c], people.codes[t, c]] > 0 for c in range(2)]
            covered[i, t] = (np.array([*inside, *others]) | ~requested[i]).all()
    for most in (2, len(people) + 1):
        count, who = covered_people(of, some, Blocks.of(of, people), requested, most)
        np.testing.assert_array_equal(count, np.minimum(covered.sum(axis=1), most))
        assert all(
            w == -1 if not n else covered[i, w] for i, (n, w) in enumerate(zip(count, who, strict=True))
        )
    assert covered_people(of, some, Blocks.of(of, people.take(np.arange(0))), requested, 2)[1].max() == -1


def test_a_predicate_is_compared_with_all_records() -> None:
    rng = np.random.default_rng(8)
    target = Target.of(space(), records(4 * SIZE + 5, rng))
    some, reported = target.records.sample(80, rng), target.records
    predicates = Cells(some.low - 0.13, some.high + 0.13, some.null, some.codes)
    sets = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]], np.bool_)
    wanted = []
    for p in range(80):
        ends = (predicates.low[p] <= reported.low) & (reported.high <= predicates.high[p])
        inside = np.where(
            np.isnan(reported.low), predicates.null[p], ends & (predicates.null[p] | ~reported.null)
        )
        fits = np.hstack([inside, reported.codes == predicates.codes[p]])
        alone = [target.multiple[fits[:, one].all(axis=1)].sum() == 1 for one in sets]
        wanted.append(alone.index(True) if True in alone else -1)
    np.testing.assert_array_equal(target.first_alone(predicates, sets), wanted)
    assert {-1, 2} < set(wanted)


def test_like_records_share_a_block_and_every_record_is_in_one() -> None:
    rng = np.random.default_rng(9)
    of, given = space(), records(20 * SIZE, rng)
    blocks = Blocks.of(of, given)
    assert sorted(blocks.order) == list(range(len(given)))
    np.testing.assert_array_equal(blocks.cells.codes, given.codes[blocks.order])
    # Of records at random the chance that a block of 64 tells less than all of 3 values is 2e-11.
    bits = np.array([[(int(words[0]) >> v) & 1 for v in range(3)] for words in blocks.words[:, 0]])
    assert bits.sum(axis=1).mean() < 3
