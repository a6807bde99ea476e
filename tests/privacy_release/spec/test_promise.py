"""The field `budget.promise`: what it may stand beside, and a year of releases from one file."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from privacy_engine.dp.limits import Limit, Period
from privacy_engine.dp.loss import Neighbours
from privacy_engine.errors import SpecError
from privacy_release.lake.read import manifest_of
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.spec.sections.budget import schedule_of
from privacy_release.workarea.area import WorkArea

PARTICIPATION = {"regime": "participation", "releases": 1, "period": "365d"}
ARRIVALS = {"regime": "arrivals", "seen": "refuse"}


def spec(home: Path, over_time: Any = None, **changed: Any) -> Path:
    """A release of visits by week."""
    categories = {"town": ["north", "south"], "illness": ["cold", "flu"]}
    columns: dict[str, Any] = {n: {"role": "insensitive", "kind": "categorical", "categories": c}
                               for n, c in categories.items()}  # fmt: skip
    columns["patient"] = {"role": "identifier", "kind": "categorical"}
    reported = yaml.safe_load((home / "releases" / "people.yaml").read_text())
    fields = {
        "name": "people",
        "source": {"uri": str(home / "weeks" / "{release}.parquet")},
        "schema": columns,
        "person": "patient",
        "release": {"method": "dpsm_bayes", "epsilon": 0.5, "max_rows": 1},
        "budget": {"dataset": "clinic", "promise": over_time or PARTICIPATION, "curator_report": False},
        "policy": "policies/private.yaml",
        "publish": reported["publish"],
    } | changed
    (home / "policies" / "private.yaml").write_text("max_epsilon: 0.5\nmax_delta: 0\n")
    path = home / "releases" / "people.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in fields.items() if v is not None}))
    return path


@pytest.mark.parametrize(
    ("over_time", "made"),
    [
        (PARTICIPATION, {"releases": 1, "period": "365d"}),
        ({"regime": "participation", "releases": 4, "period": "total"}, {"releases": 4, "period": "total"}),
        (ARRIVALS, {"releases": 1, "period": "total", "refuse_seen": True}),
        ({"regime": "arrivals"}, {"releases": 1, "period": "total", "refuse_seen": False}),
    ],
)
def test_a_regime_is_a_number_of_releases_in_a_period(home: Path, over_time: Any, made: Any) -> None:
    read = load_spec(spec(home, over_time)).budget
    assert read is not None
    assert read.schedule == made == schedule_of(over_time)


def test_the_former_name_of_the_field_works_and_warns(home: Path) -> None:
    file = spec(home)
    now = load_spec(file)
    file.write_text(file.read_text().replace("promise:", "over_time:"))
    with pytest.warns(FutureWarning, match=r"budget\.over_time is called budget\.promise"):
        assert load_spec(file).budget == now.budget


def test_both_names_of_the_field_are_refused(home: Path) -> None:
    file = spec(home)
    fields = yaml.safe_load(file.read_text())
    fields["budget"]["over_time"] = fields["budget"]["promise"]
    file.write_text(yaml.safe_dump(fields))
    with pytest.raises(SpecError, match="promise and over_time are the same field; remove over_time"):
        load_spec(file)


@pytest.mark.parametrize(
    ("over_time", "changed", "expected"),
    [
        (PARTICIPATION, {"person": None}, "budget.promise requires a person"),
        (PARTICIPATION, {"engine": "fragments"}, "budget.promise cannot be combined with engine fragments"),
        (PARTICIPATION, {"transform": {"sql": "SELECT * FROM t"}}, "cannot be combined with a transform"),
        (
            PARTICIPATION,
            {"release": {"method": "dpsm_bayes", "epsilon": 0.5}},
            "person must be bounded if a budget pays",
        ),
        ({"regime": "participation"}, {}, "releases"),
        ({**PARTICIPATION, "releases": 0}, {}, "releases"),
        ({**PARTICIPATION, "period": "release"}, {}, "must be a number of days such as 365d, or total"),
        ({"regime": "sometimes"}, {}, "promise"),
        ({**ARRIVALS, "releases": 2}, {}, "releases"),
    ],
)
def test_what_does_not_fit_is_refused_by_field(
    home: Path, over_time: Any, changed: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SpecError, match=re.escape(expected)):
        load_spec(spec(home, over_time, **changed))


def test_weeks_are_released_and_published_under_one_promise(
    home: Path, work: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    monkeypatch.setenv("PRIVACY_MEMBERSHIP_KEY", "k" * 40)
    ledger, lake = BudgetLedger(str(tmp_path / "ledger.db")), Lake(root=str(tmp_path / "lake"))
    ledger.migrate()
    year = Period.parse("365d")
    limit = Limit(epsilon=1.0, neighbours=Neighbours.REPLACE_PERSON, period=year)
    ledger.grant("clinic", limit, reason="a test", by="officer")
    (home / "weeks").mkdir()
    rng, reported = np.random.default_rng(3), []
    for week in "123":
        towns, illnesses = rng.choice(["north", "south"], 60), rng.choice(["cold", "flu"], 60)
        frame = pd.DataFrame({"patient": range(60), "town": towns, "illness": illnesses})
        frame.assign(patient=frame["patient"].astype(str)).to_parquet(home / "weeks" / f"{week}.parquet")
        run_release(
            load_spec(spec(home)), lake, week, work, lambda stage, text: reported.append(text), ledger=ledger
        )
    assert float(ledger.standing("clinic")[0].spent) == 1.0
    assert manifest_of(lake.table("people"), "3")["over_time"]["loss"]["epsilon"] == 1.0
    assert "epsilon 0.5 of clinic, under a promise of epsilon 1" in reported
