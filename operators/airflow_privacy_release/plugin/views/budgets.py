"""The privacy budgets of the ledgers: what is spent and left of each limit, and the history."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from airflow_privacy_release.plugin.auth import Rights
from airflow_privacy_release.plugin.connections import Places, specifications
from airflow_privacy_release.plugin.views.words import day, moment, number
from privacy_engine.dp.ledger import Entry, Event, Standing
from privacy_engine.dp.limits import Accounting, Period, exact, rho_of
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.promises import Promise
from privacy_engine.errors import PrivacyEngineError
from privacy_release.ledger.ledger import BudgetLedger, Moment
from privacy_release.reports.charts import LineChart, Point, line_chart
from privacy_release.spec.model import ReleaseSpec
from privacy_release.steps.promised import promises_of, unsuited

LOW = Fraction(1, 5)  # share of the limit
RELATIONS = {
    Neighbours.REPLACE_ONE: "one record, replaced by another",
    Neighbours.REPLACE_PERSON: "all records of one person, replaced by others",
    Neighbours.ADD_REMOVE: "one record, present or absent",
}
ACCOUNTINGS = {
    Accounting.SUM: "add epsilons (basic composition): twice as many releases spend twice as much",
    Accounting.ZCDP: "add rho (zCDP), converted at delta: many small releases spend less",
}
_STEPS = 150  # number of moments in a chart
_SHOWN = 200  # number of newest entries that are shown


@dataclass(frozen=True, kw_only=True)
class LimitShown:
    """What is spent and left of one limit.

    Attributes:
        period: Period of the limit, in words.
        share: Share of the limit that is spent, 0 .. 1; with zCDP, of its rho.
        rho: Sentence on the rho that is spent and left; empty if epsilons are added.
        delta: Sentence on the delta that is spent and left; empty if the limit has no delta, or with zCDP.
        warning: Why the limit is low; empty if it is not.
        chart: Chart of the remaining budget over time; None for the limit of a single release.
        unsuited: Why the limit does not fit the promises that spend it, one sentence each.
    """

    period: str
    limit: str
    spent: str
    reserved: str
    left: str
    share: float
    rho: str
    delta: str
    warning: str
    chart: LineChart | None
    unsuited: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the history, without the entry's key, which is a hash of the data."""

    number: int
    at: str
    event: str
    epsilon: str
    run: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget of a data set.

    Attributes:
        users: Releases whose specifications spend it, with their epsilon where it is a plain number.
        may_grant: Whether the user may set its limits.
        history: Newest of all `entries` entries.
        problem: Why the ledger's entries cannot be trusted or read; empty if they can.
    """

    ledger: str
    dataset: str
    users: tuple[tuple[str, float | None], ...]
    may_grant: bool = False
    limits: tuple[LimitShown, ...] = ()
    history: tuple[Line, ...] = ()
    entries: int = 0
    problem: str = ""

    @property
    def is_low(self) -> bool:
        """Return whether the budget needs attention."""
        return bool(self.problem) or any(limit.warning or limit.unsuited for limit in self.limits)


def all_budgets(places: Places, rights: Rights) -> tuple[list[Budget], list[str]]:
    """Return the budgets that the user may see, low ones first, and what could not be read."""
    found: list[Budget] = []
    problems = list(places.problems)
    specs = [spec for spec in specifications() if spec.budget is not None]
    for name, ledger in places.ledgers.items():
        try:
            datasets = ledger.datasets()
        except PrivacyEngineError as error:
            problems.append(str(error))
            continue
        for dataset in datasets:
            users = [s for s in specs if s.budget and (s.budget.ledger, s.budget.dataset) == (name, dataset)]
            if rights.reads_dataset([spec.name for spec in users], name):
                found.append(_budget(name, ledger, dataset, users, rights))
    return sorted(found, key=lambda budget: (not budget.is_low, budget.dataset)), problems


def granting(places: Places, rights: Rights) -> list[str]:
    """Return the ledgers in which the user may grant a budget to a data set."""
    return [name for name in places.ledgers if rights.edits_connection(name)]


def standing(ledger: BudgetLedger, dataset: str) -> tuple[Standing, ...]:
    """Return what is left of each limit; nothing for a data set that the ledger does not know.

    Raises:
        PrivacyEngineError: If the ledger cannot be read.
    """
    return ledger.standing(dataset) if dataset in ledger.datasets() else ()


def in_words(standings: Iterable[Standing]) -> list[str]:
    """Say what is left of each limit, one sentence each."""
    return [_left_in_words(one) for one in standings]


def _left_in_words(one: Standing) -> str:
    left, limit = number(float(one.left)), number(float(one.limit.epsilon))
    period = _words(one.limit.period)
    single = one.limit.period.name == "release"
    words = f"At most {limit} {period}" if single else f"{left} of {limit} left, {period}"
    delta = _delta_in_words(one).removesuffix(".")
    return f"{words}. {delta}" if delta else words


def _budget(
    name: str, ledger: BudgetLedger, dataset: str, specs: Iterable[ReleaseSpec], rights: Rights
) -> Budget:
    specs = list(specs)
    losses = {spec.name: _loss(spec) for spec in specs}
    users = tuple((name, None if loss is None else loss.epsilon) for name, loss in losses.items())
    try:
        moments = ledger.course(dataset, _STEPS)
        entries = ledger.history(dataset, last=_SHOWN)
        promises = promises_of(ledger, dataset, specs)
    except PrivacyEngineError as error:
        return Budget(ledger=name, dataset=dataset, users=users, problem=str(error))
    needed_losses = [loss for loss in losses.values() if loss is not None]
    left = _left_over_time(moments)
    return Budget(
        ledger=name,
        dataset=dataset,
        users=users,
        may_grant=rights.edits_connection(name),
        limits=tuple(
            _limit(s, left.get(s.limit.period.name, []), needed_losses, promises)
            for s in moments[-1].standings
        ),
        history=_history(entries, rights),
        entries=entries[-1].number if entries else 0,
    )


def _loss(spec: ReleaseSpec) -> PrivacyLoss | None:
    """Return what a release spends, if it is written in plain numbers."""
    given = [spec.release.parameters.get(name, 0) for name in ("epsilon", "delta")]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        return None
    try:
        epsilon, delta = map(float, given)
        return PrivacyLoss.within(epsilon, delta, Neighbours.REPLACE_ONE)
    except ValueError:
        return None


def _limit(
    standing: Standing,
    left: Sequence[Point],
    needed_losses: Sequence[PrivacyLoss],
    promises: Sequence[Promise],
) -> LimitShown:
    limit = exact(standing.limit.epsilon)
    single = standing.limit.period.name == "release"
    highest = max([float(limit), *(p.y for p in left)])
    return LimitShown(
        period=_words(standing.limit.period),
        limit=number(float(limit)),
        spent=number(float(standing.spent)),
        reserved=number(float(standing.reserved)) if standing.reserved else "",
        left=number(float(standing.left)),
        share=_share(standing),
        rho=_rho_in_words(standing),
        delta=_delta_in_words(standing),
        warning=_warning(standing, limit, needed_losses),
        unsuited=tuple(unsuited(standing.limit, promises)),
        chart=None
        if single or not left
        else line_chart(
            left,
            label=f"Epsilon left, {_words(standing.limit.period)}: {number(float(standing.left))} of "
            f"{number(float(limit))} now",
            ends=(day(datetime.fromtimestamp(left[0].x, UTC)), "now"),
            top=highest,
            texts=(number(highest), "0"),
            limit=float(limit),
            steps=True,
        ),
    )


def _warning(standing: Standing, limit: Fraction, needed_losses: Sequence[PrivacyLoss]) -> str:
    short = _short(standing, needed_losses)
    if standing.limit.period.name == "release":
        return f"a release needs more {' and '.join(short)}" if short else ""
    if not limit:
        return "closed, nothing may be spent"
    if short and not standing.promises:  # with a promise, releases need nothing more
        needed = " and ".join(f"{name} {number(most)}" for name, most in short.items())
        return f"too little {' and '.join(short)} for the next release, which needs {needed}"
    if not standing.left and standing.room:
        return "spent"
    if standing.left_share >= LOW:
        return ""
    scarce = standing.scarcest
    return f"{scarce} is spent" if not standing.left_share else f"less than {100 * LOW} % of {scarce} is left"


def _short(standing: Standing, needed_losses: Sequence[PrivacyLoss]) -> dict[str, float]:
    """Return the resources that are too small for a further release, and the most that one needs of each."""
    found: dict[str, float] = {}
    for loss in needed_losses:
        needs = {"epsilon": loss.epsilon, "delta": loss.delta, "rho": float(rho_of(loss) or 0)}
        for name in standing.lacks(loss):
            found[name] = max(found.get(name, 0.0), needs[name])
    return found


def _share(standing: Standing) -> float:
    """Return the share of a limit's epsilon, or rho, that is spent or promised, 0 to 1."""
    limit = standing.limit
    whole, left = (limit.rho, standing.left_rho) if limit.is_zcdp else (exact(limit.epsilon), standing.left)
    return float(1 - left / whole) if whole else 1.0


