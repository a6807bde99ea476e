"""Releases that show whether they are whole, and what every reader of a table sees of them."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.lake.layout import TableRules
from privacy_release.lake.publish import CommittedRelease, publish
from privacy_release.lake.store import Lake
from privacy_release.lake.superseded import settle
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.statement import StatementSigner
from privacy_release.workarea.area import sha256_file

NAME = "people"
RELEASE = "2026-W47"
MANIFEST = {
    "method": "ilp_l_diversity",
    "guarantees": [{"model": "k_anonymity", "k": 10}],
    "loss": None,
    "figures": {},
    "policy": {"require": [{"model": "k_anonymity", "k": 100}]},
    "schema": {
        "edition": {"role": "quasi_identifier", "kind": "categorical"},
        "age": {"role": "insensitive", "kind": "categorical"},
        "checksum": {"role": "insensitive", "kind": "categorical"},
    },
}


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A verified release. Its rows number `edition + 100`, and each carries the checksum of all."""

    edition: int
    file: Path
    report: Path
    sha256: str

    @property
    def manifest(self) -> dict[str, object]:
        return MANIFEST | {"edition": self.edition}

    def rows(self) -> pa.Table:
        return pq.read_table(self.file)


def stage(folder: Path, edition: int) -> Staged:
    place = folder / f"edition-{edition}"
    place.mkdir(parents=True)
    n = 100 + edition
    plain = pa.table({"edition": [edition] * n, "age": [f"[{i}, {i + 9}]" for i in range(n)]})
    pq.write_table(plain.append_column("checksum", pa.array([_checksum(plain)] * n)), place / "t.parquet")
    (place / "report.html").write_text(f"<p>edition {edition}</p>")
    return Staged(
        edition=edition,
        file=place / "t.parquet",
        report=place / "report.html",
        sha256=sha256_file(place / "t.parquet"),
    )


def send(
    lake: Lake,
    staged: Staged,
    run_key: str,
    release_id: str = RELEASE,
    rules: TableRules | None = None,
    signer: StatementSigner | None = None,
) -> CommittedRelease:
    return publish(
        lake.table(NAME),
        release_id,
        staged.file,
        staged.manifest,
        staged.report,
        expected_sha256=staged.sha256,
        run_key=run_key,
        rules=rules,
        signer=signer,
    )


def send_snapshot(lake: Lake, history: Lake, staged: Staged, key: SigningKey) -> CommittedRelease:
    """Publish the release of an edition, signed, in the place of all others, which move to a history."""
    rules = TableRules(
        mode=PublishMode.SNAPSHOT, superseded=Superseded.HISTORY, history=history, grace=timedelta(0)
    )
    signer = StatementSigner(key=key)
    done = send(lake, staged, "run", f"edition-{staged.edition}", rules, signer)
    settle(lake.table(NAME), history=history)
    return done


def seen(lake: Lake, version: int | None = None) -> int | None:
    """The edition that a Delta client sees in the table, None if it is empty or not there.

    Raises:
        AssertionError: if it is not the whole of one release.
    """
    try:
        table = deltalake.DeltaTable(lake.table(NAME).address, version=version, storage_options=lake.options)
    except deltalake.exceptions.TableNotFoundError:
        return None
    rows = table.to_pyarrow_table()
    if rows.num_rows == 0:
        return None
    (edition,) = rows["edition"].unique().to_pylist()
    assert rows.num_rows == 100 + edition
    assert rows["checksum"].unique().to_pylist() == [_checksum(rows)]
    return int(edition)


def _checksum(rows: pa.Table) -> str:
    columns = [rows["edition"].to_pylist(), rows["age"].to_pylist()]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()
