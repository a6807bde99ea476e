"""Membership by shadow models: how a method's releases differ for a record that they contain.

After Shokri et al., "Membership Inference Attacks against Machine Learning Models" (2017), and Stadler,
Oprisanu, Troncoso, "Synthetic Data - Anonymisation Groundhog Day" (2022). An attacker who knows the method,
and people like those in the release, makes `fits` shadow releases, each from a random half of these people,
and learns from them how a release that contains a record differs from one that does not.

1. Shadows are made from one half of the outsiders (at most `MOST`), in pairs: one from a random half of
these,
   one from the rest. All records of a person are in the same shadows.
2. Features of a record and a release: the distance to the nearest released record; the mean of exp(-d / h)
over the
      released records, d the distance and h each of `WIDTHS`, from nearly equal records to the marginals of
      the release; and how much of the release covers the record's values, attribute by attribute.
3. What is usual for a record is the mean over the shadows that it is not in (Carlini et al., "Membership
   Inference Attacks From First Principles", 2022, section V, offline). Only what is above it counts.
4. A logistic regression of membership on these, over all records and shadows.
5. Limits are set on a quarter of the outsiders and evaluated on the last quarter, as in
`MembershipInference`.

The planted leak is put into the shadows as well: the attack must see a *method* that leaks. From a method
that hides its records nothing can be learned, and then a leak only in the release would not be seen.

**Cost**: `fits` runs of the method, each on a quarter of the outsiders, and nothing else.

**Privacy**, of a release Y = M(D), M private by epsilon for any neighbour relation; let O be the outsiders.

* The choice of O is made by a key before M runs and uses no record, so given O, M runs on D only, as it would
  without the attack, and Y comes before any shadow. The law of Y is unchanged, so Y costs epsilon.
* The shadows S_1 .. S_f are functions of O and of separate noise. No one in D is in O, so given O they are
  independent of D and of Y, and (Y, S_1 .. S_f) costs D epsilon as well: for neighbours D and D',
  P(Y in A, S in B | D) = P(Y in A | D) P(S in B) <= e^epsilon P(Y in A | D') P(S in B).
  No shadow is a run on the data of the release, and none is booked.
* They are not private for the people of O taken together: anyone who sees all of them sees f/2 private
releases
  of each such person's record. So **no shadow leaves the work area**.
* The result of the attack is a function of Y, S, O **and of D**, because the targets are taken from D without
  noise: it has no epsilon. It is only for the curator, like the result of every other attack.

The shadows are smaller than the release, so a method that leaks less about larger groups looks worse in them
than it is. The limits are set on the release itself, so that this only weakens the attack and does not bias
it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Floats, Ints, read
from privacy_engine.attacks.seeking import Target
from privacy_engine.attacks.trial import Case, Shadow
from privacy_engine.verification.attack_risk import FEWEST_SHADOWS

WIDTHS = (0.05, 0.3, 1.0, 3.0)  # widths of kernels, in attributes
LEAST = 80  # ten outsiders in each half of the shadows' people, and twenty each for limits and evaluation
ROWS = 5_000  # most released records for densities
MOST = 8_000  # most people that shadows are made from


def halves_of(persons: Ints, rng: np.random.Generator, fits: int) -> Iterator[Ints]:
    """Yield which records of the outsiders each shadow is made from, one shadow after the other.

    They come in pairs, so that the first even number of them are also the shadows of that number.

    Args:
        persons: Person of each record, shape (n,); all records of a person are in the same half.
        rng: Source of randomness.
        fits: Number of shadows, even.
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
    """Make shadow releases from one half of the outsiders; none if there are too few of them.

    Args:
        release: Function from true records to released records, by the method and parameters of the release.
        outsiders: People who are not in the release, one record each.
        rng: Source of randomness for the halves and the releases.
        fits: Number of shadows, even and at least 4: each person is in one half of them.

    Raises:
        ValueError: For any other number.
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
    """How likely people are to be in the release; higher is more likely.

    Attributes:
        setting: Scores of the outsiders who set limits.
        people: Scores of the attacked people.
        held_out: Scores of the other outsiders.
    """

    setting: Floats
    people: Floats
    held_out: Floats


def scores_of(case: Case, rng: np.random.Generator) -> Scores | None:
    """Score people by what the shadows of a case teach about its release; None without shadows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    shadows, outsiders = case.evidence.shadows, case.evidence.outsiders
    if not shadows:
        return None
    pool = np.unique(np.concatenate([s.inside for s in shadows]))
    apart = rng.permutation(np.setdiff1d(np.arange(len(outsiders)), pool))
    setting, held_out = (part[: len(case.targets)] for part in np.array_split(apart, 2))
    people = case.evidence.people.iloc[case.targets]
    groups = [outsiders.iloc[pool], outsiders.iloc[setting], people, outsiders.iloc[held_out]]
    released = [(s.release, outsiders.iloc[s.inside]) for s in shadows]
    features = [
        _features(case, table, own, groups, rng)
        for table, own in [*released, (case.evidence.release, people)]
    ]
    *of_shadows, of_release = features
    # (shadows, pool): who is in which, and what is usual for each record if it is not in one.
    inside = np.array([np.isin(pool, s.inside) for s in shadows])
    of_pool = np.array([f[0] for f in of_shadows])
    out = (~inside)[:, :, None] * of_pool
    others = (~inside).sum(axis=0) - ~inside  # shadows without a record, except this one
    above = of_pool - (out.sum(axis=0) - out) / others[:, :, None]
    learner = make_pipeline(StandardScaler(), LogisticRegression())
    learner.fit(above.reshape(-1, above.shape[2]), inside.ravel())

    def score(group: int) -> Floats:
        usual = np.mean([f[group] for f in of_shadows], axis=0)
        found: Floats = learner.decision_function(of_release[group] - usual)
        return found

    return Scores(setting=score(1), people=score(2), held_out=score(3))


def _features(
    case: Case,
    table: pd.DataFrame,
    own: pd.DataFrame,
    groups: Sequence[pd.DataFrame],
    rng: np.random.Generator,
) -> list[Floats]:
    """(g, f) features of a release for each record of some groups.

    Args:
        case: Case, for whether a leak is planted: then half of the release are true records.
        table: Released records, of the release itself or of a shadow.
        own: True records that it was made from.
        groups: Records to score.
        rng: Source of randomness for sampling released records.
    """
    space, (released, true, *scored) = read(table, [own, *groups], case.source)
    if case.leak:
        released = released.sample(len(true), rng).joined(true)
    whole, some = Target.of(space, released), Target.of(space, released.sample(ROWS, rng))
    least = 1 / min(len(released), ROWS)
    found = []
    for cells in scored:
        near = whole.nearest(cells, np.ones((len(cells), len(space.names)), np.bool_))[0]
        kernels, shares = some.densities(cells, np.array(WIDTHS))
        columns = [near[:, None], np.log(kernels + least), np.log(shares + least).mean(axis=1, keepdims=True)]
        found.append(np.hstack(columns))
    return found
