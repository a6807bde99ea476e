"""The section `expectations` of a release file: a suite or a checkpoint of Great Expectations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo

from privacy_release.spec.sections.section import IncludeFile, Section, _existing_file


def _context_folder(value: str, info: ValidationInfo) -> str:
    return str(Path(_existing_file(f"{value}/great_expectations.yml", info)).parent)


class CheckpointSpec(Section):
    """A named Checkpoint of Great Expectations, whose suites are run with its actions.

    What it stores, draws and sends states which expectations were met, and nothing else about the records,
    whatever its result format.

    Attributes:
        context: Folder of a file context, with its `great_expectations.yml`.
        checkpoint: Name of the checkpoint in the context.
    """

    context: Annotated[str, Field(min_length=1), AfterValidator(_context_folder)]
    checkpoint: str = Field(min_length=1)


def _expectations_form(value: object) -> str:
    return "named_checkpoint" if isinstance(value, Mapping | CheckpointSpec) else "suite_file"


Expectations = Annotated[
    Annotated[IncludeFile, Tag("suite_file")] | Annotated[CheckpointSpec, Tag("named_checkpoint")],
    Discriminator(_expectations_form),
]


def suite_of(given: str | CheckpointSpec | None) -> str | dict[str, Any] | None:
    """Return a suite's file, or the name of a checkpoint, as plain values for `load_suite`."""
    return given.model_dump() if isinstance(given, CheckpointSpec) else given
