"""The normal form of a text: the same for all spellings that a reader takes for the same word.

People and values are compared by it wherever they are counted; the released text is unchanged. The form is
`NFKC_Casefold` of the Unicode Standard (section 3.13, definition R5). In addition, blanks, dashes,
apostrophes and quotation marks of all shapes are unified, and control characters are removed. Letters that
differ (accents, letters of other scripts that look alike) stay different.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

# Identifies stored hashes of normal forms: the name changes whenever a text gets another form.
FORM = "nfkc_casefold 1"

_DASHES = "\u02d7\u2043\u2212"  # not dashes by their category
_APOSTROPHES = "\u0060\u02b9\u02bb\u02bc\u02c8\u2018\u2019\u201a\u201b\u2032\u2035"
_QUOTES = "\u00ab\u00bb\u201c\u201d\u201e\u201f"
# What NFKC makes of the accent without a letter, which many type for an apostrophe.
_ACCENT = re.compile(r"(?:^|\s)\u0301")
_BLANK = "\u2800"  # a pattern of no dots in Braille
# Characters of no width, although they are marks or letters: joiners, fillers, and selectors of a variant.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)


def normal(text: str) -> str:
    r"""Return the normal form of a text, which is its own normal form.

    >>> normal("HIV ") == normal("\uff28I\u200bV") == "hiv"
    True
    >>> normal("COVID\u201119"), normal("Me\u0301nie\u0300re") == normal("MÉNIÈRE")
    ('covid-19', True)
    """
    if text.isascii() and text.isprintable():
        return _spaced(text.casefold().replace("`", "'"))
    plain = "".join(map(_plain, text))
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", plain).casefold())
    folded = unicodedata.normalize("NFKC", folded.casefold())
    return _spaced(_ACCENT.sub("'", "".join(map(_plain, folded))))


def normal_forms(texts: Sequence[str]) -> list[str]:
    """Return the normal form of several texts, such as the distinct values of a column."""
    return [normal(text) for text in texts]


def first_places(forms: Sequence[str]) -> dict[str, int]:
    """Return the first index of each form.

    >>> first_places(["hiv", "flu", "hiv"])
    {'hiv': 0, 'flu': 1}
    """
    found: dict[str, int] = {}
    for place, form in enumerate(forms):
        found.setdefault(form, place)
    return found


def _spaced(text: str) -> str:
    """Put one blank between words, and replace two apostrophes by one quotation mark, as NFKC does."""
    return " ".join(text.replace("''", '"').split())


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """Return the replacement of a character before letters are folded; empty for an invisible one."""
    category = unicodedata.category(character)
    if category == "Pd" or character in _DASHES:
        return "-"
    if character in _APOSTROPHES:
        return "'"
    if character in _QUOTES:
        return '"'
    if character.isspace() or character == _BLANK:
        return " "
    return "" if category in ("Cc", "Cf") or _INVISIBLE.match(character) else character
