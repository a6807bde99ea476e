"""Re-identification risk: values worked out by hand, brute force, and bounds between the attackers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.measures import risk
from privacy_engine.tables.classes import EquivalenceClasses

# classes of 1, 2 and 5 records; sensitive values: x | x x | x x y y z
TABLE = pd.DataFrame(
    {"qi": list("abbccccc"), "disease": list("xxxxxyyz"), "wage": [1, 2, 3, 4, 4, 4, 4, 4]}, index=[9] * 8
)


@pytest.fixture
def classes() -> EquivalenceClasses:
    return EquivalenceClasses.of_columns(TABLE, ["qi"], ["disease", "wage"])


def test_prosecutor_risk_of_a_hand_worked_table(classes: EquivalenceClasses) -> None:
    assert risk.prosecutor_max(classes) == 1
    assert risk.prosecutor_mean(classes) == pytest.approx(3 / 8)
    assert risk.share_at_risk(classes, 0.2) == pytest.approx(3 / 8)  # a class of five is at 0.2, not above
    assert risk.share_at_risk(classes, 0.5) == pytest.approx(1 / 8)
    assert risk.share_at_risk(classes, 0.0) == 1


def test_journalist_risk_of_a_hand_worked_population(classes: EquivalenceClasses) -> None:
    population = np.array([4, 2, 50])
    assert risk.journalist_max(classes, population) == 1 / 2
    assert risk.journalist_mean(classes, population) == pytest.approx((1 / 4 + 2 / 2 + 5 / 50) / 8)
    assert risk.marketer(classes, population) == pytest.approx((1 / 4 + 2 / 2 + 5 / 50) / 8)


def test_journalist_risk_without_a_population_is_the_prosecutors(classes: EquivalenceClasses) -> None:
    assert risk.journalist_max(classes) == risk.prosecutor_max(classes)
    assert risk.journalist_mean(classes) == risk.prosecutor_mean(classes)


def test_marketer_risk_without_a_population_is_classes_over_records(classes: EquivalenceClasses) -> None:
    assert risk.marketer(classes) == 3 / 8


@pytest.mark.parametrize("population", [[0, 2, 5], [1, 2, 4], [1, 2], [[1, 2, 5]]])
def test_a_population_smaller_than_its_sample_is_refused(
    classes: EquivalenceClasses, population: list[int]
) -> None:
    with pytest.raises(ValueError, match="population must give for each of the 3 classes"):
        risk.journalist_max(classes, np.array(population))


def test_hasr_counts_classes_with_one_sensitive_value(classes: EquivalenceClasses) -> None:
    assert risk.hasr(classes, "disease") == pytest.approx(2 / 3)
    assert risk.hasr(classes, "wage") == pytest.approx(2 / 3)  # {1} and {4}, not {2, 3}


def test_hasr_without_an_attribute_is_the_worst_attributes() -> None:
    table = TABLE.assign(wage=range(8))
    found = EquivalenceClasses.of_columns(table, ["qi"], ["disease", "wage"])
    assert risk.hasr(found, "wage") == pytest.approx(1 / 3)
    assert risk.hasr(found) == pytest.approx(2 / 3)


def test_hasr_refuses_an_unknown_attribute(classes: EquivalenceClasses) -> None:
    with pytest.raises(SchemaError):
        risk.hasr(classes, "qi")


def test_a_null_is_one_more_sensitive_value() -> None:
    table = pd.DataFrame({"qi": ["a", "a"], "disease": ["x", None]})
    assert risk.hasr(EquivalenceClasses.of_columns(table, ["qi"], ["disease"])) == 0


def test_r_man_is_changed_over_records() -> None:
    assert risk.r_man(3, 12) == 0.25


@pytest.mark.parametrize(("changed", "records"), [(-1, 5), (6, 5), (0, 0)])
def test_r_man_refuses_impossible_counts(changed: int, records: int) -> None:
    with pytest.raises(ValueError, match="changed must be in"):
        risk.r_man(changed, records)


@pytest.mark.parametrize("threshold", [-0.1, 1.1])
def test_a_threshold_is_a_probability(classes: EquivalenceClasses, threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must be in"):
        risk.share_at_risk(classes, threshold)


def test_an_empty_table_exposes_no_one() -> None:
    empty = EquivalenceClasses(labels=np.zeros(0, dtype=np.int64))
    assert set(risk.figures(empty).values()) == {0.0}


def test_figures_name_hasr_only_where_there_is_a_sensitive_attribute(classes: EquivalenceClasses) -> None:
    assert risk.figures(classes)["hasr"] == pytest.approx(2 / 3)
    assert "hasr" not in risk.figures(EquivalenceClasses.of_columns(TABLE, ["qi"]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 50))
def test_risks_agree_with_brute_force_over_records(keys: list[int], more: int) -> None:
    found = EquivalenceClasses.of_columns(pd.DataFrame({"qi": keys}), ["qi"])
    each = [1 / keys.count(key) for key in keys]
    numbers = risk.figures(found)
    assert numbers["prosecutor_max"] == max(each)
    assert numbers["prosecutor_mean"] == pytest.approx(sum(each) / len(each))
    assert numbers["share_at_risk"] == pytest.approx(sum(r > risk.THRESHOLD for r in each) / len(each))
    assert numbers["smallest_class"] == min(keys.count(key) for key in keys)
    # a larger population never raises a risk
    assert risk.journalist_max(found, found.sizes + more) <= numbers["prosecutor_max"]
    assert risk.marketer(found, found.sizes + more) <= numbers["marketer"]
