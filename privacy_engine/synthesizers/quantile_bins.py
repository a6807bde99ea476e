"""Private quantile bins: bins of a number with wide bounds between noisy quantiles, and their own counts.

Equal bins between honest bounds, such as 0 to 100,000,000 for an income, put nearly all records into the
first one. Here bins are chosen where the records are, and a method works on these:

     1  count the records on a fine public grid, equal in the logarithm (``tables.scales``)              noise
     2  smooth the counts, with zero and null apart (``postprocess.likely_values``)
     3  edges at equal steps of F + `TAIL_WEIGHT` logit F / (range of logit F), of the distribution function
        F on each side of zero, but none where the records beyond it would not exceed the noise of step 4
     4  count the records in these bins                                                                  noise
     5  the records' bins on the grid become those between the edges; null stays null

The values of the records that are drawn follow the counts of step 4, whatever the noise of the method does to
its bins: a record's bin is its rank among the values on its side of zero, and its value the quantile of that
rank (``tables.spread.Spread``).

Neighbour relation and claim: those of the method. Steps 1 and 4 are the only ones that read the records: for
each such attribute two tables of counts, each of sensitivity ``Change.of_table(each)``, with discrete Laplace
or Gaussian noise from OpenDP, and a part of a share of the budget that follows from the schema and the
parameters. They compose sequentially with each other, although the second depends on what the first showed,
and with the method, which has the rest. Steps 2 and 3 read noisy counts and public figures. Given the edges,
step 5 is a function of each record: neighbours differ in as many replaced records as before.

Why not the exponential mechanism for each quantile, as in OpenDP's `make_private_quantile`: q edges share the
part, so that each is off by about 2 q / part ranks or more, and nothing is known of the tail between them.
One table of counts gives all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork
from privacy_engine.synthesizers.postprocess import likely_values
from privacy_engine.tables.domains import BinnedDomain, CodedTable, PublicDomain, code_type
from privacy_engine.tables.marginals import contingency
from privacy_engine.tables.scales import sides_of
from privacy_engine.tables.spread import Spread

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TAIL_WEIGHT = 1.0  # of the logit of the distribution function, next to itself, in the spacing of edges
LEAST_TAIL = 0.005  # of the records on a side, beyond which no edge lies
CLEAR = 30.0  # standard deviations of the noise that the records beyond the last edge should exceed
CLEAR_BIN = 6.0  # the same of an outer bin of `scale: log`
STEP = 0.7  # standard deviation of the difference of neighbours' logits on the grid
MOST_SHARE = 0.25  # of epsilon or rho, for all attributes with quantile bins together
LEAST_BINS = 5  # of each side of zero, if as many are required at all: fewer say nothing of its tails
GRID_SHARE = 1 / 3  # of the part of an attribute, for the grid; the rest is for its bins


@dataclass(frozen=True, kw_only=True)
class QuantileBins:
    """The quantile bins of one attribute.

    Attributes:
        edges: Edges of the bins, shape (b + 1,).
        shares: Probability of each bin, from noisy counts, shape (b,); empty if those of the model are newer.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    def fixed(self) -> "QuantileBins":
        """Return the same bins for a later release, whose model has its own probabilities."""
        return replace(self, shares=())

    def to_dict(self) -> dict[str, list[float]]:
        """Return plain values for ``from_dict``."""
        return {"edges": list(self.edges), "shares": list(self.shares)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Sequence[float]]) -> "QuantileBins":
        """Read the output of ``to_dict``."""
        return cls(edges=tuple(fields["edges"]), shares=tuple(fields["shares"]))


Bins = Mapping[str, QuantileBins]


def pending(domains: Sequence[PublicDomain]) -> list[BinnedDomain]:
    """The domains whose quantile bins are still to be chosen."""
    return [d for d in domains if isinstance(d, BinnedDomain) and d.into is not None]


def share_of_all(share: float, attributes: int) -> float:
    """Return the part of the budget for the bins of a number of attributes, by the share of one.

    >>> share_of_all(0.08, 1), share_of_all(0.08, 5)
    (0.08, 0.25)
    """
    return min(share * attributes, max(share, MOST_SHARE))


