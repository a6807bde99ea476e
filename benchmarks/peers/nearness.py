"""How near the loss of refined and regrouped classes is to a lower bound that no method can go below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.column_bound import least_gcp_by_columns
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from benchmarks.timing import timed
from privacy_engine.anonymizers.bottom_up import BottomUp
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.nearness.least_boxes import least_gcp
from privacy_engine.tables.encoding import EncodedTable

SAMPLES = ((120, 3), (200, 3), (300, 3), (100, 5))
SAMPLE_SWEEPS, SAMPLE_ROUNDS = 200, 30
KS = (5, 10, 50)
SWEEPS = 2
SEEDS = 1  # of each release: too few to judge a loss
# Rounds of pricing and unions a tuple; with a larger k pricing takes minutes.
PRICING: Mapping[int, tuple[int, int]] = {5: (8, 200_000)}
SHARE = 1 / 3  # of the gap, that regrouping is to close
SECONDS = 10.0

NOTE = """Bottom-up with its default refinement, and regrouped after it (`regroup`, {sweeps} sweeps on the
whole table, {more} on samples; up to k = 10 after a search by columns); GCP (LCA), one seed. *Least boxes*
is the bound that a release is compared with; *columns* is the tighter one, made on request by column
generation. Both hold for every k-anonymous release by any method, with any suppression. CPU seconds in
brackets; those of regrouping are of the whole call. Where no figure stands under *columns*, the gap is to
the least boxes, which are not tight."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Loss before and after regrouping, two bounds below it, and CPU seconds of each."""

    refined: float
    regrouped: float
    boxes: float
    columns: float | None
    seconds: tuple[float, float, float, float]

    @property
    def bound(self) -> float:
        """The higher bound."""
        return max(self.boxes, self.columns or 0.0)

    @property
    def closed(self) -> float:
        """Share of the gap that regrouping closed."""
        return (self.refined - self.regrouped) / (self.refined - self.bound)

    def row(self, name: str) -> list[str]:
        """Of the table."""
        refined, regrouped, boxes, columns = (f"({seconds:.1f})" for seconds in self.seconds)
        return [
            name,
            f"{self.refined:.4f} {refined}",
            f"{self.regrouped:.4f} {regrouped}",
            f"{self.boxes:.4f} {boxes}",
            "" if self.columns is None else f"{self.columns:.4f} {columns}",
            f"{self.refined / self.bound - 1:.0%} -> {self.regrouped / self.bound - 1:.0%}",
            f"{self.closed:.0%}",
        ]


def run(
    table: Table,
    *,
    ks: Sequence[int] = KS,
    samples: Sequence[tuple[int, int]] = SAMPLES,
    pricing: Mapping[int, tuple[int, int]] = PRICING,
) -> Section:
    """Measure and describe."""
    found = {}
    for n, k in ((60, 3), *samples):  # the first compiles, and is not reported
        rows = np.random.default_rng(1).choice(len(table.frame), n, replace=False)
        part = EncodedTable.encode(table.frame.iloc[rows].reset_index(drop=True), table.schema)
        found[f"{n} records, k = {k}"] = _gap(part, k, SAMPLE_SWEEPS, (SAMPLE_ROUNDS, 200_000))
    del found["60 records, k = 3"]
    whole = EncodedTable.encode(table.frame, table.schema)
    large = {k: _gap(whole, k, SWEEPS, pricing.get(k)) for k in ks}
    return describe(found, large)


def _gap(encoded: EncodedTable, k: int, sweeps: int, pricing: tuple[int, int] | None) -> Gap:
    losses: list[float] = []
    labels = np.zeros(len(encoded), np.int64)

    def recode(count: int) -> None:
        made = BottomUp(k=k, regroup=count).anonymize(encoded, np.random.default_rng(1))
        losses.append(gcp(made))
        labels[:] = made.labels

    seconds = [timed(lambda: recode(0))[1], timed(lambda: recode(sweeps))[1]]
    bounds: list[float | None] = []
    seconds.append(timed(lambda: bounds.append(least_gcp(encoded, k)))[1])

    def price() -> None:
        if pricing is None:
            bounds.append(None)
            return
        bounds.append(least_gcp_by_columns(encoded, labels, k, rounds=pricing[0], steps=pricing[1]))

    seconds.append(timed(price)[1])
    made = Gap(
        refined=losses[0],
        regrouped=losses[1],
        boxes=bounds[0] or 0.0,
        columns=bounds[1],
        seconds=(seconds[0], seconds[1], seconds[2], seconds[3]),
    )
    print(f"[nearness] {len(encoded)} records, k = {k}: {made}", flush=True)
    return made


def describe(samples: Mapping[str, Gap], large: Mapping[int, Gap]) -> Section:
    """The table and its judgements."""
    rows = [gap.row(name) for name, gap in samples.items()]
    rows += [gap.row(f"all, k = {k}") for k, gap in large.items()]
    judged = [
        verdict(
            f"at k = {k}, regrouping closes a third of the gap to the bound in {SECONDS:g} CPU s",
            gap.closed >= SHARE and gap.seconds[1] <= SECONDS,
            f"{gap.closed:.0%} of it in {gap.seconds[1]:.1f} CPU s",
            runs=SEEDS,
        )
        for k, gap in large.items()
    ]
    every = [*samples.values(), *large.values()]
    judged += [
        verdict(
            "regrouping never loses more",
            all(gap.regrouped <= gap.refined for gap in every),
            f"{sum(gap.regrouped < gap.refined for gap in every)} of {len(every)} tables lose less",
        ),
        verdict(
            "no release loses less than its bound",
            all(gap.bound <= gap.regrouped for gap in every),
            f"at least {min(gap.regrouped / gap.bound for gap in every) - 1:.0%} above it",
        ),
    ]
    head = ["GCP (CPU s)", "refined", "regrouped", "least boxes", "columns", "above the bound", "gap closed"]
    return Section(
        title="16. Nearness to the least loss",
        blocks=[
            NOTE.format(sweeps=SWEEPS, more=SAMPLE_SWEEPS),
            markdown_table(head, rows),
            "\n".join(judged),
        ],
    )
