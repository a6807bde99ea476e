"""The meanings of a method's parameters, and the limits within which a policy lets a run change them.

For forms: neither methods nor the libraries that they need are imported.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy

_RECORDED = Path(__file__).with_name(
    "parameters.json"
)  # `make docs` writes it, from the docstrings of the methods


@cache
def _meanings() -> Mapping[str, Mapping[str, str]]:
    recorded: Mapping[str, Mapping[str, str]] = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return recorded


def meaning(method: str, parameter: str) -> str:
    """Return the meaning of a method's parameter.

    >>> meaning("mondrian", "rule")
    "Rule that picks one of the allowed cuts: `least_loss`, or `widest`, the paper's."
    """
    return _meanings().get(method, {}).get(parameter, f"parameter of `{method}`")


def part_of_promise(method: str, *, epsilon: float, delta: float, releases: int) -> dict[str, float]:
    """Return the parameters that make each of a number of releases an equal part of a promise.

    >>> part_of_promise("latent_class", epsilon=1.0, delta=0.0, releases=64)
    {'epsilon': 0.015625}

    Raises:
        ValueError: If the parts are too small for any noise.
    """
    from privacy_engine.dp.loss import Neighbours, PrivacyLoss
    from privacy_engine.dp.promises import equal_part

    loss = PrivacyLoss(epsilon=epsilon, delta=delta, neighbours=Neighbours.REPLACE_PERSON)
    gaussian = bool(delta) and "delta" in _meanings().get(method, {})
    part = equal_part(loss, releases, gaussian=gaussian)
    return {"epsilon": part.epsilon} | ({"delta": part.delta} if gaussian else {})


def limits(policy: "ReleasePolicy") -> dict[str, dict[str, Any]]:
    """Return limits of parameters with which a release can meet a policy, as JSON Schema.

    >>> from privacy_engine.verification.policy import ReleasePolicy
    >>> limits(
    ...     ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 10}], "max_suppressed": 0.1})
    ... )
    {'k': {'minimum': 10}, 'suppression_limit': {'maximum': 0.1}}
    """
    from privacy_engine.verification.models import AlphaKAnonymity, DistinctLDiversity, KAnonymity

    found: dict[str, dict[str, Any]] = {}
    least: dict[str, list[Any]] = {
        "k": [model.k for model in policy.require if isinstance(model, KAnonymity | AlphaKAnonymity)],
        "l": [model.l for model in policy.require if isinstance(model, DistinctLDiversity)],
    }
    found |= {name: {"minimum": max(values)} for name, values in least.items() if values}
    most = {"suppression_limit": policy.max_suppressed, "epsilon": policy.max_epsilon}
    return found | {name: {"maximum": limit} for name, limit in most.items() if limit is not None}
