"""The section `schedule` of a release file."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Discriminator, Field, Tag, model_validator

from privacy_release.spec.fields import Cron
from privacy_release.spec.sections.section import Name, Section


class ScheduleSpec(Section):
    """A schedule by upstream assets or by partition. Exactly one of the fields must be set.

    Attributes:
        asset: Name of the release whose publication starts a run.
        assets: Names of several releases, all of which must have been published again.
        partitions: Cron expression. Each of its times is a partition, with a separate release.
    """

    asset: Name | None = None
    assets: tuple[Name, ...] | None = Field(default=None, min_length=1)
    partitions: Cron | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1 or None in (getattr(self, name) for name in self.model_fields_set):
            raise ValueError("must have exactly one of asset, assets, partitions")
        return self

    @property
    def upstream(self) -> tuple[str, ...]:
        """Names of the releases whose assets are awaited. Empty for a schedule by partition."""
        return (self.asset,) if self.asset else self.assets or ()


def _schedule_form(value: object) -> str:
    return "event" if isinstance(value, Mapping | ScheduleSpec) else "cron"


ScheduleField = Annotated[
    Annotated[Cron, Tag("cron")] | Annotated[ScheduleSpec, Tag("event")], Discriminator(_schedule_form)
]
