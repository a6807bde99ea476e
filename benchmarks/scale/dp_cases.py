"""One timed case of a synthesizer in a separate process, so that its peak memory is its own."""

import argparse
import json
import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from benchmarks import dp_tables
from benchmarks.dp_tables import Data
from benchmarks.scale.cases import Measured
from benchmarks.timing import interleaved
from privacy_engine import load_method

TABLES: Mapping[str, Callable[[], Data]] = {
    "NLTCS": dp_tables.nltcs,
    "ACS": dp_tables.acs,
    "Adult, 15 columns": lambda: dp_tables.adult(drop=()),
    "Bank Marketing": dp_tables.bank_marketing,
    "Baseball players": dp_tables.baseball_players,
}
FIT, DRAW, ROWS = "fit", "codes", "table"


@dataclass(frozen=True)
class Case:
    """A method on a table; its parameters beside epsilon."""

    table: str
    method: str
    parameters: Mapping[str, object] = field(default_factory=dict)


def measure(case: Case, epsilon: float, repeats: int, rows: int) -> Measured:
    """Time the fit, and drawing rows: their codes alone, and the whole table of values."""
    data = TABLES[case.table]()
    method = load_method(case.method, epsilon=epsilon, **case.parameters)
    model = method.measure(data.frame, data.schema)
    calls = {
        FIT: lambda: method.measure(data.frame, data.schema),
        DRAW: lambda: model.network.sample(rows, np.random.default_rng(1)),
        ROWS: lambda: method.sample(model, data.schema, rows, np.random.default_rng(1)),
    }
    timings = interleaved(calls, {FIT: repeats, DRAW: repeats, ROWS: repeats}, warm_up=False)
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(timings=timings, peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("method")
    parser.add_argument("--parameters", type=json.loads, default={})
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    case = Case(given.table, given.method, given.parameters)
    print(json.dumps(asdict(measure(case, given.epsilon, given.repeats, given.rows))))


if __name__ == "__main__":
    main()
