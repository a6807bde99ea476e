"""PrivBayes: a Bayesian network chosen by mutual information, with noisy tables. The baseline.

Zhang, Cormode, Procopiuc, Srivastava, Xiao: PrivBayes: Private Data Release via Bayesian Networks, SIGMOD
2014 (GreedyBayes, NoisyConditionals, theta-usefulness), and TODS 2017 for attributes of more than two values.

Deviations, each for a reason:

* Adjacency is one record replaced, the number of records public: the relation of the paper's sensitivities.
* Selection is OpenDP's noisy max (permute-and-flip, never worse than the exponential mechanism) on mutual
  information in whole units of 2^-40 bits, its sensitivity raised by the rounding error: no float is trusted.
* Noise is discrete Laplace on counts, of scale 2 (number of tables) / e2: floating-point Laplace leaks.
* A family that is part of another one is not measured again. In a network of degree k over attributes of two
  values that is the paper's rule (d - k tables; the first k + 1 attributes share one); for other shapes it is
  checked, family by family, and what is not contained is paid for.
* Domains come from the schema; numbers are binned by it. The paper's encodings of large domains as bits, and
  its generalised parents, are not used: `levels` coarsens a domain for all purposes.
* Where a noisy table knows nothing of a combination of parents, the child's own distribution stands in.
* Where no attribute can have a useful parent, nothing is selected, and the tables get the whole budget.
* Families are counted up to a limit of their number, so the degree by theta stays below it in wide tables.
"""

from dataclasses import dataclass
from typing import ClassVar

from privacy_engine.dp.accounting import Spend
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.domains import CodedTable
from privacy_engine.synthesizers.greedy_network import learn_greedily
from privacy_engine.synthesizers.network_synthesizer import NetworkSynthesizer
from privacy_engine.synthesizers.postprocess import PostProcess
from privacy_engine.synthesizers.scores import integer_mutual_information, integer_sensitivity, two_valued


@dataclass(frozen=True, kw_only=True)
class PrivBayes(NetworkSynthesizer):
    """GreedyBayes by mutual information with e1, Laplace noise on the tables with e2, clip and normalise.

    e1 = ``structure_share`` * epsilon, e2 = the rest.
    """

    key: ClassVar[str] = "privbayes"

    def learn(self, coded: CodedTable) -> tuple[BayesianNetwork, tuple[Spend, ...]]:
        """Choose d - 1 parent sets, then measure the tables of the families that no other one contains."""
        binary = two_valued(coded.sizes)
        return learn_greedily(
            self,
            coded,
            score=integer_mutual_information,
            sensitivity=lambda limit: integer_sensitivity(len(coded), limit.cells, binary=binary),
            rule=PostProcess.CLIP,
        )
