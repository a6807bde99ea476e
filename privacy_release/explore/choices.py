"""The choices of a grid: methods with parameters, derived from a specification and its policy."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from privacy_engine.errors import SpecError
from privacy_engine.registry import METHODS, Family, is_anonymizer

if TYPE_CHECKING:
    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.spec.model import ReleaseSpec

KS = (2, 5, 10, 20, 50)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
# Methods that use the sensitive values of a class, so that they require a sensitive attribute.
_NEED_SENSITIVE = frozenset({"ilp_l_diversity", "rfka", "greedy_hamdist"})
_OF_PERSONS = frozenset({"max_rows", "weight"})  # parameters that limit the contribution of a person


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A method with its parameters.

    Attributes:
        name: Name such as `mondrian:k=10,l=3`: the method and its position in the grid.
        parameters: All parameters as in a specification, including those of the grid.
    """

    name: str
    method: str
    parameters: Mapping[str, Any]


class ChoiceRef(TypedDict):
    """A choice as passed to the task that measures it; see `Choice`."""

    name: str
    method: str
    parameters: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The values of a grid. Empty ones follow from the specification and its policy."""

    methods: Sequence[str] = ()
    k: Sequence[int] = ()
    l: Sequence[int] = ()  # noqa: E741  the field's own symbol
    t: Sequence[float] = ()
    epsilon: Sequence[float] = field(default=())

    @classmethod
    def of(cls, given: Mapping[str, Sequence[Any]] | None) -> "Grid":
        """Return a grid from lists by name.

        Raises:
            SpecError: If a name is not one of the grid's.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        if unknown := set(given or {}) - set(known):
            raise SpecError(
                f"a grid is made of {', '.join(known)}, got {len(unknown)} other names; correct them"
            )
        return cls(**(given or {}))


def family_of(spec: "ReleaseSpec", grid: Grid = Grid()) -> Family:
    """Return the family of all methods of the grid.

    Raises:
        SpecError: If a method is unknown or answers at random, or some spend a budget and others do not.
    """
    methods = grid.methods or (spec.release.method,)
    if unknown := sorted(set(methods) - set(METHODS)):
        raise SpecError(f"methods must be of {', '.join(METHODS)}, got {len(unknown)} other; correct them")
    families = {METHODS[name].family for name in methods}
    if len(families) > 1:
        raise SpecError(
            "methods must be anonymizers or synthesizers, not both: they are measured in different figures "
            "and on different records; explore them separately"
        )
    (family,) = families
    if family is Family.STRUCTURE:
        raise SpecError(
            "structure invents its records, so there is nothing to explore; explore the release that `like` "
            "describes"
        )
    if family is Family.RANDOMIZER:
        raise SpecError(
            f"{', '.join(methods)} answers for each person at random, which is not explored; name "
            "anonymizers or synthesizers as --methods"
        )
    return family


def choices(spec: "ReleaseSpec", policy: "ReleasePolicy", grid: Grid) -> list[Choice]:
    """Return the cells of the grid, method by method.

    Raises:
        SpecError: As `family_of`, or if a value cannot be a parameter.
    """
    family = family_of(spec, grid)
    if family is Family.SYNTHESIZER:
        own = [float(spec.release.parameters[n]) for n in ("epsilon",) if n in spec.release.parameters]
        limit = [] if policy.max_epsilon is None else [policy.max_epsilon]
        epsilons = sorted(set(grid.epsilon or (*EPSILONS, *limit, *own)))
        return [
            choice_of(spec, policy, method, {"epsilon": epsilon})
            for method in grid.methods or _all(family)
            for epsilon in epsilons
        ]
    numbers = {
        "k": sorted(set(grid.k or {*KS, *_of_policy(policy, "k_anonymity", "k")})),
        "l": sorted(set(grid.l)) or _of_policy(policy, "distinct_l_diversity", "l")[-1:],
        "t": sorted(set(grid.t)) or _of_policy(policy, "t_closeness", "t")[:1],
    }
    axes = {symbol: values for symbol, values in numbers.items() if values}
    sensitive = any(attribute.role == "sensitive" for _, attribute in spec.every_attribute)
    methods = grid.methods or [m for m in _all(family) if sensitive or m not in _NEED_SENSITIVE]
    return [
        choice_of(spec, policy, method, dict(zip(axes, place, strict=True)))
        for method in methods
        for place in itertools.product(*axes.values())
    ]


def choice_of(
    spec: "ReleaseSpec", policy: "ReleasePolicy", method: str, place: Mapping[str, float]
) -> Choice:
    """Return a method at a position of the grid, with the other parameters of specification and policy."""
    own = spec.release.parameters if method == spec.release.method else {}
    given: dict[str, Any] = {**own, **_shared(spec.release.parameters, METHODS[method].family)}
    given |= {symbol: value for symbol, value in place.items() if symbol != "t"}
    if is_anonymizer(method) and (required := _required(policy, place.get("t"), given.get("require", ()))):
        given["require"] = required
    at = ",".join(f"{symbol}={value:g}" for symbol, value in place.items())
    return Choice(name=f"{method}:{at}", method=method, parameters=given)


def named(spec: "ReleaseSpec", policy: "ReleasePolicy", name: str) -> Choice:
    """Return the choice of a name such as `mondrian:k=10,l=3`.

    Raises:
        SpecError: If it is not a valid name.
    """
    method, _, rest = name.partition(":")
    pairs = [re.fullmatch(r"(k|l|t|epsilon)=(\d+(?:\.\d+)?(?:e-?\d+)?)", part) for part in rest.split(",")]
    if method not in METHODS or not all(pairs):
        raise SpecError(
            "a point must be written as the page and --format table write it, such as mondrian:k=10,l=3"
        )
    place = {p[1]: int(p[2]) if p[1] in "kl" else float(p[2]) for p in pairs if p}
    return choice_of(spec, policy, method, place)


def _all(family: Family) -> list[str]:
    return [name for name, entry in METHODS.items() if entry.family is family]


def _shared(parameters: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Return the parameters of the specification that apply to another method of the family."""
    if family is Family.SYNTHESIZER:
        from privacy_engine.synthesizers.synthesizer import Synthesizer as Shared
    else:
        from privacy_engine.anonymizers.anonymizer import Anonymizer as Shared  # type: ignore[assignment]
    known = {f.name for f in dataclasses.fields(Shared)}
    return {name: value for name, value in parameters.items() if name in known}


def _of_policy(policy: "ReleasePolicy", model: str, symbol: str) -> list[Any]:
    """Return the numbers that models of a name require, ascending."""
    from privacy_engine.verification.models import model_to_dict

    required_models = [model_to_dict(required) for required in policy.require]
    return sorted(fields[symbol] for fields in required_models if fields["model"] == model)


def _required(policy: "ReleasePolicy", t: float | None, own: Sequence[Any]) -> list[dict[str, Any]]:
    """Return models besides k and l that each class must meet, from specification and policy."""
    from privacy_engine.verification.models import model_to_dict

    found = [dict(model) for model in own]
    for fields in map(model_to_dict, policy.require):
        if fields["model"] not in ("k_anonymity", "distinct_l_diversity") and fields not in found:
            found.append(fields)
    if t is None:
        return found
    others = [fields for fields in found if fields["model"] != "t_closeness"]
    closeness = [fields for fields in found if fields["model"] == "t_closeness"] or [{"model": "t_closeness"}]
    return [*others, *({**fields, "t": t} for fields in closeness)]


def without_persons(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for records of which each is one person."""
    return {name: value for name, value in parameters.items() if name not in _OF_PERSONS}
