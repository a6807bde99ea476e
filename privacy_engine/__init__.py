"""Publish tables about people safely: release methods, privacy models, policies, verification.

Names are imported when first used, so that naming a schema does not compile an algorithm.
"""

import importlib
from typing import Any

from privacy_engine.moved import redirect

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
    "verification.models": (
        "AlphaKAnonymity",
        "BetaLikeness",
        "DeltaDisclosure",
        "DistinctLDiversity",
        "EntropyLDiversity",
        "KAnonymity",
        "RecursiveCLDiversity",
        "TCloseness",
    ),
    "verification.policy": ("ReleasePolicy",),
    "measures.recoding": ("Recoding",),
    "registry": ("load_method", "method_names"),
    "release": ("Release", "ReleaseMethod"),
    "tables.attribute": ("Attribute",),
    "tables.schema": ("DataSchema",),
    "vocabulary": ("Kind", "Role"),
    "synthesizers.bayes.bayesian_network": ("BayesianNetwork",),
    "synthesizers.model": ("SynthesizerModel",),
    "verification.verify": ("Report", "verify"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)  # the stub next to this file is generated from the table, see `make docs`


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'privacy_engine' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privacy_engine.{_MODULE[name]}"), name)


redirect(
    {
        "privacy_engine.continual": "privacy_engine.synthesizers.repeated",
        "privacy_engine.features": "privacy_engine.recoding.features",
        "privacy_engine.grouping": "privacy_engine.recoding.grouping",
        "privacy_engine.judge": "privacy_engine.verification",
        "privacy_engine.judge.verification": "privacy_engine.verification.verify",
        "privacy_engine.latent": "privacy_engine.synthesizers.latent",
        "privacy_engine.nearness": "privacy_engine.recoding.nearness",
        "privacy_engine.quotas": "privacy_engine.recoding.quotas",
        **{
            f"privacy_engine.synthesizers.{name}": f"privacy_engine.synthesizers.bayes.{name}"
            for name in ("bayesian_network", "dpsm_bayes", "network_synthesizer", "privbayes", "scores")
        },
        "privacy_engine.synthesizers.structure": "privacy_engine.synthesizers.bayes.structure",
    }
)
