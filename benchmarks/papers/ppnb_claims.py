"""Zhang and Tang (2007): claims of sections 6.1, 6.2 and 7.3 that no figure shows by itself.

The error of TRR's estimated variance, the breach width of Table 2, and where DTPD is better than PPNB.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from benchmarks.intervals import Mean, difference
from benchmarks.papers.ppnb import PPNB, TREE, against_dtpd
from benchmarks.papers.ppnb_tables import Data, adult, bank, booleans
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from benchmarks.verdicts import Verdict, of_claim, of_lead, of_leads, places, sentence
from deploy.local.samples.adult import sample_table
from privacy_engine.randomizers.breach import breach_width
from privacy_engine.randomizers.numeric import Transformation, moments

CONFIDENCES = (0.5, 0.95, 0.999)
WIDTHS = (1.349, 3.92, 6.58)  # times the standard deviation, the paper's Table 2
SMALL = (0.1, 0.2)  # p below .3, where the paper's figure 3 has DTPD above PPNB
ESTIMATES, RECORDS = 200, 10_000
TRUE_MEAN, TRUE_DEVIATION = 40.0, 12.0
MEANS, VARIANCES = (1.0, 2.0, 4.0, 8.0), (0.5, 1.0, 4.0, 10.0)

NOTE = """Section 6.2: "the error of the estimated variance grows with the mean and the variance of A".
{records:,} values of N({mean:g}, {deviation:g}^2) are transformed by y = a x + b, b of N(0, 1), and their
variance is estimated by equation 3. Distance of the estimate from the variance of the values, as a share of
it, over {estimates} draws of all. Both lists use the same values of x, so that neighbours are paired."""
WHY = """Equation 3 divides by s_A^2 + a^2. A larger spread of A adds noise that grows with x; a larger mean
of A makes the signal larger and leaves that noise as it is."""
SMALL_NOTE = """Section 7.3 and figure 3 (a): at small p DTPD is more accurate than PPNB, and from p = .3 on
PPNB is. All attributes are cut into two: a number at its median, a list by whether the last class ("{last}"
of Adult) is more frequent among the records with that value than among all. Adult replaces the paper's
records of suspects of a criminal investigation, which are not public. {runs} runs."""
WIDTH_NOTE = """Table 2: width of the interval that holds a normal x with a confidence, whatever TRR
released; it depends on the deviation of x only."""


def run(table: Table, *, estimates: int = ESTIMATES, runs: int = 5, rows: int | None = None) -> Section:
    """Measure and describe; ``table`` says only how many records there are at most."""
    scale = min(1.0, len(table.frame) / 30_000)
    frame = sample_table()[0]
    blocks = [
        NOTE.format(records=RECORDS, mean=TRUE_MEAN, deviation=TRUE_DEVIATION, estimates=estimates),
        *error_blocks(estimates),
        WHY,
        WIDTH_NOTE,
        *width_blocks(),
        SMALL_NOTE.format(runs=runs, last=">50K"),
        *small_blocks(frame, int((rows or 50_000) * scale), int((rows or 50_000) * scale) // 10, runs),
    ]
    return Section(title="11. Randomized releases: what no figure of the paper shows", blocks=blocks)


def variance_errors(a_mean: float, a_variance: float, estimates: int) -> list[float]:
    """Relative errors of the estimated variance; the values depend on the number of the estimate only."""
    mechanism = Transformation(a_mean=a_mean, a_variance=a_variance)
    found = []
    for number in range(estimates):
        rng = np.random.default_rng([2007, number])
        x = rng.normal(TRUE_MEAN, TRUE_DEVIATION, RECORDS)
        words = rng.integers(0, 2**64, size=(RECORDS, 2), dtype=np.uint64)
        estimated = moments(mechanism, mechanism.transform(x, words)).variance
        found.append(abs(estimated / x.var(ddof=1) - 1))
    return found


def error_blocks(estimates: int) -> list[str]:
    """The errors over the mean and over the variance of A, and whether each makes them grow."""
    lists: Mapping[str, Mapping[float, list[float]]] = {
        "mean of A, variance 1": {a: variance_errors(a, 1.0, estimates) for a in MEANS},
        "variance of A, mean 1": {v: variance_errors(1.0, v, estimates) for v in VARIANCES},
    }
    blocks = []
    for name, errors in lists.items():
        line = [f"{Mean.of(one).shown(1, 100)} %" for one in errors.values()]
        blocks.append(markdown_table([name, *(f"{at:g}" for at in errors)], [["relative error", *line]]))
    blocks.append("\n".join(growth_verdict(name.split(",")[0], errors) for name, errors in lists.items()))
    return blocks


def growth_verdict(what: str, errors: Mapping[float, Sequence[float]]) -> str:
    """Whether the error grows at every step, by paired differences of neighbours."""
    at = list(errors)
    steps = {b: difference(errors[b], errors[a]) for a, b in pairwise(at)}
    verdicts = [of_lead(step) for step in steps.values()]
    undecided = Verdict.UNDECIDED in verdicts
    judged = of_claim(all(one is Verdict.AHEAD for one in verdicts), 0 if undecided else None)
    words = {Verdict.AHEAD: "larger", Verdict.BEHIND: "smaller", Verdict.TIED: "about the same"}
    figures = ", ".join(
        f"{words.get(one, one)} at {b:g} than at {a:g}"
        for one, (a, b) in zip(verdicts, pairwise(at), strict=True)
    )
    return sentence(judged, f"the error of the estimated variance grows with the {what}", figures)


def width_blocks() -> list[str]:
    """The paper's Table 2 beside ours, for a deviation of 1."""
    ours = [breach_width(1.0, c) for c in CONFIDENCES]
    table = markdown_table(
        ["breach width, times the deviation of x", *(f"{c:.1%}" for c in CONFIDENCES)],
        [["ours", *(f"{w:.3f}" for w in ours)], ["*paper*", *(f"{w:g}" for w in WIDTHS)]],
    )
    good = all(abs(one - other) < 0.005 for one, other in zip(ours, WIDTHS, strict=True))
    return [table, verdict("our breach widths are the paper's", good, "to two digits after the point")]


