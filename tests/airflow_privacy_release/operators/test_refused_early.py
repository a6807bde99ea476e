"""A rule is judged whichever way a release starts, before a source is read or a ledger is asked.

Each rule itself is tested in `tests/privacy_release/spec/rules`; here is one of each group of facts. The
source is not there and the ledger fails on any call, where the facts do not come from them.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from airflow.sdk import DAG

from airflow_privacy_release import (
    BudgetGuardOperator,
    ERRPHOperator,
    IngestParquetOperator,
    MeasureChoiceOperator,
    ReleaseOperator,
)
from airflow_privacy_release.operators import budget as budget_operators
from airflow_privacy_release.operators import release as release_operators
from airflow_privacy_release.operators.methods import SynthesizerOperator
from airflow_privacy_release.pipeline import raise_if_broken, release_dags
from privacy_engine.dp.limits import Limit
from privacy_engine.errors import BudgetExceededError, SpecError, VerificationError
from privacy_release.cli.main import WRONG, main
from privacy_release.lake.store import Lake
from privacy_release.ledger import default as places
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.spec.rules.facts import FactOrigin
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.ledgers import new_ledger

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
        group: Group of the facts that the rule needs; of several groups, the last that is known.
        policy: its fields, beside the largest epsilon.
        changes: of the file.
        floor: the floor policy.
        classes: the classification.
        said: a pattern.
        late: not known where a DAG is parsed, which loads no method; then the task that books refuses it.
        by_file: found only in a file.
    """

    said: str
    group: FactOrigin
    policy: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    floor: dict[str, Any] | None = None
    classes: dict[str, Any] | None = None
    late: bool = False
    by_file: bool = False


CASES = {
    "policy": Case(
        group=FactOrigin.POLICY, policy={"require": [MISSPELT]}, said="ilness.*did you mean illness"
    ),
    "distance": Case(
        group=FactOrigin.POLICY,
        policy={"require": [ORDERED]},
        said="by the distance `ordered` requires values with",
    ),
    "floor": Case(
        group=FactOrigin.POLICY, floor={"require": [MISSPELT]}, said="ilness.*did you mean illness"
    ),
    "weaker": Case(
        group=FactOrigin.POLICY,
        policy={"max_epsilon": 3},
        floor={"max_epsilon": 2},
        said="max_epsilon 3 is weaker than max_epsilon 2",
        by_file=True,
    ),
    "promise": Case(
        group=FactOrigin.METHOD, policy={"max_epsilon": 0.5}, said="max_epsilon 1.* is weaker than", late=True
    ),
    "columns": Case(
        group=FactOrigin.METHOD,
        policy={"columns": {"roles": ["sensitive"]}},
        said="age must meet roles",
        late=True,
    ),
    "domains": Case(
        group=FactOrigin.FILE,
        changes={"schema": tables.fields(*COLUMNS, age={"bins": 10})},
        said=r"\['illness'\] have no public domain",
    ),
    "method": Case(
        group=FactOrigin.METHOD,
        changes={"release": {"method": "privbayes", "epsilon": -1}},
        said="epsilon must be",
        late=True,
    ),
    "file": Case(
        group=FactOrigin.FILE,
        changes={"alerts": {"gcp_lca": {"above": 0.5}}},
        said="alerts.gcp_lca cannot",
        by_file=True,
    ),
    "classification": Case(
        group=FactOrigin.DEPLOYMENT,
        classes={"columns": {"*": "identifier"}},
        said="age is classified as identifier",
        by_file=True,
    ),
    "address": Case(
        group=FactOrigin.FILE,
        changes={"source": {"uri": "ftp://a/b"}},
        said="must be a path, or begin with file://",
        by_file=True,
    ),
}
BY_HAND = [name for name, case in CASES.items() if not case.by_file]


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
    """A ledger that no one may use, wherever an entry point looks for it."""
    ledger: Any = Unread()
    use_ledger(ledger, monkeypatch)
    return ledger  # type: ignore[no-any-return]


