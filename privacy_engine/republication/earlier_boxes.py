"""Information of earlier releases on the persons of a table: their classes, and limits for new boxes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.errors import SchemaError
from privacy_engine.measures.recoding import Points, Recoding
from privacy_engine.recoding.grouping.boxes import Codes, Ints
from privacy_engine.tables.columns import factorize
from privacy_engine.tables.encoding import EncodedTable, OrderedDomain
from privacy_engine.tables.geometry import class_spans
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import History, Membership, cores
from privacy_engine.verification.published_boxes import (
    BoxParser,
    CellParser,
    cell_texts,
    known_texts,
    values_of_set,
)
from privacy_engine.vocabulary import Intervals

Texts = npt.NDArray[np.object_]


@dataclass(frozen=True)
class KnownBoxes:
    """A table of persons, encoded, and what earlier releases reveal about each.

    Attributes:
        encoded: Encoded table of the persons.
        persons: Person of each record, shape (n,) text.
        history: History of these persons, without the new release.
        core: Box of `points` that is the core of each, shape (n,) int64; -1 = none.
        points: Values that span each of these boxes.
        low, high: Cores in codes, shape (n, q) int32; the whole domain of who has none.
    """

    encoded: EncodedTable
    persons: Texts
    history: History
    core: Ints
    points: Points
    low: Codes
    high: Codes

    @property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Return whether each person is in an earlier release, (n,)."""
        found = np.zeros(len(self.persons), dtype=np.bool_)
        for labels in self.history.classes:
            found |= labels >= 0
        return found


def known_of(
    table: pd.DataFrame,
    schema: DataSchema,
    persons: Texts,
    earlier: Sequence[Membership],
    *,
    nested: bool,
) -> KnownBoxes:
    """Encode a table with its persons' cores.

    Args:
        table: Records, one for each person.
        schema: Schema of the records.
        persons: Person of each row, shape (n,) text.
        earlier: Earlier releases, oldest first.
        nested: Whether boxes must respect cores; otherwise no one has one.
    """
    unknown = Membership(persons=persons, labels=np.zeros(len(persons), np.int64))
    of_table = History(new=unknown, earlier=tuple(earlier), source=schema)
    core, boxes = np.full(len(persons), -1), pd.DataFrame()
    if nested:
        core, boxes = _core_points(table, schema, of_table)
    encoded = EncodedTable.encode(
        pd.concat([table, boxes], ignore_index=True) if len(boxes) else table, schema
    )
    own, more = np.flatnonzero(encoded.rows < len(table)), np.flatnonzero(encoded.rows >= len(table))
    of_box = boxes.index.to_numpy()[encoded.rows[more] - len(table)] if len(boxes) else np.zeros(0, np.int64)
    points = Points(encoded.codes[more], of_box.astype(np.int64))
    encoded = encoded.take(own)
    core = core[encoded.rows]
    low, high = _whole(encoded)
    has = core >= 0
    if has.any():
        spans = class_spans(points.codes, points.labels, int(core.max()) + 1, encoded.geometry())
        low[has], high[has] = (ends[core[has]] for ends in spans)
    in_order = Membership(persons=persons[encoded.rows], labels=np.zeros(len(encoded), np.int64))
    history = History(new=in_order, earlier=tuple(earlier), source=schema)
    return KnownBoxes(encoded, in_order.persons, history, core, points, low, high)


def unpublished(release: Membership, schema: DataSchema) -> list[str]:
    """Return the quasi-identifiers missing in an earlier release; none if its cells are unknown."""
    shown = {c.attribute.name for c in BoxParser(list(release.boxes), schema).columns if c.attribute}
    return [a.name for a in schema.quasi_identifiers if shown and a.name not in shown]


def blocks_of(history: History) -> Ints:
    """(n,) int64, persons who come from one class of the last release that they are in; -1 = in none.

    Who was absent from releases after that is put where most of those who shared the class are now.
    """
    classes = history.classes
    block, used = np.full(len(history.new), -1), 0
    for labels in reversed(classes):  # the latest release first
        missing = np.flatnonzero((block < 0) & (labels >= 0))
        now: dict[int, Counter[int]] = {}
        for row in np.flatnonzero((block >= 0) & np.isin(labels, labels[missing])) if len(missing) else ():
            now.setdefault(int(labels[row]), Counter())[int(block[row])] += 1
        for row in missing:  # at most one step a person
            mine = int(labels[row])
            if mine not in now:
                now[mine] = Counter({used: 0})
                used += 1
            block[row] = now[mine].most_common(1)[0][0]
    return block


