"""A release of people who were released before, safe together with the earlier releases.

An attacker with several releases looks for a person among those who share the person's class in each of them.
The requirements are checked by `privacy_engine.verification.cross_release`, in two readings, and a release is
made for each:

- Departures known. Those who stay keep their class: all who come from one class stay together, whole classes
  are joined if one is too small, and newcomers join the class whose loss grows least, or form separate
  classes. So those who shared all classes of a person are the class less those who left. If departures bring
  them below k, they can never be safe again unless the earlier release is retracted: they are withheld. A
  reserve makes classes larger when they are first published, for later departures.
- Departures unknown. The boxes that a person is published with are nested around one, the core, in which at
  least k were published (see `nested`). Classes are made again each time, within these bounds.

The search begins with the classes of the last release, and for newcomers with those of the method. With m,
either the classes of those who stay are kept whole, and anyone who would need another set of values is
withheld; or, if counterfeits are allowed, persons are divided into buckets of one signature each, classes are
made within buckets, and counterfeit records complete those that lack a value (see `signatures` and
`counterfeits`). Unique classes are made by the paper's algorithm instead (see `unique`).

Every figure is counted by the verification on the rendered cells; anyone who fails is withheld and counted.
After Xiao, Tao (2007) and Byun, Sohn, Bertino, Li: Secure anonymization for incremental datasets (2006).
"""

import contextlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.compiled import kernel
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.recoding import Points, Recoding
from privacy_engine.recoding.grouping.boxes import Codes, Ints, Space, tabulate
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.release import Release, parameters_of
from privacy_engine.republication.counterfeits import (
    NO_ROW,
    Published,
    counterfeits_needed,
    filled,
    rendered,
    require_fillable,
    texts_of,
)
from privacy_engine.republication.earlier_boxes import (
    KnownBoxes,
    Texts,
    blocks_of,
    known_of,
    require_persons,
    unpublished,
)
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.nested import People, lies_within, search
from privacy_engine.republication.signatures import Buckets, Signature, buckets_of
from privacy_engine.republication.unique import Demand, distinguished, m_unique_classes
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership, MInvariance
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, PrivacyModel, holds
from privacy_engine.vocabulary import Departures, Intervals

Bools = npt.NDArray[np.bool_]


def republish(
    method: Anonymizer,
    table: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    *,
    persons: Texts,
    earlier: Sequence[Membership],
    guarantee: RepublicationGuarantee,
    limit: float | None = None,
) -> Release:
    """Release a table so that all releases together single out no one.

    Args:
        method: Method that makes the classes of new persons, with the requirements on every class.
        table: Records, one per person.
        schema: Schema of the records.
        rng: Source of randomness for all choices.
        persons: Person of each record, shape (n,) text.
        earlier: Classes of the earlier releases, oldest first.
        guarantee: Guarantee over all releases. No one waits for similar persons.
        limit: Largest share of records that may be withheld; None: the method's `suppression_limit`.

    Returns:
        The release; its `rows` are the table row of each record, -1 for a counterfeit; its notes have the
        numbers of persons `withheld`, and of `counterfeits`.

    Raises:
        SchemaError: If the table does not fit the schema, or there is not one person a record.
        InfeasibleError: If more would have to be withheld than may be, or a guarantee cannot be met.
    """
    m, unique = guarantee.m, guarantee.unique
    require_persons(persons, table, schema)
    signed = require_fillable(schema, list(m)) if guarantee.counterfeits else None
    if unique and len(m) != 1:
        raise SchemaError(
            f"unique classes support one sensitive attribute: m must name one, but names {len(m)}"
        )
    nested = guarantee.departures is Departures.UNKNOWN
    if nested and method.intervals is Intervals.MIDPOINT:
        raise SchemaError(
            "midpoints do not show what a class covers. Release intervals as text or bounds, or use "
            "`departures: known`"
        )
    rules = tuple(DistinctLDiversity(l=least, attribute=name) for name, least in m.items() if least > 1)
    planned = max(math.ceil(guarantee.k * guarantee.reserve), method.k)
    first = replace(method, k=planned, require=(*method.require, *rules))
    earlier = [release for release in earlier if pd.Index(release.persons).isin(persons).any()]
    if not earlier and signed is None and not unique:
        release = first.release(table, schema, rng)
        return replace(
            release,
            guarantees=method.guarantees(schema),
            parameters=parameters_of(method),
            notes={**release.notes, "withheld": 0.0},
        )
    if earlier and (gone := unpublished(earlier[-1], schema)):  # a method that chooses attributes has chosen
        schema = schema.select([name for name in schema.names if name not in gone])
        table = table.drop(columns=gone)
    known = known_of(table, schema, persons, earlier, nested=nested)
    filling = None
    if unique:
        ((attribute, values_of_class),) = m.items()
        _require_values(table[attribute], max(values_of_class, planned, method.least), known)
        first = replace(method, k=planned)
    elif signed is not None:
        values_of_set = max([rule.l for rule in (*rules, *method.sensitive_models) if hasattr(rule, "l")])
        share = guarantee.counterfeits
        filling = _Filling.of(known, signed, values_of_set, max(planned, method.least), share, rng)
        first = replace(method, k=planned)
    required = _Requirements(
        first, max(guarantee.k, method.least), max(planned, method.least), guarantee, filling
    )
    limit = method.suppression_limit if limit is None else limit
    release = required.released(required.made(known, rng), method, known, limit)
    return replace(release, persons=table[schema.by].to_numpy()[release.rows]) if schema.by else release


