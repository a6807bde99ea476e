"""Releases of overlapping people over time: what someone learns who has all of them.

Each release may be anonymous by itself and still single people out together with an earlier one: someone who
knows that a person is in both only needs to look at those who share the person's class in both. Two models
limit this, and need to know who is in which class:

- Cross-release k-anonymity: for every person of the new release, at least k of its persons, themselves
  included, share their class in the new release and in each earlier one that the person is in. The earlier
  releases need no second look: a new release only changes what is known about its own persons.
    This is the strict reading, for an attacker who knows when everyone came and left (`departures: known`).
    If departures bring a class below k, it can never be met again unless the earlier release is retracted.
    An attacker who has a register of people and all releases, but does not know who left the table
    (`departures: unknown`), cannot exclude a person whose values lie in each class that the attacker
    considers. For at least k persons this must follow from the released cells: they were published in one
    class, and each box that this person was published with covers the whole box of that class. This then
    holds for any number of releases: the values of these persons lie in all boxes. It says nothing about
    values that two classes have in common: m-invariance does.
- m-invariance. Xiao, X., Tao, Y.: m-Invariance: Towards Privacy Preserving Re-publication of Dynamic
  Datasets. SIGMOD 2007. The signature of a person in a release is the set of sensitive values of the
  person's class; it must be the same in all releases that the person is in, with at least m values.

    Counterfeit records, which belong to no person, may complete a class's set; only persons count for k. A
    class whose counterfeits can be recognized counts for nothing, see
  `privacy_engine.verification.counterfeits`.

Deviation: the paper requires that no two records of a class share a sensitive value, which gives each of m
values the same weight. Here values may repeat unless the model is `unique`. Require `alpha_k_anonymity` with
alpha = 1 / m as well to limit the weight of the heaviest value.

Neither model covers what is learned from absence: if all of a class but one person come again, the one who
left is known to anyone who knows who left (the paper's critical absence, met there by counterfeits).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from privacy_engine.choice import choice
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.verification.models import OMIT_DEFAULT
from privacy_engine.verification.republication.class_values import ClassValues, people_of
from privacy_engine.vocabulary import COUNTERFEITS, Departures

if TYPE_CHECKING:  # policies are read when DAGs are parsed, and pandas loads slowly
    import pandas as pd

    from privacy_engine.tables.attribute import Attribute
    from privacy_engine.tables.classes import EquivalenceClasses
    from privacy_engine.tables.schema import DataSchema

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]


@dataclass(frozen=True, kw_only=True)
class Membership:
    """Who is in which class of one release. Counterfeit records belong to no person and are not included.

    Attributes:
        persons: Person of each released record, shape (n,), text or whole numbers; each person has one record
            in a release. If a person may have several records: the identifier of each record.
        labels: Class of each record, shape (n,), whole numbers >= 0.
        owners: Person of each record, shape (n,) int64, if a person may have several records: then persons
            are counted by these numbers, which are the same in all releases. None: each person has one
            record.
        signatures: Sensitive attribute -> (n,) text: a hash of the set of values in the person's class.
        sets: The same sets as JSON, a sorted list of the texts; only for releases with counterfeits.
        recognisable: Sensitive attribute -> (n,) whether it can be found out which values of the person's
            class are made up; empty if it never can.
        boxes: Released quasi-identifier -> (n,) text of the person's cell, None for a null; see
            `privacy_engine.verification.published_boxes`. Empty if not kept.
        counts: Sensitive attribute -> the multiset of values in each class, each value as a hash. Empty if
            not kept.
        values: Sensitive attribute -> (n,) int64, index of the person's own value in the texts of `counts`,
            -1 if unknown. Empty if not kept. For an earlier release, the values of persons in the new one are
            sufficient.
        register: Population at the time of the release: `persons`, and in `boxes` the text of each known
            value, such as `34`. None if there is no register.
    """

    persons: npt.NDArray[Any]
    labels: Ints
    owners: Ints | None = None
    signatures: Mapping[str, Texts] = field(default_factory=dict)
    sets: Mapping[str, Texts] = field(default_factory=dict)
    recognisable: Mapping[str, Bools] = field(default_factory=dict)
    boxes: Mapping[str, Texts] = field(default_factory=dict)
    counts: Mapping[str, ClassValues] = field(default_factory=dict)
    values: Mapping[str, Ints] = field(default_factory=dict)
    register: Membership | None = None

    def __post_init__(self) -> None:
        kinds = (self.signatures, self.sets, self.recognisable, self.boxes, self.values)
        owners = () if self.owners is None else (self.owners,)
        columns = (self.labels, *owners, *(column for columns in kinds for column in columns.values()))
        if not all(len(column) == len(self.persons) for column in columns):
            raise ValueError("labels, owners, signatures and cells must be one for each person")
        import pandas as pd

        if repeated := int(pd.Index(self.persons).duplicated().sum()):
            raise SchemaError(
                f"each person must have one record in a release, got {repeated} further records. Aggregate "
                "them first, or choose another identifier"
            )

    def __len__(self) -> int:
        return len(self.persons)

    @cached_property
    def first(self) -> Ints:
        """(c,) a row of each class 0 .. c - 1; any row for a number that no class has."""
        found = np.zeros(int(self.labels.max(initial=-1)) + 1, dtype=np.int64)
        found[self.labels] = np.arange(len(self.labels))
        return found

    @cached_property
    def people(self) -> Ints | None:
        """(n,) the owner of each record as a number 0 .. P - 1; None if each person has one record."""
        return None if self.owners is None else np.unique(self.owners, return_inverse=True)[1]

    @cached_property
    def sizes(self) -> Ints:
        """(c,) persons in each class 0 .. c - 1."""
        return people_of(self.labels, self.people)

    @classmethod
    def of_table(
        cls, persons: Texts, table: pd.DataFrame, schema: DataSchema, owners: Ints | None = None
    ) -> Membership:
        """Compute the classes of a released table from its columns only.

        Args:
            persons: Person of each row as text, shape (n,); None for counterfeit rows.
            table: Released records, from which the classes are computed.
            schema: Schema of the released records.
            owners: Owner of each record, as in the attributes.
        """
        from privacy_engine.tables.classes import EquivalenceClasses

        return cls.of_classes(persons, EquivalenceClasses.of_table(table, schema), table, schema, owners)

    @classmethod
    def of_classes(
        cls,
        persons: Texts,
        classes: EquivalenceClasses,
        table: pd.DataFrame,
        schema: DataSchema,
        owners: Ints | None = None,
    ) -> Membership:
        """Like `of_table`, for a table whose classes are known."""
        import pandas as pd

        from privacy_engine.tables.columns import NULL
        from privacy_engine.verification.counterfeits import recognisable, texts_of_sets, without_person
        from privacy_engine.verification.published_boxes import cell_texts

        labels, fake = classes.labels, without_person(persons)
        own = ~fake
        people = None if owners is None else np.unique(owners, return_inverse=True)[1]
        signatures, sets, seen, counts, values_of = {}, {}, {}, {}, {}
        for attribute in schema.sensitive:
            name = attribute.name
            values = [json.dumps(texts) for texts in texts_of_sets(labels, table[name], NULL)]
            if COUNTERFEITS in schema.names:  # a later release completes the sets; otherwise a hash is enough
                sets[name] = np.array(values, dtype=object)[labels[own]]
            signatures[name] = np.array([_digest(text) for text in values], dtype=object)[labels[own]]
            if fake.any():
                read = pd.Series(classes.sensitive[name].codes)  # the same for all spellings of a value
                known = recognisable(labels, table[name], fake) | recognisable(labels, read, fake)
                seen[name] = known[labels[own]]
            codes, texts = _compared(table[name], attribute, classes.sensitive[name].codes)
            counts[name] = ClassValues.of_records(labels, codes, texts, own, people)
            values_of[name] = codes[own]
        boxes = {name: texts[own] for name, texts in cell_texts(table, schema).items()}
        return cls(
            persons=persons[own],
            labels=labels[own],
            owners=None if owners is None else owners[own],
            signatures=signatures,
            sets=sets,
            recognisable=seen,
            boxes=boxes,
            counts=counts,
            values=values_of,
        )


@dataclass(frozen=True, kw_only=True)
class History:
    """A release that is to be published, and the earlier ones, which may share people with it.

    Attributes:
        new: Classes of the new release.
        earlier: Classes of the earlier releases.
        source: Schema of the released data, with which released cells are parsed; None: a cell covers only an
            equal one.
    """

    new: Membership
    earlier: tuple[Membership, ...] = ()
    source: DataSchema | None = None

    def __post_init__(self) -> None:
        known = {release.owners is not None for release in (*self.earlier, self.new) if len(release)}
        if len(known) > 1:
            raise VerificationError(
                "the owners of records must be known for all releases of a table or for none. "
                "Retract the releases that were made with another `person`, or publish under a new "
                "table name"
            )

    @property
    def registers(self) -> tuple[Membership, ...]:
        """The register of each release, the new one last; empty if a release has none."""
        releases = (*self.earlier, self.new)
        found = tuple(r.register for r in releases if r.register is not None)
        return found if len(found) == len(releases) else ()

    @cached_property
    def places(self) -> tuple[npt.NDArray[np.int32], ...]:
        """For each earlier release, (n,) the row of each person of the new one, -1 = not in it."""
        return tuple(map(self.place, range(len(self.earlier))))

    def place(self, i: int) -> npt.NDArray[np.int32]:
        """(n,) the row of each person of the new release in the i-th earlier one, -1 = not in it."""
        import pandas as pd

        rows = pd.Index(self.earlier[i].persons).get_indexer(pd.Index(self.new.persons))
        return np.asarray(rows, dtype=np.int32)

    @cached_property
    def classes(self) -> tuple[Ints, ...]:
        """For each earlier release, (n,) the class there of each person of the new one, -1 = not in it."""
        return tuple(map(self._classes_of, range(len(self.earlier))))

    def _classes_of(self, i: int) -> Ints:
        place, labels = self.place(i), self.earlier[i].labels
        return np.where(place >= 0, labels[place] if len(labels) else place, -1)

    @cached_property
    def shared(self) -> Ints:
        """(n,) the number of persons who share the class of each person in every release that this one is in.

        Persons with the same set of releases are counted together: they are distinguished by their classes in
        those releases, and anyone who is in all of them counts, whether in further releases or not.
        """
        return _sharing((*self.classes, self.new.labels), self.new.people)

    @cached_property
    def core(self) -> tuple[Ints, Ints]:
        """Find the class whose box lies within all boxes that a person was published with.

        Returns:
            sizes: Number of its persons, shape (n,), the largest of several such classes; 0 if there is none.
            releases: Its release, shape (n,): the index of the earlier release, or their number for the new
                one; -1 if there is none.
        """
        return cores((*self.classes, self.new.labels), (*self.earlier, self.new), self.source)

    def candidates(self, departures: Departures) -> Ints:
        """(n,) persons whom someone with all releases cannot distinguish from each one, itself included."""
        return self.shared if departures is Departures.KNOWN else np.maximum(self.shared, self.core[0])

    def changed(self, attribute: str) -> Bools:
        """(n,) whether a person's class had another set of sensitive values in an earlier release."""
        found = np.zeros(len(self.new), dtype=np.bool_)
        for release, place in zip(self.earlier, self.places, strict=True):
            both = np.flatnonzero(place >= 0)
            if attribute in release.signatures:
                was = release.signatures[attribute][place[both]]
                found[both] |= was != self.new.signatures[attribute][both]
            else:  # a value that was not released then may have been anything
                found[both] = True
        return found