def _rho_in_words(standing: Standing) -> str:
    limit = standing.limit
    if not limit.is_zcdp:
        return ""
    spent, left, whole = (number(float(rho)) for rho in (standing.rho, standing.left_rho, limit.rho))
    return f"Rho {spent} spent, {left} of {whole} left; epsilon is computed at delta {number(limit.delta)}."


def _delta_in_words(standing: Standing) -> str:
    limit = standing.limit
    if limit.is_zcdp or not limit.delta:
        return ""
    if limit.period.name == "release":
        return f"Delta at most {number(limit.delta)}."
    spent, left = float(standing.spent_delta), float(standing.left_delta)
    return f"Delta {number(spent)} spent, {number(left)} of {number(limit.delta)} left."


def _words(period: Period) -> str:
    names = {"total": "in total", "release": "for each release"}
    return names.get(period.name, f"in any {period.name[:-1]} days")


def _left_over_time(moments: Sequence[Moment]) -> dict[str, list[Point]]:
    """Return what was left of each limit over time, by the limit's period."""
    found: dict[str, list[Point]] = {}
    for passed in moments:
        for standing in passed.standings:
            left = float(standing.left)
            point = Point(
                x=passed.time.timestamp(), y=left, text=f"{moment(passed.time)}: {number(left)} left"
            )
            found.setdefault(standing.limit.period.name, []).append(point)
    return found


