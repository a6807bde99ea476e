"""`privacy-release warm`: compile the functions of releases before the first release.

A function is compiled for the types of its arguments. `signatures.json` lists all calls of releases, so each
function is compiled by one process, after those that it calls.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

LIST = Path(__file__).with_name("signatures.json")  # each after those that it calls
ATTACKS = "attacks"  # all attacks, because they share compiled functions
HISTORY = "history"  # releases of people who were released before
PURPOSES = ("demo", "tests")
_EPILOG = """\
Compiled functions are kept below $NUMBA_CACHE_DIR if it is set, otherwise next to the installed package if
that can be written, otherwise in the user's cache. They are valid for this version, this interpreter and this
kind of processor.
"""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A compiled function with the types of its arguments.

    Attributes:
        kernel: Module and name of the function, `privacy_engine.recoding.grouping.cuts:halve`.
        arguments: Types as `privacy_engine.signatures.to_text` writes them.
        seconds: CPU time to compile it if all functions that it calls are compiled.
        calls: Positions in the list of the signatures that it calls, all before its own.
        uses: Users of the function: methods, detectors, `attacks`, `demo`, `tests`.
    """

    kernel: str
    arguments: tuple[str, ...]
    seconds: float
    calls: tuple[int, ...]
    uses: frozenset[str]


def add_warm_command(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `warm` to the parser."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "methods",
        nargs="*",
        metavar="METHOD",
        help=f"methods, detectors, {ATTACKS!r} and {HISTORY!r}; default: all that releases need",
    )
    parser.add_argument(
        "--for", dest="purposes", action="append", choices=PURPOSES, help="only what these need"
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="number of processes; default: one per core"
    )
    parser.set_defaults(command=_warm)


def _warm(arguments: argparse.Namespace) -> int:
    from privacy_engine.compiled import cache_folder
    from privacy_engine.registry import detector_names, method_names
    from privacy_release.cli.arguments import WrongArgumentError

    known = (*method_names(), *detector_names(), ATTACKS, HISTORY)
    if unknown := sorted(set(arguments.methods) - set(known)):
        raise WrongArgumentError(f"METHOD must be one of {', '.join(known)}; got {', '.join(unknown)}")
    processes = len(os.sched_getaffinity(0)) if arguments.processes is None else arguments.processes
    if processes < 1:
        raise WrongArgumentError(f"--processes must be >= 1, got {processes}")
    began = time.perf_counter()
    signatures = read_signatures()
    uses = [*arguments.methods, *(arguments.purposes or ())]
    places = chosen(signatures, uses) if uses else frozenset(range(len(signatures)))
    _show(_each_compiled(signatures, places, processes), len(places), began)
    folder = cache_folder()
    kept = "nowhere: no folder can be written; set NUMBA_CACHE_DIR" if folder is None else f"in {folder}"
    print(f"compiled in {time.perf_counter() - began:.1f} s; kept {kept}")
    return 0 if folder else 1


def _show(each: Iterable[int], total: int, began: float) -> None:
    """Report progress: a line that is overwritten on a terminal, otherwise a line for each tenth."""
    terminal, shown = sys.stdout.isatty(), 0
    for done, _ in enumerate(each, start=1):
        if terminal or done * 10 // total > shown or done == total:
            shown = done * 10 // total
            line = f"{done:>3} of {total} functions  {time.perf_counter() - began:6.1f} s"
            print(line, end="\r" if terminal and done < total else "\n", flush=True)


def _each_compiled(signatures: Sequence[Signature], places: frozenset[int], processes: int) -> Iterator[int]:
    """Compile these signatures and yield each when it is done.

    One starts when all that it calls is done, first the one that the longest chain of others waits for.
    """
    from privacy_engine.signatures import compile_for

    left = {i: places.intersection(signatures[i].calls) for i in places}
    longest = {i: signatures[i].seconds for i in places}
    for i in sorted(places, reverse=True):
        for called in left[i]:
            longest[called] = max(longest[called], signatures[called].seconds + longest[i])
    running: dict[Future[None], int] = {}
    # A new interpreter for each: a fork would copy the locks of threads.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        while left or running:
            ready = sorted((i for i in left if not left[i]), key=lambda i: -longest[i])
            for i in ready[: processes - len(running)]:
                del left[i]
                running[pool.submit(compile_for, signatures[i].kernel, signatures[i].arguments)] = i
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                place = running.pop(future)
                left = {i: calls - {place} for i, calls in left.items()}
                yield place


def read_signatures() -> tuple[Signature, ...]:
    """Return all signatures that releases need, each after those that it calls."""
    return tuple(
        Signature(
            kernel=entry["kernel"],
            arguments=tuple(entry["arguments"]),
            seconds=entry["seconds"],
            calls=tuple(entry["calls"]),
            uses=frozenset(entry["uses"]),
        )
        for entry in json.loads(LIST.read_text())["signatures"]
    )


def chosen(signatures: Sequence[Signature], uses: Iterable[str]) -> frozenset[int]:
    """Return positions of the signatures for any of these uses, with all that they call."""
    wanted = frozenset(uses)
    found: set[int] = set()
    for i in reversed(range(len(signatures))):
        if i in found or signatures[i].uses & wanted:
            found |= {i, *signatures[i].calls}
    return frozenset(found)