@dataclass(frozen=True)
class _Filling:
    """Buckets of persons of one signature each, whose classes counterfeits may complete.

    Attributes:
        attribute: Name of the sensitive attribute.
        values: Value of each person, shape (n,) text.
        buckets: Buckets of the persons.
        allowed: Largest number of counterfeits.
    """

    attribute: str
    values: Texts
    buckets: Buckets
    allowed: int

    @classmethod
    def of(
        cls, known: KnownBoxes, attribute: str, m: int, least: int, share: float, rng: np.random.Generator
    ) -> "_Filling":
        """Return the buckets of a table, given the arguments of `buckets_of` and a share of counterfeits."""
        values = texts_of(known.encoded.table[attribute])
        buckets = buckets_of(known, attribute, values, m, least, rng)
        return cls(attribute, values, buckets, math.floor(share * len(values) + 1e-9))

    def rule(self, rows: Ints, signature: Signature, planned: int, *, sparing: bool) -> DistinctLDiversity:
        """How many values of its signature a class of the bucket needs from its own people.

        Without `sparing`, values too rare for half of the classes are left to counterfeits.
        """
        have = Counter(self.values[rows].tolist())
        rare = 0 if sparing else sum(2 * planned * have[value] < len(rows) for value in signature)
        present = sum(have[value] > 0 for value in signature)
        return DistinctLDiversity(l=max(2, min(len(signature) - rare, present)), attribute=self.attribute)


