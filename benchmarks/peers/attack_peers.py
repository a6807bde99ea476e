"""Our attacks beside Anonymeter's, on the same releases with the same people held out."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.environments import UnavailableError, answer_of, environment
from benchmarks.peers.attacks import bounded, releases, split
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import SENSITIVE, Table
from privacy_engine import DataSchema
from privacy_engine.attacks.trial import TARGETS, Evidence, case_of, try_attack
from privacy_engine.registry import load_attack
from privacy_engine.vocabulary import AttackName, released_as

SCRIPTS = Path(__file__).parent / "peers_attacks"
NOISE = "noise"
TRIED = (
    "raw copy",
    "Bottom-up, k = 10",
    "LatentClass, epsilon .2",
    "LatentClass, epsilon 5",
    "ERRPH",
    "noise",
)
COLUMNS = 5  # of a predicate of several attributes; with its default of 3 hardly any record is alone
ATTEMPTS = 40_000  # predicates that it makes at most, to find as many as attacks
# Anonymeter's attacks, and ours that go for the same.
PAIRS: Mapping[str, tuple[AttackName, str]] = {
    "singling out, univariate": (AttackName.SINGLING_OUT, "one attribute"),
    "singling out, multivariate": (AttackName.SINGLING_OUT, "several attributes"),
    "linkability": (AttackName.LINKAGE, "a part of the record"),
    "inference": (AttackName.INFERENCE, SENSITIVE),
}
ABOUT = """The releases of section 26, the same {outsiders:,} people held out, {attacks:,} attacks
each; excess risk with its 95 % interval, which Anonymeter cuts at 0 and 1, bold where it is above 0.
Anonymeter (Giomi et al. 2023, version 1.1.0) runs in a separate environment, with its defaults but
for predicates of {columns} attributes, of which it may make {attempts:,}. Of noise, which knows no one,
nothing can leak. The attacker of inference knows all quasi-identifiers in both. For Anonymeter's
linkability it knows each half of them, and is right who finds the same record by both; for our linkage
it knows a random half, and is right who finds the person's own record. Anonymeter does not read
generalized records: of an interval it gets the middle, of a node the label. Ours has nothing of one
attribute to go for where hardly anybody stands alone in one. CPU seconds are of one attack on one
release, with what it compiles; ours are of a planted leak, too, and of singling out of both kinds
together."""


@dataclass(frozen=True)
class Found:
    """One attack on one release: excess risk, its interval, and CPU seconds."""

    excess: float
    low: float
    high: float
    cpu: float

    @property
    def leaks(self) -> bool:
        """Whether the interval is above 0."""
        return self.low > 0

    def __str__(self) -> str:
        message = f"{self.excess:.3f} ({self.low:.3f} to {self.high:.3f})"
        return f"**{message}**" if self.leaks else message


def run(table: Table, *, tried: Sequence[str] = TRIED) -> Section:
    """Attack in both ways."""
    schema = bounded(table)
    people, outsiders = split(table)
    made = {
        name: releases(schema)[name](people, np.random.default_rng(4)).reset_index(drop=True)
        for name in tried
    }
    ours = {name: _ours(release, schema, people, outsiders) for name, release in made.items()}
    try:
        theirs = anonymeters({n: plain(r, schema) for n, r in made.items()}, schema, people, outsiders)
    except UnavailableError as error:
        return Section(
            title="29. Attacks beside Anonymeter", blocks=(f"Anonymeter was not measured: {error}.",)
        )
    # Its control sees fewer people than the release was made from; here as many.
    few = anonymeters({NOISE: plain(made[NOISE], schema)}, schema, people.head(len(outsiders)), outsiders)
    return _section(ours, theirs, few[NOISE], len(outsiders))


def plain(release: pd.DataFrame, schema: DataSchema) -> pd.DataFrame:
    """A release in the columns of its source: middles of intervals, labels of nodes."""
    columns = {}
    for attribute in schema.attributes:
        names = released_as(attribute.name, release.columns)
        if len(names) > 1:
            columns[attribute.name] = (release[names[0]] + release[names[1]]) / 2
        else:
            columns[attribute.name] = release[names[0]]
    return pd.DataFrame(columns)


def _ours(
    release: pd.DataFrame, schema: DataSchema, people: pd.DataFrame, outsiders: pd.DataFrame
) -> dict[str, Found]:
    evidence = Evidence(release=release, source=schema, people=people, outsiders=outsiders)
    case, found = case_of(evidence, np.random.default_rng(5)), {}
    for attack in dict.fromkeys(attack for attack, _ in PAIRS.values()):
        began = time.process_time()
        outcomes = {
            o.subject: o for o in try_attack(load_attack(attack), case, np.random.default_rng(6)).outcomes
        }
        spent = time.process_time() - began
        for theirs, (own, subject) in PAIRS.items():
            if own is attack and subject in outcomes:
                o = outcomes[subject]
                found[theirs] = Found(o.excess, o.low, o.high, spent)
    return found


def anonymeters(
    made: Mapping[str, pd.DataFrame], schema: DataSchema, people: pd.DataFrame, outsiders: pd.DataFrame
) -> dict[str, dict[str, Found]]:
    """What Anonymeter finds, by release and attack; what fails is left out.

    Raises:
        UnavailableError: if its environment cannot be made, or its process fails.
    """
    python = environment(SCRIPTS / "anonymeter.txt")
    known = [a.name for a in schema.quasi_identifiers]
    columns = [a.name for a in schema.attributes]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def kept(file: str, table: pd.DataFrame) -> str:
            table[columns].to_parquet(folder / file, index=False)
            return str(folder / file)

        job = {
            "people": kept("people.parquet", people),
            "control": kept("control.parquet", outsiders),
            "releases": {n: kept(f"{i}.parquet", r) for i, (n, r) in enumerate(made.items())},
            "attacks": TARGETS,
            "columns": COLUMNS,
            "tried": ATTEMPTS,
            "known": known,
            "halves": [known[::2], known[1::2]],
            "secret": SENSITIVE,
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        answered = answer_of(python, SCRIPTS / "run.py", str(folder / "job.json"))
    found: dict[str, dict[str, Found]] = {n: {} for n in made}
    for one in map(json.loads, answered.splitlines()):
        if "failed" in one:
            print(f"[attack_peers] {one['attack']} on {one['release']}: {one['failed']}", flush=True)
            continue
        found[one["release"]][one["attack"]] = Found(one["risk"], *one["ci"], one["cpu"])
    return found


def _section(
    ours: Mapping[str, Mapping[str, Found]],
    theirs: Mapping[str, Mapping[str, Found]],
    as_many: Mapping[str, Found],
    outsiders: int,
) -> Section:
    blocks = [ABOUT.format(outsiders=outsiders, attacks=TARGETS, columns=COLUMNS, attempts=ATTEMPTS)]
    for attack in PAIRS:
        rows = [(name, *_cells(ours[name].get(attack)), *_cells(theirs[name].get(attack))) for name in ours]
        blocks.append(markdown_table((attack, "ours", "CPU s", "Anonymeter", "CPU s"), rows))
    both = [(name, attack) for name in ours for attack in PAIRS]
    leaks = {
        who: {(n, a) for n, a in both if a in found[n] and found[n][a].leaks}
        for who, found in (("ours", ours), ("theirs", theirs))
    }
    blocks.append(
        "Anonymeter on noise, where as many of the people are looked for as are held out: "
        + "; ".join(f"{attack} {found}" for attack, found in as_many.items())
        + "."
    )
    # Noise knows no one: an attack that accuses it says nothing of another release either.
    false = {who: {a for n, a in found if n == NOISE} for who, found in leaks.items()}
    alone = {(n, a) for n, a in leaks["theirs"] - leaks["ours"] if a not in false["theirs"]}
    cpu = [sum({f.cpu for f in found[n].values()}) for found in (ours, theirs) for n in ours]
    half = len(cpu) // 2
    message = "; ".join(f"{attack} on {name}" for name, attack in both if (name, attack) in alone)
    more = "; ".join(f"{a} on {n}" for n, a in both if (n, a) in leaks["ours"] - leaks["theirs"])
    blocks.append(
        "\n".join(
            (
                verdict(
                    "neither accuses noise of a leak",
                    not false["ours"] | false["theirs"],
                    "; ".join(f"{who}: {', '.join(sorted(false[who])) or 'none'}" for who in false),
                ),
                verdict(
                    "ours finds every leak that Anonymeter finds by attacks that do not accuse noise",
                    not alone,
                    f"{len(leaks['theirs'])} of its and {len(leaks['ours'])} of ours; "
                    f"its alone: {message or 'none'}",
                ),
                verdict(
                    "ours finds leaks that Anonymeter does not",
                    bool(leaks["ours"] - leaks["theirs"]),
                    more or "none",
                ),
                verdict(
                    "ours takes less CPU time on every release",
                    all(own < other for own, other in zip(cpu[:half], cpu[half:], strict=True)),
                    f"at most {max(cpu[:half]):.0f} s, Anonymeter at least {min(cpu[half:]):.0f} s",
                ),
            )
        )
    )
    return Section(title="29. Attacks beside Anonymeter", blocks=tuple(blocks))


def _cells(found: Found | None) -> tuple[str, str]:
    return ("—", "") if found is None else (str(found), f"{found.cpu:.1f}")
