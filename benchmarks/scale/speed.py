"""How long whole method calls and checks take, and how much memory, beside peers in the same run."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import answer_of, timings_of
from benchmarks.report import Section, bar_plot, markdown_table, verdict
from benchmarks.scale.cases import BLOCK, LARGE, REFINED, K, Measured
from benchmarks.tables import Table, enlarged, write
from benchmarks.timing import Timing

ROWS = 1_000_000
GIGABYTE = 1e9
# Largest wall seconds on two cores, warm.
SMALL_BARS = {
    "Mondrian": 0.5,
    "Bottom-up, exact": 2.0,
    "Bottom-up, refined": 4.0,
    "Bottom-up, in blocks": 1.0,
    "ILP-based, l = 3, exact": 2.0,
    "ILP-based, l = 3, refined": 4.0,
    "ILP-based, l = 3, in blocks": 1.0,
}
LARGE_BARS = {
    "Mondrian": 10.0,
    "Mondrian, l = 3": 10.0,
    "ILP-based, l = 3, blocks of 4,000": 60.0,
}
MEMORY_BAR = 2.0
CHECK_BAR = 1.0
RULER = "Mondrian"  # other methods are quoted as multiples of it

NOTE = """Whole method calls (schema check, encoding, algorithm, proof, rendering), warm. The calls of a table
take turns, so that other load strikes all alike; a bar is compared with the best of the calls, because
other load can only add to it. CPU seconds (median) count all threads of the process."""
MEMORY_NOTE = "Each in a separate process; peak memory is the most that it ever held, with the source table."


def run(
    table: Table,
    *,
    rows: int | None = ROWS,
    repeats: int = 5,
    large_repeats: int = 3,
    with_peers: bool = True,
) -> Section:
    """Measure and describe; without ``rows`` the large cases are left out."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        write(table, file)
        small = in_child("small", file, repeats, with_peers)
        if rows is None:
            return describe(len(table.frame), small.timings, {}, None, 0)
        many = Path(folder) / "many.parquet"
        write(enlarged(table, rows, np.random.default_rng(1)), many)
        turns = {name: 1 if name == REFINED else large_repeats for name in LARGE}  # it takes minutes
        large = {name: in_child(name, many, turn, with_peers=False) for name, turn in turns.items()}
        check = in_child("check", many, repeats, with_peers)
    return describe(len(table.frame), small.timings, large, check, rows)


def in_child(name: str, file: Path, repeats: int, with_peers: bool) -> Measured:
    """Run a case in a separate process, so that its peak memory is its own."""
    given = [name, str(file), "--repeats", str(repeats), *["--with-peers"] * with_peers]
    found = answer_of("scale.cases", *given)
    timings = timings_of(found)
    for n, timing in timings.items():
        print(f"[speed] {n}: {timing.wall:.2f} s, {timing.cpu:.2f} CPU s", flush=True)
    return Measured(timings=timings, peak=found["peak"])


def describe(
    n: int, small: Mapping[str, Timing], large: Mapping[str, Measured], check: Measured | None, rows: int
) -> Section:
    """Tables, judgements and a plot."""
    blocks = [
        NOTE,
        f"### {n:,} rows, k = {K}, blocks of {BLOCK:,}",
        markdown_table(
            ["", "wall s, median / best", "CPU s", f"CPU, times {RULER}'s", "bar, wall s"],
            [[*_times(name, t, small[RULER]), _bar(SMALL_BARS, name)] for name, t in small.items()],
        ),
        _judge({name: t.best for name, t in small.items()}, SMALL_BARS),
        "speed",
    ]
    if large:
        blocks += [
            f"### {rows:,} rows, k = {K}",
            MEMORY_NOTE,
            markdown_table(
                ["", "wall s, median / best", "CPU s", "peak memory, GB", "bar, wall s"],
                [
                    [name, *_seconds(m.timings[name]), f"{m.peak / GIGABYTE:.2f}", _bar(LARGE_BARS, name)]
                    for name, m in large.items()
                ],
            ),
            _judge({name: m.timings[name].best for name, m in large.items()}, LARGE_BARS),
            verdict(
                f"peak memory stays under {MEMORY_BAR:g} GB",
                all(m.peak < MEMORY_BAR * GIGABYTE for m in large.values()),
                f"largest {max(m.peak for m in large.values()) / GIGABYTE:.2f} GB",
            ),
        ]
    if check:
        blocks += check_blocks(check.timings, rows)
    return Section(
        title="3. Speed",
        blocks=blocks,
        plots={"speed": bar_plot({k: t.cpu for k, t in small.items()}, x="CPU seconds")},
    )


def check_blocks(timings: Mapping[str, Timing], rows: int) -> list[str]:
    """k, l and t of a large release, beside pycanon's."""
    whole = timings["k, l and t"]
    blocks = [
        f"### k, l and t of {rows:,} released rows",
        markdown_table(
            ["", "wall s, median / best", "CPU s", "CPU, times ours"],
            [_times(name, t, whole) for name, t in timings.items()],
        ),
        _judge(
            {name: timings[name].best for name in ("k, l and t", "k, l and t from Parquet")},
            dict.fromkeys(("k, l and t", "k, l and t from Parquet"), CHECK_BAR),
        ),
    ]
    if pycanon := [t.cpu for name, t in timings.items() if name.startswith("pycanon")]:
        blocks.append(
            f"pycanon takes {sum(pycanon) / whole.cpu:.0f} times the CPU seconds for the same three numbers."
        )
    return blocks


def _judge(walls: Mapping[str, float], bars: Mapping[str, float]) -> str:
    return "\n".join(
        verdict(f"{name} under {bars[name]:g} s", wall < bars[name], f"{wall:.2f} s")
        for name, wall in walls.items()
        if name in bars
    )


def _times(name: str, timing: Timing, ruler: Timing) -> Sequence[str]:
    return [name, *_seconds(timing), f"{timing.cpu / ruler.cpu:.1f}"]


def _seconds(timing: Timing) -> Sequence[str]:
    return [f"{timing.wall:.2f} / {timing.best:.2f}", f"{timing.cpu:.2f}"]


def _bar(bars: Mapping[str, float], name: str) -> str:
    return f"{bars[name]:g}" if name in bars else ""
