"""Wide tables: sensitivities by brute force, the parts of the budget, and parts that are fitted apart."""

import itertools
import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.dp.accounting import check_bookkeeping, total
from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.latent_classes import View
from privacy_engine.synthesizers.latent.parts import connected, small_parts
from privacy_engine.synthesizers.latent.related_pairs import (
    MOST_VIEWED,
    WIDE,
    Figures,
    PairPlan,
    dependence_figures,
    other_pairs,
)
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.replicated import ReplicatedModel
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords

ATTRIBUTES = WIDE + 4
SCHEMA = DataSchema.from_dict({f"a{i:02}": {"categories": ["0", "1"]} for i in range(ATTRIBUTES)})
DELTA = 1e-9


def wide(n: int, *, block: int, seed: int = 1) -> pd.DataFrame:
    """Binary attributes, each of which equals its block's value in 90 % of the records."""
    rng = np.random.default_rng(seed)
    columns = {}
    for i, name in enumerate(SCHEMA.names):
        if i % block == 0:
            value = rng.integers(0, 2, n)
        columns[name] = (value ^ (rng.random(n) < 0.1)).astype(str)
    return pd.DataFrame(columns).replace({"True": "1", "False": "0"})


@cache
def coded_of(n: int) -> CodedTable:
    """A table of n records, for reading only."""
    return CodedTable.encode(wide(n, block=1), SCHEMA)


def inputs_of(n: int, delta: float = 0.0, **given: Any) -> Inputs:
    """The inputs of a run on n records."""
    return Inputs.of(coded_of(n), LatentClass(delta=delta, **given).noise())


# --- sensitivities


def test_one_replaced_record_changes_the_figures_by_at_most_six() -> None:
    """Against all neighbours of random tables of few records, three attributes and three values."""
    rng = np.random.default_rng(2)
    sizes, changes = np.array([3, 3, 2]), []
    for _ in range(5):
        codes = np.array([rng.integers(0, size, 5) for size in sizes])
        before = _figures(codes, sizes)
        for row, new in itertools.product(range(5), itertools.product(*map(range, sizes))):
            other = codes.copy()
            other[:, row] = new
            changes.append(np.abs(np.subtract(before, _figures(other, sizes))).max())
    assert 2 <= max(changes) <= 6


