"""Who is who: keyed hashes of persons, and whose records were released, to be counted in one table with them.

The persons never leave the work area. The file says which bytes it belongs to: persons of other records, or
in another order, would make a class look as if it had more of them.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.work.parquet import private_parquet, unchanged_batches
from privacy_release.work.references import PeopleRef
from privacy_release.work.settings import secret

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema

DEFAULT_KEY = "membership_default"  # an Airflow connection
VARIABLE = "PRIVACY_MEMBERSHIP_KEY"
_SHORTEST = 32
_PERSON = "person"


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

    @property
    def numbering(self) -> bytes:
        """The key by which a person has the same number in every run."""
        return bytes.fromhex(self._hash("numbers of persons", size=32))

    def _hash(self, text: str, size: int) -> str:
        key = hashlib.sha256(self.key.encode()).digest()
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=size).hexdigest()


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
    if people["of"] != sha256:
        raise IntegrityError(
            f"{Path(people['uri']).name} must tell the persons of the staged records, it is of others; run "
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
    persons = unchanged_batches(people["uri"], people["sha256"])
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
