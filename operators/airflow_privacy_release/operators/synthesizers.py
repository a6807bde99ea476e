"""One operator per synthesizer: the parameters of its dataclass, by the same names and with its defaults.

Each class has its method's own parameters, `SynthesizerOperator` those that all methods have. All of them are
template fields, as those of the anonymizers. Each value of a parameter that shapes the measurement is a
release of its own and spends its own epsilon: `.expand(epsilon=[0.1, 0.2])` books 0.3. Other `rows` are drawn
from the same model and cost nothing.
"""

from collections.abc import Mapping
from typing import Any

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.operators.method import MethodOperator
from privacy_release.spending.budget import DEFAULT_LEDGER


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


class PrivBayesOperator(SynthesizerOperator):
    """Choose a Bayesian network by mutual information, and measure its tables with noise: the baseline.

    Guarantees epsilon-differential privacy, see `SynthesizerOperator`.

    Args:
        structure_share: part of epsilon that chooses the structure, in (0, 1).
        degree: most parents of an attribute; None = as many as leave its table theta-useful.
        theta: least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: most cells of a table.
    """

    method = "privbayes"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class DPSMBayesOperator(SynthesizerOperator):
    """Choose a Bayesian network on a secret sample of the records, and mend its noisy tables by a threshold.

    Guarantees epsilon-differential privacy, see `SynthesizerOperator`.

    Args:
        structure_share: part of epsilon that chooses the structure, in (0, 1).
        degree: most parents of an attribute; None = as many as leave its table theta-useful.
        theta: least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: most cells of a table.
        sampling: `one` sample for the whole selection, as in the paper, or a `fresh` one for each pick.
        post_process: how noisy counts become probabilities: `threshold`, the paper's, `clip` or `simplex`.
    """

    method = "dpsm_bayes"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.3,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        sampling: str = "one",
        post_process: str = "threshold",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit
        self.sampling = sampling
        self.post_process = post_process


class PrivBayesROperator(SynthesizerOperator):
    """Choose a Bayesian network by the score R, which noise harms less than mutual information.

    Its noisy tables are projected onto the simplex. Guarantees epsilon-differential privacy, see
    `SynthesizerOperator`.

    Args:
        structure_share: part of epsilon that chooses the structure, in (0, 1).
        degree: most parents of an attribute; None = as many as leave its table theta-useful.
        theta: least ratio of a table's mean cell to its noise, > 0, where no degree is given.
        cell_limit: most cells of a table.
    """

    method = "privbayes_r"

    def __init__(
        self,
        *,
        structure_share: float | str = 0.1,
        degree: int | str | None = None,
        theta: float | str = 4.0,
        cell_limit: int | str = 262_144,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure_share = structure_share
        self.degree = degree
        self.theta = theta
        self.cell_limit = cell_limit


class LatentClassOperator(SynthesizerOperator):
    """Fit a latent class model to a few noisy tables, chosen where it errs most: the recommended synthesizer.

    Guarantees epsilon-differential privacy, or (epsilon, delta), see `SynthesizerOperator`.

    Args:
        delta: 0 for a claim of pure epsilon; > 0 and far below 1 over the number of persons, such as 1e-9,
            for one of (epsilon, delta) with Gaussian noise, which is less where many tables are measured.
        classes: hidden classes of one fitted model, >= 1; 1 makes the attributes independent.
        fits: models of the released mean, >= 1.
        rounds: views (tables of a few attributes) measured, >= 1; None = as many as are useful, at most three
            for every two attributes.
        width: most attributes of a view, >= 1.
        theta: least ratio of a view's mean cell to its noise, > 0: bounds its cells.
        attribute_share: most of epsilon that goes to the attributes of many values, in (0, 1).
        selection_share: part of the rest that chooses views, in (0, 1).
        rules: most functional dependencies that are looked for, 0 .. 5.
        replicates: models fitted to the noisy tables noised once more, by which answers get intervals; 0 for
            none, else 2 .. 100. They cost no epsilon.
    """

    method = "latent_class"

    def __init__(
        self,
        *,
        delta: float | str = 0.0,
        classes: int | str = 16,
        fits: int | str = 8,
        rounds: int | str | None = None,
        width: int | str = 6,
        theta: float | str = 2.0,
        attribute_share: float | str = 0.4,
        selection_share: float | str = 0.1,
        rules: int | str = 3,
        replicates: int | str = 20,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.delta = delta
        self.classes = classes
        self.fits = fits
        self.rounds = rounds
        self.width = width
        self.theta = theta
        self.attribute_share = attribute_share
        self.selection_share = selection_share
        self.rules = rules
        self.replicates = replicates
