"""What a task takes from earlier tasks: the journal's copy, never merely what an XCom contains.

The DAG determines the task that each value must come from. A value from an operator of this package must be
identical to what its task recorded last. A plain `@task` between two of them is transparent: it may pass on,
choose or drop recorded values, but not change any. See `privacy_release.workarea.journal`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import XComArg
from airflow.sdk.definitions._internal.expandinput import (
    DictOfListsExpandInput,
    ListOfDictsExpandInput,
    MappedArgument,
)
from airflow.sdk.definitions._internal.mixins import ResolveMixin
from airflow.sdk.definitions.xcom_arg import PlainXComArg

from privacy_engine.errors import IntegrityError
from privacy_release.workarea.journal import Journal, canonical, named
from privacy_release.workarea.references import paths_inside

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

_RETURN = "return_value"
_AGAIN = "Clear the run and start again"


def hands_on(operator: Any) -> bool:
    """Return whether a task's operator, or a class that it derives from, records what it hands on."""
    cls = operator.operator_class if operator.is_mapped else type(operator)
    return any(getattr(vars(c).get("execute"), "is_recorded", False) for c in cls.__mro__)


def taken(operator: "BaseOperator", context: Mapping[str, Any], journal: Journal) -> dict[str, Any]:
    """Return the template fields of a task, with the journal's copy for those that hold references.

    Raises:
        IntegrityError: If a value is not the recorded one; the message names field and producing task.
        WorkAreaError: If the store of the journal cannot be reached.
    """
    found = {name: getattr(operator, name) for name in operator.template_fields}
    index = getattr(context["ti"], "map_index", None)
    task = context["dag"].get_task(context["ti"].task_id)
    chain = _Chain(journal, task, -1 if index is None else index)
    for name in getattr(operator, "references", ()):
        tolerant = name in getattr(operator, "incomplete", ())
        found[name] = chain.checked(name, found[name], tolerant=tolerant)
    return found


def require_inside(operator: "BaseOperator", folder: Path) -> None:
    """Raise if a reference has a path outside of the run's work area after following links.

    Raises:
        IntegrityError: If one has; the message names the field.
    """
    area = folder.resolve()
    for name in getattr(operator, "references", ()):
        for place, path in paths_inside(getattr(operator, name)):
            if not Path(path).resolve().is_relative_to(area):
                raise IntegrityError(f"{name}: {place} is not a file in the work area of this run. {_AGAIN}")


