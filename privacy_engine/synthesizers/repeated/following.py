"""Tables that a schedule chooses once and measures again in each later release, at a loss of each.

The first release is made by LatentClass: it chooses tables and measures them (`opened`). Each later one
measures the same tables of its records, with all of its loss, and its model is fitted to the tables of
all releases so far, smoothed over time (`followed`). Nothing is spent on choosing again, and if the
population changes slowly, the noise of many releases averages out.

Neighbour relation: in the records of one release, one record replaced by any other, their number public; or
all records of one person, as for `LatentClass`. A person may be in all releases.

Claim. Given all earlier releases, each has the loss of its method.

Proof. `opened` reads the records as `LatentClass.learn_replicated` does, and nothing else: it adds to the
model the noisy tables and their design, from which the model was made. In `followed` the tables, the groups
of values that their axes count and the dependencies are those of the first model, a released answer. So k
tables of counts get noise, each of sensitivity `Change.of_table(each)`, each with a k-th of the
`NoiseBudget`, rounded down: they compose sequentially and spend at most the whole. Only noisy figures of
earlier releases are read, and of the records only their public number: the rest is post-processing. The
releases compose adaptively: losses add, and rho's (Rogers, Roth, Ullman, Vadhan: Privacy Odometers and
Filters, 2016, for parts that are fixed in advance, as here).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.quantile_bins import in_bins
from privacy_engine.synthesizers.repeated.estimates import estimate, likely_drift
from privacy_engine.synthesizers.repeated.views import FixedViews, NoisyCounts, known_of
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable

Floats = npt.NDArray[np.float64]

MOST = 60  # releases, newest first, that an estimate reads: older ones add little information


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """The noisy tables of one release.

    Attributes:
        rows: Public number of its records.
        known: Noisy counts, shape (k,).
    """

    rows: int
    known: tuple[NoisyCounts, ...]

    @classmethod
    def of(cls, follow: Mapping[str, Any]) -> "Measured":
        """The tables that a model keeps."""
        known = zip(follow["cells"], follow["variances"], strict=True)
        return cls(
            rows=follow["rows"],
            known=tuple(
                NoisyCounts(cells=np.array(cells, dtype=np.float64), variance=v) for cells, v in known
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a model to keep."""
        return {
            "rows": self.rows,
            "cells": [known.cells.tolist() for known in self.known],
            "variances": [known.variance for known in self.known],
        }


def opened(method: LatentClass, coded: CodedTable) -> SynthesizerModel:
    """The model of the first release, which later ones follow.

    Args:
        method: Method with the loss of this release.
        coded: Output of `method.coded`.

    Raises:
        InfeasibleError: As for `Synthesizer.measure_coded`.
    """

    def learn(spending: LatentClass, records: CodedTable) -> Learned:
        measured = spending.measured(records)
        known = Measured(rows=len(records), known=known_of(measured))
        follow = {"views": FixedViews.of(measured, spending).to_dict(), **known.to_dict()}
        return spending.learned_from(measured)._replace(follow=follow)

    return method.measured_by(coded, learn)


def followed(
    method: LatentClass, coded: CodedTable, first: SynthesizerModel, later: Sequence[SynthesizerModel]
) -> SynthesizerModel:
    """The model of a release that follows others.

    Args:
        method: Method with the loss of this release.
        coded: Output of `method.coded`.
        first: First model of the schedule, from `opened`, for a table of the same schema.
        later: Those of the releases since, oldest first.

    Raises:
        InfeasibleError: As for `Synthesizer.measure_coded`.
        ValueError: If `first` is no such model, or one of another table; nothing was measured then.
    """
    if first.follow is None or "views" not in first.follow:
        raise ValueError("the first model must be one that later releases can follow, see `opened`")
    coded = in_bins(coded, first.bins or {})
    sizes = [coded.sizes[coded.names.index(n)] if n in coded.names else 0 for n in first.storages]
    if sizes != [first.network.size(name) for name in first.storages]:
        raise ValueError("the first model must be of a table with the same attributes and values")
    views = FixedViews.from_dict(first.follow["views"], method)
    earlier = [Measured.of(model.follow) for model in (first, *later) if model.follow is not None][-MOST:]

    def learn(spending: LatentClass, records: CodedTable) -> Learned:
        noise, change, n = spending.noise(), Change.of_table(records.each), len(records)
        part = split(noise.whole, [1] * len(views.members))[0]
        variance = noise.deviation(part, change) ** 2  # raises for a part that is too small for any noise
        noisy = [
            noise.add(counts, part, change, target=name)
            for counts, name in zip(views.counted(records), views.names(records), strict=True)
        ]
        now = Measured(
            rows=n,
            known=tuple(NoisyCounts(cells=counts.astype(np.float64), variance=variance) for counts in noisy),
        )
        learned = views.learned(smoothed([*earlier, now]), records, noise)
        return learned._replace(follow=now.to_dict())

    bins = {name: own.fixed() for name, own in (first.bins or {}).items()}
    return replace(method.measured_by(coded, learn), bins=bins or None)


def smoothed(releases: Sequence[Measured]) -> list[NoisyCounts]:
    """(k,) the tables of the last release, as counts, estimated from the noisy tables of all releases.

    Shares are stable even if the number of records is not; how stable is estimated from the noisy tables.
    """
    rows, last = np.eye(len(releases)), releases[-1].rows
    found = []
    for course in zip(*(release.known for release in releases), strict=True):
        shares = np.vstack([k.cells / release.rows for k, release in zip(course, releases, strict=True)])
        variances = np.array([k.variance / r.rows**2 for k, r in zip(course, releases, strict=True)])
        best = estimate(rows, variances, likely_drift(rows, variances, shares))
        found.append(NoisyCounts(cells=last * (best.weights @ shares), variance=last**2 * best.variance))
    return found
