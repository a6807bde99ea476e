"""Which tables of a population are followed: chosen by LatentClass once, counted and fitted ever after.

The choice reads the records of the first release, and its noise is paid for then. From then on the tables,
the groups of values that their axes count, and the functional dependencies are fixed: public, and the same in
all releases. Within a group, values keep their shares of the first release.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy_engine.dp.noise import NoiseBudget
from privacy_engine.synthesizers.latent.dependencies import Dependency
from privacy_engine.synthesizers.latent.large_attributes import LargeAttributes
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.latent_classes import (
    View,
)
from privacy_engine.synthesizers.latent.learned_model import (
    LAST_STEPS,
    ClassChoice,
    Measurement,
    fitted_parts,
    learned_of,
)
from privacy_engine.synthesizers.latent.parts import Part, connected, small_parts
from privacy_engine.synthesizers.latent.rare_values import ValueGroups, sums_by_group
from privacy_engine.synthesizers.latent.related_pairs import WIDE
from privacy_engine.synthesizers.postprocess import project_to_simplex
from privacy_engine.synthesizers.synthesizer import Learned
from privacy_engine.tables.domains import CodedTable
from privacy_engine.tables.marginals import WeightedRecords, contingency

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SEED = 20261125  # of the starting points: they are the same each time, and hide nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCounts:
    """Noisy counts of a table.

    Attributes:
        cells: Float64, shape (cells,).
        variance: Variance of the noise of a cell, > 0.
    """

    cells: Floats
    variance: float


@dataclass(frozen=True, kw_only=True, eq=False)
class FixedViews:
    """The tables that one run of LatentClass measured, with everything required to fit a model to them again.

    Attributes:
        method: Method that chose them.
        free: Numbers of the attributes that no other one determines.
        groups: Groups of each free attribute's values, shape (free,).
        found: Dependencies among attributes, in the order in which they were found.
        members: Attributes of each table, as indexes in `free`, shape (k,).
        coarse: Coarser groups of each of its axes, shape (k,); empty if there are none.
        on_scale: Number of groups that lie on a scale, shape (free,).
        large: Attributes that are drawn last, as in the first release; numbers are of a table without them.
    """

    method: LatentClass
    free: tuple[int, ...]
    groups: tuple[ValueGroups, ...]
    found: tuple[Dependency, ...]
    members: tuple[tuple[int, ...], ...]
    coarse: tuple[tuple[Ints | None, ...], ...]
    on_scale: tuple[int, ...]
    large: LargeAttributes = field(default_factory=LargeAttributes)

    @classmethod
    def of(cls, measured: Measurement, method: LatentClass) -> "FixedViews":
        """The tables of a measurement that the method made."""
        return cls(
            method=method,
            free=measured.attributes.plan.free,
            groups=measured.attributes.groups,
            found=measured.found,
            members=tuple(view.members for view in measured.views),
            coarse=tuple(view.groups for view in measured.views),
            on_scale=measured.attributes.on_scale,
            large=measured.large,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the method."""
        fields = {
            "free": list(self.free),
            "groups": [[g.group_of.tolist(), g.shares.tolist()] for g in self.groups],
            "found": [[d.determining, d.determined, d.function.tolist()] for d in self.found],
            "members": [list(members) for members in self.members],
            "coarse": [[None if g is None else g.tolist() for g in coarse] for coarse in self.coarse],
            "on_scale": list(self.on_scale),
        }
        return fields | {"large": self.large.to_dict()} if self.large.found else fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], method: LatentClass) -> "FixedViews":
        """Read what `to_dict` gives.

        Raises:
            KeyError, TypeError, ValueError: If it is no such thing.
        """
        return cls(
            method=method,
            free=tuple(fields["free"]),
            groups=tuple(
                ValueGroups(group_of=np.array(of, dtype=np.int64), shares=np.array(shares, dtype=np.float64))
                for of, shares in fields["groups"]
            ),
            found=tuple(
                Dependency(
                    determining=determining,
                    determined=determined,
                    function=np.array(function, dtype=np.int64),
                )
                for determining, determined, function in fields["found"]
            ),
            members=tuple(map(tuple, fields["members"])),
            coarse=tuple(
                tuple(None if g is None else np.array(g, dtype=np.int64) for g in coarse)
                for coarse in fields["coarse"]
            ),
            on_scale=tuple(fields["on_scale"]),
            large=LargeAttributes.from_dict(fields["large"]) if "large" in fields else LargeAttributes(),
        )

    @property
    def sizes(self) -> list[int]:
        """(free,) groups of each attribute."""
        return [groups.size for groups in self.groups]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """(k,) of the tables."""
        return [
            tuple(
                self.groups[member].size if group_of is None else int(group_of.max()) + 1
                for member, group_of in zip(members, coarse or (None,) * len(members), strict=True)
            )
            for members, coarse in zip(self.members, self.coarse, strict=True)
        ]

    def counted(self, coded: CodedTable) -> list[Ints]:
        """(k,) each table of some records, its cells in one row."""
        records = WeightedRecords.of(self.large.reduced(coded))
        return [
            self._counts(records, members, coarse)
            for members, coarse in zip(self.members, self.coarse, strict=True)
        ]

    def _counts(
        self, records: WeightedRecords, members: tuple[int, ...], coarse: tuple[Ints | None, ...]
    ) -> Ints:
        counts = contingency(records, [self.free[member] for member in members])
        for axis, member in enumerate(members):
            counts = self.groups[member].sums(counts, axis)
            if coarse and (group_of := coarse[axis]) is not None:
                counts = sums_by_group(counts, group_of, axis)
        return counts.ravel()

    def names(self, coded: CodedTable) -> list[str]:
        """(k,) the attributes of each table."""
        names = self.large.reduced(coded).names
        return [", ".join(names[self.free[m]] for m in members) for members in self.members]

    def learned(self, estimates: Sequence[NoisyCounts], coded: CodedTable, noise: NoiseBudget) -> Learned:
        """The model of some estimates of the tables, as a network with replicates, and what was spent.

        Args:
            estimates: Estimates of the tables, as counts, shape (k,).
            coded: Records; only their names, domains and public number are read.
            noise: Noise budget that was spent.
        """
        views = self._views(estimates, len(coded))
        learned = learned_of(
            self._parts(views, noise),
            on_scale=self.on_scale,
            groups=self.groups,
            free=self.free,
            found=self.found,
            coded=self.large.reduced(coded),
            noise=noise,
            replicates=self.method.replicates,
        )
        return learned._replace(network=self.large.restored(learned.network))

    def _views(self, estimates: Sequence[NoisyCounts], rows: int) -> list[View]:
        return [
            View(
                members=members,
                cells=(cells := known.cells.reshape(shape)) / rows,
                # The scale of the Laplace noise of that variance: the fit minds only how far the noise goes.
                scale=math.sqrt(known.variance / 2) / rows,
                projected=project_to_simplex(np.rint(cells).astype(np.int64), rows),
                groups=coarse,
            )
            for members, coarse, shape, known in zip(
                self.members, self.coarse, self.shapes, estimates, strict=True
            )
        ]

    def _parts(self, views: Sequence[View], noise: NoiseBudget) -> list[Part]:
        rng = np.random.default_rng(SEED)
        if len(self.sizes) > WIDE:
            small = tuple(small_parts(views, len(self.sizes)))
            choice = ClassChoice(classes=self.method.round_classes, predicting=small)
        else:
            choice = ClassChoice.of(
                views,
                connected(views, len(self.sizes)),
                self.sizes,
                self.on_scale,
                classes=self.method.classes,
                imitated=noise.imitated,
                rng=rng,
            )
        return fitted_parts(
            views, self.sizes, self.on_scale, choice, fits=self.method.fits, steps=LAST_STEPS, rng=rng
        )


def known_of(measured: Measurement) -> tuple[NoisyCounts, ...]:
    """(k,) the noisy counts of a measurement."""
    n = measured.inputs.n
    return tuple(
        NoisyCounts(cells=n * view.cells.ravel(), variance=n**2 * view.variance) for view in measured.views
    )
