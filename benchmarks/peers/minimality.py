"""Minimality: what an attacker infers from the cuts that a release does not have, and its false alarms."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.report import markdown_table, verdict
from benchmarks.tables import SENSITIVE
from privacy_engine import DataSchema, load_method
from privacy_engine.attacks.trial import AttackOutcome, Evidence, Verdict, case_of, try_attack
from privacy_engine.registry import load_attack
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    DistinctLDiversity,
    KAnonymity,
    PrivacyModel,
    TCloseness,
)
from privacy_engine.vocabulary import AttackName, Role

STREETS, HOUSES = 150, (10, 30)  # people in the two houses of each street
ILLNESSES = tuple(f"illness {i}" for i in range(1, 9))
ALIKE = "streets, one house of each with one illness"
APART = "streets, illnesses at random"
ABOUT = f"""Minimality: in each class an attacker infers from the rules that a finer cut would break one,
and whose the values are. The control is how often the same guesses are right of anybody in the class, so the
excess is what minimality alone tells. *Streets* are {STREETS} streets of two houses with {HOUSES[0]} and
{HOUSES[1]} people, released by Mondrian with k = {HOUSES[0]}, l = 2; where all in the smaller house have the
same illness, the houses stay one class, as in the example of Wong et al. (2007). *Large* is the share of the
people in classes of at least 2k."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What was found on a release, the share of its people in classes of at least 2k, and CPU seconds."""

    outcome: AttackOutcome
    large: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Minimal:
    """What was found on each release, and of how many with values dealt at random a leak was found."""

    tried: Mapping[str, Tried]
    alarms: int
    blind: int
    runs: int

    @property
    def blocks(self) -> tuple[str, ...]:
        """As text and table."""
        rows = [
            (
                name,
                f"{100 * t.large:.0f} %",
                f"{t.outcome.found.main.value:.3f}",
                f"{t.outcome.found.control.value:.3f}",
                cell(t.outcome),
                f"{t.seconds:.1f}",
            )
            for name, t in self.tried.items()
        ]
        return (
            ABOUT,
            markdown_table(("release", "large", "right", "control", "excess", "CPU s"), rows),
            f"Of {self.runs} k-anonymous releases whose values are dealt at random to all people, so that no "
            f"rule made them coarse, minimality took {self.alarms} for a leak; it was blind on {self.blind}.",
        )

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What was expected."""
        alike, apart = (self.tried[name].outcome for name in (ALIKE, APART))
        adult = {n: t.outcome for n, t in self.tried.items() if n not in (ALIKE, APART)}
        return (
            verdict(
                "minimality finds out what keeps houses together, and accuses no streets without it",
                alike.verdict is Verdict.LEAK and apart.verdict is Verdict.QUIET,
                f"excess {alike.excess:.2f}, {apart.excess:.3f}",
            ),
            verdict(
                "minimality sees a planted leak in each release by a rule",
                all(o.sees for o in adult.values()),
                f"{sum(o.sees for o in adult.values())} of {len(adult)}",
            ),
            verdict(
                "minimality is alarmed by at most 5 % of values dealt at random",
                self.alarms <= 0.05 * self.runs,
                f"{self.alarms} of {self.runs}",
            ),
        )


def cell(outcome: AttackOutcome) -> str:
    """Excess and interval, bold where that is above 0, and the excess of the planted leak."""
    message = f"{outcome.excess:.3f} ({outcome.low:.3f} to {outcome.high:.3f})"
    message = f"**{message}**" if outcome.low > 0 else message
    return f"{message} / {outcome.planted.excess:.3f}{'' if outcome.sees else ' blind'}"


def minimal(people: pd.DataFrame, outsiders: pd.DataFrame, schema: DataSchema, runs: int) -> Minimal:
    """Releases by rules on sensitive values, and such as no rule made.

    Args:
        people: of Adult, in the releases.
        outsiders: who are not; the attack does not look at them.
        schema: of both.
        runs: releases whose values are dealt at random.
    """
    three, close = DistinctLDiversity(l=3), TCloseness(t=0.2, attribute=SENSITIVE)
    methods: Mapping[str, tuple[str, dict[str, object]]] = {
        "Mondrian, k = 10, l = 3": ("mondrian", {"k": 10, "require": (three,)}),
        "Mondrian, k = 10, t = .2": ("mondrian", {"k": 10, "require": (close,)}),
        "Mondrian, widest, k = 10, t = .2": (
            "mondrian",
            {"k": 10, "rule": "widest", "require": (close,)},
        ),
        "ILP l-diversity, k = 10, l = 3": ("ilp_l_diversity", {"k": 10, "l": 3}),
        "KACLUK, k = 10, l = 3": ("kacluk", {"k": 10, "require": (three,)}),
        "Bottom-up, k = 5, t = .2": ("bottom_up", {"k": 5, "require": (close,)}),
    }
    found = {}
    for name, (key, parameters) in methods.items():
        found[name] = _released(people, outsiders, schema, key, parameters)
        print(f"[minimality] {name}: {found[name].seconds:.1f} CPU s", flush=True)
    for name, alike in ((ALIKE, True), (APART, False)):
        table, of_streets = streets(np.random.default_rng(1), alike=alike)
        two = {"k": HOUSES[0], "require": (DistinctLDiversity(l=2),)}
        found[name] = _released(table, table.iloc[:10], of_streets, "mondrian", two)
    said = [_at_random(people, outsiders, schema, seed) for seed in range(runs)]
    return Minimal(
        tried=found,
        alarms=said.count(Verdict.LEAK),
        blind=said.count(Verdict.BLIND),
        runs=runs,
    )


def streets(rng: np.random.Generator, *, alike: bool) -> tuple[pd.DataFrame, DataSchema]:
    """People with an illness, in houses of streets, and what their columns are."""
    rows = tuple((f"house {s}{h}", f"street {s}", "*") for s in range(STREETS) for h in "ab")
    house = np.repeat(np.arange(len(rows)), HOUSES * STREETS)
    ill = rng.integers(0, len(ILLNESSES), len(house))
    if alike:
        one = house % 2 == 0
        ill[one] = rng.integers(0, len(ILLNESSES), len(rows))[house[one]]
    table = pd.DataFrame({"house": np.array([r[0] for r in rows])[house], "ill": np.array(ILLNESSES)[ill]})
    return table, DataSchema(
        (
            Attribute(name="house", role=Role.QUASI_IDENTIFIER, hierarchy=Hierarchy(rows)),
            Attribute(name="ill", role=Role.SENSITIVE, categories=ILLNESSES),
        )
    )


def _released(
    people: pd.DataFrame,
    outsiders: pd.DataFrame,
    schema: DataSchema,
    key: str,
    parameters: Mapping[str, object],
) -> Tried:
    release = load_method(key, **parameters).release(people, schema, np.random.default_rng(4))
    columns = [a.name for a in release.schema.quasi_identifiers]
    sizes = release.table.groupby(columns, dropna=False)[columns[0]].transform("size")
    began = time.process_time()
    outcome = _tried(release.table, people, outsiders, schema, release.guarantees, 5)
    return Tried(
        outcome=outcome,
        large=float((sizes >= 2 * int(str(parameters["k"]))).mean()),
        seconds=time.process_time() - began,
    )


def _tried(
    release: pd.DataFrame,
    people: pd.DataFrame,
    outsiders: pd.DataFrame,
    schema: DataSchema,
    rules: Sequence[PrivacyModel],
    seed: int,
) -> AttackOutcome:
    evidence = Evidence(
        release=release, source=schema, people=people, outsiders=outsiders, rules=tuple(rules)
    )
    case = case_of(evidence, np.random.default_rng(seed))
    attack = load_attack(AttackName.MINIMALITY)
    (outcome,) = try_attack(attack, case, np.random.default_rng(seed + 1)).outcomes
    return outcome


def _at_random(people: pd.DataFrame, outsiders: pd.DataFrame, schema: DataSchema, seed: int) -> Verdict:
    """Of 1,500 people in classes of 20, by an attacker who believes in a rule that made them so large."""
    rng = np.random.default_rng(1_000 + seed)
    some = people.iloc[rng.permutation(len(people))[:1_500]].reset_index(drop=True)
    some = some.assign(**{SENSITIVE: rng.permutation(some[SENSITIVE].to_numpy())})
    release = load_method("mondrian", k=20).release(some, schema, rng).table
    rules = (KAnonymity(k=5), AlphaKAnonymity(alpha=0.3, k=5))
    return _tried(release, some, outsiders, schema, rules, seed).verdict
