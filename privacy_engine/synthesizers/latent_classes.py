"""Latent class models: attributes that are independent of each other given a hidden class.

Pr(x_1, ..., x_d) = sum_k pi_k prod_j theta_jk(x_j): latent class analysis (Lazarsfeld, Henry: Latent
Structure Analysis, 1968), the naive Bayes network with a hidden root. Here it is fitted to noisy marginals
("views") instead of records, so that nothing in this module sees a record.

Two steps. Expectation maximisation (Dempster, Laird, Rubin, 1977) on the views, each cell a weighted record
of its own attributes, finds a good basin from any start. Then L-BFGS on

    sum over views and cells (q - t)^2 / (2 variance of t)  +  prior / 2 * sum over classes |z_k - mean z|^2,

q the model's and t the noisy cell, z the logits of all tables: least squares weighted by the known noise,
which is not misled by negative cells, and a Gaussian prior that draws the classes together (to independence
of all attributes) as far as the noise leaves them free.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

Floats = npt.NDArray[np.float64]
Parts = tuple[Floats, tuple[Floats, ...]]
_Factor = Callable[["View", Floats], Floats]

SMOOTHING = 1e-3  # added to each expected count of EM, and to probabilities before their logarithm
PRIOR = 0.2  # precision of a class's logits around the mean of the classes: a deviation of about 2
MEMORY = 20  # pairs of gradients that L-BFGS keeps


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A noisy marginal.

    Attributes:
        members: numbers of its attributes.
        cells: noisy probabilities, one axis a member; may be negative.
        deviation: standard deviation of the noise of a cell, > 0.
        mended: the same cells as a distribution.
    """

    members: tuple[int, ...]
    cells: Floats
    deviation: float
    mended: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentClasses:
    """A mixture of k independent distributions of d attributes.

    Attributes:
        weights: (k,) probabilities of the classes.
        tables: (d,) each (k, size of the attribute), its distribution given the class.
    """

    weights: Floats
    tables: tuple[Floats, ...]

    def marginal(self, members: Sequence[int]) -> Floats:
        """The joint distribution of some attributes, one axis each."""
        first = self.weights[:, None]
        for member in members[:-1]:
            first = _with_axis(first, self.tables[member])
        cells = first.T @ self.tables[members[-1]]
        return cells.reshape([self.tables[member].shape[1] for member in members])


def random_start(sizes: Sequence[int], classes: int, rng: np.random.Generator) -> LatentClasses:
    """Classes of equal weight, whose tables are drawn from Dirichlet(2, ..., 2)."""
    return LatentClasses(
        weights=np.full(classes, 1.0 / classes),
        tables=tuple(rng.dirichlet(np.full(size, 2.0), classes) for size in sizes),
    )


def uniform(sizes: Sequence[int]) -> LatentClasses:
    """One class in which all values are equally likely."""
    return LatentClasses(weights=np.ones(1), tables=tuple(np.full((1, size), 1.0 / size) for size in sizes))


def fit(views: Sequence[View], start: LatentClasses, *, em_steps: int, descent_steps: int) -> LatentClasses:
    """The model nearest to the views, from a start.

    Args:
        views: at least one.
        start: gives the number of classes and the sizes.
        em_steps: of expectation maximisation.
        descent_steps: most iterations of L-BFGS.
    """
    near = start
    for _ in range(em_steps):
        near = em_step(views, near)
    return _descend(views, near, descent_steps)


def mean_of(models: Sequence[LatentClasses]) -> LatentClasses:
    """The mean of the models' distributions: all their classes side by side."""
    return LatentClasses(
        weights=np.concatenate([model.weights for model in models]) / len(models),
        tables=tuple(np.concatenate(tables) for tables in zip(*(m.tables for m in models), strict=True)),
    )


