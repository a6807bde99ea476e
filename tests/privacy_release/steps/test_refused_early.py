"""What files and the deployment decide is refused by a run before it reads a source or asks a ledger."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from privacy_engine.errors import PrivacyEngineError
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.spec.model import load_spec
from privacy_release.steps.run import run_release
from privacy_release.work.area import WorkArea
from tests import tables

COLUMNS = ("name", "age", "illness")
PRIVATE: dict[str, Any] = {
    "schedule": None,
    "expectations": None,
    "source": {"uri": "people.parquet", "columns": list(COLUMNS)},
    "schema": tables.fields(*COLUMNS, **tables.PUBLIC),
    "release": {"method": "privbayes", "epsilon": 1},
    "budget": {"dataset": "people"},
}
ORDERED = {"model": "t_closeness", "t": 0.2, "distance": "ordered", "attribute": "illness"}
MISSPELT = {"model": "distinct_l_diversity", "l": 2, "attribute": "ilness"}


class Unread:
    """A ledger that fails on whatever it is asked."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(f"the ledger was asked for {name}")


@pytest.mark.parametrize(
    ("policy", "changes", "floor", "classes", "told"),
    [
        ({"require": [MISSPELT]}, {}, None, None, "ilness.*did you mean illness"),
        ({"require": [ORDERED]}, {}, None, None, "t_closeness by the distance ordered|distance"),
        ({}, {}, {"require": [MISSPELT]}, None, "ilness.*did you mean illness"),
        ({"max_epsilon": 3}, {}, {"max_epsilon": 2}, None, "max_epsilon 3 is weaker than max_epsilon 2"),
        ({"columns": {"roles": ["sensitive"]}}, {}, None, None, "age must keep roles"),
        ({}, {}, None, {"columns": {"*": "identifier"}}, "age is classified as identifier"),
        ({}, {"source": {"uri": "ftp://a/b"}}, None, None, "must be a path, or begin with file://"),
    ],
    ids=["attribute", "distance", "floor's attribute", "weaker", "columns", "classification", "address"],
)
def test_nothing_is_read_and_nothing_is_booked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: dict[str, Any],
    changes: dict[str, Any],
    floor: dict[str, Any] | None,
    classes: dict[str, Any] | None,
    told: str,
) -> None:
    home = tables.write_home(tmp_path / "include", rules={"max_epsilon": 2} | policy, **(PRIVATE | changes))
    (home / "people.parquet").unlink()
    for name, fields in (("FLOOR_POLICY", floor), ("CLASSIFICATION", classes)):
        if fields is not None:
            (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(fields))
            monkeypatch.setenv(f"PRIVACY_{name}", str(tmp_path / f"{name}.yaml"))
    spec = load_spec(home / "releases" / "people.yaml")
    ledger: BudgetLedger = Unread()  # type: ignore[assignment]
    with WorkArea(tmp_path / "work", "run") as work, pytest.raises(PrivacyEngineError, match=told):
        run_release(spec, Lake(root=str(tmp_path / "lake")), "r1", work, ledger=ledger)
