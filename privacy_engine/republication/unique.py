"""m-unique classes that keep their signatures, by the four phases of the algorithm of the paper.

Xiao, X., Tao, Y.: m-Invariance: Towards Privacy Preserving Re-publication of Dynamic Datasets. SIGMOD 2007,
section 5. No two records of a class have the same sensitive value, and a person's class has the same set of
values, the signature, in each release that the person is in.

1. Division: persons who were released before are put into buckets, one for each signature.
2. Balancing: in a bucket of r classes each value of the signature needs r records. If some are lacking,
arrivals with
   that value are taken, as long as the remaining ones are m-eligible: at most one in m has the same value.
   What is still lacking is left to counterfeits. Values that few arrivals have come first.
3. Assignment: the arrivals who remain are put into the buckets of the signatures of their most frequent
   values, the same number of each, so that the rest stays m-eligible.
4. Split: each bucket is cut into halves, each value by itself in the order of one attribute, until a part is
   one class. The attribute with the least loss of both parts is chosen.

Deviations. Only persons count for k, so each class has at least k of them, and a signature at least as many
values; persons of values that too many have for that are withheld. If departures are known, persons who
shared a class stay in one, so each such class is a bucket that is not cut. Arrivals who are not m-eligible
join buckets that have space next to counterfeits, or form new ones, with k values that people have and others
that none of them has. Without counterfeits classes have persons of all values, and the others are withheld.
The paper publishes a number for each class; here two classes with the same cells would be merged, with each
value twice, so one of them also covers the values of a further record.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from privacy_engine.measures.recoding import Points, Recoding
from privacy_engine.recoding.grouping.boxes import Codes, Ints, tabulate
from privacy_engine.republication.counterfeits import texts_of
from privacy_engine.republication.earlier_boxes import KnownBoxes, Texts
from privacy_engine.republication.signatures import Buckets, Signature, held_signatures, nearest
from privacy_engine.tables.geometry import Geometry, class_spans, span_costs
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership

NEAR = 128  # records before and after a class that are tried to distinguish it from another
Waiting = dict[str, list[int]]  # value -> arrivals with it who have no bucket yet


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The requirements on m-unique classes.

    Attributes:
        attribute: Name of the sensitive attribute.
        m: Least number of values of a new signature.
        k: Least number of persons of a class.
        counterfeits: Whether counterfeits may complete a class.
        together: Whether persons who shared a class stay in one.
    """

    attribute: str
    m: int
    k: int
    counterfeits: bool
    together: bool


@dataclass
class Bucket:
    """Persons of one signature.

    Attributes:
        signature: Sensitive values of the bucket, sorted.
        whole: Whether they are one class.
        rows: Value -> the persons with it, those who were released before first.
    """

    signature: Signature
    whole: bool = False
    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, value: str, rows: Sequence[int]) -> None:
        """Put persons with a value of the signature into it."""
        self.rows.setdefault(value, []).extend(rows)

    @property
    def counts(self) -> dict[str, int]:
        """How many persons have each value of the signature."""
        return {value: len(self.rows.get(value, ())) for value in self.signature}

    @property
    def classes(self) -> int:
        """How many classes it has: as many as persons with its most frequent value."""
        return 1 if self.whole else max(self.counts.values())

    def has_room(self, value: str, k: int) -> bool:
        """Return whether all its classes have k persons if a person with a value joins."""
        counts = Counter(self.counts)
        counts[value] += 1
        classes = max(counts.values())
        return value in self.signature and counts.total() >= k * classes and not (self.whole and classes > 1)

    def trim(self, demand: Demand) -> None:
        """Leave out persons with a value that more persons have than there are classes."""
        counts = list(self.counts.values())
        classes = most_classes(counts, demand.k) if demand.counterfeits else min(counts)
        classes = min(classes, 1) if self.whole else classes
        self.rows = {value: own[:classes] for value, own in self.rows.items()}


def most_classes(counts: Collection[int], persons: int) -> int:
    """The largest number of classes whose persons all have different values, of at least `persons` each.

    Args:
        counts: Persons with each value; at most one per class is counted for each.
        persons: Least number of persons of a class.

    >>> most_classes([5, 2, 1], 2), most_classes([5], 2), most_classes([3, 3], 2)
    (3, 0, 3)
    """
    # The more classes, the fewer persons has each on average.
    tried = range(1, max(counts, default=0) + 1)
    return bisect_left(tried, True, key=lambda c: sum(min(n, c) for n in counts) < persons * c)


