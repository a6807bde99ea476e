"""Operators that compare releases of one table, or choices of method and parameters before the first release.

Each choice is explored by a mapped task, see `explore_dag`::

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
    """Write an HTML page to the lake that compares releases: guarantees, loss, risk and time, no record.

    The page is `_comparisons/<DAG id>/<release id>.html` below the lake's root; a retry writes it again.

    Args:
        tables: References to the staged releases, such as the output of a mapped task.
        reports: Findings of `VerifyOperator` on each release, in the same order.
        title: Heading of the page; by default the DAG id.
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
        """Write the comparison. Return where the page is and how many releases it compares."""
        from privacy_release.reports.comparison import render_comparison

        title = self.title or context["ti"].dag_id
        page = render_comparison(list(self.tables), list(self.reports), title=title)
        summary = {"report": put_comparison(page, context, self.lake), "releases": len(self.tables)}
        self.log.info("compared", **summary)
        return summary


class CompareSynthesizersOperator(BaseOperator):
    """Compare several synthetic releases of a table with that table: epsilon, loss, learning and an attack.

    The figures are exact figures of the source. So the page goes only to the curator's folder,
    `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`. If the source is declared public, for example
    because it is simulated, the page is `_comparisons/<DAG id>/<release id>.html` below the lake's root. Only
    the path of the page leaves the task, and a retry writes it again. Each release was booked when it was
    made. The page shows the sum of what they cost.

    Args:
        source: Reference to the ingested table that all releases were made from.
        tables: References to the staged releases, such as the output of a mapped task.
        reports: Findings of `VerifyOperator` on each release, in the same order.
        public_source: Whether anyone may know exact figures of the source.
        title: Heading of the page; by default the DAG id.
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
        """Write the comparison. Return where the page is and how many releases it compares."""
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
        summary: dict[str, Any] = {"releases": len(self.tables)}
        if public:
            summary["report"] = put_comparison(page, context, self.lake)
        else:
            summary["curator"] = str(write_for_curator(page, dag_id, release_id(context)))
        self.log.info("compared", **summary)
        return summary


def put_comparison(page: str, context: "Context", connection: str) -> str:
    """Write a page to the lake's folder for comparisons of this DAG. Return its address."""
    from privacy_release.lake.store import put

    lake = lake_of(connection)
    path = f"_comparisons/{quote(context['ti'].dag_id, safe='')}/{quote(release_id(context), safe='')}.html"
    put(lake, path, page.encode())
    return f"{lake.root}/{path}"


