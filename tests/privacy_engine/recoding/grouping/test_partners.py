"""Partners that are kept from round to round: the same as a search among all classes finds."""

import numpy as np
import pytest

from privacy_engine.recoding.grouping.agglomeration import (
    PATIENCE,
    agglomerate,
    join_while_cheap,
    merge_cheapest_first,
)
from privacy_engine.recoding.grouping.box_tree import BoxTree, Criterion, _floors, cheapest, plant
from privacy_engine.recoding.grouping.boxes import Boxes, Ints, Space, box_cost, tabulate
from privacy_engine.recoding.grouping.partners import Known, PartnerSearch, propose_serially
from privacy_engine.tables.geometry import Geometry
from tests.privacy_engine.recoding.grouping.conftest import geometry_of


def diagnoses(codes: int) -> Geometry:
    """Twenty ages and diagnoses without a hierarchy."""
    return geometry_of([i / 19 for i in range(20)], dict.fromkeys(range(codes), codes), weight=0.5)


def patients(geometry: Geometry, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = geometry.start[2] - geometry.start[1] - 1
    drawn = np.stack([rng.integers(0, 20, n), rng.integers(0, codes, n)], axis=1)
    return np.unique(drawn.astype(np.int32), axis=0)


@pytest.mark.parametrize("criterion", list(Criterion))
@pytest.mark.parametrize("codes", [6, 150])
def test_every_round_finds_what_a_search_from_the_beginning_finds(criterion: Criterion, codes: int) -> None:
    """Six codes and twenty ages make many ties. A third of the classes of three or more asks each round."""
    geometry = diagnoses(codes)
    space, tuples = tabulate(geometry), patients(geometry, 120, 3)
    m = len(tuples)
    boxes = Boxes(tuples.copy(), tuples.copy(), np.ones(m), np.zeros(m))
    partners, into, rounds = PartnerSearch(space, boxes, int(criterion), propose_serially), np.arange(m), 0
    best, least = np.empty(1, np.int64), np.empty(1)
    while np.count_nonzero(boxes.size > 0) > 4:
        rounds += 1
        small = np.flatnonzero((boxes.size > 0) & ((boxes.size < 3) | (np.arange(m) % 3 == rounds % 3)))
        if not len(small):
            continue
        partner, price = partners.of(small)
        grown = plant(space, boxes, np.flatnonzero(boxes.size > 0))
        for i, found, at in zip(small, partner, price, strict=True):
            box = (boxes.lo[i], boxes.hi[i], boxes.size[i], boxes.cost[i], i, int(criterion))
            cheapest(space, boxes, grown, *box, np.inf, best, least)
            assert (found, at) == (best[0], least[0])
        merge_cheapest_first(space, boxes, into, small, partner, price)
    assert rounds > 5


@pytest.mark.parametrize("n", [400, 1_600])
def test_searches_and_rounds_grow_with_the_records_at_most(n: int) -> None:
    """Not with their square. Each record has its own diagnosis, so few classes take in nearly all of them."""
    geometry, among_all, rounds = diagnoses(n), [0], [0]

    def counted(
        space: Space, boxes: Boxes, grown: BoxTree, asking: Ints, criterion: int, known: Known
    ) -> None:
        among_all[0] += np.count_nonzero(known.length[asking] == 0)
        rounds[0] += 1
        propose_serially(space, boxes, grown, asking, criterion, known)

    tuples = patients(geometry, n, 5)
    labels = agglomerate(tuples, geometry, 5, np.random.default_rng(0), search=counted)
    assert np.bincount(labels).min() >= 5
    assert rounds[0] < 6 * PATIENCE  # several trees are searched in a round
    assert among_all[0] < 4 * len(tuples)


def test_a_class_joins_a_partner_that_has_grown_only_where_that_costs_no_more() -> None:
    """Three records want the class of ages 0 to 10; the second one to join widens it, at the others' cost."""
    space = tabulate(diagnoses(9))
    lo = np.array([[0, 9], [3, 0], [4, 1], [12, 2]], np.int32)
    hi = np.array([[10, 9], [3, 0], [4, 1], [12, 2]], np.int32)
    cost = np.array([box_cost(space, a, b) for a, b in zip(lo, hi, strict=True)])
    boxes = Boxes(lo, hi, np.array([5.0, 1.0, 1.0, 1.0]), cost)
    whole = cost[0]
    into, price = np.arange(4), np.array([whole, whole, whole + 0.1])
    join_while_cheap(
        space, boxes, into, np.array([1, 2, 3]), np.zeros(3, np.int64), price, int(Criterion.INCREASE)
    )
    assert into.tolist() == [0, 0, 0, 3]  # its price has risen: by then the class has seven records
    assert boxes.size.tolist() == [7, 0, 0, 1]
    assert boxes.cost[0] == whole


def test_no_box_outside_of_a_run_of_the_walk_costs_less_than_the_floor() -> None:
    geometry = diagnoses(150)
    space, tuples = tabulate(geometry), patients(geometry, 300, 7)
    m = len(tuples)
    grown = plant(space, Boxes(tuples, tuples, np.ones(m), np.zeros(m)), np.arange(m))
    for row in tuples[::20]:
        floor, first, last = _floors.py_func(space, grown, row)
        alike = np.flatnonzero(tuples[:, 1] == row[1])
        assert sorted(grown.walk[0, first[0] : last[0]]) == alike.tolist()
        assert floor.tolist() == [0.0, 0.5]  # another diagnosis costs the whole attribute


def test_codes_without_a_hierarchy_are_not_cut_before_ages() -> None:
    """A part of a thousand codes spans as much as all of them; only a cut of the ages gains."""
    geometry = diagnoses(1_000)
    space, tuples = tabulate(geometry), patients(geometry, 300, 7)
    m = len(tuples)
    grown = plant(space, Boxes(tuples, tuples, np.ones(m), np.zeros(m)), np.arange(m))
    left, right = (tuples[grown.order[grown.begin[t] : grown.end[t]]] for t in (1, 2))
    assert left[:, 0].max() < right[:, 0].min()
