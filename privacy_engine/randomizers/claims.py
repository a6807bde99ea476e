"""A check of a randomized release's claim against its own probabilities, the ledger and the schema."""

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.randomizers.randomness import Randomness
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.verify import Finding


def check_randomization(
    claim: PrivacyLoss, randomization: Randomization, schema: DataSchema, booked: PrivacyLoss | None
) -> tuple[Finding, ...]:
    """Compute what a release claims again; the counterpart of ``dp.accounting.check_bookkeeping``.

    Args:
        claim: Loss that the release claims.
        randomization: Randomization from its manifest.
        schema: Schema of the released table.
        booked: Loss that the budget ledger has booked for it; None if nothing is booked.

    Returns:
        A finding for each rule: the epsilons computed from the probabilities add up to no more than the
            claim;
        the ledger booked at least the claim, for the same neighbours; no released attribute escaped
        randomization; no random bits come from a seed.
    """
    covering = booked if booked and booked.neighbours is claim.neighbours else None
    escaped = set(schema.without_identifiers().names) - set(randomization.mechanisms)
    person = randomization.person_epsilon
    return (
        Finding(
            rule="epsilon computed from the probabilities, at most the claimed",
            threshold=claim.epsilon,
            measured=person,
            passed=person is not None and person <= claim.epsilon,
        ),
        Finding(
            rule="epsilon booked in the ledger, at least the claimed",
            threshold=claim.epsilon,
            measured=covering.epsilon if covering else None,
            passed=covering is not None and covering.epsilon >= claim.epsilon,
        ),
        _none("released attributes that were not randomized", len(escaped)),
        _none(
            "random bits that anybody can repeat who knows a seed",
            int(randomization.randomness is Randomness.SEEDED),
        ),
    )


def _none(rule: str, count: int) -> Finding:
    return Finding(rule=rule, threshold=0, measured=count, passed=count == 0)
