"""The persons of records: keyed hashes of identifiers, and the person of each released record.

The persons never leave the work area. Their file names the bytes that it is for: persons of other records,
or in another order, would make a class seem to have more persons than it has.

Hashes that are stored beyond a run are of the normal form of an identifier, and name that form. Files from
before forms existed, and those of a schema with `exact`, have hashes of the text as written. A run knows both
hashes of its persons and can therefore find them in such files, too.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_engine.tables.normal import FORM
from privacy_release.config.settings import secret
from privacy_release.workarea.parquet import private_parquet
from privacy_release.workarea.references import NumberedRef, PeopleRef, Stored

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema

DEFAULT_KEY = "membership_default"  # Airflow connection ID
VARIABLE = "PRIVACY_MEMBERSHIP_KEY"
WRITTEN = "as written"  # the form of identifiers in stored files that name no form
_SHORTEST = 32
_PERSON = "person"
_TEXT, _READ = "as written", "normal form"


@dataclass(frozen=True, kw_only=True)
class Identification:
    """The column that identifies a person, and the key of the hash that replaces it.

    Raises:
        SpecError: If the key is too short to be a secret.
    """

    column: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < _SHORTEST:
            raise SpecError(
                f"the membership key must be a secret of at least {_SHORTEST} characters, got "
                f"{len(self.key)}; set it as the password of the Airflow connection, or as {VARIABLE}, for "
                "example from `openssl rand -hex 32`"
            )

    @property
    def key_id(self) -> str:
        """An ID that distinguishes keys and reveals nothing about them."""
        return self._hash("which key this is", size=8)

    def person(self, text: str) -> str:
        """Return the keyed hash of an identifier."""
        return self._hash(f"person {text}", size=16)

    @property
    def secret(self) -> str:
        """The secret of the marks of values, see `privacy_release.steps.memberships.marks`."""
        return self._hash("marks of persons", size=32)

    def salt(self, text: str) -> str:
        """Return the salt of a person's marks in files of earlier versions."""
        return self._hash(f"salt of {text}", size=32)

    @property
    def numbering(self) -> bytes:
        """The key of person numbers that are the same in every run."""
        return bytes.fromhex(self._hash("numbers of persons", size=32))

    def _hash(self, text: str, size: int) -> str:
        key = hashlib.sha256(self.key.encode()).digest()
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=size).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """The rule by which persons have the same number in every run.

    Attributes:
        key_id: ID of the key.
        form: Form of the identifiers that are numbered, `FORM` or `WRITTEN`.
        spellings: Number of each text that is not in its normal form, as written and in normal form, shape
            (2, s), int64, ascending.
    """

    key_id: str
    form: str = FORM
    spellings: "npt.NDArray[np.int64] | None" = None

    @classmethod
    def of(cls, numbered: NumberedRef) -> "Numbering":
        """Read the numbering of a table.

        Raises:
            IntegrityError: If the file is missing or changed.
        """
        import numpy as np

        found = numbered.frame()
        spellings = np.stack([found[name].to_numpy(dtype="int64") for name in (_TEXT, _READ)])
        return cls(key_id=numbered.key, form=numbered.form, spellings=spellings)

    def of_stored(self, numbers: "npt.NDArray[np.int64]", form: str, of: str) -> "npt.NDArray[np.int64]":
        """Translate stored numbers of a form to numbers of this table. Unknown persons keep theirs.

        Args:
            numbers: Stored numbers, shape (p,).
            form: Form of the identifiers that were numbered.
            of: Name of what the numbers belong to, for the error.

        Raises:
            VerificationError: As `require_form`.
        """
        import numpy as np

        require_form(form, self.form, of)
        if form == self.form or self.spellings is None or not self.spellings.size:
            return numbers
        written, read = self.spellings
        places = np.minimum(np.searchsorted(written, numbers), len(written) - 1)
        return np.where(written[places] == numbers, read[places], numbers)


