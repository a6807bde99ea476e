"""A release that cannot be subtracted from earlier ones: classes that too few persons left are unchanged.

A class is published again unchanged, cells and values, until enough of it has changed: then it reveals
nothing new. For each class of the last release one of these is published:

- No one left it and no value was corrected: the class, with the boxes of today's records.
- At least k persons left it, with m values, and k or none stayed: those who stayed.
- Enough left it, and too few stayed: those who stayed with as many of the others as make k.
- Too few left it: the class as it was, with the records of those who left (*outdated* records). Its cells
  are widened for persons of it whose quasi-identifiers changed, where that adds less loss than it removes.
- Or it is joined with classes near it that also lost persons, so that enough left all of them together. The
  joined class cannot be parted within the window of the attackers. So classes are joined only where the loss
  that this adds in as many releases is less than one for each outdated record that it removes.
- Or, where `limit` allows to withhold persons, nothing: far more of its records are outdated than not.

Arrivals form classes among themselves. A class that loses much more than the others waits for further
arrivals, as long as none of its persons has waited for `hold_back` releases. Persons who were in an earlier
release and not in the last one return in a separate class, if at least k have the same past.

Each of these is a proposal. The verification measures the whole release, and any unit that fails is undone:
joined and updated classes are published unchanged, arrivals wait. After Byun, Sohn, Bertino, Li: Secure
anonymization for incremental datasets (2006), where arrivals wait as well; updates by whole components follow
the specification of the attackers in `privacy_engine.verification.republication`.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import InfeasibleError, SchemaError
from privacy_engine.measures.recoding import Recoding, released_order
from privacy_engine.measures.utility import class_losses
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.registry import load_method
from privacy_engine.release import Release, parameters_of
from privacy_engine.republication.earlier_boxes import Texts, require_followed, unpublished, wider_cells
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.columns import NULL, are_among, factorize
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import (
    CrossReleaseKAnonymity,
    CrossReleaseModel,
    History,
    Membership,
    MInvariance,
)
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, holds
from privacy_engine.verification.published_boxes import BoxParser, known_texts
from privacy_engine.verification.republication.class_values import people_of
from privacy_engine.verification.republication.model import Attacker, Republication
from privacy_engine.vocabulary import Intervals

Bools = npt.NDArray[np.bool_]
SPARSE = 2.0  # times the mean loss of a record, above which a class of arrivals waits for more
GIVEN_UP = 3.0  # ratio of outdated to other records above which a class is given up


@dataclass(frozen=True, kw_only=True)
class LastRelease:
    """The newest earlier release of a table, as it was published.

    Attributes:
        table: Released records, shape (n,).
        persons: Person of each record, shape (n,) text.
        owners: Person of each record as in `Membership`, if a person may have several records, shape (n,)
            int64.
    """

    table: pd.DataFrame
    persons: Texts
    owners: Ints | None = None

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
    across: Sequence[CrossReleaseModel],
    hold_back: int = 0,
    waited: Mapping[str, int] | None = None,
    reserve: float = 1.0,
    limit: float | None = None,
    owners: Ints | None = None,
) -> Release:
    """Release a table so that no attacker of a model learns more from all releases than it allows.

    If a person may have several records, each record is followed, and persons are counted.

    Args:
        method: Method that makes the classes of new persons, with the requirements on each class.
        table: Records of the source, from which the release is made.
        schema: Schema of the records.
        rng: Source of randomness for all choices.
        persons: Person of each record, shape (n,) text; with owners, the identifier of each record.
        earlier: Classes of the earlier releases, oldest first.
        last: Newest of them as it was published; None: there is no earlier one.
        across: Models that must hold over all releases.
        hold_back: Most releases that an arrival waits for similar ones.
        waited: Person -> releases that this person has waited so far; none: everyone else.
        reserve: Size of a class that is published for the first time, in multiples of k, >= 1.
        limit: Largest share of records that may be withheld; None: the method's `suppression_limit`. Arrivals
            who wait do not count.
        owners: Person of each record, if the schema names a person, shape (n,) int64; the same number in all
            releases.

    Returns:
        The release. Its `rows` are the row of `table` of each record, or n plus the row of `last`. Its notes
        have the numbers of persons `withheld` and `held_back`, and of `outdated` records. Its recoding is
        that of the records that are not held back.

    Raises:
        SchemaError: If the table does not fit the schema, there is not one person a record and no owner, or
            the columns of the last release are others.
        InfeasibleError: If more would have to be withheld than may be, or a guarantee cannot be met.
    """
    if reserve < 1:
        raise ValueError(f"reserve must be >= 1, got {reserve}")
    if hold_back < 0:
        raise ValueError(f"hold_back must be >= 0, got {hold_back}")
    require_followed(persons, table, schema, owners)
    if last is not None and (owners is None) != (last.owners is None):
        raise SchemaError(
            "whose records they are must be known of all releases of a table or of none: retract those that "
            "were made with another `person`, or publish under a new table name"
        )
    required = _Required(tuple(across))
    first = method_of_newcomers(method, across, schema, reserve)
    method = replace(method, k=max(method.k, required.k))
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
    of = _Persons.of(
        encoded, persons, tuple(earlier), last, schema, corrections=required.corrections, owners=owners
    )
    waits = np.array([(waited or {}).get(who, 0) for who in of.persons.tolist()], dtype=np.int64)
    limit = method.suppression_limit if limit is None else limit
    allowed = math.floor(limit * len(table) + 1e-9)
    units = _proposed(of, first, method, required, waits >= hold_back, allowed, rng)
    made = _judged(of, units, method, required)
    return made.release(method, waits >= hold_back, allowed)


def method_of_newcomers(
    method: Anonymizer, across: Sequence[CrossReleaseModel], schema: DataSchema, reserve: float
) -> Anonymizer:
    """Return the method with what each class needs that is published for the first time.

    Args:
        method: Anonymizer of the release, as for `release_incrementally`.
        across: Models that must hold over all releases.
        schema: Schema of the records.
        reserve: Size of a class that is published for the first time, in multiples of k, >= 1.
    """
    required = _Required(tuple(across))
    planned = math.ceil(max(method.k, required.k) * reserve)
    return replace(method, k=planned, require=(*method.require, *required.values(schema)))


@dataclass(frozen=True)
class _Required:
    """What must hold over all releases.

    Attributes:
        across: Models over all releases.
    """

    across: tuple[CrossReleaseModel, ...]

    @cached_property
    def k(self) -> int:
        """Least number of persons."""
        of_k = [m.k for m in self.across if isinstance(m, Republication | CrossReleaseKAnonymity)]
        return max(of_k, default=2)

    @cached_property
    def window(self) -> int:
        """Earlier releases that are subtracted."""
        return max((m.window for m in self.across if isinstance(m, Republication)), default=1)

    @cached_property
    def corrections(self) -> bool:
        """Whether an attacker knows whose record was corrected."""
        return any(isinstance(m, Republication) and Attacker.CORRECTION in m.attackers for m in self.across)

    def values(self, schema: DataSchema) -> tuple[DistinctLDiversity, ...]:
        """What each class needs of the sensitive values."""
        return tuple(
            DistinctLDiversity(l=model.m, attribute=a.name)
            for model in self.across
            if isinstance(model, Republication | MInvariance) and model.m is not None and model.m > 1
            for a in schema.sensitive
            if model.attribute in (None, a.name)
        )

    def failing(self, history: History, classes: EquivalenceClasses) -> Bools:
        """(n,) persons for whom one of the models does not hold."""
        found = np.zeros(len(history.new), dtype=np.bool_)
        for model in self.across:
            found |= model.per_person(history, classes) < model.threshold
        return found


@dataclass(frozen=True, kw_only=True)
class _Persons:
    """The persons of a table, and what was released of them.

    Attributes:
        encoded: Table, n records.
        schema: Schema of the table.
        persons: Person of each record, shape (n,) text.
        earlier: Earlier releases, oldest first.
        last: Newest of them.
        label: Class of each of its records, shape (l,).
        row: Record of the person in the table, -1 = not in it, shape (l,).
        gone: Whether the person left, or has another value now and an attacker knows, shape (l,).
        outdated: Whether the record is no longer true: of a person who left, or whose values are others,
            shape (l,).
        moved: Whether it would be true in a class with wider cells, shape (l,).
        owners: Persons of the records, (n,) and (l,), as in `Membership`; None if each person has one record.
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
    moved: Bools
    owners: tuple[Ints, Ints] | None = None

    @classmethod
    def of(
        cls,
        encoded: EncodedTable,
        persons: Texts,
        earlier: tuple[Membership, ...],
        last: LastRelease,
        schema: DataSchema,
        *,
        corrections: bool,
        owners: Ints | None,
    ) -> "_Persons":
        """Find the persons of a table in its last release."""
        own, newest = persons[encoded.rows], earlier[-1]
        place = pd.Index(newest.persons).get_indexer(pd.Index(last.persons))
        if (place < 0).any() or len(last.persons) != len(newest):
            raise ValueError("the last release must have the persons of the newest earlier one")
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
            reading = BoxParser(sorted(newest.boxes), schema)
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
            gone=(row < 0) | (corrected & corrections),
            outdated=outdated | corrected,
            moved=outdated & ~corrected & (row >= 0),
            owners=None if owners is None or last.owners is None else (owners[encoded.rows], last.owners),
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
        return self._counted(self.gone)

    @cached_property
    def stayed(self) -> Ints:
        """(c,) persons who stay in each."""
        return self._counted(~self.gone)

    def _counted(self, rows: Bools) -> Ints:
        """(c,) persons of some records in each class of the last release."""
        people = None if self.owners is None else np.unique(self.owners[1][rows], return_inverse=True)[1]
        return people_of(self.label[rows], people, self.classes)

    @cached_property
    def known(self) -> Bools:
        """(n,) persons of an earlier release."""
        index = pd.Index(self.persons)
        found = np.zeros(len(index), dtype=np.bool_)
        for release in self.earlier:
            found |= index.isin(release.persons)
        return found


