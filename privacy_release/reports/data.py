"""The data of a report on a release, from its table or, if that was never in memory, from its counts."""

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
    STRUCTURE_LIMITS,
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
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.models import PrivacyModel
    from privacy_release.reports.network import NetworkDrawing
    from privacy_release.workarea.references import ShiftRef

SMALLEST_COUNT = 10  # for releases that claim no k


@dataclass(frozen=True, kw_only=True)
class MeasuredGuarantee:
    """A claimed guarantee, the number measured for its worst class, and whether it is met."""

    model: "PrivacyModel"
    number: float
    holds: bool


@dataclass(frozen=True, kw_only=True)
class FragmentsPart:
    """The number of parts in which the table was anonymized, and the numbers of records in them."""

    count: int
    most: int
    smallest: int
    largest: int


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All data of a release that its report shows.

    Attributes:
        rows: Number of released records.
        guarantees: Claims of the method.
        class_sizes: Number of classes by size, ascending. Sizes are in persons if persons are known.
        losses: Name, loss by common ancestor and loss by own values of each quasi-identifier (means).
        distributions: Protected distributions before and after.
        limits: Name and text of each risk that no guarantee covers.
        synthetic: Whether the records were drawn from a model, which `network` and `mechanisms` describe.
        participants: Whether the number of persons who took part is hidden.
        marginals: Marginals of the first `marginal_rows` drawn records.
        shares, association: Figures that follow from the released cells. Empty if the table is not in memory.
    """

    method: str
    parameters: Mapping[str, Any]
    schema: "DataSchema"
    rows: int
    guarantees: Sequence[MeasuredGuarantee]
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

    @property
    def claims_loss(self) -> bool:
        """Whether the release claims a privacy loss, so that exact numbers of its source stay hidden."""
        return self.loss is not None

    @property
    def invented(self) -> bool:
        """Whether the release depends on no record, so that no rule about people applies to it."""
        return self.loss is not None and not self.loss.must_be_booked


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """Facts about a release and its source that a report shows next to the release's own data.

    Attributes:
        figures: Figures from ``privacy_engine.measures.utility.figures``, empty if there is no recoding. They
            are not shown for a differentially private release, because exact numbers of the source would void
            its guarantee.
        risk: Figures from ``privacy_engine.measures.risk.figures``.
        source_rows: Number of records that the method was given.
        smallest_count: Smallest count of the source that the distributions show. Smaller ones are hidden,
            others are rounded to its multiples.
        about: Further facts for the head of the page, such as the release ID, by label.
        budget: State of the data set's budget, including this release: ``dataset``, and ``limits``, a list
            of ``period`` (in words), ``limit``, ``spent`` and ``left`` (epsilons). None if none paid.
        shifted: Dates of the source that were shifted. None if none were.
    """

    figures: Mapping[str, float]
    risk: Mapping[str, float]
    source_rows: int
    smallest_count: int
    about: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, Any] | None = None
    shifted: "ShiftRef | None" = None


def data_of_release(release: "Release", smallest_count: int, attempts: Attempts | None = None) -> ReportData:
    """Return the data of a release whose table is in memory.

    Args:
        release: The release. Its table is read only for class sizes and the claimed models.
        smallest_count: Smallest shown count, see `render`.
        attempts: Failures to make figures that a report can omit.
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
        synthetic=release.is_synthetic,
        network=make("the network of the model", partial(network_of, release)),
        mechanisms=make("what each mechanism spent", partial(mechanisms_of, release)) or (),
        participants=release.hides_participants,
        marginals=make("how near the records are to their model", partial(own_marginals, release)) or (),
        marginal_rows=len(release.table),
        shares=make("sensitive values within classes", partial(shares_of_classes, release)) or (),
        association=make("columns that go together", partial(association_of, release)),
    )


def claimed_k(guarantees: "Sequence[PrivacyModel]") -> int:
    """Return the largest claimed k. Smaller counts of the source are hidden."""
    claimed = [int(k) for model in guarantees if (k := getattr(model, "k", None)) is not None]
    return max(claimed, default=SMALLEST_COUNT)


def _limits(release: "Release") -> tuple[tuple[str, str], ...]:
    if release.model is not None:
        return _limits_of_model(release.model)
    if getattr(release, "randomization", None) is not None:
        return RANDOMIZED_LIMITS
    if release.loss is None:
        return limits_of_classes(release.schema)
    return PRIVATE_LIMITS if release.loss.must_be_booked else STRUCTURE_LIMITS


def _limits_of_model(model: "SynthesizerModel") -> tuple[tuple[str, str], ...]:
    if not model.counts_persons:
        return SYNTHETIC_LIMITS
    bounds = model.parameters.keys() & CONTRIBUTIONS.keys()
    return (*(CONTRIBUTIONS[name] for name in bounds), *SYNTHETIC_PERSON_LIMITS)


def limits_of_classes(schema: "DataSchema") -> tuple[tuple[str, str], ...]:
    """Return the risks that no model of classes covers: name and text."""
    if schema.tables:
        return TABLES_LIMITS + LINKED_LIMITS + LIMITS
    if schema.linked:
        return LINKED_LIMITS + LIMITS
    return KNOWN_ROWS_LIMITS + LIMITS if schema.by else LIMITS


def _recodings(release: "Release") -> "dict[str, Recoding]":
    """Return the recoding of each table, by the prefix of its columns. Empty if there is a privacy loss."""
    if release.claims_loss:
        return {}
    if release.recoding is not None:
        return {"": release.recoding}
    return {f"{name}: ": recoding for name, recoding in release.recodings.items()}


def _measured(model: "PrivacyModel", released: "ReleasedClasses") -> MeasuredGuarantee:
    """Return a model with the number of its worst class in any table."""
    judged = classes_asked(model, released)
    worst = min if model.at_least else max
    return MeasuredGuarantee(
        model=model,
        number=worst(model.measure(classes) for classes in judged),
        holds=all(holds(model, classes) for classes in judged),
    )


def _distributions(
    recodings: "Mapping[str, Recoding]", smallest_count: int
) -> "list[Distribution | Withheld]":
    """Return the distribution of each quasi-identifier before and after."""
    return [
        replace(shown, attribute=f"{table}{shown.attribute}")
        for table, recoding in recodings.items()
        for shown in distributions(recoding, smallest_count)
    ]


def _losses(recodings: "Mapping[str, Recoding]") -> list[tuple[str, float, float]]:
    """Return the mean loss of each quasi-identifier, measured both ways."""
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
