"""Spellings of one identifier are one person: for the numbers of persons, and where identifiers repeat."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.identifiers import Disguise

AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
SPELLINGS = ["P1", "p1 ", "\uff301", "P\u200b1", "P2"]
EXACT = {"allow": "case is part of the card number"}


def copied(folder: Path, who: dict[str, Any], **more: Any) -> Copied:
    pq.write_table(pa.table({"age": [30] * len(SPELLINGS), "who": SPELLINGS}), folder / "source.parquet")
    fields = {"age": AGE, "who": {"role": "identifier", **who}, **more}
    source = find_source(str(folder / "source.parquet"))
    return copy_source(source, DataSchema.from_dict(fields), folder / "copy.parquet")


@pytest.mark.parametrize(("who", "persons"), [({}, 2), ({"exact": EXACT}, 5)], ids=["normal form", "exact"])
def test_a_person_has_one_number_in_all_spellings(tmp_path: Path, who: dict[str, Any], persons: int) -> None:
    numbers = pq.read_table(copied(tmp_path, who, person="who").path)["who"].to_numpy()
    assert len(np.unique(numbers)) == persons


def test_an_identifier_repeats_in_another_spelling(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="who: 3 records repeat another's value"):
        copied(tmp_path, {})


def test_exact_identifiers_do_not_repeat(tmp_path: Path) -> None:
    assert copied(tmp_path, {"exact": EXACT}).rows == len(SPELLINGS)


def test_numbers_that_are_stored_are_those_of_the_normal_form_and_of_the_text_where_it_differs() -> None:
    disguise, exact = Disguise(b"k" * 32), Disguise(b"k" * 32, exact=True)
    numbers, written = disguise.of(pd.Series(SPELLINGS)), exact.of(pd.Series(SPELLINGS))
    assert len(np.unique(numbers)) == 2
    assert len(np.unique(written)) == len(SPELLINGS)
    assert sorted(zip(*disguise.spellings.tolist(), strict=True)) == sorted(
        zip(written.tolist(), numbers.tolist(), strict=True)
    )
    assert exact.spellings.size == 0
