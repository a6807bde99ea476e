"""Empirical audits of differential privacy: the loss that a mechanism's outputs show, at the least.

Two ways to a lower bound of epsilon, each above the true one with probability FALSE_ALARM at most:

* Many runs on two neighbouring inputs. If P(E) <= e^epsilon P'(E) for every event E, then an event that
  occurs far more often on one of them refutes epsilon; Clopper-Pearson bounds of both probabilities give a
  loss. Jagielski, Ullman, Oprea: Auditing Differentially Private Machine Learning, 2020.
* One run, many canaries. Each of K canaries is a record (or a person) that has one of two values by a fair
  coin, and the auditor guesses the coins from the output, or abstains. Turning a coin replaces one record,
  so whatever the other guesses, each is right with probability e^epsilon / (1 + e^epsilon) at most, and the
  number right of r is no larger, in distribution, than Binomial(r, that). Steinke, Nasr, Jagielski: Privacy
  Auditing with One (1) Training Run, 2023, Theorem 2.1 with delta = 0. Runs with coins of their own add up.

Both also bound the rho of zCDP: whether an event occurs, or a coin is guessed rightly, is made of the output,
so its Renyi divergences are no larger than the output's.

A bound below the claim proves nothing; one above it refutes the claim. Neither the event nor the rule of the
guesses may be chosen on the runs that are counted.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

FALSE_ALARM = 1e-10


def loss_shown(hits: npt.NDArray[np.bool_], hits_of_neighbour: npt.NDArray[np.bool_]) -> float:
    """A lower bound of epsilon from an event in independent runs on two neighbouring inputs.

    Args:
        hits: (r,) whether the event occurred in each run on one input.
        hits_of_neighbour: (s,) the same on the neighbouring input.

    >>> often, seldom = np.arange(1000) < 900, np.arange(1000) < 100
    >>> round(loss_shown(often, seldom), 2), round(math.log(9), 2)
    (1.56, 2.2)
    """
    likely = _lower(int(hits.sum()), len(hits), FALSE_ALARM / 2)
    rare = 1 - _lower(int((~hits_of_neighbour).sum()), len(hits_of_neighbour), FALSE_ALARM / 2)
    return math.log(likely / rare) if likely > 0 else 0.0


def loss_of_guesses(right: int, guesses: int) -> float:
    """A lower bound of epsilon from guesses at fair coins; 0 where they are no better than chance.

    Args:
        right: guesses that were right.
        guesses: all, without abstentions.

    >>> round(loss_of_guesses(900, 1000), 2), round(math.log(9), 2)
    (1.57, 2.2)
    """
    share = _lower(right, guesses, FALSE_ALARM)
    return max(0.0, math.log(share / (1 - share))) if share > 0 else 0.0


def rho_shown(hits: npt.NDArray[np.bool_], hits_of_neighbour: npt.NDArray[np.bool_]) -> float:
    """A lower bound of the rho of zCDP; arguments as of ``loss_shown``.

    Each divergence of order alpha of the two Bernoulli distributions is alpha rho at most.

    >>> often, seldom = np.arange(1000) < 900, np.arange(1000) < 100
    >>> round(rho_shown(often, seldom), 2)
    1.02
    """
    likely = _lower(int(hits.sum()), len(hits), FALSE_ALARM / 2)
    rare = 1 - _lower(int((~hits_of_neighbour).sum()), len(hits_of_neighbour), FALSE_ALARM / 2)
    return _rho(likely, rare)


def rho_of_guesses(right: int, guesses: int) -> float:
    """A lower bound of the rho of zCDP from guesses at fair coins; 0 where they are no better than chance.

    Of a rule that favours no side: it calls heads as often where they are as it is right, and where they are
    not as it is wrong. The guesses of one run must be independent, as they are where each looks at counts of
    its own, whose noises are.

    Args:
        right: guesses that were right.
        guesses: all.

    >>> round(rho_of_guesses(900, 1000), 2)
    1.03
    """
    share = _lower(right, guesses, FALSE_ALARM)
    return _rho(share, 1 - share)


def _rho(likely: float, rare: float) -> float:
    """The largest Renyi divergence over its order, of an event of one probability and of a smaller one."""
    if not likely > rare:
        return 0.0
    alpha = 1 + np.geomspace(1e-3, 100, 200)
    ratios = np.array([likely / rare, (1 - likely) / (1 - rare)])
    logs = np.log(np.array([rare, 1 - rare]))[:, None] + np.log(ratios)[:, None] * alpha
    divergences = np.logaddexp(*logs) / (alpha - 1)
    return float((divergences / alpha).max())


def _lower(hits: int, runs: int, alarm: float) -> float:
    """Clopper-Pearson: the probability of an event is below this with probability at most ``alarm``."""
    return float(stats.beta.ppf(alarm, hits, runs - hits + 1)) if hits else 0.0


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """A table of whole numbers in which each canary has one of two neighbouring values in all attributes.

    Canary i has 2 i or 2 i + 1, and each value has ``base`` records beside, so that noise leaves few counts
    below zero and what is done to such counts hides nothing. Turning a coin replaces one record, or all
    ``each`` rows of one person: both values' counts change by ``each`` in every attribute.

    Attributes:
        coins: (K,) whether canary i has the odd value.
        base: persons (records, where each has one) that every value has beside the canaries.
        each: rows of a person.
    """

    coins: npt.NDArray[np.bool_]
    base: int
    each: int = 1

    def table(self, attributes: list[str], person: str | None = None) -> pd.DataFrame:
        """The records: values as text, equal in all attributes; the person's number where it is asked for."""
        k = len(self.coins)
        values = np.concatenate([np.repeat(np.arange(2 * k), self.base), 2 * np.arange(k) + self.coins])
        who = np.repeat(np.arange(len(values)), self.each)
        text = np.arange(2 * k).astype(str).astype(object)[values[who]]
        columns: dict[str, npt.NDArray[np.generic]] = {} if person is None else {person: who}
        return pd.DataFrame({**columns, **dict.fromkeys(attributes, text)})

    def guesses(self, marginals: list[npt.NDArray[np.float64]]) -> tuple[int, int]:
        """How many coins are guessed, and how many of them rightly, from (2 K,) released shares.

        A count x of Laplace noise tells between b and b + m by the log-likelihood ratio, which is linear in
        between and constant beyond: clip(2 (x - b) / m - 1, -1, 1). What both values say in all attributes is
        summed up; a coin is guessed where nearly all of it, 0.85 in the mean, points one way.
        """
        told = np.zeros(len(self.coins))
        for shares in marginals:
            each_value = np.clip(2 * self._above(shares) - 1, -1, 1)
            told += each_value[1::2] - each_value[0::2]
        sure = np.abs(told) >= 0.85 * 2 * len(marginals)
        return int(((told > 0) == self.coins)[sure].sum()), int(sure.sum())

    def likelier(self, marginals: list[npt.NDArray[np.float64]]) -> tuple[int, int]:
        """The same of counts with Gaussian noise, whose log-likelihood ratio is linear; all are guessed."""
        above = sum((self._above(shares) for shares in marginals), np.zeros(2 * len(self.coins)))
        return int(((above[1::2] > above[0::2]) == self.coins).sum()), len(self.coins)

    def _above(self, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Persons of each value above those that it has beside the canaries, by released shares."""
        k = len(self.coins)
        total = (2 * k * self.base + k) * self.each
        return np.asarray(shares / shares.sum() * total / self.each - self.base)
