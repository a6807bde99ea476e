"""Attributes of many nominal values: sensitivities by brute force, what is found, and what is drawn."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.dp.accounting import check_bookkeeping, total
from privacy_engine.synthesizers.bayes.scores import dependence_sensitivity
from privacy_engine.synthesizers.latent import large_search
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.large_attributes import LargeAttributes
from privacy_engine.synthesizers.latent.large_search import LargeShare, excess, find_large, readable
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.repeated.following import followed, opened
from privacy_engine.tables.domains import CodedTable
from tests.neighbours import neighbours

Ints = npt.NDArray[np.int64]
DELTA = 1e-9
CODES, REGIONS = 120, 5


def schema(*, declared: bool = False) -> DataSchema:
    """A code of 120 values, its region, another attribute of 120 values, and one of two."""
    code: dict[str, Any] = {"categories": [f"c{v}" for v in range(CODES)]}
    if declared:
        code = {"hierarchy": [[f"c{v}", f"r{v % REGIONS}", "*"] for v in range(CODES)]}
    return DataSchema.from_dict(
        {
            "code": code,
            "region": {"categories": [f"r{v}" for v in range(REGIONS)]},
            "copy": {"categories": [f"v{v}" for v in range(CODES)]},
            "sex": {"categories": ["f", "m"]},
        }
    )


def table(n: int = 6_000, *, exceptions: float = 0.0, copied: float = 1.0, seed: int = 1) -> pd.DataFrame:
    """Codes of equal share; exceptions have a region at random, and some copies of the code are none."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, CODES, n)
    region = np.where(rng.random(n) < exceptions, rng.integers(0, REGIONS, n), code % REGIONS)
    copy = np.where(rng.random(n) < copied, code, rng.integers(0, CODES, n))
    sex = np.where(rng.random(n) < 0.9, region % 2, 1 - region % 2)
    return pd.DataFrame(
        {
            "code": [f"c{v}" for v in code],
            "region": [f"r{v}" for v in region],
            "copy": [f"v{v}" for v in copy],
            "sex": np.where(sex == 0, "f", "m"),
        }
    )


def method(**given: Any) -> LatentClass:
    """A quick method."""
    return LatentClass(**{"epsilon": 4.0, "classes": 4, "fits": 1, "rules": 0, **given})


def broken(released: pd.DataFrame) -> float:
    """Share of the records whose region is not that of their code."""
    return float(
        (released["code"].str[1:].astype(int) % REGIONS != released["region"].str[1:].astype(int)).mean()
    )


# --- sensitivities


@pytest.mark.quick("shape0-5")  # the other has many more neighbours
@pytest.mark.parametrize(("shape", "n"), [((3, 2), 5), ((3, 3), 4)])
def test_one_replaced_record_changes_the_scores_by_no_more_than_the_choice_hides(
    shape: tuple[int, int], n: int
) -> None:
    least = np.rint(np.random.default_rng(1).normal(0.5, 1, shape))
    pairs = neighbours(shape, n)
    bound = dependence_sensitivity(1)
    assert 2 <= max(abs(excess(after) - excess(before)) for before, after in pairs) <= bound
    seen = [abs(readable(after, least) - readable(before, least)) for before, after in pairs]
    assert max(seen) == 2  # one cell above its number gains or loses one, which counts twice


def test_the_noise_of_each_step_hides_all_rows_of_a_person() -> None:
    coded = replace(CodedTable.encode(table(), schema()), each=3)
    inputs = Inputs.of(coded, method(epsilon=50.0).noise())
    share = LargeShare.of(inputs)
    assert share is not None
    find_large(inputs, share)
    assert {(s.mechanism, s.sensitivity) for s in inputs.noise.spends} == {
        ("discrete_laplace", 2 * 3),
        ("noisy_max", 6 * 3),
    }
    declared = Inputs.of(
        replace(CodedTable.encode(table(), schema(declared=True)), each=3), method(epsilon=50.0).noise()
    )
    share = LargeShare.of(declared)
    assert share is not None
    find_large(declared, share)
    assert declared.noise.spends[2].target == "code, region"
    assert declared.noise.spends[2].sensitivity == 3  # of a count of exceptions


# --- the parts of the budget


@pytest.mark.quick("0.0-False-1e-09", "0.0-True-0.0", "1.0-False-0.0", "1.0-True-1e-09")
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("exceptions", [0.0, 1.0])
def test_the_books_fill_the_claim_whatever_was_found(delta: float, declared: bool, exceptions: float) -> None:
    own, fields = method(delta=delta, classes=1, replicates=0), schema(declared=declared)
    model = own.measure(table(exceptions=exceptions), fields)
    findings = check_bookkeeping(model.loss, model.spends, fields, own.privacy_loss(fields))
    assert all(finding.passed for finding in findings), findings
    spent = total(model.spends, model.loss.neighbours, delta).epsilon
    assert spent == pytest.approx(4.0, rel=1e-6)
    assert spent <= 4.0


