"""Run a peer's synthesizer on a table of codes, in the peer's own interpreter; imports nothing of ours.

``python run.py PEER JOB``: JOB is a JSON file ``{table, sizes, fits: [{budget, out}, ...], limit}``.
``table`` and ``out`` are CSV files of integer codes below ``sizes[column]``, ``budget`` is the epsilon or rho
that the peer's module takes. Each fit prints one line of JSON on standard output. The system ends the process
after ``limit`` CPU seconds, if that is not null.
"""

import contextlib
import importlib
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import pandas as pd


def main(peer: str, job: Path) -> None:
    """Fit and sample as often as the job says."""
    request = json.loads(job.read_text(encoding="utf-8"))
    if request.get("limit"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (request["limit"], request["limit"] + 5))
    synthetic = importlib.import_module(peer).synthetic  # a module beside this file
    table = pd.read_csv(request["table"])
    for fit in request["fits"]:
        wall, cpu = time.perf_counter(), time.process_time()
        with contextlib.redirect_stdout(sys.stderr):  # peers print their progress
            made = synthetic(table, request["sizes"], fit["budget"])
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        made[list(table.columns)].to_csv(fit["out"], index=False)
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        print(json.dumps({**spent, "peak": peak}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], Path(sys.argv[2]))
