"""Operators that make a release with any registered method and stage it in the run's work area.

In one task, or in fragments with a mapped task each::

    cut = CutFragmentsOperator(task_id="cut", table=raw.output, method="mondrian", parameters={"k": 5})
    parts = ReleaseFragmentOperator.partial(task_id="release").expand(fragment=cut.output)
    staged = JoinFragmentsOperator(task_id="join", fragments=parts.output)
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_privacy_release.hooks.connections import schedule_from, secret_of
from airflow_privacy_release.hooks.lake import DEFAULT_LAKE, lake_of
from airflow_privacy_release.hooks.ledger import ledger_of
from airflow_privacy_release.task.errors import recorded
from airflow_privacy_release.task.former import formerly
from airflow_privacy_release.task.links import ReportLink
from airflow_privacy_release.task.metrics import each, monitored, send_budget
from airflow_privacy_release.task.paid import is_paid, log_counts
from airflow_privacy_release.task.rendering import chosen_engine, method_parameters, read_text
from airflow_privacy_release.task.run import file_label, release_run, run_key, run_work_area
from privacy_engine.errors import SpecError
from privacy_release.budget.budget import DEFAULT_LEDGER, Budget
from privacy_release.budget.secrets import Memory, last_fingerprint
from privacy_release.workarea.engines import FRAGMENTS, kind_of_engine, open_engine
from privacy_release.workarea.references import FragmentRef, FragmentReleaseRef, StagedRelease, Table

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    from privacy_release.lake.store import ReleaseTable
    from privacy_release.steps.memberships.past import Past
    from privacy_release.steps.producers.fragments import Fragments


class ReleasingOperator(BaseOperator):
    """The base class of all operators that release a table with one method, or cut it for a release.

    An operator without one of these arguments has the default of it. `ReleaseOperator` describes them all.
    """

    references: ClassVar = {"table": Table, "requires": list[Table]}

    table: Any  # a reference by the time of execute
    requires: Any
    title: str | None = None
    seed: int | str | None = None
    budget: str | None = None
    policy: str | Mapping[str, Any] | None = None
    ledger: str = DEFAULT_LEDGER
    promise: Mapping[str, Any] | None = None
    secret: str | None = None
    replaces: str | None = None
    series: str | None = None
    lake: str = DEFAULT_LAKE
    history: Mapping[str, Any] | None = None
    engine: str | Mapping[str, Any] | None = None

    @monitored("release")
    def stage(self, context: "Context", method: str, parameters: Mapping[str, Any]) -> "StagedRelease":
        """Make a release and stage it in the run's work area. Return a reference to it.

        Args:
            context: Airflow's context of the running task.
            method: Registry key of the method.
            parameters: Parameters of the method, as plain values or rendered text.
        """
        from privacy_release.budget.recorded import lacks_entries
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.spec.rules.facts import Facts
        from privacy_release.spec.rules.judge import refuse
        from privacy_release.steps.release import make_release, with_required
        from privacy_release.steps.types import check_kept_types

        memory, past, paid = self._memory(), self._past(context), self._paid(context)
        checked = method_parameters(method, parameters)
        table, into = with_required(self.table, self.requires), self._release_table()
        with run_work_area(context) as work:
            if into is not None:
                scheduled = paid is not None and paid.schedule is not None
                check_kept_types(table, method, checked, into, scheduled=scheduled)
                if paid is not None:
                    refuse(Facts(restored=lacks_entries(paid, into)))
            staged = make_release(
                table,
                work,
                method=method,
                parameters=checked,
                seed=read_text(self.seed, int | None),
                title=self.title,
                label=file_label(context),
                on_progress=lambda step: self.log.info("release step", step=step),
                budget=paid,
                policy=None if self.policy is None else under_floor(load_policy(self.policy), floor_policy()),
                memory=memory,
                past=past,
                engine=chosen_engine(self.engine),
            )
        send_budget(self, paid)
        self.log.info("staged", method=staged.method, rows=staged.rows, **staged.figures)
        return staged

    def _release_table(self) -> "ReleaseTable | None":
        """Return the release table that `series` names. None if it names none."""
        series = read_text(self.series, str | None)
        return None if series is None else lake_of(self.lake).table(series)

    def _paid(self, context: "Context") -> Budget | None:
        """Return the budget that pays for the release. None if none does."""
        dataset = read_text(self.budget, str | None)
        if dataset is None:
            return None
        return Budget(
            dataset=dataset,
            run=run_key(context),
            ledger=ledger_of(self.ledger),
            connection=self.ledger,
            schedule=schedule_from(self.promise),
        )

    def _memory(self) -> Memory | None:
        """Return the secret of memoised answers, with the last release's fingerprint. None without a secret.

        Raises:
            SecretError: If the connection of the secret is missing, or the secret too short.
            PublishError: If the lake cannot be reached.
        """
        connection = read_text(self.secret, str | None)
        if connection is None:
            return None
        secret, into = secret_of(connection), self._release_table()
        last = None if into is None else last_fingerprint(into)
        return Memory(secret=secret, last=last, replaces=read_text(self.replaces, str | None))

    def _past(self, context: "Context") -> "Past | None":
        """Return the earlier releases of `series` whose people `history` protects. None without a history.

        Raises:
            SpecError: If the history is wrong, or the release table is not named.
        """
        from privacy_release.spec.files import load_policy
        from privacy_release.spec.floor import floor_policy, under_floor
        from privacy_release.spec.sections.history import kept_of
        from privacy_release.steps.memberships.earlier import EarlierReleases
        from privacy_release.steps.memberships.past import Past

        if self.history is None:
            return None
        into, said = self._release_table(), dict(self.history)
        if into is None or "policy" not in said:
            raise SpecError(
                "history requires a policy, and series the table of the earlier releases. Add both"
            )
        policy = under_floor(load_policy(said.pop("policy")), floor_policy())
        earlier = EarlierReleases(named=into, run=release_run(context))
        return Past(releases=earlier, policy=policy, **kept_of(said))


class ReleaseOperator(ReleasingOperator):
    """Make a release and stage it, with its manifest and report, in the run's work area.

    Staging does not publish: `VerifyOperator` reads the staged release, `PublishOperator` publishes it.

    Args:
        table: Reference to an ingested table.
        method: Registry key, see `privacy-release list-methods`.
        parameters: Parameters of the method; rendered text is read as the parameter's type.
        seed: Seed of the random choices; None takes fresh entropy. For a differentially private method it
            chooses which records are sampled from the measured model, never the noise, and None derives it
            from that model. For a randomizer it is used for `seeded` answers only.
        title: Heading of the report.
        budget: Data set whose privacy budget is spent; required if the release makes a claim of differential
            privacy.
        policy: Requirements that the release must meet, as for `VerifyOperator`; required with a budget. A
            release that the policy or the floor policy would refuse in the end is refused before anything is
            booked.
        ledger: Airflow connection ID of the budget's ledger.
        promise: Promise that all releases of the schedule keep together, as the field `budget.promise` of
            a specification, and `schedule`, the name under which they count together. None: the release is
            paid by itself.
        secret: Airflow connection ID whose password is the secret of memoised answers: at least 32 random
            bytes, the same in every release of a table.
        replaces: Fingerprint of the earlier secret, to replace it on purpose.
        series: Release table that the release will go to, for checks against its earlier releases, to which
            `history` refers, too. Refused before anything is booked: memoised answers with another secret
            than the last release, numeric columns whose types differ from the table's, and a ledger that
            lacks an entry which paid for one of its releases. Publishing refuses other secrets and types in
            any case.
        lake: Airflow connection ID of the lake of that table.
        history: Protection of people who are also in earlier releases of `series`, in all releases together;
            the table must have been ingested with `person`. A mapping with `policy`, as of `VerifyOperator`,
            and, to use other numbers than the policy requires, `k`, `m`, `departures`, `reserve` and
            `counterfeits`, as of the field `history` of a specification. None: the release is made as if it
            were the first.
        engine: Engine that works on the table, see `privacy_release.workarea.engines`; None: the one it was
            ingested with. With any other than `local`, an anonymizer works on fragments, in a process pool or
            on Spark.
        requires: Outputs of further tasks that must have succeeded before anything is booked or released,
                such as tasks that each validate one of several tables. None: no further tasks. A table made
                from several tables requires a list, which may be empty.
    """

    template_fields = (
        *("table", "method", "parameters", "seed", "title", "requires"),
        *("budget", "policy", "ledger", "promise", "secret", "replaces", "series", "lake", "history"),
        "engine",
    )
    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "table": "json",
        "requires": "json",
        "parameters": "json",
        "policy": "json",
        "promise": "json",
        "history": "json",
        "engine": "json",
    }
    ui_color = "#e5f3e1"
    operator_extra_links = (ReportLink(),)

    @formerly(over_time="promise")
    def __init__(
        self,
        *,
        table: "Table | XComArg",
        method: str,
        parameters: Mapping[str, Any] | None = None,
        seed: int | str | None = None,
        title: str | None = None,
        budget: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        ledger: str = DEFAULT_LEDGER,
        promise: Mapping[str, Any] | None = None,
        secret: str | None = None,
        replaces: str | None = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        history: Mapping[str, Any] | None = None,
        engine: str | Mapping[str, Any] | None = None,
        requires: "Sequence[Table | XComArg] | None" = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.requires = requires
        self.method = method
        self.parameters = parameters
        self.seed = seed
        self.title = title
        self.budget = budget
        self.policy = policy
        self.ledger = ledger
        self.promise = promise
        self.secret = secret
        self.replaces = replaces
        self.series = series
        self.lake = lake
        self.history = history
        self.engine = engine
        require_policy(self.task_id, self.budget, self.policy)

    @recorded
    def execute(self, context: "Context") -> "StagedRelease":
        """Stage a release. Return a reference to it."""
        return self.stage(context, self.method, self.parameters or {})


def require_policy(task_id: str, budget: object, policy: object) -> None:
    """Raise if an operator has a budget but no policy, when its DAG is built.

    Args:
        task_id: Name of the task in the error.
        budget: Argument of the operator that names the budget; None if no budget pays.
        policy: Argument `policy` of the operator.

    Raises:
        SpecError: If the policy is missing.
    """
    if budget is not None and policy is None:
        raise SpecError(
            f"{task_id}: a budget requires a policy, so that a release that the policy refuses is not "
            "paid for. Add policy=, as for VerifyOperator"
        )


_MOST_MAPPED = 1_024  # Airflow's own default


class CutFragmentsOperator(ReleasingOperator):
    """Cut a table into parts that can meet the guarantees by themselves, and write each to the work area.

    Args:
        table: Reference to an ingested table.
        method: Registry key of an anonymizer.
        parameters: Parameters of the method; rendered text is read as the parameter's type.
        seed: Random seed of the cuts and of all fragments; None takes fresh entropy.
        engine: Engine of kind `fragments`, see `privacy_release.workarea.engines`; None: the one the table
            was ingested with.
        requires: Outputs of further tasks that must have succeeded, as for `ReleaseOperator`.
        series: Release table that the release will go to, to whose earlier releases `history` refers.
        lake: Airflow connection ID of the lake of that table.
        history: Protection of people who are also in earlier releases of `series`, as for `ReleaseOperator`.
    """

    template_fields = (
        *("table", "method", "parameters", "seed", "engine", "requires"),
        *("series", "lake", "history"),
    )
    template_fields_renderers = {  # noqa: RUF012  Airflow's own declaration
        "table": "json",
        "requires": "json",
        "parameters": "json",
        "engine": "json",
        "history": "json",
    }
    ui_color = "#e5f3e1"

    def __init__(
        self,
        *,
        table: "Table | XComArg",
        method: str,
        parameters: Mapping[str, Any] | None = None,
        seed: int | str | None = None,
        engine: str | Mapping[str, Any] | None = None,
        requires: "Sequence[Table | XComArg] | None" = None,
        series: str | None = None,
        lake: str = DEFAULT_LAKE,
        history: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.requires = requires
        self.method = method
        self.parameters = parameters
        self.seed = seed
        self.engine = engine
        self.series = series
        self.lake = lake
        self.history = history

    @recorded
    @monitored("cut")
    def execute(self, context: "Context") -> "list[Fragments]":
        """Cut the table. Return references to its fragments, in batches if there are too many to map over."""
        from privacy_release.steps.producers import fragments
        from privacy_release.steps.producers.followed import too_large
        from privacy_release.steps.producers.job import Job
        from privacy_release.steps.release import with_required, worked_on_by

        table = worked_on_by(chosen_engine(self.engine), with_required(self.table, self.requires))
        if kind_of_engine(table.engine) != FRAGMENTS:
            raise SpecError(
                "mapped tasks require the engine `fragments`. Ingest the table with it, or use "
                "ReleaseOperator"
            )
        with run_work_area(context) as work, open_engine(table.engine, work.folder) as engine:
            job = Job(
                work=work,
                label=file_label(context),
                method=self.method,
                parameters=method_parameters(self.method, self.parameters or {}),
                seed=read_text(self.seed, int | None),
                past=self._past(context),
            )
            cut, plan = fragments.cut_and_keep(table, engine, job)
            if (warning := too_large(cut)) and not is_paid(self):
                self.log.warning(warning)
            refs = fragments.partition(cut, plan, engine)
        log_counts(self, "cut", {"rows": table.rows, "fragments": len(refs)})
        return fragments.in_batches(refs, most_mapped())


class ReleaseFragmentOperator(BaseOperator):
    """Release one fragment of a table, or a batch of them; `JoinFragmentsOperator` combines them.

    A retry writes the same bytes: the random choices follow from the seed of the cut and the fragment's
    number.

    Args:
        fragment: Reference to a fragment, from `CutFragmentsOperator`: `.expand(fragment=cut.output)`. If
            there are more fragments than Airflow maps a task over (`core.max_map_length`), a list of
            fragments, which are released one after the other.
    """

    references: ClassVar = {"fragment": FragmentRef | list[FragmentRef]}
    template_fields = ("fragment",)
    template_fields_renderers = {"fragment": "json"}  # noqa: RUF012  Airflow's own declaration
    ui_color = "#e5f3e1"

    def __init__(self, *, fragment: "Fragments | XComArg", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fragment: Any = fragment  # a reference, or a list of them, by the time of execute

    @recorded
    @monitored("fragment")
    def execute(self, context: "Context") -> "FragmentReleaseRef | list[FragmentReleaseRef]":
        """Release the fragment. Return a reference to its released records, or one for each of a batch."""
        with run_work_area(context):
            if isinstance(self.fragment, list):
                return [self._released(fragment) for fragment in self.fragment]
            return self._released(self.fragment)

    def _released(self, fragment: "FragmentRef") -> "FragmentReleaseRef":
        from privacy_release.steps.producers.fragments import release_one

        released = release_one(fragment)
        counts = {"rows_in": fragment.rows, "rows": released.rows}
        log_counts(self, "fragment released", counts, fragment=released.fragment)
        return released


class JoinFragmentsOperator(BaseOperator):
    """Stage the fragments of a table as one release, each exactly once, if together they meet the guarantees.

    Args:
        fragments: Output of `ReleaseFragmentOperator` for each fragment, or for each batch.
        title: Heading of the report; None: a default one.
    """

    references: ClassVar = {"fragments": list[FragmentReleaseRef | list[FragmentReleaseRef]]}
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

    @recorded
    @monitored("release")
    def execute(self, context: "Context") -> "StagedRelease":
        """Stage the release. Return a reference to it."""
        from privacy_release.steps.producers.fragment_join import join_staged

        released = each(self.fragments)
        with run_work_area(context) as work:
            staged = join_staged(released, work, title=self.title, label=file_label(context))
        self.log.info("staged", method=staged.method, rows=staged.rows, **staged.figures)
        return staged


def most_mapped() -> int:
    """Return the largest number of items that Airflow may map a task over."""
    from airflow_privacy_release.compat import conf

    return int(conf.getint("core", "max_map_length", fallback=_MOST_MAPPED))
