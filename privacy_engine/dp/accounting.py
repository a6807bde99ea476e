"""What a release spent: its mechanisms with their noise, their sum, and a check of the claim against them.

A differentially private claim cannot be measured on released bytes. Its bookkeeping can be checked: that each
mechanism added the noise that its epsilon or rho requires, that these add up to the claim, that a ledger
booked it, and that no domain was read from the data. The test suite audits the mechanisms themselves.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privacy_engine.dp.amplification import amplified
from privacy_engine.dp.loss import Neighbours, PrivacyLoss, exact_sum, rounded_up
from privacy_engine.dp.zcdp import check_rho, pure_rho
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.verify import Finding

# epsilon of one run = this times sensitivity / scale
_FACTOR: Mapping[str, int] = {"discrete_laplace": 1, "noisy_max": 2}
# rho of one run = sensitivity to this power / (2 scale^2): for Gaussian noise it is already a square
_POWER: Mapping[str, int] = {"discrete_gaussian": 1, "noisy_max": 2}


@dataclass(frozen=True, kw_only=True)
class Spend:
    """One mechanism of a release and its cost. Like every figure in it, it is public.

    Attributes:
        mechanism: ``discrete_laplace``, ``discrete_gaussian`` or ``noisy_max``, see
            ``privacy_engine.dp.mechanisms``: permute-and-flip if it spends epsilon, Gumbel noise for rho.
        target: Attributes that it measured: names, never a value.
        epsilon, delta: Total that it spends, after composition of its runs and amplification.
        sensitivity: Sensitivity of one run, in the units of ``scale``; for ``discrete_gaussian`` the sum of
            squares.
        scale: Scale of the noise of one run.
        runs: Number of runs that ``epsilon`` or ``rho`` covers, composed sequentially.
        sample: Numbers (m, n), if all runs used the same m of n records, drawn in secret without replacement.
        group: Number of records that are replaced with one person, if the noise is for a single record: group
            privacy (Dwork and Roth 2014, Theorem 2.2) multiplies epsilon by it.
        rho: Total rho if it is accounted as zCDP; then it has no epsilon.
    """

    mechanism: str
    target: str
    epsilon: float | None = None
    delta: float = 0.0
    sensitivity: float
    scale: float
    runs: int = 1
    sample: tuple[int, int] | None = None
    group: int = 1
    rho: float | None = None

    def __post_init__(self) -> None:
        known = _FACTOR if self.rho is None else _POWER
        if self.mechanism not in known:
            raise ValueError(f"mechanism must be one of {list(known)}, got {self.mechanism!r}")
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("a mechanism must spend epsilon or rho, not both")
        for name in ("epsilon", "sensitivity", "scale"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be > 0 and finite, got {value}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {self.delta}")
        if self.runs < 1:
            raise ValueError(f"runs must be >= 1, got {self.runs}")
        if self.group < 1:
            raise ValueError(f"group must be >= 1, got {self.group}")
        if self.sample is not None:
            m, n = self.sample
            if not 1 <= m <= n:
                raise ValueError(f"sample must be (m, n) with 1 <= m <= n, got ({m}, {n})")
            object.__setattr__(self, "sample", (m, n))  # a list if it comes from JSON
        if self.rho is not None:
            check_rho(self.rho)
            if self.sample is not None or self.group != 1 or self.delta:
                raise ValueError(
                    "a mechanism that spends rho must have no sample, group or delta: amplification "
                    "and group privacy are only proven here for epsilon. Include the change of all "
                    "rows of a person in its sensitivity"
                )

    @property
    def epsilon_of_noise(self) -> float:
        """The epsilon of sensitivity and scale, composed and amplified, rounded up; not for rho.

        >>> noise = {"mechanism": "noisy_max", "target": "age", "sensitivity": 1, "scale": 8.0}
        >>> Spend(epsilon=0.5, runs=2, **noise).epsilon_of_noise
        0.5
        >>> round(Spend(epsilon=0.5, runs=2, sample=(10, 100), **noise).epsilon_of_noise, 4)
        0.0629
        """
        run = _FACTOR[self.mechanism] * Fraction(self.sensitivity) / Fraction(self.scale)
        inner = rounded_up(run * self.runs)
        one = amplified(inner, Fraction(*self.sample)) if self.sample else inner
        return one if self.group == 1 else rounded_up(Fraction(one) * self.group)

    @property
    def rho_of_noise(self) -> Fraction:
        """The rho of sensitivity and scale, composed, exactly; not for epsilon.

        >>> Spend(
        ...     mechanism="discrete_gaussian", target="age", rho=0.25, sensitivity=2, scale=2.0
        ... ).rho_of_noise
        Fraction(1, 4)
        """
        squared = Fraction(self.sensitivity) ** _POWER[self.mechanism]
        return self.runs * squared / (2 * Fraction(self.scale) ** 2)

    @property
    def is_too_quiet(self) -> bool:
        """Whether there is less noise than the spent loss requires."""
        if self.rho is not None:
            return self.rho_of_noise > Fraction(self.rho)
        return self.epsilon_of_noise > self._epsilon

    @property
    def exact_rho(self) -> Fraction:
        """The rho that it spends; for pure epsilon, epsilon^2 / 2.

        Raises:
            ValueError: If it spends a delta, from which no rho follows.
        """
        if self.rho is not None:
            return Fraction(self.rho)
        if self.delta:
            raise ValueError(f"epsilon {self.epsilon} with delta {self.delta} does not add to rho's")
        return pure_rho(self._epsilon)

    @property
    def _epsilon(self) -> float:
        if self.epsilon is None:
            raise ValueError("a mechanism that spends rho has no separate epsilon. Convert the sum")
        return self.epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``."""
        values = dataclasses.asdict(self) | {"sample": list(self.sample) if self.sample else None}
        if self.group == 1:  # as written before there were groups
            del values["group"]
        del values["rho" if self.rho is None else "epsilon"]
        return values

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Spend":
        """Read the output of ``to_dict``.

        Raises:
            ValueError: For unknown or missing fields, or values out of range.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        required = known - {"delta", "runs", "sample", "group", "rho"}
        if "rho" in fields:
            required = required - {"epsilon"} | {"rho"}
        if not required <= set(fields) <= known:
            raise ValueError(
                f"a spend must have the fields {sorted(required)}, got {sorted(map(str, fields))}"
            )
        return cls(**fields)


def total(spends: Iterable[Spend], neighbours: Neighbours, delta: float = 0.0) -> PrivacyLoss:
    """Compose all spends sequentially, exactly, and round up at the end.

    If one spends rho, all are treated as zCDP: rho's add, and the sum is converted once to epsilon at delta.

    Raises:
        ValueError: If there is none; or one spends rho, and delta is 0 or another one spends a delta.
    """
    parts = tuple(spends)
    if not parts:
        raise ValueError("epsilon must be > 0, but no mechanism spends any")
    if any(s.rho is not None for s in parts):
        rho = sum((s.exact_rho for s in parts), Fraction(0))
        return PrivacyLoss.of_zcdp(rounded_up(rho), delta, neighbours)
    return PrivacyLoss(
        epsilon=exact_sum(s._epsilon for s in parts),
        delta=exact_sum(s.delta for s in parts),
        neighbours=neighbours,
    )


def check_bookkeeping(
    loss: PrivacyLoss, spends: Sequence[Spend], schema: DataSchema, booked: PrivacyLoss | None
) -> tuple[Finding, ...]:
    """Check the claim of a differentially private release against its books.

    The sensitivities are taken from the books; proofs and audits must show that they are right.

    Args:
        loss: Loss that the release claims.
        spends: Mechanisms of the release.
        schema: Schema of the table that was measured.
        booked: Loss that the budget ledger has booked for it; None if nothing is booked.

    Returns:
        A finding for each rule: the noise of every mechanism suffices for its epsilon; the mechanisms add up
        to at most the claim, with rho's converted at its delta; the ledger booked at least the claim, for the
        same neighbours; every domain is public; if the schema names a person, the claim is about all rows of
        a person. A claim with a rho is also compared with the mechanisms' and the booked rho.
    """
    spent = _composed(spends, loss)
    covering = booked if booked and booked.neighbours is loss.neighbours else None
    quiet = sum(s.is_too_quiet for s in spends)
    private = sum(not a.has_public_domain for a in schema.without_identifiers().attributes)
    unit = "rho" if any(s.rho is not None for s in spends) else "epsilon"
    found = [_at_most(f"mechanisms with too little noise for their {unit}", 0, quiet if spends else None)]
    for part in ("epsilon", "delta") if loss.rho is None else ("epsilon", "delta", "rho"):
        claimed = getattr(loss, part)
        found += [
            _at_most(f"{part} of all mechanisms, at most the claimed", claimed, getattr(spent, part, None)),
            _at_least(
                f"{part} booked in the ledger, at least the claimed", claimed, getattr(covering, part, None)
            ),
        ]
    if schema.by:
        of_rows = int(loss.neighbours is not Neighbours.REPLACE_PERSON)
        found.append(_at_most("claims about one row where several may be of one person", 0, of_rows))
    return (*found, _at_most("attributes whose domain is not in the schema", 0, private))


def _composed(spends: Sequence[Spend], loss: PrivacyLoss) -> PrivacyLoss | None:
    """Return the loss of all mechanisms, accounted like the claim; None if they do not compose to it."""
    try:
        spent = total(spends, loss.neighbours, loss.delta)
        if loss.rho is None or spent.rho is not None:
            return spent
        rho = rounded_up(sum((s.exact_rho for s in spends), Fraction(0)))
        return PrivacyLoss.of_zcdp(rho, loss.delta, loss.neighbours)
    except ValueError:
        return None


def _at_most(rule: str, threshold: float, measured: float | None) -> Finding:
    passed = measured is not None and measured <= threshold
    return Finding(rule=rule, threshold=threshold, measured=measured, passed=passed)


def _at_least(rule: str, threshold: float, measured: float | None) -> Finding:
    passed = measured is not None and measured >= threshold
    return Finding(rule=rule, threshold=threshold, measured=measured, passed=passed)
