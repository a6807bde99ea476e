"""ILP-based l-diversity: the example of its paper, its weights, and sensitive values that are too rare."""

import os

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import adult
from privacy_engine import DataSchema, EncodedTable, Hierarchy, InfeasibleError, Release, load_method
from privacy_engine.anonymizers.sensitive_utility import Reading, weight_matrix
from privacy_engine.measures.utility import ilp

# Zhu, Zhao, Wang (2010), figure 1: medical data without names; figure 2: what a register of voters tells.
PATIENTS = pd.DataFrame(
    [
        (25, "F", "12300", "AIDS"),
        (29, "F", "14000", "pneumonia"),
        (38, "M", "13500", "bronchitis"),
        (37, "M", "13010", "flu"),
        (40, "M", "13400", "bronchitis"),
        (26, "M", "12600", "flu"),
    ],
    columns=["age", "sex", "postcode", "disease"],
)
VOTERS = pd.DataFrame(
    [
        ("Betty", 25, "F", "12300"),
        ("Linda", 35, "F", "13000"),
        ("Bill", 21, "M", "12000"),
        ("Sam", 35, "M", "27000"),
        ("John", 28, "M", "14000"),
    ],
    columns=["name", "age", "sex", "postcode"],
)
# A digit less at each level, as in the paper: 12300, 1230*, ...
POSTCODES = sorted({*PATIENTS["postcode"], *VOTERS["postcode"]})
DIGITS = Hierarchy(tuple(tuple(p[: 5 - cut] + "*" * cut for cut in range(6)) for p in POSTCODES))
CLINIC = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "sex": {"role": "quasi_identifier"},
        "postcode": {"role": "quasi_identifier", "hierarchy": "digits"},
        "disease": {"role": "sensitive"},
    },
    {"digits": DIGITS},
)

# Four values whose records have all of x's range, four with nine tenths of it, and one that is there once.
WIDE, NARROW, RARE = "abcd", "efgh", "r"
WITH_RARE = pd.DataFrame(
    [(x, value) for value in WIDE for x in (0, 4, 7, 10)]
    + [(x, value) for value in NARROW for x in (0.5, 3.5, 6.5, 9.5)]
    + [(5, RARE)],
    columns=["x", "value"],
)
PLAIN = DataSchema.from_dict(
    {"x": {"role": "quasi_identifier", "kind": "numeric"}, "value": {"role": "sensitive"}}
)


def released(method: str, table: pd.DataFrame, schema: DataSchema, **parameters: object) -> Release:
    """With intervals as text, as the paper's figures show them."""
    release_method = load_method(method, intervals="text", **parameters)
    return release_method.release(table, schema, np.random.default_rng(7))


def diseases_of(voter: pd.Series, release: pd.DataFrame) -> list[str]:
    """The diseases of all released records that may be a voter's, which is what linkage tells of them."""

    def covers(cell: str, name: str) -> bool:
        value = str(voter[name])
        if name == "postcode":
            return all(shown in (digit, "*") for shown, digit in zip(cell, value, strict=True))
        if cell.startswith("["):
            low, high = cell.strip("[]").split(", ")
            return int(low) <= int(value) <= int(high)
        return value in cell.strip("{}").split(", ")

    fits = [
        all(covers(str(row[name]), name) for name in ("age", "sex", "postcode"))
        for _, row in release.iterrows()
    ]
    return release.loc[fits, "disease"].tolist()


def disclosed(release: pd.DataFrame) -> dict[str, str]:
    """What linkage tells: of each voter whose possible records all have one disease, that disease."""
    linked = {voter["name"]: diseases_of(voter, release) for _, voter in VOTERS.iterrows()}
    return {name: found[0] for name, found in linked.items() if len(set(found)) == 1}


def rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    return sorted(map(tuple, table.astype(str).to_numpy().tolist()))


