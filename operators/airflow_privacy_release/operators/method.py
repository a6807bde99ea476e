"""What the operators named after a method share: one base for all, and one for each family of methods.

A base of a family has the parameters that all its methods take. The operators of the methods are in
`methods`, which `make docs` writes.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.operators.release import (
    ReleaseOperator,
    memory_of,
    past_of,
    require_policy,
    stage_release,
)
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.links import ReportLink
from privacy_release.spending.budget import DEFAULT_LEDGER
from privacy_release.work.references import StagedRelease, Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg


class MethodOperator(BaseOperator):
    """Make a release by one method and stage it; `ReleaseOperator` does the same by a method's name.

    For a class that names its `method`, `template_fields` and `parameters` are derived from the arguments of
    its `__init__` and those of its bases.

    Args:
        table: reference to an ingested table.
        title: of the report.
        requires: as of `ReleaseOperator`.

    Attributes:
        method: registry key.
        parameters: names of the method's parameters, each an attribute of the operator: all arguments but
            those that `ReleaseOperator` has for any method.
    """

    method: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    references: ClassVar = {"table": Table, "requires": list[Table]}
    template_fields_renderers = {"table": "json", "requires": "json"}  # noqa: RUF012  Airflow's own declaration
    operator_extra_links = (ReportLink(),)

    # What only some families take.
    seed: int | str | None = None
    budget: str | None = None
    policy: str | Mapping[str, Any] | None = None
    ledger: str = DEFAULT_LEDGER
    over_time: Mapping[str, Any] | None = None
    secret: str | None = None
    replaces: str | None = None
    series: str | None = None
    lake: str = DEFAULT_LAKE
    history: Mapping[str, Any] | None = None

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        title: str | None = None,
        requires: "Sequence[Table | XComArg] | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.title = title
        self.requires: Any = requires

    def __init_subclass__(cls) -> None:
        """Derive the template fields and the names of the method's parameters."""
        super().__init_subclass__()
        if "method" in vars(cls):  # a user's subclass is left as it is
            cls.template_fields = arguments = _arguments(cls)
            cls.parameters = tuple(n for n in arguments if n not in ReleaseOperator.template_fields)

    @recorded
    def execute(self, context: "Context") -> "StagedRelease":
        """Stage a release; a reference to it."""
        return stage_release(
            self,
            context,
            method=self.method,
            parameters={name: getattr(self, name) for name in self.parameters},
            budget=self.budget,
            policy=self.policy,
            ledger=self.ledger,
            over_time=self.over_time,
            memory=memory_of(self),
            past=past_of(self, context),
        )


class AnonymizerOperator(MethodOperator):
    """Recode the quasi-identifiers of each class of records alike, and stage the release.

    Every class has at least k persons, at least l distinct values of each sensitive attribute where l is
    given, and meets the models of `require`. Each record counts as a person unless the schema names one.

    Args:
        k: least number of persons in a class, >= 2.
        l: least number of distinct values of each sensitive attribute in a class; None = no such demand.
        require: further privacy models, as their dicts, that every class must satisfy.
        suppression_limit: largest share of records that may be suppressed, 0 .. 1. A record is suppressed
            only where its class saves more without it than it loses: more leave never gives more loss.
        intervals: how intervals are written: as two typed columns, `bounds`, both inside; as `text`; or by
            their `midpoint` alone.
        seed: of the random choices; None takes fresh entropy.
        history, series, lake: how people who are in earlier releases of the table `series`, too, are kept
            safe in all together, as of `ReleaseOperator`.
    """

    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "table": "json",
        "require": "json",
        "history": "json",
    }
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        k: int | str = 5,
        l: int | str | None = None,  # noqa: E741  the field's own symbol
        require: Sequence[Mapping[str, Any]] = (),
        suppression_limit: float | str = 0.0,
        intervals: str = "bounds",
        seed: int | str | None = None,
        history: Mapping[str, Any] | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.k = k
        self.l = l
        self.require = require
        self.suppression_limit = suppression_limit
        self.intervals = intervals
        self.seed = seed
        self.history = history
        self.series = series
        self.lake = lake


