"""Shared wording of rules."""

from collections.abc import Iterable

from privacy_engine.choice import did_you_mean
from privacy_release.config.problems import shortened

_LONGEST_WORD = 40  # characters of a word that an error quotes
_MOST_NAMED = 100  # columns that an error names


def unknown(columns: Iterable[str], known: Iterable[str]) -> str:
    """List unknown columns with the nearest known ones, for an error that is cut after some of them."""
    known, columns = list(known), list(columns)
    near = [
        f"{shortened(name, _LONGEST_WORD)!r}{did_you_mean(name, known)}" for name in columns[:_MOST_NAMED]
    ]
    return ", ".join([*near, *(["..."] if len(columns) > _MOST_NAMED else [])])
