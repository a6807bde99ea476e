"""Private files in the work area, and those that hold keyed hashes of people."""

from dataclasses import dataclass

from privacy_release.workarea.references.reference import Reference


@dataclass(frozen=True, kw_only=True)
class FileRef(Reference):
    """A private file in the work area."""

    uri: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class KeyedRef(FileRef):
    """A private file of keyed hashes of identifiers.

    Attributes:
        key: ID of the key of the hashes.
        form: Form of an identifier that distinguishes persons, see `privacy_release.workarea.people`.
    """

    key: str
    form: str


@dataclass(frozen=True, kw_only=True)
class PersonsRef(KeyedRef):
    """The persons of a table's records, in order.

    Attributes:
        owners: Form of the identifiers of persons, if persons may have several records. The file then
            identifies records, and a person has the same number in every run.
    """

    owners: str | None = None

    @property
    def may_have_several_records(self) -> bool:
        """Whether a person may have several records, so that the file identifies records."""
        return self.owners is not None


@dataclass(frozen=True, kw_only=True)
class NumberedRef(KeyedRef):
    """The numbering of persons that is the same in every run, as a file of texts not in their normal form."""


@dataclass(frozen=True, kw_only=True)
class PeopleRef(FileRef):
    """The person of each released record. `of` is the SHA-256 of these records."""

    of: str