def with_quantile_bins(coded: CodedTable, noise: NoiseBudget, part: float) -> tuple[CodedTable, Bins]:
    """Choose the bins of all attributes that are to have quantile bins, and join the records' bins.

    Args:
        coded: Records on the fine grids of these attributes, at least one of which there is.
        noise: Budget that pays.
        part: Part of it for all of these attributes together.

    Returns:
        The records in the new bins, and the bins by attribute.
    """
    waiting = pending(coded.domains)
    change, found = Change.of_table(coded.each), {}
    for domain, each in zip(waiting, split(part, [1] * len(waiting)), strict=True):
        own = contingency(coded, (coded.names.index(domain.name),))
        count = partial(noise.add, change=change, target=domain.name)
        deviation = partial(noise.deviation, change=change)
        if is_grid(domain):
            on_grid, on_bins = split(each, (GRID_SHARE, 1 - GRID_SHARE))
            edges = quantile_edges(
                domain, count(own, on_grid), len(coded), deviation(on_grid), deviation(on_bins)
            )
            final = replace(domain, edges=np.array(edges), into=None)
            noisy = count(_summed(own, domain, final), on_bins)
        else:
            noisy, on_bins = count(own, each), each
            edges = clear_edges(domain, noisy, deviation(each))
            final = replace(domain, edges=np.array(edges), into=None)
            noisy = _summed(noisy, domain, final)
        shares = _likely(final, noisy, len(coded), deviation(on_bins))[: final.bins]
        found[domain.name] = QuantileBins(edges=edges, shares=tuple((shares / shares.sum()).tolist()))
    return in_bins(coded, found), found


def largest(coded: CodedTable) -> CodedTable:
    """A table of no records, with as many bins as could be chosen: what a method must accept in advance.

    Zero has one bin more, and the other side of zero `LEAST_BINS`, or one by rounding.

    A refusal after noise was drawn would be a noisy answer that nothing pays for.
    """
    return replace(
        coded,
        codes=np.zeros((len(coded.domains), 0), dtype=np.uint16),
        weights=None,
        domains=tuple(
            replace(d, edges=np.arange(min(d.bins, d.into + LEAST_BINS + 2) + 1.0), into=None)
            if isinstance(d, BinnedDomain) and d.into is not None
            else d
            for d in coded.domains
        ),
    )


def is_grid(domain: BinnedDomain) -> bool:
    """Whether bins are a fine grid for quantiles, and not bins of which only the outer ones may be joined."""
    return domain.into is not None and domain.into < domain.bins


def _summed(counts: Ints, fine: BinnedDomain, bins: BinnedDomain) -> Ints:
    """(size,) counts of bins from those of the bins that they are joined from."""
    summed = np.zeros(bins.size, dtype=np.int64)
    np.add.at(summed, joined_codes(fine, bins), counts)
    return summed


def clear_edges(domain: BinnedDomain, noisy: Ints, deviation: float) -> tuple[float, ...]:
    """Edges of bins of which the outer ones on each side, whose counts noise may explain, are joined.

    Args:
        domain: Domain with the bins.
        noisy: Noisy counts, shape (size,).
        deviation: Standard deviation of their noise.
    """
    kept = np.ones(len(domain.edges), dtype=bool)
    for side in sides_of(domain.edges):
        clear = side.start + np.flatnonzero(noisy[side] >= CLEAR_BIN * deviation)
        first, last = (clear[0], clear[-1]) if len(clear) else (side.stop, side.stop)
        kept[side.start + 1 : first] = False
        kept[last + 2 : side.stop] = False
    return tuple(domain.edges[kept].tolist())


def _likely(domain: BinnedDomain, noisy: Ints, total: int, deviation: float, **step: float) -> Floats:
    """(size,) probabilities of the bins from their noisy counts; zero and null are not on the scale."""
    on_scale = np.concatenate([np.arange(side.start, side.stop) for side in sides_of(domain.edges)])
    order = np.concatenate([on_scale, np.setdiff1d(np.arange(domain.size), on_scale)])
    likely = np.empty(domain.size)
    likely[order] = likely_values(
        noisy[order], total, scale=deviation / math.sqrt(2), on_scale=len(on_scale), **step
    )
    return likely


