"""What a report tells of a release, whether its table was at hand or is known by its counts alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from privacy_engine.measures.distributions import distributions
from privacy_engine.measures.utility import Charge, ncp
from privacy_engine.tables.linked import ReleasedClasses
from privacy_engine.verification.models import classes_asked, holds
from privacy_release.reports.attempts import Attempts
from privacy_release.reports.randomized import RandomizedPart, randomized_part
from privacy_release.reports.released import SharesPart, association_of, shares_of_classes
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
    TABLES_LIMITS,
)

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.measures.association import Association
    from privacy_engine.measures.distributions import Distribution, Withheld
    from privacy_engine.measures.recoding import Recoding
    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.models import PrivacyModel
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
        class_sizes: records in a class, or persons where they are known -> classes of that size, ascending.
        losses: attribute, its mean loss by common ancestor, and by its own values; of each quasi-identifier.
        distributions: before and after, protected.
        limits: what no guarantee promises: name and text.
        synthetic: whether the records were drawn from a model; `network` and `mechanisms` are of it.
        participants: whether nothing tells how many persons took part in it.
        marginals: of the first `marginal_rows` records that were drawn.
        shares, association: what the released cells tell by themselves, where they are at hand.
    """

    method: str
    parameters: Mapping[str, Any]
    schema: "DataSchema"
    rows: int
    guarantees: Sequence[Measured]
    class_sizes: Mapping[int, int]
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
    participants: bool = False
    marginals: Sequence[Mapping[str, Any]] = ()
    marginal_rows: int = 0
    shares: Sequence[SharesPart] = ()
    association: "Association | None" = None


def data_of_release(release: "Release", smallest_count: int, attempts: Attempts | None = None) -> ReportData:
    """The data of a release whose table is at hand.

    Args:
        release: what was made; its table is read only for class sizes and the claimed models.
        smallest_count: see `render_report`.
        attempts: Makes the figures that a report can omit.
    """
    alone = release.of_persons
    released = ReleasedClasses.of_table(alone.table, alone.schema, alone.persons)
    recodings, make = _recodings(release), (attempts or Attempts()).make
    sizes = Counter(released.whole.people.tolist())
    return ReportData(
        method=release.method,
        parameters=release.parameters,
        schema=release.schema,
        rows=len(release.table),
        guarantees=[_measured(model, released) for model in release.guarantees],
        class_sizes=dict(sorted(sizes.items())),
        notes=release.notes,
        loss=release.loss,
        losses=make("the loss of each quasi-identifier", partial(_losses, recodings)) or [],
        distributions=make("before and after", partial(_distributions, recodings, smallest_count)) or [],
        limits=_limits(release),
        randomized=randomized_part(release),
        synthetic=release.model is not None,
        network=make("the network of the model", partial(network_of, release)),
        mechanisms=make("what each mechanism spent", partial(mechanisms_of, release)) or (),
        participants=release.model is not None and not release.model.persons_public,
        marginals=make("how near the records are to their model", partial(own_marginals, release)) or (),
        marginal_rows=len(release.table),
        shares=make("sensitive values within classes", partial(shares_of_classes, release)) or (),
        association=make("columns that go together", partial(association_of, release)),
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
    if schema.tables:
        return TABLES_LIMITS + LINKED_LIMITS + LIMITS
    if schema.linked:
        return LINKED_LIMITS + LIMITS
    return KNOWN_ROWS_LIMITS + LIMITS if schema.by else LIMITS


def _recodings(release: "Release") -> "dict[str, Recoding]":
    """What was done to each table, by what its columns are called after; nothing beside a privacy loss."""
    if release.loss is not None:
        return {}
    if release.recoding is not None:
        return {"": release.recoding}
    return {f"{name}: ": recoding for name, recoding in release.recodings.items()}


def _measured(model: "PrivacyModel", released: "ReleasedClasses") -> Measured:
    """A model and the number of its worst class, of whatever table."""
    asked = classes_asked(model, released)
    worst = min if model.at_least else max
    return Measured(
        model=model,
        number=worst(model.measure(classes) for classes in asked),
        holds=all(holds(model, classes) for classes in asked),
    )


def _distributions(
    recodings: "Mapping[str, Recoding]", smallest_count: int
) -> "list[Distribution | Withheld]":
    """Before and after of each quasi-identifier."""
    return [
        replace(told, attribute=f"{table}{told.attribute}")
        for table, recoding in recodings.items()
        for told in distributions(recoding, smallest_count)
    ]


def _losses(recodings: "Mapping[str, Recoding]") -> list[tuple[str, float, float]]:
    """Mean loss of each quasi-identifier, both ways of charging."""
    return [
        (f"{table}{name}", float(by_lca), float(own))
        for table, recoding in recodings.items()
        for name, by_lca, own in zip(
            recoding.encoded.quasi_identifiers,
            ncp(recoding, Charge.LCA),
            ncp(recoding, Charge.OWN),
            strict=True,
        )
    ]
