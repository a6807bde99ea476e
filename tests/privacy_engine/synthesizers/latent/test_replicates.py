"""Replicates of a fitted model: made of noisy figures alone, and their intervals cover as they say."""

import itertools
import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privacy_engine.dp.noise import PureNoise
from privacy_engine.measures.synthetic_utility import coded
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.latent_classes import View, fit, random_start
from privacy_engine.synthesizers.latent.replicates import STEPS, Replicated, replicated
from privacy_engine.synthesizers.model import SynthesizerModel
from privacy_engine.synthesizers.replicate_models import ClassTables
from privacy_engine.synthesizers.replicated import ReplicatedModel
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.schema import DataSchema

SIZES = (4, 3, 2, 2, 3)
SCHEMA = DataSchema.from_dict(
    {f"x{j}": {"kind": "ordinal", "bounds": [0, size - 1]} for j, size in enumerate(SIZES)}
)
QUICK: dict[str, Any] = {"epsilon": 1.0, "classes": 8, "fits": 2, "rules": 0}


def drawn(rng: np.random.Generator, rows: int = 3_000) -> CodedTable:
    """A table whose attributes share one normal factor."""
    factor = rng.normal(size=rows)
    columns = {}
    for j, size in enumerate(SIZES):
        reported = 0.7 * factor * (-1) ** j + 0.7 * rng.normal(size=rows)
        columns[f"x{j}"] = np.searchsorted(np.linspace(-1, 1, size + 1)[1:-1], reported)
    return coded(pd.DataFrame(columns), SCHEMA)


def answers_of(model: SynthesizerModel) -> ReplicatedModel:
    replicates = model.replicates
    assert replicates is not None
    ours, *theirs = replicates.models(model.network)
    return ReplicatedModel(
        model=ours,
        replicates=theirs,
        misfit=replicates.misfit,
        unseen=replicates.unseen,
        together=replicates.together,
    )


