"""What a stream of releases goes on from, as bytes: it holds exact tables, so it stays with the curator."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.continual.changes import CountedPeople
from privacy_engine.continual.on_change import ChangeTest, Watch
from privacy_engine.continual.standing import Patience, Standing
from privacy_engine.continual.strategies import Strategy
from privacy_engine.continual.stream import TableStream
from privacy_engine.continual.tables import ContinualTables, Known
from privacy_engine.continual.views import FixedViews
from privacy_engine.dp.accounting import Spend
from privacy_engine.latent.latent_class import LatentClass
from privacy_engine.release import parameters_of

_TYPES = ("<i8", "<f8", "<u4", "<i2", "|b1")


def to_bytes(state: TableStream | Standing) -> bytes:
    """JSON text that ``from_bytes`` reads back, bit for bit."""
    told = _of_following(state) if isinstance(state, TableStream) else _of_standing(state)
    return json.dumps(told, allow_nan=False, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> TableStream | Standing:
    """Read what ``to_bytes`` wrote.

    Raises:
        ValueError: if the bytes are no such state.
    """
    try:
        told = json.loads(data)
        return _following(told) if "tables" in told else _standing(told)
    except (KeyError, TypeError, AttributeError, zlib.error) as error:
        raise ValueError(f"these bytes are no state of a stream: {type(error).__name__}") from None


def _of_following(state: TableStream) -> dict[str, Any]:
    tables, people = state.tables, state.people
    return {
        "views": _of_views(state.views),
        "choice": [spend.to_dict() for spend in state.choice],
        "tables": {
            "rows": _of_array(tables.strategy.rows),
            "changes": tables.strategy.changes,
            "rhos": list(tables.rhos),
            "exact": list(map(_of_array, tables.exact)),
            "noisy": list(map(_of_array, tables.noisy)),
            "known": list(map(_of_known, tables.known)),
        },
        "people": None
        if people is None
        else {
            "people": _of_array(people.people),
            "codes": _of_array(people.codes),
            "present": _of_array(people.present),
            "changes": _of_array(people.changes),
        },
    }


def _following(told: Mapping[str, Any]) -> TableStream:
    tables, people = told["tables"], told["people"]
    return TableStream(
        views=_views(told["views"]),
        choice=tuple(map(Spend.from_dict, told["choice"])),
        tables=ContinualTables(
            strategy=Strategy(rows=_array(tables["rows"]), changes=tables["changes"]),
            rhos=tuple(tables["rhos"]),
            exact=tuple(map(_array, tables["exact"])),
            noisy=tuple(map(_array, tables["noisy"])),
            known=tuple(map(_known, tables["known"])),
        ),
        people=None if people is None else CountedPeople(**{name: _array(a) for name, a in people.items()}),
    )


def _of_standing(state: Standing) -> dict[str, Any]:
    watch = state.watch
    return {
        "patience": {"anew": state.patience.anew, "tolerance": state.patience.tolerance},
        "views": _of_views(state.views),
        "known": list(map(_of_known, state.known)),
        "spends": [spend.to_dict() for spend in state.spends],
        **{name: getattr(state, name) for name in ("rows", "number", "since", "measured")},
        "watch": None
        if watch is None
        else {
            "test": {
                name: getattr(watch.test, name) for name in ("epsilon", "firings", "sensitivity", "threshold")
            },
            "noisy_threshold": watch.noisy_threshold,
            "answers": list(watch.answers),
        },
    }


def _standing(told: Mapping[str, Any]) -> Standing:
    watch = told["watch"]
    return Standing(
        patience=Patience(**told["patience"]),
        views=_views(told["views"]),
        known=tuple(map(_known, told["known"])),
        spends=tuple(map(Spend.from_dict, told["spends"])),
        rows=told["rows"],
        number=told["number"],
        since=told["since"],
        measured=told["measured"],
        watch=None
        if watch is None
        else Watch(
            test=ChangeTest(**watch["test"]),
            noisy_threshold=watch["noisy_threshold"],
            answers=tuple(watch["answers"]),
        ),
    )


def _of_views(views: FixedViews) -> dict[str, Any]:
    return {"method": parameters_of(views.method), "tables": views.to_dict()}


def _views(told: Mapping[str, Any]) -> FixedViews:
    return FixedViews.from_dict(told["tables"], LatentClass(**told["method"]))


def _of_known(known: Known) -> dict[str, Any]:
    return {"cells": _of_array(known.cells), "variance": known.variance}


def _known(told: Mapping[str, Any]) -> Known:
    return Known(cells=_array(told["cells"]), variance=told["variance"])


def _of_array(array: npt.NDArray[Any]) -> dict[str, Any]:
    packed = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes(), level=1))
    return {"type": array.dtype.str, "shape": list(array.shape), "bytes": packed.decode()}


def _array(told: Mapping[str, Any]) -> npt.NDArray[Any]:
    if told["type"] not in _TYPES:
        raise ValueError(f"an array of a stream must be of one of {_TYPES}, got another type")
    data = zlib.decompress(base64.b64decode(told["bytes"]))
    return np.frombuffer(data, dtype=told["type"]).reshape(told["shape"]).copy()
