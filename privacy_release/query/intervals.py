"""Counts, shares and means of the confidential table, each with the interval that a release implies.

A private synthetic release with replicates gives intervals that cover the value in the measured table with
about the stated probability, see ``privacy_engine.synthesizers.replicated``. A k-anonymous release gives hard
bounds: no table outside of them is consistent with it. Both are computed only from what is published. Neither
accounts for the sampling of the confidential table from a population.
"""

import functools
import io
import itertools
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from privacy_engine.errors import IntegrityError
from privacy_engine.measures.bounds import count_bounds, mean_bounds
from privacy_engine.registry import reads_records
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

MOST_ANSWERS = 100_000  # largest number of groups in a question
_MEANING = {
    "interval": "the value in the confidential table lies between low and high with about this chance",
    "bounds": "the value in the confidential table lies between low and high, whatever the table is; the "
    "value between them is an estimate: all that the release leaves open is taken as equally likely",
}


def intervals(table: ReleaseTable, release_id: str, question: Question, *, level: float = 0.95) -> "pa.Table":
    """Return the groups of a question, with value, low and high of each measure.

    For a k-anonymous release, the value is an estimate: all values that a cell leaves open are taken as
    equally likely, and columns as independent within it. The metadata of the table explain `low` and `high`.

    Args:
        table: The release table.
        release_id: ID of the release.
        question: Question to answer.
        level: Probability that an interval covers the value, in (0, 1). Bounds are certain.

    Raises:
        QueryError: If the release gives no intervals for the question, with the reason.
        PublishError: If there is no such release, or the lake cannot be reached.
        IntegrityError: If a file that is stored with the release is not what was published.
    """
    if not 0 < level < 1:
        raise QueryError(f"level must be in (0, 1), got {level}")
    data = proof_of(table, release_id, REPLICATES)
    if data is not None:
        published = PublishedModel.read(data)
        if not published.tells_number and any(measure.kind == "count" for measure in question.measures):
            _require_public_number(table, release_id)
        return _table(published.answer(question, level), question, "interval", level)
    dictionary = dictionary_of(table, release_id)
    if dictionary is None:
        raise QueryError("the release has no data dictionary, so the meaning of its cells is unknown")
    if not reads_records(str(dictionary["method"])):
        raise QueryError("the release gives no intervals: its records are invented, so no answer is true")
    forms = {column["form"] for column in dictionary["columns"]}
    if "drawn" in forms:
        raise QueryError(
            "the release was published without replicates, so its answers have no intervals: query without, "
            "or release again by latent_class with `replicates`"
        )
    if reason := _NO_BOUNDS.keys() & forms:
        raise QueryError(f"the release gives no intervals: {_NO_BOUNDS[min(reason)]}")
    rows = read_release(table, release_id)
    return _table(bounded(rows, dictionary, question), question, "bounds", 1.0)


_NO_BOUNDS: Mapping[str, str] = {
    "randomized": "its answers are random; estimate shares as docs/randomized_releases.md says",
    "counterfeits": "some of its records belong to no person, and the bounds cannot tell which",
    "table_name": "it is of several tables; bounds are given for releases of one",
}


