"""The lakes and ledgers that the pages show.

These are the default ones, those that the release specifications name, and those of the option `lakes` in
Airflow's configuration section `privacy_release`: connection ids, separated by commas.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from airflow.configuration import conf

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.ledger import ledger_of
from privacy_engine.errors import PrivacyEngineError, SpecError
from privacy_release.budget.budget import DEFAULT_LEDGER
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.catalogue import readable_specs
from privacy_release.spec.model import ReleaseSpec

Place = TypeVar("Place")


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places that could be opened, by connection id, and the problems with the others.

    Attributes:
        problems: Sentences for users, without any secret.
    """

    lakes: Mapping[str, Lake] = field(default_factory=dict)
    ledgers: Mapping[str, BudgetLedger] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def specifications() -> list[ReleaseSpec]:
    """Return the release specifications of the include folder; none if there is no such folder."""
    with suppress(SpecError):
        return readable_specs()
    return []


def lakes() -> Places:
    """Return all known lakes; of several connections to the same root, the first."""
    named = [option.strip() for option in conf.get("privacy_release", "lakes", fallback="").split(",")]
    specified = [spec.publish.lake for spec in specifications()]
    found, problems = _opened([DEFAULT_LAKE, *specified, *filter(None, named)], lake_of)
    by_root = {lake.root: name for name, lake in reversed(found.items())}
    return Places(lakes={n: lake for n, lake in found.items() if by_root[lake.root] == n}, problems=problems)


def ledgers() -> Places:
    """Return all known ledgers."""
    specified = [spec.budget.ledger for spec in specifications() if spec.budget is not None]
    found, problems = _opened([DEFAULT_LEDGER, *specified], ledger_of)
    return Places(ledgers=found, problems=problems)


def _opened(names: Iterable[str], opener: Callable[[str], Place]) -> tuple[dict[str, Place], tuple[str, ...]]:
    found: dict[str, Place] = {}
    problems = []
    for name in dict.fromkeys(names):
        try:
            found[name] = opener(name)
        except PrivacyEngineError as error:
            problems.append(str(error))
    return found, tuple(problems)
