"""Classes of rows that are made to hold for persons, where several rows may be of one person.

A search asks whether a class may stand for every cut, merge and move. It counts k by persons, or by rows, and
all else by rows. What a release claims is counted exactly here, by the judge's own models, and classes that
miss it are merged.
Of two classes that hold, the union has as many persons, but need not hold: what a person has in one and in
the other is one set of values in the union. So each union is counted again.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privacy_engine.grouping.agglomeration import follow, merge_cheapest_first, propose_serially
from privacy_engine.grouping.box_tree import Criterion, plant
from privacy_engine.grouping.boxes import Ints, boxes_of, tabulate
from privacy_engine.judge.models import PrivacyModel
from privacy_engine.tables.classes import EquivalenceClasses, SensitiveColumn
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry


def hold_by_person(
    encoded: EncodedTable,
    labels: Ints,
    geometry: Geometry,
    models: Sequence[PrivacyModel],
    suppression_limit: float = 0.0,
) -> Ints:
    """Make every class keep the models, counted by persons.

    Args:
        encoded: the table, with its persons.
        labels: (n,) int64 classes, -1 = suppressed; those stay suppressed.
        geometry: costs by which merges are chosen.
        models: what every class must satisfy.
        suppression_limit: share of all records that may be suppressed in all.

    Returns:
        labels: (n,) int64, 0 .. classes - 1 and -1. One class remains where nothing else helps; it may miss
        a model that no grouping of the records keeps.
    """
    labels = _suppressed(encoded, labels, models, suppression_limit)
    kept = np.flatnonzero(labels >= 0)
    out = np.full(len(labels), -1, dtype=np.int64)
    if not len(kept):
        return out
    part = encoded.released(labels)
    numbered = np.unique(labels[kept], return_inverse=True)[1].astype(np.int64)
    boxes = boxes_of(part.codes, numbered, geometry)
    space, into = tabulate(geometry), np.arange(len(boxes.size))
    count = _Counter(part)
    failing = np.flatnonzero(count.failing(numbered, np.arange(len(into)), models))
    while len(failing) and np.count_nonzero(boxes.size > 0) > 1:
        grown = plant(space, boxes, np.flatnonzero(boxes.size > 0))
        partner, price = propose_serially(space, boxes, grown, failing, int(Criterion.INCREASE))
        before = boxes.size.copy()
        merge_cheapest_first(space, boxes, into, failing, partner, price)
        changed = np.flatnonzero(boxes.size > before)
        waiting = failing[(boxes.size[failing] > 0) & (boxes.size[failing] == before[failing])]
        found = changed[count.failing(follow(into)[numbered], changed, models)]
        failing = np.union1d(waiting, found)
    out[kept] = np.unique(follow(into)[numbered], return_inverse=True)[1]
    return out


def _suppressed(
    encoded: EncodedTable, labels: Ints, models: Sequence[PrivacyModel], suppression_limit: float
) -> Ints:
    """Suppress classes that miss a model, the smallest first, up to a share of the records; never all."""
    budget = math.floor(suppression_limit * len(encoded) + 1e-9) - int(np.count_nonzero(labels < 0))
    if budget <= 0 or (labels < 0).all():
        return labels
    classes = encoded.classes_of(labels)
    failing = np.flatnonzero(np.any([model.violations(classes) for model in models], axis=0))
    order = failing[np.argsort(classes.sizes[failing], kind="stable")]
    gone = order[np.cumsum(classes.sizes[order]) <= budget]
    if not len(gone) or len(gone) == len(classes):
        return labels
    out = labels.copy()
    out[np.flatnonzero(labels >= 0)[np.isin(classes.labels, gone)]] = -1
    return out


class _Counter:
    """The persons of some of the classes of a table, compared with the table's own distribution."""

    def __init__(self, table: EncodedTable) -> None:
        self.table = table
        whole = table.classes_of(np.zeros(len(table), dtype=np.int64))
        self.sensitive = {
            name: SensitiveColumn(
                codes=column.codes,
                size=column.size,
                hierarchy=column.hierarchy,
                prior=whole.counts(name).prior,
            )
            for name, column in whole.sensitive.items()
        }

    def failing(
        self, labels: Ints, wanted: npt.NDArray[np.intp], models: Sequence[PrivacyModel]
    ) -> npt.NDArray[np.bool_]:
        """Which of the classes (w,), by ascending numbers among the labels (n,), miss a model."""
        place = np.full(int(labels.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[wanted] = np.arange(len(wanted))
        rows = np.flatnonzero(place[labels] >= 0)
        columns = {
            name: SensitiveColumn(column.codes[rows], column.size, column.hierarchy, column.prior)
            for name, column in self.sensitive.items()
        }
        persons = self.table.persons
        classes = EquivalenceClasses(
            labels=place[labels[rows]], sensitive=columns, persons=None if persons is None else persons[rows]
        )
        missed: npt.NDArray[np.bool_] = np.any([model.violations(classes) for model in models], axis=0)
        return missed
