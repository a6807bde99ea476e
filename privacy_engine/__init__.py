"""Publish tables about people safely: release methods, privacy models, policies, verification.

Names are imported when first used, so that naming a schema does not compile an algorithm.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy_engine.dp.loss import PrivacyLoss as PrivacyLoss
    from privacy_engine.errors import InfeasibleError as InfeasibleError
    from privacy_engine.errors import IntegrityError as IntegrityError
    from privacy_engine.errors import PrivacyEngineError as PrivacyEngineError
    from privacy_engine.errors import PublishError as PublishError
    from privacy_engine.errors import SchemaError as SchemaError
    from privacy_engine.errors import SpecError as SpecError
    from privacy_engine.errors import VerificationError as VerificationError
    from privacy_engine.judge.models import AlphaKAnonymity as AlphaKAnonymity
    from privacy_engine.judge.models import BetaLikeness as BetaLikeness
    from privacy_engine.judge.models import DeltaDisclosure as DeltaDisclosure
    from privacy_engine.judge.models import DistinctLDiversity as DistinctLDiversity
    from privacy_engine.judge.models import EntropyLDiversity as EntropyLDiversity
    from privacy_engine.judge.models import KAnonymity as KAnonymity
    from privacy_engine.judge.models import RecursiveCLDiversity as RecursiveCLDiversity
    from privacy_engine.judge.models import TCloseness as TCloseness
    from privacy_engine.judge.policy import ReleasePolicy as ReleasePolicy
    from privacy_engine.judge.verification import Report as Report
    from privacy_engine.judge.verification import verify as verify
    from privacy_engine.measures.recoding import Recoding as Recoding
    from privacy_engine.registry import load_method as load_method
    from privacy_engine.registry import method_names as method_names
    from privacy_engine.release import Release as Release
    from privacy_engine.release import ReleaseMethod as ReleaseMethod
    from privacy_engine.synthesizers.bayesian_network import BayesianNetwork as BayesianNetwork
    from privacy_engine.synthesizers.model import SynthesizerModel as SynthesizerModel
    from privacy_engine.tables.classes import EquivalenceClasses as EquivalenceClasses
    from privacy_engine.tables.encoding import EncodedTable as EncodedTable
    from privacy_engine.tables.hierarchy import Hierarchy as Hierarchy
    from privacy_engine.tables.schema import Attribute as Attribute
    from privacy_engine.tables.schema import DataSchema as DataSchema
    from privacy_engine.vocabulary import Kind as Kind
    from privacy_engine.vocabulary import Role as Role

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
    "tables.schema": ("Attribute", "DataSchema", "Kind", "Role"),
    "synthesizers.bayesian_network": ("BayesianNetwork",),
    "synthesizers.model": ("SynthesizerModel",),
    "judge.verification": ("Report", "verify"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'privacy_engine' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privacy_engine.{_MODULE[name]}"), name)
