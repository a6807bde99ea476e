"""Certain bounds of k-anonymous releases: against all tables that a small release is consistent with."""

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_release.query.columns import _leaves
from privacy_release.query.intervals import bounded
from privacy_release.query.questions import Condition, Measure, Question
from privacy_release.query.rules import QueryError

AGES = (0, 3)  # the domain
ZIPS = [["N1", "N", "*"], ["N2", "N", "*"], ["S1", "S", "*"]]
LEAVES = {"N": ("N1", "N2"), "*": ("N1", "N2", "S1"), **{row[0]: (row[0],) for row in ZIPS}}
ILL = ("cold", "flu")
COUNT, MEAN = Measure(kind="count"), Measure(kind="mean", of="age", name="mean")


def column(name: str, source: str, form: str, kind: str, **domain: Any) -> dict[str, Any]:
    return {
        "name": name,
        "source": source,
        "form": form,
        "type": kind,
        "domain": domain,
        "null": "never null",
    }


def reported(suppressed: int = 0) -> dict[str, Any]:
    """The data dictionary."""
    return {
        "suppressed": suppressed,
        "columns": [
            column("age_from", "age", "lower_bound", "long", bounds=list(AGES)),
            column("age_to", "age", "upper_bound", "long", bounds=list(AGES)),
            column("zip", "zip", "label", "string", paths=ZIPS),
            column("ill", "ill", "value", "string", categories={"count": 2, "labels": list(ILL)}),
        ],
    }


RECORD = st.tuples(
    st.tuples(st.integers(*AGES), st.integers(*AGES)).map(sorted),
    st.sampled_from(sorted(LEAVES)),
    st.sampled_from(ILL),
)
RANGE = st.builds(
    Condition,
    column=st.just("age"),
    low=st.sampled_from([-math.inf, 0.0, 1.0, 1.5, 2.0]),
    high=st.sampled_from([math.inf, 1.0, 2.0, 3.0]),
    low_open=st.booleans(),
    high_open=st.booleans(),
)
LIST = st.builds(
    Condition,
    column=st.just("age"),
    values=st.sets(st.sampled_from([0.0, 1.0, 2.0, 3.0])).map(frozenset),
    negated=st.booleans(),
)
ZIP = st.builds(
    Condition,
    column=st.just("zip"),
    values=st.sets(st.sampled_from(["N1", "N2", "S1"])).map(frozenset),
    negated=st.booleans(),
)
SICK = st.builds(Condition, column=st.just("ill"), values=st.just(frozenset(["flu"])))


def question_of(*, negated: bool = False, **values: set[Any]) -> Question:
    """A count of the records that have, or do not have, one of some values."""
    where = [Condition(column=name, values=frozenset(v), negated=negated) for name, v in values.items()]
    return Question(measures=(COUNT,), where=tuple(where))


def holds(conditions: list[Condition], record: tuple[int, str, str]) -> bool:
    """Whether a record of the source meets all conditions."""
    cells = dict(zip(("age", "zip", "ill"), record, strict=True))
    for c in conditions:
        value = cells[c.column]
        if c.values is not None:
            if (value in c.values) == c.negated:
                return False
        elif not (
            (value > c.low if c.low_open else value >= c.low)
            and (value < c.high if c.high_open else value <= c.high)
        ):
            return False
    return True


def tables(records: list[Any], suppressed: int) -> Any:
    """All tables of the source that a release is consistent with."""
    choices = [
        [(age, leaf, ill) for age in range(low, high + 1) for leaf in LEAVES[label]]
        for (low, high), label, ill in records
    ]
    anyone = list(itertools.product(range(AGES[0], AGES[1] + 1), LEAVES["*"], ILL))
    return itertools.product(*choices, *[anyone] * suppressed)


def released(records: list[Any]) -> pa.Table:
    return pa.table(
        {
            "age_from": pa.array([r[0][0] for r in records], pa.int64()),
            "age_to": pa.array([r[0][1] for r in records], pa.int64()),
            "zip": pa.array([r[1] for r in records], pa.string()),
            "ill": pa.array([r[2] for r in records], pa.string()),
        }
    )


@given(
    st.lists(RECORD, min_size=1, max_size=2),
    st.lists(st.one_of(RANGE, ZIP, SICK), max_size=3),
    st.integers(0, 1),
)
def test_bounds_of_counts_and_means_hold_for_every_table_and_are_reached(
    records: list[Any], conditions: list[Condition], suppressed: int
) -> None:
    question = Question(measures=(COUNT, MEAN), where=tuple(conditions))
    [(_, (count, mean))] = bounded(released(records), reported(suppressed), question)
    counts, means, every = set(), set(), []
    for table in tables(records, suppressed):
        ages = [record[0] for record in table if holds(conditions, record)]
        counts.add(len(ages))
        every.append(len(ages))
        if ages:
            means.add(sum(ages) / len(ages))
    assert (count.low, count.high) == (min(counts), max(counts))
    assert count.value == pytest.approx(sum(every) / len(every))  # of all tables, equally likely
    if means:
        assert mean.value is not None
        assert mean.low <= mean.value <= mean.high
        assert mean.low == pytest.approx(min(means))
        assert mean.high == pytest.approx(max(means))
    else:
        assert math.isnan(mean.low)


