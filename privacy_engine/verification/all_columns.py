"""k-anonymity over all released columns except the sensitive ones, whatever role a release gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from privacy_engine.verification.models import KAnonymity


@dataclass(frozen=True, kw_only=True)
class AllColumnsKAnonymity:
    """For every record, at least k records have equal values in all released columns but the sensitive ones.

    This is k-anonymity with the insensitive columns as quasi-identifiers, for a policy that does not trust
    the roles that a release gives its columns. Pseudonyms, which are drawn at random, do not count.

    >>> AllColumnsKAnonymity(k=1)
    Traceback (most recent call last):
    ValueError: k must be >= 2, got 1
    """

    k: int
    name: ClassVar[str] = "all_columns_k_anonymity"

    def __post_init__(self) -> None:
        KAnonymity(k=self.k)  # which checks k

    @property
    def threshold(self) -> float:
        """k."""
        return float(self.k)


ALL_COLUMNS_MODELS: Mapping[str, type[Any]] = {AllColumnsKAnonymity.name: AllColumnsKAnonymity}
