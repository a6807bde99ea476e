"""A release that cannot be subtracted from the earlier ones: what too few persons left stays as it was.

A class is published again as it was, cells and values, until enough has changed in it: then it tells nothing
new. Of each class of the last release one of these is published:

- Nobody left it and no value was corrected: the class, with the boxes of today's records.
- At least k persons left it, with m values, and k or none stayed: those who stayed.
- Too few left it: the class as it was, with the records of those who left (*outdated* records).
- Or it is joined with classes near it that also lost persons, so that enough left all of them together. The
  joined class cannot be parted within the window of the attackers. So classes are joined only where the loss
  that this adds in as many releases is less than one for each outdated record that it removes.
- Or, where `limit` allows to withhold persons, nothing: more of its records are outdated than not.

Arrivals form classes among themselves. A class that loses much more than the others waits for further
arrivals, as long as none of its persons has waited for `hold_back` releases. Persons who were in an earlier
release and not in the last one return in a class of their own, if at least k have the same past.

Each of these is a proposal. The judge measures the whole release, and what it finds fault with is taken back:
joined and updated classes are published as they were, arrivals wait. After Byun, Sohn, Bertino, Li: Secure
anonymization for incremental datasets (2006), where arrivals wait, too; updates by whole components follow
the specification of the attackers in `privacy_engine.judge.republication`.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.grouping.boxes import Ints
from privacy_engine.judge.cross_release import History, Membership
from privacy_engine.judge.models import DistinctLDiversity, KAnonymity, holds
from privacy_engine.judge.published_boxes import Reading, known_texts
from privacy_engine.judge.republication.model import Attacker, Republication
from privacy_engine.measures.recoding import Recoding, released_order
from privacy_engine.measures.utility import class_losses
from privacy_engine.registry import load_method
from privacy_engine.release import Release, parameters_of
from privacy_engine.republication.earlier_boxes import Texts, require_persons, unpublished
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.columns import NULL, factorize
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import Attribute, DataSchema

Bools = npt.NDArray[np.bool_]
SPARSE = 2.0  # times the mean loss of a record, above which a class of arrivals waits for more


@dataclass(frozen=True, kw_only=True)
class LastRelease:
    """The newest earlier release of a table, as it was published.

    Attributes:
        table: (n,) the released records.
        persons: (n,) text, whose record each one is.
    """

    table: pd.DataFrame
    persons: Texts

    def __post_init__(self) -> None:
        if len(self.table) != len(self.persons):
            raise ValueError(f"{len(self.table)} records must have as many persons, got {len(self.persons)}")


def release_incrementally(
    method: Anonymizer,
    table: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    *,
    persons: Texts,
    earlier: Sequence[Membership],
    last: LastRelease | None,
    model: Republication,
    hold_back: int = 0,
    waited: Mapping[str, int] | None = None,
    reserve: float = 1.0,
    limit: float | None = None,
) -> Release:
    """Release a table so that no attacker of a model learns more from all releases than it allows.

    Args:
        method: makes the classes of persons who were never released, and says what each class must keep.
        table: the records, one a person.
        schema: what they are.
        rng: the random choices.
        persons: (n,) text, who each record is about.
        earlier: who is in which class of the earlier releases, oldest first.
        last: the newest of them as it was published; None: there is no earlier one.
        model: what must hold over all releases.
        hold_back: Releases that an arrival waits at most for others who are alike.
        waited: person -> releases that this person has waited so far; none: everyone else.
        reserve: >= 1, how many times k a class holds that is published for the first time.
        limit: largest share of records that may be withheld; None: the method's `suppression_limit`. Arrivals
            who wait do not count.

    Returns:
        The release. Its `rows` tell which record of `table` each record is, n and more: which of `last`. Its
        notes: how many persons are `withheld` and `held_back`, and how many records are `outdated`. Its
        recoding is of the records that are not held back.

    Raises:
        SchemaError: if the table does not fit the schema, there is not one person a record, or the columns of
            the last release are others.
        InfeasibleError: if more would have to be withheld than may be, or a guarantee cannot be met.
    """
    if reserve < 1:
        raise ValueError(f"reserve must be >= 1, got {reserve}")
    if hold_back < 0:
        raise ValueError(f"hold_back must be >= 0, got {hold_back}")
    require_persons(persons, table, schema)
    names = [a.name for a in schema.sensitive if model.attribute in (None, a.name)] if model.m else []
    rules = tuple(DistinctLDiversity(l=model.m or 1, attribute=name) for name in names)
    method = replace(method, k=max(method.k, model.k))
    first = replace(method, k=math.ceil(method.k * reserve), require=(*method.require, *rules))
    if last is None or not earlier:
        release = first.release(table, schema, rng)
        notes = release.notes | dict.fromkeys(("withheld", "held_back", "outdated"), 0.0)
        return replace(
            release, guarantees=method.guarantees(schema), parameters=parameters_of(method), notes=notes
        )
    if gone := unpublished(earlier[-1], schema):  # a method that chooses attributes has chosen
        schema = schema.select([name for name in schema.names if name not in gone])
        table = table.drop(columns=gone)
    encoded = EncodedTable.encode(table, schema)
    of = _Persons.of(encoded, persons, tuple(earlier), last, schema, model)
    waits = np.array([(waited or {}).get(who, 0) for who in of.persons.tolist()], dtype=np.int64)
    limit = method.suppression_limit if limit is None else limit
    allowed = math.floor(limit * len(table) + 1e-9)
    units = _proposed(of, first, method, model, waits >= hold_back, allowed, rng)
    made = _judged(of, units, method, model)
    return made.release(method, waits >= hold_back, allowed)


@dataclass(frozen=True, kw_only=True)
class _Persons:
    """The persons of a table, and what was released of them.

    Attributes:
        encoded: the table, n records.
        schema: of it.
        persons: (n,) text, in the order of its records.
        earlier: the earlier releases, oldest first.
        last: the newest of them.
        label: (l,) class of each of its records.
        row: (l,) record of the person in the table, -1 = not in it.
        gone: (l,) whether the person left, or has another value now and an attacker knows.
        outdated: (l,) whether the record is no longer true: of a person who left, or whose values are others.
    """

    encoded: EncodedTable
    schema: DataSchema
    persons: Texts
    earlier: tuple[Membership, ...]
    last: LastRelease
    label: Ints
    row: Ints
    gone: Bools
    outdated: Bools

    @classmethod
    def of(
        cls,
        encoded: EncodedTable,
        persons: Texts,
        earlier: tuple[Membership, ...],
        last: LastRelease,
        schema: DataSchema,
        model: Republication,
    ) -> "_Persons":
        """Find the persons of a table in its last release."""
        own, newest = persons[encoded.rows], earlier[-1]
        place = pd.Index(newest.persons).get_indexer(pd.Index(last.persons))
        if (place < 0).any() or len(last.persons) != len(newest):
            raise ValueError("the last release must be of the persons of the newest of the earlier ones")
        row = np.asarray(pd.Index(own).get_indexer(pd.Index(last.persons)), dtype=np.int64)
        here = np.flatnonzero(row >= 0)
        corrected, outdated = np.zeros(len(row), dtype=np.bool_), row < 0
        for attribute in schema.sensitive:
            now = encoded.table[attribute.name].take(row[here])
            was = last.table[attribute.name].take(here)
            corrected[here] |= _counted(now, attribute) != _counted(was, attribute)
        if newest.boxes and len(here):
            boxes = {name: texts[place[here]] for name, texts in newest.boxes.items()}
            values = known_texts(encoded.table.take(row[here]), schema)
            reading = Reading(sorted(newest.boxes), schema)
            cells, (box, value) = reading.coded([boxes, values])
            outdated[here] |= ~reading.cover(cells, box, value)
        return cls(
            encoded=encoded,
            schema=schema,
            persons=own,
            earlier=earlier,
            last=last,
            label=newest.labels[place],
            row=row,
            gone=(row < 0) | (corrected & (Attacker.CORRECTION in model.attackers)),
            outdated=outdated | corrected,
        )

    @cached_property
    def classes(self) -> int:
        """Number of classes of the last release."""
        return int(self.label.max(initial=-1)) + 1

    @cached_property
    def of_class(self) -> Ints:
        """(n,) class of each person in the last release, -1 of those who were not in it."""
        found = np.full(len(self.persons), -1)
        here = self.row >= 0
        found[self.row[here]] = self.label[here]
        return found

    @cached_property
    def stays(self) -> Bools:
        """(n,) persons who stay in the class of the last release."""
        found = np.zeros(len(self.persons), dtype=np.bool_)
        found[self.row[~self.gone]] = True
        return found

    @cached_property
    def left(self) -> Ints:
        """(c,) persons who are gone from each class of the last release."""
        return np.bincount(self.label[self.gone], minlength=self.classes)

    @cached_property
    def stayed(self) -> Ints:
        """(c,) persons who stay in each."""
        return np.bincount(self.label[~self.gone], minlength=self.classes)

    @cached_property
    def known(self) -> Bools:
        """(n,) persons of an earlier release."""
        index = pd.Index(self.persons)
        found = np.zeros(len(index), dtype=np.bool_)
        for release in self.earlier:
            found |= index.isin(release.persons)
        return found


class State(IntEnum):
    """What becomes of a unit."""

    PROPOSED = 0
    TAKEN_BACK = 1  # classes are published as they were, arrivals wait
    WITHDRAWN = 2


@dataclass
class _Units:
    """What is proposed, in units that are taken or taken back as a whole.

    Attributes:
        label: (n,) proposed class of each record, -1 = none.
        of_record: (n,) unit of each record that has one.
        of_class: (c,) unit of each class of the last release.
        state: of each unit.
    """

    label: Ints
    of_record: Ints
    of_class: Ints
    state: list[State]

    @classmethod
    def of(cls, persons: _Persons) -> "_Units":
        """Each class of the last release by itself: who stayed, if the rest is to be left out."""
        label = np.where(persons.stays, persons.of_class, -1)
        units = [State.PROPOSED] * persons.classes
        return cls(label, label.copy(), np.arange(persons.classes), units)

    def join(self, classes: Ints) -> None:
        """Make one of the classes of some."""
        mine = np.isin(self.of_class, classes)
        rows = np.isin(self.of_record, self.of_class[mine]) & (self.label >= 0)
        self.of_class[mine] = self.of_record[rows] = int(classes[0])
        self.label[rows] = int(classes[0])
        self.state[int(classes[0])] = State.PROPOSED

    def add(self, rows: Ints) -> None:
        """One class of records that are in none of the last release."""
        self.label[rows] = int(max(self.label.max(initial=-1), len(self.of_class) - 1)) + 1
        self.of_record[rows] = len(self.state)
        self.state.append(State.PROPOSED)


def _proposed(
    of: _Persons,
    first: Anonymizer,
    method: Anonymizer,
    model: Republication,
    overdue: Bools,
    allowed: int,
    rng: np.random.Generator,
) -> _Units:
    """What may be published, as far as numbers of persons tell."""
    units, left, stayed = _Units.of(of), of.left, of.stayed
    enough = (left == 0) | (left >= model.k)
    whole = (stayed == 0) | (stayed >= method.least)
    for c in np.flatnonzero(~(enough & whole) & (left > 0)).tolist():
        units.state[c] = State.TAKEN_BACK
    losses = _losses(of.encoded, units.label)
    for classes in _near(of, np.flatnonzero((left > 0) & ~enough & (stayed >= method.least)), model.k, rng):
        removed = int(left[classes].sum())
        if removed >= model.k and model.window * _added(of, units.label, classes, losses) <= removed:
            units.join(classes)
    _withdraw(of, units, np.flatnonzero((left > stayed) & ~whole), allowed)
    returned = np.flatnonzero(of.known & (of.of_class < 0))
    for rows in _alike(of, returned):
        if len(rows) >= method.least:
            units.add(rows)
    usual = losses[of.of_class[of.stays]].mean() if of.stays.any() else math.inf
    fresh = np.flatnonzero(~of.known)
    labels = np.full(len(fresh), -1)
    if len(fresh) >= first.least:
        with contextlib.suppress(InfeasibleError):  # too few values: all of them wait
            labels = first.anonymize(of.encoded.take(fresh), rng).labels
    own = _losses(of.encoded.take(fresh), labels)
    for c in range(int(labels.max(initial=-1)) + 1):
        rows = fresh[labels == c]
        if own[c] <= SPARSE * usual or overdue[rows].any():
            units.add(rows)
    return units


def _counted(column: pd.Series, attribute: Attribute) -> Texts:
    """(n,) what each value counts as."""
    coded = factorize(column)
    return np.array([*attribute.counted_as(coded.texts), NULL], dtype=object)[coded.codes]


def _losses(encoded: EncodedTable, labels: Ints) -> npt.NDArray[np.float64]:
    """(c,) mean loss of a record of each class 0 .. c - 1, 0 where it has none."""
    found = np.zeros(int(labels.max(initial=-1)) + 1)
    used = np.unique(labels[labels >= 0])
    if len(used):
        found[used] = class_losses(Recoding.of_labels(encoded, labels)).mean(axis=1)
    return found


def _near(of: _Persons, classes: Ints, k: int, rng: np.random.Generator) -> list[Ints]:
    """Classes in groups of near ones, in each as many as lost k persons on average."""
    at = np.full(of.classes, -1)
    rows = np.flatnonzero(of.stays)
    at[of.of_class[rows]] = rows  # a record of each
    many = max(math.ceil(k / max(of.left[classes].mean(), 1)), 2) if len(classes) else 2
    if len(classes) < 2 * many:
        return [classes] if len(classes) else []
    found = load_method("mondrian", k=many).anonymize(of.encoded.take(at[classes]), rng).labels
    return [classes[found == group] for group in range(int(found.max()) + 1)]


def _added(of: _Persons, labels: Ints, classes: Ints, losses: npt.NDArray[np.float64]) -> float:
    """Loss that it adds to join classes, summed over their records."""
    rows = np.flatnonzero(np.isin(labels, classes))
    joined = _losses(of.encoded.take(rows), np.zeros(len(rows), np.int64))[0]
    return float(joined * len(rows) - losses[classes] @ of.stayed[classes])


def _withdraw(of: _Persons, units: _Units, classes: Ints, allowed: int) -> None:
    """Give up classes of which more is outdated than not, as far as persons may be withheld."""
    room = allowed - int((of.known & (of.of_class < 0)).sum())
    for c in classes[np.argsort(of.stayed[classes] - of.left[classes], kind="stable")]:
        if of.stayed[c] <= room and units.state[c] is State.TAKEN_BACK:
            units.state[c] = State.WITHDRAWN
            room -= int(of.stayed[c])


def _alike(of: _Persons, rows: Ints) -> list[Ints]:
    """Records of persons in groups of the same past."""
    if not len(rows):
        return []
    past = []
    for release in of.earlier:
        place = pd.Index(release.persons).get_indexer(pd.Index(of.persons[rows]))
        past.append(np.where(place >= 0, release.labels[place], -1))
    which = np.unique(np.stack(past, axis=1), axis=0, return_inverse=True)[1].ravel()
    return [rows[which == group] for group in range(int(which.max()) + 1)]


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A release by some units.

    Attributes:
        of: the persons.
        units: the units.
        table: the released records.
        schema: of them.
        rows: (m,) record of the table, n and more: of the last release.
    """

    of: _Persons
    units: _Units
    table: pd.DataFrame
    schema: DataSchema
    rows: Ints

    @classmethod
    def by(cls, of: _Persons, units: _Units, method: Anonymizer) -> "_Made":
        """Render it."""
        state = np.array(units.state, dtype=np.int64)
        shown = (units.label >= 0) & (state[units.of_record] == State.PROPOSED)
        labels = np.where(shown, units.label, -1)
        fresh, schema = Recoding.of_labels(of.encoded, labels).render_by_row(method.intervals)
        kept = np.flatnonzero(state[units.of_class][of.label] == State.TAKEN_BACK)
        again = of.last.table.iloc[kept]
        if list(again.columns) != list(fresh.columns):
            raise SchemaError(
                f"the last release has the columns {list(again.columns)}, this one would have "
                f"{list(fresh.columns)}, so its classes cannot be published again; publish under a new table "
                "name, or retract the earlier releases"
            )
        if len(fresh):
            again = again.astype(dict(fresh.dtypes))
        table = pd.concat([fresh, again], ignore_index=True) if len(again) else fresh.reset_index(drop=True)
        order = released_order(table)  # by released values alone: the place of a record tells nothing
        own = of.row[kept]
        rows = np.concatenate(
            [
                fresh.index.to_numpy().astype(np.int64),
                np.where(of.outdated[kept], len(of.persons) + kept, of.encoded.rows[own]),
            ]
        )
        return cls(
            of=of,
            units=units,
            table=table.take(order).reset_index(drop=True),
            schema=schema,
            rows=rows[order],
        )

    @cached_property
    def _place(self) -> Ints:
        """(m,) record of the encoded table, -1 of one that is outdated."""
        n = len(self.of.persons)
        place = np.empty(n, np.int64)
        place[self.of.encoded.rows] = np.arange(n)
        return np.where(self.rows < n, place[np.minimum(self.rows, n - 1)], -1)

    @cached_property
    def persons(self) -> Texts:
        """(m,) whose record each one is."""
        old = np.maximum(self.rows - len(self.of.persons), 0)
        return np.where(self._place >= 0, self.of.persons[self._place], self.of.last.persons[old])

    @cached_property
    def unit(self) -> Ints:
        """(m,) the unit of each record."""
        units, of, place = self.units, self.of, self._place
        old = np.maximum(self.rows - len(of.persons), 0)
        of_class = np.where(place >= 0, of.of_class[place], of.label[old])
        whole = units.of_class[np.maximum(of_class, 0)] if len(units.of_class) else np.zeros(len(place), int)
        return np.where(of_class >= 0, whole, units.of_record[place])

    def failing(self, method: Anonymizer, model: Republication) -> Bools:
        """(m,) records of persons who are not safe, and of classes that miss a guarantee."""
        classes = EquivalenceClasses.of_table(self.table, self.schema)
        people = Membership.of_classes(self.persons, classes, self.table, self.schema)
        history = History(new=people, earlier=self.of.earlier, source=self.of.schema)
        bad: Bools = model.per_person(history, classes) < model.threshold
        for own in (KAnonymity(k=method.least), *method.sensitive_models):
            if not holds(own, classes):
                bad |= own.violations(classes)[classes.labels]
        return bad

    def release(self, method: Anonymizer, overdue: Bools, allowed: int) -> Release:
        """The release, if not too many persons are withheld.

        Args:
            method: what was asked for.
            overdue: (n,) persons who do not wait any longer.
            allowed: most persons that may be withheld.
        """
        of = self.of
        shown = np.zeros(len(of.persons), dtype=np.bool_)
        shown[self._place[self._place >= 0]] = True
        shown[np.isin(of.persons, self.persons[self._place < 0])] = True  # as they were
        waits = ~shown & ~of.known & ~overdue
        withheld = int((~shown & ~waits).sum())
        if withheld > allowed or not len(self.table):
            raise InfeasibleError(
                f"{withheld} of {len(of.persons)} persons cannot be kept safe together with the earlier "
                f"releases and would be withheld, at most {allowed} may be: allow more, let arrivals wait "
                "longer, retract an earlier release, begin with a larger reserve, or ask for less"
            )
        classes = EquivalenceClasses.of_table(self.table, self.schema)
        guarantees = method.guarantees(of.schema)
        if missed := [own.name for own in guarantees if not holds(own, classes)]:
            raise InfeasibleError(
                f"{missed} cannot be met together with the earlier releases; weaken them, or bring more "
                "records"
            )
        labels = np.full(len(of.persons), -1)
        own = self._place >= 0
        labels[self._place[own]] = classes.labels[own]
        counted = np.flatnonzero(~waits)
        return Release(
            table=self.table,
            schema=self.schema,
            method=method.key,
            parameters=parameters_of(method),
            guarantees=guarantees,
            recoding=Recoding.of_labels(of.encoded.take(counted), labels[counted]),
            rows=self.rows,
            notes={
                "distorted": 0.0,
                "withheld": float(withheld),
                "held_back": float(waits.sum()),
                "outdated": float((~own).sum()),
            },
        )


def _judged(of: _Persons, units: _Units, method: Anonymizer, model: Republication) -> _Made:
    """What the judge finds no fault with: units are taken back until it does not."""
    while True:
        made = _Made.by(of, units, method)
        if not len(made.table):
            return made
        found = np.unique(made.unit[made.failing(method, model)])
        if not len(found):
            return made
        proposed = [u for u in found.tolist() if units.state[u] is State.PROPOSED]
        for unit in proposed:
            units.state[unit] = State.TAKEN_BACK
        if not proposed:  # what was published before keeps a model no more, which compares with all records
            for unit in found.tolist():
                units.state[unit] = State.WITHDRAWN
