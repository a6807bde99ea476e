"""Latent class models: attributes that are independent of each other given a hidden class.

Pr(x_1, ..., x_d) = sum_k pi_k prod_j theta_jk(x_j): latent class analysis (Lazarsfeld, Henry: Latent
Structure Analysis, 1968), the naive Bayes network with a hidden root. Here it is fitted to noisy marginals
("views") instead of records, so that nothing in this module sees a record.

Two steps. Expectation maximisation (Dempster, Laird, Rubin, 1977) on the views, each cell a weighted record
of its attributes, finds a good basin from any start. Then L-BFGS on

    sum over views and cells (sqrt(1 + ((q - t) / b)^2) - 1)
        + sum over classes (prior / 2 |a_k|^2 + smooth / 2 sum over neighbours on a scale (a_ki+1 - a_ki)^2),

q the model's and t the noisy cell, b the scale of its noise, a_k = z_k - mean z, z the logits of all tables:
the likelihood of Laplace noise, rounded off at its peak, which negative cells do not mislead and which
tolerates what few classes cannot represent; and a Gaussian prior that pulls the classes together (to
independence of all attributes) as far as the noise leaves them undetermined, and values on a scale towards
their neighbours.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.synthesizers.descent import descend

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Parts = tuple[Floats, tuple[Floats, ...]]
_Factor = Callable[["View", Floats], Floats]

LEAST = 1e-12  # a probability below is taken as this where it divides
SMOOTHING = 1e-5  # added to each expected count of EM, and to probabilities before their logarithm
PRIOR = 0.2  # precision of a class's logits around the mean of the classes: a deviation of about 2
TYPICAL = 8  # values from which on a table's precision falls as they become more
SMOOTH = 0.5  # precision of the difference of neighbours' logits on a scale, around the classes' mean
LEAST_LEFT = 0.1  # part of a value's probability that the step towards the views leaves at least
CLEARLY = 3.0  # standard deviations of what noise explains that the step must exceed to be taken
RAKES = 30  # of classes and values in turn
MEMORY = 20  # pairs of gradients that L-BFGS keeps


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A noisy marginal.

    Attributes:
        members: Numbers of its attributes.
        cells: Noisy probabilities, one axis per member; may be negative.
        scale: Scale of the Laplace noise of a cell, > 0; for Gaussian noise its standard deviation over
            sqrt(2).
        projected: The same cells as a distribution: projected to the simplex, so >= 0 with sum 1.
        groups: One entry a member: the group of each of its values, where its axis counts groups; else None.
            Empty: None for each.
    """

    members: tuple[int, ...]
    cells: Floats
    scale: float
    projected: Floats
    groups: tuple[Ints | None, ...] = ()

    def tables_of(self, tables: Sequence[Floats]) -> list[Floats]:
        """(k, size of the axis) for each member: the tables of the members, by group where it has groups."""
        groups = self.groups or (None,) * len(self.members)
        return [by_group(tables[m], g) for m, g in zip(self.members, groups, strict=True)]

    @property
    def variance(self) -> float:
        """Of the noise of a cell."""
        return 2 * self.scale**2


@dataclass(frozen=True, kw_only=True, eq=False)
class LatentClasses:
    """A mixture of k independent distributions of d attributes.

    Attributes:
        weights: Probabilities of the classes, shape (k,).
        tables: Each (k, size of the attribute), its distribution given the class, shape (d,).
    """

    weights: Floats
    tables: tuple[Floats, ...]

    def marginal(self, members: Sequence[int], groups: Sequence[Ints | None] = ()) -> Floats:
        """Return the joint distribution of some attributes, or of groups of their values, one axis each."""
        groups = groups or (None,) * len(members)
        tables = [by_group(self.tables[m], g) for m, g in zip(members, groups, strict=True)]
        first = self.weights[:, None]
        for table in tables[:-1]:
            first = _with_axis(first, table)
        return (first.T @ tables[-1]).reshape([table.shape[1] for table in tables])


