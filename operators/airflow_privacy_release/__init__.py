"""Airflow operators for publishing tables about people safely. Names are imported on first use."""

import importlib
from typing import Any

_HOME = {
    "explore": ("explore_dag",),
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
    "operators.ingest": (
        "IngestParquetOperator",
        "IngestSqlOperator",
        "IngestTablesOperator",
        "InventOperator",
    ),
    "operators.learning": ("CompareLearnersOperator", "TrainNaiveBayesOperator"),
    "operators.methods": (
        "BottomUpOperator",
        "DPSMBayesOperator",
        "DSAEDOperator",
        "ERRPHOperator",
        "GreedyHamdistOperator",
        "ILPLDiversityOperator",
        "KACLUKOperator",
        "LatentClassOperator",
        "LocalLaplaceOperator",
        "MondrianOperator",
        "OBPAOperator",
        "PrivBayesOperator",
        "PrivBayesROperator",
        "RFKAOperator",
        "StructureOperator",
        "TRROperator",
    ),
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
    "operators.release": (
        "CutFragmentsOperator",
        "JoinFragmentsOperator",
        "ReleaseFragmentOperator",
        "ReleaseOperator",
    ),
    "operators.transform": ("TransformOperator", "release_transform"),
    "operators.validate": ("ValidateOperator",),
    "operators.verify": ("AttackOperator", "HoldOutOperator", "VerifyOperator"),
    "pipeline": ("raise_if_broken", "release_dag", "release_dags", "release_pipeline", "sweep_dag"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)  # the stub next to this file is generated from the table, see `make docs`


def __getattr__(name: str) -> Any:
    """Airflow imports this package at every start to read what it provides: that must load no operator."""
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
