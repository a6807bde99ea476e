"""What the released cells tell by themselves: sensitive values within classes, and columns that go together.

Whoever has the release can count all of it, so the report tells nothing that the release does not.
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
MOST_COLUMNS = 16  # whose pairs are drawn


@dataclass(frozen=True, kw_only=True)
class SharesPart:
    """How sure the classes make of a sensitive value.

    Attributes:
        name: of the attribute.
        overall: share of its most frequent value in the whole release.
        classes, records: (BINS,) classes, and the records in them, by the share of the most frequent value in
            a class: the first bin from 0 %, the last up to 100 %.
        alike: records of classes in which all have the same value.
    """

    name: str
    overall: float
    classes: Sequence[int]
    records: Sequence[int]
    alike: int


def shares_of_classes(release: "Release") -> list[SharesPart]:
    """Of each sensitive attribute of a release of one table that makes classes; by its rows alone."""
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
    """Of the columns of a release of one table; None where fewer than two can be compared."""
    if release.schema.linked or release.schema.tables or not len(release.table):
        return None
    found = association(release.table, release.schema, MOST_COLUMNS, _spanned(release))
    return found if len(found.names) > 1 else None


def _spanned(release: "Release") -> list[str]:
    """The quasi-identifiers of the source that the release holds as bounds of intervals."""
    if release.recoding is None:
        return []
    source, names = release.recoding.encoded.schema, release.schema.names
    return [q.name for q in source.quasi_identifiers if len(released_as(q.name, names)) > 1]


def drawing(found: "Association") -> HeatMap:
    """How strongly each pair of columns goes together."""
    return heat_map(
        found.names,
        lambda i, j: float(found.strength[i, j]),
        lambda i, j: f"{found.strength[i, j]:.2f}",
    )
