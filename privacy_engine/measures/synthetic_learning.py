"""How well a classifier trained on synthetic records predicts real ones: train on synthetic, test on real.

Esteban, Hyland and Ratsch (2017), "Real-valued (medical) time series generation with recurrent conditional
GANs", section 4.2 (TSTR). The scores are exact figures of the source: for the curator, never published.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.svm import SVC

from privacy_engine.measures.synthetic_utility import coded, require_equal_domains
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords
from privacy_engine.tables.schema import DataSchema

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Score:
    """Share of the test records whose target is predicted correctly, by training data.

    Attributes:
        real: Share for a classifier trained on records of the source (TRTR), which is the best to expect.
        synthetic: Share for a classifier trained on synthetic records (TSTR).
        majority: Share if the most frequent value of the real training records is always predicted, the
            baseline.
    """

    real: float
    synthetic: float
    majority: float


def train_on_synthetic(
    train: pd.DataFrame,
    synthetic: pd.DataFrame,
    test: pd.DataFrame,
    schema: DataSchema,
    targets: Sequence[str],
    rng: np.random.Generator,
    rows: int = 5_000,
) -> dict[str, Score]:
    """Return the accuracy of a support vector machine for each target, by training data.

    The classifier sees all other attributes, their public domains one-hot. Kernel RBF, defaults of
    scikit-learn.

    Args:
        train: Real records; in TRTR they are what `synthetic` is in TSTR.
        synthetic: Synthetic records to train on.
        test: Real records that are not in ``train``. Where the synthesizer has seen them, TSTR flatters a
            synthesizer that remembers records; a differentially private one almost never can.
        schema: Schema of all three; each attribute but identifiers with a public domain.
        targets: Attributes to predict; bins of one are its classes.
        rng: Draws the rows.
        rows: Most training and most test records, drawn at random; the cost grows with their square.

    Raises:
        SchemaError: If a table does not fit the schema, a domain is not public, or a target is unknown.
        ValueError: If rows is below 2, or there is no other attribute than the target.
    """
    if rows < 2:
        raise ValueError(f"rows must be >= 2, got {rows}")
    known = schema.without_identifiers()
    chosen = [known[target].name for target in targets]  # refuses an unknown one
    if len(known.names) < 2:
        raise ValueError("a target requires another attribute as a predictor, but the schema has only one")
    learned, drawn, tested = (coded(_sample(table, rows, rng), known) for table in (train, synthetic, test))
    return {
        target: Score(
            real=accuracy(learned, tested, target),
            synthetic=accuracy(drawn, tested, target),
            majority=_majority(learned, tested, target),
        )
        for target in chosen
    }


def _sample(table: pd.DataFrame, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    return table if len(table) <= rows else table.iloc[np.sort(rng.choice(len(table), rows, replace=False))]


def _majority(train: CodedTable, test: CodedTable, target: str) -> float:
    at = train.names.index(target)
    return float(np.mean(test.codes[at] == np.bincount(train.codes[at]).argmax()))


def accuracy(train: CodedTable, test: CodedTable, target: str) -> float:
    """Return the share of the test records whose target a classifier trained on ``train`` predicts correctly.

    Equal records are one point with a weight: the classifier is the same, and training is much faster.

    Raises:
        ValueError: If the tables are encoded over different domains, or have no such attribute.
    """
    require_equal_domains(train, test)
    at = train.names.index(target)
    labels = train.codes[at]
    if (labels == labels[0]).all():  # a classifier needs two classes; with one, it always predicts it
        return float(np.mean(test.codes[at] == labels[0]))
    learned, tested = WeightedRecords.of(train), WeightedRecords.of(test)
    machine = SVC(gamma=one_hot_gamma(train.sizes, at))
    machine.fit(_features(learned, at), learned.codes[at], sample_weight=learned.weights)
    right = machine.predict(_features(tested, at)) == tested.codes[at]
    return float(tested.weights @ right / tested.total)


def one_hot_gamma(sizes: Sequence[int], target: int) -> float:
    """scikit-learn's "scale", 1 / (features * their variance): a record has as many ones as attributes."""
    width = sum(sizes) - sizes[target]
    ones = (len(sizes) - 1) / width
    return 1.0 / (width * ones * (1.0 - ones)) if ones < 1 else 1.0


def _features(records: WeightedRecords, target: int) -> FloatArray:
    """(u, f) one column a code of each attribute but the target."""
    columns = [
        np.eye(size)[codes]
        for j, (size, codes) in enumerate(zip(records.sizes.tolist(), records.codes, strict=True))
        if j != target
    ]
    return np.hstack(columns)
