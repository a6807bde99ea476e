"""The experiments of Zhu, Zhao, Wang (2010), section 5: three methods in their plain form, over k.

The paper shows curves and no numbers; what can be reproduced are their shapes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from benchmarks.report import Section, line_plot, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table
from benchmarks.timing import interleaved
from privacy_engine import EncodedTable, Recoding, load_method
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.anonymizers.sensitive_utility import (
    Reading,
    cluster_values,
    utility_matrix,
    weight_matrix,
)
from privacy_engine.measures.risk import hasr, r_man
from privacy_engine.measures.utility import discernibility, ilp

KS = (2, 3, 5, 10, 20, 50, 100)
BOTTOM_UP, KACLUK = "Bottom-up", "KACLUK"
ILP_BASED, ILP_3 = "ILP-based, l = 2", "ILP-based, l = 3"  # the shapes are judged on the first
EQUAL_WITHIN = 1.25  # "about equal": largest over smallest
NONE, MANY = 0.02, 0.2  # HASR "about 0" and "very high"

NOTE = """Plain forms: classes are priced by the ILP of their union, and nothing is refined. The weights come
from the utility matrix of the data (`complement`); ILP(T) is measured with them too. ILP-based with the
paper's repair by distortion; KACLUK with 3 clusters. Seconds are medians of {repeats} interleaved runs,
encoding not counted; the other figures are means over all runs."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One method at one k; ``hasr`` before repair, ``repaired`` after it (None: the method has none)."""

    wall: float
    cpu: float
    ilp: float
    discernibility: float
    hasr: float
    repaired: float | None
    r_man: float


Results = Mapping[str, Mapping[int, Result]]


def methods(k: int) -> dict[str, Anonymizer]:
    """The paper's three, unrefined; l = 3 only for k >= 3, because distortion needs l <= k."""
    plain = {"k": k, "refine": False, "price": "whole", "block_size": None}
    found = {
        KACLUK: load_method("kacluk", k=k, clusters=3),
        ILP_BASED: load_method("ilp_l_diversity", l=2, repair="distort", **plain),
        BOTTOM_UP: load_method("bottom_up", reading="complement", **plain),
    }
    if k >= 3:
        found[ILP_3] = load_method("ilp_l_diversity", l=3, repair="distort", **plain)
    return found


def run(table: Table, *, ks: Sequence[int] = KS, repeats: int = 3) -> Section:
    """Measure and describe."""
    encoded = EncodedTable.encode(table.frame, table.schema)
    found: dict[str, dict[int, Result]] = {KACLUK: {}, ILP_BASED: {}, ILP_3: {}, BOTTOM_UP: {}}
    for k in ks:
        for name, one in of_k(encoded, k, repeats).items():
            found[name][k] = one
            print(f"[paper_ilp] {name}, k = {k}: {one.cpu:.2f} CPU s, ILP {one.ilp:.0f}", flush=True)
    return describe(found, ks, repeats, clusters(encoded))


def of_k(encoded: EncodedTable, k: int, repeats: int) -> dict[str, Result]:
    """The three methods in turn, each repeat with another seed."""
    weights = weight_matrix(utility_matrix(encoded, 0), Reading.COMPLEMENT)
    made: dict[str, list[Recoding]] = {name: [] for name in methods(k)}

    def call(name: str, method: Anonymizer) -> None:
        made[name].append(method.anonymize(encoded, np.random.default_rng(len(made[name]))))

    calls = {name: partial(call, name, method) for name, method in methods(k).items()}
    timings = interleaved(calls, dict.fromkeys(calls, repeats))
    return {
        name: Result(
            wall=timings[name].wall,
            cpu=timings[name].cpu,
            ilp=fmean([ilp(r, weights) for r in recodings]),
            discernibility=fmean([discernibility(r) for r in recodings]),
            # distortion changes sensitive values and no class: with the source's values it is undone
            hasr=fmean([hasr(encoded.classes_of(r.labels), SENSITIVE) for r in recodings]),
            repaired=fmean([hasr(r.encoded.classes_of(r.labels), SENSITIVE) for r in recodings])
            if name in (ILP_BASED, ILP_3)
            else None,
            r_man=fmean(
                [
                    r_man(int((r.encoded.sensitive != encoded.sensitive).any(axis=0).sum()), len(encoded))
                    for r in recodings
                ]
            ),
        )
        for name, recodings in made.items()
    }