def m_unique_classes(
    known: KnownBoxes, block: Ints, kept: npt.NDArray[np.bool_], demand: Demand, rng: np.random.Generator
) -> tuple[Ints, Texts, Buckets]:
    """Classes of different values each, with the signatures that persons had before.

    Args:
        known: Number n of persons.
        block: Class that each was in before, -1 = none, shape (n,).
        kept: Whether to put each person into a class, shape (n,).
        demand: Requirements on the classes.
        rng: Source of randomness for choosing among arrivals with equal values.

    Returns:
        labels: (n,) int64, -1 = no class; values: (n,) the text of each person's value, or a hash of it where
        there are no counterfeits; and the signature of each person.
    """
    values, held = _signatures(known, demand)
    rows, classes = np.flatnonzero(kept), known.history.classes
    if classes:  # the persons of the last release first: a class keeps these rather than those who return
        rows = rows[np.argsort(classes[-1][rows] < 0, kind="stable")]
    buckets = _divided(values, held, block, rows, demand)
    arrivals: Waiting = {}
    for row in rng.permutation([row for row in rows.tolist() if held[row] is None]).tolist():
        arrivals.setdefault(values[row], []).append(row)
    _balance(buckets, arrivals, known, demand)
    rest = _not_eligible(arrivals, demand.m)
    _assign(buckets, arrivals, demand.m, demand)
    if demand.counterfeits:
        _join(buckets, rest, demand.k)
        _not_eligible(rest, demand.k)
        _assign(buckets, rest, demand.k, demand, [v for v, _ in Counter(values.tolist()).most_common()])
    labels, of, places = np.full(len(values), -1), np.full(len(values), -1), dict[Signature, int]()
    cut, used = _Cut.of(known), 0
    for bucket in buckets:
        bucket.trim(demand)
        for members in cut.split([np.array(own) for own in bucket.rows.values() if own], demand.k):
            labels[members], used = used, used + 1
            of[members] = places.setdefault(bucket.signature, len(places))
    return labels, values, Buckets(of, tuple(places))


def _divided(
    values: Texts,
    held: Sequence[Signature | None],
    block: Ints,
    rows: Ints,
    demand: Demand,
) -> list[Bucket]:
    """Division: a bucket for each signature, or for each class that stays together."""
    found: dict[tuple[Signature, int], Bucket] = {}
    for row in rows.tolist():
        signature, value = held[row], values[row]
        if signature and value in signature:
            key = (signature, int(block[row]) if demand.together else -1)
            found.setdefault(key, Bucket(signature, demand.together)).add(value, [row])
    return list(found.values())


def _balance(buckets: Sequence[Bucket], arrivals: Waiting, known: KnownBoxes, demand: Demand) -> None:
    """Balancing: take arrivals with values that a bucket lacks."""
    space, codes = tabulate(known.encoded.geometry()), np.ascontiguousarray(known.encoded.codes, np.int32)

    def take(bucket: Bucket, value: str) -> None:
        own, member = arrivals[value], next(rows[0] for rows in bucket.rows.values())
        bucket.add(value, [own.pop(int(nearest(space, codes[[member]], codes[own])[0]))])

    if not demand.counterfeits:  # a bucket that cannot be completed takes no one
        for bucket in buckets:
            counts = bucket.counts
            have = min(count + len(arrivals.get(value, ())) for value, count in counts.items())
            for value, count in counts.items():
                for _ in range(count, min(have, bucket.classes)):
                    take(bucket, value)
        return
    left = Counter({value: len(own) for value, own in arrivals.items()})
    lacking = [
        (left[value], value, place)
        for place, bucket in enumerate(buckets)
        for value, count in bucket.counts.items()
        if count < bucket.classes and left[value]
    ]
    for _, value, place in sorted(lacking):
        bucket = buckets[place]
        for _ in range(min(bucket.classes - bucket.counts[value], left[value])):
            after = left - Counter([value])
            if _surplus(after, demand.m) > _surplus(left, demand.m):
                break
            left = after
            take(bucket, value)


def _surplus(left: Counter[str], m: int) -> int:
    """Return how many must be left out so that at most one in m of the others has the same value."""
    classes = most_classes(left.values(), m)
    return sum(max(count - classes, 0) for count in left.values())


def _not_eligible(arrivals: Waiting, m: int) -> Waiting:
    """Take those out of the arrivals who have one value with more than one of m of the rest."""
    classes = most_classes([len(own) for own in arrivals.values()], m)
    rest = {value: own[classes:] for value, own in arrivals.items()}
    for own in arrivals.values():
        del own[classes:]
    return rest


