"""Records outside of all classes, each put into the class where it adds least to the loss."""

import numpy as np

from privacy_engine.recoding.grouping.box_tree import plant
from privacy_engine.recoding.grouping.boxes import Codes, Ints, boxes_of, tabulate
from privacy_engine.recoding.grouping.refinement import look_up_serially
from privacy_engine.tables.geometry import Geometry


def assign_to_cheapest(codes: Codes, labels: Ints, geometry: Geometry) -> Ints:
    """Labels (n,) in which each -1 is replaced by the class that costs least.

    All are judged by the classes as they are given, so the order of the records does not matter.

    Args:
        codes: Quasi-identifier codes, shape (n, q) int32.
        labels: 0 .. classes - 1 without gaps, at least one class, shape (n,) int64; -1 = in none.
        geometry: Costs of the q attributes.
    """
    outside = np.flatnonzero(labels < 0)
    boxes, space = boxes_of(codes, labels, geometry), tabulate(geometry)
    cheapest = np.full((len(outside), 1), -1, np.int64)
    grown = plant(space, boxes, np.arange(len(boxes.size)))
    rows = np.ascontiguousarray(codes[outside], np.int32)
    look_up_serially(space, boxes, grown, rows, np.ones(len(rows)), cheapest)
    assigned = labels.copy()
    assigned[outside] = cheapest[:, 0]
    return assigned
