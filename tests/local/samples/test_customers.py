"""The simulated customers: the same people in every delivery, some of them with other habits."""

import numpy as np

from deploy.local.samples.customers import HABITS, branch_visits, delivery


def test_every_delivery_has_the_same_customers_and_a_twentieth_with_other_habits() -> None:
    first, again, second = (delivery(2_000, text) for text in ("week 1", "week 1", "week 2"))
    assert first.equals(again)
    differing = (first[list(HABITS)] != second[list(HABITS)]).any(axis=1)
    assert 0 < differing.sum() <= 200
    same = first.columns.difference(HABITS)
    assert first[same].equals(second[same])
    assert set(delivery(50, seed=1)["customer"]).isdisjoint(first["customer"])


def test_a_week_of_visits_has_several_of_some_people_and_others_than_the_week_before() -> None:
    first, again, second = (branch_visits(5_000, text) for text in ("week 1", "week 1", "week 2"))
    assert first.equals(again)
    people = [set(week["customer"]) for week in (first, second)]
    assert len(first) > len(people[0])
    assert people[1] - people[0]
    known = delivery(5_000).set_index("customer")
    same = ["age", "occupation", "value"]
    assert first[same].equals(known.loc[first["customer"], same].reset_index(drop=True))


def test_most_visitors_of_a_year_come_rarely_and_a_few_bring_most_of_the_visits() -> None:
    """It is for such people that no one takes part more than four times."""
    weeks = [branch_visits(2_000, f"week {number}")["customer"].unique() for number in range(52)]
    came = np.sort(np.unique(np.concatenate(weeks), return_counts=True)[1])
    assert 0.7 < (came <= 4).mean() < 0.8  # fixed seeds
    assert came[-len(came) // 4 :].sum() > came.sum() / 2
