"""What each attacker who has all releases of a table is left with, for every person of the new one.

- identity: knows a person's quasi-identifiers, and which releases the person is in. The person's value is one
  that the person's class has in each of these releases, and the record one of the class's with such a value.
- membership: knows that about everyone. The person is one of those who share the class in each release that
  the person is in.
- difference: membership, and subtracts an earlier release from the new one, see `components` and `exchange`.
- correction: difference, and knows whose value was corrected. A corrected record counts as a departure and
  an arrival of the same person.

The attacker with a register of the population is in `population`. A person who returns is an arrival if a
release without them is subtracted, and stayed if a release with them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.classes import CountedClasses, EquivalenceClasses, SensitiveValues
from privacy_engine.tables.persons import count_persons
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.republication.class_values import ClassValues, Small, people_of
from privacy_engine.verification.republication.components import Groups, Pair
from privacy_engine.verification.republication.exchange import spread, values_left
from privacy_engine.verification.republication.value_sets import fewest_sets, possible_sets

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_BITS = 62  # values in one word


@dataclass(frozen=True, kw_only=True)
class GroupsLeft:
    """The arrivals, or the departures, of each component of two releases.

    Attributes:
        counted: Persons and known sensitive values of each group.
        values: Sensitive attribute -> (g,) the fewest values that remain possible for one of its persons. An
            attacker who knows the other side knows the group's multiset, so these are values of the group. If
            a person may have several records, sets of values if these are fewer.
        place: Group of each person of the new release, shape (n,), -1 = none; for arrivals the group of those
            who arrived, for departures the group of all who are in a class of the component.
    """

    counted: CountedClasses
    values: Mapping[str, Ints]
    place: Ints

    @property
    def sizes(self) -> Ints:
        """(g,) persons of each group."""
        return self.counted.sizes


@dataclass(frozen=True, kw_only=True)
class Left:
    """What an attacker is left with.

    Attributes:
        persons: Number of persons, shape (n,), among whom each one of the new release is hidden, itself
            included.
        values: Sensitive attribute -> (n,) number of values that remain possible for each one.
        groups: Arrivals and departures, for an attacker who subtracts.
    """

    persons: Ints
    values: Mapping[str, Ints]
    groups: tuple[GroupsLeft, ...] = field(default=())


def by_intersection(history: History, names: Sequence[str]) -> tuple[Left, Left]:
    """Return what is left to an attacker who knows one person, and to one who knows who is in which release.

    Args:
        history: Releases. Earlier ones without the values of their classes reveal nothing.
        names: Names of the sensitive attributes.

    Returns:
        The results for the attackers `identity` and `membership`.
    """
    persons, values = _class_sizes(history), {}
    for name in names:
        values[name], records = _intersection(history, name)
        persons = np.minimum(persons, records)
    return Left(persons=persons, values=values), Left(persons=history.shared, values=values)


def subtractions(
    history: History, classes: EquivalenceClasses, names: Sequence[str], *, window: int
) -> Iterator[Subtraction]:
    """Yield the subtraction of each earlier release in the window from the new one.

    Args:
        history: History of the releases, the new one included.
        classes: Classes of the new release, counterfeits included.
        names: Sensitive attributes. Values of departures are judged if the earlier release has the values of
            its classes, corrections if it has those of its persons.
        window: Number of earlier releases, the newest ones.
    """
    for i in range(max(len(history.earlier) - window, 0), len(history.earlier)):
        yield Subtraction.of(history, i, classes, names)


@dataclass(frozen=True, kw_only=True)
class Subtraction:
    """An earlier release that is subtracted from the new one; the values of both have the same codes.

    Attributes:
        pair: Persons of both releases.
        new_values: Sensitive attribute -> (n,) code of each person of the new release.
        old_values: The same for the old release, (n,) each, -1 for persons who are not in it. An attribute is
            absent if the value of a person of both is unknown.
        old_counts: Sensitive attribute -> multiset of each old class, with the codes.
        sensitive: Sensitive attribute -> its distribution in the new release.
    """

    pair: Pair
    new_values: Mapping[str, Ints]
    old_values: Mapping[str, Ints]
    old_counts: Mapping[str, ClassValues]
    sensitive: Mapping[str, SensitiveValues]

    @property
    def corrected(self) -> bool:
        """Whether a person of both releases is known to have another value now."""
        return self.pair.corrected is not None and bool(self.pair.corrected.any())

    def left(self, least: int, *, corrections: bool = False) -> Left:
        """Return what is left to an attacker who subtracts.

        Args:
            least: Required number of values; the search stops there.
            corrections: Whether this attacker knows who was corrected.
        """
        return self._left(self.pair.apart if corrections else self.pair, least)

    @classmethod
    def of(cls, history: History, i: int, classes: EquivalenceClasses, names: Sequence[str]) -> Subtraction:
        """Build it for the i-th earlier release; arguments as for `subtractions`."""
        new, release, place = history.new, history.earlier[i], history.place(i)
        stayed = place >= 0
        gone = np.ones(len(release), dtype=np.bool_)
        gone[place[stayed]] = False
        own, old, counts, sensitive = {}, {}, {}, {}
        corrected = None
        for name in names:
            canon = np.unique(classes.sensitive[name].codes).astype(np.int64)
            own[name] = canon[new.values[name]]
            codes, size = _codes(new.counts[name].texts, canon, release, name, classes)
            sensitive[name] = _padded(classes, name, size)
            if name not in release.counts:
                continue
            found = release.counts[name]
            counts[name] = replace(found, values=codes[found.values].astype(np.int32))
            before = _before(release, name, place, codes)
            if before is not None:
                old[name] = before
                changed = stayed & (before != own[name])
                corrected = changed if corrected is None else corrected | changed
        pair = Pair(
            new=new.labels,
            old=history.classes[i],
            gone=release.labels[gone],
            old_classes=int(release.labels.max(initial=-1)) + 1,
            new_classes=int(new.labels.max(initial=-1)) + 1,
            corrected=corrected if len(old) == len(names) else None,
            people=new.people,
            gone_people=None if release.people is None else release.people[gone],
            old_people=None if release.people is None else release.people[place],
        )
        return cls(pair=pair, new_values=own, old_values=old, old_counts=counts, sensitive=sensitive)

    def _left(self, pair: Pair, least: int) -> Left:
        arrived, stayed = np.flatnonzero(pair.old < 0), np.flatnonzero(pair.old >= 0)
        old_component, new_component = pair.components[0], pair.components[1][pair.new]
        arrivals, departures = pair.arrivals, pair.departures
        place = np.full(len(pair.new), -1)
        place[arrived] = arrivals.place(new_component[arrived])
        persons = people_of(pair.cells[1], pair.people)[pair.cells[1]]
        persons[arrived] = arrivals.sizes[place[arrived]]
        values, came, went = {}, {}, {}
        for name, codes in self.new_values.items():
            values[name] = values_left(pair.old, pair.new, codes, least)
            sets = self._sets_of_arrivals(pair, place[arrived], name, least)
            came[name] = _Members(place[arrived], codes[arrived], values[name][arrived], sets)
            if name in self.old_counts:
                gone, gone_codes = self._gone(pair, name)
                possible = values_left(
                    np.concatenate([pair.old[stayed], gone]),
                    np.concatenate([pair.new[stayed], np.full(len(gone), -1)]),
                    np.concatenate([codes[stayed], gone_codes]),
                    least,
                )
                values[name][stayed] = np.minimum(values[name][stayed], possible[: len(stayed)])
                at = departures.place(old_component[gone])
                sets = self._sets_of_departures(pair, at, (gone, gone_codes), least)
                went[name] = _Members(at, gone_codes, possible[len(stayed) :], sets)
        return Left(
            persons=persons,
            values=values,
            groups=(
                self._groups(arrivals, came, place),
                self._groups(departures, went, departures.place(new_component)),
            ),
        )

    def _sets_of_arrivals(self, pair: Pair, place: Ints, name: str, least: int) -> Ints | None:
        """(g,) the fewest sets of values of each group; None if each person has one record.

        Args:
            pair: Persons of both releases.
            place: Group of each arrival, shape (p,).
            name: Name of the sensitive attribute.
            least: Required number of values; the search stops there.
        """
        if pair.people is None:
            return None
        arrived = pair.old < 0
        people, classes, codes = (
            column[arrived] for column in (pair.people, pair.new, self.new_values[name])
        )
        size = self.sensitive[name].size
        return np.minimum(
            count_persons(place, people, codes.astype(np.int32), size).fingerprints,
            possible_sets(place, classes, people, (classes, codes), least, len(pair.arrivals)),
        )

    def _sets_of_departures(
        self, pair: Pair, place: Ints, gone: tuple[Ints, Ints], least: int
    ) -> Ints | None:
        """(g,) the same for departures, whose assignment of values to records is unknown.

        Args:
            pair: Persons of both releases.
            place: Group of each value that left, shape (p,).
            gone: Old class and code of each value, (p,) each, from `_gone`.
            least: Required number of values; the search stops there.
        """
        if pair.gone_people is None:
            return None
        groups, size = pair.departures.place(pair.components[0][pair.gone]), len(pair.departures)
        return np.minimum(
            fewest_sets(groups, pair.gone_people, (place, gone[1]), size),
            possible_sets(groups, pair.gone, pair.gone_people, gone, least, size),
        )

    def _gone(self, pair: Pair, name: str) -> tuple[Ints, Ints]:
        """Return the old class and the value of each departure.

        These are the values of the class less those of its persons who stayed. If the old values of persons
        were not kept, none of them counts as corrected.
        """
        found, size = self.old_counts[name], self.sensitive[name].size
        total = np.zeros(pair.old_classes * size, dtype=np.int64)
        records = (
            found.persons if pair.people is None else found.records
        )  # with persons there are no counterfeits
        total[found.classes.astype(np.int64) * size + found.values] = records
        stayed = np.flatnonzero(pair.old >= 0)
        was = self.old_values.get(name, self.new_values[name])[stayed]
        keys = pair.old[stayed].astype(np.int64) * size + was
        rest = np.maximum(total - np.bincount(keys, minlength=len(total)), 0)
        left = np.bincount(pair.gone, minlength=pair.old_classes) > 0
        rest[~np.repeat(left, size)] = 0
        rows = np.repeat(np.arange(len(rest)), rest)
        return rows // size, rows % size

    def _groups(self, groups: Groups, members: Mapping[str, _Members], place: Ints) -> GroupsLeft:
        counted, values = {}, {}
        for name, of in members.items():
            size = self.sensitive[name].size
            keys, counts = np.unique(of.place * size + of.codes, return_counts=True)
            counted[name] = (keys // size, keys % size, counts)
            values[name] = np.full(len(groups), np.iinfo(np.int64).max)
            np.minimum.at(values[name], of.place, of.left)
            if of.sets is not None:
                values[name] = np.minimum(values[name], of.sets)
        known = {name: self.sensitive[name] for name in counted}
        return GroupsLeft(
            counted=CountedClasses.of_entries(groups.sizes, counted, known), values=values, place=place
        )


@dataclass(frozen=True)
class _Members:
    """The records of groups.

    Attributes:
        place: Group of each record, shape (p,).
        codes: Code of its value, shape (p,).
        left: Number of values that remain possible for it, shape (p,).
        sets: Sets of values left for the persons of each group, shape (g,); None: each has one record.
    """

    place: Ints
    codes: Ints
    left: Ints
    sets: Ints | None = None


def _before(release: Membership, name: str, place: Ints | Small, codes: Ints) -> Ints | None:
    """(n,) the code of each person's value in an old release, -1 if they are not in it.

    None if the value of one of them is unknown.
    """
    found, stayed = np.full(len(place), -1), np.flatnonzero(place >= 0)
    if name not in release.values:
        return None
    own = release.values[name][place[stayed]]
    if (own < 0).any():
        return None
    found[stayed] = codes[own]
    return found


def _codes(
    texts: Sequence[str], canon: Ints, release: Membership, name: str, classes: EquivalenceClasses
) -> tuple[Ints, int]:
    """(v,) the code of each value of an old release, and the number of codes: values only it has are last."""
    size = classes.sensitive[name].size
    if name not in release.counts:
        return np.zeros(0, np.int64), size
    known = dict(zip(texts, canon.tolist(), strict=True))
    for text in release.counts[name].texts:
        if text not in known:
            known[text] = size
            size += 1
    return np.array([known[text] for text in release.counts[name].texts], dtype=np.int64), size


def _padded(classes: EquivalenceClasses, name: str, size: int) -> SensitiveValues:
    """Return the distribution of an attribute in the new release, 0 for values that it does not have."""
    prior = classes.counts(name).prior
    return SensitiveValues(
        column=pd.Series(dtype=object),
        codes=np.zeros(0, np.int32),
        size=size,
        counts=np.zeros(0, np.int64),
        hierarchy=classes.sensitive[name].hierarchy,
        weights=np.concatenate([prior, np.zeros(size - len(prior))]),
    )


def _class_sizes(history: History) -> Ints:
    """(n,) the number of persons in the smallest class that each person was released in."""
    found = history.new.sizes[history.new.labels]
    for release, column in zip(history.earlier, history.classes, strict=True):
        here = np.flatnonzero(column >= 0)
        found[here] = np.minimum(found[here], release.sizes[column[here]])
    return found


def _intersection(history: History, name: str) -> tuple[Ints, Ints]:
    """Return the values that all classes of each person have, and the fewest records with them in a class.

    Classes are as published, counterfeits included. If the counterfeits of a class can be recognized, none of
    its values counts.

    Returns:
        (n,) values, and (n,) records; if a person may have several, a lower bound on persons.
    """
    n = len(history.new)
    columns = [(history.new.labels, history.new)]
    columns += [
        (column, release)
        for release, column in zip(history.earlier, history.classes, strict=True)
        if name in release.counts
    ]
    place: dict[str, int] = {}
    codes = [
        np.array([place.setdefault(text, len(place)) for text in release.counts[name].texts], dtype=np.int64)
        for _, release in columns
    ]
    words = max(-(-len(place) // _BITS), 1)
    possible = np.full((n, words), -1, dtype=np.int64)
    masks = [
        _masks(release.counts[name], code, words) for (_, release), code in zip(columns, codes, strict=True)
    ]
    for (labels, _), mask in zip(columns, masks, strict=True):
        here = np.flatnonzero(labels >= 0)
        possible[here] &= mask[labels[here]]
    values = np.bitwise_count(possible).astype(np.int64).sum(axis=1)
    records = np.full(n, np.iinfo(np.int64).max)
    for (labels, release), code, mask in zip(columns, codes, masks, strict=True):
        here, counts = np.flatnonzero(labels >= 0), release.counts[name]
        total = np.bincount(counts.classes, weights=counts.records).astype(np.int64)
        sizes = None if release.people is None else release.sizes
        found = (total if sizes is None else sizes)[labels[here]]
        fewer = np.flatnonzero((possible[here] != mask[labels[here]]).any(axis=1))
        if len(fewer):
            rows = here[fewer]
            found[fewer] = _records_among(counts, code, labels[rows], possible[rows], sizes)
        records[here] = np.minimum(records[here], found)
    if name in history.new.recognisable:
        values = np.where(history.new.recognisable[name], 0, values)
    return values, records


def _masks(counts: ClassValues, codes: Ints, words: int) -> Ints:
    """(c, words) one bit for each value of each class."""
    found = np.zeros((int(counts.classes.max(initial=-1)) + 1, words), dtype=np.int64)
    word, bit = np.divmod(codes[counts.values], _BITS)
    np.bitwise_or.at(found, (counts.classes, word), np.int64(1) << bit)
    return found


def _records_among(
    counts: ClassValues, codes: Ints, labels: Ints, possible: Ints, sizes: Ints | None
) -> Ints:
    """(m,) the number of records of each class with one of the possible values, a row of words for each.

    Given the persons of each class, a lower bound on persons: it is unknown who has several of the values.
    They are no fewer than those with the most frequent value, and no fewer than all but those with any other
    value.
    """
    keys = np.column_stack([labels.astype(np.int64), possible])
    queries, which = np.unique(keys, axis=0, return_inverse=True)
    row, entry = spread(counts.classes, queries[:, 0])
    word, bit = np.divmod(codes[counts.values[entry]], _BITS)
    held = (queries[row, 1 + word] >> bit) & 1
    if sizes is None:
        found = np.bincount(row, weights=counts.records[entry] * held, minlength=len(queries)).astype(
            np.int64
        )
    else:
        persons = counts.persons[entry].astype(np.int64)
        others = np.bincount(row, weights=persons * (1 - held), minlength=len(queries)).astype(np.int64)
        found = sizes[queries[:, 0]] - others
        np.maximum.at(found, row, persons * held)
    return found[which.ravel()]
