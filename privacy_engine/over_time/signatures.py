"""Signatures: which sensitive values a person's class is to have in all releases, planned for the long run.

Xiao, X., Tao, Y.: m-Invariance: Towards Privacy Preserving Re-publication of Dynamic Datasets. SIGMOD 2007.
There a person keeps the set of values of the first class they were in, whichever these were. So many sets
arise that hardly anybody is left to make a class with once people leave. Here persons are divided into few
buckets before, each of one signature, and classes are made within buckets.

The more people a bucket has, the nearer its neighbours are; and the more alike the counts of its values are,
the seldomer a class lacks one. Both hold where values are taken in the order of their frequency, m at a time:
no other division of values into sets of m has buckets of a larger sum of squares. The rarest values, if they
are fewer than m, borrow some people of the next ones.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy_engine.judge.cross_release import History
from privacy_engine.over_time.earlier_boxes import Texts
from privacy_engine.grouping.boxes import Ints

Signature = tuple[str, ...]


@dataclass(frozen=True)
class Buckets:
    """Who has which signature.

    Attributes:
        of: (n,) int64, the place of each person's signature, -1 = none that has the person's value.
        signatures: sorted texts of their values.
    """

    of: Ints
    signatures: tuple[Signature, ...]


def buckets_of(history: History, attribute: str, values: Texts, m: int, least: int) -> Buckets:
    """The signatures of persons: those that they have, and of newcomers those that fit them best.

    Args:
        history: of the persons.
        attribute: the sensitive attribute.
        values: (n,) text of each person's value.
        m: values of a signature.
        least: persons of a class that is made for the first time.
    """
    held = _held(history, attribute)
    places: dict[Signature, int] = {}
    for signature in held:
        if signature:
            places.setdefault(signature, len(places))
    of = np.array([-1 if not s or v not in s else places[s] for s, v in zip(held, values, strict=True)])
    new = np.array([s is None for s in held], np.bool_)
    counts = [Counter(values[of == place].tolist()) for place in range(len(places))]
    without = []
    for row in np.flatnonzero(new).tolist():  # one step a newcomer
        place = _lacking_most(values[row], list(places), counts)
        if place < 0:
            without.append(row)
        else:
            of[row] = place
            counts[place][values[row]] += 1
    mates = [row for row in np.flatnonzero(new).tolist() if of[row] >= 0]
    for signature, rows in _planned(without, mates, values, m, least):
        of[rows] = places.setdefault(signature, len(places))
    return Buckets(of, tuple(places))


def _held(history: History, attribute: str) -> list[Signature | None]:
    """(n,) the signature of each person; None of a newcomer, empty where it was not kept or has changed."""
    found: list[Signature | None] = [None] * len(history.new)
    for release, place in zip(history.earlier, history.places, strict=True):
        known: dict[str, Signature] = {}
        sets = release.sets.get(attribute)
        for row in np.flatnonzero(place >= 0).tolist():
            text = "[]" if sets is None or sets[place[row]] is None else sets[place[row]]
            own = known.setdefault(text, tuple(json.loads(text)))
            found[row] = own if found[row] in (None, own) else ()
    return found


def _lacking_most(value: str, signatures: Sequence[Signature], counts: Sequence[Counter[str]]) -> int:
    """The place of the signature, among those with a value, that has the least share of it; -1: none."""
    having = [place for place, signature in enumerate(signatures) if value in signature]
    return min(having, key=lambda p: (counts[p][value] / max(counts[p].total(), 1), p), default=-1)


def _planned(
    without: Sequence[int], mates: Sequence[int], values: Texts, m: int, least: int
) -> list[tuple[Signature, list[int]]]:
    """New signatures and their people.

    Args:
        without: rows of those whose value is in no signature.
        mates: rows of other newcomers, who may be borrowed.
        values, m, least: as of `buckets_of`.
    """
    people: dict[str, list[int]] = {}
    for row in (*without, *mates):
        people.setdefault(str(values[row]), []).append(row)
    own = {str(values[row]) for row in without}
    order = sorted(own, key=lambda value: (-len(people[value]), value))
    groups = [order[i : i + m] for i in range(0, len(order), m)]
    found = []
    for group in groups:
        lent: list[str] = []
        if len(group) < m:  # the next rarest, and of them as many people as the others have
            rarer = [v for v in sorted(people, key=lambda v: (len(people[v]), v)) if v not in group]
            enough = [v for v in rarer if len(people[v]) > 1][: m - len(group)]
            if len(enough) < m - len(group):
                continue
            lent = enough
        have = sum(len(people[v]) for v in group)
        most = max(len(people[v]) for v in group)
        share = max(most, -(-(least - have) // len(lent))) if lent else 0
        rows = [row for v in group for row in people[v]]
        for value in lent:
            take = people[value][:share] if value not in own else people[value][: len(people[value]) // 2]
            take = take[:share]
            people[value] = people[value][len(take) :]
            rows += take
        if len(rows) >= least:
            found.append((tuple(sorted([*group, *lent])), rows))
    # Who was lent to a later group belongs to that alone.
    taken: set[int] = set()
    alone = []
    for signature, rows in reversed(found):
        alone.append((signature, [row for row in rows if row not in taken]))
        taken |= set(rows)
    return alone[::-1]
