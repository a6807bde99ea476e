"""Run Anonymeter's attacks on releases, in its own interpreter; imports nothing of ours.

``python run.py JOB``: JOB is a JSON file ``{people, control, releases: {name: file}, attacks, columns, tried,
known, halves, secret}`` of Parquet files that all have the same columns. Each attack on each release prints
one line of JSON on standard output.
"""

import json
import logging
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator


def main(job: Path) -> None:
    """Attack as often as the job says."""
    asked = json.loads(job.read_text(encoding="utf-8"))
    people, control = (pd.read_parquet(asked[name]) for name in ("people", "control"))
    for release, file in asked["releases"].items():
        made = pd.read_parquet(file)[list(people.columns)]
        for attack, evaluator, how in attacks(asked, people, control, made):
            np.random.seed(1)  # noqa: NPY002  # its targets are drawn by it
            cpu = time.process_time()
            try:
                evaluator.evaluate(**how)
                found, spent = evaluator.results(), time.process_time() - cpu
                result = {"risk": found.risk().value, "ci": list(found.risk().ci)}
                result |= {"main": found.attack_rate.value, "control": found.control_rate.value}
            except (RuntimeError, ValueError, ZeroDivisionError) as error:
                spent, result = time.process_time() - cpu, {"failed": type(error).__name__}
            print(json.dumps({"release": release, "attack": attack, "cpu": spent, **result}), flush=True)


def attacks(
    asked: Mapping[str, Any], people: pd.DataFrame, control: pd.DataFrame, made: pd.DataFrame
) -> list[tuple[str, Any, dict[str, Any]]]:
    """Its evaluators by name, and how each is run."""
    given = {"ori": people, "syn": made, "control": control, "n_attacks": asked["attacks"]}
    tried = {"max_attempts": asked["tried"], "seed": 1}
    single = {"n_cols": asked["columns"], **tried}
    return [
        ("singling out, univariate", SinglingOutEvaluator(**given, **tried), {"mode": "univariate"}),
        ("singling out, multivariate", SinglingOutEvaluator(**given, **single), {"mode": "multivariate"}),
        ("linkability", LinkabilityEvaluator(**given, aux_cols=tuple(asked["halves"])), {}),
        (
            "inference",
            InferenceEvaluator(**given, aux_cols=asked["known"], secret=asked["secret"]),
            {},
        ),
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(Path(sys.argv[1]))
