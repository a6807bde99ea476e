"""Operators that release a table in fragments, one mapped task each: cut, release, join.

cut = CutFragmentsOperator(task_id="cut", table=raw.output, method="mondrian", parameters={"k": 5})
parts = ReleaseFragmentOperator.partial(task_id="release").expand(fragment=cut.output)
staged = JoinFragmentsOperator(task_id="join", fragments=parts.output)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from operators.context import file_label, run_work_area
from operators.engines import FRAGMENTS, chosen_engine, open_engine
from operators.guard import guarded
from operators.links import ReportLink
from operators.monitoring import monitored
from operators.parameters import method_parameters, read_text
from privacy_engine.errors import SpecError

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from operators.references import FragmentRef, FragmentReleaseRef, StagedRef, TableRef

_MOST_MAPPED = 1_024  # Airflow's own default


class CutFragmentsOperator(BaseOperator):
    """Cut a table into parts that can meet the guarantees by themselves, and write each to the work area.

    Args:
        table: reference to an ingested table.
        method: registry key of an anonymizer.
        parameters: of the method; rendered text is read as the parameter's type.
        seed: of the cuts and of all fragments; None takes fresh entropy.
        engine: of kind `fragments`, see `operators.engines`; None: the one the table was ingested with.
    """

    template_fields = ("table", "method", "parameters", "seed", "engine")
    template_fields_renderers = {"table": "json", "parameters": "json", "engine": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        table: "TableRef | XComArg",
        method: str,
        parameters: Mapping[str, Any] | None = None,
        seed: int | str | None = None,
        engine: str | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table: Any = table  # a reference by the time of execute
        self.method = method
        self.parameters = parameters
        self.seed = seed
        self.engine = engine

    @guarded
    @monitored("cut")
    def execute(self, context: "Context") -> "list[FragmentRef]":
        """Cut; a reference to each fragment."""
        from operators import fragments
        from operators.staging import require_fitting_engine, worked_on_by

        table = worked_on_by(chosen_engine(self.engine), self.table)
        if "engine" not in table or table["engine"]["kind"] != FRAGMENTS:
            raise SpecError(
                "mapped tasks need the engine fragments; ingest the table with it, or take ReleaseOperator"
            )
        require_fitting_engine(self.method, table)
        with run_work_area(context) as work, open_engine(table["engine"], work.folder) as engine:
            cut = fragments.cut_table(
                table,
                engine,
                method=self.method,
                parameters=method_parameters(self.method, self.parameters or {}),
                seed=read_text(self.seed, int | None),
                most=_most_mapped(),
            )
            plan = fragments.keep(cut, work, file_label(context))
            refs = fragments.partition(cut, plan, engine)
        self.log.info("cut", rows=table["rows"], fragments=len(refs))
        return refs


class ReleaseFragmentOperator(BaseOperator):
    """Release one fragment of a table; what it gives is nothing by itself, `JoinFragmentsOperator` takes all.

    A retry gives the same bytes: the random choices follow from the seed of the cut and the fragment's
    number.

    Args:
        fragment: reference to a fragment, from `CutFragmentsOperator`: `.expand(fragment=cut.output)`.
    """

    template_fields = ("fragment",)
    template_fields_renderers = {"fragment": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"

    def __init__(self, *, fragment: "FragmentRef | XComArg", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fragment: Any = fragment  # a reference by the time of execute

    @guarded
    @monitored("fragment")
    def execute(self, context: "Context") -> "FragmentReleaseRef":
        """Release; a reference to the released records."""
        from operators.fragments import release_one

        with run_work_area(context):
            released = release_one(self.fragment)
        self.log.info(
            "fragment released",
            fragment=released["fragment"],
            rows_in=self.fragment["rows"],
            rows=released["rows"],
        )
        return released


class JoinFragmentsOperator(BaseOperator):
    """Stage the fragments of a table as one release, each exactly once, if together they keep the guarantees.

    Args:
        fragments: what `ReleaseFragmentOperator` gave for each of them.
        title: of the report.
    """

    template_fields = ("fragments", "title")
    template_fields_renderers = {"fragments": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"
    operator_extra_links = (ReportLink(),)

    def __init__(
        self, *, fragments: "list[FragmentReleaseRef] | XComArg", title: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.fragments: Any = fragments  # a list of references by the time of execute
        self.title = title

    @guarded
    @monitored("release")
    def execute(self, context: "Context") -> "StagedRef":
        """Stage the release; a reference to it."""
        from operators.fragment_join import join_staged

        with run_work_area(context) as work:
            staged = join_staged(list(self.fragments), work, title=self.title, label=file_label(context))
        self.log.info("staged", method=staged["method"], rows=staged["rows"], **staged["figures"])
        return staged


def _most_mapped() -> int:
    """Over how many fragments Airflow may map a task."""
    from airflow.sdk.configuration import conf

    return int(conf.getint("core", "max_map_length", fallback=_MOST_MAPPED))
