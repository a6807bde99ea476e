"""PPNB at equal epsilon beside multi-freq-ldpy, and what releasing the same people repeatedly gives away."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.environments import answer_of, environment
from benchmarks.papers.ppnb_tables import Data
from privacy_engine import DataSchema
from privacy_engine.learning.ppnb import PrivateNaiveBayes
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.randomizers.randomness import Secret

SCRIPTS = Path(__file__).parent / "peers_ldp"
OURS = "PPNB on ERRPH"
Accuracies = dict[str, dict[float, float]]


def ours_at(data: Data, epsilons: Sequence[float], rng: np.random.Generator) -> Accuracies:
    """Accuracy of PPNB at each epsilon of a person."""
    found: dict[float, float] = {}
    for epsilon in epsilons:
        release = ERRPH(epsilon=epsilon, randomness="seeded").release(data.train, data.schema, rng)
        model = PrivateNaiveBayes(release.manifest(), shrinkage=False)
        model.fit(release.table.drop(columns=data.label), release.table[data.label])
        found[epsilon] = float(model.score(*data.asked()))
    return {OURS: found}


def peers_at(data: Data, epsilons: Sequence[float], seed: int) -> Accuracies:
    """Accuracy of naive Bayes on the frequencies that each mechanism of the peer estimates.

    Raises:
        UnavailableError: if the peer's environment cannot be made, or it fails.
    """
    python = environment(SCRIPTS / "multi_freq_ldpy.txt")
    attributes = [a for a in data.schema.attributes if a.name != data.label]
    classes = sorted(data.train[data.label].unique())
    codes = pd.DataFrame(
        {a.name: pd.Categorical(data.train[a.name], a.categories).codes for a in attributes}
        | {data.label: pd.Categorical(data.train[data.label], classes).codes}
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        codes.to_csv(folder / "table.csv", index=False)
        job = {
            "table": str(folder / "table.csv"),
            "sizes": [len(a.categories or ()) for a in attributes],
            "classes": len(classes),
            "epsilons": list(epsilons),
            "seed": seed,
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        answered = answer_of(python, SCRIPTS / "run.py", str(folder / "job.json"))
    sizes = data.train[data.label].value_counts().loc[classes].to_numpy()
    answers = json.loads(answered)
    return {
        f"*multi-freq-ldpy, {name}*": {
            e: _accuracy(data, classes, sizes, by_epsilon[str(e)]) for e in epsilons
        }
        for name, by_epsilon in answers.items()
    }


def _accuracy(
    data: Data,
    classes: Sequence[str],
    sizes: npt.NDArray[np.int64],
    shares: Sequence[Sequence[Sequence[float]]],
) -> float:
    """Of naive Bayes on given shares [class][attribute][value], smoothed like ours."""
    log = np.tile(np.log(sizes / sizes.sum()), (len(data.test), 1))
    attributes = [a for a in data.schema.attributes if a.name != data.label]
    for at, attribute in enumerate(attributes):
        codes = pd.Categorical(data.test[attribute.name], attribute.categories).codes
        for c, n in enumerate(sizes):
            given = np.asarray(shares[c][at])
            log[:, c] += np.log((given * n + 1) / (n + len(given)))[codes]
    return float((np.array(classes)[log.argmax(axis=1)] == data.test[data.label].to_numpy()).mean())


def averaging(releases: int, people: int, rng: np.random.Generator) -> dict[str, dict[int, float]]:
    """Share of people whose value an attacker reads off who links them over 1, 2, ... releases at p_0 = 0.5.

    The column that links is released as it is; the value has four categories. The commonest answer is taken.
    """
    values = ["flu", "gout", "cold", "none"]
    table = pd.DataFrame(
        {"id": np.arange(people), "account": np.arange(people), "disease": rng.choice(values, people)}
    )
    schema = DataSchema.from_dict(
        {
            "id": {"role": "identifier"},
            "account": {"kind": "numeric"},
            "disease": {"role": "sensitive", "categories": values},
        }
    )
    memoised = ERRPH(randomness="memoised").with_secret(Secret(rng.bytes(32)))
    found: dict[str, dict[int, float]] = {}
    for name, method in {"fresh answers": ERRPH(), "memoised answers": memoised}.items():
        counts = np.zeros((people, len(values)))
        found[name] = {}
        for number in range(1, releases + 1):
            answers = method.release(table, schema, rng).table.sort_values("account")["disease"]
            counts[np.arange(people), pd.Categorical(answers, values).codes] += 1
            guess = np.array(values)[counts.argmax(axis=1)]
            found[name][number] = float((guess == table["disease"].to_numpy()).mean())
    return found


def mean_of(runs: Sequence[Mapping[str, Mapping[float, float]]]) -> Accuracies:
    """Mean over runs of the same names and points."""
    return {
        name: {x: float(np.mean([run[name][x] for run in runs])) for x in points}
        for name, points in runs[0].items()
    }
