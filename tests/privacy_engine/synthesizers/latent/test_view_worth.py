"""Views and single attributes: each gets the budget where it is worth more."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.peers import dp_forms
from privacy_engine.dp.accounting import total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.synthesizers.latent import latent_class
from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.latent_classes import LatentClasses, View
from privacy_engine.synthesizers.latent.noisy_tables import measure_again, measure_attributes
from privacy_engine.synthesizers.latent.related_pairs import strongest_dependence
from privacy_engine.synthesizers.latent.view_worth import (
    Prospect,
    error_of_attributes,
    gain_of_view,
    share_of_a_pair,
)
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.tables.domains import CodedTable

Floats = npt.NDArray[np.float64]
DELTA = 1e-9


def table_of(form: str, d: int = 12, n: int = 3_000, seed: int = 1) -> CodedTable:
    """The records of a form, from a seed below those that are reported."""
    return dp_forms.FORMS[form](np.random.default_rng([44, seed, d, n]), n, d).coded()


def inputs_of(coded: CodedTable, delta: float) -> Inputs:
    return Inputs.of(coded, LatentClass(delta=delta).noise())


def released(coded: CodedTable, **given: Any) -> tuple[SynthesizerModel, list[list[str]]]:
    """A model of few fits, and the attributes of each noisy table in order."""
    method = LatentClass(**{"classes": 2, "fits": 1, "rules": 0, "replicates": 0, **given})
    model = method.measure_coded(coded)
    return model, [spend.target.split(", ") for spend in model.spends if spend.mechanism != "noisy_max"]


# --- where the budget goes


def test_single_attributes_get_it_all_if_the_only_view_would_cost_more_than_a_pair_is_worth() -> None:
    """From this seed, views were further from the records than independent columns of the same budget."""
    coded = table_of("skewed")
    model, targets = released(coded, epsilon=1.0, delta=DELTA)
    assert targets == [list(coded.names), *([name] for name in coded.names)]
    assert total(model.spends, Neighbours.REPLACE_ONE, DELTA).epsilon == pytest.approx(1.0, rel=1e-6)


def unrelated(n: int = 10_000) -> CodedTable:
    """Five independent attributes of seven values."""
    rng, sizes = np.random.default_rng(7), [7] * 5
    return dp_forms.Form(sizes, dp_forms.of_groups(rng, n, sizes, 1, 8.0)).coded()


def test_single_attributes_get_what_is_left_once_a_view_shows_no_dependence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latent_class, "NEGLIGIBLE", 1.0)  # T would show the same of so small a table
    coded = unrelated()
    model, targets = released(coded, epsilon=1.3, delta=DELTA)
    # Two views of what was not measured, and the first that was chosen. It is worth .006 to .009, by chance
    # and noise (six runs), and the last one of four would cost .017.
    assert [len(target) > 1 for target in targets] == [True] * 3 + [False] * 5
    assert targets[3:] == [[name] for name in coded.names]
    assert total(model.spends, Neighbours.REPLACE_ONE, DELTA).epsilon == pytest.approx(1.3, rel=1e-6)


def test_views_get_it_all_while_they_show_dependences() -> None:
    _, targets = released(table_of("blocks of five", d=8), epsilon=8.0, delta=DELTA)
    assert all(len(target) > 1 for target in targets)


def test_as_many_views_are_measured_as_were_requested() -> None:
    _, targets = released(unrelated(), epsilon=1.3, delta=DELTA, rounds=4)
    assert [len(target) > 1 for target in targets] == [True] * 4


# --- what it is worth


def test_a_pair_is_in_its_share_of_the_marginals() -> None:
    for d in range(3, 9):
        triples = list(itertools.combinations(range(d), 3))
        with_pair = [triple for triple in triples if {0, 1} <= set(triple)]
        assert share_of_a_pair(d) == pytest.approx(len(with_pair) / len(triples))
    assert share_of_a_pair(2) == 1


COPIES = np.array([[0.4, 0.1], [0.1, 0.4]])  # .3 from independence, as a distance


def independent_model(*shares: list[float]) -> LatentClasses:
    return LatentClasses(weights=np.ones(1), tables=tuple(np.array([own]) for own in shares))


def view_of(cells: Floats, scale: float = 1e-9) -> View:
    return View(members=tuple(range(cells.ndim)), cells=cells, scale=scale, projected=cells)


def test_a_view_is_worth_the_distance_of_its_pairs_and_of_as_many_that_these_imply() -> None:
    even = independent_model([0.5, 0.5], [0.5, 0.5], [0.2, 0.8])
    assert gain_of_view(view_of(COPIES), even) == pytest.approx(2 * 0.3)
    three = np.multiply.outer(COPIES, [0.2, 0.8])
    assert gain_of_view(view_of(three), even) == pytest.approx(2 * 0.3)
    # With the margins of single attributes wrong, as they may be by noise, only the dependence counts.
    off = COPIES + 0.05 * np.array([[1, 1], [-1, -1]])
    assert gain_of_view(view_of(off), even) == pytest.approx(2 * 0.3, abs=0.1)


def test_a_dependence_that_the_model_has_or_made_up_is_worth_nothing() -> None:
    copied = LatentClasses(
        weights=np.full(2, 0.5),
        tables=(np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.875, 0.125], [0.125, 0.875]])),
    )
    known = copied.marginal((0, 1))
    assert gain_of_view(view_of(known), copied) == pytest.approx(0, abs=1e-6)
    assert gain_of_view(view_of(np.full((2, 2), 0.25)), copied) == pytest.approx(0, abs=1e-6)


def test_noise_alone_is_worth_nothing_on_average() -> None:
    rng = np.random.default_rng(5)
    shares = ([0.7, 0.2, 0.1], [0.5, 0.3, 0.1, 0.1], [0.9, 0.1])
    model, deviation = independent_model(*shares), 0.01
    exact = model.marginal((0, 1, 2))
    gains = [
        gain_of_view(view_of(exact + rng.normal(0, deviation, exact.shape), deviation / 2**0.5), model)
        for _ in range(400)
    ]
    # Of noise with its margins, gains would be larger: .06.
    assert abs(np.mean(gains)) < 4 * np.std(gains) / 20 + 1e-3


def test_the_error_of_attributes_is_that_of_their_noise() -> None:
    inputs = inputs_of(table_of("independent", d=3), DELTA)
    sizes, whole = [4, 4, 4], inputs.noise.whole / 2
    deviation = inputs.noise.deviation(whole / 3, inputs.change) / inputs.n
    noise = np.random.default_rng(6).normal(0, deviation, (10_000, 4))
    distance = np.abs(noise).sum(axis=1).mean() / 2
    error = error_of_attributes(inputs, (), sizes, whole)
    assert error == pytest.approx(3**0.5 * distance, rel=0.02)
    cells = np.full(4, 0.25)
    measured = [View(members=(a,), cells=cells, scale=deviation / 2**0.5, projected=cells) for a in range(3)]
    assert error_of_attributes(inputs, measured, sizes, 0.0) == pytest.approx(error)
    assert error_of_attributes(inputs, measured, sizes, whole) == pytest.approx(error / 2**0.5)


# --- what is measured for it


def test_what_views_cost_depends_on_no_record() -> None:
    coded = table_of("skewed")
    found = []
    for records in (coded, coded.take(np.zeros(len(coded), dtype=np.int64))):
        method = LatentClass(epsilon=1.0, delta=DELTA)
        inputs = Inputs.of(records, method.noise())
        before = inputs.rng.bit_generator.state
        plan = method.plan_of(inputs, range(12), inputs.noise.whole)
        found.append(Prospect.of(inputs, plan, inputs.noise.whole, method.views_of))
        assert inputs.rng.bit_generator.state == before  # so that later steps are the same without it
        assert not inputs.noise.spends
    assert found[0] == found[1]


@pytest.mark.parametrize(("delta", "sensitivity"), [(0.0, 6 * 3), (DELTA, (6 * 3) ** 2)])
def test_the_strongest_dependence_is_measured_with_its_change(delta: float, sensitivity: int) -> None:
    inputs = inputs_of(table_of("independent", d=4), delta)
    inputs = replace(inputs, coded=replace(inputs.coded, each=3))
    whole = inputs.noise.whole
    _, left = strongest_dependence(inputs, range(4), whole)
    (spend,) = inputs.noise.spends
    assert spend.sensitivity == sensitivity
    assert spend.target == ", ".join(inputs.coded.names)
    part = spend.rho if delta else spend.epsilon
    assert part + left == pytest.approx(whole)
    assert part <= 0.03 * whole * (1 + 1e-12)


def test_a_second_count_is_combined_with_the_first_by_precision() -> None:
    coded = table_of("skewed", d=4)
    inputs = inputs_of(coded, DELTA)
    whole = inputs.noise.whole
    plan = BudgetPlan.alone(inputs, range(4), whole / 4)
    first = measure_attributes(inputs, plan)
    again, views = measure_again(inputs, first, first.views)
    assert inputs.noise.left == pytest.approx(0, abs=whole * 1e-9)
    assert views == again.views
    for before, after, spend in zip(first.views, again.views, inputs.noise.spends[4:], strict=True):
        assert after.scale == pytest.approx(before.scale / 2)  # of a quarter of the budget, and of all of it
        assert spend.rho == pytest.approx(
            3 * inputs.noise.spends[0].rho * spend.rho / inputs.noise.spends[4].rho
        )
        assert after.cells.sum() == pytest.approx(1)
    assert [g.group_of.tolist() for g in first.groups] == [g.group_of.tolist() for g in again.groups]
