"""The section `tables` of a release file: several tables that share a person."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from privacy_release.spec.files import load_suite
from privacy_release.spec.sections.attributes import AttributeSpec, check_read, fields_of
from privacy_release.spec.sections.expectations import Expectations, suite_of
from privacy_release.spec.sections.section import Section
from privacy_release.spec.sections.source import SourceSpec


class TableSpec(Section):
    """One of several tables that share a person.

    Attributes:
        attributes: Field `schema`, as for a release of one table. It includes the person.
        person: Column that names the person, if its name differs from that of the release.
        carry: Quasi-identifiers of another table with one row per person, whose released values are added to
            the rows of this one.
        expectations: File of its suite, or a checkpoint.
    """

    source: SourceSpec
    attributes: dict[str, AttributeSpec] = Field(alias="schema", min_length=1)
    person: Annotated[str, Field(min_length=1)] | None = None
    carry: tuple[str, ...] = ()
    expectations: Expectations | None = None

    @model_validator(mode="after")
    def _columns_have_roles(self) -> Self:
        check_read(self.source, self.attributes)
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for reading the table, as plain values for `IngestTablesOperator`."""
        source = self.source.model_dump(exclude_none=True, exclude={"columns", "when_missing", "format"})
        columns = {} if self.source.columns is None else {"columns": list(self.source.columns)}
        schema = fields_of(self.attributes, self.source)
        person = {} if self.person is None else {"person": self.person}
        return {**source, **columns, "schema": schema, **person, "carry": list(self.carry)}

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """The suite for `ValidateOperator`."""
        return suite_of(self.expectations)

    def suite(self) -> dict[str, Any] | None:
        """The Great Expectations suite, or the name of a checkpoint. None if the table has neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)
