"""`make signatures`: renews the list of what `privacy-release warm` compiles.

The types with which the releases of `tests.compiling` call compiled functions are added to those that are
listed. One process then compiles all of them, to see what calls what and how long each takes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core import event, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from privacy_engine.registry import detector_names, method_names
from privacy_engine.signatures import from_text, kernel_of, to_text
from privacy_release.cli.warm import ATTACKS, HISTORY, LIST, PURPOSES, read_signatures

Call = tuple[str, tuple[str, ...]]  # a function, and the types of its arguments
FRESH = "--fresh"
NAMES = (*method_names(), *detector_names(), ATTACKS, HISTORY)


def seen() -> dict[Call, set[str]]:
    """What the releases call, and under which names."""
    found = defaultdict(set)
    for name in NAMES:
        command = [sys.executable, "-m", "tests.compiling", name]
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            if line.startswith('["'):
                name, _, module, function, *arguments = json.loads(line)
                found[f"{module}:{function}", tuple(arguments)].add(name)
    return dict(found)


class Watch(event.Listener):
    """Follows what is compiled: its order, its seconds, and what it calls."""

    def __init__(self) -> None:
        self.done: dict[Call, tuple[float, set[Call]]] = {}
        self._open: list[tuple[float, list[float], set[Call]]] = []
        self._watched: set[int] = set()

    def watch(self, kernel: Any) -> None:
        """Note who calls this function."""
        if id(kernel) in self._watched:
            return
        self._watched.add(id(kernel))
        resolve: Callable[..., Any] = kernel.get_call_template

        def noted(arguments: tuple[Any, ...], named: Any) -> Any:
            if self._open:
                self._open[-1][2].add((_name(kernel), tuple(to_text(types.unliteral(a)) for a in arguments)))
            return resolve(arguments, named)

        kernel.get_call_template = noted

    def on_start(self, event: Any) -> None:
        self._open.append((time.process_time(), [], set()))

    def on_end(self, event: Any) -> None:
        began, inner, calls = self._open.pop()
        seconds, kernel = time.process_time() - began, event.data["dispatcher"]
        if kernel.py_func.__module__.startswith("privacy_engine."):
            if self._open:
                self._open[-1][1].append(seconds)
            key = _name(kernel), tuple(map(to_text, event.data["args"]))
            self.done.setdefault(key, (round(seconds - sum(inner), 2), calls))
        elif self._open:  # numba's own: its time is its caller's
            self._open[-1][1].extend(inner)
            self._open[-1][2].update(calls)


def _name(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}:{kernel.py_func.__name__}"


def main() -> None:
    """Write the list; in a second process, whose cache is empty."""
    if unknown := set(sys.argv[1:]) - {FRESH}:
        sys.exit(f"usage: python -m tests.signatures [{FRESH}], got {sorted(unknown)}")
    if FRESH not in sys.argv:
        uses = {(s.kernel, s.arguments): set(s.uses) & {*PURPOSES} for s in read_signatures()}
        for call, names in seen().items():
            uses[call] = uses.get(call, set()) | names
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [sys.executable, "-m", "tests.signatures", FRESH],
                env=os.environ | {"NUMBA_CACHE_DIR": folder},
                input=json.dumps([[*call, sorted(names)] for call, names in uses.items()]),
                text=True,
                check=True,
            )
        return
    write(compiled({(kernel, tuple(types)): names for kernel, types, names in json.load(sys.stdin)}), LIST)


def compiled(uses: dict[Call, list[str]]) -> list[dict[str, Any]]:
    """Compile all of these; the entries of the list, each after those that it calls."""
    listener = Watch()
    event.register("numba:compile", listener)
    for name, _ in uses:
        kernel_of(name)  # imports its module
    for module in [m for name, m in sys.modules.items() if name.startswith("privacy_engine.")]:
        for kernel in filter(lambda value: isinstance(value, Dispatcher), vars(module).values()):
            listener.watch(kernel)
    for name, arguments in uses:
        try:
            kernel_of(name).compile(tuple(map(from_text, arguments)))
        except NumbaError:
            sys.stdout.write(f"no longer: {name}({', '.join(arguments)})\n")
    place = {call: i for i, call in enumerate(listener.done)}
    return [
        {
            "kernel": kernel,
            "arguments": arguments,
            "seconds": seconds,
            "calls": sorted(place[call] for call in calls if call in place and place[call] < i),
            "uses": sorted(uses.get((kernel, arguments), ())),
        }
        for i, ((kernel, arguments), (seconds, calls)) in enumerate(listener.done.items())
    ]


def write(entries: list[dict[str, Any]], path: Path) -> None:
    """Write one signature a line, for differences that can be read."""
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text(f'{{"signatures": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
