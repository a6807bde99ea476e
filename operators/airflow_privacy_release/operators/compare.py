"""Operators that compare releases of one table, or, before there is one, choices of method and parameters.

Choices are explored by a mapped task each, see `explore_dag`::

    choices = ListChoicesOperator(task_id="choices", spec=file, grid={"k": [5, 10]})
    records = SampleRecordsOperator(task_id="records", spec=file, choices=choices.output, table=raw.output)
    figures = MeasureChoiceOperator.partial(task_id="measure", records=records.output).expand(
        choice=choices.output
    )
    DrawChoicesOperator(
        task_id="draw", spec=file, choices=choices.output, records=records.output, measured=figures.output
    )
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.ledger import ledger_of
from airflow_privacy_release.operators.release import most_mapped, require_policy
from airflow_privacy_release.task.errors import guarded, recorded
from airflow_privacy_release.task.rendering import read_field
from airflow_privacy_release.task.run import file_label, release_id, run_key, run_work_area
from privacy_engine.errors import SpecError
from privacy_release.budget.budget import DEFAULT_LEDGER, Budget
from privacy_release.workarea.references import MeasuredRef, RecordsRef, ReportRef, StagedRelease, Table

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context, XComArg

    from privacy_engine.verification.policy import ReleasePolicy
    from privacy_release.explore.choices import ChoiceRef
    from privacy_release.spec.model import ReleaseSpec


class CompareOperator(BaseOperator):
    """Write one HTML page on several releases to the lake: guarantees, loss, risk and time, and no record.

    The page is `_comparisons/<DAG id>/<release id>.html` below the lake's root; a retry writes it again.

    Args:
        tables: references to the staged releases, such as the output of a mapped task.
        reports: what `VerifyOperator` found on each, in the same order.
        title: of the page; the DAG id by default.
        lake: Airflow connection id of the lake.
    """

    references: ClassVar = {"tables": list[StagedRelease], "reports": list[ReportRef]}
    template_fields = ("tables", "reports", "title", "lake")
    template_fields_renderers = {"tables": "json", "reports": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dcebf0"

    def __init__(
        self,
        *,
        tables: "list[StagedRelease] | XComArg",
        reports: "list[ReportRef] | XComArg",
        title: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tables: Any = tables  # lists of references by the time of execute
        self.reports: Any = reports
        self.title = title
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Compare; where the page is, and how many releases it compares."""
        from privacy_release.reports.comparison import render_comparison

        title = self.title or context["ti"].dag_id
        page = render_comparison(list(self.tables), list(self.reports), title=title)
        told = {"report": put_comparison(page, context, self.lake), "releases": len(self.tables)}
        self.log.info("compared", **told)
        return told


