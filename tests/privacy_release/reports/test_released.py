"""What the report says of the released cells, recounted by plain Python from these cells alone."""

import datetime as dt
import itertools
import math
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, load_method
from privacy_engine.measures.association import association
from privacy_engine.release import Release
from privacy_release.reports.figures import measure
from privacy_release.reports.released import BINS, association_of, drawing, shares_of_classes
from tests.rendered import render_report


def table(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    age = rng.integers(18, 66, rows)
    return pd.DataFrame(
        {
            "age": age,
            "town": rng.choice(["north", "south", "west"], rows),
            "wage": age * 10 + rng.integers(0, 50, rows),
            "illness": np.where(age > 40, "gout", rng.choice(["flu", "cold"], rows)),
        }
    )


SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [18, 65]},
        "town": {"role": "quasi_identifier", "kind": "categorical"},
        "wage": {"role": "insensitive", "kind": "numeric"},
        "illness": {"role": "sensitive", "kind": "categorical"},
    }
)


@pytest.fixture(scope="module")
def release() -> Release:
    return load_method("mondrian", k=8).release(table(), SCHEMA, np.random.default_rng(1))


def test_the_share_of_the_most_frequent_value_is_counted_in_the_released_rows(release: Release) -> None:
    classes: defaultdict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for age_from, age_to, town, illness in release.table[
        ["age_from", "age_to", "town", "illness"]
    ].itertuples(index=False):
        classes[age_from, age_to, town][illness] += 1
    expected, records, alike = [0] * BINS, [0] * BINS, 0
    for found in classes.values():
        most, size = max(found.values()), found.total()
        place = min(most * BINS // size, BINS - 1)
        expected[place] += 1
        records[place] += size
        alike += size if most == size else 0
    (part,) = shares_of_classes(release)
    assert (part.name, part.classes, part.records, part.alike) == ("illness", expected, records, alike)
    assert part.overall == release.table["illness"].value_counts(normalize=True).max()


def test_two_columns_go_together_as_their_released_cells_do(release: Release) -> None:
    found = association_of(release)
    assert found is not None
    assert found.names == ("age", "town", "wage", "illness")
    middle = (release.table["age_from"] + release.table["age_to"]) / 2
    expected = abs(np.corrcoef(middle, release.table["wage"])[0, 1])
    assert found.strength[0, 2] == pytest.approx(expected)
    pairs = Counter(zip(release.table["town"], release.table["illness"], strict=True))
    assert found.strength[1, 3] == pytest.approx(bergsma(pairs))
    assert (found.strength == found.strength.T).all()
    (strongest,) = drawing(found).largest(1)
    assert strongest.value == found.strength[np.triu_indices(4, 1)].max()


def bergsma(pairs: Counter[tuple[str, str]]) -> float:
    """Cramer's V with Bergsma's correction, section 3, in plain Python."""
    n, ones, others = pairs.total(), Counter[str](), Counter[str]()
    for (one, other), count in pairs.items():
        ones[one] += count
        others[other] += count
    square = sum(
        (pairs[a, b] - ones[a] * others[b] / n) ** 2 / (ones[a] * others[b] / n)
        for a, b in itertools.product(ones, others)
    )
    r, c = len(ones), len(others)
    corrected = max(0.0, square / n - (r - 1) * (c - 1) / (n - 1))
    least = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1))
    return math.sqrt(corrected / (least - 1))


def test_both_plots_are_made_of_the_released_cells_and_of_nothing_else(release: Release) -> None:
    blind = replace(release, table=release.table.copy(), recoding=release.recoding)
    loss, risk = measure(release, np.random.default_rng(0))
    html = render_report(blind, loss, risk, title="People", source_rows=600)
    assert "Sensitive values within classes" in html
    assert "Columns that go together" in html
    shuffled = release.table.assign(
        illness=release.table["illness"].sample(frac=1, random_state=4).to_numpy()
    )
    other = replace(release, table=shuffled)
    assert shares_of_classes(other) != shares_of_classes(release)
    found, of_other = association_of(release), association_of(other)
    assert found is not None
    assert of_other is not None
    assert of_other.strength[0, 3] < found.strength[0, 3]
    assert of_other.strength[0, 2] == found.strength[0, 2]


def test_a_release_without_records_has_no_plot(release: Release) -> None:
    empty = replace(release, table=release.table.head(0))
    assert shares_of_classes(empty) == []
    assert association_of(empty) is None


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([None, None, None], dtype="float64"),
        pd.Series(["a", None, "a"], dtype="string"),
        pd.to_datetime(pd.Series(["2020-01-01", None, "2020-01-03"])),
        pd.Series([True, False, True]),
        pd.Series([1, None, 3], dtype="Int64"),
    ],
)
def test_nulls_and_constants_of_any_type_have_a_strength(column: pd.Series) -> None:
    released = pd.DataFrame({"one": column, "other": ["x", "y", "x"]})
    schema = DataSchema.from_dict({"one": {"role": "insensitive"}, "other": {"role": "insensitive"}})
    found = association(released, schema, 9)
    assert found.names == ("one", "other")
    assert 0 <= found.strength[0, 1] <= 1
    assert association(released, schema, 1).names == ("one",)


@pytest.mark.parametrize("year", [1, 1555, 1970, 9999])
def test_dates_of_any_year_have_a_strength(year: int) -> None:
    days = pd.Series([dt.date(year, 1, day) for day in (1, 2, 3)] + [None], dtype=object)
    released = pd.DataFrame({"day": days, "other": [1, 2, 3, 4]})
    schema = DataSchema.from_dict({"day": {"role": "insensitive"}, "other": {"role": "insensitive"}})
    for column in (days, days.astype("date32[pyarrow]"), days.astype("datetime64[us]")):
        found = association(released.assign(day=column), schema, 9)
        assert found.strength[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("intervals", ["bounds", "text"])
@pytest.mark.parametrize("kind", ["categorical", "numeric"])
def test_columns_with_the_names_of_bounds_count_as_themselves(kind: str, intervals: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 9, (40, 2))
    source = pd.DataFrame(values if kind == "numeric" else values.astype(str), columns=["x_from", "x_to"])
    attribute = {"role": "quasi_identifier", "kind": kind}
    attribute |= {"bounds": [0, 9]} if kind == "numeric" else {}
    schema = DataSchema.from_dict({"x_from": attribute, "x_to": attribute})
    made = load_method("mondrian", k=5, intervals=intervals).release(source, schema, rng)
    found = association_of(made)
    assert found is not None
    assert found.names == ("x_from", "x_to")
