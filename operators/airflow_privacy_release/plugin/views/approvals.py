"""What a task asks of a person about a release, and some records of it as they would be published.

The question is what the task itself keeps while it waits, which no XCom can change. The records are read from
the very bytes whose sha256 the question names: of other bytes nothing is shown, whoever put them there.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from airflow_privacy_release.hooks.work import work_store
from privacy_engine.errors import PrivacyEngineError
from privacy_engine.vocabulary import counted
from privacy_release.reports.text import PROMISES
from privacy_release.steps.approval import COMMENT, Question
from privacy_release.workarea.area import WorkArea, work_area_root
from privacy_release.workarea.file_sets import Part, folder_of_list, is_list, parts_of

SHOWN = 20  # records
_FILES = 4  # of a set that records are shown of
_LONGEST = 80  # characters of a cell
_LARGEST = 256 * 2**20  # bytes that are fetched and decrypted
_WAITING = ("awaiting_input", "deferred")


class Bytes(StrEnum):
    """Whether the staged bytes are those that the question is about."""

    SAME = "same"
    OTHERS = "others"
    UNREAD = "unread"  # this server does not reach them; who publishes compares the hash in any case


@dataclass(frozen=True, kw_only=True)
class Records:
    """Some released records, as text; None stands for a missing value."""

    bytes: Bytes
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Given:
    """An answer that was given: the option, who, when and their comment."""

    option: str
    by: str
    at: Any
    comment: str


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A task that asks, or has asked.

    Attributes:
        ti_id: of this attempt of the task: one that is cleared asks anew.
        assigned: ids of the users who may answer; none: whoever may in the DAG.
        question: None unless the task waits.
        given: None unless somebody has answered.
    """

    ti_id: str
    assigned: tuple[str, ...]
    question: Question | None
    given: Given | None


def approval_of(
    session: Session, dag_id: str, run_id: str, task_id: str, map_index: int, *, lock: bool = False
) -> Approval | None:
    """The approval of a task; None if there is no such task, or it asks nobody.

    Args:
        session: of Airflow's database.
        dag_id: of the task, and so the next three.
        run_id: of its run.
        task_id: its own.
        map_index: -1 where it is not mapped.
        lock: keep others from answering or clearing it until the session ends.
    """
    place = (
        TaskInstance.dag_id == dag_id,
        TaskInstance.run_id == run_id,
        TaskInstance.task_id == task_id,
        TaskInstance.map_index == map_index,
    )
    query = select(TaskInstance).where(*place).options(joinedload(TaskInstance.hitl_detail))
    if lock:
        query = query.with_for_update(of=TaskInstance)
    ti = session.scalar(query)
    detail = None if ti is None else ti.hitl_detail
    if ti is None or detail is None:
        return None
    answered = detail.responded_at is not None
    return Approval(
        ti_id=str(ti.id),
        assigned=tuple(str(user["id"]) for user in detail.assigned_users or ()),
        question=None if answered else _question(ti),
        given=_given(detail) if answered else None,
    )


def open_in(dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """The tasks of a run that wait for a decision on a release: what their page is asked for by."""
    query = (
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.state.in_(_WAITING),
        )
        .options(joinedload(TaskInstance.hitl_detail))
    )
    with create_session() as session:
        return [
            {"dag_id": dag_id, "run_id": run_id, "task_id": ti.task_id, "map_index": ti.map_index}
            for ti in session.scalars(query).unique()
            if _question(ti) is not None and ti.hitl_detail.responded_at is None
        ]


def some_records(dag_id: str, run_id: str, question: Question) -> Records:
    """Records from all over the staged bytes, if these are the bytes of the question.

    Neighbours in the file mostly belong to one class and look the same: the records are evenly apart.
    """
    name = question["file"]
    if name != Path(name).name or name in ("", ".", ".."):
        return Records(bytes=Bytes.UNREAD)
    with suppress(PrivacyEngineError, OSError, ValueError, pa.ArrowException):
        with _opened(f"{dag_id}/{run_id}", name) as stream:
            if hashlib.file_digest(cast(Any, stream), "sha256").hexdigest() != question["sha256"]:
                return Records(bytes=Bytes.OTHERS)
            stream.seek(0)
            if is_list(name):
                parts = parts_of(stream.read(), question["sha256"], name)
                table = _of_set(f"{dag_id}/{run_id}", folder_of_list(Path(name)).name, parts)
            else:
                with pq.ParquetFile(stream) as file:
                    table = _spread(file, SHOWN)
            if table is None:
                return Records(bytes=Bytes.OTHERS)
            columns = tuple(table.column_names)
            cells = [map(_text, column.to_pylist()) for column in table.columns]
        return Records(bytes=Bytes.SAME, columns=columns, rows=tuple(zip(*cells, strict=True)))
    return Records(bytes=Bytes.UNREAD)


