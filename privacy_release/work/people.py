"""Whose records were released, in a private file beside them, and both read as one table to be counted.

The persons never leave the work area. The file says which bytes it belongs to: persons of other records, or
in another order, would make a class look as if it had more of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError
from privacy_release.work.parquet import private_parquet, unchanged_batches
from privacy_release.work.references import PeopleRef

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from privacy_engine.tables.schema import DataSchema

_PERSON = "person"


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