class SynthesizerOperator(MethodOperator):
    """Draw new records from a model that was measured with noise, and stage them as a release.

    The measurement is epsilon-differentially private: for one record replaced, their number public; where the
    schema names a `person`, for all rows of one replaced, the number of persons public. Epsilon is booked
    before any noise is drawn, and a retry on the same table costs nothing.

    Args:
        budget: data set whose privacy budget is spent.
        policy: as of `ReleaseOperator`.
        ledger: Airflow connection id of the budget's ledger.
        over_time: as of `ReleaseOperator`.
        series, lake: as of `ReleaseOperator`.
        epsilon: the whole privacy loss of a measurement, > 0; one record replaced, their number public; with
            `max_rows` or `weight`, all rows of one person.
        rows: how many records to draw; None = as many as the source has; with `max_rows` about as many as
            contributed, by a noisy count; with `weight` as many as there are persons.
        levels: attribute to the level of its hierarchy at which its values are told apart; the values
            themselves (level 0) where not named. Released values are leaves in any case.
        max_rows: where the schema names a person: most rows of one that are measured, >= 1, chosen at random.
        weight: instead, `person`: all rows of a person weigh one together. The records drawn are then like
            rows of the source that are found by first choosing a person, each alike, and then one of theirs.
        seed: chooses which records are sampled, never the noise; None derives it from the measured model.
    """

    template_fields_renderers = {"table": "json", "policy": "json", "levels": "json", "over_time": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e3eefb"

    def __init__(
        self,
        *,
        budget: str,
        policy: str | Mapping[str, Any],
        ledger: str = DEFAULT_LEDGER,
        over_time: Mapping[str, Any] | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        epsilon: float | str = 1.0,
        rows: int | str | None = None,
        levels: Mapping[str, int] | str | None = None,
        max_rows: int | str | None = None,
        weight: str | None = None,
        seed: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.budget = budget
        self.policy = policy
        self.ledger = ledger
        self.over_time = over_time
        self.series = series
        self.lake = lake
        self.epsilon = epsilon
        self.rows = rows
        self.levels = levels
        self.max_rows = max_rows
        self.weight = weight
        self.seed = seed


class RandomizerOperator(MethodOperator):
    """Answer for each individual and attribute at random, and stage the answers as a release.

    Quasi-identifiers and sensitive attributes are randomized, insensitive ones released as they are (then
    there is no claim for the whole record). Where a release makes a claim, it is local differential privacy:
    the epsilons of the attributes add up for a person.

    Args:
        randomness: where the bits come from. `system`: fresh in every release, so that releasing the same
            people again and again wears their protection away. `memoised`: the same answer while a value does
            not change; needs `secret`. `seeded`: from the seed, not private, and the manifest says so.
        individual: the identifier that memoised answers go by, where the schema has several.
        secret: Airflow connection id whose password is the secret of memoised answers: 32 random bytes or
            more, the same in every release of a table.
        replaces: fingerprint of the earlier secret that is given up on purpose.
        series: release table that memoised answers will go to: with another secret than its last release they
            are refused before anything is booked. Publishing refuses them in any case.
        lake: Airflow connection id of the lake of that table.
        budget: data set whose privacy budget is spent; needed where the release makes a claim.
        policy: as of `ReleaseOperator`; required where a budget is named.
        ledger: Airflow connection id of the budget's ledger.
        seed: of seeded answers.
    """

    ui_color = "#f6ecd9"

    def __init__(
        self,
        *,
        randomness: str = "system",
        individual: str | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        budget: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        ledger: str = DEFAULT_LEDGER,
        seed: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.randomness = randomness
        self.individual = individual
        self.secret = secret
        self.replaces = replaces
        self.series = series
        self.lake = lake
        self.budget = budget
        self.policy = policy
        require_policy(self.task_id, self.budget, self.policy)
        self.ledger = ledger
        self.seed = seed


def _arguments(operator: type[BaseOperator]) -> tuple[str, ...]:
    """Names of what a class takes beside Airflow's own: those of its bases first, each once."""
    names: dict[str, None] = {}
    for cls in reversed(operator.__mro__[: operator.__mro__.index(BaseOperator)]):
        if "__init__" in vars(cls):
            taken = inspect.signature(vars(cls)["__init__"]).parameters.values()
            names |= dict.fromkeys(p.name for p in taken if p.kind is p.KEYWORD_ONLY)
    return tuple(names)
