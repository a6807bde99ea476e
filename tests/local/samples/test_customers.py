"""The simulated customers: the same people in every delivery, some of them with other habits."""

from deploy.local.samples.customers import HABITS, delivery


def test_every_delivery_has_the_same_customers_and_a_twentieth_with_other_habits() -> None:
    first, again, second = (delivery(2_000, text) for text in ("week 1", "week 1", "week 2"))
    assert first.equals(again)
    differing = (first[list(HABITS)] != second[list(HABITS)]).any(axis=1)
    assert 0 < differing.sum() <= 200
    same = first.columns.difference(HABITS)
    assert first[same].equals(second[same])
    assert set(delivery(50, seed=1)["customer"]).isdisjoint(first["customer"])
