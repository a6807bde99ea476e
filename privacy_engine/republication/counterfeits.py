"""Counterfeit records that complete the signatures of classes, after Xiao and Tao (SIGMOD 2007).

A counterfeit has the cells of its class, and a value of the signature that no one in the class has. Only the
published number distinguishes it from a record of a person. So a table may have no columns other than its
quasi-identifiers and the one sensitive attribute: a value drawn for another column could be one that only a
person can have, such as a number that occurs twice, or one next to the wrong diagnosis; and a copied value
reveals something about a person.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.measures.recoding import Recoding, released_order
from privacy_engine.recoding.grouping.boxes import Ints
from privacy_engine.republication.earlier_boxes import Texts, Values
from privacy_engine.republication.signatures import Buckets
from privacy_engine.tables.columns import NULL, factorize
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.counterfeits import counterfeits_column, lacking
from privacy_engine.vocabulary import COUNTERFEITS, Intervals, Role

NO_ROW = -1  # in place of the source row of a counterfeit


@dataclass(frozen=True)
class Published:
    """A table as it would be published.

    Attributes:
        table: Released records with their counterfeits.
        schema: Schema of the records.
        rows: Source row of each record, shape (n,) int64; `NO_ROW` for a counterfeit.
    """

    table: pd.DataFrame
    schema: DataSchema
    rows: Ints

    @property
    def of_persons(self) -> pd.DataFrame:
        """The records that belong to persons."""
        own: pd.DataFrame = self.table[self.rows != NO_ROW]
        return own.reset_index(drop=True)


def texts_of(column: pd.Series) -> Texts:
    """(n,) the text of each value."""
    coded = factorize(column)
    return np.array([*coded.texts, NULL], dtype=object)[coded.codes]


def require_fillable(schema: DataSchema, attributes: list[str]) -> str:
    """The sensitive attribute whose sets counterfeits may complete.

    Raises:
        SchemaError: If a counterfeit could be recognized by other columns.
    """
    others = [a.name for a in schema.attributes if a.role not in (Role.QUASI_IDENTIFIER, Role.IDENTIFIER)]
    if len(attributes) != 1 or others != attributes or COUNTERFEITS in schema.names:
        raise SchemaError(
            "`counterfeits` supports one sensitive attribute, because a value in another column "
            f"would reveal them: m must name one attribute, but names {len(attributes)}, and the "
            f"table must have no other unchanged column and none named {COUNTERFEITS}, but it has "
            f"{others}. Remove the others, or `counterfeits`"
        )
    return attributes[0]


def rendered(recoding: Recoding, intervals: Intervals) -> Published:
    """A recoding as it would be published without counterfeits."""
    released, schema = recoding.render_by_row(intervals)
    return Published(released.reset_index(drop=True), schema, released.index.to_numpy())


def counterfeits_needed(recoding: Recoding, values: Texts, buckets: Buckets) -> list[dict[str, int]]:
    """(c,) how many counterfeits of each value a class needs.

    Args:
        recoding: Recoding whose classes belong to one bucket each.
        values: Sensitive value of each record, shape (n,) text.
        buckets: Buckets of the same records.
    """
    own = np.full(recoding.classes, -1)
    shown = recoding.labels >= 0
    own[recoding.labels[shown]] = buckets.of[shown]
    needed: list[dict[str, int]] = [{} for _ in own]
    for place, signature in enumerate(buckets.signatures):
        classes = np.flatnonzero(own == place)
        if not len(classes):
            continue
        at = {text: column for column, text in enumerate(signature)}
        counts = np.zeros((len(own), len(signature)), np.int64)
        rows = np.flatnonzero(shown & (buckets.of == place))
        np.add.at(counts, (recoding.labels[rows], np.array([at[v] for v in values[rows]], np.int64)), 1)
        for c, missing in zip(classes.tolist(), lacking(counts[classes]).tolist(), strict=True):
            needed[c] = {v: n for v, n in zip(signature, missing, strict=True) if n}
    return needed


def filled(
    plain: Published, labels: Ints, needed: list[dict[str, int]], attribute: str, source: pd.Series
) -> Published:
    """Return the table with its counterfeits, and the column with their number in each class.

    Args:
        plain: Table without its counterfeits.
        labels: Class of each of its records, shape (n,).
        needed: Counterfeits of each class, from `counterfeits_needed`.
        attribute: Name of the sensitive attribute.
        source: Source column, by whose type values are written.
    """
    first = np.zeros(len(needed), np.int64)
    first[labels] = np.arange(len(labels))
    number = np.array([sum(own.values()) for own in needed], np.int64)
    wanted: Counter[tuple[int, str]] = Counter(
        {(c, v): n for c, own in enumerate(needed) for v, n in own.items()}
    )
    pairs = list(wanted.elements())
    table = plain.table.assign(**{COUNTERFEITS: number[labels]})
    if pairs:
        fake = table.take(first[[c for c, _ in pairs]]).reset_index(drop=True)
        made = Values(source).of([None if v == NULL else v for _, v in pairs])
        fake[attribute] = pd.Series(made, dtype=table[attribute].dtype)
        table = pd.concat([table, fake], ignore_index=True)
    order = released_order(table)  # only by released values: the position of a record reveals nothing
    rows = np.concatenate([plain.rows, np.full(len(pairs), NO_ROW, np.int64)])
    attributes = (*plain.schema.attributes, counterfeits_column())
    return Published(
        table.take(order).reset_index(drop=True), replace(plain.schema, attributes=attributes), rows[order]
    )
