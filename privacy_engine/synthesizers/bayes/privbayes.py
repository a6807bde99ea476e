"""PrivBayes, the baseline, and its later form with R: a Bayesian network grown greedily, with noisy tables.

Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes: Private Data Release via Bayesian Networks, SIGMOD
2014 (GreedyBayes, NoisyConditionals, theta-usefulness), and TODS 2017 for attributes of more than two values.

Deviations, each for a reason:

* Adjacency is one record replaced, the number of records public: the relation of the paper's sensitivities.
* Selection is OpenDP's noisy max (permute-and-flip, never worse than the exponential mechanism) on mutual
  information in whole units of 2^-40 bits, its sensitivity raised by the rounding error: no float is trusted.
* Noise is discrete Laplace on counts, of scale 2 (number of tables) / e2: floating-point Laplace leaks.
* A family contained in another one is not measured again. In a network of degree k over attributes of two
  values that is the paper's rule (d - k tables; the first k + 1 attributes share one); for other shapes it is
  checked, family by family, and families that are not contained are paid for.
* Domains come from the schema; numbers are binned by it. The paper's encodings of large domains as bits, and
  its generalised parents, are not used: `levels` coarsens a domain for all purposes.
* If a noisy table has nothing on a combination of parents, the child's own distribution is used instead.
* Where no attribute can have a useful parent, nothing is selected, and the tables get the whole budget.
* Families are counted up to a limit of their number, so the degree by theta stays below it in wide tables.

``PrivBayesR`` is the form of TODS 2017, with a theta-useful degree and simplex projection. Its score R, half
the L1 distance between a family's joint distribution and the product of its margins, replaces mutual
information: its range is 1 and its sensitivity 3/n + 2/n^2, a much better ratio.

What differs from that paper, in addition to adjacency, noise, domains and shared tables as above:

* R is computed as sum |n c(x, p) - c(x) c(p)| = 2 n^2 R, a whole number: selection needs no float at all, and
  the sensitivity is exactly 6 n.
* Noisy counts become probabilities by projection onto the simplex, which loses less than clipping.
* One tenth of epsilon goes to the structure. The paper takes .3; tuned on NLTCS and Adult.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import split
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.bayes.network_synthesizer import (
    NetworkSynthesizer,
    independent_network,
    noisy_network,
)
from privacy_engine.synthesizers.bayes.scores import (
    Score,
    dependence,
    dependence_sensitivity,
    greedy_bayes,
    integer_mutual_information,
    integer_sensitivity,
    two_valued,
)
from privacy_engine.synthesizers.bayes.structure import FamilyLimit, measured_families
from privacy_engine.synthesizers.postprocess import PostProcess
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords


@dataclass(frozen=True, kw_only=True)
class PrivBayes(NetworkSynthesizer):
    """Choose a Bayesian network by mutual information, and measure its tables with noise: the baseline.

    GreedyBayes by mutual information with e1 = `structure_share` * epsilon, Laplace noise on the tables
    with the rest; counts are clipped and normalised.
    """

    key: ClassVar[str] = "privbayes"

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Choose d - 1 parent sets, then measure the tables of the families that no other one contains."""
        binary = two_valued(coded.sizes)
        return learn_greedily(
            self,
            coded,
            score=integer_mutual_information,
            sensitivity=lambda limit: integer_sensitivity(
                len(coded), limit.cells, binary=binary, each=coded.each
            ),
            rule=PostProcess.CLIP,
        )


def learn_greedily(
    method: NetworkSynthesizer,
    coded: CodedTable,
    *,
    score: Score,
    sensitivity: Callable[[FamilyLimit], int],
    rule: PostProcess,
) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
    """Choose d - 1 parent sets, then measure the tables of the families that no other one contains.

    Args:
        method: Method, for its epsilon, structure share and limits.
        coded: Records; `each` of them replaced make the neighbour.
        score: Function from records and candidates to whole numbers.
        sensitivity: Most by which a score within the limit changes.
        rule: Rule by which noisy counts become probabilities.
    """
    on_structure, on_tables = split(method.epsilon, (method.structure_share, 1 - method.structure_share))
    limit = method.family_limit(coded, on_tables, shared=True)
    records = WeightedRecords.of(coded)
    if not limit.allows_parents(coded.sizes):
        return independent_network(coded, records, epsilon=method.epsilon, rule=rule)
    families, selection = greedy_bayes(
        coded.names, records, limit, score, sensitivity=sensitivity(limit), epsilon=on_structure
    )
    measured = measured_families(families)
    network, tables = noisy_network(coded, records, families, measured=measured, epsilon=on_tables, rule=rule)
    return network, (selection, *tables)


@dataclass(frozen=True, kw_only=True)
class PrivBayesR(NetworkSynthesizer):
    """Choose a Bayesian network by the score R, which noise harms less than mutual information.

    GreedyBayes by R with e1 = `structure_share` * epsilon, Laplace noise on the tables with the rest, which
    are projected onto the simplex.
    """

    structure_share: float = 0.1
    key: ClassVar[str] = "privbayes_r"

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Choose d - 1 parent sets, then measure the tables of the families that no other one contains."""
        return learn_greedily(
            self,
            coded,
            score=dependence,
            sensitivity=lambda _: coded.each * dependence_sensitivity(len(coded)),
            rule=PostProcess.SIMPLEX,
        )
