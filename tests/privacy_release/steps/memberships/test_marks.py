"""Marks of the values of persons: read with the salt of the person, and with nothing else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privacy_engine.errors import IntegrityError
from privacy_engine.verification.cross_release import Membership
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_release.steps.memberships.marks import marks_of, salts_of, values_of
from privacy_release.workarea.people import Identification

PEOPLE = Identification(column="id", key="a secret of the tests, long enough for it")
LABELS, CODES = np.array([0, 0, 0, 1, 1]), np.array([1, 0, 1, 2, 1])
NAMES = np.array(["a", "b", "c", "d", "e"], dtype=object)
SALTS = np.array(salts_of(NAMES.tolist(), PEOPLE.secret), dtype=object)
COUNTS = {"disease": ClassValues.of_records(LABELS, CODES, ("flu", "hiv", "gout"))}
MEMBERS = Membership(persons=NAMES, labels=LABELS, counts=COUNTS, values={"disease": CODES})


def read(marks: Any, salts: Any = SALTS, release: str = "first") -> list[int]:
    return values_of({"disease": marks}, COUNTS, LABELS, salts, release)["disease"].tolist()


def test_marks_give_the_values_of_persons_whose_salt_is_known() -> None:
    marks = marks_of(MEMBERS, SALTS, "first")["disease"]
    assert read(marks) == CODES.tolist()
    assert read(marks, [None, SALTS[1], None, SALTS[3], None]) == [-1, 0, -1, 2, -1]


def test_equal_values_have_other_marks_for_each_person_and_release() -> None:
    first, second = (marks_of(MEMBERS, SALTS, release)["disease"].tolist() for release in ("first", "second"))
    assert len({*first, *second}) == 10


def test_equal_values_of_two_attributes_have_other_marks() -> None:
    both = {"counts": {**COUNTS, "cause": COUNTS["disease"]}, "values": {"disease": CODES, "cause": CODES}}
    marks = marks_of(replace(MEMBERS, **both), SALTS, "first")
    assert not set(marks["disease"]) & set(marks["cause"])
    with pytest.raises(IntegrityError, match="persons must match values of their classes"):
        values_of({"disease": marks["cause"]}, COUNTS, LABELS, SALTS, "first")


@pytest.mark.parametrize(
    ("salts", "release", "labels"),
    [
        pytest.param(np.roll(SALTS, 1), "first", LABELS, id="another person"),
        pytest.param(SALTS, "second", LABELS, id="another release"),
        pytest.param(SALTS, "first", 1 - LABELS, id="a class without the value"),
    ],
)
def test_a_mark_of_other_circumstances_is_refused(salts: Any, release: str, labels: Any) -> None:
    marks = marks_of(MEMBERS, SALTS, "first")
    with pytest.raises(IntegrityError, match="persons must match values of their classes"):
        values_of(marks, COUNTS, labels, salts, release)


def test_a_salt_takes_the_key_and_is_no_hash_of_a_person() -> None:
    other = Identification(column="id", key=PEOPLE.key[::-1])
    salts = [*salts_of(["a", "b"], PEOPLE.secret), *salts_of(["a"], other.secret)]
    assert len({*salts, PEOPLE.salt("a"), other.salt("a"), PEOPLE.person("a")}) == 6
