"""Airflow operators for publishing tables about people safely; names are imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_privacy_release.explore import explore_dag
    from airflow_privacy_release.operators.anonymizers import (
        BottomUpOperator,
        DSAEDOperator,
        GreedyHamdistOperator,
        ILPLDiversityOperator,
        KACLUKOperator,
        MondrianOperator,
        OBPAOperator,
        RFKAOperator,
    )
    from airflow_privacy_release.operators.approve import ApproveReleaseOperator
    from airflow_privacy_release.operators.budget import BudgetGuardOperator
    from airflow_privacy_release.operators.compare import (
        CompareOperator,
        CompareSynthesizersOperator,
        CuratorReportOperator,
        DrawChoicesOperator,
        ListChoicesOperator,
        MeasureChoiceOperator,
        SampleRecordsOperator,
    )
    from airflow_privacy_release.operators.ingest import (
        IngestParquetOperator,
        IngestSqlOperator,
        IngestTablesOperator,
    )
    from airflow_privacy_release.operators.learning import TrainNaiveBayesOperator
    from airflow_privacy_release.operators.outliers import DetectOutliersOperator
    from airflow_privacy_release.operators.publish import (
        CleanupOperator,
        ClearSupersededOperator,
        EvidenceOperator,
        PublishOperator,
        RetractOperator,
        SweepWorkAreasOperator,
        clean_up_after,
    )
    from airflow_privacy_release.operators.randomizers import ERRPHOperator, LocalLaplaceOperator, TRROperator
    from airflow_privacy_release.operators.release import (
        CutFragmentsOperator,
        JoinFragmentsOperator,
        ReleaseFragmentOperator,
        ReleaseOperator,
    )
    from airflow_privacy_release.operators.synthesizers import (
        DPSMBayesOperator,
        LatentClassOperator,
        PrivBayesOperator,
        PrivBayesROperator,
    )
    from airflow_privacy_release.operators.transform import TransformOperator, release_transform
    from airflow_privacy_release.operators.validate import ValidateOperator
    from airflow_privacy_release.operators.verify import VerifyOperator
    from airflow_privacy_release.pipeline import (
        raise_if_broken,
        release_dag,
        release_dags,
        release_pipeline,
        sweep_dag,
    )

__all__ = [
    "ApproveReleaseOperator",
    "AttackOperator",
    "BottomUpOperator",
    "BudgetGuardOperator",
    "CleanupOperator",
    "ClearSupersededOperator",
    "CompareOperator",
    "CompareSynthesizersOperator",
    "CuratorReportOperator",
    "CutFragmentsOperator",
    "DPSMBayesOperator",
    "DSAEDOperator",
    "DetectOutliersOperator",
    "DrawChoicesOperator",
    "ERRPHOperator",
    "EvidenceOperator",
    "GreedyHamdistOperator",
    "HoldOutOperator",
    "ILPLDiversityOperator",
    "IngestParquetOperator",
    "IngestSqlOperator",
    "IngestTablesOperator",
    "JoinFragmentsOperator",
    "KACLUKOperator",
    "LatentClassOperator",
    "ListChoicesOperator",
    "LocalLaplaceOperator",
    "MeasureChoiceOperator",
    "MondrianOperator",
    "OBPAOperator",
    "PrivBayesOperator",
    "PrivBayesROperator",
    "PublishOperator",
    "RFKAOperator",
    "ReleaseFragmentOperator",
    "ReleaseOperator",
    "RetractOperator",
    "SampleRecordsOperator",
    "SweepWorkAreasOperator",
    "TRROperator",
    "TrainNaiveBayesOperator",
    "TransformOperator",
    "ValidateOperator",
    "VerifyOperator",
    "clean_up_after",
    "explore_dag",
    "raise_if_broken",
    "release_dag",
    "release_dags",
    "release_pipeline",
    "release_transform",
    "sweep_dag",
]

_HOME = {
    "explore": ("explore_dag",),
    "operators.anonymizers": (
        "BottomUpOperator",
        "DSAEDOperator",
        "GreedyHamdistOperator",
        "ILPLDiversityOperator",
        "KACLUKOperator",
        "MondrianOperator",
        "OBPAOperator",
        "RFKAOperator",
    ),
    "operators.approve": ("ApproveReleaseOperator",),
    "operators.budget": ("BudgetGuardOperator",),
    "operators.compare": (
        "CompareOperator",
        "CompareSynthesizersOperator",
        "CuratorReportOperator",
        "DrawChoicesOperator",
        "ListChoicesOperator",
        "MeasureChoiceOperator",
        "SampleRecordsOperator",
    ),
    "operators.ingest": ("IngestParquetOperator", "IngestSqlOperator", "IngestTablesOperator"),
    "operators.learning": ("TrainNaiveBayesOperator",),
    "operators.outliers": ("DetectOutliersOperator",),
    "operators.publish": (
        "CleanupOperator",
        "ClearSupersededOperator",
        "EvidenceOperator",
        "PublishOperator",
        "RetractOperator",
        "SweepWorkAreasOperator",
        "clean_up_after",
    ),
    "operators.randomizers": ("ERRPHOperator", "LocalLaplaceOperator", "TRROperator"),
    "operators.release": (
        "CutFragmentsOperator",
        "JoinFragmentsOperator",
        "ReleaseFragmentOperator",
        "ReleaseOperator",
    ),
    "operators.synthesizers": (
        "DPSMBayesOperator",
        "LatentClassOperator",
        "PrivBayesOperator",
        "PrivBayesROperator",
    ),
    "operators.transform": ("TransformOperator", "release_transform"),
    "operators.validate": ("ValidateOperator",),
    "operators.verify": ("AttackOperator", "HoldOutOperator", "VerifyOperator"),
    "pipeline": ("raise_if_broken", "release_dag", "release_dags", "release_pipeline", "sweep_dag"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Airflow imports this package at every start to ask what it provides: that must load no operator."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
