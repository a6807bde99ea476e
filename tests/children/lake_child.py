"""Publishes or retracts once, in a process of its own that a test can kill or hold at a chosen step.

The steps are real; a fault point only ends the process (SIGKILL: no clean-up runs) or waits for the parent.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from fault_points import after, before, kill_me, rendezvous

from privacy_release.lake import commits as lake_commits
from privacy_release.lake import publish as lake
from privacy_release.lake import rows as lake_rows
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake, put_new
from privacy_release.work.parquet import unchanged_batches


def die_with_data_on_disk(
    table: deltalake.DeltaTable, rows: pa.Table | pa.RecordBatchReader, **options: Any
) -> None:
    """The Delta writer, fed with rows until a data file stands on disk, and killed before it can commit."""
    folder = Path(table.table_uri.removeprefix("file://"))
    there_before = set(folder.rglob("*.parquet"))
    given = rows.to_batches() if isinstance(rows, pa.Table) else list(rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(10_000):
            yield from given
            if set(folder.rglob("*.parquet")) - there_before:
                kill_me()

    stream = pa.RecordBatchReader.from_batches(rows.schema, batches())
    deltalake_write(table, stream, target_file_size=1, **options)


def die_in_the_middle(*given: Any, **options: Any) -> Iterator[pa.RecordBatch]:
    """Half of the batches of a file that is streamed."""
    batches = list(unchanged_batches(*given, **options))
    yield from batches[: len(batches) // 2]
    kill_me()


def die_in_a_file(where: Lake, path: str, parts: Iterator[bytes]) -> None:
    """Half of a file that is copied."""

    def pieces() -> Iterator[bytes]:
        piece = next(parts)
        yield piece[: len(piece) // 2]
        kill_me()

    put_new(where, path, pieces())


deltalake_write = deltalake.write_deltalake


def arm(point: str) -> None:
    """Set one fault point or meeting point."""
    match point:
        case "before_proofs":
            lake.put = before(lake.put, kill_me)
        case "in_manifest":
            Path.replace = before(Path.replace, kill_me)
        case "between_proofs":
            lake.put = after(lake.put, kill_me)
        case "after_proofs":
            lake.put = after(lake.put, kill_me, on_call=2)
        case "before_commit":
            lake._commit = before(lake._commit, kill_me)
        case "before_index":
            lake.next_mark = before(lake.next_mark, kill_me)
        case "in_index":
            lake_commits.put = before(lake_commits.put, lambda: arm("in_manifest"))
        case "after_index":
            lake.next_mark = after(lake.next_mark, kill_me)
        case "data_on_disk":
            deltalake.write_deltalake = die_with_data_on_disk
        case "in_stream":
            lake_rows.unchanged_batches = die_in_the_middle
        case "between_files":
            lake_rows.put_new = after(lake_rows.put_new, kill_me)
        case "after_files":
            lake_rows.VerifiedRows.copied = after(lake_rows.VerifiedRows.copied, kill_me)
        case "in_file":
            lake_rows.put_new = die_in_a_file
        case "after_commit":
            lake._commit = after(lake._commit, kill_me)
        case "after_retract_commit":
            deltalake.DeltaTable.delete = after(deltalake.DeltaTable.delete, kill_me)
        case "meet_at_delete":
            deltalake.DeltaTable.delete = before(deltalake.DeltaTable.delete, rendezvous)
        case "meet_after_delete":
            deltalake.DeltaTable.delete = after(deltalake.DeltaTable.delete, rendezvous)
        case "meet_at_create":
            lake._create = before(lake._create, rendezvous)
        case "meet_at_commit":
            lake._commit = before(lake._commit, rendezvous)
        case _:
            raise ValueError(point)


def main() -> None:
    task = json.loads(sys.argv[1])
    for point in task["points"]:
        arm(point)
    home = Lake(root=task["root"])
    if "reason" in task:
        gone = retract(home, task["name"], task["release_id"], task["reason"])
        sys.stdout.write(json.dumps(asdict(gone)) + "\n")
        return
    done = lake.publish(
        home,
        task["name"],
        task["release_id"],
        Path(task["staged"]),
        task["manifest"],
        Path(task["report"]),
        expected_sha256=task["sha256"],
        run_key=task["run_key"],
    )
    sys.stdout.write(json.dumps(asdict(done)) + "\n")


if __name__ == "__main__":
    main()
