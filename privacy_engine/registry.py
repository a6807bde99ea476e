"""Release methods and outlier detectors by name; one is imported only when it is asked for."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

METHODS: Mapping[str, str] = {
    "mondrian": "privacy_engine.anonymizers.mondrian:Mondrian",
    "bottom_up": "privacy_engine.anonymizers.bottom_up:BottomUp",
    "ilp_l_diversity": "privacy_engine.anonymizers.ilp_l_diversity:ILPLDiversity",
    "kacluk": "privacy_engine.anonymizers.kacluk:KACLUK",
    "obpa": "privacy_engine.anonymizers.obpa:OBPA",
    "dsaed": "privacy_engine.anonymizers.dsaed:DSAED",
    "rfka": "privacy_engine.anonymizers.rfka:RFKA",
    "greedy_hamdist": "privacy_engine.anonymizers.greedy_hamdist:GreedyHamdist",
    "privbayes": "privacy_engine.synthesizers.privbayes:PrivBayes",
    "dpsm_bayes": "privacy_engine.synthesizers.dpsm_bayes:DPSMBayes",
    "privbayes_r": "privacy_engine.synthesizers.privbayes_r:PrivBayesR",
    "latent_class": "privacy_engine.synthesizers.latent_class:LatentClass",
    "errph": "privacy_engine.randomizers.errph:ERRPH",
    "trr": "privacy_engine.randomizers.trr:TRR",
    "local_laplace": "privacy_engine.randomizers.local_laplace:LocalLaplace",
}

DETECTORS: Mapping[str, str] = {
    "okplof": "privacy_engine.outliers.okplof:OKPLOF",
    "lof": "privacy_engine.outliers.lof:LOF",
}


def method_names() -> tuple[str, ...]:
    """All registry keys."""
    return tuple(METHODS)


def detector_names() -> tuple[str, ...]:
    """All registry keys of outlier detectors."""
    return tuple(DETECTORS)


def is_randomizer(name: str) -> bool:
    """Whether a method answers for each individual at random; imports nothing.

    >>> is_randomizer("errph"), is_randomizer("mondrian"), is_randomizer("unknown")
    (True, False, False)
    """
    return METHODS.get(name, "").startswith("privacy_engine.randomizers.")


def is_anonymizer(name: str) -> bool:
    """Whether a method recodes the quasi-identifiers of classes of records; imports nothing.

    >>> is_anonymizer("mondrian"), is_anonymizer("errph"), is_anonymizer("unknown")
    (True, False, False)
    """
    return METHODS.get(name, "").startswith("privacy_engine.anonymizers.")


def method_class(name: str) -> Any:
    """The parameter dataclass of a method.

    Raises:
        ValueError: if there is no method of that name.
    """
    return _class(METHODS, name)


def detector_class(name: str) -> Any:
    """The parameter dataclass of an outlier detector.

    Raises:
        ValueError: if there is no detector of that name.
    """
    return _class(DETECTORS, name)


def load_method(name: str, **parameters: Any) -> Any:
    """A method with its parameters.

    >>> load_method("bottom_up", k=10).k
    10

    Raises:
        ValueError: if the method or a parameter is unknown, or a value is not allowed.
    """
    return _load(name, method_class(name), parameters)


def load_detector(name: str, **parameters: Any) -> Any:
    """An outlier detector with its parameters.

    >>> load_detector("lof", neighbours=10).neighbours
    10

    Raises:
        ValueError: if the detector or a parameter is unknown, or a value is not allowed.
    """
    return _load(name, detector_class(name), parameters)


def _class(registry: Mapping[str, str], name: str) -> Any:
    if name not in registry:
        raise ValueError(f"method must be one of {list(registry)}, got {name!r}")
    module, _, attribute = registry[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _load(name: str, cls: Any, parameters: Mapping[str, Any]) -> Any:
    known = [f.name for f in dataclasses.fields(cls)]
    if unknown := sorted(set(parameters) - set(known)):
        raise ValueError(f"{name}: unknown parameters {unknown}; known are {known}")
    return cls(**parameters)
