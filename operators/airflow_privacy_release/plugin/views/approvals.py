"""The question that an approval task asks about a release, and some records as they would be published.

The question is kept by the task itself while it waits, and no XCom can change it. The records are read from
the very bytes whose sha256 the question names. If the bytes differ, no records are shown.
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
from privacy_release.reports.text import CHANGES, FIGURES, PROMISES, RISKS
from privacy_release.steps.approval import COMMENT
from privacy_release.steps.approval_question import ApprovalQuestion
from privacy_release.workarea.area import WorkArea, work_area_root
from privacy_release.workarea.file_sets import Part, folder_of_list, is_list, parts_of

SHOWN = 20  # number of records
_FILES = 4  # number of files of a set from which records are shown
_LONGEST = 80  # characters of a cell
_LARGEST = 256 * 2**20  # most bytes that are fetched and decrypted
_WAITING = ("awaiting_input", "deferred")


class Bytes(StrEnum):
    """Whether the staged bytes are those of the question."""

    SAME = "same"
    OTHERS = "others"
    UNREAD = "unread"  # this server cannot read them; publishing compares the hash in any case


@dataclass(frozen=True, kw_only=True)
class Records:
    """Some released records, as text; None for a missing value."""

    bytes: Bytes
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Given:
    """An answer: the chosen option, the user, the time and their comment."""

    option: str
    by: str
    at: Any
    comment: str


@dataclass(frozen=True, kw_only=True)
class ApprovalTask:
    """A task that waits, or waited, for an approval.

    Attributes:
        ti_id: Id of this attempt of the task; a cleared task asks again with another id.
        assigned: Ids of the users who may answer; none: every user who may answer in the DAG.
        question: Question of the task; None unless the task waits.
        given: Answer; None if there is none yet.
    """

    ti_id: str
    assigned: tuple[str, ...]
    question: ApprovalQuestion | None
    given: Given | None


def approval_of(
    session: Session, dag_id: str, run_id: str, task_id: str, map_index: int, *, lock: bool = False
) -> ApprovalTask | None:
    """Return the approval of a task; None if there is no such task, or it needs no approval.

    Args:
        session: Session of Airflow's database.
        dag_id: DAG id of the task.
        run_id: Run id of the task.
        task_id: Id of the task.
        map_index: Map index of the task; -1 if it is not mapped.
        lock: Whether to block other answers and clearing until the session ends.
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
    return ApprovalTask(
        ti_id=str(ti.id),
        assigned=tuple(str(user["id"]) for user in detail.assigned_users or ()),
        question=None if answered else _question(ti),
        given=_given(detail) if answered else None,
    )


