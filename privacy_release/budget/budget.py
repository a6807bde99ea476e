"""Spend a privacy budget: it is booked before the records are read, and once for the same bytes.

The order matters: reserve, read, measure, commit, sample.

- The reservation comes first, under a key that needs no record: the hash of the ingested file is in its
  reference. If the budget is too small, this therefore fails before anything is read, and a process that dies
  at any later point has paid.
- The measured model is committed together with its ledger entry, and the first commit wins. No one has seen a
  noisy answer that was not committed. The committed one is the only answer that this key ever gets. So a
  retry, a cleared task or another run on the same bytes costs nothing.
- The records are sampled from the committed text, with a seed that is derived from this text. That is
  post-processing (Dwork and Roth 2014, Proposition 2.1): the released bytes are a function of the model
  only, so they cost nothing and are the same in every retry. A seed from the key would not do: the key is a
  hash of the exact records, so anyone who knows all but one of them could find the last one by trying.

If a schedule limits the number of releases that a person takes part in, its promise is booked once, and
participants are counted before anything is measured, see `privacy_release.budget.participation`. If everyone
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
from privacy_release.budget.following import FOLLOWS, Turn, earlier_model, is_opened, turn_of
from privacy_release.budget.participation import Schedule
from privacy_release.budget.yearly import Yearly
from privacy_release.workarea.engines import open_engine
from privacy_release.workarea.people import Numbering
from privacy_release.workarea.references import BookingRef, Table, need

if TYPE_CHECKING:
    from privacy_engine.dp.ledger import Booking
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise
    from privacy_engine.synthesizers.model import SynthesizerModel
    from privacy_engine.synthesizers.synthesizer import Synthesizer
    from privacy_engine.tables.domains import CodedTable
    from privacy_engine.tables.schema import DataSchema
    from privacy_release.ledger.ledger import BudgetLedger

DEFAULT_LEDGER = "ledger_default"
_REFUSED = "refused"  # key of a refusal that is stored instead of a model


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The budget that a release spends, and the run that spends it.

    Attributes:
        dataset: Name of the data set in the ledger. Releases about the same people must share one.
        run: Name of the run that is the same in retries: DAG ID and run ID.
        ledger: Ledger in which the loss is booked.
        connection: Airflow connection ID of the ledger, for the later steps.
        schedule: Schedule whose releases share a promise. None: each release is paid separately.
    """

    dataset: str
    run: str
    ledger: "BudgetLedger"
    connection: str = DEFAULT_LEDGER
    schedule: Schedule | Yearly | None = None

    def promise(self, each: "PrivacyLoss") -> "Promise | None":
        """Return the promise under which a release of that loss is booked. Raises as `Schedule.promise`."""
        return None if self.schedule is None else self.schedule.promise(each)

    @property
    def follows(self) -> Yearly | None:
        """The schedule, if its releases measure the tables of its first one again."""
        schedule = self.schedule
        return schedule if isinstance(schedule, Yearly) and schedule.opening is not None else None


@dataclass(frozen=True, kw_only=True)
class PaidModel:
    """A model and the booking that paid for it. `text` is the model as stored in the ledger."""

    model: "SynthesizerModel"
    text: str
    booking: BookingRef

    @property
    def seed(self) -> int:
        """The default seed of the sampling: a function of the model only."""
        return int(self.booking.model_sha256, 16)


