"""Expectations that a table is k-anonymous, l-diverse or t-close. Importing this module registers them.

They judge what a released table shows: records that are equal in the quasi-identifiers form a class, null is
a value like others, order and index of the records do not matter. The models are those of
``privacy_engine.verification.models`` (Sweeney 2002; Machanavajjhala et al. 2006; Li et al. 2007), so an
expectation and the release policy never disagree. Results contain counts and the measured number, never a
value, in every result format. They run on pandas.

    import great_expectations as gx
    from privacy_release.expectations.table_expectations import ExpectTableToBeKAnonymous

    batch.validate(ExpectTableToBeKAnonymous(k=5, quasi_identifiers=["age", "zip"]))

Unlike all other modules of this package, this one imports Great Expectations at module level, because its
classes derive from it. That takes seconds, so no other module may import it outside of a function.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pandas as pd
from great_expectations.compatibility import pydantic
from great_expectations.core import ExpectationValidationResult
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine.execution_engine import ExecutionEngine
from great_expectations.execution_engine.pandas_execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation, render_suite_parameter_string
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType

from privacy_engine.errors import SchemaError
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.verification.models import (
    Distance,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PrivacyModel,
    RecursiveCLDiversity,
    TCloseness,
    holds,
)

CLASSES = "table.privacy.equivalence_classes"


class TableEquivalenceClasses(TableMetricProvider):
    """The classes of a batch, as integer labels and codes, shared by expectations on the same columns."""

    metric_name = CLASSES
    value_keys = ("quasi_identifiers", "sensitive", "distance")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805  the decorator of Great Expectations makes it a class method
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> EquivalenceClasses:
        table, _, _ = execution_engine.get_compute_domain(
            metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE
        )
        sensitive = metric_value_kwargs["sensitive"]
        return classes_of(
            table,
            list(metric_value_kwargs["quasi_identifiers"]),
            [] if sensitive is None else [sensitive],
            ordered=metric_value_kwargs["distance"] == Distance.ORDERED,
        )


def classes_of(
    table: pd.DataFrame, quasi_identifiers: list[str], sensitive: list[str], *, ordered: bool
) -> EquivalenceClasses:
    """Return the classes of a table.

    Args:
        table: Table with any index, shape (n, columns).
        quasi_identifiers: Columns that records of one class share.
        sensitive: Columns whose values are counted in each class.
        ordered: Whether the ranks of the sensitive values are needed. Null ranks last.

    Raises:
        SchemaError: If the table lacks a column, or a column has no order but needs one.
    """
    missing = [name for name in (*quasi_identifiers, *sensitive) if name not in table.columns]
    if missing:
        raise SchemaError(f"the table must have the columns {missing}; correct the table or the expectation")
    unordered = [name for name in sensitive if ordered and not has_order(table[name].dtype)]
    if unordered:  # text would be ranked alphabetically, and the measured distance would mean nothing
        raise SchemaError(
            "the ordered distance needs numbers, dates or an ordered categorical, "
            f"which columns {unordered} are not; use the equal distance or cast the column"
        )
    return EquivalenceClasses.of_columns(table, quasi_identifiers, sensitive)


def has_order(dtype: Any) -> bool:
    """Return whether the values of a column have an order."""
    if isinstance(dtype, pd.CategoricalDtype):
        return bool(dtype.ordered)
    kinds = (
        pd.api.types.is_numeric_dtype,
        pd.api.types.is_datetime64_any_dtype,
        pd.api.types.is_timedelta64_dtype,
    )
    return any(kind(dtype) for kind in kinds)


def judgement(model: PrivacyModel, classes: EquivalenceClasses) -> dict[str, Any]:
    """Return the result of a check for Great Expectations, in plain Python types.

    ``observed_value`` is the number of the worst class. None if it is not finite (no records; recursive
    diversity of a class with fewer than l values).
    """
    failing = model.violations(classes)
    measured = model.measure(classes)
    observed: float | None = measured if math.isfinite(measured) else None
    if observed is not None and isinstance(model, KAnonymity | DistinctLDiversity):
        observed = int(observed)
    details = {
        "classes": len(classes),
        "failing_classes": int(failing.sum()),
        "rows": len(classes.labels),
        "failing_rows": int(classes.sizes[failing].sum()),
    }
    return {"success": holds(model, classes), "result": {"observed_value": observed, "details": details}}


class PrivacyExpectation(BatchExpectation, ABC):
    """The common part of the three expectations. No row condition: the guarantee is about the whole table.

    Attributes:
        quasi_identifiers: Columns that an attacker may know. Records equal in all of them are a class.
    """

    quasi_identifiers: list[str] = pydantic.Field(min_items=1)

    metric_dependencies: ClassVar[tuple[str, ...]] = (CLASSES,)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    @abstractmethod
    def model(self) -> PrivacyModel:
        """The privacy model that must hold."""

    @classmethod
    @abstractmethod
    def wording(cls, kwargs: Mapping[str, Any]) -> str:
        """Return one sentence for readers. ``$name`` is replaced by an argument."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        return judgement(self.model(), metrics[CLASSES])

    @classmethod
    def _prescriptive_template(
        cls, renderer_configuration: RendererConfiguration[Any]
    ) -> RendererConfiguration[Any]:
        for name, text in _texts(renderer_configuration.kwargs).items():
            renderer_configuration.add_param(name=name, param_type=RendererValueType.STRING, value=text)
        renderer_configuration.template_str = cls.wording(renderer_configuration.kwargs)
        return renderer_configuration

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    @render_suite_parameter_string
    def _prescriptive_renderer(
        cls,
        configuration: ExpectationConfiguration | None = None,
        result: ExpectationValidationResult | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> list[RenderedStringTemplateContent]:
        found: RendererConfiguration[Any] = RendererConfiguration(
            configuration=configuration, result=result, runtime_configuration=runtime_configuration
        )
        template = {"template": cls.wording(found.kwargs), "params": _texts(found.kwargs), "styling": {}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


class ExpectTableToBeKAnonymous(PrivacyExpectation):
    """Every class has at least k records.

    Attributes:
        k: Smallest number of records in a class, at least 2.
    """

    k: int = pydantic.Field(ge=2)

    success_keys: ClassVar[tuple[str, ...]] = ("k", "quasi_identifiers")
    args_keys: ClassVar[tuple[str, ...]] = success_keys

    @pydantic.validator("k", pre=True)
    def _k_is_whole(cls, value: object) -> object:  # noqa: N805  pydantic's validators are class methods
        return whole(value)

    def model(self) -> PrivacyModel:
        """k-anonymity."""
        return KAnonymity(k=self.k)

    @classmethod
    def wording(cls, kwargs: Mapping[str, Any]) -> str:
        """Return one sentence for readers."""
        return "Must be k-anonymous: at least $k records share each combination of $quasi_identifiers."


class ExpectTableToBeLDiverse(PrivacyExpectation):
    """Every class has diverse sensitive values.

    Attributes:
        sensitive: Column that an attacker must not learn.
        diversity: ``distinct``: at least l values; ``entropy``: entropy of at least log l; ``recursive``:
            with the counts r_1 >= r_2 >= ... of a class, r_1 < c (r_l + r_(l+1) + ...).
        l: Diversity, above 1; whole unless it is measured as entropy.
        c: Factor of recursive diversity, above 0. Only for recursive diversity.
    """

    sensitive: str
    diversity: Literal["distinct", "entropy", "recursive"] = "distinct"
    l: int | float  # noqa: E741  the field's own symbol
    c: float | None = pydantic.Field(default=None, gt=0)

    success_keys: ClassVar[tuple[str, ...]] = ("l", "quasi_identifiers", "sensitive", "diversity", "c")
    args_keys: ClassVar[tuple[str, ...]] = success_keys

    @pydantic.validator("l")
    def _l_is_allowed(cls, value: float, values: dict[str, Any]) -> object:  # noqa: N805  as above
        if not value > 1:  # not as gt=1: with that pydantic reads int | float as int and cuts 2.5 to 2
            raise pydantic.errors.NumberNotGtError(limit_value=1)
        return value if values.get("diversity") == "entropy" else whole(value)

    @pydantic.validator("c", always=True)
    def _c_is_for_recursive(
        cls,  # noqa: N805  as above
        value: float | None,
        values: dict[str, Any],
    ) -> float | None:
        if values.get("diversity") == "recursive" and value is None:
            raise pydantic.errors.MissingError
        if values.get("diversity") in ("distinct", "entropy") and value is not None:
            raise pydantic.errors.ExtraError
        return value

    def model(self) -> PrivacyModel:
        """The chosen l-diversity."""
        if self.diversity == "entropy":
            return EntropyLDiversity(l=self.l, attribute=self.sensitive)
        if self.c is not None:
            return RecursiveCLDiversity(c=self.c, l=int(self.l), attribute=self.sensitive)
        return DistinctLDiversity(l=int(self.l), attribute=self.sensitive)

    @classmethod
    def wording(cls, kwargs: Mapping[str, Any]) -> str:
        """Return one sentence for readers."""
        kind = {"entropy": "entropy $l-diverse", "recursive": "recursive ($c, $l)-diverse"}
        must = kind.get(kwargs.get("diversity", "distinct"), "distinct $l-diverse")
        return f"Must be {must} in $sensitive, for each combination of $quasi_identifiers."


class ExpectTableToBeTClose(PrivacyExpectation):
    """The sensitive values of every class are distributed within t of the table's (earth mover's distance).

    Attributes:
        sensitive: Column that an attacker must not learn.
        t: Largest distance, 0 to 1.
        distance: ``equal``: every two values are 1 apart; ``ordered``: by rank, the ends 1 apart.
    """

    sensitive: str
    t: float = pydantic.Field(ge=0, le=1)
    distance: Literal["equal", "ordered"] = "equal"

    success_keys: ClassVar[tuple[str, ...]] = ("t", "quasi_identifiers", "sensitive", "distance")
    args_keys: ClassVar[tuple[str, ...]] = success_keys

    def model(self) -> PrivacyModel:
        """t-closeness."""
        return TCloseness(t=self.t, attribute=self.sensitive, distance=Distance(self.distance))

    @classmethod
    def wording(cls, kwargs: Mapping[str, Any]) -> str:
        """Return one sentence for readers."""
        distance = kwargs.get("distance", "equal")
        return (
            f"Must be t-close in $sensitive with t = $t ({distance} distance), "
            "for each combination of $quasi_identifiers."
        )


def whole(value: object) -> object:
    """Return a whole number. pydantic would cut 5.7 to 5, a weaker guarantee than requested."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise pydantic.errors.IntegerError
    return value


def _texts(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments that a sentence may name, as text."""
    names = ("k", "l", "c", "t", "sensitive")
    texts = {name: str(kwargs[name]) for name in names if kwargs.get(name) is not None}
    return texts | {"quasi_identifiers": ", ".join(kwargs["quasi_identifiers"])}
