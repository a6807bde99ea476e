"""Contingency tables against a plain count."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.dp.amplification import secure_sample
from privacy_engine.tables.domains import CodedTable, LabelledDomain, Storage
from privacy_engine.tables.marginals import WeightedRecords, contingency, pack


def coded_table(codes: np.ndarray, sizes: tuple[int, ...]) -> CodedTable:
    domains = tuple(
        LabelledDomain(
            name=f"a{i}",
            labels=tuple(map(str, range(size))),
            groups=np.arange(size),
            storage=Storage.TEXT,
            nullable=False,
        )
        for i, size in enumerate(sizes)
    )
    return CodedTable(domains=domains, storages={}, codes=np.ascontiguousarray(codes.astype(np.uint8)))


@st.composite
def tables(draw: st.DrawFn) -> CodedTable:
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)))
    n, seed = draw(st.integers(1, 60)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    return coded_table(np.stack([rng.integers(0, size, n) for size in sizes]), sizes)


@given(tables(), st.data())
def test_joint_counts_are_the_plain_counts(coded: CodedTable, data: st.DataObject) -> None:
    attributes = data.draw(st.permutations(range(len(coded.sizes))))
    attributes = attributes[: data.draw(st.integers(0, len(attributes)))]
    plain = Counter(zip(*coded.codes[attributes].tolist(), strict=True)) if attributes else {(): len(coded)}
    expected = np.zeros([coded.sizes[a] for a in attributes], dtype=np.int64)
    for cell, count in plain.items():
        expected[cell] = count
    assert contingency(coded, attributes).tolist() == expected.tolist()
    assert contingency(WeightedRecords.of(coded), attributes).tolist() == expected.tolist()


@given(tables())
def test_equal_records_are_joined_and_none_is_lost(coded: CodedTable) -> None:
    records = WeightedRecords.of(coded)
    plain = Counter(zip(*coded.codes.tolist(), strict=True))
    found = dict(zip(zip(*records.codes.tolist(), strict=True), records.weights.tolist(), strict=True))
    assert found == plain
    assert records.total == len(coded)


def test_records_are_distinguished_when_their_combinations_exceed_64_bits() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 256, (20, 400))  # 2^160 combinations
    codes[:, 200:] = codes[:, :200]
    codes[19, 0] ^= 1
    sizes = np.full(20, 256)
    assert len(np.unique(pack(codes, sizes))) == len(np.unique(codes, axis=1).T) == 201


@pytest.mark.parametrize("attributes", [[0], [1, 0], [2, 0, 1]])
def test_the_axes_stand_in_the_order_asked_for(attributes: list[int]) -> None:
    coded = coded_table(np.array([[0, 1, 1], [2, 2, 0], [0, 0, 3]]), (2, 3, 4))
    full = contingency(coded, [0, 1, 2])
    rest = tuple(a for a in range(3) if a not in attributes)
    kept = [a for a in range(3) if a in attributes]
    summed = full.sum(axis=rest).transpose([kept.index(a) for a in attributes])
    assert contingency(coded, attributes).tolist() == summed.tolist()


def weighted(coded: CodedTable) -> CodedTable:
    """The same records, equal ones once."""
    records = WeightedRecords.of(coded)
    return replace(coded, codes=records.codes, weights=records.weights)


def plain(coded: CodedTable) -> Counter[tuple[int, ...]]:
    """How often each record occurs."""
    records = WeightedRecords.of(coded)
    codes = zip(*records.codes.tolist(), strict=True)
    return Counter(dict(zip(codes, records.weights.tolist(), strict=True)))


@given(tables(), st.data())
def test_equal_records_that_stand_once_have_the_same_joint_counts(
    coded: CodedTable, data: st.DataObject
) -> None:
    attributes = data.draw(st.permutations(range(len(coded.sizes))))[:3]
    once = weighted(coded)
    assert len(once) == len(coded)
    assert contingency(once, attributes).tolist() == contingency(coded, attributes).tolist()
    assert (
        contingency(WeightedRecords.of(once), attributes).tolist() == contingency(coded, attributes).tolist()
    )


def test_every_set_of_record_numbers_names_its_own_records_where_equal_ones_stand_once() -> None:
    # So a uniform set of record numbers is a uniform set of records: all 64 sets of 6 records.
    coded = coded_table(np.array([[0, 1, 1, 2, 2, 2]]), (3,))
    once = weighted(coded)
    assert once.weights is not None
    assert once.weights.tolist() == [1, 2, 3]
    for m in range(7):
        for rows in map(np.array, itertools.combinations(range(6), m)):
            rows = rows.astype(np.int64)
            assert len(once.take(rows)) == m
            assert plain(once.take(rows)) == plain(coded.take(rows))


@given(tables(), st.data())
def test_a_sample_has_its_size_and_no_record_more_often_than_the_table(
    coded: CodedTable, data: st.DataObject
) -> None:
    m = data.draw(st.integers(1, len(coded)))
    sample = weighted(coded).take(secure_sample(len(coded), m))
    assert len(sample) == m
    assert plain(sample) <= plain(coded)


def test_samples_of_records_that_stand_once_are_hypergeometric() -> None:
    # 6,000 samples of 3 of the records a, b, b, c, c, c: 20 sets, of which this many hold this many of each.
    # Standard errors are 38 at most. By Chernoff's bound one of the 6 counts is 280 off once in 1e12 runs.
    once = weighted(coded_table(np.array([[0, 1, 1, 2, 2, 2]]), (3,)))
    sets = {(0, 0, 3): 1, (0, 1, 2): 6, (0, 2, 1): 3, (1, 0, 2): 3, (1, 1, 1): 6, (1, 2, 0): 1}
    seen = Counter(tuple(contingency(once.take(secure_sample(6, 3)), [0]).tolist()) for _ in range(6000))
    assert set(seen) == set(sets)
    assert max(abs(seen[found] - 300 * number) for found, number in sets.items()) < 280
