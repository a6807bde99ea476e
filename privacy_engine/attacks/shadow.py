"""Membership by shadow models: what a method's releases show of a record that they were made from.

After Shokri et al., "Membership Inference Attacks against Machine Learning Models" (2017), and Stadler,
Oprisanu, Troncoso, "Synthetic Data - Anonymisation Groundhog Day" (2022). Whoever knows the method, and
people like those in the release, makes `fits` shadow releases, each from a half of these people that is drawn
at random, and learns from them how a release that a record is in differs from one that it is not in.

1. Shadows are made of one half of the outsiders (of `MOST` at most), in pairs: one of a random half of these,
   one of the rest. Whoever has several records is in a shadow with all of them.
2. Of a record and a release: the distance to the nearest released record; the mean of exp(-d / h) over the
   released records, d the distance and h each of `WIDTHS`, from the records that are all but equal to the
   marginals of the release; and how much of the release covers its values, attribute by attribute.
3. What is usual for a record is the mean over the shadows that it is not in (Carlini et al., "Membership
   Inference Attacks From First Principles", 2022, section V, offline). Only what is above it counts.
4. A logistic regression of in or out on these, over all records and shadows.
5. Limits are set on a quarter of the outsiders and judged on the last quarter, as of `MembershipInference`.

The planted leak is put into the shadows as well: the attack must see a *method* that leaks. Of a method that
hides its records there is nothing to learn, and then a leak in the release alone would not be seen.

**Cost**: `fits` runs of the method, each on a quarter of the outsiders; no other.

**Privacy**, of a release Y = M(D), M private by epsilon for whatever neighbours; let O be the outsiders.

* The choice of O is made by a key before M runs and looks at no record, so given it, M runs on D alone, as it
  would without the attack, and Y comes before any shadow. The law of Y is what it was, so Y costs epsilon.
* The shadows S_1 .. S_f are functions of O and of noise of their own. Nobody of D is in O, so given O they
  are independent of D and of Y, and (Y, S_1 .. S_f) costs D epsilon, too: for neighbours D and D',
  P(Y in A, S in B | D) = P(Y in A | D) P(S in B) <= e^epsilon P(Y in A | D') P(S in B).
  No shadow is a run on the data of the release, and none is booked.
* They are not private for the people of O taken together: whoever sees all of them sees f/2 private releases
  of each such person's record. So **no shadow leaves the work area**.
* What the attack finds is a function of Y, S, O **and of D**, for the targets are taken from there, without
  noise: it has no epsilon. It is for the curator alone, as what every other attack finds.

The shadows are smaller than the release, so a method that leaks less of more people looks worse in them than
it is; the limits are set on the release itself, so that this costs the attack its edge and not its error.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Floats, Ints, read
from privacy_engine.attacks.seeking import Target
from privacy_engine.attacks.trial import Case, Shadow
from privacy_engine.verification.attack_risk import FEWEST_SHADOWS

WIDTHS = (0.05, 0.3, 1.0, 3.0)  # of kernels, in attributes
LEAST = 80  # outsiders: ten records in each half of the shadows' people, and twice twenty to be asked
ROWS = 5_000  # released records at most that densities are counted on
MOST = 8_000  # people at most that shadows are made of


def halves_of(persons: Ints, rng: np.random.Generator, fits: int) -> Iterator[Ints]:
    """Which records of the outsiders each shadow is made of, one shadow after the other.

    They come in pairs, so that an even number of the first ones are shadows of that number, too.

    Args:
        persons: (n,) the number of the person of each record; nobody is in a half in part.
        rng: of who is in which.
        fits: how many shadows, even.
    """
    people = int(persons.max(initial=-1)) + 1
    pool = rng.permutation(people)[: min(people // 2, MOST)]
    for _ in range(fits // 2):
        mixed = rng.permutation(pool)
        for inside in (mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]):
            yield np.flatnonzero(np.isin(persons, inside)).astype(np.int64)


def shadows_of(
    release: Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame],
    outsiders: pd.DataFrame,
    rng: np.random.Generator,
    fits: int = 8,
) -> tuple[Shadow, ...]:
    """Shadow releases of one half of the outsiders; none where there are too few of them.

    Args:
        release: the method, with the parameters of the release: its released records from true ones.
        outsiders: people who are not in the release, one record each.
        rng: of who is in which shadow, and of the releases.
        fits: how many, an even number of at least 4: each person is in one half of them.

    Raises:
        ValueError: on another number.
    """
    if fits < FEWEST_SHADOWS or fits % 2:
        raise ValueError(f"fits must be an even number >= {FEWEST_SHADOWS}, got {fits}")
    if len(outsiders) < LEAST:
        return ()
    return tuple(
        Shadow(release=release(outsiders.iloc[own].reset_index(drop=True), rng), inside=own)
        for own in halves_of(np.arange(len(outsiders)), rng, fits)
    )


@dataclass(frozen=True)
class Scores:
    """How likely people are to be in the release, the higher the likelier.

    Attributes:
        setting: outsiders by whom limits are set.
        people: who are attacked.
        asked: other outsiders.
    """

    setting: Floats
    people: Floats
    asked: Floats


def scores_of(case: Case, rng: np.random.Generator) -> Scores | None:
    """What the shadows of a case teach about its release; None where there are none."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    shadows, outsiders = case.evidence.shadows, case.evidence.outsiders
    if not shadows:
        return None
    pool = np.unique(np.concatenate([s.inside for s in shadows]))
    apart = rng.permutation(np.setdiff1d(np.arange(len(outsiders)), pool))
    setting, asked = (part[: len(case.targets)] for part in np.array_split(apart, 2))
    people = case.evidence.people.iloc[case.targets]
    groups = [outsiders.iloc[pool], outsiders.iloc[setting], people, outsiders.iloc[asked]]
    released = [(s.release, outsiders.iloc[s.inside]) for s in shadows]
    told = [
        _features(case, table, own, groups, rng)
        for table, own in [*released, (case.evidence.release, people)]
    ]
    *of_shadows, of_release = told
    # (shadows, pool): who is in which; and what is usual for each record where it is not.
    inside = np.array([np.isin(pool, s.inside) for s in shadows])
    of_pool = np.array([f[0] for f in of_shadows])
    out = (~inside)[:, :, None] * of_pool
    others = (~inside).sum(axis=0) - ~inside  # shadows that a record is not in, but this one
    above = of_pool - (out.sum(axis=0) - out) / others[:, :, None]
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    learner.fit(above.reshape(-1, above.shape[2]), inside.ravel())

    def score(group: int) -> Floats:
        usual = np.mean([f[group] for f in of_shadows], axis=0)
        found: Floats = learner.decision_function(of_release[group] - usual)
        return found

    return Scores(setting=score(1), people=score(2), asked=score(3))


def _features(
    case: Case,
    table: pd.DataFrame,
    own: pd.DataFrame,
    groups: Sequence[pd.DataFrame],
    rng: np.random.Generator,
) -> list[Floats]:
    """(g, f) what a release tells of each record of some groups.

    Args:
        case: tells whether a leak is planted: then the release is half made of the true records.
        table: the release.
        own: true records that it was made from.
        groups: records that are looked for.
        rng: of the released records that are looked at.
    """
    space, (released, true, *asked) = read(table, [own, *groups], case.source)
    if case.leak:
        released = released.sample(len(true), rng).joined(true)
    whole, some = Target.of(space, released), Target.of(space, released.sample(ROWS, rng))
    least = 1 / min(len(released), ROWS)
    found = []
    for cells in asked:
        near = whole.nearest(cells, np.ones((len(cells), len(space.names)), np.bool_))[0]
        kernels, shares = some.densities(cells, np.array(WIDTHS))
        told = [near[:, None], np.log(kernels + least), np.log(shares + least).mean(axis=1, keepdims=True)]
        found.append(np.hstack(told))
    return found
