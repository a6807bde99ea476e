"""Base of the agglomerating methods: merge, repair, refine; over the whole table, or block by block.

Where a model bounds the distribution of the sensitive values, refinement also starts from classes that are
built under quotas of these values (see ``quotas``), and the partition that loses less is taken.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numba as nb
import numpy as np

from privacy_engine.progress import apart, portion, tracked
from privacy_engine.recoding.grouping.agglomeration import distinct_tuples
from privacy_engine.recoding.grouping.boxes import Floats, Ints, tabulate
from privacy_engine.recoding.grouping.constraints import Constraints, bounds_distribution
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.grouping.partitioning import blocks
from privacy_engine.recoding.grouping.partners import Propose, propose, propose_serially
from privacy_engine.recoding.grouping.people import hold_by_person
from privacy_engine.recoding.grouping.refinement import ROUNDS, LookUp, look_up, look_up_serially, refine_in
from privacy_engine.recoding.grouping.repair import merge_until_kept, repair
from privacy_engine.recoding.nearness.column_search import MOST_K, regroup_by_columns
from privacy_engine.recoding.nearness.regrouping import regroup
from privacy_engine.recoding.quotas.quantile_cuts import cut_by_quotas
from privacy_engine.recoding.quotas.search import CYCLES, QuotaSearch
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.geometry import Geometry
from privacy_engine.verification.models import KAnonymity, PrivacyModel

MOST_VALUES = 2_000  # most values of all sensitive attributes together; with more, quotas take too long
HOPEFUL = 1.2  # merged classes that lose more than this multiple of the others are not refined as well
Merge = Callable[[EncodedTable, np.random.Generator, Propose], Ints]


@dataclass(frozen=True, kw_only=True)
class LocalRecoding:
    """How records are made into classes.

    Attributes:
        geometry: Costs of the quasi-identifiers.
        models: Models that every class must satisfy in addition to k.
        k: Least number of persons in a class.
        refine: Whether to lower the loss afterwards.
        regroup: Number of sweeps of regrouping that follow, if each record belongs to another person and no
            model bounds the distribution of the sensitive values; before them a search by columns, if k is
            small and the only requirement.
        block_size: Largest number of records per block. A larger table is cut into blocks by Mondrian's cuts,
            such that each can meet k and the models by itself: O(n x block) instead of O(n^2), on all cores.
            None = never.
    """

    geometry: Geometry
    models: Sequence[PrivacyModel]
    k: int
    refine: bool = True
    regroup: int = 0
    block_size: int | None = None

    def labels(self, encoded: EncodedTable, merge: Merge, rng: np.random.Generator) -> Ints:
        """(n,) int64 classes 0 .. c - 1, -1 = suppressed.

        Args:
            encoded: Encoded table whose records are put into classes.
            merge: Makes classes of at least k of some records.
            rng: Passed to ``merge``, and the order in which refinement tries records.
        """
        if self.block_size is None or len(encoded) <= self.block_size:
            with portion(self._of_merging):
                labels = merge(encoded, rng, propose)
            with portion(0.1):
                labels = self._kept(encoded, labels)
            constraints = compile_constraints(self.models, encoded.released(labels))
            with portion(0.9 - self._of_merging):
                return self._refined(encoded, labels, constraints, rng, look_up)
        constraints = compile_constraints(self.models, encoded)
        size = max(self.block_size, 2 * self.k)
        with portion(0.05):
            block = blocks(
                encoded.codes, self.geometry, size, self.k, encoded.sensitive, constraints, encoded.persons
            )
        priors: dict[str, Floats] = {}
        if self._counts_persons(encoded):
            whole = encoded.classes_of(np.zeros(len(encoded), np.int64))
            priors = {name: whole.counts(name).prior for name in encoded.sensitive_names}

        def inside(rows: Ints, stream: np.random.Generator) -> Ints:
            part = encoded.take(rows)
            with portion(self._of_merging):
                labels = merge(part, stream, propose_serially)
            with portion(0.1):
                if self._counts_persons(part):
                    part = replace(part, whole_priors=priors)
                    labels = self._kept(part, labels)
                else:
                    labels = merge_until_kept(part, labels, self.geometry, constraints, self.k)
            with portion(0.9 - self._of_merging):
                return self._refined(part, labels, constraints, stream, look_up_serially)

        with portion(0.9):
            labels = inside_blocks(block, rng, inside)
        # records that a method set aside change the distribution that t-closeness and its like compare with
        return self._kept(encoded, labels)

    def cut(self, encoded: EncodedTable) -> Ints:
        """Classes (n,) by cuts under quotas, each wherever it loses less than a plain one."""
        constraints = compile_constraints(self.models, encoded)
        codes = np.ascontiguousarray(encoded.codes, np.int32)
        labels = cut_by_quotas(codes, self.geometry, self.k, encoded.sensitive, constraints, (True,))
        return merge_until_kept(encoded, labels, self.geometry, constraints, self.k)

    def improved(
        self, encoded: EncodedTable, labels: Ints, rng: np.random.Generator, cycles: int = CYCLES
    ) -> Ints:
        """Classes (n,) of no larger loss than these; the same where nothing `improves` them."""
        constraints = compile_constraints(self.models, encoded)
        if not self.improves(encoded):
            return labels
        codes = np.ascontiguousarray(encoded.codes, np.int32)
        quotas = QuotaSearch(codes, encoded.sensitive, self.geometry, constraints, self.k)
        return quotas.improve(labels, rng, look_up, cycles)

    def improves(self, encoded: EncodedTable) -> bool:
        """Whether classes of the whole table are improved under quotas."""
        constraints = compile_constraints(self.models, encoded)
        in_one = self.block_size is None or len(encoded) <= self.block_size
        return self.refine and in_one and encoded.persons is None and self._by_quotas(constraints)

    def _by_quotas(self, constraints: Constraints) -> bool:
        return bounds_distribution(constraints) and bool(constraints.start[-1] <= MOST_VALUES)

    @property
    def _of_merging(self) -> float:
        """The share of the work that merging is."""
        return 0.1 if self.regroup else 0.4 if self.refine else 0.9

    def _counts_persons(self, encoded: EncodedTable) -> bool:
        """Whether classes are made to hold for persons here: refinement starts from such classes.

        Classes that are not refined are merged for persons once, when the release is made.
        """
        return encoded.persons is not None and self.refine

    def _kept(self, encoded: EncodedTable, labels: Ints) -> Ints:
        """The classes after those that miss a model, or k persons, are merged."""
        if not self._counts_persons(encoded):
            return repair(encoded, labels, self.geometry, self.models, self.k)
        return hold_by_person(encoded, labels, self.geometry, [KAnonymity(k=self.k), *self.models])

    def _refined(
        self,
        encoded: EncodedTable,
        labels: Ints,
        constraints: Constraints,
        rng: np.random.Generator,
        search: LookUp,
    ) -> Ints:
        if not self.refine:
            return labels
        by_quotas = self._by_quotas(constraints)
        if not by_quotas or (labels < 0).any():
            with portion(0.1 if self.regroup else 1.0):
                moved = self._moved(encoded, labels, constraints, rng, search)
            return moved if by_quotas else self._regrouped(encoded, moved, constraints, rng, search)
        codes = np.ascontiguousarray(encoded.codes, np.int32)
        quotas = QuotaSearch(codes, encoded.sensitive, self.geometry, constraints, self.k)
        candidates = self._from_starts(encoded, quotas, rng, search)
        if quotas.loss(labels) <= HOPEFUL * min(map(quotas.loss, candidates)):
            if encoded.persons is None:
                candidates.append(quotas.refined(labels, rng, search))
            else:
                candidates.append(self._kept(encoded, self._moved(encoded, labels, constraints, rng, search)))
        return min(candidates, key=quotas.loss)

    def _from_starts(
        self, encoded: EncodedTable, quotas: QuotaSearch, rng: np.random.Generator, search: LookUp
    ) -> list[Ints]:
        """Return the labels (n,) that a search under quotas finds from each promising start."""
        candidates: list[Ints] = []
        with portion(0.2):
            starts = quotas.starts(rng)
        for start in tracked(starts, len(starts) + 1):
            if candidates and not quotas.is_hopeful(start, min(candidates, key=quotas.loss)):
                continue
            with portion(0.2):
                if encoded.persons is None:
                    found = merge_until_kept(encoded, start, self.geometry, quotas.constraints, self.k)
                else:
                    found = self._kept(encoded, start)
            if encoded.persons is None:
                candidates.append(quotas.improve(found, rng, search))
            else:
                candidates.append(
                    self._kept(encoded, self._moved(encoded, found, quotas.constraints, rng, search))
                )
        return candidates

    def _moved(
        self,
        encoded: EncodedTable,
        labels: Ints,
        constraints: Constraints,
        rng: np.random.Generator,
        search: LookUp,
    ) -> Ints:
        space = tabulate(self.geometry)
        return refine_in(
            space,
            encoded.codes,
            labels,
            self.k,
            rng,
            encoded.sensitive,
            constraints,
            ROUNDS,
            search,
            encoded.persons,
        )

    def _regrouped(
        self,
        encoded: EncodedTable,
        labels: Ints,
        constraints: Constraints,
        rng: np.random.Generator,
        search: LookUp,
    ) -> Ints:
        if not self.regroup or encoded.persons is not None:
            return labels
        space = tabulate(self.geometry)
        if not len(constraints.kind) and self.k <= MOST_K:
            with portion(0.5):
                labels = regroup_by_columns(space, self.geometry, encoded.codes, labels, self.k, rng, search)
        with portion(0.4):
            return regroup(
                space,
                encoded.codes,
                labels,
                self.k,
                self.regroup,
                rng,
                encoded.sensitive,
                constraints,
                search,
            )


def require_sweeps(regroup: int) -> None:
    """Refuse a number of sweeps below 0."""
    if regroup < 0:
        raise ValueError(f"regroup must be >= 0, got {regroup}")


def label_distinct(encoded: EncodedTable, label: Callable[[EncodedTable], Ints]) -> Ints:
    """Return the labels (n,) of all records, from the labels of the records without repeated persons.

    So a method that counts records counts persons, as far as each has one tuple of quasi-identifiers.
    """
    if encoded.persons is None:
        return label(encoded)
    tuples, tuple_of, _ = distinct_tuples(encoded.codes)
    keys = encoded.persons * len(tuples) + tuple_of
    first, which = np.unique(keys, return_index=True, return_inverse=True)[1:]
    rows, place = np.unique(first, return_inverse=True)  # in the order of the table
    return label(encoded.take(rows))[place[which]]


def inside_blocks(
    block_labels: Ints, rng: np.random.Generator, work: Callable[[Ints, np.random.Generator], Ints]
) -> Ints:
    """Labels (n,) from the work on each block, one thread a block; -1 stays -1.

    No class crosses a block. Each block has its own stream of ``rng``, so the result does not depend on the
    number of threads.

    Args:
        block_labels: Block of each record, 0 .. blocks - 1, shape (n,) int64.
        rng: Generator from which each block's own stream is spawned.
        work: Function from the rows of a block, ascending, and its stream to labels 0, 1, ... or -1.
    """
    order = np.argsort(block_labels, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(block_labels[order])) + 1) if len(order) else []
    labels = np.full(len(block_labels), -1, np.int64)
    with ThreadPoolExecutor(nb.get_num_threads()) as pool:
        progresses = [apart(work, len(own) / len(order)) for own in rows]
        parts = list(pool.map(lambda do, *given: do(*given), progresses, rows, rng.spawn(len(rows))))
    used = 0
    for own, part in zip(rows, parts, strict=True):
        labels[own] = np.where(part >= 0, part + used, -1)
        used += int(part.max(initial=-1)) + 1
    return labels
