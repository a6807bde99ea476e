"""Measure methods beside their papers and beside peers; write one Markdown report with plots.

A part that is run again replaces itself in the report and leaves the others.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers import (
    dp_synthesis,
    imlap,
    obpa,
    obpa_outliers,
    okplof,
    paper_ilp,
    ppnb,
    ppnb_claims,
    rfka,
)
from benchmarks.peers import (
    attack_peers,
    attacks,
    audit,
    closeness,
    dp_aim,
    dp_deltas,
    dp_dpsynth,
    dp_forms,
    dp_intervals,
    dp_nominal,
    dp_peers,
    dp_persons,
    dp_regimes,
    dp_skewed,
    nearness,
    quality,
    suppression,
)
from benchmarks.report import Section, write
from benchmarks.scale import attack_speed, cost, dp_speed, lake_history, scale, speed, visits
from benchmarks.scale.years import dp_over_time, dp_standing, incremental, over_time, republication
from benchmarks.tables import adult, head


@dataclass(frozen=True)
class Part:
    """A section of the report.

    Attributes:
        run: Function that measures and describes; without further arguments, in full.
        quick: Arguments of a quick run.
        repeated: Whether its figures are means of random runs, whose number `--runs` sets.
    """

    run: Callable[..., Section]
    quick: Mapping[str, Any]
    repeated: bool = False


PARTS: Mapping[str, Part] = {
    "quality": Part(quality.run, quick={"ks": (10,), "seeds": (1,), "with_peers": False}),
    "closeness": Part(closeness.run, quick={"models": ("t = .3",), "compared": False}),
    "suppression": Part(suppression.run, quick={"models": ("k alone", "delta = 2")}),
    "nearness": Part(nearness.run, quick={"ks": (50,), "samples": nearness.SAMPLES[:1], "pricing": {}}),
    "paper_ilp": Part(paper_ilp.run, quick={"ks": (2, 5, 20), "repeats": 1}),
    "speed": Part(speed.run, quick={"rows": None, "repeats": 2, "with_peers": False}),
    "obpa": Part(obpa.run, quick={"ks": (16,), "table_3_ks": (5,), "gcp_ks": (10,), "seeds": (1,)}),
    "obpa_outliers": Part(obpa_outliers.run, quick={"ks": (16,), "shares": (0.05,), "seeds": (1,)}),
    "okplof": Part(okplof.run, quick={"ks": (100,), "seeds": (1,), "repeats": 1, "rows": None}),
    "rfka": Part(rfka.run, quick={"ks": (1, 5, 20), "seeds": (1,), "trees": 100, "repeats": 1}),
    "imlap": Part(imlap.run, quick={"epsilons": (0.05, 0.4), "runs": 3}, repeated=True),
    "dp_synthesis": Part(dp_synthesis.run, quick={"epsilons": (0.2, 1.6), "runs": 3}, repeated=True),
    "dp_peers": Part(dp_peers.run, quick={"runs": 3, "peer_runs": 0}, repeated=True),
    "dp_speed": Part(dp_speed.run, quick={"repeats": 1, "rows": 100_000}),
    "dp_persons": Part(dp_persons.run, quick={"epsilons": (1.0,), "runs": 3, "copies": 20}, repeated=True),
    "dp_regimes": Part(dp_regimes.run, quick={"runs": 1}, repeated=True),
    "dp_forms": Part(
        dp_forms.run, quick={"runs": 1, "wide": ((50, 5_000),), "few": ((12, 500),)}, repeated=True
    ),
    "dp_nominal": Part(
        dp_nominal.run,
        quick={"runs": 1, "epsilons": (1.6,), "forms": ("500 codes and their region",)},
        repeated=True,
    ),
    "dp_skewed": Part(dp_skewed.run, quick={"runs": 1}, repeated=True),
    "dp_deltas": Part(dp_deltas.run, quick={"runs": 1}, repeated=True),
    "dp_aim": Part(dp_aim.run, quick={"runs": 1, "with_peers": False}, repeated=True),
    "dp_dpsynth": Part(dp_dpsynth.run, quick={"runs": 1, "epsilons": (0.8,)}, repeated=True),
    "dp_intervals": Part(dp_intervals.run, quick={"epsilons": (1.0,), "runs": 3}, repeated=True),
    "visits": Part(visits.run, quick={"persons": 2_000, "rows": 40_000}),
    "over_time": Part(over_time.run, quick={"persons": 600, "weeks": 6, "known": (2,), "unknown": (1,)}),
    "republication": Part(republication.run, quick={"sizes": (2_000,), "releases": 6}),
    "incremental": Part(
        incremental.run,
        quick={
            "cases": [(0.05, 4, 1.0)],
            "unique": incremental.UNIQUE_CASES[:1],
            "persons": 400,
            "weeks": 6,
            "sizes": (),
        },
    ),
    "dp_over_time": Part(dp_over_time.run, quick={"weeks": 12, "copies": 4}),
    "dp_standing": Part(dp_standing.run, quick={"runs": 1, "shown": (1, 13, 52)}, repeated=True),
    "ppnb": Part(
        ppnb.run,
        quick={"p_0s": (0.1, 0.35, 0.49, 0.8), "runs": 1, "peer_runs": 0, "rows": None},
        repeated=True,
    ),
    "ppnb_claims": Part(ppnb_claims.run, quick={"estimates": 20, "runs": 1, "rows": 5_000}),
    "scale": Part(scale.run, quick={"sizes": scale.QUICK}),
    "lake_history": Part(lake_history.run, quick={"sizes": (100, 500)}),
    "cost": Part(cost.run, quick={"methods": ("mondrian", "rfka")}),
    "audit": Part(audit.run, quick={"effort": 1}),
    "attacks": Part(attacks.run, quick={"runs": 3, "rows": 900}, repeated=True),
    "attack_speed": Part(attack_speed.run, quick={"sizes": (10_000,)}),
    "attack_peers": Part(attack_peers.run, quick={"tried": attack_peers.TRIED[:1]}),
}
REPEATED = [name for name, part in PARTS.items() if part.repeated]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the chosen parts; the report's path."""
    given = parser().parse_args(arguments)
    table = head(adult(), given.rows)
    source = f"{table.source} Complete records used: {len(table.frame):,}."
    print(source, flush=True)
    for name in given.only or PARTS:
        part = PARTS[name]
        own = {"runs": given.runs} if given.runs and part.repeated else {}
        section = part.run(table, **{**(part.quick if given.quick else {}), **own})
        print(f"\n## {section.title}\n")
        print("\n\n".join(block for block in section.blocks if block not in section.plots), flush=True)
        path = write(given.out, section, source)
    print(f"\nReport: {path}")
    return path


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("--only", nargs="+", choices=list(PARTS), metavar="NAME", help=f"of {', '.join(PARTS)}")
    made.add_argument("--quick", action="store_true", help="fewer k, one seed, no peers, no large tables")
    made.add_argument("--runs", type=int, help=f"random runs of {', '.join(REPEATED)}, instead of theirs")
    made.add_argument("--rows", type=int, help="use only this number of records, for a trial run")
    made.add_argument(
        "--out",
        type=Path,
        default=Path("build/benchmarks"),
        help="folder of the report (default: %(default)s; --out docs renews the committed one)",
    )
    return made


if __name__ == "__main__":
    main()
