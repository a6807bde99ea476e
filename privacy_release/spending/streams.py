"""Streams: releases that go on from one another, under one promise for all of them together.

What a stream goes on from is the state of its last release (`privacy_engine.continual`): in a file of the
curator's folder, never in the lake, for it holds exact counts and who was counted with which values.

- A release is booked before its records are read, and each is booked with the loss of the whole stream, for
  what it publishes is a part of one mechanism that has this loss. The ledger counts the promise once, and
  refuses one release more than it is for.
- The state that a release leaves is stored before its model is committed. A process that dies before it was
  stored has shown its noise to nobody: the retry draws it anew. One that dies after that leaves the file; a
  retry of the same release finds it, and makes the same model of it. The next release goes on from it.
- The ledger's entry that commits the model records the file's hash and number. While that file, or that of a
  later release, is missing or altered, the stream stops: it would noise once more what it noised before.
- Releases of a stream are made one at a time, under a lock of the folder, which ends with its process.

A file is removed once its release is committed and a later one is, too: a committed model is all that a
retry, or a run on the same bytes, asks for.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from privacy_engine.errors import IntegrityError, SpecError, VerificationError
from privacy_release.spending.participation import Schedule
from privacy_release.spending.yearly import Yearly
from privacy_release.work.area import WorkArea
from privacy_release.work.parquet import write_private
from privacy_release.work.people import WRITTEN, Numbering
from privacy_release.work.settings import curator_folder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from privacy_engine.continual.standing import Standing
    from privacy_engine.continual.stream import TableStream
    from privacy_engine.dp.ledger import Booking, Entry
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.promises import Promise
    from privacy_engine.latent.latent_class import LatentClass
    from privacy_engine.tables.domains import CodedTable
    from privacy_release.ledger.ledger import BudgetLedger

    State = TableStream | Standing

STREAM, STATE = "stream", "state_sha256"  # in the detail of a booking's entries
NUMBER, SINCE = "stream_number", "stream_since"


@dataclass(frozen=True, kw_only=True)
class Follow:
    """Each release measures on sums of the same tables, see `privacy_engine.continual.stream`.

    Attributes:
        kind: which sums are noised: `square_root` or `tree`.
        changes: most changes of a person after the first release.
    """

    kind: str
    changes: int
    regime = "continual"
    names_people = True  # to know how often each of them changed

    def advanced(
        self,
        releases: int,
        method: "LatentClass",
        state: "State | None",
        coded: "CodedTable",
        people: "npt.NDArray[np.int64] | None",
    ) -> "State":
        """With the next release; the first one where there is no state."""
        from privacy_engine.continual.strategies import Kind, strategy
        from privacy_engine.continual.stream import TableStream

        if state is None:
            return TableStream.begun(method, strategy(Kind(self.kind), releases, self.changes), coded, people)
        assert isinstance(state, TableStream)
        return state.after(coded, people)


@dataclass(frozen=True, kw_only=True)
class Stand:
    """A release stands until a noisy test says otherwise, see `privacy_engine.continual.standing`.

    Attributes:
        anew: most times that one is measured anew.
        tolerance: share of the records that must have moved, about, to measure anew.
    """

    anew: int
    tolerance: float
    regime = "on_change"
    names_people = False

    def advanced(
        self,
        releases: int,
        method: "LatentClass",
        state: "State | None",
        coded: "CodedTable",
        people: "npt.NDArray[np.int64] | None",
    ) -> "State":
        """As of `Follow`."""
        from privacy_engine.continual.standing import Patience, Standing

        if state is None:
            return Standing.begun(method, Patience(anew=self.anew, tolerance=self.tolerance), coded)
        assert isinstance(state, Standing)
        return state.after(method, coded)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Releases that go on from one another.

    Attributes:
        name: of the schedule.
        stream: which of its streams: another one begins anew, and its promise counts beside this one.
        epsilon, delta: what all releases lose together, of a person who is in all of them.
        releases: most of the stream.
        how: they go on.
    """

    name: str
    stream: str
    epsilon: float
    delta: float
    releases: int
    how: Follow | Stand

    @property
    def regime(self) -> str:
        """As of `budget.over_time`."""
        return self.how.regime

    def promise(self, each: "PrivacyLoss") -> "Promise":
        """What all releases lose together, which is what each of them is booked with.

        Raises:
            SpecError: if a release is to lose anything else.
        """
        from privacy_engine.dp.limits import Period
        from privacy_engine.dp.loss import PrivacyLoss
        from privacy_engine.dp.promises import Parts, Promise

        promise = Promise(
            name=f"{self.name}, stream {self.stream}",
            loss=PrivacyLoss(epsilon=self.epsilon, delta=self.delta, neighbours=each.neighbours),
            period=Period(),
            parts=Parts(releases=self.releases, epsilon=self.epsilon, delta=self.delta),
        )
        if not promise.is_part(each):
            raise SpecError(
                f"budget.over_time: all releases of a stream lose epsilon {self.epsilon!r} and delta "
                f"{self.delta:g} together, and so must the method: got epsilon {each.epsilon!r}, delta "
                f"{each.delta:g}; leave both out of the release, or give these"
            )
        return promise

    def told(self, each: "PrivacyLoss") -> dict[str, Any]:
        """What a manifest says of it."""
        told = {
            "stream": self.stream,
            "releases": self.releases,
            "period": "total",
            "loss": self.promise(each).loss.to_dict(),
            "part": {"epsilon": each.epsilon, "delta": each.delta},
        }
        return told | vars(self.how)

    @property
    def question(self) -> dict[str, Any]:
        """What of it a noisy answer depends on."""
        return {
            "name": self.name,
            "stream": self.stream,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "releases": self.releases,
            **vars(self.how),
        }

    @contextmanager
    def held(
        self, ledger: "BudgetLedger", booking: "Booking", asked: Mapping[str, Any], known: Numbering | None
    ) -> "Iterator[Held]":
        """The stream, as its last release left it; nobody else goes on with it meanwhile.

        Args:
            ledger: that booked it.
            booking: of the release, reserved.
            asked: all but the records that the answer depends on, plain values.
            known: by what people are numbered; None where it does not matter who they are.

        Raises:
            IntegrityError: if the file of the last release is missing, altered or of another stream.
            VerificationError: if people were numbered by another key, or another form of their identifiers.
            SpecError: if the stream was begun with another promise, method or schema.
        """
        of = self.named(booking.dataset)
        area = WorkArea(curator_folder() / "streams", of)
        handle = os.open(area.path("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            asked_sha256 = hashlib.sha256(json.dumps(dict(asked), sort_keys=True).encode()).hexdigest()
            files = _Files(area=area, of=of, asked=asked_sha256, known=known)
            yield Held(stream=self, files=files, ledger=ledger, booking=booking)
        finally:
            os.close(handle)

    def named(self, dataset: str) -> str:
        """What entries of the ledger and files call the stream."""
        return f"{dataset}/{self.name}/{self.stream}"

    def told_of(self, ledger: "BudgetLedger", booking: "Booking") -> dict[str, int]:
        """Which release of the stream a committed one is, and since which it stands."""
        from privacy_engine.dp.ledger import Event

        entries = ledger.history(booking.dataset)
        (detail,) = [e.detail for e in entries if e.event is Event.COMMIT and e.key == booking.key][-1:]
        return {"number": int(detail[NUMBER]), "since": int(detail[SINCE])}


@dataclass(frozen=True, kw_only=True)
class Held:
    """A stream whose lock is held."""

    stream: Stream
    files: "_Files"
    ledger: "BudgetLedger"
    booking: "Booking"

    def advanced(
        self, method: "LatentClass", coded: "CodedTable", people: "npt.NDArray[np.int64] | None"
    ) -> "State":
        """With the release of the booking, stored; what an earlier attempt of it stored, if one did."""
        from privacy_engine.continual.stored import to_bytes

        head, committed = self._head()
        if self.files.path(self.booking.key).is_file():
            return self.files.read(self.booking.key).state
        last, form = (None, None) if head is None else self.files.read(head)
        state = self.stream.how.advanced(self.stream.releases, method, last, coded, people)
        self.files.write(self.booking.key, state.number, to_bytes(state), form)
        self._prune(committed)
        return state

    def detail(self, state: "State") -> dict[str, str]:
        """What the ledger's entry records of it."""
        since = getattr(state, "since", state.number)
        sha256 = self.files.sha256(self.booking.key)
        told = {STREAM: self.files.of, STATE: sha256, NUMBER: state.number, SINCE: since}
        return {name: str(value) for name, value in told.items()}

    def _head(self) -> "tuple[str | None, dict[str, Entry]]":
        """The key of the last release that left a state, and the entries of all that are committed."""
        from privacy_engine.dp.ledger import State, committed_with

        numbers = {key: self.files.number(key) for key in self.files.keys}
        head = max(numbers, key=lambda key: numbers[key], default=None)
        # Asked first: what is reserved may be committed by the time the history is read, never the reverse.
        booking = None if head is None else self.ledger.booking(self.booking.dataset, head)
        is_open = booking is not None and booking.state is State.RESERVED
        history = self.ledger.history(self.booking.dataset)
        committed = {entry.key: entry for entry in committed_with(history, STREAM, self.files.of)}
        newest = max(committed, key=lambda key: int(committed[key].detail[NUMBER]), default=None)
        if newest is not None:
            self.files.require(newest, committed[newest].detail[STATE])
        if head is not None and not is_open and head not in committed:
            raise self.files.altered()
        return head, committed

    def _prune(self, committed: "Mapping[str, Entry]") -> None:
        """Remove what nobody asks for any more; the newest committed one is held against the ledger."""
        newest = max((int(entry.detail[NUMBER]) for entry in committed.values()), default=0)
        for key, entry in committed.items():
            if int(entry.detail[NUMBER]) < newest:
                self.files.path(key).unlink(missing_ok=True)


class _Stored(NamedTuple):
    """The state that a release left, and by which form of their identifiers its people are numbered."""

    state: "State"
    form: str


@dataclass(frozen=True, kw_only=True)
class _Files:
    """The files of a stream, one for each of its last releases: a line of what it is of, then the state."""

    area: WorkArea
    of: str
    asked: str
    known: Numbering | None

    @property
    def keys(self) -> list[str]:
        return [path.stem for path in self.area.folder.glob("*.state")]

    def path(self, key: str) -> Path:
        return self.area.path(f"{key}.state")

    def write(self, key: str, number: int, state: bytes, form: str | None = None) -> None:
        """Write the state of a release.

        form: of the people in the state that it goes on from, not all of whom are in this release.
        """
        head = {"of": self.of, "release": key, "number": number, "asked": self.asked, "key": self._key_id}
        if self.known is not None:
            head["form"] = form or self.known.form
        write_private(self.path(key), json.dumps(head).encode() + b"\n" + state)

    def sha256(self, key: str) -> str:
        return hashlib.sha256(self.path(key).read_bytes()).hexdigest()

    def number(self, key: str) -> int:
        with self.path(key).open("rb") as file:
            return self._number(key, file.readline())

    def require(self, key: str, sha256: str) -> None:
        """Refuse unless the file of a release is as the ledger recorded it."""
        if not self.path(key).is_file():
            raise IntegrityError(
                f"the state of {self.of} must be on record, its file is missing: {self._remedy}"
            )
        if self.sha256(key) != sha256:
            raise self.altered()

    def altered(self) -> IntegrityError:
        return IntegrityError(
            f"the state of {self.of} must be as the ledger recorded it, a file was altered, is damaged or is "
            f"of no release of it: {self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        return (
            f"restore the folder {self.area.folder} from its newest backup; without it the stream cannot go "
            "on, and another one (`stream`) begins anew, whose promise counts beside this one"
        )

    def read(self, key: str) -> _Stored:
        from privacy_engine.continual.stored import from_bytes

        line, _, state = self.path(key).read_bytes().partition(b"\n")
        self._number(key, line)  # refuses another head
        head = json.loads(line)
        if head["key"] != self._key_id:
            raise VerificationError(
                f"who is counted in {self.of} is known by another key, so nobody can be recognised; bring "
                "the key back, or begin another stream (`stream`)"
            )
        if head["asked"] != self.asked:
            raise SpecError(
                f"budget.over_time: {self.of} was begun with another promise, method, parameter or schema, "
                "and all of its releases measure the same tables; bring those back, or begin another stream "
                "(`stream`), whose promise counts beside this one"
            )
        try:
            found = from_bytes(state)
        except ValueError:
            raise self.altered() from None
        form = head.get("form", WRITTEN)
        return _Stored(state=self._recognised(found, form), form=form)

    @property
    def _key_id(self) -> str | None:
        return None if self.known is None else self.known.key_id

    def _recognised(self, state: "State", form: str) -> "State":
        """The state with people as they are numbered now."""
        counted = getattr(state, "people", None)
        if self.known is None or counted is None:
            return state
        people = self.known.of_stored(counted.people, form, self.of)
        try:
            return replace(state, people=counted.renumbered(people))
        except ValueError:
            raise SpecError(
                f"budget.over_time: {self.of} counts a person as two, whose identifier was written in two "
                "ways; begin another stream (`stream`), whose promise counts beside this one"
            ) from None

    def _number(self, key: str, line: bytes) -> int:
        try:
            head = json.loads(line)
            told = (head["of"], head["release"], type(head["number"]), "asked" in head, "key" in head)
            number: int = head["number"]
        except (ValueError, KeyError, TypeError):
            raise self.altered() from None
        if told != (self.of, key, int, True, True):
            raise self.altered()
        return number


def schedule_named(name: str, said: Mapping[str, Any]) -> Schedule | Yearly | Stream:
    """The schedule of that name, of what `privacy_release.spec.model.schedule_of` gives."""
    fields = dict(said)
    for how in (Follow, Stand):
        own = {field: fields.pop(field) for field in how.__annotations__ if field in fields}
        if own:
            return Stream(name=name, **{"delta": 0.0, **fields}, how=how(**own))
    return Yearly(name=name, **fields) if "epsilon" in fields else Schedule(name=name, **fields)