class _Chain:
    """Checks the values that one task takes."""

    def __init__(self, journal: Journal, task: Any, index: int) -> None:
        self._journal = journal
        self._task = task
        self._index = index
        self._tolerant = False

    def checked(self, field: str, value: Any, *, tolerant: bool) -> Any:
        self._field, self._tolerant = field, tolerant
        if not self._task.is_mapped:
            return self._same(getattr(self._task, field), value)
        expand = self._task.expand_input
        if isinstance(expand, DictOfListsExpandInput) and field in expand.value:
            return self._element(expand, field, value)
        if isinstance(expand, ListOfDictsExpandInput):
            item = expand.value if isinstance(expand.value, XComArg) else expand.value[self._index]
            if isinstance(item, XComArg):
                if field not in self._task.partial_kwargs:
                    return self._passed_on(value, [task for task, _ in expand.iter_references()])
            elif field in item:
                return self._same(item[field], value)
        return self._same(self._task.partial_kwargs.get(field), value)

    def _same(self, written: Any, value: Any) -> Any:
        """Return the recorded value for what the DAG has in `written`."""
        match written:
            case None:
                if value is not None:
                    raise self._refused("must be empty, as in the DAG")
                return None
            case PlainXComArg():
                if not hands_on(written.operator):
                    return self._passed_on(value, [written.operator])
                if written.key != _RETURN:
                    raise self._refused(
                        "must be the whole output of a task, not a part of it; pass `.output`"
                    )
                return self._equal(value, self._handed_on(written.operator), written.operator)
            case MappedArgument() if isinstance(written._input, DictOfListsExpandInput):
                return self._element(written._input, written._key, value)
            case ResolveMixin():
                return self._passed_on(value, [task for task, _ in written.iter_references()])
            case Mapping():
                if not isinstance(value, Mapping) or set(value) != set(written):
                    raise self._refused("must have the same names as in the DAG")
                return {name: self._same(item, value[name]) for name, item in written.items()}
            case list() | tuple():
                if not isinstance(value, Sequence) or len(value) != len(written):
                    raise self._refused("must have as many items as in the DAG")
                return [self._same(item, value[i]) for i, item in enumerate(written)]
        raise self._refused(
            "must be the output of a task of this package, such as `ingest.output`. A reference that is "
            "written into the DAG, or pulled by a template, is not accepted. For your own steps use "
            "`@release_transform`"
        )

    def _element(self, expand: Any, field: str, value: Any) -> Any:
        """Return the element of a mapped task."""
        written, position = expand.value[field], self._position(expand, field)
        if isinstance(written, list | tuple) and position is not None:
            return self._same(written[position], value)
        if not isinstance(written, PlainXComArg) or not hands_on(written.operator):
            refs = [task for task, _ in XComArg.iter_xcom_references(written)]
            return self._passed_on(value, refs)
        items = self._handed_on(written.operator)
        if not isinstance(items, list) or position is None:
            return self._passed_on(value, [written.operator])
        if position >= len(items):
            raise self._changed(written.operator)
        return self._equal(value, items[position], written.operator)

    def _position(self, expand: Any, field: str) -> int | None:
        """Return the index of a mapped task's element in the list of a field; None if a length is unknown."""
        left = self._index
        names = list(expand.value)
        for name in reversed(names):
            length = self._length(expand.value[name])
            if name == field and name == names[0]:
                return left
            if length is None:
                return None
            if name == field:
                return left % length
            left //= length
        return None

    def _length(self, written: Any) -> int | None:
        """Return the number of elements a task is mapped over; None if only another package knows it."""
        if isinstance(written, PlainXComArg) and hands_on(written.operator):
            if (count := self._count(written.operator)) is not None or _is_mapped(written.operator):
                return count
            items = self._journal.value(written.operator.task_id, -1)
            return len(items) if isinstance(items, list) else None
        return None if isinstance(written, ResolveMixin) else len(written)

    def _count(self, producer: Any) -> int | None:
        """Return the number of instances of a mapped task; None if not mapped, or unknown."""
        group = None if producer.is_mapped else producer.get_closest_mapped_task_group()
        expand = producer.expand_input if producer.is_mapped else getattr(group, "_expand_input", None)
        if isinstance(expand, DictOfListsExpandInput):
            lengths = [self._length(written) for written in expand.value.values()]
            return None if None in lengths else prod(length for length in lengths if length is not None)
        if isinstance(expand, ListOfDictsExpandInput) and not isinstance(expand.value, XComArg):
            return len(expand.value)
        return None

    def _handed_on(self, producer: Any) -> Any:
        """Return what a task recorded; for a mapped task, the list of all records."""
        task = producer.task_id
        if not _is_mapped(producer):
            return self._journal.value(task, -1)
        group = None if producer.is_mapped else producer.get_closest_mapped_task_group()
        if group is not None and group is self._group:
            return self._journal.value(task, self._index)
        count = self._count(producer)
        indices = range(count) if count is not None else self._begun(task)
        if self._tolerant:
            indices = [i for i in indices if self._journal.has(task, i)]
        return [self._journal.value(task, i) for i in indices]

    @cached_property
    def _group(self) -> Any:
        return self._task.get_closest_mapped_task_group()

    def _begun(self, task: str) -> Sequence[int]:
        count = 0
        while self._journal.begun(task, count):
            count += 1
        return range(count)

    def _passed_on(self, value: Any, through: Sequence[Any]) -> Any:
        """Return the value if it consists only of values that tasks of this package recorded."""
        known = {canonical(item): item for task in _recording(through) for item in self._all_of(task)}

        def same(value: Any) -> Any:
            if value is not None and (item := known.get(canonical(value))) is not None:
                return item
            if isinstance(value, Mapping) and value:
                return {name: same(item) for name, item in value.items()}
            if isinstance(value, Sequence) and not isinstance(value, str | bytes):
                return [same(item) for item in value]
            names = ", ".join(f"`{task.task_id}`" for task in through)
            raise self._refused(
                f"must be the output of a task of this package, but the output of task {names} is "
                "not: it was changed outside of the run, or one of your own steps created it. Clear "
                "the run and start again. Your own steps must pass references on unchanged, or be a "
                "`@release_transform`"
            )

        return same(value)

    def _all_of(self, producer: Any) -> Iterator[Any]:
        """Yield everything that a task recorded, including list elements."""
        task = producer.task_id
        mapped = _is_mapped(producer)
        for index in (
            range(count)
            if mapped and (count := self._count(producer))
            else self._begun(task)
            if mapped
            else [-1]
        ):
            if self._journal.has(task, index):
                value = self._journal.value(task, index)
                yield value
                if isinstance(value, list):
                    yield from value

    def _equal(self, value: Any, recorded: Any, producer: Any) -> Any:
        try:
            if canonical(value) == canonical(recorded):
                return recorded
        except (TypeError, ValueError):  # not plain JSON, so not the output of a task
            pass
        raise self._changed(producer)

    def _changed(self, producer: Any) -> IntegrityError:
        return IntegrityError(
            f"{self._field}: the value of task `{producer.task_id}` was changed outside of the run. {_AGAIN}"
        )

    def _refused(self, why: str) -> IntegrityError:
        return IntegrityError(f"{self._field} of task `{named(self._task.task_id, self._index)}` {why}")


def _is_mapped(producer: Any) -> bool:
    return bool(producer.is_mapped or producer.get_closest_mapped_task_group() is not None)


def _recording(tasks: Sequence[Any]) -> list[Any]:
    """Return the tasks of this package; another package's tasks are replaced by the tasks they depend on."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    left = list(tasks)
    while left:
        task = left.pop()
        if task.task_id in seen:
            continue
        seen.add(task.task_id)
        if hands_on(task):
            found[task.task_id] = task
        else:
            left += [producer for producer, _ in _data_of(task)]
    return list(found.values())


def _data_of(task: Any) -> Iterator[tuple[Any, str]]:
    """Yield the outputs of other tasks that a task of another package takes."""
    if not task.is_mapped:
        yield from XComArg.iter_xcom_references(task)
        return
    yield from XComArg.iter_xcom_references(list(task.partial_kwargs.values()))
    for name in ("expand_input", "op_kwargs_expand_input"):
        if (expand := getattr(task, name, None)) is not None:
            yield from expand.iter_references()
