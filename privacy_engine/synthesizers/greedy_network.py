"""What PrivBayes does with any score: a structure by GreedyBayes, then the tables of its families."""

from collections.abc import Callable

from privacy_engine.dp.accounting import Spend
from privacy_engine.dp.mechanisms import split
from privacy_engine.synthesizers.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.domains import CodedTable
from privacy_engine.synthesizers.marginals import WeightedRecords
from privacy_engine.synthesizers.network_synthesizer import NetworkSynthesizer
from privacy_engine.synthesizers.noisy_tables import independent_network, noisy_network
from privacy_engine.synthesizers.postprocess import PostProcess
from privacy_engine.synthesizers.selection import Score, greedy_bayes
from privacy_engine.synthesizers.structure import FamilyLimit, measured_families


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
        method: its epsilon, structure share and limits.
        coded: the records; one of them replaced is the neighbour.
        score: of records and candidates, whole numbers.
        sensitivity: most by which a score within the limit changes.
        rule: how noisy counts become probabilities.
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
