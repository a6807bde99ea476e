"""Classes that miss a required model are suppressed within a limit, then merged until all keep it."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privacy_engine.compiled import kernel
from privacy_engine.grouping.agglomeration import follow, merge_cheapest_first, propose_serially
from privacy_engine.grouping.box_tree import Criterion, plant
from privacy_engine.grouping.boxes import Boxes, Codes, Floats, Ints, Space, boxes_of, tabulate
from privacy_engine.grouping.constraints import Constraints, admits, class_counts
from privacy_engine.grouping.model_rules import compile_constraints
from privacy_engine.judge.models import PrivacyModel
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry


def repair(
    encoded: EncodedTable,
    labels: Ints,
    geometry: Geometry,
    models: Sequence[PrivacyModel],
    k: int,
    suppression_limit: float = 0.0,
) -> Ints:
    """Make every class keep the models.

    Args:
        encoded: the table.
        labels: (n,) int64 classes, -1 = suppressed; those stay suppressed.
        geometry: costs by which merges are chosen.
        models: what every class must satisfy besides k.
        k: least class size.
        suppression_limit: share of all records that may be suppressed here.

    Returns:
        labels: (n,) int64, 0 .. classes - 1 and -1. One class remains where nothing else helps.
    """
    if not models:
        return labels
    labels = suppress_failing(encoded, labels, compile_constraints(models, encoded), suppression_limit)
    constraints = compile_constraints(models, encoded.released(labels))  # they compare with what is released
    return merge_until_kept(encoded, labels, geometry, constraints, k)


def suppress_failing(
    encoded: EncodedTable, labels: Ints, constraints: Constraints, suppression_limit: float
) -> Ints:
    """Suppress classes that break a rule, the smallest first, up to a share of the records."""
    budget = math.floor(suppression_limit * len(encoded) + 1e-9)  # 0.29 of 100 are 29
    if not budget:
        return labels
    kept = labels >= 0
    names, numbered = np.unique(labels[kept], return_inverse=True)
    sizes = np.bincount(numbered)
    counts = class_counts(numbered, encoded.sensitive[:, kept], constraints.start, len(names))
    failing = np.flatnonzero(_fails(sizes.astype(np.float64), counts, constraints, 0))
    order = failing[np.argsort(sizes[failing], kind="stable")]
    gone = order[np.cumsum(sizes[order]) <= budget]
    if len(gone) == len(names):
        return labels  # never an empty table: all would go, so all are merged instead
    return np.where(np.isin(labels, names[gone]), -1, labels)


def merge_until_kept(
    encoded: EncodedTable, labels: Ints, geometry: Geometry, constraints: Constraints, k: int
) -> Ints:
    """Merge each class that fails with the class that costs least, until none fails or one is left.

    Takes and gives labels (n,) int64, -1 = suppressed; given, they are 0 .. classes - 1.
    """
    kept = np.flatnonzero(labels >= 0)
    out = np.full(len(labels), -1, dtype=np.int64)
    if len(kept) == 0:
        return out
    numbered = np.unique(labels[kept], return_inverse=True)[1].astype(np.int64)
    boxes = boxes_of(encoded.codes[kept], numbered, geometry)
    counts = class_counts(numbered, encoded.sensitive[:, kept], constraints.start, len(boxes.size))
    into = _merge_failing(tabulate(geometry), boxes, counts, constraints, k)
    out[kept] = np.unique(into[numbered], return_inverse=True)[1]
    return out


def _merge_failing(space: Space, boxes: Boxes, counts: Codes, constraints: Constraints, k: int) -> Ints:
    """The rounds of agglomeration, with breaking a rule in the place of being small."""
    into = np.arange(len(boxes.size))
    while True:
        alive = np.flatnonzero(boxes.size > 0)
        failing = alive[_fails(boxes.size[alive], counts[alive], constraints, k)]
        if len(failing) == 0 or len(alive) == 1:
            return follow(into)
        grown = plant(space, boxes, alive)
        partner, price = propose_serially(space, boxes, grown, failing, int(Criterion.INCREASE))
        merge_cheapest_first(space, boxes, into, failing, partner, price)
        gone = alive[boxes.size[alive] == 0]
        counts[into[gone]] += counts[gone]  # a class takes in one other a round


@kernel()
def _fails(size: Floats, counts: Codes, constraints: Constraints, k: int) -> npt.NDArray[np.bool_]:
    """(c,) whether a class is too small or breaks a rule."""
    found = np.empty(len(size), np.bool_)
    for c in range(len(size)):
        found[c] = size[c] < k or not admits(counts[c], int(size[c]), constraints)
    return found