def random_start(sizes: Sequence[int], classes: int, rng: np.random.Generator) -> LatentClasses:
    """Classes of equal weight, whose tables are drawn from Dirichlet(2, ..., 2)."""
    return LatentClasses(
        weights=np.full(classes, 1.0 / classes),
        tables=tuple(rng.dirichlet(np.full(size, 2.0), classes) for size in sizes),
    )


def uniform(sizes: Sequence[int]) -> LatentClasses:
    """One class in which all values are equally likely."""
    return LatentClasses(weights=np.ones(1), tables=tuple(np.full((1, size), 1.0 / size) for size in sizes))


def fit(
    views: Sequence[View],
    start: LatentClasses,
    *,
    on_scale: Sequence[int] = (),
    em_steps: int,
    descent_steps: int,
) -> LatentClasses:
    """The model nearest to the views, from a start.

    Args:
        views: Measured views, at least one.
        start: Gives the number of classes and the sizes.
        on_scale: Number of leading values of each attribute that lie on a scale, shape (d,); empty: none.
        em_steps: Number of steps of expectation maximisation.
        descent_steps: Most iterations of L-BFGS.
    """
    near = start
    for _ in range(em_steps):
        near = em_step(views, near)
    return _descend(views, near, on_scale or (0,) * len(start.tables), descent_steps)


def mean_of(models: Sequence[LatentClasses]) -> LatentClasses:
    """The mean of the models' distributions: all their classes side by side."""
    return LatentClasses(
        weights=np.concatenate([model.weights for model in models]) / len(models),
        tables=tuple(np.concatenate(tables) for tables in zip(*(m.tables for m in models), strict=True)),
    )


def with_single_values(model: LatentClasses, views: Sequence[View]) -> LatentClasses:
    """Return the model with each attribute's own distribution moved to that of all views together.

    Few classes cannot represent all cells of joint tables, and the missing part would be taken from single
    attributes, which readers check first. The step from the model to the views' mean, weighted by precision,
    is taken as far as noise does not explain its length over all attributes (James, Stein: Estimation with
    Quadratic Loss, 1961). Dependencies are preserved: a table of classes by values keeps its odds ratios, and
    the classes their weights.
    """
    expected = [model.weights @ table for table in model.tables]
    singles = [single_values(views, attribute, len(e)) for attribute, e in enumerate(expected)]
    length = sum(
        known * float((cells - e) @ (cells - e)) for e, (cells, known) in zip(expected, singles, strict=True)
    )
    noise = sum(len(e) for e, (_, known) in zip(expected, singles, strict=True) if known)
    explained = noise + CLEARLY * math.sqrt(5 * noise)  # 5: the variance of a squared Laplace of variance 1
    part = max(0.0, 1 - explained / length) if length else 0.0
    tables = []
    for table, e, (cells, _) in zip(model.tables, expected, singles, strict=True):
        single = np.maximum(e + part * (cells - e), e * LEAST_LEFT)
        tables.append(_raked(model.weights, table, single / single.sum()))
    return LatentClasses(weights=model.weights, tables=tuple(tables))


def single_values(views: Sequence[View], attribute: int, size: int) -> tuple[Floats, float]:
    """(size,) the distribution of one attribute in the views, and a value's precision; 0 if not counted."""
    total, precision = np.zeros(size), 0.0
    for view in views:
        for axis, member in enumerate(view.members):
            if member == attribute and not (view.groups and view.groups[axis] is not None):
                others = tuple(a for a in range(view.cells.ndim) if a != axis)
                known = size / (view.cells.size * 2 * view.scale**2)
                total += known * view.cells.sum(axis=others)
                precision += known
    return total / max(precision, LEAST), precision


def _raked(weights: Floats, table: Floats, single: Floats) -> Floats:
    """(k, s) a table of distributions given the class whose mean by weight is the given one.

    Iterative proportional fitting (Deming, Stephan, 1940).
    """
    for _ in range(RAKES):
        table = table * (single / np.maximum(weights @ table, LEAST))
        table = table / table.sum(axis=1, keepdims=True)
    return table