def cores(
    labels: Sequence[Ints], releases: Sequence[Membership], source: DataSchema | None
) -> tuple[Ints, Ints]:
    """Find the class whose box lies within all boxes that a person was published with, for each person.

    Args:
        labels: For each release (n,) the class of each person there, -1 = not in it.
        releases: Classes of each release.
        source: Schema with which released cells are parsed; None: a cell covers only an equal one.

    Returns:
        As for `History.core`.
    """
    from privacy_engine.verification.published_boxes import BoxParser

    n = len(labels[0]) if labels else 0
    readings = [BoxParser(sorted(release.boxes), source) for release in releases if len(release)]
    subjects = [reading.subjects for reading in readings]
    if n == 0 or not subjects or not subjects[0] or any(own != subjects[0] for own in subjects):
        return np.zeros(n, np.int64), np.full(n, -1)
    group = _combined([column + 1 for column in labels])
    first = np.unique(group, return_index=True)[1]
    of_group = [column[first] for column in labels]  # persons with the same classes have the same answer
    reading, known = readings[0], next(set(release.boxes) for release in releases if len(release))
    cells, coded = reading.coded([_of_classes(release, known) for release in releases])
    # A box within all others is the smallest of them; of equal boxes the largest class counts.
    least, sizes = np.full(len(first), np.inf), np.zeros(len(first), np.int64)
    found = np.full(len(first), -1)
    for i, (mine, own) in enumerate(zip(of_group, coded, strict=True)):
        here = np.flatnonzero(mine >= 0)
        extent = reading.extents(cells, own)[mine[here]] if len(here) else np.zeros(0)
        held = releases[i].sizes[mine[here]] if len(here) else np.zeros(0, np.int64)
        better = (extent < least[here]) | ((extent == least[here]) & (held > sizes[here]))
        rows = here[better]
        least[rows], sizes[rows], found[rows] = extent[better], held[better], i
    box = np.zeros((len(first), coded[0].shape[1]), np.int64)
    for i, mine in enumerate(of_group):
        box[found == i] = coded[i][mine[found == i]]
    for mine, own in zip(of_group, coded, strict=True):
        pending = np.flatnonzero((mine >= 0) & (found >= 0))
        if len(pending):
            outside = pending[~reading.cover(cells, own[mine[pending]], box[pending])]
            found[outside], sizes[outside] = -1, 0
    return sizes[group], found[group]


