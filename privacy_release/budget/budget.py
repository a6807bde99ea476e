"""Spending a privacy budget: booked before the records are read, and once for the same bytes.

The order is what counts: reserve, read, measure, commit, sample.

- The reservation comes first, by a key that needs no record: the hash of the ingested file is in its
  reference. Too little budget therefore fails before anything is read, and a process that dies at any later
  point has paid.
- The measured model is committed together with its ledger entry, and the first commit wins. A noisy answer
  that was not committed was seen by nobody; the committed one is the only answer that this key ever gets. So
  a retry, a cleared task or another run on the same bytes costs nothing.
- The records are sampled from the committed text, with a seed that is derived from this text. That is
  post-processing (Dwork and Roth 2014, Proposition 2.1): the released bytes are a function of the model
  alone, so they cost nothing, and are the same in every retry. A seed from the key would not do: the key is a
  hash of the exact records, and whoever knows all of them but one could tell the last one by trying.

Where a schedule bounds in how many releases a person takes part, its promise is booked once, and who takes
part is counted before anything is measured, see `privacy_release.budget.participation`. Where everybody
may be in all of them, the promise is kept in equal parts, see `privacy_release.budget.yearly`.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import InfeasibleError, LedgerError, PrivacyEngineError
from privacy_release.budget.following import FOLLOWS, Turn, earlier_storages, is_opened, turn_of
from privacy_release.budget.participation import Schedule
from privacy_release.budget.typed import typed_records
from privacy_release.budget.yearly import Yearly
from privacy_release.workarea.engines import open_engine
from privacy_release.workarea.file_sets import paths_of
from privacy_release.workarea.parquet import require_unchanged
from privacy_release.workarea.people import Numbering
from privacy_release.workarea.references import BookingRef, Table, need

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Booking
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.domains import CodedTable, Storage
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.ledger.ledger import BudgetLedger

DEFAULT_LEDGER = "ledger_default"
_REFUSED = "refused"  # of what is kept instead of a model


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Whose budget a release spends, and who spends it.

    Attributes:
        dataset: name of the data set in the ledger; releases about the same people share one.
        run: names the run across its retries: DAG id and run id.
        ledger: where it is booked.
        connection: Airflow connection id of the ledger, for the later steps.
        schedule: whose releases make one promise together; None: each is paid by itself.
    """

    dataset: str
    run: str
    ledger: "BudgetLedger"
    connection: str = DEFAULT_LEDGER
    schedule: Schedule | Yearly | None = None

    def promise(self, each: "PrivacyLoss") -> "Promise | None":
        """The promise that a release of that loss is booked under; errors as of `Schedule.promise`."""
        return None if self.schedule is None else self.schedule.promise(each)

    @property
    def follows(self) -> Yearly | None:
        """The schedule, where its releases measure the tables of its first one again."""
        schedule = self.schedule
        return schedule if isinstance(schedule, Yearly) and schedule.opening is not None else None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model and the booking that paid for it; `text` is the model as the ledger keeps it."""

    model: "SynthesizerModel"
    text: str
    booking: BookingRef

    @property
    def seed(self) -> int:
        """Seed of the sampling where none is given: a function of the model alone."""
        return int(self.booking.model_sha256, 16)


def require_left(budget: Budget, loss: "PrivacyLoss") -> bool:
    """Ask whether a run can be paid for, before its records are fetched; nothing is booked.

    It is no promise: another run may book first. `measured_model` decides.

    Returns:
        Whether this run holds a booking already; then it does not matter what is left.

    Raises:
        BudgetExceededError: if the loss is not covered.
        LedgerError: if the ledger cannot be reached.
    """
    if budget.ledger.booked_by(budget.dataset, budget.run):
        return True
    promise = budget.promise(loss)
    schedule = budget.follows
    if schedule is not None and not is_opened(schedule, budget.ledger, budget.dataset):
        loss, promise = schedule.opening_loss(loss.neighbours), None
    budget.ledger.require(budget.dataset, loss, promise=promise)
    return False


def booking_key(
    dataset: str, input_sha256: str, method: str, parameters: dict[str, Any], schema: "DataSchema"
) -> str:
    """Names a measurement: hexadecimal sha256 of all that the noisy answer depends on.

    Args:
        dataset: whose budget.
        input_sha256: of the ingested file: other records, or the same in another order, are another key.
        method: registry key.
        parameters: those that change what is measured, plain values.
        schema: of the ingested file.
    """
    parts = {
        "dataset": dataset,
        "input": input_sha256,
        "method": method,
        "parameters": parameters,
        "schema": schema.to_dict(),
    }
    # An epsilon of 1 and of 1.0 are one question: it must not be paid for twice.
    parts = json.loads(json.dumps(parts, allow_nan=False), parse_int=float)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def measured_model(
    method: "Synthesizer",
    table: Table,
    schema: "DataSchema",
    budget: Budget,
    tell: Callable[[str], None] = lambda _: None,
) -> Measured:
    """The one model of these bytes: from the ledger, else reserved, measured and committed.

    Args:
        method: what measures.
        table: what `ingest` gave.
        schema: of the table.
        budget: pays.
        tell: told the name of each part of the work as it begins.

    Raises:
        BudgetExceededError: if the budget does not cover the loss; no record was read.
        LedgerError: if the ledger cannot be reached; nothing was released.
        SchemaError: if the table does not fit its schema.
        InfeasibleError: if the table is too small for the method; of a schedule, if a noisy number of records
            is, and then again in every retry.
        VerificationError: if those who took part in a schedule are known by another key.
        SpecError: if a schedule was opened with other parameters of the method, or another schema.
        CapacityError: if its engine has too little memory or disk.
        IntegrityError: if the table changed since it was ingested, or the ledger was edited.
    """
    parameters, loss = method.measurement_parameters(), method.privacy_loss(schema)
    if budget.schedule is not None:
        parameters |= {"over_time": budget.schedule.question}
    key = booking_key(budget.dataset, table.sha256, method.key, parameters, schema)
    detail = {"run": budget.run, "method": method.key}
    tell("booking the budget")
    if budget.follows is not None:
        turn = turn_of(budget.follows, method, schema, budget.ledger, budget.dataset, key)
    else:
        turn = Turn(method=method, promise=budget.promise(loss), measure=method.measure_coded, detail={})
    loss = turn.method.privacy_loss(schema)
    booking = budget.ledger.reserve(budget.dataset, key, loss, detail=detail, promise=turn.promise)
    if booking.model is None:
        measuring = _Measuring(
            turn=turn, table=table, schema=schema, budget=budget, booking=booking, tell=tell
        )
        measured, told = measuring.answer()
        booking = budget.ledger.commit(budget.dataset, key, measured, token=booking.token, detail=told)
    return _of(booking, budget)


@dataclass(frozen=True, kw_only=True)
class _Measuring:
    """What a booking pays for; `tell` is told the name of each part of the work as it begins."""

    turn: Turn
    table: Table
    schema: "DataSchema"
    budget: Budget
    booking: "Booking"
    tell: Callable[[str], None]

    def answer(self) -> tuple[str, Mapping[str, str]]:
        """The model as text, and what the ledger tells beside it."""
        if isinstance(self.budget.schedule, Schedule):
            return self._of_participants()
        return self._of_records()

    def _earlier(self) -> "Mapping[str, Storage] | None":
        """The types of the release that this one goes on from; None where it goes on from none."""
        if not (named := self.turn.detail.get(FOLLOWS)):
            return None
        return earlier_storages(self.budget.ledger, self.budget.dataset, self.booking.key, named)

    def _of_records(self) -> tuple[str, Mapping[str, str]]:
        """Draw the noise. A method refuses before it does, see `Synthesizer.measure`."""
        with _given_back(self.budget, self.booking):
            self.tell("reading")
            coded = _coded(self.turn.method, self.table, self.schema, self._earlier())
            self.tell(f"running {self.turn.method.key}")
            return self.turn.measure(coded).to_json(), self.turn.detail

    def _of_participants(self) -> tuple[str, Mapping[str, str]]:
        """Count who takes part, then draw the noise.

        A method may refuse a noisy number of records, and its refusal tells of it: it is the answer that is
        kept under this key, as a model would be. Drawn anew in each retry it would tell more than was paid
        for.
        """
        schedule, turn = self.budget.schedule, self.turn
        assert isinstance(schedule, Schedule)
        with _given_back(self.budget, self.booking):
            self.tell("reading")
            frame = typed_records(self.table, self.schema)
            persons = frame[self.schema.by].to_numpy(dtype="int64")
            self.tell("counting who takes part")
            with schedule.counted(
                self.budget.ledger, self.booking, persons, Numbering.of(need(self.table.numbered, "numbered"))
            ) as counted:
                rows = turn.method.coded_participants(frame, self.schema, counted.takes_part)
        told = counted.detail(schedule)
        self.tell(f"running {turn.method.key}")
        try:
            return turn.method.measure_participants(rows).to_json(), told
        except InfeasibleError as error:
            return json.dumps({_REFUSED: str(error)}), told


@contextmanager
def _given_back(budget: Budget, booking: "Booking") -> Iterator[None]:
    """The reservation is given back where it is this call's and the block refuses; it draws no noise then."""
    try:
        yield
    except PrivacyEngineError:
        # After any other error the reservation stands, as it does when the process dies: a retry goes on with
        # it. An earlier attempt, or another run, that reserved it may have drawn its noise: then it stands.
        if booking.owned:
            with suppress(LedgerError):
                budget.ledger.cancel(budget.dataset, booking.key, token=booking.token)
        raise


