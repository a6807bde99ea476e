"""Train, evaluate and store a model that learns from published randomized releases.

Training reads only the bytes and the manifest of a release. The model and everything reported about it are
therefore post-processing: they cost no privacy and may be as public as the release. A test on true records is
different, see `evaluate`.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pandas as pd

from privacy_engine.errors import PublishError, SchemaError, SpecError
from privacy_engine.vocabulary import counted
from privacy_release.lake.log import State
from privacy_release.lake.read import newest_releases, read_release, standing_manifest
from privacy_release.lake.store import put
from privacy_release.reports.curator import write_for_curator
from privacy_release.reports.learning import Score, Trained, render_model_report
from privacy_release.workarea.engines import kind_of_engine
from privacy_release.workarea.references import Table

if TYPE_CHECKING:
    from privacy_engine.learning.comparison import Accuracies
    from privacy_release.lake.store import Lake, ReleaseTable


def newest_release(table: "ReleaseTable") -> str:
    """Return the ID of the last published release that is not retracted.

    Raises:
        PublishError: If there is none.
    """
    current = (e for e in newest_releases(table) if e["state"] == State.CURRENT.value)
    found = next(current, None)
    if found is None:
        raise PublishError(
            f"table {table.name} must have a release in the lake at {table.lake.root}; publish one first"
        )
    return str(found["release_id"])


def train(
    table: "ReleaseTable",
    releases: Sequence[str],
    *,
    target: str,
    features: Sequence[str] | None = None,
    alpha: float = 1.0,
    var_smoothing: float = 1e-9,
    shrinkage: bool = True,
) -> Trained:
    """Train naive Bayes on releases, one after the other.

    Args:
        table: The release table.
        releases: IDs of the releases. They must be about different people, because further answers about
            the same people add nothing.
        target: Name of the class, a listed attribute.
        features: Names of the attributes to learn from. None: all others.
        alpha: Number of records that are added to each listed value of each class (smoothing).
        var_smoothing: Smallest variance of a number within a class, as a share of the attribute's variance.
        shrinkage: Whether variances that are mostly noise are pulled towards that of all classes. False: the
            paper's estimator.

    Raises:
        PublishError: If a release does not exist, or the lake cannot be reached.
        SpecError: If a release was not randomized, releases were randomized differently, or a name or
            parameter is wrong.
        SchemaError: If values do not fit the manifest.
    """
    from privacy_engine.learning.ppnb import PrivateNaiveBayes

    if not releases:
        raise SpecError("learning: no release to learn from was given; name at least one")
    if not (alpha >= 0 and var_smoothing >= 0):
        raise SpecError(f"learning: alpha and var_smoothing must be >= 0, got {alpha} and {var_smoothing}")
    manifests = [standing_manifest(table, release) for release in releases]
    attributes, *others = [made.randomization.attributes if made.randomization else {} for made in manifests]
    if not attributes or any(other != attributes for other in others):
        raise SpecError(
            f"learning: the releases of table {table.name} must all be randomized with the same "
            "probabilities; choose other releases, or one at a time"
        )
    if attributes.get(target, {}).get("mechanism", "channel") != "channel":
        raise SpecError(f"learning: the target must be a listed attribute, {target} was released as a number")
    frames = [read_release(table, release).to_pandas() for release in releases]
    names = [name for name in frames[0] if name != target] if features is None else list(features)
    for frame in frames:
        _require_columns(frame, target, names)
    named = sorted(set().union(*(frame[target].unique() for frame in frames)))
    classes = None if target in attributes else named  # a channel lists its own classes
    model = PrivateNaiveBayes(
        manifests[0].stored, label=target, alpha=alpha, var_smoothing=var_smoothing, shrinkage=shrinkage
    )
    for frame in frames:
        model.partial_fit(frame[names], frame[target], classes)
    return Trained(
        model=model,
        table=table.name,
        releases=tuple(releases),
        released=pd.concat(frames, ignore_index=True),
        manifest=manifests[-1],
    )


def evaluate(trained: Trained, test: Table) -> Score:
    """Score the model on true records.

    The score is an exact figure of these records. If they are about people, it is not part of any guarantee,
    and only people who may see the records may see it.

    Args:
        trained: Trained model with its facts.
        test: Ingested table with the model's attributes and its class.

    Raises:
        SchemaError: If the table lacks a column, or a value is not in the release's public domain.
        IntegrityError: If the table changed since it was ingested.
        SpecError: If an engine other than `local` works on the table.
    """
    frame = _records_of(test)
    names, target = list(trained.model.feature_names_in_), str(trained.model.label_)
    _require_columns(frame, target, names)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        accuracy = float(trained.model.score(frame[names], frame[target]))
    return Score(
        rows=len(frame),
        accuracy=accuracy,
        majority=float(frame[target].value_counts(normalize=True).max()),
        notes=tuple(dict.fromkeys(str(w.message) for w in caught if w.category is UserWarning)),
    )


def compare(
    table: Table, *, target: str, features: Sequence[str], p_0: float, seed: int, test_share: float = 0.25
) -> "Accuracies":
    """Compare PPNB with its baseline DTPD on records of two-valued attributes, at an equal probability.

    The answers are drawn from the seed and are discarded. The figures are exact figures of the records.

    Args:
        table: Ingested table of true records.
        target: Class, a column with listed values.
        features: Columns to learn from, each with two values at most.
        p_0: Probability with which a value or a whole record is kept, in (0, 1) but not 0.5.
        seed: Seed of the split and of the answers.
        test_share: Share of the records that are tested, in (0, 1).

    Raises:
        SchemaError: If the table lacks a column, or a column has nulls or too many values.
        IntegrityError: If the table changed since it was ingested.
        SpecError: If a parameter is out of range, or an engine other than `local` works on the table.
    """
    import numpy as np

    from privacy_engine.learning.comparison import compare_learners

    frame = _records_of(table)
    _require_columns(frame, target, features)
    try:
        rng = np.random.default_rng(seed)
        return compare_learners(frame, features, target, p_0, rng, test_share=test_share)
    except SchemaError:
        raise
    except ValueError as error:
        raise SpecError(f"learning: {error}") from None


def figures_of(trained: Trained) -> dict[str, Any]:
    """Return a person's epsilon, the largest breach coefficient, and the breach width of each number."""
    found = trained.accounts()
    known = [account.breach for account in found if account.breach is not None]
    loss = trained.manifest.loss
    return {
        "epsilon": loss.epsilon if loss else None,
        "breach_coefficient": max(known, default=None),
        "breach_width": {a.attribute: a.width for a in found if a.width is not None},
    }


