"""The network methods: what is measured, with how much noise, and what is found without it."""

import math
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine import DataSchema, InfeasibleError, SynthesizerModel
from privacy_engine.dp.accounting import total
from privacy_engine.dp.loss import Neighbours
from privacy_engine.synthesizers.bayes.dpsm_bayes import DPSMBayes, Sampling, best_sample_size
from privacy_engine.synthesizers.bayes.network_synthesizer import NetworkSynthesizer, noisy_network
from privacy_engine.synthesizers.bayes.privbayes import PrivBayes, PrivBayesR
from privacy_engine.synthesizers.bayes.scores import mutual_information_sensitivity
from privacy_engine.synthesizers.bayes.structure import Family, useful_cells
from privacy_engine.synthesizers.postprocess import PostProcess
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords

D, N = 6, 4000
BINARY = DataSchema.from_dict({f"a{i}": {"categories": ["0", "1"]} for i in range(D)})
MIXED = DataSchema.from_dict(
    {
        "job": {"categories": [f"j{i}" for i in range(12)]},
        "age": {"kind": "numeric", "bounds": [0, 100], "bins": 10},
        "sex": {"categories": ["f", "m"]},
        "region": {"categories": ["n", "e", "s", "w"]},
    }
)
methods = pytest.mark.parametrize("cls", [PrivBayes, DPSMBayes, PrivBayesR])


