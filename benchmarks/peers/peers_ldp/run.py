"""Run multi-freq-ldpy's mechanisms in an interpreter of their own; imports nothing of ours.

``python run.py JOB``: JOB is a JSON file ``{table, sizes, classes, epsilons, seed}``; ``table`` is a CSV file
of whole numbers: a column for each of ``sizes``, then the class. Prints ``{mechanism: {epsilon:
[class][column][value]}}``, the shares of each value within each class. An epsilon is a person's: ``SPL``
splits it over all columns, ``SMP`` asks each person about one column, drawn at random, with all of it.
"""

import json
import sys
from pathlib import Path

import numpy as np
from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client


def grr_split(rows, sizes, epsilon):
    """Generalized randomized response for every column."""
    part = epsilon / len(sizes)
    return [
        GRR_Aggregator_MI([GRR_Client(value, k, part) for value in rows[:, at].tolist()], k, part)
        for at, k in enumerate(sizes)
    ]


def oue_split(rows, sizes, epsilon):
    """Optimized unary encoding for every column."""
    part = epsilon / len(sizes)
    return [
        UE_Aggregator_MI(np.array([UE_Client(value, k, part) for value in rows[:, at].tolist()]), part)
        for at, k in enumerate(sizes)
    ]


def grr_sampled(rows, sizes, epsilon):
    """Generalized randomized response for one column of each person."""
    answers = [[] for _ in sizes]
    for row in rows.tolist():
        at, value = SMP_GRR_Client(row, sizes, len(sizes), epsilon)
        answers[at].append(value)
    return [GRR_Aggregator_MI(given, k, epsilon) for given, k in zip(answers, sizes, strict=True)]


MECHANISMS = {"GRR, SPL": grr_split, "OUE, SPL": oue_split, "GRR, SMP": grr_sampled}


def main(job: Path) -> None:
    """Do the job."""
    asked = json.loads(job.read_text(encoding="utf-8"))
    table = np.loadtxt(asked["table"], delimiter=",", skiprows=1, dtype=np.int64)
    np.random.seed(asked["seed"])  # noqa: NPY002  the peer's own source
    classes, found = table[:, -1], {}
    for name, mechanism in MECHANISMS.items():
        found[name] = {
            str(epsilon): [
                [
                    shares.tolist()
                    for shares in mechanism(table[classes == c, :-1], asked["sizes"], float(epsilon))
                ]
                for c in range(asked["classes"])
            ]
            for epsilon in asked["epsilons"]
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
