"""Empirical audit: how much of its privacy loss a mechanism shows on two neighbouring inputs.

If P(E) <= e^epsilon P'(E) for every event E, then an event that occurs far more often on one input than on
its neighbour refutes the claim of epsilon. From the hits among independent runs on either input,
Clopper-Pearson bounds give a loss that the mechanism has at least, except with probability FALSE_ALARM. The
event must not be chosen on the runs that it is counted on.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn.linear_model import LogisticRegression

FALSE_ALARM = 1e-10


def loss_shown(hits: npt.NDArray[np.bool_], hits_of_neighbour: npt.NDArray[np.bool_]) -> float:
    """A lower bound of the privacy loss, wrong (above the true loss) with probability at most FALSE_ALARM.

    Args:
        hits: (r,) whether the event occurred in each run on one input.
        hits_of_neighbour: (s,) the same on the neighbouring input.
    """
    likely = _lower(int(hits.sum()), len(hits))
    rare = 1 - _lower(int((~hits_of_neighbour).sum()), len(hits_of_neighbour))
    return math.log(likely / rare) if likely > 0 else 0.0


def _lower(hits: int, runs: int) -> float:
    """Clopper-Pearson: the probability of an event is below this with probability at most FALSE_ALARM / 2."""
    return float(stats.beta.ppf(FALSE_ALARM / 2, hits, runs - hits + 1)) if hits else 0.0


def loss_shown_by_attack(outputs: npt.NDArray[np.float64], of_neighbour: npt.NDArray[np.float64]) -> float:
    """The loss that a trained attack on whole outputs shows: learned on half the runs, counted on the others.

    Args:
        outputs: (r, f) figures of the output of each run on one input.
        of_neighbour: (s, f) the same on the neighbouring input.
    """
    train, train_other = outputs[::2], of_neighbour[::2]
    attack = LogisticRegression(max_iter=1000).fit(
        np.vstack([train, train_other]), np.repeat([1, 0], [len(train), len(train_other)])
    )
    scores, scores_other = (attack.decision_function(runs) for runs in (outputs, of_neighbour))
    # The threshold, too, is chosen on the runs that the attack was trained on: the middle one of the best.
    thresholds = np.quantile(np.append(scores[::2], scores_other[::2]), np.linspace(0.02, 0.98, 49))
    shown = np.array([loss_shown(scores[::2] > t, scores_other[::2] > t) for t in thresholds])
    best = np.median(thresholds[shown == shown.max()])
    return loss_shown(scores[1::2] > best, scores_other[1::2] > best)
