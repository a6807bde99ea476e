"""How likely a released record is to be linked to its person; one function a number, named for it.

El Emam and Dankar (2008), "Protecting privacy using k-anonymity": the *prosecutor* knows that a
person is in the table, the *journalist* does not and must find the person in a population.
Dankar and El Emam (2010): the *marketer* links as many records as possible and accepts errors.
Each links only by the quasi-identifiers and guesses evenly inside a class. None of these numbers covers what
a class reveals without linking a record; `hasr` does, in its simplest form.

f_j is the number of persons in class j; each record counts as a person unless it is known whose it is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.tables.classes import Classes

# Records in classes of fewer than five: the cell size that statistical offices most often refuse.
THRESHOLD = 0.2


def prosecutor_max(classes: Classes) -> float:
    """Risk of the most exposed record, ``max 1 / f_j``; 0 for an empty table."""
    return float(1.0 / classes.people.min()) if len(classes) else 0.0


def prosecutor_mean(classes: Classes) -> float:
    """Mean risk of a record: of equal records and persons, classes over records; 0 for an empty table."""
    return _linked(classes, classes.people) / classes.records if len(classes) else 0.0


def share_at_risk(classes: Classes, threshold: float = THRESHOLD) -> float:
    """Share of the records whose prosecutor risk is above the threshold, 0 .. 1.

    Raises:
        ValueError: If the threshold is not in [0, 1].
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")
    return _exposed(classes, threshold) / max(classes.records, 1)


def journalist_max(classes: Classes, population: npt.NDArray[np.int64] | None = None) -> float:
    """Risk of the most exposed record when its class is sought in a population, ``max 1 / F_j``.

    Args:
        classes: Classes of the release.
        population: Number F_j of people in the population with the released values of class j, shape (c,).
            Without it F_j = f_j, the least that is possible: the prosecutor's risk, an upper bound.

    Raises:
        ValueError: If there is not one number a class, or one is below the class's own size.
    """
    return float(1.0 / _population(classes, population).min()) if len(classes) else 0.0


def journalist_mean(classes: Classes, population: npt.NDArray[np.int64] | None = None) -> float:
    """Mean risk of a record, ``1/n sum_j f_j / F_j``; arguments and errors as `journalist_max`."""
    if not len(classes):
        return 0.0
    return _linked(classes, _population(classes, population)) / classes.records


def marketer(classes: Classes, population: npt.NDArray[np.int64] | None = None) -> float:
    """Expected share of records that are linked correctly, ``1/n sum_j f_j / F_j``.

    Arguments and errors as `journalist_max`. It is the journalist's mean by definition, and without a
    population classes over records; what differs is the attacker, who goes for the share.
    """
    return journalist_mean(classes, population)


def hasr(classes: Classes, attribute: str | None = None) -> float:
    """Share of the classes in which all persons have the same sensitive value, and are disclosed, 0 .. 1.

    R_HASR of Zhu, Zhao and Wang (2010), section 5. Without an attribute the worst of the sensitive attributes
    counts; 0 if there is none, or no class.

    Raises:
        SchemaError: If the attribute is not a sensitive one.
    """
    names = tuple(classes.sensitive) if attribute is None else (attribute,)
    return max((_homogeneous(classes, name) for name in names), default=0) / max(len(classes), 1)


def r_man(changed: int, records: int) -> float:
    """Share of the records whose sensitive value was changed, 0 .. 1: R_man of Zhu et al. (2010), section 5.

    Raises:
        ValueError: Unless 0 <= changed <= records and there is a record.
    """
    if not 0 <= changed <= records or records < 1:
        raise ValueError(f"changed must be in 0 .. records, and records >= 1, got {changed} of {records}")
    return changed / records


def figures(classes: Classes, population: npt.NDArray[np.int64] | None = None) -> dict[str, float]:
    """Return all figures by name; ``hasr`` only if there is a sensitive attribute."""
    found = {
        "classes": float(len(classes)),
        "smallest_class": float(classes.people.min()) if len(classes) else 0.0,
        "prosecutor_max": prosecutor_max(classes),
        "prosecutor_mean": prosecutor_mean(classes),
        "share_at_risk": share_at_risk(classes),
        "journalist_max": journalist_max(classes, population),
        "journalist_mean": journalist_mean(classes, population),
        "marketer": marketer(classes, population),
    }
    if classes.sensitive:
        found["hasr"] = hasr(classes)
    return found


class PartFigures:
    """As `figures` without a population, for the classes of a table that come part by part.

    Args:
        sensitive: Sensitive attributes, in case there is no class with them.
    """

    def __init__(self, sensitive: Iterable[str] = ()) -> None:
        self._classes = self._records = self._exposed = self._smallest = 0
        self._linked = 0.0
        self._homogeneous = Counter(dict.fromkeys(sensitive, 0))

    def add(self, part: Classes) -> None:
        """Take some of the classes into account."""
        if len(part):
            smallest = int(part.people.min())
            self._smallest = min(self._smallest or smallest, smallest)
        self._classes += len(part)
        self._records += part.records
        self._exposed += _exposed(part, THRESHOLD)
        self._linked += _linked(part, part.people)
        self._homogeneous.update({name: _homogeneous(part, name) for name in part.sensitive})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which `take` takes."""
        return {
            "classes": self._classes,
            "records": self._records,
            "smallest": self._smallest,
            "exposed": self._exposed,
            "linked": self._linked,
            "homogeneous": dict(self._homogeneous),
        }

    def take(self, other: Mapping[str, Any]) -> None:
        """Add the sums of another instance over other classes."""
        if other["classes"]:
            self._smallest = min(self._smallest or other["smallest"], other["smallest"])
        self._classes += other["classes"]
        self._records += other["records"]
        self._exposed += other["exposed"]
        self._linked += other["linked"]
        self._homogeneous.update(other["homogeneous"])

    def figures(self) -> dict[str, float]:
        """Of all classes that were added."""
        largest, mean = (1.0 / self._smallest, self._linked / self._records) if self._classes else (0.0, 0.0)
        found = {
            "classes": float(self._classes),
            "smallest_class": float(self._smallest),
            "prosecutor_max": largest,
            "prosecutor_mean": mean,
            "share_at_risk": self._exposed / max(self._records, 1),
            "journalist_max": largest,  # of a population that is not known, the release is the least
            "journalist_mean": mean,
            "marketer": mean,
        }
        if self._homogeneous:
            found["hasr"] = max(self._homogeneous.values()) / max(self._classes, 1)
        return found


def _exposed(classes: Classes, threshold: float) -> int:
    """Records whose prosecutor risk is above the threshold."""
    return int(classes.sizes[1.0 / classes.people > threshold].sum())


def _linked(classes: Classes, population: npt.NDArray[np.int64]) -> float:
    """Records that are expected to be linked correctly: ``sum_j n_j / F_j`` of n_j records in class j."""
    return float((classes.sizes / population).sum())


def _homogeneous(classes: Classes, attribute: str) -> int:
    """Return the classes with a sensitive value that everyone has."""
    counts = classes.counts(attribute)
    everybody = counts.sizes[counts.classes] == (counts.counts if counts.persons is None else counts.persons)
    return len(np.unique(counts.classes[everybody]))


def _population(classes: Classes, population: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    if population is None:
        return classes.people
    if population.shape != classes.people.shape or (population < classes.people).any():
        raise ValueError(
            f"population must give for each of the {len(classes)} classes a number of people not below "
            f"the class's persons, got shape {population.shape}"
        )
    return population