def cells(members: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The question about all cells of some attributes."""
    every = np.array(list(np.ndindex(*(SIZES[m] for m in members)))).T
    return {f"x{m}": np.eye(SIZES[m])[:, values] for m, values in zip(members, every, strict=True)}


def views_and_start() -> tuple[list[View], list]:
    rng = np.random.default_rng(5)
    views = []
    for members in ((0, 1), (1, 2, 3), (3, 4)):
        shape = tuple(SIZES[m] for m in members)
        reported = rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)
        views.append(View(members=members, cells=reported, scale=0.003, projected=reported))
    return views, [random_start(SIZES, 4, rng)]


@cache
def made(scale: float = 1.0) -> Replicated:
    """Replicates of views whose noise has a scale times its usual one, for reading only."""
    views, starts = views_and_start()
    views = [
        View(members=v.members, cells=v.cells, scale=v.scale * scale, projected=v.projected) for v in views
    ]
    model = fit(views, starts[0], em_steps=20, descent_steps=60)
    return replicated(
        views,
        model,
        [model],
        lambda noisy, start: fit(noisy, start, **STEPS),
        imitated=PureNoise(1.0).imitated,
        count=12,
        rng=np.random.default_rng(1),
    )


@pytest.mark.quick("1e-06")  # a rate needs many releases
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_cover_the_table_about_as_often_as_they_say(delta: float) -> None:
    """The share of covered answers of a release has mean .93 and deviation .04 at most (in 30 releases each).

    The mean over 3 releases falls below .8, five deviations of it, with a chance below 1e-6 then; intervals
    that are half as wide as they should be cover about .67.
    """
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(3):
        table = drawn(rng)
        requested = answers_of(LatentClass(**QUICK, delta=delta).measure_coded(table))
        held = []
        for size in (1, 2, 3):
            for members in itertools.combinations(range(len(SIZES)), size):
                shape = [SIZES[m] for m in members]
                codes = np.ravel_multi_index([table.codes[m].astype(int) for m in members], shape)
                true = np.bincount(codes, minlength=int(np.prod(shape))) / len(table)
                given = requested.shares(cells(members), level=0.95)
                common = true * len(table) >= 20
                held += ((given.low <= true) & (true <= given.high))[common].tolist()
        shares.append(np.mean(held))
    assert np.mean(shares) >= 0.8


def test_more_noise_makes_wider_replicates() -> None:
    def spread(found: Replicated) -> float:
        return float(np.mean([np.var([m.marginal((0, 1)) for m in found.models], axis=0)]))

    assert spread(made(4.0)) > 4 * spread(made(1.0)) > 0


def test_the_same_views_give_the_same_replicates() -> None:
    first, second = made(), made.__wrapped__()
    assert first.misfit == second.misfit
    for a, b in zip(first.models, second.models, strict=True):
        assert np.array_equal(a.weights, b.weights)
        assert all(np.array_equal(x, y) for x, y in zip(a.tables, b.tables, strict=True))


def test_a_misfit_that_noise_does_not_explain_is_found() -> None:
    """One class cannot hold a dependency whose cells lie hundreds of scales from independence."""
    reported = np.array([[0.4, 0.1], [0.1, 0.4]])
    views = [View(members=(0, 1), cells=reported, scale=1e-4, projected=reported)]
    model = fit(views, random_start((2, 2), 1, np.random.default_rng(0)), em_steps=5, descent_steps=20)
    found = replicated(
        views,
        model,
        [model],
        lambda noisy, start: fit(noisy, start, **STEPS),
        imitated=PureNoise(1.0).imitated,
        count=8,
        rng=np.random.default_rng(1),
    )
    # All cells are .15 off .25: .0225 / (.25 * .75).
    assert found.misfit[1] == pytest.approx(0.12, rel=0.05)


def test_a_stored_model_keeps_its_replicates_and_one_without_still_reads() -> None:
    model = LatentClass(**QUICK).measure_coded(drawn(np.random.default_rng(1)))
    again = SynthesizerModel.from_json(model.to_json())
    assert again.to_json() == model.to_json()
    assert again.replicates is not None
    assert len(again.replicates) == 20
    fields = json.loads(model.to_json())
    del fields["replicates"]
    assert SynthesizerModel.from_json(json.dumps(fields)).replicates is None


def test_replicates_can_be_switched_off_and_are_no_other_measurement() -> None:
    without = LatentClass(**QUICK, replicates=0)
    assert without.measure_coded(drawn(np.random.default_rng(1))).replicates is None
    assert without.measurement_parameters() == LatentClass(**QUICK).measurement_parameters()


@pytest.mark.parametrize("replicates", [1, -1, 101, 2.5, True])
def test_a_wrong_number_of_replicates_is_refused(replicates: object) -> None:
    with pytest.raises((ValueError, TypeError), match="replicates"):
        LatentClass(replicates=replicates)  # type: ignore[arg-type]


def test_a_determined_attribute_is_asked_through_the_one_that_determines_it() -> None:
    weights, table = np.array([0.5, 0.5]), np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    tables = ClassTables(weights=weights, tables={"a": table}, follows={"b": ("a", np.array([0, 1, 1]))})
    requested = ReplicatedModel(
        model=tables, replicates=[tables] * 3, misfit=(0.0, 0.0, 0.0), unseen=0.0, together=[["a"]]
    )
    given = requested.shares(
        {"b": np.array([[0.0], [1.0]]), "a": np.array([[0.0], [1.0], [0.0]])}, level=0.95
    )
    assert given.value == pytest.approx([0.25])
    assert given.low == pytest.approx([0.25])


def test_the_mean_of_a_group_is_that_of_its_records_with_a_number() -> None:
    tables = ClassTables(
        weights=np.array([0.5, 0.5]),
        tables={"x": np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]), "g": np.array([[1.0, 0.0], [0.0, 1.0]])},
        follows={},
    )
    requested = ReplicatedModel(
        model=tables, replicates=[tables] * 3, misfit=(0.0, 0.0, 0.01), unseen=0.0, together=[["x", "g"]]
    )
    given = requested.means({"g": np.eye(2)}, "x", np.array([1.0, 4.0, np.nan]), level=0.95)
    assert given.value == pytest.approx([2.0, 4.0])
    assert given.low == pytest.approx([2.0, 4.0])