class CuratorReportOperator(BaseOperator):
    """Compare a synthetic release with its source, in a file that only the service user can read.

    It is written below `$PRIVACY_CURATOR`, else `curator` in `$AIRFLOW_HOME`. Its figures are exact, so it is
    not differentially private: neither the report nor any number from it may be published. Only its path
    leaves the task. The report of a run replaces the report of an earlier attempt.

    Args:
        source: Reference to the ingested table.
        table: Reference to the staged release.
        name: Name of the release.
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
        """Write the report. Return where it is."""
        from privacy_release.steps.curator import report_to_curator

        with run_work_area(context):
            path = report_to_curator(self.source, self.table, self.name, release_id(context))
        self.log.info("curator's report written", report=path)
        return {"report": path}


class ListChoicesOperator(BaseOperator):
    """List the choices of a grid: methods and their parameters, from a specification and its policy.

    No record is read. If the source is to be booked, the ledger must be able to pay for all choices before
    anything else happens.

    Args:
        spec: Path of a specification, absolute or relative to the include folder.
        grid: Values to combine: a list each for `methods`, `k`, `l`, `t` and `epsilon`. Any that are omitted
            follow from specification and policy, as for `privacy-release explore`.
        book: Whether differentially private methods are explored on the source, paid from its budget.
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
        """List the choices. Return the name, method and parameters of each."""
        from privacy_release.explore.choices import ChoiceRef, Grid, choices
        from privacy_release.explore.origins import budget_named
        from privacy_release.explore.sources import require_all_left

        _, spec, policy = _specified(self.spec)
        cells = choices(spec, policy, Grid.of(self.grid))
        if len(cells) > most_mapped():
            raise SpecError(
                f"Airflow maps a task over {most_mapped():,} items at most, got {len(cells):,} "
                "choices. Use a smaller grid, or raise Airflow's option max_map_length"
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
    """Draw the records that choices are measured on and keep them in the run's work area.

    Differentially private methods never see the records of people unless the ledger books it. Without a
    table, their records are simulated from the public domains of the schema.

    Args:
        spec: Path of a specification, absolute or relative to the include folder.
        choices: Output of `ListChoicesOperator`.
        table: Reference to an ingested table; None: records are simulated.
        sample: Approximate number of records to draw at random; None: 10,000.
        target: Column for a classifier to predict; None: a sensitive column.
        seed: Random seed of the sample and of the methods.
        public: Whether anyone may know the table, so that differentially private methods may use it.
        book: Whether differentially private methods may use the table because the ledger books each choice.
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
        """Draw the records. Return a reference to them."""
        from privacy_release.explore.choices import Grid
        from privacy_release.explore.origins import budget_named, origin_of
        from privacy_release.explore.sources import ExploreRequest, sampled

        _, spec, policy = _specified(self.spec)
        public, book = (
            read_field(f"explore: {name}", getattr(self, name), bool) for name in ("public", "book")
        )
        rows = read_field("explore: sample", self.sample, int | None)
        if rows is not None and rows < 1:
            raise SpecError(f"sample must be >= 1, got {rows}. Correct it")
        if book:
            budget_named(spec, rows)
        seed = read_field("explore: seed", self.seed, int)
        request = ExploreRequest(rows=rows, target=self.target, seed=seed)
        methods = sorted({choice["method"] for choice in self.choices})
        origin = origin_of(spec, Grid(methods=methods), public=public, book=book)
        with run_work_area(context) as work:
            found = sampled(spec, policy, origin, self.table, request, work)
        counts = {} if origin == "booked" else {"rows": found.made_from.rows}
        self.log.info("records", origin=origin, **counts)
        return found


class MeasureChoiceOperator(BaseOperator):
    """Measure one choice: make its release, measure and discard it. The figures stay in the work area.

    If a choice cannot be made, the page shows the reason, and no task fails.

    Args:
        choice: One of the choices of `ListChoicesOperator`: `.expand(choice=choices.output)`.
        records: Output of `SampleRecordsOperator`.
        budget: Data set whose privacy budget pays, if the records are the source of a differentially private
            method. None: nothing is booked.
        policy: Policy of the release, as for `ReleaseOperator`; required with a budget. A choice that it
            would refuse books nothing, and the page shows the reason.
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
        """Measure the choice. Return where its figures are, and whether there are any."""
        from privacy_release.explore.cells import measured
        from privacy_release.explore.choices import Choice
        from privacy_release.explore.written import keep_measured
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor

        paid, required = None, None
        if self.budget is not None:
            ledger = ledger_of(self.ledger)
            required = under_floor(load_policy(self.policy or {}), floor_policy())
            paid = Budget(dataset=self.budget, run=run_key(context), ledger=ledger, connection=self.ledger)
        with run_work_area(context) as work:
            found = measured(Choice(**self.choice), self.records, work, paid, required)
            kept = keep_measured(found, work, file_label(context))
        self.log.info("measured", choice=found["name"], failed=found["failed"])
        return kept


class DrawChoicesOperator(BaseOperator):
    """Write the page of all choices into the curator's folder: its figures are exact.

    Only the path of the page leaves the task, and a retry writes it again. A choice whose task died is listed
    without a measurement, if the task's trigger rule allows it to run: `none_skipped`.

    Args:
        spec: Path of the specification, absolute or relative to the include folder.
        choices: Output of `ListChoicesOperator`.
        records: Output of `SampleRecordsOperator`.
        measured: Output of `MeasureChoiceOperator` for each choice.
    """

    references: ClassVar = {"choices": Any, "records": RecordsRef, "measured": list[MeasuredRef]}
    incomplete = ("measured",)  # a choice whose task died has none
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
        """Draw the page. Return where it is, and how many choices it shows."""
        from privacy_release.explore.written import joined, write_page

        if not self.choices or not self.records:
            raise SpecError(
                "there are no records or choices to draw, because an earlier task failed. See its log"
            )
        file, spec, _ = _specified(self.spec)
        kept: Iterable[MeasuredRef] = self.measured or ()
        found = joined(self.choices, kept)
        with run_work_area(context):
            page = write_page(found, self.records, spec, file, run=release_id(context))
        summary = {
            "curator": str(page),
            "choices": len(found),
            "failed": sum(cell["failed"] is not None for cell in found),
        }
        self.log.info("drawn", **summary)
        return summary


def _specified(file: str) -> "tuple[Path, ReleaseSpec, ReleasePolicy]":
    """Load a specification's path and content, and its policy with the deployment's floor."""
    from privacy_release.explore.sources import policy_to_explore
    from privacy_release.spec.files import include_folder
    from privacy_release.spec.model import load_spec

    path = include_folder() / file
    spec = load_spec(path)
    return path, spec, policy_to_explore(spec)
