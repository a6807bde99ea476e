"""One operator per randomizer: the parameters of its dataclass, by the same names and with its defaults.

Each class has its method's own parameters, `RandomizerOperator` those that all methods have. All of them are
template fields, as those of the anonymizers. A release that is made on a schedule must be memoised, else its
answers wear out by averaging: keep the one identifier at ingest (`individual`), and name the connection of
the secret.
"""

from collections.abc import Mapping
from typing import Any

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE
from airflow_privacy_release.operators.method import MethodOperator
from airflow_privacy_release.operators.release import require_policy
from privacy_release.spending.budget import DEFAULT_LEDGER


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


class ERRPHOperator(RandomizerOperator):
    """Release each value as itself with probability p_0, else as another value of its domain (ERRPH).

    Numbers are released as the midpoints of public bins. Guarantees local differential privacy; epsilon is
    computed from the probabilities, see `RandomizerOperator`.

    Args:
        p_0: with which probability each value is released as itself, in (0, 1); 0.5 where nothing is given.
        epsilon: instead of p_0, for a person: all randomized attributes together, in equal parts; > 0.
        probabilities: attribute to label to p_j, with which that label is released instead, for attributes
            whose p_j are not equal; with p_0 a sum of 1.
    """

    method = "errph"

    def __init__(
        self,
        *,
        p_0: float | str | None = None,
        epsilon: float | str | None = None,
        probabilities: Mapping[str, Mapping[str, float]] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.p_0 = p_0
        self.epsilon = epsilon
        self.probabilities = probabilities


class TRROperator(RandomizerOperator):
    """Release each number as a x + b with random a and b, and other values as ERRPH does (TRR).

    A release with a number makes no claim: see `LocalLaplaceOperator` for numbers with one.

    Args:
        a_mean: mean of the random factor a, not 0.
        a_variance: its variance, >= 0.
        b_mean: mean of the random summand b, in the unit of the attribute.
        b_variance: its variance, >= 0; not both variances 0.
        p_0: with which probability a value that is no number is released as itself, in (0, 1).
    """

    method = "trr"

    def __init__(
        self,
        *,
        a_mean: float | str = 1.0,
        a_variance: float | str = 1.0,
        b_mean: float | str = 0.0,
        b_variance: float | str = 1.0,
        p_0: float | str = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.a_mean = a_mean
        self.a_variance = a_variance
        self.b_mean = b_mean
        self.b_variance = b_variance
        self.p_0 = p_0


class LocalLaplaceOperator(RandomizerOperator):
    """Add discrete Laplace noise to numbers within their bounds, and answer at random for other values.

    Guarantees local differential privacy with the given epsilon for a person, see `RandomizerOperator`.

    Args:
        epsilon: of a person: all randomized attributes together, in equal parts; > 0.
        steps: of the grid between the bounds of a number, 1 .. 511; each value is moved to the nearest point.
    """

    method = "local_laplace"

    def __init__(self, *, epsilon: float | str = 1.0, steps: int | str = 128, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.steps = steps
