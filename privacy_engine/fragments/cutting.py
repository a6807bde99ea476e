"""Cuts of a table into fragments, found on a sample of its records.

Top-down as Mondrian (LeFevre, DeWitt, Ramakrishnan 2006), with the kernels of `grouping.cuts`: a part with
too many records is cut where it then loses least, so records that a method would not group anyway are
separated. Both sides must be large enough to be fragments. If there is no such cut, the most even one is
used.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from privacy_engine.fragments.cut_tree import Cut, CutTree, Flags, Rows
from privacy_engine.recoding.grouping.boxes import Codes, Floats, join_cost, tabulate
from privacy_engine.recoding.grouping.constraints import no_constraints
from privacy_engine.recoding.grouping.cuts import NO_PERSONS, Task, bucket_by, cheapest_grouping, cover
from privacy_engine.recoding.grouping.partitioning import CutRule
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import NULL, value_text
from privacy_engine.tables.encoding import Domain, EncodedTable, OrderedDomain
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema

# Of the records of a part that each side of a cut must have. Adult-like records in 7 parts then
# lose 1 to 3 % more than as a whole table; with a quarter 8 to 12 %, after median cuts 13 to 18 %.
LEAST_SHARE = 1 / 8


@dataclass(frozen=True, kw_only=True)
class _Division:
    """A part of the sample in two.

    Attributes:
        attribute: Attribute by which it is cut.
        first: Whether each record goes to the first side, shape (m,).
        ancestor: Lowest common one of its records, where the attribute is a hierarchy.
    """

    attribute: int
    first: Flags
    ancestor: int

    @property
    def smaller(self) -> int:
        """Records on the smaller side."""
        first = int(np.count_nonzero(self.first))
        return min(first, len(self.first) - first)


def cut(
    sample: pd.DataFrame,
    schema: DataSchema,
    rows: int,
    most: int,
    *,
    rule: CutRule = CutRule.LEAST_LOSS,
    share: float = LEAST_SHARE,
) -> CutTree:
    """Cut a table into fragments of at most a number of records, as estimated from a sample.

    A fragment stays larger if its records are equal in all quasi-identifiers.

    Args:
        sample: Records of the table, at least one.
        schema: Schema of the table, closed, so that losses are those of its whole domain.
        rows: Records of the whole table.
        most: Records of a fragment.
        rule: ``widest`` cuts the attribute of widest span at its median.
        share: Share of a part's records that each side must have if possible, 0 .. 1/2.

    Raises:
        SchemaError: If the sample does not fit the schema.
    """
    names = [a.name for a in schema.quasi_identifiers]
    by_rows = replace(schema.select(names), person=None)  # fragments contain records
    encoded = EncodedTable.encode(sample[names], by_rows)
    task = Task(
        encoded.codes, encoded.sensitive, tabulate(encoded.geometry()), no_constraints(), 1, NO_PERSONS
    )
    enough = most * len(encoded) / rows
    cuts: list[Cut] = []
    sides: list[list[int]] = [[0, 0]]  # behind each cut; the first is no cut and has the root on one side
    waiting = [(np.arange(len(encoded)), 0, 0)]
    leaves = 0
    for part, cut_before, side in waiting:  # grows as it goes
        found = _division(task, part, max(1, int(share * len(part))), rule) if len(part) > enough else None
        if found is None:
            sides[cut_before][side] = ~leaves
            leaves += 1
            continue
        sides[cut_before][side] = len(cuts)
        j = found.attribute
        cuts.append(_cut_of(found, schema.quasi_identifiers[j], encoded.domains[j], task.codes[part, j]))
        sides.append([0, 0])
        waiting += [(part[found.first], len(cuts), 0), (part[~found.first], len(cuts), 1)]
    return CutTree(
        tuple(replace(c, sides=(a, b)) for c, (a, b) in zip(cuts, sides[1:], strict=True)),
        tuple(range(leaves)),
    )


def _division(task: Task, part: Rows, least: int, rule: CutRule) -> _Division | None:
    """Return the cut of a part that the rule selects, else the most even one, else None."""
    lo, hi = _box(task, part)
    spans = np.array([join_cost(task.space, j, lo[j], hi[j], lo[j], hi[j]) for j in range(len(lo))])
    uneven = list[_Division]()
    if rule is CutRule.LEAST_LOSS:
        cheapest = _cheapest(task._replace(least=least), part, lo, spans)
        if cheapest is not None:
            return cheapest
    for j in np.argsort(-spans, kind="stable")[: np.count_nonzero(spans > 0)]:
        even = _even(task, part, int(j), int(lo[j]))
        if rule is CutRule.WIDEST and even.smaller >= least:
            return even
        uneven.append(even)
    return max(uneven, key=lambda division: division.smaller, default=None)


def _box(task: Task, part: Rows) -> tuple[Codes, Codes]:
    """(q,) lowest and highest code of the records of a part, the common ancestor twice of a hierarchy."""
    q, space = task.codes.shape[1], task.space
    size, lo, hi = np.zeros(1, np.int64), np.empty((1, q), np.int32), np.empty((1, q), np.int32)
    bucket = np.zeros(len(part), np.int64)
    cover(task.codes, part, bucket, space.tree, space.start, space.parent, size, lo, hi)
    return lo[0], hi[0]


def _cheapest(task: Task, part: Rows, lo: Codes, spans: Floats) -> _Division | None:
    """`grouping.cuts.cheapest_cut`, with the attribute by which it cuts."""
    best, least_loss = None, np.inf
    bucket = np.empty(len(part), np.int64)
    for j in np.flatnonzero(spans > 0):
        buckets = bucket_by(task, part, int(j), int(lo[j]), bucket)
        loss, at = cheapest_grouping(task, NO_PERSONS, bucket, buckets, task.space.tree[j])
        if loss < least_loss:
            first = bucket == at if task.space.tree[j] else bucket <= at
            best, least_loss = _Division(attribute=int(j), first=first, ancestor=int(lo[j])), loss
    return best


def _even(task: Task, part: Rows, j: int, ancestor: int) -> _Division:
    """Return the cut by an attribute with sides of most similar size; it has at least two values."""
    bucket = np.empty(len(part), np.int64)
    size = bucket_by(task, part, j, ancestor, bucket).size
    in_first = np.zeros(len(size), np.bool_)
    if not task.space.tree[j]:
        in_first[: 1 + int(np.abs(2 * np.cumsum(size)[:-1] - len(part)).argmin())] = True
    else:
        records = [0, 0]
        for b in np.argsort(-size, kind="stable"):  # the largest first, each to the smaller side
            side = int(records[1] < records[0])
            in_first[b] = side == 0
            records[side] += int(size[b])
    return _Division(attribute=j, first=in_first[bucket], ancestor=ancestor)


def _cut_of(division: _Division, attribute: Attribute, domain: Domain, codes: Codes) -> Cut:
    """The same cut for any record; of a hierarchy whole children of the common ancestor go to a side.

    Args:
        division: Division of the part.
        attribute: Attribute by which it is cut.
        domain: Domain of the codes.
        codes: Codes of the part in that attribute, shape (m,).
    """
    if isinstance(domain, OrderedDomain):
        second = int(codes[~division.first].min())
        if attribute.categories is not None:
            return Cut(column=attribute.name, among=frozenset(domain.labels[:second]))
        if second == domain.known:  # numbers on the first side, nulls on the second
            return Cut(column=attribute.name, below=float(np.finfo(np.float64).max))
        return Cut(column=attribute.name, below=float(domain.values[second]) + float(domain.origin))
    level = int(np.flatnonzero((domain.nodes == division.ancestor).any(axis=0))[0]) - 1
    children = domain.at_level(level)
    chosen = np.isin(children, children[codes[division.first]])
    return Cut(
        column=attribute.name,
        among=frozenset(v for v, c in zip(_values(attribute, domain), chosen, strict=True) if c),
    )


def _values(attribute: Attribute, tree: Hierarchy) -> tuple[str, ...]:
    """(v,) the leaves as records have them: a period by its first day or second, not by its label."""
    if attribute.dates is None or attribute.bounds is None:
        return tree.values
    null = tree.values[-1:] == (NULL,)
    starts = attribute.dates.starts(attribute.bounds[0], np.arange(len(tree.values) - null))
    return (*map(value_text, attribute.dates.clock.column(starts)), *((NULL,) if null else ()))
