"""A private release of `tests.tables` in a separate folder, with a ledger that pays for it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from privacy_engine.dp.limits import Limit
from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.ledgers import new_ledger

COLUMNS = ("name", "age", "illness")
FIELDS = tables.fields(*COLUMNS, **tables.PUBLIC)
EPSILON = 30.0  # granted, and what the policy allows
PRIVATE: Mapping[str, Any] = {
    "schedule": None,
    "expectations": None,
    "source": {"uri": "people.parquet", "columns": list(COLUMNS)},
    "schema": FIELDS,
    "release": {"method": "privbayes", "epsilon": 1},
    "budget": {"dataset": "people"},
}


def run_private(
    folder: Path,
    table: pd.DataFrame,
    watch: Callable[[str, str], None] = lambda stage, text: None,
    *,
    rules: Mapping[str, Any] | None = None,
    release_id: str = "r1",
    **changes: Any,
) -> Lake:
    """Publish a release of a table; its lake.

    Args:
        folder: It holds the include folder, the lake, the ledger and the work area.
        table: The source.
        watch: Receives stage and text of each line.
        rules: The policy; None limits only epsilon.
        release_id: ID of the release.
        changes: Fields of the specification that differ from `PRIVATE`.
    """
    home = tables.write_home(folder, table, rules or {"max_epsilon": EPSILON}, **{**PRIVATE, **changes})
    ledger = new_ledger(folder / "ledger.db")
    ledger.grant("people", Limit(epsilon=EPSILON), reason="a test", by="officer")
    spec, lake = load_spec(home / "releases" / "people.yaml"), Lake(root=str(folder / "lake"))
    with WorkArea(folder / "work", "run") as work:
        run_release(spec, lake, release_id, work, watch, ledger=ledger)
    return lake