def test_without_anonymization_the_register_tells_that_betty_has_aids() -> None:
    """The paper's figure 3."""
    assert disclosed(PATIENTS) == {"Betty": "AIDS"}


def test_bottom_up_hides_betty_among_two_but_leaves_classes_of_one_disease() -> None:
    """Two pairs of alike records are of one disease: what the paper's l-diversity is for (section 4.3)."""
    release = released("bottom_up", PATIENTS, CLINIC, k=2)
    assert rows(release.table) == [
        ("[25, 29]", "F", "1****", "AIDS"),
        ("[25, 29]", "F", "1****", "pneumonia"),
        ("[26, 37]", "M", "1****", "flu"),
        ("[26, 37]", "M", "1****", "flu"),
        ("[38, 40]", "M", "13***", "bronchitis"),
        ("[38, 40]", "M", "13***", "bronchitis"),
    ]
    assert disclosed(release.table) == {"John": "flu"}  # a man of 28, postcode 14000, if he is a patient


def test_ilp_based_l_diversity_tells_no_ones_disease() -> None:
    release = released("ilp_l_diversity", PATIENTS, CLINIC, k=2, l=2)
    assert rows(release.table) == [
        ("[25, 29]", "F", "1****", "AIDS"),
        ("[25, 29]", "F", "1****", "pneumonia"),
        ("[26, 38]", "M", "1****", "bronchitis"),
        ("[26, 38]", "M", "1****", "flu"),
        ("[37, 40]", "M", "13***", "bronchitis"),
        ("[37, 40]", "M", "13***", "flu"),
    ]
    assert release.notes == {"distorted": 0.0, "clusters": 2.0, "absorbed_values": 0.0}


@pytest.mark.parametrize("reading", list(Reading))
@pytest.mark.parametrize("method", ["bottom_up", "ilp_l_diversity"])
@pytest.mark.parametrize("k", [2, 3])
def test_with_two_diseases_in_each_class_the_register_tells_nothing(
    method: str, k: int, reading: Reading
) -> None:
    for refine in (True, False):
        release = released(method, PATIENTS, CLINIC, k=k, l=2, reading=reading, refine=refine)
        assert disclosed(release.table) == {}
        assert len(set(diseases_of(VOTERS.loc[0], release.table))) >= 2  # Betty is there, among others
        assert sorted(release.table["disease"]) == sorted(PATIENTS["disease"])  # nothing was made up


def test_the_papers_repair_changes_diseases_and_says_how_many() -> None:
    release = released("ilp_l_diversity", PATIENTS, CLINIC, k=2, l=2, repair="distort", refine=False)
    assert disclosed(release.table) == {}
    changed = sum(
        a != b for a, b in zip(sorted(release.table["disease"]), sorted(PATIENTS["disease"]), strict=True)
    )
    assert release.notes["distorted"] > 0
    assert changed <= release.notes["distorted"] * len(PATIENTS)


def test_weights_are_by_default_those_that_the_paper_prints() -> None:
    assert load_method("ilp_l_diversity") == load_method("ilp_l_diversity", reading="literal")
    assert load_method("ilp_l_diversity") != load_method("ilp_l_diversity", reading="complement")


# Two clusters of values, {a, b} and {c, d}, by the matrix of an expert. The four records of the first are the
# corners of a rectangle of 4 x 6 in a table of 10 x 10; the second makes the table's ranges.
CORNERS = pd.DataFrame(
    [(0, 0, "a"), (4, 0, "b"), (0, 6, "b"), (4, 6, "a"), (10, 10, "c"), (10, 10, "d")],
    columns=["x", "y", "value"],
)
CORNERS_SCHEMA = DataSchema.from_dict(
    {
        "x": {"role": "quasi_identifier", "kind": "numeric"},
        "y": {"role": "quasi_identifier", "kind": "numeric"},
        "value": {"role": "sensitive"},
    }
)
EXPERT = ((0.9, 0.1), (0.9, 0.1), (0.3, 0.9), (0.3, 0.9))


