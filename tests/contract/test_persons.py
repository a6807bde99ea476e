"""Every anonymizer on tables with many rows a person: what it claims is counted again, row by row."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import InfeasibleError, SchemaError, VerificationError
from privacy_engine.measures.utility import gcp
from privacy_engine.registry import is_anonymizer, load_method, method_names, reads_records
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify
from tests.contract.tables import QUICK

SCHEMA = DataSchema.from_dict(
    {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "district": {"role": "quasi_identifier", "categories": ["d0", "d1", "d2", "d3"]},
        "month": {"role": "quasi_identifier", "kind": "numeric", "bounds": [1, 24]},
        "illness": {"role": "sensitive", "categories": list("abcdef")},
        "person": "patient",
    }
)
CONSTANT = SCHEMA.select(["patient", "age", "district", "illness"])
POLICY = ReleasePolicy(require=(KAnonymity(k=4), DistinctLDiversity(l=2)))
ANONYMIZERS = [name for name in method_names() if is_anonymizer(name)]


def visits(persons: int, rows: Callable[[np.random.Generator, int], np.ndarray]) -> pd.DataFrame:
    """Age and district of a person are constant, the rest is of a visit."""
    rng = np.random.default_rng(11)
    patient = np.repeat(np.arange(persons), rows(rng, persons))
    rng.shuffle(patient)
    age, district = rng.integers(20, 90, persons), rng.integers(0, 4, persons)
    return pd.DataFrame(
        {
            "patient": [f"p{i}" for i in patient],
            "age": age[patient],
            "district": [f"d{i}" for i in district[patient]],
            "month": rng.integers(1, 25, len(patient)),
            "illness": rng.choice(list("abcdef"), len(patient)),
        }
    )


TABLES = {
    "one row each": visits(150, lambda rng, n: np.ones(n, dtype=np.int64)),
    "twenty rows each": visits(60, lambda rng, n: np.full(n, 20)),
    "one to 800 rows": visits(
        50, lambda rng, n: np.concatenate([[800, 300], np.ceil(rng.pareto(1, n - 2))]).astype(np.int64)
    ),
}


def recounted(release: pd.DataFrame, persons: np.ndarray) -> list[tuple[int, int]]:
    """Of each class the persons, and what tells their illnesses apart: by dictionaries alone."""
    classes: dict[tuple[str, ...], dict[str, set[str]]] = {}
    quasi = [name for name in release.columns if name != "illness"]
    for row, person in zip(release.to_dict("records"), persons, strict=True):
        had = classes.setdefault(tuple(str(row[name]) for name in quasi), {})
        had.setdefault(person, set()).add(row["illness"])
    return [
        (len(had), min(len(set().union(*had.values())), len({frozenset(values) for values in had.values()})))
        for had in classes.values()
    ]


# Each method with few rows a person or many, and with both; constant attributes are a special case.
@pytest.mark.quick(
    *(f"{method}-one to 800 rows-varying" for method in ANONYMIZERS),
    *(f"{method}-twenty rows each-varying" for method in ANONYMIZERS[::2]),
    *(f"{method}-one row each-varying" for method in ANONYMIZERS[1::2]),
)
@pytest.mark.parametrize("schema", [CONSTANT, SCHEMA], ids=["constant", "varying"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("method", ANONYMIZERS)
def test_every_class_has_k_persons_and_l_values(method: str, name: str, schema: DataSchema) -> None:
    table = TABLES[name][list(schema.names)]
    releaser = load_method(method, k=4, l=2, **QUICK.get(method, {}))
    release = releaser.release(table, schema, np.random.default_rng(3))
    persons = table["patient"].to_numpy()[release.rows]
    found = recounted(release.table, persons)
    assert min(k for k, _ in found) >= 4
    assert min(values for _, values in found) >= 2
    report = verify(release.table, release.schema, POLICY, persons=persons)
    assert report.passed
    assert report.persons == len(set(persons))
    assert report.findings[0].measured == min(k for k, _ in found)
    assert report.findings[1].measured == min(values for _, values in found)


@pytest.mark.parametrize("method", ANONYMIZERS)
def test_closeness_is_of_persons(method: str) -> None:
    closeness = TCloseness(t=0.3)
    releaser = load_method(method, k=4, require=(closeness,), **QUICK.get(method, {"l": 2}))
    table = TABLES["twenty rows each"]
    release = releaser.release(table, SCHEMA, np.random.default_rng(3))
    persons = table["patient"].to_numpy()[release.rows]
    policy = ReleasePolicy(require=(closeness,))
    assert verify(release.table, release.schema, policy, persons=persons).passed


@pytest.mark.parametrize("method", ANONYMIZERS)
def test_fewer_persons_than_k_are_refused_in_however_many_rows(method: str) -> None:
    table = TABLES["one to 800 rows"]
    few = table[table["patient"].isin(["p0", "p1", "p2"])]
    assert len(few) > 1000
    releaser = load_method(method, k=4, l=2, **QUICK.get(method, {}))
    with pytest.raises(InfeasibleError, match="3 persons"):
        releaser.release(few, SCHEMA, np.random.default_rng(3))


# The loss when searches counted rows, and what they found was merged until it held for persons.
MERGED_AFTERWARDS = {
    "mondrian": 0.0888,
    "bottom_up": 0.0943,
    "ilp_l_diversity": 0.0910,
    "kacluk": 0.6671,
    "obpa": 0.0979,
    "dsaed": 0.2079,
}


def loss(method: str, table: pd.DataFrame, schema: DataSchema) -> float:
    releaser = load_method(method, k=4, l=2)
    return gcp(releaser.release(table[list(schema.names)], schema, np.random.default_rng(3)).recoding)


@pytest.mark.parametrize("method", MERGED_AFTERWARDS)
def test_several_rows_a_person_lose_no_more_than_one_row_each(method: str) -> None:
    table = visits(300, lambda rng, n: np.full(n, 5))
    assert loss(method, table, CONSTANT) <= 1.03 * loss(method, table.drop_duplicates("patient"), CONSTANT)


@pytest.mark.parametrize("method", MERGED_AFTERWARDS)
def test_searching_for_persons_loses_no_more_than_merging_afterwards(method: str) -> None:
    assert loss(method, TABLES["twenty rows each"], SCHEMA) <= MERGED_AFTERWARDS[method]


def test_what_passes_by_rows_is_refused_by_persons() -> None:
    table, rows_only = TABLES["twenty rows each"][list(CONSTANT.names)], replace(CONSTANT, person=None)
    release = load_method("mondrian", k=4, l=2).release(table, rows_only, np.random.default_rng(3))
    assert verify(release.table, release.schema, POLICY).passed
    persons = table["patient"].to_numpy()[release.rows]
    released = replace(release.schema, person=CONSTANT.person)
    report = verify(release.table, released, POLICY, persons=persons)
    assert not report.passed
    assert report.findings[0].measured is not None
    assert report.findings[0].measured < 4


def test_rows_are_not_counted_where_persons_are_named() -> None:
    table = TABLES["twenty rows each"]
    release = load_method("mondrian", k=4).release(table, SCHEMA, np.random.default_rng(3))
    with pytest.raises(VerificationError, match="rows are not people"):
        verify(release.table, release.schema, POLICY)


@pytest.mark.parametrize("method", [n for n in method_names() if not is_anonymizer(n) and reads_records(n)])
def test_a_claim_about_one_row_is_refused_for_persons(method: str) -> None:
    with pytest.raises(SchemaError, match="patient names the person"):
        load_method(method).release(TABLES["one row each"], SCHEMA, np.random.default_rng(3))
