"""What must hold before anything is published; kept apart from the method that makes the release."""

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

# Parameters of models of which more, or less, asks for more.
_MORE_IS_STRICTER = frozenset({"k", "l", "m", "confidence", "shadows", "window"})
_LESS_IS_STRICTER = frozenset({"alpha", "beta", "c", "delta", "t", "excess"})
_NEITHER = frozenset({"holdout", "publish_figures"})
# Rules that are one of some words, the strictest first.
_FEWEST = 2  # persons, where only values are asked for
_WORDS: Mapping[str, tuple[str, ...]] = {
    "pseudonyms": ("forbid", "random", "release", "any"),
    "repeated_people": ("history", "allow"),
}
_LIMITS = (
    *("max_suppressed", "max_gcp", "max_distorted", "max_breach", "max_epsilon", "max_delta"),
    "unique_records",
)
ACROSS_MODELS: Mapping[str, type[Any]] = {**CROSS_RELEASE_MODELS, **REPUBLICATION_MODELS}
# What a release can claim or be asked for, by its name in a policy.
ALL_MODELS: Mapping[str, type[Any]] = {
    **MODELS,
    **ROW_MODELS,
    **ACROSS_MODELS,
    **ATTACK_MODELS,
    **ALL_COLUMNS_MODELS,
}
_KNOWN = ("require", *_LIMITS, *_WORDS, "columns")
_MOST_HINTS = 100  # unknown fields for which a known one is looked for


