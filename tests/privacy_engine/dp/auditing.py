"""A trained attack on whole outputs, for the audits; the bounds are the engine's."""

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from benchmarks.auditing import loss_shown


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
