"""Values within bins on a logarithmic scale, by the probabilities of the bins around them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privacy_engine.tables.scales import SMALLEST, Bounds, positions, sides_of, values_at

Floats = npt.NDArray[np.float64]

LEAST_HAZARD = 1.0  # of a tail: those that fall more slowly have no mean without bounds
EVEN = 512  # values by which the mean of a bin is taken
PARTS = 128  # of a bin, between which the probability of values varies


def interpolated(edges: Floats, shares: Floats, bounds: Bounds) -> Floats:
    """Distribute the values within bins on the logarithmic scale by those of the neighbouring bins.

    On each side of zero, the logit of the distribution function is interpolated between the edges by a
    monotone cubic (Fritsch, Carlson: Monotone piecewise cubic interpolation, 1980), which keeps the share of
    each bin. Beyond the first and the last edge the tails go on as in the outer halves: those of a Pareto
    distribution, whose hazard is constant on this scale, or lighter ones, such as those of a log-normal
    distribution, whose hazard rises.

    Args:
        edges: Edges of the bins, shape (b + 1,).
        shares: Probability of each bin, shape (b,); not negative.
        bounds: Bounds that give the scale.

    Returns:
        Probability of each of the `PARTS` parts of each bin, equal on the scale, given the bin, shape
        (b, PARTS).
    """
    found = np.full((len(shares), PARTS), 1.0 / PARTS)
    for side in sides_of(edges):
        places = positions(edges[side.start : side.stop + 1], bounds)
        found[side] = _within(places, shares[side])
    return found


def _within(places: Floats, shares: Floats) -> Floats:
    """(b, PARTS) as `interpolated`, of one side, by the positions of its edges."""
    # Every release imports this module, few have such bins, and these imports take half a second.
    from scipy.interpolate import PchipInterpolator
    from scipy.special import expit

    even = np.full((len(shares), PARTS), 1.0 / PARTS)
    used = np.flatnonzero(shares > 0)
    if len(used) < 3:
        return even
    first, last = used[0], used[-1]
    below = np.cumsum(shares[first : last + 1])[:-1] / shares.sum()
    above = np.cumsum(shares[first : last + 1][::-1])[::-1][1:] / shares.sum()
    inner = places[first + 1 : last + 1]
    cubic = PchipInterpolator(inner, np.log(below) - np.log(above))
    grid = places[:-1, None] + np.diff(places)[:, None] * np.linspace(0, 1, PARTS + 1)
    logit = np.where(
        grid > inner[-1],
        -_log_odds_beyond(inner, above, grid),
        np.where(
            grid < inner[0],
            _log_odds_beyond(-inner[::-1], below[::-1], -grid),
            cubic(np.clip(grid, inner[0], inner[-1])),
        ),
    )
    mass = np.maximum(np.diff(expit(logit), axis=1), 0)
    total = mass.sum(axis=1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1), even)


def _log_odds_beyond(inner: Floats, above: Floats, places: Floats) -> Floats:
    """Log odds of a value above some places beyond the last of the inner edges, with `above` beyond each.

    The hazard, the fall of log(above) by position, is a line fitted to those between the edges in the upper
    half, each weighted by its width and the values above it; it is constant where the line would fall,
    and at least `LEAST_HAZARD` in the tail.
    """
    upper = np.flatnonzero(above <= 0.5)
    start = max(min(int(upper[0]) if len(upper) else len(above) - 1, len(above) - 2), 0)
    ends, log_above = inner[start:], np.log(above[start:])
    width = np.diff(ends)
    hazard, weight = -np.diff(log_above) / width, above[start + 1 :] * width
    middle = ends[:-1] + width / 2
    centre = np.average(middle, weights=weight)
    level, spread = np.average(hazard, weights=weight), np.average((middle - centre) ** 2, weights=weight)
    rise = np.average((middle - centre) * hazard, weights=weight) / spread if spread > 0 else 0.0
    rise = max(rise, 0.0)
    beyond = np.maximum(places - inner[-1], 0)
    last = max(level + rise * (inner[-1] - centre), LEAST_HAZARD)
    tail = log_above[-1] - last * beyond - rise * beyond**2 / 2
    return np.asarray(tail - np.log1p(-np.exp(np.minimum(tail, -1e-12))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Where the values of bins lie on the scale: by their rank among the values on their side of zero.

    Attributes:
        bounds: Bounds that give the scale.
        ranks: Share of the values on its side of zero that are below each bin, and share of the bin, by the
            probabilities with which bins are drawn, shape (2, b).
        sides: Bins of each side, the positions of the edges of their parts, and the share of values below
            each.
    """

    bounds: Bounds
    ranks: Floats
    sides: tuple[tuple[slice, Floats, Floats], ...]

    @classmethod
    def of(cls, edges: Floats, bounds: Bounds, drawn: Floats, shares: Floats | None = None) -> "Spread":
        """Return the spread of values.

        Args:
            edges: Edges of the bins, shape (b + 1,).
            bounds: Bounds that give the scale.
            drawn: Probability of each bin among those that are drawn, shape (b,).
            shares: Probability of each bin among the values, if known better, shape (b,); else `drawn`.
        """
        shares = drawn if shares is None else shares
        parts = interpolated(edges, shares, bounds)
        ranks, sides = np.zeros((2, len(drawn))), []
        for side in sides_of(edges):
            total = drawn[side].sum()
            own = drawn[side] / total if total > 0 else np.full(side.stop - side.start, 1.0)
            ranks[:, side] = np.cumsum(own) - own, own
            mass = shares[side, None] * parts[side] if shares[side].sum() > 0 else parts[side]
            below = np.append(0.0, np.cumsum(mass.ravel()))
            places = positions(edges[side.start : side.stop + 1], bounds)
            steps = np.arange(PARTS) / PARTS
            fine = np.append((places[:-1, None] + np.diff(places)[:, None] * steps).ravel(), places[-1])
            sides.append((side, fine, below / below[-1]))
        return cls(bounds=bounds, ranks=ranks, sides=tuple(sides))

    def values(self, bins: npt.NDArray[np.int64], drawn: Floats) -> Floats:
        """(n,) values of bins (n,), by uniform numbers (n,); of the bin of zero, 0."""
        found = np.zeros(len(bins))
        rank = self.ranks[0][bins] + drawn * self.ranks[1][bins]
        for side, places, below in self.sides:
            own = (bins >= side.start) & (bins < side.stop)
            found[own] = values_at(np.interp(rank[own], below, places), self.bounds)
        return found

    def edges(self, bins: Floats) -> Floats:
        """Edges between the values of the bins, shape (b + 1,), from those of the bins; the ends are kept."""
        found = np.where(np.abs(bins) <= SMALLEST, 0.0, bins)
        for side, _, _ in self.sides:
            inner = np.arange(side.start + 1, side.stop)
            found[inner] = self.values(inner, np.zeros(len(inner)))
        return found

    def means(self) -> Floats:
        """Mean of the values of each bin, shape (b,)."""
        count = self.ranks.shape[1]
        drawn = (np.arange(EVEN) + 0.5) / EVEN
        values = self.values(np.repeat(np.arange(count), EVEN), np.tile(drawn, count))
        return np.asarray(values.reshape(count, EVEN).mean(axis=1))
