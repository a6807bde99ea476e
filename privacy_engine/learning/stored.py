"""A trained PPNB as plain values: sums and channels and no code, so that reading one runs nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.learning.statistics import ListedStatistics, NumericStatistics
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.estimation import FloatArray
from privacy_engine.randomizers.numeric import Plain
from privacy_engine.randomizers.randomization import Mechanism, Randomization

MODEL = "private_naive_bayes"


def model_to_dict(model: PrivateNaiveBayes) -> dict[str, Any]:
    """What ``model_from_dict`` reads back; all of it is a function of the releases.

    Args:
        model: Trained, with a manifest.
    """
    return {
        "model": MODEL,
        "alpha": float(model.alpha),
        "var_smoothing": float(model.var_smoothing),
        "shrinkage": bool(model.shrinkage),
        "label": model.label_,
        "classes": model.classes_.tolist(),
        "class_count": model.class_count_.tolist(),
        "unmix": model.unmix_.tolist(),
        "randomization": Randomization.of_manifest(model.manifest or {}).to_dict(),
        "attributes": [_sums(kept) for kept in model.statistics_],
    }


def model_from_dict(fields: Mapping[str, Any]) -> PrivateNaiveBayes:
    """A model that predicts, and learns on, as the one that was stored.

    Models without `shrinkage` hold fewer sums, from which no standard error follows: they continue without
    it.

    Raises:
        ValueError: If it is no such model.
    """
    given: object = fields  # read from a file, which may hold anything
    if not isinstance(given, Mapping) or given.get("model") != MODEL:
        raise ValueError(f"a stored model must be a mapping with `model: {MODEL}`")
    try:
        model = PrivateNaiveBayes(
            {"randomization": fields["randomization"]},
            label=fields["label"],
            alpha=float(fields["alpha"]),
            var_smoothing=float(fields["var_smoothing"]),
            shrinkage=bool(fields.get("shrinkage", False)),
        )
        mechanisms = Randomization.of_manifest(model.manifest or {}).mechanisms
        model.label_ = fields["label"]
        model.classes_ = np.array(fields["classes"])
        model.class_count_ = np.array(fields["class_count"], dtype=np.float64)
        model.unmix_ = np.array(fields["unmix"], dtype=np.float64)
        model.statistics_ = [
            _statistics(kept, mechanisms, model.class_count_) for kept in fields["attributes"]
        ]
    except (KeyError, TypeError, AttributeError):
        raise ValueError("a stored model must have all its parts; train it again") from None
    model.feature_names_in_ = np.array([kept.name for kept in model.statistics_], dtype=object)
    model.n_features_in_ = len(model.statistics_)
    return model


def _sums(kept: ListedStatistics | NumericStatistics) -> dict[str, Any]:
    if isinstance(kept, ListedStatistics):
        return {"name": kept.name, "counts": kept.counts.tolist()}
    return {"name": kept.name, "sums": kept.sums.tolist(), "centre": kept.centre}


def _statistics(
    fields: Mapping[str, Any], mechanisms: Mapping[str, Mechanism], counts: FloatArray
) -> ListedStatistics | NumericStatistics:
    name = str(fields["name"])
    mechanism = mechanisms.get(name, Plain())
    if isinstance(mechanism, Channel):
        return ListedStatistics(name, mechanism, np.array(fields["counts"], dtype=np.float64))
    sums = np.array(fields["sums"], dtype=np.float64)
    if sums.ndim == 2:  # of a model without `shrinkage`: of both scores, and of the first one's square
        first, second, square = sums.T
        unknown = np.zeros(len(sums))
        rows = [[counts, first, second], [first, square, unknown], [second, unknown, unknown]]
        sums = np.moveaxis(np.array(rows), 2, 0)
    return NumericStatistics(name, mechanism, sums, fields["centre"])
