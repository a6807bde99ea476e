"""Release methods, outlier detectors and attacks by name; each is imported only when it is used."""

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from privacy_engine.choice import did_you_mean
from privacy_engine.vocabulary import AttackName, ReleaseKind


class Family(StrEnum):
    """What a release method does to a table."""

    ANONYMIZER = "anonymizer"  # recodes the quasi-identifiers of classes of records
    SYNTHESIZER = "synthesizer"  # draws records from a differentially private model
    RANDOMIZER = "randomizer"  # answers for each individual at random
    STRUCTURE = "structure"  # invents records from the schema and reads none
    DETECTOR = "detector"  # scores records and releases nothing


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """Location of a method, and its properties that are needed before it is imported.

    Attributes:
        home: Location of the class, as `module:class`.
        family: Kind of method: anonymizer, synthesizer, randomizer, detector or structure.
        fragments: Whether the method can work on the fragments of a table one by one. A method that makes a
            choice for the whole table cannot, since each fragment would make its own choice.
        followed: Whether later releases of a schedule can measure the tables of a first one again.
    """

    home: str
    family: Family
    fragments: bool = False
    followed: bool = False


def _anonymizer(home: str, *, fragments: bool = True) -> MethodEntry:
    return MethodEntry(
        home=f"privacy_engine.anonymizers.{home}", family=Family.ANONYMIZER, fragments=fragments
    )


def _synthesizer(home: str, *, followed: bool = False) -> MethodEntry:
    return MethodEntry(
        home=f"privacy_engine.synthesizers.{home}", family=Family.SYNTHESIZER, followed=followed
    )


def _randomizer(home: str) -> MethodEntry:
    return MethodEntry(home=f"privacy_engine.randomizers.{home}", family=Family.RANDOMIZER)


def _detector(home: str) -> MethodEntry:
    return MethodEntry(home=f"privacy_engine.outliers.{home}", family=Family.DETECTOR)


METHODS: Mapping[str, MethodEntry] = MappingProxyType(
    {
        "mondrian": _anonymizer("mondrian:Mondrian"),
        "bottom_up": _anonymizer("bottom_up:BottomUp"),
        "ilp_l_diversity": _anonymizer("ilp_l_diversity:ILPLDiversity"),
        "kacluk": _anonymizer("kacluk:KACLUK"),
        "obpa": _anonymizer("obpa:OBPA"),
        "dsaed": _anonymizer("dsaed:DSAED"),
        "rfka": _anonymizer("rfka:RFKA", fragments=False),
        "greedy_hamdist": _anonymizer("greedy_hamdist:GreedyHamdist", fragments=False),
        "privbayes": _synthesizer("bayes.privbayes:PrivBayes"),
        "dpsm_bayes": _synthesizer("bayes.dpsm_bayes:DPSMBayes"),
        "privbayes_r": _synthesizer("bayes.privbayes:PrivBayesR"),
        "latent_class": _synthesizer("latent.latent_class:LatentClass", followed=True),
        "errph": _randomizer("errph:ERRPH"),
        "trr": _randomizer("trr:TRR"),
        "local_laplace": _randomizer("local_laplace:LocalLaplace"),
        "structure": MethodEntry(
            home="privacy_engine.structure.structure:Structure", family=Family.STRUCTURE
        ),
    }
)

DETECTORS: Mapping[str, MethodEntry] = MappingProxyType(
    {
        "okplof": _detector("okplof:OKPLOF"),
        "lof": _detector("lof:LOF"),
    }
)


ATTACKS: Mapping[AttackName, str] = MappingProxyType(
    {
        AttackName.SINGLING_OUT: "privacy_engine.attacks.singling_out:SinglingOut",
        AttackName.LINKAGE: "privacy_engine.attacks.linkage:Linkage",
        AttackName.INFERENCE: "privacy_engine.attacks.inference:Inference",
        AttackName.MEMBERSHIP: "privacy_engine.attacks.membership:MembershipInference",
        AttackName.INTERSECTION: "privacy_engine.attacks.repeated:Intersection",
        AttackName.DIFFERENCE: "privacy_engine.attacks.difference:Difference",
        AttackName.MINIMALITY: "privacy_engine.attacks.minimality:Minimality",
        AttackName.AVERAGING: "privacy_engine.attacks.repeated:Averaging",
    }
)


def method_names() -> tuple[str, ...]:
    """Return the registry keys of all release methods."""
    return tuple(METHODS)


def detector_names() -> tuple[str, ...]:
    """Return the registry keys of all outlier detectors."""
    return tuple(DETECTORS)


def family_of(name: str) -> Family:
    """The family of a release method.

    Args:
        name: Registry key of the method.

    Raises:
        KeyError: if it is no release method.
    """
    return METHODS[name].family


