"""Identifiers of a source: numbers that replace persons in the work area, and the search for repetitions.

If an identifier repeats although the schema names no person, rows are not people.
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

_HELD = 4_000_000  # hashes in memory, 32 MB; further ones are in an unnamed file


class Disguise:
    """Numbers in place of persons: equal for the same person in one run, made with a key that is discarded.

    With a kept key they are equal in every run, for a schedule that has to know who took part before.

    Persons are distinguished by the normal form of their identifiers, see `privacy_engine.tables.normal`:
    another case or additional blanks do not make another person.

    Among fifty million persons, there is a chance of one in ten thousand that two have the same number. They
    would count as one person, so never more persons are counted than there are.
    """

    def __init__(self, key: bytes | None = None, *, exact: bool = False) -> None:
        self._key = secrets.token_bytes(32) if key is None else key
        self._exact, self.is_kept = exact, key is not None
        self._spellings: list[npt.NDArray[np.int64]] = []

    def of(self, persons: "pd.Series") -> "npt.NDArray[np.int64]":
        """Return the number of each person, shape (n,). No value is null. 1 and 1.0 are equal."""
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
        """The form of the identifiers that are numbered."""
        return WRITTEN if self._exact else FORM

    @property
    def spellings(self) -> "npt.NDArray[np.int64]":
        """Spellings of the persons so far, as in `workarea.people.Numbering`, only with a kept key."""
        return np.unique(np.concatenate([np.zeros((2, 0), np.int64), *self._spellings], axis=1), axis=1)

    def _numbers(self, texts: Sequence[str]) -> "npt.NDArray[np.int64]":
        digests = (
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
            for text in texts
        )
        return np.frombuffer(b"".join(digests), dtype=np.int64)


class Repeats:
    """A search for repeated identifiers over all parts of a source. Nulls count as no value.

    Args:
        schema: Schema of the source.
        folder: Folder for data that does not fit into memory, removed at the end. None: all is in memory.
        without: Identifiers to ignore.
        pseudonyms: Columns whose identifiers are released as pseudonyms.
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
        """The identifiers that are searched."""
        return tuple(self._seen)

    def add(self, frame: "pd.DataFrame") -> None:
        """Add the next records."""
        for name, seen in self._seen.items():
            seen.add(_hashed(frame[name], exact=name in self._exact))

    def runs(self) -> "Iterator[tuple[str, Hashes]]":
        """Yield the hashes so far, some millions at a time, to combine all parts."""
        for name, seen in self._seen.items():
            for hashes in seen.runs():
                yield name, hashes

    def absorb(self, name: str, hashes: "Hashes") -> None:
        """Add hashes from another search of the next records."""
        self._seen[name].add(hashes)

    def close(self) -> None:
        """Remove the data that did not fit into memory."""
        for seen in self._seen.values():
            seen.close()

    def require_none(self) -> None:
        """Raise if identifiers repeat.

        Raises:
            SchemaError: Naming each, how many records repeat another's, and the remedies.
        """
        if found := {name: n for name, seen in self._seen.items() if (n := seen.repeated())}:
            repeats = "; ".join(
                f"{name}: {counted(n, 'record repeats', 'records repeat')} another's value"
                for name, n in found.items()
            )
            if linking := [name for name in found if name in self._pseudonyms]:
                raise SchemaError(
                    f"{repeats}. Pseudonyms of {', '.join(linking)} would link these records, and each class "
                    "would have to be of whole persons: aggregate the source to one record each, or remove "
                    "`pseudonym` and name the column that identifies the person of a row, as `person`"
                )
            raise SchemaError(
                f"{repeats}. Rows are then not people, and k rows may be one person: {self._person(found)}; "
                "or say that each row is of another person, `person: {none: <reason>}`, which goes into the "
                "manifest"
            )

    def _person(self, found: Mapping[str, int]) -> str:
        """Return advice on which column names the person.

        A column without repeated values names people or events, such as visits: only the user knows. Of the
        columns that repeat, the one that repeats least is closest to a person; first names are shared by
        many.

        Args:
            found: Number of records that repeat another's value, by column.
        """
        nearest = min(found, key=lambda name: found[name])
        most = max(map(len, self._seen.values()))
        whole = [name for name, seen in self._seen.items() if name not in found and len(seen) == most]
        if not whole:
            return f"name the column that identifies the person of a row, `person: {nearest}`"
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
        self._lengths: list[int] = []  # lengths of the sorted runs of hashes in the file
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
        """Return all runs of hashes, each sorted. Those in the file are read when they are needed."""
        runs = [self._ascending()] if self._held else []
        if self._file is None:
            return runs
        whole = np.memmap(self._file, dtype=np.uint64, mode="r")
        return [*np.split(whole, np.cumsum(self._lengths)[:-1]), *runs]

    def __len__(self) -> int:
        """Number of records with a value."""
        return sum(map(len, self._held)) + sum(self._lengths)

    def repeated(self) -> int:
        """Return the number of records whose value an earlier record has."""
        runs = self.runs()
        shares = 1 + sum(map(len, runs)) // _HELD  # each fits into memory, because hashes are spread evenly
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
    """Hash values as text in normal form, so that a number is the same in every file. Nulls are omitted."""
    texts = column.dropna().astype("str").to_numpy(dtype=object)
    if not exact and not pd.api.types.is_numeric_dtype(column.dtype):
        texts = np.array(normal_forms(texts.tolist()), dtype=object)
    hashes: Hashes = pd.util.hash_array(texts)
    return hashes
