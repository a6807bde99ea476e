"""Bayesian networks: the joint distribution against enumeration, sampling, JSON, refusals."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node, spread_points


@st.composite
def networks(draw: st.DrawFn, grouped: bool = True) -> BayesianNetwork:
    """Networks of up to five attributes with zeros in their tables, some parents seen through groups."""
    d = draw(st.integers(1, 5))
    sizes = tuple(draw(st.integers(1, 4)) for _ in range(d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = draw(st.permutations(range(d)))
    nodes = []
    for place, a in enumerate(order):
        parents = [p for p in order[:place] if draw(st.booleans())]
        groups = [
            tuple(int(g) for g in np.arange(sizes[p]) // 2) if grouped and draw(st.booleans()) else None
            for p in parents
        ]
        shape = [max(g) + 1 if g else sizes[p] for p, g in zip(parents, groups, strict=True)]
        table = rng.random((*shape, sizes[a])) * (rng.random((*shape, sizes[a])) < 0.7)
        table[..., 0] += 1e-3
        table /= table.sum(axis=-1, keepdims=True)
        nodes.append(
            Node(
                attribute=f"a{a}",
                parents=tuple(f"a{p}" for p in parents),
                table=table,
                groups=tuple(groups),
            )
        )
    return BayesianNetwork(names=tuple(f"a{i}" for i in range(d)), sizes=sizes, nodes=tuple(nodes))


def joint_by_enumeration(network: BayesianNetwork) -> np.ndarray:
    """Equation (3), cell by cell, in the order of the network's names."""
    joint = np.zeros(network.sizes)
    for cell in itertools.product(*map(range, network.sizes)):
        value = dict(zip(network.names, cell, strict=True))
        joint[cell] = math.prod(
            float(
                node.table[
                    tuple(
                        g[value[p]] if g else value[p] for p, g in zip(node.parents, node.groups, strict=True)
                    )
                ][value[node.attribute]]
            )
            for node in network.nodes
        )
    return joint


@given(networks(), st.data())
def test_a_marginal_is_the_joint_distribution_summed(network: BayesianNetwork, data: st.DataObject) -> None:
    names = data.draw(st.permutations(network.names))
    names = names[: data.draw(st.integers(0, len(names)))]
    axes = [network.names.index(name) for name in names]
    rest = tuple(a for a in range(len(network.names)) if a not in axes)
    kept = sorted(axes)
    expected = joint_by_enumeration(network).sum(axis=rest).transpose([kept.index(a) for a in axes])
    np.testing.assert_allclose(network.marginal(names), expected, atol=1e-12)


@given(networks())
def test_a_network_survives_json_bit_for_bit(network: BayesianNetwork) -> None:
    again = BayesianNetwork.from_dict(json.loads(json.dumps(network.to_dict())))
    assert again == network
    assert all(np.array_equal(a.table, b.table) for a, b in zip(again.nodes, network.nodes, strict=True))


