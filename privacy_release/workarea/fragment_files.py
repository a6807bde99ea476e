"""The private files of a release in fragments: how the table was cut, and what each part gave.

Both are as private as the table: the cuts name its values, and the accounts hold exact counts of it. So they
stay in the work area, and only their addresses and hashes travel.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from privacy_engine.errors import IntegrityError
from privacy_release.manifest.manifest import Claims
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.references import FileRef, Table

if TYPE_CHECKING:
    from privacy_engine.fragments.figures import FragmentFigures
    from privacy_engine.fragments.plan import FragmentPlan
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a table was cut into fragments, and what is to be done with each.

    Attributes:
        table: that was cut; `engine` is in it.
        method, parameters: of the release.
        seeded: whether its random choices can be repeated.
    """

    table: Table
    plan: "FragmentPlan"
    method: str
    parameters: Mapping[str, Any]
    seeded: bool


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a fragment gave: public facts, schema of the released records, and exact figures of the source."""

    claims: Claims
    schema: "DataSchema"
    figures: "FragmentFigures"


class PrivateFiles(Protocol):
    """Where the files of a cut table are; it can be pickled, and works wherever a fragment is worked on."""

    def read(self, ref: FileRef) -> bytes:
        """A file, if its bytes are the recorded ones.

        Raises:
            IntegrityError: if it is missing or changed.
        """

    def write(self, name: str, data: bytes) -> FileRef:
        """Keep a file, whole or not at all."""


@dataclass(frozen=True)
class FilesHere:
    """Files of this machine, or of a folder that all share; new ones come to lie in `folder`."""

    folder: Path

    @classmethod
    def beside(cls, ref: FileRef) -> "FilesHere":
        """The folder of a file."""
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


def write_cut(cut: Cut, path: Path) -> FileRef:
    """Write a plan to the work area."""
    fields = {
        "table": cut.table.to_ref(),
        "plan": cut.plan.to_dict(),
        "method": cut.method,
        "parameters": dict(cut.parameters),
        "seeded": cut.seeded,
    }
    return FileRef(uri=str(path), sha256=write_private(path, _bytes(fields)))


def read_cut(ref: FileRef, files: PrivateFiles | None = None) -> Cut:
    """A plan of the work area.

    Args:
        ref: to it.
        files: where it is; None: here.

    Raises:
        IntegrityError: if it is missing or changed.
    """
    from privacy_engine.fragments.plan import FragmentPlan

    fields = json.loads((files or FilesHere.beside(ref)).read(ref))
    table, plan = Table.from_ref(fields["table"]), FragmentPlan.from_dict(fields["plan"])
    return Cut(**fields | {"table": table, "plan": plan})


def account_bytes(account: Account) -> bytes:
    """What a fragment gave, as the bytes of a file; equal accounts give equal bytes."""
    fields = {
        "told": account.claims.to_dict(),
        "schema": account.schema.to_dict(),
        "figures": account.figures.to_dict(),
    }
    return _bytes(fields)


def read_account(ref: FileRef) -> Account:
    """What a fragment gave.

    Raises:
        IntegrityError: if the file is missing or changed.
    """
    from privacy_engine.fragments.figures import FragmentFigures
    from privacy_engine.tables.schema import DataSchema

    fields = json.loads(FilesHere.beside(ref).read(ref))
    return Account(
        claims=Claims.from_dict(fields["told"]),
        schema=DataSchema.from_dict(fields["schema"]),
        figures=FragmentFigures.from_dict(fields["figures"]),
    )


def _bytes(fields: Mapping[str, Any]) -> bytes:
    """As JSON in the order of the fields: that of a schema's attributes is the order of the columns."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode()