def em_step(views: Sequence[View], model: LatentClasses) -> LatentClasses:
    """One step of EM for the sum over views of the likelihood of their mended cells."""

    def responsibilities(view: View, cells: Floats) -> Floats:
        return view.mended.ravel() / np.maximum(cells, 1e-12)

    weights, tables = _accumulate(views, (model.weights, model.tables), responsibilities)
    weights = weights + SMOOTHING
    smooth = tuple(table + SMOOTHING for table in tables)
    return LatentClasses(
        weights=weights / weights.sum(),
        tables=tuple(table / table.sum(axis=1, keepdims=True) for table in smooth),
    )


def _descend(views: Sequence[View], model: LatentClasses, steps: int) -> LatentClasses:
    """L-BFGS on the logits of weights and tables, from a model."""
    k = len(model.weights)
    sizes = [table.shape[1] for table in model.tables]
    bounds = np.cumsum([k, *(k * size for size in sizes)])[:-1]

    def unpack(flat: Floats) -> list[Floats]:
        first, *rest = np.split(flat, bounds)
        return [first, *(part.reshape(k, size) for part, size in zip(rest, sizes, strict=True))]

    def objective(flat: Floats) -> tuple[float, Floats]:
        logits = unpack(flat)
        weights, *tables = map(_softmax, logits)
        loss, slopes = misfit(views, (weights, tuple(tables)))
        probabilities = (weights, *tables)
        gradient = [s - p * s.sum(axis=-1, keepdims=True) for p, s in zip(probabilities, slopes, strict=True)]
        for z, g in zip(logits, gradient, strict=True):
            # Weights around equal ones; a table, up to a constant a row, around the mean of the classes.
            apart = z - z.mean(axis=-1, keepdims=True)
            apart = apart - apart.mean(axis=0) if z.ndim == 2 else apart
            loss += PRIOR / 2 * float((apart**2).sum())
            g += PRIOR * apart
        return loss, np.concatenate([g.ravel() for g in gradient])

    start = np.concatenate([np.log(p + SMOOTHING / 10).ravel() for p in (model.weights, *model.tables)])
    # L-BFGS-B solves systems of 2 MEMORY unknowns. The BLAS would share even these among all cores, whose
    # threads then wait for each other: on a busy machine ten times as long as one thread needs.
    with threadpool_limits(limits=1, user_api="blas"):
        found = minimize(
            objective, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": MEMORY}
        )
    weights, *tables = map(_softmax, unpack(found.x))
    return LatentClasses(weights=weights, tables=tuple(tables))


def misfit(views: Sequence[View], parts: Parts) -> tuple[float, list[Floats]]:
    """Half the sum of squares in units of the noise; and for each part p, p times its derivative."""
    losses = []

    def residual(view: View, cells: Floats) -> Floats:
        scaled = (cells - view.cells.ravel()) / view.deviation
        losses.append(float(scaled @ scaled) / 2)
        return np.asarray(scaled / view.deviation)

    weights, tables = _accumulate(views, parts, residual)
    return math.fsum(losses), [weights, *tables]


def _accumulate(views: Sequence[View], parts: Parts, factor_of: _Factor) -> tuple[Floats, list[Floats]]:
    """Sum over views and cells of factor * pi_k prod theta_jk, by class, and by class and value.

    Both EM and the gradient are this sum: the factor is t / q in the one and (q - t) / variance in the other.
    """
    weights, tables = parts
    by_class = np.zeros_like(weights)
    by_value = [np.zeros_like(table) for table in tables]
    for view in views:
        joint = weights[:, None]
        for member in view.members:
            joint = _with_axis(joint, tables[member])
        joint = joint * factor_of(view, joint.sum(axis=0))
        for member in view.members:  # the first axis is summed up and folded away, then the next
            joint = joint.reshape(len(weights), tables[member].shape[1], -1)
            by_value[member] += joint.sum(axis=2)
            joint = joint.sum(axis=1)
        by_class += joint.ravel()
    return by_class, by_value


def _with_axis(joint: Floats, table: Floats) -> Floats:
    """(k, c) times (k, s) -> (k, c * s), the new attribute running fastest."""
    return (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
