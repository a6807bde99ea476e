"""Marginals in few groups: public groups alone, every record in one of them, nulls by themselves."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.measures.grouped_marginals import MOST_GROUPS, GroupedMarginal, grouped_marginals
from privacy_engine.measures.synthetic_utility import coded
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind
from tests.synthetic_tables import SCHEMA, people


def grouped(table: pd.DataFrame, *attributes: Attribute) -> list[GroupedMarginal]:
    schema = DataSchema(attributes)
    return grouped_marginals([coded(table, schema)], schema)


def test_every_record_is_in_one_group_of_each_attribute() -> None:
    rng = np.random.default_rng(1)
    known = SCHEMA.without_identifiers()
    tables = [coded(people(rows, rng)[list(known.names)], known) for rows in (90, 40)]
    for marginal in grouped_marginals(tables, known):
        assert len(marginal.shares) == 2
        for shares in marginal.shares:
            assert len(shares) == len(marginal.groups)
            assert sum(shares) == pytest.approx(1)


def test_whole_numbers_are_grouped_without_a_gap_and_nulls_stand_by_themselves() -> None:
    table = pd.DataFrame({"age": [0.0, 9.0, 10.0, 39.0, None]})
    (found,) = grouped(table, Attribute(name="age", kind=Kind.ORDINAL, bounds=(0, 39), bins=4, nullable=True))
    assert found.groups == ("0 to 9", "10 to 19", "20 to 29", "30 to 39", "null")
    assert found.shares == ((0.4, 0.2, 0.0, 0.2, 0.2),)


def test_many_ordered_bins_are_joined_with_their_neighbours() -> None:
    table = pd.DataFrame({"x": [0, 1, 2, 39]})
    (found,) = grouped(table, Attribute(name="x", kind=Kind.NUMERIC, bounds=(0, 39), bins=40))
    assert len(found.groups) <= MOST_GROUPS
    assert found.groups[:2] == ("0 to 2", "3 to 5")
    assert found.shares[0][0] == 0.75


def test_of_many_unordered_values_the_rarest_share_a_group() -> None:
    texts = tuple(f"v{i:02}" for i in range(30))
    table = pd.DataFrame({"town": ["v29"] * 5 + ["v07"] * 3 + list(texts)})
    (found,) = grouped(table, Attribute(name="town", categories=texts))
    assert found.groups[:2] == ("v29", "v07")
    assert found.groups[-1] == "15 others"
    assert found.shares[0][-1] == pytest.approx(15 / 38)
