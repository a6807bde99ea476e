"""A structure file has the columns of the release that it shows, and depends on no record."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.loss import Neighbours
from privacy_engine.registry import is_randomizer, load_method, method_names, needs_whole_table
from privacy_engine.release import Release
from privacy_engine.structure.structure import Structure
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from tests.contract.tables import PUBLIC_SCHEMA, people, quick

SHOWN = [name for name in method_names() if not is_randomizer(name) and not needs_whole_table(name)]
SHOWN.remove("structure")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def structure(like: dict[str, Any] | None = None, rows: int = 60) -> Structure:
    return Structure(rows=rows) if like is None else Structure(rows=rows, like=like)


def released(table: pd.DataFrame, seed: int = 0) -> Release:
    return structure().release(table, PUBLIC_SCHEMA, rng(seed))


@pytest.mark.parametrize("name", SHOWN)
def test_columns_and_types_are_those_of_the_release_that_it_shows(name: str) -> None:
    shown = quick(name).release(people(), PUBLIC_SCHEMA, rng())
    made = structure({"method": name}).release(people(), PUBLIC_SCHEMA, rng())
    assert made.schema.names == shown.schema.names
    assert made.table.dtypes.to_dict() == shown.table.dtypes.to_dict()
    assert len(made.table) == 60
    assert (made.method, made.guarantees, made.rows, made.persons) == ("structure", (), None, None)


@pytest.mark.parametrize("intervals", ["bounds", "text", "midpoint"])
def test_intervals_have_the_form_of_the_release_that_it_shows(intervals: str) -> None:
    made = structure({"method": "mondrian", "intervals": intervals}).release(people(), PUBLIC_SCHEMA, rng())
    shown = load_method("mondrian", intervals=intervals).release(people(), PUBLIC_SCHEMA, rng())
    assert list(made.table) == list(shown.table)


def test_files_are_the_same_whatever_the_records() -> None:
    tables = people(40, seed=1), people(80, seed=2).iloc[::-1], people(5).iloc[:0]
    for seed in range(4):
        first, *others = (released(table, seed).table for table in tables)
        for other in others:
            pd.testing.assert_frame_equal(first, other)


def test_other_seeds_make_other_files() -> None:
    assert not released(people(), 1).table.equals(released(people(), 2).table)


def test_the_loss_is_zero_and_is_not_booked() -> None:
    loss = structure().privacy_loss(PUBLIC_SCHEMA)
    assert (loss.epsilon, loss.delta, loss.must_be_booked) == (0, 0, False)
    by_person = DataSchema.from_dict({"id": {"role": "identifier"}, "person": {"column": "id"}})
    assert structure().privacy_loss(by_person).neighbours is Neighbours.REPLACE_PERSON


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rows": 0}, "rows must be >= 1"),
        ({"like": {"method": "structure"}}, "like must have a method"),
        ({"like": {"method": "rfka"}}, "like must have a method"),  # its columns depend on the records
        ({"like": {"k": 5, "method": "montrian"}}, "got 'montrian'"),
        ({"like": {"method": "mondrian", "kk": 5}}, "like: mondrian: unknown parameters"),
        ({"types": {"age": "text"}}, r"types\['age'\] must be a type of numbers"),
        ({"types": {"age": "str"}}, r"types\['age'\] must be a type of numbers"),
    ],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Structure(**parameters)


def test_a_claim_of_zero_sets_no_rule_aside_where_nothing_proves_it() -> None:
    table = people().drop(columns="name")
    policy = ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}]})
    loss = structure().privacy_loss(PUBLIC_SCHEMA)
    report = verify(table, PUBLIC_SCHEMA.without_identifiers(), policy, loss=loss)
    assert not report.passed
    assert report.findings[0].measured == 1
