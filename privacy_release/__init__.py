"""The release process without Airflow: from a table about people to a published release with its proof.

Names are imported when first used, so that asking for a lake does not compile an algorithm.
"""

import importlib
from typing import Any

from privacy_engine.moved import redirect

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
    "running.run": ("run_release",),
    "steps.validate": ("validate",),
    "steps.verify": ("raise_if_failed", "verify_staged"),
    "workarea.area": ("WorkArea",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)  # the stub next to this file is generated from the table, see `make docs`


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'privacy_release' has no attribute {name!r}")
    return getattr(importlib.import_module(f"privacy_release.{_MODULE[name]}"), name)


redirect(
    {
        "privacy_release.spending": "privacy_release.budget",
        "privacy_release.steps.run": "privacy_release.running.run",
        "privacy_release.work": "privacy_release.workarea",
        **{
            f"privacy_release.work.{name}": f"privacy_release.config.{name}"
            for name in ("durations", "host", "places", "problems", "settings")
        },
    }
)
