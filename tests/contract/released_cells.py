"""What a released cell says, read back from its text alone: a reader of the tests that knows no algorithm."""

import math
import re
from dataclasses import dataclass

from privacy_engine.tables.hierarchy import Hierarchy

_INTERVAL = re.compile(r"\[(.+), (.+)\]")


@dataclass(frozen=True)
class Cell:
    """What a cell covers.

    Attributes:
        values: the values, or (least, largest) of an interval.
        null: whether it covers a null.
    """

    values: tuple[object, ...]
    null: bool


def is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def interval(text: object) -> Cell:
    """``25``, ``[20, 30]``, either with `` or null``, or a null."""
    if is_null(text):
        return Cell((), null=True)
    plain = str(text).removesuffix(" or null")
    found = _INTERVAL.fullmatch(plain)
    return Cell(found.groups() if found else (plain, plain), null=plain != text)


def a_set(text: object) -> Cell:
    """``a``, ``{a, b}``, ``{a, null}``, or a null; a value called null stands in quotes."""
    if is_null(text):
        return Cell((), null=True)
    parts = str(text)[1:-1].split(", ") if str(text).startswith("{") else [str(text)]
    null = "null" in parts
    return Cell(tuple(part.strip('"') for part in parts if part != "null"), null=null)


def node(text: object, tree: Hierarchy) -> Cell:
    """A label of a tree, whose root covers a null, too; or a null."""
    if is_null(text):
        return Cell((), null=True)
    rows = [row for row in tree.rows if text in row]
    return Cell(tuple(row[0] for row in rows), null=text == tree.rows[0][-1])
