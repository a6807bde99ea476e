"""Records that are unique in their released values, and columns with nearly one value per record.

Both are counted on the released bytes, whatever role a schema gives a column. Anyone who knows the values of
a unique record finds it. An attribute with a different value in nearly each record is diverse in every class,
which protects no one. Elamir, Skinner, "Record level measures of disclosure risk for survey microdata" (2006)
call such records sample uniques.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privacy_engine.verification.cross_release import MInvariance
from privacy_engine.verification.models import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    SensitiveModel,
    rule_of,
)
from privacy_engine.verification.republication.model import Republication
from privacy_engine.vocabulary import Role

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.known_rows import RowIntersection
    from privacy_engine.verification.policy import ReleasePolicy

# Columns -> records -> how many combinations of their values occur in this number of records.
Sizes = Callable[[Sequence[str]], Mapping[int, int]]

NEARLY = 0.9  # share of records with a unique value from which on a column is nearly unique
LEAST = 50  # records; among fewer nothing is unusual

# Models that count distinct values, or the frequency of each value, in a class.
COUNTING: tuple[type[SensitiveModel], ...] = (
    *(AlphaKAnonymity, BetaLikeness, DeltaDisclosure),
    *(DistinctLDiversity, EntropyLDiversity, RecursiveCLDiversity),
)


@dataclass(frozen=True, kw_only=True)
class Uniqueness:
    """Records that are unique in a release.

    Attributes:
        others: Number of combinations of values in the columns that are not sensitive, by their number of
            records; empty if there are no such columns.
        sensitive: The same for the sensitive columns together.
    """

    others: Mapping[int, int]
    sensitive: Mapping[int, int]

    @property
    def shares(self) -> dict[str, float]:
        """Share of the records that are unique in the not sensitive, and in the sensitive columns, 0 .. 1."""
        found = {"not_sensitive": self.others, "sensitive": self.sensitive}
        return {name: sizes.get(1, 0) / _records(sizes) for name, sizes in found.items() if sizes}


def uniqueness_of(schema: DataSchema, sizes: Sizes) -> Uniqueness:
    """Count the unique records.

    Args:
        schema: Schema of the released records.
        sizes: Function from columns to the sizes of the classes of equal values in them.
    """
    sensitive = [a.name for a in schema.sensitive]
    others = [name for name in _counted(schema) if name not in sensitive]
    return Uniqueness(others=sizes(others) if others else {}, sensitive=sizes(sensitive) if sensitive else {})


def nearly_unique(sizes: Mapping[int, int]) -> float:
    """Return the share of records with a unique value in a column, 0 .. 1, if it is nearly unique; else 0.

    The records with the most frequent value are ignored: it may be null, or the mark of a suppressed cell.

    Args:
        sizes: Number of values by their number of records.
    """
    rest = _records(sizes) - max(sizes, default=0)
    values = sum(sizes.values()) - 1
    return values / rest if rest >= LEAST and values >= NEARLY * rest else 0.0


def nearly_unique_columns(schema: DataSchema, names: Sequence[str] | None, sizes: Sizes) -> dict[str, float]:
    """Return the columns with nearly one value per record, with the share of records with a unique value.

    Args:
        schema: Schema of the released records.
        names: Names of the columns to check; None: all but pseudonyms.
        sizes: Function from columns to the sizes of the classes of equal values in them.
    """
    counted = [name for name in _counted(schema) if names is None or name in names]
    return {name: share for name in counted if (share := nearly_unique(sizes([name])))}


def counted_attributes(policy: ReleasePolicy, sensitive: Sequence[str]) -> dict[str, str]:
    """Return the sensitive attributes whose values a policy counts, and the first rule that does.

    Args:
        policy: Policy to check.
        sensitive: Names of all sensitive attributes.
    """
    found: dict[str, str] = {}
    counting = [rule for rule in policy.require if isinstance(rule, COUNTING)]
    across = [
        rule
        for rule in policy.across
        if isinstance(rule, MInvariance) or (isinstance(rule, Republication) and rule.m is not None)
    ]
    rules: list[SensitiveModel | RowIntersection | MInvariance | Republication] = [
        *counting,
        *policy.known_rows,
        *across,
    ]
    for rule in rules:
        for name in sensitive if rule.attribute is None else [rule.attribute]:
            found.setdefault(name, rule_of(rule))  # type: ignore[arg-type]  # the base class of models has no name
    return found


def as_declared(policy: ReleasePolicy, schema: DataSchema) -> ReleasePolicy:
    """Return the policy with plain k-anonymity if no released column is insensitive."""
    if any(schema[name].role is Role.INSENSITIVE for name in _counted(schema)):
        return policy
    plain = (KAnonymity(k=model.k) for model in policy.all_columns)
    return replace(policy, require=tuple(dict.fromkeys((*policy.require, *plain))), all_columns=())


def _records(sizes: Mapping[int, int]) -> int:
    return sum(size * classes for size, classes in sizes.items())


def _counted(schema: DataSchema) -> list[str]:
    """Return the released columns that may distinguish records: all except pseudonyms."""
    linked = schema.by if schema.linked else None
    return [
        a.name
        for a in schema.attributes
        if a.role is not Role.IDENTIFIER and a.pseudonym is None and a.name != linked
    ]
