"""Yang (2018), "outliers set aside": what OBPA's outlier step saves, and what it costs.

The paper's OBPA removes outliers by OKPLOF before it clusters, because an outlier in a cluster makes the
whole cluster more general. It shows no figures of that step.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.intervals import Mean, difference
from benchmarks.papers.obpa import METHODS, NUMBERS, OBPA, PAPER_DISTANCE, TREES, paper_records
from benchmarks.report import Section, markdown_table
from benchmarks.tables import Table
from benchmarks.verdicts import Verdict, of_claim, of_lead, of_leads, places, sentence
from deploy.local.samples.adult import sample_table
from privacy_engine import EncodedTable, Recoding, load_method
from privacy_engine.outliers.okplof import OKPLOF

KS = (16,)
SHARES = (0.01, 0.05, 0.1)
SEEDS = (1, 2, 3, 4, 5)
RANDOM = {OBPA: True, PAPER_DISTANCE: False}  # without refinement nothing is drawn

NOTE = """The outlier step of the paper's OBPA: the records with the highest scores of OKPLOF (its defaults)
are set aside, and the others are released under the suppression model; {rows:,} complete records, eight
quasi-identifiers, all weights 1. *Others*: suppressed cells a record of the records that are not set aside,
in the release of all records, and in the release without the outliers. *All*: the same over all records,
each record set aside counting as {q} suppressed cells, because it is not released. {refined} is a mean over
{seeds} seeds, paired; {plain} draws nothing."""
WHY = """Outliers lose more cells than other records, so the mean of the others alone is below that of
all. That is no saving: what the step saves the others is the difference to what they lose in the release of
all records. And a record that is set aside keeps none of its cells. Set outliers aside where their records
are wrong or must not be released, not to lower the loss of the table."""


def run(
    table: Table,
    *,
    frame: pd.DataFrame | None = None,
    ks: Sequence[int] = KS,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = SEEDS,
) -> Section:
    """Measure and describe.

    Args:
        table: Adult; only its number of records is used.
        frame: Records with the paper's attributes; by default the sample table.
        ks: Class sizes.
        shares: Shares of the records to set aside.
        seeds: Seeds of the refinement.
    """
    encoded = paper_records(sample_table()[0] if frame is None else frame, len(table.frame))
    ranked = np.argsort(-scores(encoded), kind="stable")
    rows: list[list[str]] = []
    judged: list[str] = []
    for name, random in RANDOM.items():
        for k in ks:
            whole = [
                cells_of_records(recode(encoded, name, k, seed)) for seed in (seeds if random else seeds[:1])
            ]
            saved: dict[float, Mean] = {}
            paid: dict[float, Mean] = {}
            for share in shares:
                count = round(share * len(encoded))
                rest = np.sort(ranked[count:])
                apart = [
                    cells_of_records(recode(encoded.take(rest), name, k, seed))
                    for seed in (seeds if random else seeds[:1])
                ]
                others = ([float(one[rest].mean()) for one in whole], [float(one.mean()) for one in apart])
                lost = count * encoded.codes.shape[1]
                everyone = (
                    [float(one.mean()) for one in whole],
                    [(float(one.sum()) + lost) / len(encoded) for one in apart],
                )
                saved[share], paid[share] = difference(*others), difference(*everyone)
                rows.append(
                    [
                        f"{name}, k = {k}, {share:.0%} set aside",
                        *(Mean.of(values).shown(3) for pair in (others, everyone) for values in pair),
                    ]
                )
                print(f"[obpa_outliers] {rows[-1]}", flush=True)
            judged += verdicts(f"{name}, k = {k}", saved, paid, random)
    return Section(
        title="OBPA, Yang (2018): outliers set aside",
        blocks=[
            NOTE.format(
                rows=len(encoded),
                q=len(NUMBERS) + len(TREES),
                refined=OBPA,
                plain=PAPER_DISTANCE,
                seeds=len(seeds),
            ),
            markdown_table(
                [
                    "suppressed cells a record",
                    "others, all released",
                    "others, alone",
                    "all",
                    "all, set aside",
                ],
                rows,
            ),
            "\n".join(judged),
            WHY,
        ],
    )


def scores(encoded: EncodedTable) -> np.ndarray:
    """(n,) OKPLOF's scores of the records, in the order of the table."""
    names = list(encoded.quasi_identifiers)
    return np.asarray(OKPLOF(attributes=names).detect(encoded.table, encoded.schema).scores)


def recode(encoded: EncodedTable, name: str, k: int, seed: int) -> Recoding:
    """One release under the suppression model."""
    key, parameters = METHODS[name]
    method = load_method(key, k=k, model="suppression", **parameters)
    return method.anonymize(encoded, np.random.default_rng(seed))


def cells_of_records(recoding: Recoding) -> np.ndarray:
    """(n,) suppressed cells of each record; a suppressed record loses all of its cells."""
    leaves = np.array([len(domain.values) for domain in recoding.encoded.domains])
    of_class = (recoding.spans[0] >= leaves).sum(axis=1)
    lost = np.append(of_class, len(leaves))  # the last: label -1
    return np.asarray(lost[recoding.labels], dtype=np.float64)


def verdicts(where: str, saved: Mapping[float, Mean], paid: Mapping[float, Mean], random: bool) -> list[str]:
    """Whether the others lose less, and whether that pays for the records that are set aside."""
    lines = []
    for claim, leads in (
        ("setting outliers aside lowers the loss of the others", saved),
        ("setting outliers aside lowers the loss of all records, those set aside counted", paid),
    ):
        figures = ", ".join(
            f"{lead.value:+.3f} cells a record at {share:.0%}" for share, lead in leads.items()
        )
        if random:
            good = all(of_lead(lead) is Verdict.AHEAD for lead in leads.values())
            undecided = of_leads(leads.values()) is Verdict.UNDECIDED
            verdict = of_claim(good, 0 if undecided else None)
            figures = f"{places(leads)}; saves {figures}"
        else:
            verdict = of_claim(all(lead.value > 0 for lead in leads.values()))
            figures = f"saves {figures}"
        lines.append(sentence(verdict, f"{where}: {claim}", figures))
    return lines
