"""DPSM-Bayes: PrivBayes with a sampling step before the structure and a threshold after the noise.

Zhu, Xu, Ya: a method for publishing high-dimensional synthetic data under differential privacy, with a
sampling mechanism (SMBayes, steps 1 to 12) and an improved Laplace mechanism (IMLap-Noisy, steps 1 to 12).

What the paper leaves open or gets wrong, and the solution here:

* Formula (4), the best sample size, is lost in the text at hand. The text says that it follows from the
  sensitivity of mutual information and the budget on the sample: here m minimises sensitivity(m) / e_a(m),
  the noise-to-signal of the selection.
* Definition 7 samples each record by a coin, for tables that differ by one record more or less; the
  sensitivities are for one record replaced. Here m records are drawn without replacement, for which the same
    formula holds for one record replaced (see ``privacy_engine.dp.amplification``). The sample comes from the
    operating system and is never revealed: the amplification depends on its secrecy.
* If one person has several of the records, the amplification, which concerns single records, is kept: the
  selection spends e1 / m for one record, which is e1 for the m records of a person (group privacy).
* One sample serves the whole selection (steps 2 and 9): the composed selection is amplified once. A fresh
  sample for every pick amplifies e1 / (d - 1) each time and has another best m; ``sampling`` selects one.
* Step 8, the candidates, is lost: read as GreedyBayes's, all sets of min(degree, placed) parents, the largest
  within the cell limit where attributes have more than two values.
* Formula (5), the threshold, is lost: see ``postprocess.imlap_threshold``; the other rules stay selectable.
* All d tables are measured, with noise of 2 d / (n e2) per probability: scale 2 d / e2 per count, discrete.
* Selection is OpenDP's noisy max on mutual information in whole units of 2^-40 bits, its sensitivity raised
  by the rounding error. The sensitivity for attributes of two values is used where all have two.
* Domains come from the schema. Where no attribute can have a useful parent, nothing is selected, and the
  tables get the whole budget.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from privacy_engine.choice import choice
from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.amplification import inner_epsilon, secure_sample
from privacy_engine.dp.loss import rounded_down
from privacy_engine.dp.mechanisms import split
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.bayes.network_synthesizer import (
    NetworkSynthesizer,
    independent_network,
    noisy_network,
)
from privacy_engine.synthesizers.bayes.scores import (
    Ints,
    integer_mutual_information,
    integer_sensitivity,
    mutual_information_sensitivities,
    once,
    select_families,
    selection_spend,
    two_valued,
)
from privacy_engine.synthesizers.bayes.structure import Candidates, Family, FamilyLimit
from privacy_engine.synthesizers.postprocess import PostProcess
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords

_SIZES_TRIED = 2**20


class Sampling(StrEnum):
    """Which records the picks of a selection see."""

    ONE = "one"  # one secret sample for the whole selection: the paper's
    FRESH = "fresh"  # another one for every pick


@dataclass(frozen=True, kw_only=True)
class DPSMBayes(NetworkSynthesizer):
    """Choose a Bayesian network on a secret sample of the records, and clean its noisy tables by a threshold.

    SMBayes with e1 = `structure_share` * epsilon, IMLap-Noisy with the rest.

    Attributes:
        sampling: Sample of the selection: `one` for the whole selection, as in the paper, or a `fresh` one
            for each pick.
        post_process: Way in which noisy counts become probabilities: `threshold`, the paper's, `clip` or
            `simplex`.
    """

    sampling: Sampling = Sampling.ONE
    post_process: PostProcess = PostProcess.THRESHOLD
    key: ClassVar[str] = "dpsm_bayes"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sampling", choice(Sampling, self.sampling, "sampling"))
        object.__setattr__(self, "post_process", choice(PostProcess, self.post_process, "post_process"))

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """SMBayes, then IMLap-Noisy on all d tables."""
        on_structure, on_tables = split(self.epsilon, (self.structure_share, 1 - self.structure_share))
        limit = self.family_limit(coded, on_tables, shared=False)
        records = WeightedRecords.of(coded)
        if not limit.allows_parents(coded.sizes):
            return independent_network(coded, records, epsilon=self.epsilon, rule=self.post_process)
        families, selection = _smbayes(coded, limit, on_structure, self.sampling)
        every = range(len(families))
        network, tables = noisy_network(
            coded, records, families, measured=every, epsilon=on_tables, rule=self.post_process
        )
        return network, (*selection, *tables)


def best_sample_size(rows: int, epsilon: float, picks: int, *, binary: bool, sampling: Sampling) -> int:
    """The m that minimises sensitivity(m) / e_a(m), for samples of m of n records; public figures only.

    e_a(m) = ln(e^epsilon - 1 + a) - ln a at a = m / n: step (3), for the budget of the whole selection, or of
    one pick where each draws its own sample.

    >>> [best_sample_size(21_574, 0.025, 15, binary=True, sampling=s) for s in Sampling]
    [1884, 62]
    """
    m = np.unique(np.linspace(2, rows, min(rows - 1, _SIZES_TRIED)).round())
    amplified_once = epsilon if sampling is Sampling.ONE else epsilon / picks
    log_growth = amplified_once + math.log(-math.expm1(-amplified_once))  # ln(e^epsilon - 1), for any epsilon
    inner = np.logaddexp(0.0, log_growth - np.log(m / rows))
    return int(m[np.argmin(mutual_information_sensitivities(m, binary=binary) / inner)])


def of_one_record(epsilon: float, each: int) -> float:
    """Return the epsilon for one record, such that ``each`` records replaced together have epsilon."""
    return epsilon if each == 1 else rounded_down(Fraction(epsilon) / each)


def _smbayes(
    coded: CodedTable, limit: FamilyLimit, epsilon: float, sampling: Sampling
) -> tuple[tuple[Family, ...], tuple[Spend, ...]]:
    """SMBayes, steps (1) to (12): return the network, and what its selection spent."""
    n, picks, binary = len(coded), len(coded.sizes) - 1, two_valued(coded.sizes)
    m = best_sample_size(n, of_one_record(epsilon, coded.each), picks, binary=binary, sampling=sampling)
    rate, sensitivity = Fraction(m, n), integer_sensitivity(m, limit.cells, binary=binary)
    each = coded.each

    def amplified_pick(part: float) -> float:
        return inner_epsilon(of_one_record(part, each), rate)

    def draw() -> WeightedRecords:
        return WeightedRecords.of(coded.take(secure_sample(n, m)))

    def fresh_score(candidates: Candidates) -> Ints:
        return integer_mutual_information(draw(), candidates)

    if sampling is Sampling.ONE:
        spent: tuple[float, ...] = (epsilon,)
        runs, pick = picks, split(amplified_pick(epsilon), [1] * picks)[0]
        score = once(partial(integer_mutual_information, draw()))
    else:
        spent = split(epsilon, [1] * picks)
        runs, pick = 1, amplified_pick(spent[0])
        score = fresh_score
    families = select_families(coded.sizes, limit, score, epsilon=pick, sensitivity=sensitivity)
    return families, tuple(
        selection_spend(
            coded.names,
            epsilon=part,
            pick=pick,
            sensitivity=sensitivity,
            runs=runs,
            sample=(m, n),
            group=each,
        )
        for part in spent
    )
