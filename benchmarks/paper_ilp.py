"""The experiments of Zhu, Zhao, Wang (2010), section 5: three methods in their plain form, over k.

The paper shows curves and no numbers; what can be reproduced are their shapes. By both readings of its
weights: as section 5.2 prints them, which is the default, and the complement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

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
from privacy_engine.measures.utility import discernibility, gcp, ilp

KS = (2, 3, 5, 10, 20, 50, 100)
BOTTOM_UP, KACLUK = "Bottom-up", "KACLUK"
ILP_BASED, ILP_3 = "ILP-based, l = 2", "ILP-based, l = 3"  # the shapes are judged on the first
READINGS = (Reading.LITERAL, Reading.COMPLEMENT)  # the default first
EQUAL_WITHIN = 1.25  # "about equal": largest over smallest
NONE, MANY = 0.02, 0.2  # HASR "about 0" and "very high"
TIMED_ABOVE = 5  # the paper compares the times of ILP-based and Bottom-up for larger k only

NOTE = """Plain forms: classes are priced by the ILP of their union, and nothing is refined. The weights come
from the utility matrix of the data, by either reading: as section 5.2 prints them (`literal`, the default),
or the `complement`, since by the paper's own words a low entry says much; ILP(T) is measured with the same,
GCP with equal weights. ILP-based with the paper's repair by distortion; KACLUK with 3 clusters, and no
weights. CPU seconds are the least of {repeats} interleaved runs, since other load only adds to them, encoding
not counted; the other figures are means over all runs."""

WHY = """HASR at k = 2: two records drawn at random from a cluster, as KACLUK does, have one sensitive value
by chance alone; what makes classes homogeneous is to merge records that are alike."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One method at one k.

    ``hasr`` before repair, ``repaired`` after it (None: the method has none); ``identical`` is the part of
    the discernibility that comes from classes of 2k records or more which are all identical.
    """

    cpu: float
    ilp: float
    gcp: float
    discernibility: float
    identical: float
    hasr: float
    repaired: float | None
    r_man: float


Results = Mapping[str, Mapping[int, Result]]


def methods(k: int, reading: Reading) -> dict[str, Anonymizer]:
    """The paper's three, unrefined; l = 3 only for k >= 3, because distortion needs l <= k."""
    plain = {"k": k, "reading": reading, "refine": False, "price": "whole", "block_size": None}
    found = {
        KACLUK: load_method("kacluk", k=k, clusters=3),
        ILP_BASED: load_method("ilp_l_diversity", l=2, repair="distort", **plain),
        BOTTOM_UP: load_method("bottom_up", **plain),
    }
    if k >= 3:
        found[ILP_3] = load_method("ilp_l_diversity", l=3, repair="distort", **plain)
    return found


def run(table: Table, *, ks: Sequence[int] = KS, repeats: int = 3) -> Section:
    """Measure and describe."""
    encoded = EncodedTable.encode(table.frame, table.schema)
    found: dict[Reading, Results] = {
        reading: of_reading(encoded, reading, ks, repeats) for reading in READINGS
    }
    return describe(found, ks, repeats, clusters(encoded), tuples(encoded))


def of_reading(encoded: EncodedTable, reading: Reading, ks: Sequence[int], repeats: int) -> Results:
    """The three methods over k, by one reading of the weights."""
    found: dict[str, dict[int, Result]] = {KACLUK: {}, ILP_BASED: {}, ILP_3: {}, BOTTOM_UP: {}}
    for k in ks:
        for name, one in of_k(encoded, reading, k, repeats).items():
            found[name][k] = one
            print(
                f"[paper_ilp] {reading}: {name}, k = {k}: {one.cpu:.2f} CPU s, ILP {one.ilp:.0f}", flush=True
            )
    return found