def quantile_edges(
    domain: BinnedDomain, noisy: Ints, total: int, deviation: float, later: float
) -> tuple[float, ...]:
    """Edges of quantile bins, from noisy counts on the grid of a domain: steps 2 and 3.

    Args:
        domain: Domain with the grid and the number of bins; zero has one more.
        noisy: Noisy counts, shape (size,).
        total: Public number of records.
        deviation: Standard deviation of their noise.
        later: Standard deviation of the noise with which the bins are counted.
    """
    likely = _likely(domain, noisy, total, deviation, step=STEP)
    sides = sides_of(domain.edges)
    mass = np.array([likely[side].sum() for side in sides])
    kept = np.zeros(len(domain.edges), dtype=bool)
    kept[[0, -1]] = True
    for side, own in zip(sides, mass, strict=True):
        kept[[side.start, side.stop]] = True
        bins = max(round((domain.into or 1) * own / mass.sum()), min(domain.into or 1, LEAST_BINS))
        tail = min(max(LEAST_TAIL, CLEAR * later / max(total * own, 1.0)), 0.25)
        kept[side.start + 1 : side.stop] |= _cuts(likely[side] / own, bins, tail)
    return tuple(domain.edges[kept].tolist())


def _cuts(likely: Floats, bins: int, tail: float) -> npt.NDArray[np.bool_]:
    """(s - 1,) whether a bin ends after each of these s, except for the last, by their probabilities."""
    below = np.cumsum(likely)[:-1]
    if bins < 3:  # none for tails
        return np.asarray(np.diff(np.minimum(np.floor(below * bins), bins - 1), prepend=0) > 0)
    below = np.clip(below, tail, 1 - tail)
    logit = np.log(below / (1 - below))
    reach = np.log((1 - tail) / tail)
    level = (below - tail) / (1 - 2 * tail) + TAIL_WEIGHT * (logit + reach) / (2 * reach)
    step = np.floor(level / (1 + TAIL_WEIGHT) * (bins - 2) + 1e-9) + (level > 0)
    return np.asarray(np.diff(step, prepend=0) > 0)


def in_bins(coded: CodedTable, bins: Bins) -> CodedTable:
    """The records with the grids of some attributes joined to these bins."""
    domains = binned(coded.domains, bins)
    codes = np.empty(coded.codes.shape, dtype=code_type(domains))
    for row, old, fine, domain in zip(codes, coded.codes, coded.domains, domains, strict=True):
        row[:] = old if fine is domain else joined_codes(fine, domain)[old]
    return replace(coded, domains=domains, codes=codes)


def joined_codes(fine: PublicDomain, bins: PublicDomain) -> Ints:
    """(size,) code in the joined bins of each bin of a domain that they are joined from."""
    assert isinstance(fine, BinnedDomain)
    assert isinstance(bins, BinnedDomain)
    found = np.searchsorted(bins.edges[1:-1], fine.edges[:-1], side="right")
    return np.append(found, bins.bins) if fine.nullable else found


def binned(domains: Sequence[PublicDomain], bins: Bins) -> tuple[PublicDomain, ...]:
    """Domains with the chosen bins of the attributes that have them."""
    return tuple(
        replace(d, edges=np.array(bins[d.name].edges), into=None)
        if isinstance(d, BinnedDomain) and d.into is not None and d.name in bins
        else d
        for d in domains
    )


def spread(domains: Sequence[PublicDomain], bins: Bins, network: BayesianNetwork) -> tuple[PublicDomain, ...]:
    """Domains on a logarithmic scale with the spread of their values, for records drawn from a network."""
    found = []
    for domain in domains:
        if isinstance(domain, BinnedDomain) and domain.bounds is not None and domain.into is None:
            drawn = network.marginal([domain.name])[: domain.bins]
            own = bins.get(domain.name)
            shares = np.array(own.shares) if own is not None and own.shares else None
            domain = replace(domain, spread=Spread.of(domain.edges, domain.bounds, drawn, shares))
        found.append(domain)
    return tuple(found)
