"""What was done to a published table, and what the check says of it: never a cell value."""

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from privacy_release.cli.main import main
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.published_keys import publish_key
from tests.privacy_release.proof.signed_tables import NAME, SECRET, Publisher, people

pytestmark = pytest.mark.slow

OLD, NEW, STRANGER = (SigningKey.new() for _ in range(3))
OTHER = "visits"
# Versions of the table: 1 is w1, 2 is w2, 3 is w3, and 4 is w1 again, by a later run.
W1_BEFORE, W2, W3, W1 = 1, 2, 3, 4


class Table:
    """A published table as files, which whoever has the disk may change at will."""

    def __init__(self, root: Path) -> None:
        self.root, self.lake = root, Lake(root=str(root))
        self.folder = root / NAME
        self.proofs = root / "_proof" / NAME

    def commit(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.commit(version).read_text().splitlines()]

    @contextmanager
    def changed(self, version: int, *, to: int | None = None) -> Iterator[list[dict[str, Any]]]:
        """The actions of a commit, written back as they are then, or into another one."""
        actions = self.actions(version)
        yield actions
        self.commit(to or version).write_text("".join(json.dumps(action) + "\n" for action in actions))

    @contextmanager
    def note(self, version: int) -> Iterator[dict[str, Any]]:
        with self.changed(version) as actions:
            yield next(a["commitInfo"] for a in actions if "commitInfo" in a)["privacy_release"]

    def told(self, version: int) -> dict[str, Any]:
        with self.note(version) as note:
            return note

    def data(self, version: int) -> Path:
        (path,) = (action["add"]["path"] for action in self.actions(version) if "add" in action)
        return self.folder / path

    def statement(self, version: int) -> Path:
        return self.proofs / f"{self.told(version)['statement']['sha256']}.dsse.json"

    def about_files(self, version: int) -> Path:
        return self.proofs / f"{self.told(version)['statement']['sha256']}.files.dsse.json"

    def proof(self, version: int, kind: str) -> Path:
        return self.proofs / f"{self.told(version)[kind]}.{'json' if kind == 'manifest' else 'html'}"

    def store(self, data: bytes, ending: str) -> str:
        """Put bytes among the proofs under their own hash, as a publisher does."""
        sha256 = hashlib.sha256(data).hexdigest()
        (self.proofs / f"{sha256}.{ending}").write_bytes(data)
        return sha256


def publisher(table: Table, key: SigningKey | None = OLD) -> Publisher:
    return Publisher(table.lake, table.root.parent / "work", key)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Four signed publications, and another table beside."""
    table = Table(tmp_path_factory.mktemp("original") / "lake")
    by = publisher(table)
    by.publish(people(3), "w1")
    by.publish(people(4), "w2")
    by.publish(people(5), "w3")
    by.publish(people(6), "w1", run_key="again")
    by.publish(people(4), "w2", name=OTHER)
    return table


@pytest.fixture
def table(original: Table, tmp_path: Path) -> Table:
    shutil.copytree(original.root, tmp_path / "lake")
    return Table(tmp_path / "lake")


Check = Callable[..., tuple[int, set[str], str]]


@pytest.fixture
def check(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Exit code, what was wrong, and everything that was printed."""

    def run(*more: str, keys: tuple[SigningKey, ...] = (OLD,)) -> tuple[int, set[str], str]:
        (tmp_path / "keys.pem").write_text("".join(key.public.pem() for key in keys))
        capsys.readouterr()
        arguments = ["check", str(table.folder), "--key", str(tmp_path / "keys.pem"), *more]
        code = main([*arguments, "--json"])
        printed = capsys.readouterr()
        main(arguments)
        lines = "".join(capsys.readouterr())
        verdict = json.loads(printed.out)
        faults = {reason["fault"] for reason in verdict["reasons"]}
        assert verdict["right"] == (not faults) == (code == 0) == lines.startswith("yes")
        return code, faults, printed.out + printed.err + lines

    return run