def _figures(codes: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> tuple[int, int]:
    records = WeightedRecords(
        codes=codes.astype(np.uint8), weights=np.ones(codes.shape[1], dtype=np.int64), sizes=sizes
    )
    return dependence_figures(records, range(len(sizes)))


def test_the_figures_are_measured_with_the_change_of_both() -> None:
    for delta, sensitivity in ((0.0, 2 * 6 * 3), (DELTA, 2 * (6 * 3) ** 2)):
        inputs = inputs_of(300, delta)
        inputs = replace(inputs, coded=replace(inputs.coded, each=3))
        Figures.of(inputs, range(ATTRIBUTES), inputs.noise.whole / 100)
        (spend,) = inputs.noise.spends
        assert spend.sensitivity == sensitivity
        assert spend.target == ", ".join(SCHEMA.names)


# --- the parts of the budget


@pytest.mark.quick(
    *("-1.0-1.0-0.0", "-1.0-7.0-1e-09", "5000.0-0.3-0.0", "5000.0-7.0-1e-09", "15000.0-0.3-1e-09"),
    "15000.0-1.0-0.0",
)
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("figure", [-1.0, 5_000.0, 15_000.0])
def test_the_parts_never_exceed_the_whole(delta: float, epsilon: float, figure: float) -> None:
    inputs = inputs_of(20_000, delta, epsilon=epsilon)
    whole = inputs.noise.whole
    plan = PairPlan.of(inputs, [2] * ATTRIBUTES, whole, figure)
    spent = plan.for_attributes + plan.pairs * plan.for_choice + (plan.pairs + plan.checks) * plan.for_view
    assert spent <= whole * (1 + 1e-12)
    assert spent == pytest.approx(whole)
    if figure < 0:
        assert (plan.pairs, plan.for_attributes) == (0, whole)


def test_more_is_spent_on_pairs_where_they_depend_more_and_none_where_noise_hides_them() -> None:
    inputs = inputs_of(20_000, DELTA)
    parts = [
        1
        - PairPlan.of(inputs, [2] * ATTRIBUTES, inputs.noise.whole, figure).for_attributes
        / inputs.noise.whole
        for figure in (100.0, 8_000.0, 16_000.0)
    ]
    assert parts[0] == 0
    assert 0 < parts[1] <= parts[2]


def test_the_plan_of_pairs_reads_no_record() -> None:
    inputs = inputs_of(3_000, DELTA)
    other = replace(inputs, coded=inputs.coded.take(np.zeros(3_000, dtype=np.int64)))
    plans = [PairPlan.of(i, [2] * ATTRIBUTES, inputs.noise.whole, 1_000.0) for i in (inputs, other)]
    assert plans[0] == plans[1]


def test_views_are_measured_only_where_most_pairs_depend_on_each_other() -> None:
    figures = Figures(strongest=900.0, median=80.0)
    assert figures.are_everywhere(MOST_VIEWED, 1_000)
    assert not figures.are_everywhere(MOST_VIEWED + 1, 1_000)
    assert not figures.are_everywhere(MOST_VIEWED, 10_000)


@pytest.mark.quick("independent-1e-09", "blocks-0.0", "one thing-1e-09")
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("block", [1, 4, ATTRIBUTES], ids=["independent", "blocks", "one thing"])
def test_the_books_of_a_wide_table_fill_the_claim(delta: float, block: int) -> None:
    method = LatentClass(delta=delta, classes=2, fits=1, rules=0, replicates=0, rounds=4)
    model = method.measure(wide(1_500, block=block), SCHEMA)
    findings = check_bookkeeping(model.loss, model.spends, SCHEMA, method.privacy_loss(SCHEMA))
    assert all(finding.passed for finding in findings), findings
    assert total(model.spends, model.loss.neighbours, delta).epsilon == pytest.approx(1.0, rel=1e-6)
    assert {n for spend in model.spends[1:] for n in spend.target.split(", ")} == set(SCHEMA.names)


# --- parts


def pair_of(members: tuple[int, int], agreeing: float) -> View:
    cells = np.array([[agreeing, 1 - agreeing], [1 - agreeing, agreeing]]) / 2
    return View(members=members, cells=cells, scale=0.001, projected=cells)


def test_a_tree_is_cut_where_the_dependence_is_least() -> None:
    views = [pair_of((i, i + 1), 0.6 if i == 3 else 0.9) for i in range(6)]
    assert connected(views, 8) == [(0, 1, 2, 3, 4, 5, 6)]
    assert small_parts(views, 8, most=4) == [(0, 1, 2, 3), (4, 5, 6)]


def test_other_pairs_are_those_that_views_connect_if_there_are_enough() -> None:
    views, rng = [pair_of((0, 1), 0.9), pair_of((1, 2), 0.9)], np.random.default_rng(1)
    assert other_pairs(views, 6, 1, rng) == [(0, 2)]
    others = other_pairs(views, 6, 5, rng)
    assert len(set(others)) == 5
    assert not {(0, 1), (1, 2)} & set(others)


# --- what is released, with noise from a seed


def quiet(noise: NoiseBudget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a fixed seed in the place of OpenDP's, so that a quality is the same each time."""
    rng = np.random.default_rng(5)
    kind = type(noise)

    def noisy(self: Any, counts: Any, part: float, change: Any) -> Any:
        drawn = self.imitated(rng, self.deviation(part, change), counts.shape)
        return counts + np.rint(drawn).astype(np.int64)

    def chosen(self: Any, scores: Any, part: float, by: int) -> int:
        return int(np.argmax(scores + rng.gumbel(scale=self.scale_of_choice(part, by=by), size=len(scores))))

    monkeypatch.setattr(kind, "_noisy", noisy)
    monkeypatch.setattr(kind, "_chosen", chosen)


@pytest.fixture(scope="module")
def blocks() -> SynthesizerModel:
    """A release of blocks of four attributes, for reading only."""
    method = LatentClass(delta=DELTA, classes=4, fits=4, rules=0, replicates=2)
    with pytest.MonkeyPatch.context() as monkeypatch:
        quiet(method.noise(), monkeypatch)
        return method.measure(wide(6_000, block=4), SCHEMA)


def test_blocks_of_related_attributes_are_found_and_fitted_apart(blocks: SynthesizerModel) -> None:
    structure, network = blocks.structure(), blocks.network
    hidden = [name for name in structure if name.startswith("latent class")]
    assert len(hidden) == ATTRIBUTES // 4
    for start in range(0, ATTRIBUTES, 4):
        names = SCHEMA.names[start : start + 4]
        assert len({tuple(structure[name]) for name in names}) == 1
        agree = network.marginal(names[:2]).trace()
        assert agree == pytest.approx(0.82, abs=0.06)
    apart = network.marginal([SCHEMA.names[0], SCHEMA.names[4]])
    assert np.allclose(apart, np.multiply.outer(apart.sum(axis=1), apart.sum(axis=0)))


def test_replicates_of_parts_answer_as_the_network_does(blocks: SynthesizerModel) -> None:
    stored = SynthesizerModel.from_json(blocks.to_json())
    assert stored == blocks
    assert stored.replicates is not None
    assert len(json.loads(blocks.to_json())["replicates"]["parts"]) == ATTRIBUTES // 4 - 1
    ours, *theirs = stored.replicates.models(stored.network)
    asked = ReplicatedModel(
        model=ours,
        replicates=theirs,
        misfit=stored.replicates.misfit,
        unseen=stored.replicates.unseen,
        together=stored.replicates.together,
    )
    names = [SCHEMA.names[i] for i in (0, 1, 4)]  # two of one part and one of another
    every = np.array(list(np.ndindex(2, 2, 2))).T
    question = {name: np.eye(2)[:, values] for name, values in zip(names, every, strict=True)}
    found = asked.shares(question, level=0.95)
    assert found.value == pytest.approx(stored.network.marginal(names).ravel())
    assert (found.low < found.value).all()
    assert (found.value < found.high).all()


def test_independent_attributes_of_a_wide_table_get_nearly_all_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method = LatentClass(rules=0, replicates=0)
    quiet(method.noise(), monkeypatch)
    first, *others = method.measure(wide(3_000, block=1), SCHEMA).spends
    assert first.epsilon == pytest.approx(0.0075)
    assert [spend.target for spend in others] == list(SCHEMA.names)
