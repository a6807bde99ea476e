"""One operator per anonymizer: the parameters of its dataclass, by the same names and with the same defaults.

What a parameter does stands in the dataclass. All of them are template fields, so that they can be mapped
(`.partial(...).expand(k=[5, 10, 20])`), rendered (`k="{{ params.k }}"`) and seen in the UI.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.operators.release import stage_release
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.links import ReportLink

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import StagedRef, TableRef

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
    operator_extra_links = (ReportLink(),)

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


class OBPAOperator(AnonymizerOperator):
    """OBPA, see `privacy_engine.anonymizers.obpa.OBPA`; weights None are its default, none."""

    method = "obpa"
    parameters = (
        *SHARED,
        "weights",
        "order",
        "distance",
        "cut",
        "outliers",
        "outlier_share",
        "model",
        "min_samples",
        "refine",
        "block_size",
    )
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
        weights: Mapping[str, float] | str | None = None,
        order: str = "optics",
        distance: str | None = None,
        cut: str = "exact",
        outliers: str = "assign",
        outlier_share: float | str = 0.0,
        model: str = "generalization",
        min_samples: int | str = 4,
        refine: bool | str = True,
        block_size: int | str | None = 32_000,
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
        self.weights = weights
        self.order = order
        self.distance = distance
        self.cut = cut
        self.outliers = outliers
        self.outlier_share = outlier_share
        self.model = model
        self.min_samples = min_samples
        self.refine = refine
        self.block_size = block_size


class DSAEDOperator(AnonymizerOperator):
    """DSAED, see `privacy_engine.anonymizers.dsaed.DSAED`."""

    method = "dsaed"
    parameters = (*SHARED, "min_samples", "eps_quantile", "model", "block_size")
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
        min_samples: int | str | None = None,
        eps_quantile: float | str = 0.5,
        model: str = "generalization",
        block_size: int | str | None = 32_000,
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
        self.min_samples = min_samples
        self.eps_quantile = eps_quantile
        self.model = model
        self.block_size = block_size


class RFKAOperator(AnonymizerOperator):
    """RFKA, see `privacy_engine.anonymizers.rfka.RFKA`."""

    method = "rfka"
    parameters = (*SHARED, "target", "bins", "one_hot", "generalize", "order", "trees")
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
        target: str | None = None,
        bins: int | str = 5,
        one_hot: bool | str = True,
        generalize: bool | str = True,
        order: str = "worth",
        trees: int | str = 1000,
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
        self.target = target
        self.bins = bins
        self.one_hot = one_hot
        self.generalize = generalize
        self.order = order
        self.trees = trees


class GreedyHamdistOperator(AnonymizerOperator):
    """Greedy_Hamdist, see `privacy_engine.anonymizers.greedy_hamdist.GreedyHamdist`."""

    method = "greedy_hamdist"
    parameters = (*SHARED, "target", "bins", "one_hot", "generalize", "order")
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
        target: str | None = None,
        bins: int | str = 5,
        one_hot: bool | str = True,
        generalize: bool | str = True,
        order: str = "worth",
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
        self.target = target
        self.bins = bins
        self.one_hot = one_hot
        self.generalize = generalize
        self.order = order
