"""YAML in which every value means what it looks like.

PyYAML follows YAML 1.1, in which `010` is 8, `1_000` is 1000 and `12:30` is 750. Later versions and most
readers understand 10, a text and a time. Neither a guarantee nor a code may depend on the reader: numbers
must be written in decimal digits, and everything else in quotes.
"""

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError

NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_PLAIN_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


def require_plain_number(node: yaml.ScalarNode) -> None:
    """Refuse a number that YAML readers understand differently: octal, hexadecimal, base 60, underscores.

    Raises:
        ConstructorError: With the line but without the value.
    """
    if node.tag in NUMBERS and not _PLAIN_NUMBER.fullmatch(node.value):
        raise ConstructorError(
            None,
            None,
            "a number must be written in decimal digits, without zeros in front, underscores and colons "
            "(YAML reads 010 as 8 and 12:30 as 750): put quotes around a code or a time, or correct it",
            node.start_mark,
        )


class _Loader(yaml.SafeLoader):
    """YAML of plain values whose numbers are decimal."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make a value, unless it is a number in an ambiguous form."""
        if isinstance(node, yaml.ScalarNode):
            require_plain_number(node)
        return super().construct_object(node, deep)


def load(text: str) -> Any:
    """Return the values of a YAML text.

    >>> load("{k: 10, code: '010', share: 1.0e-3}")
    {'k': 10, 'code': '010', 'share': 0.001}

    Raises:
        yaml.YAMLError: If the text is not valid YAML, or a number has an ambiguous form.
    """
    return yaml.load(text, Loader=_Loader)