def flipped(file: Path, share: float = 0.5) -> None:
    data = bytearray(file.read_bytes())
    data[int(share * (len(data) - 1))] ^= 1
    file.write_bytes(bytes(data))


def in_payload(file: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The envelope in a file with another payload; the signature is as it was."""
    envelope = json.loads(file.read_bytes())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    change(payload["predicate"])
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    return json.dumps(envelope).encode()


def other_rows(table: Table) -> pa.Table:
    """The rows of w2, of which two classes were given other, equally common ages: k and l are kept."""
    frame = pq.read_table(table.data(W2)).to_pandas()
    frame["age"] = frame["age"].str.replace("[20, 29]", "[25, 29]")
    return pa.Table.from_pandas(frame, preserve_index=False)


def rewrite_rows(table: Table) -> None:
    """In a file of their own, which the log names in the place of the old one."""
    target = table.data(W2).with_name("part-00000-another.parquet")
    pq.write_table(other_rows(table), target)
    table.data(W2).unlink()
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added |= {"path": f"release=w2/{target.name}", "size": target.stat().st_size}


def rewrite_rows_in_place(table: Table) -> None:
    pq.write_table(other_rows(table), table.data(W2))
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added["size"] = table.data(W2).stat().st_size


def add_rows(table: Table) -> None:
    rows = pq.read_table(table.data(W2))
    rows = rows.append_column("release", pa.repeat(pa.scalar("w2"), len(rows)))
    write_deltalake(table.lake.table(NAME), rows, mode="append")


def add_rows_of_nobody(table: Table) -> None:
    rows = pq.read_table(table.data(W2))
    rows = rows.append_column("release", pa.repeat(pa.scalar("w9"), len(rows)))
    write_deltalake(table.lake.table(NAME), rows, mode="append")


def rename_columns(table: Table) -> None:
    """Readers that know column mapping would show the zip as age; no file is touched."""
    with table.changed(0) as actions:
        for action in actions:
            if "protocol" in action:
                action["protocol"] |= {"minReaderVersion": 2, "minWriterVersion": 5}


def hide_a_column(table: Table) -> None:
    with table.changed(0) as actions:
        (said,) = (action["metaData"] for action in actions if "metaData" in action)
        schema = json.loads(said["schemaString"])
        schema["fields"] = [field for field in schema["fields"] if field["name"] != "zip"]
        said["schemaString"] = json.dumps(schema)


def hide_rows_by_statistics(table: Table) -> None:
    """Whoever asks for people in their twenties gets none: a reader leaves the file out."""
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        told = {"minValues": {"age": "[90"}, "maxValues": {"age": "[99"}, "nullCount": {"age": 0}}
        added["stats"] = json.dumps(json.loads(added["stats"]) | told)


def manifest_with(change: Callable[[dict[str, Any]], None], figure: str) -> Callable[[Table], None]:
    """Another manifest of w2 under its own hash, and a commit that names it and says the same."""

    def tamper(table: Table) -> None:
        manifest = json.loads(table.proof(W2, "manifest").read_bytes())
        change(manifest)
        with table.note(W2) as note:
            note["manifest"] = table.store(json.dumps(manifest).encode(), "json")
            if figure in manifest:
                note["figures"][figure] = manifest[figure]
            else:
                note["figures"].pop(figure)

    return tamper


def statement_with(change: Callable[[dict[str, Any]], None]) -> Callable[[Table], None]:
    """Another statement about w2, under the old name."""
    return lambda table: table.statement(W2).write_bytes(in_payload(table.statement(W2), change)) and None


def another_statement_under_its_own_hash(table: Table) -> None:
    data = in_payload(table.statement(W2), lambda said: said["note"].update(rows=17))
    with table.note(W2) as note:
        note["rows"] = 17
        note["statement"]["sha256"] = table.store(data, "dsse.json")


def flip_signature(table: Table) -> None:
    envelope = json.loads(table.statement(W2).read_bytes())
    signature = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    signature[10] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(signature)).decode()
    table.statement(W2).write_text(json.dumps(envelope))


def sign_by_stranger(table: Table) -> None:
    """w3 is taken away, and somebody publishes it anew with a key of their own."""
    publisher(table, STRANGER).publish(people(5), "w3", run_key="of a stranger")


def statement_of_another_table(table: Table) -> None:
    other = Table(table.root)
    other.folder, other.proofs = table.root / OTHER, table.root / "_proof" / OTHER
    with table.note(W2) as note:
        note["statement"]["sha256"] = table.store(other.statement(1).read_bytes(), "dsse.json")


def statement_of_another_release(table: Table) -> None:
    mark = table.told(W3)["statement"]
    with table.note(W2) as note:
        note["statement"] = mark


def put_the_older_one_back(table: Table) -> None:
    """A commit like that of the first w1, with its note, its statement and its file, after the newer one."""
    newer = table.actions(W1)
    (out,) = (action["add"] for action in newer if "add" in action)
    with table.changed(W1_BEFORE, to=W1 + 1) as actions:
        actions.append({"remove": {"path": out["path"], "dataChange": True, "deletionTimestamp": 0}})


def take_out_of_the_chain(table: Table) -> None:
    """w2 never was: its commit is one of another tool, without data."""
    table.data(W2).unlink()
    told = {"commitInfo": {"timestamp": 0, "operation": "OPTIMIZE"}}
    table.commit(W2).write_text(json.dumps(told) + "\n")


def show_as_expired(table: Table) -> None:
    publish_key(table.lake, OLD, until=datetime.now(UTC) - timedelta(days=1))


def sign_after_rotation(table: Table) -> None:
    """A new key has signed, and then somebody who still has the old one."""
    publish_key(table.lake, NEW, replaces=OLD)
    publisher(table, NEW).publish(people(3), "w4")
    publisher(table, OLD).publish(people(3), "w5")


def flip_key(table: Table) -> None:
    flipped(table.root / "_keys" / f"{OLD.public.id}.json", 0.3)


TAMPERINGS: dict[str, tuple[Callable[[Table], Any], Fault]] = {
    **{
        f"byte of the data file at {share:.0%}": (lambda t, s=share: flipped(t.data(W2), s), Fault.FILES)
        for share in (0.0, 0.03, 0.2, 0.5, 0.8, 0.95, 1.0)
    },
    "data file is gone": (lambda t: t.data(W2).unlink(), Fault.FILES),
    "rows in another file": (rewrite_rows, Fault.ROWS),
    "rows in the same file": (rewrite_rows_in_place, Fault.FILES),
    "rows added to a release": (add_rows, Fault.ROWS),
    "rows of no release": (add_rows_of_nobody, Fault.FILES),
    "rows as of an older version": (lambda t: DeltaTable(t.lake.table(NAME)).restore(W3), Fault.ROWS),
    "columns renamed in the log": (rename_columns, Fault.LOG),
    "column hidden by the log": (hide_a_column, Fault.LOG),
    "rows hidden by statistics": (hide_rows_by_statistics, Fault.LOG),
    "log is damaged": (lambda t: flipped(t.commit(W2), 0.0), Fault.LOG),
    "byte of the report": (lambda t: flipped(t.proof(W2, "report")), Fault.PROOF),
    "report is gone": (lambda t: t.proof(W2, "report").unlink(), Fault.PROOF),
    "byte of the manifest": (lambda t: flipped(t.proof(W2, "manifest")), Fault.PROOF),
    "weakened policy": (
        manifest_with(lambda m: m["policy"].update(require=[{"model": "k_anonymity", "k": 2}]), "policy"),
        Fault.NOTE,
    ),
    "removed approval": (manifest_with(lambda m: m.pop("approval"), "approval"), Fault.NOTE),
    "payload of the statement": (
        statement_with(lambda said: said.update(time="2020-01-01")),
        Fault.SIGNATURE,
    ),
    "statement under its own hash": (another_statement_under_its_own_hash, Fault.SIGNATURE),
    "signature": (flip_signature, Fault.SIGNATURE),
    "blank in the envelope": (
        lambda t: t.statement(W2).write_bytes(t.statement(W2).read_bytes() + b" "),
        Fault.STATEMENT_CHANGED,
    ),
    "no statement": (lambda t: t.statement(W2).unlink(), Fault.STATEMENT_MISSING),
    "no statement about files": (lambda t: t.about_files(W2).unlink(), Fault.STATEMENT_MISSING),
    "statement about files": (
        lambda t: t.about_files(W2).write_bytes(in_payload(t.about_files(W2), lambda s: s.update(version=1))),
        Fault.SIGNATURE,
    ),
    "files of another release": (
        lambda t: shutil.copy(t.about_files(W3), t.about_files(W2)),
        Fault.STATEMENT_CHANGED,
    ),
    "statement of another table": (statement_of_another_table, Fault.OTHER_TABLE),
    "statement of another release": (statement_of_another_release, Fault.NOTE),
    "older release put back": (put_the_older_one_back, Fault.CHAIN),
    "release taken out of the chain": (take_out_of_the_chain, Fault.CHAIN),
    "signed by a stranger": (sign_by_stranger, Fault.UNKNOWN_KEY),
    "signed by nobody": (lambda t: publisher(t, None).publish(people(3), "w4"), Fault.UNSIGNED),
    "retracted by nobody": (lambda t: retract(t.lake, NAME, "w3", "no reason"), Fault.UNSIGNED),
    "expired key": (show_as_expired, Fault.KEY_NOT_VALID),
    "replaced key": (sign_after_rotation, Fault.KEY_REPLACED),
    "key in the lake": (flip_key, Fault.SIGNATURE),
}


def test_the_table_as_it_was_published_is_right(check: Check) -> None:
    code, faults, printed = check("--since", "4")
    assert (code, faults) == (0, set())
    assert SECRET not in printed


@pytest.mark.parametrize("name", TAMPERINGS)
def test_whatever_is_changed_is_found_with_its_reason(name: str, table: Table, check: Check) -> None:
    tamper, fault = TAMPERINGS[name]
    tamper(table)
    code, faults, printed = check()
    assert code == 1
    assert fault in faults
    assert SECRET not in printed


def test_a_table_that_was_put_back_whole_is_known_by_what_was_seen_before(table: Table, check: Check) -> None:
    table.commit(W1).unlink()
    assert check()[0] == 0  # these are bytes that were right once: nothing in them can say more
    assert check("--since", "4")[:2] == (1, {Fault.TOO_OLD})


def test_one_release_is_checked_by_itself_with_the_chain_of_all(table: Table, check: Check) -> None:
    flipped(table.data(W3))
    assert check("--release", "w2")[0] == 0
    assert check("--release", "w3")[1] == {Fault.FILES}
    table.statement(W3).unlink()
    assert check("--release", "w2")[1] == {Fault.STATEMENT_MISSING}
    assert check("--release", "w17")[0] == 1


def test_rows_that_another_tool_wrote_into_other_files_are_the_same_rows(table: Table, check: Check) -> None:
    rows = pq.read_table(table.data(W2)).sort_by([("illness", "descending"), ("age", "ascending")])
    target = table.data(W2).with_name("part-00000-compacted.parquet")
    pq.write_table(rows, target, compression="none")
    table.data(W2).unlink()
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added |= {"path": f"release=w2/{target.name}", "size": target.stat().st_size}
    code, _, printed = check()
    assert code == 0
    assert "one data file that another tool wrote" in printed
