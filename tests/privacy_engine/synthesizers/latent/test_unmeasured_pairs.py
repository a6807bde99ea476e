"""Tables of unmeasured pairs: what a tree implies, and where it is not used."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.unmeasured_pairs import MOST_VALUES, Tree, implied_views

Floats = npt.NDArray[np.float64]
SCALE = 1e-5


def copying(size: int, part: float) -> Floats:
    """(size, size) values given those of a neighbour: the same with a probability, else any."""
    return part * np.eye(size) + (1 - part) / size


def view(cells: Floats, members: tuple[int, ...], **others: object) -> View:
    return View(members=members, cells=cells, scale=SCALE, projected=cells, **others)  # type: ignore[arg-type]


def chain(size: int = 3, part: float = 0.8) -> Floats:
    """(size, size, size) each of three attributes copies the one before it."""
    given = copying(size, part)
    first = np.arange(1.0, size + 1) / np.arange(1, size + 1).sum()
    return np.einsum("a,ab,bc->abc", first, given, given)


def test_attributes_at_the_ends_of_a_chain_depend_on_each_other_through_its_middle() -> None:
    joint = chain()
    views = [view(joint.sum(axis=2), (0, 1)), view(joint.sum(axis=0), (1, 2))]
    (implied,) = implied_views(views, (3, 3, 3), (0, 0, 0))
    assert implied.members == (0, 2)
    np.testing.assert_allclose(implied.cells, joint.sum(axis=1), atol=1e-6)
    assert implied.scale == 3 * SCALE  # less certain than what was measured


def test_attributes_that_no_tree_connects_are_independent() -> None:
    joint = chain()
    pair, single = joint.sum(axis=2), np.array([0.3, 0.7])
    found = implied_views([view(pair, (0, 1)), view(single, (2,))], (3, 3, 2), (0, 0, 0))
    assert [own.members for own in found] == [(0, 2), (1, 2)]
    np.testing.assert_allclose(found[0].cells, np.multiply.outer(pair.sum(axis=1), single), atol=1e-6)


def test_a_pair_within_its_noise_is_no_edge() -> None:
    """Noise that would pass for a dependence is taken for none, so nothing follows from it."""
    rng = np.random.default_rng(3)
    shares = np.full(4, 0.25)
    noisy = np.multiply.outer(shares, shares) + rng.normal(0, 0.002, (4, 4))
    views = [
        View(members=(0, 1), cells=noisy, scale=0.002 / 2**0.5 * 1.5, projected=noisy),
        *(view(shares, (a,)) for a in (0, 1)),
    ]
    assert Tree.of(views, (4, 4)).neighbours == ({}, {})


def test_a_hidden_cause_of_all_dependence_makes_the_tree_unused() -> None:
    """Three attributes that depend on a hidden group: the tree of two pairs is far from the third."""
    given = np.array([[0.9, 0.1], [0.2, 0.8]])
    joint = np.einsum("k,ka,kb,kc,kd->abcd", [0.5, 0.5], given, given, given, given)
    pairs = [(0, 1), (1, 2), (0, 2)]
    views = [view(joint.sum(axis=tuple({0, 1, 2, 3} - set(p))), p) for p in pairs]
    views.append(view(joint.sum(axis=(0, 1, 2)), (3,)))
    assert implied_views(views, (2,) * 4, (0,) * 4) == ()
    assert [own.members for own in implied_views(views, (2,) * 4, (0,) * 4, only_if_close=False)] == [
        (0, 3),
        (1, 3),
        (2, 3),
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_chain", [False, True])
def test_a_tree_is_used_only_where_its_pairs_are_far_above_their_noise(is_chain: bool, seed: int) -> None:
    """Ten attributes, by a hidden group or in a chain: any tree of very noisy pairs is within their noise."""
    rng, d, copies = np.random.default_rng(seed), 10, np.array([[0.5, 0.0], [0.0, 0.5]])

    def implied_with(noise: float) -> tuple[View, ...]:
        """From tables of the pairs of all attributes but the last."""
        found = [view(np.array([0.5, 0.5]), (d - 1,))]
        for a, b in itertools.combinations(range(d - 1), 2):
            correlation = 0.8 ** abs(a - b) if is_chain else 0.6
            cells = 0.25 + (copies - 0.25) * correlation + rng.normal(0, noise, (2, 2))
            found.append(View(members=(a, b), cells=cells, scale=noise / 2**0.5, projected=cells))
        return implied_views(found, (2,) * d, (0,) * d)

    assert implied_with(noise=0.1) == ()
    assert len(implied_with(noise=0.02)) == (d - 1 if is_chain else 0)


def test_pairs_of_a_view_of_several_attributes_and_of_groups_are_measured() -> None:
    joint = chain(4)
    groups = np.array([0, 0, 1, 1])
    coarse = np.add.reduceat(joint.sum(axis=0), [0, 2], axis=0)
    views = [
        view(joint.sum(axis=2), (0, 1)),
        view(coarse, (1, 2), groups=(groups, None)),
        *(view(joint.sum(axis=axes), (a,)) for a, axes in enumerate([(1, 2), (0, 2), (0, 1)])),
    ]
    tree = Tree.of(views, (4, 4, 4))
    assert set(tree.pairs) == {(0, 1), (1, 2)}
    spread = tree.pairs[1, 2].cells
    np.testing.assert_allclose(np.add.reduceat(spread, [0, 2], axis=0), coarse, atol=1e-12)
    assert set(Tree.of([view(joint, (2, 0, 1))], (4, 4, 4)).pairs) == {(0, 1), (0, 2), (1, 2)}


def test_a_pair_in_two_views_is_their_mean_by_precision() -> None:
    pair = chain().sum(axis=2)
    rough = View(members=(1, 0), cells=pair.T + 0.05, scale=3 * SCALE, projected=pair.T)
    (found,) = Tree.of([view(pair, (0, 1)), rough], (3, 3)).pairs.values()
    np.testing.assert_allclose(found.cells, pair + 0.05 / 10)
    assert found.noise == pytest.approx(2 * SCALE**2 * 9 * 0.9)


def test_implied_tables_of_many_values_are_over_groups() -> None:
    size = MOST_VALUES + 8
    joint = chain(size)
    views = [view(joint.sum(axis=2), (0, 1)), view(joint.sum(axis=0), (1, 2))]
    (implied,) = implied_views(views, (size,) * 3, (size, size, 0))
    assert implied.cells.shape == tuple(int(g.max()) + 1 for g in implied.groups if g is not None)
    assert max(implied.cells.shape) <= MOST_VALUES
    assert implied.cells.sum() == pytest.approx(1)


def test_without_a_joint_table_nothing_is_implied() -> None:
    assert implied_views([view(np.array([0.5, 0.5]), (0,))], (2, 2), (0, 0)) == ()


def test_what_a_tree_implies_has_the_shares_of_its_attributes() -> None:
    rng = np.random.default_rng(5)
    joint = rng.dirichlet(np.ones(16)).reshape(2, 2, 2, 2)
    views = [view(joint.sum(axis=(2, 3)), (0, 1)), view(joint.sum(axis=(0, 1)), (2, 3))]
    for pair, table in Tree.of(views, (2,) * 4).implied().items():
        for axis, attribute in enumerate(pair):
            own = joint.sum(axis=tuple({0, 1, 2, 3} - {attribute}))
            np.testing.assert_allclose(table.sum(axis=1 - axis), own, atol=1e-6)
