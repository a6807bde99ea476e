"""Cases in processes of their own, one at a time; a run that was cut off goes on where it stopped."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.environments import UnavailableError
from benchmarks.processes import answer_of


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a case took and found.

    Attributes:
        wall: seconds from its start to its end.
        cpu: seconds, of its process and all processes below it.
        peak: bytes, the largest resident memory of any one of those processes.
        figures: of the case.
    """

    wall: float
    cpu: float
    peak: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Runner:
    """Runs cases, and keeps what they gave in a folder.

    Attributes:
        folder: of the tables and results; its maker removes it.
    """

    folder: Path

    def __call__(self, case: str, **arguments: object) -> Measured:
        """Run a case, unless the folder has its result: equal arguments are the same case.

        Raises:
            UnavailableError: if its process fails, with its last line.
        """
        given = json.dumps(arguments, sort_keys=True)
        kept = self.folder / f"{case}-{hashlib.sha256(given.encode()).hexdigest()[:16]}.json"
        if kept.exists():
            return Measured(**json.loads(kept.read_text()))
        print(f"[scale] {case} {given}", flush=True)
        began = time.perf_counter()
        try:
            found = answer_of("scale.scale_cases", case, given)
        except UnavailableError as error:
            raise UnavailableError(f"{case}: {error}") from None
        measured = Measured(wall=time.perf_counter() - began, **found)
        kept.write_text(json.dumps(asdict(measured)))
        gigabytes = measured.peak / 1e9
        print(f"[scale]   {measured.wall:.1f} s, {measured.cpu:.1f} CPU s, {gigabytes:.2f} GB", flush=True)
        return measured