def require_left(budget: Budget, loss: "PrivacyLoss") -> bool:
    """Check whether a run can be paid for, before its records are fetched. Nothing is booked.

    This is no guarantee, because another run may book first. `measured_model` decides.

    Returns:
        Whether this run already has a booking, so that the remaining budget does not matter.

    Raises:
        BudgetExceededError: If the loss is not covered.
        LedgerError: If the ledger cannot be reached.
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
    """Return the key of a measurement: hexadecimal SHA-256 of all inputs of the noisy answer.

    Args:
        dataset: Data set whose budget pays.
        input_sha256: SHA-256 of the ingested file. Other records, or another order, give another key.
        method: Registry key of the method.
        parameters: Parameters that affect the measurement, as plain values.
        schema: Schema of the ingested file.
    """
    parts = {
        "dataset": dataset,
        "input": input_sha256,
        "method": method,
        "parameters": parameters,
        "schema": schema.to_dict(),
    }
    # An epsilon of 1 and of 1.0 are the same question, which must not be paid for twice.
    parts = json.loads(json.dumps(parts, allow_nan=False), parse_int=float)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def measured_model(
    method: "Synthesizer",
    table: Table,
    schema: "DataSchema",
    budget: Budget,
    on_progress: Callable[[str], None] = lambda _: None,
) -> PaidModel:
    """Return the only model of these bytes: from the ledger, or else reserved, measured and committed.

    Args:
        method: Method that measures the model.
        table: Table from `ingest`.
        schema: Schema of the table.
        budget: Budget that pays.
        on_progress: Progress callback, called with the name of each part of the work as it begins.

    Raises:
        BudgetExceededError: If the budget does not cover the loss. No record was read.
        LedgerError: If the ledger cannot be reached. Nothing was released.
        SchemaError: If the table does not fit its schema.
        InfeasibleError: If the table is too small for the method; for a schedule, if a noisy number of
            records is too small, and then again in every retry.
        VerificationError: If participants of a schedule are recorded with another key.
        SpecError: If a schedule was opened with other parameters of the method, or another schema.
        CapacityError: If its engine has too little memory or disk.
        IntegrityError: If the table changed since it was ingested, or the ledger was edited.
    """
    from privacy_engine.tables.domains import coarse_scales

    parameters, loss = method.measurement_parameters(), method.privacy_loss(schema)
    if budget.schedule is not None:
        parameters |= {"over_time": budget.schedule.question}
    key = booking_key(budget.dataset, table.sha256, method.key, parameters, schema)
    detail = {"run": budget.run, "method": method.key}
    for warning in coarse_scales(schema):
        on_progress(f"warning: {warning}")
    on_progress("booking the budget")
    if budget.follows is not None:
        turn = turn_of(budget.follows, method, schema, budget.ledger, budget.dataset, key)
    else:
        turn = Turn(method=method, promise=budget.promise(loss), measure=method.measure_coded, detail={})
    loss = turn.method.privacy_loss(schema)
    booking = budget.ledger.reserve(budget.dataset, key, loss, detail=detail, promise=turn.promise)
    if booking.model is None:
        measuring = _Measuring(
            turn=turn, table=table, schema=schema, budget=budget, booking=booking, on_progress=on_progress
        )
        measured, recorded = measuring.answer()
        booking = budget.ledger.commit(budget.dataset, key, measured, token=booking.token, detail=recorded)
    return _of(booking, budget)


@dataclass(frozen=True, kw_only=True)
class _Measuring:
    """The measurement that a booking pays for. `on_progress` is the progress callback."""

    turn: Turn
    table: Table
    schema: "DataSchema"
    budget: Budget
    booking: "Booking"
    on_progress: Callable[[str], None]

    def answer(self) -> tuple[str, Mapping[str, str]]:
        """Return the model as text, and the details for the ledger's entry."""
        if isinstance(self.budget.schedule, Schedule):
            return self._of_participants()
        return self._of_records()

    def _earlier(self) -> "SynthesizerModel | None":
        """Return the model of the release that this one continues. None if there is none."""
        if not (named := self.turn.detail.get(FOLLOWS)):
            return None
        return earlier_model(self.budget.ledger, self.budget.dataset, self.booking.key, named)

    def _of_records(self) -> tuple[str, Mapping[str, str]]:
        """Draw the noise. A method refuses before it does, see `Synthesizer.measure`."""
        with given_back(self.budget, self.booking):
            self.on_progress("reading")
            coded = _coded(self.turn.method, self.table, self.schema, self._earlier())
            self.on_progress(f"running {self.turn.method.key}")
            return self.turn.measure(coded).to_json(), self.turn.detail

    def _of_participants(self) -> tuple[str, Mapping[str, str]]:
        """Count the participants, then draw the noise.

        A method may refuse a noisy number of records, and the refusal reveals something about it. So the
        refusal is the answer that is stored under this key, like a model. If each retry drew again, it would
        reveal more than was paid for.
        """
        schedule, turn = self.budget.schedule, self.turn
        assert isinstance(schedule, Schedule)
        with given_back(self.budget, self.booking):
            self.on_progress("reading")
            frame = self.table.typed_frame(self.schema)
            persons = frame[self.schema.by].to_numpy(dtype="int64")
            self.on_progress("counting who takes part")
            with schedule.counted(
                self.budget.ledger, self.booking, persons, Numbering.of(need(self.table.numbered, "numbered"))
            ) as counted:
                rows = turn.method.coded_participants(frame, self.schema, counted.takes_part)
        detail = counted.detail(schedule)
        self.on_progress(f"running {turn.method.key}")
        try:
            return turn.method.measure_participants(rows).to_json(), detail
        except InfeasibleError as error:
            return json.dumps({_REFUSED: str(error)}), detail


