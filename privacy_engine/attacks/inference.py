"""Inference: someone who knows a person's quasi-identifiers guesses a sensitive value from the release.

After Giomi et al. (2023), section 5.3, with their control: what the release also reveals about people who are
not in it is knowledge about the population, which is the purpose of a release. The attacker trains a few
classifiers on the released records and uses the one that works best: the most frequent value, a vote of the
nearest records, naive Bayes, and a random forest. The best one is chosen on one half of the people and
evaluated on the other, and vice versa, so the choice does not bias the result.

A number is guessed as one of `BINS` bins of equal frequency.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privacy_engine.attacks.cells import Bools, Cells, Floats, Ints, Space
from privacy_engine.attacks.seeking import Target
from privacy_engine.attacks.trial import Case, Rate, Tries

BINS = 10
MOST_VALUES = 40  # most values of an attribute that a forest sees one by one
_MAJORITY = "majority"


@dataclass(frozen=True, kw_only=True)
class Inference:
    """Guess each sensitive attribute.

    Attributes:
        trees: Number of trees of the forest, >= 1.
        rows: Most released records for training naive Bayes and the forest, >= 1.
    """

    trees: int = 30
    rows: int = 15_000
    name: ClassVar[str] = "inference"

    def __post_init__(self) -> None:
        for field in ("trees", "rows"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be >= 1, got {getattr(self, field)}")

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run by sensitive attribute."""
        names = [a.name for a in case.source.sensitive if a.name in case.space.names]
        groups = (case.attacked, case.control)
        return {name: self._of(case, name, groups, rng) for name in names}

    def _of(self, case: Case, name: str, groups: tuple[Cells, Cells], rng: np.random.Generator) -> Tries:
        place = case.space.names.index(name)
        others = np.array([j for j, a in enumerate(case.space.names) if a != name], np.int64)
        attributes = case.space.places([a.name for a in case.source.quasi_identifiers])
        attributes = attributes if len(attributes) else others
        labels, truths, classes = _labels(case, place, groups)
        guesses = self._guesses(case, attributes, labels, classes, groups, rng)
        right = {
            how: tuple(guess == truth for guess, truth in zip(both, truths, strict=True))
            for how, both in guesses.items()
        }
        main, control = cross_fitted(right)
        usual = int(np.bincount(truths[1], minlength=1).argmax()) if len(truths[1]) else 0
        return Tries(main=main, control=control, baseline=Rate.of(truths[0] == usual))

    def _guesses(
        self,
        case: Case,
        attributes: Ints,
        labels: Ints,
        classes: int,
        groups: tuple[Cells, Cells],
        rng: np.random.Generator,
    ) -> dict[str, tuple[Ints, ...]]:
        from sklearn.ensemble import RandomForestClassifier

        usual = int(np.bincount(labels, minlength=classes).argmax())
        found: dict[str, tuple[Ints, ...]] = {
            _MAJORITY: tuple(np.full(len(g), usual, np.int64) for g in groups)
        }
        target = Target.of(case.space, case.released)
        first = np.zeros(len(target.records), np.int64)
        first[target.which] = labels
        known = np.zeros(len(case.space.names), np.bool_)
        known[attributes] = True
        if not len(attributes):
            return found
        found["nearest"] = tuple(
            target.votes(g, np.tile(known, (len(g), 1)), first, classes).argmax(axis=1) for g in groups
        )
        rows = rng.permutation(len(labels))[: self.rows]
        train, own = case.released.take(rows), labels[rows]
        found["bayes"] = tuple(_bayes(case.space, attributes, train, own, classes, g) for g in groups)
        forest = RandomForestClassifier(
            self.trees, min_samples_leaf=2, random_state=int(rng.integers(2**31)), n_jobs=2
        ).fit(_features(case.space, attributes, train), own)
        found["forest"] = tuple(
            forest.predict(_features(case.space, attributes, g)).astype(np.int64)
            if len(g)
            else np.zeros(0, np.int64)
            for g in groups
        )
        return found


