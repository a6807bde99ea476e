"""A promise to a standing population, kept in equal parts: releases of a period with equal losses.

Everyone may be in every release. What each release spends is computed from the promise
(`privacy_engine.dp.promises.equal_part`), never written by hand. The ledger counts the promise once, whatever
the number of releases, and refuses more releases than it covers.

With an opening, the first release of the schedule is paid for once in addition to the promise: it chooses
tables, and all parts are spent on measuring these again (`privacy_release.budget.following`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from privacy_engine.dp.loss import Neighbours, PrivacyLoss
    from privacy_engine.dp.promises import Promise


@dataclass(frozen=True, kw_only=True)
class Yearly:
    """Releases of equal parts of one promise.

    Attributes:
        name: Name of the schedule. All its releases count together.
        epsilon, delta: Total loss of all releases of a period, for a person who is in all of them.
        releases: Largest number of releases in a period.
        period: `total`, or a rolling window such as `365d`.
        opening: Epsilon of the first release, with the same delta, which the others follow. None: each
            release is independent.
    """

    name: str
    epsilon: float
    delta: float
    releases: int
    period: str
    opening: float | None = None
    regime = "yearly"

    @property
    def opens(self) -> dict[str, float]:
        """The parameters of the method in the first release. Empty without an opening."""
        if self.opening is None:
            return {}
        return {"epsilon": self.opening} | ({"delta": self.delta} if self.delta else {})

    def opening_loss(self, neighbours: "Neighbours") -> "PrivacyLoss":
        """Return the loss of the first release, if there is an opening."""
        from privacy_engine.dp.loss import PrivacyLoss

        return PrivacyLoss.within(self.opening or 0.0, self.delta, neighbours)

    def promise(self, each: "PrivacyLoss") -> "Promise":
        """Return the total loss of the releases, if each has the loss of a part. The ledger refuses others.

        Raises:
            SpecError: If the loss is not a part of it.
        """
        from privacy_engine.dp.limits import Period
        from privacy_engine.dp.loss import PrivacyLoss
        from privacy_engine.dp.promises import Parts, Promise, equal_part

        loss = PrivacyLoss(epsilon=self.epsilon, delta=self.delta, neighbours=each.neighbours)
        part = equal_part(loss, self.releases, gaussian=bool(each.delta))
        parts = Parts(releases=self.releases, epsilon=part.epsilon, delta=part.delta)
        promise = Promise(
            name=f"{self.name}, {self.releases} releases",
            loss=loss,
            period=Period.parse(self.period),
            parts=parts,
        )
        if not promise.is_part(each):
            raise SpecError(
                f"budget.promise: each of {self.releases} releases must spend an equal part of the "
                f"promise, epsilon {part.epsilon!r} and delta {part.delta:g}, got epsilon {each.epsilon!r}, "
                f"delta {each.delta:g}; omit epsilon from the release, or set that"
            )
        return promise

    def to_dict(self, each: "PrivacyLoss") -> dict[str, Any]:
        """Return the section of the manifest."""
        loss = self.promise(each).loss
        part = {"epsilon": each.epsilon, "delta": each.delta}
        section = {"releases": self.releases, "period": self.period, "loss": loss.to_dict(), "part": part}
        return section | ({"opening": self.opens} if self.opening is not None else {})

    @property
    def question(self) -> dict[str, Any]:
        """Return the fields that distinguish its bookings from those of another promise."""
        return {
            "name": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "releases": self.releases,
            "period": self.period,
        } | ({"opening": self.opening} if self.opening is not None else {})
