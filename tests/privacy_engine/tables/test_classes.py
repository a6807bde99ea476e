"""Equivalence classes: a partition in which a null is a value, and the sensitive values of each part."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SchemaError
from privacy_engine.tables.classes import CountedClasses, EquivalenceClasses, SensitiveValues, class_labels
from privacy_engine.tables.columns import NULL
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema

TREE = Hierarchy((("flu", "lung", "*"), ("cold", "lung", "*"), ("gout", "joint", "*")))
Row = tuple[str | None, float | None, str | None]
records = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from([0.0, 1.0, None]),
        st.sampled_from(["flu", "cold", None]),
    ),
    min_size=1,
    max_size=8,
)


def frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["zip", "age", "disease"])
    return table.astype({"zip": object, "age": float, "disease": object})


def of(rows: list[Row]) -> EquivalenceClasses:
    return EquivalenceClasses.of_columns(frame(rows), ["zip", "age"], ["disease"])


@given(records)
def test_classes_partition_the_records_by_equal_values_where_a_null_is_a_value(rows: list[Row]) -> None:
    classes = of(rows)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert (classes.labels[i] == classes.labels[j]) == (a[:2] == b[:2])
    assert sorted(classes.sizes) == sorted(Counter(row[:2] for row in rows).values())
    assert len(classes) == len({row[:2] for row in rows})


@given(records, st.randoms(use_true_random=False))
def test_neither_order_nor_index_of_the_records_matters(rows: list[Row], shuffle: object) -> None:
    places = list(range(len(rows)))
    shuffle.shuffle(places)
    again = EquivalenceClasses.of_columns(
        frame(rows).iloc[places].set_axis([3] * len(rows)), ["zip", "age"], ["disease"]
    )
    assert sorted(again.sizes) == sorted(of(rows).sizes)
    for i, place in enumerate(places):
        for j, other in enumerate(places):
            assert (again.labels[i] == again.labels[j]) == (rows[place][:2] == rows[other][:2])


@given(records)
def test_counts_are_those_of_the_sensitive_values_in_each_class(rows: list[Row]) -> None:
    classes = of(rows)
    counts = classes.counts("disease")
    codes = classes.sensitive["disease"].codes
    expected = Counter(zip(classes.labels.tolist(), codes.tolist(), strict=True))
    found = zip(counts.classes.tolist(), counts.values.tolist(), strict=True)
    assert dict(zip(found, counts.counts.tolist(), strict=True)) == expected
    assert len(set(codes.tolist())) == len({row[2] for row in rows})
    assert counts.prior == pytest.approx(np.bincount(codes, minlength=len(counts.prior)) / len(rows))


@given(records)
def test_entries_of_a_class_stand_together_and_their_shares_sum_to_one(rows: list[Row]) -> None:
    counts = of(rows).counts("disease")
    assert (np.diff(counts.classes) >= 0).all()
    assert counts.classes[counts.starts].tolist() == list(range(len(counts.sizes)))
    assert np.add.reduceat(counts.shares, counts.starts) == pytest.approx(np.ones(len(counts.sizes)))


@given(records, st.data())
def test_dense_shares_of_some_classes_are_rows_of_those_of_all(rows: list[Row], data: st.DataObject) -> None:
    counts = of(rows).counts("disease")
    c = len(counts.sizes)
    first = data.draw(st.integers(0, c - 1))
    last = data.draw(st.integers(first + 1, c))
    whole = counts.dense(0, c)
    assert np.array_equal(counts.dense(first, last), whole[first:last])
    assert whole.sum(axis=1) == pytest.approx(np.ones(c))


def test_counts_are_the_same_by_sorting_where_there_are_many_values() -> None:
    # 3,000 classes of one record each and 3,000 values: nine million cells are not counted one by one
    n = 3000
    table = pd.DataFrame({"q": range(n), "s": range(n)})
    counts = EquivalenceClasses.of_columns(table, ["q"], ["s"]).counts("s")
    assert counts.counts.tolist() == [1] * n
    assert counts.starts.tolist() == list(range(n))


def test_a_value_of_one_persons_many_records_is_as_frequent_as_its_persons() -> None:
    of_rows = SensitiveValues.of(pd.Series(["flu", "cold"]), np.array([1, 3]), None)
    assert replace(of_rows, weights=np.ones(2)).prior.tolist() == [0.5, 0.5]


def test_without_quasi_identifiers_all_records_are_one_class() -> None:
    assert class_labels([], 3).tolist() == [0, 0, 0]


def test_an_empty_table_has_no_class() -> None:
    classes = of([])
    assert (len(classes), classes.sizes.tolist(), classes.counts("disease").counts.tolist()) == (0, [], [])


def test_values_of_many_wide_columns_do_not_run_together() -> None:
    # 20 columns of 50 values: 50^20 combinations overflow any integer unless renumbered each time
    rng = np.random.default_rng(2)
    table = pd.DataFrame({f"q{j}": rng.integers(0, 50, 400) for j in range(20)})
    table = pd.concat([table, table])
    assert EquivalenceClasses.of_columns(table, list(table.columns)).sizes.tolist() == [2] * 400


def test_an_attribute_that_is_not_sensitive_has_no_counts() -> None:
    with pytest.raises(
        SchemaError, match=r"'zip' is not a sensitive attribute of the table, which has \['disease'\]"
    ):
        of([("a", 1.0, "flu")]).counts("zip")


@pytest.mark.parametrize(
    ("fields", "values", "codes"),
    [
        ({"hierarchy": "tree"}, ["gout", "flu"], [2, 0]),
        ({"hierarchy": "tree", "nullable": True}, ["gout", None], [2, 3]),  # a null is one more leaf
        ({"kind": "ordinal", "categories": ["mild", "bad"]}, ["bad", "mild"], [1, 0]),
        ({"kind": "numeric"}, [10, 9], [1, 0]),
        ({}, ["b", "a"], [1, 0]),
        ({"nullable": True}, [None, "a"], [1, 0]),
        ({"kind": "numeric", "nullable": True}, [np.nan, 10.0], [1, 0]),
    ],
    ids=["tree", "tree and null", "ordinal", "numeric", "categorical", "null", "numeric and null"],
)
def test_sensitive_codes_ascend_with_the_schemas_order_and_a_null_comes_last(
    fields: dict[str, object], values: list[object], codes: list[int]
) -> None:
    schema = DataSchema.from_dict({"s": {"role": "sensitive", **fields}}, {"tree": TREE})
    column = EquivalenceClasses.of_table(pd.DataFrame({"s": values}), schema).sensitive["s"]
    assert column.codes.tolist() == codes


def test_a_null_is_a_leaf_directly_under_the_root_of_the_tree() -> None:
    schema = DataSchema.from_dict(
        {"s": {"role": "sensitive", "hierarchy": "tree", "nullable": True}}, {"tree": TREE}
    )
    column = EquivalenceClasses.of_table(pd.DataFrame({"s": ["flu", None]}), schema).sensitive["s"]
    assert column.hierarchy == TREE.with_leaf(NULL)
    assert column.size == 4


@given(records, st.data())
def test_classes_of_labels_are_those_of_a_table_that_names_the_classes(
    rows: list[Row], data: st.DataObject
) -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "disease": {"role": "sensitive", "nullable": True},
        }
    )
    table = frame(rows).assign(age=np.arange(len(rows)))[["age", "disease"]]
    labels = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=len(rows), max_size=len(rows))))
    made = EncodedTable.encode(table, schema).classes_of(labels)
    named = table.assign(age=labels)[labels >= 0]  # records keep their order: ages ascend
    read = EquivalenceClasses.of_table(named, schema)
    assert sorted(made.sizes) == sorted(read.sizes)
    content = [
        sorted(tuple(sorted(counts.counts[counts.classes == c].tolist())) for c in range(len(counts.sizes)))
        for counts in (made.counts("disease"), read.counts("disease"))
    ]
    assert content[0] == content[1]


def test_values_outside_of_the_categories_are_coded_alike_in_any_order() -> None:
    schema = DataSchema.from_dict({"s": {"role": "sensitive", "kind": "ordinal", "categories": ["b", "a"]}})
    for values in (["z", "y", "a", "b"], ["b", "y", "a", "z"]):
        column = EquivalenceClasses.of_table(pd.DataFrame({"s": values}), schema).sensitive["s"]
        assert dict(zip(values, column.codes.tolist(), strict=True)) == {"b": 0, "a": 1, "y": 2, "z": 3}


@given(records, st.randoms(use_true_random=False), st.booleans())
def test_values_of_a_whole_table_have_the_codes_and_shares_of_its_column(
    rows: list[Row], shuffle: object, tree: bool
) -> None:
    attribute = DataSchema.from_dict(
        {"s": {"role": "sensitive", "nullable": True, **({"hierarchy": "tree"} if tree else {})}},
        {"tree": TREE},
    ).sensitive[0]
    column = frame(rows)["disease"]
    whole = EquivalenceClasses.of_table(pd.DataFrame({"s": column}), DataSchema((attribute,)))
    distinct = list(Counter(row[2] for row in rows).items())
    shuffle.shuffle(distinct)
    values = SensitiveValues.of(
        pd.Series([value for value, _ in distinct], dtype=object),
        np.array([n for _, n in distinct]),
        attribute,
    )
    code = dict(zip((value for value, _ in distinct), values.codes.tolist(), strict=True))
    assert [code[row[2]] for row in rows] == whole.sensitive["s"].codes.tolist()
    assert (values.size, values.hierarchy) == (whole.sensitive["s"].size, whole.sensitive["s"].hierarchy)
    assert values.prior.tolist() == whole.counts("s").prior.tolist()


@given(records, st.randoms(use_true_random=False))
def test_counted_classes_are_those_that_were_counted(rows: list[Row], shuffle: object) -> None:
    classes = of(rows)
    counts = classes.counts("disease")
    order = list(range(len(counts.classes)))
    shuffle.shuffle(order)
    column = classes.sensitive["disease"]
    totals = np.bincount(column.codes, minlength=column.size)
    values = SensitiveValues(
        pd.Series(range(column.size)), np.arange(column.size, dtype=np.int32), column.size, totals
    )
    again = CountedClasses.of_entries(
        classes.sizes,
        {"disease": (counts.classes[order], counts.values[order], counts.counts[order])},
        {"disease": values},
    )
    assert (len(again), again.records) == (len(classes), classes.records)
    for name in ("classes", "values", "counts", "starts", "prior", "sizes"):
        assert getattr(again.counts("disease"), name).tolist() == getattr(counts, name).tolist()
    with pytest.raises(SchemaError, match="not a sensitive attribute"):
        again.counts("zip")
