"""Searches without some of the records, under models that compare classes with all that is released."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, Release, load_method
from privacy_engine.anonymizers.bottom_up import BottomUp
from privacy_engine.anonymizers.local_recoding import LocalRecoding
from privacy_engine.measures.recoding import Recoding
from privacy_engine.measures.utility import gcp
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.recoding.quotas.search import CYCLES, QuotaSearch
from privacy_engine.recoding.quotas.suppression import of_outliers, of_rare_values
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.verification.models import DeltaDisclosure, model_from_dict

FIELDS = {
    "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
    "weight": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 200]},
    "disease": {"role": "sensitive"},
}
SCHEMA = DataSchema.from_dict(FIELDS)
BOUNDS = ["age_from", "age_to", "weight_from", "weight_to"]
METHODS = ("mondrian", "bottom_up", "obpa")


def patients(rare: int = 0, far: int = 0, n: int = 300) -> pd.DataFrame:
    """Records of three diseases, a few of a rare one, and a few that lie together far from all others."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": [*rng.integers(20, 40, n), *rng.integers(20, 40, rare), *[99] * far],
            "weight": [*rng.integers(50, 80, n), *rng.integers(50, 80, rare), *[199] * far],
            "disease": [*rng.choice(["flu", "cold", "gout"], n, p=[0.5, 0.3, 0.2]), *["ague"] * rare]
            + ["flu"] * far,
        }
    )


def made(
    name: str, table: pd.DataFrame, model: Mapping[str, object], limit: float, **parameters: object
) -> Release:
    method = load_method(name, **{"k": 4, **parameters}, suppression_limit=limit, require=(model,))
    return method.release(table, SCHEMA, np.random.default_rng(2))


def least_size(release: Release) -> int:
    return int(release.table.groupby(BOUNDS).size().min())


