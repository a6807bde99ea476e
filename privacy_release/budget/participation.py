"""Who took part in which release of a schedule: private files that only the service user can read.

What they must never let happen is a person who takes part once too often, whatever fails meanwhile:

- Who takes part is counted, in a file of the curator's folder, before the first noise is drawn. A process
  that dies after that leaves the file; a retry of the same release finds it and filters the same. So does a
  run on the same bytes. Other bytes are another release.
- The ledger's entry that commits the model records the file's hash. A file that it knows of and that is
  missing, altered or of another key stops the schedule: people could take part again.
- Releases of a schedule are counted one at a time, under a lock of the folder, which ends with its process.
- A release counts from then until the period has passed since it was committed, by the ledger's clock: so of
  two releases in one period the one that is filtered later always sees the other
  (`privacy_engine.dp.participation`). One that was never committed counts for good.

A person is known by a number that is a keyed hash (`privacy_release.sources.identifiers`), the same in every
run, of the form of the identifier that the file names (`privacy_release.workarea.people`). Neither numbers
nor how many took part are ever published, logged or handed on: the number of those who take part is not
public.
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

SCHEDULE, PARTICIPANTS = "schedule", "participants_sha256"  # in the detail of a booking's entries


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Releases in which each person takes part in few.

    Attributes:
        name: of the schedule: all its releases count together.
        releases: most releases of a period that a person takes part in.
        period: `total`, or a rolling window such as `365d`.
        refuse_seen: whether rows of a person who took part as often refuse the release, instead of being
            left out.
    """

    name: str
    releases: int
    period: str
    refuse_seen: bool = False
    regime = "participation"

    @property
    def participation(self) -> "Participation":
        """What of it has a bearing on the loss."""
        from privacy_engine.dp.limits import Period
        from privacy_engine.dp.participation import Participation

        return Participation(releases=self.releases, period=Period.parse(self.period))

    def promise(self, each: "PrivacyLoss") -> "Promise":
        """What its releases lose together, if each loses that. Another number of releases is another one.

        Raises:
            SpecError: if the loss is not about persons.
        """
        try:
            return self.participation.promise(f"{self.name}, {self.releases} a person", each)
        except ValueError as error:
            raise SpecError(
                f"budget.promise: {error}; name the person of each row as `person` in the specification"
            ) from None

    def to_dict(self, each: "PrivacyLoss") -> dict[str, Any]:
        """Section of the manifest."""
        loss = self.promise(each).loss
        return {"releases_of_a_person": self.releases, "period": self.period, "loss": loss.to_dict()}

    @property
    def question(self) -> dict[str, Any]:
        """What of it a noisy answer depends on."""
        return {"name": self.name, "releases": self.releases, "period": self.period}

    @contextmanager
    def counted(
        self, ledger: "BudgetLedger", booking: "Booking", persons: "npt.NDArray[np.int64]", known: Numbering
    ) -> "Iterator[Counted]":
        """Who takes part in the release of a booking; those are counted when the block ends without an error.

        Nobody else counts for the schedule meanwhile. What can refuse the release belongs into the block.

        Args:
            ledger: that booked it.
            booking: of the release, reserved.
            persons: (n,) the number of the person of each row.
            known: by what they are numbered.

        Raises:
            SchemaError: if people were seen before and are to be refused.
            VerificationError: if those of an earlier release are known by another key.
            IntegrityError: if a file of an earlier release is missing, altered or of another schedule.
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
                f"{booking.dataset} has rows of persons who took part in {self.name} before, and "
                "budget.promise says to refuse them: deliver new people alone, or write `seen: leave_out`"
            )
        return Counted(takes_part=takes_part)


@dataclass(kw_only=True)
class Counted:
    """Who takes part: (n,) of the rows; and the hash of the file, once they are counted."""

    takes_part: "npt.NDArray[np.bool_]"
    sha256: str = ""

    def detail(self, schedule: Schedule) -> dict[str, str]:
        """What the ledger's entry records of it."""
        return {SCHEDULE: schedule.name, PARTICIPANTS: self.sha256}


@dataclass(frozen=True, kw_only=True)
class _Files:
    """The files of a schedule, one for each release: by what persons are known, then a person a line."""

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
        """Who took part in each release that counts at a time, by its key."""
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
        """Those of one release, held against the hash that the ledger recorded once it was committed."""
        import numpy as np

        remedy = (
            f"restore the folder {self.area.folder} from its newest backup; without it nobody knows who took "
            "part, and the schedule can go on only under another name, whose promise counts beside this one"
        )
        try:
            data = self.path(key).read_bytes()
        except OSError:
            raise IntegrityError(
                f"who took part in an earlier release of {self.of} must be on record, a file is missing: "
                f"{remedy}"
            ) from None
        try:
            head, *persons = data.decode().split("\n")
            told, numbers = json.loads(head), np.array(persons, dtype=np.int64)
            of, key_id, form = told["of"], told["key"], told.get("form", WRITTEN)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise IntegrityError(f"who took part in a release of {self.of} is damaged: {remedy}") from None
        if of != self.of or (sha256 is not None and sha256 != hashlib.sha256(data).hexdigest()):
            raise IntegrityError(
                f"who took part in a release of {self.of} must be as the ledger recorded it, a file was "
                f"altered or is of another schedule: {remedy}"
            )
        if key_id != self.known.key_id:
            raise VerificationError(
                f"who took part in earlier releases of {self.of} is known by another key, so nobody can be "
                "recognised; bring the key back, or go on under another name of the schedule"
            )
        return np.unique(self.known.of_stored(numbers, form, self.of))  # two spellings may be one person
