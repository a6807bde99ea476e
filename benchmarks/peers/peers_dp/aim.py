"""AIM: an adaptive and iterative mechanism (McKenna, Mullins, Sheldon, Miklau 2022), for replaced records.

Algorithm 2 of the paper with what its authors' code sets (`mechanisms/aim.py` of
https://github.com/ryan112358/private-pgm, MIT licence): 16 rounds planned for each attribute, a tenth of the
budget for choices, tables of at most 10,000 cells, a model of at most 80 MB. Written again on the numpy model
beside this module: OpenDP's AIM on the authors' present library took 348 CPU seconds for a fit on NLTCS with
two rounds an attribute, and came no nearer than .107 to its three-way marginals.

It differs from the authors' code in three things. The workload is all triples, not pairs, since the benchmark
measures those. A round's model takes at most 100 steps from the model before and ends where it has converged;
on Adult at .8, ten times as many changed the distance by less than two runs differ. And a replaced record is
protected, so the number of records is public and given to the model, and the budget is counted as follows.

(epsilon, delta) for a replaced record by zCDP, each round once more split into
- a choice among tables r by the score w_r (|x_r - model_r|_1 - sqrt(2 / pi) sigma n_r). A replaced record
  leaves one cell of x_r for another, so a score changes by at most 2 max w. The exponential mechanism with
  exp(e score / (2 * 2 max w)) has range e, which is e^2 / 8 of zCDP (Cesar, Rogers 2021);
- the counts x_r with noise N(0, sigma^2): they change by sqrt(2) in L2, which is 2 / (2 sigma^2) of zCDP.
This is tighter than half the epsilon for a record added or removed, which would be 4 / (2 sigma^2).
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from graphical_model import MEGABYTE, Clique, Measurement, Model, Sizes, estimated, model_megabytes, ordered

DELTA = 1e-9
WORKLOAD = 3  # attributes of its tables
MOST_CELLS = 10_000  # of a table of the workload
MEGABYTES = 80.0  # of the model, when all of the budget is spent
CHOICE = 0.1  # of the budget of a round
ROUNDS = 16  # planned for each attribute
STEPS, LAST_STEPS = 100, 1_000  # of mirror descent, in a round and at the end


def synthetic(table: pd.DataFrame, sizes: Mapping[str, int], epsilon: float) -> pd.DataFrame:
    """As many rows as the table has, of the codes that are its domain."""
    names, rng = list(table.columns), np.random.default_rng()
    model = aim(table.to_numpy().T, tuple(sizes[name] for name in names), rho_within(epsilon), rng)
    return pd.DataFrame(model.records(len(table), rng).T, columns=names)


def aim(codes: np.ndarray, sizes: Sizes, rho: float, rng: np.random.Generator) -> Model:
    """Algorithm 2: choose the worst table, measure it, estimate; where that moves nothing, make less noise.

    Args:
        codes: (attributes, records) integers below the sizes.
        sizes: values of each attribute.
        rho: of zCDP for one record replaced, in all.
        rng: of choices and noise.
    """
    weights = workload(sizes)
    counts = {clique: counted(codes, sizes, clique) for clique in weights}
    rounds = ROUNDS * len(sizes)
    sigma, epsilon = noise_within((1 - CHOICE) * rho / rounds), choice_within(CHOICE * rho / rounds)
    measured = [noisy(c, counts[c], sigma, rng) for c in weights if len(c) == 1]
    left = rho - len(measured) * noise_rho(sigma)
    model = estimated(sizes, measured, codes.shape[1], STEPS)
    while left > 0:
        spent = noise_rho(sigma) + choice_rho(epsilon)
        if left < 2 * spent:  # the last round takes what is left
            sigma, epsilon, spent = noise_within((1 - CHOICE) * left), choice_within(CHOICE * left), left
        left -= spent
        candidates = small_enough(MEGABYTES * (1 - left / rho), weights, sizes, model)
        seen = {c: model.marginal(c) for c in candidates}
        expected = math.sqrt(2 / math.pi) * sigma  # of a cell's noise, absolute
        scores = [
            weights[c] * (np.abs(counts[c] - seen[c]).sum() - expected * seen[c].size) for c in candidates
        ]
        worst = chosen(candidates, np.array(scores), epsilon, 2 * max(weights[c] for c in candidates), rng)
        measured.append(noisy(worst, counts[worst], sigma, rng))
        model = estimated(sizes, measured, codes.shape[1], STEPS, model.theta)
        if np.abs(model.marginal(worst) - seen[worst]).sum() <= expected * seen[worst].size:
            sigma, epsilon = sigma / 2, 2 * epsilon
    return estimated(sizes, measured, codes.shape[1], LAST_STEPS, model.theta)


def workload(sizes: Sizes) -> dict[Clique, int]:
    """All tables within those of the workload -> how many attributes they share with these, summed."""
    tables = [
        c
        for c in itertools.combinations(range(len(sizes)), WORKLOAD)
        if math.prod(sizes[a] for a in c) <= MOST_CELLS
    ]
    within = {part for c in tables for k in range(1, WORKLOAD + 1) for part in itertools.combinations(c, k)}
    within |= {(a,) for a in range(len(sizes))}
    return {
        ordered(sizes, part): sum(len(set(part) & set(c)) for c in tables)
        for part in sorted(within, key=lambda part: (len(part), part))
    }


def small_enough(limit: float, candidates: Sequence[Clique], sizes: Sizes, model: Model) -> list[Clique]:
    """Those that the model holds already, and those that leave it within this many megabytes.

    A junction tree has no more cells than the joint table, where attributes have two values or more: a
    clique that is not the joint table has at most half of its cells, and so have the trees of the attributes
    that are left when one is eliminated, by induction.
    """
    if math.prod(sizes) * 8 / MEGABYTE <= limit:
        return list(candidates)
    measured = list(model.theta)
    return [
        clique
        for clique in candidates
        if any(set(clique) <= set(known) for known in measured)
        or model_megabytes(sizes, [*measured, clique]) <= limit
    ]


def counted(codes: np.ndarray, sizes: Sizes, clique: Clique) -> np.ndarray:
    """Counts of the records, one axis an attribute."""
    shape = tuple(sizes[a] for a in clique)
    cells = np.ravel_multi_index(tuple(codes[list(clique)]), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(float)


def chosen(
    candidates: Sequence[Clique],
    scores: np.ndarray,
    epsilon: float,
    sensitivity: float,
    rng: np.random.Generator,
) -> Clique:
    """By the exponential mechanism."""
    odds = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    return candidates[rng.choice(len(candidates), p=odds / odds.sum())]


def noisy(clique: Clique, counts: np.ndarray, sigma: float, rng: np.random.Generator) -> Measurement:
    """Counts with Gaussian noise."""
    return Measurement(clique, counts + rng.normal(0, sigma, counts.shape), sigma)


def noise_rho(sigma: float) -> float:
    """Of zCDP, for counts that change by sqrt(2) in L2."""
    return 1 / sigma**2


def noise_within(rho: float) -> float:
    """The standard deviation that costs so much."""
    return 1 / math.sqrt(rho)


def choice_rho(epsilon: float) -> float:
    """Of zCDP, for the exponential mechanism."""
    return epsilon**2 / 8


def choice_within(rho: float) -> float:
    """The epsilon of a choice that costs so much."""
    return math.sqrt(8 * rho)


def rho_within(epsilon: float, delta: float = DELTA) -> float:
    """The largest rho of zCDP within (epsilon, delta), by the bound of Canonne, Kamath, Steinke (2020)."""
    orders = 1 + np.logspace(-4, 5, 20_000)

    def implied(rho: float) -> float:
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return float(np.exp(logs.min()))

    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) <= delta else (low, middle)
    return low
