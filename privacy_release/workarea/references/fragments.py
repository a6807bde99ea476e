"""The records of one fragment of a table, before and after their release."""

from dataclasses import dataclass

from privacy_release.workarea.references.files import FileRef, Stored
from privacy_release.workarea.references.reference import Reference


@dataclass(frozen=True, kw_only=True)
class FragmentRef(Stored, Reference):
    """The ingested records of one fragment in the work area.

    Attributes:
        fragment: Number of the fragment, from 0.
        plan: File of the cut and the release method: `fragment_files.Cut`.
        past: File of its part of the earlier releases, if people are followed and there are any.
    """

    uri: str
    rows: int
    sha256: str
    fragment: int
    plan: FileRef
    past: FileRef | None = None


@dataclass(frozen=True, kw_only=True)
class FragmentReleaseRef(Stored, Reference):
    """The released records of one fragment in the work area.

    Attributes:
        fragment, plan: Number of the fragment and file of the cut, as in `FragmentRef`.
        account: File of facts about them: `fragment_files.Account`.
        seconds: Duration of the method in seconds.
    """

    uri: str
    rows: int
    sha256: str
    fragment: int
    plan: FileRef
    account: FileRef
    seconds: float
