"""Verification of several tables as one: each model by the rows of its table, in memory and by SQL."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privacy_engine.engines.checking import PERSON, PSEUDONYM, examine_files, verify_files
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import SchemaError, VerificationError
from privacy_engine.tables.linked import schema_of_tables, stacked
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.known_rows import RowIntersection
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.verify import verify

VISITS = {
    "who": {"role": "identifier"},
    "month": {"role": "quasi_identifier", "nullable": True},
    "illness": {"role": "sensitive", "nullable": True},
}
SCHEMA = schema_of_tables(
    {
        "people": DataSchema.from_dict(
            {
                "who": {"role": "identifier"},
                "district": {"role": "quasi_identifier", "nullable": True},
                "income": {"role": "sensitive"},
            }
        ),
        "visits": DataSchema.from_dict(VISITS),
    },
    "who",
).with_pseudonym()
MODELS = (
    KAnonymity(k=2),
    DistinctLDiversity(l=2),
    DistinctLDiversity(l=2, attribute="illness"),
    DistinctLDiversity(l=2, attribute="income"),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=2, l=2),
    TCloseness(t=0.3),
    AlphaKAnonymity(alpha=0.6, k=2),
    BetaLikeness(beta=0.7),
    DeltaDisclosure(delta=1),
    RowIntersection(l=2),
)
POLICY = ReleasePolicy(require=MODELS[:-1], known_rows=MODELS[-1:])
people = st.tuples(st.sampled_from("uvwxyz"), st.sampled_from(["a", "b", None]), st.sampled_from("12"))
visits = st.tuples(
    st.sampled_from("uvwxyz"), st.sampled_from(["m", "n", None]), st.sampled_from(["flu", "cold", None])
)
few = settings(
    max_examples=settings.default.max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
some = given(st.lists(people, min_size=1, max_size=6), st.lists(visits, min_size=1, max_size=8))
Row = tuple[str, str | None, str | None]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(memory=10**9, spill=tmp_path_factory.mktemp("spill")) as opened:
        yield opened


def frame(patients: list[Row], stays: list[Row]) -> pd.DataFrame:
    return stacked(
        {
            "people": pd.DataFrame(patients, columns=["who", "district", "income"], dtype="str"),
            "visits": pd.DataFrame(stays, columns=["who", "month", "illness"], dtype="str"),
        }
    )[list(SCHEMA.names)]


def classes(patients: list[Row], stays: list[Row]) -> list[list[str]]:
    """The persons of each class, in loops."""
    ways: dict[str, Counter[Any]] = defaultdict(Counter)
    for name, rows in (("people", patients), ("visits", stays)):
        for who, quasi, _ in rows:
            ways[who][name, quasi] += 1
    found = defaultdict(list)
    for who, way in ways.items():
        found[frozenset(way.items())].append(who)
    return list(found.values())


def distributions(found: list[list[str]], rows: list[Row]) -> list[dict[str | None, float]]:
    """Of each class with rows in a table the values of its persons there, who weigh one each."""
    had = defaultdict(set)
    for who, _, value in rows:
        had[who].add(value)
    shares = []
    for class_ in found:
        own: dict[str | None, float] = defaultdict(float)
        there = [who for who in class_ if who in had]
        for who in there:
            for value in had[who]:
                own[value] += 1 / len(had[who]) / len(there)
        if own:
            shares.append(dict(own))
    return shares


def written(table: pd.DataFrame, engine: LocalEngine, name: str = "rows") -> list[str]:
    path = Path(engine.spill) / f"{name}.parquet"
    kinds = pa.schema([(n, pa.string()) for n in table.columns])
    pq.write_table(pa.Table.from_pandas(table, kinds, preserve_index=False), path)
    return [str(path)]


@few
@some
def test_each_model_is_measured_by_the_rows_of_its_table(patients: list[Row], stays: list[Row]) -> None:
    report = verify(frame(patients, stays), SCHEMA, POLICY)
    found = classes(patients, stays)
    fields = {finding.rule: finding.measured for finding in report.findings}
    assert report.classes == len(found)
    assert report.persons == len({who for who, *_ in [*patients, *stays]})
    assert fields["k_anonymity(k=2)"] == min(map(len, found))
    entropies = [
        math.exp(-sum(q * math.log(q) for q in values.values()))
        for rows in (patients, stays)
        for values in distributions(found, rows)
    ]
    assert fields["entropy_l_diversity(l=1.5)"] == pytest.approx(min(entropies))
    for rows, attribute in ((patients, "income"), (stays, "illness")):
        (whole,) = distributions([list({who for who, *_ in rows})], rows)
        furthest = max(
            sum(abs(values.get(s, 0) - q) for s, q in whole.items()) / 2
            for values in distributions(found, rows)
        )
        one = verify(
            frame(patients, stays), SCHEMA, ReleasePolicy(require=(TCloseness(t=0.3, attribute=attribute),))
        )
        assert one.findings[0].measured == pytest.approx(furthest, abs=1e-9)


@few
@some
def test_the_engine_reports_the_same(engine: LocalEngine, patients: list[Row], stays: list[Row]) -> None:
    table = frame(patients, stays)
    by_frame, by_files = (
        verify(table, SCHEMA, POLICY),
        verify_files(engine, written(table, engine), SCHEMA, POLICY),
    )
    assert by_files.to_dict() == by_frame.to_dict()


PATIENTS_ALIKE: list[Row] = [("u", "a", "1"), ("v", "a", "2")]
STAYS_ALIKE: list[Row] = [("u", "m", "flu"), ("v", "m", "cold")]
K2 = ReleasePolicy(require=(KAnonymity(k=2),))


def both(table: pd.DataFrame, engine: LocalEngine) -> Iterator[Any]:
    """Verification in memory and by the engine."""
    yield lambda: verify(table, SCHEMA, K2)
    yield lambda: verify_files(engine, written(table, engine), SCHEMA, K2)


def test_persons_alike_in_one_table_are_distinguished_by_the_other(engine: LocalEngine) -> None:
    for judge in both(frame(PATIENTS_ALIKE, STAYS_ALIKE), engine):
        assert judge().passed
    for other in ([*STAYS_ALIKE[:1], ("v", "n", "cold")], STAYS_ALIKE[:1], [*STAYS_ALIKE, STAYS_ALIKE[0]]):
        for judge in both(frame(PATIENTS_ALIKE, other), engine):
            assert judge().findings[0].measured == 1


def test_a_value_where_a_table_has_no_column_is_refused_and_not_reported(engine: LocalEngine) -> None:
    table = frame(PATIENTS_ALIKE, STAYS_ALIKE)
    table.loc[0, "illness"] = "canary"
    for judge in both(table, engine):
        with pytest.raises(
            VerificationError, match=r"people does not have the columns \['illness'\]"
        ) as error:
            judge()
        assert "canary" not in str(error.value)


@pytest.mark.parametrize("name", ["canary", None])
def test_a_row_of_no_table_is_refused_and_not_reported(engine: LocalEngine, name: str | None) -> None:
    table = frame(PATIENTS_ALIKE, STAYS_ALIKE)
    table.loc[0, "table_name"] = name
    for judge in both(table, engine):
        with pytest.raises(VerificationError, match="it has 1 other values") as error:
            judge()
        assert "canary" not in str(error.value)


@pytest.mark.parametrize(("persons", "fine"), [("uvuv", True), ("uvuw", False), ("uuuu", False)])
def test_a_pseudonym_is_one_person_in_all_tables(engine: LocalEngine, persons: str, fine: bool) -> None:
    table = frame(PATIENTS_ALIKE, STAYS_ALIKE)
    reported = written(pd.DataFrame({PSEUDONYM: table["who"], PERSON: list(persons)}), engine, "people")
    files = written(table, engine)
    if fine:
        assert verify_files(engine, files, SCHEMA, K2, by_person=reported).passed
        assert verify(table, SCHEMA, K2, persons=np.array(list(persons))).passed
        return
    with pytest.raises(VerificationError, match="one pseudonym for each person"):
        verify_files(engine, files, SCHEMA, K2, by_person=reported)
    with pytest.raises(VerificationError, match="one pseudonym for each person"):
        verify(table, SCHEMA, K2, persons=np.array(list(persons)))


def test_a_model_of_an_attribute_that_no_table_has_is_refused(engine: LocalEngine) -> None:
    table = frame(PATIENTS_ALIKE, STAYS_ALIKE)
    policy = ReleasePolicy(require=(DistinctLDiversity(l=2, attribute="district"),))
    with pytest.raises(SchemaError, match="district"):
        verify(table, SCHEMA, policy)
    with pytest.raises(SchemaError, match="district"):
        verify_files(engine, written(table, engine), SCHEMA, policy)


def test_several_tables_are_not_examined_as_one(engine: LocalEngine) -> None:
    with pytest.raises(SchemaError, match="several tables"):
        examine_files(engine, written(frame(PATIENTS_ALIKE, STAYS_ALIKE), engine), SCHEMA, K2)