class UnitState(IntEnum):
    """What becomes of a unit."""

    PROPOSED = 0
    TAKEN_BACK = 1  # classes are published as they were, arrivals wait
    WITHDRAWN = 2
    TRIMMED = 3  # a class is published as it was, without some of those who left
    WIDENED = 4  # a class is published as it was, in wider cells


@dataclass
class _Units:
    """A proposal, in units that are accepted or undone as a whole.

    Attributes:
        label: Proposed class of each record, -1 = none, shape (n,).
        of_record: Unit of each record that has one, else -1, shape (n,).
        of_class: Unit of each class of the last release, shape (c,).
        state: `UnitState` of each unit, shape (u,).
        dropped: Records of the last release that a trimmed class goes without, shape (l,).
        wider: Cells of each widened class, by class.
    """

    label: Ints
    of_record: Ints
    of_class: Ints
    state: Ints
    dropped: Bools
    wider: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, persons: _Persons) -> "_Units":
        """Propose each class of the last release by itself: those who stayed, if the rest is left out."""
        label = np.where(persons.stays, persons.of_class, -1)
        return cls(
            label=label,
            of_record=label.copy(),
            of_class=np.arange(persons.classes),
            state=np.full(persons.classes, UnitState.PROPOSED, dtype=np.int64),
            dropped=np.zeros(len(persons.label), dtype=np.bool_),
        )

    def join(self, classes: Ints, group: Ints) -> None:
        """Make one class of those of the last release that have the same group."""
        found, first, which = np.unique(group, return_index=True, return_inverse=True)
        del found
        into = np.arange(len(self.of_class))
        into[classes] = classes[first][which]
        mine = self.label >= 0
        self.label[mine] = self.of_record[mine] = into[self.label[mine]]
        self.of_class = into
        self.state[classes[first]] = UnitState.PROPOSED

    def add(self, rows: Ints, group: Ints) -> None:
        """Propose one class for the records of each group, none of which is in the last release."""
        found, which = np.unique(group, return_inverse=True)
        self.label[rows] = max(int(self.label.max(initial=-1)) + 1, len(self.of_class)) + which
        self.of_record[rows] = len(self.state) + which
        self.state = np.concatenate([self.state, np.full(len(found), UnitState.PROPOSED, dtype=np.int64)])


