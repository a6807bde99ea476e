"""What every anonymizer must keep on a table of dates: guarantees, and cells that cover what they were."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, EquivalenceClasses, Release, ReleasePolicy, verify
from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.verification.models import holds
from tests.contract.tables import family, quick
from tests.dated import FIELDS, covers, stays

# One sensitive attribute: some methods take no more.
SCHEMA = DataSchema.from_dict(FIELDS | {"illness": {}})
methods = pytest.mark.parametrize("name", family(Anonymizer))


@cache
def released(name: str, intervals: str) -> Release:
    """The release of `stays`, made once, for reading only."""
    return quick(name, k=5, l=2, intervals=intervals).release(stays(), SCHEMA, np.random.default_rng(7))


@methods
def test_every_guarantee_holds_and_every_text_covers_what_it_stands_for(name: str) -> None:
    table, release = stays(), released(name, "text")
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert all(holds(model, classes) for model in release.guarantees)
    assert verify(release.table, release.schema, ReleasePolicy(require=release.guarantees)).passed
    for column in {"born", "admitted", "seen"} & set(release.table):
        source = table[column].iloc[release.rows].astype(object)
        assert all(map(covers, release.table[column], source))


@methods
def test_two_typed_columns_hold_every_moment_of_the_class(name: str) -> None:
    table, release = stays(), released(name, "bounds")
    classes = EquivalenceClasses.of_table(release.table, release.schema)
    assert all(holds(model, classes) for model in release.guarantees)
    for column in {"born", "seen"} & {c.removesuffix("_from") for c in release.table}:
        low, high = (release.table[f"{column}_{end}"].astype("datetime64[us]") for end in ("from", "to"))
        source = table[column].iloc[release.rows].astype("datetime64[us]").reset_index(drop=True)
        assert ((low <= source) & (source <= high)).all()
        assert release.schema[f"{column}_from"].kind is SCHEMA[column].kind


@methods
def test_what_is_released_of_other_roles_is_as_exact_as_stated(name: str) -> None:
    table, release = stays(), released(name, "bounds")
    paid = table["paid"].iloc[release.rows].dt.to_period("M").dt.start_time.dt.date
    assert release.table["paid"].tolist() == paid.tolist()
    assert {(day.month % 3, day.day) for day in release.table["died"]} == {(1, 1)}
    manifest = release.manifest()["columns"]
    assert (manifest["paid"]["precision"], manifest["died"]["precision"]) == ("month", "quarter")


@methods
def test_the_type_of_the_source_does_not_matter(name: str) -> None:
    table = stays()
    as_text = table.assign(born=table["born"].dt.strftime("%d.%m.%Y"), admitted=table["admitted"].dt.date)
    fields = FIELDS | {"illness": {}, "born": FIELDS["born"] | {"format": "%d.%m.%Y"}}
    one, method = released(name, "bounds"), quick(name, k=5, l=2)
    other = method.release(as_text, DataSchema.from_dict(fields), np.random.default_rng(7))
    pd.testing.assert_frame_equal(one.table, other.table)


@pytest.mark.parametrize("name", ["mondrian", "bottom_up"])
@pytest.mark.parametrize("intervals", ["text", "bounds"])
def test_dates_that_are_not_known_are_values_of_their_own(name: str, intervals: str) -> None:
    table = stays()
    rng = np.random.default_rng(1)
    for column in ("born", "admitted", "seen"):
        table[column] = table[column].where(rng.random(len(table)) > 0.2)
    method = quick(name, k=5, l=2, intervals=intervals)
    release = method.release(table, SCHEMA.keeping_nulls(), np.random.default_rng(7))
    assert verify(release.table, release.schema, ReleasePolicy(require=release.guarantees)).passed
    source = table.iloc[release.rows].reset_index(drop=True)
    for cell, moment in zip(release.table["admitted"], source["admitted"], strict=True):
        assert (pd.isna(cell) and pd.isna(moment)) or cell == "*" or covers(cell, moment.to_pydatetime())
    for column in ("born", "seen"):
        if intervals == "text":
            cells = zip(release.table[column], source[column], strict=True)
            assert all(
                (pd.isna(cell) or cell.endswith(" or null"))
                if pd.isna(moment)
                else _covers_or_null(cell, moment)
                for cell, moment in cells
            )
            continue
        low, high = (release.table[f"{column}_{end}"].astype("datetime64[us]") for end in ("from", "to"))
        own = source[column].astype("datetime64[us]")
        assert (((low <= own) & (own <= high)) | (own.isna() & release.table[f"{column}_null"])).all()


def _covers_or_null(cell: str, moment: pd.Timestamp) -> bool:
    return covers(cell.removesuffix(" or null"), moment.to_pydatetime())
