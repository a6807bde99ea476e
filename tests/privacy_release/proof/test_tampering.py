"""What was done to a published table, and what the check says of it: never a cell value."""

import base64
import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deploy.local.embedded import checkout
from privacy_release.cli.main import main
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.manifest.manifest import Manifest
from privacy_release.proof.check import _has_statistics
from privacy_release.proof.envelope import sealed
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey
from privacy_release.proof.published_keys import publish_key
from privacy_release.proof.statement import StatementSigner
from tests.privacy_release.proof.signed_tables import NAME, SECRET, Publisher, people

OLD, NEW, STRANGER = (SigningKey.new() for _ in range(3))
OTHER = "visits"
# Versions of the table: 1 is w1, 2 is w2, 3 is w3, and 4 is w1 again, by a later run.
W1_BEFORE, W2, W3, W1 = 1, 2, 3, 4


class Table:
    """A published table as files, which anyone with the disk may change at will."""

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

    def note_of(self, version: int) -> dict[str, Any]:
        with self.note(version) as note:
            return note

    def data(self, version: int) -> Path:
        (path,) = (action["add"]["path"] for action in self.actions(version) if "add" in action)
        return self.folder / path

    def statement(self, version: int) -> Path:
        return self.proofs / f"{self.note_of(version)['statement']['sha256']}.dsse.json"

    def about_files(self, version: int) -> Path:
        return self.proofs / f"{self.note_of(version)['statement']['sha256']}.files.dsse.json"

    def proof(self, version: int, kind: str) -> Path:
        return self.proofs / f"{self.note_of(version)[kind]}.{'json' if kind == 'manifest' else 'html'}"

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


Check = Callable[..., tuple[int, dict[str, list[str]], str]]


