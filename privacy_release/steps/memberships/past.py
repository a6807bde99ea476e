"""The earlier releases of a table, and what a new release must guarantee together with them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_engine.errors import SpecError
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, Membership, MInvariance
from privacy_engine.verification.republication.model import Republication, subtracting
from privacy_engine.vocabulary import Departures
from privacy_release.steps.memberships.earlier import EarlierReleases
from privacy_release.steps.memberships.files import beside
from privacy_release.steps.memberships.last import read_last
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.memberships.regions import (
    Regions,
    in_fragments,
    read_pieces,
    regions_of_frame,
    require_one_cut,
)

if TYPE_CHECKING:
    from privacy_engine.republication.incremental import LastRelease
    from privacy_engine.verification.cross_release import CrossReleaseModel
    from privacy_engine.verification.policy import ReleasePolicy

_LEAST = 2  # smallest allowed k if only `m` is given


@dataclass(frozen=True, kw_only=True)
class Past:
    """The earlier releases of a table, and what a new release must guarantee together with them.

    Values that are not given are taken from the policy, which judges the release in any case.

    Attributes:
        releases: Earlier releases of the table, without the publication of this run.
        policy: Policy of the release combined with the floor policy.
        k, m, departures, reserve, counterfeits, hold_back: Guarantee over all releases and options to keep
            it, as in `privacy_release.spec.sections.history.HistorySpec`.
    """

    releases: EarlierReleases
    policy: "ReleasePolicy"
    k: int | None = None
    m: Mapping[str, int] | None = None
    departures: str | None = None
    reserve: float | None = None
    counterfeits: float | None = None
    hold_back: int | None = None

    def memberships(self, persons: KnownPersons) -> "dict[int, Membership]":
        """Return the memberships that the method needs, by version. Raises as `EarlierReleases`."""
        return self.releases.memberships(persons, marked=1 if self.subtracted else 0)

    @property
    def requested(self) -> "tuple[CrossReleaseModel, ...]":
        """The policy's models over all releases."""
        return self.policy.across_people or self.policy.across_of_each

    @property
    def subtracted(self) -> bool:
        """Whether the policy names an attacker who computes differences between releases."""
        return subtracting(self.requested)

    def across(self, guarantee: RepublicationGuarantee) -> "tuple[CrossReleaseModel, ...]":
        """Return the models that must hold over all releases: the policy's, and those kept in addition."""
        (model, *_) = (m for m in self.requested if isinstance(m, Republication) and m.subtracts)
        own = [replace(model, k=guarantee.k, m=m, attribute=name) for name, m in guarantee.m.items()]
        return (*self.requested, *(own or [replace(model, k=guarantee.k)]))

    def last(self, memberships: "Mapping[int, Membership]") -> "tuple[LastRelease, dict[str, int]] | None":
        """Return the newest release as published, and the number of releases that each person has waited.

        Args:
            memberships: Memberships from `memberships`.

        Returns:
            None if there is no earlier release, or it was made before classes could be published again.

        Raises:
            IntegrityError: If the kept copy is missing or was changed.
        """
        if not memberships:
            return None
        version = max(memberships)
        (file,) = (file for file in self.releases.files() if file.publication.version == version)
        return read_last(file, memberships[version])

    def in_fragments(self, persons: KnownPersons) -> "tuple[EarlierFragments, ...]":
        """Return the earlier releases as they were made in fragments, oldest first.

        Raises:
            VerificationError: As `EarlierReleases.memberships`, or if one of them was made in one piece or in
                fragments of another cut.
            IntegrityError: If a file is missing, damaged or not the published one.
            PublishError: If the lake cannot be reached.
        """
        found, files = list[EarlierFragments](), self.releases.files()
        for file in files:
            newest = file is files[-1]
            frame = in_fragments(file.frame(), file.version)
            membership = file.membership(frame, persons, marked=newest, register=False)
            regions, last = regions_of_frame(frame), None
            if newest:
                pieces = read_pieces(frame, beside(file.path, "fragments"))
                last = read_last(file, membership, (pieces, regions.fragments))
            version = file.publication.version
            found.append(EarlierFragments(version=version, membership=membership, regions=regions, last=last))
        require_one_cut([release.regions.cut.tree for release in found])
        return tuple(found)

    def guarantee(self, schema: "DataSchema") -> RepublicationGuarantee:
        """Return what every person is guaranteed over all releases.

        Raises:
            SpecError: If neither the parameters nor the policy state any, or counterfeits have no m.
        """
        models = self.requested
        of_k = [model for model in models if isinstance(model, CrossReleaseKAnonymity)]
        by_attackers = [model for model in models if isinstance(model, Republication)]
        k, m = self.k, dict(self.m or {})
        if k is None:
            k = max([*(model.k for model in of_k), *(model.k for model in by_attackers)], default=None)
        if self.m is None:
            for model in (model for model in models if isinstance(model, MInvariance | Republication)):
                names = [a.name for a in schema.sensitive] if model.attribute is None else [model.attribute]
                m |= {name: max(model.m, m.get(name, 0)) for name in names if model.m is not None}
        if k is None and not m:
            raise SpecError(
                "history must state what is guaranteed over all releases, because the policy has no k and no "
                "l; set k or m in history, or keep: false"
            )
        if self.counterfeits and not m:
            raise SpecError(
                "history.counterfeits complete sets of sensitive values, but neither m nor policy requires "
                "any; set m in history, or remove counterfeits"
            )
        strict = any(model.departures is Departures.KNOWN for model in of_k) or not of_k or bool(by_attackers)
        departures = self.departures or (Departures.KNOWN if strict else Departures.UNKNOWN)
        return RepublicationGuarantee(
            k=k or _LEAST,
            m=m,
            departures=Departures(departures),
            reserve=RepublicationGuarantee.reserve if self.reserve is None else self.reserve,
            counterfeits=self.counterfeits or 0.0,
            unique=any(isinstance(model, MInvariance) and model.unique for model in models),
            hold_back=(self.hold_back or 0) if self.subtracted else None,
        )


@dataclass(frozen=True, kw_only=True)
class EarlierFragments:
    """An earlier release that was made in fragments.

    Attributes:
        version: Version of the release table.
        membership: Classes of its persons within the fragments.
        regions: Region of each of these persons.
        last: Last release from `Past.last`, if this one is the newest. None for all others.
    """

    version: int
    membership: "Membership"
    regions: Regions
    last: "tuple[LastRelease, dict[str, int]] | None" = None