def use_ledger(ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `check` and the operators that book find this ledger."""
    monkeypatch.setattr(places, "ledger_at", lambda _: ledger)
    for operators in (budget_operators, release_operators):
        monkeypatch.setattr(operators, "ledger_of", lambda _: ledger)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_refuses_it(case: Case, written: Any, unread: BudgetLedger, tmp_path: Path) -> None:
    with WorkArea(tmp_path / "work", "run") as work, pytest.raises(SpecError, match=case.said):
        run_release(load_spec(written(case)), Lake(root=str(tmp_path / "lake")), "r1", work, ledger=unread)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_check_refuses_it(
    case: Case, written: Any, unread: BudgetLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(written(case))]) == WRONG
    with pytest.raises(SpecError, match=case.said):
        raise SpecError(capsys.readouterr().err)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_dag_of_the_file_is_not_built_or_refuses_it_in_its_guard(
    case: Case, written: Any, unread: BudgetLedger, airflow_home: Path
) -> None:
    written(case)
    dags = release_dags()
    assert list(dags) == ["people"] * case.late
    if case.late:
        with pytest.raises(Exception, match=case.said) as caught:
            run_guard(dags["people"])
        assert caught.type.__name__ == "AirflowFailException"
    else:
        with pytest.raises(SpecError, match=case.said):
            raise_if_broken()


def run_guard(dag: DAG) -> None:
    """Run the first task of a DAG of a file, with the parameters that a run has by default."""
    guard = dag.get_task("budget")
    guard.render_template_fields({**context("budget"), "params": dag.params.dump()})
    guard.execute(context("budget"))


@pytest.mark.parametrize("name", BY_HAND)
def test_a_guard_refuses_it_before_the_ledger_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: BudgetLedger, airflow_home: Path
) -> None:
    case = CASES[name]
    deploy(case, tmp_path, monkeypatch)
    fields = PRIVATE | (case.changes or {})
    requested = fields["release"]
    operator = BudgetGuardOperator(
        task_id="budget",
        dataset="people",
        method=requested["method"],
        parameters={"epsilon": requested["epsilon"]},
        schema=fields["schema"],
        policy={"max_epsilon": 2} | (case.policy or {}),
        action="skip",
    )
    with pytest.raises(Exception, match=case.said) as caught:
        operator.execute(context("budget"))
    assert caught.type.__name__ == "AirflowFailException"


def test_a_guard_of_a_file_judges_method_schema_and_policy(written: Any, airflow_home: Path) -> None:
    spec = load_spec(written(CASES["promise"]))
    operator = release_dags()["people"].get_task("budget")
    given = (operator.method, operator.schema, operator.policy)
    assert given == ("privbayes", spec.method_fields, spec.policy)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_task_composed_by_hand_refuses_it_before_the_ledger_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: BudgetLedger, work_root: Path
) -> None:
    case = CASES[name]
    fields = PRIVATE | (case.changes or {})
    table = ingested(tables.people(), tmp_path, schema=fields["schema"])
    deploy(case, tmp_path, monkeypatch)
    requested = fields["release"]
    operator = ReleaseOperator(
        task_id="release",
        table=table,
        method=requested["method"],
        parameters={"epsilon": requested["epsilon"]},
        budget="people",
        policy={"max_epsilon": 2} | (case.policy or {}),
    )
    with pytest.raises(Exception, match=case.said) as caught:
        operator.execute(context("release"))
    assert caught.type.__name__ == "AirflowFailException"


def ingested(records: pd.DataFrame, folder: Path, **given: Any) -> Any:
    """The reference of a table whose records are gone."""
    records.to_parquet(folder / "people.parquet", index=False)
    operator = IngestParquetOperator(
        task_id="ingest", uri=str(folder / "people.parquet"), columns=list(COLUMNS), **given
    )
    table = operator.execute(context("ingest"))
    Path(table["uri"]).unlink()
    return table


def context(task: str) -> Any:
    """The context of a task of the first run."""
    ti = SimpleNamespace(dag_id="people", run_id="run 1", task_id=task, map_index=-1)
    return {"ti": ti, "outlet_events": defaultdict(SimpleNamespace)}


# Facts that not every entry point can know


def test_each_group_of_facts_has_a_case_here() -> None:
    later = {FactOrigin.CATALOGUE, FactOrigin.INGESTED, FactOrigin.LAKE, FactOrigin.LEDGER}
    assert {case.group for case in CASES.values()} | later == set(FactOrigin)
    assert {case.group for case in CASES.values() if not case.by_file} == set(FactOrigin) - later - {
        FactOrigin.DEPLOYMENT
    }


def test_a_check_refuses_what_the_other_files_do_not_publish(
    written: Any, unread: BudgetLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    asset = Case(
        group=FactOrigin.CATALOGUE,
        changes={"schedule": {"asset": "peoples"}},
        said="which no other release publishes",
    )
    assert main(["check", str(written(asset))]) == WRONG
    assert asset.said in capsys.readouterr().err


def test_a_task_composed_by_hand_refuses_an_ingested_table_before_the_ledger_is_asked(
    tmp_path: Path, unread: BudgetLedger, work_root: Path, airflow_home: Path
) -> None:
    records = tables.people()
    records.loc[0, "illness"] = None
    table = ingested(records, tmp_path, schema=PRIVATE["schema"], nulls="drop")
    operator = ReleaseOperator(
        task_id="release",
        table=table,
        method="privbayes",
        parameters={"epsilon": 1},
        budget="people",
        policy={"max_epsilon": 2},
    )
    with pytest.raises(Exception, match="records with nulls must not be dropped") as caught:
        operator.execute(context("release"))
    assert caught.type.__name__ == "AirflowFailException"


def test_a_run_refuses_an_ingested_table_before_it_books(
    written: Any, ledger: BudgetLedger, tmp_path: Path
) -> None:
    ledger.grant("people", Limit(epsilon=2), reason="a test", by="officer")
    looking = {"transform": {"sql": "SELECT _record, age, illness FROM records WHERE age > 40"}}
    file = written(Case(group=FactOrigin.INGESTED, changes=looking, said=""))
    tables.people().to_parquet(file.parents[1] / "people.parquet", index=False)
    with (
        WorkArea(tmp_path / "work", "run") as work,
        pytest.raises(SpecError, match="must make one record from each record"),
    ):
        run_release(load_spec(file), Lake(root=str(tmp_path / "lake")), "r1", work, ledger=ledger)
    assert [entry.event.value for entry in ledger.history("people")] == ["grant"]


@pytest.mark.parametrize("starts", ["run", "check"])
def test_the_lake_refuses_another_release_before_the_source_is_read(
    starts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tables.write_home(
        tmp_path / "include", rules=tables.POLICY | {"repeated_people": "history"}, schedule=None
    )
    spec, lake = load_spec(home / "releases" / "people.yaml"), Lake(root=str(tmp_path / "lake"))
    with WorkArea(tmp_path / "work", "run") as work:
        run_release(spec, lake, "r1", work)
    (home / "people.parquet").unlink()
    said = "has 1 earlier releases"
    monkeypatch.setenv("PRIVACY_LAKE", lake.root)
    if starts == "check":
        assert main(["check", str(home / "releases" / "people.yaml")]) == WRONG
        assert said in capsys.readouterr().err
    else:
        with WorkArea(tmp_path / "work", "again") as work, pytest.raises(VerificationError, match=said):
            run_release(spec, lake, "r2", work)


@pytest.fixture
def ledger(tmp_path: Path) -> BudgetLedger:
    """A ledger without a budget."""
    return new_ledger(tmp_path / "ledger.db")


@pytest.mark.parametrize("starts", ["check", "run", "DAG by file", "DAG by hand"])
def test_a_budget_that_is_too_short_refuses_it_before_the_source_is_read(
    starts: str,
    written: Any,
    ledger: BudgetLedger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    work_root: Path,
    airflow_home: Path,
) -> None:
    ledger.grant("people", Limit(epsilon=0.5), reason="a test", by="officer")
    use_ledger(ledger, monkeypatch)
    said = "data set people cannot pay epsilon 1"
    file = written(Case(group=FactOrigin.LEDGER, said=said))
    match starts:
        case "check":
            assert main(["check", "--strict", str(file)]) == WRONG
            assert f"not now: {said}" in capsys.readouterr().out
        case "run":
            with WorkArea(tmp_path / "work", "run") as work, pytest.raises(BudgetExceededError, match=said):
                run_release(load_spec(file), Lake(root=str(tmp_path / "lake")), "r1", work, ledger=ledger)
        case "DAG by file":
            with pytest.raises(Exception, match=said):
                run_guard(release_dags()["people"])
        case _:
            operator = ReleaseOperator(
                task_id="release",
                table=ingested(tables.people(), tmp_path, schema=PRIVATE["schema"]),
                method="privbayes",
                parameters={"epsilon": 1},
                budget="people",
                policy={"max_epsilon": 2},
            )
            with pytest.raises(Exception, match=said):
                operator.execute(context("release"))
    assert [entry.event.value for entry in ledger.history("people")] == ["grant"]


def test_who_books_must_name_the_policy_when_the_dag_is_built() -> None:
    table: Any = {}
    for make in (
        lambda: ReleaseOperator(task_id="made", table=table, method="privbayes", budget="people"),
        lambda: ERRPHOperator(task_id="made", table=table, p_0=0.5, budget="people"),
        lambda: BudgetGuardOperator(task_id="made", dataset="people", epsilon=0.5),
        lambda: MeasureChoiceOperator(task_id="made", choice=table, records=table, budget="people"),
    ):
        with pytest.raises(SpecError, match="made: a budget requires a policy"):
            make()
    named = SynthesizerOperator.__subclasses__()
    assert named
    for operator in named:
        with pytest.raises(TypeError, match="policy"):
            operator(task_id="made", table=table, budget="people")