@contextmanager
def given_back(budget: Budget, booking: "Booking") -> Iterator[None]:
    """Release the reservation if this call made it and the block refuses. Then no noise was drawn."""
    try:
        yield
    except PrivacyEngineError:
        # After any other error the reservation stays, as after a crash, and a retry continues it. An earlier
        # attempt, or another run, that reserved it may have drawn its noise, so then it stays, too.
        if booking.owned:
            with suppress(LedgerError):
                budget.ledger.cancel(budget.dataset, booking.key, token=booking.token)
        raise


def _coded(
    method: "Synthesizer",
    table: Table,
    schema: "DataSchema",
    earlier: "SynthesizerModel | None",
) -> "CodedTable":
    """Return the records of the key as codes: loaded, or read by the engine of a table that is never loaded.

    An engine's input is hashed before and after reading, and both hashes before noise is drawn: other bytes
    under this key would be a second answer that no one booked.
    """
    from privacy_engine.tables.domains import with_equal_bins

    storages = None if earlier is None else earlier.storages
    if earlier is not None and earlier.bins is None:  # also of a release before there were quantile bins
        schema = with_equal_bins(schema)
    if not table.is_in_fragments:
        return method.coded(table.typed_frame(schema, storages), schema)
    table.require_unchanged()
    with open_engine(table.engine, Path(table.uri).parent) as engine:
        coded = method.coded_files(engine, table.paths(), schema, storages)
    table.require_unchanged()
    return coded


def _of(booking: "Booking", budget: Budget) -> PaidModel:
    from privacy_engine.synthesizers.model import SynthesizerModel

    text = booking.model or ""
    if text.startswith(f'{{"{_REFUSED}"'):
        reason = json.loads(text)[_REFUSED]
        raise InfeasibleError(f"{reason} (by a noisy number of records, and so in every retry)")
    reference = reference_to(booking, budget.connection)
    if budget.schedule is not None and booking.promise is not None:
        reference = replace(reference, over_time=budget.schedule.to_dict(booking.loss))
    return PaidModel(model=SynthesizerModel.from_json(text), text=text, booking=reference)


def reference_to(booking: "Booking", connection: str) -> BookingRef:
    """Return a reference to a committed booking, for later tasks."""
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
    """Return the section of a manifest about a booking, without the key, which is a hash of the records."""
    return {
        name: value for name, value in booking.to_ref().items() if name not in ("key", "ledger", "over_time")
    }


def account_of(budget: Budget, promise: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the state of a data set's budget after a release, for its report. It depends on no record.

    promise: Promise that the release is paid under, from its booking. None: it is paid separately.

    Limits on a single release are omitted, because they are never used up.
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