def _proposed(
    of: _Persons,
    first: Anonymizer,
    method: Anonymizer,
    required: _Required,
    overdue: Bools,
    allowed: int,
    rng: np.random.Generator,
) -> _Units:
    """Return the units that may be published according to their numbers of persons."""
    units, left, stayed = _Units.of(of), of.left, of.stayed
    whole = (stayed == 0) | (stayed >= method.least)
    waits = (left > 0) & ~((left >= required.k) & whole)
    units.state[waits] = UnitState.TAKEN_BACK
    spare = np.where((stayed > 0) & ~whole, left + stayed - method.least, 0)
    _trim(of, units, np.where(np.minimum(left, spare) >= required.k, spare, 0), rng)
    losses = _losses(of.encoded, units.label, of.classes)
    _join(of, units, np.flatnonzero(waits & (stayed >= method.least)), losses, required, rng)
    _withdraw(of, units, np.flatnonzero((left >= GIVEN_UP * stayed) & ~whole), allowed)
    _widen(of, units, method.intervals)
    returned = np.flatnonzero(of.known & (of.of_class < 0))
    past = _past(of, returned)
    people = None if of.encoded.persons is None else of.encoded.persons[returned]
    alike = people_of(past, people)[past] >= method.least if len(past) else np.zeros(0, np.bool_)
    units.add(returned[alike], past[alike])
    usual = losses[of.of_class[of.stays]].mean() if of.stays.any() else math.inf
    fresh = np.flatnonzero(~of.known)
    labels = np.full(len(fresh), -1)
    if len(fresh) >= first.least:
        with contextlib.suppress(InfeasibleError):  # too few values: all of them wait
            labels = first.recoded(of.encoded.take(fresh), rng).labels
    made = np.flatnonzero(labels >= 0)
    due = np.bincount(labels[made], weights=overdue[fresh[made]], minlength=1) > 0
    fine = due | (_losses(of.encoded.take(fresh), labels, len(due)) <= SPARSE * usual)
    made = made[fine[labels[made]]]
    units.add(fresh[made], labels[made])
    return units


