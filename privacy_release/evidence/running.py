"""Evidence as a step of a release in one process."""

from functools import partial

from privacy_release.evidence.kept import keep_evidence
from privacy_release.plan.step import Step
from privacy_release.proof.statement import StatementSigner
from privacy_release.steps.running import Releasing, Stage


def evidence(run: Releasing, step: Step) -> None:
    """Keep the evidence of the published release in the curator's folder.

    The release stands where that fails, which is a warning then: `privacy-release evidence` makes it later.
    """
    key = run.signer.key if isinstance(run.signer, StatementSigner) else None
    keep = partial(keep_evidence, run.into, run.release_id, key)
    if made := run.attempts.make("the evidence of the release", keep):
        run.watch(Stage.EVIDENCE, f"kept for the service's user: {made['evidence']}")