def clusters(encoded: EncodedTable, tries: int = 20) -> str:
    """How many clusters of sensitive values the ILP-based method finds."""
    utility = utility_matrix(encoded, 0)
    sentences = []
    for least in (2, 3):
        counts = [
            int(cluster_values(utility, least, len(utility) // least, np.random.default_rng(seed)).max()) + 1
            for seed in range(tries)
        ]
        sentences.append(f"l = {least}: {min(counts)} to {max(counts)}")
    return (
        f"Clusters of the {len(utility)} sensitive values, each of at least l of them, in {tries} tries: "
        + "; ".join(sentences)
        + ". With one cluster ILP-based is Bottom-up."
    )


def describe(found: Results, ks: Sequence[int], repeats: int, clustered: str) -> Section:
    """The table, four plots, and whether each has the paper's shape."""
    rows = [
        [
            f"{name}, k = {k}",
            f"{r.cpu:.3f}",
            f"{r.wall:.3f}",
            f"{r.ilp:.0f}",
            f"{r.discernibility / 1e6:.3f}",
            f"{r.hasr:.3f}",
            "" if r.repaired is None else f"{r.repaired:.3f}",
            f"{r.r_man:.3f}",
        ]
        for k in ks
        for name, r in ((name, by_k[k]) for name, by_k in found.items() if k in by_k)
    ]
    headers = ["", "CPU s", "wall s", "ILP(T)", "DP, millions", "HASR", "HASR repaired", "R_man"]

    def over_k(field: str) -> dict[str, dict[int, float]]:
        return {name: {k: getattr(r, field) for k, r in by_k.items()} for name, by_k in found.items()}

    disclosed = over_k("hasr")
    disclosed |= {
        f"{name}, {what}": {k: getattr(r, field) or 0.0 for k, r in found[name].items()}
        for name in (ILP_BASED, ILP_3)
        for what, field in (("repaired", "repaired"), ("R_man of the repair", "r_man"))
    }
    return Section(
        title="2. The experiments of Zhu, Zhao and Wang (2010)",
        blocks=[
            NOTE.format(repeats=repeats),
            clustered,
            markdown_table(headers, rows),
            "### Run time",
            "paper_time",
            time_shape(found, ks),
            "### Information loss",
            "paper_ilp",
            loss_shape(found, ks),
            "### Discernibility",
            "paper_discernibility",
            discernibility_shape(found, ks),
            "Bottom-up and ILP-based keep identical records in one class whatever its size, as that costs "
            "nothing; it raises their discernibility at small k above that of random classes of size k.",
            "### Homogeneous classes",
            "paper_hasr",
            hasr_shape(found, ks),
        ],
        plots={
            "paper_time": line_plot(over_k("cpu"), x="k", y="CPU seconds", log=True),
            "paper_ilp": line_plot(over_k("ilp"), x="k", y="ILP(T)"),
            "paper_discernibility": line_plot(over_k("discernibility"), x="k", y="discernibility", log=True),
            "paper_hasr": line_plot(
                disclosed, x="k", y="share", dashed=[name for name in disclosed if name not in found]
            ),
        },
    )


def time_shape(found: Results, ks: Sequence[int]) -> str:
    """KACLUK << ILP-based < Bottom-up."""
    fast, middle, slow = ({k: found[name][k].cpu for k in ks} for name in (KACLUK, ILP_BASED, BOTTOM_UP))
    lines = []
    for claim, small, large, least in (
        ("KACLUK takes less than a quarter of the time of ILP-based", fast, middle, 4.0),
        ("ILP-based takes less time than Bottom-up", middle, slow, 1.0),
    ):
        ratio = {k: large[k] / small[k] for k in ks}
        lines.append(verdict(claim, all(r > least for r in ratio.values()), f"ratios {_by_k(ratio, '.1f')}"))
    return "\n".join(lines)


def loss_shape(found: Results, ks: Sequence[int]) -> str:
    """Bottom-up <= ILP-based < KACLUK."""
    low = {k: found[ILP_BASED][k].ilp / found[BOTTOM_UP][k].ilp for k in ks}
    high = {k: found[KACLUK][k].ilp / found[ILP_BASED][k].ilp for k in ks}
    return "\n".join(
        [
            verdict(
                "ILP-based loses at least what Bottom-up loses",
                all(r >= 1 for r in low.values()),
                f"ratios {_by_k(low, '.2f')}",
            ),
            verdict(
                "KACLUK loses more than ILP-based, clearly the worst",
                all(r > 1 for r in high.values()),
                f"ratios {_by_k(high, '.1f')}",
            ),
        ]
    )


def discernibility_shape(found: Results, ks: Sequence[int]) -> str:
    """About equal for all three."""
    spread = {}
    for k in ks:
        at = [by_k[k].discernibility for by_k in found.values() if k in by_k]
        spread[k] = max(at) / min(at)
    return verdict(
        f"discernibility is about equal, within a factor of {EQUAL_WITHIN}",
        all(r <= EQUAL_WITHIN for r in spread.values()),
        f"largest over smallest {_by_k(spread, '.2f')}",
    )


def hasr_shape(found: Results, ks: Sequence[int]) -> str:
    """About 0 for k > 10; very high at k = 2 where sensitive values are clustered; 0 with repair."""
    lines = []
    if large := [k for k in ks if k > 10]:
        worst = {k: max(by_k[k].hasr for by_k in found.values() if k in by_k) for k in large}
        lines.append(
            verdict(
                f"HASR is about 0, at most {NONE}, for all three at k > 10",
                all(v <= NONE for v in worst.values()),
                f"largest {_by_k(worst, '.3f')}",
            )
        )
    if 2 in ks:
        at = {name: found[name][2].hasr for name in (ILP_BASED, KACLUK)}
        lines.append(
            verdict(
                f"at k = 2 it is very high, at least {MANY}, for the two that cluster sensitive values",
                all(v >= MANY for v in at.values()),
                ", ".join(f"{name} {v:.3f}" for name, v in at.items())
                + f", Bottom-up {found[BOTTOM_UP][2].hasr:.3f}",
            )
        )
    for name in (ILP_BASED, ILP_3):
        changed = {k: r.r_man for k, r in found.get(name, {}).items()}
        lines.append(
            verdict(
                f"{name}: with repair it is 0 at every k, at the price of R_man",
                not any(r.repaired for r in found[name].values()),
                f"R_man {_by_k(changed, '.4f')}",
            )
        )
    return "\n".join(lines)


def _by_k(values: Mapping[int, float], form: str) -> str:
    return ", ".join(f"{value:{form}} at k = {k}" for k, value in values.items())
