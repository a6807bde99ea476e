"""How long the synthesizers fit and sample, and how much memory they need, each in a separate process."""

import json
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.environments import UnavailableError
from benchmarks.processes import answer_of, timings_of
from benchmarks.report import Section, bar_plot, markdown_table, verdict
from benchmarks.scale.cases import Measured
from benchmarks.scale.dp_cases import DRAW, FIT, ROWS, Case
from benchmarks.scale.speed import GIGABYTE
from benchmarks.tables import Table

DEGREE_3 = {"degree": 3}
METHOD_NAMES = {
    "privbayes": "PrivBayes",
    "dpsm_bayes": "DPSM-Bayes",
    "privbayes_r": "PrivBayesR",
    "latent_class": "LatentClass",
}
CASES: Mapping[str, Case] = {  # by its line in the table: table, colon, method
    **{
        f"NLTCS: {METHOD_NAMES[key]}, degree 3": Case("NLTCS", key, DEGREE_3)
        for key in METHOD_NAMES
        if key != "latent_class"  # has no degree
    },
    "NLTCS: LatentClass": Case("NLTCS", "latent_class"),
    **{
        f"{table}: {name}": Case(table, key)
        for table in ("ACS", "Adult, 15 columns")
        for key, name in METHOD_NAMES.items()
    },
}
FIT_BARS: Mapping[str, float] = {"NLTCS": 5.0, "ACS": 20.0, "Adult, 15 columns": 20.0}
SAMPLE_BAR, MEMORY_BAR = 3.0, 2.0

NOTE = """`measure` (schema check, encoding, structure, noise) at epsilon 1 on the whole table, and {rows:,}
records drawn from the model: their codes, and the table of values made of them. Warm; medians of {repeats}
calls. Each line is a separate process, and its peak memory the most that it ever held, Python, the source
table and the drawn records included. A bar is compared with the best of the calls, because other load can
only add to it. On NLTCS the network methods have degree 3; elsewhere each chooses by itself. CPU seconds
beside the peers' are in the section on peers."""


def run(table: Table, *, repeats: int = 3, rows: int = 1_000_000, epsilon: float = 1.0) -> Section:
    """Measure and describe; ``table`` is not used."""
    found: dict[str, Measured] = {}
    missing = []
    for name, case in CASES.items():
        try:
            found[name] = in_child(case, epsilon, repeats, rows)
        except UnavailableError as error:
            missing.append(f"{name} was not measured: {error}.")
        else:
            print(f"[dp_speed] {name}: fit {found[name].timings[FIT].wall:.2f} s", flush=True)
    section = describe(found, repeats, rows)
    return replace(section, blocks=[*section.blocks, *missing])


def in_child(case: Case, epsilon: float, repeats: int, rows: int) -> Measured:
    """Run a case in a separate process.

    Raises:
        UnavailableError: if it fails, with its last line.
    """
    made = answer_of(
        "scale.dp_cases",
        *(case.table, case.method, "--parameters", json.dumps(dict(case.parameters))),
        *("--epsilon", str(epsilon), "--repeats", str(repeats), "--rows", str(rows)),
    )
    return Measured(timings=timings_of(made), peak=made["peak"])


def describe(found: Mapping[str, Measured], repeats: int, rows: int) -> Section:
    """A table, judgements and a plot."""
    lines = [
        [
            name,
            f"{m.timings[FIT].wall:.2f} / {m.timings[FIT].best:.2f}",
            f"{m.timings[FIT].cpu:.2f}",
            f"{m.timings[DRAW].wall:.2f}",
            f"{m.timings[ROWS].wall:.2f}",
            f"{m.peak / GIGABYTE:.2f}",
        ]
        for name, m in found.items()
    ]
    heads = ["", "fit, wall s, median / best", "CPU s", f"{rows:,} codes, s", "with values, s", "peak, GB"]
    return Section(
        title="10. Speed of DP synthesizers",
        blocks=[
            NOTE.format(rows=rows, repeats=repeats),
            markdown_table(heads, lines),
            judge(found),
            "dp_speed",
        ],
        plots={
            "dp_speed": bar_plot(
                {name: m.timings[FIT].cpu for name, m in found.items()}, x="CPU seconds of a fit"
            )
        },
        source="NLTCS, ACS and Adult, all their (complete) records.",
    )


def judge(found: Mapping[str, Measured]) -> str:
    """Each bar against the worst of the methods."""
    judged = []
    for table, bar in FIT_BARS.items():
        fits = {n: m.timings[FIT].best for n, m in found.items() if n.startswith(f"{table}: ")}
        if not fits:
            continue
        worst = max(fits, key=lambda name: fits[name])
        judged.append(
            verdict(
                f"{table}: every method fits in under {bar:g} s",
                fits[worst] < bar,
                f"longest {fits[worst]:.2f} s, {worst.split(': ')[1]}",
            )
        )
    for what, key in (("codes", DRAW), ("whole tables", ROWS)):
        draws = {n: m.timings[key].best for n, m in found.items()}
        worst = max(draws, key=lambda name: draws[name])
        judged.append(
            verdict(
                f"the records are drawn, {what}, in under {SAMPLE_BAR:g} s",
                draws[worst] < SAMPLE_BAR,
                f"longest {draws[worst]:.2f} s, {worst}",
            )
        )
    peak = max(m.peak for m in found.values()) / GIGABYTE
    judged.append(
        verdict(f"peak memory stays under {MEMORY_BAR:g} GB", peak < MEMORY_BAR, f"largest {peak:.2f} GB")
    )
    return "\n".join(judged)
