"""Prices of records: the dual of a linear program that covers every record with columns.

A column is a set of records with a cost. The program chooses ``x >= 0`` of each column with the least total
cost, such that every record is covered. Its dual gives each record a price ``y``. Both are found roughly, by
a primal-dual gradient method (Chambolle, Pock 2011).
"""

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.boxes import Floats, Ints

STEP_RATIO = 0.02  # ratio of steps in y to steps in x: about the ratio of their sizes


@kernel(nogil=True)
def descend(
    start: Ints,
    tuples: Ints,
    times: Floats,
    costs: Floats,
    counts: Floats,
    x: Floats,
    y: Floats,
    steps: int,
) -> tuple[Floats, Floats]:
    """The means of x and y over the later half of some steps of a preconditioned primal-dual gradient method.

    Args:
        start: Column i owns ``start[i] : start[i + 1]`` of the entries, shape (c + 1,).
        tuples: Tuples of each column, shape (entries,).
        times: Number of records of each, shape (entries,).
        costs: Loss of each column, shape (c,).
        counts: Records of each tuple to be covered, shape (m,); the y of one without any only falls.
        x: Start values of x, shape (c,).
        y: Start values of y, shape (m,).
        steps: Number of steps.
    """
    held = np.zeros(len(y))
    step = np.empty(len(costs))
    for c in range(len(costs)):
        total = 0.0
        for e in range(start[c], start[c + 1]):
            held[tuples[e]] += times[e]
            total += times[e]
        step[c] = 1.0 / (STEP_RATIO * total)
    x, y, covered = x.copy(), y.copy(), np.empty(len(y))
    mean_x, mean_y = np.zeros(len(x)), np.zeros(len(y))
    for step_number in range(steps):
        covered[:] = 0.0
        for c in range(len(costs)):
            reduced = costs[c]
            for e in range(start[c], start[c + 1]):
                reduced -= times[e] * y[tuples[e]]
            new = max(0.0, x[c] - step[c] * reduced)
            ahead = 2.0 * new - x[c]
            x[c] = new
            if ahead != 0.0:
                for e in range(start[c], start[c + 1]):
                    covered[tuples[e]] += times[e] * ahead
        for t in range(len(y)):
            if held[t] > 0.0:
                y[t] = min(1.0, max(0.0, y[t] + STEP_RATIO / held[t] * (counts[t] - covered[t])))
        if step_number >= steps // 2:  # the first half is not informative
            mean_x += x
            mean_y += y
    return mean_x / (steps - steps // 2), mean_y / (steps - steps // 2)