def test_the_parts_depend_on_public_sizes_only_and_there_are_none_for_few_records() -> None:
    coded = CodedTable.encode(table(), schema())
    same = replace(coded, codes=np.ascontiguousarray(coded.codes[:, ::-1] * 0))
    shares = [LargeShare.of(Inputs.of(of, method().noise())) for of in (coded, same)]
    assert shares[0] == shares[1]
    assert shares[0] is not None
    few = coded.take(np.arange(200))
    assert LargeShare.of(Inputs.of(few, method(epsilon=0.5).noise())) is None
    small = CodedTable.encode(table()[["region", "sex"]], schema().select(["region", "sex"]))
    assert LargeShare.of(Inputs.of(small, method().noise())) is None


def test_what_is_found_is_a_function_of_the_noisy_tables() -> None:
    """With the noise replaced by the same figures, other records give the same result."""
    coded = CodedTable.encode(table(), schema())
    other = replace(coded, codes=np.ascontiguousarray(coded.codes[:, :1].repeat(len(coded), axis=1)))
    found = []
    for records in (coded, other):
        inputs = Inputs.of(records, method().noise())
        share = LargeShare.of(inputs)
        assert share is not None
        given = iter(range(10))
        patch = pytest.MonkeyPatch()
        with patch.context() as fixed:
            fixed.setattr(
                type(inputs.noise), "_noisy", lambda _, counts, *a, g=given: _figures(counts, next(g))
            )
            fixed.setattr(type(inputs.noise), "_chosen", lambda _, scores, *a: 0)
            large, left = find_large(inputs, share)
        found.append((json.dumps(large.to_dict()), left))
    assert found[0] == found[1]


def _figures(counts: Ints, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(0, 200, counts.shape)


# --- what is released


def test_a_function_is_kept_and_large_attributes_are_drawn_last() -> None:
    # The right choices lead by 21 scales of their noise: another is made less than once in 1e8 runs.
    model = method(epsilon=20.0, replicates=0).measure(table(12_000, copied=0.0), schema())
    assert model.structure()["code"] == ["region"]
    assert model.structure()["copy"] == ["copy group"]
    released = method().release_of(model, schema(), np.random.default_rng(1)).table
    assert broken(released) == 0
    assert list(released.columns) == list(schema().names)
    assert ((released["region"].isin(["r1", "r3"])) == (released["sex"] == "m")).mean() > 0.8


def test_a_copy_of_a_large_attribute_follows_it() -> None:
    model = method(epsilon=20.0, replicates=0).measure(table(copied=0.9, exceptions=1.0), schema())
    structure = model.structure()
    assert structure["copy"] == ["code"] or structure["code"] == ["copy"]
    released = method().release_of(model, schema(), np.random.default_rng(1)).table
    assert (released["code"].str[1:] == released["copy"].str[1:]).mean() == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("exceptions", [0.0, 0.5])
def test_a_declared_region_is_exact_unless_the_records_contradict_it(exceptions: float) -> None:
    # The count of exceptions is 19 scales of its noise or more from where it would change the result.
    fields = schema(declared=True)
    model = method(epsilon=20.0, replicates=0).measure(table(exceptions=exceptions), fields)
    assert model.structure()["code"] == (["code group"] if exceptions else ["region"])
    released = method().release_of(model, fields, np.random.default_rng(1)).table
    assert (broken(released) == 0) == (exceptions == 0)


def test_a_stored_model_has_large_attributes_and_draws_the_same() -> None:
    model = method(replicates=2).measure(table(), schema())
    assert model.replicates is not None
    assert {"region", "sex"} <= set(model.replicates.tables)
    assert not {"code", "copy"} & set(model.replicates.tables)  # no replicate has what is drawn last
    ours, *theirs = model.replicates.models(model.network)
    assert len(theirs) == 2
    assert ours.weights @ ours.tables["region"] == pytest.approx(model.network.marginal(["region"]))
    stored = SynthesizerModel.from_json(model.to_json())
    assert stored == model
    drawn = [method().release_of(m, schema(), np.random.default_rng(1)).table for m in (model, stored)]
    pd.testing.assert_frame_equal(*drawn)


def test_later_releases_of_a_schedule_draw_large_attributes_as_the_first() -> None:
    own = method(replicates=0)
    coded = own.coded(table(copied=0.0), schema())
    first = SynthesizerModel.from_json(opened(own, coded).to_json())
    later = followed(own, own.coded(table(copied=0.0, seed=2), schema()), first, [])
    assert later.structure() == first.structure()
    released = own.release_of(later, schema(), np.random.default_rng(1)).table
    assert broken(released) < 0.1


def test_groups_of_a_large_attribute_have_a_name_that_no_column_has() -> None:
    frame = table(1_000, copied=0.0).rename(columns={"sex": "code group"})
    fields = DataSchema.from_dict(
        {
            "code group" if a.name == "sex" else a.name: {"categories": list(a.categories or ())}
            for a in schema().attributes
        }
    )
    coded = CodedTable.encode(frame, fields)
    large = LargeAttributes(
        found=(large_search.given_groups(0, np.arange(CODES) % 2, np.full(CODES, 1 / CODES)),),
        names=coded.names,
        sizes=coded.sizes,
    )
    assert large.reduced(coded).names == ("code group_", "region", "copy", "code group")
    assert large.reduced(coded).sizes == (2, REGIONS, CODES, 2)