def write_numbered(key_id: str, form: str, spellings: "npt.NDArray[np.int64]", path: Path) -> NumberedRef:
    """Write the numbering of a table's persons. Arguments are the attributes of `Numbering`."""
    import pyarrow as pa

    with private_parquet(path) as file:
        file.write(pa.table({_TEXT: spellings[0], _READ: spellings[1]}))
    return NumberedRef(uri=str(path), sha256=file.sha256, key=key_id, form=form)


def require_form(stored: str, form: str, of: str) -> None:
    """Raise if stored persons cannot be found by the form that distinguishes persons now.

    Raises:
        VerificationError: If they were stored in another form than this one or `WRITTEN`.
    """
    if stored not in (form, WRITTEN):
        raise VerificationError(
            f"the persons of {of} are stored by the form `{stored}` of their identifiers, but are "
            f"distinguished by `{form}` now, so they cannot be recognised; restore `exact` as the schema "
            "had it, or the version of this package"
        )


def identification_of_environment(column: str) -> Identification:
    """Return the identification by a column with the key in `$PRIVACY_MEMBERSHIP_KEY`, without Airflow.

    Raises:
        SpecError: If the key is not set or too short.
        SecretError: As `secret`.
    """
    return Identification(column=column, key=secret(VARIABLE) or "")


def write_people(persons: "npt.NDArray[np.integer[Any]]", path: Path, of: str) -> PeopleRef:
    """Write the person of each released record, in the order of the records.

    Args:
        persons: Number of each record's person, shape (n,), integer.
        path: Path of the file.
        of: SHA-256 of the released records.
    """
    with private_parquet(path) as file:
        file.write(people_table(persons))
    return PeopleRef(uri=str(path), sha256=file.sha256, of=of)


def people_table(persons: Any) -> "pa.Table":
    """Return persons, shape (n,), as a table for such a file."""
    import pyarrow as pa

    return pa.table({_PERSON: persons}).cast(pa.schema([(_PERSON, pa.int64())]))


@contextmanager
def counted_by_person(
    records: Stored, people: PeopleRef | None, schema: "DataSchema"
) -> Iterator[list[str] | None]:
    """Provide a file of a release's quasi-identifiers and sensitive attributes with each record's person.

    The file exists next to the release until the block ends. None if each record counts as a person. If rows
    are linked, the release contains pseudonyms; the file has them and the persons, to compare both.

    Args:
        records: Released records in the work area, with their SHA-256.
        people: File of their persons.
        schema: Schema of the released records, which names the persons' column.

    Raises:
        IntegrityError: If a file is missing or changed, or the persons are those of other records, or are
            unknown although rows are linked.
    """
    if schema.linked and people is None:
        raise IntegrityError(
            "the persons of linked rows must be stored with the staged records, to be compared with their "
            "pseudonyms; run the release again"
        )
    if not schema.by or people is None:
        yield None
        return
    if people.of != records.sha256:
        raise IntegrityError(
            f"{Path(people.uri).name} must have the persons of the staged records, but is of others; run "
            "the release again"
        )
    released = Path(records.uri)
    path = released.with_name(f"{released.stem}.by_person.parquet")
    try:
        _write_pairs(path, records, people, schema)
        yield [str(path)]
    finally:
        path.unlink(missing_ok=True)


def _write_pairs(path: Path, records: Stored, people: PeopleRef, schema: "DataSchema") -> None:
    """Combine both files into one, batch by batch."""
    import pyarrow as pa

    from privacy_engine.engines.checking import PERSON, PSEUDONYM

    names = [a.name for a in (*schema.quasi_identifiers, *schema.sensitive)]
    column_names = [*names, schema.by]
    if schema.linked:
        names, column_names = [schema.by], [PSEUDONYM, PERSON]
    persons = people.batches()
    with private_parquet(path) as file:
        for batch in records.batches(names):
            own = next(persons, None)
            if own is None or len(own) != len(batch):
                raise _other_length()
            columns = [*(batch.column(name) for name in names), own.column(_PERSON)]
            file.write(pa.table(columns, names=column_names))
        if next(persons, None) is not None:
            raise _other_length()


def _other_length() -> IntegrityError:
    return IntegrityError("there must be one person per released record; run the release again")