def _of_set(key: str, folder: str, parts: Sequence[Part]) -> "pa.Table | None":
    """Records of some files of a set, evenly apart in it; None if one is not the file that its list names."""
    looked = sorted({place * len(parts) // _FILES for place in range(_FILES)})
    found = []
    for part in (parts[place] for place in looked):
        with _opened(key, f"{folder}/{part.name}") as stream:
            if hashlib.file_digest(cast(Any, stream), "sha256").hexdigest() != part.sha256:
                return None
            stream.seek(0)
            with pq.ParquetFile(stream) as file:
                found.append(_spread(file, SHOWN // len(looked)))
    return pa.concat_tables(found)


def _spread(file: "pq.ParquetFile", most: int) -> "pa.Table":
    """At most so many records of a file, evenly apart in it."""
    rows = file.metadata.num_rows
    shown = min(most, rows)
    wanted = [place * rows // shown for place in range(shown)]
    parts, start = [file.schema_arrow.empty_table()], 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        if here := [place - start for place in wanted if start <= place < end]:
            parts.append(file.read_row_group(group).take(here))
        start = end
    return pa.concat_tables(parts)


def _opened(key: str, name: str) -> IO[bytes]:
    """A file of the work area of a run.

    Raises:
        OSError: if this process does not reach it, or a link stands in its place.
        PrivacyEngineError: if the store of encrypted work areas cannot be read.
    """
    store = work_store()
    if store is not None:
        data = store.of(key).read(name, _LARGEST)
        if data is None:
            raise OSError("the staged file is too large to be fetched")
        return io.BytesIO(data)
    folder = WorkArea(work_area_root(), key).folder
    if folder.is_symlink():
        raise OSError("the work area is a link")
    return os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def _text(cell: object) -> str | None:
    text = str(cell)
    return None if cell is None else text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _question(ti: TaskInstance) -> Question | None:
    """What a waiting task keeps; Airflow 3.1 wraps the mapping."""
    kept: Any = ti.next_kwargs if ti.state in _WAITING else None
    if isinstance(kept, Mapping) and "__var" in kept:
        kept = kept["__var"]
    told = kept.get("question") if isinstance(kept, Mapping) else None
    return cast(Question, json.loads(told)) if isinstance(told, str) and told else None


def _given(detail: Any) -> Given:
    by = detail.responded_by or {}
    return Given(
        option=", ".join(detail.chosen_options or ()),
        by=str(by.get("name") or by.get("id") or "nobody, in time"),
        at=detail.responded_at,
        comment=str((detail.params_input or {}).get(COMMENT) or ""),
    )


def verdict(question: Question, records: Records) -> str:
    """What there is to decide on, in one sentence."""
    if records.bytes is Bytes.OTHERS:
        return "The staged file is no longer the one that was verified: it cannot be approved."
    findings, columns = question["findings"], question["columns"]
    broken = sum(not finding["passed"] for finding in findings)
    if broken:
        return f"{broken} of {len(findings)} checks do not hold: this must not be published."
    plain = sum(column["role"] == "insensitive" for column in columns) if question["loss"] is None else 0
    left = f" ({plain} of them as they are)" if plain else ""
    checks = "the one check" if len(findings) == 1 else f"all {len(findings)} checks"
    size = f"{counted(question['rows'], 'record')} in {counted(len(columns), 'column')}{left}"
    return f"{size} would be published, and {checks} of the policy held on these very bytes."


def check_in_words(finding: Mapping[str, Any]) -> str:
    """What a rule of the policy means for somebody who is in the table."""
    name, _, arguments = str(finding["rule"]).partition("(")
    if name in PROMISES:
        with suppress(KeyError, IndexError, ValueError):
            return PROMISES[name].protects.format(**dict(re.findall(r"(\w+)=([^,)\s]+)", arguments)))
        return PROMISES[name].name
    return next((words for start, words in _CHECKS.items() if name.startswith(start)), "")


_CHECKS: Mapping[str, str] = {
    "attack_risk": "What somebody who attacks the release may gain at most beyond what is known of others.",
    "max_epsilon": "How much the release may depend on any one person, over all that it tells.",
    "epsilon": "How much the release may depend on any one person, over all that it tells.",
    "max_delta": "The chance that the bound on epsilon does not hold.",
    "max_gcp": "How much detail may be lost at most: a release that loses more is of little use.",
    "max_suppress": "How many records may be left out at most.",
    "columns": "What may stand in the released columns, read from the released records.",
}
ROLES: Mapping[str, tuple[str, str]] = {
    "quasi_identifier": ("quasi-identifier", "may be known to others, who could find a person by it"),
    "sensitive": ("sensitive", "must not be learned of one person"),
    "insensitive": ("insensitive", "taken to be harmless"),
    "identifier": ("identifier", "names a person; its own values are never released"),
}
TERMS: Mapping[str, str] = {
    "Quasi-identifier": "A column that others may know of a person, such as age or postal code: alone it "
    "names nobody, together with others it may.",
    "Sensitive": "A column whose value must not be learned of one person, such as an illness.",
    "Class": "The released records that look the same in all quasi-identifiers.",
    "k-anonymity (k)": "Each record looks the same as at least k - 1 others in what others may know. Who "
    "knows a person finds k records or more, and cannot tell which is the right one.",
    "l-diversity (l)": "In each class there are at least l different sensitive values, so that finding "
    "the class does not yet tell the value.",
    "t-closeness (t)": "In each class the sensitive values are spread nearly as in the whole table; t is "
    "the largest difference, from 0 (the same) to 1.",
    "Epsilon": "The privacy loss of a differentially private release: how much any one person can change "
    "what is released. 0 tells nothing; each 0.7 about doubles what the odds may change by.",
    "Delta": "The small chance with which the bound of epsilon may fail.",
    "Suppression": "A record, or a value, that could not be protected is left out.",
    "Generalization": "A value is replaced by a coarser one: 37 by 30 to 40.",
    "GCP, information loss": "Global certainty penalty: how much coarser the quasi-identifiers have become, "
    "from 0 (as in the source) to 1 (nothing left).",
    "Prosecutor risk": "The chance of picking the right record for somebody who is known to be in the table.",
    "Counterfeit": "A record of nobody, added so that classes keep their sensitive values from release to "
    "release.",
    "sha256": "A fingerprint of the file: another file, even by one byte, has another.",
}
