"""Airflow operators for publishing tables about people safely; names are imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operators.anonymizers import (
        BottomUpOperator,
        DSAEDOperator,
        GreedyHamdistOperator,
        ILPLDiversityOperator,
        KACLUKOperator,
        MondrianOperator,
        OBPAOperator,
        RFKAOperator,
    )
    from operators.approve import ApproveReleaseOperator
    from operators.budget_guard import BudgetGuardOperator
    from operators.cleanup import CleanupOperator, clean_up_after
    from operators.compare import CompareOperator
    from operators.curator import CuratorReportOperator
    from operators.fragment_tasks import (
        CutFragmentsOperator,
        JoinFragmentsOperator,
        ReleaseFragmentOperator,
    )
    from operators.ingest import IngestParquetOperator
    from operators.learning import TrainNaiveBayesOperator
    from operators.outliers import DetectOutliersOperator
    from operators.pipeline import release_dag, release_pipeline
    from operators.publish import PublishOperator, RetractOperator
    from operators.randomizers import ERRPHOperator, LocalLaplaceOperator, TRROperator
    from operators.release import ReleaseOperator
    from operators.synthesizers import (
        DPSMBayesOperator,
        LatentClassOperator,
        PrivBayesOperator,
        PrivBayesROperator,
    )
    from operators.validate import ValidateOperator
    from operators.verify import VerifyOperator

__all__ = [
    "ApproveReleaseOperator",
    "BottomUpOperator",
    "BudgetGuardOperator",
    "CleanupOperator",
    "CompareOperator",
    "CuratorReportOperator",
    "CutFragmentsOperator",
    "DPSMBayesOperator",
    "DSAEDOperator",
    "DetectOutliersOperator",
    "ERRPHOperator",
    "GreedyHamdistOperator",
    "ILPLDiversityOperator",
    "IngestParquetOperator",
    "JoinFragmentsOperator",
    "KACLUKOperator",
    "LatentClassOperator",
    "LocalLaplaceOperator",
    "MondrianOperator",
    "OBPAOperator",
    "PrivBayesOperator",
    "PrivBayesROperator",
    "PublishOperator",
    "RFKAOperator",
    "ReleaseFragmentOperator",
    "ReleaseOperator",
    "RetractOperator",
    "TRROperator",
    "TrainNaiveBayesOperator",
    "ValidateOperator",
    "VerifyOperator",
    "clean_up_after",
    "release_dag",
    "release_pipeline",
]

_HOME = {
    "anonymizers": (
        "BottomUpOperator",
        "DSAEDOperator",
        "GreedyHamdistOperator",
        "ILPLDiversityOperator",
        "KACLUKOperator",
        "MondrianOperator",
        "OBPAOperator",
        "RFKAOperator",
    ),
    "approve": ("ApproveReleaseOperator",),
    "budget_guard": ("BudgetGuardOperator",),
    "cleanup": ("CleanupOperator", "clean_up_after"),
    "compare": ("CompareOperator",),
    "curator": ("CuratorReportOperator",),
    "fragment_tasks": ("CutFragmentsOperator", "JoinFragmentsOperator", "ReleaseFragmentOperator"),
    "ingest": ("IngestParquetOperator",),
    "learning": ("TrainNaiveBayesOperator",),
    "outliers": ("DetectOutliersOperator",),
    "pipeline": ("release_dag", "release_pipeline"),
    "publish": ("PublishOperator", "RetractOperator"),
    "randomizers": ("ERRPHOperator", "LocalLaplaceOperator", "TRROperator"),
    "release": ("ReleaseOperator",),
    "synthesizers": ("DPSMBayesOperator", "LatentClassOperator", "PrivBayesOperator", "PrivBayesROperator"),
    "validate": ("ValidateOperator",),
    "verify": ("VerifyOperator",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """The lake, the command line tool and the steps need no Airflow: importing them must not load it."""
    if name not in _MODULE:
        raise AttributeError(f"module 'operators' has no attribute {name!r}")
    return getattr(importlib.import_module(f"operators.{_MODULE[name]}"), name)
