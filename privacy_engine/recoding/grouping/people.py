"""Make classes of rows hold for persons, if a person may have several rows.

A search checks every cut, merge and move. It counts k by persons, or by rows, and everything else by rows.
The claims of a release are counted exactly here, by the verification's own models, and classes that fail are
merged. The union of two classes that hold has at least as many persons, but need not hold: a person's values
in one and in the other become one set of values in the union. So each union is counted again.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privacy_engine.progress import advance
from privacy_engine.recoding.grouping.agglomeration import follow, merge_cheapest_first
from privacy_engine.recoding.grouping.box_tree import INCREASE
from privacy_engine.recoding.grouping.boxes import Ints, boxes_of, tabulate
from privacy_engine.recoding.grouping.partners import PartnerSearch, propose_serially
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry
from privacy_engine.verification.models import PrivacyModel


class Scope(NamedTuple):
    """Models, and the records that they apply to.

    rows: (n,) bool; None: all.
    attributes: the sensitive attributes that these records have.
    """

    models: tuple[PrivacyModel, ...]
    rows: npt.NDArray[np.bool_] | None
    attributes: tuple[str, ...]

    def take(self, records: npt.NDArray[np.intp]) -> "Scope":
        """Return the same models for some of the records."""
        return self if self.rows is None else self._replace(rows=self.rows[records])

    def classes(self, classes: EquivalenceClasses) -> tuple[Ints, EquivalenceClasses]:
        """Return the classes (a,) that have such records, and these classes with only these records."""
        if self.rows is None and len(self.attributes) == len(classes.sensitive):
            return np.arange(len(classes)), classes
        rows = slice(None) if self.rows is None else self.rows
        affected, labels = np.unique(classes.labels[rows], return_inverse=True)
        own = EquivalenceClasses(
            labels=labels.astype(np.int64),
            sensitive={
                name: replace(classes.sensitive[name], codes=classes.sensitive[name].codes[rows])
                for name in self.attributes
            },
            persons=None if classes.persons is None else classes.persons[rows],
        )
        return affected, own


def hold_by_person(
    encoded: EncodedTable,
    labels: Ints,
    geometry: Geometry,
    models: Sequence[PrivacyModel],
    suppression_limit: float = 0.0,
    scopes: Sequence[Scope] = (),
) -> Ints:
    """Make every class meet the models, counted by persons.

    Args:
        encoded: Table, with its persons.
        labels: Classes, -1 = suppressed, shape (n,) int64; those stay suppressed.
        geometry: Costs by which merges are chosen.
        models: Models that every class must satisfy.
        suppression_limit: Share of all records that may be suppressed in all.
        scopes: Further models, each with the records that it is about; empty if each is about all. A class
            without such a record meets the model.

    Returns:
        labels: (n,) int64, 0 .. classes - 1 and -1. A single class remains if nothing else helps; it may miss
            a model that
        no grouping of the records meets.
    """
    scopes = scopes or [Scope(tuple(models), None, encoded.sensitive_names)]
    labels = _suppressed(encoded, labels, scopes, suppression_limit)
    kept = np.flatnonzero(labels >= 0)
    out = np.full(len(labels), -1, dtype=np.int64)
    if not len(kept):
        return out
    part = encoded.released(labels)
    numbered = np.unique(labels[kept], return_inverse=True)[1].astype(np.int64)
    boxes = boxes_of(part.codes, numbered, geometry)
    space, into = tabulate(geometry), np.arange(len(boxes.size))
    partners = PartnerSearch(space, boxes, INCREASE, propose_serially)
    count = _Counter(part, [scope.take(kept) for scope in scopes])
    failing = np.flatnonzero(count.failing(numbered, np.arange(len(into))))
    first = len(failing)
    while len(failing) and np.count_nonzero(boxes.size > 0) > 1:
        advance(1.0 - len(failing) / first)
        partner, price = partners.of(failing)
        before = boxes.size.copy()
        merge_cheapest_first(space, boxes, into, failing, partner, price)
        changed = np.flatnonzero(boxes.size > before)
        waiting = failing[(boxes.size[failing] > 0) & (boxes.size[failing] == before[failing])]
        found = changed[count.failing(follow(into)[numbered], changed)]
        failing = np.union1d(waiting, found)
    out[kept] = np.unique(follow(into)[numbered], return_inverse=True)[1]
    return out


def _suppressed(
    encoded: EncodedTable, labels: Ints, scopes: Sequence[Scope], suppression_limit: float
) -> Ints:
    """Suppress classes that miss a model, the smallest first, up to a share of the records; never all."""
    budget = math.floor(suppression_limit * len(encoded) + 1e-9) - int(np.count_nonzero(labels < 0))
    if budget <= 0 or (labels < 0).all():
        return labels
    kept = np.flatnonzero(labels >= 0)
    classes = encoded.classes_of(labels)
    failing = np.flatnonzero(_missed(classes, [scope.take(kept) for scope in scopes]))
    order = failing[np.argsort(classes.sizes[failing], kind="stable")]
    gone = order[np.cumsum(classes.sizes[order]) <= budget]
    if not len(gone) or len(gone) == len(classes):
        return labels
    out = labels.copy()
    out[kept[np.isin(classes.labels, gone)]] = -1
    return out


def _missed(classes: EquivalenceClasses, scopes: Sequence[Scope]) -> npt.NDArray[np.bool_]:
    """Return whether each class violates a model among the records that the model applies to, (c,)."""
    missed = np.zeros(len(classes), dtype=np.bool_)
    for scope in scopes:
        affected, own = scope.classes(classes)
        for model in scope.models:
            missed[affected] |= model.violations(own)
    return missed


class _Counter:
    """The persons of some of the classes of a table, compared with the table's own distribution."""

    def __init__(self, table: EncodedTable, scopes: Sequence[Scope]) -> None:
        self.table, self.scopes = table, scopes
        whole = table.classes_of(np.zeros(len(table), dtype=np.int64))
        self.sensitive = dict(whole.sensitive)
        for scope in scopes:
            _, own = scope.classes(whole)
            for name in scope.attributes:
                prior = own.counts(name).prior
                self.sensitive[name] = replace(whole.sensitive[name], prior=prior)

    def failing(self, labels: Ints, wanted: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Which of the classes (w,), by ascending numbers among the labels (n,), miss a model."""
        place = np.full(int(labels.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[wanted] = np.arange(len(wanted))
        rows = np.flatnonzero(place[labels] >= 0)
        columns = {name: replace(c, codes=c.codes[rows]) for name, c in self.sensitive.items()}
        persons = self.table.persons
        classes = EquivalenceClasses(
            labels=place[labels[rows]], sensitive=columns, persons=None if persons is None else persons[rows]
        )
        return _missed(classes, [scope.take(rows) for scope in self.scopes])
