"""The participants of each release of a schedule: private files that only the service user can read.

They must prevent that a person takes part once too often, whatever fails in the meantime:

- Participants are counted, in a file of the curator's folder, before the first noise is drawn. A process that
  dies after that leaves the file, and a retry of the same release finds it and filters in the same way. So
  does a run on the same bytes. Other bytes are another release.
- The ledger's entry that commits the model records the file's hash. If a recorded file is missing, altered or
  has another key, the schedule stops, because people could take part again.
- Releases of a schedule are counted one at a time, under a lock of the folder, which ends with its process.
- A release counts from then until the period has passed since it was committed, by the ledger's clock. So of
  two releases in one period, the one that is filtered later always sees the other
  (`privacy_engine.dp.participation`). A release that was never committed counts forever.

A person is identified by a number that is a keyed hash (`privacy_release.sources.identifiers`), the same in
every run, of the form of the identifier that the file names (`privacy_release.workarea.people`). Neither
numbers nor the number of participants are ever published, logged or passed on, because the number of
participants is not public.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import IntegrityError, SchemaError, SpecError, VerificationError
from privacy_release.config.settings import curator_folder
from privacy_release.workarea.area import WorkArea
from privacy_release.workarea.parquet import write_private
from privacy_release.workarea.people import WRITTEN, Numbering

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from privacy_engine.dp.ledger import Booking, Entry
    from privacy_engine.dp.loss import PrivacyLoss
    from privacy_engine.dp.participation import Participation
    from privacy_engine.dp.promises import Promise
    from privacy_release.ledger.ledger import BudgetLedger

SCHEDULE, PARTICIPANTS = "schedule", "participants_sha256"  # fields in the detail of a booking's entries


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Releases in which each person takes part a limited number of times.

    Attributes:
        name: Name of the schedule. All its releases count together.
        releases: Largest number of releases of a period that a person takes part in.
        period: `total`, or a rolling window such as `365d`.
        refuse_seen: Whether rows of a person who has reached the limit refuse the release, instead of being
            omitted.
    """

    name: str
    releases: int
    period: str
    refuse_seen: bool = False
    regime = "participation"

    @property
    def participation(self) -> "Participation":
        """The parameters that affect the loss."""
        from privacy_engine.dp.limits import Period
        from privacy_engine.dp.participation import Participation

        return Participation(releases=self.releases, period=Period.parse(self.period))

    def promise(self, each: "PrivacyLoss") -> "Promise":
        """Return the total loss of its releases, if each has that loss. Depends on the number of releases.

        Raises:
            SpecError: If the loss is not about persons.
        """
        try:
            return self.participation.promise(f"{self.name}, {self.releases} a person", each)
        except ValueError as error:
            raise SpecError(
                f"budget.promise: {error}; name the person of each row as `person` in the specification"
            ) from None

    def to_dict(self, each: "PrivacyLoss") -> dict[str, Any]:
        """Return the section of the manifest."""
        loss = self.promise(each).loss
        return {"releases_of_a_person": self.releases, "period": self.period, "loss": loss.to_dict()}

    @property
    def question(self) -> dict[str, Any]:
        """Return the fields that a noisy answer depends on."""
        return {"name": self.name, "releases": self.releases, "period": self.period}

    @contextmanager
    def counted(
        self, ledger: "BudgetLedger", booking: "Booking", persons: "npt.NDArray[np.int64]", known: Numbering
    ) -> "Iterator[Counted]":
        """Provide the participants of a booked release. They are counted if the block ends without an error.

        No other release of the schedule is counted in the meantime. Anything that can refuse the release
        belongs in the block.

        Args:
            ledger: Ledger that booked the release.
            booking: Booking of the release, reserved.
            persons: Number of each row's person, shape (n,).
            known: Numbering of the persons.

        Raises:
            SchemaError: If people were seen before and are to be refused.
            VerificationError: If participants of an earlier release are recorded with another key.
            IntegrityError: If a file of an earlier release is missing, altered or of another schedule.
        """
        area = WorkArea(curator_folder() / "participation", f"{booking.dataset}/{self.name}")
        handle = os.open(area.path("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            files = _Files(area=area, of=f"{booking.dataset}/{self.name}", known=known)
            counted = self._filtered(files, ledger, booking, persons)
            yield counted
            if not files.path(booking.key).is_file():
                files.write(booking.key, persons[counted.takes_part])
            counted.sha256 = files.sha256(booking.key)
        finally:
            os.close(handle)

    def _filtered(
        self,
        files: "_Files",
        ledger: "BudgetLedger",
        booking: "Booking",
        persons: "npt.NDArray[np.int64]",
    ) -> "Counted":
        import numpy as np

        earlier = files.of_period(
            ledger.history(booking.dataset), self.name, self.participation, booking.booked_at
        )
        if booking.key in earlier:  # an earlier attempt of this release
            takes_part = np.isin(persons, earlier[booking.key])
        else:
            takes_part = self.participation.takes_part(persons, list(earlier.values()))
        if self.refuse_seen and not takes_part.all():
            raise SchemaError(
                f"{booking.dataset} has rows of persons who took part in {self.name} before, but "
                "budget.promise says to refuse them: deliver only new people, or set `seen: leave_out`"
            )
        return Counted(takes_part=takes_part)


@dataclass(kw_only=True)
class Counted:
    """The rows whose person takes part, shape (n,), and the hash of the file once they are counted."""

    takes_part: "npt.NDArray[np.bool_]"
    sha256: str = ""

    def detail(self, schedule: Schedule) -> dict[str, str]:
        """Return the details for the ledger's entry."""
        return {SCHEDULE: schedule.name, PARTICIPANTS: self.sha256}


@dataclass(frozen=True, kw_only=True)
class _Files:
    """The files of a schedule, one per release: the numbering, then one person per line."""

    area: WorkArea
    of: str
    known: Numbering

    def path(self, key: str) -> Path:
        return self.area.path(f"{key}.people")

    def write(self, key: str, persons: "npt.NDArray[np.int64]") -> None:
        head = {"of": self.of, "key": self.known.key_id, "form": self.known.form}
        lines = [json.dumps(head), *map(str, sorted(set(persons.tolist())))]
        write_private(self.path(key), "\n".join(lines).encode())

    def sha256(self, key: str) -> str:
        return hashlib.sha256(self.path(key).read_bytes()).hexdigest()

    def of_period(
        self,
        entries: "tuple[Entry, ...]",
        schedule: str,
        participation: "Participation",
        now: datetime,
    ) -> "dict[str, npt.NDArray[np.int64]]":
        """Return the participants of each release that counts at a time, by its key."""
        from privacy_engine.dp.ledger import committed_with

        window = participation.period.window
        committed = {entry.key: entry for entry in committed_with(entries, SCHEDULE, schedule)}
        known = {path.stem for path in self.area.folder.glob("*.people")}
        found = {}
        for key in sorted(known | set(committed)):
            commit = committed.get(key)
            if commit is None or window is None or commit.at > now - window:
                found[key] = self._read(key, None if commit is None else commit.detail[PARTICIPANTS])
        return found

    def _read(self, key: str, sha256: str | None) -> "npt.NDArray[np.int64]":
        """Return the participants of one release, checked against the hash in the ledger once committed."""
        import numpy as np

        remedy = (
            f"restore the folder {self.area.folder} from its newest backup; without it, participants are "
            "unknown, and the schedule can only continue under another name, whose promise counts in addition"
        )
        try:
            data = self.path(key).read_bytes()
        except OSError:
            raise IntegrityError(
                f"who took part in an earlier release of {self.of} must be on record, but a file is missing: "
                f"{remedy}"
            ) from None
        try:
            head, *persons = data.decode().split("\n")
            head_fields, numbers = json.loads(head), np.array(persons, dtype=np.int64)
            of, key_id, form = head_fields["of"], head_fields["key"], head_fields.get("form", WRITTEN)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise IntegrityError(f"who took part in a release of {self.of} is damaged: {remedy}") from None
        if of != self.of or (sha256 is not None and sha256 != hashlib.sha256(data).hexdigest()):
            raise IntegrityError(
                f"who took part in a release of {self.of} must be as the ledger recorded it, but a file was "
                f"altered or is of another schedule: {remedy}"
            )
        if key_id != self.known.key_id:
            raise VerificationError(
                f"who took part in earlier releases of {self.of} is recorded with another key, so no one can "
                "be recognised; restore the key, or continue under another name of the schedule"
            )
        return np.unique(self.known.of_stored(numbers, form, self.of))  # two spellings may be one person
