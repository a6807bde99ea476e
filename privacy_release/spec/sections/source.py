"""The section `source` of a release file: where the records are, and how long a run waits for them."""

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from privacy_release.spec.fields import Connection, Time, Whole
from privacy_release.spec.placeholders import check_placeholders, check_query
from privacy_release.spec.sections.section import Duration, Section
from privacy_release.workarea.parquet import MAX_EXPANSION

RELEASE = "{release}"  # placeholder of the release ID in the address of a source


class WaitSpec(Section):
    """How long a run waits for late files, and how often it checks.

    Attributes:
        timeout: Longest wait. After it, the run fails.
        every: Time between two checks.
    """

    timeout: Duration = "1 day"
    every: Duration = "5 minutes"


class SourceSpec(Section):
    """The source of the records: Parquet files, a version of a table, or a query of a database.

    Attributes:
        uri: Parquet file, folder or glob, or the folder of a table, as a path or address. A relative path
            is relative to the folder that contains `releases/`. `{release}` in it is replaced by the release
            ID: the partition key of the run, or else its run ID. `{release:%Y-%m-%d}` is replaced by the date
            of the release: that of its partition key, or else its logical date; on the command line, the
            release ID must be a date.
        sql: SELECT that the database of `connection` answers, instead of `uri`. `{release}` and
            `{release:%Y-%m-%d}` in it are bound as parameters, never pasted into the text.
        connection: Airflow connection ID of the object store or database. On the command line, the variable
            $PRIVACY_SOURCE_<ID> has the address of a database.
        format: Format at the address: `parquet` files, a `delta` table, or an `iceberg` table, see
            `privacy_release.sources.versions`.
        version, timestamp: Version of a table: its number (for Iceberg, of a snapshot), or a time whose
            newest version is read. Without both, the newest version is read. The manifest records the
            version.
        columns: Columns to read, none of them derived. None reads all, and then each must be in the schema.
        nulls: `fail` raises on a null in a quasi-identifier or sensitive attribute that is not nullable,
            `drop` drops these records, `keep` treats null as a value, as if each attribute were `nullable`.
        when_missing: Action of a run if there is no Parquet file at the address (yet), or the query returns
            no row (yet): `fail`; `skip`, which skips this release; or `wait` for it.
        wait: How long to wait.
        max_expansion: Largest ratio of bytes in memory to bytes in a file. A small file that expands further,
            beyond a GiB, is refused as a Parquet bomb.
        sha256: Required SHA-256 of the Parquet file, as `sha256sum` prints it. For several files, their
            fingerprint, which the report of a release shows. Other files are refused.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["uri"]}, {"required": ["sql", "connection"]}]}
    )

    uri: str | None = Field(default=None, min_length=1)
    sql: str | None = Field(default=None, min_length=1)
    connection: Connection | None = None
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    version: Whole | None = Field(default=None, ge=0)
    timestamp: Time | None = None
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    nulls: Literal["fail", "drop", "keep"] = "fail"
    when_missing: Literal["fail", "skip", "wait"] = "fail"
    wait: WaitSpec | None = None
    max_expansion: Whole = Field(default=MAX_EXPANSION, ge=1)
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.uri is None) == (self.sql is None):
            raise ValueError("source must have a uri, or a sql with its connection; set one of both")
        if self.sql is not None and self.connection is None:
            raise ValueError("source.sql requires the connection of its database; add it")
        if self.format != "parquet" and self.when_missing != "fail":
            raise ValueError("source.when_missing is about Parquet files and queries; remove it")
        if self.format != "parquet" and self.sql is not None:
            raise ValueError("source.format only applies to an address; remove it, or sql")
        given = [name for name in ("version", "timestamp") if getattr(self, name) is not None]
        if given and (self.format == "parquet" or len(given) > 1):
            raise ValueError(
                f"source.{' and '.join(given)}: one of both may be set with format: delta or iceberg, and "
                "neither otherwise; correct it"
            )
        if self.wait is not None and self.when_missing != "wait":
            raise ValueError("source.wait requires when_missing: wait; add it, or remove wait")
        if self.sha256 is not None and (self.uri is None or self.format != "parquet" or "{" in self.uri):
            raise ValueError(
                "source.sha256 requires Parquet files at one address without {release}; remove it"
            )
        check_placeholders(self.place)
        if self.sql is not None:
            check_query(self.sql)
        return self

    @property
    def place(self) -> str:
        """The address, or the query."""
        return self.uri or self.sql or ""

    @property
    def waits(self) -> WaitSpec:
        """How long to wait."""
        return self.wait or WaitSpec()