def em_step(views: Sequence[View], model: LatentClasses) -> LatentClasses:
    """One step of EM for the sum over views of the likelihood of their cells as distributions."""

    def responsibilities(view: View, cells: Floats) -> Floats:
        return view.projected.ravel() / np.maximum(cells, LEAST)

    weights, tables = _accumulate(views, (model.weights, model.tables), responsibilities)
    weights = weights + SMOOTHING
    smooth = tuple(table + SMOOTHING / table.shape[1] for table in tables)
    return LatentClasses(
        weights=weights / weights.sum(),
        tables=tuple(table / table.sum(axis=1, keepdims=True) for table in smooth),
    )


def _descend(
    views: Sequence[View], model: LatentClasses, on_scale: Sequence[int], steps: int
) -> LatentClasses:
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
        for z, g, scaled in zip(logits, gradient, (0, *on_scale), strict=True):
            cost, pull = _prior(z, scaled)
            loss += cost
            g += pull
        return loss, np.concatenate([g.ravel() for g in gradient])

    start = np.concatenate(
        [np.log(p + SMOOTHING / 10 / p.shape[-1]).ravel() for p in (model.weights, *model.tables)]
    )
    found = descend(objective, start, steps=steps, memory=MEMORY)
    weights, *tables = map(_softmax, unpack(found))
    return LatentClasses(weights=weights, tables=tuple(tables))


def _prior(z: Floats, on_scale: int) -> tuple[float, Floats]:
    """The prior's part of the sum for the logits of the weights, or of one attribute; and its derivative."""
    apart = z - z.mean(axis=-1, keepdims=True)
    if z.ndim == 1:  # the weights, around equal ones
        return PRIOR / 2 * float((apart**2).sum()), PRIOR * apart
    apart -= apart.mean(axis=0)  # a table, up to a constant a row, around the mean of the classes
    precision = PRIOR * min(1.0, TYPICAL / z.shape[-1])
    loss, pull = precision / 2 * float((apart**2).sum()), precision * apart
    if on_scale > 1:
        steps = np.diff(apart[:, :on_scale], axis=1)
        loss += SMOOTH / 2 * float((steps**2).sum())
        pull[:, 1:on_scale] += SMOOTH * steps
        pull[:, : on_scale - 1] -= SMOOTH * steps
    return loss, pull


def misfit(views: Sequence[View], parts: Parts) -> tuple[float, list[Floats]]:
    """Half the sum of squares in units of the noise; and for each part p, p times its derivative."""
    losses = []

    def residual(view: View, cells: Floats) -> Floats:
        off = (cells - view.cells.ravel()) / view.scale
        length = np.sqrt(1 + off**2)
        losses.append(float((length - 1).sum()))
        return np.asarray(off / length / view.scale)

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
        axes = view.tables_of(tables)
        for axis in axes:
            joint = _with_axis(joint, axis)
        joint = joint * factor_of(view, joint.sum(axis=0))
        groups = view.groups or (None,) * len(axes)
        for member, axis, group_of in zip(view.members, axes, groups, strict=True):
            # The first axis is summed up and folded away, then the next.
            joint = joint.reshape(len(weights), axis.shape[1], -1)
            part = joint.sum(axis=2)
            if group_of is None:
                by_value[member] += part
            else:  # a group's sum is its values', each by its part of the group
                ratio = part / np.maximum(axis, LEAST)
                by_value[member] += ratio[:, group_of] * tables[member]
            joint = joint.sum(axis=1)
        by_class += joint.ravel()
    return by_class, by_value


def by_group(table: Floats, group_of: Ints | None) -> Floats:
    """(k, s) columns added up to (k, g) groups; unchanged where there are none."""
    if group_of is None:
        return table
    summed = np.zeros((int(group_of.max()) + 1, len(table)))
    np.add.at(summed, group_of, table.T)
    return summed.T


def _with_axis(joint: Floats, table: Floats) -> Floats:
    """(k, c) times (k, s) -> (k, c * s), the new attribute running fastest."""
    return (joint[:, :, None] * table[:, None, :]).reshape(len(joint), -1)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
