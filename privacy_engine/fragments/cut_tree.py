"""The fragment of a record: a tree of cuts, each of which tests one attribute.

Every record has a fragment, also one with a value that did not occur when the tree was made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.columns import NULL, factorize, floats

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Some records go to the first side, all others to the second.

    Attributes:
        column: Attribute that is tested.
        below: Numbers less than this go to the first side; None where the attribute holds no numbers.
        among: Else, values whose text is one of these; that of a null is `columns.NULL`.
        sides: Child on each side: a later cut by its number, or leaf x as ``-1 - x``.
    """

    column: str
    below: float | None = None
    among: frozenset[str] = frozenset()
    sides: tuple[int, int] = (-1, -2)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        return {
            "column": self.column,
            "below": self.below,
            "among": sorted(self.among),
            "sides": list(self.sides),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Cut":
        """Read what ``to_dict`` writes."""
        first, second = given["sides"]
        below = None if given["below"] is None else float(given["below"])
        return cls(
            column=given["column"], below=below, among=frozenset(given["among"]), sides=(first, second)
        )


@dataclass(frozen=True)
class CutTree:
    """Cuts, the first of them the root, and the fragment of each leaf. PRIVATE: holds values of the source.

    Attributes:
        cuts: Each but the first is a side of an earlier one.
        fragment_of: Fragment of each leaf, 0 .. fragments - 1 without gaps, shape (leaves,); a fragment may
            have several leaves.

    >>> tree = CutTree((Cut(column="age", below=30.0),), (0, 1))
    >>> tree.assign(pd.DataFrame({"age": [29, 30, 99]})).tolist()
    [0, 1, 1]
    """

    cuts: tuple[Cut, ...] = ()
    fragment_of: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if set(self.fragment_of) != set(range(self.fragments)):
            raise ValueError("fragments must be numbered 0 .. fragments - 1 without gaps")
        for i, cut in enumerate(self.cuts):
            if not all(i < s < len(self.cuts) if s >= 0 else ~s < len(self.fragment_of) for s in cut.sides):
                raise ValueError("behind each side of a cut must be a later cut or a leaf of the tree")

    @property
    def fragments(self) -> int:
        """How many there are."""
        return max(self.fragment_of) + 1

    def assign(self, frame: pd.DataFrame) -> npt.NDArray[np.int32]:
        """(n,) the fragment of each record; only the columns of the cuts are read."""
        out = np.zeros(len(frame), dtype=np.int32)
        tests = _Tests(frame)
        waiting: list[tuple[int, Rows]] = [(0 if self.cuts else -1, np.arange(len(frame)))]
        while waiting:
            place, rows = waiting.pop()
            if place < 0:
                out[rows] = self.fragment_of[~place]
                continue
            first = tests.first(self.cuts[place], rows)
            waiting += [(self.cuts[place].sides[0], rows[first]), (self.cuts[place].sides[1], rows[~first])]
        return out

    def leaves(self, place: int) -> Iterator[int]:
        """Return the leaves behind a cut, or a leaf itself, by its number in ``Cut.sides``."""
        if place < 0:
            yield ~place
            return
        for side in self.cuts[place].sides:
            yield from self.leaves(side)

    def renumbered(self, fragment_of: tuple[int, ...]) -> "CutTree":
        """Return the same cuts with leaves of other fragments, whose numbers here may have gaps."""
        number = {old: new for new, old in enumerate(dict.fromkeys(fragment_of))}
        return replace(self, fragment_of=tuple(number[old] for old in fragment_of))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        return {"cuts": [cut.to_dict() for cut in self.cuts], "fragment_of": list(self.fragment_of)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "CutTree":
        """Read what ``to_dict`` writes."""
        return cls(tuple(map(Cut.from_dict, given["cuts"])), tuple(given["fragment_of"]))


class _Tests:
    """The cuts' questions about the records of a frame; each column is read once, when it is first needed."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._numbers: dict[str, npt.NDArray[np.float64]] = {}
        self._texts: dict[str, tuple[npt.NDArray[np.int64], list[str]]] = {}

    def first(self, cut: Cut, rows: Rows) -> Flags:
        """Which of the records go to the first side; a null only if it is listed."""
        name = cut.column
        if cut.below is not None:
            if name not in self._numbers:
                self._numbers[name] = floats(self._frame[name])
            return self._numbers[name][rows] < cut.below
        if name not in self._texts:
            coded = factorize(self._frame[name])
            self._texts[name] = coded.codes, coded.texts
        codes, texts = self._texts[name]
        selected = np.array([text in cut.among for text in (*texts, NULL)])  # code -1, a null, reads the last
        return np.asarray(selected[codes[rows]], dtype=np.bool_)
