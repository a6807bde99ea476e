"""The private files of a release in fragments: the cut of the table, and the result of each fragment.

Both are as private as the table: the cuts contain values of it, and the accounts contain exact counts. So
they stay in the work area, and only their addresses and hashes are passed on.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from privacy_engine.errors import IntegrityError
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_release.manifest.manifest import Claims
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import FileRef, Table

if TYPE_CHECKING:
    from privacy_engine.fragments.figures import FragmentFigures
    from privacy_engine.fragments.plan import FragmentPlan
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Followed:
    """The facts about people who are followed over the releases of a table that is cut.

    Attributes:
        versions: Earlier versions of the release table.
        guarantee: Guarantee over all releases.
        across: Models that must hold over all releases, as plain values.
        records: Records of the table, each with its position, its person and the person's region.
        people: Person and region of each record of the table, and then of each record of the last release.
        pasts: Part of the earlier releases that belongs to each fragment. Empty if there are none.
    """

    versions: tuple[int, ...]
    guarantee: RepublicationGuarantee
    across: tuple[Mapping[str, Any], ...]
    records: FileRef
    people: FileRef
    pasts: Mapping[int, FileRef]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `from_dict`."""
        return {
            "versions": list(self.versions),
            "kept": self.guarantee.to_dict(),
            "across": list(self.across),
            "records": self.records.to_ref(),
            "people": self.people.to_ref(),
            "pasts": {str(fragment): ref.to_ref() for fragment, ref in self.pasts.items()},
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Followed":
        """Read the output of `to_dict`."""
        return cls(
            versions=tuple(given["versions"]),
            guarantee=RepublicationGuarantee.from_dict(given["kept"]),
            across=tuple(given["across"]),
            records=FileRef.from_ref(given["records"]),
            people=FileRef.from_ref(given["people"]),
            pasts={int(fragment): FileRef.from_ref(ref) for fragment, ref in given["pasts"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class FragmentCut:
    """The cut of a table into fragments, and the release method for each.

    Attributes:
        table: Table that was cut, including its `engine`.
        method, parameters: Registry key and parameters of the release method.
        seeded: Whether the random choices can be repeated.
        followed: Facts about people who are followed. None: they are not.
    """

    table: Table
    plan: "FragmentPlan"
    method: str
    parameters: Mapping[str, Any]
    seeded: bool
    followed: Followed | None = None


@dataclass(frozen=True, kw_only=True)
class FragmentResult:
    """The result of a fragment: public facts, schema of the released records, exact figures of the source."""

    claims: Claims
    schema: "DataSchema"
    figures: "FragmentFigures"


class PrivateFiles(Protocol):
    """Access to the files of a cut table. It can be pickled, and works wherever a fragment is processed."""

    def read(self, ref: FileRef) -> bytes:
        """Read a file, if its bytes are the recorded ones.

        Raises:
            IntegrityError: If the file is missing or changed.
        """

    def write(self, name: str, data: bytes) -> FileRef:
        """Write a file atomically."""


@dataclass(frozen=True)
class FilesHere:
    """Files of this machine, or of a shared folder. New files are written to `folder`."""

    folder: Path

    @classmethod
    def beside(cls, ref: FileRef) -> "FilesHere":
        """Return access to the folder of a file."""
        return cls(Path(ref.uri).parent)

    def read(self, ref: FileRef) -> bytes:
        """See `PrivateFiles`."""
        path = Path(ref.uri)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise IntegrityError(
                f"{path.name} must be in the work area, got {type(error).__name__}; cut the table again"
            ) from None
        found = hashlib.sha256(data).hexdigest()
        if found != ref.sha256:
            raise IntegrityError(
                f"{path.name} must have the recorded sha256 {ref.sha256}, got {found}: it changed between "
                "two steps; cut the table again"
            )
        return data

    def write(self, name: str, data: bytes) -> FileRef:
        """See `PrivateFiles`."""
        path = self.folder / name
        return FileRef(uri=str(path), sha256=write_private(path, data))


def write_cut(cut: FragmentCut, path: Path) -> FileRef:
    """Write a cut to the work area."""
    fields = {
        "table": cut.table.to_ref(),
        "plan": cut.plan.to_dict(),
        "method": cut.method,
        "parameters": dict(cut.parameters),
        "seeded": cut.seeded,
        "followed": None if cut.followed is None else cut.followed.to_dict(),
    }
    return FileRef(uri=str(path), sha256=write_private(path, _bytes(fields)))


def read_cut(ref: FileRef, files: PrivateFiles | None = None) -> FragmentCut:
    """Read a cut from the work area.

    Args:
        ref: Reference to the cut.
        files: Access to the file. None: it is on this machine.

    Raises:
        IntegrityError: If the file is missing or changed.
    """
    from privacy_engine.fragments.plan import FragmentPlan

    fields = json.loads((files or FilesHere.beside(ref)).read(ref))
    table, plan = Table.from_ref(fields["table"]), FragmentPlan.from_dict(fields["plan"])
    followed = None if fields["followed"] is None else Followed.from_dict(fields["followed"])
    return FragmentCut(**fields | {"table": table, "plan": plan, "followed": followed})


def account_bytes(account: FragmentResult) -> bytes:
    """Serialize the result of a fragment. Equal accounts give equal bytes."""
    fields = {
        "claims": account.claims.to_dict(),
        "schema": account.schema.to_dict(),
        "figures": account.figures.to_dict(),
    }
    return _bytes(fields)


def read_account(ref: FileRef) -> FragmentResult:
    """Read the result of a fragment.

    Raises:
        IntegrityError: If the file is missing or changed.
    """
    from privacy_engine.fragments.figures import FragmentFigures
    from privacy_engine.tables.schema import DataSchema

    fields = json.loads(FilesHere.beside(ref).read(ref))
    return FragmentResult(
        claims=Claims.from_dict(fields["claims"]),
        schema=DataSchema.from_dict(fields["schema"]),
        figures=FragmentFigures.from_dict(fields["figures"]),
    )


def _bytes(fields: Mapping[str, Any]) -> bytes:
    """Serialize as JSON in the order of the fields. The order of attributes is that of the columns."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
