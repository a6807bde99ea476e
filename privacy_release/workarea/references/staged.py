"""A release in the work area, the booking that paid for it, and where it was published."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import IntegrityError
from privacy_release.manifest.manifest import Manifest
from privacy_release.workarea.references.evidence import AlertRef
from privacy_release.workarea.references.files import FileRef, PeopleRef, read_json, read_schema
from privacy_release.workarea.references.reference import Reference, need
from privacy_release.workarea.references.table import Table

if TYPE_CHECKING:
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class BookingRef(Reference):
    """The entry of a budget ledger that covers a differentially private release.

    Attributes:
        dataset: Data set whose budget was spent.
        ledger: Airflow connection ID of the ledger.
        key: Key of the booking, see `privacy_release.budget.budget.booking_key`. It must not be published: it
            is a hash of the exact records, so anyone who knows all but one could find the last by trying.
        entry_hash: Hash of the ledger's entry that reserved the loss. It may be published: it covers the key,
            but also a random salt that stays in the ledger.
        model_sha256: SHA-256 of the model's text in the ledger.
        epsilon, delta, neighbours: Booked privacy loss and its neighbour relation.
        over_time: Promise of its schedule, see `privacy_release.budget.participation.Schedule.to_dict`.
    """

    dataset: str
    ledger: str
    key: str
    entry_hash: str
    model_sha256: str
    epsilon: float
    delta: float
    neighbours: str
    over_time: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class StagedRelease(Table):
    """A release in the work area. `schema` describes the released columns.

    Attributes:
        seconds: Duration of the method in seconds. For a differentially private release only of the sampling,
            because the duration of the rest depends on the records.
        columns: Path of the origins of the released columns, for the data dictionary.
        people: Person of each released record, if the schema names a person, see
            `privacy_release.workarea.people`.
        source_schema: Path of the schema of the released table, if memberships are recorded.
        earlier: Versions of the release table that it was made with, if that was required.
        waiting: Private file of held-back persons and the number of releases they have waited, if classes
            may be published again.
        regions: Private file of the region of each record's person, if people are followed in fragments.
        booking, model, mechanisms: Entry of the ledger, path of the measured model, and loss spent on which
            attributes, for a differentially private release.
    """

    manifest: str
    report: str
    method: str
    guarantees: list[dict[str, Any]]
    loss: dict[str, Any] | None
    figures: dict[str, float]
    seconds: float
    columns: str | None = None
    people: PeopleRef | None = None
    source_schema: str | None = None
    earlier: list[int] | None = None
    waiting: FileRef | None = None
    regions: FileRef | None = None
    booking: BookingRef | None = None
    model: str | None = None
    mechanisms: list[dict[str, Any]] = field(default_factory=list)

    def read_manifest(self) -> Manifest:
        """Read the manifest, which claims the release's privacy loss.

        Raises:
            IntegrityError: If the file is missing or damaged, or claims another loss.
        """
        manifest = Manifest.from_dict(read_json(self.manifest))
        if (manifest.loss and manifest.loss.stored) != self.loss:
            raise IntegrityError(
                "the manifest must claim the privacy loss of the staged release; run the release again"
            )
        return manifest

    def read_source_schema(self) -> "DataSchema":
        """Read the schema of the released table. Raises IntegrityError if it is missing or damaged."""
        return read_schema(need(self.source_schema, "source_schema"))

    def read_model(self) -> "SynthesizerModel":
        """Read the measured model. Raises IntegrityError if the release has none."""
        from privacy_engine.synthesizers.model import SynthesizerModel

        return SynthesizerModel.from_json(Path(need(self.model, "model")).read_text("utf-8"))

    @property
    def claims_loss(self) -> bool:
        """Whether the release claims a privacy loss. Its exact figures then describe the source."""
        return self.loss is not None

    @property
    def privacy_loss(self) -> PrivacyLoss | None:
        """The privacy loss that the release claims. None if it claims none."""
        return PrivacyLoss(**self.loss) if self.loss else None

    @property
    def loss_figures(self) -> dict[str, float]:
        """The claimed epsilon, by name. Empty if the release claims no privacy loss."""
        return {"epsilon": float(self.loss["epsilon"])} if self.loss else {}

    @property
    def is_synthetic(self) -> bool:
        """Whether the records were drawn from a differentially private model."""
        return self.model is not None and self.claims_loss

    @property
    def public_figures(self) -> dict[str, float]:
        """The figures that may be shown and compared. Empty if the release claims a privacy loss."""
        return {} if self.claims_loss else self.figures

    def unseen(self, versions: Iterable[int]) -> set[int]:
        """Return the versions that are not among those that the release was made with.

        Empty for a release that did not have to be made with earlier ones.
        """
        return set() if self.earlier is None else set(versions) - set(self.earlier)


@dataclass(frozen=True, kw_only=True)
class Published(Reference):
    """The location of a published release, and the `alerts` about it.

    `statement` is the SHA-256 of the signed statement, None if it is not signed. `completed` is true if an
    interrupted attempt of the run had published other bytes, whose files this attempt signed. `left_out`
    lists figures and pages that could not be made, with the class of the error.
    """

    release: str
    table: str
    lake: str
    version: int
    already: bool
    manifest: str
    report: str
    rows: int
    statement: str | None = None
    completed: bool = False
    alerts: list[AlertRef] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
