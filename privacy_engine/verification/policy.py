"""Requirements on a release before it is published, kept apart from the method that makes it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, product, repeat
from typing import Any

import yaml

from privacy_engine import plain_yaml
from privacy_engine.choice import did_you_mean
from privacy_engine.errors import Problem, ProblemsError, SpecError
from privacy_engine.verification.all_columns import ALL_COLUMNS_MODELS, AllColumnsKAnonymity
from privacy_engine.verification.attack_risk import ATTACK_MODELS, AttackRisk
from privacy_engine.verification.column_rules import ColumnRules
from privacy_engine.verification.cross_release import (
    CROSS_RELEASE_MODELS,
    CrossReleaseKAnonymity,
    CrossReleaseModel,
    MInvariance,
)
from privacy_engine.verification.known_rows import ROW_MODELS, RowIntersection
from privacy_engine.verification.models import (
    MODELS,
    DistinctLDiversity,
    KAnonymity,
    Named,
    PrivacyModel,
    model_from_dict,
    model_to_dict,
    rule_of,
)
from privacy_engine.verification.republication.model import REPUBLICATION_MODELS, Republication
from privacy_engine.vocabulary import ReleaseKind

# Parameters for which a larger, or a smaller, value is stricter.
_MORE_IS_STRICTER = frozenset({"k", "l", "m", "confidence", "shadows", "window"})
_LESS_IS_STRICTER = frozenset({"alpha", "beta", "c", "delta", "t", "excess"})
_NEITHER = frozenset({"holdout", "publish_figures"})
# Rules whose value is one of some words, the strictest first.
_FEWEST = 2  # persons, if only values are required
_WORDS: Mapping[str, tuple[str, ...]] = {
    "pseudonyms": ("forbid", "random", "release", "any"),
    "repeated_people": ("history", "allow"),
}
_LIMITS = (
    *("max_suppressed", "max_gcp", "max_distorted", "max_breach", "max_epsilon", "max_delta"),
    "unique_records",
)
ACROSS_MODELS: Mapping[str, type[Any]] = {**CROSS_RELEASE_MODELS, **REPUBLICATION_MODELS}
# Name in a policy -> whether a release can claim it, or it can be required.
ALL_MODELS: Mapping[str, type[Any]] = {
    **MODELS,
    **ROW_MODELS,
    **ACROSS_MODELS,
    **ATTACK_MODELS,
    **ALL_COLUMNS_MODELS,
}
_KNOWN = ("require", "kinds", *_LIMITS, *_WORDS, "columns")
_MOST_HINTS = 100  # most unknown fields for which a similar known one is suggested


@dataclass(frozen=True, kw_only=True)
class ReleasePolicy:
    """Required models and limits; None means no limit.

    Attributes:
        require: Models that the released bytes must satisfy.
        known_rows: Models of what several known rows of a person reveal; in a file they are listed in
            `require` as well.
        across: Models that the released bytes must satisfy together with the earlier releases of the same
            people; in a file they are listed in `require` as well.
        attacks: Most that attacks on the release may gain. They run before an approval is requested; in a
            file they are listed in `require` as well, together with a model or an epsilon.
        all_columns: Models of k-anonymity over every released column that is not sensitive, whatever role the
            release gives it; in a file they are listed in `require` as well.
        max_suppressed: Largest share of suppressed records, 0 .. 1.
        max_gcp: Largest global certainty penalty, 0 .. 1.
        max_distorted: Largest share of records whose sensitive value was changed, 0 .. 1.
        max_breach: Largest breach coefficient of a randomized attribute, 0 .. 1, see
            ``privacy_engine.randomizers.breach``; it does not apply to attributes that have none.
        max_epsilon, max_delta: Largest differential privacy loss; a release without a DP claim fails.
        unique_records: Largest share of records that are unique in all released columns but the sensitive
            ones, or in the sensitive columns together, 0 .. 1. It does not apply to a release with a privacy
            loss, whose records belong to no person or are noisy.
        pseudonyms: `forbid` all of them, allow those drawn at `random` and not derived from an identifier,
            those that are the same within one `release`, or `any`, also those that link the releases of a
            series; None: any.
        repeated_people: `history`: people with a known identifier may be released again in the same table
            only if `across_known` holds for all of their releases together; `allow` or None: any number of
            times, if the policy requires no model across releases. The publishing step checks this, because
            the table's bytes do not contain what was published before.
        columns: Rules for released columns by their meaning.
        kinds: Allowed kinds of releases: `anonymized`, `synthetic`, `randomized`, `structure`. None: all.

    >>> ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]}).require
    (KAnonymity(k=5),)
    """

    require: tuple[PrivacyModel, ...] = ()
    known_rows: tuple[RowIntersection, ...] = ()
    across: tuple[CrossReleaseModel, ...] = ()
    attacks: tuple[AttackRisk, ...] = ()
    all_columns: tuple[AllColumnsKAnonymity, ...] = ()
    max_suppressed: float | None = None
    max_gcp: float | None = None
    max_distorted: float | None = None
    max_breach: float | None = None
    max_epsilon: float | None = None
    max_delta: float | None = None
    unique_records: float | None = None
    pseudonyms: str | None = None
    repeated_people: str | None = None
    columns: ColumnRules | None = None
    kinds: tuple[ReleaseKind, ...] | None = None

    def __post_init__(self) -> None:
        if self.kinds is not None:
            object.__setattr__(self, "kinds", _kinds(self.kinds))
            if self.kinds == (ReleaseKind.STRUCTURE,):  # which reveals nothing about any person
                return
        claimed = (*self.require, *self.known_rows, *self.across, *self.all_columns)
        if not (claimed or self.columns) and self.max_epsilon is None and self.max_breach is None:
            raise SpecError(
                "a policy must require at least one model, an epsilon, a breach coefficient or a rule for "
                "columns: otherwise it would allow everything"
                + (", and an attack that finds nothing proves nothing" if self.attacks else "")
            )
        if found := _wrong_values({name: getattr(self, name) for name in (*_LIMITS, *_WORDS)}):
            raise ProblemsError(found)

    @property
    def rules(self) -> tuple[Named, ...]:
        """All models: of classes, of all columns, of known rows, across releases and of attacks."""
        return (*self.require, *self.all_columns, *self.known_rows, *self.across, *self.attacks)

    @property
    def holdout(self) -> float:
        """Share of the people who are left out of a release as the control group of attacks; 0 for none."""
        return max((rule.holdout for rule in self.attacks), default=0.0)

    @property
    def across_of_each(self) -> tuple[CrossReleaseModel, ...]:
        """`across`, or if it is empty, the numbers that each release must meet by itself.

        These are the largest k of k-anonymity, and of distinct l-diversity each l as m of m-invariance.

        >>> policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]})
        >>> [rule_of(model) for model in policy.across_of_each]
        ['cross_release_k_anonymity(k=5, departures=known)']
        """
        found = list(self.across)
        of_k = [model.k for model in self.require if isinstance(model, KAnonymity)]
        if of_k and not any(isinstance(model, CrossReleaseKAnonymity) for model in found):
            found.append(CrossReleaseKAnonymity(k=max(of_k)))
        said = {model.attribute for model in found if isinstance(model, MInvariance)}
        for model in self.require:
            if isinstance(model, DistinctLDiversity) and not {None, model.attribute} & said:
                found.append(MInvariance(m=model.l, attribute=model.attribute))
        return tuple(found)

    @property
    def across_known(self) -> tuple[CrossReleaseModel, ...]:
        """The models that releases of people who are known again must satisfy together.

        This is `across_of_each` if `across` names a model, otherwise `republication` with the same numbers,
        whose attackers subtract one release from another.

        >>> policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]})
        >>> [(model.name, model.k, model.m) for model in policy.across_known]
        [('republication', 5, None)]
        """
        if self.across:
            return self.across_of_each
        of_k = [model.k for model in self.require if isinstance(model, KAnonymity)]
        of_l = [model for model in self.require if isinstance(model, DistinctLDiversity)]
        k = max(of_k, default=_FEWEST)
        found = tuple(Republication(k=k, m=model.l, attribute=model.attribute) for model in of_l)
        return found or ((Republication(k=k),) if of_k else ())

    @property
    def across_people(self) -> tuple[CrossReleaseModel, ...]:
        """The models that releases of people who are known again must satisfy, if this policy requires it."""
        return self.across_known if self.repeated_people == "history" else self.across

    @property
    def about_earlier(self) -> bool:
        """Whether the policy is also about the earlier releases of a table."""
        return bool(self.across) or self.repeated_people == "history"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``."""
        limits = {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}
        values = {"require": [model_to_dict(m) for m in self.rules], **limits}
        values |= {name: getattr(self, name) for name in _WORDS if getattr(self, name) is not None}
        values |= {} if self.kinds is None else {"kinds": [kind.value for kind in self.kinds]}
        return values if self.columns is None else values | {"columns": self.columns.to_dict()}

    def with_floor(self, floor: "ReleasePolicy") -> "ReleasePolicy":
        """Combine the policy with a floor policy: the models of both, and the smaller of two limits.

        >>> own = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}], "max_gcp": 0.2})
        >>> own.with_floor(ReleasePolicy.from_dict({"max_epsilon": 1, "max_gcp": 0.5})).to_dict()
        {'require': [{'model': 'k_anonymity', 'k': 5}], 'max_gcp': 0.2, 'max_epsilon': 1}
        """
        limits = {
            name: [x for x in (getattr(self, name), getattr(floor, name)) if x is not None]
            for name in _LIMITS
        }
        return ReleasePolicy(
            require=tuple(dict.fromkeys((*self.require, *floor.require))),
            known_rows=tuple(dict.fromkeys((*self.known_rows, *floor.known_rows))),
            across=tuple(dict.fromkeys((*self.across, *floor.across))),
            attacks=tuple(dict.fromkeys((*self.attacks, *floor.attacks))),
            all_columns=tuple(dict.fromkeys((*self.all_columns, *floor.all_columns))),
            **{name: min(both) for name, both in limits.items() if both},
            **{
                name: min(
                    (x for x in (getattr(self, name), getattr(floor, name)) if x),
                    key=words.index,
                    default=None,
                )
                for name, words in _WORDS.items()
            },
            columns=self.columns.with_floor(floor.columns) if self.columns else floor.columns,
            kinds=_kinds_of_both(self.kinds, floor.kinds),
        )

    def of_invented_records(self) -> "ReleasePolicy":
        """Return the rules for records that are invented: those about people do not apply.

        What remains are the rules for columns, pseudonyms and kinds, and that epsilon is 0.

        >>> policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}], "max_gcp": 0.2})
        >>> policy.of_invented_records().to_dict()
        {'require': [], 'max_epsilon': 0.0}
        """
        return ReleasePolicy(
            max_epsilon=0.0, pseudonyms=self.pseudonyms, columns=self.columns, kinds=self.kinds
        )

    def weaker_than(self, floor: "ReleasePolicy") -> list[str]:
        """List where the policy is weaker than a floor: its rule and the floor's, as text.

        A rule that the policy does not state is not listed, see `with_floor`.

        >>> weak, floor = ({"require": [{"model": "k_anonymity", "k": k}]} for k in (2, 5))
        >>> ReleasePolicy.from_dict(weak).weaker_than(ReleasePolicy.from_dict(floor))
        ['k_anonymity(k=2) is weaker than k_anonymity(k=5)']
        """
        own = self.rules
        found = [
            f"{rule_of(rule)} is weaker than {rule_of(model)}"
            for rule, model in product(own, floor.rules)
            if _comparable(rule, model)
            and not any(_covers(o, rule) and _comparable(o, model) and _at_least(o, model) for o in own)
        ]
        for name in _LIMITS:
            limit, most = getattr(self, name), getattr(floor, name)
            if limit is not None and most is not None and limit > most:
                found.append(f"{name} {limit} is weaker than {name} {most}")
        for name, words in _WORDS.items():
            word, least = getattr(self, name), getattr(floor, name)
            if word and least and words.index(word) > words.index(least):
                found.append(f"{name}: {word} is weaker than {name}: {least}")
        if self.columns and floor.columns:
            found += self.columns.weaker_than(floor.columns)
        if self.kinds and floor.kinds and (more := [kind for kind in self.kinds if kind not in floor.kinds]):
            found.append(f"kinds: {', '.join(more)} must be among {', '.join(floor.kinds)}")
        return found

    def refuses_pseudonyms(self, scope: str) -> bool:
        """Return whether pseudonyms of a scope, `random`, `release` or `series`, must not be released.

        >>> policy = ReleasePolicy.from_dict({"max_epsilon": 1, "pseudonyms": "release"})
        >>> policy.refuses_pseudonyms("release"), policy.refuses_pseudonyms("series")
        (False, True)
        """
        allowed = {"forbid": (), "random": ("random",), "release": ("random", "release")}
        return self.pseudonyms in allowed and scope not in allowed[self.pseudonyms]

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ReleasePolicy":
        """Read plain values.

        Raises:
            SpecError: For unknown fields, models or values; the message names each of them.
        """
        if not isinstance(fields, Mapping):
            raise SpecError("a policy must be a mapping with `require`")
        hints = chain(repeat(True, _MOST_HINTS), repeat(False))  # comparing words is slow
        found = [
            Problem(
                text=f"policy: unknown fields {[name]}; known are {list(_KNOWN)}"
                f"{did_you_mean(name, _KNOWN) if hinted else ''}",
                path=(name,),
            )
            for name, hinted in zip(sorted(set(map(str, fields)) - set(_KNOWN)), hints, strict=False)
        ]
        required, models = fields.get("require") or (), list[Any]()
        if not isinstance(required, list | tuple):
            text = "policy require must be a list of models, each a mapping with `model`"
            found, required = [*found, Problem(text=text, path=("require",))], ()
        for i, entry in enumerate(required):
            try:
                models.append(model_from_dict(entry, ALL_MODELS))
            except ValueError as error:
                found.append(Problem(text=f"policy require[{i}]: {error}", path=("require", i)))
        columns = None
        try:
            columns = None if fields.get("columns") is None else ColumnRules.from_dict(fields["columns"])
        except SpecError as error:
            found.append(Problem(text=str(error), path=("columns",)))
        if found := [*found, *_wrong_values(fields)]:
            raise ProblemsError(found)
        return cls(
            require=tuple(m for m in models if m.name in MODELS),
            known_rows=tuple(m for m in models if m.name in ROW_MODELS),
            across=tuple(m for m in models if m.name in ACROSS_MODELS),
            attacks=tuple(m for m in models if m.name in ATTACK_MODELS),
            all_columns=tuple(m for m in models if m.name in ALL_COLUMNS_MODELS),
            **{name: fields[name] for name in (*_LIMITS, *_WORDS) if name in fields},
            columns=columns,
            kinds=fields.get("kinds"),
        )

    @classmethod
    def from_yaml(cls, text: str) -> "ReleasePolicy":
        """Read YAML text.

        Raises:
            SpecError: As for ``from_dict``, and if the text is not valid YAML.
        """
        try:
            return cls.from_dict(plain_yaml.load(text))
        except yaml.YAMLError as error:
            raise SpecError(f"the policy is not valid YAML: {error}") from None