@pytest.mark.parametrize("price", ["whole", "increase"])
@pytest.mark.parametrize(
    ("options", "boxes", "penalty"),
    [
        # All four values: w_x = 2.4 / 4.4, w_y = 2.0 / 4.4. A pair along x costs w_x * 0.4 = 0.218 a record,
        # a pair along y w_y * 0.6 = 0.273: the pairs along x are cheaper.
        ({}, [("[0, 4]", "0"), ("[0, 4]", "6")], 4 * 2.4 / 4.4 * 0.4),
        ({"merge_weights": "all_values"}, [("[0, 4]", "0"), ("[0, 4]", "6")], 4 * 2.4 / 4.4 * 0.4),
        # Of a and b only: w_x = 0.9, w_y = 0.1, 0.36 against 0.06: along y. ILP(T) counts all values.
        ({"merge_weights": "cluster"}, [("0", "[0, 6]"), ("4", "[0, 6]")], 4 * 2.0 / 4.4 * 0.6),
    ],
)
def test_a_merge_is_priced_by_the_weights_of_all_values_or_of_the_cluster(
    options: dict[str, object], boxes: list[tuple[str, str]], penalty: float, price: str
) -> None:
    plain = {"k": 2, "l": 2, "utility": EXPERT, "refine": False, "price": price, **options}
    release = released("ilp_l_diversity", CORNERS, CORNERS_SCHEMA, **plain)
    of_the_first = release.table[release.table["value"].isin(["a", "b"])].astype(str)
    assert sorted(set(zip(of_the_first["x"], of_the_first["y"], strict=True))) == boxes
    encoded = EncodedTable.encode(CORNERS, CORNERS_SCHEMA)
    recoding = load_method("ilp_l_diversity", **plain).anonymize(encoded, np.random.default_rng(7))
    weights = weight_matrix(np.array(EXPERT), Reading.LITERAL)
    assert ilp(recoding, weights) == pytest.approx(penalty)


def test_a_value_too_rare_for_companions_leaves_the_others_in_their_clusters() -> None:
    release = released("ilp_l_diversity", WITH_RARE, PLAIN, k=3, l=3, repair="distort", refine=False)
    assert release.notes["clusters"] == 2
    assert release.notes["absorbed_values"] == 1
    for _, values in release.table.groupby("x")["value"]:
        assert values.nunique() >= 3
        assert set(values) <= {*WIDE} or set(values) <= {*NARROW, RARE}  # the nearer of the two


def test_truthful_classes_of_a_table_with_a_rare_value_have_l_values() -> None:
    release = released("ilp_l_diversity", WITH_RARE, PLAIN, k=2, l=3)
    assert (release.table.groupby("x")["value"].nunique() >= 3).all()
    assert sorted(release.table["value"]) == sorted(WITH_RARE["value"])


def test_fewer_than_l_values_are_refused() -> None:
    two = WITH_RARE[WITH_RARE["value"].isin(["a", "e"])]
    with pytest.raises(InfeasibleError, match="has 2 distinct values"):
        released("ilp_l_diversity", two, PLAIN, k=3, l=3)


@pytest.mark.slow  # needs all of Adult
@pytest.mark.needs_data
@pytest.mark.skipif("PRIVACY_DATA" not in os.environ, reason="PRIVACY_DATA does not name the data folder")
@pytest.mark.parametrize("seed", range(3))
def test_on_adult_two_rare_occupations_are_absorbed_and_clusters_remain(seed: int) -> None:
    """Nine soldiers and 143 house servants are like no third occupation, so every start fails at l = 3."""
    table = adult()
    release = load_method("ilp_l_diversity", k=10, l=3, refine=False).release(
        table.frame, table.schema, np.random.default_rng(seed)
    )
    assert release.notes["absorbed_values"] == 2
    assert release.notes["clusters"] >= 2
