"""Attacks on releases of Adult: what each gains, what its planted leak shows, and how often it cries wolf."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.peers.minimality import Minimal, cell, minimal
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table
from privacy_engine import DataSchema, load_method
from privacy_engine.attacks.shadow import shadows_of
from privacy_engine.attacks.trial import AttackOutcome, Evidence, Verdict, case_of, try_attack
from privacy_engine.registry import load_attack
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.models import TCloseness
from privacy_engine.vocabulary import AttackName

ON_ONE = (AttackName.SINGLING_OUT, AttackName.LINKAGE, AttackName.INFERENCE, AttackName.MEMBERSHIP)
HELD_OUT = 0.1
MEMORIZED = "half copies, half noise"
PRIVATE = "LatentClass, epsilon 1"
SYNTHETIC = ("LatentClass, epsilon .2", PRIVATE, "LatentClass, epsilon 5", MEMORIZED, "noise")
ABOUT = """A tenth of the people is held out at random and is the control; 2,000 of the others are attacked.
Each cell is the excess risk: what the attack gets right about people in the release beyond what it gets right
about people who are not, or without the release, as a share of what was left to get right; with the 95 %
interval and, after the stroke, the excess on the copy of the release with a planted leak, which the attack
must see. Bold where the interval is above 0. The attacker of inference and membership knows all
quasi-identifiers, that of linkage a random half of them. Synthesizers are run eight times more on people who
are held out, and membership learns from these shadows too. CPU seconds are those of the attacks. An attack
that finds nothing certifies nothing."""


def bounded(table: Table) -> DataSchema:
    """The schema with the domains that a differentially private method needs."""
    fields = {
        "age": {"bins": 20},
        "education-num": {"bins": 16},
        SENSITIVE: {"categories": tuple(sorted(table.frame[SENSITIVE].unique()))},
    }
    return replace(
        table.schema, attributes=tuple(replace(a, **fields.get(a.name, {})) for a in table.schema.attributes)
    )


def noise_of(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Independent columns with the values of some records."""
    return pd.DataFrame({name: rng.permutation(frame[name].to_numpy()) for name in frame})