@pytest.fixture
def check(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Exit code, what was wrong in which words, and everything that was printed."""

    def run(*more: str) -> tuple[int, dict[str, list[str]], str]:
        (tmp_path / "keys.pem").write_text(OLD.public.pem())
        capsys.readouterr()
        code = main(["check", str(table.folder), "--key", str(tmp_path / "keys.pem"), "--json", *more])
        printed = capsys.readouterr()
        verdict = json.loads(printed.out)
        faults: dict[str, list[str]] = {}
        for reason in verdict["reasons"]:
            faults.setdefault(reason["fault"], []).append(reason["text"])
        assert verdict["right"] == (not faults) == (code == 0)
        return code, faults, printed.out + printed.err

    return run


def flipped(file: Path, share: float = 0.5) -> None:
    data = bytearray(file.read_bytes())
    data[int(share * (len(data) - 1))] ^= 1
    file.write_bytes(bytes(data))


def flip_data(table: Table, share: float) -> None:
    flipped(table.data(W2), share)


def flip_dictionary(table: Table, kind: str) -> None:
    flipped(table.proofs / f"{table.note_of(W2)['proofs'][f'dictionary.{kind}']}.{kind}")


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


def put_in_another_file(table: Table, rows: pa.Table, **how: Any) -> None:
    """Write the rows of w2 to a file that the log names in the place of the old one."""
    target = table.data(W2).with_name("part-00000-another.parquet")
    pq.write_table(rows, target, **how)
    table.data(W2).unlink()
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added |= {"path": f"release=w2/{target.name}", "size": target.stat().st_size}


def rewrite_rows(table: Table) -> None:
    put_in_another_file(table, other_rows(table))


def add_a_column(table: Table) -> None:
    """The rows as they were signed, with a column that the release does not have."""
    rows = pq.read_table(table.data(W2))
    put_in_another_file(table, rows.append_column("name", pa.array([f"n{i}" for i in range(len(rows))])))


def rewrite_rows_in_place(table: Table) -> None:
    pq.write_table(other_rows(table), table.data(W2))
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added["size"] = table.data(W2).stat().st_size


def add_rows(table: Table) -> None:
    rows = pq.read_table(table.data(W2))
    rows = rows.append_column("release", pa.repeat(pa.scalar("w2"), len(rows)))
    write_deltalake(table.lake.table(NAME).address, rows, mode="append")


def add_rows_of_no_one(table: Table) -> None:
    rows = pq.read_table(table.data(W2))
    rows = rows.append_column("release", pa.repeat(pa.scalar("w9"), len(rows)))
    write_deltalake(table.lake.table(NAME).address, rows, mode="append")


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
    """A query for people in their twenties gets none: a reader leaves the file out."""
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        fields = {"minValues": {"age": "[90"}, "maxValues": {"age": "[99"}, "nullCount": {"age": 0}}
        added["stats"] = json.dumps(json.loads(added["stats"]) | fields)


def manifest_with(
    change: Callable[[dict[str, Any]], None], figure: str, version: int = W2
) -> Callable[[Table], None]:
    """Another manifest of a release under its own hash, and a commit that names it and says the same."""

    def tamper(table: Table) -> None:
        manifest = json.loads(table.proof(version, "manifest").read_bytes())
        change(manifest)
        with table.note(version) as note:
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
    """w3 is taken away, and someone publishes it again with a key of their own."""
    publisher(table, STRANGER).publish(people(5), "w3", run_key="of a stranger")


def statement_of_another_table(table: Table) -> None:
    other = Table(table.root)
    other.folder, other.proofs = table.root / OTHER, table.root / "_proof" / OTHER
    with table.note(W2) as note:
        note["statement"]["sha256"] = table.store(other.statement(1).read_bytes(), "dsse.json")


def statement_of_another_release(table: Table) -> None:
    mark = table.note_of(W3)["statement"]
    with table.note(W2) as note:
        note["statement"] = mark


def put_the_older_one_back(table: Table, older: int = W1_BEFORE, newer: int = W1) -> None:
    """A commit like that of the first w1, with its note, its statement and its file, after the newer one."""
    (out,) = (action["add"] for action in table.actions(newer) if "add" in action)
    with table.changed(older, to=newer + 1) as actions:
        actions.append({"remove": {"path": out["path"], "dataChange": True, "deletionTimestamp": 0}})


def take_out_of_the_chain(table: Table) -> None:
    """w2 never was: its commit is one of another tool, without data."""
    table.data(W2).unlink()
    fields = {"commitInfo": {"timestamp": 0, "operation": "OPTIMIZE"}}
    table.commit(W2).write_text(json.dumps(fields) + "\n")


def show_as_expired(table: Table) -> None:
    publish_key(table.lake, OLD, until=datetime.now(UTC) - timedelta(days=1))


def sign_after_rotation(table: Table) -> None:
    """A new key has signed, and then someone who still has the old one."""
    publish_key(table.lake, NEW, replaces=OLD)
    publisher(table, NEW).publish(people(3), "w4")
    publisher(table, OLD).publish(people(3), "w5")


def flip_key(table: Table) -> None:
    """In the base64 text: one of its letters may become an invalid one, and then it is not even base64."""
    file = table.root / "_keys" / f"{OLD.public.id}.json"
    envelope = json.loads(file.read_bytes())
    payload = bytearray(base64.b64decode(envelope["payload"]))
    payload[len(payload) // 3] ^= 1
    envelope["payload"] = base64.b64encode(bytes(payload)).decode()
    file.write_text(json.dumps(envelope))


def sign_without_the_approval(table: Table) -> None:
    """Its publisher knows that someone had to approve it, and signs it nevertheless."""

    class Hasty(StatementSigner):
        def about(self, manifest: Manifest, *, approved: bool) -> Self:
            return super().about(manifest, approved=True)

    publisher(table).publish(people(3), "w4", by="", signer=Hasty(key=OLD))


def remove_the_approval_everywhere(table: Table, version: int = W2) -> None:
    """From the manifest, the commit and the statement itself."""
    manifest_with(lambda m: m.pop("approval"), "approval", version)(table)
    fields = table.note_of(version)

    def change(said: dict[str, Any]) -> None:
        said["note"] |= {"manifest": fields["manifest"], "figures": fields["figures"]}
        said["demands"] = {"approval": False}

    data = in_payload(table.statement(version), change)
    with table.note(version) as note:
        note["statement"]["sha256"] = table.store(data, "dsse.json")


def nothing(table: Table) -> None:
    """The table is as it was published; what is asked for is another."""


@dataclass(frozen=True)
class Tampering:
    """What is done to a table, and what the check says of it: the fault, and the words of one of its reasons.

    Attributes:
        acts: each of which does it.
        says: `...` stands for hashes, names, places and times.
        asked: further arguments of the check.
        demanded: Policy that the checker demands.
        of_all: Whether only a check of all releases finds it, and not that of w2 with the chain.
    """

    acts: tuple[Callable[[Table], Any], ...]
    fault: Fault
    says: str
    asked: tuple[str, ...] = ()
    demanded: str = ""
    of_all: bool = False


def done(
    act: Callable[[Table], Any],
    fault: Fault,
    says: str,
    *asked: str,
    demanded: str = "",
    of_all: bool = False,
) -> Tampering:
    return Tampering((act,), fault, says, asked, demanded, of_all)


OTHER_FILE = "the data file ... is not the one that was signed"
OTHER_SIGNATURE = "the statement of version 2: the signature by the key ... is not of these bytes"
# The page has this table, in this order.
TAMPERINGS: dict[str, Tampering] = {
    "a byte of a data file": Tampering(
        tuple(partial(flip_data, share=share) for share in (0.0, 0.2, 0.5, 1.0)),
        Fault.FILES,
        OTHER_FILE,
    ),
    "other rows in the same file": done(rewrite_rows_in_place, Fault.FILES, OTHER_FILE),
    "other rows in another file": done(
        rewrite_rows, Fault.ROWS, "the 16 rows are not the 16 that were signed"
    ),
    "a column added in another file": done(
        add_a_column, Fault.ROWS, "1 column has values that are not of the release"
    ),
    "rows added to a release": done(add_rows, Fault.ROWS, "the 32 rows are not the 16 that were signed"),
    "rows of no release": done(
        add_rows_of_no_one,
        Fault.FILES,
        "the table has 1 data files of no current release",
        of_all=True,
    ),
    "rows replaced by those of an older version": done(
        lambda t: DeltaTable(t.lake.table(NAME)).restore(W3),
        Fault.ROWS,
        "the 12 rows are not the 24 that were signed",
        of_all=True,
    ),
    "a data file removed": done(
        lambda t: t.data(W2).unlink(), Fault.FILES, "could not read a file in the lake at ..."
    ),
    "columns renamed by the log": done(
        rename_columns, Fault.LOG, "the log asks of its readers what no release does: version 2"
    ),
    "a column hidden by the log": done(hide_a_column, Fault.LOG, "the log does not show 1 column of it"),
    "rows hidden by statistics in the log": done(
        hide_rows_by_statistics, Fault.LOG, "the log has statistics of cells, which hide rows from readers"
    ),
    "a damaged log": done(
        lambda t: flipped(t.commit(W2), 0.0),
        Fault.LOG,
        "the log of table people ... must be whole, and has a commit that cannot be read, version 2: ...",
    ),
    "a byte of the manifest": done(
        lambda t: flipped(t.proof(W2, "manifest")),
        Fault.PROOF,
        "the manifest ... is not the one that was signed",
    ),
    "a byte of the report": done(
        lambda t: flipped(t.proof(W2, "report")), Fault.PROOF, "the report ... is not the one that was signed"
    ),
    "a byte of the data dictionary": Tampering(
        tuple(partial(flip_dictionary, kind=kind) for kind in ("json", "html")),
        Fault.PROOF,
        "the proofs/dictionary... is not the one that was signed",
    ),
    "the report removed": done(
        lambda t: t.proof(W2, "report").unlink(), Fault.PROOF, "the report ... is not there"
    ),
    "a weaker policy, in manifest and commit": done(
        manifest_with(lambda m: m["policy"].update(require=[{"model": "k_anonymity", "k": 2}]), "policy"),
        Fault.NOTE,
        "the statement of version 2: the commit says otherwise of figures, manifest",
    ),
    "the approval removed, from manifest and commit": done(
        manifest_with(lambda m: m.pop("approval"), "approval"),
        Fault.NOTE,
        "the statement of version 2: the commit says otherwise of figures, manifest",
    ),
    "the approval removed, from the statement as well": done(
        remove_the_approval_everywhere, Fault.SIGNATURE, OTHER_SIGNATURE
    ),
    "a release signed without the approval that it had to have": done(
        sign_without_the_approval,
        Fault.APPROVAL,
        "it had to be approved, and no one approved it",
        of_all=True,
    ),
    "what the statement says": done(
        statement_with(lambda said: said.update(time="2020-01-01")), Fault.SIGNATURE, OTHER_SIGNATURE
    ),
    "another statement under its own hash": done(
        another_statement_under_its_own_hash, Fault.SIGNATURE, OTHER_SIGNATURE
    ),
    "the signature": done(flip_signature, Fault.SIGNATURE, OTHER_SIGNATURE),
    "a blank in the envelope": done(
        lambda t: t.statement(W2).write_bytes(t.statement(W2).read_bytes() + b" "),
        Fault.STATEMENT_CHANGED,
        "the statement of version 2: it has another sha256 than the commit says",
    ),
    "the statement removed": done(
        lambda t: t.statement(W2).unlink(),
        Fault.STATEMENT_MISSING,
        "the statement of version 2: _proof/... is not there",
    ),
    "the statement about the data files removed, or never made": done(
        lambda t: t.about_files(W2).unlink(),
        Fault.STATEMENT_MISSING,
        "_proof/..., about the data files, is not there: if its publication was interrupted, run it again",
    ),
    "what the statement about the data files says": done(
        lambda t: t.about_files(W2).write_bytes(in_payload(t.about_files(W2), lambda s: s.update(version=1))),
        Fault.SIGNATURE,
        "the signature by the key ... is not of these bytes",
    ),
    "the statement about the data files of another release": done(
        lambda t: shutil.copy(t.about_files(W3), t.about_files(W2)),
        Fault.STATEMENT_CHANGED,
        "the one about the data files is about another commit",
    ),
    "the statement of another table": done(
        statement_of_another_table,
        Fault.OTHER_TABLE,
        "the statement of version 2: it is about the table visits",
    ),
    "the statement of another release": done(
        statement_of_another_release,
        Fault.NOTE,
        "the statement of version 2: the commit says otherwise of figures, manifest, ..., rows, ...",
    ),
    "an older release restored by a new commit": done(
        put_the_older_one_back,
        Fault.CHAIN,
        "version 5 names the statement of version 1 again: something older was restored",
    ),
    "a release taken out of the chain": done(
        take_out_of_the_chain,
        Fault.CHAIN,
        "version 3 has statement 3, and 2 must come next: 1 releases or retractions are missing",
    ),
    "the whole table restored to an older state, checked with `--since 4`": done(
        lambda t: t.commit(W1).unlink(),
        Fault.TOO_OLD,
        "the last statement is 3, and 4 was seen before: the table was restored to an older state",
        *("--since", "4"),
    ),
    "signed by a key that you do not trust": done(
        sign_by_stranger,
        Fault.UNKNOWN_KEY,
        "the statement of version 5: it is signed by ..., which is none of the trusted keys",
    ),
    "published without a signature": done(
        lambda t: publisher(t, None).publish(people(3), "w4"),
        Fault.UNSIGNED,
        "version 5 (publish) has no statement",
    ),
    "retracted without a signature": done(
        lambda t: retract(t.lake.table(NAME), "w3", "no reason"),
        Fault.UNSIGNED,
        "version 5 (retract) has no statement",
    ),
    "signed by an expired key": done(
        show_as_expired,
        Fault.KEY_NOT_VALID,
        "the statement of version 2: the key ... was not valid at ..., when it signed",
    ),
    "signed by a key that was replaced": done(
        sign_after_rotation, Fault.KEY_REPLACED, "the key ... signed version 6 after it was replaced"
    ),
    "a byte of a key in the lake": done(
        flip_key,
        Fault.SIGNATURE,
        "what the lake shows of a trusted key: the signature by the key ... is not of these bytes",
    ),
    "nothing, but you ask for a release that is not there": done(
        nothing, Fault.NOTHING, "the table has no such current release", "--release", "w17"
    ),
    "nothing, but you ask for an approval": done(
        lambda t: publisher(t).publish(people(3), "w4", by=""),
        Fault.APPROVAL,
        "you require an approval, and no one approved it",
        demanded="require: [{model: k_anonymity, k: 4}]\napproval: true",
        of_all=True,
    ),
    "nothing, but you ask for more than its policy": done(
        nothing,
        Fault.POLICY,
        "k_anonymity(k=4) is weaker than k_anonymity(k=5) of what you ask for",
        demanded="require: [{model: k_anonymity, k: 5}]",
    ),
    "rows that do not keep what was signed, or what you ask for": done(
        nothing,
        Fault.MEASURED,
        "k_anonymity(k=5) does not hold, 4 classes miss it",
        demanded="require: [{model: k_anonymity, k: 5}]",
    ),
}
# The same look finds a further act of a kind: only a look that fits the first one too well would miss it.
ACTS = [
    pytest.param(
        name, act, id=f"{name} {number}" if number else name, marks=[pytest.mark.slow] if number else []
    )
    for name, tampering in TAMPERINGS.items()
    for number, act in enumerate(tampering.acts)
]


def test_the_page_tells_what_is_caught_and_with_which_words() -> None:
    rows = [f"| {name} | {t.fault} | {t.says} |" for name, t in TAMPERINGS.items()]
    assert "\n".join(rows) in (checkout() / "docs" / "reference_proof.md").read_text(encoding="utf-8")


def test_every_fault_is_among_what_is_caught() -> None:
    assert {tampering.fault for tampering in TAMPERINGS.values()} == set(Fault)


def test_the_table_as_it_was_published_is_right(check: Check) -> None:
    code, faults, printed = check("--since", "4")
    assert (code, faults) == (0, {})
    assert SECRET not in printed


def test_one_database_serves_a_check_of_all_releases(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening one takes longer than its queries on small releases."""
    opened, connect = [], duckdb.connect

    def counting(*given: Any, **more: Any) -> duckdb.DuckDBPyConnection:
        opened.append(given)
        return connect(*given, **more)

    monkeypatch.setattr(duckdb, "connect", counting)
    assert check()[0] == 0
    assert len(opened) == 1


@pytest.mark.quick("more")  # the lines are made of the reasons
@pytest.mark.parametrize(
    "act", [lambda table: None, rewrite_rows, add_rows], ids=["nothing", "other", "more"]
)
def test_the_lines_for_people_have_the_reasons_of_the_json(
    act: Callable[[Table], Any],
    table: Table,
    check: Check,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    act(table)
    code, faults, _ = check("--release", "w2")
    asked = ["--key", str(tmp_path / "keys.pem"), "--release", "w2"]
    assert main(["check", str(table.folder), *asked]) == code
    lines = "".join(capsys.readouterr())
    assert all(text in lines for texts in faults.values() for text in texts)
    assert lines.startswith("yes") == (not faults)
    assert SECRET not in lines


@pytest.mark.parametrize(("name", "act"), ACTS)
def test_whatever_is_changed_is_found_with_its_reason(
    name: str, act: Callable[[Table], Any], table: Table, check: Check, tmp_path: Path
) -> None:
    expected = TAMPERINGS[name]
    act(table)
    asked = expected.asked
    if expected.demanded:
        (tmp_path / "mine.yaml").write_text(expected.demanded)
        asked = (*asked, "--policy", str(tmp_path / "mine.yaml"))
    if not expected.of_all and "--release" not in asked:
        asked = (*asked, "--release", "w2")
    code, reasons, printed = check(*asked)
    assert code == 1
    words = ".+".join(map(re.escape, expected.says.split("...")))
    assert [text for text in reasons.get(expected.fault, []) if re.fullmatch(words, text)], reasons
    assert SECRET not in printed


def test_a_table_that_was_restored_whole_is_known_by_what_was_seen_before(table: Table, check: Check) -> None:
    table.commit(W1).unlink()
    assert check()[0] == 0  # these are bytes that were right once: nothing in them can say more


def test_a_statement_that_follows_another_one_than_the_last_is_found(table: Table, check: Check) -> None:
    """Its place is right and its signature is valid: someone with the key signed another history."""
    envelope = json.loads(in_payload(table.statement(W1), lambda said: said.update(previous="0" * 64)))
    data = sealed(json.loads(base64.b64decode(envelope["payload"])), [OLD])
    with table.note(W1) as note:
        note["statement"]["sha256"] = table.store(data, "dsse.json")
    assert Fault.CHAIN in check("--release", "w2")[1]


@pytest.mark.parametrize("kind", ["minValues", "maxValues", "nullCount"])
def test_each_kind_of_statistics_of_cells_is_found(kind: str, table: Table) -> None:
    assert not _has_statistics(table.lake.table(NAME), W2)
    with table.changed(W2) as actions:
        (added,) = (action["add"] for action in actions if "add" in action)
        added["stats"] = json.dumps(json.loads(added["stats"]) | {kind: {"age": 16}})
    assert _has_statistics(table.lake.table(NAME), W2)


def test_a_figure_may_differ_from_the_signed_one_in_its_last_digit_only(table: Table, check: Check) -> None:
    with table.note(W2) as note:
        signed = note["figures"]["policy"]["max_suppressed"]
    for figure, faults in ((math.nextafter(signed, 1), set()), (signed * (1 + 1e-9), {Fault.NOTE})):
        with table.note(W2) as note:
            note["figures"]["policy"]["max_suppressed"] = figure
        assert set(check("--release", "w2")[1]) == faults


@pytest.mark.parametrize("feature", ["columnMapping", "deletionVectors"])
def test_a_feature_by_which_readers_see_other_rows_or_columns_is_found(
    feature: str, table: Table, check: Check
) -> None:
    listed = {"readerFeatures": [feature], "writerFeatures": [feature]}
    with table.changed(0) as actions:
        for action in actions:
            if "protocol" in action:
                action["protocol"] |= {"minReaderVersion": 3, "minWriterVersion": 7, **listed}
    assert feature in check("--release", "w2")[1][Fault.LOG][0]


def test_one_release_is_checked_by_itself_with_the_chain_of_all(table: Table, check: Check) -> None:
    flipped(table.data(W3))
    assert check("--release", "w2")[0] == 0
    assert set(check("--release", "w3")[1]) == {Fault.FILES}
    table.statement(W3).unlink()
    assert set(check("--release", "w2")[1]) == {Fault.STATEMENT_MISSING}


def test_rows_that_another_tool_wrote_into_other_files_are_the_same_rows(
    table: Table, check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pq.read_table(table.data(W2)).sort_by([("illness", "descending"), ("age", "ascending")])
    put_in_another_file(table, rows, compression="none")
    assert check("--release", "w2")[0] == 0
    main(["check", str(table.folder), "--key", str(tmp_path / "keys.pem"), "--release", "w2"])
    assert "one data file that another tool wrote" in capsys.readouterr().out