def _kinds(given: Any) -> tuple[ReleaseKind, ...]:
    """Read the allowed kinds, in the order of `ReleaseKind`."""
    known = [kind.value for kind in ReleaseKind]
    listed = isinstance(given, list | tuple) and bool(given)
    if not listed or not set(map(str, given)) <= set(known):
        text = f"policy kinds must be a list of at least one of {', '.join(known)}, or omitted"
        raise ProblemsError([Problem(text=text, path=("kinds",))])
    return tuple(kind for kind in ReleaseKind if kind.value in set(map(str, given)))


def _kinds_of_both(
    own: tuple[ReleaseKind, ...] | None, floor: tuple[ReleaseKind, ...] | None
) -> tuple[ReleaseKind, ...] | None:
    """Return the kinds that both allow.

    Raises:
        SpecError: If there is none.
    """
    if own is None or floor is None:
        return own if floor is None else floor
    both = tuple(kind for kind in own if kind in floor)
    if not both:
        raise SpecError(
            f"policy kinds {', '.join(own)} must have one of those of the floor policy, {', '.join(floor)}"
        )
    return both


def _wrong_values(values: Mapping[str, Any]) -> list[Problem]:
    """Return problems of limits that are not numbers and words that are not known."""
    found = []
    for name in _LIMITS:
        limit = values.get(name)
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (number and math.isfinite(limit) and limit >= 0):
            found.append(
                Problem(text=f"policy {name} must be a finite number >= 0, or omitted", path=(name,))
            )
    for name, words in _WORDS.items():
        if (given := values.get(name)) not in (None, *words):
            text = f"policy {name} must be one of {', '.join(words)}, or omitted"
            found.append(Problem(text=text + did_you_mean(given, words), path=(name,)))
    return found


