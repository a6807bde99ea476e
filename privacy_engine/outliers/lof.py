"""Local outlier factor of every record: the baseline of OKPLOF, on the same mixed distance.

Breunig, Kriegel, Ng, Sander: LOF: identifying density-based local outliers, SIGMOD 2000. Neighbours are
distinct records; see `privacy_engine.outliers.density` for the deviations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.outliers.density import local_outlier_factors
from privacy_engine.outliers.detector import Outliers, check_parameters, outliers_of
from privacy_engine.outliers.mixed_space import MixedSpace
from privacy_engine.parameters import require_types
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class LOF:
    """Rate every record against its neighbours among all records.

    Attributes:
        neighbours: Distinct records around each, >= 1; as many as there are where these are fewer.
        penalty: Lambda, squared distance of two unequal categories, > 0; numbers are scaled to [0, 1].
        top: Number of the highest scores to report; not with `threshold`.
        threshold: Score above which a record is reported, > 0, instead of `top`; 1.5 if neither is given.
        attributes: Columns outliers may show in; all quasi-identifiers where none are given.
    """

    neighbours: int = 20
    penalty: float = 1.0
    top: int | None = None
    threshold: float | None = None
    attributes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_types(self)
        check_parameters(
            neighbours=self.neighbours,
            penalty=self.penalty,
            top=self.top,
            threshold=self.threshold,
            attributes=self.attributes,
        )

    def detect(self, table: pd.DataFrame, schema: DataSchema) -> Outliers:
        """Score and flag the records, in the order of the table's rows.

        Raises:
            SchemaError: If the chosen columns do not fit the schema.
            InfeasibleError: If all records are equal, or ``top`` exceeds their number.
        """
        space = MixedSpace.of_table(table, schema, self.attributes, self.penalty)
        points = np.arange(len(space))
        scores = local_outlier_factors(space, points, points, self.neighbours)
        pruned = np.zeros(len(space), dtype=np.bool_)
        return outliers_of(scores, pruned, space.point_of, self.top, self.threshold)