def _require_public_number(table: ReleaseTable, release_id: str) -> None:
    """Refuse counts for an earlier release by persons, whose file does not state the noise of the number."""
    loss = standing_manifest(table, release_id).loss
    if loss is not None and loss.neighbours == "replace_person":
        raise QueryError(
            "a count needs the noise in the number of records, which the replicates of this release, of an "
            "earlier version, do not state: query the share, or release again"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedModel:
    """The file of replicates, parsed.

    Attributes:
        model: Model and its replicates, by codes.
        values: Columns `code`, `value`, `low`, `high` of each attribute, with an entry per released value;
            `mean`, too, if it is not the middle.
        kinds: Kind of each attribute: `label`, `whole`, `real`, `date` or `timestamp`.
        records: Number of records in the measured table.
        number: Noise in `records`. None if it is public, or the file does not state it.
        tells_number: Whether the file states it. Those of earlier versions do not.
        filling: Probability of each code among records that fill up, by attribute; those of others are equal.
    """

    model: "ReplicatedModel"
    values: Mapping[str, Mapping[str, Any]]
    kinds: Mapping[str, str]
    records: int
    number: "NoisyNumber | None" = None
    tells_number: bool = False
    filling: "Mapping[str, Sequence[float]]" = field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> "PublishedModel":
        """Parse the file's bytes.

        Raises:
            IntegrityError: If they are no such file.
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
        part_of: dict[str, int] = fields.get("part_of", {})
        weights: dict[int, list[Floats]] = {}
        for name in fields["kinds"]:
            part = table.filter(pc.equal(table["attribute"], name))
            part = part.take(pc.sort_indices(part, order))
            replicate = part["replicate"].to_numpy()
            classes = part["class"].to_numpy()
            size = int(np.count_nonzero((replicate == 0) & (classes == classes[0])))
            first = part.slice(0, size)
            code = first["code"].to_numpy()
            values[name] = {
                "code": code,
                "value": first["value"].to_pylist(),
                "low": first["low"].to_numpy(),
                "high": first["high"].to_numpy(),
            }
            if (mean := fields.get("means", {}).get(name)) is not None:
                values[name]["mean"] = np.array(mean, dtype=np.float64)
            probability = part["probability"].to_numpy().reshape(-1, size)
            sums = probability @ np.eye(int(code.max()) + 1)[code]
            cuts = np.flatnonzero(np.diff(replicate[::size])) + 1
            by_code[name] = np.split(sums, cuts)
            # The same for every attribute of a part; those that another one determines have its classes.
            if name not in fields["follows"]:
                weights[part_of.get(name, 0)] = np.split(part["weight"].to_numpy()[::size], cuts)
        follows = {name: (root, np.array(value)) for name, (root, value) in fields["follows"].items()}
        models = [
            ClassTables(
                weights=weights[0][r]
                if len(weights) == 1
                else np.stack([w[r] for _, w in sorted(weights.items())]),
                tables={name: tables[r] for name, tables in by_code.items() if name not in follows},
                follows=follows,
                part_of=part_of,
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
            filling=fields.get("filling", {}),
        )

    def answer(self, question: Question, level: float) -> "list[tuple[tuple[Value, ...], list[Cell]]]":
        """Return the groups, each with a cell for each measure."""
        groups: list[tuple[Value, ...]] = [()]
        chosen: dict[str, Floats] = {}
        for condition in question.where:
            weights = self._fitting(condition)[:, None]
            chosen[condition.column] = chosen.get(condition.column, 1.0) * weights
        for column in question.by:
            shown = self._known(column)["value"]
            if len(groups) * len(shown) > MOST_ANSWERS:
                raise QueryError(
                    f"a question must have at most {MOST_ANSWERS:,} groups; group by fewer columns"
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
            middle = (low + high) / 2  # of a bin that a condition cuts, of the remaining part
            if "mean" in known:
                middle = np.where((low == known["low"]) & (high == known["high"]), known["mean"], middle)
            codes = int(known["code"].max()) + 1
            numbers = np.array([middle[known["code"] == code].mean() for code in range(codes)])
            found = self.model.means(coded, measure.of, numbers, level=level)
            if self.number is not None:
                shares = self.model.shares(coded, level=level)
                uniform = self._uniform.shares(coded, level=level).value
                mean = self._uniform.means(coded, measure.of, numbers, level=level).value
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = uniform / shares.value  # for a group without records, the mean does not exist
                found = _means(found, mean, ratio, numbers, self.number, level)
        estimates = (found.value, found.low, found.high)
        return [Cell(*map(float, cell)) for cell in zip(*estimates, strict=True)]

    @cached_property
    def _uniform(self) -> "ReplicatedModel":
        """The distribution of the records that fill up the table."""
        from privacy_engine.synthesizers.replicate_models import ClassTables
        from privacy_engine.synthesizers.replicated import ReplicatedModel

        even = {
            name: np.array([self.filling.get(name, np.full(t.shape[1], 1 / t.shape[1]))])
            for name, t in self.model.model.tables.items()
        }
        model = ClassTables(weights=np.ones(1), tables=even, follows=self.model.model.follows)
        return ReplicatedModel(model=model, replicates=[model], misfit=(0.0,), unseen=0.0, together=[])

    def _by_code(self, name: str, weights: "Floats") -> "Floats":
        """Distribute the weights of values, shape (values, g), evenly over codes, shape (codes, g)."""
        code = self.values[name]["code"]
        member = np.eye(int(code.max()) + 1)[code]
        return np.asarray(member.T @ weights / member.sum(axis=0)[:, None])

    def _known(self, column: str) -> Mapping[str, Any]:
        if column not in self.values:
            raise QueryError(
                f"{column} must be a column of the release with intervals, one of {', '.join(self.values)}"
            )
        return self.values[column]

    def _fitting(self, condition: Condition) -> "Floats":
        """Return the share of each value's records that meets a condition, with bins evenly spread."""
        known, kind = self._known(condition.column), self.kinds[condition.column]
        require_in_domain(condition.column, [condition], kind, _member(known, kind))
        parts = zip(known["value"], known["low"].tolist(), known["high"].tolist(), strict=True)
        return np.array([_part(condition, *part, kind) for part in parts], dtype=np.float64)


def _member(known: Mapping[str, Any], kind: str) -> Callable[[Value], bool]:
    """Return a function that tests whether a value is in a domain: a label, or a number within its range."""
    if kind == "label":
        return frozenset(known["value"]).__contains__
    low, high = np.nanmin(known["low"]), np.nanmax(known["high"])
    return lambda value: isinstance(value, float) and bool(low <= value <= high)


def _counts_of_public(shares: "Estimates", records: int) -> "Estimates":
    return replace(shares, value=shares.value * records, low=shares.low * records, high=shares.high * records)


def _counts(shares: "Estimates", uniform: "Floats", number: "NoisyNumber", level: float) -> "Estimates":
    """Estimate counts of contributed records, N of which, or all and f that fill up, gave the shares.

    For n <= N records, a group has N S - f u, with f = N - n and the share u of uniform records; for n > N it
    has n S, as far as chance draws them alike. The interval contains all of these for each n of its interval.
    """
    least, most = number.interval(level)
    filling = max(0.0, number.released - least)
    low = shares.low * max(least, number.released) - filling * np.maximum(uniform, shares.low)
    return replace(shares, value=shares.value * number.value, low=np.maximum(low, 0), high=shares.high * most)


def _shares(shares: "Estimates", uniform: "Floats", number: "NoisyNumber", level: float) -> "Estimates":
    """Estimate shares of contributed records, if up to f of N may fill up: (N S - f u) / (N - f)."""
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
    """Estimate means of contributed records, if up to f of N may fill up.

    Args:
        means: Means of all N.
        uniform: Means of those that fill up, shape (g,).
        ratio: Share of the group among those that fill up, divided by its share in all N, shape (g,).
        numbers: Numbers that a mean lies among, shape (size,).
        number: Noise in N.
        level: Confidence level of the interval, 0 < level < 1.
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
    """Return the largest number of records that may fill up, divided by the others."""
    least, _ = number.interval(level)
    filling = max(0.0, number.released - least)
    return filling / max(number.released - filling, 1.0)


def _part(condition: Condition, value: str | None, low: float, high: float, kind: str) -> float:
    """Return the share of a value's records that meets a condition."""
    if value is None or kind == "label" or low == high:
        cell: Value = value if value is None or kind == "label" else low
        return float(meets(condition, cell, kind))
    whole = kind != "real"
    if condition.values is None:
        first, last = closed_range(condition, kind)
        width = min(high, last) - max(low, first)
        return max(0.0, (width + 1) / (high - low + 1) if whole else width / (high - low))
    if not whole:
        raise QueryError(f"{condition.column} is a number that is not whole: use a range of it")
    within = len({v for v in numbers_of(condition, kind) if low <= v <= high and v == int(v)})
    part = within / (high - low + 1)
    return 1 - part if condition.negated else part


@dataclass(frozen=True)
class Cell:
    """A value with its interval. None if there is none."""

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
    """Answer a question in SQL, in one of the forms that have intervals, from one release.

    The SQL is parsed but not run. Columns have the names of the source.

    Args:
        lake: Lake with the table.
        sql: Question, see `privacy_release.query.questions`.
        form: `arrow`, `csv` or `json`.
        tables: Names of the only tables that may be queried. None: all tables of the lake.
        release: ID of the release. None: the newest.
        level: Level, see `intervals`.
        limits: Limits on rows and text.

    Raises:
        QueryError: If the query is wrong, or the release gives no intervals for it.
        PublishError, IntegrityError: As `intervals`.
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
            f"an answer must have at most {limits.rows:,} rows, got {found.num_rows:,}; use fewer groups"
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
    rows: "pa.Table", dictionary: Mapping[str, Any], question: Question
) -> "list[tuple[tuple[Value, ...], list[Cell]]]":
    """Return the groups of a question to a k-anonymous release, with hard bounds."""
    of = [m.of for m in question.measures if m.of is not None]
    names = dict.fromkeys((*(c.column for c in question.where), *question.by, *of))
    hidden = int(dictionary.get("suppressed", 0))
    meant = {name: meant_of(name, rows, dictionary).with_hidden(hidden) for name in names}
    conditions: dict[str, list[Condition]] = {name: [] for name in names}
    for condition in question.where:
        conditions[condition.column].append(condition)
    for name in names:
        meant[name].require_known(conditions[name])
    values = [_values_of(meant[column]) for column in question.by]
    if np.prod([len(v) for v in values]) > MOST_ANSWERS:
        raise QueryError(f"a question must have at most {MOST_ANSWERS:,} groups; group by fewer columns")
    everybody = np.ones(rows.num_rows + hidden, dtype=np.bool_)
    base = _Part(surely=everybody, maybe=everybody, likely=everybody.astype(np.float64), of={})
    for name in names:
        if name not in question.by:
            base = base.also(_part_of(meant[name], conditions[name], measured=name in of))
    parts = [
        [
            _part_of(meant[column], [*conditions[column], _is(column, value)], measured=column in of)
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
    """The records that may meet some conditions.

    Attributes:
        surely: Whether each record surely meets them, shape (n,).
        maybe: Whether each record may meet them, shape (n,).
        likely: Share of each record's possible values that meets them, shape (n,), see `Meant.likely`.
        of: Columns whose mean is requested.
    """

    surely: "npt.NDArray[np.bool_]"
    maybe: "npt.NDArray[np.bool_]"
    likely: "Floats"
    of: Mapping[str, "_Numbers"]

    def also(self, other: "_Part") -> "_Part":
        """Combine with conditions on other columns."""
        return _Part(
            surely=self.surely & other.surely,
            maybe=self.maybe & other.maybe,
            likely=self.likely * other.likely,
            of={**self.of, **other.of},
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Numbers:
    """The possible numbers of records in a column whose mean is requested, if they meet the conditions.

    Attributes:
        low, high: Smallest and largest number, shape (n,). NaN if there is none.
        may_be_null: Whether the value may be null, shape (n,).
        part: Share of the possible values that are numbers, shape (n,).
        mean: Mean of these numbers, shape (n,).
    """

    low: "Floats"
    high: "Floats"
    may_be_null: "npt.NDArray[np.bool_]"
    part: "Floats"
    mean: "Floats"


def _part_of(column: Meant, conditions: Sequence[Condition], *, measured: bool) -> _Part:
    """Return the records that may meet the conditions on one column."""
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
    """Return an estimate with its bounds. None if open values have no ends, unless the bounds agree."""
    if low == high:
        return Cell(low, low, high)
    return Cell(None if math.isnan(value) else min(max(value, low), high), low, high)


def _values_of(column: Meant) -> list[Value]:
    """Return the values of a grouping: those of the domain, or else the released ones."""
    if column.every is not None:
        shown = {value for values in column.shown for value in values or ()}
        found = column.every | (shown & {None})
    elif all(values is not None for values in column.shown):
        found = frozenset(value for values in column.shown for value in values or ())
    else:
        raise QueryError(f"{column.name} is released in intervals: use ranges of it, not its values")
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
