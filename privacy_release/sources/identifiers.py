"""Identifiers of a source: who a record is about stays known in the work area, by a number that says no more.

And an identifier that repeats, although the schema says nothing of persons: rows are then no people.
"""

import hashlib
import secrets
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.normal import FORM, normal_forms
from privacy_engine.vocabulary import counted
from privacy_release.workarea.people import WRITTEN

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.tables.schema import DataSchema

    Hashes = npt.NDArray[np.uint64]

_HELD = 4_000_000  # hashes in memory, 32 MB; more wait in a file without a name


class Disguise:
    """Numbers in the place of persons: equal for equal persons of one run, and made with a key that is lost.

    With a key that is kept they are equal in every run, for a schedule that knows who took part before.

    Persons are told apart by the normal form of their identifiers, see `privacy_engine.tables.normal`: one
    in another case, or with blanks, is no other person.

    Two persons of one number, of which there is a chance of one in ten thousand among fifty millions, would
    count as one: never more persons than there are.
    """

    def __init__(self, key: bytes | None = None, *, exact: bool = False) -> None:
        self._key = secrets.token_bytes(32) if key is None else key
        self._exact, self.is_kept = exact, key is not None
        self._spellings: list[npt.NDArray[np.int64]] = []

    def of(self, persons: "pd.Series") -> "npt.NDArray[np.int64]":
        """(n,) the number of each; no value is null. Whole numbers count as equal in either number type."""
        coded = factorize(persons)
        forms = coded.texts if self._exact else normal_forms(coded.texts)
        numbers = self._numbers(forms)
        if self.is_kept:
            other = np.array(
                [form != text for form, text in zip(forms, coded.texts, strict=True)], dtype=bool
            )
            written = self._numbers(
                [text for text, differs in zip(coded.texts, other, strict=True) if differs]
            )
            self._spellings.append(np.stack([written, numbers[other]]))
        return numbers[coded.codes]

    @property
    def form(self) -> str:
        """Which form of an identifier is numbered."""
        return WRITTEN if self._exact else FORM

    @property
    def spellings(self) -> "npt.NDArray[np.int64]":
        """(2, s) of the persons so far, as of `workarea.people.Numbering`; of a kept key only."""
        return np.unique(np.concatenate([np.zeros((2, 0), np.int64), *self._spellings], axis=1), axis=1)

    def _numbers(self, texts: Sequence[str]) -> "npt.NDArray[np.int64]":
        digests = (
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
            for text in texts
        )
        return np.frombuffer(b"".join(digests), dtype=np.int64)


