"""Records as points: one space whatever the order and type of what comes in."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, SchemaError
from privacy_engine.outliers.mixed_space import MixedSpace
from tests.privacy_engine.outliers.tables import SCHEMA, people


def space_of(table: pd.DataFrame, **fields: object) -> MixedSpace:
    schema = DataSchema.from_dict({name: {"role": "quasi_identifier", **f} for name, f in fields.items()})
    return MixedSpace.of_table(table, schema, None, 1.0)


def test_equal_records_are_one_point_with_a_count() -> None:
    table = people(200, 1, grid=2)
    space = MixedSpace.of_table(table, SCHEMA, None, 1.0)
    names = [a.name for a in SCHEMA.quasi_identifiers]
    assert len(space) == len(table[names].drop_duplicates()) < 200
    sizes = table.groupby(names)["illness"].transform("size").to_numpy()
    np.testing.assert_array_equal(space.counts[space.point_of], sizes)


def test_numbers_are_scaled_by_the_bounds_of_the_schema_else_by_the_values() -> None:
    table = pd.DataFrame({"x": [10.0, 20.0, 15.0]})
    values = space_of(table, x={"kind": "numeric"})
    bounds = space_of(table, x={"kind": "numeric", "bounds": [0, 40]})
    assert values.numbers[values.point_of, 0].tolist() == [0.0, 1.0, 0.5]
    assert bounds.numbers[bounds.point_of, 0].tolist() == [0.25, 0.5, 0.375]


def test_ordinal_categories_are_scaled_by_their_place() -> None:
    space = space_of(
        pd.DataFrame({"x": ["c", "a", "b"]}), x={"kind": "ordinal", "categories": ["a", "c", "b"]}
    )
    assert space.numbers[space.point_of, 0].tolist() == [0.5, 0.0, 1.0]


def test_the_points_do_not_depend_on_the_order_of_the_rows_nor_on_the_index() -> None:
    table = people(60, 2, grid=3)
    shuffled = np.random.default_rng(1).permutation(60)
    one = MixedSpace.of_table(table, SCHEMA, None, 1.0)
    two = MixedSpace.of_table(table.take(shuffled).set_index(np.zeros(60, dtype=int)), SCHEMA, None, 1.0)
    np.testing.assert_array_equal(one.numbers, two.numbers)
    np.testing.assert_array_equal(one.categories, two.categories)
    np.testing.assert_array_equal(one.point_of[shuffled], two.point_of)


def test_a_null_is_a_category_but_no_number() -> None:
    schema = DataSchema.from_dict({"x": {}, "y": {"kind": "numeric"}})
    table = pd.DataFrame({"x": ["a", None, "b", None], "y": [1.0, 2.0, np.nan, 4.0]})
    space = MixedSpace.of_table(table, schema, ("x",), 1.0)
    assert len(space) == 3
    assert space.point_of[1] == space.point_of[3]
    with pytest.raises(SchemaError, match="y: 1 value is null or infinite"):
        MixedSpace.of_table(table, schema, ("x", "y"), 1.0)


def test_a_null_that_is_a_value_stands_amid_the_numbers_and_apart_from_each() -> None:
    fields = {"kind": "numeric", "bounds": [0, 10], "nullable": True}
    schema = DataSchema.from_dict({"y": {"role": "quasi_identifier", **fields}})
    table = pd.DataFrame({"y": [0.0, 5.0, np.nan, 10.0, np.nan]})
    space = MixedSpace.of_table(table, schema, None, 2.0)
    points = np.column_stack([space.numbers, space.categories])[space.point_of]
    assert points.tolist() == [[0, 0], [0.5, 0], [0.5, 1], [1, 0], [0.5, 1]]


def test_a_column_of_nulls_alone_has_one_point() -> None:
    schema = DataSchema.from_dict({"y": {"role": "quasi_identifier", "kind": "numeric", "nullable": True}})
    table = pd.DataFrame({"y": [np.nan] * 4})
    assert len(MixedSpace.of_table(table, schema, None, 1.0)) == 1


@pytest.mark.parametrize(
    ("attributes", "message"),
    [(("height", "shoe"), "no attribute 'shoe'"), (("name",), "identifiers .'name'.")],
)
def test_unknown_attributes_and_identifiers_are_refused(attributes: tuple[str, ...], message: str) -> None:
    schema = DataSchema.from_dict({**SCHEMA.to_dict(), "name": {"role": "identifier"}})
    table = people(5, 1).assign(name=list("abcde"))
    with pytest.raises(SchemaError, match=message):
        MixedSpace.of_table(table, schema, attributes, 1.0)


def test_a_schema_without_quasi_identifiers_asks_for_attributes() -> None:
    with pytest.raises(SchemaError, match="name the attributes"):
        MixedSpace.of_table(people(5, 1), SCHEMA.select(["illness"]), None, 1.0)


def test_a_missing_column_is_named_and_no_value_is() -> None:
    with pytest.raises(SchemaError, match=r"columns \['city'\] are missing"):
        MixedSpace.of_table(people(5, 1).drop(columns="city"), SCHEMA, None, 1.0)
