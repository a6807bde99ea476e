"""What fragments know of their table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine.engines.engine import Engine
from privacy_engine.fragments.whole import WholeTable, widened
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema
from tests.privacy_engine.fragments.tables import SCHEMA, people, stored


@pytest.fixture(scope="module")
def whole(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> WholeTable:
    return WholeTable.of_files(
        engine, [stored(people(), tmp_path_factory.mktemp("table"))], SCHEMA, ["disease"]
    )


def test_domains_that_the_schema_leaves_open_are_those_of_the_table(whole: WholeTable) -> None:
    table = people()
    assert whole.schema["salary"].bounds == (table["salary"].min(), table["salary"].max())
    assert whole.schema["colour"].categories == ("blue", "green", "red")
    assert [a for a in whole.schema.attributes if a.name not in ("salary", "colour")] == [
        a for a in SCHEMA.attributes if a.name not in ("salary", "colour")
    ]


def test_a_later_table_has_the_domains_of_earlier_ones_too() -> None:
    source = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric"},
            "town": {"role": "quasi_identifier"},
            "colour": {"role": "quasi_identifier", "categories": ["red"]},
            "disease": {"role": "sensitive"},
        }
    )

    def known(bounds: list[float], towns: list[str]) -> DataSchema:
        fields = source.to_dict()
        fields["age"]["bounds"], fields["town"]["categories"] = bounds, towns
        return DataSchema.from_dict(fields)

    found = widened(known([20, 60], ["a", "c"]), source, known([10, 50], ["b", "c"]))
    assert found["age"].bounds == (10, 60)
    assert found["town"].categories == ("b", "c", "a")  # sets of values are written in the same order
    assert found["colour"] == source["colour"]
    assert widened(source, source, source) == source


def test_a_part_is_encoded_in_the_domains_of_the_whole(whole: WholeTable) -> None:
    table = people()
    part = table[(table["colour"] == "red") & (table["disease"].isin(["flu", "none"]))]
    encoded = EncodedTable.encode(part, whole.schema, whole.sensitive)
    known = EncodedTable.encode(table, SCHEMA)
    assert encoded.sensitive_domains == known.sensitive_domains == whole.sensitive_domains
    assert encoded.domains[4] == known.domains[4]
    assert (encoded.domains[1].low, encoded.domains[1].high) == (known.domains[1].low, known.domains[1].high)
    for counts in (encoded.sensitive_counts, whole.sensitive_counts):
        assert counts[0].tolist() == known.sensitive_counts[0].tolist()


CASES = {
    "text": ({"kind": "categorical"}, ["b", "a", "b", "c", "a", "b"]),
    "text with a null": ({"kind": "categorical", "nullable": True}, ["b", None, "b", "c", None, "b"]),
    "numbers as categories": ({"kind": "categorical"}, [10, 9, 10, 100, 9, 10]),
    "truth values": ({"kind": "categorical"}, [True, False, True, True, True, False]),
    "categories": (
        {"kind": "categorical", "categories": ["c", "b", "a", "z"]},
        ["b", "a", "b", "c", "a", "b"],
    ),
    "ranks": ({"kind": "ordinal", "categories": ["c", "b", "a", "z"]}, ["b", "a", "b", "c", "a", "b"]),
    "ranks with a null": (
        {"kind": "ordinal", "categories": ["c", "b", "a"], "nullable": True},
        ["b", None, "b", "c", "a", "b"],
    ),
    "numbers": ({"kind": "numeric"}, [10.5, 9.0, 10.5, 100.0, 9.0, 10.5]),
    "numbers with a null": ({"kind": "numeric", "nullable": True}, [10.5, None, 10.5, 1.0, None, 10.5]),
    "whole numbers with a null": (
        {"kind": "numeric", "nullable": True},
        pd.array([3, None, 3, 1, None, 3], dtype="Int64"),
    ),
    "hierarchy": (
        {"hierarchy": [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"], ["d", "y", "*"]]},
        ["b", "a", "b", "c", "a", "b"],
    ),
    "hierarchy with a null": (
        {"hierarchy": [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]], "nullable": True},
        ["b", None, "b", "c", "a", "b"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sensitive_codes_of_a_part_are_those_of_the_table_also_after_writing(
    case: str, engine: Engine, tmp_path: Path
) -> None:
    fields, values = CASES[case]
    schema = DataSchema.from_dict(
        {
            "row": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 9]},
            "secret": {"role": "sensitive", **fields},
        }
    )
    table = pd.DataFrame({"row": range(6), "secret": values})
    known = EncodedTable.encode(table, schema)
    measured = WholeTable.of_files(engine, [stored(table, tmp_path)], schema, ["secret"])
    for whole in (measured, WholeTable.from_dict(json.loads(json.dumps(measured.to_dict())))):
        for rows in ([0, 1, 2, 3, 4, 5], [1, 4], [3]):
            part = EncodedTable.encode(table.iloc[rows], whole.schema, whole.sensitive)
            assert part.sensitive[0].tolist() == known.sensitive[0, rows].tolist()
            assert (
                part.sensitive_domains[0].values
                == pytest.approx(known.sensitive_domains[0].values, nan_ok=True)
                if (isinstance(known.sensitive_domains[0].values, np.ndarray))
                else part.sensitive_domains == known.sensitive_domains
            )
            assert part.sensitive_counts[0].tolist() == known.sensitive_counts[0].tolist()


def test_a_constant_number_needs_no_bounds(engine: Engine, tmp_path: Path) -> None:
    table = people(50).assign(salary=7.0, colour="red")
    whole = WholeTable.of_files(engine, [stored(table, tmp_path)], SCHEMA, [])
    assert whole.schema["salary"].bounds is None
    assert whole.schema["colour"].categories == ("red",)