def _coded(
    method: "Synthesizer",
    table: Table,
    schema: "DataSchema",
    earlier: "Mapping[str, Storage] | None",
) -> "CodedTable":
    """The records that the key names, as codes: loaded, or read by the engine of a table that never is.

    What an engine reads is hashed before and after it, and both before noise is drawn: other bytes under this
    key would be a second answer that nobody booked.
    """
    if table.engine is None:
        return method.coded(typed_records(table, schema, earlier), schema)
    require_unchanged(table.uri, table.sha256)
    with open_engine(table.engine, Path(table.uri).parent) as engine:
        coded = method.coded_files(engine, paths_of(table.uri, table.sha256), schema, earlier)
    require_unchanged(table.uri, table.sha256)
    return coded


def _of(booking: "Booking", budget: Budget) -> Measured:
    from privacy_engine.synthesizers.model import SynthesizerModel

    text = booking.model or ""
    if text.startswith(f'{{"{_REFUSED}"'):
        reason = json.loads(text)[_REFUSED]
        raise InfeasibleError(f"{reason} (by a noisy number of records, and so in every retry)")
    reference = reference_to(booking, budget.connection)
    if budget.schedule is not None and booking.promise is not None:
        reference = replace(reference, over_time=budget.schedule.to_dict(booking.loss))
    return Measured(model=SynthesizerModel.from_json(text), text=text, booking=reference)


