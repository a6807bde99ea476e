"""How long the gate of attacks takes on a staged release, with everything that it reads and writes."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.dp_tables import ADULT_BOUNDS, BINS
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from deploy.local.samples.adult import sample_table
from privacy_engine import DataSchema, Release, load_method
from privacy_engine.attacks.trial import Evidence, case_of, try_attack
from privacy_engine.errors import VerificationError
from privacy_engine.registry import load_attack
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.models import model_to_dict
from privacy_engine.vocabulary import AttackName
from privacy_release.spec.files import load_schema
from privacy_release.steps.attacks.holdout import hold_out
from privacy_release.steps.attacks.tries import AttackedRelease, attack_staged
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import ReportRef, SourceRef, StagedRelease
from privacy_release.workarea.references import Table as KeptTable
from privacy_release.workarea.staged import write_schema

SIZES = (30_162, 1_000_000)
GATE = (AttackName.SINGLING_OUT, AttackName.LINKAGE, AttackName.INFERENCE, AttackName.MEMBERSHIP)
LARGEST_RANDOMIZED = 100_000  # people whose random answers are attacked: of a million it takes too long
SENSITIVE = ("occupation", "salary-class")
RELEASED = ("capital-gain", "capital-loss", "fnlwgt")  # neither quasi-identifying nor sensitive
MOVED = {"age": 5, "fnlwgt": 20_000, "hours-per-week": 5}
REDRAWN = 0.2
ANONYMIZED = "anonymized: Mondrian, k = 10, l = 2"
RANDOMIZED = "randomized: ERRPH"
METHODS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    ANONYMIZED: ("mondrian", {"k": 10, "l": 2}),
    "synthetic: LatentClass, epsilon 1": ("latent_class", {"epsilon": 1.0}),
    RANDOMIZED: ("errph", {}),
}
LIMIT = 240  # CPU seconds: two minutes of two cores
ABOUT = f"""All 15 columns of Adult: ten quasi-identifiers, two sensitive ones and three others. The larger
table is drawn from it with replacement; ages, hours and weights are moved a little, and a value is redrawn
from its column with a chance of {REDRAWN:.0%}. A tenth is held out, and the gate reads the staged release
and the true records, tries singling out, linkage, inference and membership, each on the release and on the
copy with a planted leak, and writes the curator's report; of the anonymized release also minimality.
Intersection is tried on two anonymized releases of the same people. The samples are those that
[the manual](attacks.md#how-an-attack-is-measured) states.
Compiling is not counted, for it is done once. Wall seconds are of a machine that others use, too."""


@dataclass(frozen=True)
class Gate:
    """Seconds of one gate, and of the intersection where there is one."""

    wall: float
    cpu: float
    intersection: float | None


def schema() -> DataSchema:
    """Of all columns, with public domains."""
    fields: dict[str, dict[str, object]] = {}
    for name in sample_table()[0].columns:
        role = "sensitive" if name in SENSITIVE else "insensitive" if name in RELEASED else "quasi_identifier"
        if name in ADULT_BOUNDS:
            fields[name] = {"kind": "numeric", "bounds": list(ADULT_BOUNDS[name]), "bins": BINS, "role": role}
        else:
            fields[name] = {"hierarchy": f"hierarchies/adult/{name}.csv", "role": role}
    return load_schema(fields)


def table_of(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """The given number of records: those of Adult, or ones in their likeness."""
    frame = sample_table()[0].dropna().reset_index(drop=True)
    if rows <= len(frame):
        return frame.head(rows)
    made = frame.iloc[rng.integers(len(frame), size=rows)].reset_index(drop=True)
    for name, far in MOVED.items():
        made[name] = np.clip(made[name] + rng.integers(-far, far + 1, size=rows), *ADULT_BOUNDS[name])
    for name in made.columns:
        redrawn_at = rng.random(rows) < REDRAWN
        made.loc[redrawn_at, name] = rng.permutation(made[name].to_numpy())[redrawn_at]
    return made


def run(table: Table, *, sizes: Sequence[int] = SIZES) -> Section:
    """Measure and describe; ``table`` is not used."""
    found: dict[tuple[str, int], Gate] = {}
    one = schema()
    for rows in (1_000, *sizes):  # the first compiles, and is not reported
        frame = table_of(rows, np.random.default_rng(1))
        for name in METHODS:
            if name == RANDOMIZED and rows > LARGEST_RANDOMIZED:
                continue
            found[name, rows] = gate_of(frame, one, name)
            print(f"[attack_speed] {name}, {rows:,}: {found[name, rows]}", flush=True)
    lines = [
        (
            name,
            f"{n:,}",
            f"{g.cpu:.0f}",
            f"{g.wall:.0f}",
            "" if g.intersection is None else f"{g.intersection:.1f}",
        )
        for (name, n), g in found.items()
        if n in sizes
    ]
    judged = [
        verdict(
            f"the gate on {n:,} x {len(one.names)} takes less than two minutes of two cores",
            all(gate.cpu < LIMIT for (_, rows), gate in found.items() if rows == n),
            f"at most {max(gate.cpu for (_, rows), gate in found.items() if rows == n):.0f} CPU s",
        )
        for n in sizes
    ]
    heads = ("release", "people", "gate, CPU s", "gate, wall s", "intersection, CPU s")
    return Section(
        title="28. Speed of attacks", blocks=(ABOUT, markdown_table(heads, lines), "\n".join(judged))
    )


def gate_of(frame: pd.DataFrame, schema: DataSchema, name: str) -> Gate:
    """Hold people out, make and stage a release, and try the attacks of a policy on it."""
    key, parameters = METHODS[name]
    with TemporaryDirectory() as folder, patch.dict(os.environ, PRIVACY_CURATOR=f"{folder}/curator"):
        work = WorkArea(Path(folder), "gate")
        work.create()
        whole = KeptTable(
            **_kept(work, "records", frame),
            schema=write_schema(work, "records", schema),
            source=SourceRef(uri="", files=1, fingerprint="", rows=len(frame), dropped=0, identifiers=[]),
        )
        table = hold_out(whole, work, 0.1)
        people = read_private(table.uri, table.sha256)
        released = load_method(key, **parameters).release(people, schema, np.random.default_rng(2))
        manifest = work.path("manifest.json")
        write_private(manifest, json.dumps({}).encode())
        kept = _kept(work, "staged", released.table)
        attacks = (*GATE, AttackName.MINIMALITY) if name == ANONYMIZED else GATE
        rules = [{"model": "attack_risk", "attack": attack.value, "excess": 0.9} for attack in attacks]
        claimed = [model_to_dict(model) for model in released.guarantees]
        staged = StagedRelease(
            **kept,
            schema=table.schema,
            source=table.source,
            manifest=str(manifest),
            report="",
            method=key,
            guarantees=claimed,
            loss=None,
            figures={},
            seconds=0.0,
        )
        policy = {"require": [{"model": "k_anonymity", "k": 2}, *rules]}
        report = ReportRef(
            passed=True, sha256=staged.sha256, rows=staged.rows, classes=0, findings=[], policy=policy
        )
        attacked = AttackedRelease(table=table, staged=staged, report=report)
        wall, cpu = time.perf_counter(), time.process_time()
        with suppress(VerificationError):  # a bound that is not kept takes as long
            attack_staged(attacked, title="speed", release_id="r1")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        outside = read_private(table.holdout.uri, table.holdout.sha256)
        again = None
        if name == ANONYMIZED:
            second = load_method(key, **parameters).release(people, schema, np.random.default_rng(3))
            again = _intersection(people, outside, schema, [second, released])
        return Gate(wall, cpu, again)


def _kept(work: WorkArea, label: str, table: pd.DataFrame) -> dict[str, Any]:
    path = work.path(f"{label}.parquet")
    return {"uri": str(path), "rows": len(table), "sha256": write_private(path, parquet_bytes(table))}


def _intersection(
    people: pd.DataFrame, outsiders: pd.DataFrame, schema: DataSchema, made: Sequence[Release]
) -> float:
    persons = np.array([f"p{i}" for i in range(len(people))], dtype=object)
    memberships = tuple(
        Membership.of_table(np.where(r.rows >= 0, persons[r.rows], None), r.table, r.schema) for r in made
    )
    began = time.process_time()
    evidence = Evidence(
        release=made[0].table,
        source=schema,
        people=people,
        outsiders=outsiders,
        memberships=memberships,
    )
    case = case_of(evidence, np.random.default_rng(4))
    try_attack(load_attack(AttackName.INTERSECTION), case, np.random.default_rng(5))
    return time.process_time() - began
