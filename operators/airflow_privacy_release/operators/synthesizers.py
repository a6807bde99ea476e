"""One operator per synthesizer: the parameters of its dataclass, by the same names and with its defaults.

What a parameter does stands in the dataclass. All of them are template fields, as those of the anonymizers.
Each value of a parameter that shapes the measurement is a release of its own and spends its own epsilon:
`.expand(epsilon=[0.1, 0.2])` books 0.3. Other `rows` are drawn from the same model and cost nothing.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.operators.release import stage_release
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.links import ReportLink
from privacy_release.spending.budget import DEFAULT_LEDGER

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import StagedRef, TableRef

SHARED = ("epsilon", "rows", "levels")
NETWORK = ("structure_share", "degree", "theta", "cell_limit")
VIEWS = ("classes", "fits", "rounds", "width", "theta", "attribute_share", "selection_share")


class SynthesizerOperator(BaseOperator):
    """What the operators below share; `ReleaseOperator` does the same by a method's name.

    Args:
        table: reference to an ingested table.
        budget: data set whose privacy budget is spent.
        ledger: Airflow connection id of the budget's ledger.
        seed: chooses which records are sampled, never the noise; None derives it from the measured model.
        title: of the report.

    Attributes:
        method: registry key.
        parameters: names of the method's parameters, each an attribute of the operator.
    """

    method: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = SHARED
    template_fields: Collection[str] = ("table", "budget", "ledger", "seed", "title", *SHARED)
    template_fields_renderers = {"table": "json", "levels": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e3eefb"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        budget: str,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.budget = budget
        self.ledger = ledger
        self.seed = seed
        self.title = title

    @guarded
    def execute(self, context: "Context") -> "StagedRef":
        """Stage a release; a reference to it."""
        parameters = {name: getattr(self, name) for name in self.parameters}
        return stage_release(
            self,
            context,
            method=self.method,
            parameters=parameters,
            budget=self.budget,
            ledger=self.ledger,
        )


class PrivBayesOperator(SynthesizerOperator):
    """PrivBayes, see `privacy_engine.synthesizers.privbayes.PrivBayes`; levels None are its default."""

    method = "privbayes"
    parameters = (*SHARED, *NETWORK)
    template_fields = (*SynthesizerOperator.template_fields, *NETWORK)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        budget: str,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, budget=budget, ledger=ledger, seed=seed, title=title, **kwargs)
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class DPSMBayesOperator(SynthesizerOperator):
    """DPSM-Bayes, see `privacy_engine.synthesizers.dpsm_bayes.DPSMBayes`; levels None are its default."""

    method = "dpsm_bayes"
    parameters = (*SHARED, *NETWORK, "sampling", "post_process")
    template_fields = (*SynthesizerOperator.template_fields, *NETWORK, "sampling", "post_process")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        budget: str,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        sampling: str = "one",
        post_process: str = "threshold",
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, budget=budget, ledger=ledger, seed=seed, title=title, **kwargs)
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit
        self.sampling = sampling
        self.post_process = post_process


class PrivBayesROperator(SynthesizerOperator):
    """PrivBayes by the score R, see `privacy_engine.synthesizers.privbayes.PrivBayesR`; levels as above."""

    method = "privbayes_r"
    parameters = (*SHARED, *NETWORK)
    template_fields = (*SynthesizerOperator.template_fields, *NETWORK)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        budget: str,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        structure_share: float | str = 0.1,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, budget=budget, ledger=ledger, seed=seed, title=title, **kwargs)
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class LatentClassOperator(SynthesizerOperator):
    """Latent classes, see `privacy_engine.synthesizers.latent_class.LatentClass`; levels as above."""

    method = "latent_class"
    parameters = (*SHARED, *VIEWS)
    template_fields = (*SynthesizerOperator.template_fields, *VIEWS)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        budget: str,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        classes: int | str = 16,
        fits: int | str = 4,
        rounds: int | str | None = None,
        width: int | str = 5,
        theta: float | str = 3.0,
        attribute_share: float | str = 0.4,
        selection_share: float | str = 0.1,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, budget=budget, ledger=ledger, seed=seed, title=title, **kwargs)
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.classes = classes
        self.fits = fits
        self.rounds = rounds
        self.width = width
        self.theta = theta
        self.attribute_share = attribute_share
        self.selection_share = selection_share
