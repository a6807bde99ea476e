"""The attacker who knows the quasi-identifiers of a whole population at every time, but not who left a table.

An example is an address register of each week. For a person in some releases, this attacker looks for all
others who may have the person's records there: whose known values fit the box of the class each time. An
attacker who also knows who arrived when excludes those who had not arrived yet, and sees how many records of
a class belong to arrivals: if these and the person fill it, no one else can be in it.

The population is a register, one for each release, or else all persons of all releases. In that case, for a
person who is not in a release, the box of the nearest release before it is known, or of the first one after
it.

Deviation: a person who is released in another class at that time is not counted, even if the two boxes
overlap, because another person would have to take their place there. So never more are found than there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import VerificationError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership
from privacy_engine.verification.published_boxes import BoxParser

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def candidates(history: History, registers: Sequence[Membership] = (), *, arrivals: bool) -> Ints:
    """Count the persons who may be each person of the new release.

    Args:
        history: Releases, with the released cells of each.
        registers: Population at the time of each release, the new one last: `persons`, and in `boxes` the
            text of each one's value, such as `34`. Only released cells of their attributes count. Empty: the
            persons of all releases.
        arrivals: Whether it is known who arrived in which release.

    Returns:
        (n,) persons who fit all classes of each one, itself included.

    Raises:
        VerificationError: If a release has no cells, or cells of other quasi-identifiers than the others, or
            registers are not one for each release, or are given although a person may have several records.
    """
    if registers and history.new.people is not None:
        raise VerificationError(
            "a register has one record per person, so it cannot be the population of a table in "
            "which a person may have several. Remove `population` from the attackers, or the register"
        )
    releases: Sequence[Membership] = (*history.earlier, history.new)
    if registers:
        known_of = [BoxParser(sorted(r.boxes), history.source).subjects for r in registers]
        known_by_all = frozenset.intersection(*known_of)
        releases, registers = (
            [_restricted(r, known_by_all, history.source) for r in group] for group in (releases, registers)
        )
    reading = _reading(releases, registers, history.source)
    people = pd.Index(np.concatenate([r.persons for r in (*releases, *registers)])).unique()
    present = np.full((len(releases), len(people)), -1)
    for i, release in enumerate(releases):
        present[i, people.get_indexer(pd.Index(release.persons))] = release.labels
    there = present >= 0
    since = np.where(there.any(axis=0), there.argmax(axis=0), len(releases))
    boxes = [_boxes(release, release.first) for release in releases]
    times = []
    for i, member in enumerate(present):
        if registers:
            row = pd.Index(registers[i].persons).get_indexer(people)
            known = [registers[i].boxes]
        else:
            row, known = _last_known(present, i), boxes
        cells, coded = reading.coded([boxes[i], *known])
        certain = (since == i) & arrivals
        spare = member[(member >= 0) & ~certain]
        times.append(
            _Time(
                member=member,
                absent=(member < 0) & (row >= 0) & (~arrivals | (since <= i)),
                row=row,
                covered=_covered(reading, cells, coded[0], np.concatenate(coded[1:])),
                inner=np.concatenate(coded[1:]),
                outer=coded[0],
                spare=np.bincount(spare, minlength=len(coded[0])),
            )
        )
    mine, owner = people.get_indexer(pd.Index(history.new.persons)), _owners(people, history)
    sequences, which = np.unique(present[:, mine], axis=1, return_inverse=True)
    counts = np.zeros(sequences.shape[1], dtype=np.int64)
    for j, sequence in enumerate(sequences.T.tolist()):
        seen = [i for i, label in enumerate(sequence) if label >= 0]
        fits = [times[i].fits(sequence[i], not arrivals or i > seen[0]) for i in seen]
        found = np.logical_and.reduce(fits)
        counts[j] = found.sum() if owner is None else len(np.unique(owner[found]))
    return counts[which.ravel()]


@dataclass(frozen=True, kw_only=True)
class _Time:
    """The possible members of each class of one release.

    Attributes:
        member: Class of each person of the population, shape (p,), -1 = not in the release.
        absent: Whether each person is not in the release but might be, shape (p,).
        row: Row of each person's known values, shape (p,), -1 = none.
        outer: Box of each class as codes of cells, shape (c, columns).
        inner: Known values as codes of cells, shape (r, columns).
        covered: For each column, which cell covers which.
        spare: Number of members of each class whose presence is not certain, shape (c,).
    """

    member: Ints
    absent: Bools
    row: Ints
    outer: Ints
    inner: Ints
    covered: Sequence[Bools]
    spare: Ints

    def fits(self, label: int, own: bool) -> Bools:
        """(p,) whether each person may be in a class together with one of its members.

        Args:
            label: Number of the class.
            own: Whether that member's presence is not certain.
        """
        found: Bools = self.member == label
        if self.spare[label] - own < 1:
            return found
        within = np.ones(len(self.inner), dtype=np.bool_)
        for j, covered in enumerate(self.covered):
            within &= covered[self.outer[label, j], self.inner[:, j]]
        absent = np.flatnonzero(self.absent)
        found[absent] = within[self.row[absent]]
        return found


def _restricted(release: Membership, attributes: frozenset[str], source: DataSchema | None) -> Membership:
    """Return a release with the cells of some attributes only."""
    columns = BoxParser(sorted(release.boxes), source).columns
    kept = [c.names for c in columns if (c.attribute.name if c.attribute else c.names[0]) in attributes]
    boxes = {name: release.boxes[name] for names in kept for name in names}
    return Membership(persons=release.persons, labels=release.labels, boxes=boxes)


def _reading(
    releases: Sequence[Membership], registers: Sequence[Membership], source: DataSchema | None
) -> BoxParser:
    if registers and len(registers) != len(releases):
        raise VerificationError(
            f"registers must be one for each release, got {len(registers)} for {len(releases)} releases"
        )
    readings = [BoxParser(sorted(r.boxes), source) for r in (*releases, *registers) if len(r)]
    if not readings or not readings[0].subjects or any(r.subjects != readings[0].subjects for r in readings):
        raise VerificationError(
            "the cells of all releases must have been kept, for the same quasi-identifiers. Retract "
            "the older releases, or remove `population` from the attackers"
        )
    return readings[-1]


def _owners(people: pd.Index, history: History) -> Ints | None:
    """(p,) the person of each record; None if each person has one record."""
    if history.new.owners is None:
        return None
    found = np.zeros(len(people), dtype=np.int64)
    for release in (*history.earlier, history.new):
        if release.owners is not None:
            found[people.get_indexer(pd.Index(release.persons))] = release.owners
    return found


def _boxes(release: Membership, rows: Ints) -> Mapping[str, npt.NDArray[np.object_]]:
    """Return the cells of some rows."""
    return {name: texts[rows] for name, texts in release.boxes.items()}


def _last_known(present: Ints, i: int) -> Ints:
    """(p,) the class of each person in the i-th release, or the nearest before, or else the first after.

    Classes are numbered across all releases.
    """
    sizes = present.max(axis=1, initial=-1) + 1
    starts = np.cumsum(sizes) - sizes
    found = np.full(present.shape[1], -1)
    for j in (*range(i, -1, -1), *range(i + 1, len(present))):
        fill = (found < 0) & (present[j] >= 0)
        found[fill] = starts[j] + present[j, fill]
    return found


def _covered(
    reading: BoxParser, cells: list[list[tuple[str | None, ...]]], outer: Ints, inner: Ints
) -> list[Bools]:
    """Return for each column which cell of a class covers which known one."""
    found = []
    for j, column in enumerate(reading.columns):
        table = np.zeros((len(cells[j]), len(cells[j])), dtype=np.bool_)
        within = np.unique(inner[:, j]).tolist()
        for wide in np.unique(outer[:, j]).tolist():
            table[wide, within] = [column.covers(cells[j][wide], cells[j][narrow]) for narrow in within]
        found.append(table)
    return found