def _assign(
    buckets: list[Bucket], arrivals: Waiting, m: int, demand: Demand, others: Sequence[str] = ()
) -> None:
    """Assignment: put arrivals, who are m-eligible, into buckets of their most frequent values.

    Args:
        buckets: Buckets of this release; new ones are added.
        arrivals: Value -> persons, who are taken out.
        m: Least number of values of arrivals in a bucket.
        demand: Requirements on the classes.
        others: Values that complete a signature, the most frequent first.
    """
    known = {bucket.signature: bucket for bucket in buckets if not bucket.whole}
    while most := sorted((v for v in arrivals if arrivals[v]), key=lambda v: (-len(arrivals[v]), v)):
        counts = [len(arrivals[value]) for value in most]
        total = sum(counts)
        for beta in range(m, len(counts) + 1):
            # The largest number alpha of each of beta values so that the rest is m-eligible: its most
            # frequent value is the first of those that are taken, or the first of those that are not.
            after = counts[beta] if beta < len(counts) else 0
            alpha = min(counts[beta - 1], (total - m * after) // beta)
            if beta > m:
                alpha = min(alpha, (total - m * counts[0]) // (beta - m))
            if alpha > 0:
                break
        else:
            return
        taken = most[:beta]
        more = [value for value in others if value not in taken][: max(demand.m - beta, 0)]
        if beta + len(more) < demand.m:
            return
        signature = tuple(sorted([*taken, *more]))
        if signature not in known:
            known[signature] = Bucket(signature)
            buckets.append(known[signature])
        for value in taken:
            known[signature].add(value, arrivals[value][:alpha])
            del arrivals[value][:alpha]


def _join(buckets: Sequence[Bucket], rest: Waiting, k: int) -> None:
    """Put arrivals into buckets that have room for them, those first that lack their value."""
    for value, own in rest.items():
        fitting = [bucket for bucket in buckets if value in bucket.signature]
        for bucket in fitting:
            while own and bucket.counts[value] < bucket.classes:
                bucket.add(value, [own.pop()])
        for bucket in fitting:
            while own and bucket.has_room(value, k):
                bucket.add(value, [own.pop()])


def _signatures(known: KnownBoxes, demand: Demand) -> tuple[Texts, list[Signature | None]]:
    """(n,) the value of each person, and the signature.

    With counterfeits values are texts, because a later release must write values that no one has; otherwise
    they are hashes, the only form that is kept of them. An arrival has no signature. Anyone whose signature
    changed or was not kept, or an arrival whose value most persons write in another way, has an empty
    signature, and so is in no bucket.
    """
    schema, table = known.encoded.schema, known.encoded.table[[demand.attribute]]
    own = Membership.of_table(known.persons, table, DataSchema((schema[demand.attribute],)))
    codes, counts = own.values[demand.attribute], own.counts[demand.attribute]
    if not demand.counterfeits:
        hashed = np.array(counts.texts, dtype=object)[codes]
        return hashed, _kept_signatures(known.history, demand.attribute)
    texts, held = texts_of(table[demand.attribute]), held_signatures(known.history, demand.attribute)
    written: dict[int, Counter[str]] = {}
    for code, text in zip(codes.tolist(), texts.tolist(), strict=True):
        written.setdefault(code, Counter())[text] += 1
    usual = {code: min(own, key=lambda text: (-own[text], text)) for code, own in written.items()}
    return texts, [
        () if own is None and usual[code] != text else own
        for own, code, text in zip(held, codes.tolist(), texts.tolist(), strict=True)
    ]


def _kept_signatures(history: History, attribute: str) -> list[Signature | None]:
    """(n,) as for `held_signatures`, each value as a hash."""
    found: list[Signature | None] = [None] * len(history.new)
    for release, labels in zip(history.earlier, history.classes, strict=True):
        kept: list[list[str]] = [[] for _ in release.first]
        if (counts := release.counts.get(attribute)) is not None:
            for label, value in zip(counts.classes.tolist(), counts.values.tolist(), strict=True):
                kept[label].append(counts.texts[value])
        signatures = [tuple(sorted(values)) for values in kept]
        for row in np.flatnonzero(labels >= 0).tolist():
            own = signatures[labels[row]]
            found[row] = own if found[row] in (None, own) else ()
    return found


@dataclass(frozen=True)
class _Cut:
    """The split phase.

    Attributes:
        geometry: Costs of boxes.
        low, high: Box of each: the core if there is one, else the values, shape (n, q) int32.
        order: Place of each along each attribute, shape (n, q) int64.
    """

    geometry: Geometry
    low: Codes
    high: Codes
    order: Ints

    @classmethod
    def of(cls, known: KnownBoxes) -> "_Cut":
        """The boxes of persons, in whole numbers."""
        geometry = known.encoded.geometry()
        own, space = np.asarray(known.encoded.codes, np.int32), tabulate(geometry)
        has = (known.core >= 0)[:, None]
        low, high = np.where(has, known.low, own), np.where(has, known.high, own)
        order = low.astype(np.int64) + high
        for j in np.flatnonzero(space.tree).tolist():
            order[:, j] = space.rank[space.start[j] + low[:, j]]
        return cls(geometry, low, high, order)

    def split(self, values: Sequence[Ints], k: int) -> list[Ints]:
        """Classes of a bucket, each with at most one person of each value, and k at least.

        Args:
            values: Persons with each value; for r of the most frequent one there are k r at least.
            k: Least number of persons.
        """
        found, waiting = [], [list(values)] if values else []
        while waiting:
            bucket = waiting.pop()
            classes = max(map(len, bucket))
            if classes == 1:
                found.append(np.concatenate(bucket))
            else:
                waiting.extend(self._halves(bucket, classes, k))
        return found

    def _halves(self, bucket: Sequence[Ints], classes: int, k: int) -> list[list[Ints]]:
        """Two parts of half of the classes each, cut along the attribute where that costs least."""
        first = _shares(np.array([len(own) for own in bucket]), classes, k)
        tried = []
        for j in range(self.order.shape[1]):
            ranked = [own[np.argsort(self.order[own, j], kind="stable")] for own in bucket]
            cut = list(zip(ranked, first.tolist(), strict=True))
            tried.append(
                [[own[:at] for own, at in cut if at], [own[at:] for own, at in cut if at < len(own)]]
            )
        parts = [np.concatenate(part) for both in tried for part in both]
        rows, label = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        corners = np.concatenate([self.low[rows], self.high[rows]])
        spans = class_spans(corners, np.tile(label, 2), len(parts), self.geometry)
        costs = span_costs(*spans, self.geometry).sum(axis=1) * [len(part) for part in parts]
        return tried[int(np.argmin(costs.reshape(-1, 2).sum(axis=1)))]


def _shares(counts: Ints, classes: int, k: int) -> Ints:
    """(v,) persons of each value who go to the first part of a bucket, with half of its classes.

    Each value is shared out as the classes are, up to rounding: both parts have k persons a class, and of no
    value more than classes.

    >>> _shares(np.array([3, 3, 1]), 3, 2).tolist(), _shares(np.array([4, 4, 4]), 4, 3).tolist()
    ([1, 1, 0], [2, 2, 2])
    """
    half = classes // 2
    found, rest = np.divmod(counts * half, classes)
    most = int(counts.sum()) - k * (classes - half)
    persons = min(max(round(int(counts.sum()) * half / classes), k * half), most)
    up = np.argsort(-rest, kind="stable")[: persons - int(found.sum())]
    found[up] += 1
    return found


def distinguished(recoding: Recoding) -> Points:
    """Find values that classes must cover so that no two have the same box, if near records allow it."""
    low, high = recoding.spans
    boxes = np.concatenate([low, high], axis=1)
    first = np.unique(boxes, axis=0, return_index=True)[1]
    used, again = set(map(bytes, boxes[first])), np.setdiff1d(np.arange(len(boxes)), first)
    codes, labels, geometry = recoding.encoded.codes, recoding.labels, recoding.encoded.geometry()
    member = np.zeros(len(boxes), np.int64)
    member[labels[labels >= 0]] = np.flatnonzero(labels >= 0)
    points, of = [codes[:0]], list[int]()
    for c in again.tolist():
        # Records are in the order of their codes.
        near = np.unique(codes[max(member[c] - NEAR, 0) : member[c] + NEAR + 1], axis=0)
        size = len(near)
        corners = np.concatenate([np.tile(low[c], (size, 1)), np.tile(high[c], (size, 1)), near])
        spans = class_spans(corners, np.tile(np.arange(size), 3), size, geometry)
        wider = np.concatenate(spans, axis=1)
        for place in np.argsort(span_costs(*spans, geometry).sum(axis=1), kind="stable").tolist():
            if bytes(wider[place]) not in used:
                used.add(bytes(wider[place]))
                points.append(near[[place]])
                of.append(c)
                break
    return Points(np.concatenate(points), np.array(of, np.int64))
