"""How long a call takes: wall time, and CPU seconds of the process, which other load does not inflate."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Timing:
    """Seconds of several calls."""

    walls: tuple[float, ...]
    cpus: tuple[float, ...]

    @property
    def wall(self) -> float:
        """Median wall seconds."""
        return median(self.walls)

    @property
    def best(self) -> float:
        """Least wall seconds: other load can only add to it."""
        return min(self.walls)

    @property
    def cpu(self) -> float:
        """Median CPU seconds over all threads."""
        return median(self.cpus)


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def interleaved(
    calls: Mapping[str, Callable[[], object]], repeats: Mapping[str, int], *, warm_up: bool = True
) -> dict[str, Timing]:
    """Every call in turn, again and again, so that a change of the machine's load strikes all alike.

    Before them comes a round that compiles and fills caches and is not counted; a call that is made once
    only has no part in it.
    """
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(0 if warm_up else 1, max(repeats.values()) + 1):
        for name, call in calls.items():
            if turn == 0 and repeats[name] > 1:
                call()
            elif 0 < turn <= repeats[name]:
                seen[name].append(timed(call))
    return {
        name: Timing(tuple(w for w, _ in pairs), tuple(c for _, c in pairs)) for name, pairs in seen.items()
    }
