"""The standing audit's table: for each mechanism and each method with a claim, a worst pair and its faults.

The faults are planted in the process of the audit alone, by putting other functions in the place of the
mechanisms' wherever the engine names them; the claim is read before.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.auditing import (
    Canaries,
    loss_of_guesses,
    loss_shown,
    rho_of_guesses,
    rho_shown,
)
from privacy_engine import DataSchema, load_method
from privacy_engine.dp import contributions, mechanisms
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.noise import Change, NoiseBudget, PureNoise
from privacy_engine.dp.zcdp import zcdp_epsilon
from privacy_engine.randomizers.channel import Channel
from privacy_engine.synthesizers.bayes.scores import dependence_sensitivity
from privacy_engine.synthesizers.latent import budget_plan, large_search, related_pairs
from privacy_engine.synthesizers.latent.budget_plan import Inputs
from privacy_engine.synthesizers.latent.large_search import BudgetParts, LargeShare, find_large
from privacy_engine.synthesizers.latent.related_pairs import CLEAR, Figures, dependence_figures
from privacy_engine.synthesizers.quantile_bins import with_quantile_bins
from privacy_engine.tables import marginals
from privacy_engine.tables.domains import BinnedDomain, CodedTable, Storage

HALF_NOISE = "noise halved"
WHOLE_EPSILON = "split forgotten"
HALF_SENSITIVITY = "sensitivity halved"
ONE_ROW = "a person's rows ignored"
DELTA = 1e-9  # of the audits of zCDP: what they show of rho is reported as epsilon at it
SHIFT = 3  # rows of the person of the audit of Gaussian counts
COIN_SEED = 20261124  # of the canaries' coins: an auditor's, not a mechanism's

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One audit.

    Attributes:
        name: what is audited.
        method: its registry key; None for a separate mechanism.
        pair: the neighbouring inputs.
        claim: epsilon, read before a fault is planted.
        show: Loss shown, with a multiple of the runs.
        faults: that it must catch; one that is left out has nothing to act on.
    """

    name: str
    method: str | None = None
    pair: str
    claim: float
    show: Callable[[int], float]
    faults: tuple[str, ...]


@contextmanager
def planted(fault: str | None) -> Iterator[None]:
    """The engine with a fault; without one where it is None."""
    with ExitStack() as stack:
        for function, faulty in _faulty(fault):
            for module in [m for name, m in sys.modules.items() if name.startswith("privacy_engine")]:
                if vars(module).get(function.__name__) is function:
                    stack.enter_context(patch.object(module, function.__name__, faulty))
        if fault == HALF_NOISE:
            for name in ("of_epsilon", "geometric"):
                make = getattr(Channel, name)
                stack.enter_context(patch.object(Channel, name, partial(_of_twice_epsilon, make)))
            hide = Channel.partial_hiding
            stack.enter_context(patch.object(Channel, "partial_hiding", partial(_half_hidden, hide)))
        if fault == ONE_ROW:
            for name in ("of_table", "of_count"):
                make = getattr(Change, name)
                stack.enter_context(patch.object(Change, name, partial(_of_one_row, make)))
        if fault == WHOLE_EPSILON:  # and no one counts what is left, who would refuse it
            stack.enter_context(patch.object(NoiseBudget, "_take", lambda budget, part: None))
        yield


def _of_one_row(make: Function, each: int) -> Change:
    made: Change = make(1)
    return made


def _of_twice_epsilon(make: Function, labels: tuple[str, ...], epsilon: float) -> Channel:
    made: Channel = make(labels, 2 * epsilon)
    return made


def _half_hidden(make: Function, labels: tuple[str, ...], *, keep: float, spread: None = None) -> Channel:
    made: Channel = make(labels, keep=(1 + keep) / 2, spread=spread)
    return made