def _trim(of: _Persons, units: _Units, spare: Ints, rng: np.random.Generator) -> None:
    """Publish classes as they were, without some of those who left.

    Args:
        of: Persons of the table and their earlier releases.
        units: Units of the proposal, changed in place.
        spare: Records to drop of each class, 0 = none, shape (c,).
        rng: Source of randomness for choosing among those who left.
    """
    rows = rng.permutation(np.flatnonzero(of.gone))
    rows = rows[np.argsort(of.label[rows], kind="stable")]
    label = of.label[rows]
    turn = np.arange(len(rows)) - np.searchsorted(label, label)
    units.dropped[rows[turn < spare[label]]] = True
    units.state[spare > 0] = UnitState.TRIMMED


def _join(
    of: _Persons,
    units: _Units,
    classes: Ints,
    losses: npt.NDArray[np.float64],
    required: _Required,
    rng: np.random.Generator,
) -> None:
    """Join near classes, where that adds less in a window than one for each outdated record.

    Args:
        of: Persons of the table and their earlier releases.
        units: Units of the proposal, changed in place.
        classes: Those of the last release that may be joined; each lost some persons.
        losses: Mean loss of a record of each class, shape (c,).
        required: Requirements over all releases.
        rng: Cuts between groups of near classes.
    """
    if len(classes) < 2:
        return
    at = np.full(of.classes, -1)
    rows = np.flatnonzero(of.stays)
    at[of.of_class[rows]] = rows  # a record of each
    many, group = max(math.ceil(required.k / of.left[classes].mean()), 2), np.zeros(len(classes), np.int64)
    if len(classes) >= 2 * many:
        one_of_each = replace(of.encoded.take(at[classes]), persons=None)
        group = load_method("mondrian", k=many).anonymize(one_of_each, rng).labels
    of_class = np.full(of.classes, -1)
    of_class[classes] = group
    joined = np.where(units.label >= 0, of_class[units.label], -1)
    removed, stayed = (np.bincount(group, weights=n[classes]) for n in (of.left, of.stayed))
    before = np.bincount(group, weights=losses[classes] * of.stayed[classes])
    added = _losses(of.encoded, joined, len(removed)) * stayed - before
    pays = ((removed >= required.k) & (required.window * added <= removed))[group]
    units.join(classes[pays], group[pays])