@given(st.lists(RECORD, min_size=1, max_size=2), st.lists(st.one_of(RANGE, LIST), max_size=3))
def test_several_conditions_on_one_column_are_taken_together(
    records: list[Any], conditions: list[Condition]
) -> None:
    [(_, [count])] = bounded(
        released(records), reported(), Question(measures=(COUNT,), where=tuple(conditions))
    )
    counts = {sum(holds(conditions, record) for record in table) for table in tables(records, 0)}
    assert (count.low, count.high) == (min(counts), max(counts))


def test_groups_are_the_values_of_the_domain_and_of_exact_columns_those_released() -> None:
    records = [((0, 1), "N", "flu"), ((2, 2), "S1", "flu")]
    answers = bounded(released(records), reported(), Question(measures=(COUNT,), by=("zip", "ill")))
    found = {group: (cell.low, cell.high) for group, [cell] in answers}
    assert found[("N1", "flu")] == (0, 1)
    assert found[("S1", "flu")] == (1, 1)


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ([], 2.0),
        ([Condition(column="age", low=2.0)], 2 / 5 + 1),
        ([Condition(column="age", values=frozenset([None]))], 1 / 5),
        ([Condition(column="age", values=frozenset([None]), negated=True)], 4 / 5 + 1),
    ],
)
def test_an_estimate_takes_a_null_that_an_interval_covers_as_one_value_more(
    where: list[Condition], count: float
) -> None:
    rows = pa.table({"age_from": [0, 3], "age_to": [3, 3], "age_null": [True, False]})
    flag = column("age_null", "age", "null_flag", "boolean")
    kept = {"suppressed": 0, "columns": [*reported()["columns"][:2], flag]}
    [(_, (found,))] = bounded(rows, kept, Question(measures=(COUNT,), where=tuple(where)))
    assert found.value == pytest.approx(count)


def test_without_ends_there_is_an_estimate_only_of_what_they_do_not_bear_on() -> None:
    rows = pa.table(
        {"age_from": [None, 1], "age_to": [None, 1]},
        pa.schema([("age_from", pa.int64()), ("age_to", pa.int64())]),
    )
    bounds = [
        column(f"age_{end}", "age", form, "long")
        for end, form in (("from", "lower_bound"), ("to", "upper_bound"))
    ]
    kept = {"suppressed": 0, "columns": bounds}
    for where, count in (((), 2.0), ((Condition(column="age", low=1.0),), None)):
        [(_, (found, mean))] = bounded(rows, kept, Question(measures=(COUNT, MEAN), where=where))
        assert (found.value, mean.value) == (count, None)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question(measures=(COUNT,), by=("age",)), "ranges"),
        (Question(measures=(COUNT,), by=("shoe",)), "one of age, ill, zip"),
        (Question(measures=(Measure(kind="mean", of="zip"),)), "must be a number"),
        (Question(measures=(COUNT,), where=(Condition(column="zip", low=3.0),)), "no order"),
        (question_of(zip={"male"}), "1 of 1 given is outside of it"),  # no count of which would be true
        (question_of(zip={"N1", "N3"}, negated=True), "1 of 2 given is outside of it"),
        (
            question_of(zip={"N"}),
            "1 of 1 given",
        ),  # a label of the hierarchy, which no record of the source has
        (question_of(age={1.0, 9.0}), "1 of 2 given"),
    ],
)
def test_what_has_no_bounds_is_refused_with_a_reason(question: Question, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        bounded(released([((0, 1), "N", "flu")]), reported(), question)


def test_without_the_leaves_of_a_hierarchy_nothing_is_guessed() -> None:
    dictionary = reported()
    dictionary["columns"][2]["domain"] = {}
    with pytest.raises(QueryError, match="does not list"):
        bounded(released([((0, 1), "N", "flu")]), dictionary, Question(measures=(COUNT,), by=("zip",)))


@pytest.mark.parametrize(("cell", "or_null"), [("*", True), ("*", False), ("N", True)])
def test_the_root_of_a_hierarchy_covers_null_where_the_column_may_have_one(cell: str, or_null: bool) -> None:
    null = {None} if or_null and cell == "*" else set[None]()
    assert _leaves(cell, {"paths": ZIPS}, or_null=or_null) == {*LEAVES[cell], *null}
