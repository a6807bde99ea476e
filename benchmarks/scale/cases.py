"""The timed cases, each in a separate process: ``python -m benchmarks.scale.cases NAME FILE``, JSON out."""

import argparse
import json
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.peers import peers
from benchmarks.tables import SENSITIVE, Table, head, read
from benchmarks.timing import Timing, interleaved
from privacy_engine import DistinctLDiversity, EquivalenceClasses, KAnonymity, TCloseness, load_method
from privacy_engine.tables.schema import DataSchema

K, L = 10, 3
BLOCK = 4_000
WARM_UP_ROWS = 3_000
Parameters = Mapping[str, object]

SMALL: Mapping[str, tuple[str, Parameters]] = {
    "Mondrian": ("mondrian", {}),
    "Mondrian, l = 3": ("mondrian", {"l": L}),
    "Bottom-up, exact": ("bottom_up", {"refine": False, "block_size": None}),
    "Bottom-up, refined": ("bottom_up", {"block_size": None}),
    "Bottom-up, in blocks": ("bottom_up", {"refine": False, "block_size": BLOCK}),
    "ILP-based, l = 3, exact": ("ilp_l_diversity", {"l": L, "refine": False, "block_size": None}),
    "ILP-based, l = 3, refined": ("ilp_l_diversity", {"l": L, "block_size": None}),
    "ILP-based, l = 3, in blocks": ("ilp_l_diversity", {"l": L, "refine": False, "block_size": BLOCK}),
    "KACLUK": ("kacluk", {}),
}
REFINED = "ILP-based, l = 3, blocks of 4,000, refined"
LARGE: Mapping[str, tuple[str, Parameters]] = {
    "Mondrian": ("mondrian", {}),
    "Mondrian, l = 3": ("mondrian", {"l": L}),
    "ILP-based, l = 3, blocks of 4,000": ("ilp_l_diversity", {"l": L, "refine": False, "block_size": BLOCK}),
    REFINED: ("ilp_l_diversity", {"l": L, "block_size": BLOCK}),
}
SLOW_PEERS: Mapping[str, peers.Peer] = {
    "anonypy Mondrian": peers.anonypy_mondrian,
    "anjana global recoding": peers.anjana_global,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds of each call of a case, and the process's largest resident memory in bytes."""

    timings: Mapping[str, Timing]
    peak: int


def small(table: Table, repeats: int, with_peers: bool) -> Mapping[str, Timing]:
    """All methods and the peers, interleaved, on one small table."""
    calls = {name: released(table, key, parameters) for name, (key, parameters) in SMALL.items()}
    turns = dict.fromkeys(calls, repeats)
    if with_peers:
        calls |= {name: partial(call, table, K) for name, call in SLOW_PEERS.items()}
        turns |= {"anonypy Mondrian": 1, "anjana global recoding": 2}
    return interleaved(calls, turns)


def large(table: Table, name: str, repeats: int) -> Mapping[str, Timing]:
    """One method on a large table; what is compiled or loaded once is done on a small one before."""
    key, parameters = LARGE[name]
    released(head(table, WARM_UP_ROWS), key, parameters)()
    return interleaved({name: released(table, key, parameters)}, {name: repeats}, warm_up=False)


def check(file: Path, schema: DataSchema, repeats: int, with_peers: bool) -> Mapping[str, Timing]:
    """k, l and t of a released table: given as a frame, from its Parquet file, and by pycanon."""
    frame = pd.read_parquet(file)
    names = [a.name for a in schema.quasi_identifiers]
    calls: dict[str, Callable[[], object]] = {
        "k": lambda: KAnonymity(k=K).measure(EquivalenceClasses.of_columns(frame, names)),
        "k, l and t": lambda: measures(frame, schema),
        "k, l and t from Parquet": lambda: measures(pd.read_parquet(file), schema),
    }
    turns = dict.fromkeys(calls, repeats)
    if with_peers:
        calls |= {
            "pycanon k": lambda: peers.pycanon_k(frame, names),
            "pycanon l": lambda: peers.pycanon_l(frame, names),
            "pycanon t": lambda: peers.pycanon_t(frame, names),
        }
        turns |= {"pycanon k": 1, "pycanon l": 1, "pycanon t": 1}
    return interleaved(calls, turns)


def measures(frame: pd.DataFrame, schema: DataSchema) -> tuple[float, float, float]:
    """k, l and t of a released table, as `verify` measures them."""
    classes = EquivalenceClasses.of_table(frame, schema)
    models = (
        KAnonymity(k=K),
        DistinctLDiversity(l=L, attribute=SENSITIVE),
        TCloseness(t=0.2, attribute=SENSITIVE),
    )
    k, l, t = (model.measure(classes) for model in models)  # noqa: E741  the models' own symbols
    return k, l, t


def released(table: Table, key: str, parameters: Parameters) -> Callable[[], object]:
    """A whole method call: check, encode, anonymize, render."""
    method = load_method(key, k=K, **parameters)
    return lambda: method.release(table.frame, table.schema, np.random.default_rng(1))


def checked_release(table: Table, folder: Path) -> tuple[Path, DataSchema]:
    """A release in a Parquet file, for the check."""
    release = load_method("mondrian", k=K, l=L).release(table.frame, table.schema, np.random.default_rng(1))
    file = folder / "released.parquet"
    release.table.to_parquet(file, index=False)
    return file, release.schema


def measure(name: str, file: Path, *, repeats: int, with_peers: bool) -> Measured:
    """Run one case: ``small``, ``check``, or one of the large ones."""
    table = read(file)
    if name == "small":
        timings = small(table, repeats, with_peers)
    elif name == "check":
        with tempfile.TemporaryDirectory() as folder:
            timings = check(*checked_release(table, Path(folder)), repeats, with_peers)
    else:
        timings = large(table, name, repeats)
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(timings=timings, peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["small", "check", *LARGE])
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--with-peers", action="store_true")
    given = parser.parse_args()
    measured = measure(given.name, given.file, repeats=given.repeats, with_peers=given.with_peers)
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