class CrossReleaseModel(Protocol):
    """A requirement on every person of a release, together with the earlier ones."""

    name: ClassVar[str]

    @property
    def threshold(self) -> float:
        """The number that the measure must at least reach."""

    def per_person(self, history: History, classes: EquivalenceClasses) -> npt.NDArray[np.float64]:
        """(n,) the number of each person of the new release."""


@dataclass(frozen=True, kw_only=True)
class CrossReleaseKAnonymity:
    """At least k persons share the classes of each person in all releases that this person is in.

    Attributes:
        k: Least number of persons.
        departures: `known`: exactly this; `unknown`: or at least k persons were published in one class whose
            box lies within all boxes that this person was published with, whether or not they are still
            there.

    >>> CrossReleaseKAnonymity(k=1)
    Traceback (most recent call last):
    ValueError: k must be a whole number >= 2, got 1
    """

    k: int
    departures: Departures = Departures.KNOWN
    name: ClassVar[str] = "cross_release_k_anonymity"

    def __post_init__(self) -> None:
        _require_whole("k", self.k)
        object.__setattr__(self, "departures", choice(Departures, self.departures, "departures"))

    @property
    def threshold(self) -> float:
        """k."""
        return float(self.k)

    def per_person(self, history: History, classes: EquivalenceClasses) -> npt.NDArray[np.float64]:
        """(n,) persons who cannot be distinguished from each one, itself included."""
        return history.candidates(self.departures).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class MInvariance:
    """The class of each person has the same sensitive values in all its releases, at least m of them.

    If the classes are also unique, two values of a signature can be exchanged in all classes of all releases
    that are linked by persons, and every published class remains unchanged. So each value of the signature
    remains possible for each person, also for an attacker who subtracts one release from another.

    Attributes:
        m: Least number of distinct values.
        attribute: Name of the sensitive attribute; None for each of the table's.
        unique: Whether no two records of a class may have the same value, counterfeits among them (m-unique
            classes of the paper).
    """

    m: int
    attribute: str | None = None
    unique: bool = field(default=False, metadata=OMIT_DEFAULT)
    name: ClassVar[str] = "m_invariance"

    def __post_init__(self) -> None:
        _require_whole("m", self.m)
        if not isinstance(self.unique, bool):
            raise ValueError(f"unique must be true or false, got {self.unique}")

    @property
    def threshold(self) -> float:
        """m."""
        return float(self.m)

    def per_person(self, history: History, classes: EquivalenceClasses) -> npt.NDArray[np.float64]:
        """(n,) distinct values in the class of each person.

        0 if they differ from those of an earlier release, if it can be found out which of them are made up,
        or if classes must be unique and two records of the class have the same value.

        Raises:
            SchemaError: If the release has no such sensitive attribute.
        """
        names = (self.attribute,) if self.attribute is not None else tuple(classes.sensitive)
        if not names:
            raise SchemaError("m_invariance requires a sensitive attribute. Give one attribute that role")
        found = np.full(len(history.new), np.inf)
        for name in names:
            counts = classes.counts(name)
            distinct = np.bincount(counts.classes, minlength=len(classes)).astype(np.float64)
            if self.unique:
                distinct[counts.classes[counts.counts > 1]] = 0.0
            none = history.changed(name)
            if name in history.new.recognisable:
                none = none | history.new.recognisable[name]
            found = np.minimum(found, np.where(none, 0.0, distinct[history.new.labels]))
        return found


