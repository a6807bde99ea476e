"""Errors of an analyst who uses an anonymized table: of its marginals, and of a trained classifier.

A released cell represents all values that it covers, all equally likely, as in `utility.query_error`;
sensitive values are used as released. So nothing is drawn: the figures are expectations, and repeatable. They
are exact figures of the source: only for those who may see it, and never published.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.svm import SVC

from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.synthetic_learning import Score, one_hot_gamma
from privacy_engine.measures.utility import covers
from privacy_engine.tables.encoding import Domain, EncodedTable, OrderedDomain, domain_labels
from privacy_engine.tables.hierarchy import Hierarchy

MOST_GROUPS = 64  # most groups of an attribute: a table of two has a few thousand cells
LEARNING_ROWS = 1_500  # records that a classifier learns from; the cost grows with their square
MOST_CLASSES = 20

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Values of an attribute joined into groups, for any table that has it.

    Attributes:
        size: Number of groups.
        edges: Limits between the groups of an ordered attribute, whose last group contains the null.
        of_label: Group of each value of any other attribute.
    """

    size: int
    edges: FloatArray | None = None
    of_label: dict[str, int] = field(default_factory=dict)

    @classmethod
    def over(cls, domain: Domain) -> "Groups":
        """Each value by itself if there are few; else nodes of the hierarchy, or bins of equal width."""
        if isinstance(domain, Hierarchy):
            for level in range(domain.height):
                nodes, group = np.unique(domain.at_level(level), return_inverse=True)
                if len(nodes) <= MOST_GROUPS:
                    break
            else:  # no level has so few: the rarest knowledge is shared by as many values as need be
                group = np.arange(len(domain.values)) * MOST_GROUPS // len(domain.values)
            labels = zip(domain_labels(domain), group.tolist(), strict=True)
            return cls(size=int(group.max()) + 1, of_label=dict(labels))
        values = _places(domain)[: domain.known]
        edges = (values[1:] + values[:-1]) / 2
        if len(values) > MOST_GROUPS:
            edges = np.linspace(values[0], values[-1], MOST_GROUPS + 1)[1:-1]
        return cls(size=len(edges) + 2, edges=edges)

    def of(self, domain: Domain) -> IntArray:
        """(v,) group of each code of this table's domain or another's; -1 of a value that is unknown here."""
        if self.edges is None:
            found = (self.of_label.get(label, -1) for label in domain_labels(domain))
            return np.fromiter(found, dtype=np.int64)
        assert isinstance(domain, OrderedDomain)
        group = np.searchsorted(self.edges, _places(domain)).astype(np.int64)
        group[domain.known :] = self.size - 1
        return group


def _places(domain: OrderedDomain) -> FloatArray:
    return np.asarray(domain.values + float(domain.origin), dtype=np.float64)


def marginal_errors(recoding: Recoding) -> tuple[float, float]:
    """Mean total variation distance of the marginals of one, and of two attributes, 0 .. 1.

    Over all quasi-identifiers and sensitive attributes; 0 for pairs if there is only one attribute.
    Suppressed records are missing in the release, and shares are of the released records.

    Args:
        recoding: Recoding; at least one record is released.
    """
    encoded, kept = recoding.encoded, recoding.labels >= 0
    q = len(encoded.domains)
    domains = [*encoded.domains, *encoded.sensitive_domains]
    groups = [Groups.over(domain) for domain in domains]
    codes = [*encoded.codes.T, *encoded.sensitive]
    places = [g.of(d)[c] for g, d, c in zip(groups, domains, codes, strict=True)]
    shares = cell_shares(recoding, groups[:q])
    for g, place in zip(groups[q:], places[q:], strict=True):
        cell = np.bincount(
            recoding.labels[kept] * g.size + place[kept], minlength=recoding.classes * g.size
        ).reshape(recoding.classes, g.size)
        shares.append(cell / recoding.sizes[:, None])
    one = [
        _distance(np.bincount(place, minlength=g.size), recoding.sizes @ share)
        for g, place, share in zip(groups, places, shares, strict=True)
    ]
    two = []
    for i, j in itertools.combinations(range(len(groups)), 2):
        both, cells = places[i] * groups[j].size + places[j], groups[i].size * groups[j].size
        if i < q:
            released = (shares[i] * recoding.sizes[:, None]).T @ shares[j]
        else:  # two sensitive values of a record are released side by side
            released = np.bincount(both[kept], minlength=cells).astype(np.float64)
        two.append(_distance(np.bincount(both, minlength=cells), released.ravel()))
    return float(np.mean(one)), float(np.mean(two)) if two else 0.0