def _history(entries: Sequence[Entry], rights: Rights) -> tuple[Line, ...]:
    """Return the entries, newest first, without naming runs of DAGs that the user may not read."""
    reserved = {entry.key: entry for entry in entries if entry.event is Event.RESERVE}
    lines = []
    for entry in entries:
        source = reserved.get(entry.key, entry) if entry.event is not Event.GRANT else entry
        run = source.detail.get("run", "")
        lines.append(
            Line(
                number=entry.number,
                at=moment(entry.at),
                event=_EVENTS[entry.event],
                epsilon=number(float(entry.epsilon)) if entry.event is not Event.COMMIT else "",
                run=_readable(run, rights),
                note=_note(entry, source),
            )
        )
    return tuple(reversed(lines))


_EVENTS = {
    Event.GRANT: "limit set",
    Event.RESERVE: "spent",
    Event.COMMIT: "model stored",
    Event.CANCEL: "given back",
}


def _readable(run: str, rights: Rights) -> str:
    dag_id = run.partition("/")[0]
    return run if run and rights.is_known(dag_id) and rights.reads_runs(dag_id) else ""


def _note(entry: Entry, source: Entry) -> str:
    if entry.event is Event.GRANT:
        period = _words(Period.parse(entry.detail["period"]))
        accounting = ", as zCDP" if entry.detail.get("accounting") == Accounting.ZCDP else ""
        return f"{period}{accounting}, by {entry.detail.get('by', '-')}: {entry.detail.get('reason', '')}"
    return source.detail.get("method", "")
