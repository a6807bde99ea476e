"""A generalization hierarchy as integer arrays: levels, lowest common ancestors, leaves under a node.

The CSV form is ARX's: one row per value, ``;`` between levels, the value first and the root last.
"""

import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import ge, gt, le, lt

import numpy as np
import numpy.typing as npt

from privacy_engine.errors import SchemaError

ROOT = "*"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BOUND = re.compile(r"(<=|>=|<|>|≤|≥) ?(-?\d+(?:\.\d+)?)|(-?\d+(?:\.\d+)?) ?\+")
_COMPARED = {"<": lt, "<=": le, "≤": le, ">": gt, ">=": ge, "≥": ge, "+": ge}
_INTERVAL = re.compile(r"\[?(-?\d+(?:\.\d+)?)(?:-|, )(-?\d+(?:\.\d+)?)([\])[]?)")


def _covers(label: str, value: str) -> bool:
    """Return whether a label that reads as an interval contains a number; other labels are trusted."""
    number = float(value)
    if match := _BOUND.fullmatch(label):
        end = float(match[2] or match[3])
        return bool(_COMPARED[match[1] or "+"](number, end))
    if match := _INTERVAL.fullmatch(label):
        low, high = float(match[1]), float(match[2])
        return low <= number < high if match[3] in ("[", ")") else low <= number <= high  # ARX: [0, 20[
    return True


class HierarchyError(SchemaError):
    """The rows of a hierarchy contradict each other, or its file is not valid CSV.

    Attributes:
        row: First row that contradicts the rows before it, from 0.
        line: Line of the file in which that row ends, from 1; None: no file.
    """

    def __init__(self, text: str, row: int = 0, line: int | None = None) -> None:
        super().__init__(text)
        self.row, self.line = row, line


def _first_other(items: Sequence[object]) -> int:
    """Return the first row that differs from the first one."""
    return next(i for i, item in enumerate(items) if item != items[0])


def _first_repeated(values: Sequence[str]) -> int:
    first = {value: i for i, value in reversed(list(enumerate(values)))}
    return next(i for i, value in enumerate(values) if first[value] < i)


def _first_elsewhere(low: Sequence[str], high: Sequence[str]) -> int:
    """Return the first row whose label has another parent than before."""
    parents: dict[str, str] = {}
    return next(i for i, (a, b) in enumerate(zip(low, high, strict=True)) if parents.setdefault(a, b) != b)