class CompareSynthesizersOperator(BaseOperator):
    """Hold several synthetic releases of one table against it: epsilon, loss, what is learned, an attack.

    The figures are exact figures of the source. So the page goes to the curator's folder alone, below
    `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`; unless the source is declared public, such as a
    simulated one: then it is `_comparisons/<DAG id>/<release id>.html` below the lake's root. Nothing but its
    path leaves the task, and a retry writes it again. Each release was booked when it was made, and together
    they cost the sum, which the page tells.

    Args:
        source: reference to the ingested table that all were made from.
        tables: references to the staged releases, such as the output of a mapped task.
        reports: what `VerifyOperator` found on each, in the same order.
        public_source: whether everybody may know exact figures of the source.
        title: of the page; the DAG id by default.
        lake: Airflow connection id of the lake.
    """

    references: ClassVar = {"source": Table, "tables": list[StagedRelease], "reports": list[ReportRef]}
    template_fields = ("source", "tables", "reports", "public_source", "title", "lake")
    template_fields_renderers = {"source": "json", "tables": "json", "reports": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#dcebf0"

    def __init__(
        self,
        *,
        source: "Table | XComArg",
        tables: "list[StagedRelease] | XComArg",
        reports: "list[ReportRef] | XComArg",
        public_source: bool | str = False,
        title: str | None = None,
        lake: str = DEFAULT_LAKE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source: Any = source  # references by the time of execute
        self.tables: Any = tables
        self.reports: Any = reports
        self.public_source = public_source
        self.title = title
        self.lake = lake

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Compare; where the page is, and how many releases it compares."""
        from privacy_release.reports.curator import write_for_curator
        from privacy_release.steps.curator import compare_synthetic

        dag_id = context["ti"].dag_id
        public = read_field("compare: public_source", self.public_source, bool)
        with run_work_area(context):
            page = compare_synthetic(
                self.source,
                list(self.tables),
                list(self.reports),
                title=self.title or dag_id,
                public=public,
            )
        told: dict[str, Any] = {"releases": len(self.tables)}
        if public:
            told["report"] = put_comparison(page, context, self.lake)
        else:
            told["curator"] = str(write_for_curator(page, dag_id, release_id(context)))
        self.log.info("compared", **told)
        return told


def put_comparison(page: str, context: "Context", connection: str) -> str:
    """Write a page to where the lake keeps the comparisons of this DAG; its address."""
    from privacy_release.lake.store import put

    lake = lake_of(connection)
    path = f"_comparisons/{quote(context['ti'].dag_id, safe='')}/{quote(release_id(context), safe='')}.html"
    put(lake, path, page.encode())
    return f"{lake.root}/{path}"


class CuratorReportOperator(BaseOperator):
    """Compare a synthetic release with its source, in a file that only the service user can read.

    It is written below `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`. Its figures are exact, so it is
    not differentially private: neither it nor a number from it may be published. Nothing but its path leaves
    the task. A run's report replaces the one of an earlier attempt.

    Args:
        source: reference to the ingested table.
        table: reference to the staged release.
        name: of the release.
    """

    references: ClassVar = {"source": Table, "table": StagedRelease}
    template_fields = ("source", "table", "name")
    template_fields_renderers = {"source": "json", "table": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        source: "Table | XComArg",
        table: "StagedRelease | XComArg",
        name: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source: Any = source  # references by the time of execute
        self.table: Any = table
        self.name = name

    @guarded
    def execute(self, context: "Context") -> dict[str, str]:
        """Write the report; where it is."""
        from privacy_release.steps.curator import report_to_curator

        with run_work_area(context):
            path = report_to_curator(self.source, self.table, self.name, release_id(context))
        self.log.info("curator's report written", report=path)
        return {"report": path}


class ListChoicesOperator(BaseOperator):
    """List the choices of a grid: methods with their parameters, by a specification and its policy.

    It reads no record. Where the source is to be booked, it asks the ledger whether all choices can be paid
    for, before anything else happens.

    Args:
        spec: file of a specification, absolute or relative to the include folder.
        grid: what the choices are made of: `methods`, `k`, `l`, `t` and `epsilon`, a list each; what is left
            out follows from specification and policy, as for `privacy-release explore`.
        book: whether the source is explored by differentially private methods, and its budget pays.
    """

    template_fields = ("spec", "grid", "book")
    template_fields_renderers = {"grid": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        spec: str,
        grid: Mapping[str, Sequence[str | float]] | None = None,
        book: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.grid = grid
        self.book = book

    @recorded
    def execute(self, context: "Context") -> "list[ChoiceRef]":
        """List; name, method and parameters of each choice."""
        from privacy_release.explore.choices import ChoiceRef, Grid, choices
        from privacy_release.explore.origins import budget_named
        from privacy_release.explore.sources import require_all_left

        _, spec, policy = _specified(self.spec)
        cells = choices(spec, policy, Grid.of(self.grid))
        if len(cells) > most_mapped():
            raise SpecError(
                f"Airflow maps a task over {most_mapped():,} items at most, got {len(cells):,} choices; take "
                "a smaller grid, or raise the option max_map_length of Airflow"
            )
        if read_field("explore: book", self.book, bool):
            dataset, connection = budget_named(spec, None)
            ledger = ledger_of(connection)
            require_all_left(
                spec,
                cells,
                Budget(dataset=dataset, run=run_key(context), ledger=ledger, connection=connection),
            )
        self.log.info("choices", choices=len(cells))
        return [ChoiceRef(name=c.name, method=c.method, parameters=dict(c.parameters)) for c in cells]


class SampleRecordsOperator(BaseOperator):
    """Draw the records that choices are measured on, and keep them in the run's work area.

    Differentially private methods never see the records of people unless the ledger books it: without a table
    their records are simulated from the public domains of the schema.

    Args:
        spec: file of a specification, absolute or relative to the include folder.
        choices: what `ListChoicesOperator` gave.
        table: reference to an ingested table; None: records are simulated.
        sample: about so many records, drawn at random; None: 10,000.
        target: column that a classifier predicts; None: a sensitive one.
        seed: of the sample and of the methods.
        public: whether everybody may know the table, so that differentially private methods may see it.
        book: whether they may see it because the ledger books each choice.
    """

    references: ClassVar = {"choices": Any, "table": Table}
    template_fields = ("spec", "choices", "table", "sample", "target", "seed", "public", "book")
    template_fields_renderers = {"choices": "json", "table": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        spec: str,
        choices: "list[ChoiceRef] | XComArg",
        table: "Table | XComArg | None" = None,
        sample: int | str | None = None,
        target: str | None = None,
        seed: int | str = 0,
        public: bool | str = False,
        book: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.choices: Any = choices  # references by the time of execute
        self.table: Any = table
        self.sample = sample
        self.target = target
        self.seed = seed
        self.public = public
        self.book = book

    @recorded
    def execute(self, context: "Context") -> "RecordsRef":
        """Draw; a reference to the records."""
        from privacy_release.explore.choices import Grid
        from privacy_release.explore.origins import budget_named, origin_of
        from privacy_release.explore.sources import Wanted, sampled

        _, spec, policy = _specified(self.spec)
        public, book = (
            read_field(f"explore: {name}", getattr(self, name), bool) for name in ("public", "book")
        )
        rows = read_field("explore: sample", self.sample, int | None)
        if rows is not None and rows < 1:
            raise SpecError(f"sample must be >= 1, got {rows}; correct it")
        if book:
            budget_named(spec, rows)
        wanted = Wanted(rows=rows, target=self.target, seed=read_field("explore: seed", self.seed, int))
        methods = sorted({choice["method"] for choice in self.choices})
        origin = origin_of(spec, Grid(methods=methods), public=public, book=book)
        with run_work_area(context) as work:
            found = sampled(spec, policy, origin, self.table, wanted, work)
        self.log.info("records", origin=origin, rows=found.made_from.rows)
        return found


class MeasureChoiceOperator(BaseOperator):
    """Measure one choice: its release is made, looked at and forgotten; its figures stay in the work area.

    A choice that cannot be made says why on the page, and fails no task.

    Args:
        choice: one of those that `ListChoicesOperator` gave: `.expand(choice=choices.output)`.
        records: what `SampleRecordsOperator` gave.
        budget: data set whose privacy budget pays, where the records are the source of a differentially
            private method.
        policy: as of `ReleaseOperator`; required where a budget is named. A choice that it would refuse books
            nothing, and its page says why.
        ledger: Airflow connection id of the budget's ledger.
    """

    references: ClassVar = {"choice": Any, "records": RecordsRef}
    template_fields = ("choice", "records", "budget", "policy", "ledger")
    template_fields_renderers = {"choice": "json", "records": "json", "policy": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        choice: "ChoiceRef | XComArg",
        records: "RecordsRef | XComArg",
        budget: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        ledger: str = DEFAULT_LEDGER,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.choice: Any = choice  # references by the time of execute
        self.records: Any = records
        self.budget = budget
        self.policy = policy
        self.ledger = ledger
        require_policy(self.task_id, self.budget, self.policy)

    @recorded
    def execute(self, context: "Context") -> "MeasuredRef":
        """Measure; where the figures are, and whether there are any."""
        from privacy_release.explore.cells import measured
        from privacy_release.explore.choices import Choice
        from privacy_release.explore.written import keep_measured
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor

        paid, asked = None, None
        if self.budget is not None:
            ledger = ledger_of(self.ledger)
            asked = under_floor(load_policy(self.policy or {}), floor_policy())
            paid = Budget(dataset=self.budget, run=run_key(context), ledger=ledger, connection=self.ledger)
        with run_work_area(context) as work:
            found = measured(Choice(**self.choice), self.records, work, paid, asked)
            kept = keep_measured(found, work, file_label(context))
        self.log.info("measured", choice=found["name"], failed=found["failed"])
        return kept


class DrawChoicesOperator(BaseOperator):
    """Write the page of all choices into the curator's folder: its figures are exact ones of the records.

    Nothing but its path leaves the task, and a retry writes it again. A choice whose task died is on the page
    as one without a measurement, if the task's trigger rule lets it come so far: `none_skipped`.

    Args:
        spec: file of the specification, absolute or relative to the include folder.
        choices: what `ListChoicesOperator` gave.
        records: what `SampleRecordsOperator` gave.
        measured: what `MeasureChoiceOperator` gave of each.
    """

    references: ClassVar = {"choices": Any, "records": RecordsRef, "measured": list[MeasuredRef]}
    incomplete = ("measured",)  # of a choice whose task died there is none
    template_fields = ("spec", "choices", "records", "measured")
    template_fields_renderers = {"choices": "json", "records": "json", "measured": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#f2e5f7"

    def __init__(
        self,
        *,
        spec: str,
        choices: "list[ChoiceRef] | XComArg",
        records: "RecordsRef | XComArg",
        measured: "list[MeasuredRef] | XComArg",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.choices: Any = choices  # references by the time of execute
        self.records: Any = records
        self.measured: Any = measured

    @guarded
    def execute(self, context: "Context") -> dict[str, Any]:
        """Draw; where the page is, and of how many choices it tells."""
        from privacy_release.explore.written import joined, write_page

        if not self.choices or not self.records:
            raise SpecError("there are no records or choices to draw: a task before failed, see its log")
        file, spec, _ = _specified(self.spec)
        kept: Iterable[MeasuredRef] = self.measured or ()
        found = joined(self.choices, kept)
        with run_work_area(context):
            page = write_page(found, self.records, spec, file, run=release_id(context))
        told = {
            "curator": str(page),
            "choices": len(found),
            "failed": sum(cell["failed"] is not None for cell in found),
        }
        self.log.info("drawn", **told)
        return told


def _specified(file: str) -> "tuple[Path, ReleaseSpec, ReleasePolicy]":
    """A specification's file, what it says, and its policy with the deployment's floor."""
    from privacy_release.explore.sources import policy_to_explore
    from privacy_release.spec.files import include_folder
    from privacy_release.spec.model import load_spec

    path = include_folder() / file
    spec = load_spec(path)
    return path, spec, policy_to_explore(spec)
