"""Figures of a fragment's release, as numbers that add up to the figures of the whole table.

Losses are charged against the domains of the whole table, so their sums over fragments are those of the
joined recoding, as `utility` and `distributions` would measure them; but where cells are suppressed and not
generalized, a number's own values are charged against the distinct ones of its fragment. What does not add up
(entropy, the answers to queries) is not here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from privacy_engine.measures import utility
from privacy_engine.measures.distributions import AttributeTally, Distribution, Withheld, shown, tallies
from privacy_engine.measures.utility import Charge
from privacy_engine.release import Release
from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class FragmentFigures:
    """Sums over the records and classes of some fragments. As private as the source: the tallies are exact.

    Attributes:
        attributes: Quasi-identifiers, shape (q,).
        records: Number of records of the source.
        released, suppressed: Numbers of released and suppressed records.
        suppressed_cells: Quasi-identifier cells that do not show their original value.
        classes: Number of classes of the fragments; two that look the same count twice.
        squares: Sum of the squared sizes of the classes.
        distorted: Records whose sensitive value was changed.
        lca, own: NCP of all released records together, by either charge for several values of a tree, shape
            (q,).
        tallies: Tallies of each quasi-identifier, before and after, shape (q,).
        counts: Further counts of the method, such as clusters; a value that is absorbed in two fragments
            counts twice.
    """

    attributes: tuple[str, ...]
    records: int
    released: int
    suppressed: int
    suppressed_cells: int
    classes: int
    squares: float
    distorted: int
    lca: tuple[float, ...]
    own: tuple[float, ...]
    tallies: tuple[AttributeTally | Withheld, ...]
    counts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, release: Release, schema: DataSchema) -> "FragmentFigures":
        """The figures of an anonymizer's release.

        Args:
            release: Release of a fragment's records.
            schema: Schema of the source, for the domains that are public.
        """
        recoding = release.recoding
        if recoding is None:
            raise ValueError("figures of fragments are about recodings: the release has none")
        sizes = recoding.sizes.astype(np.float64)
        return cls(
            attributes=recoding.encoded.quasi_identifiers,
            records=len(recoding.encoded),
            released=len(release.table),
            suppressed=recoding.suppressed,
            suppressed_cells=utility.suppressed_cells(recoding),
            classes=recoding.classes,
            squares=float(sizes @ sizes),
            distorted=round(release.notes.get("distorted", 0.0) * len(recoding.encoded)),
            lca=tuple(utility.loss_sums(recoding, Charge.LCA).tolist()),
            own=tuple(utility.loss_sums(recoding, Charge.OWN).tolist()),
            tallies=tuple(tallies(recoding, schema.quasi_identifiers)),
            counts={name: count for name, count in release.notes.items() if name != "distorted"},
        )

    @classmethod
    def total(cls, parts: Iterable["FragmentFigures"]) -> "FragmentFigures":
        """The sum of the figures of at least one fragment."""
        return reduce(add, parts)

    def __add__(self, other: "FragmentFigures") -> "FragmentFigures":
        """The figures of the fragments of both."""
        if self.attributes != other.attributes:
            raise ValueError("figures add up only for fragments of one table")
        return FragmentFigures(
            attributes=self.attributes,
            records=self.records + other.records,
            released=self.released + other.released,
            suppressed=self.suppressed + other.suppressed,
            suppressed_cells=self.suppressed_cells + other.suppressed_cells,
            classes=self.classes + other.classes,
            squares=self.squares + other.squares,
            distorted=self.distorted + other.distorted,
            lca=tuple(map(add, self.lca, other.lca)),
            own=tuple(map(add, self.own, other.own)),
            tallies=tuple(one + another for one, another in zip(self.tallies, other.tallies, strict=True)),
            counts={
                name: self.counts.get(name, 0.0) + other.counts.get(name, 0.0)
                for name in self.counts | other.counts
            },
        )

    @property
    def discernibility(self) -> float:
        """As `utility.discernibility`: a suppressed record is indistinguishable from any of the table."""
        return self.squares + float(self.suppressed * self.records)

    @property
    def notes(self) -> dict[str, float]:
        """Notes of a joined release for its readers, as ``Release.notes``."""
        return {"distorted": self.distorted / self.records, **self.counts}

    def losses(self) -> list[tuple[str, float, float]]:
        """Mean loss of each quasi-identifier, 0 .. 1: its name, by ``lca`` and by ``own``."""
        return [
            (name, (lca + self.suppressed) / self.records, (own + self.suppressed) / self.records)
            for name, lca, own in zip(self.attributes, self.lca, self.own, strict=True)
        ]

    def utility(self) -> dict[str, float]:
        """Those of `utility.figures` that add up, by the same names."""
        losses = self.losses()
        by_lca = float(np.mean([lca for _, lca, _ in losses]))
        return {
            "gcp": by_lca,
            "gcp_lca": by_lca,
            "gcp_own": float(np.mean([own for _, _, own in losses])),
            "suppressed": self.suppressed / self.records,
            "suppressed_records": float(self.suppressed),
            "suppressed_cells": float(self.suppressed_cells),
            "discernibility": self.discernibility,
            "average_class_size": self.released / self.classes if self.classes else 0.0,
        }

    def distributions(self, smallest_count: int) -> list[Distribution | Withheld]:
        """As `distributions.distributions`: what may be published of the quasi-identifiers before and after.

        Args:
            smallest_count: Smallest count of the source that is shown, >= 2; smaller ones are hidden, others
                rounded to its multiples.
        """
        return shown(self.tallies, smallest_count)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``from_dict``; keep them only where the source may be kept."""
        out: dict[str, Any] = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return out | {"tallies": [_tally_to_dict(tally) for tally in self.tallies]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "FragmentFigures":
        """Read what ``to_dict`` writes."""
        known = {f.name: given[f.name] for f in fields(cls)}
        lists = {name: tuple(known[name]) for name in ("attributes", "lca", "own")}
        return cls(**known | lists | {"tallies": tuple(_tally_from_dict(t) for t in known["tallies"])})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tally_to_dict(tally: AttributeTally | Withheld) -> dict[str, Any]:
    return {f.name: _plain(getattr(tally, f.name)) for f in fields(tally)}


def _tally_from_dict(given: Mapping[str, Any]) -> AttributeTally | Withheld:
    if "reason" in given:
        return Withheld(**given)
    lists = {name: tuple(given[name]) for name in ("groups", "before", "after")}
    return AttributeTally(**{**given, **lists})
