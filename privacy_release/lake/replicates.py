"""The replicates of a model as a file with the release, from which readers compute intervals of answers.

It is one Parquet table with a row for each replicate, class, attribute and value. Replicate 0 is the model
that the records were drawn from. All others are functions of what was measured with noise, and spend no
epsilon.
"""

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.synthesizers.quantile_bins import joined_codes
from privacy_engine.synthesizers.synthesizer import model_domains, unjoined_domains
from privacy_engine.tables.dates import DATES
from privacy_engine.tables.domains import BinnedDomain, DatedDomain, LabelledDomain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.tables.domains import PublicDomain
    from privacy_engine.tables.schema import DataSchema

REPLICATES = "replicates.parquet"  # name of the proof in the note of a commit
METADATA = b"privacy_release.replicates"  # key of the file's metadata, which is JSON
VERSION = 1


def replicates_file(model: "SynthesizerModel", schema: "DataSchema") -> bytes | None:
    """Return the file of a model that was measured with a schema. None if the model has no replicates."""
    found = model.replicates
    if found is None:
        return None
    models = found.models(model.network)
    domains = model_domains(model, schema)
    known = {*models[0].tables, *models[0].follows}  # not large attributes, which are drawn last
    values = {domain.name: _values(domain) for domain in domains if domain.name in known}
    parts = []
    for replicate, tables in enumerate(models):
        for name, meant in values.items():
            root, value = tables.follows.get(name, (name, None))
            table = tables.tables[root]
            if value is not None:
                table = table @ np.eye(len(meant["size"]))[value]
            first = tables.part_of.get(root, 0) * len(
                table
            )  # classes of different parts have different numbers
            parts.append(_part(replicate, name, tables.weights_of(root), table, meant, first))
    metadata = {
        "version": VERSION,
        "replicates": len(found),
        "records": model.rows,
        "misfit": list(found.misfit),
        "unseen": found.unseen,
        "together": [list(names) for names in found.together],
        "follows": {name: [root, value.tolist()] for name, (root, value) in models[0].follows.items()},
        "kinds": {name: meant["kind"] for name, meant in values.items()},
        **({"part_of": dict(models[0].part_of)} if models[0].part_of else {}),
        "filling": _filling(model, schema, domains),
        "means": {name: meant["mean"] for name, meant in values.items() if "mean" in meant},
        **_noise_in_number(model),
    }
    table = pa.concat_tables(parts).unify_dictionaries()
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({METADATA: json.dumps(metadata)}), sink, compression="zstd")
    return sink.getvalue()


def _filling(
    model: "SynthesizerModel", schema: "DataSchema", domains: "Sequence[PublicDomain]"
) -> dict[str, list[float]]:
    """Return the probability of each code among records that fill up, where it is not the same for all.

    These records are uniform on the bins from which others were joined.
    """
    found = {}
    for bins, fine in zip(domains, unjoined_domains(model, schema), strict=True):
        if bins.size < fine.size:
            counts = np.bincount(joined_codes(fine, bins), minlength=bins.size)
            found[bins.name] = (counts / fine.size).tolist()
    return found


def _noise_in_number(model: "SynthesizerModel") -> dict[str, Any]:
    """Return the noise in a release's number of records by persons. Other releases have a public number."""
    if not model.counts_persons:
        return {}
    number = model.noisy_number
    return {"number": None if number is None else number.to_dict()}


def _part(
    replicate: int,
    name: str,
    weights: "npt.NDArray[np.float64]",
    table: "npt.NDArray[np.float64]",
    meant: "dict[str, Any]",
    first: int,
) -> "pa.Table":
    """Return the rows of one attribute in one replicate, by class, numbered from `first`, and value."""
    classes, values = len(weights), len(meant["code"])
    spread = table[:, meant["code"]] / meant["size"][meant["code"]]
    return pa.table(
        {
            "replicate": np.full(classes * values, replicate, dtype=np.int16),
            "class": np.repeat(np.arange(first, first + classes, dtype=np.int16), values),
            "weight": np.repeat(weights, values),
            "attribute": pa.array([name] * (classes * values)).dictionary_encode(),
            "code": np.tile(meant["code"].astype(np.int32), classes),
            "value": pa.array(meant["text"] * classes, pa.string()).dictionary_encode(),
            "low": pa.array(np.tile(meant["low"], classes), from_pandas=True),
            "high": pa.array(np.tile(meant["high"], classes), from_pandas=True),
            "probability": spread.ravel(),
        }
    )


def _values(domain: "PublicDomain") -> dict[str, Any]:
    """Return the possible values of a column: code, text, and range for numbers and dates.

    `size` is the number of values, by code, over which it is distributed evenly. Values on a logarithmic
    scale are not even within a bin, and so have a `mean` each.
    """
    mean = None
    if isinstance(domain, LabelledDomain):
        code = domain.groups
        text: list[str | None] = [*domain.labels]
        numbers = [_number(label) for label in domain.labels]
        is_number = domain.storage in ("whole", "real") and None not in numbers
        low = np.array(numbers if is_number else [np.nan] * len(text), dtype=np.float64)
        high, kind = low, "whole" if is_number else "label"
    elif isinstance(domain, BinnedDomain):
        code, edges = np.arange(domain.bins), domain.edges
        if domain.spread is not None:
            edges, mean = domain.spread.edges(edges), domain.spread.means().tolist()
        low = edges[:-1]
        high = edges[1:] - 1 if domain.whole else edges[1:]
        text = [f"{a:g}" if a == b else f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True)]
        kind = "whole" if domain.whole else "real"
    else:
        assert isinstance(domain, DatedDomain)
        code, kind = np.arange(domain.bins), "date" if domain.form.clock is DATES else "timestamp"
        low = domain.form.starts(domain.low, domain.edges[:-1])
        high = domain.form.last(domain.form.starts(domain.low, domain.edges[1:] - 1))
        text = [a if a == b else f"[{a}, {b}]" for a, b in domain.spans()]
    if getattr(domain, "nullable", False):
        code = np.append(code, domain.size - 1)
        text, low, high = [*text, None], np.append(low, np.nan), np.append(high, np.nan)
        mean = None if mean is None else [*mean, None]
    size = np.bincount(code, minlength=domain.size)
    meant = {"code": code, "text": text, "low": low, "high": high, "size": size, "kind": kind}
    return meant if mean is None else meant | {"mean": mean}


def _number(label: str) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None
