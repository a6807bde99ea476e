"""Privacy models: requirements on a table, as values that measure it and decide whether it meets them.

A row counts as a person unless its person is known; then a person counts once in a class, see
`privacy_engine.tables.persons`. Each model measures the whole table by its worst class and, if it concerns a
sensitive attribute and none is named, by the worst attribute. The threshold and the measured number have the
same unit.

Sources: k-anonymity, Sweeney (2002); l-diversity, Machanavajjhala et al. (2006); t-closeness, Li et
al. (2007); (alpha, k)-anonymity, Wong et al. (2006); beta-likeness, Cao and Karras (2012);
delta-disclosure privacy, Brickell and Shmatikov (2008).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from privacy_engine.choice import choice, did_you_mean
from privacy_engine.errors import SchemaError
from privacy_engine.verification.distance import hierarchical_distance, ordered_distance

if TYPE_CHECKING:  # it loads pandas, and policies are read when DAGs are parsed
    from privacy_engine.tables.classes import ClassCounts, Classes
    from privacy_engine.tables.hierarchy import Hierarchy
    from privacy_engine.tables.linked import ReleasedClasses

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
# Metadata of a field that was added later: with its default, a model is written, and hashed, as before.
OMIT_DEFAULT = {"omit_default": True}
TOLERANCE = 1e-9  # relative; for thresholds that are compared with sums of floats


class PrivacyModel(Protocol):
    """A requirement on every class of a table."""

    name: ClassVar[str]
    at_least: ClassVar[bool]  # True: the measured number must be at least the threshold; False: at most

    @property
    def threshold(self) -> float:
        """The number that the measured number is compared with."""

    def measure(self, classes: Classes) -> float:
        """Measure the whole table by its worst class."""

    def violations(self, classes: Classes) -> BoolArray:
        """(c,) True where a class does not satisfy the model."""


def holds(model: PrivacyModel, classes: Classes) -> bool:
    """Return whether a table satisfies a model; an empty table satisfies none."""
    return len(classes) > 0 and not model.violations(classes).any()


def classes_asked(model: PrivacyModel, released: ReleasedClasses) -> tuple[Classes, ...]:
    """Return the classes that a model is about.

    With several tables, a model of sensitive values is about the tables that have such an attribute, each by
    its own rows; any other model is about all rows together.
    """
    return tuple(c for c in released.tables.values() if concerns(model, c.sensitive)) or (released.whole,)


def concerns(model: PrivacyModel, sensitive: Collection[str]) -> bool:
    """Return whether a model is about one of these sensitive attributes."""
    if not isinstance(model, SensitiveModel):
        return False
    return bool(sensitive) if model.attribute is None else model.attribute in sensitive


@dataclass(frozen=True, kw_only=True)
class KAnonymity:
    """Every class has at least k persons.

    >>> KAnonymity(k=1)
    Traceback (most recent call last):
    ValueError: k must be >= 2, got 1
    """

    k: int
    name: ClassVar[str] = "k_anonymity"
    at_least: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _require(_whole(self.k) and self.k >= 2, "k must be >= 2", self.k)

    @property
    def threshold(self) -> float:
        """k."""
        return float(self.k)

    def measure(self, classes: Classes) -> float:
        """Persons in the smallest class; 0 for an empty table."""
        return float(classes.people.min()) if len(classes) else 0.0

    def violations(self, classes: Classes) -> BoolArray:
        """(c,) classes of fewer than k persons."""
        return classes.people < self.k


@dataclass(frozen=True, kw_only=True)
class SensitiveModel(ABC):
    """Base of the models of a sensitive attribute: the attribute, and the worst of the classes.

    Attributes:
        attribute: Name of the sensitive attribute; None for each of the table's.
    """

    attribute: str | None = None
    at_least: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given: object = self.attribute  # of any type if it comes from a file
        named = given is None or (isinstance(given, str) and given != "")
        _require(named, "attribute must be the name of a sensitive attribute, or None", given)

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The number that the measured number is compared with."""

    @abstractmethod
    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) the number of each class."""

    def measure(self, classes: Classes) -> float:
        """The number of the worst class; nan for an empty table."""
        numbers = [self._numbers(classes, name) for name in self._attributes(classes)]
        if not len(classes):
            return float("nan")
        return float(min(n.min() for n in numbers) if self.at_least else max(n.max() for n in numbers))

    def violations(self, classes: Classes) -> BoolArray:
        """(c,) classes that miss the threshold for any of the attributes."""
        found = np.zeros(len(classes), dtype=np.bool_)
        for name in self._attributes(classes):
            found |= ~self.allowed(self._numbers(classes, name))
        return found

    def allowed(self, numbers: FloatArray) -> BoolArray:
        """Which of the measured numbers meet the threshold."""
        slack = TOLERANCE * max(1.0, abs(self.threshold))
        return numbers >= self.threshold - slack if self.at_least else numbers <= self.threshold + slack

    def _numbers(self, classes: Classes, name: str) -> FloatArray:
        return self.per_class(classes.counts(name), classes.sensitive[name].hierarchy)

    def _attributes(self, classes: Classes) -> tuple[str, ...]:
        names = (self.attribute,) if self.attribute is not None else tuple(classes.sensitive)
        if not names:
            raise SchemaError(
                f"{type(self).__name__} requires a sensitive attribute. Give one attribute that role"
            )
        return names


@dataclass(frozen=True, kw_only=True)
class DistinctLDiversity(SensitiveModel):
    """Every class has at least l distinct sensitive values, and as many distinct sets of a person's values.

    If each row counts as a person, each set has one value, and the second number equals the first.
    """

    l: int  # noqa: E741  the field's own symbol
    name: ClassVar[str] = "distinct_l_diversity"
    at_least: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_whole(self.l) and self.l >= 2, "l must be >= 2", self.l)

    @property
    def threshold(self) -> float:
        """l."""
        return float(self.l)

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) number of distinct values, or of fingerprints if these are fewer."""
        return counts.distinct.astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class EntropyLDiversity(SensitiveModel):
    """The entropy of every class is at least log l; the measured number is exp(entropy)."""

    l: float  # noqa: E741  the field's own symbol
    name: ClassVar[str] = "entropy_l_diversity"
    at_least: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.l) and self.l > 1, "l must be > 1", self.l)

    @property
    def threshold(self) -> float:
        """l."""
        return float(self.l)

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) exp of the entropy in nats: the number of equally likely values it is worth."""
        terms = -counts.shares * np.log(counts.shares)
        return np.exp(np.bincount(counts.classes, weights=terms, minlength=len(counts.sizes)))


@dataclass(frozen=True, kw_only=True)
class RecursiveCLDiversity(SensitiveModel):
    """With counts r_1 >= r_2 >= ... in a class, r_1 < c (r_l + r_(l+1) + ... + r_m).

    The measured number is the largest r_1 / (r_l + ... + r_m), infinite if there is no r_l.
    """

    c: float
    l: int  # noqa: E741  the field's own symbol
    name: ClassVar[str] = "recursive_cl_diversity"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.c) and self.c > 0, "c must be > 0", self.c)
        _require(_whole(self.l) and self.l >= 2, "l must be >= 2", self.l)

    @property
    def threshold(self) -> float:
        """c."""
        return float(self.c)

    def allowed(self, numbers: FloatArray) -> BoolArray:
        """The definition is strict: r_1 < c (...)."""
        return numbers < self.c

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) r_1 / (r_l + ... + r_m)."""
        order = np.lexsort((-counts.counts, counts.classes))
        ranked = counts.counts[order]
        rank = np.arange(len(order)) - counts.starts[counts.classes]
        tail = np.bincount(
            counts.classes, weights=np.where(rank >= self.l - 1, ranked, 0), minlength=len(counts.sizes)
        )
        with np.errstate(divide="ignore"):
            return _rounded_up(np.asarray(ranked[counts.starts] / tail, dtype=np.float64), counts)


