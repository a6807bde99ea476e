"""Public groups of values: levels of declared hierarchies, and functions onto other attributes."""

from typing import Any

import pandas as pd

from privacy_engine import DataSchema
from privacy_engine.synthesizers.latent.declared_levels import function_onto, level_for, levels_of
from privacy_engine.tables.domains import CodedTable, PublicDomain

ROWS = [
    ["a1", "a", "north", "*"],
    ["b1", "b", "north", "*"],
    ["c1", "c", "south", "*"],
    ["c2", "c", "south", "*"],
]


def domains(levels: dict[str, int] | None = None, **fields: Any) -> tuple[PublicDomain, ...]:
    """The domains of a code with a hierarchy, and of others."""
    schema = DataSchema.from_dict({"code": {"hierarchy": ROWS}, **fields})
    frame = pd.DataFrame({"code": ["a1"], **{name: [of["categories"][0]] for name, of in fields.items()}})
    return CodedTable.encode(frame, schema, levels).domains


def test_levels_are_those_between_the_values_and_the_root() -> None:
    fine, coarse = levels_of(domains()[0])
    assert (fine.labels, fine.group_of.tolist()) == (("a", "b", "c"), [0, 1, 2, 2])
    assert (coarse.labels, coarse.group_of.tolist()) == (("north", "south"), [0, 0, 1, 1])
    assert level_for([fine, coarse], 2) is coarse
    assert level_for([fine, coarse], 32) is fine
    assert level_for([fine, coarse], 1) is None


def test_values_that_are_read_above_the_leaves_have_the_levels_above_them() -> None:
    (coarse,) = levels_of(domains({"code": 1})[0])
    assert (coarse.labels, coarse.group_of.tolist()) == (("north", "south"), [0, 0, 1])


def test_null_is_a_separate_group_and_is_null_in_the_other_attribute() -> None:
    region = {"categories": ["south", "north"], "nullable": True}
    code, other, full = domains(
        code={"hierarchy": ROWS, "nullable": True, "categories": ["a1", "b1", "c1", "c2"]},
        region=region,
        full={"categories": ["south", "north"]},
    )
    coarse = levels_of(code)[-1]
    assert coarse.labels == ("north", "south", None)
    function = function_onto(coarse, other)
    assert function is not None
    assert function.tolist() == [1, 1, 0, 0, 2]
    assert function_onto(coarse, full) is None  # it has no null


def test_an_attribute_without_the_labels_is_no_function() -> None:
    code, other = domains(region={"categories": ["north", "east"]})
    assert function_onto(levels_of(code)[-1], other) is None
    assert levels_of(other) == []
