"""A rule is judged whichever way a release starts, before a source is read or a ledger is asked.

Each rule itself is tested in `tests/privacy_release/spec/rules`; here is one of each group of facts.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from airflow_privacy_release import (
    BudgetGuardOperator,
    IngestParquetOperator,
    MeasureChoiceOperator,
    ReleaseOperator,
)
from airflow_privacy_release.operators import budget as budget_operators
from airflow_privacy_release.operators import release as release_operators
from airflow_privacy_release.operators.randomizers import ERRPHOperator
from airflow_privacy_release.pipeline import raise_if_broken, release_dags
from privacy_engine.errors import SpecError
from privacy_release.cli.main import WRONG, main
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
    """A ledger that fails on any call."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(f"{name} of the ledger was used")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mistake, and the error that reports it.

    Attributes:
        policy: its fields, beside the largest epsilon.
        changes: of the file.
        floor: the floor policy.
        classes: the classification.
        said: a pattern.
        late: not known where a DAG is parsed, which loads no method; then the task that books refuses it.
        by_file: found only in a file.
    """

    said: str
    policy: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    floor: dict[str, Any] | None = None
    classes: dict[str, Any] | None = None
    late: bool = False
    by_file: bool = False


CASES = {
    "policy": Case(policy={"require": [MISSPELT]}, said="ilness.*did you mean illness"),
    "distance": Case(policy={"require": [ORDERED]}, said="by the distance `ordered` needs values with"),
    "floor": Case(floor={"require": [MISSPELT]}, said="ilness.*did you mean illness"),
    "weaker": Case(
        policy={"max_epsilon": 3},
        floor={"max_epsilon": 2},
        said="max_epsilon 3 is weaker than max_epsilon 2",
        by_file=True,
    ),
    "promise": Case(policy={"max_epsilon": 0.5}, said="max_epsilon 1.* is weaker than", late=True),
    "columns": Case(policy={"columns": {"roles": ["sensitive"]}}, said="age must keep roles", late=True),
    "domains": Case(
        changes={"schema": tables.fields(*COLUMNS, age={"bins": 10})},
        said=r"\['illness'\] have no public domain",
        by_file=True,
    ),
    "method": Case(
        changes={"release": {"method": "privbayes", "epsilon": -1}}, said="epsilon must be", late=True
    ),
    "file": Case(changes={"alerts": {"gcp_lca": {"above": 0.5}}}, said="alerts.gcp_lca must", by_file=True),
    "classification": Case(
        classes={"columns": {"*": "identifier"}}, said="age is classified as identifier", by_file=True
    ),
    "address": Case(
        changes={"source": {"uri": "ftp://a/b"}}, said="must be a path, or begin with file://", by_file=True
    ),
}


def deploy(case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the floor policy and the classification of a case, as a deployment does."""
    for name, fields in (("FLOOR_POLICY", case.floor), ("CLASSIFICATION", case.classes)):
        if fields is not None:
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(fields))
            monkeypatch.setenv(f"PRIVACY_{name}", str(folder / f"{name}.yaml"))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], Path]:
    """The file of a release with a mistake, whose source is not there."""

    def write(case: Case) -> Path:
        rules = {"max_epsilon": 2} | (case.policy or {})
        home = tables.write_home(tmp_path / "include", rules=rules, **(PRIVATE | (case.changes or {})))
        (home / "people.parquet").unlink()
        monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(tmp_path))
        deploy(case, tmp_path, monkeypatch)
        return home / "releases" / "people.yaml"

    return write


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> BudgetLedger:
    """A ledger that no one may use."""
    ledger: Any = Unread()
    monkeypatch.setattr(release_operators, "ledger_of", lambda _: ledger)
    return ledger  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_refuses_it(case: Case, written: Any, unread: BudgetLedger, tmp_path: Path) -> None:
    with WorkArea(tmp_path / "work", "run") as work, pytest.raises(SpecError, match=case.said):
        run_release(load_spec(written(case)), Lake(root=str(tmp_path / "lake")), "r1", work, ledger=unread)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_check_refuses_it(case: Case, written: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(written(case))]) == WRONG
    with pytest.raises(SpecError, match=case.said):
        raise SpecError(capsys.readouterr().err)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_dag_of_the_file_is_not_built(case: Case, written: Any, airflow_home: Path) -> None:
    written(case)
    if case.late:
        assert list(release_dags()) == ["people"]
        return
    assert not release_dags()
    with pytest.raises(SpecError, match=case.said):
        raise_if_broken()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.by_file])
