"""The fragments of a release, kept with its memberships, so that the next release has the same fragments.

Each person has a region, a leaf of the tree by which the table was first cut, and never another one. A
fragment is a number of regions; fragments may become one later. The memberships contain the regions and the
cuts, which hold values of the source. They also contain the class of each person within the fragment, and its
values: two fragments may publish classes with equal cells, which are one class for everyone else. The
fragment of each released record, in the order of the records, is in a file next to the memberships, which
contain its SHA-256. It does not say whose record it is, and no file has the region of a record, because a
class may have only one person of a region.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.fragments.plan import StandingCut
from privacy_engine.republication.in_fragments import FRAGMENT, within_fragments
from privacy_release.workarea.parquet import parquet_bytes, read_private, write_private
from privacy_release.workarea.references import FileRef

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.fragments.cut_tree import CutTree
    from privacy_engine.tables.schema import DataSchema

_REGION, _CUTS, _PIECES = "region", "cuts of the fragments", "sha256 of the fragments"
_CLASS, _VALUES = "class in its fragment", "in its fragment, values of "


@dataclass(frozen=True, kw_only=True)
class Regions:
    """The regions of the records of a release.

    Attributes:
        cut: Cut of the table.
        of: Region of each record, shape (n,).
    """

    cut: StandingCut
    of: "npt.NDArray[np.int64]"

    @property
    def fragments(self) -> "npt.NDArray[np.int64]":
        """Fragment of each record, shape (n,)."""
        return np.array(self.cut.tree.fragment_of, dtype=np.int64)[self.of]

    def write(self, path: Path) -> FileRef:
        """Write them to a private file."""
        frame = pd.DataFrame({_REGION: self.of, _CUTS: self._cuts(0)})
        return FileRef(uri=str(path), sha256=write_private(path, parquet_bytes(frame)))

    @staticmethod
    def read(ref: FileRef) -> "Regions":
        """Read a file of `write`.

        Raises:
            IntegrityError: If the file is missing or changed.
        """
        frame = ref.frame()
        return regions_of_frame(frame)

    def _cuts(self, row: int) -> "npt.NDArray[np.object_]":
        """Return the text of the cuts for one row, and None for all others, because the text is long."""
        found = np.full(len(self.of), None, dtype=object)
        found[row] = self.cut.to_json()
        return found

    def kept(
        self,
        persons: "npt.NDArray[np.object_]",
        table: "pd.DataFrame",
        schema: "DataSchema",
        pieces: Path,
    ) -> dict[str, Any]:
        """Return the columns of the memberships, and write the fragment of each record to a private file.

        Args:
            persons: Person of each record, shape (n,) text.
            table: Released records of all fragments.
            schema: Schema of the records.
            pieces: Path of the file.
        """
        own = within_fragments(persons, table, schema, self.fragments)
        values = {
            _VALUES + name: pd.Series(counts.to_json(), dtype=object).to_numpy()[own.labels]
            for name, counts in own.counts.items()
        }
        sha256 = write_private(pieces, parquet_bytes(pd.DataFrame({FRAGMENT: self.fragments})))
        # The memberships are sorted by person: the row must not reveal whose record is the first.
        cuts = self._cuts(int(np.argmin(persons.astype(str))))
        return {_REGION: self.of, _CLASS: own.labels, **values, _CUTS: cuts, _PIECES: sha256}


def in_fragments(frame: "pd.DataFrame", what: str) -> "pd.DataFrame":
    """Return memberships whose classes are those within the fragments.

    Args:
        frame: Memberships of a release.
        what: Name of the release, for the error.

    Raises:
        VerificationError: If the release was not made in fragments that later releases continue.
    """
    if _REGION not in frame:
        raise VerificationError(
            f"{what} was made in one piece, so its classes cannot be continued in fragments; use engine "
            "local, retract it, or publish under a new table name"
        )
    own = [name for name in map(str, frame) if name.startswith(_VALUES)]
    values = {"values of " + name.removeprefix(_VALUES): frame[name] for name in own}
    return frame.assign(**{"class": frame[_CLASS]}, **values)


def regions_of_frame(frame: "pd.DataFrame") -> "Regions":
    """Return the regions of the persons of memberships from `in_fragments`, in their order."""
    cut = StandingCut.from_json(frame[_CUTS].dropna().iloc[0])
    return Regions(cut=cut, of=frame[_REGION].to_numpy(dtype="int64"))


def read_pieces(frame: "pd.DataFrame", path: Path) -> "npt.NDArray[np.int64]":
    """Return the fragment of each record of a release, shape (n,).

    Args:
        frame: Memberships from `in_fragments`.
        path: Path of the file that was kept with them.

    Raises:
        IntegrityError: If the file is missing or changed.
    """
    try:
        found = read_private(path, frame[_PIECES].iloc[0])
    except IntegrityError:
        raise IntegrityError(
            f"{path.name}, the fragments that were kept with a release, is missing or was changed; restore "
            "it, or retract that release"
        ) from None
    return found[FRAGMENT].to_numpy(dtype="int64")


def require_one_cut(trees: "Sequence[CutTree]") -> None:
    """Raise unless each release has the regions of the newest, and each of its fragments is in one of it.

    Args:
        trees: Cut tree of each release, oldest first.

    Raises:
        VerificationError: With the remedy.
    """
    for tree in trees:
        newest = trees[-1]
        pairs = set(zip(tree.fragment_of, newest.fragment_of, strict=False))
        if tree.cuts != newest.cuts or len(pairs) != tree.fragments:
            raise VerificationError(
                "the earlier releases were made in fragments of different cuts, so they cannot be continued "
                "in fragments; use engine local, or publish under a new table name"
            )
