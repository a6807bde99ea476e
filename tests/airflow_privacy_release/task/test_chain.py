"""What a task takes from others: the recorded value, from the task that the DAG names, and nothing else."""

import inspect
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG, BaseOperator, task, task_group

import airflow_privacy_release
from airflow_privacy_release import (
    CompareOperator,
    DetectOutliersOperator,
    IngestParquetOperator,
    JoinFragmentsOperator,
    PublishOperator,
    ReleaseFragmentOperator,
    ReleaseOperator,
    TransformOperator,
    ValidateOperator,
    VerifyOperator,
    release_transform,
)
from airflow_privacy_release.compat import AirflowFailException
from airflow_privacy_release.task.chain import hands_on, taken
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.run import run_journal
from privacy_engine.errors import IntegrityError

EXPORTED = [
    found
    for name in airflow_privacy_release.__all__
    if inspect.isclass(found := getattr(airflow_privacy_release, name)) and issubclass(found, BaseOperator)
]
TAKING = [(cls, field) for cls in EXPORTED for field in getattr(cls, "references", ())]
CHANGED = "was changed outside of the run"


def reference(name: str = "ingested", **more: Any) -> dict[str, Any]:
    return {"name": name, "rows": 3, "sha256": "0" * 64, **more}


@pytest.fixture
def dag() -> Any:
    with DAG(dag_id="people", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        yield dag


def context(dag: Any, task_id: str, index: int = -1) -> Any:
    ti = SimpleNamespace(
        dag_id="people", run_id="run 1", task_id=task_id, map_index=index, id="ti", xcom_push=lambda *_: None
    )
    return {"ti": ti, "task_instance": ti, "dag": dag, "outlet_events": defaultdict(SimpleNamespace)}


def record(task_id: str, *values: Any, mapped: bool = False) -> None:
    """What a task has recorded; of a mapped one, what each of its instances has."""
    for place, value in enumerate(values):
        index = place if mapped else -1
        journal = run_journal(context(None, task_id))
        journal.record(task_id, index, journal.begin(task_id, index), value)


def checked(dag: Any, task_id: str, index: int = -1, **values: Any) -> Any:
    """The template fields of a task that was given these values."""
    written = dag.get_task(task_id)
    cls = written.operator_class if written.is_mapped else type(written)
    operator: Any = object.__new__(cls)
    for name in cls.template_fields:
        object.__setattr__(operator, name, values.get(name))
    here = context(dag, task_id, index)
    return taken(operator, here, run_journal(here))


def ingest(task_id: str = "ingest") -> Any:
    return IngestParquetOperator(task_id=task_id, uri="people.parquet", schema={}).output


def made(cls: type[BaseOperator], outputs: Mapping[str, Any]) -> Any:
    """An operator with the arguments that it must have; those that are references are outputs of tasks."""
    needed = {
        name: outputs.get(name, "text")
        for c in cls.__mro__
        if "__init__" in vars(c) and c.__module__.startswith("airflow_privacy_release")
        for name, p in inspect.signature(vars(c)["__init__"]).parameters.items()
        if p.kind is p.KEYWORD_ONLY and (p.default is p.empty or name in outputs)
    }
    return cls(task_id="here", **needed)


@pytest.mark.parametrize(("cls", "field"), TAKING, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_every_operator_refuses_a_changed_reference_in_each_field(
    dag: Any, work_root: Path, cls: Any, field: str
) -> None:
    outputs = {name: ingest(f"before_{name}") for name in cls.references}
    operator = copy(made(cls, outputs))  # as a task runner does: the DAG keeps what it says
    for name in cls.references:
        record(f"before_{name}", reference(name))
        setattr(operator, name, reference(name))
    setattr(operator, field, reference(field, rows=2))
    with pytest.raises(AirflowFailException, match=f"{field}: the value of task `before_{field}` {CHANGED}"):
        operator.execute(context(dag, "here"))


def test_every_field_of_an_exported_operator_that_takes_a_reference_is_checked() -> None:
    unchecked = {"EvidenceOperator.table"}  # what it takes names a release in the lake, whose commit counts
    for cls in EXPORTED:
        for c in cls.__mro__:
            if "__init__" in vars(c) and c.__module__.startswith("airflow_privacy_release"):
                for name, p in inspect.signature(vars(c)["__init__"]).parameters.items():
                    takes = "XComArg" in str(p.annotation) and name != "uri"
                    if f"{cls.__name__}.{name}" not in unchecked:
                        assert takes == (name in getattr(cls, "references", ())), (cls, name)
        assert set(getattr(cls, "references", ())) <= set(cls.template_fields)


def test_an_unchanged_reference_is_the_journals(dag: Any, work_root: Path) -> None:
    ValidateOperator(task_id="here", table=ingest(), suite={})
    record("ingest", reference())
    assert checked(dag, "here", table=reference())["table"] == reference()


def test_without_a_record_a_value_is_refused_whatever_state_its_task_has(dag: Any, work_root: Path) -> None:
    ValidateOperator(task_id="here", table=ingest(), suite={})
    with pytest.raises(IntegrityError, match="task `ingest` has no value"):
        checked(dag, "here", table=reference())


def test_a_value_of_another_producing_task_is_refused(dag: Any, work_root: Path) -> None:
    """Else a transform is skipped by writing what it was given into its output."""
    cut = TransformOperator(task_id="cut", table=ingest(), sql="SELECT 1")
    ReleaseOperator(task_id="here", table=cut.output, method="mondrian")
    record("ingest", reference())
    record("cut", reference("transformed"))
    with pytest.raises(IntegrityError, match=f"table: the value of task `cut` {CHANGED}"):
        checked(dag, "here", table=reference())


def test_a_value_of_another_run_is_refused(dag: Any, work_root: Path) -> None:
    ReleaseOperator(task_id="here", table=ingest(), method="mondrian")
    other = run_journal({"ti": SimpleNamespace(dag_id="people", run_id="run 2")})
    other.record("ingest", -1, other.begin("ingest", -1), reference("of another run"))
    record("ingest", reference())
    with pytest.raises(IntegrityError, match=CHANGED):
        checked(dag, "here", table=reference("of another run"))


def test_a_task_that_began_again_has_handed_on_nothing_yet(dag: Any, work_root: Path) -> None:
    PublishOperator(task_id="here", table=ingest(), report=ingest("verify"), name="people")
    record("ingest", reference())
    record("verify", reference("report"))
    run_journal(context(dag, "verify")).begin("verify", -1)
    with pytest.raises(IntegrityError, match=r"task `verify` has no value.*newest attempt did not succeed"):
        checked(dag, "here", table=reference(), report=reference("report"))


def test_what_the_dag_leaves_out_cannot_be_added(dag: Any, work_root: Path) -> None:
    PublishOperator(task_id="here", table=ingest(), report=ingest("verify"), name="people")
    record("ingest", reference())
    record("verify", reference("report"))
    with pytest.raises(IntegrityError, match="approved of task `here` must be empty, as in the DAG"):
        checked(dag, "here", table=reference(), report=reference("report"), approved={"by": "ann"})


@pytest.mark.parametrize(
    "written", [reference(), "{{ ti.xcom_pull('ingest') }}"], ids=["literal", "template"]
)
def test_a_reference_that_no_task_is_named_for_is_refused(dag: Any, work_root: Path, written: Any) -> None:
    ReleaseOperator(task_id="here", table=written, method="mondrian")
    record("ingest", reference())
    with pytest.raises(
        IntegrityError, match=r"must be the output of a task of this package.*release_transform"
    ):
        checked(dag, "here", table=reference())


def test_named_tables_are_checked_one_by_one(dag: Any, work_root: Path) -> None:
    TransformOperator(
        task_id="here", table=ingest(), sql="SELECT 1", others={"a": ingest("a"), "b": ingest("b")}
    )
    for name in ("ingest", "a", "b"):
        record(name, reference(name))
    right = {"a": reference("a"), "b": reference("b")}
    assert checked(dag, "here", table=reference("ingest"), others=right)["others"] == right
    for wrong in (right | {"b": reference("a")}, {"a": reference("a")}, right | {"c": reference("a")}):
        with pytest.raises(IntegrityError, match="others"):
            checked(dag, "here", table=reference("ingest"), others=wrong)


# --- mapped tasks


def fragments(dag: Any) -> list[dict[str, Any]]:
    cut = ingest("cut")
    parts = ReleaseFragmentOperator.partial(task_id="part").expand(fragment=cut)
    JoinFragmentsOperator(task_id="join", fragments=parts.output)
    refs = [reference(f"fragment {i}", fragment=i) for i in range(3)]
    record("cut", refs)
    return refs


def test_a_mapped_task_gets_its_own_element(dag: Any, work_root: Path) -> None:
    refs = fragments(dag)
    assert [checked(dag, "part", i, fragment=ref)["fragment"] for i, ref in enumerate(refs)] == refs
    for wrong in (refs[1], reference("fragment 0", fragment=0, rows=1)):
        with pytest.raises(IntegrityError, match=f"task `cut` {CHANGED}"):
            checked(dag, "part", 0, fragment=wrong)
    with pytest.raises(IntegrityError, match=CHANGED):  # a longer list maps the task once more
        checked(dag, "part", 3, fragment=refs[0])


def test_the_set_of_a_mapped_task_is_complete_and_in_order(dag: Any, work_root: Path) -> None:
    fragments(dag)
    done = [reference(f"released {i}") for i in range(3)]
    record("part", *done, mapped=True)
    assert checked(dag, "join", fragments=done)["fragments"] == done
    for wrong in (done[:2], done[1:], [done[0], done[2], done[1]], [*done, done[0]], []):
        with pytest.raises(IntegrityError, match=f"task `part` {CHANGED}"):
            checked(dag, "join", fragments=wrong)


def test_a_mapped_task_that_was_set_to_success_leaves_its_set_incomplete(dag: Any, work_root: Path) -> None:
    fragments(dag)
    record("part", *[reference(f"released {i}") for i in range(2)], mapped=True)
    with pytest.raises(IntegrityError, match=r"task `part\[2\]` has no value"):
        checked(dag, "join", fragments=[reference(f"released {i}") for i in range(2)])


def test_two_mapped_arguments_are_taken_by_their_places(dag: Any, work_root: Path) -> None:
    release = ReleaseOperator.partial(task_id="release", method="mondrian").expand(
        table=ingest("tables"), seed=[1, 2]
    )
    VerifyOperator.partial(task_id="verify", policy={}).expand(table=release.output)
    tables, staged = [reference("a"), reference("b")], [reference(f"staged {i}") for i in range(4)]
    record("tables", tables)
    record("release", *staged, mapped=True)
    for index, place in enumerate([0, 0, 1, 1]):
        assert checked(dag, "release", index, table=tables[place])["table"] == tables[place]
        with pytest.raises(IntegrityError, match=CHANGED):
            checked(dag, "release", index, table=tables[1 - place])
        assert checked(dag, "verify", index, table=staged[index])["table"] == staged[index]
        with pytest.raises(IntegrityError, match=CHANGED):
            checked(dag, "verify", index, table=staged[index - 1])


def test_a_mapped_group_has_its_own_values(dag: Any, work_root: Path) -> None:
    @task_group
    def one(table: Any) -> Any:
        release = ReleaseOperator(task_id="release", table=table, method="mondrian")
        VerifyOperator(task_id="verify", table=release.output, policy={})
        return release.output

    done = one.expand(table=ingest("tables"))
    CompareOperator(task_id="compare", tables=done, reports=ingest("reports"))
    tables, staged = [reference("a"), reference("b")], [reference("staged a"), reference("staged b")]
    record("tables", tables)
    record("one.release", *staged, mapped=True)
    record("reports", [])
    assert checked(dag, "one.release", 1, table=tables[1])["table"] == tables[1]
    assert checked(dag, "one.verify", 1, table=staged[1])["table"] == staged[1]
    assert checked(dag, "compare", tables=staged, reports=[])["tables"] == staged
    for name, wrong in (("one.release", tables[0]), ("one.verify", staged[0])):
        with pytest.raises(IntegrityError, match=CHANGED):
            checked(dag, name, 1, table=wrong)
    with pytest.raises(IntegrityError, match=CHANGED):
        checked(dag, "compare", tables=staged[:1], reports=[])


# --- steps of the user's own


@task
def choose(staged: Any) -> Any:
    return staged[0]


@task
def look(chosen: Any) -> Any:
    return chosen


def test_a_plain_task_chooses_and_drops_and_changes_nothing(dag: Any, work_root: Path) -> None:
    released = ReleaseOperator.partial(task_id="release", table=ingest(), method="mondrian").expand(
        seed=[1, 2]
    )
    VerifyOperator(task_id="here", table=look(choose(released.output)), policy={})
    CompareOperator(task_id="compare", tables=choose.override(task_id="some")(released.output), reports=[])
    staged = [reference("one"), reference("two")]
    record("ingest", reference())
    record("release", *staged, mapped=True)
    for ref in staged:
        assert checked(dag, "here", table=ref)["table"] == ref
    assert checked(dag, "compare", tables=staged[1:], reports=[])["tables"] == staged[1:]
    for wrong in (reference("one", rows=2), reference(), None, "one"):
        with pytest.raises(IntegrityError, match="the output of task `look` is not"):
            checked(dag, "here", table=wrong)


def test_a_mapped_plain_task_is_transparent_too(dag: Any, work_root: Path) -> None:
    released = ReleaseOperator.partial(task_id="release", table=ingest(), method="mondrian").expand(
        seed=[1, 2]
    )
    same = look.expand(chosen=released.output)
    VerifyOperator.partial(task_id="here", policy={}).expand(table=same)
    staged = [reference("one"), reference("two")]
    record("release", *staged, mapped=True)
    assert checked(dag, "here", 0, table=staged[1])["table"] == staged[1]
    with pytest.raises(IntegrityError, match="the output of task `look` is not"):
        checked(dag, "here", 0, table=reference("three"))


def test_a_function_of_ones_own_hands_on_what_it_made(dag: Any, work_root: Path) -> None:
    @release_transform
    def cut(table: Any) -> Any:
        return table

    ReleaseOperator(task_id="here", table=cut(ingest()), method="mondrian")
    record("ingest", reference())
    record("cut", reference("made"))
    assert checked(dag, "here", table=reference("made"))["table"] == reference("made")
    with pytest.raises(IntegrityError, match=f"task `cut` {CHANGED}"):
        checked(dag, "here", table=reference())


def test_a_subclass_that_changes_what_it_returns_is_refused_downstream(dag: Any, work_root: Path) -> None:
    class Ours(DetectOutliersOperator):
        references: ClassVar = {"table": dict}

        @recorded
        def execute(self, context: Any) -> Any:
            return reference("recorded")

    class Theirs(Ours):
        def execute(self, context: Any) -> Any:
            return super().execute(context) | {"rows": 2}

    theirs = Theirs(task_id="theirs", table=ingest())
    ReleaseOperator(task_id="here", table=theirs.output, method="mondrian")
    record("ingest", reference())
    (theirs := copy(theirs)).table = reference()
    returned = theirs.execute(context(dag, "theirs"))
    with pytest.raises(IntegrityError, match=f"task `theirs` {CHANGED}"):
        checked(dag, "here", table=returned)
    assert checked(dag, "here", table=reference("recorded"))["table"] == reference("recorded")


def test_a_call_inside_of_a_recorded_one_is_recorded_once(dag: Any, work_root: Path) -> None:
    class Ours(DetectOutliersOperator):
        references: ClassVar = {"table": dict}

        @recorded
        def execute(self, context: Any) -> Any:
            return reference("inner")

    class More(Ours):
        @recorded
        def execute(self, context: Any) -> Any:
            return super().execute(context) | {"name": "outer"}

    more = More(task_id="more", table=ingest())
    record("ingest", reference())
    (more := copy(more)).table = reference()
    assert more.execute(context(dag, "more"))["name"] == "outer"
    assert run_journal(context(dag, "more")).value("more", -1) == reference("outer")


# --- paths


@pytest.mark.parametrize("way", ["elsewhere", "upwards", "by a link"])
@pytest.mark.parametrize("field", ["uri", "schema"])
def test_no_path_of_a_reference_leaves_the_work_area(
    dag: Any, work_root: Path, tmp_path: Path, way: str, field: str
) -> None:
    from airflow_privacy_release.task.run import run_work_area

    record("before", {})
    area = run_work_area(context(dag, "here")).folder
    (area / "link").symlink_to(tmp_path)
    path = {
        "elsewhere": "/etc/passwd",
        "upwards": f"{area}/../other/table.parquet",
        "by a link": f"{area}/link/table.parquet",
    }[way]
    operator = ValidateOperator(task_id="here", table=ingest(), suite={})
    inside = {
        "uri": str(area / "t.parquet"),
        "schema": str(area / "s.json"),
        "source": {"uri": "/data/people"},
    }
    record("ingest", inside | {field: path})
    (operator := copy(operator)).table = inside | {field: path}
    with pytest.raises(
        AirflowFailException, match=f"table: {field} is not a file in the work area of this run"
    ):
        operator.execute(context(dag, "here"))


# --- attempts that wait


def test_a_resumed_task_goes_on_with_the_entry_that_it_began(dag: Any, work_root: Path) -> None:
    from airflow_privacy_release.task.errors import ENTRY

    class Waits(DetectOutliersOperator):
        references: ClassVar = {"table": dict}

        @recorded
        def execute(self, context: Any) -> Any:
            self.defer(trigger=SimpleNamespace(), method_name="resume", kwargs={"until": 3})

        @recorded
        def resume(self, context: Any, until: int) -> Any:
            return reference("resumed", until=until)

    waits = Waits(task_id="waits", table=ingest())
    record("ingest", reference())
    (waits := copy(waits)).table = reference()

    def requested() -> dict[str, Any]:
        with pytest.raises(BaseException) as waiting:  # noqa: PT011  `TaskDeferred` is no Exception
            waits.execute(context(dag, "waits"))
        return dict(waiting.value.kwargs)  # type: ignore[attr-defined]

    first, second = requested(), requested()
    assert (first[ENTRY], second[ENTRY]) == (1, 2)
    waits.resume(context(dag, "waits"), **first)
    assert not run_journal(context(dag, "waits")).has(
        "waits", -1
    )  # what is asked again voids the earlier answer
    waits.resume(context(dag, "waits"), **second)
    assert run_journal(context(dag, "waits")).value("waits", -1) == reference("resumed", until=3)
    with pytest.raises(AirflowFailException, match="before this deployment was upgraded"):
        waits.resume(context(dag, "waits"), until=3)


def test_only_tasks_that_hand_on_a_reference_write_to_the_journal(dag: Any, work_root: Path) -> None:
    silent = {
        cls.__name__ for cls in EXPORTED if not hands_on(SimpleNamespace(is_mapped=True, operator_class=cls))
    }
    assert {"PublishOperator", "CleanupOperator", "BudgetGuardOperator", "RetractOperator"} <= silent
    assert not {"VerifyOperator", "ApproveReleaseOperator", "ReleaseOperator", "OBPAOperator"} & silent
    assert not list(work_root.glob("*"))
