"""Releases of the same people over time, made in fragments that are fixed sets of persons.

A fragment is a part of the persons of a table, the same in all releases: a person who was in an earlier
release goes to the fragment of that release, everyone else to the one whose region, a leaf of the cut tree
of the first release, has the person's values. So each fragment is a table with its own history, and is made
by `release_incrementally` with the part of the earlier releases that belongs to it. Fragments may become one
later; they are never cut again, because that would cut classes of earlier releases.

What the judge finds for all fragments together is no less than what it finds for each. A class of one
fragment never has a person of another, so an attacker who also knows the fragment of each record sees the
releases of each fragment by themselves, and the public release is a coarser view of that: the only
difference is that classes of two fragments with equal cells are one class. Coarser classes never lower what
an attacker is left with:

- identity: the classes of a person are larger, and have all values that they had before.
- membership: everyone who shared all classes of a person still shares them.
- difference: persons who stay connect the same classes or larger ones, so each connected component is a
  union of components of fragments. Its arrivals are none, or a union of groups of at least k persons for each
  of whom m values are possible, because an exchange of values within one fragment also leaves the unions of
  classes unchanged. The same holds for departures, and for models in `groups` that hold for a union of
  groups.
- correction: the same, where a corrected record is a departure and an arrival in the same fragment.
- population: more persons fit the boxes of a person, since each fragment counts only its own.

It fails where a class is compared with something outside of the fragment, or must look the same in all
releases, and such combinations are refused before anything is read:

- Models that compare with all released records (t-closeness, beta-likeness, delta-disclosure, also in
  `groups`): a fragment does not know whom the others withhold.
- m-invariance, unique classes and counterfeits: two classes with equal cells are one class with another set
  of values, and are two classes again when the cells of one change.
- Persons with several records: their records may be in several fragments. If two persons have the values x
  and y in one and y and x in the other, both have the same set of values in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.errors import VerificationError
from privacy_engine.release import Release
from privacy_engine.republication.incremental import LastRelease, release_incrementally
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseModel, Membership
from privacy_engine.verification.republication.class_values import ClassValues
from privacy_engine.vocabulary import Kind, Role

Ints = npt.NDArray[np.int64]
Texts = npt.NDArray[np.object_]
FRAGMENT = "fragment of the record"
NEW = -1  # region of a person who was in no earlier release


@dataclass(frozen=True, kw_only=True)
class FragmentPast:
    """The part of the earlier releases that belongs to a fragment.

    Attributes:
        earlier: Classes of its persons in the earlier releases, oldest first. Some may have no persons.
        last: Its records of the newest of them; None: there is no earlier release.
    """

    earlier: tuple[Membership, ...] = ()
    last: LastRelease | None = None


def release_followed(
    method: Anonymizer,
    frame: pd.DataFrame,
    schema: DataSchema,
    rng: np.random.Generator,
    *,
    persons: Texts,
    waited: Ints,
    past: FragmentPast,
    across: Sequence[CrossReleaseModel],
    hold_back: int,
    reserve: float,
) -> Release:
    """Release a fragment so that it is safe together with its part of the earlier releases.

    Args:
        method: Anonymizer of the release, as for `release_incrementally`.
        frame: Records of the fragment, shape (n, columns).
        schema: Schema of the records, with the domains of the whole table.
        rng: Random generator of the method's choices.
        persons: Person of each record, shape (n,) text.
        waited: Releases that each person has waited, shape (n,).
        past: Part of the earlier releases.
        across: Models that must hold over all releases.
        hold_back: Number of releases that a person may wait, as for `release_incrementally`.
        reserve: Size of a class that is published for the first time, in multiples of k, >= 1.

    Returns:
        As for `release_incrementally`: rows from n on are records of `past.last`.
    """
    return release_incrementally(
        method,
        frame,
        schema,
        rng,
        persons=persons,
        earlier=past.earlier,
        last=past.last,
        across=across,
        hold_back=hold_back,
        waited=dict(zip(persons.tolist(), waited.tolist(), strict=True)),
        reserve=reserve,
    )


def within_fragments(persons: Texts, table: pd.DataFrame, schema: DataSchema, fragments: Ints) -> Membership:
    """Return the classes of a release to someone who also knows the fragment of each record.

    Args:
        persons: Person of each record, shape (n,) text.
        table: Released records of all fragments.
        schema: Schema of the records.
        fragments: Fragment of each record, shape (n,).
    """
    known = Attribute(name=FRAGMENT, role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC)
    schema = replace(schema, attributes=(*schema.attributes, known))
    found = Membership.of_table(persons, table.assign(**{FRAGMENT: fragments}), schema)
    return replace(found, boxes={name: texts for name, texts in found.boxes.items() if name != FRAGMENT})


def part_of(release: Membership, rows: Ints) -> Membership:
    """Return whole classes of a release.

    Args:
        release: Persons and classes of the release.
        rows: Rows of all persons of these classes, shape (p,).
    """
    used, labels = np.unique(release.labels[rows], return_inverse=True)
    return Membership(
        persons=release.persons[rows],
        labels=labels.astype(np.int64),
        boxes={name: texts[rows] for name, texts in release.boxes.items()},
        counts={name: _counts_of(counts, used) for name, counts in release.counts.items()},
        values={name: values[rows] for name, values in release.values.items()},
    )


def _counts_of(counts: ClassValues, classes: Ints) -> ClassValues:
    """Return the values of some classes, which are numbered in this order."""
    kept = np.isin(counts.classes, classes)
    return replace(
        counts,
        classes=np.searchsorted(classes, counts.classes[kept]).astype(np.int32),
        values=counts.values[kept],
        records=counts.records[kept],
        persons=counts.persons[kept],
    )


def regions_of(persons: Texts, releases: Sequence[tuple[Texts, Ints]]) -> Ints:
    """Return the region of each person who was in an earlier release, `NEW` for everyone else, shape (n,).

    Args:
        persons: Persons, shape (n,) text.
        releases: Persons of each earlier release, and the region of each.

    Raises:
        VerificationError: If a person has different regions in two releases.
    """
    found = np.full(len(persons), NEW)
    for own, regions in releases:
        place = pd.Index(own).get_indexer(pd.Index(persons))
        here = place >= 0
        if moved := int(((found[here] != NEW) & (found[here] != regions[place[here]])).sum()):
            raise VerificationError(
                f"{moved} persons are recorded in different fragments of two releases, so these cannot be "
                "continued in fragments; use engine local, or publish under a new table name"
            )
        found[here] = regions[place[here]]
    return found
