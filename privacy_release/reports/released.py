"""Figures that follow from the released cells: sensitive values within classes, and associated columns.

Anyone who has the release can compute them, so the report reveals nothing that the release does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privacy_engine.measures.association import association
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.vocabulary import released_as
from privacy_release.reports.charts import HeatMap, heat_map

if TYPE_CHECKING:
    from privacy_engine.measures.association import Association
    from privacy_engine.release import Release

BINS = 10
MOST_COLUMNS = 16  # largest number of columns whose pairs are drawn


@dataclass(frozen=True, kw_only=True)
class SharesPart:
    """How certain a class makes a sensitive value.

    Attributes:
        name: Name of the attribute.
        overall: Share of its most frequent value in the whole release.
        classes, records: Numbers of classes, and of records in them, by the share of the most frequent value
            in a class, shape (BINS,). The first bin starts at 0 %, the last ends at 100 %.
        alike: Number of records in classes in which all have the same value.
    """

    name: str
    overall: float
    classes: Sequence[int]
    records: Sequence[int]
    alike: int


def shares_of_classes(release: "Release") -> list[SharesPart]:
    """Return the shares of each sensitive attribute, for a release of one table with classes."""
    if release.recoding is None or not len(release.table) or release.schema.linked or release.schema.tables:
        return []
    classes = EquivalenceClasses.of_table(release.table, release.schema, np.arange(len(release.table)))
    parts = []
    for name in classes.sensitive:
        counts = classes.counts(name)
        largest = np.maximum.reduceat(counts.shares, counts.starts)
        bins = np.minimum((largest * BINS).astype(np.int64), BINS - 1)
        parts.append(
            SharesPart(
                name=name,
                overall=float(counts.prior.max()),
                classes=np.bincount(bins, minlength=BINS).tolist(),
                records=np.bincount(bins, weights=counts.sizes, minlength=BINS).astype(np.int64).tolist(),
                alike=int(counts.sizes[largest == 1].sum()),
            )
        )
    return parts


def association_of(release: "Release") -> "Association | None":
    """Return the association of a release's columns. None if fewer than two columns can be compared."""
    if release.schema.linked or release.schema.tables or not len(release.table):
        return None
    found = association(release.table, release.schema, MOST_COLUMNS, _spanned(release))
    return found if len(found.names) > 1 else None


def _spanned(release: "Release") -> list[str]:
    """Return the quasi-identifiers of the source that are released as bounds of intervals."""
    if release.recoding is None:
        return []
    source, names = release.recoding.encoded.schema, release.schema.names
    return [q.name for q in source.quasi_identifiers if len(released_as(q.name, names)) > 1]


def drawing(found: "Association") -> HeatMap:
    """Draw the strength of the association of each pair of columns."""
    return heat_map(
        found.names,
        lambda i, j: float(found.strength[i, j]),
        lambda i, j: f"{found.strength[i, j]:.2f}",
    )
