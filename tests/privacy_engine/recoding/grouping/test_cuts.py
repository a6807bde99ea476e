"""Persons on both sides of a cut, and in some of its buckets, against counting by sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.cuts import persons_beside, persons_in

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=25)


def by_person(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, int]:
    """Persons in ascending order, the bucket of each row, and the number of buckets."""
    persons, bucket = (np.array(column, np.int64) for column in zip(*sorted(rows), strict=True))
    return persons, bucket, int(bucket.max()) + 1


@given(rows=ROWS)
def test_an_ordered_cut_has_the_persons_of_its_prefix_and_its_suffix(rows: list[tuple[int, int]]) -> None:
    persons, bucket, b = by_person(rows)
    near, far = np.empty(b, np.int64), np.empty(b, np.int64)
    persons_beside(persons, bucket, False, near, far)
    assert near.tolist() == [len({p for p, x in rows if x <= at}) for at in range(b)]
    assert far.tolist() == [len({p for p, x in rows if x > at}) for at in range(b)]


@given(rows=ROWS)
def test_a_bucket_and_all_others_have_their_own_persons(rows: list[tuple[int, int]]) -> None:
    persons, bucket, b = by_person(rows)
    near, far = np.empty(b, np.int64), np.empty(b, np.int64)
    persons_beside(persons, bucket, True, near, far)
    assert near.tolist() == [len({p for p, x in rows if x == at}) for at in range(b)]
    assert far.tolist() == [len({p for p, x in rows if x != at}) for at in range(b)]


@given(rows=ROWS, chosen=st.sets(st.integers(0, 3)))
def test_a_group_of_buckets_has_each_person_once(rows: list[tuple[int, int]], chosen: set[int]) -> None:
    persons, bucket, b = by_person(rows)
    flags = np.array([at in chosen for at in range(b)])
    found = persons_in(persons, bucket, flags)
    assert found == len({p for p, x in rows if x in chosen})