def wider_cells(
    table: pd.DataFrame,
    schema: DataSchema,
    release: Membership,
    rows: Mapping[int, Ints],
    intervals: Intervals,
) -> pd.DataFrame:
    """The cells of classes of an earlier release, as wide as further records need.

    Args:
        table: Records of the new release.
        schema: Schema of them.
        release: The earlier release, with its cells.
        rows: Class -> positions of the records in `table` that its cells are to cover.
        intervals: Form of the released cells.

    Returns:
        The released quasi-identifiers by class. Classes whose cells cannot be read are absent.
    """
    names = [a.name for a in schema.quasi_identifiers]
    columns = {name: Values(table[name]) for name in names}
    parts, label = list[pd.DataFrame](), list[int]()
    for c, own in rows.items():
        spanned = _spanned(release, c, schema, columns)
        if spanned is None:
            continue
        most = max(map(len, spanned.values()))
        box = pd.DataFrame(
            {
                name: pd.Series([v[min(at, len(v) - 1)] for at in range(most)], dtype=table[name].dtype)
                for name, v in spanned.items()
            }
        )[names]
        parts += [box, table[names].take(own)]
        label += [c] * (most + len(own))
    if not parts:
        return pd.DataFrame()
    encoded = EncodedTable.encode(
        pd.concat(parts, ignore_index=True), DataSchema(tuple(schema[name] for name in names))
    )
    classes, which = np.unique(np.array(label), return_inverse=True)
    shown, released = Recoding.of_labels(encoded, which[encoded.rows]).render_by_row(intervals)
    first = np.unique(which[shown.index.to_numpy()], return_index=True)[1]
    found = shown.iloc[first].set_axis(pd.Index(classes), axis="index")
    # What they cover is parsed from the cells, as by the next release.
    reading = BoxParser(sorted(release.boxes), schema)
    own = np.concatenate([rows[c] for c in classes.tolist()])
    of = np.repeat(np.arange(len(classes)), [len(rows[c]) for c in classes.tolist()])
    before = {name: texts[release.first[classes]] for name, texts in release.boxes.items()}
    texts = [cell_texts(found, released), before, known_texts(table.take(own), schema)]
    cells, (wide, old, new) = reading.coded(texts)
    fine = reading.cover(cells, wide, old)
    fine[of[~reading.cover(cells, wide[of], new)]] = False
    return found[fine]


def _core_points(table: pd.DataFrame, schema: DataSchema, history: History) -> tuple[Ints, pd.DataFrame]:
    """(n,) the number of each person's core, -1 = none; and rows that span each core, by its number."""
    _, release = cores(history.classes, history.earlier, schema)
    keys = np.full((len(table), 2), -1)
    for i, labels in enumerate(history.classes):
        keys[release == i] = np.stack([np.full(len(labels), i), labels], axis=1)[release == i]
    boxes, which = np.unique(keys, axis=0, return_inverse=True)
    which = which.ravel()
    core, number = np.full(len(table), -1), 0
    columns = {a.name: Values(table[a.name]) for a in schema.quasi_identifiers}
    values: dict[str, list[Any]] = {name: [] for name in columns}
    numbers: list[int] = []
    for place, (i, c) in enumerate(boxes.tolist()):
        spanned = None if i < 0 else _spanned(history.earlier[i], c, schema, columns)
        if spanned is None:
            continue
        most = max(map(len, spanned.values()))
        for name, own in spanned.items():
            values[name] += [own[min(at, len(own) - 1)] for at in range(most)]
        numbers += [number] * most
        core[which == place] = number
        number += 1
    if not numbers:
        return core, pd.DataFrame()
    rows = table.take(np.zeros(len(numbers), np.int64)).set_axis(pd.Index(numbers), axis="index")
    for name, own in values.items():
        rows[name] = pd.Series(own, index=rows.index, dtype=table[name].dtype)
    return core, rows


class Values:
    """Return the values of a column by their text; for other text, its value in the column's type."""

    def __init__(self, column: pd.Series) -> None:
        coded = factorize(column)
        self._column = column
        self._known = dict(zip(coded.texts, coded.values, strict=True))

    def of(self, texts: Sequence[str | None]) -> list[Any]:
        """Raises ValueError where a text is no value of this type."""
        return [None if text is None else self._of(text) for text in texts]

    def _of(self, text: str) -> Any:
        if text in self._known:
            return self._known[text]
        dtype = self._column.dtype
        if pd.api.types.is_integer_dtype(dtype):
            return int(text)
        if pd.api.types.is_float_dtype(dtype):
            return float(text)
        if pd.api.types.is_string_dtype(dtype):
            return text
        if isinstance(dtype, pd.CategoricalDtype):
            raise ValueError(text)
        return pd.Series([text]).astype(dtype).iloc[0]


