"""What a report tells of a release, whether its table was at hand or is known by its counts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privacy_release.reports.randomized import RandomizedPart, randomized_part
from privacy_release.reports.synthetic import MechanismLine, mechanisms_of, network_of, own_marginals
from privacy_release.reports.text import (
    CONTRIBUTIONS,
    KNOWN_ROWS_LIMITS,
    LIMITS,
    LINKED_LIMITS,
    PRIVATE_LIMITS,
    RANDOMIZED_LIMITS,
    SYNTHETIC_LIMITS,
    SYNTHETIC_PERSON_LIMITS,
)

if TYPE_CHECKING:  # the engine imports pandas and compiles kernels: only where a report is made
    import numpy as np
    import numpy.typing as npt

    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.judge.models import PrivacyModel
    from privacy_engine.measures.distributions import Distribution, Withheld
    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.reports.network import NetworkDrawing

SMALLEST_COUNT = 10  # for releases that claim no k


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A claimed guarantee, the number of its worst class, and whether that keeps it."""

    model: "PrivacyModel"
    number: float
    holds: bool


@dataclass(frozen=True, kw_only=True)
class FragmentsPart:
    """In how many parts the table was anonymized, and with how many records each."""

    count: int
    most: int
    smallest: int
    largest: int


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything of a release that its report is made of.

    Attributes:
        rows: that were released.
        guarantees: what the method claims.
        class_sizes: (c,) int64.
        losses: attribute, its mean loss by common ancestor, and by its own values; of each quasi-identifier.
        distributions: before and after, protected.
        limits: what no guarantee promises: name and text.
        synthetic: whether the records were drawn from a model; `network` and `mechanisms` are of it.
        marginals: of the first `marginal_rows` records that were drawn.
    """

    method: str
    parameters: Mapping[str, Any]
    schema: "DataSchema"
    rows: int
    guarantees: Sequence[Measured]
    class_sizes: "npt.NDArray[np.int64]"
    notes: Mapping[str, float] = field(default_factory=dict)
    loss: "PrivacyLoss | None" = None
    losses: Sequence[tuple[str, float, float]] = ()
    distributions: "Sequence[Distribution | Withheld]" = ()
    limits: Sequence[tuple[str, str]] = LIMITS
    fragments: FragmentsPart | None = None
    randomized: RandomizedPart | None = None
    synthetic: bool = False
    network: "NetworkDrawing | None" = None
    mechanisms: Sequence[MechanismLine] = ()
    marginals: Sequence[Mapping[str, Any]] = ()
    marginal_rows: int = 0


def data_of_release(release: "Release", smallest_count: int) -> ReportData:
    """The data of a release whose table is at hand.

    Args:
        release: what was made; its table is read only for class sizes and the claimed models.
        smallest_count: see `render_report`.
    """
    from privacy_engine.judge.models import holds
    from privacy_engine.measures.distributions import distributions
    from privacy_engine.tables.classes import EquivalenceClasses

    classes = EquivalenceClasses.of_table(release.table, release.schema, release.persons)
    recoding = release.recoding if release.loss is None else None
    return ReportData(
        method=release.method,
        parameters=release.parameters,
        schema=release.schema,
        rows=len(release.table),
        guarantees=[
            Measured(model=model, number=model.measure(classes), holds=holds(model, classes))
            for model in release.guarantees
        ],
        class_sizes=classes.people,
        notes=release.notes,
        loss=release.loss,
        losses=_losses(release) if recoding else (),
        distributions=distributions(recoding, smallest_count) if recoding else (),
        limits=_limits(release),
        randomized=randomized_part(release),
        synthetic=release.model is not None,
        network=network_of(release),
        mechanisms=mechanisms_of(release),
        marginals=own_marginals(release),
        marginal_rows=len(release.table),
    )


def claimed_k(guarantees: "Sequence[PrivacyModel]") -> int:
    """The largest k that is claimed: counts of the source below it are hidden."""
    claimed = [int(k) for model in guarantees if (k := getattr(model, "k", None)) is not None]
    return max(claimed, default=SMALLEST_COUNT)


def _limits(release: "Release") -> tuple[tuple[str, str], ...]:
    if release.model is not None and release.model.persons is not None:
        bounds = release.model.parameters.keys() & CONTRIBUTIONS.keys()
        return (*(CONTRIBUTIONS[name] for name in bounds), *SYNTHETIC_PERSON_LIMITS)
    if release.model is not None:
        return SYNTHETIC_LIMITS
    if getattr(release, "randomization", None) is not None:
        return RANDOMIZED_LIMITS
    return limits_of_classes(release.schema) if release.loss is None else PRIVATE_LIMITS


def limits_of_classes(schema: "DataSchema") -> tuple[tuple[str, str], ...]:
    """What no model of classes promises: name and text."""
    if schema.linked:
        return LINKED_LIMITS + LIMITS
    return KNOWN_ROWS_LIMITS + LIMITS if schema.by else LIMITS


def _losses(release: "Release") -> list[tuple[str, float, float]]:
    """Mean loss of each quasi-identifier, both ways of charging."""
    from privacy_engine.measures.utility import Charge, ncp

    assert release.recoding is not None
    names = release.recoding.encoded.quasi_identifiers
    by_lca, own = ncp(release.recoding, Charge.LCA), ncp(release.recoding, Charge.OWN)
    return [(name, float(a), float(b)) for name, a, b in zip(names, by_lca, own, strict=True)]