DEFAULT_LIKE = "mondrian"  # method whose columns a structure file has unless another is given
_KINDS: Mapping[Family, ReleaseKind] = MappingProxyType(
    {
        Family.ANONYMIZER: ReleaseKind.ANONYMIZED,
        Family.SYNTHESIZER: ReleaseKind.SYNTHETIC,
        Family.RANDOMIZER: ReleaseKind.RANDOMIZED,
        Family.STRUCTURE: ReleaseKind.STRUCTURE,
    }
)


def kind_of(name: str) -> ReleaseKind | None:
    """Return the kind of releases that a method makes; imports nothing. None for methods unknown here.

    >>> kind_of("latent_class").value
    'synthetic'
    """
    return _KINDS[family_of(name)] if name in METHODS else None


def shown_method(name: str, parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the method whose columns a release has, with its parameters; imports nothing.

    For a structure file it is that of `like`, otherwise the method itself.

    >>> shown_method("structure", {"rows": 9, "like": {"method": "obpa", "k": 5}})
    ('obpa', {'k': 5})
    """
    if reads_records(name):
        return name, parameters
    like = parameters.get("like")
    given = dict(like) if isinstance(like, Mapping) else {}
    return str(given.pop("method", DEFAULT_LIKE)), given


def reads_records(name: str) -> bool:
    """Whether a method reads the records of its table; imports nothing.

    >>> reads_records("mondrian"), reads_records("structure")
    (True, False)
    """
    return name not in METHODS or METHODS[name].family is not Family.STRUCTURE


def is_randomizer(name: str) -> bool:
    """Whether a method answers for each individual at random; imports nothing.

    >>> is_randomizer("errph"), is_randomizer("mondrian"), is_randomizer("unknown")
    (True, False, False)
    """
    return name in METHODS and METHODS[name].family is Family.RANDOMIZER


def is_anonymizer(name: str) -> bool:
    """Whether a method recodes the quasi-identifiers of classes of records; imports nothing.

    >>> is_anonymizer("mondrian"), is_anonymizer("errph"), is_anonymizer("unknown")
    (True, False, False)
    """
    return name in METHODS and METHODS[name].family is Family.ANONYMIZER


def needs_whole_table(name: str) -> bool:
    """Whether an anonymizer cannot work on the fragments of a table; imports nothing.

    >>> needs_whole_table("rfka"), needs_whole_table("mondrian"), needs_whole_table("errph")
    (True, False, False)
    """
    return is_anonymizer(name) and not METHODS[name].fragments


def can_be_followed(name: str) -> bool:
    """Whether later releases of a schedule can measure the tables of a first one again; imports nothing.

    >>> can_be_followed("latent_class"), can_be_followed("privbayes")
    (True, False)
    """
    return name in METHODS and METHODS[name].followed


def method_class(name: str) -> Any:
    """Return the parameter dataclass of a method.

    Raises:
        ValueError: If there is no method of that name.
    """
    return _class(METHODS, name)


def detector_class(name: str) -> Any:
    """Return the parameter dataclass of an outlier detector.

    Raises:
        ValueError: If there is no detector of that name.
    """
    return _class(DETECTORS, name)


def load_method(name: str, **parameters: Any) -> Any:
    """Make a method from its parameters.

    >>> load_method("bottom_up", k=10).k
    10

    Raises:
        ValueError: If the method or a parameter is unknown, or a value is not allowed.
    """
    return _load(name, method_class(name), parameters)


def load_attack(name: AttackName) -> Any:
    """Make an attack with its default parameters.

    >>> load_attack(AttackName.LINKAGE).known
    0.5
    """
    module, _, attribute = ATTACKS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)()


def load_detector(name: str, **parameters: Any) -> Any:
    """Make an outlier detector from its parameters.

    >>> load_detector("lof", neighbours=10).neighbours
    10

    Raises:
        ValueError: If the detector or a parameter is unknown, or a value is not allowed.
    """
    return _load(name, detector_class(name), parameters)


def _class(registry: Mapping[str, MethodEntry], name: str) -> Any:
    if name not in registry:
        hint = did_you_mean(name, registry)
        raise ValueError(f"method must be one of {list(registry)}, got {name!r}{hint}")
    module, _, attribute = registry[name].home.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _load(name: str, cls: Any, parameters: Mapping[str, Any]) -> Any:
    known = [f.name for f in dataclasses.fields(cls)]
    if unknown := sorted(set(parameters) - set(known)):
        hint = "".join(did_you_mean(name, known) for name in unknown)
        raise ValueError(f"{name}: unknown parameters {unknown}; known are {known}{hint}")
    return cls(**parameters)
