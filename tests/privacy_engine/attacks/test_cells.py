"""Cells of releases are read as what they cover, in whatever form they are written."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine.attacks.blocks import Blocks
from privacy_engine.attacks.cells import alone, read
from privacy_engine.attacks.seeking import SMALLER, Target, covered_people
from privacy_engine.registry import load_method
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role
from tests.synthetic_tables import SCHEMA, people

TREE = Hierarchy(rows=(("Bern", "CH", "*"), ("Basel", "CH", "*"), ("Lyon", "FR", "*")))
SOURCE = DataSchema(
    (
        Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC),
        Attribute(name="income", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, nullable=True),
        Attribute(name="grade", role=Role.QUASI_IDENTIFIER, kind=Kind.ORDINAL, categories=("a", "b", "c")),
        Attribute(name="town", role=Role.QUASI_IDENTIFIER, hierarchy=TREE),
        Attribute(name="job", role=Role.QUASI_IDENTIFIER),
        Attribute(name="born", role=Role.QUASI_IDENTIFIER, kind=Kind.DATE),
        Attribute(name="ill", role=Role.SENSITIVE),
    )
)
PERSON = {
    "age": [40],
    "income": [7.5],
    "grade": ["b"],
    "town": ["Basel"],
    "job": ["cook"],
    "born": [pd.Timestamp("1980-03-04")],
    "ill": ["no"],
}
BOX = {
    "age_from": [38],
    "age_to": [45],
    "income": ["[5, 8]"],
    "grade": ["[a, b]"],
    "town": ["CH"],
    "job": ["{cook, nurse}"],
    "born_from": [pd.Timestamp("1980-01-01")],
    "born_to": [pd.Timestamp("1980-12-31")],
    "ill": ["no"],
}


def covers(**changed: object) -> bool:
    """Whether the box, with some of its columns or of the person's changed, covers the person."""
    person = PERSON | {k.removeprefix("own_"): v for k, v in changed.items() if k.startswith("own_")}
    box = BOX | {k: v for k, v in changed.items() if not k.startswith("own_")}
    space, (released, truth) = read(pd.DataFrame(box), [pd.DataFrame(person)], SOURCE)
    requested = np.ones((1, len(space.names)), np.bool_)
    return bool(covered_people(space, released, Blocks.of(space, truth), requested, 2)[0][0])


@pytest.mark.parametrize(
    ("changed", "covered"),
    [
        ({}, True),
        ({"own_age": [46]}, False),
        ({"own_income": [8.1]}, False),
        ({"own_income": [None]}, False),
        ({"own_income": [None], "income": ["[5, 8] or null"]}, True),
        ({"income": [None]}, False),  # of a nullable attribute: all of the class are null
        ({"own_grade": ["c"]}, False),
        ({"own_town": ["Lyon"]}, False),
        ({"own_town": ["Lyon"], "town": ["*"]}, True),
        ({"own_job": ["pilot"]}, False),
        ({"own_job": ["pilot"], "job": ["*"]}, True),
        ({"own_job": ["pilot"], "job": [None]}, True),  # where no null may be: suppressed
        ({"own_born": [pd.Timestamp("1981-01-01")]}, False),
        ({"age_from": [None], "age_to": [None], "own_age": [99]}, True),
        ({"own_ill": ["yes"]}, False),
    ],
)
def test_a_cell_covers_what_it_says(changed: dict[str, object], covered: bool) -> None:
    assert covers(**changed) is covered


@pytest.mark.parametrize("intervals", ["bounds", "text"])
def test_every_person_is_in_a_class_of_an_anonymized_release(intervals: str) -> None:
    rng = np.random.default_rng(1)
    table = people(200, rng)
    release = load_method("mondrian", k=5, intervals=intervals).release(table, SCHEMA, rng).table
    space, (released, truth) = read(release, [table], SCHEMA)
    far = Target.of(space, released).nearest(truth, np.ones((200, len(space.names)), np.bool_))[0]
    assert far.max() <= SMALLER * len(space.names)


def test_records_stand_alone_where_no_other_has_their_cells() -> None:
    space, (released,) = read(
        pd.DataFrame({"age": [1, 1, 2], "ill": ["a", "b", "b"]}), [], SOURCE.select(["age", "ill"])
    )
    assert space.names == ("age", "ill")
    numbered = released.numbered
    assert alone(numbered, np.array([0])).tolist() == [False, False, True]
    assert alone(numbered, np.array([0, 1])).all()
