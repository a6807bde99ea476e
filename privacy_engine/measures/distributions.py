"""Distributions of the quasi-identifiers before and after, in groups that are public knowledge.

The groups come only from the schema: nodes of a hierarchy, categories, equal-width bins between bounds.
Counts of the source are protected like cells of a published frequency table: small ones are hidden, enough
others with them that no difference reveals them, and the rest are rounded. Counts of the release are a
function of the release; there, a record is distributed evenly over what its cell covers.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.utility import Cover, covers
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, NULL_WORD
from privacy_engine.tables.encoding import OrderedDomain
from privacy_engine.tables.hierarchy import Hierarchy

MOST_GROUPS = 16  # more bars than these are not read

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One quasi-identifier before and after.

    Attributes:
        attribute: Name of the attribute.
        ordered: Whether the groups follow each other on a scale.
        groups: Public labels, shape (g,).
        before: Records of the source, rounded, shape (g,); None = hidden.
        after: Expected records of the release, shape (g,).
    """

    attribute: str
    ordered: bool
    groups: tuple[str, ...]
    before: tuple[int | None, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """A quasi-identifier whose distribution may not or cannot be shown, and why."""

    attribute: str
    reason: str

    def __add__(self, other: "AttributeTally | Withheld") -> "Withheld":
        """What cannot be shown of a part of a table cannot be shown of all of it."""
        return self


@dataclass(frozen=True, kw_only=True)
class AttributeTally:
    """One quasi-identifier before and after, in exact counts: as private as the source.

    Attributes:
        attribute, ordered, groups, after: Name, order, labels and released counts of the attribute, as in
            `Distribution`.
        before: Records of the source, shape (g,).
    """

    attribute: str
    ordered: bool
    groups: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[float, ...]

    def __add__(self, other: "AttributeTally | Withheld") -> "AttributeTally | Withheld":
        """The tally of the records of both, which are parts of one table."""
        if isinstance(other, Withheld):
            return other
        if self.groups != other.groups:
            return Withheld(
                attribute=self.attribute,
                reason="it was anonymized in fragments whose values do not fall into the same groups",
            )
        return AttributeTally(
            attribute=self.attribute,
            ordered=self.ordered,
            groups=self.groups,
            before=tuple(a + b for a, b in zip(self.before, other.before, strict=True)),
            after=tuple(a + b for a, b in zip(self.after, other.after, strict=True)),
        )

    def shown(self, smallest_count: int) -> Distribution:
        """Return what may be published: source counts below ``smallest_count`` hidden, others rounded."""
        return Distribution(
            attribute=self.attribute,
            ordered=self.ordered,
            groups=self.groups,
            before=protected(np.array(self.before, dtype=np.int64), smallest_count),
            after=self.after,
        )


def distributions(recoding: Recoding, smallest_count: int) -> list[Distribution | Withheld]:
    """Each quasi-identifier, in the schema's order.

    Args:
        recoding: Recoding; all source records count as before.
        smallest_count: Smallest count of the source that is shown, >= 2; smaller ones are hidden, others
            rounded to its multiples.

    Raises:
        ValueError: If smallest_count is below 2.
    """
    encoded = recoding.encoded
    attributes = [
        a if a.name in encoded.public else Attribute(name=a.name, role=a.role)
        for a in encoded.schema.quasi_identifiers
    ]
    return shown(tallies(recoding, attributes), smallest_count)


def tallies(recoding: Recoding, attributes: Sequence[Attribute]) -> list[AttributeTally | Withheld]:
    """Exact counts of each quasi-identifier; those of the parts of a table add up.

    Args:
        recoding: Recoding; all source records count as before.
        attributes: Quasi-identifiers in the recoding's order, as the source's schema has them, shape (q,).
    """
    return [
        _tally(recoding, j, a, c) for j, (a, c) in enumerate(zip(attributes, covers(recoding), strict=True))
    ]


def shown(found: Sequence[AttributeTally | Withheld], smallest_count: int) -> list[Distribution | Withheld]:
    """Return what may be published of tallies; arguments and errors as for `distributions`."""
    if smallest_count < 2:
        raise ValueError(f"smallest_count must be >= 2, got {smallest_count}")
    return [t if isinstance(t, Withheld) else t.shown(smallest_count) for t in found]


def protected(counts: IntArray, smallest_count: int) -> tuple[int | None, ...]:
    """Counts that may be shown: None below ``smallest_count``, else the nearest multiple of it.

    If the hidden counts together are below ``smallest_count``, as a single one always is, the total less the
    others would reveal them: then the smallest of the others is hidden as well (complementary suppression).

    >>> protected(np.array([3, 52, 48, 17]), 5)
    (None, 50, 50, None)
    """
    hidden = counts < smallest_count
    while hidden.any() and not hidden.all() and counts[hidden].sum() < smallest_count:
        hidden[np.argmin(np.where(hidden, np.iinfo(np.int64).max, counts))] = True
    rounded = np.rint(counts / smallest_count).astype(np.int64) * smallest_count
    return tuple(None if h else int(c) for h, c in zip(hidden, rounded, strict=True))


def _tally(recoding: Recoding, j: int, attribute: Attribute, cover: Cover) -> AttributeTally | Withheld:
    domain, codes = recoding.encoded.domains[j], recoding.encoded.codes[:, j]
    if not attribute.has_public_domain:
        return Withheld(
            attribute=attribute.name,
            reason="its schema names no public domain (bounds, categories or a hierarchy), "
            "so its groups would be values of the source",
        )
    if isinstance(domain, OrderedDomain):
        groups, edges = _bins(domain, attribute, cover)
        bin_of = _bin_of(domain.values, edges)
        bin_of[domain.known :] = len(groups)
        before = np.bincount(bin_of[codes], minlength=len(groups) + attribute.nullable)
        null, known = _null_shares(domain, cover), cover.lo < domain.known
        after = _spread(
            (recoding.sizes * (1.0 - null))[known],
            domain.values[cover.lo[known]],
            domain.values[cover.hi[known]],
            edges,
            _whole(domain, cover),
        )
        if (
            attribute.nullable
        ):  # whether or not a null occurs, so that the parts of a table have the same groups
            groups, after = (*groups, NULL_WORD), np.append(after, recoding.sizes @ null)
    else:
        group_of, groups = _tree_groups(domain)
        if not groups:
            reason = f"its hierarchy has no level of 2 to {MOST_GROUPS} groups"
            return Withheld(attribute=attribute.name, reason=reason)
        before = np.bincount(group_of[codes], minlength=len(groups))
        after = _share_out(recoding.sizes, cover, group_of, len(groups))
    return AttributeTally(
        attribute=attribute.name,
        ordered=isinstance(domain, OrderedDomain),
        groups=groups,
        before=tuple(before.tolist()),
        after=tuple(after.tolist()),
    )


def _tree_groups(tree: Hierarchy) -> tuple[IntArray, tuple[str, ...]]:
    """Group of each leaf, and the groups' labels, at the lowest level with few enough; empty if none has."""
    for level in range(tree.height):
        nodes, group_of = np.unique(tree.at_level(level), return_inverse=True)
        if 2 <= len(nodes) <= MOST_GROUPS:
            labels = (tree.label(int(node)) for node in nodes)
            return group_of.astype(np.int64), tuple(NULL_WORD if label == NULL else label for label in labels)
    return np.zeros(0, dtype=np.int64), ()


def _share_out(sizes: IntArray, cover: Cover, group_of: IntArray, groups: int) -> FloatArray:
    """Expected records in each group of leaves."""
    covered = cover.total(np.ones(len(group_of)))
    parts = [sizes @ (cover.total((group_of == g).astype(np.float64)) / covered) for g in range(groups)]
    return np.array(parts, dtype=np.float64)


def _null_shares(domain: OrderedDomain, cover: Cover) -> FloatArray:
    """(c,) the null's share in the records of each class, all that its cell covers being equally likely."""
    null = np.zeros(len(domain.values))
    null[domain.known :] = 1.0
    return cover.total(null) / cover.total(np.ones(len(null)))


def _whole(domain: OrderedDomain, cover: Cover) -> bool:
    """Return whether public bounds and released ends are whole numbers: then a value v covers v +- 1/2."""
    known = cover.lo < domain.known
    released = domain.values[cover.lo[known]], domain.values[cover.hi[known]]
    ends = np.concatenate([[domain.low, domain.high], *released])
    return bool((ends == np.rint(ends)).all())


def _bins(domain: OrderedDomain, attribute: Attribute, cover: Cover) -> tuple[tuple[str, ...], FloatArray]:
    """Labels (g,) and edges (g + 1,) of equal bins over the public domain; of dates periods, or several."""
    if attribute.dates is not None:
        return attribute.dates.groups(domain.low, domain.high, MOST_GROUPS)
    if not _whole(domain, cover):
        edges = np.linspace(domain.low, domain.high, MOST_GROUPS + 1)
        shown = itertools.pairwise(edges + float(domain.origin))
        return tuple(f"{a:.6g} to {b:.6g}" for a, b in shown), edges
    low, high = int(domain.low), int(domain.high)
    width = -(-(high - low + 1) // MOST_GROUPS)
    firsts = range(low, high + 1, width)
    names = attribute.categories or ()
    labels = []
    for first in firsts:
        a, b = first, min(first + width - 1, high)
        ends = (names[a], names[b]) if names else (str(a + int(domain.origin)), str(b + int(domain.origin)))
        labels.append(ends[0] if a == b else f"{ends[0]} to {ends[1]}")
    return tuple(labels), np.array([*firsts, high + 1], dtype=np.float64) - 0.5


def _bin_of(values: FloatArray, edges: FloatArray) -> IntArray:
    """Bin of each value; the last bin holds its upper edge."""
    found = np.searchsorted(edges, values, side="right") - 1
    return np.clip(found, 0, len(edges) - 2).astype(np.int64)


def _spread(sizes: FloatArray, lo: FloatArray, hi: FloatArray, edges: FloatArray, whole: bool) -> FloatArray:
    """Expected records in each bin when those of a class lie evenly in ``[lo, hi]``."""
    margin = 0.5 if whole else 0.0
    low, width = lo - margin, hi - lo + 2 * margin
    below = np.empty(len(edges))
    for i, edge in enumerate(edges):
        share = np.where(
            width > 0, (edge - low) / np.where(width > 0, width, 1.0), (edge > lo).astype(np.float64)
        )
        below[i] = sizes @ np.clip(share, 0.0, 1.0)
    below[0], below[-1] = 0.0, sizes.sum()
    return np.diff(below)