def _distance(truth: IntArray, released: FloatArray) -> float:
    return float(0.5 * np.abs(truth / truth.sum() - released / released.sum()).sum())


def cell_shares(recoding: Recoding, groups: list[Groups]) -> list[FloatArray]:
    """(q,) arrays (c, g): the share of each group in what the cell of each class covers; rows sum to 1."""
    found = []
    for cover, domain, own in zip(covers(recoding), recoding.encoded.domains, groups, strict=True):
        group = own.of(domain)
        all_values = cover.total(np.ones(len(group)))
        parts = [cover.total((group == g).astype(np.float64)) / all_values for g in range(own.size)]
        found.append(np.stack(parts, axis=1))
    return found


def train_on_release(
    recoding: Recoding, test: EncodedTable, target: str, rng: np.random.Generator, rows: int = LEARNING_ROWS
) -> Score:
    """Return the accuracy of a support vector machine trained on a release, and of one trained on the source.

    It predicts the target from the quasi-identifiers, one-hot; a released cell is the mean of what it covers.
    Both are tested on the same records, on which neither was trained. Kernel RBF, defaults of scikit-learn.

    Args:
        recoding: Recoding, to whose release ``synthetic`` of the score belongs.
        test: Records of the same population that were not recoded.
        target: Released attribute of at most `MOST_CLASSES` values.
        rng: Draws the rows.
        rows: Most training records, drawn at random.

    Raises:
        ValueError: If the target has more values, or there are no training or test records.
    """
    encoded, kept = recoding.encoded, np.flatnonzero(recoding.labels >= 0)
    names = [str(value) for value in pd.unique(pd.concat([encoded.table[target], test.table[target]]))]
    if len(names) > MOST_CLASSES:
        raise ValueError(f"target must have at most {MOST_CLASSES} values, got {len(names)}")
    if not len(kept) or not len(test):
        raise ValueError("a classifier requires training records and test records")
    of_name = {name: i for i, name in enumerate(names)}
    ours, answers = (
        encoded_table.table[target].map(lambda value: of_name[str(value)]).to_numpy()
        for encoded_table in (encoded, test)
    )
    groups = [Groups.over(domain) for domain in encoded.domains]
    gamma = one_hot_gamma([*(g.size for g in groups), 1], len(groups))
    cells = np.hstack(cell_shares(recoding, groups))
    questions = _one_hot(test, groups)
    learned = rng.choice(kept, min(rows, len(kept)), replace=False)
    originals = rng.choice(len(encoded), min(rows, len(encoded)), replace=False)
    of_source = _one_hot(encoded.take(originals), groups)
    return Score(
        real=_accuracy(of_source, ours[originals], questions, answers, gamma),
        synthetic=_accuracy(cells[recoding.labels[learned]], ours[learned], questions, answers, gamma),
        majority=float(np.mean(answers == np.bincount(ours[originals]).argmax())),
    )


def _one_hot(encoded: EncodedTable, groups: list[Groups]) -> FloatArray:
    """Return one-hot codes (n, f) of each record's group of each quasi-identifier; zeros if unknown."""
    parts = []
    for j, (domain, own) in enumerate(zip(encoded.domains, groups, strict=True)):
        place = own.of(domain)[encoded.codes[:, j]]
        parts.append(np.eye(own.size + 1)[place][:, : own.size])  # -1 reads the row that is cut off
    return np.hstack(parts)


def _accuracy(
    features: FloatArray, labels: IntArray, questions: FloatArray, answers: IntArray, gamma: float
) -> float:
    if (labels == labels[0]).all():  # a classifier needs two classes; with one, it always predicts it
        return float(np.mean(answers == labels[0]))
    # Equal records are one point with a weight: the classifier is the same, and training is faster.
    points, weights = np.unique(np.column_stack([features, labels]), axis=0, return_counts=True)
    machine = SVC(gamma=gamma).fit(points[:, :-1], points[:, -1].astype(np.int64), sample_weight=weights)
    distinct, back = np.unique(questions, axis=0, return_inverse=True)
    return float(np.mean(machine.predict(distinct)[back.ravel()] == answers))
