"""The persons of a table's records: keyed hashes of an identifier, one for each record, in a private file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.normal import FORM, normal_forms
from privacy_release.steps.memberships.files import PERSON, SALT, SECRET, WRITTEN_PERSON
from privacy_release.workarea.parquet import parquet_bytes, write_private
from privacy_release.workarea.people import WRITTEN, Identification
from privacy_release.workarea.references import PersonsRef, Table

if TYPE_CHECKING:
    import numpy.typing as npt


class Persons:
    """The persons of a table's records, in order, collected while the table is copied.

    Two spellings that read the same are one person, who then has several records and is refused.

    Args:
        identification: Identifier column and key of the hashes.
        exact: Whether two spellings of an identifier that read the same are two persons.
    """

    def __init__(self, identification: Identification, *, exact: bool = False) -> None:
        self._by = identification
        self._exact = exact
        self._hashes: list[npt.NDArray[np.object_]] = []  # each (3, n), as `KnownPersons.hashes`
        self._nulls = 0

    @property
    def column(self) -> str:
        """Name of the identifier column."""
        return self._by.column

    def add(self, identifiers: "pd.Series") -> None:
        """Add the identifiers of the next records.

        Whole numbers count as the same person in either number type, and as text.
        """
        coded = factorize(identifiers)
        self._nulls += coded.nulls
        # About 1 s for 1,000,000 records.
        written = [self._by.person(text) for text in coded.texts]
        read, forms = written, coded.texts
        if not self._exact:
            forms = normal_forms(coded.texts)
            both = zip(coded.texts, forms, written, strict=True)
            read = [own if form == text else self._by.person(form) for text, form, own in both]
        salts = [self._by.salt(form) for form in forms]
        self._hashes.append(np.array([read, written, salts], dtype=object)[:, coded.codes[coded.codes >= 0]])

    def write(self, path: Path) -> PersonsRef:
        """Write the persons to a private file. Raises the errors of `hashes`."""
        form = WRITTEN if self._exact else FORM
        self.hashes()  # raises if a record has no person, or two share one
        return write_persons(self._all, path, self._by.key_id, form, self._by.secret)

    @property
    def _all(self) -> "npt.NDArray[np.object_]":
        """All hashes, shape (3, n), as `KnownPersons.hashes`."""
        return np.concatenate(self._hashes, axis=1)

    def hashes(self) -> "npt.NDArray[np.object_]":
        """Person of each record as text, shape (n,).

        Raises:
            SchemaError: If identifiers are missing or repeated, with the column and the numbers of records.
        """
        hashes: npt.NDArray[np.object_] = self._all[0]
        repeated = len(hashes) - len(set(hashes.tolist()))
        if self._nulls or repeated:
            raise SchemaError(
                f"{self.column} must identify one person per record: {self._nulls} records have no value, "
                f"{repeated} repeat another's; correct the source, aggregate it by person, or choose another "
            )
        return hashes


def write_persons(
    hashes: "npt.NDArray[np.object_]", path: Path, key_id: str, form: str, secret: str | None
) -> PersonsRef:
    """Write the persons of a table's records to a private file.

    Args:
        hashes: Hash of the person, hash of the identifier as written, and salt of the person's marks in files
            of earlier versions, for each record, shape (3, n). None for counterfeits and for unknown salts.
        path: Path of the file.
        key_id: ID of the key of the hashes.
        form: Form of the identifiers that were hashed.
        secret: Hexadecimal secret of the marks. None if the run that copied the source did not state it.
    """
    frame = pd.DataFrame(dict(zip((PERSON, WRITTEN_PERSON, SALT), hashes, strict=True))).assign(
        **{SECRET: secret}
    )
    sha256 = write_private(path, parquet_bytes(frame))
    return PersonsRef(uri=str(path), sha256=sha256, key=key_id, form=form)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownPersons:
    """The persons of a table's records, as read from their file, with which earlier releases are compared.

    Attributes:
        key: ID of the key of the hashes.
        form: Form of an identifier that distinguishes persons, as in `PersonsRef`.
        owners: Form of the identifiers of persons who may have several records. None if each has one.
        hashes: Persons, hashes of the identifiers as written, and salts of files of earlier versions, shape
            (3, n). A file that was written before marks existed has None for each salt.
        secret: Secret of the marks. None for a file without records, or of an earlier version.
    """

    key: str
    form: str
    owners: str | None
    hashes: "npt.NDArray[np.object_]"
    secret: str | None

    @classmethod
    def of(cls, persons: PersonsRef) -> Self:
        """Read the file of the persons.

        Raises:
            IntegrityError: If the file is missing or changed.
        """
        table = persons.frame()
        hashes = [
            table[name].to_numpy(dtype=object, na_value=None)  # type: ignore[call-overload]  # stubs lack None
            if name in table
            else np.full(len(table), None)
            for name in (PERSON, WRITTEN_PERSON, SALT)
        ]
        return cls(
            key=persons.key,
            form=persons.form,
            owners=persons.owners,
            hashes=np.stack(hashes),
            secret=table[SECRET].iloc[0] if SECRET in table and len(table) else None,
        )

    @property
    def people(self) -> "npt.NDArray[np.object_]":
        """Person of each record as text, shape (n,). None for counterfeits, which belong to no person."""
        people: npt.NDArray[np.object_] = self.hashes[0]
        return people

    @property
    def written(self) -> dict[str, str]:
        """Person by the hash of the identifier as written."""
        return dict(zip(self.hashes[1], self.hashes[0], strict=True))

    @property
    def salts(self) -> dict[str, str]:
        """Salt of the marks in files of earlier versions, by person."""
        return dict(zip(self.hashes[0].tolist(), self.hashes[2].tolist(), strict=True))


def read_persons(persons: PersonsRef) -> "npt.NDArray[np.object_]":
    """Return the person of each record, as `KnownPersons.people`. Raises as `KnownPersons.of`."""
    return KnownPersons.of(persons).people


def follow(
    persons: PersonsRef,
    rows: "npt.NDArray[Any]",
    path: Path,
    before: "npt.NDArray[np.object_] | None" = None,
) -> PersonsRef:
    """Write the persons of selected records, by position or flag, to a new file.

    Args:
        persons: Persons of n records.
        rows: Positions of the selected records. -1 is a counterfeit; n and above refer to `before`.
        path: Path of the new file.
        before: Persons of further records, whose salts are not known, shape (l,).
    """
    known = KnownPersons.of(persons)
    hashes = known.hashes
    if before is not None:
        hashes = np.concatenate([hashes, np.stack([before, before, np.full(len(before), None)])], axis=1)
    found = hashes[:, rows].copy()
    if rows.dtype != np.bool_:
        found[:, rows < 0] = None
    followed = write_persons(found, path, persons.key, persons.form, known.secret)
    return replace(followed, owners=persons.owners)


def with_records(
    table: Table, frame: "pd.DataFrame", kept: "npt.NDArray[np.bool_]", path: Path, persons: Path
) -> Table:
    """Return the table with a selection of its records, in their order, and with their persons.

    Args:
        table: Table to take records from.
        frame: Its records, shape (n, columns).
        kept: Flag of each record that stays, shape (n,).
        path: Path of the new file.
        persons: Path of the file of their persons, where the table has persons.
    """
    return replace(
        table,
        uri=str(path),
        rows=int(kept.sum()),
        sha256=write_private(path, parquet_bytes(frame[kept])),
        persons=follow(table.followed_persons, kept, persons) if table.follows_people else None,
    )
