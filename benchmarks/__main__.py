"""Measure methods beside their papers and beside peers; write one Markdown report with plots.

A part that is run again replaces itself in the report and leaves the others.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import (
    attack_peers,
    attack_speed,
    attacks,
    audit,
    closeness,
    cost,
    dp_aim,
    dp_deltas,
    dp_intervals,
    dp_over_time,
    dp_peers,
    dp_persons,
    dp_regimes,
    dp_skewed,
    dp_speed,
    dp_standing,
    dp_synthesis,
    imlap,
    incremental,
    lake_history,
    nearness,
    obpa,
    obpa_outliers,
    okplof,
    over_time,
    paper_ilp,
    ppnb,
    ppnb_claims,
    quality,
    republication,
    rfka,
    scale,
    speed,
    suppression,
    visits,
)
from benchmarks.report import Section, write
from benchmarks.tables import Table, adult, head

Part = Callable[[Table], Section]
FULL: Mapping[str, Part] = {
    "quality": quality.run,
    "closeness": closeness.run,
    "suppression": suppression.run,
    "nearness": nearness.run,
    "paper_ilp": paper_ilp.run,
    "speed": speed.run,
    "obpa": obpa.run,
    "obpa_outliers": obpa_outliers.run,
    "okplof": okplof.run,
    "rfka": rfka.run,
    "imlap": imlap.run,
    "dp_synthesis": dp_synthesis.run,
    "dp_peers": dp_peers.run,
    "dp_speed": dp_speed.run,
    "dp_persons": dp_persons.run,
    "dp_regimes": dp_regimes.run,
    "dp_skewed": dp_skewed.run,
    "dp_deltas": dp_deltas.run,
    "dp_aim": dp_aim.run,
    "dp_intervals": dp_intervals.run,
    "visits": visits.run,
    "over_time": over_time.run,
    "republication": republication.run,
    "incremental": incremental.run,
    "dp_over_time": dp_over_time.run,
    "dp_standing": dp_standing.run,
    "ppnb": ppnb.run,
    "ppnb_claims": ppnb_claims.run,
    "scale": scale.run,
    "lake_history": lake_history.run,
    "cost": cost.run,
    "audit": audit.run,
    "attacks": attacks.run,
    "attack_speed": attack_speed.run,
    "attack_peers": attack_peers.run,
}
QUICK: Mapping[str, Part] = {
    "quality": lambda table: quality.run(table, ks=(10,), seeds=(1,), with_peers=False),
    "closeness": lambda table: closeness.run(table, models=("t = .3",), compared=False),
    "suppression": lambda table: suppression.run(table, models=("k alone", "delta = 2")),
    "nearness": lambda table: nearness.run(table, ks=(50,), samples=nearness.SAMPLES[:1], pricing={}),
    "paper_ilp": lambda table: paper_ilp.run(table, ks=(2, 5, 20), repeats=1),
    "speed": lambda table: speed.run(table, rows=None, repeats=2, with_peers=False),
    "obpa": lambda table: obpa.run(table, ks=(16,), table_3_ks=(5,), gcp_ks=(10,), seeds=(1,)),
    "obpa_outliers": lambda table: obpa_outliers.run(table, ks=(16,), shares=(0.05,), seeds=(1,)),
    "okplof": lambda table: okplof.run(table, ks=(100,), seeds=(1,), repeats=1, rows=None),
    "rfka": lambda table: rfka.run(table, ks=(1, 5, 20), seeds=(1,), trees=100, repeats=1),
    "imlap": lambda table: imlap.run(table, epsilons=(0.05, 0.4), runs=3),
    "dp_synthesis": lambda table: dp_synthesis.run(table, epsilons=(0.2, 1.6), runs=3),
    "dp_peers": lambda table: dp_peers.run(table, runs=3, peer_runs=0),
    "dp_speed": lambda table: dp_speed.run(table, repeats=1, rows=100_000),
    "visits": lambda table: visits.run(table, persons=2_000, rows=40_000),
    "over_time": lambda table: over_time.run(table, persons=600, weeks=6, known=(2,), unknown=(1,)),
    "republication": lambda table: republication.run(table, sizes=(2_000,), releases=6),
    "incremental": lambda table: incremental.run(
        table,
        cases=[(0.05, 4, 1.0)],
        unique=incremental.UNIQUE_CASES[:1],
        persons=400,
        weeks=6,
        sizes=(),
    ),
    "dp_over_time": lambda table: dp_over_time.run(table, weeks=12, copies=4),
    "dp_standing": lambda table: dp_standing.run(table, runs=1, shown=(1, 13, 52)),
    "dp_regimes": lambda table: dp_regimes.run(table, runs=1),
    "dp_skewed": lambda table: dp_skewed.run(table, runs=1),
    "dp_deltas": lambda table: dp_deltas.run(table, runs=1),
    "dp_aim": lambda table: dp_aim.run(table, runs=1, with_peers=False),
    "dp_intervals": lambda table: dp_intervals.run(table, epsilons=(1.0,), runs=3),
    "dp_persons": lambda table: dp_persons.run(table, epsilons=(1.0,), runs=3, copies=20),
    "ppnb": lambda table: ppnb.run(table, p_0s=(0.1, 0.35, 0.49, 0.8), runs=1, peer_runs=0, rows=None),
    "ppnb_claims": lambda table: ppnb_claims.run(table, estimates=20, runs=1, rows=5_000),
    "scale": lambda table: scale.run(table, sizes=scale.QUICK),
    "lake_history": lambda table: lake_history.run(table, sizes=(100, 500)),
    "cost": lambda table: cost.run(table, methods=("mondrian", "rfka")),
    "audit": lambda table: audit.run(table, effort=1),
    "attacks": lambda table: attacks.run(table, runs=3, rows=900),
    "attack_speed": lambda table: attack_speed.run(table, sizes=(10_000,)),
    "attack_peers": lambda table: attack_peers.run(table, tried=attack_peers.TRIED[:1]),
}
# Parts whose figures are means of random runs.
REPEATED: Mapping[str, Callable[..., Section]] = {
    "attacks": attacks.run,
    "imlap": imlap.run,
    "dp_synthesis": dp_synthesis.run,
    "dp_peers": dp_peers.run,
    "dp_intervals": dp_intervals.run,
    "dp_persons": dp_persons.run,
    "dp_regimes": dp_regimes.run,
    "dp_skewed": dp_skewed.run,
    "dp_standing": dp_standing.run,
    "dp_deltas": dp_deltas.run,
    "dp_aim": dp_aim.run,
    "ppnb": ppnb.run,
}


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the chosen parts; the report's path."""
    given = parser().parse_args(arguments)
    table = head(adult(), given.rows)
    source = f"{table.source} Complete records used: {len(table.frame):,}."
    print(source, flush=True)
    parts = QUICK if given.quick else FULL
    for name in given.only or parts:
        repeated = given.runs and name in REPEATED
        section = REPEATED[name](table, runs=given.runs) if repeated else parts[name](table)
        print(f"\n## {section.title}\n")
        print("\n\n".join(block for block in section.blocks if block not in section.plots), flush=True)
        path = write(given.out, section, source)
    print(f"\nReport: {path}")
    return path


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("--only", nargs="+", choices=list(FULL), metavar="NAME", help=f"of {', '.join(FULL)}")
    made.add_argument("--quick", action="store_true", help="fewer k, one seed, no peers, no large tables")
    made.add_argument("--runs", type=int, help=f"random runs of {', '.join(REPEATED)}, instead of theirs")
    made.add_argument("--rows", type=int, help="use so many records only, for a trial run")
    made.add_argument(
        "--out",
        type=Path,
        default=Path("build/benchmarks"),
        help="folder of the report (default: %(default)s; --out docs renews the committed one)",
    )
    return made


if __name__ == "__main__":
    main()