Make = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def releases(schema: DataSchema) -> Mapping[str, Make]:
    """What is attacked, made from the people who were not held out."""

    def made(key: str, **parameters: object) -> Make:
        return lambda frame, rng: load_method(key, **parameters).release(frame, schema, rng).table

    def pseudonymized(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        names = rng.permutation(len(frame))
        return frame.assign(pseudonym=[f"p{i}" for i in names]).sample(frac=1, random_state=rng)

    def memorizing(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        half = len(frame) // 2
        return pd.concat([frame.sample(half, random_state=rng), noise_of(frame, rng).iloc[half:]])

    closeness = (TCloseness(t=0.2, attribute=SENSITIVE),)
    return {
        "raw copy": lambda frame, rng: frame.sample(frac=1, random_state=rng),
        "pseudonymized": pseudonymized,
        "Bottom-up, k = 2": made("bottom_up", k=2),
        "Bottom-up, k = 10": made("bottom_up", k=10),
        "Bottom-up, k = 50": made("bottom_up", k=50),
        "ILP l-diversity, k = 10, l = 3": made("ilp_l_diversity", k=10, l=3),
        "Bottom-up, k = 5, t = .2": made("bottom_up", k=5, require=closeness),
        "LatentClass, epsilon .2": made("latent_class", epsilon=0.2),
        PRIVATE: made("latent_class", epsilon=1.0),
        "LatentClass, epsilon 5": made("latent_class", epsilon=5.0),
        "ERRPH": made("errph"),
        MEMORIZED: memorizing,
        "noise": noise_of,
    }


def split(table: Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """People in the releases, and those who are held out, at random."""
    mixed = table.frame.iloc[np.random.default_rng(1).permutation(len(table.frame))].reset_index(drop=True)
    outside = round(HELD_OUT * len(mixed))
    return mixed.iloc[outside:].reset_index(drop=True), mixed.iloc[:outside]


def run(table: Table, *, runs: int = 100, rows: int = 1_500) -> Section:
    """Every attack on every release, releases in pairs, and false alarms.

    Args:
        table: of Adult.
        runs: releases of noise that are attacked.
        rows: people in each of them; a third as many are outside.
    """
    schema = bounded(table)
    people, outsiders = split(table)
    mixed = pd.concat([outsiders, people], ignore_index=True)
    found: dict[str, dict[str, AttackOutcome]] = {}
    seconds: dict[str, float] = {}
    for name, make in releases(schema).items():
        release = make(people, np.random.default_rng(4)).reset_index(drop=True)
        shadows = shadows_of(make, outsiders, np.random.default_rng(3)) if name in SYNTHETIC else ()
        began = time.process_time()
        evidence = Evidence(
            release=release, source=schema, people=people, outsiders=outsiders, shadows=shadows
        )
        case = case_of(evidence, np.random.default_rng(5))
        found[name] = {}
        for attack in ON_ONE:
            for outcome in try_attack(load_attack(attack), case, np.random.default_rng(6)).outcomes:
                found[name][f"{outcome.attack}: {outcome.subject}"] = outcome
        seconds[name] = time.process_time() - began
        print(f"[attacks] {name}: {seconds[name]:.0f} CPU s", flush=True)
    pairs = _pairs(people, outsiders, schema)
    alarms, blind = _alarms(mixed, schema, runs, rows)
    inferred = minimal(people, outsiders, schema, runs)
    return _section(found, seconds, pairs, alarms, blind, runs, len(people), inferred)


def _pairs(people: pd.DataFrame, outsiders: pd.DataFrame, schema: DataSchema) -> dict[str, AttackOutcome]:
    """Two releases of the same people, intersected."""
    persons = np.array([f"p{i}" for i in range(len(people))], dtype=object)

    def member(release: object) -> Membership:
        rows, table = release.rows, release.table  # type: ignore[attr-defined]
        whose = np.where(rows >= 0, persons[rows], None)
        return Membership.of_table(whose, table, release.schema)  # type: ignore[attr-defined]

    found = {}
    for key in ("kacluk", "bottom_up"):
        method = load_method(key, k=10)
        made = [method.release(people, schema, np.random.default_rng(seed)) for seed in (1, 2)]
        found[f"{key} twice, k = 10"] = _intersected(
            [member(r) for r in reversed(made)], made[1].table, people, outsiders, schema
        )
    method = load_method("bottom_up", k=10)
    first = method.release(people, schema, np.random.default_rng(1))
    second = republish(
        method,
        people,
        schema,
        np.random.default_rng(2),
        persons=persons,
        earlier=[member(first)],
        guarantee=RepublicationGuarantee(k=10),
        limit=1.0,
    )
    found["bottom_up twice, made with the first, k = 10"] = _intersected(
        [member(second), member(first)], second.table, people, outsiders, schema
    )
    return found


def _intersected(
    memberships: list[Membership],
    release: pd.DataFrame,
    people: pd.DataFrame,
    outsiders: pd.DataFrame,
    schema: DataSchema,
) -> AttackOutcome:
    evidence = Evidence(
        release=release, source=schema, people=people, outsiders=outsiders, memberships=tuple(memberships)
    )
    case = case_of(evidence, np.random.default_rng(5))
    (outcome,) = try_attack(load_attack(AttackName.INTERSECTION), case, np.random.default_rng(6)).outcomes
    return outcome


def _alarms(
    mixed: pd.DataFrame, schema: DataSchema, runs: int, rows: int
) -> tuple[dict[str, int], dict[str, int]]:
    """How often each attack finds a leak, or is blind, on noise made of other people."""
    alarms = dict.fromkeys(ON_ONE, 0)
    blind = dict.fromkeys(ON_ONE, 0)
    for seed in range(runs):
        rng = np.random.default_rng(1_000 + seed)
        drawn = mixed.iloc[rng.permutation(len(mixed))[: 2 * rows + rows // 3]].reset_index(drop=True)
        people, other, outsiders = drawn.iloc[:rows], drawn.iloc[rows : 2 * rows], drawn.iloc[2 * rows :]
        evidence = Evidence(release=noise_of(other, rng), source=schema, people=people, outsiders=outsiders)
        case = case_of(evidence, rng)
        for attack in ON_ONE:
            outcomes = try_attack(load_attack(attack), case, rng).outcomes
            alarms[attack] += any(o.verdict is Verdict.LEAK for o in outcomes)
            blind[attack] += any(o.verdict is Verdict.BLIND for o in outcomes)
    return {a.value: n for a, n in alarms.items()}, {a.value: n for a, n in blind.items()}


def _section(
    found: Mapping[str, Mapping[str, AttackOutcome]],
    seconds: Mapping[str, float],
    pairs: Mapping[str, AttackOutcome],
    alarms: Mapping[str, int],
    blind: Mapping[str, int],
    runs: int,
    people: int,
    inferred: Minimal,
) -> Section:
    subjects = list(dict.fromkeys(s for of in found.values() for s in of))
    rows = [
        (name, *(cell(of[s]) if s in of else "—" for s in subjects), f"{seconds[name]:.0f}")
        for name, of in found.items()
    ]
    raw = found["raw copy"].values()
    membership, by_shadows = (o for s, o in found[MEMORIZED].items() if s.startswith("membership"))
    unseen_private = [o for s, o in found[PRIVATE].items() if s.startswith("membership")]
    every = [o for of in found.values() for o in of.values()]
    kacluk, aware = pairs["kacluk twice, k = 10"], pairs["bottom_up twice, made with the first, k = 10"]
    worst = max(alarms.values())
    alarmed = ", ".join(f"{name} {n}" for name, n in alarms.items())
    unseen = ", ".join(f"{name} {n}" for name, n in blind.items())
    return Section(
        title="26. Attacks on releases",
        blocks=(
            ABOUT,
            markdown_table(("release", *subjects, "CPU s"), rows),
            "Two releases of the same people, by someone who knows each person's class in both: how many "
            "are alone in them, beyond those who are alone in the second.",
            markdown_table(
                ("releases", "alone", "excess"),
                [(name, f"{100 * o.found.main.value:.1f} %", cell(o)) for name, o in pairs.items()],
            ),
            f"Of {runs} releases of noise, each of other people than those attacked, so "
            f"many were taken for a leak: {alarmed}; on this many an attack was blind: {unseen}.",
            *inferred.blocks,
            "\n".join(
                (
                    verdict(
                        "every attack finds the raw copy out",
                        all(o.verdict is Verdict.LEAK for o in raw),
                        ", ".join(f"{o.attack} {o.excess:.2f}" for o in raw),
                    ),
                    verdict(
                        "every planted leak is seen",
                        all(o.sees for o in every),
                        f"{sum(o.sees for o in every)} of {len(every)}",
                    ),
                    verdict(
                        "membership finds a synthesizer out that memorizes half of its records, "
                        "by shadows too",
                        membership.verdict is by_shadows.verdict is Verdict.LEAK,
                        f"excess {membership.excess:.2f}, by shadows {by_shadows.excess:.2f}",
                    ),
                    verdict(
                        f"membership accuses {PRIVATE} in neither way",
                        all(o.verdict is Verdict.QUIET for o in unseen_private),
                        ", ".join(f"{o.excess:.3f}" for o in unseen_private),
                    ),
                    verdict(
                        "KACLUK released twice is caught, and a release made with the first is not accused",
                        kacluk.verdict is Verdict.LEAK and aware.verdict is Verdict.QUIET,
                        ", ".join(f"{100 * o.found.main.value:.1f} %" for o in (kacluk, aware)),
                    ),
                    *inferred.verdicts,
                    verdict(
                        "no attack is alarmed by more than 5 % of the releases of noise",
                        worst <= 0.05 * runs,
                        f"at most {worst} of {runs}",
                        runs=runs,
                    ),
                    verdict(
                        f"all attacks on {people:,} records take less than two minutes of two cores",
                        max(seconds.values()) < 240,
                        f"at most {max(seconds.values()):.0f} CPU s",
                    ),
                )
            ),
        ),
    )