def _spanned(
    release: Membership, c: int, schema: DataSchema, columns: dict[str, Values]
) -> dict[str, list[Any]] | None:
    """Quasi-identifier -> values that together span the box of a class; None where a cell cannot be read."""
    reading = BoxParser(list(release.boxes), schema)
    found: dict[str, list[Any]] = {}
    for column in reading.columns:
        cell = tuple(release.boxes[name][release.first[c]] for name in column.names)
        if column.attribute is None:
            return None
        texts = _texts(column, cell)
        if texts is None:
            return None
        try:
            found[column.attribute.name] = columns[column.attribute.name].of(texts)
        except (ValueError, TypeError):
            return None
    return found if set(found) == set(columns) else None


def _texts(column: CellParser, cell: tuple[str | None, ...]) -> list[str | None] | None:
    """Values that together span a cell."""
    a = column.attribute
    assert a is not None
    if a.ordered:
        span = column.span(cell)
        if span is None:
            return None
        ends = [] if span.low is None or span.high is None else [span.low, span.high]
        if a.dates is not None:
            texts = a.dates.clock.labels(np.array(ends, dtype=np.int64), a.dates.clock.unit)
        else:
            texts = [a.categories[int(end)] if a.categories else str(end) for end in ends]
        return [*texts, None] if span.null else list(texts)
    if cell[0] is None:
        return [None]
    if a.hierarchy is not None:
        tree = a.hierarchy
        if cell[0] not in tree.labels:
            return None
        node = tree.labels.index(cell[0])
        leaves = [int(leaf) for leaf in tree.leaves(node)]
        other = next((leaf for leaf in leaves if tree.lca(leaves[0], leaf) == node), leaves[0])
        return [tree.values[leaves[0]], tree.values[other]]
    return None if a.dates is not None else sorted(values_of_set(cell[0], nullable=a.nullable), key=str)


def _whole(encoded: EncodedTable) -> tuple[Codes, Codes]:
    """Two (n, q): the box of the whole domain, for each record."""
    low = [0 if isinstance(d, OrderedDomain) else d.root for d in encoded.domains]
    high = [len(d.values) - 1 if isinstance(d, OrderedDomain) else d.root for d in encoded.domains]
    n = len(encoded)
    return np.tile(np.array(low, np.int32), (n, 1)), np.tile(np.array(high, np.int32), (n, 1))


def require_followed(
    persons: Texts, table: pd.DataFrame, schema: DataSchema, owners: Ints | None = None
) -> None:
    """Refuse records that cannot be followed: as `require_persons`, but owners may have several.

    Args:
        persons: Identifier of each record, shape (n,).
        table: Records that are to be followed.
        schema: Schema of the records.
        owners: Person of each record, shape (n,); None: each person has one record.

    Raises:
        SchemaError: As `require_persons`, or if the owners are not those of the column that names a person.
    """
    if owners is None:
        require_persons(persons, table, schema)
        return
    require_persons(persons, table, replace(schema, person=None))
    named = schema.person_codes(table[schema.by].to_numpy()) if schema.by else np.zeros(0, np.int64)
    pairs = len(pd.DataFrame({"named": named, "owner": owners}).drop_duplicates()) if len(named) else 0
    if schema.linked or not pairs == len(np.unique(named)) == len(np.unique(owners)):
        raise SchemaError("owners must be the persons of the column that the schema names, one for each")


def require_persons(persons: Texts, table: pd.DataFrame, schema: DataSchema) -> None:
    """Refuse what cannot be followed through releases.

    Raises:
        SchemaError: If there is not one person a record, or rows are linked.
    """
    if schema.linked or schema.tables:
        raise SchemaError(
            "releases over time follow one record a person, and the schema links several: take "
            "`rows: linked` or the tables out of it"
        )
    if len(persons) != len(table):
        raise SchemaError(f"persons must be one per record, got {len(persons)} of {len(table)} records")
    if repeated := len(persons) - len(np.unique(persons.astype(str))):
        raise SchemaError(
            f"releases over time follow one record a person: {repeated} of {len(table)} records repeat "
            "another's person; aggregate the table to one row a person"
        )
    people = schema.person_codes(table[schema.by].to_numpy()) if schema.by else np.zeros(0, np.int64)
    if repeated := len(people) - len(np.unique(people)):
        raise SchemaError(
            f"releases over time follow one record a person: {repeated} of {len(table)} records repeat "
            f"another's {schema.by}; aggregate the table to one row a person"
        )
