"""The report on a model that was trained on randomized releases: one HTML page without individual records."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy_engine.learning.reconstruction import reconstructed_distributions, reconstructed_moments
from privacy_engine.randomizers.accounts import accounts
from privacy_engine.randomizers.randomization import Randomization
from privacy_release.manifest.manifest import Manifest
from privacy_release.reports.randomized import part_of
from privacy_release.reports.release import page_template

if TYPE_CHECKING:
    import pandas as pd

    from privacy_engine.learning.ppnb import PrivateNaiveBayes
    from privacy_engine.randomizers.accounts import Account


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model, and the releases it was trained on.

    Attributes:
        releases: IDs of the releases.
        released: Joined records of the releases.
        manifest: Manifest of the last release. All were randomized alike.
    """

    model: "PrivateNaiveBayes"
    table: str
    releases: tuple[str, ...]
    released: "pd.DataFrame"
    manifest: Manifest

    @property
    def randomization(self) -> "Randomization":
        """How the releases were randomized."""
        return Randomization.of_manifest(self.manifest.stored)

    def accounts(self) -> "tuple[Account, ...]":
        """What each attribute reveals."""
        return accounts(self.randomization, self.released)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A test on true records: the accuracy of the model, and of always choosing the most frequent class."""

    rows: int
    accuracy: float
    majority: float
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Reconstructed shares of one attribute. ``length`` is a bar's share of the longest, 0 to 1."""

    name: str
    rows: tuple[tuple[str, str, str, float], ...]


def render_model_report(trained: Trained, score: Score | None) -> str:
    """Return the report as HTML.

    Args:
        trained: Trained model with its facts.
        score: Score on public records. None: no score is shown.
    """
    moments = reconstructed_moments(trained.released, trained.manifest.stored)
    return page_template("model.html.j2").render(
        trained=trained,
        label=trained.model.label_,
        features=[str(name) for name in trained.model.feature_names_in_],
        rows=len(trained.released),
        score=score,
        part=part_of(trained.randomization, trained.released),
        loss=trained.manifest.loss,
        groups=_groups(trained),
        moments=[
            {
                "name": row["attribute"],
                "mean": f"{row['mean']:.4g} ± {row['mean_error']:.2g}",
                "variance": f"{row['variance']:.4g} ± {row['variance_error']:.2g}",
            }
            for row in moments.to_dict("records")
        ],
    )


def _groups(trained: Trained) -> list[Group]:
    table = reconstructed_distributions(trained.released, trained.manifest.stored)
    groups = []
    for name, found in table.groupby("attribute", sort=False):
        longest = max(found["distribution"].max(), 1e-9)
        rows = tuple(
            (
                "no value" if row["value"] is None else str(row["value"]),
                f"{100 * row['share']:.1f} %",
                f"{100 * row['standard_error']:.1f}",
                float(row["distribution"] / longest),
            )
            for row in found.to_dict("records")
        )
        groups.append(Group(name=str(name), rows=rows))
    return groups