def shares(release: Release) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Of each disease in the released table and in each class, counted by plain code."""

    def of(values: list[str]) -> dict[str, float]:
        return {value: count / len(values) for value, count in Counter(values).items()}

    classes: dict[tuple[int, ...], list[str]] = {}
    for *box, disease in release.table[[*BOUNDS, "disease"]].itertuples(index=False):
        classes.setdefault(tuple(box), []).append(disease)
    return of(list(release.table["disease"])), [of(values) for values in classes.values()]


T, BETA, DELTA = (
    {"model": "t_closeness", "t": 0.2},
    {"model": "beta_likeness", "beta": 1.0},
    {"model": "delta_disclosure", "delta": 1.5},
)


@pytest.mark.parametrize("name", METHODS)
def test_classes_are_compared_with_the_table_of_what_is_kept(name: str) -> None:
    table = patients(rare=2)
    for model in (T, BETA, DELTA):
        release = made(name, table, model, 0.05)
        whole, classes = shares(release)
        assert least_size(release) >= 4
        for own in classes:
            if model is T:
                assert sum(abs(own.get(v, 0) - p) for v, p in whole.items()) / 2 <= 0.2 + 1e-9
            elif model is BETA:
                assert all((q - whole[v]) / whole[v] <= 1.0 + 1e-9 for v, q in own.items())
            else:
                assert all(v in own and abs(math.log(own[v] / p)) < 1.5 for v, p in whole.items())


@pytest.mark.quick("beta-mondrian", "delta-bottom_up", "beta-obpa")
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("model", [BETA, DELTA], ids=["beta", "delta"])
def test_a_few_records_of_a_rare_value_do_not_make_all_classes_large(
    name: str, model: Mapping[str, object]
) -> None:
    table = patients(rare=2)
    without, by_leave = (made(name, table, model, limit) for limit in (0.0, 0.01))
    assert "ague" not in set(by_leave.table["disease"])
    assert without.recoding is not None
    assert by_leave.recoding is not None
    assert by_leave.recoding.suppressed == 2
    assert gcp(by_leave.recoding) < 0.5 * gcp(without.recoding)


@pytest.mark.parametrize("name", METHODS)
def test_outliers_that_lie_together_go_together(name: str) -> None:
    table = patients(far=3)
    without, by_leave = (made(name, table, T, limit, k=20) for limit in (0.0, 0.01))
    assert without.recoding is not None
    assert by_leave.recoding is not None
    assert without.recoding.suppressed == 0
    assert by_leave.recoding.suppressed == 3
    assert gcp(by_leave.recoding) < gcp(without.recoding) - 0.02


@dataclass(frozen=True, kw_only=True)
class CountedRecoding(LocalRecoding):
    """A recoding that notes the records of each table that is cut again, or whose classes are improved."""

    cuts: list[int]
    improvements: list[int]

    def cut(self, encoded: EncodedTable) -> Ints:
        self.cuts.append(len(encoded))
        return super().cut(encoded)

    def improved(
        self, encoded: EncodedTable, labels: Ints, rng: np.random.Generator, cycles: int = CYCLES
    ) -> Ints:
        self.improvements.append(len(encoded))
        return super().improved(encoded, labels, rng, cycles)


@dataclass(frozen=True, kw_only=True)
class Counted(BottomUp):
    """Bottom-up that notes the records of each run of the whole method and of what follows it."""

    runs: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    improvements: list[int] = field(default_factory=list)

    def local_recoding(self, encoded: EncodedTable) -> LocalRecoding:
        plain = super().local_recoding(encoded)
        parameters = {own.name: getattr(plain, own.name) for own in fields(plain)}
        return CountedRecoding(**parameters, cuts=self.cuts, improvements=self.improvements)

    def anonymize(self, encoded: EncodedTable, rng: np.random.Generator) -> Recoding:
        self.runs.append(len(encoded))
        return super().anonymize(encoded, rng)


@pytest.mark.parametrize("model", [T, BETA, DELTA], ids=["t", "beta", "delta"])
def test_leave_to_suppress_runs_the_whole_method_once_and_loses_no_more_the_larger_it_is(
    model: Mapping[str, object],
) -> None:
    losses: list[float] = []
    for limit in (0.0, 0.01, 0.3):
        method = Counted(k=4, suppression_limit=limit, require=(model_from_dict(model),))
        release = method.release(patients(rare=2, far=3), SCHEMA, np.random.default_rng(2))
        assert method.runs == [305]
        assert release.recoding is not None
        losses.append(gcp(release.recoding))
    assert losses == sorted(losses, reverse=True)
    assert model is T or losses[-1] < losses[0]


@pytest.mark.parametrize("model", [T, BETA, DELTA], ids=["t", "beta", "delta"])
def test_each_set_of_rare_values_is_cut_once_and_few_are_improved(model: Mapping[str, object]) -> None:
    method = Counted(k=4, suppression_limit=0.3, require=(model_from_dict(model),))
    method.release(patients(rare=2), SCHEMA, np.random.default_rng(2))
    assert method.cuts == [300, 241]  # without ague, and without gout
    assert 302 not in method.improvements
    assert all(method.improvements.count(size) <= 1 for size in method.cuts)


@pytest.mark.parametrize("model", [T, BETA, DELTA], ids=["t", "beta", "delta"])
def test_classes_are_grown_under_quotas_as_often_with_a_limit_as_without(
    model: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, searches = QuotaSearch.starts, Counter[float]()

    def counted(search: QuotaSearch, rng: np.random.Generator) -> list[Ints]:
        searches[limit] += 1
        return plain(search, rng)

    monkeypatch.setattr(QuotaSearch, "starts", counted)
    for limit in (0.0, 0.3):
        made("bottom_up", patients(rare=2, far=3), model, limit)
    assert searches[0.3] == searches[0.0] > 0


def test_a_set_is_not_improved_where_a_slightly_larger_one_begins_far_lower() -> None:
    table = pd.concat([patients(n=1000), patients(rare=1, n=0), patients(rare=2, n=0)], ignore_index=True)
    table.iloc[-3, table.columns.get_loc("disease")] = "rabies"
    method = Counted(k=4, suppression_limit=0.02, require=(model_from_dict(BETA),))
    method.release(table, SCHEMA, np.random.default_rng(2))
    assert method.cuts[:2] == [1002, 1000]
    assert 1002 not in method.improvements
    assert 1000 in method.improvements


def test_a_method_that_is_not_refined_searches_again_as_it_is() -> None:
    method = Counted(k=4, suppression_limit=0.01, require=(model_from_dict(BETA),), refine=False)
    method.release(patients(rare=2), SCHEMA, np.random.default_rng(2))
    assert method.runs[:2] == [302, 300]


def test_persons_are_counted_where_a_person_has_several_records() -> None:
    table = patients(rare=2).assign(patient=lambda t: np.arange(len(t)) // 2)  # the rare ones are of one
    schema = DataSchema.from_dict({**FIELDS, "patient": {"role": "identifier"}, "person": "patient"})
    method = load_method("bottom_up", k=4, suppression_limit=0.01, require=(BETA,))
    release = method.release(table, schema, np.random.default_rng(2))
    assert release.persons is not None
    assert release.recoding is not None
    assert 0 < release.recoding.suppressed <= 3
    rows = release.table.assign(patient=release.persons)

    def weights(rows: pd.DataFrame) -> dict[str, float]:
        """Each person weighs one, spread evenly over the diseases that they have there."""
        had = rows.groupby("patient")["disease"].unique()
        spread = Counter[str]()
        for diseases in had:
            spread.update({disease: 1 / len(diseases) for disease in diseases})
        return {disease: weight / len(had) for disease, weight in spread.items()}

    whole = weights(rows)
    for _, own in rows.groupby(BOUNDS):
        assert own["patient"].nunique() >= 4
        assert all((q - whole[v]) / whole[v] <= 1.0 + 1e-9 for v, q in weights(own).items())


def test_what_leaves_too_few_values_is_not_done() -> None:
    table = patients(rare=2)
    table = table[table["disease"].isin(["flu", "cold", "ague"])]
    release = made("bottom_up", table, BETA, 0.02, l=3)
    assert set(release.table["disease"]) == {"flu", "cold", "ague"}
    assert all(len(own) == 3 for own in shares(release)[1])


def test_the_rarest_values_come_first_and_stay_gone() -> None:
    encoded = EncodedTable.encode(patients(rare=2), SCHEMA)
    rungs = list(of_rare_values(encoded.sensitive, compile_constraints([DeltaDisclosure(delta=1)], encoded)))
    gone = [set(encoded.table["disease"].take(rows)) for rows in rungs]
    assert gone[:3] == [{"ague"}, {"ague", "gout"}, {"ague", "gout", "cold"}]
    assert len(rungs[0]) == 2


def test_parts_that_pay_are_listed_within_each_share_and_nothing_else() -> None:
    encoded = EncodedTable.encode(patients(far=3), SCHEMA)
    rungs = list(of_outliers(encoded.codes, np.zeros(303, np.int64), encoded.geometry()))
    far = np.flatnonzero(encoded.table["age"].to_numpy() == 99)
    assert [rows.tolist() for rows in rungs] == [far.tolist()]  # the other records span little without them
    classes = (encoded.table["age"].to_numpy() == 99).astype(np.int64)
    assert list(of_outliers(encoded.codes, classes, encoded.geometry())) == []
