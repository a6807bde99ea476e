"""`privacy-release warm`: to compile before the first release what releases run.

A function is compiled for the types of its arguments, and these follow from the table, so each task makes
releases of small made-up tables with every kind of attribute, or attacks one.
"""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema

_ROWS = 300
# Types do not depend on how much work a method does.
_QUICK: dict[str, dict[str, Any]] = {
    "latent_class": {"classes": 4, "fits": 1},
    "rfka": {"trees": 10},
    **{name: {"regroup": 1} for name in ("bottom_up", "obpa", "ilp_l_diversity")},
}
# One a family, which runs what the others of it share: side by side, two of them would both compile that.
_FIRST = frozenset({"obpa", "privbayes", "okplof"})
_ATTACKS = "attacks"  # all of them: they share what they compile
_WIDE = 300  # categories: codes of more than 256 take two bytes each
_EPILOG = """\
Compiled functions are kept below $NUMBA_CACHE_DIR where it is set, else beside the installed package where
that can be written, else in the user's cache. They hold for this version, this interpreter and this kind of
processor. What only a rare option runs is compiled when it is first used.
"""


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """What a process did for one name.

    Attributes:
        name: registry key of the method or detector, or `_ATTACKS`.
        seconds: that it took.
    """

    name: str
    seconds: float


def add_warm_command(parser: argparse.ArgumentParser) -> None:
    """Give the parser of `warm` its arguments."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "methods", nargs="*", metavar="METHOD", help=f"methods, detectors and {_ATTACKS!r}; default: all"
    )
    parser.add_argument("--processes", type=int, metavar="N", help="at a time; default one a core")
    parser.set_defaults(command=_warm)


def _warm(arguments: argparse.Namespace) -> int:
    from privacy_engine.compiled import cache_folder
    from privacy_engine.registry import detector_names, method_names
    from privacy_release.cli.arguments import WrongArgumentError

    known = (*method_names(), *detector_names(), _ATTACKS)
    if unknown := sorted(set(arguments.methods) - set(known)):
        raise WrongArgumentError(f"METHOD must be one of {', '.join(known)}; got {', '.join(unknown)}")
    processes = len(os.sched_getaffinity(0)) if arguments.processes is None else arguments.processes
    if processes < 1:
        raise WrongArgumentError(f"--processes must be >= 1, got {processes}")
    began = time.perf_counter()
    names = arguments.methods or known
    for done, warmed in enumerate(_each_warmed(names, processes), start=1):
        print(f"{done:>3} of {len(names)}  {warmed.name:<16} {warmed.seconds:6.1f} s", flush=True)
    folder = cache_folder()
    kept = "nowhere: no folder can be written; set NUMBA_CACHE_DIR" if folder is None else f"in {folder}"
    print(f"compiled in {time.perf_counter() - began:.1f} s; kept {kept}")
    return 0 if folder else 1


def _each_warmed(names: Sequence[str], processes: int) -> Iterator[Warmed]:
    """Each method as it is done; of a family one goes first, and compiles what the others share with it."""
    families: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: name not in _FIRST):
        families.setdefault(_family(name), []).append(name)
    # A fresh interpreter each: a fork would copy the locks of threads.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(warm, first): others for first, *others in families.values()}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                running |= {pool.submit(warm, name): [] for name in running.pop(future)}
                yield future.result()


def _family(name: str) -> str:
    from privacy_engine.registry import METHODS

    if name == _ATTACKS:
        return name
    return METHODS[name].family if name in METHODS else "detector"


def warm(name: str) -> Warmed:
    """Run a method, a detector or the attacks as releases do, so that all it needs is compiled and kept."""
    from privacy_engine.registry import METHODS, load_detector

    began = time.perf_counter()
    if name in METHODS:
        _warm_method(name)
    elif name == _ATTACKS:
        _warm_attacks()
    else:
        for categories in (3, _WIDE):
            load_detector(name).detect(*_people(categories))
    return Warmed(name=name, seconds=time.perf_counter() - began)


def _warm_method(name: str) -> None:
    import numpy as np

    from privacy_engine.fragments.cutting import cut
    from privacy_engine.registry import is_anonymizer, load_method, needs_whole_table

    variants: list[dict[str, Any]] = [{}]
    if is_anonymizer(name):
        close = {"model": "t_closeness", "t": 0.5, "attribute": "disease"}
        variants += [{"k": 3, "l": 2, "suppression_limit": 0.1}, {"require": (close,)}]
    for categories in (3, _WIDE):
        table, schema = _people(categories)
        if is_anonymizer(name) and not needs_whole_table(name):
            cut(table, schema, len(table), len(table) // 4)
        for parameters in variants:
            method = load_method(name, **_QUICK.get(name, {}) | parameters)
            _measure(method.release(table, schema, np.random.default_rng(7)), table, schema)


def _measure(release: "Release", table: "pd.DataFrame", schema: "DataSchema") -> None:
    """What the steps after a method compile: figures, the report, and that of the curator."""
    import numpy as np

    from privacy_release.reports.curator import render_curator_report
    from privacy_release.reports.synthetic import own_marginals
    from privacy_release.steps.release import loss_bound, measure

    measure(release, np.random.default_rng(7))
    loss_bound(release)
    if release.model is not None:
        own_marginals(release)
        render_curator_report(release, table, schema, name="warm", release_id="warm")


def _warm_attacks() -> None:
    import numpy as np

    from privacy_engine.attacks.trial import Evidence, case_of, try_attack
    from privacy_engine.registry import ATTACKS, load_attack

    rng = np.random.default_rng(7)
    for categories in (3, _WIDE):
        table, schema = _people(categories)
        inside, outside = table.iloc[: _ROWS // 2], table.iloc[_ROWS // 2 :]
        evidence = Evidence(
            release=inside, source=schema, people=inside, outsiders=outside, register=table[["age", "city"]]
        )
        case = case_of(evidence, rng)
        for attack in ATTACKS:
            try_attack(load_attack(attack), case, rng)


def _people(categories: int) -> "tuple[pd.DataFrame, DataSchema]":
    """Made-up records with each kind of attribute, one of which has this many categories."""
    import numpy as np
    import pandas as pd

    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_engine.tables.schema import DataSchema

    rng = np.random.default_rng(7)
    cities = Hierarchy((("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*")))
    colours = [f"colour {i}" for i in range(categories)]
    fields = {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "colour": {"role": "quasi_identifier", "categories": colours},
        "disease": {"role": "sensitive", "categories": ["cold", "flu", "gout", "none"]},
        "visits": {"role": "insensitive", "kind": "numeric", "bounds": [0, 8]},
    }
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(_ROWS)],
            "age": rng.integers(18, 90, _ROWS),
            "grade": rng.choice(["low", "mid", "high"], _ROWS),
            "city": rng.choice(cities.values, _ROWS),
            "colour": rng.choice(colours, _ROWS),
            "disease": rng.choice(["cold", "flu", "gout", "none"], _ROWS),
            "visits": rng.integers(0, 9, _ROWS),
        }
    )
    return table, DataSchema.from_dict(fields, {"cities": cities})