def _comparable(rule: Named, model: Named) -> bool:
    """Return whether two rules differ at most in numbers, or in one applying to all sensitive attributes."""
    if type(rule) is not type(model):
        return False
    own, other = _subject(rule), _subject(model)
    attributes = own.pop("attribute", None), other.pop("attribute", None)
    return own == other and (None in attributes or attributes[0] == attributes[1])


def _subject(model: Named) -> dict[str, Any]:
    numbers = {"model", *_MORE_IS_STRICTER, *_LESS_IS_STRICTER, *_NEITHER}
    return {name: value for name, value in model_to_dict(model).items() if name not in numbers}


def _covers(other: Named, rule: Named) -> bool:
    """Return whether a rule is about the sensitive attribute of another one, or about all."""
    return getattr(other, "attribute", None) in (None, getattr(rule, "attribute", None))


def _at_least(rule: Named, model: Named) -> bool:
    """Return whether each number of a rule is at least as strict as that of a comparable one.

    A number that one of them omits, such as the shadows of an attack, is 0.
    """
    own, other = model_to_dict(rule), model_to_dict(model)
    return all(
        own.get(name, 0) >= other.get(name, 0) for name in _MORE_IS_STRICTER & (own.keys() | other.keys())
    ) and all(own[name] <= other[name] for name in _LESS_IS_STRICTER & own.keys())
