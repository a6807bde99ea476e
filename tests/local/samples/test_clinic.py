"""The weekly deliveries of the clinic."""

from datetime import date, timedelta
from itertools import pairwise

from deploy.local.samples.clinic import COUNTIES, DIAGNOSES, patients_of_week

MONDAY = date(2026, 1, 5)


def test_most_patients_come_again_and_each_is_one_person() -> None:
    weeks = [patients_of_week(f"{MONDAY + timedelta(weeks=week)}T00:00:00") for week in range(4)]
    again = patients_of_week(f"{MONDAY}T00:00:00")
    assert again.equals(weeks[0])
    for one, other in pairwise(weeks):
        both = one.merge(other, on="patient")
        assert other["patient"].is_unique
        assert 0.94 < len(both) / len(one) < 0.995
        assert (both["county_x"] != both["county_y"]).any()
        assert (both["age_x"] == both["age_y"]).all()
    assert set(weeks[0]["county"]) == set(COUNTIES)
    assert set(weeks[0]["diagnosis"]) == set(DIAGNOSES)


def test_some_patients_return_after_a_break_and_some_are_corrected() -> None:
    first, second, third = (
        patients_of_week(f"{MONDAY + timedelta(weeks=week)}T00:00:00") for week in (0, 2, 6)
    )
    assert set(first["patient"]) & set(third["patient"]) - set(second["patient"])
    both = first.merge(third, on="patient")
    assert (both["diagnosis_x"] != both["diagnosis_y"]).any()
