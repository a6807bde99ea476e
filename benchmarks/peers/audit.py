"""Audits of differential privacy: what every method shows of its claim, and what planted faults show."""

from benchmarks.auditing import FALSE_ALARM
from benchmarks.peers.audit_cases import (
    HALF_NOISE,
    HALF_SENSITIVITY,
    ONE_ROW,
    WHOLE_EPSILON,
    Case,
    cases,
    planted,
)
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table

FAULTS = (HALF_NOISE, HALF_SENSITIVITY, WHOLE_EPSILON, ONE_ROW)
ABOUT = f"""Each row is an attack on two neighbouring inputs, or on canaries, each of which has one of two
values by a coin (`benchmarks.auditing`). The bound is a loss that the outputs show at
the least: it is above the true loss with probability {FALSE_ALARM:g} at most. It refutes a claim
that it exceeds, and proves none. Under a fault (half the noise; half the sensitivity; each part of
a split with the whole epsilon; a person's rows taken for one) the bound must exceed the claim; —
where the fault has nothing to act on. Synthesizers are measured without edges, or with one hidden
class: nearly all of epsilon is then on the tables that the pair changes. How a structure is chosen
is audited as the noisy max that chooses; the sensitivity of its scores is compared with all small
neighbouring tables by the tests."""


def shown(case: Case, fault: str | None, effort: int = 1) -> float:
    """The loss that a case shows with a fault planted, or without one."""
    with planted(fault):
        return case.show(effort)


def run(_: Table, *, effort: int = 10) -> Section:
    """Every case, sound and with each of its faults.

    Args:
        effort: Multiple of the runs of the tests.
    """
    rows, sound, tight, caught, missed = [], 0, 0, 0, 0
    listed = cases()
    for case in listed:
        least = shown(case, None, effort)
        under = {fault: shown(case, fault, effort) for fault in case.faults}
        sound += least <= case.claim
        tight += least >= case.claim / 2
        caught += sum(loss > case.claim for loss in under.values())
        missed += sum(loss <= case.claim for loss in under.values())
        words = [
            f"{under[f]:.2f} {'caught' if under[f] > case.claim else '**missed**'}" if f in under else "—"
            for f in FAULTS
        ]
        figures = (f"{case.claim:.2f}", f"{least:.2f}", f"{100 * least / case.claim:.0f} %")
        rows.append((case.name, case.pair, *figures, *words))
    return Section(
        title="20. Audits of differential privacy",
        blocks=(
            ABOUT,
            markdown_table(("audit", "pair", "claim", "bound shown", "share", *FAULTS), rows),
            "\n".join(
                (
                    verdict("no bound exceeds its claim", sound == len(rows), f"{sound} of {len(rows)}"),
                    verdict("each shows half of it or more", tight == len(rows), f"{tight} of {len(rows)}"),
                    verdict("every planted fault is caught", not missed, f"{caught} of {caught + missed}"),
                )
            ),
        ),
        source="Made tables of canaries.",
    )