def _withdraw(of: _Persons, units: _Units, classes: Ints, allowed: int) -> None:
    """Give up classes that are mostly outdated, up to the number of persons that may be withheld."""
    room = allowed - int((of.known & (of.of_class < 0)).sum())
    classes = classes[(of.stayed[classes] > 0) & (units.state[classes] == UnitState.TAKEN_BACK)]
    classes = classes[np.argsort(of.stayed[classes] - of.left[classes], kind="stable")]
    units.state[classes[np.cumsum(of.stayed[classes]) <= room]] = UnitState.WITHDRAWN


def _widen(of: _Persons, units: _Units, intervals: Intervals) -> None:
    """Let cells of classes that are published as they were cover persons who moved, where that pays.

    Who is in the class, and with which values, stays as it was: only the cells say something new.
    """
    moved = np.bincount(of.label[of.moved], minlength=of.classes)
    whole = units.of_class == np.arange(of.classes)
    classes = np.flatnonzero((moved > 0) & whole & (units.state[: of.classes] == UnitState.TAKEN_BACK))
    here = np.flatnonzero(of.row >= 0)
    true = np.full(len(of.persons), -1)
    now = here[~of.outdated[here]]
    true[of.row[now]] = of.label[now]
    with_moved = true.copy()
    with_moved[of.row[of.moved]] = of.label[of.moved]
    before, after = (_losses(of.encoded, own, of.classes) for own in (true, with_moved))
    many = np.bincount(true[true >= 0], minlength=of.classes)
    pays = (after * (many + moved) < before * many + moved)[classes]
    cells = wider_cells(of.encoded.table, of.schema, of.earlier[-1], _movers(of, classes[pays]), intervals)
    units.wider = cells
    units.state[cells.index.to_numpy(dtype=np.int64)] = UnitState.WIDENED


def _movers(of: _Persons, classes: Ints) -> dict[int, Ints]:
    """Class -> the records in the table of the persons who moved."""
    rows = np.flatnonzero(of.moved & np.isin(of.label, classes))
    return {int(c): of.row[rows[of.label[rows] == c]] for c in np.unique(of.label[rows])}


def _past(of: _Persons, rows: Ints) -> Ints:
    """(p,) a number for each of some records, equal for persons with the same classes in all releases."""
    past = []
    for release in of.earlier:
        place = pd.Index(release.persons).get_indexer(pd.Index(of.persons[rows]))
        past.append(np.where(place >= 0, release.labels[place], -1))
    return np.unique(np.stack(past, axis=1), axis=0, return_inverse=True)[1].ravel()


def _counted(column: pd.Series, attribute: Attribute) -> Texts:
    """(n,) what each value counts as."""
    coded = factorize(column)
    return np.array([*attribute.counted_as(coded.texts), NULL], dtype=object)[coded.codes]


def _replaced(column: pd.Series, flags: Bools, cells: pd.Series) -> pd.Series:
    """The column with other cells in some of its rows."""
    found = column.astype(object).to_numpy(copy=True)
    found[flags] = cells.astype(object).to_numpy()
    return pd.Series(found, index=column.index).astype(column.dtype)


