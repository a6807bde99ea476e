"""Counts, shares and means of the confidential table, each with the interval that a release leaves for it.

A private synthetic release with replicates gives intervals that cover the value in the table that was
measured with about the stated chance, see ``privacy_engine.synthesizers.replicated``. A k-anonymous release
gives hard bounds: no table outside of them is consistent with it. Both are made of what is published alone.
What the confidential table is a sample of is in neither.
"""

import functools
import io
import itertools
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privacy_engine.errors import IntegrityError
from privacy_engine.measures.bounds import count_bounds, mean_bounds
from privacy_release.lake.read import dictionary_of, proof_of, read_release, standing_manifest
from privacy_release.lake.replicates import METADATA, REPLICATES
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.query.answer import Answer, allowed
from privacy_release.query.columns import (
    Meant,
    closed_range,
    meant_of,
    meets,
    numbers_of,
    require_in_domain,
)
from privacy_release.query.forms import FORMS
from privacy_release.query.process import Limits
from privacy_release.query.questions import Condition, Measure, Question, Value, question_of
from privacy_release.query.rules import QueryError, check_size, tables_of
from privacy_release.query.sources import take_snapshot

if TYPE_CHECKING:
    import numpy.typing as npt

    from privacy_engine.synthesizers.noisy_number import NoisyNumber
    from privacy_engine.synthesizers.replicated import Estimates, ReplicatedModel

    Floats = npt.NDArray[np.float64]

MOST_ANSWERS = 100_000  # groups of a question
_MEANING = {
    "interval": "the value in the confidential table lies between low and high with about this chance",
    "bounds": "the value in the confidential table lies between low and high, whatever the table is; the "
    "value between them is an estimate: all that the release leaves open is taken as equally likely",
}


def intervals(table: ReleaseTable, release_id: str, question: Question, *, level: float = 0.95) -> "pa.Table":
    """The groups of a question, with value, low and high of each measure.

    Of a k-anonymous release the value is an estimate: that where all values which a cell leaves open are
    equally likely, and columns are independent within it. The metadata of the table say what `low` and `high`
    mean.

    Args:
        table: The release table.
        release_id: of the release.
        question: what is asked.
        level: chance of an interval to cover, in (0, 1); bounds are certain.

    Raises:
        QueryError: if the release gives no intervals for the question; the message says why.
        PublishError: if there is no such release, or the lake cannot be reached.
        IntegrityError: if what lies beside the release is not what was published.
    """
    if not 0 < level < 1:
        raise QueryError(f"level must be in (0, 1), got {level}")
    data = proof_of(table, release_id, REPLICATES)
    if data is not None:
        published = PublishedModel.read(data)
        if not published.tells_number and any(measure.kind == "count" for measure in question.measures):
            _require_public_number(table, release_id)
        return _table(published.answer(question, level), question, "interval", level)
    told = dictionary_of(table, release_id)
    if told is None:
        raise QueryError("the release has no data dictionary, so it is not known what its cells stand for")
    forms = {column["form"] for column in told["columns"]}
    if "drawn" in forms:
        raise QueryError(
            "the release was published without replicates, so its answers have no intervals: ask without, "
            "or release again by latent_class with `replicates`"
        )
    if reason := _NO_BOUNDS.keys() & forms:
        raise QueryError(f"the release gives no intervals: {_NO_BOUNDS[min(reason)]}")
    rows = read_release(table, release_id)
    return _table(bounded(rows, told, question), question, "bounds", 1.0)


_NO_BOUNDS: Mapping[str, str] = {
    "randomized": "its answers are random; estimate shares as docs/randomized_releases.md says",
    "counterfeits": "some of its records are of nobody, and the bounds do not know which",
    "table_name": "it is of several tables; bounds are given for releases of one",
}


