"""Records that stand outside all classes, each put into the class where it adds least to the loss."""

import numpy as np

from privacy_engine.geometry import Geometry, class_spans, span_costs
from privacy_engine.grouping.box_tree import plant
from privacy_engine.grouping.boxes import Boxes, Codes, Ints, tabulate
from privacy_engine.grouping.refinement import look_up_serially


def assign_to_cheapest(codes: Codes, labels: Ints, geometry: Geometry) -> Ints:
    """Labels (n,) in which each -1 is replaced by the class that costs least.

    All are judged by the classes as they are given, so the order of the records does not matter.

    Args:
        codes: (n, q) int32 quasi-identifier codes.
        labels: (n,) int64, 0 .. classes - 1 without gaps, at least one class; -1 = in none.
        geometry: costs of the q attributes.
    """
    outside = np.flatnonzero(labels < 0)
    classes = int(labels.max()) + 1
    lo, hi = class_spans(codes, labels, classes, geometry)
    size = np.bincount(labels[labels >= 0]).astype(np.float64)
    boxes = Boxes(lo, hi, size, span_costs(lo, hi, geometry).sum(axis=1))
    space = tabulate(geometry)
    cheapest = np.full((len(outside), 1), -1, np.int64)
    grown = plant(space, boxes, np.arange(classes))
    look_up_serially(space, boxes, grown, np.ascontiguousarray(codes[outside], np.int32), cheapest)
    assigned = labels.copy()
    assigned[outside] = cheapest[:, 0]
    return assigned
