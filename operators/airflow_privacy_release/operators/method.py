"""The base class of all operators named after a method.

The operators themselves and a base for each family of methods are in `methods`, which `make docs` writes.
"""

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.operators.release import ReleaseOperator, ReleasingOperator
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.former import FORMER
from airflow_privacy_release.task.links import ReportLink
from privacy_release.workarea.references import StagedRelease, Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class MethodOperator(ReleasingOperator):
    """Make a release by one method and stage it. `ReleaseOperator` does the same for any method by name.

    For a class that names its `method`, `template_fields` and `parameters` are derived from the arguments of
    its `__init__` and those of its bases.

    Args:
        table: Reference to an ingested table.
        title: Heading of the report.
        requires: Outputs of further tasks that must have succeeded, as for `ReleaseOperator`.

    Attributes:
        method: Registry key of the method.
        parameters: Names of the method's parameters, each an attribute of the operator: all arguments except
            those that `ReleaseOperator` has for every method.
    """

    method: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    template_fields_renderers = ReleaseOperator.template_fields_renderers | {
        "require": "json",
        "levels": "json",
        "like": "json",
        "types": "json",
    }
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        title: str | None = None,
        requires: "Sequence[Table | XComArg] | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.title = title
        self.requires = requires

    def __init_subclass__(cls) -> None:
        """Derive the template fields and the names of the method's parameters."""
        super().__init_subclass__()
        if "method" in vars(cls):  # a user's subclass is not changed
            cls.template_fields = arguments = _arguments(cls)
            cls.parameters = tuple(n for n in arguments if n not in ReleaseOperator.template_fields)

    @recorded
    def execute(self, context: "Context") -> "StagedRelease":
        """Stage a release. Return a reference to it."""
        return self.stage(context, self.method, {name: getattr(self, name) for name in self.parameters})


def _arguments(operator: type[BaseOperator]) -> tuple[str, ...]:
    """Return the names of a class's own arguments, without Airflow's: base classes first, each name once."""
    names: dict[str, None] = {}
    for cls in reversed(operator.__mro__[: operator.__mro__.index(BaseOperator)]):
        if "__init__" in vars(cls):
            taken = inspect.signature(vars(cls)["__init__"]).parameters.values()
            own = (p for p in taken if p.kind is p.KEYWORD_ONLY and p.default is not FORMER)
            names |= dict.fromkeys(p.name for p in own)
    return tuple(names)
