"""The sections `person` and `public_register` of a release file."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from privacy_release.spec.fields import Connection
from privacy_release.spec.placeholders import check_placeholders
from privacy_release.spec.sections.section import Section
from privacy_release.workarea.parquet import how_to_convert


class PersonSpec(Section):
    """The person of a row: a column, or a reason why each row is of another person.

    Attributes:
        column: Identifier that names the person of a row. A person may have several rows.
        none: Reason why each row is of another person although an identifier repeats. It goes into the
            manifest.
        rows: `linked` releases a random pseudonym in the column, so that classes consist of all rows of a
            person together.
    """

    column: str | None = Field(default=None, min_length=1)
    none: str | None = Field(default=None, min_length=1)
    rows: Literal["independent", "linked"] = "independent"

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.column is None) == (self.none is None):
            raise ValueError("person must have a column, or the reason why there is none; set one of both")
        if self.rows == "linked" and self.column is None:
            raise ValueError("person.rows can only be linked if person.column names the person of each row")
        return self


def _person_of_column(value: object) -> object:
    if value == "none":
        raise ValueError("person: none needs a reason; write `person: {none: <reason>}`")
    return {"column": value} if isinstance(value, str) else value


PersonField = Annotated[PersonSpec, BeforeValidator(_person_of_column)]


class RegisterSpec(Section):
    """Public records of the whole population, which attackers may use.

    The attack `linkage` tries to name people with them. The attacker `population` of the policy model
    `republication` knows them for each release.

    Attributes:
        uri: Parquet file, folder or glob, like the `uri` of a source.
        connection: Airflow connection ID of the object store.
        columns: Quasi-identifiers in the register, with the names and forms of the schema.
        identifier: Column that identifies a person, the same as `history.identifier`, for the attacker
            `population`. None: the register is only for `linkage`. Only a keyed hash of it is kept.
    """

    uri: str = Field(min_length=1)
    connection: Connection | None = None
    columns: tuple[str, ...] = Field(min_length=1)
    identifier: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _address(self) -> Self:
        check_placeholders(self.uri)
        if how := how_to_convert(self.uri):
            raise ValueError(f"public_register.uri must be of Parquet files, got CSV; {how}")
        return self
