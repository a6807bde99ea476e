"""Counts in the text of an error: under a privacy budget they are outputs that the budget did not pay for.

That a table is refused, and for which column and rule, is reported in any case; how many records broke the
rule is not.
"""

import re

NUMBER = "N"

# A number by itself: not `zip5`, `sha256`, the `2` of `table-2` or a part of a date.
_NUMBERS = re.compile(r"(?<![\w.\-/])[+-]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?![\w/]|[-.:]\d)")
# What a count is followed by says whether it was 1: "1 distinct value is", "2 distinct values are".
_NOUN = re.compile(
    rf"\b{NUMBER}((?: of (?:the )?{NUMBER})?(?: different| distinct| further| missing| more| other)?) "
    r"(cell|class|column|date|entr|file|group|holder|pair|person|record|row|table|text|value|year)"
    r"(?:s|es|y|ies)?\b( is| are| has| have| was| were| repeats?)?"
)
_PLURAL = {" is": " are", " has": " have", " was": " were", " repeats": " repeat"}


def without_counts(text: str) -> str:
    """Replace each number of an error's text by `N`, and what agrees with it by its plural.

    Any number goes, also one of the specification: a rule that knew the counts among them could miss one.

    >>> without_counts("age: 1 record is outside of [0, 99]; widen the bounds")
    'age: N records are outside of [N, N]; widen the bounds'
    >>> without_counts("age: 1,204 records are outside of [0, 99]; widen the bounds")
    'age: N records are outside of [N, N]; widen the bounds'
    >>> without_counts("zip5: 1 distinct value in 1 row of table-2 was met")
    'zip5: N distinct values in N rows of table-2 was met'

    Args:
        text: of an error, which names columns, rules and counts.
    """
    return _NOUN.sub(_plural, _NUMBERS.sub(NUMBER, text))


def _plural(found: re.Match[str]) -> str:
    of, noun, verb = found.groups()
    ending = {"entr": "ies", "class": "es"}.get(noun, "s")
    return f"{NUMBER}{of} {noun}{ending}{_PLURAL.get(verb, verb or '')}"