def _require_public_number(table: ReleaseTable, release_id: str) -> None:
    """Refuse counts of an earlier release by persons, whose file does not say how noisy their number is."""
    loss = standing_manifest(table, release_id).loss
    if loss is not None and loss.neighbours == "replace_person":
        raise QueryError(
            "a count needs the noise in the number of records, which the replicates of this release, of an "
            "earlier version, do not say: ask for the share, or release again"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedModel:
    """The file of replicates, read.

    Attributes:
        model: the model and its replicates, by codes.
        values: attribute to its columns `code`, `value`, `low`, `high`, an entry a released value.
        kinds: attribute to `label`, `whole`, `real`, `date` or `timestamp`.
        records: of the table that was measured.
        number: the noise in `records`; None where it is public, or the file does not tell.
        tells_number: whether the file tells; those of earlier versions do not.
    """

    model: "ReplicatedModel"
    values: Mapping[str, Mapping[str, Any]]
    kinds: Mapping[str, str]
    records: int
    number: "NoisyNumber | None" = None
    tells_number: bool = False

    @classmethod
    def read(cls, data: bytes) -> "PublishedModel":
        """Read the file's bytes.

        Raises:
            IntegrityError: if they are no such file.
        """
        from privacy_engine.synthesizers.noisy_number import NoisyNumber
        from privacy_engine.synthesizers.replicate_models import ClassTables
        from privacy_engine.synthesizers.replicated import ReplicatedModel

        try:
            table = pq.read_table(io.BytesIO(data))
            fields = json.loads((table.schema.metadata or {})[METADATA])
        except (pa.ArrowException, KeyError, ValueError):
            raise IntegrityError("the file of replicates must be one that this package wrote") from None
        order = [("replicate", "ascending"), ("class", "ascending")]
        values, by_code = {}, {}
        weights: list[Floats] = []
        for name in fields["kinds"]:
            part = table.filter(pc.equal(table["attribute"], name))
            part = part.take(pc.sort_indices(part, order))
            replicate = part["replicate"].to_numpy()
            size = int(np.count_nonzero((replicate == 0) & (part["class"].to_numpy() == 0)))
            first = part.slice(0, size)
            code = first["code"].to_numpy()
            values[name] = {
                "code": code,
                "value": first["value"].to_pylist(),
                "low": first["low"].to_numpy(),
                "high": first["high"].to_numpy(),
            }
            probability = part["probability"].to_numpy().reshape(-1, size)
            sums = probability @ np.eye(int(code.max()) + 1)[code]
            cuts = np.flatnonzero(np.diff(replicate[::size])) + 1
            by_code[name] = np.split(sums, cuts)
            weights = np.split(part["weight"].to_numpy()[::size], cuts)  # every attribute has the same
        follows = {name: (root, np.array(value)) for name, (root, value) in fields["follows"].items()}
        models = [
            ClassTables(
                weights=weights[r],
                tables={name: tables[r] for name, tables in by_code.items() if name not in follows},
                follows=follows,
            )
            for r in range(fields["replicates"] + 1)
        ]
        model = ReplicatedModel(
            model=models[0],
            replicates=models[1:],
            misfit=fields["misfit"],
            unseen=fields["unseen"],
            together=fields["together"],
        )
        return cls(
            model=model,
            values=values,
            kinds=fields["kinds"],
            records=fields["records"],
            number=NoisyNumber.from_dict(fields["number"]) if fields.get("number") else None,
            tells_number="number" in fields,
        )

    def answer(self, question: Question, level: float) -> "list[tuple[tuple[Value, ...], list[Cell]]]":
        """The groups, each with a cell for each measure."""
        groups: list[tuple[Value, ...]] = [()]
        chosen: dict[str, Floats] = {}
        for condition in question.where:
            weights = self._fitting(condition)[:, None]
            chosen[condition.column] = chosen.get(condition.column, 1.0) * weights
        for column in question.by:
            shown = self._known(column)["value"]
            if len(groups) * len(shown) > MOST_ANSWERS:
                raise QueryError(
                    f"a question must have at most {MOST_ANSWERS:,} groups; ask by fewer columns"
                )
            each = np.eye(len(shown)) * chosen.get(column, 1.0)
            chosen = {name: np.repeat(w, len(shown), axis=1) for name, w in chosen.items()}
            chosen[column] = np.tile(each, len(groups))
            groups = [(*group, value) for group in groups for value in shown]
        chosen = {name: np.broadcast_to(w, (len(w), len(groups))) for name, w in chosen.items()}
        measured = [self._measured(measure, question, chosen, level) for measure in question.measures]
        return list(zip(groups, map(list, zip(*measured, strict=True)), strict=True))

    def _measured(
        self, measure: Measure, question: Question, chosen: "Mapping[str, Floats]", level: float
    ) -> "list[Cell]":
        coded = {name: self._by_code(name, weights) for name, weights in chosen.items()}
        if measure.of is None:
            found = self.model.shares(coded, level=level)
            if self.number is not None:
                uniform = self._uniform.shares(coded, level=level).value
                given = _counts if measure.kind == "count" else _shares
                found = given(found, uniform, self.number, level)
            elif measure.kind == "count":
                found = _counts_of_public(found, self.records)
        else:
            known = self._known(measure.of)
            if self.kinds[measure.of] not in ("whole", "real"):
                raise QueryError(f"{measure.of} must be a number for a mean")
            low, high = known["low"], known["high"]
            for condition in question.where:
                if condition.column == measure.of and condition.values is None:
                    ends = closed_range(condition, self.kinds[measure.of])
                    low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
            middle = (low + high) / 2  # of a bin that a condition cuts, of the part that it leaves
            codes = int(known["code"].max()) + 1
            numbers = np.array([middle[known["code"] == code].mean() for code in range(codes)])
            found = self.model.means(coded, measure.of, numbers, level=level)
            if self.number is not None:
                shares = self.model.shares(coded, level=level)
                uniform = self._uniform.shares(coded, level=level).value
                mean = self._uniform.means(coded, measure.of, numbers, level=level).value
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = uniform / shares.value  # of a group without records: its mean is none
                found = _means(found, mean, ratio, numbers, self.number, level)
        told = (found.value, found.low, found.high)
        return [Cell(*map(float, cell)) for cell in zip(*told, strict=True)]

    @cached_property
    def _uniform(self) -> "ReplicatedModel":
        """What the records that fill up are drawn from."""
        from privacy_engine.synthesizers.replicate_models import ClassTables
        from privacy_engine.synthesizers.replicated import ReplicatedModel

        even = {name: np.full((1, t.shape[1]), 1 / t.shape[1]) for name, t in self.model.model.tables.items()}
        model = ClassTables(weights=np.ones(1), tables=even, follows=self.model.model.follows)
        return ReplicatedModel(model=model, replicates=[model], misfit=(0.0,), unseen=0.0, together=[])

    def _by_code(self, name: str, weights: "Floats") -> "Floats":
        """(codes, g) of (values, g): values of one code have equal parts of it."""
        code = self.values[name]["code"]
        member = np.eye(int(code.max()) + 1)[code]
        return np.asarray(member.T @ weights / member.sum(axis=0)[:, None])

    def _known(self, column: str) -> Mapping[str, Any]:
        if column not in self.values:
            raise QueryError(f"{column} must be a column of the release, one of {', '.join(self.values)}")
        return self.values[column]

    def _fitting(self, condition: Condition) -> "Floats":
        """(values,) the part of each value's records that meets a condition, bins evenly spread."""
        known, kind = self._known(condition.column), self.kinds[condition.column]
        require_in_domain(condition.column, [condition], kind, _member(known, kind))
        parts = zip(known["value"], known["low"].tolist(), known["high"].tolist(), strict=True)
        return np.array([_part(condition, *part, kind) for part in parts], dtype=np.float64)


def _member(known: Mapping[str, Any], kind: str) -> Callable[[Value], bool]:
    """Whether a value is in a domain: one of its labels, or within the ends of its numbers."""
    if kind == "label":
        return frozenset(known["value"]).__contains__
    low, high = np.nanmin(known["low"]), np.nanmax(known["high"])
    return lambda value: isinstance(value, float) and bool(low <= value <= high)


def _counts_of_public(shares: "Estimates", records: int) -> "Estimates":
    return replace(shares, value=shares.value * records, low=shares.low * records, high=shares.high * records)


def _counts(shares: "Estimates", uniform: "Floats", number: "NoisyNumber", level: float) -> "Estimates":
    """Counts of the records that were contributed, N of which, or all and f that fill up, gave the shares.

    Of n <= N records a group has N S - f u, f = N - n, where uniform records have the share u; of n > N it
    has n S, as far as chance draws them alike. The interval holds all of these for each n of its interval.
    """
    least, most = number.interval(level)
    filling = max(0.0, number.released - least)
    low = shares.low * max(least, number.released) - filling * np.maximum(uniform, shares.low)
    return replace(shares, value=shares.value * number.value, low=np.maximum(low, 0), high=shares.high * most)


def _shares(shares: "Estimates", uniform: "Floats", number: "NoisyNumber", level: float) -> "Estimates":
    """Shares of the records that were contributed, where up to f of N may fill up: (N S - f u) / (N - f)."""
    odds = _odds(number, level)
    low = np.minimum(shares.low, shares.low + odds * (shares.low - uniform))
    high = np.maximum(shares.high, shares.high + odds * (shares.high - uniform))
    return replace(shares, low=np.clip(low, 0, 1), high=np.clip(high, 0, 1))


def _means(
    means: "Estimates",
    uniform: "Floats",
    ratio: "Floats",
    numbers: "Floats",
    number: "NoisyNumber",
    level: float,
) -> "Estimates":
    """Means of the records that were contributed, where up to f of N may fill up.

    Args:
        means: of all N.
        uniform: (g,) of those that fill up.
        ratio: (g,) share of the group among those that fill up, over its share in all N.
        numbers: (size,) what a mean lies among.
        number: the noise in N.
        level: of the interval.
    """
    most_odds = _odds(number, level)
    part = np.minimum(most_odds / (1 + most_odds) * ratio, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = part / (1 - part)
        low = np.minimum(means.low, means.low + odds * (means.low - uniform))
        high = np.maximum(means.high, means.high + odds * (means.high - uniform))
    least, most = np.nanmin(numbers), np.nanmax(numbers)
    low = np.where(part >= 1, least, np.maximum(low, np.minimum(least, means.low)))
    high = np.where(part >= 1, most, np.minimum(high, np.maximum(most, means.high)))
    return replace(means, low=low, high=high)


def _odds(number: "NoisyNumber", level: float) -> float:
    """The most records that may fill up, over the others."""
    least, _ = number.interval(level)
    filling = max(0.0, number.released - least)
    return filling / max(number.released - filling, 1.0)


def _part(condition: Condition, value: str | None, low: float, high: float, kind: str) -> float:
    """The part of a value's records that meets a condition."""
    if value is None or kind == "label" or low == high:
        told: Value = value if value is None or kind == "label" else low
        return float(meets(condition, told, kind))
    whole = kind != "real"
    if condition.values is None:
        first, last = closed_range(condition, kind)
        width = min(high, last) - max(low, first)
        return max(0.0, (width + 1) / (high - low + 1) if whole else width / (high - low))
    if not whole:
        raise QueryError(f"{condition.column} is a number that is no whole one: ask for a range of it")
    within = len({v for v in numbers_of(condition, kind) if low <= v <= high and v == int(v)})
    part = within / (high - low + 1)
    return 1 - part if condition.negated else part


@dataclass(frozen=True)
class Cell:
    """A value with its interval; None where there is none."""

    value: float | None
    low: float
    high: float


def answer_with_intervals(
    lake: Lake,
    sql: str,
    *,
    form: str = "arrow",
    tables: Collection[str] | None = None,
    release: str | None = None,
    level: float = 0.95,
    limits: Limits | None = None,
) -> Answer:
    """The answer to a question in SQL, of one of the forms that have intervals, from one release.

    The SQL is read, and not run: columns have the names of the source.

    Args:
        lake: where the table is.
        sql: see `privacy_release.query.questions`.
        form: `arrow`, `csv` or `json`.
        tables: only these may be asked; None allows all of the lake.
        release: its id; None: the newest.
        level: of `intervals`.
        limits: of its rows and its text.

    Raises:
        QueryError: if the query is wrong, or the release gives no intervals for it.
        PublishError, IntegrityError: as of `intervals`.
    """
    limits = limits or Limits()
    check_size(sql, limits.length, limits.depth)
    with duckdb.connect(config={"enable_external_access": "false"}) as parser:
        allowed(tables_of(parser, sql), tables)
        name, question = question_of(parser, sql)
    (source,) = take_snapshot(lake, name, release, every_release=False).sources
    found = intervals(lake.table(name), source.release, question, level=level)
    if found.num_rows > limits.rows:
        raise QueryError(
            f"an answer must have at most {limits.rows:,} rows, got {found.num_rows:,}; ask by fewer columns"
        )
    data = b"".join(FORMS[form](found.schema, found.to_batches()))
    return Answer(
        columns=tuple(found.column_names),
        form=form,
        data=data,
        count=found.num_rows,
        sources=(source,),
        cpu=0.0,
    )


def bounded(
    rows: "pa.Table", told: Mapping[str, Any], question: Question
) -> "list[tuple[tuple[Value, ...], list[Cell]]]":
    """The groups of a question to a k-anonymous release, with hard bounds."""
    of = [m.of for m in question.measures if m.of is not None]
    names = dict.fromkeys((*(c.column for c in question.where), *question.by, *of))
    hidden = int(told.get("suppressed", 0))
    meant = {name: meant_of(name, rows, told).with_hidden(hidden) for name in names}
    asked: dict[str, list[Condition]] = {name: [] for name in names}
    for condition in question.where:
        asked[condition.column].append(condition)
    for name in names:
        meant[name].require_known(asked[name])
    values = [_values_of(meant[column]) for column in question.by]
    if np.prod([len(v) for v in values]) > MOST_ANSWERS:
        raise QueryError(f"a question must have at most {MOST_ANSWERS:,} groups; ask by fewer columns")
    everybody = np.ones(rows.num_rows + hidden, dtype=np.bool_)
    base = _Part(surely=everybody, maybe=everybody, likely=everybody.astype(np.float64), of={})
    for name in names:
        if name not in question.by:
            base = base.also(_part_of(meant[name], asked[name], measured=name in of))
    parts = [
        [
            _part_of(meant[column], [*asked[column], _is(column, value)], measured=column in of)
            for value in shown
        ]
        for column, shown in zip(question.by, values, strict=True)
    ]
    answers = []
    for group, chosen in zip(itertools.product(*values), itertools.product(*parts), strict=True):
        records = functools.reduce(_Part.also, chosen, base)
        answers.append((group, [_bounds_of(measure, records) for measure in question.measures]))
    return answers


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """The records that some conditions may leave.

    Attributes:
        surely: (n,) whether each record surely meets them.
        maybe: (n,) whether it may.
        likely: (n,) the part of what each record may be that meets them, see `Meant.likely`.
        of: the columns whose mean is asked.
    """

    surely: "npt.NDArray[np.bool_]"
    maybe: "npt.NDArray[np.bool_]"
    likely: "Floats"
    of: Mapping[str, "_Numbers"]

    def also(self, other: "_Part") -> "_Part":
        """Both conditions, of different columns."""
        return _Part(
            surely=self.surely & other.surely,
            maybe=self.maybe & other.maybe,
            likely=self.likely * other.likely,
            of={**self.of, **other.of},
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Numbers:
    """What the records may have in a column whose mean is asked, where they meet the conditions.

    Attributes:
        low, high: (n,) the least and the largest number; NaN where there is none.
        may_be_null: (n,) whether it may be null.
        part: (n,) the part of what each may be that is a number.
        mean: (n,) the mean of these.
    """

    low: "Floats"
    high: "Floats"
    may_be_null: "npt.NDArray[np.bool_]"
    part: "Floats"
    mean: "Floats"


def _part_of(column: Meant, conditions: Sequence[Condition], *, measured: bool) -> _Part:
    """What the conditions of one column leave."""
    surely, maybe = column.meeting(conditions)
    likely, part, mean = column.likely(conditions)
    if not measured:
        return _Part(surely=surely, maybe=maybe, likely=likely, of={})
    if column.kind not in ("whole", "real"):
        raise QueryError(f"{column.name} must be a number for a mean")
    low, high = column.numbers(conditions)
    numbers = _Numbers(low=low, high=high, may_be_null=column.may_be_null, part=part, mean=mean)
    return _Part(surely=surely, maybe=maybe, likely=likely, of={column.name: numbers})


def _is(column: str, value: Value) -> Condition:
    return Condition(column=column, values=frozenset([value]))


def _bounds_of(measure: Measure, records: _Part) -> Cell:
    if measure.of is None:
        found = count_bounds(records.surely, records.maybe)
        scale = 1 if measure.kind == "count" else max(len(records.surely), 1)
        return _between(float(records.likely.sum()) / scale, found.low / scale, found.high / scale)
    of = records.of[measure.of]
    counted = ~np.isnan(of.low)
    surely = records.surely & counted & ~of.may_be_null
    bounds = mean_bounds(surely, records.maybe & counted, of.low, of.high)
    weights = np.where(counted, records.likely * of.part, 0)
    weighed = np.where(weights == 0, 0, weights * of.mean)
    total = float(weights.sum())
    return _between(float(weighed.sum()) / total if total else math.nan, bounds.low, bounds.high)


def _between(value: float, low: float, high: float) -> Cell:
    """An estimate with its bounds; none if the open values have no ends, unless the bounds agree."""
    if low == high:
        return Cell(low, low, high)
    return Cell(None if math.isnan(value) else min(max(value, low), high), low, high)


def _values_of(column: Meant) -> list[Value]:
    """The values that groups are made of: those that the domain lists, or else those that are released."""
    if column.every is not None:
        shown = {value for values in column.shown for value in values or ()}
        found = column.every | (shown & {None})
    elif all(values is not None for values in column.shown):
        found = frozenset(value for values in column.shown for value in values or ())
    else:
        raise QueryError(f"{column.name} is released in intervals: ask for ranges of it, not by its values")
    return sorted(found, key=lambda value: (value is None, isinstance(value, str), value))


def _table(
    answers: "list[tuple[tuple[Value, ...], list[Cell]]]", question: Question, kind: str, level: float
) -> "pa.Table":
    columns: dict[str, Any] = {}
    for place, column in enumerate(question.by):
        columns[column] = [group[place] for group, _ in answers]
    for place, measure in enumerate(question.measures):
        cells = [cells[place] for _, cells in answers]
        columns[measure.name] = pa.array([cell.value for cell in cells], pa.float64())
        columns[f"{measure.name}_low"] = pa.array([cell.low for cell in cells], pa.float64())
        columns[f"{measure.name}_high"] = pa.array([cell.high for cell in cells], pa.float64())
    meaning = {"meaning": _MEANING[kind], "level": str(level)}
    table = pa.table(columns)
    if question.order:
        table = table.sort_by(
            [(name, "descending" if down else "ascending") for name, down in question.order]
        )
    return table.replace_schema_metadata({"privacy_release.intervals": json.dumps(meaning)})