class Distance(StrEnum):
    """Ground distance of the earth mover's distance between sensitive values."""

    EQUAL = "equal"  # every two values are 1 apart
    ORDERED = "ordered"  # by rank, the ends 1 apart
    HIERARCHICAL = "hierarchical"  # level of the common ancestor over the height of the tree


@dataclass(frozen=True, kw_only=True)
class TCloseness(SensitiveModel):
    """The sensitive distribution of every class is within t of the table's (earth mover's distance)."""

    t: float
    distance: Distance = Distance.EQUAL
    name: ClassVar[str] = "t_closeness"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.t) and 0 <= self.t <= 1, "t must be in [0, 1]", self.t)
        object.__setattr__(self, "distance", choice(Distance, self.distance, "distance"))

    @property
    def threshold(self) -> float:
        """t."""
        return float(self.t)

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) earth mover's distance to the table's distribution, in [0, 1]."""
        if self.distance is Distance.EQUAL:
            # over the values that occur; the others add their whole share of the table
            p = counts.prior[counts.values]
            terms = np.bincount(
                counts.classes, weights=np.abs(counts.shares - p) - p, minlength=len(counts.sizes)
            )
            return np.asarray((terms + 1.0) / 2.0, dtype=np.float64)
        step = max(1, 4_000_000 // max(len(counts.prior), 1))  # classes at a time: bounded memory
        parts = [np.zeros(0)]
        for first in range(0, len(counts.sizes), step):
            moved = counts.dense(first, min(first + step, len(counts.sizes))) - counts.prior
            if self.distance is Distance.ORDERED:
                parts.append(ordered_distance(moved.compress(counts.prior > 0, axis=1)))
            elif hierarchy is not None:
                parts.append(hierarchical_distance(moved, hierarchy))
            else:
                raise SchemaError("hierarchical t-closeness requires a hierarchy of the sensitive attribute")
        return np.concatenate(parts)


class HasDistance(Protocol):
    """The part of an attribute that the distance of two of its values depends on."""

    @property
    def nominal(self) -> bool:
        """Whether its values have no order."""

    @property
    def hierarchical(self) -> bool:
        """Whether the attribute has a hierarchy."""


def require_distances(models: Iterable[Named], sensitive: Mapping[str, HasDistance]) -> None:
    """Raise for t-closeness with a distance that the values of the attribute do not have.

    Args:
        models: Models that are claimed or required.
        sensitive: Sensitive attributes by name.

    Raises:
        SchemaError: If there is one; the message names the attribute and the remedy.
    """
    for model in (m for m in models if isinstance(m, TCloseness)):
        for name in (n for n in sensitive if model.attribute in (None, n)):
            attribute = sensitive[name]
            if model.distance is Distance.ORDERED and attribute.nominal:
                raise SchemaError(
                    f"{name}: t-closeness by the distance `ordered` requires values with an order. Use "
                    "the distance `equal`, or make the attribute ordinal, with its categories in order"
                )
            if model.distance is Distance.HIERARCHICAL and not attribute.hierarchical:
                raise SchemaError(
                    f"{name}: t-closeness by the distance `hierarchical` requires a hierarchy. Give the "
                    "attribute one, or use the distance `equal`"
                )


@dataclass(frozen=True, kw_only=True)
class AlphaKAnonymity(SensitiveModel):
    """k-anonymous, and no more than a share alpha of the persons of a class has the same sensitive value."""

    alpha: float
    k: int
    name: ClassVar[str] = "alpha_k_anonymity"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.alpha) and 0 < self.alpha <= 1, "alpha must be in (0, 1]", self.alpha)
        _require(_whole(self.k) and self.k >= 2, "k must be >= 2", self.k)

    @property
    def threshold(self) -> float:
        """alpha."""
        return float(self.alpha)

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) the largest share of persons with one value; infinite for a class of fewer than k persons."""
        largest = np.maximum.reduceat(counts.coverage, counts.starts) if len(counts.starts) else np.zeros(0)
        return np.where(counts.sizes < self.k, np.inf, largest)