@settings(max_examples=settings.default.max_examples // 2)
@given(networks(), st.integers(0, 2**32 - 1))
def test_records_follow_the_joint_distribution(network: BayesianNetwork, seed: int) -> None:
    """L1 distance of N draws over K cells: P(>= t) <= 2^K exp(-N t^2 / 2) (Weissman et al., 2003).

    The bound is of independent draws; these are spread more evenly.
    With t^2 = 2 (ln(1e12) + K ln 2) / N each example fails by chance once in 1e12.
    """
    n = 100_000
    exact = joint_by_enumeration(network)
    codes = network.sample(n, np.random.default_rng(seed))
    flat = np.ravel_multi_index([row.astype(np.int64) for row in codes], network.sizes)
    found = np.bincount(flat, minlength=exact.size) / n
    bound = math.sqrt(2 * (math.log(1e12) + exact.size * math.log(2)) / n)
    assert np.abs(found - exact.ravel()).sum() < bound
    assert not found[exact.ravel() == 0].any()  # what cannot occur does not


def test_equal_seeds_give_equal_records() -> None:
    network = chain(4)
    one, other = (network.sample(100, np.random.default_rng(3)) for _ in range(2))
    assert (one == other).all()
    assert (one != network.sample(100, np.random.default_rng(4))).any()


def test_no_records_can_be_asked_for() -> None:
    assert chain(3).sample(0, np.random.default_rng(0)).shape == (3, 0)


def test_values_beyond_255_are_drawn() -> None:
    table = np.zeros(400)
    table[399] = 1.0
    network = BayesianNetwork(names=("a",), sizes=(400,), nodes=(Node(attribute="a", table=table),))
    assert network.sample(3, np.random.default_rng(0)).tolist() == [[399, 399, 399]]


def chain(d: int) -> BayesianNetwork:
    step = np.array([[0.75, 0.25], [0.25, 0.75]])
    first = Node(attribute="a0", table=np.array([0.5, 0.5]))
    rest = [Node(attribute=f"a{i}", parents=(f"a{i - 1}",), table=step) for i in range(1, d)]
    return BayesianNetwork(names=tuple(f"a{i}" for i in range(d)), sizes=(2,) * d, nodes=(first, *rest))


def test_a_long_chain_is_marginalised_without_its_joint_table() -> None:
    """Equal ends after k steps: (1 + 0.5^k) / 2; the joint table of 200 attributes would have 2^200 cells."""
    ends = chain(200).marginal(["a0", "a10"])
    assert ends[0, 0] + ends[1, 1] == pytest.approx((1 + 0.5**10) / 2)
    assert chain(200).marginal(["a199"]).tolist() == pytest.approx([0.5, 0.5])


def test_a_marginal_of_too_many_cells_is_refused_with_the_remedy() -> None:
    names = [f"a{i}" for i in range(30)]
    with pytest.raises(ValueError, match=r"must not need more than .* cells, .*fewer attributes"):
        chain(30).marginal(names)


def test_edges_lead_from_parent_to_child() -> None:
    assert chain(3).edges == (("a0", "a1"), ("a1", "a2"))


FAIR = np.array([0.5, 0.5])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"attribute": "a", "parents": ("b",), "table": FAIR}, "an axis for each"),
        ({"attribute": "a", "table": np.array([0.5, 0.6])}, "sum to 1"),
        ({"attribute": "a", "table": np.array([1.5, -0.5])}, ">= 0"),
    ],
)
def test_a_node_that_is_no_distribution_is_refused(parts: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Node(**parts)


@pytest.mark.parametrize(
    ("names", "sizes", "nodes", "message"),
    [
        (("a", "b"), (2, 2), (Node(attribute="a", table=FAIR),), "one node for each"),
        (("a", "a"), (2, 2), (), "distinct"),
        (("a",), (3,), (Node(attribute="a", table=FAIR),), "must have the sizes"),
        (
            ("a", "b"),
            (2, 2),
            (
                Node(attribute="b", parents=("a",), table=np.array([FAIR, FAIR])),
                Node(attribute="a", table=FAIR),
            ),
            "must come before it",
        ),
        (
            ("a", "b"),
            (3, 2),
            (
                Node(attribute="a", table=np.array([0.2, 0.3, 0.5])),
                Node(attribute="b", parents=("a",), table=np.array([FAIR, FAIR]), groups=((0, 1),)),
            ),
            "an entry for each value",
        ),
    ],
)
def test_a_network_that_does_not_fit_together_is_refused(
    names: tuple[str, ...], sizes: tuple[int, ...], nodes: tuple[Node, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        BayesianNetwork(names=names, sizes=sizes, nodes=nodes)


@pytest.mark.parametrize("n", [1, 7, 4096, 100_000])
def test_points_are_spread_in_the_unit_cube_and_differ_by_seed(n: int) -> None:
    points = spread_points(3, n, np.random.default_rng(1))
    assert points.shape == (3, n)
    assert ((points >= 0) & (points < 1)).all()
    assert (points != spread_points(3, n, np.random.default_rng(2))).any()


def test_counts_of_a_sample_are_nearer_to_the_network_than_independent_draws() -> None:
    """Of pairs in 5,000 records: independent draws are off by sqrt(p (1 - p) / n) a cell."""
    network, n = chain(4), 5_000
    expected = network.marginal(network.names[:2])
    off = []
    for seed in range(20):
        codes = network.sample(n, np.random.default_rng(seed))
        counts = np.zeros(expected.shape)
        np.add.at(counts, (codes[0], codes[1]), 1 / n)
        off.append(counts - expected)
    of_independent_draws = np.sqrt(expected * (1 - expected) / n)
    assert (np.std(off, axis=0) < of_independent_draws / 4).all()
    assert (np.abs(np.mean(off, axis=0)) < of_independent_draws / 4).all()  # unbiased


def test_records_next_to_each_other_have_nothing_to_do_with_each_other() -> None:
    """The points of the sequence itself alternate; in random order they do not."""
    first = chain(2).sample(20_000, np.random.default_rng(5))[0].astype(float)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.04  # six standard deviations
