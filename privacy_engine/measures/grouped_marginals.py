"""Marginals of single attributes in few groups, as they are plotted: of one table, or of several together.

Groups come from the public domains. Only the selection of unordered values with a bar of their own, the most
frequent, is read from the first table. For a single synthetic table the result reveals nothing beyond the
table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.tables.columns import NULL_WORD
from privacy_engine.tables.domains import BinnedDomain, CodedTable, DatedDomain, LabelledDomain, PublicDomain
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind

MOST_GROUPS = 16  # more bars than these are not read

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class GroupedMarginal:
    """The shares of one attribute.

    Attributes:
        attribute: Name of the attribute.
        ordered: Whether the groups follow each other on a scale.
        groups: Their labels, shape (g,).
        shares: For each table, (g,) shares of its records, 0 .. 1.
        group_of: Group of each code of the attribute.
    """

    attribute: str
    ordered: bool
    groups: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    group_of: tuple[int, ...] = ()


def grouped_marginals(tables: Sequence[CodedTable], schema: DataSchema) -> list[GroupedMarginal]:
    """Each attribute of the tables, in the schema's order.

    Args:
        tables: Tables to compare, at least one, encoded over the same domains.
        schema: Schema of all tables.
    """
    found = []
    for j, domain in enumerate(tables[0].domains):
        counts = [np.bincount(table.codes[j], minlength=domain.size) for table in tables]
        ordered = schema[domain.name].kind is not Kind.CATEGORICAL
        group_of, labels = _groups(domain, ordered, counts[0])
        shares = [np.bincount(group_of, weights=c / max(c.sum(), 1), minlength=len(labels)) for c in counts]
        found.append(
            GroupedMarginal(
                attribute=domain.name,
                ordered=ordered,
                groups=labels,
                shares=tuple(tuple(share.tolist()) for share in shares),
                group_of=tuple(group_of.tolist()),
            )
        )
    return found


def _groups(domain: PublicDomain, ordered: bool, counts: IntArray) -> tuple[IntArray, tuple[str, ...]]:
    """Return the group of each code, and the label of each group."""
    spans = _spans(domain)
    values = len(spans)
    if ordered or values <= MOST_GROUPS:
        width = -(-values // MOST_GROUPS)
        group_of = np.arange(values) // width
        labels = [_joined(spans[i : i + width]) for i in range(0, values, width)]
    else:
        own = np.argsort(-counts[:values], kind="stable")[: MOST_GROUPS - 1]
        group_of = np.full(values, len(own))
        group_of[own] = np.arange(len(own))
        labels = [*(spans[i][0] for i in own), f"{values - len(own)} others"]
    if domain.size > values:  # the null
        group_of, labels = np.append(group_of, len(labels)), [*labels, NULL_WORD]
    return group_of, tuple(labels)


def _joined(spans: Sequence[tuple[str, str]]) -> str:
    low, high = spans[0][0], spans[-1][1]
    return low if low == high else f"{low} to {high}"


def _spans(domain: PublicDomain) -> list[tuple[str, str]]:
    """First and last value of each code but the null's, as text."""
    if isinstance(domain, BinnedDomain):
        ends = domain.edges[1:] - domain.whole  # of whole numbers the last that is inside
        return [(f"{a:.6g}", f"{b:.6g}") for a, b in zip(domain.edges[:-1], ends, strict=True)]
    if isinstance(domain, DatedDomain):
        return domain.spans()
    if isinstance(domain, LabelledDomain):
        by_code = np.argsort(domain.groups, kind="stable")
        texts = [domain.labels[i] for i in by_code]
        codes = domain.groups[by_code]
        firsts = np.flatnonzero(np.diff(codes, prepend=-1))
        lasts = np.append(firsts[1:], len(texts)) - 1
        return [(texts[a], texts[b]) for a, b in zip(firsts, lasts, strict=True)]
    raise TypeError(f"groups of a {type(domain).__name__} are not known")