def small_blocks(frame: pd.DataFrame, train: int, test: int, runs: int) -> list[str]:
    """DTPD and PPNB on booleans at small p."""
    makers: Mapping[str, Callable[[np.random.Generator], Data]] = {
        "bank-card customers": lambda rng: bank(rng, train, test),
        "Adult": partial(_adult, frame, train, test),
    }
    rows, judged = [], []
    for name, make in makers.items():
        found: dict[str, dict[float, list[float]]] = {m: {p: [] for p in SMALL} for m in (PPNB, TREE)}
        for number in range(runs):
            rng = np.random.default_rng([2007, 1, number])
            for method, line in against_dtpd(booleans(make(rng)), SMALL, rng).items():
                for p in SMALL if method in found else ():
                    found[method][p].append(line[p])
            print(f"[ppnb_claims] {name}, run {number + 1}", flush=True)
        rows += [[f"{name}: {m}", *(str(Mean.of(line[p])) for p in SMALL)] for m, line in found.items()]
        judged.append(small_verdict(name, found))
    return [markdown_table(["accuracy, booleans", *(f"p = {p:g}" for p in SMALL)], rows), "\n".join(judged)]


def _adult(frame: pd.DataFrame, train: int, test: int, rng: np.random.Generator) -> Data:
    return adult(frame, rng, train, test)


def small_verdict(name: str, found: Mapping[str, Mapping[float, Sequence[float]]]) -> str:
    """Whether DTPD is ahead of PPNB at small p, by leads paired by run."""
    leads = {p: difference(found[TREE][p], found[PPNB][p]) for p in SMALL}
    figures = f"{places(leads)}; leads {', '.join(f'{lead.value:+.3f}' for lead in leads.values())}"
    return sentence(of_leads(leads.values()), f"{name}, booleans: accuracy of {TREE} against {PPNB}", figures)