@dataclass(frozen=True)
class Hierarchy:
    """One generalization tree over the values of an attribute.

    Attributes:
        rows: One tuple per value: the value, its label at level 1, ..., the root's label. All rows
            have the same length; equal labels at a level share all their higher labels.

    Raises:
        SchemaError: If there is no row, the rows differ in length, a value occurs twice, the labels
            do not nest, or there is not exactly one root.

    >>> h = Hierarchy((("a", "vowel", "*"), ("e", "vowel", "*"), ("b", "consonant", "*")))
    >>> h.label(h.lca(h.code("a"), h.code("e"))), h.leaf_counts.tolist()
    ('vowel', [1, 1, 1, 2, 1, 3])
    """

    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise SchemaError("a hierarchy must have at least one value, got none")
        widths = [len(row) for row in self.rows]
        if len(set(widths)) > 1:
            raise HierarchyError(
                f"all rows of a hierarchy must have the same number of levels, got {sorted(set(widths))}",
                row=_first_other(widths),
            )
        if widths[0] < 2:
            raise SchemaError("a hierarchy must have at least two levels: the value and the root '*'")
        values, roots = ([row[place] for row in self.rows] for place in (0, -1))
        if len(set(values)) < len(values):
            raise HierarchyError(
                "a value of a hierarchy must be in one row only. Remove the repeated rows",
                row=_first_repeated(values),
            )
        for level, (low, high) in enumerate(itertools.pairwise(zip(*self.rows, strict=True))):
            if len(set(zip(low, high, strict=True))) > len(set(low)):
                raise HierarchyError(
                    f"labels must nest, but a label of level {level} has two parents at level {level + 1}",
                    row=_first_elsewhere(low, high),
                )
        if len(set(roots)) > 1:
            raise HierarchyError(
                "the last level of a hierarchy must be one root, the same label in every row",
                row=_first_other(roots),
            )

    @cached_property
    def nodes(self) -> npt.NDArray[np.int32]:
        """(values, levels) int32: the node of each value at each level; leaves are 0 .. values - 1."""
        columns, first = [], 0
        for labels in zip(*self.rows, strict=True):
            number = {label: first + i for i, label in enumerate(dict.fromkeys(labels))}
            columns.append([number[label] for label in labels])
            first += len(number)
        return np.array(columns, dtype=np.int32).T.copy()

    @cached_property
    def parent(self) -> npt.NDArray[np.int32]:
        """(nodes,) int32: the parent of each node, always a larger number; the root's is itself."""
        parent = np.arange(int(self.nodes.max()) + 1, dtype=np.int32)
        for level in range(self.nodes.shape[1] - 1):
            parent[self.nodes[:, level]] = self.nodes[:, level + 1]
        return parent

    @cached_property
    def leaf_counts(self) -> npt.NDArray[np.int64]:
        """(nodes,) int64: number of values under each node."""
        return np.bincount(self.nodes.ravel(), minlength=len(self.parent))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """(nodes,) the label of each node."""
        return tuple(label for column in zip(*self.rows, strict=True) for label in dict.fromkeys(column))

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {row[0]: i for i, row in enumerate(self.rows)}

    @property
    def values(self) -> tuple[str, ...]:
        """The values, in the order of their codes."""
        return tuple(row[0] for row in self.rows)

    @property
    def height(self) -> int:
        """Number of levels above the values."""
        return len(self.rows[0]) - 1

    @property
    def root(self) -> int:
        """The node above all values."""
        return len(self.parent) - 1

    def code(self, value: str) -> int:
        """The leaf of a value; ``KeyError`` if it is not in the hierarchy."""
        return self._codes[value]

    def label(self, node: int) -> str:
        """The label of a node."""
        return self.labels[node]

    def lca(self, a: int, b: int) -> int:
        """Lowest common ancestor of two nodes."""
        while a != b:
            if a < b:
                a = int(self.parent[a])
            else:
                b = int(self.parent[b])
        return a

    def leaves(self, node: int) -> npt.NDArray[np.int64]:
        """Codes of the values under a node, ascending."""
        return np.flatnonzero((self.nodes == node).any(axis=1))

    def at_level(self, level: int) -> npt.NDArray[np.int32]:
        """(values,) the node of each value at a level; 0 is the value itself."""
        return np.ascontiguousarray(self.nodes[:, level])

    def untruthful_rows(self) -> int:
        """Return the number of values with a label that does not apply to them.

        That is an interval or a bound that does not contain the value (``a-b``, ``<a``, ``a+``), or the text
        of another value. ARX's age hierarchy for Adult puts 20 under ``0-19``, and likewise at each of its
        boundaries.

        >>> Hierarchy((("19", "0-19", "*"), ("20", "0-19", "*"))).untruthful_rows()
        1
        """
        return sum(any(self._is_untrue(label, row[0]) for label in row[1:]) for row in self.rows)

    def _is_untrue(self, label: str, value: str) -> bool:
        if label in self._codes and label != value:
            return True
        return _NUMBER.fullmatch(value) is not None and not _covers(label, value)

    def with_leaf(self, value: str) -> "Hierarchy":
        """Return the tree with one more value directly under the root, sharing no other label.

        >>> Hierarchy.flat(["a"]).with_leaf("b").rows
        (('a', '*'), ('b', '*'))
        """
        return Hierarchy((*self.rows, (value,) * self.height + self.rows[0][-1:]))

    @classmethod
    def flat(cls, values: Sequence[str]) -> "Hierarchy":
        """Put values directly under the root, as for an attribute without a hierarchy."""
        return cls(tuple((value, ROOT) for value in values))

    @classmethod
    def from_csv(cls, text: str) -> "Hierarchy":
        r"""Read ARX's CSV form; spaces around a cell and a semicolon at the end of each row are ignored.

        >>> Hierarchy.from_csv("Male;*\nFemale;*\n").values
        ('Male', 'Female')
        >>> Hierarchy.from_csv("Male;*;\nFemale;*;\n").height
        1
        """
        rows, lines = list[tuple[str, ...]](), list[int]()
        reader = csv.reader(io.StringIO(text), delimiter=";")
        try:
            for row in reader:
                if row:
                    rows.append(tuple(map(str.strip, row)))
                    lines.append(reader.line_num)
        except csv.Error:
            raise HierarchyError(
                "the hierarchy is not valid CSV. A quote or line end is misplaced", line=reader.line_num
            ) from None
        while rows and all(len(row) > 1 and not row[-1] for row in rows):  # a semicolon ends each
            rows = [row[:-1] for row in rows]
        try:
            return cls(tuple(rows))
        except HierarchyError as error:
            error.line = lines[error.row]
            raise

    def to_csv(self) -> str:
        """Write ARX's CSV form, for ``from_csv``."""
        out = io.StringIO()
        csv.writer(out, delimiter=";", lineterminator="\n").writerows(self.rows)
        return out.getvalue()

    @classmethod
    def intervals(cls, low: int, high: int, widths: Sequence[int]) -> "Hierarchy":
        """Build integers ``low .. high`` under intervals of widths that are multiples of each other.

        Labels are ``a-b`` with both ends inside, cut at the bounds, so every label contains its values.

        >>> Hierarchy.intervals(17, 30, (5, 10)).rows[3]
        ('20', '20-24', '20-29', '*')
        """
        if low > high:
            raise SchemaError(f"the lowest value must not exceed the highest, got {low} > {high}")
        if any(w < 1 for w in widths) or any(b % a for a, b in itertools.pairwise(widths)):
            raise SchemaError(
                f"each interval width must be a multiple of the one before it, got {tuple(widths)}"
            )

        def label(value: int, width: int) -> str:
            start = value // width * width
            return f"{max(start, low)}-{min(start + width - 1, high)}"

        return cls(tuple((str(v), *(label(v, w) for w in widths), ROOT) for v in range(low, high + 1)))

    @classmethod
    def prefixes(cls, values: Sequence[str], keep: Sequence[int]) -> "Hierarchy":
        """Build codes under their prefixes; ``keep`` is the falling numbers of characters to keep.

        >>> Hierarchy.prefixes(["13053", "13068"], keep=(4, 3)).rows[0]
        ('13053', '1305*', '130**', '*')
        """
        if any(a <= b for a, b in itertools.pairwise(keep)) or any(n < 1 for n in keep):
            raise SchemaError(
                f"the numbers of characters to keep must be positive and fall, got {tuple(keep)}"
            )

        def mask(value: str, n: int) -> str:
            return value[:n] + "*" * max(len(value) - n, 0)

        return cls(tuple((v, *(mask(v, n) for n in keep), ROOT) for v in values))