@dataclass(frozen=True, kw_only=True)
class ReleasePolicy:
    """Required models and limits; None means no limit.

    Attributes:
        require: models that the released bytes must satisfy.
        known_rows: models of what several known rows of a person give away; in a file they stand in
            `require`, too.
        across: models that they must satisfy together with the earlier releases of the same people; in a file
            they stand in `require`, too.
        attacks: what attacks on the release may gain at most, tried before anybody is asked to approve it; in
            a file they stand in `require`, too, beside a model or an epsilon.
        all_columns: k-anonymity over every released column that is not sensitive, whatever role the release
            gives it; in a file it stands in `require`, too.
        max_suppressed: largest share of suppressed records, 0 .. 1.
        max_gcp: largest global certainty penalty, 0 .. 1.
        max_distorted: largest share of records whose sensitive value was changed, 0 .. 1.
        max_breach: largest breach coefficient of a randomized attribute, 0 .. 1, see
            ``privacy_engine.randomizers.breach``; it says nothing of an attribute that has none.
        max_epsilon, max_delta: largest differential privacy loss; a release without a DP claim fails them.
        unique_records: largest share of records that are alone in all released columns but the sensitive
            ones, or in these together, 0 .. 1; not asked of a release with a privacy loss, whose records are
            nobody's or noisy.
        pseudonyms: `forbid` them, allow those that are drawn at `random` and made of no identifier, those
            that are the same within one `release`, or `any`, also such as link the releases of a series;
            None: any.
        repeated_people: `history`: people whom an identifier names are released a second time, in the same
            table, only where `across_known` holds for all of their releases together; `allow` or None: by a
            policy that demands no model across releases, as often as one likes. Whoever publishes holds a
            release against it, for the table's bytes do not tell what was published before.
        columns: rules for released columns by what they are about.

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

    def __post_init__(self) -> None:
        claimed = (*self.require, *self.known_rows, *self.across, *self.all_columns)
        if not (claimed or self.columns) and self.max_epsilon is None and self.max_breach is None:
            raise SpecError(
                "a policy must require at least one model, an epsilon, a breach coefficient or a rule for "
                "columns: it would let everything through"
                + (", for an attack that finds nothing certifies nothing" if self.attacks else "")
            )
        if found := _wrong_values({name: getattr(self, name) for name in (*_LIMITS, *_WORDS)}):
            raise ProblemsError(found)

    @property
    def rules(self) -> tuple[Named, ...]:
        """All models, of classes, of all columns, of known rows, across releases and of attacks."""
        return (*self.require, *self.all_columns, *self.known_rows, *self.across, *self.attacks)

    @property
    def holdout(self) -> float:
        """Share of the people who are left out of a release so that attacks have a control; 0 for none."""
        return max((rule.holdout for rule in self.attacks), default=0.0)

    @property
    def across_of_each(self) -> tuple[CrossReleaseModel, ...]:
        """`across`, and where it is silent the numbers that each release keeps by itself.

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
        """What releases of people who are known again keep together.

        That is `across_of_each` where `across` names a model, and else `republication` with the same numbers:
        its attackers subtract one release from another.

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
        """The models that releases of people who are known again must keep: of this policy, if it asks so."""
        return self.across_known if self.repeated_people == "history" else self.across

    @property
    def about_earlier(self) -> bool:
        """Whether it is about the earlier releases of a table, too."""
        return bool(self.across) or self.repeated_people == "history"

    def to_dict(self) -> dict[str, Any]:
        """Plain values that ``from_dict`` reads back."""
        limits = {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}
        told = {"require": [model_to_dict(m) for m in self.rules], **limits}
        told |= {name: getattr(self, name) for name in _WORDS if getattr(self, name) is not None}
        return told if self.columns is None else told | {"columns": self.columns.to_dict()}

    def with_floor(self, floor: "ReleasePolicy") -> "ReleasePolicy":
        """What holds where both policies do: the models of both, and of two limits the smaller.

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
        )

    def weaker_than(self, floor: "ReleasePolicy") -> list[str]:
        """Where the policy says less than a floor does: its rule and the floor's, as text.

        What it is silent of is none of that, see `with_floor`.

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
        return found

    def refuses_pseudonyms(self, scope: str) -> bool:
        """Whether pseudonyms must not be released: `random` ones, or such of the scope `release` or `series`.

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
            SpecError: for unknown fields, models or values, naming each of them.
        """
        if not isinstance(fields, Mapping):
            raise SpecError("a policy must be a mapping with `require`")
        hints = chain(repeat(True, _MOST_HINTS), repeat(False))  # a comparison of words takes long
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
        )

    @classmethod
    def from_yaml(cls, text: str) -> "ReleasePolicy":
        """Read YAML text.

        Raises:
            SpecError: as ``from_dict``, and if the text is no YAML.
        """
        try:
            return cls.from_dict(plain_yaml.load(text))
        except yaml.YAMLError as error:
            raise SpecError(f"the policy is no valid YAML: {error}") from None


def _wrong_values(values: Mapping[str, Any]) -> list[Problem]:
    """Limits that are no numbers, and words that are none of the known ones."""
    found = []
    for name in _LIMITS:
        limit = values.get(name)
        number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if limit is not None and not (number and math.isfinite(limit) and limit >= 0):
            found.append(
                Problem(text=f"policy {name} must be a finite number >= 0, or left out", path=(name,))
            )
    for name, words in _WORDS.items():
        if (given := values.get(name)) not in (None, *words):
            text = f"policy {name} must be one of {', '.join(words)}, or left out"
            found.append(Problem(text=text + did_you_mean(given, words), path=(name,)))
    return found


def _comparable(rule: Named, model: Named) -> bool:
    """Whether two rules differ at most in numbers, and in one that is about all sensitive attributes."""
    if type(rule) is not type(model):
        return False
    own, other = _subject(rule), _subject(model)
    attributes = own.pop("attribute", None), other.pop("attribute", None)
    return own == other and (None in attributes or attributes[0] == attributes[1])


def _subject(model: Named) -> dict[str, Any]:
    numbers = {"model", *_MORE_IS_STRICTER, *_LESS_IS_STRICTER, *_NEITHER}
    return {name: value for name, value in model_to_dict(model).items() if name not in numbers}


def _covers(other: Named, rule: Named) -> bool:
    """Whether a rule is about the sensitive attribute of another one, or about all."""
    return getattr(other, "attribute", None) in (None, getattr(rule, "attribute", None))


def _at_least(rule: Named, model: Named) -> bool:
    """Whether each number of a rule is as strict as that of a comparable one, or stricter.

    A number that one of them leaves out, as the shadows of an attack, is 0.
    """
    own, other = model_to_dict(rule), model_to_dict(model)
    return all(
        own.get(name, 0) >= other.get(name, 0) for name in _MORE_IS_STRICTER & (own.keys() | other.keys())
    ) and all(own[name] <= other[name] for name in _LESS_IS_STRICTER & own.keys())
