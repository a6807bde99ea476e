"""Make a release that is safe together with the earlier releases of its table."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.incremental import release_incrementally
from privacy_engine.republication.republish import republish
from privacy_engine.vocabulary import COUNTERFEITS
from privacy_release.steps.memberships.past import Past
from privacy_release.steps.memberships.persons import KnownPersons

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from privacy_engine.release import Release
    from privacy_engine.tables.schema import DataSchema


@dataclass(frozen=True, kw_only=True)
class KeptSafe:
    """The earlier versions that a release was made with, and the guarantee over all of them."""

    versions: tuple[int, ...]
    guarantee: RepublicationGuarantee
    before: "npt.NDArray[np.object_] | None" = None
    waiting: Mapping[str, int] | None = None

    def to_dict(self, notes: Mapping[str, float]) -> dict[str, Any]:
        """Return the section of the manifest, given the notes of the release. It says nothing of a person."""
        withheld = int(notes["withheld"])
        section = {"releases": len(self.versions), **self.guarantee.to_dict(), "withheld": withheld}
        section |= {name: int(notes[name]) for name in ("held_back", "outdated") if name in notes}
        # The allowed number of counterfeits becomes the actual number. For unique classes there is no limit.
        if "counterfeits" in notes:
            section["counterfeits"] = {
                "allowed": None if self.guarantee.unique else self.guarantee.counterfeits,
                "added": int(notes["counterfeits"]),
                "column": COUNTERFEITS,
            }
        return section

    def sentence(self, notes: Mapping[str, float]) -> str:
        """Return the sentence for the report, given the notes of the release."""
        k, departures = self.guarantee.k, self.guarantee.departures
        kept = f"every person is one of at least {k} in all releases together, departures {departures}"
        text = f"{len(self.versions)}; {kept}; {int(notes['withheld']):,} records withheld"
        if "held_back" in notes:
            waits, outdated = int(notes["held_back"]), int(notes["outdated"])
            return f"{text}; {waits:,} persons held back; {outdated:,} outdated records published again"
        if "counterfeits" not in notes:
            return text
        added = f"{int(notes['counterfeits']):,} counterfeit records added"
        return f"{text}; {added}, the column {COUNTERFEITS} states how many each class has"


def kept_safe(
    releaser: Any,
    frame: "pd.DataFrame",
    schema: "DataSchema",
    rng: "np.random.Generator",
    persons: KnownPersons,
    past: Past,
) -> "tuple[Release, KeptSafe]":
    """Make a release that is safe together with the earlier ones, and state what it was made with."""
    earlier, guarantee, people = past.memberships(persons), past.guarantee(schema), persons.people
    safe = KeptSafe(versions=tuple(earlier), guarantee=guarantee)
    found = past.last(earlier) if past.subtracted else None
    if not past.subtracted or (earlier and found is None):  # if this fails, verification refuses the release
        known = tuple(earlier.values())
        release = republish(releaser, frame, schema, rng, persons=people, earlier=known, guarantee=guarantee)
        return release, replace(safe, waiting={} if past.subtracted else None)
    last, waited = found or (None, {})
    release = release_incrementally(
        releaser,
        frame,
        schema,
        rng,
        persons=people,
        earlier=tuple(earlier.values()),
        last=last,
        across=past.across(guarantee),
        hold_back=guarantee.hold_back or 0,
        waited=waited,
        reserve=guarantee.reserve,
        owners=frame[schema.by].to_numpy(dtype="int64") if schema.by else None,
    )
    assert release.rows is not None
    shown = set(people[release.rows[release.rows < len(people)]])
    waits = {who: waited.get(who, 0) + 1 for who in people.tolist() if who not in shown}
    return release, replace(safe, before=last.persons if last else None, waiting=waits)
