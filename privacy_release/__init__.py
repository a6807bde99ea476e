"""The release process without Airflow: from a table about people to a published release with its proof.

Names are imported when first used, so that asking for a lake does not compile an algorithm.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy_release.lake.log import State as State
    from privacy_release.lake.publish import publish as publish
    from privacy_release.lake.read import manifest_of as manifest_of
    from privacy_release.lake.read import read_release as read_release
    from privacy_release.lake.read import read_tables as read_tables
    from privacy_release.lake.read import releases as releases
    from privacy_release.lake.retract import retract as retract
    from privacy_release.lake.store import Lake as Lake
    from privacy_release.lake.store import ReleaseTable as ReleaseTable
    from privacy_release.ledger.ledger import BudgetLedger as BudgetLedger
    from privacy_release.query.answer import answer as answer
    from privacy_release.reading import dictionary as dictionary
    from privacy_release.reading import intervals as intervals
    from privacy_release.reading import read as read
    from privacy_release.reading import replicates as replicates
    from privacy_release.spec.files import load_policy as load_policy
    from privacy_release.spec.files import load_schema as load_schema
    from privacy_release.spec.model import ReleaseSpec as ReleaseSpec
    from privacy_release.spec.model import load_spec as load_spec
    from privacy_release.steps.ingest import TableSource as TableSource
    from privacy_release.steps.ingest import ingest as ingest
    from privacy_release.steps.ingest import ingest_tables as ingest_tables
    from privacy_release.steps.outliers import detect_outliers as detect_outliers
    from privacy_release.steps.publish import publish_staged as publish_staged
    from privacy_release.steps.release import make_release as make_release
    from privacy_release.steps.run import run_release as run_release
    from privacy_release.steps.validate import validate as validate
    from privacy_release.steps.verify import raise_if_failed as raise_if_failed
    from privacy_release.steps.verify import verify_staged as verify_staged
    from privacy_release.work.area import WorkArea as WorkArea

_HOME = {
    "lake.log": ("State",),
    "lake.publish": ("publish",),
    "query.answer": ("answer",),
    "reading": ("dictionary", "intervals", "read", "replicates"),
    "lake.read": ("manifest_of", "read_release", "read_tables", "releases"),
    "lake.retract": ("retract",),
    "lake.store": ("Lake", "ReleaseTable"),
    "ledger.ledger": ("BudgetLedger",),
    "spec.files": ("load_policy", "load_schema"),
    "spec.model": ("ReleaseSpec", "load_spec"),
    "steps.ingest": ("TableSource", "ingest", "ingest_tables"),
    "steps.outliers": ("detect_outliers",),
    "steps.publish": ("publish_staged",),
    "steps.release": ("make_release",),
    "steps.run": ("run_release",),
    "steps.validate": ("validate",),
    "steps.verify": ("raise_if_failed", "verify_staged"),
    "work.area": ("WorkArea",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'privacy_release' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privacy_release.{_MODULE[name]}"), name)
