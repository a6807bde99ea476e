"""Shadow releases of the people who were held out, made once per run and kept with them.

The noise of a private method cannot be seeded. If a retry drew new shadows, you could retry a refused release
until it passes. So the first shadows of a run are its only ones. Each is written as soon as it is made: first
the records, then their hash and the outsiders that they are made from. A shadow with both is complete. A
retry or a second call reads it and only makes those that are missing. Records without a hash were never used
in an attack.

A shadow is the result of the release's method, with its parameters, on other people. The method is called in
the engine, which knows no ledger, no secret of a series and no state of a schedule, so nothing is booked or
stored. `privacy_engine.attacks.shadow` proves that nothing has to be. A release that continues earlier ones,
or is made in fragments, is not the result of only its method and is refused.

Shadows are as private as the held-out people: they stay in the work area and are removed with it.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy_engine.attacks.shadow import LEAST, halves_of
from privacy_engine.attacks.trial import Shadow
from privacy_engine.errors import InfeasibleError, IntegrityError, SchemaError, SpecError
from privacy_engine.progress import portion
from privacy_engine.randomizers.randomizer import Randomizer
from privacy_engine.randomizers.randomness import SHORTEST, Randomness, Secret
from privacy_engine.tables.columns import factorize
from privacy_engine.verification.models import rule_of
from privacy_release.manifest.manifest import Manifest
from privacy_release.spec.methods import build_method
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import StagedRelease, Table
from privacy_release.workarea.staged import json_bytes

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.release import ReleaseMethod
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.attack_risk import AttackRisk


def shadows_kept(
    rule: "AttackRisk",
    table: Table,
    staged: StagedRelease,
    work: WorkArea,
    on_progress: Callable[[str], None] = lambda _: None,
) -> "tuple[Shadow, ...]":
    """Return the shadow releases that a rule requires: those in the work area, and new ones for the rest.

    Args:
        rule: Rule on membership, with `shadows`. Rules with more shadows start with the same ones.
        table: Table that the release was made from. Its `holdout` are the people to make shadows of.
        staged: Staged release. Its manifest names method and parameters.
        work: Work area in which shadows are kept until teardown.
        on_progress: Progress callback, called with a message when a shadow begins.

    Raises:
        SpecError: If the release continues earlier ones, or was made in fragments.
        InfeasibleError: If too few people were held out, or the method cannot make a release of so few.
        IntegrityError: If a file of the work area is missing or changed.
    """
    manifest, schema = staged.read_manifest(), table.read_schema()
    _require_alone(rule, manifest, staged)
    aside = table.held_out
    outsiders = aside.frame()
    persons = factorize(outsiders[schema.by]).codes if schema.by else np.arange(len(outsiders))
    require_enough(len(np.unique(persons)), [rule])
    made_by = _MadeBy(
        method=build_method(manifest.method, manifest.parameters),
        schema=schema,
        outsiders=outsiders,
        persons=persons,
        question=_question(manifest, schema, aside.sha256),
        work=work,
    )
    count, found = rule.shadows or 0, []
    # The people in each shadow follow from the question, so a retry uses the same ones.
    for number, inside in enumerate(halves_of(persons, made_by.rng(), count)):
        records = f", of {len(inside):,} of {len(outsiders):,} records held out"
        # Of a private release, these numbers are exact counts of the source.
        on_progress(f"shadow {number + 1} of {count}{'' if manifest.private else records}")
        with portion(1 / count):
            found.append(made_by.kept(number, inside) or made_by.made(number, inside, rule))
    return tuple(found)


def require_enough(people: int, rules: "Sequence[AttackRisk]") -> None:
    """Raise if too few people are held out to make shadows.

    Args:
        people: Number of people who are held out.
        rules: Rules that they are held out for.

    Raises:
        InfeasibleError: Naming the rule, the number of people and the remedy.
    """
    for rule in rules:
        if rule.shadows and people < LEAST:
            raise InfeasibleError(
                f"{rule_of(rule)} makes shadow releases of the people who are held out, and needs at least "
                f"{LEAST} of them, got {people}; raise holdout, use a larger table, or remove shadows from "
                "the rule"
            )


@dataclass(frozen=True, kw_only=True)
class _MadeBy:
    """The input of shadow releases, and the place where they are kept.

    Attributes:
        method: Method of the release.
        schema: Schema of the table that the release was made from.
        outsiders: Records that were held out.
        persons: Number of the person of each held-out record, shape (n,).
        question: SHA-256, hexadecimal, of everything that a shadow depends on except for noise.
        work: Work area in which shadows are kept.
    """

    method: "ReleaseMethod"
    schema: "DataSchema"
    outsiders: "pd.DataFrame"
    persons: "npt.NDArray[np.int64]"
    question: str
    work: WorkArea

    def rng(self, *shadow: int) -> "np.random.Generator":
        """Return a generator for choosing the shadows' people, or for one shadow, the same in a retry."""
        return np.random.default_rng([int(self.question[:16], 16), *shadow])

    def kept(self, number: int, inside: "npt.NDArray[np.int64]") -> "Shadow | None":
        """Return a shadow that was made before. None if it is missing or incomplete."""
        path: Path = self.work.recall(self._name(number, "json"))
        if not path.is_file():
            return None
        try:
            entry = json.loads(path.read_bytes())
            same, sha256 = entry["inside"] == inside.tolist(), str(entry["sha256"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _changed(path, type(error).__name__) from None
        if not same:
            raise _changed(path, "other records")
        records = read_private(self.work.recall(self._name(number, "parquet")), sha256)
        return Shadow(release=records, inside=inside)

    def made(self, number: int, inside: "npt.NDArray[np.int64]", rule: "AttackRisk") -> "Shadow":
        """Make a shadow and write it to the work area."""
        data = parquet_bytes(self._release(number, inside, rule))
        records, entry = (self.work.path(self._name(number, ending)) for ending in ("parquet", "json"))
        sha256 = write_private(records, data)
        self.work.send(str(records))  # a retry may run on another machine
        write_private(entry, json_bytes({"sha256": sha256, "inside": inside.tolist()}))
        self.work.send(str(entry))
        return Shadow(release=read_private(records, sha256), inside=inside)

    def _release(self, number: int, inside: "npt.NDArray[np.int64]", rule: "AttackRisk") -> "pd.DataFrame":
        rng = self.rng(number)
        try:
            method = _with_some_secret(self.method, rng)
            own = self.outsiders.iloc[inside].reset_index(drop=True)
            released: pd.DataFrame = method.release(own, self.schema, rng).table
            return released
        except (InfeasibleError, SchemaError) as error:
            few, all_of = (len(np.unique(persons)) for persons in (self.persons[inside], self.persons))
            raise InfeasibleError(
                f"{rule_of(rule)}: {self.method.key} cannot make a shadow release of {few:,} of the "
                f"{all_of:,} people held out: {error}. Hold out more people (raise holdout, or use a larger "
                "table), weaken the models, for example with a lower k, or remove shadows from the rule"
            ) from None

    def _name(self, number: int, ending: str) -> str:
        return f"shadow-{self.question[:16]}-{number}.{ending}"


def _with_some_secret(method: Any, rng: "np.random.Generator") -> Any:
    """Give a memoising method a random secret that belongs to no series. Return other methods unchanged."""
    if isinstance(method, Randomizer) and method.randomness is Randomness.MEMOISED:
        return method.with_secret(Secret(rng.bytes(SHORTEST)))
    return method


def _question(manifest: Manifest, schema: "DataSchema", outsiders: str) -> str:
    """Return a hash of everything that shadows are made from. Other parameters lead to other shadows."""
    described = {
        "method": manifest.method,
        "parameters": manifest.parameters,
        "schema": schema.to_dict(),
        "outsiders": outsiders,
    }
    return hashlib.sha256(json_bytes(described)).hexdigest()


def _require_alone(rule: "AttackRisk", manifest: Manifest, staged: StagedRelease) -> None:
    """Raise unless the method can make this release by itself, from one table in memory."""
    promise = manifest.over_time
    follows = manifest.history is not None or (promise is not None and promise.follows)
    if follows or staged.is_in_fragments:
        raise SpecError(
            f"{rule_of(rule)} requires shadow releases, but this release continues earlier ones, counts who "
            "is in them, or was made in fragments, so its method cannot make such a release by itself; "
            "remove shadows from the rule, or release without history and promise, with the engine local"
        )


def _changed(path: Path, found: str) -> IntegrityError:
    return IntegrityError(
        f"{path.name} must contain the hash of a shadow and what it was made from, got {found}: it changed "
        "between two attempts; run from ingest again"
    )
