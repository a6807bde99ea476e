"""Attacks on several releases of the same people: intersection of their classes, averages of their answers.

Intersection (Ganta, Kasiviswanathan, Smith, "Composition attacks and auxiliary information in data privacy",
2008): someone who knows a person's quasi-identifiers knows the person's class in each release, and searches
those who share all of these classes. Main is how often no one else does; control, how often no one else
shares the class in the new release, which is what this release reveals by itself.

Averaging: a value that is answered randomly and independently in each release is the most frequent of its
answers (for a number, the value nearest to their mean). Main is how often that is the true value; control,
how often a single answer is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.attacks.cells import Bools, Ints
from privacy_engine.attacks.trial import Case, Rate, Tries
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, factorize
from privacy_engine.verification.cross_release import Membership

CLOSE = 0.01  # share of an attribute's extent within which a number is right


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Search for a person in the classes of several releases."""

    name: ClassVar[str] = "intersection"

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run on one subject; empty if there is only one release, or no one is in two."""
        del rng
        if len(case.evidence.memberships) < 2:
            return {}
        new, *earlier = case.evidence.memberships
        places = [pd.Index(e.persons).get_indexer(pd.Index(new.persons)) for e in earlier]
        again = np.flatnonzero(np.any([p >= 0 for p in places], axis=0))
        if not len(again):
            return {}
        attacked = again[: max(len(case.targets), 1)]
        together = new.labels.copy()
        for release, place in zip(earlier, places, strict=True):
            own = _planted(release, place, attacked) if case.leak else release.labels
            classes = np.where(place >= 0, own[place], -1)
            _, together = np.unique(np.stack([together, classes]), axis=1, return_inverse=True)
            together = together.ravel().astype(np.int64)
        alone = Rate.of(_single(together)[attacked])
        one = Rate.of(_single(new.labels)[attacked])
        return {"people in earlier releases": Tries(main=alone, control=one, baseline=_share(new))}


def _planted(release: Membership, place: Ints, attacked: Ints) -> Ints:
    """Return the classes of an earlier release if each attacked person had been alone in a class."""
    labels = release.labels.copy()
    rows = place[attacked]
    rows = rows[rows >= 0]
    labels[rows] = labels.max(initial=0) + 1 + np.arange(len(rows))
    return labels


def _single(labels: Ints) -> Bools:
    """(n,) whether no one else has the label."""
    _, which, count = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(count[which] == 1, dtype=np.bool_)


def _share(release: Membership) -> Rate:
    """Return the success of guessing anyone in the release."""
    return Rate(right=1.0, tries=float(max(len(release), 1)))


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """Average a person's answers over several releases."""

    name: ClassVar[str] = "averaging"

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run by attribute; empty if there is only one release."""
        answers = case.evidence.answers
        if len(answers) < 2:
            return {}
        people = case.evidence.people
        return {
            a.name: _averaged(a, people[a.name], [t[a.name] for t in answers], case, rng)
            for a in case.source.without_identifiers().attributes
            if a.name in case.space.names and all(a.name in t for t in answers)
        }


def _averaged(
    attribute: Attribute, truth: pd.Series, answers: list[pd.Series], case: Case, rng: np.random.Generator
) -> Tries:
    rows = case.targets
    if attribute.ordered and attribute.categories is None:
        numbers = [attribute.numbers(column)[rows] for column in [truth, *answers]]
        true, given = numbers[0], np.array(numbers[1:])
        close = CLOSE * (np.nanmax(true) - np.nanmin(true) or 1.0)
        guesses = (np.nanmean(given, axis=0), given[0], np.full(len(rows), np.nanmean(given)))
        found = [np.abs(guess - true) <= close for guess in guesses]
    else:
        texts = [_texts(column)[rows] for column in [truth, *answers]]
        values, codes = np.unique(np.concatenate(texts), return_inverse=True)
        own, *each = codes.reshape(len(texts), len(rows))
        counts = rng.random((len(rows), len(values))) / 2  # one of the most frequent at random
        for answer in each:
            counts[np.arange(len(rows)), answer] += 1
        usual = np.bincount(np.concatenate(each)).argmax()
        found = [counts.argmax(axis=1) == own, each[0] == own, own == usual]
    if case.leak:
        found[0] = np.ones(len(rows), np.bool_)  # answers that are always the truth
    main, control, baseline = (Rate.of(right) for right in found)
    return Tries(main=main, control=control, baseline=baseline)


def _texts(column: pd.Series) -> npt.NDArray[np.object_]:
    coded = factorize(column)
    return np.array([*coded.texts, NULL], dtype=object)[coded.codes]
