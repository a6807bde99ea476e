"""Empirical audits of differential privacy: a lower bound of the loss that a mechanism's outputs show.

Two ways to a lower bound of epsilon; each exceeds the true epsilon with probability at most FALSE_ALARM:

* Many runs on two neighbouring inputs. If P(E) <= e^epsilon P'(E) for every event E, then an event that
  occurs far more often on one of them refutes epsilon; Clopper-Pearson bounds of both probabilities give a
  loss. Jagielski, Ullman, Oprea: Auditing Differentially Private Machine Learning, 2020.
* One run, many canaries. Each of K canaries is a record (or a person) that has one of two values by a fair
  coin, and the auditor guesses the coins from the output, or abstains. Turning a coin replaces one record.
  So, whatever the other guesses are, each is right with probability at most e^epsilon / (1 + e^epsilon), and
  the number of right guesses of r is no larger, in distribution, than Binomial(r, that). Steinke, Nasr,
  Jagielski: Privacy Auditing with One (1) Training Run, 2023, Theorem 2.1 with delta = 0. Runs with separate
      coins add up.

Both also bound the rho of zCDP: whether an event occurs, or a coin is guessed correctly, is computed from the
output, so its Renyi divergences are no larger than the output's.

A bound below the claim proves nothing; a bound above the claim refutes it. Neither the event nor the rule for
guessing may be chosen on the runs that are counted.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

FALSE_ALARM = 1e-10


def loss_shown(hits: npt.NDArray[np.bool_], hits_of_neighbour: npt.NDArray[np.bool_]) -> float:
    """Return a lower bound of epsilon from an event in independent runs on two neighbouring inputs.

    Args:
        hits: Whether the event occurred in each run on one input, shape (r,).
        hits_of_neighbour: The same on the neighbouring input, shape (s,).

    >>> often, seldom = np.arange(1000) < 900, np.arange(1000) < 100
    >>> round(loss_shown(often, seldom), 2), round(math.log(9), 2)
    (1.56, 2.2)
    """
    likely = _lower(int(hits.sum()), len(hits), FALSE_ALARM / 2)
    rare = 1 - _lower(int((~hits_of_neighbour).sum()), len(hits_of_neighbour), FALSE_ALARM / 2)
    return math.log(likely / rare) if likely > 0 else 0.0


def loss_of_guesses(right: int, guesses: int) -> float:
    """Return a lower bound of epsilon from guesses of fair coins; 0 if they are no better than chance.

    Args:
        right: Number of right guesses.
        guesses: Number of guesses, without abstentions.

    >>> round(loss_of_guesses(900, 1000), 2), round(math.log(9), 2)
    (1.57, 2.2)
    """
    share = _lower(right, guesses, FALSE_ALARM)
    return max(0.0, math.log(share / (1 - share))) if share > 0 else 0.0


def rho_shown(hits: npt.NDArray[np.bool_], hits_of_neighbour: npt.NDArray[np.bool_]) -> float:
    """Return a lower bound of the rho of zCDP; arguments as for ``loss_shown``.

    Each divergence of order alpha of the two Bernoulli distributions is at most alpha rho.

    >>> often, seldom = np.arange(1000) < 900, np.arange(1000) < 100
    >>> round(rho_shown(often, seldom), 2)
    1.02
    """
    likely = _lower(int(hits.sum()), len(hits), FALSE_ALARM / 2)
    rare = 1 - _lower(int((~hits_of_neighbour).sum()), len(hits_of_neighbour), FALSE_ALARM / 2)
    return _rho(likely, rare)


def rho_of_guesses(right: int, guesses: int) -> float:
    """Return a lower bound of the rho of zCDP from guesses of fair coins; 0 if no better than chance.

    The rule must favour no side: it must be right about heads as often as about tails. The guesses of one run
    must be independent, as they are if each uses separate counts, whose noises are.

    Args:
        right: Number of right guesses.
        guesses: Number of guesses.

    >>> round(rho_of_guesses(900, 1000), 2)
    1.03
    """
    share = _lower(right, guesses, FALSE_ALARM)
    return _rho(share, 1 - share)


def _rho(likely: float, rare: float) -> float:
    """Return the largest Renyi divergence over its order, for two probabilities of an event."""
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

    Canary i has 2 i or 2 i + 1, and each value has ``base`` further records, so that noise leaves few counts
    below zero and their post-processing hides nothing. Turning a coin replaces one record, or all ``each``
    rows of one person: the counts of both values change by ``each`` in every attribute.

    Attributes:
        coins: Whether canary i has the odd value, shape (K,).
        base: Number of further persons (or records, if each has one) of every value.
        each: Number of rows per person.
    """

    coins: npt.NDArray[np.bool_]
    base: int
    each: int = 1

    def table(self, attributes: list[str], person: str | None = None) -> pd.DataFrame:
        """Return the records: values as text, equal in all attributes; the person's number if requested."""
        k = len(self.coins)
        values = np.concatenate([np.repeat(np.arange(2 * k), self.base), 2 * np.arange(k) + self.coins])
        who = np.repeat(np.arange(len(values)), self.each)
        text = np.arange(2 * k).astype(str).astype(object)[values[who]]
        columns: dict[str, npt.NDArray[np.generic]] = {} if person is None else {person: who}
        return pd.DataFrame({**columns, **dict.fromkeys(attributes, text)})

    def guesses(self, marginals: list[npt.NDArray[np.float64]]) -> tuple[int, int]:
        """Guess coins from (2 K,) released shares. Return how many are right, and how many are guessed.

        A count x with Laplace noise distinguishes b and b + m by the log-likelihood ratio, which is linear in
        between and constant beyond: clip(2 (x - b) / m - 1, -1, 1). The ratios of both values in all
        attributes are summed; a coin is guessed if nearly all of the sum, 0.85 on average, points one way.
        """
        evidence = np.zeros(len(self.coins))
        for shares in marginals:
            each_value = np.clip(2 * self._above(shares) - 1, -1, 1)
            evidence += each_value[1::2] - each_value[0::2]
        sure = np.abs(evidence) >= 0.85 * 2 * len(marginals)
        return int(((evidence > 0) == self.coins)[sure].sum()), int(sure.sum())

    def likelier(self, marginals: list[npt.NDArray[np.float64]]) -> tuple[int, int]:
        """The same for Gaussian noise, with a linear log-likelihood ratio; all coins are guessed."""
        above = sum((self._above(shares) for shares in marginals), np.zeros(2 * len(self.coins)))
        return int(((above[1::2] > above[0::2]) == self.coins).sum()), len(self.coins)

    def _above(self, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the persons of each value beyond ``base``, from released shares."""
        k = len(self.coins)
        total = (2 * k * self.base + k) * self.each
        return np.asarray(shares / shares.sum() * total / self.each - self.base)
