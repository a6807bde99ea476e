"""A release of people who were released before, safe together with the earlier releases.

Whoever has several releases looks for a person among those who share the person's class in each of them. What
must hold is judged by `privacy_engine.judge.cross_release`, in two readings, and a release is made for each:

- Departures known. Who stays keeps the class: all that come from one class stay together, whole classes are
  joined where one has too few, and newcomers are put into the class whose loss grows least, or form classes
  of their own. So those who shared all classes of a person are the class less those who left. Where
  departures bring them below k, they can never be safe again while the earlier release stands: they are
  withheld. A reserve makes classes larger when they are first published, for departures to come.
- Departures unknown. The boxes that a person is published with are nested around one, the core, in which at
  least k were published (see `nested`). Classes are made anew each time, within these bounds.

The classes with which the search begins are those of the last release, and of newcomers those of the method.
Every figure is counted on the rendered cells by the judge; whoever misses it is withheld and counted. After
Xiao, Tao (2007) and Byun, Sohn, Bertino, Li: Secure anonymization for incremental datasets (2006).
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.choice import choice
from privacy_engine.compiled import kernel
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.grouping.boxes import Codes, Ints, Space, tabulate
from privacy_engine.grouping.model_rules import compile_constraints
from privacy_engine.judge.cross_release import History, Membership, MInvariance
from privacy_engine.judge.models import DistinctLDiversity, KAnonymity, PrivacyModel, holds
from privacy_engine.measures.recoding import Intervals, Points, Recoding
from privacy_engine.over_time.earlier_boxes import (
    Known,
    Texts,
    blocks_of,
    known_of,
    require_persons,
    unpublished,
)
from privacy_engine.over_time.nested import People, lies_within, search
from privacy_engine.release import Release, parameters_of
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Departures

Bools = npt.NDArray[np.bool_]


def republish(
    method: Anonymizer,
    table: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    *,
    persons: Texts,
    earlier: Sequence[Membership],
    k: int,
    m: Mapping[str, int] | None = None,
    departures: Departures | str = Departures.KNOWN,
    reserve: float = 1.0,
    limit: float | None = None,
) -> Release:
    """Release a table so that nobody is told apart by all releases together.

    Args:
        method: makes the classes of who was never released, and says what every class must keep.
        table: the records, one a person.
        schema: what they are.
        rng: the random choices.
        persons: (n,) text, who each record is about.
        earlier: who is in which class of the earlier releases, oldest first.
        k: least number of persons whom nobody with all releases can tell apart, >= 2.
        m: sensitive attribute -> least number of values of a class, and these are to be the same in all
            releases of a person; who would need another set of values is withheld.
        departures: whether somebody with all releases knows who left, see `CrossReleaseKAnonymity`.
        reserve: >= 1, how many times k a class holds that is published for the first time.
        limit: largest share of records that may be withheld; None: the method's `suppression_limit`.

    Returns:
        The release; its `rows` tell which row of the table each record is, its notes how many are `withheld`.

    Raises:
        SchemaError: if the table does not fit the schema, or there is not one person a record.
        InfeasibleError: if more would have to be withheld than may be, or a guarantee cannot be met.
    """
    departures = choice(Departures, departures, "departures")
    KAnonymity(k=k)
    if reserve < 1:
        raise ValueError(f"reserve must be >= 1, got {reserve}")
    require_persons(persons, table, schema)
    nested = departures is Departures.UNKNOWN
    if nested and method.intervals is Intervals.MIDPOINT:
        raise SchemaError(
            "midpoints do not tell what a class covers: release intervals as text or bounds, or take "
            "`departures: known`"
        )
    rules = tuple(
        DistinctLDiversity(l=least, attribute=name) for name, least in (m or {}).items() if least > 1
    )
    planned = max(math.ceil(k * reserve), method.k)
    first = replace(method, k=planned, require=(*method.require, *rules))
    earlier = [release for release in earlier if pd.Index(release.persons).isin(persons).any()]
    if not earlier:
        release = first.release(table, schema, rng)
        return replace(
            release,
            guarantees=method.guarantees(schema),
            parameters=parameters_of(method),
            notes={**release.notes, "withheld": 0.0},
        )
    if gone := unpublished(earlier[-1], schema):  # a method that chooses attributes has chosen
        schema = schema.select([name for name in schema.names if name not in gone])
        table = table.drop(columns=gone)
    known = known_of(table, schema, persons, earlier, nested=nested)
    asked = _Asked(first, max(k, method.least), max(planned, method.least), k, dict(m or {}), departures)
    recoding = asked.made(known, rng)
    release = asked.told(recoding, method, known, method.suppression_limit if limit is None else limit)
    return replace(release, persons=table[schema.by].to_numpy()[release.rows]) if schema.by else release


class _Asked:
    """What the classes of a release must keep.

    Args:
        method: with all that is asked of a class.
        least: least class size.
        planned: the same of classes that are published for the first time.
        k, m, departures: as of `republish`.
    """

    def __init__(
        self,
        method: Anonymizer,
        least: int,
        planned: int,
        k: int,
        m: dict[str, int],
        departures: Departures,
    ) -> None:
        self.method, self.least, self.planned = method, least, planned
        self.k, self.m, self.departures = k, m, departures

    @property
    def models(self) -> tuple[PrivacyModel, ...]:
        """What is asked of every class."""
        return (KAnonymity(k=self.least), *self.method.sensitive_models)

    def made(self, known: Known, rng: np.random.Generator) -> Recoding:
        """The recoding; whoever cannot be kept safe is suppressed in it."""
        encoded, nested = known.encoded, self.departures is Departures.UNKNOWN
        block = blocks_of(known.history)
        kept = np.ones(len(encoded), np.bool_) if nested else self._whole_cohorts(known, block)
        labels = np.full(len(encoded), -1)
        rows = np.flatnonzero(kept)
        if self.m:  # whole classes keep their sets of values; joined ones would not
            labels[rows] = self._begun(encoded.take(rows), block[rows], rng)
        elif len(rows) >= self.least:
            labels[rows] = self._searched(known, rows, block, rng, fixed=not nested)
        forced = np.zeros(len(encoded), np.bool_)
        while True:
            recoding = self._recoded(known, labels, forced)
            bad = self._failing(known, recoding)
            again = bad & ~forced & (known.core >= 0)
            if not bad.any():
                return recoding
            if again.any():  # where boxes in codes say less than cells: sets of values, and nulls
                forced |= again
                continue
            labels = np.where(bad, -1, labels)

    def told(self, recoding: Recoding, method: Anonymizer, known: Known, limit: float) -> Release:
        """The release, if not too many were withheld."""
        withheld, n = recoding.suppressed, len(known.encoded)
        if withheld > math.floor(limit * n + 1e-9) or withheld == n:
            raise InfeasibleError(
                f"{withheld} of {n} persons cannot be kept safe together with the earlier releases and would "
                f"be withheld, at most {math.floor(limit * n + 1e-9)} may be: allow more, retract an earlier "
                "release, begin with a larger reserve, or ask for less"
            )
        released, schema = recoding.render_by_row(method.intervals)
        rows, table = released.index.to_numpy(), released.reset_index(drop=True)
        guarantees = method.guarantees(known.encoded.schema)
        classes = EquivalenceClasses.of_table(table, schema)
        if missed := [model.name for model in guarantees if not holds(model, classes)]:
            raise InfeasibleError(
                f"{missed} cannot be met together with the earlier releases; weaken them, or bring more "
                "records"
            )
        return Release(
            table=table,
            schema=schema,
            method=method.key,
            parameters=parameters_of(method),
            guarantees=guarantees,
            recoding=recoding,
            rows=rows,
            notes={"distorted": 0.0, "withheld": float(withheld)},
        )

    def _whole_cohorts(self, known: Known, block: Ints) -> Bools:
        """(n,) whom departures left in a company of k: the others share all classes with fewer than that."""
        kept = np.ones(len(block), np.bool_)
        while True:
            rows = np.flatnonzero(kept & (block >= 0))
            part = Membership(persons=known.persons[rows], labels=block[rows])
            few = History(new=part, earlier=known.history.earlier).shared < self.k
            if not few.any():
                return kept
            kept[rows[few]] = False

    def _searched(
        self, known: Known, rows: Ints, block: Ints, rng: np.random.Generator, *, fixed: bool
    ) -> Ints:
        """Classes of some of the records."""
        part = known.encoded.take(rows)
        labels = self._begun(part, block[rows], rng)
        constraints = compile_constraints(self.method.sensitive_models, part)
        values = np.zeros((len(rows), 0), np.int32)
        if len(constraints.kind):
            values = np.ascontiguousarray((part.sensitive + constraints.start[:-1, None]).T.astype(np.int32))
        people = People(
            np.ascontiguousarray(part.codes, np.int32),
            np.ascontiguousarray(known.low[rows]),
            np.ascontiguousarray(known.high[rows]),
            values,
            (block[rows] >= 0) & fixed,
        )
        planned = self.planned if fixed else self.least
        return search(tabulate(part.geometry()), people, labels, self.least, planned, constraints, rng)[0]

    def _begun(self, encoded: EncodedTable, block: Ints, rng: np.random.Generator) -> Ints:
        """Classes to begin with: those of the last release, and of newcomers the method's, or one each."""
        labels, new = block.copy(), np.flatnonzero(block < 0)
        own = np.full(len(new), -1)
        if len(new) >= self.planned:
            with contextlib.suppress(InfeasibleError):  # too few values by themselves: each joins a class
                own = self.method.anonymize(encoded.take(new), rng).labels
        single = own < 0
        own = np.where(single, int(own.max(initial=-1)) + np.cumsum(single), own)
        labels[new] = int(labels.max(initial=-1)) + 1 + own
        return labels

    def _recoded(self, known: Known, labels: Ints, forced: Bools) -> Recoding:
        """The recoding by labels, whose boxes cover the cores that they must."""
        made = Recoding.of_labels(known.encoded, labels)
        space, labels = tabulate(known.encoded.geometry()), made.labels
        mine = np.flatnonzero((labels >= 0) & (known.core >= 0))
        have = 0
        while True:  # a box that took in a core may have left another
            low, high = (ends[labels[mine]] for ends in made.spans)
            must = forced[mine] | ~_within(space, low, high, known.low[mine], known.high[mine])
            pairs = np.unique(np.stack([labels[mine], known.core[mine]], axis=1)[must], axis=0)
            if len(pairs) == have:
                return made
            have = len(pairs)
            made = Recoding(known.encoded, labels, covered=_points_of(known.points, pairs))

    def _failing(self, known: Known, recoding: Recoding) -> Bools:
        """(n,) who is not safe in a release, as its judge counts."""
        found = np.zeros(len(known.encoded), np.bool_)
        if not recoding.classes:
            return found
        released, schema = recoding.render_by_row(self.method.intervals)
        place = np.empty(len(known.encoded), np.int64)
        place[known.encoded.rows] = np.arange(len(known.encoded))
        rows = place[released.index.to_numpy()]
        table = released.reset_index(drop=True)
        classes = EquivalenceClasses.of_table(table, schema)
        people = Membership.of_classes(known.persons[rows], classes, table, schema)
        history = History(new=people, earlier=known.history.earlier, source=known.history.source)
        bad = history.candidates(self.departures) < self.k
        for name, least in self.m.items():
            bad |= MInvariance(m=least, attribute=name).per_person(history, classes) < least
        for model in self.models:
            if not holds(model, classes):
                bad |= model.violations(classes)[classes.labels]
        found[rows[bad]] = True
        return found


@kernel(nogil=True)
def _within(space: Space, lo: Codes, hi: Codes, wide_lo: Codes, wide_hi: Codes) -> Bools:
    found = np.empty(len(lo), np.bool_)
    for i in range(len(lo)):
        found[i] = lies_within(space, lo[i], hi[i], wide_lo[i], wide_hi[i])
    return found


def _points_of(points: Points, pairs: Ints) -> Points:
    """The points of each core that a class must cover: pairs (p, 2) of class and core."""
    order = np.argsort(points.labels, kind="stable")
    start = np.searchsorted(points.labels[order], pairs[:, 1])
    end = np.searchsorted(points.labels[order], pairs[:, 1], side="right")
    which = np.concatenate([order[a:b] for a, b in zip(start, end, strict=True)])
    return Points(points.codes[which], np.repeat(pairs[:, 0], end - start))