def _faulty(fault: str | None) -> list[tuple[Function, Function]]:
    """The functions that a fault replaces, with what stands in their place."""
    noisy: tuple[Function, ...] = (mechanisms.laplace_counts, mechanisms.noisy_max)
    gaussian, gumbel = mechanisms.gaussian_counts, mechanisms.gumbel_max
    if fault == HALF_NOISE:

        def half_noise(mechanism: Function, *args: Any, epsilon: float, **given: Any) -> Any:
            return mechanism(*args, epsilon=2 * epsilon, **given)

        def half_noise_of_rho(mechanism: Function, *args: Any, rho: float, **given: Any) -> Any:
            return mechanism(*args, rho=4 * rho, **given)

        return [
            *((mechanism, partial(half_noise, mechanism)) for mechanism in noisy),
            *((mechanism, partial(half_noise_of_rho, mechanism)) for mechanism in (gaussian, gumbel)),
        ]
    if fault == HALF_SENSITIVITY:

        def half(mechanism: Function, *args: Any, sensitivity: int = 2, **given: Any) -> Any:
            return mechanism(*args, sensitivity=-(-sensitivity // 2), **given)

        def half_of_square(*args: Any, squared_sensitivity: int = 2, **given: Any) -> Any:
            return gaussian(*args, squared_sensitivity=-(-squared_sensitivity // 4), **given)

        return [
            *((mechanism, partial(half, mechanism)) for mechanism in (*noisy, gumbel)),
            (gaussian, half_of_square),
        ]
    if fault == WHOLE_EPSILON:
        return [(mechanisms.split, lambda epsilon, weights: (epsilon,) * len(weights))]
    if fault == ONE_ROW:
        return [(marginals.table_sensitivity, lambda coded: 2)]
    return []


# --- mechanisms by themselves


def _counts(epsilon: float, effort: int) -> float:
    """Both counts at or beyond the side of the first table: the likelihood ratio is e^epsilon throughout."""

    def moved(table: list[int]) -> npt.NDArray[np.bool_]:
        copies = np.tile(np.array(table, dtype=np.int64), (5000 * effort, 1))
        noisy = mechanisms.laplace_counts(copies, epsilon=epsilon)
        return (noisy[:, 0] >= 5) & (noisy[:, 1] <= 3)

    return loss_shown(moved([5, 3]), moved([4, 4]))


def _selection(epsilon: float, effort: int) -> float:
    """One score falls, all others rise: the more others, the nearer the ratio of the one to e^epsilon."""
    others, sensitivity = 12, 4

    def first(score: int) -> npt.NDArray[np.bool_]:
        scores = np.full(1 + others, sensitivity - score, dtype=np.int64)
        scores[0] = score
        runs = range(4500 * effort)
        return np.array(
            [mechanisms.noisy_max(scores, epsilon=epsilon, sensitivity=sensitivity) == 0 for _ in runs]
        )

    return loss_shown(first(sensitivity), first(0))


def _gaussian_counts(rho: float, effort: int) -> float:
    """Whether the two noisy counts are nearer to the first table: an event that shows most of rho."""

    def nearer(table: list[int]) -> npt.NDArray[np.bool_]:
        copies = np.tile(np.array(table, dtype=np.int64), (8000 * effort, 1))
        # Independent noise: each copy is as if it alone were released.
        noisy = mechanisms.gaussian_counts(copies, rho=rho, squared_sensitivity=2 * SHIFT**2)
        return noisy[:, 0] - noisy[:, 1] >= SHIFT

    # All SHIFT rows of one person move from the second count into the first.
    return _in_epsilon(rho_shown(nearer([100 + 2 * SHIFT, 100]), nearer([100 + SHIFT, 100 + SHIFT])))


def _gumbel_selection(rho: float, effort: int) -> float:
    """Of two scores each moves by the sensitivity, in opposite directions."""
    sensitivity = 4

    def first(score: int) -> npt.NDArray[np.bool_]:
        scores, runs = np.array([score, sensitivity - score]), range(2500 * effort)
        return np.array([mechanisms.gumbel_max(scores, rho=rho, sensitivity=sensitivity) == 0 for _ in runs])

    return _in_epsilon(rho_shown(first(sensitivity), first(0)))


def _dependence_figures(epsilon: float, effort: int) -> float:
    """The figures of a wide table on one pair of attributes, whose dependence rises by nearly 6 records.

    The tables are those of the test that shows how tight the sensitivity of `dependence` is.
    """
    s = 100
    counts = np.zeros((3, 3), dtype=np.int64)
    counts[0, 0], counts[0, 1], counts[1, 0], counts[1, 1] = s * s - 2 * s - 1, s, s, 1
    moved = counts.copy()
    moved[1, 1], moved[2, 2] = 0, 1
    schema = DataSchema.from_dict({name: {"categories": ["0", "1", "2"]} for name in "ab"})
    empty = pd.DataFrame({"a": ["0"], "b": ["0"]})

    def inputs(table: npt.NDArray[np.int64]) -> Inputs:
        codes = np.array(np.nonzero(table), dtype=np.uint8)
        weights = np.ascontiguousarray(table[table > 0])
        coded = replace(CodedTable.encode(empty, schema), codes=codes, weights=weights)
        return Inputs.of(coded, PureNoise(epsilon))

    change = Change(counts=2, by=dependence_sensitivity(1))
    exact, _ = dependence_figures(inputs(moved).records, (0, 1))
    level = exact - CLEAR * inputs(moved).scale(epsilon, change)

    def high(table: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        made, runs = inputs(table), range(6000 * effort)
        same = dependence_figures(
            made.records, (0, 1)
        )  # in all runs, of which it would take most of the time
        with patch.object(related_pairs, "dependence_figures", lambda *_: same):
            found = [Figures.of(replace(made, noise=PureNoise(epsilon)), (0, 1), epsilon) for _ in runs]
        return np.array([min(figures.strongest, figures.median) >= level for figures in found])

    return loss_shown(high(moved), high(counts))


def _in_epsilon(rho: float) -> float:
    return zcdp_epsilon(rho, DELTA) if rho else 0.0


PERSON = DataSchema.from_dict(
    {"who": {"role": "identifier"}, "a": {"categories": ["0", "1"]}, "person": "who"}
)


def _number(epsilon: float, effort: int) -> float:
    """The number of records of ten persons, of whom one has five rows, or one row."""
    method = load_method("privbayes", max_rows=5)

    def many(rows: int) -> npt.NDArray[np.bool_]:
        who = np.repeat(np.arange(10), [rows, *[3] * 9])
        coded = method.coded(pd.DataFrame({"who": who, "a": "0"}), PERSON)
        runs = range(1500 * effort)
        records = [len(contributions.with_public_number(coded, PureNoise(epsilon), epsilon)) for _ in runs]
        return np.array(records) >= 32 - np.ceil(4 / epsilon)

    return loss_shown(many(5), many(1))


class Seen(PureNoise):
    """A budget that keeps the noisy counts that it released, which an adversary may see."""

    def __init__(self, whole: float) -> None:
        super().__init__(whole)
        self.seen: list[npt.NDArray[np.int64]] = []

    def add(self, *args: Any, **given: Any) -> npt.NDArray[np.int64]:
        """As the budget's."""
        self.seen.append(super().add(*args, **given))
        return self.seen[-1]


def _quantile_bins(epsilon: float, effort: int) -> float:
    """One record moves between the two bins of a grid that hold all, and so between the quantile bins."""
    domain = BinnedDomain(
        name="x",
        edges=np.array([1.0, 10.0, 100.0, 1000.0]),
        whole=False,
        storage=Storage.REAL,
        nullable=False,
        bounds=(1.0, 1000.0),
        into=2,
    )

    def moved(counts: list[int]) -> npt.NDArray[np.bool_]:
        codes = np.array([[0, 2]], dtype=np.uint8)
        coded = CodedTable(domains=(domain,), storages={}, codes=codes, weights=np.array(counts))
        found = []
        for _ in range(5000 * effort):
            noise = Seen(epsilon)
            _, bins = with_quantile_bins(coded, noise, epsilon)
            grid, joined = noise.seen
            apart = len(bins["x"].edges) > 2
            found.append(apart and grid[0] >= counts_of_first and grid[2] <= counts_of_first - 1)
            found[-1] = found[-1] and joined[0] >= counts_of_first and joined[-1] <= counts_of_first - 1
        return np.array(found)

    counts_of_first = 400
    return loss_shown(moved([400, 399]), moved([399, 400]))


def _large_attributes(epsilon: float, effort: int) -> float:
    """One record moves between two values of a large attribute, each with one value of another attribute."""
    schema = DataSchema.from_dict({"a": {"categories": list("0123")}, "b": {"categories": list("012")}})
    empty = CodedTable.encode(pd.DataFrame({"a": ["0"], "b": ["0"]}), schema)
    codes = np.array([[0, 1, 2, 3], [0, 1, 2, 2]], dtype=np.uint8)

    def moved(first: int, second: int) -> npt.NDArray[np.bool_]:
        coded = replace(empty, codes=codes, weights=np.array([first, second, 400, 400]))
        found = []
        for _ in range(5000 * effort):
            noise = Seen(epsilon)
            share = LargeShare(parts={0: BudgetParts.of(epsilon, declared=False)}, rest=0.0)
            find_large(Inputs.of(coded, noise), share)
            counts, table = noise.seen[0], noise.seen[-1]
            high = counts[0] >= 400 and table.ravel()[0] >= 400
            found.append(len(table) == 4 and high and counts[1] <= 399 and table[1, 1] <= 399)
        return np.array(found)

    with ExitStack() as stack:  # what follows from noisy tables would take most of the time
        stack.enter_context(patch.object(large_search, "likely_values", lambda noisy, n, **_: noisy / n))
        stack.enter_context(patch.object(large_search, "alike", lambda noisy, *_: np.arange(len(noisy))))
        return loss_shown(moved(400, 399), moved(399, 400))


# --- synthesizers: one run, many canaries


def _synthesizer(
    name: str, d: int, k: int, runs: int, epsilon: float, each: int, given: Mapping[str, Any], effort: int
) -> float:
    """The marginals of the released model, for the coins of k canaries in each of the runs."""
    attributes = [f"a{i}" for i in range(d)]
    values = [str(value) for value in range(2 * k)]
    fields: dict[str, Any] = {attribute: {"categories": values} for attribute in attributes}
    person = "who" if each > 1 else None
    if person:
        fields = {person: {"role": "identifier"}, **fields, "person": person}
    schema = DataSchema.from_dict(fields)
    method = load_method(name, epsilon=epsilon, **given)
    rng = np.random.default_rng(COIN_SEED)
    right = guessed = 0
    # LatentClass measures an attribute of few values in views alone: the canaries' are to count as few.
    few = patch.object(budget_plan, "NARROW", len(values))
    not_large = patch.object(large_search, "LARGE", len(values) + 1)
    for _ in range(runs * effort):
        canaries = Canaries(coins=rng.random(k) < 0.5, base=20, each=each)
        with few, not_large:
            network = method.measure(canaries.table(attributes, person), schema).network
        marginals = [network.marginal([attribute]).ravel() for attribute in attributes]
        found = canaries.likelier(marginals) if given.get("delta") else canaries.guesses(marginals)
        right, guessed = right + found[0], guessed + found[1]
    if given.get("delta"):
        return _in_epsilon(rho_of_guesses(right, guessed))
    return loss_of_guesses(right, guessed)


# All but a hundredth of epsilon goes to tables, in equal parts: so the pair excites nearly all of the claim.
# Clipping hides less than the threshold of DPSM-Bayes; both read the noisy counts alone.
NETWORK: Mapping[str, Any] = {"degree": 0}
SYNTHESIZERS: Mapping[str, tuple[int, int, Mapping[str, Any]]] = {
    "privbayes": (1000, 4, NETWORK),
    "privbayes_r": (1000, 4, NETWORK),
    "dpsm_bayes": (1000, 4, {**NETWORK, "post_process": "clip"}),
    "latent_class": (
        500,
        5,
        {"classes": 1, "fits": 1, "width": 1, "selection_share": 0.01, "replicates": 0},
    ),
}


def _synthesizers(epsilon: float = 2.5) -> Iterator[Case]:
    # At 2.5 about 1,000 guesses tell both half of epsilon and twice epsilon from it: see the tests.
    for name, (k, runs, given) in SYNTHESIZERS.items():
        of = {"rounds": 1} if name == "latent_class" else {}
        yield Case(
            name=f"{name}, one attribute",
            method=name,
            pair="one record has the other of two values",
            claim=epsilon,
            show=partial(_synthesizer, name, 1, k, runs, epsilon, 1, {**given, **of}),
            faults=(HALF_NOISE, HALF_SENSITIVITY),
        )
        of = {"rounds": 2} if name == "latent_class" else {}
        yield Case(
            name=f"{name}, two attributes",
            method=name,
            pair="one record has the other of two values, in both attributes",
            claim=epsilon,
            show=partial(_synthesizer, name, 2, k, 3 * runs, epsilon, 1, {**given, **of}),
            faults=(HALF_NOISE, HALF_SENSITIVITY, WHOLE_EPSILON),
        )
        # Of few persons the noisy number of rows leaves out enough at random that they would hide the noise.
        of = {"rounds": 1, "weight": "person"} if name == "latent_class" else {"max_rows": 4}
        yield Case(
            name=f"{name}, persons",
            method=name,
            pair="all 4 rows of one person have the other of two values",
            claim=epsilon,
            show=partial(_synthesizer, name, 1, k, runs, epsilon, 4, {**given, **of}),
            faults=(HALF_NOISE, HALF_SENSITIVITY, ONE_ROW),
        )


def _gaussian_synthesizers(epsilon: float = 14.0) -> Iterator[Case]:
    # Rho about 2: a guess at a coin shows two fifths of it, and more than all of it where noise is halved.
    key, k, runs = "latent_class", 500, 10
    given = {**SYNTHESIZERS[key][2], "delta": DELTA, "rounds": 1}
    # A squared sensitivity of 2 halves to 1, and not to a half, which is too little to be shown.
    for name, each, of, faults in (
        ("one attribute", 1, {}, (HALF_NOISE,)),
        ("persons", 4, {"weight": "person"}, (ONE_ROW,)),
    ):
        yield Case(
            name=f"{key} with delta, {name}",
            method=key,
            pair="one record, or all 4 rows of one person, have the other of two values",
            claim=epsilon,
            show=partial(_synthesizer, key, 1, k, runs, epsilon, each, {**given, **of}),
            faults=faults,
        )


# --- randomizers: each record is a separate run

LISTED = {"role": "sensitive", "categories": ["0", "1"]}
NUMBER = {"role": "sensitive", "kind": "numeric", "bounds": [0, 16]}


def _randomizer(
    name: str, fields: Mapping[str, Any], ends: tuple[Any, Any], given: Mapping[str, Any], effort: int
) -> float:
    """How many records of one value, and how many of the other, are released as the one in all attributes."""
    schema, method = DataSchema.from_dict(dict(fields)), load_method(name, **given)

    def as_the_first(value: Any) -> npt.NDArray[np.bool_]:
        table = pd.DataFrame({attribute: [value] * (5000 * effort) for attribute in fields})
        released = method.release(table, schema, np.random.default_rng(COIN_SEED)).table
        return np.asarray((released == ends[0]).all(axis=1))

    return loss_shown(as_the_first(ends[0]), as_the_first(ends[1]))


def _randomizers() -> Iterator[Case]:
    two, one, epsilon = {"a": LISTED, "b": LISTED}, {"a": NUMBER}, {"epsilon": 2.0}
    listed, number = ("0", "1"), (0.0, 16.0)
    for name, kind, fields, ends, given, faults in (
        ("errph", "listed", two, listed, epsilon, (HALF_NOISE, WHOLE_EPSILON)),
        ("trr", "listed", two, listed, {"p_0": 0.5}, (HALF_NOISE,)),
        ("local_laplace", "listed", two, listed, epsilon, (HALF_NOISE, WHOLE_EPSILON)),
        (
            "local_laplace",
            "a number",
            one,
            number,
            {**epsilon, "steps": 16},
            (HALF_NOISE, HALF_SENSITIVITY),
        ),
    ):
        loss = load_method(name, **given).privacy_loss(DataSchema.from_dict(dict(fields)))
        yield Case(
            name=f"{name}, {kind}",
            method=name,
            pair="one person has the other end of the domain in all attributes",
            claim=loss.epsilon,
            show=partial(_randomizer, name, fields, ends, given),
            faults=faults,
        )


def cases() -> tuple[Case, ...]:
    """All audits, in the order of the report."""
    both = (HALF_NOISE, HALF_SENSITIVITY)
    own = (
        Case(
            name="discrete Laplace",
            pair="counts 5, 3 and 4, 4",
            claim=2.0,
            show=partial(_counts, 2.0),
            faults=both,
        ),
        Case(
            name="noisy max",
            pair="one score falls by the sensitivity, 12 rise by it",
            claim=3.0,
            show=partial(_selection, 3.0),
            faults=both,
        ),
        Case(
            name="dependence figures of a wide table",
            pair="one of 10,000 records leaves the rare value of two attributes for a third one of both",
            claim=2.0,
            show=partial(_dependence_figures, 2.0),
            faults=both,
        ),
        Case(
            name="discrete Gaussian",
            pair="the 3 rows of one person move from one count into another",
            claim=_claim(1.0),
            show=partial(_gaussian_counts, 1.0),
            faults=both,
        ),
        Case(
            name="noisy max by rho",
            pair="two scores move by the sensitivity, in opposite directions",
            claim=_claim(0.5),
            show=partial(_gumbel_selection, 0.5),
            faults=both,
        ),
        Case(
            name="number of rows",
            pair="one of ten persons has five rows, or one",
            claim=2.0,
            show=partial(_number, 2.0),
            faults=both,
        ),
        Case(
            name="quantile bins",
            pair="one record moves from the lower bins to the upper ones",
            claim=3.0,
            show=partial(_quantile_bins, 3.0),
            faults=(*both, WHOLE_EPSILON),
        ),
        Case(
            name="a large attribute and what it depends on",
            pair="one record moves between two values of both attributes",
            claim=3.0,
            show=partial(_large_attributes, 3.0),
            faults=(*both, WHOLE_EPSILON),
        ),
    )
    return (*own, *_synthesizers(), *_gaussian_synthesizers(), *_randomizers())


def _claim(rho: float) -> float:
    return PrivacyLoss.of_zcdp(rho, DELTA, Neighbours.REPLACE_ONE).epsilon
