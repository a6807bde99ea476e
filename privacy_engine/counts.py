"""Remove counts from error messages: under a privacy budget they are outputs that the budget did not pay for.

A message always says that a table is refused, and for which column and rule; it does not say how many records
broke the rule.
"""

import re

NUMBER = "N"

# A separate number: not `zip5`, `sha256`, the `2` of `table-2` or a part of a date.
_NUMBERS = re.compile(r"(?<![\w.\-/])[+-]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?(?![\w/]|[-.:]\d)")
# The words after a count reveal whether it was 1: "1 distinct value is", "2 distinct values are".
_NOUN = re.compile(
    rf"\b{NUMBER}((?: of (?:the )?{NUMBER})?(?: different| distinct| further| missing| more| other)?) "
    r"(cell|class|column|date|entr|file|group|holder|pair|person|record|row|table|text|value|year)"
    r"(?:s|es|y|ies)?\b( is| are| has| have| was| were| repeats?)?"
)
_PLURAL = {" is": " are", " has": " have", " was": " were", " repeats": " repeat"}


def without_counts(text: str) -> str:
    """Replace each number in an error message by `N`, and the words that agree with it by their plural.

    Numbers of the specification are replaced, too: a rule that picked out the counts could miss one.

    >>> without_counts("age: 1 record is outside of [0, 99]; widen the bounds")
    'age: N records are outside of [N, N]; widen the bounds'
    >>> without_counts("age: 1,204 records are outside of [0, 99]; widen the bounds")
    'age: N records are outside of [N, N]; widen the bounds'
    >>> without_counts("zip5: 1 distinct value in 1 row of table-2 was met")
    'zip5: N distinct values in N rows of table-2 was met'

    Args:
        text: Error message, which names columns, rules and counts.
    """
    return _NOUN.sub(_plural, _NUMBERS.sub(NUMBER, text))


def _plural(found: re.Match[str]) -> str:
    of, noun, verb = found.groups()
    ending = {"entr": "ies", "class": "es"}.get(noun, "s")
    return f"{NUMBER}{of} {noun}{ending}{_PLURAL.get(verb, verb or '')}"