def model_path(name: str, release_id: str) -> str:
    """Return the path of a model below the root of a lake, without an extension.

    Args:
        name: Name of the DAG or of the release file.
        release_id: Name of the release in its table.

    >>> model_path("train", "manual/1")
    '_models/train/manual%2F1'
    """
    return f"_models/{quote(name, safe='')}/{quote(release_id, safe='')}"


def write_model(lake: "Lake", path: str, trained: Trained, score: Score | None) -> dict[str, str]:
    """Store the model and its report in the lake, and return their paths.

    Args:
        lake: Lake that stores them.
        path: Path below the lake's root, without an extension.
        trained: Trained model with its facts.
        score: Score on public records, which is published with the model. None: no score is published.
    """
    from privacy_engine.learning.stored import model_to_dict

    stored = model_to_dict(trained.model) | {"table": trained.table, "releases": list(trained.releases)}
    put(lake, f"{path}.json", json.dumps(stored, sort_keys=True, allow_nan=False).encode())
    put(lake, f"{path}.html", render_model_report(trained, score).encode())
    return {"model": f"{lake.root}/{path}.json", "report": f"{lake.root}/{path}.html"}


def write_private_score(score: Score, trained: Trained, name: str, release_id: str) -> str:
    """Write a score on people's records to the curator's folder and return its path."""
    content = {
        "table": trained.table,
        "releases": list(trained.releases),
        "target": trained.model.label_,
        "rows": score.rows,
        "accuracy": score.accuracy,
        "majority": score.majority,
        "notes": list(score.notes),
    }
    return write_private_figures(content, name, release_id)


def write_private_figures(content: Mapping[str, Any], name: str, release_id: str) -> str:
    """Write exact figures of people's records to the curator's folder and return their path."""
    return str(write_for_curator(json.dumps(content, indent=2), name, release_id, ending=".accuracy.json"))


def _records_of(table: Table) -> "pd.DataFrame":
    """Return the true records of a table.

    Raises:
        IntegrityError: If the table changed since it was ingested.
        SpecError: If an engine other than `local` works on the table.
    """
    if table.is_in_fragments:
        raise SpecError(
            "a model is scored on a table in memory, but the engine "
            f"{kind_of_engine(table.engine)} keeps the table on disk; ingest the test records with "
            "the engine local"
        )
    return table.frame()


def _require_columns(frame: "pd.DataFrame", target: str, names: Sequence[str]) -> None:
    if target in names or not names:
        raise SpecError("learning: features must be attributes other than the target, at least one")
    if missing := [name for name in (target, *names) if name not in frame]:
        raise SchemaError(f"columns {missing} must be in the table; correct target and features")
    if nulls := int(frame[target].isna().sum()):
        raise SchemaError(
            f"{target}: {counted(nulls, 'class is', 'classes are')} null: use another target, or drop "
            "them at ingest"
        )
