"""What a randomized release reveals about the true records: distributions and moments with their errors."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from privacy_engine.learning.statistics import label_codes
from privacy_engine.randomizers.breach import breach_width
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.numeric import moments
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.tables.columns import floats


def reconstructed_distributions(released: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """Shares of each value of each listed attribute that was randomized.

    Args:
        released: Table of the release.
        manifest: Manifest of the release.

    Returns:
        One row per value: attribute, value (None for a null), share (unbiased: may be below 0),
        standard_error (of the population's share), randomization_error (of the share in the source),
        distribution (the shares clipped and normalised).

    Raises:
        ValueError: If the manifest is not that of a randomized release, or a channel has no inverse.
        SchemaError: If a value is not in the public domain.
    """
    tables = []
    for name, mechanism in Randomization.of_manifest(manifest).mechanisms.items():
        if isinstance(mechanism, Channel):
            codes = label_codes(name, mechanism.labels, released[name])
            estimate = mechanism.estimate(np.bincount(codes, minlength=len(mechanism)))
            tables.append(
                pd.DataFrame(
                    {
                        "attribute": name,
                        "value": [None if label == "\0" else label for label in mechanism.labels],
                        "share": estimate.shares,
                        "standard_error": estimate.standard_errors,
                        "randomization_error": estimate.randomization_errors,
                        "distribution": estimate.distribution,
                    }
                )
            )
    columns = ["attribute", "value", "share", "standard_error", "randomization_error", "distribution"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def reconstructed_moments(released: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """Mean and variance of each number that was randomized.

    Args:
        released: Table of the release.
        manifest: Manifest of the release.

    Returns:
        One row per attribute: attribute, mean, mean_error, variance (0 if the noise exceeds it),
        variance_error, and breach_width at 50, 95 and 99.9 %: the paper's interval for a normal attribute.

    Raises:
        ValueError: If the manifest is not that of a randomized release, or there are fewer than two records.
    """
    rows = []
    for name, mechanism in Randomization.of_manifest(manifest).mechanisms.items():
        if not isinstance(mechanism, Channel):
            found = moments(mechanism, floats(released[name]))
            row: dict[str, Any] = {
                "attribute": name,
                "mean": found.mean,
                "mean_error": found.mean_error,
                "variance": found.variance,
                "variance_error": found.variance_error,
            }
            for confidence in (0.5, 0.95, 0.999):
                row[f"breach_width_{confidence * 100:g}"] = breach_width(found.variance**0.5, confidence)
            rows.append(row)
    return pd.DataFrame(rows)
