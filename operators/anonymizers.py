"""One operator per anonymizer: the parameters of its dataclass, by the same names and with the same defaults.

What a parameter does stands in the dataclass. All of them are template fields, so that they can be mapped
(`.partial(...).expand(k=[5, 10, 20])`), rendered (`k="{{ params.k }}"`) and seen in the UI.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from operators.guard import guarded
from operators.release import stage_release

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.steps import StagedRef, TableRef

Models = Sequence[Mapping[str, Any]]
SHARED = ("k", "l", "require", "suppression_limit", "intervals")


class AnonymizerOperator(BaseOperator):
    """What the operators below share; `ReleaseOperator` does the same by a method's name.

    Attributes:
        method: registry key.
        parameters: names of the method's parameters, each an attribute of the operator.
    """

    method: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = SHARED
    template_fields: Collection[str] = ("table", "seed", "title", *SHARED)
    template_fields_renderers = {"table": "json", "require": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.seed = seed
        self.title = title

    @guarded
    def execute(self, context: "Context") -> "StagedRef":
        """Stage a release; a reference to it."""
        parameters = {name: getattr(self, name) for name in self.parameters}
        return stage_release(self, context, method=self.method, parameters=parameters)


class MondrianOperator(AnonymizerOperator):
    """Mondrian, see `privacy_engine.anonymizers.mondrian.Mondrian`."""

    method = "mondrian"
    parameters = (*SHARED, "rule")
    template_fields = (*AnonymizerOperator.template_fields, "rule")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        k: int | str = 5,
        l: int | str | None = None,  # noqa: E741  the field's own symbol
        require: Models = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "text",
        rule: str = "least_loss",
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, seed=seed, title=title, **kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.rule = rule


class BottomUpOperator(AnonymizerOperator):
    """Bottom-up k-anonymity, see `privacy_engine.anonymizers.bottom_up.BottomUp`."""

    method = "bottom_up"
    parameters = (*SHARED, "sensitive", "reading", "price", "refine", "block_size")
    template_fields = (*AnonymizerOperator.template_fields, *parameters[len(SHARED) :])

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        k: int | str = 5,
        l: int | str | None = None,  # noqa: E741  the field's own symbol
        require: Models = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "text",
        sensitive: str | None = None,
        reading: str = "equal",
        price: str = "increase",
        refine: bool | str = True,
        block_size: int | str | None = 50_000,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, seed=seed, title=title, **kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.sensitive = sensitive
        self.reading = reading
        self.price = price
        self.refine = refine
        self.block_size = block_size


class ILPLDiversityOperator(AnonymizerOperator):
    """ILP-based l-diversity, see `privacy_engine.anonymizers.ilp_l_diversity.ILPLDiversity`."""

    method = "ilp_l_diversity"
    parameters = (
        *SHARED,
        *("sensitive", "repair", "reading", "utility", "price", "refine", "block_size"),
    )
    template_fields = (*AnonymizerOperator.template_fields, *parameters[len(SHARED) :])

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        k: int | str = 5,
        l: int | str = 3,  # noqa: E741  the field's own symbol
        require: Models = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "text",
        sensitive: str | None = None,
        repair: str = "merge",
        reading: str = "complement",
        utility: Sequence[Sequence[float]] | None = None,
        price: str = "increase",
        refine: bool | str = True,
        block_size: int | str | None = 50_000,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, seed=seed, title=title, **kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.sensitive = sensitive
        self.repair = repair
        self.reading = reading
        self.utility = utility
        self.price = price
        self.refine = refine
        self.block_size = block_size


class KACLUKOperator(AnonymizerOperator):
    """KACLUK, see `privacy_engine.anonymizers.kacluk.KACLUK`."""

    method = "kacluk"
    parameters = (*SHARED, "sensitive", "clusters", "refine")
    template_fields = (*AnonymizerOperator.template_fields, "sensitive", "clusters", "refine")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        k: int | str = 5,
        l: int | str | None = None,  # noqa: E741  the field's own symbol
        require: Models = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "text",
        sensitive: str | None = None,
        clusters: int | str = 3,
        refine: bool | str = False,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, seed=seed, title=title, **kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.sensitive = sensitive
        self.clusters = clusters
        self.refine = refine
