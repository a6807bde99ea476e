"""PPNB and DTPD on one table of two-valued attributes, at an equal p: the experiment of PPNB's figure 3.

Zhang, Tang: Privacy Preserving Naive Bayes Classification (Chinese Journal of Computers 30(8), 2007), section
7. Part of the records is randomized, by partial hiding (ERRPH) for PPNB and by reversing whole records for
DTPD. Each method learns from its own answers, and both are scored on the other records. The answers are drawn
from a generator and are not private: they are for a comparison only, and are not returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.learning.dtpd import DTPD, reverse_records
from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.tables.columns import value_text
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Accuracies:
    """Shares of test records whose class each method predicts.

    Attributes:
        learned: Number of records that were randomized and learned from.
        tested: Number of test records.
        ppnb: Accuracy of PPNB.
        dtpd: Accuracy of DTPD.
        majority: Accuracy of the most frequent class of the test records.
    """

    learned: int
    tested: int
    ppnb: float
    dtpd: float
    majority: float


def compare_learners(
    table: pd.DataFrame,
    features: Sequence[str],
    target: str,
    p_0: float,
    rng: np.random.Generator,
    *,
    test_share: float = 0.25,
) -> Accuracies:
    """Score both methods on one split of a table.

    Args:
        table: True records, without nulls in the columns that are used.
        features: Columns to learn from, each with two values at most.
        target: Class, a column with listed values. It is not randomized.
        p_0: Probability with which a value (PPNB) or a whole record (DTPD) is kept, in (0, 1) but not 0.5.
        rng: Source of the split and of the random answers.
        test_share: Share of the records that are tested, in (0, 1).

    Raises:
        SchemaError: If a feature has more than two values, or a column has nulls.
        ValueError: If a parameter is out of range.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must be in (0, 1), got {test_share}")
    truths = pd.DataFrame({name: _booleans(table[name]) for name in features})
    classes = table[target].map(value_text).reset_index(drop=True)
    if table[target].isna().any():
        raise SchemaError(f"{target}: a class is null; use another target, or drop these records")
    order = rng.permutation(len(table))
    tested, learned = np.split(order, [max(1, round(test_share * len(table)))])
    if not len(learned):
        raise ValueError(f"the table must have 2 records or more, got {len(table)}")
    labels = sorted(classes.unique())
    schema = DataSchema.from_dict(
        {name: {"role": "quasi_identifier", "categories": ["False", "True"]} for name in features}
        | {target: {"role": "insensitive", "categories": labels}}
    )
    source = truths.take(learned).reset_index(drop=True)
    source[target] = classes.take(learned).to_numpy()
    release = ERRPH(p_0=p_0, randomness="seeded").release(source, schema, rng)
    bayes = PrivateNaiveBayes(release.manifest(), label=target).fit(
        release.table[list(features)], release.table[target]
    )
    tree = DTPD(p_0).fit(
        reverse_records(source[list(features)].to_numpy(dtype=bool), p_0, rng), source[target]
    )
    held_out, answers = truths.take(tested), classes.take(tested)
    return Accuracies(
        learned=len(learned),
        tested=len(tested),
        ppnb=float(bayes.score(held_out, answers)),
        dtpd=float(tree.score(held_out.to_numpy(dtype=bool), answers)),
        majority=float(answers.value_counts(normalize=True).max()),
    )


def _booleans(column: pd.Series) -> pd.Series:
    """Return a column of two values as booleans: True is the second one in order."""
    if column.isna().any():
        raise SchemaError(f"{column.name}: a value is null; drop these records, or choose other features")
    values = sorted(column.unique())
    if len(values) > 2:
        raise SchemaError(
            f"{column.name} has more than two values; derive a column of two values in a transform first"
        )
    return pd.Series((column == values[-1]).to_numpy(dtype=bool))
