r"""Which sums of weekly tables are noised, and how much all of them change with one person.

A person has a state a week: the cell of a table that counts them, or none while they are absent. H_t is the
table of week t = 1 .. R. What is measured are rows y_i = sum over t of B[i, t] H_t, cell by cell, B of whole
numbers, each row as soon as the last week that it reads has come. Three choices of B:

    each week    B = I: every table by itself
    tree         differences of tables over the dyadic intervals of weeks, which sum to the current table from
                 at most log2(R) + 1 nodes (Dwork, Naor, Pitassi, Rothblum: Differential Privacy under
                 Continual Observation, 2010; Chan, Shi, Song: Private and Continual Release of Statistics,
                 2011)
    square root  B = (I - S)^(1/2), S the shift by a week: the factorization of prefix sums in two equal
                 halves (Fichtenberger, Henzinger, Upadhyay: Constant Matters, 2023), in units of 1 / UNIT so
                 that its coefficients are whole numbers

Neighbour relation: the whole history of one person, their states in all weeks, is replaced by another one.
Both have at most c changes after week 1: c + 1 different stretches, and arriving and leaving are changes, too
(`privacy_engine.continual.changes` sees to that). Nothing else of the stream differs; it does not react to
what was released.

Let e(cell) be its unit vector, and give "absent" a coordinate of its own: measuring it, too, can only add to
what changes. With the two histories h and h', H_t changes by x_t = e(h_t) - e(h'_t), and the rows by B x.

(A) Whatever c: |x_t|_2 <= sqrt(2) and |x_t|_1 <= 2, so by the triangle inequality in each row

    |B x|_2^2 <= 2 sum over i of (sum over t of |B[i, t]|)^2,     |B x|_1 <= 2 sum of all |B[i, t]|.

(B) Let d_t = x_t - x_{t-1} (x_0 = 0) and C[i, t] = sum over s >= t of B[i, s]. Then x_s is the sum of d_1 ..
d_s, so that B x = C d. In absolute values |d_1|_1 <= 2, and a change of h or of h' in week t adds 2 to
|d_t|_1: with |C_t| for column t and the c largest of the columns after the first

    |B x|_1 <= 2 |C_1|_1 + 4 (sum of the c largest |C_t|_1, t >= 2).

(C) For squares let G = C^T C, and suppose that

    (M)  0 <= G[s, t], not falling in t up to t = s and not rising from there on, for every s.

Look at one cell: f(t) = [h_t = cell] and f'(t) likewise are 0 or 1, so the jumps of each, at times t_1 < t_2
< ... with signs e_1, e_2, ..., alternate in sign (a jump in week 1 is where f starts with 1).

  1. A sum with alternating signs of values that do not rise lies between 0 and its first term. By (M) so does
     the sum over t_j >= s of e_j G[s, t_j]; and, read backwards, the one over t_j <= s lies between 0 and its
     last term. The two neighbours of s have opposite signs, so |sum over all j of e_j G[s, t_j]| <= G[s, s].
  2. |C f-jumps|^2 = sum over i of (G[t_i, t_i] + 2 e_i sum over j > i of e_j G[t_i, t_j]). The inner sum
     begins with the sign opposite to e_i, so by 1 its term is <= 0: the whole is <= sum over i G[t_i, t_i].
  3. |C (f-jumps - f'-jumps)|^2 adds 2 for f, 2 for f', and the cross terms
     -2 sum over i, j of e_i e'_j G[t_i, t'_j].
     Where f(1) = f'(1) = 1, both first jumps cancel: leave them out, the others alternate still. Then by 1
     the cross terms are at most twice the sum over the jumps of f of G[t_i, t_i], and by symmetry of f', so
     at most the sum of both; together at most 2 (sum over the jumps of f and f' of G).
     Where only f starts with 1: its first jump has with f', whose first is upwards, the cross term -2 (sum
     over j of e'_j G[1, t'_j]) <= 0 by 1. What remains is as before for the jumps after week 1, beside
     G[1, 1] for the first itself.
  4. Over all cells: at most two start differently, 2 G[1, 1]. A change of h in week t is one jump in each of
     two cells, of 2 G[t, t] each by 3; so is one of h'. With the c largest of the diagonal after the first

    |B x|_2^2 <= 2 G[1, 1] + 8 (sum of the c largest G[t, t], t >= 2).

The least of what applies is taken; (M) is checked for the whole numbers of each strategy, exactly. For c = 1
the bound 2 + 8 is nearly reached by two people's histories that swap cells in one week late in the year.

The tables of a week enter a row with the same noise in every cell, drawn once. With discrete Gaussian noise
of variance v in each cell of each row, all rows of all weeks together are (|B x|_2^2 / 2 v)-zCDP; with
discrete Laplace noise of scale b they are (|B x|_1 / b)-DP: one vector of whole numbers, of which the first
weeks' coordinates are published first (its noise is independent from row to row). Several tables compose.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

UNIT = 2**16  # of the coefficients of the square root
MOST_RELEASES = 400


class Kind(StrEnum):
    """Which rows are measured."""

    EACH_WEEK = "each_week"
    TREE = "tree"
    SQUARE_ROOT = "square_root"


@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy:
    """Rows of whole numbers over the tables of R releases.

    Attributes:
        rows: (m, R) int64, in the order in which they are measured.
        changes: c, most changes of a person after the first release; None: any number.
    """

    rows: Ints
    changes: int | None

    def __post_init__(self) -> None:
        if self.changes is not None and (type(self.changes) is not int or self.changes < 0):
            raise ValueError(f"changes must be a whole number >= 0, got {self.changes!r}")
        if (np.diff(self.last) < 0).any():
            raise ValueError("rows must stand in the order of the last release that each of them reads")

    @property
    def releases(self) -> int:
        """R."""
        return int(self.rows.shape[1])

    @property
    def last(self) -> Ints:
        """(m,) the last release that each row reads, from 0: it is measured then."""
        return np.asarray(self.releases - 1 - (self.rows[:, ::-1] != 0).argmax(axis=1))

    def rows_of(self, release: int) -> range:
        """Numbers of the rows that are measured at a release, from 0."""
        first, end = np.searchsorted(self.last, [release, release + 1])
        return range(int(first), int(end))

    @cached_property
    def squared_sensitivity(self) -> int:
        """Most of the sum of squares by which all rows change with one person: (A) or (C)."""
        of_any = int(2 * sum(total**2 for total in np.abs(self.rows).sum(axis=1).tolist()))
        if self.changes is None:
            return of_any
        column = self._columns
        gram = column.T @ column
        if not _falls_from_diagonal(gram):
            return of_any
        first, *others = np.diag(gram).tolist()
        return min(of_any, int(2 * first + 8 * sum(sorted(others, reverse=True)[: self.changes])))

    @property
    def sensitivity(self) -> int:
        """Most of the sum of absolute values by which all rows change with one person: (A) or (B)."""
        of_any = 2 * int(np.abs(self.rows).sum())
        if self.changes is None:
            return of_any
        first, *others = np.abs(self._columns).sum(axis=0).tolist()
        return min(of_any, int(2 * first + 4 * sum(sorted(others, reverse=True)[: self.changes])))

    @property
    def _columns(self) -> Ints:
        """C: (m, R)."""
        return self.rows[:, ::-1].cumsum(axis=1)[:, ::-1]


def strategy(kind: Kind, releases: int, changes: int | None) -> Strategy:
    """The rows of a kind.

    Raises:
        ValueError: if the number of releases or changes is out of range, or a bound of changes is needed.

    >>> strategy(Kind.EACH_WEEK, 52, None).squared_sensitivity  # 2 a week
    104
    >>> strategy(Kind.TREE, 4, 1).rows.tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0], [-1, 1, 0, 0], [0, -1, 1, 0], [0, 0, 0, 1], [0, -1, 0, 1], [0, 0, -1, 1]]
    """
    if type(releases) is not int or not 1 <= releases <= MOST_RELEASES:
        raise ValueError(f"releases must be a whole number from 1 to {MOST_RELEASES}, got {releases!r}")
    if changes is None and kind is not Kind.EACH_WEEK:
        raise ValueError(
            f"{kind} measures changes, whose number must be bounded: give changes, the most of a person "
            "after the first release"
        )
    rows = {Kind.EACH_WEEK: _each_week, Kind.TREE: _tree, Kind.SQUARE_ROOT: _square_root}[kind](releases)
    return Strategy(rows=rows, changes=changes)


def _each_week(releases: int) -> Ints:
    return np.eye(releases, dtype=np.int64)


def _tree(releases: int) -> Ints:
    """Nodes (begin, end] of length 1, 2, 4, ...: H_end - H_begin, the longest that end in a week first."""
    nodes = [
        (end, length)
        for end in range(1, releases + 1)
        for length in (2**level for level in reversed(range(releases.bit_length())))
        if end % length == 0
    ]
    rows = np.zeros((len(nodes), releases), dtype=np.int64)
    for row, (end, length) in zip(rows, nodes, strict=True):
        row[end - 1] = 1
        if end > length:
            row[end - length - 1] = -1
    return rows


def _square_root(releases: int) -> Ints:
    """(1 - z)^(1/2) = 1 - z / 2 - z^2 / 8 - ...: each coefficient from the one before, then rounded."""
    exact = [1.0]
    for k in range(1, releases):
        exact.append(exact[-1] * (k - 1.5) / k)
    lower = np.zeros((releases, releases), dtype=np.int64)
    for t in range(releases):
        lower[t, : t + 1] = np.rint(UNIT * np.array(exact[: t + 1])).astype(np.int64)[::-1]
    return lower


def _falls_from_diagonal(gram: Ints) -> bool:
    """(M), of exact whole numbers."""
    upper = np.triu(np.ones_like(gram, dtype=np.bool_))[:, :-1]
    steps = np.diff(gram, axis=1)
    return bool((gram >= 0).all() and (steps[upper] <= 0).all() and (steps[~upper] >= 0).all())
