"""Who is who: keyed hashes of persons, and whose records were released, to be counted in one table with them.

The persons never leave the work area. The file says which bytes it belongs to: persons of other records, or
in another order, would make a class look as if it had more of them.

Hashes that are stored beyond a run are of the normal form of an identifier, and name that form. Files from
before there was one, and those of a schema that says `exact`, are of the text as written: a run knows both
hashes of its own persons and so finds them in such files, too.
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
from privacy_release.workarea.parquet import private_parquet, read_private, unchanged_batches
from privacy_release.workarea.references import NumberedRef, PeopleRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema

DEFAULT_KEY = "membership_default"  # an Airflow connection
VARIABLE = "PRIVACY_MEMBERSHIP_KEY"
WRITTEN = "as written"  # the form of identifiers in stored files that name none
_SHORTEST = 32
_PERSON = "person"
_TEXT, _READ = "as written", "normal form"


@dataclass(frozen=True, kw_only=True)
class Identification:
    """Which column identifies a person, and the key of the hash that stands for them.

    Raises:
        SpecError: if the key is too short to be a secret.
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
        """Tells two keys apart, and nothing about either."""
        return self._hash("which key this is", size=8)

    def person(self, text: str) -> str:
        """What stands for the person of an identifier."""
        return self._hash(f"person {text}", size=16)

    def salt(self, text: str) -> str:
        """The key of the marks of a person's values, see `privacy_release.steps.memberships.marks`."""
        return self._hash(f"salt of {text}", size=32)

    @property
    def numbering(self) -> bytes:
        """The key by which a person has the same number in every run."""
        return bytes.fromhex(self._hash("numbers of persons", size=32))

    def _hash(self, text: str, size: int) -> str:
        key = hashlib.sha256(self.key.encode()).digest()
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=size).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """By what persons have the same number in every run.

    Attributes:
        key_id: of the key.
        form: of the identifiers that are numbered, `FORM` or `WRITTEN`.
        spellings: (2, s) int64, ascending: the number of each text that is not in its normal form, as it is
            written, and of its normal form.
    """

    key_id: str
    form: str = FORM
    spellings: "npt.NDArray[np.int64] | None" = None

    @classmethod
    def of(cls, numbered: NumberedRef) -> "Numbering":
        """That of a table.

        Raises:
            IntegrityError: if the file is missing or changed.
        """
        import numpy as np

        found = read_private(numbered.uri, numbered.sha256)
        spellings = np.stack([found[name].to_numpy(dtype="int64") for name in (_TEXT, _READ)])
        return cls(key_id=numbered.key, form=numbered.form, spellings=spellings)

    def of_stored(self, numbers: "npt.NDArray[np.int64]", form: str, of: str) -> "npt.NDArray[np.int64]":
        """The numbers that stored ones of a form have here; who is not in this table keeps their number.

        Args:
            numbers: (p,) as they are stored.
            form: of the identifiers that they are numbers of.
            of: what they belong to, for the error.

        Raises:
            VerificationError: as `require_form`.
        """
        import numpy as np

        require_form(form, self.form, of)
        if form == self.form or self.spellings is None or not self.spellings.size:
            return numbers
        written, read = self.spellings
        places = np.minimum(np.searchsorted(written, numbers), len(written) - 1)
        return np.where(written[places] == numbers, read[places], numbers)


def write_numbered(key_id: str, form: str, spellings: "npt.NDArray[np.int64]", path: Path) -> NumberedRef:
    """Write by what the persons of a table are numbered; arguments as the attributes of `Numbering`."""
    import pyarrow as pa

    with private_parquet(path) as file:
        file.write(pa.table({_TEXT: spellings[0], _READ: spellings[1]}))
    return NumberedRef(uri=str(path), sha256=file.sha256, key=key_id, form=form)


def require_form(stored: str, form: str, of: str) -> None:
    """Refuse stored persons who cannot be found by the form that distinguishes persons now.

    Raises:
        VerificationError: if they were stored by another form than this one or `WRITTEN`.
    """
    if stored not in (form, WRITTEN):
        raise VerificationError(
            f"the persons of {of} are stored by the form `{stored}` of their identifiers, and are "
            f"distinguished by `{form}` now, so they cannot be recognised; bring back `exact` as the schema "
            "had it, or the version of this package"
        )


def identification_of_environment(column: str) -> Identification:
    """The identification by a column with the key in `$PRIVACY_MEMBERSHIP_KEY`, for runs without Airflow.

    Raises:
        SpecError: if it is not set or too short.
        SecretError: as `secret`.
    """
    return Identification(column=column, key=secret(VARIABLE) or "")


def write_people(persons: "npt.NDArray[np.integer[Any]]", path: Path, of: str) -> PeopleRef:
    """Write whose record each released one is, in their order.

    Args:
        persons: (n,) integer.
        path: of the file.
        of: sha256 of the released records.
    """
    with private_parquet(path) as file:
        file.write(people_table(persons))
    return PeopleRef(uri=str(path), sha256=file.sha256, of=of)


def people_table(persons: Any) -> "pa.Table":
    """Persons (n,) as records of such a file."""
    import pyarrow as pa

    return pa.table({_PERSON: persons}).cast(pa.schema([(_PERSON, pa.int64())]))


@contextmanager
def counted_by_person(
    uri: str, sha256: str, people: PeopleRef | None, schema: "DataSchema"
) -> Iterator[list[str] | None]:
    """The quasi-identifiers and sensitive attributes of a release, and whose record each is, in a file.

    It stands beside the release until the block ends. None where each record counts as a person. Where rows
    are linked, the release tells whose each is; the file has its pseudonyms and the persons, to compare them.

    Args:
        uri: of the released records.
        sha256: of the same.
        people: the file of their persons.
        schema: of the released records; the persons' column has the name that it gives.

    Raises:
        IntegrityError: if a file is missing or changed, or the persons are not those of these records, or are
            not known although rows are linked.
    """
    if schema.linked and people is None:
        raise IntegrityError(
            "the persons of linked rows must stand beside the staged records, to be held against their "
            "pseudonyms; run the release again"
        )
    if not schema.by or people is None:
        yield None
        return
    if people.of != sha256:
        raise IntegrityError(
            f"{Path(people.uri).name} must tell the persons of the staged records, it is of others; run "
            "the release again"
        )
    path = Path(uri).with_name(f"{Path(uri).stem}.by_person.parquet")
    try:
        _write_pairs(path, uri, sha256, people, schema)
        yield [str(path)]
    finally:
        path.unlink(missing_ok=True)


def _write_pairs(path: Path, uri: str, sha256: str, people: PeopleRef, schema: "DataSchema") -> None:
    """Both files as one, batch by batch."""
    import pyarrow as pa

    from privacy_engine.engines.checking import PERSON, PSEUDONYM

    names = [a.name for a in (*schema.quasi_identifiers, *schema.sensitive)]
    told = [*names, schema.by]
    if schema.linked:
        names, told = [schema.by], [PSEUDONYM, PERSON]
    persons = unchanged_batches(people.uri, people.sha256)
    with private_parquet(path) as file:
        for batch in unchanged_batches(uri, sha256, names):
            own = next(persons, None)
            if own is None or len(own) != len(batch):
                raise _other_length()
            columns = [*(batch.column(name) for name in names), own.column(_PERSON)]
            file.write(pa.table(columns, names=told))
        if next(persons, None) is not None:
            raise _other_length()


def _other_length() -> IntegrityError:
    return IntegrityError("there must be one person for each released record; run the release again")
