"""What leave to suppress gains: loss and CPU seconds at several limits, on Adult and among outliers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table
from benchmarks.timing import timed
from privacy_engine import EquivalenceClasses, Release, ReleaseMethod, load_method
from privacy_engine.measures.utility import gcp
from privacy_engine.verification.models import holds

K = 5
SEEDS = 1  # of each release: too few to judge a loss
LIMITS = (0.0, 0.01, 0.05)
MODELS: Mapping[str, Mapping[str, object]] = {
    "k alone": {},
    "t = .2": {"model": "t_closeness", "t": 0.2},
    "beta = 2": {"model": "beta_likeness", "beta": 2},
    "delta = 2": {"model": "delta_disclosure", "delta": 2},
}
METHODS = {"mondrian": "Mondrian", "bottom_up": "Bottom-up"}
PLANTED = ("k alone", "t = .2")  # models that are also measured with outliers planted
OUTLIERS = 0.005  # of the records are planted
Case = tuple[str, str, str]  # table, method, model
Measured = tuple[float, int, float]  # GCP, records suppressed, CPU seconds

NOTE = """k = 5, eight quasi-identifiers, each model of the occupation; one seed. GCP (LCA), in which a
suppressed record counts 1 / records suppressed / CPU seconds of the whole call. *Outliers planted*: half a
percent of further records, whose quasi-identifiers are drawn evenly from their domains, each by itself, with
the occupations of others. What is suppressed is chosen by the method; nothing has to be."""


def run(table: Table, *, models: Sequence[str] = tuple(MODELS)) -> Section:
    """Measure and describe."""
    tables = {"Adult": table, "Adult, outliers planted": planted(table)}
    measured: dict[Case, list[Measured]] = {}
    kept = 0
    for (title, of), key, name in product(tables.items(), METHODS, models):
        if of is not table and name not in PLANTED:
            continue
        figures: list[Measured] = []
        for limit in LIMITS:
            require = ({**MODELS[name], "attribute": SENSITIVE},) if MODELS[name] else ()
            method = load_method(key, k=K, suppression_limit=limit, require=require)
            found: list[Release] = []
            call = partial(_release, method, of, found)
            if not figures and of is table:
                call()  # what is compiled or loaded once
            seconds = timed(call)[1]
            release = found[-1]
            assert release.recoding is not None
            figures.append((gcp(release.recoding), release.recoding.suppressed, seconds))
            classes = EquivalenceClasses.of_table(release.table, release.schema)
            kept += all(holds(model, classes) for model in release.guarantees)
            print(f"[suppression] {title}, {key}, {name}, {limit}: {figures[-1]}", flush=True)
        measured[title, METHODS[key], name] = figures
    return describe(measured, kept)


def planted(table: Table) -> Table:
    """The table and some records that are unlike all others."""
    rng = np.random.default_rng(1)
    n = max(1, round(OUTLIERS * len(table.frame)))
    columns = {
        name: rng.choice(np.sort(table.frame[name].unique()), n)
        if name in table.quasi_identifiers
        else rng.choice(table.frame[name], n)
        for name in table.frame
    }
    frame = pd.concat([table.frame, pd.DataFrame(columns)], ignore_index=True)
    return replace(table, frame=frame, source=f"{table.source} {n} outliers are planted.")


def describe(measured: Mapping[Case, Sequence[Measured]], kept: int) -> Section:
    """One line for each table, method and model, and the judgements."""
    rows = [
        [*case, *(f"{loss:.4f} / {gone:,} / {cpu:.1f}" for loss, gone, cpu in figures)]
        for case, figures in measured.items()
    ]
    losses = [[loss for loss, _, _ in figures] for figures in measured.values()]
    falls = sum(own[-1] < own[0] for own in losses)
    head = ["table", "method", "model", *(f"limit {limit:.0%}" for limit in LIMITS)]
    judged = [
        verdict(
            "a larger limit never gives a larger loss",
            all(own == sorted(own, reverse=True) for own in losses),
            f"{len(losses)} cases; the loss falls in {falls}",
        ),
        verdict(
            "every release keeps all that it claims, compared with what is kept",
            kept == len(losses) * len(LIMITS),
            f"{kept} of {len(losses) * len(LIMITS)}",
        ),
    ]
    for name in ("beta = 2", "delta = 2"):
        own = [figures for (_, _, model), figures in measured.items() if model == name]
        if own:
            shares = [figures[1][0] / figures[0][0] for figures in own]
            judged.append(
                verdict(
                    f"under {name} a limit of {LIMITS[1]:.0%} lowers the loss by 40 % at least",
                    max(shares) <= 0.6,
                    ", ".join(f"{share:.0%}" for share in shares) + " of it left",
                    runs=SEEDS,
                )
            )
    return Section(
        title="18. Suppression that pays",
        blocks=[NOTE, markdown_table(head, rows), "\n".join(judged)],
    )


def _release(method: ReleaseMethod, table: Table, found: list[Release]) -> None:
    found.append(method.release(table.frame, table.schema, np.random.default_rng(1)))