def test_a_guard_refuses_it_before_the_ledger_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: BudgetLedger, airflow_home: Path
) -> None:
    case = CASES[name]
    monkeypatch.setattr(budget_operators, "ledger_of", lambda _: unread)
    deploy(case, tmp_path, monkeypatch)
    asked = (case.changes or PRIVATE)["release"]
    operator = BudgetGuardOperator(
        task_id="budget",
        dataset="people",
        method=asked["method"],
        parameters={"epsilon": asked["epsilon"]},
        schema=PRIVATE["schema"],
        policy={"max_epsilon": 2} | (case.policy or {}),
        action="skip",
    )
    with pytest.raises(Exception, match=case.said) as caught:
        operator.execute({"ti": SimpleNamespace(dag_id="people", run_id="run 1", task_id="budget")})
    assert caught.type.__name__ == "AirflowFailException"


def test_a_guard_of_a_file_judges_method_schema_and_policy(written: Any, airflow_home: Path) -> None:
    spec = load_spec(written(CASES["promise"]))
    operator = release_dags()["people"].get_task("budget")
    given = (operator.method, operator.schema, operator.policy)
    assert given == ("privbayes", spec.method_fields, spec.policy)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.by_file])
def test_a_task_composed_by_hand_refuses_it_before_the_ledger_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: BudgetLedger, work_root: Path
) -> None:
    case = CASES[name]
    context: Any = {
        "ti": SimpleNamespace(dag_id="people", run_id="run 1", task_id="task", map_index=-1),
        "outlet_events": defaultdict(SimpleNamespace),
    }
    tables.people().to_parquet(tmp_path / "people.parquet", index=False)
    raw = IngestParquetOperator(
        task_id="ingest",
        uri=str(tmp_path / "people.parquet"),
        schema=PRIVATE["schema"],
        columns=list(COLUMNS),
    )
    table = raw.execute(context)
    Path(table["uri"]).unlink()
    deploy(case, tmp_path, monkeypatch)
    asked = (case.changes or PRIVATE)["release"]
    operator = ReleaseOperator(
        task_id="release",
        table=table,
        method=asked["method"],
        parameters={"epsilon": asked["epsilon"]},
        budget="people",
        policy={"max_epsilon": 2} | (case.policy or {}),
    )
    with pytest.raises(Exception, match=case.said) as caught:
        operator.execute(context)
    assert caught.type.__name__ == "AirflowFailException"


def test_who_books_must_name_the_policy_when_the_dag_is_built() -> None:
    table: Any = {}
    for make in (
        lambda: ReleaseOperator(task_id="made", table=table, method="privbayes", budget="people"),
        lambda: ERRPHOperator(task_id="made", table=table, p_0=0.5, budget="people"),
        lambda: BudgetGuardOperator(task_id="made", dataset="people", epsilon=0.5),
        lambda: MeasureChoiceOperator(task_id="made", choice=table, records=table, budget="people"),
    ):
        with pytest.raises(SpecError, match="made: policy must be given beside budget"):
            make()
    named = airflow_synthesizers()
    assert named
    for operator in named:
        with pytest.raises(TypeError, match="policy"):
            operator(task_id="made", table=table, budget="people")


def airflow_synthesizers() -> list[Any]:
    """Each operator that is named after a synthesizer."""
    from airflow_privacy_release.operators import synthesizers

    found = [made for made in vars(synthesizers).values() if isinstance(made, type)]
    return [made for made in found if issubclass(made, synthesizers.SynthesizerOperator)]
