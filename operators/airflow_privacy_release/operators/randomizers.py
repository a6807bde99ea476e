"""One operator per randomizer: the parameters of its dataclass, by the same names and with its defaults.

What a parameter does stands in the dataclass. All of them are template fields, as those of the anonymizers.
A release that is made on a schedule must be memoised, else its answers wear out by averaging: keep the one
identifier at ingest (`individual`), and name the connection of the secret.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.operators.release import memory_of, stage_release
from airflow_privacy_release.task.errors import guarded
from airflow_privacy_release.task.links import ReportLink
from privacy_release.spending.budget import DEFAULT_LEDGER

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.work.references import StagedRef, TableRef

SHARED = ("randomness", "individual")
TRANSFORMATION = ("a_mean", "a_variance", "b_mean", "b_variance")


class RandomizerOperator(BaseOperator):
    """What the operators below share; `ReleaseOperator` does the same by a method's name.

    Args:
        table: reference to an ingested table.
        randomness: `system`, `memoised` or `seeded` (not private).
        individual: the identifier that memoised answers go by, where the schema has several.
        secret: Airflow connection id whose password is the secret of memoised answers: 32 random bytes or
            more, the same in every release of a table.
        replaces: fingerprint of the earlier secret that is given up on purpose.
        series: release table that memoised answers will go to: with another secret than its last release they
            are refused before anything is booked. Publishing refuses them in any case.
        lake: Airflow connection id of the lake of that table.
        budget: data set whose privacy budget is spent; needed where the release makes a claim.
        ledger: Airflow connection id of the budget's ledger.
        seed: of seeded answers.
        title: of the report.

    Attributes:
        method: registry key.
        parameters: names of the method's parameters, each an attribute of the operator.
    """

    method: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = SHARED
    template_fields: Collection[str] = (
        *("table", "secret", "replaces", "series", "lake", "budget", "ledger", "seed", "title"),
        *SHARED,
    )
    template_fields_renderers = {"table": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f6ecd9"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        randomness: str = "system",
        individual: str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        budget: str | None = None,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.randomness = randomness
        self.individual = individual
        self.secret = secret
        self.replaces = replaces
        self.series = series
        self.lake = lake
        self.budget = budget
        self.ledger = ledger
        self.seed = seed
        self.title = title

    @guarded
    def execute(self, context: "Context") -> "StagedRef":
        """Stage a release; a reference to it."""
        return stage_release(
            self,
            context,
            method=self.method,
            parameters={name: getattr(self, name) for name in self.parameters},
            budget=self.budget,
            ledger=self.ledger,
            memory=memory_of(self),
        )


class ERRPHOperator(RandomizerOperator):
    """ERRPH, see `privacy_engine.randomizers.errph.ERRPH`; probabilities None are its default."""

    method = "errph"
    parameters = (*SHARED, "p_0", "epsilon", "probabilities")
    template_fields = (*RandomizerOperator.template_fields, "p_0", "epsilon", "probabilities")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        p_0: float | str | None = None,
        epsilon: float | str | None = None,
        probabilities: Mapping[str, Mapping[str, float]] | str | None = None,
        randomness: str = "system",
        individual: str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        budget: str | None = None,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table,
            randomness=randomness,
            individual=individual,
            secret=secret,
            replaces=replaces,
            series=series,
            lake=lake,
            budget=budget,
            ledger=ledger,
            seed=seed,
            title=title,
            **kwargs,
        )
        self.p_0 = p_0
        self.epsilon = epsilon
        self.probabilities = probabilities


class TRROperator(RandomizerOperator):
    """TRR, see `privacy_engine.randomizers.trr.TRR`; a release with a number makes no claim."""

    method = "trr"
    parameters = (*SHARED, *TRANSFORMATION, "p_0")
    template_fields = (*RandomizerOperator.template_fields, *TRANSFORMATION, "p_0")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        a_mean: float | str = 1.0,
        a_variance: float | str = 1.0,
        b_mean: float | str = 0.0,
        b_variance: float | str = 1.0,
        p_0: float | str = 0.5,
        randomness: str = "system",
        individual: str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        budget: str | None = None,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table,
            randomness=randomness,
            individual=individual,
            secret=secret,
            replaces=replaces,
            series=series,
            lake=lake,
            budget=budget,
            ledger=ledger,
            seed=seed,
            title=title,
            **kwargs,
        )
        self.a_mean = a_mean
        self.a_variance = a_variance
        self.b_mean = b_mean
        self.b_variance = b_variance
        self.p_0 = p_0


class LocalLaplaceOperator(RandomizerOperator):
    """Local Laplace noise, see `privacy_engine.randomizers.local_laplace.LocalLaplace`."""

    method = "local_laplace"
    parameters = (*SHARED, "epsilon", "steps")
    template_fields = (*RandomizerOperator.template_fields, "epsilon", "steps")

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        epsilon: float | str = 1.0,
        steps: int | str = 128,
        randomness: str = "system",
        individual: str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        budget: str | None = None,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        title: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table,
            randomness=randomness,
            individual=individual,
            secret=secret,
            replaces=replaces,
            series=series,
            lake=lake,
            budget=budget,
            ledger=ledger,
            seed=seed,
            title=title,
            **kwargs,
        )
        self.epsilon = epsilon
        self.steps = steps