def chain(n: int = N, seed: int = 11) -> pd.DataFrame:
    """Each attribute repeats the one before it in 90 % of the records."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 2, n)]
    for _ in range(D - 1):
        columns.append(columns[-1] ^ (rng.random(n) < 0.1))
    return pd.DataFrame({f"a{i}": column.astype(str) for i, column in enumerate(columns)})


def mixed(n: int = N, seed: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 101, n)
    return pd.DataFrame(
        {
            "job": [f"j{i}" for i in np.minimum(age // 10, 9) + rng.integers(0, 3, n)],
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["n", "e", "s", "w"], n),
        }
    )


def tables_of(model: SynthesizerModel) -> list:
    return [spend for spend in model.spends if spend.mechanism == "discrete_laplace"]


def selections_of(model: SynthesizerModel) -> list:
    return [spend for spend in model.spends if spend.mechanism == "noisy_max"]


# --- the structure without noise


@methods
def test_without_noise_a_chain_is_found(cls: type[NetworkSynthesizer]) -> None:
    model = cls(epsilon=1e6, degree=1).measure(chain(), BINARY)
    found = {frozenset(edge) for edge in model.network.edges}
    assert found == {frozenset((f"a{i}", f"a{i + 1}")) for i in range(D - 1)}


@methods
def test_without_noise_the_network_has_the_tables_marginals(cls: type[NetworkSynthesizer]) -> None:
    table = chain()
    model = cls(epsilon=1e6, degree=2).measure(table, BINARY)
    for node in model.network.nodes:
        names = [*node.parents, node.attribute]
        exact = (
            table.groupby(names)
            .size()
            .reindex(
                pd.MultiIndex.from_product([["0", "1"]] * len(names)) if len(names) > 1 else ["0", "1"],
                fill_value=0,
            )
        )
        found = model.network.marginal(names)
        np.testing.assert_allclose(found.ravel(), exact.to_numpy() / N, atol=2e-3)


@methods
def test_the_first_attribute_is_drawn_without_looking_at_the_records(cls: type[NetworkSynthesizer]) -> None:
    """One of two attributes never comes first in 36 networks: 2 * (1/2)^36 = 3e-11."""
    schema = BINARY.select(["a0", "a1"])
    table = chain(64)[list(schema.names)]
    method = cls(epsilon=1e3, degree=1)
    assert {method.measure(table, schema).network.nodes[0].attribute for _ in range(36)} == set(schema.names)


# --- how much noise


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_privbayes_measures_d_minus_k_tables_of_equal_noise(degree: int) -> None:
    model = PrivBayes(epsilon=1.0, degree=degree).measure(chain(), BINARY)
    tables = tables_of(model)
    assert len(tables) == D - degree
    assert all(s.scale == pytest.approx(2 * (D - degree) / 0.7) for s in tables)
    assert {len(s.target.split(", ")) for s in tables} == {degree + 1}


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_dpsm_bayes_measures_all_d_tables(degree: int) -> None:
    """Scale 2 d / e2 on counts is 2 d / (n e2) on probabilities: IMLap-Noisy, step (4)."""
    model = DPSMBayes(epsilon=1.0, degree=degree).measure(chain(), BINARY)
    assert len(tables_of(model)) == D
    assert all(s.scale == pytest.approx(2 * D / 0.7) for s in tables_of(model))


def test_privbayes_selects_with_the_paper_s_noise() -> None:
    """Twice the sensitivity over e1 / (d - 1), in units of 2^-40 bits; the rounding adds less than 1e-6."""
    (selection,) = selections_of(PrivBayes(epsilon=1.0, degree=2).measure(chain(), BINARY))
    assert selection.runs == D - 1
    assert selection.epsilon == pytest.approx(0.3)
    bits = selection.scale / 2**40
    expected = 2 * mutual_information_sensitivity(N, binary=True) * (D - 1) / 0.3
    assert bits == pytest.approx(expected, rel=1e-6)
    assert bits >= expected


def test_attributes_of_more_values_take_the_general_sensitivity() -> None:
    (selection,) = selections_of(PrivBayes(epsilon=1.0).measure(mixed(), MIXED))
    expected = mutual_information_sensitivity(N, binary=False)
    assert selection.sensitivity / 2**40 == pytest.approx(expected, rel=1e-6)


def test_one_sample_amplifies_the_composed_selection_once() -> None:
    model = DPSMBayes(epsilon=0.5, degree=2).measure(chain(), BINARY)
    (selection,) = selections_of(model)
    m = best_sample_size(N, selection.epsilon, D - 1, binary=True, sampling=Sampling.ONE)
    assert selection.sample == (m, N)
    assert selection.runs == D - 1
    inner = math.log(math.exp(selection.epsilon) - 1 + m / N) - math.log(m / N)  # SMBayes, step (3)
    expected = 2 * mutual_information_sensitivity(m, binary=True) * (D - 1) / inner
    assert selection.scale / 2**40 == pytest.approx(expected, rel=1e-6)


def test_fresh_samples_amplify_every_pick() -> None:
    model = DPSMBayes(epsilon=0.5, degree=2, sampling="fresh").measure(chain(), BINARY)
    selections = selections_of(model)
    assert len(selections) == D - 1
    assert {(s.runs, s.sample) for s in selections} == {(1, selections[0].sample)}
    m = selections[0].sample[0]
    one = 0.15 / (D - 1)
    inner = math.log(math.exp(one) - 1 + m / N) - math.log(m / N)
    expected = 2 * mutual_information_sensitivity(m, binary=True) / inner
    assert selections[0].scale / 2**40 == pytest.approx(expected, rel=1e-6)


@methods
@pytest.mark.parametrize("parameters", [{"degree": 2}, {}, {"structure_share": 0.9}], ids=str)
def test_every_mechanism_has_the_noise_that_its_epsilon_needs(
    cls: type[NetworkSynthesizer], parameters: dict[str, float]
) -> None:
    model = cls(epsilon=0.7, **parameters).measure(mixed(), MIXED)
    assert all(s.epsilon_of_noise <= s.epsilon for s in model.spends)
    assert 0.7 - 1e-9 < total(model.spends, Neighbours.REPLACE_ONE).epsilon <= 0.7


@methods
def test_where_no_parent_is_useful_the_tables_get_the_whole_budget(cls: type[NetworkSynthesizer]) -> None:
    model = cls(epsilon=0.01).measure(chain(100), BINARY)
    assert model.network.edges == ()
    assert not selections_of(model)
    assert len(tables_of(model)) == D
    assert all(s.scale == pytest.approx(2 * D / 0.01) for s in tables_of(model))


# --- which tables


@methods
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_mixed_families_stay_within_the_useful_cells(cls: type[NetworkSynthesizer], epsilon: float) -> None:
    model = cls(epsilon=epsilon, theta=4.0).measure(mixed(), MIXED)
    limit = useful_cells(N, (1 - cls().structure_share) * epsilon, 4, 4.0)
    assert all(node.table.size <= limit for node in model.network.nodes if node.parents)


def test_families_within_another_one_are_read_from_its_table() -> None:
    """And agree with it: both come from the same noisy counts."""
    coded = CodedTable.encode(mixed(), MIXED)
    families = [
        Family(child=2, parents=()),
        Family(child=3, parents=(2,)),
        Family(child=1, parents=(3, 2)),
    ]
    records = WeightedRecords.of(coded.take(np.arange(N)))
    rest = Family(child=0, parents=(1,))
    network, spends = noisy_network(
        coded, records, [*families, rest], measured=[2, 3], epsilon=0.5, rule=PostProcess.CLIP
    )
    assert [s.target for s in spends] == ["region, sex, age", "age, job"]
    joint = network.marginal(["region", "sex", "age"])
    sex, region = network.nodes[0].table, network.nodes[1].table
    np.testing.assert_allclose(joint.sum(axis=(0, 2)), sex)
    np.testing.assert_allclose(joint.sum(axis=2).T, region * sex[:, None])


@pytest.mark.parametrize(("rule", "left"), [("threshold", 0.0), ("clip", 2e-4), ("simplex", 2e-4)])
def test_the_rule_of_post_processing_can_be_chosen(rule: str, left: float) -> None:
    """Hardly any noise; one record in 5,000 is below the grid of thresholds and above nothing else."""
    table = pd.DataFrame({"a0": ["0"] * 2500 + ["1"] * 2499 + ["0"], "a1": ["0"] * 2500 + ["1"] * 2500})
    schema = BINARY.select(["a0", "a1"])
    model = DPSMBayes(epsilon=1e6, degree=1, post_process=rule).measure(table, schema)
    assert model.network.marginal(["a0", "a1"])[0, 1] == pytest.approx(left, abs=1e-5)


# --- the best sample


@given(st.integers(2, 60), st.floats(1e-4, 5), st.integers(1, 20), st.booleans(), st.sampled_from(Sampling))
def test_the_sample_size_has_the_least_noise_to_signal(
    rows: int, epsilon: float, picks: int, binary: bool, sampling: Sampling
) -> None:
    budget = epsilon if sampling is Sampling.ONE else epsilon / picks

    def noise(m: int) -> float:
        inner = math.log(math.expm1(budget) + m / rows) - math.log(m / rows)
        return mutual_information_sensitivity(m, binary=binary) / inner

    m = best_sample_size(rows, epsilon, picks, binary=binary, sampling=sampling)
    assert 2 <= m <= rows
    assert noise(m) <= min(map(noise, range(2, rows + 1))) * (1 + 1e-9)


def test_a_large_budget_samples_everybody() -> None:
    assert best_sample_size(1000, 50.0, 5, binary=True, sampling=Sampling.ONE) == 1000


# --- refusals


@methods
@pytest.mark.parametrize(
    "bad",
    [
        {"structure_share": 0.0},
        {"structure_share": 1.0},
        {"structure_share": "0.5"},
        {"degree": -1},
        {"degree": 1.5},
        {"theta": 0.0},
        {"theta": math.inf},
        {"theta": math.nan},
        {"cell_limit": 0},
        {"cell_limit": 2**40},
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_at_construction(
    cls: type[NetworkSynthesizer], bad: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        cls(**bad)


@pytest.mark.parametrize("bad", [{"sampling": "none"}, {"post_process": "round"}], ids=str)
def test_an_unknown_choice_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be one of"):
        DPSMBayes(**bad)


@methods
def test_too_few_rows_for_the_degree_are_infeasible(cls: type[NetworkSynthesizer]) -> None:
    with pytest.raises(InfeasibleError, match=r"7 rows are fewer than the 8 cells.*lower the degree"):
        cls(degree=2).measure(chain(7), BINARY)


@methods
def test_tables_beyond_the_cell_limit_are_infeasible(cls: type[NetworkSynthesizer]) -> None:
    with pytest.raises(InfeasibleError, match=r"'job': 12.*cell limit of 400"):
        cls(degree=2, cell_limit=400).measure(mixed(), MIXED)


@methods
def test_an_epsilon_too_small_for_any_noise_is_refused(cls: type[NetworkSynthesizer]) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        cls(epsilon=1e-19).measure(chain(100), BINARY)


# --- the survey of the papers


@pytest.fixture(scope="module")
def nltcs() -> tuple[pd.DataFrame, DataSchema]:
    if not os.environ.get("PRIVACY_DATA"):
        pytest.skip("PRIVACY_DATA must name the folder of the reference tables")
    table = pd.read_parquet(f"{os.environ['PRIVACY_DATA']}/nltcs.parquet")
    return table, DataSchema.from_dict({name: {"categories": [0, 1]} for name in table})


@pytest.mark.needs_data
@pytest.mark.parametrize(("cls", "degree"), [(PrivBayes, 6), (DPSMBayes, 5)])
def test_nltcs_gets_the_degree_that_theta_allows(
    nltcs: tuple[pd.DataFrame, DataSchema], cls: type[NetworkSynthesizer], degree: int
) -> None:
    model = cls(epsilon=0.8).measure(*nltcs)
    assert max(len(parents) for parents in model.structure().values()) == degree


@pytest.mark.needs_data
@methods
def test_nltcs_is_drawn_far_better_than_attribute_by_attribute(
    nltcs: tuple[pd.DataFrame, DataSchema], cls: type[NetworkSynthesizer]
) -> None:
    """Mean total variation distance over all pairs: about .02, and .15 for independent columns.

    The bound lies more than ten standard deviations (.004, of 20 runs) above the mean.
    """
    table, schema = nltcs
    release = cls(epsilon=1.6).release(table, schema, np.random.default_rng(1))
    real, drawn = table.to_numpy().astype(float), release.table.to_numpy().astype(float)

    def pairs(x: np.ndarray) -> np.ndarray:
        return np.stack([(a.T @ b) / len(x) for a in (x, 1 - x) for b in (x, 1 - x)])

    distance = 0.5 * np.abs(pairs(real) - pairs(drawn)).sum(axis=0)
    assert distance[np.triu_indices(16, 1)].mean() < 0.08
