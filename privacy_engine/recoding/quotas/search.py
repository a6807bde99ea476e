"""The search for classes under models that bound the distribution of the sensitive values.

Repairing a k-anonymous partition by merging what fails ends in a few giant classes. Here classes are valid
from the start: grown under quotas, or, if that takes large classes, cut so that both sides meet the rules.
Then every step keeps the rules: steps of boxes for large classes, swaps of records with equal sensitive
values, and refinement.

Sources: Cao, Karras, Kalnis, Tan (2011) for the quotas (see `compositions`); LeFevre et al. (2006) for the
cuts (see `quantile_cuts`). Swaps and steps of boxes are ours.
"""

from dataclasses import dataclass

import numpy as np

from privacy_engine.progress import advance, tracked
from privacy_engine.recoding.grouping.boxes import Boxes, Codes, Ints, Space, boxes_of, tabulate
from privacy_engine.recoding.grouping.class_state import open_state, single_records
from privacy_engine.recoding.grouping.constraints import Constraints, class_counts
from privacy_engine.recoding.grouping.refinement import ROUNDS, LookUp, refine_in
from privacy_engine.recoding.quotas.box_steps import LARGE, step_boxes
from privacy_engine.recoding.quotas.compositions import kinds_of, rules_of_kinds
from privacy_engine.recoding.quotas.growth import grow_classes, join_left_over
from privacy_engine.recoding.quotas.quantile_cuts import cut_by_quotas
from privacy_engine.recoding.quotas.swaps import swap_alike
from privacy_engine.tables.geometry import Geometry

CYCLES = 2  # of all steps where classes are large; one does where they are small
HUGE = 600  # records of a class that is excluded from refinement; in the search itself this suffices:
MANY = 200
ORDERS = 3  # in which a few large classes are grown
SWEEPS = 3  # of swaps at most; the first brings most
BOX_ROUNDS = 8
ENOUGH = 5e-3  # a round that lowers the total by a smaller share is the last
ENOUGH_SWAPS = 1e-2  # the same for swaps, after which refinement follows


@dataclass(frozen=True)
class QuotaSearch:
    """A table and the rules that its classes must meet; each record counts as a person.

    Attributes:
        codes: Quasi-identifiers, in one memory layout, shape (n, q) int32.
        sensitive: Codes of the sensitive attributes, shape (s, n) int32.
        geometry: Costs of the quasi-identifiers.
        constraints: Rules that every class must meet.
        k: Least size of a class.
    """

    codes: Codes
    sensitive: Codes
    geometry: Geometry
    constraints: Constraints
    k: int

    def starts(self, rng: np.random.Generator) -> list[Ints]:
        """Partitions to improve: labels (n,) of classes 0 .. c - 1 of k records or more, the best hope first.

        Classes that break a rule must be repaired. Small grown classes gain most by improvement; among large
        ones the partition with the smaller loss comes first. If there are only a few, their quality depends
        on the order in which they were grown, and is quickly measured: several are grown.
        """
        grown = self._grown(rng)
        if grown is not None and self._are_few(grown):
            more = (self._grown(rng) for _ in range(ORDERS - 1))
            return [grown, *(other for other in more if other is not None)]
        cut = cut_by_quotas(self.codes, self.geometry, self.k, self.sensitive, self.constraints)
        if grown is None:
            return [cut]
        if np.bincount(grown).max() < LARGE or self.loss(grown) <= self.loss(cut):
            return [grown, cut]
        return [cut, grown]

    def is_hopeful(self, start: Ints, found: Ints) -> bool:
        """Return whether a further start is also improved: it is better already, or improving is quick."""
        return self._are_few(start) or self.loss(start) < self.loss(found)

    def improve(self, labels: Ints, rng: np.random.Generator, look_up: LookUp, cycles: int = CYCLES) -> Ints:
        """Return labels of equal or less loss, from the labels of classes that meet k and the rules.

        cycles: Largest number of cycles; one if all classes are small.
        """
        space = tabulate(self.geometry)
        most = cycles if np.bincount(labels).max() >= LARGE else 1
        for _ in tracked(range(most)):
            before = self.loss(labels)
            labels = self._swapped(space, self._stepped(space, labels), rng)
            advance(0.5)
            labels = self.refined(labels, rng, look_up, MANY)
            if self.loss(labels) >= before * (1.0 - ENOUGH):
                break
        return self._swapped(space, labels, rng)

    def refined(self, labels: Ints, rng: np.random.Generator, look_up: LookUp, most: int = HUGE) -> Ints:
        """Refine all but huge classes, in which a record's substitute is searched among too many."""
        huge = np.bincount(labels)[labels] >= most
        own = np.where(huge, -1, labels)
        own[~huge] = np.unique(own[~huge], return_inverse=True)[1]
        space = tabulate(self.geometry)
        found = refine_in(
            space, self.codes, own, self.k, rng, self.sensitive, self.constraints, ROUNDS, look_up
        )
        found[huge] = found.max() + 1 + np.unique(labels[huge], return_inverse=True)[1]
        return found

    def loss(self, labels: Ints) -> float:
        """Loss summed over the records that are in a class."""
        boxes = boxes_of(self.codes, labels, self.geometry)
        return float(boxes.size @ boxes.cost)

    def _grown(self, rng: np.random.Generator) -> Ints | None:
        kinds = kinds_of(self.sensitive, self.constraints)
        space, n = tabulate(self.geometry), len(self.codes)
        order = rng.permutation(n)
        rules = rules_of_kinds(self.constraints)
        labels = grow_classes(space, self.codes, kinds.of, kinds.places, order, self.k, rules)
        if labels.max() < 0:
            return None
        boxes, counts = self._classes(labels)
        join_left_over(space, self.codes, self._values(), labels, boxes, counts, order, self.constraints)
        return labels

    def _stepped(self, space: Space, labels: Ints) -> Ints:
        labels = labels.copy()
        boxes, counts = self._classes(labels)
        for _ in range(BOX_ROUNDS):
            loss = boxes.size @ boxes.cost
            fell = step_boxes(
                space, self.codes, self._values(), labels, boxes, counts, self.k, self.constraints
            )
            if fell <= ENOUGH * loss:
                break
        return labels

    def _swapped(self, space: Space, labels: Ints, rng: np.random.Generator) -> Ints:
        kinds, n = kinds_of(self.sensitive, self.constraints), len(self.codes)
        records = single_records(self.codes, self._values().T.astype(np.int32))
        state = open_state(space, records, int(self.constraints.start[-1]), labels, int(labels.max()) + 1)
        start = np.concatenate([[0], np.cumsum(np.bincount(kinds.of))])
        for _ in range(SWEEPS):
            order = rng.permutation(n)
            pool = order[np.argsort(kinds.of[order], kind="stable")]
            loss = state.boxes.size @ state.boxes.cost
            fell = swap_alike(
                space, state, kinds.of, pool, start, rng.permutation(n), rng.permutation(n), kinds.exact,
                self.constraints,
            )  # fmt: skip
            if fell <= ENOUGH_SWAPS * loss:
                break
        return state.labels

    def _are_few(self, labels: Ints) -> bool:
        return (int(labels.max()) + 1) * HUGE <= len(labels)

    def _classes(self, labels: Ints) -> tuple[Boxes, Codes]:
        boxes = boxes_of(self.codes, labels, self.geometry)
        return boxes, class_counts(labels, self.sensitive, self.constraints.start, len(boxes.size))

    def _values(self) -> Ints:
        """(n, s) where each record is counted."""
        return np.ascontiguousarray((self.sensitive + self.constraints.start[:-1, None]).T)