class Repeats:
    """Whether an identifier repeats, over all parts of a source; nulls count as no value.

    Args:
        schema: of the source.
        folder: for what does not fit into memory; nothing of it stays. None: all is held in memory.
        without: identifiers that are not looked at.
        pseudonyms: columns whose identifiers are released as pseudonyms.
    """

    def __init__(
        self,
        schema: "DataSchema",
        folder: Path | None,
        without: Collection[str | None] = (),
        pseudonyms: Sequence[str] = (),
    ) -> None:
        silent = schema.person is None
        names = [a.name for a in schema.identifiers if silent and a.name not in without]
        self._pseudonyms = pseudonyms
        names += [name for name in pseudonyms if name not in names]
        self._seen = {name: _Seen(folder) for name in names}
        self._exact = {name for name in names if schema[name].exact is not None}

    @property
    def columns(self) -> Sequence[str]:
        """The identifiers that are looked at."""
        return tuple(self._seen)

    def add(self, frame: "pd.DataFrame") -> None:
        """Take the next records."""
        for name, seen in self._seen.items():
            seen.add(_hashed(frame[name], exact=name in self._exact))

    def runs(self) -> "Iterator[tuple[str, Hashes]]":
        """What was taken, some millions of hashes at a time, to look at all parts together."""
        for name, seen in self._seen.items():
            for hashes in seen.runs():
                yield name, hashes

    def absorb(self, name: str, hashes: "Hashes") -> None:
        """Take what another one told of the next records."""
        self._seen[name].add(hashes)

    def close(self) -> None:
        """Remove what did not fit into memory."""
        for seen in self._seen.values():
            seen.close()

    def require_none(self) -> None:
        """Refuse identifiers that repeat.

        Raises:
            SchemaError: naming each, how many records repeat another's, and the remedies.
        """
        if found := {name: n for name, seen in self._seen.items() if (n := seen.repeated())}:
            told = "; ".join(
                f"{name}: {counted(n, 'record repeats', 'records repeat')} another's value"
                for name, n in found.items()
            )
            if linking := [name for name in found if name in self._pseudonyms]:
                raise SchemaError(
                    f"{told}. Pseudonyms of {', '.join(linking)} would link these records, and each class "
                    "would have to be of whole persons: aggregate the source to one record each, or remove "
                    "`pseudonym` and name the column that tells whose record a row is, as `person`"
                )
            raise SchemaError(
                f"{told}. Rows are then not people, and k rows may be one person: {self._person(found)}; or "
                "say that each row is of another person, `person: {none: <reason>}`, which goes into the "
                "manifest"
            )

    def _person(self, found: Mapping[str, int]) -> str:
        """The advice which column names the person.

        A column without repeated values names people or events, such as visits: only the user knows. Of those
        that repeat, the one that repeats least is closest to a person; first names are shared by many.

        Args:
            found: Number of records that repeat another's value, by column.
        """
        nearest = min(found, key=lambda name: found[name])
        most = max(map(len, self._seen.values()))
        whole = [name for name, seen in self._seen.items() if name not in found and len(seen) == most]
        if not whole:
            return f"name the column that tells whose record a row is, `person: {nearest}`"
        return (
            f"no value of {whole[0]} repeats. If it names people and not events such as visits, write "
            f"`person: {whole[0]}`; if {nearest} names them, and no two people share a value of it, "
            f"`person: {nearest}`"
        )


class _Seen:
    """The hashes of the values of one column."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: list[Hashes] = []
        self._lengths: list[int] = []  # of the runs of hashes in the file, each in ascending order
        self._file: IO[bytes] | None = None

    def add(self, hashes: "Hashes") -> None:
        self._held.append(hashes)
        if self._folder is not None and sum(map(len, self._held)) > _HELD:
            self._file = self._file or tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  over all parts
            run = self._ascending()
            run.tofile(self._file)
            self._file.flush()
            self._lengths.append(len(run))
            self._held = []

    def runs(self) -> "list[Hashes]":
        """All of them, each run in ascending order; those in the file come into memory when they are read."""
        runs = [self._ascending()] if self._held else []
        if self._file is None:
            return runs
        whole = np.memmap(self._file, dtype=np.uint64, mode="r")
        return [*np.split(whole, np.cumsum(self._lengths)[:-1]), *runs]

    def __len__(self) -> int:
        """Number of records with a value."""
        return sum(map(len, self._held)) + sum(self._lengths)

    def repeated(self) -> int:
        """Records whose value another record before them has."""
        runs = self.runs()
        shares = 1 + sum(map(len, runs)) // _HELD  # each fits into memory, since hashes are spread evenly
        limits = np.linspace(0, 2.0**64, shares + 1)[1:-1].astype(np.uint64)
        found, begins = 0, [0] * len(runs)
        for limit in [*limits, None]:
            ends = [len(run) if limit is None else int(np.searchsorted(run, limit)) for run in runs]
            parts = [run[b:e] for run, b, e in zip(runs, begins, ends, strict=True)]
            found += sum(map(len, parts)) - (len(np.unique(np.concatenate(parts))) if parts else 0)
            begins = ends
        return found

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _ascending(self) -> "Hashes":
        return np.sort(np.concatenate(self._held))


def _hashed(column: "pd.Series", *, exact: bool) -> "Hashes":
    """As text, so that a number is the same in every file, and of its normal form; nulls are left out."""
    texts = column.dropna().astype("str").to_numpy(dtype=object)
    if not exact and not pd.api.types.is_numeric_dtype(column.dtype):
        texts = np.array(normal_forms(texts.tolist()), dtype=object)
    hashes: Hashes = pd.util.hash_array(texts)
    return hashes
