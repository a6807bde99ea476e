"""What must hold before anything is published; kept apart from the method that makes the release."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from privacy_engine.errors import SpecError
from privacy_engine.judge.cross_release import CROSS_RELEASE_MODELS, CrossReleaseModel
from privacy_engine.judge.models import MODELS, Named, PrivacyModel, model_from_dict, model_to_dict

_LIMITS = ("max_suppressed", "max_gcp", "max_distorted", "max_breach", "max_epsilon", "max_delta")


@dataclass(frozen=True, kw_only=True)
class ReleasePolicy:
    """Required models and limits; None means no limit.

    Attributes:
        require: models that the released bytes must satisfy.
        across: models that they must satisfy together with the earlier releases of the same people; in a file
            they stand in `require`, too.
        max_suppressed: largest share of suppressed records, 0 .. 1.
        max_gcp: largest global certainty penalty, 0 .. 1.
        max_distorted: largest share of records whose sensitive value was changed, 0 .. 1.
        max_breach: largest breach coefficient of a randomized attribute, 0 .. 1, see
            ``privacy_engine.randomizers.breach``; it says nothing of an attribute that has none.
        max_epsilon, max_delta: largest differential privacy loss; a release without a DP claim fails them.

    >>> ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]}).require
    (KAnonymity(k=5),)
    """

    require: tuple[PrivacyModel, ...] = ()
    across: tuple[CrossReleaseModel, ...] = ()
    max_suppressed: float | None = None
    max_gcp: float | None = None
    max_distorted: float | None = None
    max_breach: float | None = None
    max_epsilon: float | None = None
    max_delta: float | None = None

    def __post_init__(self) -> None:
        rules = self.require or self.across
        if not rules and self.max_epsilon is None and self.max_breach is None:
            raise SpecError(
                "a policy must require at least one model, an epsilon or a breach coefficient: it would let "
                "everything through"
            )
        for name in _LIMITS:
            limit = getattr(self, name)
            number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and not (number and math.isfinite(limit) and limit >= 0):
                raise SpecError(f"policy {name} must be a finite number >= 0, or left out")

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        limits = {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}
        rules: tuple[Named, ...] = (*self.require, *self.across)
        return {"require": [model_to_dict(m) for m in rules], **limits}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ReleasePolicy":
        """Read plain values.

        Raises:
            SpecError: for unknown fields, models or values, naming the field.
        """
        if not isinstance(fields, Mapping):
            raise SpecError("a policy must be a mapping with `require`")
        if unknown := sorted(set(map(str, fields)) - {"require", *_LIMITS}):
            raise SpecError(f"policy: unknown fields {unknown}; known are {['require', *_LIMITS]}")
        required = fields.get("require") or ()
        if not isinstance(required, list | tuple):
            raise SpecError("policy require must be a list of models, each a mapping with `model`")
        models = []
        for i, entry in enumerate(required):
            try:
                models.append(model_from_dict(entry, {**MODELS, **CROSS_RELEASE_MODELS}))
            except ValueError as error:
                raise SpecError(f"policy require[{i}]: {error}") from None
        return cls(
            require=tuple(m for m in models if m.name in MODELS),
            across=tuple(m for m in models if m.name in CROSS_RELEASE_MODELS),
            **{name: fields[name] for name in _LIMITS if name in fields},
        )

    @classmethod
    def from_yaml(cls, text: str) -> "ReleasePolicy":
        """Read YAML text.

        Raises:
            SpecError: as ``from_dict``, and if the text is no YAML.
        """
        try:
            return cls.from_dict(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise SpecError(f"the policy is no valid YAML: {error}") from None
