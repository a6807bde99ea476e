"""Publish tables about people safely: release methods, privacy models, policies, verification.

Names are imported when first used, so that naming a schema does not compile an algorithm.
"""

import importlib
from typing import Any

_HOME = {
    "tables.classes": ("EquivalenceClasses",),
    "dp.loss": ("PrivacyLoss",),
    "tables.encoding": ("EncodedTable",),
    "errors": (
        "InfeasibleError",
        "IntegrityError",
        "PrivacyEngineError",
        "PublishError",
        "SchemaError",
        "SpecError",
        "VerificationError",
    ),
    "tables.hierarchy": ("Hierarchy",),
    "judge.models": (
        "AlphaKAnonymity",
        "BetaLikeness",
        "DeltaDisclosure",
        "DistinctLDiversity",
        "EntropyLDiversity",
        "KAnonymity",
        "RecursiveCLDiversity",
        "TCloseness",
    ),
    "judge.policy": ("ReleasePolicy",),
    "measures.recoding": ("Recoding",),
    "registry": ("load_method", "method_names"),
    "release": ("Release", "ReleaseMethod"),
    "tables.schema": ("Attribute", "DataSchema"),
    "vocabulary": ("Kind", "Role"),
    "synthesizers.bayesian_network": ("BayesianNetwork",),
    "synthesizers.model": ("SynthesizerModel",),
    "judge.verification": ("Report", "verify"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)  # the stub beside this file follows from the table, see `make docs`


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'privacy_engine' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privacy_engine.{_MODULE[name]}"), name)