def of_k(encoded: EncodedTable, reading: Reading, k: int, repeats: int) -> dict[str, Result]:
    """The three methods in turn, each repeat with another seed."""
    weights = weight_matrix(utility_matrix(encoded, 0), reading)
    compared = methods(k, reading)
    made: dict[str, list[Recoding]] = {name: [] for name in compared}

    def call(name: str, method: Anonymizer) -> None:
        made[name].append(method.anonymize(encoded, np.random.default_rng(len(made[name]))))

    calls = {name: partial(call, name, method) for name, method in compared.items()}
    timings = interleaved(calls, dict.fromkeys(calls, repeats))
    return {
        name: Result(
            cpu=min(timings[name].cpus),
            ilp=fmean([ilp(r, weights) for r in recodings]),
            gcp=fmean([gcp(r) for r in recodings]),
            discernibility=fmean([discernibility(r) for r in recodings]),
            identical=fmean([identical_part(r, k) for r in recodings]),
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


def identical_part(recoding: Recoding, k: int) -> float:
    """What classes of 2k records or more add to the discernibility, of those that hold one tuple alone."""
    tuples = np.unique(np.column_stack([recoding.labels, recoding.encoded.codes]), axis=0)
    alike = np.bincount(tuples[:, 0], minlength=recoding.classes) == 1
    return float((recoding.sizes[alike & (recoding.sizes >= 2 * k)].astype(np.float64) ** 2).sum())


def clusters(encoded: EncodedTable, tries: int = 20) -> str:
    """How many clusters of sensitive values the ILP-based method finds."""
    utility = utility_matrix(encoded, 0)
    sentences = []
    for least in (2, 3):
        found = [
            cluster_values(utility, least, len(utility) // least, np.random.default_rng(seed))
            for seed in range(tries)
        ]
        counts, rare = {f.count for f in found}, {f.absorbed for f in found}
        sentences.append(
            f"l = {least}: {min(counts)} to {max(counts)}, {min(rare)} to {max(rare)} values absorbed"
        )
    return (
        f"Clusters of the {len(utility)} sensitive values, each of at least l of them, in {tries} tries: "
        + "; ".join(sentences)
        + ". A value is absorbed by the nearest cluster where every start leaves it with fewer than l - 1 "
        "companions."
    )


def tuples(encoded: EncodedTable, least: int = 2) -> str:
    """Why clusters of sensitive values need not save time here."""
    utility = utility_matrix(encoded, 0)
    of = cluster_values(utility, least, len(utility) // least, np.random.default_rng(0)).of
    clustered = np.column_stack([of[encoded.sensitive[0]], encoded.codes])
    together, whole = (len(np.unique(codes, axis=0)) for codes in (clustered, encoded.codes))
    return (
        "Run time: the paper searches all pairs of classes, so clusters save it most of its time. Here a "
        f"tree of distinct tuples is searched, and clusters have more of them: {together:,} together, where "
        f"the table has {whole:,}."
    )


def describe(
    found: Mapping[Reading, Results], ks: Sequence[int], repeats: int, clustered: str, searched: str
) -> Section:
    """For each reading the table and whether each figure has the paper's shape; plots of the default."""
    default = found[READINGS[0]]
    blocks = [NOTE.format(repeats=repeats), clustered]
    for reading, results in found.items():
        blocks += [f"### Weights: `{reading}`", table_of(results, ks)]
        for title, plot, shape in (
            ("Run time", "paper_time", time_shape),
            ("Information loss", "paper_ilp", loss_shape),
            ("Discernibility", "paper_discernibility", discernibility_shape),
            ("Homogeneous classes", "paper_hasr", hasr_shape),
        ):
            blocks += [f"**{title}.**", *([plot] if results is default else []), shape(results, ks)]
    return Section(
        title="2. The experiments of Zhu, Zhao and Wang (2010)",
        blocks=[*blocks, "### Between the readings", reading_shape(found, ks), "### Why", searched, WHY],
        plots=plots(default),
    )


def table_of(found: Results, ks: Sequence[int]) -> str:
    """All figures, by k and method."""
    rows = [
        [
            f"{name}, k = {k}",
            f"{r.cpu:.3f}",
            f"{r.ilp:.0f}",
            f"{r.gcp:.4f}",
            f"{r.discernibility / 1e6:.3f}",
            f"{r.hasr:.3f}",
            "" if r.repaired is None else f"{r.repaired:.3f}",
            f"{r.r_man:.3f}",
        ]
        for k in ks
        for name, r in ((name, by_k[k]) for name, by_k in found.items() if k in by_k)
    ]
    headers = ["", "CPU s", "ILP(T)", "GCP", "DP, millions", "HASR", "HASR repaired", "R_man"]
    return markdown_table(headers, rows)


def plots(found: Results) -> dict[str, Figure]:
    """The paper's four."""

    def over_k(field: str) -> dict[str, dict[int, float]]:
        return {name: {k: getattr(r, field) for k, r in by_k.items()} for name, by_k in found.items()}

    disclosed = over_k("hasr")
    disclosed |= {
        f"{name}, {what}": {k: getattr(r, field) or 0.0 for k, r in found[name].items()}
        for name in (ILP_BASED, ILP_3)
        for what, field in (("repaired", "repaired"), ("R_man of the repair", "r_man"))
    }
    return {
        "paper_time": line_plot(over_k("cpu"), x="k", y="CPU seconds", log=True),
        "paper_ilp": line_plot(over_k("ilp"), x="k", y="ILP(T)"),
        "paper_discernibility": line_plot(over_k("discernibility"), x="k", y="discernibility", log=True),
        "paper_hasr": line_plot(
            disclosed, x="k", y="share", dashed=[name for name in disclosed if name not in found]
        ),
    }


def time_shape(found: Results, ks: Sequence[int]) -> str:
    """KACLUK << ILP-based, and for k > 5 ILP-based < Bottom-up (the paper: about 20 s against 50 s)."""
    lines = []
    for claim, large, small, least, asked in (
        (f"{KACLUK} takes less than a quarter of the time of {ILP_BASED}", ILP_BASED, KACLUK, 4.0, list(ks)),
        *(
            (f"for k > {TIMED_ABOVE} {name} takes less time than {BOTTOM_UP}", BOTTOM_UP, name, 1.0, longer)
            for name in (ILP_BASED, ILP_3)
            if (longer := [k for k in ks if k > TIMED_ABOVE])
        ),
    ):
        ratio = {k: found[large][k].cpu / found[small][k].cpu for k in asked}
        lines.append(verdict(claim, all(r > least for r in ratio.values()), f"ratios {_by_k(ratio, '.2f')}"))
    return "\n".join(lines)


def loss_shape(found: Results, ks: Sequence[int]) -> str:
    """Bottom-up <= ILP-based < KACLUK."""
    lines = []
    for name in (ILP_BASED, ILP_3):
        at = [k for k in ks if k in found[name]]
        low = {k: found[name][k].ilp / found[BOTTOM_UP][k].ilp for k in at}
        high = {k: found[KACLUK][k].ilp / found[name][k].ilp for k in at}
        lines += [
            verdict(
                f"{name} loses at least what {BOTTOM_UP} loses",
                all(r >= 1 for r in low.values()),
                f"ratios {_by_k(low, '.2f')}",
            ),
            verdict(
                f"{KACLUK} loses more than {name}, clearly the worst",
                all(r > 1 for r in high.values()),
                f"ratios {_by_k(high, '.1f')}",
            ),
        ]
    return "\n".join(lines)


def reading_shape(found: Mapping[Reading, Results], ks: Sequence[int]) -> str:
    """Whether the printed weights lose less than the complement, counted with equal weights."""
    printed, other = (found[reading][ILP_BASED] for reading in READINGS)
    ratio = {k: printed[k].gcp / other[k].gcp for k in ks}
    return verdict(
        f"{ILP_BASED} by the printed weights loses no more GCP (equal weights) than by the complement",
        all(r <= 1 for r in ratio.values()),
        f"ratios {_by_k(ratio, '.2f')}",
    )


def discernibility_shape(found: Results, ks: Sequence[int]) -> str:
    """About equal for all three; and what makes it differ where it does: classes of identical records."""
    spread = {}
    for k in ks:
        at = [found[name][k].discernibility for name in (KACLUK, ILP_BASED, BOTTOM_UP)]
        spread[k] = max(at) / min(at)
    identical = {k: found[BOTTOM_UP][k].identical / found[BOTTOM_UP][k].discernibility for k in ks}
    least, most = min(ks), max(ks)
    return "\n".join(
        [
            verdict(
                f"discernibility is about equal, within a factor of {EQUAL_WITHIN}",
                all(r <= EQUAL_WITHIN for r in spread.values()),
                f"largest over smallest {_by_k(spread, '.2f')}",
            ),
            verdict(
                "identical records stay in one class whatever its size, which costs nothing: such classes "
                f"of 2k records or more are a larger part of {BOTTOM_UP}'s discernibility at k = {least} "
                f"than at k = {most}",
                identical[least] > identical[most],
                f"shares {_by_k(identical, '.2f')}",
            ),
        ]
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
