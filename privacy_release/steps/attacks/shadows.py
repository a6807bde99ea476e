"""Shadow releases of the people who were held out: made once a run, and kept beside them.

The noise of a private method cannot be seeded. Who tried a refused release again would attack it with other
shadows, until it passes; so the first shadows of a run are its only ones. Each is written as it is made, the
records first, then their hash and which outsiders they are made from. What has both is there: a retry, or a
second call, reads it, and makes only what is missing. Records without the other were never attacked with.

A shadow is what the method of the release, with its parameters, makes of other people by itself. The method
is called in the engine, which knows no ledger, no secret of a series and no state of a schedule, so nothing
is booked or stored; why nothing has to be, `privacy_engine.attacks.shadow` proves. A release that goes on
from earlier ones, or is made in fragments, is not what its method makes by itself, and is refused.

Shadows are as private as the held-out people: they stay in the work area, and go with it.
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
from privacy_release.workarea.references import StagedRelease, Table, need
from privacy_release.workarea.staged import json_bytes, read_manifest, read_schema

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
    tell: Callable[[str], None] = lambda _: None,
) -> "tuple[Shadow, ...]":
    """The shadow releases that a rule asks for: those of the work area, and new ones for what is missing.

    Args:
        rule: of membership, with `shadows`. Another number of them begins with the same ones.
        table: what the release was made from; its `holdout` are the people to make shadows of.
        staged: the release, whose manifest names method and parameters.
        work: where they are kept until teardown.
        tell: told each shadow as it begins.

    Raises:
        SpecError: if the release goes on from earlier ones, or was made in fragments.
        InfeasibleError: if too few people were held out, or the method cannot make a release of so few.
        IntegrityError: if a file of the work area is missing or changed.
    """
    manifest, schema = read_manifest(staged.manifest), read_schema(table.schema)
    _require_alone(rule, manifest, staged)
    aside = need(table.holdout, "holdout")
    outsiders = read_private(aside.uri, aside.sha256)
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
    # Who is in which shadow follows from the question, so a retry asks for the same ones.
    for number, inside in enumerate(halves_of(persons, made_by.rng(), count)):
        tell(f"shadow {number + 1} of {count}, of {len(inside):,} of {len(outsiders):,} records held out")
        with portion(1 / count):
            found.append(made_by.kept(number, inside) or made_by.made(number, inside, rule))
    return tuple(found)


def require_enough(people: int, rules: "Sequence[AttackRisk]") -> None:
    """Refuse to make shadows of too few people.

    Args:
        people: who are held out.
        rules: for which they are.

    Raises:
        InfeasibleError: naming the rule, the number of people and what to do.
    """
    for rule in rules:
        if rule.shadows and people < LEAST:
            raise InfeasibleError(
                f"{rule_of(rule)} makes shadow releases of people who are held out, of whom there must be "
                f"{LEAST} or more, got {people}; raise holdout, take a larger table, or leave shadows out of "
                "the rule"
            )


@dataclass(frozen=True, kw_only=True)
class _MadeBy:
    """What shadows are made by and of, and where they are kept.

    Attributes:
        method: of the release.
        schema: of the table that it was made from.
        outsiders: the records that were held out.
        persons: (n,) the number of the person of each of them.
        question: hexadecimal sha256 of all that a shadow depends on, but for noise.
        work: where they are kept.
    """

    method: "ReleaseMethod"
    schema: "DataSchema"
    outsiders: "pd.DataFrame"
    persons: "npt.NDArray[np.int64]"
    question: str
    work: WorkArea

    def rng(self, *shadow: int) -> "np.random.Generator":
        """Of who is in which shadow, or of one shadow: the same in each attempt."""
        return np.random.default_rng([int(self.question[:16], 16), *shadow])

    def kept(self, number: int, inside: "npt.NDArray[np.int64]") -> "Shadow | None":
        """One that was made before; None where it was not, or not to its end."""
        path: Path = self.work.recall(self._name(number, "json"))
        if not path.is_file():
            return None
        try:
            told = json.loads(path.read_bytes())
            same, sha256 = told["inside"] == inside.tolist(), str(told["sha256"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _changed(path, type(error).__name__) from None
        if not same:
            raise _changed(path, "other records")
        records = read_private(self.work.recall(self._name(number, "parquet")), sha256)
        return Shadow(release=records, inside=inside)

    def made(self, number: int, inside: "npt.NDArray[np.int64]", rule: "AttackRisk") -> "Shadow":
        """A new one, written to the work area."""
        data = parquet_bytes(self._release(number, inside, rule))
        records, told = (self.work.path(self._name(number, ending)) for ending in ("parquet", "json"))
        sha256 = write_private(records, data)
        self.work.send(str(records))  # whoever tries again may do so on another machine
        write_private(told, json_bytes({"sha256": sha256, "inside": inside.tolist()}))
        self.work.send(str(told))
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
                f"{all_of:,} people held out: {error}. With more of them it may (raise holdout, or take a "
                "larger table), or with a lower k and the like; or leave shadows out of the rule"
            ) from None

    def _name(self, number: int, ending: str) -> str:
        return f"shadow-{self.question[:16]}-{number}.{ending}"


def _with_some_secret(method: Any, rng: "np.random.Generator") -> Any:
    """A method that memoises with a secret of its own, for no series; any other as it is."""
    if isinstance(method, Randomizer) and method.randomness is Randomness.MEMOISED:
        return method.with_secret(Secret(rng.bytes(SHORTEST)))
    return method


def _question(manifest: Manifest, schema: "DataSchema", outsiders: str) -> str:
    """Names what shadows are made by and of; with other parameters there are other ones."""
    asked = {
        "method": manifest.method,
        "parameters": manifest.parameters,
        "schema": schema.to_dict(),
        "outsiders": outsiders,
    }
    return hashlib.sha256(json_bytes(asked)).hexdigest()


def _require_alone(rule: "AttackRisk", manifest: Manifest, staged: StagedRelease) -> None:
    """Refuse a release that its method does not make by itself, of one table in memory."""
    promise = manifest.over_time
    follows = manifest.history is not None or (promise is not None and promise.follows)
    if follows or staged.engine is not None:
        raise SpecError(
            f"{rule_of(rule)} asks for shadows of a release that goes on from earlier ones, counts who is in "
            "them, or was made in fragments: its method alone does not make such a release of other people; "
            "leave shadows out of the rule, or release without history and over_time, with the engine local"
        )


def _changed(path: Path, found: str) -> IntegrityError:
    return IntegrityError(
        f"{path.name} must tell the hash of a shadow and what it was made from, got {found}: it changed "
        "between two attempts; run from ingest again"
    )
