"""Releases that a budget pays for and that are not published: choices explored on the source."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privacy_engine.release import Release
from privacy_release.steps.release import make_release

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.budget.budget import Budget
    from privacy_release.workarea.area import WorkArea
    from privacy_release.workarea.references import Table


def booked_release(
    table: "Table",
    work: "WorkArea",
    *,
    method: str,
    parameters: Mapping[str, Any],
    label: str,
    budget: "Budget",
    policy: "ReleasePolicy | None",
) -> tuple[Release, float]:
    """Make a private release in the work area. The same bytes and parameters cost nothing again.

    Args:
        table: Reference to the ingested table.
        work: Work area of the run.
        method: Registry key of the method.
        parameters: Parameters of the method.
        label: Beginning of the files' names.
        budget: Budget that pays.
        policy: Policy combined with the floor policy. None: unknown.

    Returns:
        The release, and the running time of its method in seconds.

    Raises:
        PrivacyEngineError: If the release cannot be made; see `make_release`.
    """
    staged = make_release(
        table, work, method=method, parameters=parameters, label=label, budget=budget, policy=policy
    )
    release = Release(
        table=staged.frame(),
        schema=staged.read_schema(),
        method=staged.method,
        parameters=dict(parameters),
        guarantees=(),
        loss=staged.privacy_loss,
        model=staged.read_model(),
    )
    return release, staged.seconds or 0.0
