"""What travels between the steps of a release: addresses, counts and hashes, never records."""

from typing import Any, NotRequired, TypedDict


class SourceRef(TypedDict):
    """Where records came from.

    Attributes:
        files: how many.
        fingerprint: changes with the data.
        rows: in the source, dropped ones included.
        dropped: left out because of nulls.
        identifiers: columns that stayed in the source.
        note: what a sample table is; only for samples.
    """

    uri: str
    files: int
    fingerprint: str
    rows: int
    dropped: int
    identifiers: list[str]
    note: NotRequired[str]


class TableRef(TypedDict):
    """A table in the work area; `schema` is the path of its schema, as JSON."""

    uri: str
    rows: int
    sha256: str
    schema: str
    source: SourceRef


class StagedRef(TableRef):
    """A release in the work area; `schema` is of the released columns."""

    manifest: str
    report: str
    method: str
    guarantees: list[dict[str, Any]]
    loss: dict[str, Any] | None
    figures: dict[str, float]


class ReportRef(TypedDict):
    """What verification found; `sha256` is of the very bytes that were read."""

    passed: bool
    sha256: str
    rows: int
    classes: int
    findings: list[dict[str, Any]]
    policy: dict[str, Any]


class Published(TypedDict):
    """Where a release is."""

    release: str
    table: str
    lake: str
    version: int
    already: bool
    manifest: str
    report: str
    rows: int