def cross_fitted(right: Mapping[str, tuple[Bools, ...]]) -> tuple[Rate, Rate]:
    """Return main and control of the way of guessing with the largest excess on the other half of the people.

    Args:
        right: Way of guessing -> whether each guess about people inside, and outside, is right.
    """
    main, control = Rate(right=0, tries=0), Rate(right=0, tries=0)
    for chosen_on, judged_on in ((0, 1), (1, 0)):
        best = max(right, key=lambda how: _difference([r[chosen_on::2] for r in right[how]]))
        inside, outside = (r[judged_on::2] for r in right[best])
        main, control = main + Rate.of(inside), control + Rate.of(outside)
    return main, control


def _difference(right: list[Bools]) -> float:
    inside, outside = (float(r.mean()) if len(r) else 0.0 for r in right)
    return (inside - outside) / max(1 - outside, 1e-9)


def _labels(case: Case, place: int, groups: tuple[Cells, Cells]) -> tuple[Ints, tuple[Ints, ...], int]:
    """Return the released and the true values of an attribute as numbers below a bound."""
    o = len(case.space.ordered)
    if place >= o:
        first = case.space.covers[place - o].argmax(axis=1).astype(np.int64)
        released = first[case.released.codes[:, place - o]]
        return (
            released,
            tuple(first[g.codes[:, place - o]] for g in groups),
            int(case.space.values[place - o]),
        )
    middle = _middle(case.released, place)
    ends = np.unique(np.quantile(middle, np.linspace(0, 1, BINS + 1)[1:-1]))
    return (
        np.searchsorted(ends, middle, "right").astype(np.int64),
        tuple(np.searchsorted(ends, _middle(g, place), "right").astype(np.int64) for g in groups),
        len(ends) + 1,
    )


def _middle(cells: Cells, place: int) -> Floats:
    """(n,) middle of each span, -1 if there is none."""
    return np.nan_to_num((cells.low[:, place] + cells.high[:, place]) / 2, nan=-1.0)


def _features(space: Space, attributes: Ints, cells: Cells) -> npt.NDArray[np.float32]:
    """(n, f) middles of spans, and the share of each value in a cell."""
    o, columns = len(space.ordered), []
    for j in attributes.tolist():
        if j < o:
            columns.append(_middle(cells, j)[:, None])
            continue
        covers = space.covers[j - o].astype(np.float64)
        if covers.shape[1] <= MOST_VALUES:
            columns.append((covers / covers.sum(axis=1, keepdims=True))[cells.codes[:, j - o]])
        else:
            columns.append(covers.argmax(axis=1)[cells.codes[:, j - o]][:, None].astype(np.float64))
    return np.hstack(columns).astype(np.float32)


def _bayes(space: Space, attributes: Ints, train: Cells, labels: Ints, classes: int, cells_of: Cells) -> Ints:
    """(t,) the most likely label by the frequency of each value, plus one, given the label."""
    o = len(space.ordered)
    scores = np.tile(np.log(np.bincount(labels, minlength=classes) + 1.0), (len(cells_of), 1))
    for j in attributes.tolist():
        if j < o:
            bins = 20
            own = np.clip(_middle(train, j) * bins, -1, bins - 1).astype(np.int64) + 1
            pairs = np.bincount(labels * (bins + 1) + own, minlength=classes * (bins + 1))
            counts = pairs.reshape(classes, bins + 1).astype(np.float64)
            at = np.clip(_middle(cells_of, j) * bins, -1, bins - 1).astype(np.int64) + 1
        else:
            covers = space.covers[j - o].astype(np.float64)
            cells = np.zeros((classes, len(covers)))
            np.add.at(cells, (labels, train.codes[:, j - o]), 1.0)
            counts = cells @ (covers / covers.sum(axis=1, keepdims=True))
            at = cells_of.codes[:, j - o].astype(np.int64)
        likely = np.log(counts + 1.0) - np.log(counts.sum(axis=1, keepdims=True) + counts.shape[1])
        scores += likely[:, at].T
    return np.asarray(scores.argmax(axis=1), np.int64)
