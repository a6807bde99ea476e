"""The sections `approval`, `publish` and `learn` of a release file: what follows a verified release."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.spec.fields import Connection, Number
from privacy_release.spec.sections.section import Duration, Name, Section


class ApprovalSpec(Section):
    """The approval of a verified release before it is published.

    Attributes:
        required: Whether every release must be approved. Otherwise an approval is only required if the run
            sets the DAG's parameter `approval`. A run cannot switch off what the file requires.
        assigned_to: IDs of the Airflow users who may answer. None: all users with permission on this DAG.
        timeout: Longest wait for an answer. After it, the release counts as rejected.
        approvers: Number of different users who must approve, 1 or 2.
    """

    required: bool = True
    assigned_to: tuple[Annotated[str, Field(min_length=1)], ...] | None = Field(default=None, min_length=1)
    timeout: Duration = "2 days"
    approvers: Literal[1, 2] = 1


class PublishSpec(Section):
    """The destination of the release: an Airflow connection ID and the name of a release table.

    Attributes:
        lake: Airflow connection ID of the lake.
        table: Name of the release table. Each specification needs its own.
        mode: Releases that the table keeps: `snapshot` only the newest; `partitions` one per partition key,
            for sources whose partitions have different records; `append` all, if `history` records who was
            in the earlier ones. Default: `partitions` for a schedule by partition, otherwise `snapshot`.
        superseded: Treatment of a release when a newer one replaces it: `drop` erases its rows, `history`
            moves them to the table `<table>_history` of `history_lake`. Its proof stays in the log.
        history_lake: Airflow connection ID of that lake. Give access only to readers of old releases.
        grace: How long the files of a superseded release are kept for queries that are still running, for
            example `1 hour`.
        evidence: Whether a signed evidence pack of each published release is written to the curator's folder.
            The release must be signed.
    """

    lake: Connection = "lake_default"
    table: Name
    mode: PublishMode | None = None
    superseded: Superseded = Superseded.DROP
    history_lake: Connection | None = None
    grace: Duration = "1 hour"
    evidence: bool = False

    @model_validator(mode="after")
    def _kept_somewhere(self) -> Self:
        if (self.superseded is Superseded.HISTORY) != (self.history_lake is not None):
            raise ValueError(
                "superseded: history requires history_lake, and the other way round; add or remove one"
            )
        if self.history_lake == self.lake:
            raise ValueError(
                "history_lake must be another lake, because readers of a lake see all its tables; name one"
            )
        return self


class LearnSpec(Section):
    """Naive Bayes (PPNB) that is trained on each published release, from its bytes and manifest only.

    The lake stores the model and a report in `_models/<name>/<release>`. Training costs no privacy.

    Attributes:
        target: Class to predict, a column of the release with listed values.
        features: Columns to learn from. None: all others that are released.
        alpha: Number of records added to each listed value of each class.
        var_smoothing: Smallest variance of a number within a class, as a share of the attribute's variance.
        shrinkage: Whether variances that are mostly noise are pulled towards that of all classes. False is
            the estimator of the paper.
    """

    target: str = Field(min_length=1)
    features: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    alpha: Number = Field(default=1.0, ge=0)
    var_smoothing: Number = Field(default=1e-9, ge=0)
    shrinkage: bool = True