CROSS_RELEASE_MODELS: Mapping[str, type[Any]] = {
    model.name: model for model in (CrossReleaseKAnonymity, MInvariance)
}


def _of_classes(release: Membership, names: set[str]) -> Mapping[str, Texts]:
    """Released column -> (c,) the cell of each class; for a release without persons, no cells."""
    if not len(release):
        return dict.fromkeys(names, release.persons)
    return {name: texts[release.first] for name, texts in release.boxes.items()}


def _compared(
    column: pd.Series, attribute: Attribute, codes: npt.NDArray[np.int32]
) -> tuple[Ints, tuple[str, ...]]:
    """Return each record's value as an index among the distinct ones, and a hash of each of these.

    Args:
        column: Values, shape (n,).
        attribute: Attribute that the values belong to.
        codes: Number of each value, shape (n,), the same for all its spellings, in the order of the values.

    Returns:
        (n,) int64 indexes, ascending like the codes, and (v,) hashes, one for all spellings of a value.
    """
    from privacy_engine.tables.columns import NULL, factorize

    coded = factorize(column)
    forms = [*attribute.counted_as(coded.texts), NULL]
    first, places = np.unique(codes, return_index=True, return_inverse=True)[1:]
    return places.astype(np.int64), tuple(_digest(forms[code])[:16] for code in coded.codes[first].tolist())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _sharing(columns: Sequence[Ints], people: Ints | None = None) -> Ints:
    """(n,) the number of rows that agree with each row in all columns in which this row has a number.

    Columns are processed one after another, and rows with the same first columns together, so that many rows
    that lack only the first columns take few steps.

    Args:
        columns: Numbers, shape (n,) each; -1 = the row has none.
        people: Person of each row, shape (n,), 0 .. P - 1; if given, persons are counted instead of rows.
    """
    n = len(columns[0])
    found = np.zeros(n, dtype=np.int64)
    # Rows that have all columns processed so far, their groups, the indexes of those that have no further
    # column, and the next column.
    waiting = [(np.arange(n), np.zeros(n, np.int64), np.arange(n), len(columns) - 1)]
    while waiting:
        rows, groups, mine, j = waiting.pop()
        if j < 0:
            found[rows[mine]] = people_of(groups, None if people is None else people[rows])[groups[mine]]
            continue
        have = columns[j][rows[mine]] >= 0
        if not have.all():
            waiting.append((rows, groups, mine[~have], j - 1))
        if have.any():
            column = columns[j][rows]
            kept = column >= 0
            both = _combined([groups[kept], column[kept].astype(np.int64)])
            waiting.append((rows[kept], both, (np.cumsum(kept) - 1)[mine[have]], j - 1))
    return found


def _combined(columns: Sequence[Ints]) -> Ints:
    """(n,) one number for each distinct row of several columns, 0 .. c - 1."""
    import pandas as pd

    found = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        size = int(column.max(initial=0)) + 1
        found = pd.factorize(found * size + column)[0].astype(np.int64)
    return found


def _require_whole(symbol: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 2:
        raise ValueError(f"{symbol} must be a whole number >= 2, got {given}")
