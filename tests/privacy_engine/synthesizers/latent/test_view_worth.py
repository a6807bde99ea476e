"""Views or single attributes: which of them gets the budget, and what is measured to decide it."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.auditing import loss_shown
from benchmarks.peers import dp_forms
from privacy_engine.dp.accounting import Spend, total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.synthesizers.latent.budget_plan import BudgetPlan, Inputs
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.view_plan import GroupedAttributes, ViewPlan
from privacy_engine.synthesizers.latent.view_worth import (
    paying_dependence,
    related_dependence,
    share_of_a_pair,
    worthwhile,
)
from privacy_engine.tables.domains import CodedTable

DELTA = 1e-9


def table_of(form: str, d: int = 12, n: int = 3_000, seed: int = 1) -> CodedTable:
    """The records of a form, from a seed below those that are reported."""
    return dp_forms.FORMS[form](np.random.default_rng([44, seed, d, n]), n, d).coded()


def planned(coded: CodedTable, **given: Any) -> tuple[Inputs, BudgetPlan, BudgetPlan]:
    """Inputs of a run, its plan with views, and the one that follows from the look."""
    method = LatentClass(rules=0, **given)
    inputs = Inputs.of(coded, method.noise())
    whole = inputs.noise.whole
    plan = method.plan_of(inputs, range(len(coded.sizes)), whole)
    return inputs, plan, worthwhile(inputs, plan, whole, plan_of=method.plan_of, views_of=method.views_of)


def measured(coded: CodedTable, **given: Any) -> tuple[Sequence[Spend], list[list[str]]]:
    """What is spent before a model is learned, and the attributes of each noisy table in order."""
    spends = LatentClass(rules=0, **given).measured(coded).inputs.noise.spends
    return spends, [spend.target.split(", ") for spend in spends if spend.mechanism != "noisy_max"]


# --- where the budget goes


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_single_attributes_get_it_all_if_no_dependence_is_seen(delta: float) -> None:
    """The figure is 16.8 scales of Laplace noise below what pays for views: a false alarm below 1e-7."""
    coded = table_of("independent", n=10_000)
    spends, targets = measured(coded, epsilon=20.0, delta=delta)
    assert targets == [list(coded.names), *([name] for name in coded.names)]
    assert total(spends, Neighbours.REPLACE_ONE, DELTA).epsilon == pytest.approx(20.0, rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_views_follow_with_all_their_budget_if_dependences_are_seen(delta: float) -> None:
    """The figure is above by 50 scales of Laplace noise, or by 40 deviations of Gaussian noise."""
    inputs, plan, found = planned(table_of("blocks of five"), epsilon=10.0, delta=delta)
    (spend,) = inputs.noise.spends
    look = spend.rho if delta else spend.epsilon
    assert look == pytest.approx(0.03 * inputs.noise.whole)
    assert found.joint
    assert (found.wide, found.most_rounds) == (plan.wide, plan.most_rounds)
    assert found.for_choices + found.for_views + look == pytest.approx(inputs.noise.whole)


@pytest.mark.parametrize("epsilon", [9.0, 12.0])
def test_the_part_of_the_look_changes_no_view(epsilon: float) -> None:
    """At these two, views that are planned with 3 % less are more or fewer."""
    method = LatentClass(rules=0, epsilon=epsilon)
    inputs, plan, found = planned(table_of("blocks of five"), epsilon=epsilon)
    before, after = (
        method.views_of(
            replace(inputs, rng=np.random.default_rng(1)), GroupedAttributes.of(inputs, own, measured={})
        )
        for own in (plan, found)
    )
    assert (after.rounds, after.candidates) == (before.rounds, before.candidates)
    assert after.for_view < before.for_view


@pytest.mark.parametrize(("form", "n"), [("one factor", 3_000), ("independent", 1_000)])
def test_nothing_is_spent_on_a_look_that_noise_would_decide(form: str, n: int) -> None:
    inputs, plan, found = planned(table_of(form, n=n), epsilon=1.0)
    assert plan.joint
    assert found == plan
    assert not inputs.noise.spends


@pytest.mark.quick(
    "given0"
)  # single attributes cost no less than themselves, whether or not they are looked at
@pytest.mark.parametrize("given", [{"rounds": 2}, {"width": 1}])
def test_there_is_no_look_at_views_that_were_requested_or_hold_no_pair(given: dict[str, int]) -> None:
    coded = table_of("independent")
    _, targets = measured(coded, epsilon=10.0, **given)
    assert list(coded.names) not in targets


# --- what views cost


def test_a_pair_is_in_its_share_of_the_marginals() -> None:
    for d in range(3, 9):
        triples = list(itertools.combinations(range(d), 3))
        with_pair = [triple for triple in triples if {0, 1} <= set(triple)]
        assert share_of_a_pair(d) == pytest.approx(len(with_pair) / len(triples))
    assert share_of_a_pair(2) == 1


def test_what_views_cost_depends_on_no_record_and_changes_no_view() -> None:
    coded = table_of("independent")
    method, found = LatentClass(epsilon=1.0, delta=DELTA), []
    for records in (coded, coded.take(np.zeros(len(coded), dtype=np.int64))):
        inputs = Inputs.of(records, method.noise())
        before = inputs.rng.bit_generator.state
        plan = method.plan_of(inputs, range(12), inputs.noise.whole)
        found.append(paying_dependence(inputs, plan, inputs.noise.whole, method.views_of))
        assert inputs.rng.bit_generator.state == before
        assert not inputs.noise.spends
    assert found[0] == found[1] > 0


def with_views(inputs: Inputs, free: Sequence[int], whole: float) -> BudgetPlan:
    """A plan for views of attributes that are not measured by themselves."""
    return replace(BudgetPlan.alone(inputs, free, whole), joint=True, wide=(), for_attributes=())


def one_view(part: float, members: tuple[int, ...]) -> Callable[[Inputs, GroupedAttributes], ViewPlan]:
    """A function that plans one view, without a choice."""
    return lambda _, attributes: ViewPlan(
        attributes=attributes, rounds=1, first=(members,), candidates=(members,), for_view=part
    )


def test_the_cost_is_that_of_the_noise_of_sums_over_views() -> None:
    """Three attributes of two, three and four values: in 20,000 draws of Gaussian noise."""
    coded = dp_forms.Form([2, 3, 4], [np.zeros(500, dtype=np.int64)] * 3).coded()
    inputs = Inputs.of(coded, LatentClass(delta=DELTA).noise())
    whole, rng = inputs.noise.whole, np.random.default_rng(6)
    plan = with_views(inputs, range(3), whole)
    alone = BudgetPlan.alone(inputs, range(3), whole)

    def distance(deviations: list[float]) -> float:
        """Mean distance of attributes by noise with a deviation for the values of each."""
        noise = [rng.normal(0, s / inputs.n, (20_000, k)) for s, k in zip(deviations, (2, 3, 4), strict=True)]
        return float(np.mean([np.abs(own).sum(axis=1).mean() / 2 for own in noise]))

    of_view = inputs.noise.deviation(whole / 2, inputs.change)
    cost = 3**0.5 * (
        distance([of_view * (24 / size) ** 0.5 for size in (2, 3, 4)])
        - distance([inputs.noise.deviation(part, inputs.change) for part in alone.for_attributes])
    )
    # All three pairs are in the only 3-way marginal.
    paying = paying_dependence(inputs, plan, whole, one_view(whole / 2, (0, 1, 2)))
    assert paying == pytest.approx(1.5 * cost * 2 / 3, rel=0.02)


# --- what is measured to decide


def figure_of(codes: npt.NDArray[np.int64], sizes: list[int]) -> int:
    coded = dp_forms.Form(sizes, list(codes)).coded()
    return related_dependence(Inputs.of(coded, LatentClass().noise()), range(len(sizes)))


def test_one_replaced_record_changes_the_figure_by_at_most_six() -> None:
    """Against all neighbours of random tables of few records."""
    rng = np.random.default_rng(2)
    sizes, changes = [3, 3, 2], []
    for _ in range(2):
        codes = np.array([rng.integers(0, size, 4) for size in sizes])
        before = figure_of(codes, sizes)
        for row, new in itertools.product(range(4), itertools.product(*map(range, sizes))):
            other = codes.copy()
            other[:, row] = new
            changes.append(abs(figure_of(other, sizes) - before))
    assert 2 <= max(changes) <= 6


@pytest.mark.parametrize(("delta", "sensitivity"), [(0.0, 6 * 3), (DELTA, (6 * 3) ** 2)])
def test_the_figure_is_booked_with_its_change(delta: float, sensitivity: int) -> None:
    coded = replace(table_of("blocks of five"), each=3)
    inputs, _, _ = planned(coded, epsilon=30.0, delta=delta)
    (spend,) = inputs.noise.spends
    assert spend.sensitivity == sensitivity
    assert spend.target == ", ".join(coded.names)


@pytest.mark.slow  # thousands of looks
def test_whether_views_follow_shows_no_more_than_its_part_and_noise_for_one_row_is_caught() -> None:
    """Eight persons with eight rows, of whom one is replaced: T is 52, or 36. Views pay from 42 on.

    Views follow in a share of .12 or .05 of the runs; under the noise for one row in .981 or .0042. The
    control fails where they follow about 35 times or more among 2,000 runs: less than once in 1e10 tests.
    """
    epsilon, members = 100.0, (0, 1)

    def views(values: list[tuple[int, int]], runs: int, *, each: int) -> npt.NDArray[np.bool_]:
        codes, share = np.repeat(np.array(values), 8, axis=0).T, 0.03 if each > 1 else 0.00393
        coded = replace(dp_forms.Form([2, 2], list(codes)).coded(), each=each)
        found, one_of = [], Inputs.of(coded, LatentClass(epsilon=epsilon).noise())
        for _ in range(runs):
            inputs = replace(one_of, noise=LatentClass(epsilon=epsilon).noise())
            plan = with_views(inputs, members, epsilon)
            views_of = one_view(share * epsilon, members)
            found.append(worthwhile(inputs, plan, epsilon, plan_of=with_views, views_of=views_of).joint)
        (spend,) = inputs.noise.spends
        assert spend.epsilon == pytest.approx(0.03 * epsilon)
        return np.array(found)

    others = [(0, 0)] * 4 + [(1, 1)] * 3
    one, neighbour = [*others, (1, 1)], [*others, (0, 1)]
    assert loss_shown(views(one, 300, each=8), views(neighbour, 1_500, each=8)) <= 0.03 * epsilon
    assert loss_shown(views(one, 300, each=1), views(neighbour, 2_000, each=1)) > 0.03 * epsilon
