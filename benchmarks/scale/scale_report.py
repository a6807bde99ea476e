"""What the cases of the section on scale found: tables, judgements computed from them, and plots."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from benchmarks.report import Section, line_plot, markdown_table, verdict
from benchmarks.scale.scale_run import Measured
from benchmarks.scale.scale_tables import NOTE as TABLE_NOTE

MONDRIAN, REFINED, ILP = "Mondrian, l = 3", "ILP-based, l = 3, refined", "ILP-based, l = 3"
CHECK_BAR, WORK_BAR = 1.0, 2.0  # GB
LOSS_BAR = 0.05
NOISE = 0.05  # by which the exponents of equal work differ from run to run, other load on the machine

NOTE = f"""{TABLE_NOTE}

k = 10. Fragments hold at most {{fragment:,}} records and are worked on by a process for each core; what is
aggregated, is by DuckDB within 1 GB. Every case is a separate process, one by one, once; all of it counts:
the start of Python, reading and writing Parquet, and every process below it. Memory is the most that any
one of those processes held. Other load lengthens the wall seconds, so compare CPU seconds."""
LEARNED_NOTE = """The ILP-based method learns what each quasi-identifier says of the sensitive values, and
weighs losses by that: in fragments, in each again, and the cuts between them weigh all alike. So it minimizes
something else than on the whole table, and GCP, which weighs all alike, too, may come out lower."""
SPARK_NOTE = """Spark 4 in `local[2]`, our fragments on it and Mondrian inside each: a program of the kind of
mosaicrown/mondrian, but ours, because theirs is not on PyPI. So what is compared is how the fragments are
handed out. CPU seconds hold the JVM's and its Python workers'; a session that does nothing takes
{wall:.0f} s and {cpu:.0f} CPU s of it."""


@dataclass(kw_only=True)
class Found:
    """What was measured, by number of records unless said otherwise.

    Attributes:
        fragment: most records of a fragment.
        varied: records of the table that was cut into fragments of other sizes.
        fragmented, whole: method -> records -> its release in fragments, or in memory.
        verified: k, l and t of Mondrian's releases.
        counted: class sizes of the source tables, all quasi-identifiers as they are.
        contingency: counts of some columns.
        sizes: most records of a fragment -> Mondrian in such fragments.
        private: the measuring of a synthesizer; `compared` its counts with those in memory.
        spark: `session`, `verify` and `fragments` -> the same work on Spark.
        missing: what could not be measured, as sentences.
    """

    fragment: int
    varied: int
    fragmented: dict[str, dict[int, Measured]] = field(default_factory=dict)
    whole: dict[str, dict[int, Measured]] = field(default_factory=dict)
    verified: dict[int, Measured] = field(default_factory=dict)
    counted: dict[int, Measured] = field(default_factory=dict)
    contingency: dict[int, Measured] = field(default_factory=dict)
    sizes: dict[int, Measured] = field(default_factory=dict)
    private: Measured | None = None
    compared: Measured | None = None
    spark: dict[str, Measured] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def describe(found: Found) -> Section:
    """The section."""
    blocks = [NOTE.format(fragment=found.fragment), *release_blocks(found)]
    blocks += [*size_blocks(found), *check_blocks(found), *private_blocks(found), *spark_blocks(found)]
    return Section(title="12. Scale", blocks=[*blocks, *found.missing], plots=plots(found))


def release_blocks(found: Found) -> list[str]:
    """Methods in fragments beside the same in memory, and how their cost grows."""
    lines = []
    for name, by_rows in found.fragmented.items():
        for n, m in by_rows.items():
            whole = found.whole[name].get(n)
            cells = [*_cells(whole), f"{whole.figures['gcp']:.5f}"] if whole else [""] * 4
            lost = f"{m.figures['gcp']:.5f}"
            lines.append([f"{name}: {n:,}", f"{m.figures['fragments']:.0f}", *_cells(m), lost, *cells])
    heads = ["rows", "fragments", "wall s", "CPU s", "peak GB", "GCP"]
    table = markdown_table([*heads, "whole: wall s", "CPU s", "peak GB", "GCP"], lines)
    judged = [growth(name, by_rows) for name, by_rows in found.fragmented.items() if len(by_rows) > 1]
    judged += [loss(name, by_rows, found.whole[name]) for name, by_rows in found.fragmented.items()]
    judged.append(memory(found))
    title, steps = "### Releases in fragments", "\n\n".join(where(*case) for case in found.fragmented.items())
    learned = [LEARNED_NOTE] if {ILP, REFINED} & set(found.fragmented) else []
    return [title, table, steps, "\n".join(judged), *learned, "scale_time", "scale_memory"]


def where(name: str, by_rows: Mapping[int, Measured]) -> str:
    """What the seconds of the largest table went into."""
    n = max(by_rows)
    plan, work, join = (by_rows[n].figures[step] for step in ("plan", "work", "join"))
    return (
        f"{name}, {n:,} rows: {plan:.0f} s to find how to cut the table, {work:.0f} s to cut it and "
        f"work on the fragments, {join:.0f} s to join, count and verify what they gave."
    )


def growth(name: str, by_rows: Mapping[int, Measured]) -> str:
    """Whether CPU seconds grow no faster than n log n over the last factor of ten.

    The seconds of the smallest table are taken off: they are the start of the processes.
    """
    start, b = min(by_rows), max(by_rows)
    a = max((n for n in by_rows if start < n <= b / 10), default=start)
    spent = {n: by_rows[n].cpu - (by_rows[start].cpu if start != a else 0.0) for n in (a, b)}
    found, bar = exponent(a, spent[a], b, spent[b]), exponent(a, a * math.log(a), b, b * math.log(b))
    over_all = exponent(start, by_rows[start].cpu, b, by_rows[b].cpu)
    return verdict(
        f"{name}: CPU seconds grow no faster than n log n",
        found <= bar + NOISE,
        f"exponent {found:.2f} from {a:,} to {b:,} rows without the start of the processes, that of "
        f"n log n is {bar:.2f}, {NOISE:g} is allowed for noise; {over_all:.2f} from {start:,} rows with it",
    )


def exponent(a: float, of_a: float, b: float, of_b: float) -> float:
    """Slope between two points of a plot with logarithmic axes."""
    return math.log(of_b / of_a) / math.log(b / a)


def loss(name: str, fragmented: Mapping[int, Measured], whole: Mapping[int, Measured]) -> str:
    """Whether fragments cost little: on the largest table that both could release."""
    n = max(set(fragmented) & set(whole))
    apart, together = fragmented[n].figures["gcp"], whole[n].figures["gcp"]
    return verdict(
        f"{name}: fragments lose at most {LOSS_BAR:.0%} more than the whole table at once",
        apart <= (1 + LOSS_BAR) * together,
        f"GCP {apart:.5f} and {together:.5f}, {apart / together - 1:+.1%}, on {n:,} rows",
    )


def memory(found: Found) -> str:
    """Whether every process of every release in fragments stayed under its bar."""
    peaks = {
        f"{name}, {n:,} rows": m.peak / 1e9
        for name, by_rows in found.fragmented.items()
        for n, m in by_rows.items()
    }
    worst = max(peaks, key=lambda case: peaks[case])
    return verdict(
        f"no process of a release in fragments takes {WORK_BAR:g} GB",
        peaks[worst] < WORK_BAR,
        f"largest {peaks[worst]:.2f} GB, {worst}",
    )


def size_blocks(found: Found) -> list[str]:
    """Loss, time and memory by the number of fragments."""
    whole = found.whole[MONDRIAN][found.varied]
    lines = [
        [
            f"{size:,}",
            f"{m.figures['fragments']:.0f}",
            *_cells(m),
            f"{m.figures['gcp']:.5f}",
            f"{m.figures['gcp'] / whole.figures['gcp'] - 1:+.2%}",
        ]
        for size, m in found.sizes.items()
    ]
    lines.append(["the whole table, in memory", "1", *_cells(whole), f"{whole.figures['gcp']:.5f}", ""])
    heads = ["records a fragment, at most", "fragments", "wall s", "CPU s", "peak GB", "GCP", "beside whole"]
    title = f"### {MONDRIAN}, {found.varied:,} rows, by the size of fragments"
    return [title, markdown_table(heads, lines), "scale_fragments"]


def check_blocks(found: Found) -> list[str]:
    """Verification and counts within a gigabyte."""
    lines = [
        [
            f"k, l and t of a release of {n:,} rows",
            *_cells(m),
            f"k = {m.figures['k']:.0f}, l = {m.figures['l']:.0f}, t = {m.figures['t']:.2f}, "
            f"{m.figures['classes']:,.0f} classes",
        ]
        for n, m in found.verified.items()
    ]
    lines += [
        [
            f"class sizes of {n:,} source rows",
            *_cells(m),
            f"{m.figures['classes']:,.0f} classes, distinct {m.figures['classes'] / n:.0%}",
        ]
        for n, m in found.counted.items()
    ]
    lines += [
        [f"contingency of {n:,} source rows", *_cells(m), f"{m.figures['cells']:,.0f} cells"]
        for n, m in found.contingency.items()
    ]
    every = [*found.verified.values(), *found.counted.values(), *found.contingency.values()]
    peak = max(m.peak for m in every) / 1e9
    judged = [
        verdict(
            "verification and counting stay under 1 GB", peak < CHECK_BAR, f"largest process {peak:.2f} GB"
        ),
        verdict(
            "every release in fragments keeps k = 10 and l = 3",
            all(m.figures["k"] >= 10 and m.figures["l"] >= 3 for m in found.verified.values()),
            f"{len(found.verified)} releases, the largest of {max(found.verified):,} rows",
        ),
    ]
    table = markdown_table(["", "wall s", "CPU s", "peak GB", "found"], lines)
    return ["### Verification and counts by DuckDB, 1 GB", table, "\n".join(judged)]


def private_blocks(found: Found) -> list[str]:
    """The measuring of a synthesizer through the engine."""
    if found.private is None or found.compared is None:
        return []
    m, held = found.private, found.compared.figures
    wall, cpu, peak = _cells(m)
    judged = [
        verdict(
            "counts through the engine equal those of a table in memory",
            held["equal"] == 1,
            f"{held['compared']:,.0f} records, {held['distinct']:,.0f} of them distinct",
        ),
        verdict(f"and it takes less than {WORK_BAR:g} GB", m.peak / 1e9 < WORK_BAR, f"{peak} GB"),
    ]
    rows = f"{m.figures['rows']:,.0f}"
    text = f"""PrivBayes, `measure_files` at epsilon 1 on {rows} rows: {wall} s, {cpu} CPU s, peak memory
{peak} GB."""
    return ["### Differentially private measuring", text, "\n".join(judged)]


def spark_blocks(found: Found) -> list[str]:
    """The same work on Spark and on one machine's own engine."""
    if not {"session", "verify", "fragments"} <= set(found.spark):
        return []
    session = found.spark["session"]
    pairs = {
        f"Mondrian in fragments, {found.varied:,} rows": (
            found.spark["fragments"],
            found.sizes.get(found.fragment) or found.fragmented[MONDRIAN][found.varied],
        ),
        f"k, l and t of {found.varied:,} rows": (found.spark["verify"], found.verified[found.varied]),
    }
    lines = [
        [
            what,
            *_cells(on_spark),
            *_cells(own),
            f"{on_spark.wall / own.wall:.1f}",
            f"{on_spark.cpu / own.cpu:.1f}",
        ]
        for what, (on_spark, own) in pairs.items()
    ]
    heads = ["", "Spark: wall s", "CPU s", "peak GB", "ours: wall s", "CPU s", "peak GB"]
    table = markdown_table([*heads, "wall, Spark / ours", "CPU, Spark / ours"], lines)
    return ["### Spark", SPARK_NOTE.format(wall=session.wall, cpu=session.cpu), table]


