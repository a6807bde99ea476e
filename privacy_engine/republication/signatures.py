"""Signatures: the sensitive values that a person's class has in all releases, planned for the long run.

Xiao, X., Tao, Y.: m-Invariance: Towards Privacy Preserving Re-publication of Dynamic Datasets. SIGMOD 2007.
There a person keeps the set of values of their first class, whichever it was. This makes a large number of
sets, and once people leave, hardly anyone remains to form a class with. Here persons are first divided into a
few buckets, each of one signature, and classes are made within buckets.

A class of one signature needs people of each of its values near each other, and values depend on
quasi-identifiers: managers and labourers differ in their education. So signatures are planned in regions of
similar people: the m values that most people of a region have, with as many people of each as a class can
have for its rarest value, and again with the remaining people. Signatures of too few people over all regions
are given up for those that stay. Before that, rare values are put into signatures with some people of
frequent ones. Newcomers get the signature, among those with their value, of the nearest person; if their
value is in none, they are planned for as the first people were, and get none if they are too few.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privacy_engine.compiled import kernel
from privacy_engine.recoding.grouping.boxes import Codes, Ints, Space, box_cost, enlarge, tabulate
from privacy_engine.registry import load_method
from privacy_engine.republication.earlier_boxes import KnownBoxes, Texts
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.verification.cross_release import History

Signature = tuple[str, ...]
REGION = 20  # times the persons of a class
FEWEST = 4  # the same, of a signature that is planned


@dataclass(frozen=True)
class Buckets:
    """Who has which signature.

    Attributes:
        of: Place of each person's signature, -1 = none that has the person's value, shape (n,) int64.
        signatures: Sorted texts of their values.
    """

    of: Ints
    signatures: tuple[Signature, ...]


def buckets_of(
    known: KnownBoxes, attribute: str, values: Texts, m: int, least: int, rng: np.random.Generator
) -> Buckets:
    """The signatures of persons: those that they have, and of newcomers those that fit them best.

    Args:
        known: Persons with their earlier releases.
        attribute: Name of the sensitive attribute.
        values: Value of each person, shape (n,) text.
        m: Values of a signature.
        least: Persons of a class that is made for the first time.
        rng: Source of randomness for the cuts into regions.
    """
    held = held_signatures(known.history, attribute)
    places: dict[Signature, int] = {}
    for signature in filter(None, held):
        places.setdefault(signature, len(places))
    of = np.array([-1 if not s or v not in s else places[s] for s, v in zip(held, values, strict=True)])
    new = np.flatnonzero([s is None for s in held])
    first = not places
    _plan_rare(new, values, m, least, of, places)
    if first:
        for region in _regions(known.encoded, new[of[new] < 0], REGION * least, rng):
            _plan(region, values, m, least, of, places)
        _give_up_small(of, list(places), FEWEST * least)
    _join_nearest(known.encoded, new[of[new] < 0], values, of, list(places))
    _plan(new[of[new] < 0], values, m, least, of, places)
    if first and places and (left := new[of[new] < 0]).size:  # the last resort: the smallest takes them in
        sizes = np.bincount(of[of >= 0], minlength=len(places))
        smallest = int(np.argmin(np.where(sizes > 0, sizes, len(of) + 1)))
        of[left] = smallest
        wider = tuple(sorted({*list(places)[smallest], *values[left].tolist()}))
        places = {wider if place == smallest else s: place for s, place in places.items()}
    return Buckets(of, tuple(places))


def held_signatures(history: History, attribute: str) -> list[Signature | None]:
    """(n,) the signature of each person; None for a newcomer, empty if it was not kept or has changed."""
    found: list[Signature | None] = [None] * len(history.new)
    for release, place in zip(history.earlier, history.places, strict=True):
        known: dict[str, Signature] = {}
        sets = release.sets.get(attribute)
        for row in np.flatnonzero(place >= 0).tolist():
            text = "[]" if sets is None or sets[place[row]] is None else sets[place[row]]
            own = known.setdefault(text, tuple(json.loads(text)))
            found[row] = own if found[row] in (None, own) else ()
    return found


def _regions(encoded: EncodedTable, rows: Ints, least: int, rng: np.random.Generator) -> list[Ints]:
    """Return rows in regions of similar people, at least a number of them in each."""
    if len(rows) < 2 * least:
        return [rows]
    labels = load_method("mondrian", k=least).anonymize(encoded.take(rows), rng).labels
    return [rows[labels == label] for label in range(int(labels.max()) + 1)]


def _plan(rows: Ints, values: Texts, m: int, least: int, of: Ints, places: dict[Signature, int]) -> None:
    """Give people of a region signatures, as long as there are enough with m values."""
    left: dict[str, list[int]] = {}
    for row in rows.tolist():
        left.setdefault(str(values[row]), []).append(row)
    while True:
        most = sorted((v for v in left if left[v]), key=lambda v: (-len(left[v]), v))[:m]
        if len(most) < m:
            return
        room = _room(m, least) * len(left[most[-1]])
        taken = [row for value in most for row in left[value][:room]]
        if len(taken) < least:
            return
        of[taken] = places.setdefault(tuple(sorted(most)), len(places))
        for value in most:
            left[value] = left[value][room:]


def _plan_rare(rows: Ints, values: Texts, m: int, least: int, of: Ints, places: dict[Signature, int]) -> None:
    """Give people with values that few have, and no signature, one with some people of frequent values."""
    people: dict[str, list[int]] = {}
    for row in rows.tolist():
        people.setdefault(str(values[row]), []).append(row)
    known = {value for signature in places for value in signature}
    order = sorted(people, key=lambda v: (len(people[v]), v))
    few = [v for v in order if v not in known and m * len(people[v]) < FEWEST * least]
    frequent = [v for v in reversed(order) if v not in few]
    for start in range(0, len(few), m - 1):
        rare = few[start : start + m - 1]
        lent = frequent[: m - len(rare)]
        if len(lent) < m - len(rare):
            return
        have = sum(len(people[v]) for v in rare)
        share = max(_room(m, least) * min(len(people[v]) for v in rare), -(-(least - have) // len(lent)))
        taken = {v: people[v] for v in rare}
        taken |= {v: people[v][: min(share, len(people[v]) // 2)] for v in lent}
        if sum(map(len, taken.values())) < least:
            return
        place = places.setdefault(tuple(sorted(taken)), len(places))
        for value, own in taken.items():
            of[own] = place
            people[value] = people[value][len(own) :]


def _give_up_small(of: Ints, signatures: Sequence[Signature], least: int) -> None:
    """Take small signatures back, the smallest first, as long as each of their values is in another."""
    sizes = np.bincount(of[of >= 0], minlength=len(signatures))
    having = Counter(value for signature in signatures for value in signature)
    for place in np.argsort(sizes, kind="stable").tolist():
        if sizes[place] < least and all(having[value] > 1 for value in signatures[place]):
            of[of == place] = -1
            having.subtract(signatures[place])


def _room(m: int, least: int) -> int:
    """Return how many people of each other value a class can have for one of its rarest."""
    return max(1, (least - 1) // (m - 1))


def _join_nearest(
    encoded: EncodedTable, rows: Ints, values: Texts, of: Ints, signatures: Sequence[Signature]
) -> None:
    """Give newcomers the signature, with their value, of the nearest person who has one."""
    space, codes = tabulate(encoded.geometry()), np.ascontiguousarray(encoded.codes, np.int32)
    having = np.flatnonzero(of >= 0)
    for value in sorted(set(values[rows].tolist())):
        fitting = [place for place, signature in enumerate(signatures) if value in signature]
        mates, mine = having[np.isin(of[having], fitting)], rows[values[rows] == value]
        if len(mates):
            of[mine] = of[mates[nearest(space, codes[mine], codes[mates])]]


@kernel(nogil=True)
def nearest(space: Space, codes: Codes, others: Codes) -> Ints:
    """(n,) the other record with whom each record has the cheapest box."""
    found = np.zeros(len(codes), np.int64)
    lo, hi = np.empty(codes.shape[1], np.int32), np.empty(codes.shape[1], np.int32)
    for i in range(len(codes)):
        best = np.inf
        for t in range(len(others)):
            lo[:], hi[:] = codes[i], codes[i]
            enlarge(space, lo, hi, others[t], others[t])
            cost = box_cost(space, lo, hi)
            if cost < best:
                best, found[i] = cost, t
    return found