def reference_to(booking: "Booking", connection: str) -> BookingRef:
    """A committed booking as it travels between tasks."""
    return BookingRef(
        dataset=booking.dataset,
        ledger=connection,
        key=booking.key,
        entry_hash=booking.entry_hash,
        model_sha256=hashlib.sha256((booking.model or "").encode()).hexdigest(),
        epsilon=booking.loss.epsilon,
        delta=booking.loss.delta,
        neighbours=booking.loss.neighbours.value,
    )


def public_booking(booking: BookingRef) -> dict[str, Any]:
    """What a manifest says of a booking; the key, which is a hash of the records, stays inside."""
    return {
        name: value for name, value in booking.to_ref().items() if name not in ("key", "ledger", "over_time")
    }


def account_of(budget: Budget, promise: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a report says of a data set's budget, after a release; no record decided any of it.

    promise: that the release is paid under, as its booking tells it; None: it is paid by itself.

    Limits of a single release are left out: nothing of them is ever used up.
    """
    return {
        "dataset": budget.dataset,
        "limits": [
            {
                "period": _words(standing.limit.period.name),
                "limit": standing.limit.epsilon,
                "spent": float(standing.spent),
                "left": float(standing.left),
            }
            for standing in budget.ledger.standing(budget.dataset)
            if standing.limit.period.name != "release"
        ],
        "promise": promise,
    }


def _words(period: str) -> str:
    return "in all" if period == "total" else f"in any {period.removesuffix('d')} days"
