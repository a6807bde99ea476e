"""Replicates of a fitted model, and how far the model is from the table beyond the noise.

All that is read here is views, whose cells are noisy, and models fitted to them: post-processing.

The error of a model's marginal has three parts. First, the noise: each replicate is fitted to the views with
noise of the known distribution added once more, from one of the model's own fits. A replicate is as far from
the model as the model is from the table, as far as the fit is linear (the bootstrap; Efron, 1979). Second,
what few classes cannot represent: the squared distance of the model from the noisy tables, less the noise,
plus twice the covariance of the model with the noise, is an unbiased estimate of its squared error (Stein's
risk estimate; the covariance is that of the replicates with their noise, as in the coupled bootstrap of
Oliveira, Lei, Tibshirani, 2021); its excess over the replicates' spread is the misfit. It is expressed as a
variance a p (1 - p), as if the model were the share in a sample: over four kinds of tables it is nearly
constant from rare cells to frequent ones. Third, sets of attributes that no view covers: nothing measures
these, and omitting views overstates their misfit tenfold, because the worst of them were chosen to be
measured. They were omitted because their misfit did not exceed the noise of a view, so they get that noise,
times ``UNSEEN_NOISE``, and a part of what the model infers about them, see
``privacy_engine.synthesizers.replicated.INFERRED``. Both were chosen on a few tables and are not bounds: some
intervals of such sets are too narrow, and more are too wide.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.latent.latent_classes import LatentClasses, View, with_single_values
from privacy_engine.synthesizers.postprocess import project_to_simplex

Floats = npt.NDArray[np.float64]
Fit = Callable[[Sequence[View], LatentClasses], LatentClasses]
Imitated = Callable[[np.random.Generator, float, tuple[int, ...]], Floats]

SEED = 20261125  # of the noise that is added to noisy tables: it hides nothing, and is the same each time
STEPS = {"em_steps": 3, "descent_steps": 20}  # from a fit of the model: more change no spread
LARGEST = 3  # attributes of a marginal whose misfit is measured; that of larger ones is taken as this
UNSEEN_NOISE = 1.0  # of the variance of a view, taken as that of a set of attributes in no view
LEAST_SHARE = 1e-6  # added to p (1 - p) where it weights


@dataclass(frozen=True, kw_only=True)
class Replicated:
    """Replicates of a model, and its misfit.

    Attributes:
        models: Models, one per replicate.
        misfit: Variances per p (1 - p) of marginals of one, two, three attributes of one view, >= 0, shape
            (3,).
        unseen: Variance added if no view covers all attributes, >= 0.
        together: Attributes of each view that counts values, not groups of them.
    """

    models: tuple[LatentClasses, ...]
    misfit: tuple[float, ...]
    unseen: float
    together: tuple[tuple[int, ...], ...]


def replicated(
    views: Sequence[View],
    model: LatentClasses,
    starts: Sequence[LatentClasses],
    fit: Fit,
    *,
    imitated: Imitated,
    count: int,
    rng: np.random.Generator,
) -> Replicated:
    """Return a number of replicates of a model that was fitted to views, and the misfit.

    Args:
        views: Views that were measured.
        model: Model that is released.
        starts: Fits of the model, from which those of the replicates set out, in turn.
        fit: Few steps of the model's own fit, from a start.
        imitated: Function that draws noise of the views' distribution, by a standard deviation and a shape.
        count: Number of replicates, >= 2.
        rng: Draws the noise that is added.
    """
    models: list[LatentClasses] = []
    noises: list[list[Floats]] = []
    for start in itertools.islice(itertools.cycle(starts), count):
        noise = [imitated(rng, math.sqrt(view.variance), view.cells.shape) for view in views]
        noisy = [renoised(view, added) for view, added in zip(views, noise, strict=True)]
        models.append(with_single_values(fit(noisy, start), noisy))
        noises.append(noise)
    joint = [view.variance * view.cells.size for view in views if len(view.members) > 1]
    return Replicated(
        models=tuple(models),
        misfit=_misfit(views, model, models, noises),
        unseen=UNSEEN_NOISE * float(np.mean(joint)) if joint else 0.0,
        together=tuple(view.members for view in views if not _is_grouped(view)),
    )


def renoised(view: View, noise: Floats) -> View:
    """A view with noise added to its cells."""
    cells = view.cells + noise
    return replace(view, cells=cells, projected=project_to_simplex(cells, 1))


def _misfit(
    views: Sequence[View],
    model: LatentClasses,
    models: Sequence[LatentClasses],
    noises: Sequence[Sequence[Floats]],
) -> tuple[float, ...]:
    """(3,) by attributes of the marginal: squared error beyond the spread, per p (1 - p)."""
    beyond, shares = np.zeros(LARGEST), np.zeros(LARGEST)
    for number, view in enumerate(views):
        if _is_grouped(view):
            continue
        for axes in _margins(view):
            members = [view.members[axis] for axis in axes]
            measured, ours = _summed(view.cells, axes), model.marginal(members)
            theirs = np.array([m.marginal(members) for m in models])
            added = np.array([_summed(noise[number], axes) for noise in noises])
            covariance = ((theirs - theirs.mean(axis=0)) * added).sum(axis=0) / (len(models) - 1)
            noise = view.variance * view.cells.size / measured.size
            error = (ours - measured) ** 2 - noise + 2 * covariance - ((theirs - ours) ** 2).mean(axis=0)
            # A compromise between equal weights, where rare cells are all noise, and weights p, where
            # frequent ones dominate.
            share = ours * (1 - ours) + LEAST_SHARE
            beyond[len(axes) - 1] += float((error / np.sqrt(share)).sum())
            shares[len(axes) - 1] += float(np.sqrt(share).sum())
    found = np.maximum(beyond, 0) / np.where(shares > 0, shares, 1)
    # A size that no view has: the misfit of the next smaller one is the best guess.
    return tuple(float(found[max(np.flatnonzero(shares[: i + 1]), default=i)]) for i in range(LARGEST))


def _margins(view: View) -> Iterator[tuple[int, ...]]:
    for size in range(1, min(LARGEST, len(view.members)) + 1):
        yield from itertools.combinations(range(len(view.members)), size)


def _summed(cells: Floats, kept: Sequence[int]) -> Floats:
    return np.asarray(cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in kept)))


def _is_grouped(view: View) -> bool:
    return any(group_of is not None for group_of in view.groups)
