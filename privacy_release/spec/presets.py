"""Presets of a draft for rule packs: the policy, and the columns that the policy requires."""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The settings of a draft under a rule pack.

    Attributes:
        policy: Policy of the pack, in the include folder.
        release: Method and parameters to start with.
        safe_harbor: Whether columns are drafted for safe harbor: dates to the year, three digits of a ZIP
            code, ages over 89 as one group, and a meaning for each.
    """

    policy: str
    release: str
    safe_harbor: bool = False


PRESETS: Mapping[str, Preset] = {
    "hipaa_safe_harbor": Preset(
        policy="policies/hipaa_safe_harbor.yaml", release="{method: mondrian, k: 10}", safe_harbor=True
    ),
    "smallest_cell_11": Preset(policy="policies/smallest_cell_11.yaml", release="{method: bottom_up, k: 11}"),
    "european_research": Preset(
        policy="policies/european_research.yaml",
        release="{method: mondrian, k: 12, l: 3, require: [{model: t_closeness, t: 0.5}]}",
    ),
}
# Words in a column's name -> its likely meaning; the first that fits.
_WORDS: Mapping[str, str] = {
    "contact": "phone telephone tel mobile cell fax email mail url web website ip",
    "number": "id uuid guid ssn mrn mbi npi account acct drivers driver license licence passport passports "
    "vin plate serial device member subscriber patient",
    "postcode": "zip zipcode zcta postcode postal",
    "name": "first last middle maiden given family surname forename firstname lastname fullname name prefix "
    "suffix initials",
    "place": "address addr street city town county precinct district lat latitude lon lng long longitude "
    "fips birthplace geocode tract block",
    "biometric": "photo picture image face fingerprint voiceprint",
    "region": "state province country nation",
    "age": "age",
}
LEFT_BEHIND = frozenset({"contact", "number", "name", "place", "biometric"})


def likely_meaning(column: str) -> str | None:
    """Return the meaning that a column's name suggests. None if it suggests nothing.

    >>> likely_meaning("homeZip"), likely_meaning("LAST"), likely_meaning("gender")
    ('postcode', 'name', None)
    """
    words = set(re.split(r"[\W\d_]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", column).lower()))
    return next((meaning for meaning, listed in _WORDS.items() if words & set(listed.split())), None)