@dataclass(frozen=True, kw_only=True)
class BetaLikeness(SensitiveModel):
    """No value's share rises from p in the table to more than (1 + beta) p in a class.

    Enhanced: also not by more than a factor of 1 - ln p, which binds for frequent values. The measured
    number is the smallest beta for which the model holds, infinite if the enhanced bound fails.
    """

    beta: float
    enhanced: bool = False
    name: ClassVar[str] = "beta_likeness"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.beta) and self.beta > 0, "beta must be > 0", self.beta)
        _require(isinstance(self.enhanced, bool), "enhanced must be true or false", self.enhanced)

    @property
    def threshold(self) -> float:
        """beta."""
        return float(self.beta)

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) the largest relative gain (q - p) / p."""
        p = counts.prior[counts.values]
        gain = np.maximum((counts.shares - p) / p, 0.0)
        if self.enhanced:
            gain = np.where(gain > -np.log(p) * (1 + TOLERANCE), np.inf, gain)
        return np.maximum.reduceat(gain, counts.starts) if len(counts.starts) else np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class DeltaDisclosure(SensitiveModel):
    """|ln(q / p)| < delta for every value of the table in every class; a missing value fails."""

    delta: float
    name: ClassVar[str] = "delta_disclosure"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(_real(self.delta) and self.delta > 0, "delta must be > 0", self.delta)

    @property
    def threshold(self) -> float:
        """delta."""
        return float(self.delta)

    def allowed(self, numbers: FloatArray) -> BoolArray:
        """The definition is strict: |ln(q / p)| < delta."""
        return numbers < self.delta

    def per_class(self, counts: ClassCounts, hierarchy: Hierarchy | None) -> FloatArray:
        """(c,) the largest |ln(q / p)|, infinite if a value of the table is missing."""
        ratio = np.abs(np.log(counts.shares / counts.prior[counts.values]))
        worst = np.maximum.reduceat(ratio, counts.starts) if len(counts.starts) else np.zeros(0)
        present = np.bincount(counts.classes, minlength=len(counts.sizes))
        return _rounded_up(np.where(present < np.count_nonzero(counts.prior), np.inf, worst), counts)


MODELS: Mapping[str, type[Any]] = {
    model.name: model
    for model in (
        KAnonymity,
        DistinctLDiversity,
        EntropyLDiversity,
        RecursiveCLDiversity,
        TCloseness,
        AlphaKAnonymity,
        BetaLikeness,
        DeltaDisclosure,
    )
}


class Named(Protocol):
    """A model of any family, a dataclass of its parameters."""

    name: ClassVar[str]


def rule_of(model: Named) -> str:
    """Return a model with its parameters as text.

    >>> rule_of(KAnonymity(k=5))
    'k_anonymity(k=5)'
    """
    parameters = model_to_dict(model)
    name = parameters.pop("model")
    return f"{name}({', '.join(f'{key}={value}' for key, value in parameters.items())})"


def model_to_dict(model: Named) -> dict[str, Any]:
    """Return plain values for ``model_from_dict``.

    >>> model_to_dict(KAnonymity(k=5))
    {'model': 'k_anonymity', 'k': 5}
    """
    given = {
        f.name: value
        for f in fields(model)  # type: ignore[arg-type]  # a dataclass
        if (value := getattr(model, f.name)) != f.default or "omit_default" not in f.metadata
    }
    return {
        "model": model.name,
        **{name: _plain(value) for name, value in given.items() if not _absent(value)},
    }


def model_from_dict(given: Mapping[str, Any], known: Mapping[str, type[Any]] = MODELS) -> Any:
    """Read ``{model: name, parameter: value, ...}`` as one of the known models.

    Raises:
        ValueError: If the model or a parameter is unknown or a value is not allowed.
    """
    if not isinstance(given, Mapping):
        raise ValueError("a privacy model must be a mapping with `model` and its parameters")
    parameters = dict(given)
    name = parameters.pop("model", None)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"model must be one of {sorted(known)}{did_you_mean(name, known)}")
    try:
        made = known[name](**parameters)
    except TypeError as error:
        raise ValueError(f"model {name}: {str(error).rpartition('__init__() ')[2]}") from None
    return made


def _rounded_up(numbers: FloatArray, counts: ClassCounts) -> FloatArray:
    """Round up numbers of a strict limit: rounding of persons' weights must not bring one below it."""
    return numbers if counts.persons is None else numbers * (1.0 + TOLERANCE)


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _real(value: object) -> bool:
    return _whole(value) or (isinstance(value, float | np.floating) and math.isfinite(value))


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, tuple) and not value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return model_to_dict(value)  # type: ignore[arg-type]  # the only kind of value that is a model itself
    if isinstance(value, Enum):
        return value.value
    return value.item() if isinstance(value, np.generic) else value


def _require(condition: bool, rule: str, given: object) -> None:
    if not condition:
        raise ValueError(f"{rule}, got {given}")
