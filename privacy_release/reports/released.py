"""What the released cells tell by themselves: sensitive values within classes, and columns that go together.

Whoever has the release can count all of it, so the report tells nothing that the release does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy_engine.measures.association import Association
    from privacy_engine.release import Release

BINS = 10
MOST_COLUMNS = 16  # whose pairs are drawn
STRONGEST = 5  # pairs that are told in numbers
CELL = 22  # of the drawing, in pixels
LETTER = 6.6
LONGEST = 24  # letters of a name in the drawing; the table has all


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
    import numpy as np

    from privacy_engine.tables.classes import EquivalenceClasses

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
    from privacy_engine.measures.association import association

    if release.schema.linked or release.schema.tables or not len(release.table):
        return None
    found = association(release.table, release.schema, MOST_COLUMNS, _spanned(release))
    return found if len(found.names) > 1 else None


def _spanned(release: "Release") -> list[str]:
    """The quasi-identifiers of the source that the release holds as bounds of intervals."""
    from privacy_engine.vocabulary import released_as

    if release.recoding is None:
        return []
    source, names = release.recoding.encoded.schema, release.schema.names
    return [q.name for q in source.quasi_identifiers if len(released_as(q.name, names)) > 1]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two columns in the drawing: place in pixels, and how strongly they go together, 0 .. 1."""

    x: int
    y: int
    pair: str
    strength: float


def drawing(found: "Association") -> dict[str, Any]:
    """The lower triangle as squares, and the strongest pairs."""
    names = found.names
    cells = [
        Pair(
            x=CELL * j,
            y=CELL * (i - 1),
            pair=f"{names[j]}, {names[i]}",
            strength=float(found.strength[i, j]),
        )
        for i in range(1, len(names))
        for j in range(i)
    ]
    return {
        "cells": cells,
        "names": [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\u2026" for name in names],
        "label": round(LETTER * min(max(map(len, names)), LONGEST) + 34),
        "cell": CELL,
        "side": CELL * (len(names) - 1),
        "strongest": sorted(cells, key=lambda cell: (-cell.strength, cell.pair))[:STRONGEST],
        "most": MOST_COLUMNS,
    }