class _Requirements:
    """The requirements on the classes of a release.

    Args:
        method: Method with all requirements on a class.
        least: Least class size.
        planned: Same of classes that are published for the first time.
        guarantee: Guarantee over all releases.
        filling: Buckets whose classes counterfeits may complete; None: none, or classes are m-unique.
    """

    def __init__(
        self,
        method: Anonymizer,
        least: int,
        planned: int,
        guarantee: RepublicationGuarantee,
        filling: _Filling | None = None,
    ) -> None:
        self.method, self.least, self.planned = method, least, planned
        self.guarantee, self.filling = guarantee, filling

    @property
    def models(self) -> tuple[PrivacyModel, ...]:
        """The requirements on every class."""
        return (KAnonymity(k=self.least), *self.method.sensitive_models)

    def made(self, known: KnownBoxes, rng: np.random.Generator) -> Recoding:
        """Return the recoding, with anyone who cannot be kept safe suppressed."""
        encoded, nested = known.encoded, self.guarantee.departures is Departures.UNKNOWN
        block = blocks_of(known.history)
        if self.guarantee.unique:
            return self._made_unique(known, block, rng)
        if self.filling is not None:
            return self._made_in_buckets(known, block, self.filling, rng)
        kept = np.ones(len(encoded), np.bool_)
        if not nested:
            kept = self._whole_cohorts(known, block, kept)
        labels = np.full(len(encoded), -1)
        rows = np.flatnonzero(kept)
        if self.guarantee.m:  # whole classes keep their sets of values; joined ones would not
            labels[rows] = self._begun(encoded.take(rows), block[rows], rng)
        elif len(rows) >= self.least:
            labels[rows] = self._searched(known, rows, block, rng, fixed=not nested)
        return self._safe(known, labels)

    def _made_in_buckets(
        self, known: KnownBoxes, block: Ints, filling: _Filling, rng: np.random.Generator
    ) -> Recoding:
        """Recode buckets, each searched separately; people move first, counterfeits come last."""
        nested, buckets = self.guarantee.departures is Departures.UNKNOWN, filling.buckets
        kept = buckets.of >= 0
        if not nested:
            kept = self._whole_cohorts(known, block, kept)
        recoding, needed = Recoding(known.encoded, np.full(len(block), -1)), [dict[str, int]()]
        for sparing in (False, True):
            labels = np.full(len(block), -1)
            for place, signature in enumerate(buckets.signatures):
                rows = np.flatnonzero(kept & (buckets.of == place))
                if len(rows) < self.least:
                    continue
                rule = filling.rule(rows, signature, self.planned, sparing=sparing)
                method = replace(self.method, require=(*self.method.require, rule))
                own = _Requirements(method, self.least, self.planned, self.guarantee)
                labels[rows] = labels.max() + 1 + own._searched(known, rows, block, rng, fixed=not nested)
            recoding = self._safe(known, labels)
            needed = counterfeits_needed(recoding, filling.values, buckets)
            if sum(sum(own.values()) for own in needed) <= filling.allowed:
                return recoding
        return self._safe(known, _affordable(recoding, needed, filling.allowed))

    def _made_unique(self, known: KnownBoxes, block: Ints, rng: np.random.Generator) -> Recoding:
        """The recoding into m-unique classes, whose counterfeits are known then."""
        ((attribute, m),) = self.guarantee.m.items()
        together = self.guarantee.departures is Departures.KNOWN
        counterfeits = self.guarantee.counterfeits > 0
        kept = np.ones(len(known.encoded), np.bool_)
        demand = Demand(
            attribute=attribute,
            m=max(m, self.planned),
            k=self.least,
            counterfeits=counterfeits,
            together=together,
        )
        if together:
            kept = self._whole_cohorts(known, block, kept)
        labels, values, buckets = m_unique_classes(known, block, kept, demand, rng)
        if counterfeits:
            self.filling = _Filling(attribute, values, buckets, m * len(values))
        return self._safe(known, labels)

    def _safe(self, known: KnownBoxes, labels: Ints) -> Recoding:
        """Return the recoding by labels without those who are not safe in it."""
        forced = np.zeros(len(labels), np.bool_)
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

    def published(self, known: KnownBoxes, recoding: Recoding) -> Published:
        """Return the table that would be published for a recoding."""
        plain, filling = rendered(recoding, self.method.intervals), self.filling
        if filling is None:
            return plain
        labels = recoding.labels[_places(known)[plain.rows]]
        needed = counterfeits_needed(recoding, filling.values, filling.buckets)
        return filled(plain, labels, needed, filling.attribute, known.encoded.table[filling.attribute])

    def released(self, recoding: Recoding, method: Anonymizer, known: KnownBoxes, limit: float) -> Release:
        """Return the release, if not too many were withheld."""
        withheld, n = recoding.suppressed, len(known.encoded)
        if withheld > math.floor(limit * n + 1e-9) or withheld == n:
            remedy = "allow more, retract an earlier release, begin with a larger reserve, or ask for less"
            if self.filling is not None and not self.guarantee.unique:
                remedy = f"{self.filling.allowed} counterfeits may be added; allow more of either"
            elif self.guarantee.m and not self.guarantee.unique:
                remedy += "; or begin the table with `counterfeits`"
            raise InfeasibleError(
                f"{withheld} of {n} persons cannot be kept safe together with the earlier releases and would "
                f"be withheld, at most {math.floor(limit * n + 1e-9)} may be: {remedy}"
            )
        published = self.published(known, recoding)
        guarantees = method.guarantees(known.encoded.schema)
        if missed := [model.name for model in guarantees if not _kept(model, published)]:
            raise InfeasibleError(
                f"{missed} cannot be met together with the earlier releases; weaken them, or bring more "
                "records"
            )
        added = {} if self.filling is None else {"counterfeits": float((published.rows == NO_ROW).sum())}
        return Release(
            table=published.table,
            schema=published.schema,
            method=method.key,
            parameters=parameters_of(method),
            guarantees=guarantees,
            recoding=recoding,
            rows=published.rows,
            notes={"distorted": 0.0, "withheld": float(withheld), **added},
        )

    def _whole_cohorts(self, known: KnownBoxes, block: Ints, kept: Bools) -> Bools:
        """(n,) those kept whom departures left with fewer than k others in their classes."""
        kept = kept.copy()
        while True:
            rows = np.flatnonzero(kept & (block >= 0))
            part = Membership(persons=known.persons[rows], labels=block[rows])
            few = History(new=part, earlier=known.history.earlier).shared < self.guarantee.k
            if not few.any():
                return kept
            kept[rows[few]] = False

    def _searched(
        self, known: KnownBoxes, rows: Ints, block: Ints, rng: np.random.Generator, *, fixed: bool
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
        """Return initial classes: those of the last release, and for newcomers the method's, or one each."""
        labels, new = block.copy(), np.flatnonzero(block < 0)
        own = np.full(len(new), -1)
        if len(new) >= self.planned:
            with contextlib.suppress(InfeasibleError):  # too few values by themselves: each joins a class
                own = self.method.anonymize(encoded.take(new), rng).labels
        single = own < 0
        own = np.where(single, int(own.max(initial=-1)) + np.cumsum(single), own)
        labels[new] = int(labels.max(initial=-1)) + 1 + own
        return labels

    def _recoded(self, known: KnownBoxes, labels: Ints, forced: Bools) -> Recoding:
        """The recoding by labels, whose boxes cover the cores that they must."""
        made = Recoding.of_labels(known.encoded, labels)
        space, labels = tabulate(known.encoded.geometry()), made.labels
        mine = np.flatnonzero((labels >= 0) & (known.core >= 0))
        have, more = 0, Points(known.encoded.codes[:0], np.zeros(0, np.int64))
        while True:  # a box that took in a core may have left another
            low, high = (ends[labels[mine]] for ends in made.spans)
            must = forced[mine] | ~_within(space, low, high, known.low[mine], known.high[mine])
            pairs = np.unique(np.stack([labels[mine], known.core[mine]], axis=1)[must], axis=0)
            apart = distinguished(made) if self.guarantee.unique else more
            if len(pairs) == have and not len(apart.labels):
                return made
            have, more = len(pairs), _both(more, apart)
            covered = _both(_points_of(known.points, pairs), more) if have else more
            made = Recoding(known.encoded, labels, covered=covered)

    def _failing(self, known: KnownBoxes, recoding: Recoding) -> Bools:
        """Return whether each person is unsafe in a release, by the counts of its verification, (n,)."""
        found = np.zeros(len(known.encoded), np.bool_)
        if not recoding.classes:
            return found
        released = self.published(known, recoding)
        table, schema, real = released.table, released.schema, released.rows != NO_ROW
        rows = _places(known)[released.rows[real]]
        classes = EquivalenceClasses.of_table(table, schema)
        persons = np.full(len(table), None, dtype=object)
        persons[real] = known.persons[rows]
        people = Membership.of_classes(persons, classes, table, schema)
        history = History(new=people, earlier=known.history.earlier, source=known.history.source)
        bad = history.candidates(self.guarantee.departures) < self.guarantee.k
        for name, least in self.guarantee.m.items():
            model = MInvariance(m=least, attribute=name, unique=self.guarantee.unique)
            bad |= model.per_person(history, classes) < least
        of_persons = EquivalenceClasses.of_table(released.of_persons, schema) if self.filling else classes
        for own in self.models:
            if not holds(own, classes):
                bad |= own.violations(classes)[classes.labels[real]]
            if of_persons is not classes and hasattr(own, "k") and not holds(own, of_persons):
                bad |= own.violations(of_persons)[of_persons.labels]
        found[rows[bad]] = True
        return found


def _require_values(column: pd.Series, least: int, known: KnownBoxes) -> None:
    """Refuse a first release whose classes of different values cannot be as large as they must.

    Raises:
        InfeasibleError: With both numbers.
    """
    have = column.nunique(dropna=False)
    if have < least and not known.history.earlier:
        raise InfeasibleError(
            f"classes of {least} records must have as many different values of {column.name}, the table has "
            f"{have}; lower k, m or the reserve, or require classes that are not unique"
        )


def _kept(model: PrivacyModel, published: Published) -> bool:
    """Return whether a model holds for what is published; if it counts members, for the persons only."""
    tables = [published.table, *([published.of_persons] if hasattr(model, "k") else [])]
    return all(holds(model, EquivalenceClasses.of_table(table, published.schema)) for table in tables)


def _places(known: KnownBoxes) -> Ints:
    """(n,) index of each source row in the encoded table."""
    place = np.empty(len(known.encoded), np.int64)
    place[known.encoded.rows] = np.arange(len(known.encoded))
    return place


def _affordable(recoding: Recoding, needed: Sequence[Mapping[str, int]], allowed: int) -> Ints:
    """(n,) labels less the classes that need most counterfeits a person, until the rest may be added."""
    labels, wanted = recoding.labels.copy(), np.array([sum(own.values()) for own in needed])
    for c in np.argsort(-wanted / recoding.sizes, kind="stable"):
        if wanted.sum() <= allowed:
            break
        labels[labels == c], wanted[c] = -1, 0
    return labels


@kernel(nogil=True)
def _within(space: Space, lo: Codes, hi: Codes, wide_lo: Codes, wide_hi: Codes) -> Bools:
    found = np.empty(len(lo), np.bool_)
    for i in range(len(lo)):
        found[i] = lies_within(space, lo[i], hi[i], wide_lo[i], wide_hi[i])
    return found


def _both(points: Points, others: Points) -> Points:
    return Points(
        np.concatenate([points.codes, others.codes]), np.concatenate([points.labels, others.labels])
    )


def _points_of(points: Points, pairs: Ints) -> Points:
    """The points of each core that a class must cover: pairs (p, 2) of class and core."""
    order = np.argsort(points.labels, kind="stable")
    start = np.searchsorted(points.labels[order], pairs[:, 1])
    end = np.searchsorted(points.labels[order], pairs[:, 1], side="right")
    which = np.concatenate([order[a:b] for a, b in zip(start, end, strict=True)])
    return Points(points.codes[which], np.repeat(pairs[:, 0], end - start))