def open_in(dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Return the queries of the approval pages of a run's tasks that wait for a decision on a release."""
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


def some_records(dag_id: str, run_id: str, question: ApprovalQuestion) -> Records:
    """Return records from all over the staged bytes, if these are the bytes of the question.

    Neighbours in the file mostly belong to one class and look the same, so the records are evenly spaced.
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
    """Return records from some files of a set, evenly spaced; None if a file differs from the set's list."""
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
    """Return at most a number of records of a file, evenly spaced."""
    rows = file.metadata.num_rows
    shown = min(most, rows)
    places = [place * rows // shown for place in range(shown)]
    parts, start = [file.schema_arrow.empty_table()], 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        if here := [place - start for place in places if start <= place < end]:
            parts.append(file.read_row_group(group).take(here))
        start = end
    return pa.concat_tables(parts)


def _opened(key: str, name: str) -> IO[bytes]:
    """Open a file in the work area of a run.

    Raises:
        OSError: If this process cannot read it, or it is a link.
        PrivacyEngineError: If the store of encrypted work areas cannot be read.
    """
    store = work_store()
    if store is not None:
        data = store.of(key).read(name, _LARGEST)
        if data is None:
            raise OSError("the staged file is too large to fetch")
        return io.BytesIO(data)
    folder = WorkArea(work_area_root(), key).folder
    if folder.is_symlink():
        raise OSError("the work area is a link")
    return os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def _text(cell: object) -> str | None:
    text = str(cell)
    return None if cell is None else text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _question(ti: TaskInstance) -> ApprovalQuestion | None:
    """Return what a waiting task keeps; Airflow 3.1 wraps the mapping."""
    kept: Any = ti.next_kwargs if ti.state in _WAITING else None
    if isinstance(kept, Mapping) and "__var" in kept:
        kept = kept["__var"]
    text = kept.get("question") if isinstance(kept, Mapping) else None
    return cast(ApprovalQuestion, json.loads(text)) if isinstance(text, str) and text else None


def _given(detail: Any) -> Given:
    by = detail.responded_by or {}
    return Given(
        option=", ".join(detail.chosen_options or ()),
        by=str(by.get("name") or by.get("id") or "no one, in time"),
        at=detail.responded_at,
        comment=str((detail.params_input or {}).get(COMMENT) or ""),
    )


def verdict(question: ApprovalQuestion, records: Records) -> str:
    """Summarize the decision to make, in one sentence."""
    if records.bytes is Bytes.OTHERS:
        return "The staged file has changed since it was verified. It cannot be approved."
    findings, columns = question["findings"], question["columns"]
    broken = sum(not finding["passed"] for finding in findings)
    if broken:
        return f"{broken} of {counted(len(findings), 'check')} failed. This must not be published."
    plain = sum(column["role"] == "insensitive" for column in columns) if question["loss"] is None else 0
    left = f" ({plain} of them unchanged)" if plain else ""
    checks = {1: "the one check", 2: "both checks"}.get(len(findings), f"all {len(findings)} checks")
    size = f"{counted(question['rows'], 'record')} in {counted(len(columns), 'column')}{left}"
    return f"{size} would be published, and {checks} of the policy passed on exactly these bytes."


def unchanged(question: ApprovalQuestion | None) -> list[str]:
    """Return the labels of the figures of utility and risk that are the same as in the last release."""
    difference = question["difference"] if question else None
    figures = difference.get("figures", []) if difference else []
    return [label for label, was, now in figures if was == now]


def check_in_words(finding: Mapping[str, Any]) -> str:
    """Explain what a rule of the policy means for a person in the table."""
    name, _, arguments = str(finding["rule"]).partition("(")
    if name in PROMISES:
        with suppress(KeyError, IndexError, ValueError):
            return PROMISES[name].protects.format(**dict(re.findall(r"(\w+)=([^,)\s]+)", arguments)))
        return PROMISES[name].name
    return next((words for start, words in _CHECKS.items() if name.startswith(start)), "")


_CHECKS: Mapping[str, str] = {
    "attack_risk": "The most that an attacker may learn about people in the release, beyond what the "
    "attacker learns about others.",
    "max_epsilon": "The limit on how much the whole release may depend on any one person.",
    "epsilon": "The limit on how much the whole release may depend on any one person.",
    "max_delta": "The probability that the bound on epsilon fails.",
    "max_gcp": "The most detail that may be lost. A release that loses more is of little use.",
    "max_suppress": "The largest share of records that may be left out.",
    "columns": "What the released columns may contain, checked on the released records.",
}
MEANINGS: Mapping[str, str] = {
    label: meaning for known in (CHANGES, FIGURES, RISKS) for label, _, meaning in known.values()
}
ROLES: Mapping[str, tuple[str, str]] = {
    "quasi_identifier": ("quasi-identifier", "others may know it and could use it to find a person"),
    "sensitive": ("sensitive", "must not be learned about any person"),
    "insensitive": ("insensitive", "considered harmless"),
    "identifier": ("identifier", "identifies a person; the original values are never released"),
}
TERMS: Mapping[str, str] = {
    "Quasi-identifier": "A column that others may know about a person, such as age or postal code. Alone it "
    "identifies no one, but together with others it may.",
    "Sensitive": "A column whose value must not be learned about any person, such as an illness.",
    "Class": "The released records that look the same in all quasi-identifiers.",
    "k-anonymity (k)": "Each record looks the same as at least k - 1 others in everything that others may "
    "know. Someone who knows a person finds at least k records and does not know which one is right.",
    "l-diversity (l)": "Each class has at least l different sensitive values, so finding a person's "
    "class does not by itself reveal the value.",
    "t-closeness (t)": "The sensitive values of each class are distributed nearly as in the whole table. t "
    "is the largest difference, from 0 (identical) to 1.",
    "Epsilon": "The privacy loss of a differentially private release: how much any one person can change "
    "what is released. 0 reveals nothing; each 0.7 roughly doubles the possible change of the odds.",
    "Delta": "The small probability that the bound of epsilon fails.",
    "Suppression": "Leaving out a record or a value that could not be protected.",
    "Generalization": "Replacing a value by a coarser one, such as 37 by 30 to 40.",
    "GCP, detail lost": "Global certainty penalty: how much coarser the quasi-identifiers are, "
    "from 0 (as in the source) to 1 (nothing left).",
    "Prosecutor risk": "The probability of picking the right record of a person who is known to be in the "
    "table.",
    "Counterfeit": "An invented record that belongs to no person, added so that classes keep their sensitive "
    "values from release to "
    "release.",
    "sha256": "A fingerprint of the file. It changes if even one byte of the file changes.",
}
