"""Partners that are kept from round to round: the same as a search among all classes finds."""

import numpy as np
import pytest

from privacy_engine.grouping.agglomeration import agglomerate, merge_cheapest_first
from privacy_engine.grouping.box_tree import BoxTree, Criterion, cheapest, plant
from privacy_engine.grouping.boxes import Boxes, Ints, Space, tabulate
from privacy_engine.grouping.partners import Known, PartnerSearch, propose_serially
from privacy_engine.tables.geometry import Geometry
from tests.privacy_engine.grouping.conftest import geometry_of


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


@pytest.mark.parametrize("n", [400, 800])
def test_searches_among_all_classes_grow_with_the_records(n: int) -> None:
    """Not with their square. Each record has its own diagnosis, so one class takes in nearly all of them."""
    geometry, among_all, rounds = diagnoses(n), [0], [0]

    def counted(
        space: Space, boxes: Boxes, grown: BoxTree, asking: Ints, criterion: int, known: Known
    ) -> None:
        among_all[0] += np.count_nonzero(known.length[asking] == 0)
        rounds[0] += 1
        propose_serially(space, boxes, grown, asking, criterion, known)

    tuples = patients(geometry, n, 5)
    agglomerate(tuples, geometry, 5, np.random.default_rng(0), search=counted)
    assert rounds[0] > n / 20
    assert among_all[0] < 4 * len(tuples)


def test_codes_without_a_hierarchy_are_not_cut_before_ages() -> None:
    """A part of a thousand codes spans as much as all of them; only a cut of the ages gains."""
    geometry = diagnoses(1_000)
    space, tuples = tabulate(geometry), patients(geometry, 300, 7)
    m = len(tuples)
    grown = plant(space, Boxes(tuples, tuples, np.ones(m), np.zeros(m)), np.arange(m))
    left, right = (tuples[grown.order[grown.begin[t] : grown.end[t]]] for t in (1, 2))
    assert left[:, 0].max() < right[:, 0].min()
