"""Nulls in ordered attributes: the last code, as far from every value as the ends of the domain."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.recoding.grouping.agglomeration import agglomerate
from privacy_engine.recoding.grouping.box_tree import Criterion, cheapest, plant
from privacy_engine.recoding.grouping.boxes import boxes_of, tabulate, union_cost
from privacy_engine.recoding.grouping.constraints import no_constraints
from privacy_engine.recoding.grouping.optics import distances_to, mixed_distance
from privacy_engine.recoding.grouping.order_cut import cut_at_least_loss
from privacy_engine.recoding.grouping.partitioning import CutRule, mondrian
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.encoding import OrderedDomain
from privacy_engine.tables.geometry import Geometry
from tests.privacy_engine.recoding.grouping.conftest import table_loss

VALUES = np.array([0.0, 1.0, 4.0, 10.0])
WEIGHTS = np.array([0.75, 0.25])
# Two ordered attributes of four values; only the first may be null, by code 4.
GEOMETRY = Geometry(
    tree=np.array([False, False]),
    start=np.array([0, 5, 9], np.int64),
    value=np.concatenate([WEIGHTS[0] * np.append(VALUES / 10, 2.0), WEIGHTS[1] * VALUES / 10]),
    parent=np.zeros(9, np.int32),
    most=np.array([WEIGHTS[0], np.inf]),
)
RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=9)


def loss_of(codes: np.ndarray) -> float:
    """Loss of one record of a class, by the definition."""
    first, second = codes[:, 0], VALUES[codes[:, 1]]
    known = VALUES[first[first < 4]]
    mixed = 0 < len(known) < len(first)
    spread = 1.0 if mixed else np.ptp(known) / 10 if len(known) else 0.0
    return float(WEIGHTS @ [spread, np.ptp(second) / 10])


def whole_loss(codes: np.ndarray, labels: np.ndarray) -> float:
    return sum((labels == c).sum() * loss_of(codes[labels == c]) for c in np.unique(labels))


@given(RECORDS, st.data())
def test_costs_of_classes_and_unions_are_those_of_the_definition(rows, data) -> None:
    codes = np.array(rows, np.int32)
    labels = np.array(data.draw(st.permutations([i % 2 for i in range(len(rows))])))
    boxes, space = boxes_of(codes, labels, GEOMETRY), tabulate(GEOMETRY)
    assert boxes.cost == pytest.approx([loss_of(codes[labels == c]) for c in (0, 1)])
    assert union_cost(space, boxes.lo[0], boxes.hi[0], boxes.lo[1], boxes.hi[1]) == pytest.approx(
        loss_of(codes)
    )
    assert table_loss(codes, labels, GEOMETRY) == pytest.approx(whole_loss(codes, labels))


@pytest.mark.parametrize("criterion", list(Criterion))
def test_search_among_classes_with_nulls_finds_what_a_scan_finds(criterion: Criterion) -> None:
    rng = np.random.default_rng(4)
    codes = np.stack([rng.integers(0, 5, 400), rng.integers(0, 4, 400)], axis=1).astype(np.int32)
    labels = np.arange(400) // 2
    boxes, space = boxes_of(codes, labels, GEOMETRY), tabulate(GEOMETRY)
    grown = plant(space, boxes, np.arange(200))
    for i in range(60):
        found, price = np.full(5, -1), np.zeros(5)
        args = (boxes.lo[i], boxes.hi[i], boxes.size[i], boxes.cost[i], i, int(criterion))
        assert cheapest(space, boxes, grown, *args, np.inf, found, price) == 5
        union = np.array([loss_of(codes[(labels == i) | (labels == h)]) for h in range(200)])
        scanned = 4 * union if criterion is Criterion.WHOLE else 2 * (2 * union - boxes.cost[i] - boxes.cost)
        assert price == pytest.approx(np.sort(np.delete(scanned, i))[:5])


@given(RECORDS)
def test_mondrian_takes_the_cut_of_least_loss_where_nulls_are_one_side(rows) -> None:
    codes = np.array(rows, np.int32)
    nothing = np.zeros((0, len(codes)), np.int32)
    labels = mondrian(codes, GEOMETRY, len(codes) // 2, nothing, no_constraints(), CutRule.LEAST_LOSS)
    cuts = [codes[:, j] <= code for j in (0, 1) for code in range(4)]
    allowed = [c for c in cuts if len(codes) // 2 <= c.sum() <= len(codes) - len(codes) // 2]
    best = min([whole_loss(codes, c) for c in allowed], default=whole_loss(codes, np.zeros(len(codes))))
    assert whole_loss(codes, labels) <= best + 1e-9


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=4, max_size=7))
def test_the_best_runs_of_an_order_with_nulls_are_found(rows) -> None:
    codes = np.array(rows, np.int32)
    labels = cut_at_least_loss(codes, GEOMETRY, 2)
    runs = [
        np.repeat(np.arange(len(sizes)), sizes)
        for parts in range(1, 4)
        for sizes in itertools.product((2, 3), repeat=parts)
        if sum(sizes) == len(codes)
    ]
    assert whole_loss(codes, labels) == pytest.approx(min(whole_loss(codes, run) for run in runs))


def test_agglomeration_puts_nulls_together() -> None:
    codes = np.array([[4, 0], [0, 0], [4, 1], [1, 0], [4, 0], [0, 1]], np.int32)
    labels = agglomerate(codes, GEOMETRY, 3, np.random.default_rng(0))
    assert len({int(labels[i]) for i in (0, 2, 4)}) == len({int(labels[i]) for i in (1, 3, 5)}) == 1


def test_a_null_is_at_distance_one_from_every_value_and_none_from_a_null() -> None:
    domain = OrderedDomain(np.append(VALUES, np.nan), ("0", "1", "4", "10", NULL), 0.0, 10.0)
    assert domain.places == pytest.approx([0, 0.1, 0.4, 1, 2])
    distance = mixed_distance([domain], np.array([0.5]))
    columns, out = np.array([[4, 0, 1, 3, 4]], np.int32), np.empty(5)
    distances_to(columns, 0, 5, distance, np.empty(5), out)
    assert out == pytest.approx([0, 0.5, 0.5, 0.5, 0])
    distances_to(columns, 1, 5, distance, np.empty(5), out)
    assert out == pytest.approx([0.5, 0, 0.05, 0.5, 0.5])