def plots(found: Found) -> dict[str, Figure]:
    """CPU seconds and memory by rows, loss by fragments."""
    work = {f"{name}, fragments": by_rows for name, by_rows in found.fragmented.items()}
    whole = {f"{name}, whole": by_rows for name, by_rows in found.whole.items()}
    checks = {"k, l and t": found.verified, "class sizes": found.counted}
    curve = {n // 1000: seconds for n, seconds in n_log_n(found.fragmented[MONDRIAN]).items()}
    seconds = {n: {at // 1000: m.cpu for at, m in s.items()} for n, s in {**work, **checks}.items()}
    gigabytes = {
        n: {at // 1000: m.peak / 1e9 for at, m in s.items()} for n, s in {**work, **whole, **checks}.items()
    }
    alone = found.whole[MONDRIAN][found.varied].figures["gcp"]
    more = {int(m.figures["fragments"]): 100 * (m.figures["gcp"] / alone - 1) for m in found.sizes.values()}
    rows = "rows, in thousands"
    return {
        "scale_time": line_plot(
            {**seconds, "n log n": curve}, x=rows, y="CPU seconds", log=True, dashed=["n log n"]
        ),
        "scale_memory": line_plot(gigabytes, x=rows, y="GB, largest process", dashed=list(whole)),
        "scale_fragments": line_plot(
            {MONDRIAN: {1: 0.0, **dict(sorted(more.items()))}},
            x="fragments",
            y="GCP above that of the whole table, %",
        ),
    }


def n_log_n(by_rows: Mapping[int, Measured]) -> dict[int, float]:
    """n log n through the largest table's seconds."""
    last = max(by_rows)
    scale = by_rows[last].cpu / (last * math.log(last))
    return {n: scale * n * math.log(n) for n in by_rows}


def _cells(m: Measured) -> Sequence[str]:
    return [f"{m.wall:.1f}", f"{m.cpu:.1f}", f"{m.peak / 1e9:.2f}"]
