"""Subtract an earlier release from the new one: sensitive values of people who came or left.

An attacker who has both releases and knows who is in each one knows which people stayed. These connect their
old class with their new one. For each set of connected classes, the values of the new ones less those of the
old ones are the values of those who came less those of those who left. If as many values remain as people
came, these are exactly theirs, and a single value that remains in someone's class belongs to that person. For
those who left, the same holds with the releases exchanged.

The attacker reads what was published: classes, and how often each value occurs in each. For earlier releases
this comes from the curator's folder, because a lake drops the rows of superseded releases. Main is how often
a value becomes certain and is right; control, how often it is certain from one release only, because all of a
class have one value; without a release no value is certain. If no one came or left since an earlier release,
nothing can be subtracted, and main is 0 of all people in the new release.

The module shares with `privacy_engine.verification.republication` only the form of the classes' values, so
that each checks the other. It finds less: of people who came and left between the same classes, it only
follows what their numbers determine.

Xiao, X., Tao, Y.: m-Invariance. SIGMOD 2007, section 1, has the example; Fung, B., Wang, K., Fu, A., Pei, J.:
Anonymity for Continuous Data Publishing. EDBT 2008, the attacks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Ints
from privacy_engine.attacks.trial import Case, Rate, Tries
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.republication.class_values import ClassValues


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Subtracting each earlier release from the new one."""

    name: ClassVar[str] = "difference"

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run by sensitive attribute: on those who came, and on those who left.

        Empty if there is only one release, or an earlier one whose classes' values are unknown.
        """
        del rng
        if len(case.evidence.memberships) < 2:
            return {}
        new, *earlier = case.evidence.memberships
        pairs = [(old, new) for old in earlier]
        if case.leak:  # one of each class comes, and leaves again
            fewer = _without_one_a_class(new)
            pairs = [(fewer, new), (new, fewer)]
        found = {}
        for name in new.counts:
            if all(name in old.counts for old in earlier):
                sides = [_subtracted(old, own, name) for old, own in pairs]
                came, left = (pd.concat(frames) for frames in zip(*sides, strict=True))
                found[f"{name} of people who came"] = _tries(came, len(new))
                found[f"{name} of people who left"] = _tries(left, len(new))
        return found


def _tries(people: pd.DataFrame, everybody: int) -> Tries:
    """Count how often a value is certain, by subtraction and without, for people in some of the pairs."""
    each = people.groupby("person").max()
    if each.empty:
        none = Rate(right=0.0, tries=float(everybody))
        return Tries(main=none, control=none, baseline=none)
    return Tries(
        main=Rate.of(each["certain"].to_numpy(dtype=bool)),
        control=Rate.of(each["single"].to_numpy(dtype=bool)),
        baseline=Rate(right=0.0, tries=float(len(each))),
    )


def _subtracted(old: Membership, new: Membership, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return those who came and those who left: `person`, `certain`, and `single` for one release only."""
    place = pd.Index(old.persons).get_indexer(pd.Index(new.persons))
    stayed = place >= 0
    gone = np.ones(len(old), dtype=np.bool_)
    gone[place[stayed]] = False
    sizes = [int(release.labels.max(initial=-1)) + 1 for release in (old, new)]
    groups = _connected(old.labels[place[stayed]], new.labels[stayed], *sizes)
    both = dict.fromkeys((*old.counts[name].texts, *new.counts[name].texts))
    texts = {text: i for i, text in enumerate(both)}
    keys, records = [], []
    for release, group, sign in ((old, groups[0], -1), (new, groups[1], 1)):
        own = release.counts[name]
        codes = np.array([texts[text] for text in own.texts], dtype=np.int64)
        keys.append(group[own.classes] * len(texts) + codes[own.values])
        records.append(sign * own.records.astype(np.int64))
    cells, which = np.unique(np.concatenate(keys), return_inverse=True)
    more = np.bincount(which, weights=np.concatenate(records)).astype(
        np.int64
    )  # new less old records, in each cell
    of_group = cells // max(len(texts), 1)
    before, after = np.split(which, [len(keys[0])])
    return (
        _side(new, name, np.flatnonzero(~stayed), groups[1], more, of_group, after),
        _side(old, name, np.flatnonzero(gone), groups[0], -more, of_group, before),
    )


def _side(
    release: Membership, name: str, rows: Ints, group: Ints, more: Ints, of_group: Ints, cell_of: Ints
) -> pd.DataFrame:
    """Return people who are in only one of two releases.

    Args:
        release: Release that they are in.
        name: Name of the sensitive attribute.
        rows: Their rows there, shape (p,).
        group: Group of each of its classes, shape (c,).
        more: Number of records with a value by which this release exceeds the other one, for each pair of a
            group and a value, shape (k,).
        of_group: Group of each pair, shape (k,).
        cell_of: Index of each entry of the classes' values among the pairs, shape (e,).
    """
    counts, labels = release.counts[name], release.labels[rows]
    size = int(max(group.max(initial=-1), of_group.max(initial=-1))) + 1
    people = np.bincount(group[labels], minlength=size)
    left_over = np.bincount(of_group, weights=np.maximum(more, 0), minlength=size)
    over = more[cell_of] > 0
    values = np.bincount(counts.classes, minlength=len(group))
    possible = np.bincount(counts.classes[over], minlength=len(group))
    which = np.full(len(group), -1)  # the value that remains in a class, if there is one
    which[counts.classes[over]] = counts.values[over]
    certain = (left_over == people)[group[labels]] & (possible[labels] == 1)
    if name in release.values:
        own = release.values[name][rows]
        certain &= (own < 0) | (own == which[labels])
    single = values[labels] == 1
    return pd.DataFrame({"person": release.persons[rows], "certain": certain | single, "single": single})


def _connected(tails: Ints, heads: Ints, old: int, new: int) -> tuple[Ints, Ints]:
    """Number the old and the new classes, equal if those who stayed connect them."""
    parent = list(range(old + new))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    edges = np.unique(np.stack([tails, heads + old]), axis=1) if len(tails) else np.zeros((2, 0), np.int64)
    for tail, head in edges.T.tolist():
        parent[root(tail)] = root(head)
    found = np.array([root(node) for node in range(old + new)], dtype=np.int64)
    return found[:old], found[old:]


def _without_one_a_class(release: Membership) -> Membership:
    """Return the release without the first person of each class."""
    kept = np.ones(len(release), dtype=np.bool_)
    kept[np.unique(release.labels, return_index=True)[1]] = False
    gone = np.flatnonzero(~kept)
    labels = release.labels[gone]
    counts = {name: _less(own, labels, release.values[name][gone]) for name, own in release.counts.items()}
    return Membership(
        persons=release.persons[kept],
        labels=release.labels[kept],
        counts=counts,
        values={name: own[kept] for name, own in release.values.items()},
    )


def _less(counts: ClassValues, labels: Ints, values: Ints) -> ClassValues:
    """Return the values of classes without those of some people, at most one of each class."""
    size = max(len(counts.texts), 1)
    entries = counts.classes.astype(np.int64) * size + counts.values
    taken = np.isin(entries, labels.astype(np.int64) * size + values)
    records, persons = counts.records - taken, counts.persons - taken
    kept = records > 0
    return ClassValues(
        classes=counts.classes[kept],
        values=counts.values[kept],
        records=records[kept].astype(np.int32),
        persons=persons[kept].astype(np.int32),
        texts=counts.texts,
    )