def _losses(encoded: EncodedTable, labels: Ints, classes: int) -> npt.NDArray[np.float64]:
    """(classes,) mean loss of a record of each class, 0 where it has none."""
    found = np.zeros(classes)
    used = np.unique(labels[labels >= 0])
    if len(used):
        found[used] = class_losses(Recoding.of_labels(encoded, labels)).mean(axis=1)
    return found


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A release by some units.

    Attributes:
        of: Persons of the table and their earlier releases.
        units: Units that the release consists of.
        table: Released records of all units.
        schema: Schema of the records.
        rows: Record of the table, n and more: of the last release, shape (m,).
    """

    of: _Persons
    units: _Units
    table: pd.DataFrame
    schema: DataSchema
    rows: Ints

    @classmethod
    def by(cls, of: _Persons, units: _Units, method: Anonymizer) -> "_Made":
        """Render it."""
        state = units.state
        shown = (units.label >= 0) & (state[units.of_record] == UnitState.PROPOSED)
        labels = np.where(shown, units.label, -1)
        fresh, schema = Recoding.of_labels(of.encoded, labels).render_by_row(method.intervals)
        state = state[units.of_class][of.label]
        as_before = (state == UnitState.TAKEN_BACK) | (state == UnitState.WIDENED)
        kept = np.flatnonzero(as_before | ((state == UnitState.TRIMMED) & ~units.dropped))
        wider = (state == UnitState.WIDENED)[kept]
        again = of.last.table.iloc[kept]
        if list(again.columns) != list(fresh.columns):
            raise SchemaError(
                f"the last release has the columns {list(again.columns)}, this one would have "
                f"{list(fresh.columns)}, so its classes cannot be published again; publish under a new table "
                "name, or retract the earlier releases"
            )
        if wider.any():
            cells = units.wider.loc[of.label[kept[wider]]]
            again = again.assign(**{name: _replaced(again[name], wider, cells[name]) for name in cells})
        if len(fresh):
            again = again.astype(dict(fresh.dtypes))
        table = pd.concat([fresh, again], ignore_index=True) if len(again) else fresh.reset_index(drop=True)
        order = released_order(table)  # only by released values: the position of a record reveals nothing
        own, outdated = of.row[kept], of.outdated[kept] & ~(wider & of.moved[kept])
        rows = np.concatenate(
            [
                fresh.index.to_numpy().astype(np.int64),
                np.where(outdated, len(of.persons) + kept, of.encoded.rows[own]),
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
    def owners(self) -> Ints | None:
        """(m,) the person of each record, as in `Membership`."""
        if self.of.owners is None:
            return None
        own, before = self.of.owners
        old = np.maximum(self.rows - len(self.of.persons), 0)
        return np.where(self._place >= 0, own[self._place], before[old])

    @cached_property
    def unit(self) -> Ints:
        """(m,) the unit of each record."""
        units, of, place = self.units, self.of, self._place
        old = np.maximum(self.rows - len(of.persons), 0)
        of_class = np.where(place >= 0, of.of_class[place], of.label[old])
        whole = units.of_class[np.maximum(of_class, 0)]
        return np.where(of_class >= 0, whole, units.of_record[place])

    def failing(self, method: Anonymizer, required: _Required) -> Bools:
        """(m,) records of persons who are not safe, and of classes that miss a guarantee."""
        classes = EquivalenceClasses.of_table(self.table, self.schema, self.owners)
        people = Membership.of_classes(self.persons, classes, self.table, self.schema, self.owners)
        history = History(new=people, earlier=self.of.earlier, source=self.of.schema)
        bad = required.failing(history, classes)
        for own in (KAnonymity(k=method.least), *method.sensitive_models):
            if not holds(own, classes):
                bad |= own.violations(classes)[classes.labels]
        return bad

    def release(self, method: Anonymizer, overdue: Bools, allowed: int) -> Release:
        """Return the release, if not too many persons are withheld.

        Args:
            method: Method with the requirements.
            overdue: Persons who do not wait any longer, shape (n,).
            allowed: Most persons that may be withheld.
        """
        of = self.of
        shown = np.zeros(len(of.persons), dtype=np.bool_)
        shown[self._place[self._place >= 0]] = True
        shown[are_among(of.persons, self.persons[self._place < 0])] = True  # as they were
        waits = ~shown & ~of.known & ~overdue
        withheld = int((~shown & ~waits).sum())
        if withheld > allowed or not len(self.table):
            raise InfeasibleError(
                f"{withheld} of {len(of.persons)} persons cannot be kept safe together with the earlier "
                f"releases and would be withheld, at most {allowed} may be: allow more, let arrivals wait "
                "longer, retract an earlier release, begin with a larger reserve, or ask for less"
            )
        classes = EquivalenceClasses.of_table(self.table, self.schema, self.owners)
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
            persons=self.owners,
            notes={
                "distorted": 0.0,
                "withheld": float(withheld),
                "held_back": float(waits.sum()),
                "outdated": float((~own).sum()),
            },
        )


def _judged(of: _Persons, units: _Units, method: Anonymizer, required: _Required) -> _Made:
    """Return the units that the verification accepts: units are undone until it does."""
    while True:
        made = _Made.by(of, units, method)
        if not len(made.table):
            return made
        found = np.unique(made.unit[made.failing(method, required)])
        if not len(found):
            return made
        proposed = found[
            np.isin(units.state[found], (UnitState.PROPOSED, UnitState.TRIMMED, UnitState.WIDENED))
        ]
        units.state[proposed] = UnitState.TAKEN_BACK
        if not len(proposed):
            # What was published before no longer meets a model that compares with all records.
            units.state[found] = UnitState.WITHDRAWN
