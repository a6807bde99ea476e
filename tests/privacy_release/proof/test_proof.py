"""Signing a chain of releases, and what the check says of tables that no one changed."""

import base64
import hashlib
import json
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.local.embedded import checkout
from privacy_engine.engines.local import LocalEngine
from privacy_engine.errors import IntegrityError, PublishError, SecretError, VerificationError
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.notes import NOT_JUDGED
from privacy_engine.vocabulary import PublishMode
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.lake.layout import TableRules
from privacy_release.lake.log import data_files
from privacy_release.lake.publish import publish
from privacy_release.lake.read import read_release, releases
from privacy_release.lake.retract import clean_orphans, retract
from privacy_release.lake.rows import DataFile
from privacy_release.lake.signing import linked
from privacy_release.lake.store import Lake, ReleaseTable
from privacy_release.manifest.manifest import Manifest
from privacy_release.proof.check import Verdict, check_table
from privacy_release.proof.envelope import pae
from privacy_release.proof.faults import Fault
from privacy_release.proof.keys import SigningKey, public_keys_in
from privacy_release.proof.measure import measured_again
from privacy_release.proof.published_keys import publish_key
from privacy_release.proof.rows import hashing_database, rows_digest
from privacy_release.proof.statement import StatementSigner
from privacy_release.spec.floor import read_floor
from privacy_release.workarea.area import sha256_file
from privacy_release.workarea.file_sets import Part, list_bytes
from tests.privacy_release.proof.signed_tables import (
    NAME,
    POLICY,
    SCHEMA,
    InterruptedSigner,
    Killed,
    Publisher,
    people,
)

KEY, NEXT = SigningKey.new(), SigningKey.new()
MEMORY = 10**9


@pytest.fixture
def by(lake: Lake, tmp_path: Path) -> Publisher:
    return Publisher(lake, tmp_path / "work", KEY)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lake with the signed release w1, which tests copy."""
    folder = tmp_path_factory.mktemp("made")
    Publisher(Lake(root=str(folder / "lake")), folder / "work", KEY).publish(people(3), "w1")
    return folder / "lake"


@pytest.fixture
def w1(by: Publisher, made: Path) -> None:
    """The release w1 stands in the lake, and is signed."""
    shutil.copytree(made, by.lake.root, dirs_exist_ok=True)


def checked(by: Publisher, *keys: SigningKey, **more: Any) -> Verdict:
    return check_table(by.lake.table(NAME), [key.public for key in keys or (KEY,)], **more)


def faults(verdict: Verdict) -> set[Fault]:
    return {reason.fault for reason in verdict.reasons}


def statements(by: Publisher) -> list[Mapping[str, Any]]:
    """What the statements of the commits say, oldest first, as their files in the lake have them."""
    folder = Path(by.lake.root) / "_proof" / NAME
    files = [file for file in folder.glob("*.dsse.json") if ".files." not in file.name]
    payloads = [json.loads(base64.b64decode(json.loads(f.read_bytes())["payload"])) for f in files]
    return sorted(payloads, key=lambda payload: payload["predicate"]["sequence"])


# The chain


@pytest.mark.usefixtures("w1")
def test_statements_of_publications_and_retractions_follow_each_other(by: Publisher) -> None:
    by.publish(people(4), "w2")
    by.publish(people(5), "w1", run_key="again")
    retract(by.lake.table(NAME), "w2", "asked to", signer=StatementSigner(key=KEY))
    verdict = checked(by)
    assert verdict.right
    assert (verdict.sequence, [(c.release, c.sequence, c.rows) for c in verdict.releases]) == (
        4,
        [("w1", 3, 20)],
    )
    reported = [payload["predicate"] for payload in statements(by)]
    assert [t["note"]["action"] for t in reported] == ["publish", "publish", "publish", "retract"]
    names = {entry["version"]: entry["statement"] for entry in releases(by.lake.table(NAME))}
    assert [t["previous"] for t in reported] == [None, names[1], names[2], names[3]]


def test_a_chain_holds_over_snapshots_whose_rows_are_gone(by: Publisher) -> None:
    by = replace(by, rules=TableRules(mode=PublishMode.SNAPSHOT, grace=timedelta(0)))
    for release, classes in (("w1", 3), ("w2", 4), ("w3", 5)):
        by.publish(people(classes), release)
    retract(by.lake.table(NAME), "w1", "asked to", signer=StatementSigner(key=KEY))
    assert len(list((Path(by.lake.root) / NAME).rglob("*.parquet"))) == 1
    verdict = checked(by)
    assert verdict.right, verdict.reasons
    assert (verdict.sequence, [(c.release, c.rows) for c in verdict.releases]) == (4, [("w3", 20)])


def test_a_statement_binds_what_stands_in_the_lake(by: Publisher) -> None:
    done = by.publish(people(3), "w1")
    (payload,) = statements(by)
    assert payload["_type"] == "https://in-toto.io/Statement/v1"
    digests = {subject["name"]: subject["digest"] for subject in payload["subject"]}
    assert digests["manifest"] == {"sha256": sha256_file(Path(done.manifest))}
    assert digests["report"] == {"sha256": sha256_file(Path(done.report))}
    (about_files,) = (Path(by.lake.root) / "_proof" / NAME).glob("*.files.dsse.json")
    files = json.loads(base64.b64decode(json.loads(about_files.read_bytes())["payload"]))["subject"]
    assert {f["name"]: f["digest"]["sha256"] for f in files} == {
        path: sha256_file(Path(by.lake.root) / path) for path in data_files(by.lake.table(NAME), ["w1"])
    }
    said = payload["predicate"]
    assert said["note"]["figures"]["approval"]["by"] == "Olga"
    assert said["note"]["figures"]["policy"] == POLICY.to_dict()
    assert said["code"]["deltalake"]


def test_the_files_of_a_set_are_bound_by_the_statement_that_comes_before_their_commit(by: Publisher) -> None:
    replace(by, files=3).publish(people(3), "w1")
    (payload,) = statements(by)
    note = payload["predicate"]["note"]
    parts = [Part(**{key: file[key] for key in ("name", "rows", "sha256")}) for file in note["files"]]
    assert hashlib.sha256(list_bytes(parts)).hexdigest() == note["sha256"]
    assert {f"{NAME}/{file['path']}": file["sha256"] for file in note["files"]} == {
        path: sha256_file(Path(by.lake.root) / path) for path in data_files(by.lake.table(NAME), ["w1"])
    }
    verdict = checked(by)
    assert verdict.right
    assert [(found.rows, found.files, found.rewritten) for found in verdict.releases] == [(12, 3, False)]


def test_a_file_of_a_set_that_is_changed_is_found(by: Publisher) -> None:
    replace(by, files=3).publish(people(3), "w1")
    path = max(data_files(by.lake.table(NAME), ["w1"]))
    with (Path(by.lake.root) / path).open("ab") as file:
        file.write(b"?")
    assert faults(checked(by)) == {Fault.FILES}


@pytest.mark.parametrize("field", ["sha256", "rows", "name"])
def test_a_signer_of_other_files_than_were_verified_is_found_out(
    by: Publisher, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    entry = DataFile.to_dict
    other = {"sha256": "0" * 64, "rows": 5, "name": "part-00009.parquet"}[field]
    monkeypatch.setattr(DataFile, "to_dict", lambda file: {**entry(file), field: other})
    replace(by, files=3).publish(people(3), "w1")
    assert faults(checked(by)) == {Fault.FILES}


def test_any_other_proof_that_a_note_names_is_bound_and_checked(
    by: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a data dictionary, in two forms: publishing need not tell the signer of them."""
    digests = {kind: hashlib.sha256(kind.encode()).hexdigest() for kind in ("json", "html")}

    def with_dictionary(signer: Any, table: ReleaseTable, version: int, note: dict[str, Any]) -> Any:
        note["dictionary"] = digests
        return linked(signer, table, version, note)

    monkeypatch.setattr("privacy_release.lake.publish.linked", with_dictionary)
    by.publish(people(3), "w1")
    assert [reason.text for reason in checked(by).reasons] == [
        f"the dictionary/{kind} {digests[kind]} is not there" for kind in sorted(digests)
    ]
    folder = Path(by.lake.root) / "_proof" / NAME
    for kind, digest in digests.items():
        (folder / f"{digest}.{kind}").write_text(kind)
    assert checked(by).right
    (folder / f"{digests['html']}.html").write_text("HTML")
    assert [(reason.fault, reason.text) for reason in checked(by).reasons] == [
        (Fault.PROOF, f"the dictionary/html {digests['html']} is not the one that was signed")
    ]


@pytest.mark.usefixtures("w1")
def test_statements_outlive_what_they_are_about(by: Publisher) -> None:
    by.publish(people(4), "w2")
    signer = StatementSigner(key=KEY)
    retract(by.lake.table(NAME), "w1", "asked to", signer=signer)
    assert retract(by.lake.table(NAME), "w1", "asked to", signer=signer).already
    clean_orphans(by.lake.table(NAME), older_than=timedelta(0))
    assert checked(by).right
    assert len(statements(by)) == 3


def test_runs_that_publish_at_once_make_one_chain(by: Publisher) -> None:
    by.publish(people(3), "w0")
    meeting = threading.Barrier(3)

    class Meeting(StatementSigner):
        def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
            if version == 1:  # all have seen the same last statement
                meeting.wait(300)
            return super().statement(table, version, note)

    def run(number: int) -> None:
        by.publish(people(3), f"w{number}", signer=Meeting(key=KEY))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = checked(by)
    assert verdict.right
    assert sorted(found.sequence for found in verdict.releases) == [1, 2, 3, 4]


@pytest.mark.usefixtures("w1")
def test_a_retraction_that_another_run_overtakes_is_signed_again(by: Publisher) -> None:
    overtaking = ["w2"]

    class Overtaken(StatementSigner):
        def statement(self, table: ReleaseTable, version: int, note: Mapping[str, Any]) -> tuple[str, int]:
            made = super().statement(table, version, note)
            while overtaking:
                by.publish(people(4), overtaking.pop())
            return made

    retract(by.lake.table(NAME), "w1", "asked to", signer=Overtaken(key=KEY))
    verdict = checked(by)
    assert (verdict.right, verdict.sequence) == (True, 3)
    assert [found.release for found in verdict.releases] == ["w2"]


def test_a_retry_signs_what_a_crash_after_the_commit_left_unsigned(by: Publisher) -> None:
    with pytest.raises(Killed):
        by.publish(people(3), "w1", signer=InterruptedSigner(key=KEY))
    found = checked(by)
    assert faults(found) == {Fault.STATEMENT_MISSING}
    assert "run it again" in found.reasons[0].text
    assert by.publish(people(3), "w1").already
    assert checked(by).right


def test_a_retry_with_other_bytes_signs_the_release_that_a_crash_left_unsigned(by: Publisher) -> None:
    """Random choices without a seed differ in each attempt; without its statement no check ever passes."""
    with pytest.raises(Killed):
        by.publish(people(3), "w1", signer=InterruptedSigner(key=KEY))
    published = read_release(by.lake.table(NAME), "w1")
    done = by.publish(people(3, shift=1), "w1")
    assert (done.already, done.completed) == (True, True)
    assert checked(by).right
    assert read_release(by.lake.table(NAME), "w1").equals(published)
    with pytest.raises(PublishError, match="already published other bytes"):
        by.publish(people(3, shift=1), "w1")


def test_a_retry_does_not_replace_what_was_signed_or_replaced_since(by: Publisher) -> None:
    with pytest.raises(Killed):
        by.publish(people(3), "w1", signer=InterruptedSigner(key=KEY), run_key="run 1")
    by.publish(people(4), "w1", run_key="run 2")
    with pytest.raises(PublishError, match="already published other bytes"):
        by.publish(people(3, shift=1), "w1", run_key="run 1")
    assert checked(by).right


@pytest.mark.usefixtures("w1")
def test_nothing_is_added_to_a_chain_whose_last_statement_was_changed(by: Publisher) -> None:
    (file,) = (
        f for f in (Path(by.lake.root) / "_proof" / NAME).glob("*.dsse.json") if ".files." not in f.name
    )
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match="no other can follow it"):
        by.publish(people(3), "w2")
    assert [entry["release_id"] for entry in releases(by.lake.table(NAME))] == ["w1"]


def test_a_table_may_be_signed_from_some_release_on(by: Publisher) -> None:
    Publisher(by.lake, by.folder, None).publish(people(3), "w1")
    by.publish(people(3), "w2")
    assert faults(checked(by)) == {Fault.UNSIGNED}
    assert checked(by, release_id="w2").right


# Keys


@pytest.mark.usefixtures("w1")
def test_who_trusts_the_old_key_trusts_the_one_that_it_signed(by: Publisher) -> None:
    publish_key(by.lake, NEXT, replaces=KEY)
    Publisher(by.lake, by.folder, NEXT).publish(people(3), "w2")
    assert checked(by, KEY).right
    assert faults(checked(by, NEXT)) == {Fault.UNKNOWN_KEY}
    assert checked(by, KEY, NEXT).right


@pytest.mark.usefixtures("w1")
def test_a_key_that_the_lake_alone_shows_is_not_trusted(by: Publisher) -> None:
    publish_key(by.lake, NEXT)
    Publisher(by.lake, by.folder, NEXT).publish(people(3), "w2")
    assert faults(checked(by, KEY)) == {Fault.UNKNOWN_KEY}


def test_a_key_signs_only_while_it_holds(by: Publisher) -> None:
    publish_key(by.lake, KEY, since=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(SecretError, match="must hold today"):
        by.publish(people(3), "w1")
    publish_key(by.lake, KEY, until=datetime.now(UTC) + timedelta(days=1))
    by.publish(people(3), "w1")
    assert checked(by).right


def test_signatures_are_those_of_another_program(by: Publisher, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    by.publish(people(3), "w1")
    (file,) = (
        f for f in (Path(by.lake.root) / "_proof" / NAME).glob("*.dsse.json") if ".files." not in f.name
    )
    envelope = json.loads(file.read_bytes())
    body = base64.b64decode(envelope["payload"])
    kind = b"application/vnd.in-toto+json"
    reported = (
        b"DSSEv1 " + str(len(kind)).encode() + b" " + kind + b" " + str(len(body)).encode() + b" " + body
    )
    assert reported == pae(kind.decode(), body)
    (tmp_path / "signed").write_bytes(reported)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    (tmp_path / "key.pem").write_text(KEY.public.pem())
    verify = [openssl, "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin", "-in", "signed"]
    done = subprocess.run([*verify, "-sigfile", "sig"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    der = subprocess.run(
        [openssl, "pkey", "-pubin", "-in", "key.pem", "-outform", "der"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    ).stdout
    assert envelope["signatures"][0]["keyid"] == hashlib.sha256(der).hexdigest()


@pytest.mark.parametrize("text", [b"", b"no key", KEY.public.pem().encode()])
def test_what_is_no_private_key_is_refused(text: bytes) -> None:
    with pytest.raises(SecretError, match=r"the file must hold an Ed25519 private key.*key new"):
        SigningKey.from_pem(text, "the file")


# What is measured, and what is asked for


def by_hand(by: Publisher, frame: pd.DataFrame, **manifest: Any) -> None:
    """Sign what honest code would not; anyone with the key may."""
    file, report = by.folder / "rows.parquet", by.folder / "report.html"
    by.folder.mkdir(exist_ok=True)
    frame.to_parquet(file, index=False)
    report.write_text("")
    fields = {
        "policy": POLICY.to_dict(),
        "figures": {"suppressed": 0.0},
        "schema": SCHEMA.to_dict(),
        "loss": None,
    }
    publish(
        by.lake.table(NAME),
        "w1",
        file,
        fields | manifest,
        report,
        expected_sha256=sha256_file(file),
        signer=StatementSigner(key=KEY),
    )


def test_a_signer_who_signs_what_does_not_hold_is_found_out(by: Publisher) -> None:
    class_of_three = people(3)[1:]
    by_hand(by, class_of_three, measured=[{"rule": "k_anonymity(k=4)", "measured": 5.0, "passed": True}])
    found = checked(by)
    assert faults(found) == {Fault.MEASURED}
    message = " ".join(reason.text for reason in found.reasons)
    assert "k_anonymity(k=4) does not hold, 1 class misses it" in message
    assert "measures 3.0, the proof says 5.0" in message


def test_a_schema_that_is_not_of_the_rows_is_no_way_around_the_judge(by: Publisher) -> None:
    by_hand(by, people(3), schema=SCHEMA.select(["age", "illness"]).to_dict())
    assert faults(checked(by)) == {Fault.MEASURED}


def test_k_of_persons_is_on_trust_and_no_one_learns_more_than_was_signed(
    by: Publisher, tmp_path: Path
) -> None:
    measured = [{"rule": "k_anonymity(k=4)", "measured": 4.0, "passed": True}]
    by_hand(by, people(3), measured=measured, schema=SCHEMA.to_dict() | {"person": "patient"})
    found = checked(by)
    assert found.right
    (release,) = found.releases
    assert release.findings == []
    assert "persons of the released rows are not known" in release.on_trust["k_anonymity(k=4)"]
    demanded = tmp_path / "mine.yaml"
    demanded.write_text("require: [{model: k_anonymity, k: 4}]\n")
    assert checked(by, demanded=read_floor(demanded, "")).right
    demanded.write_text("require: [{model: t_closeness, t: 0.2, attribute: illness}]\nmax_epsilon: 1\n")
    reported = [reason.text for reason in checked(by, demanded=read_floor(demanded, "")).reasons]
    assert len(reported) == 2
    assert all("nothing in the release shows" in text for text in reported)


def test_who_checks_may_ask_for_more_than_the_policy_did(by: Publisher, tmp_path: Path) -> None:
    by.publish(people(3), "w1", by="")
    demanded = tmp_path / "mine.yaml"
    demanded.write_text("require: [{model: k_anonymity, k: 5}]\napproval: true\n")
    found = checked(by, demanded=read_floor(demanded, ""))
    assert faults(found) == {Fault.POLICY, Fault.MEASURED, Fault.APPROVAL}
    demanded.write_text("require: [{model: k_anonymity, k: 3}]\n")
    assert checked(by, demanded=read_floor(demanded, "")).right


def test_what_follows_people_is_reported_to_be_on_trust(tmp_path: Path) -> None:
    fields = POLICY.to_dict()
    policy = ReleasePolicy.from_dict(
        fields | {"require": [*fields["require"], {"model": "cross_release_k_anonymity", "k": 4}]}
    )
    file = tmp_path / "rows.parquet"
    people(3).to_parquet(file, index=False)
    rule = "cross_release_k_anonymity(k=4, departures=known)"
    measured = [{"rule": rule, "measured": 4.0, "passed": True}]
    reported = Manifest.from_dict({"measured": measured, "figures": {"suppressed": 0.0}})
    with LocalEngine(memory=MEMORY, spill=tmp_path) as engine:
        found = measured_again(file, SCHEMA, policy, reported, 2026, engine)
    assert (found.wrong, found.on_trust) == ([], {rule: "it follows people through releases"})


# The floor


@pytest.fixture
def floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "floor.yaml"
    path.write_text("require: [{model: k_anonymity, k: 2}]\nsigned: required\n")
    monkeypatch.setenv("PRIVACY_FLOOR_POLICY", str(path))
    return path


def test_a_floor_that_asks_for_signatures_publishes_nothing_without(by: Publisher, floor: Path) -> None:
    with pytest.raises(VerificationError, match="requires signed releases, but there is no key"):
        Publisher(by.lake, by.folder, None).publish(people(3), "w1")
    assert releases(by.lake.table(NAME)) == []
    by.publish(people(3), "w1")
    assert checked(by).right


@pytest.mark.usefixtures("floor", "home")
def test_a_run_without_a_key_is_refused_before_anything_is_read(
    home: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PRIVACY_SIGNING_KEY", raising=False)
    (home / "people.parquet").unlink()
    assert main(["run", str(home / "releases" / "people.yaml"), "--lake", lake.root]) == REFUSED
    assert "requires signed releases, but there is no key" in capsys.readouterr().err


def test_signed_takes_two_words(floor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    floor.write_text("require: [{model: k_anonymity, k: 2}]\nsigned: true\n")
    assert main(["where"]) == WRONG
    assert "signed must be required or optional" in capsys.readouterr().out


# The hash of the rows


def _counted(table: pa.Table, columns: list[str]) -> str:
    """The hash of the rows by plain code, as docs/reference_proof.md says."""

    def cell(value: Any) -> bytes:
        if value is None:
            return b"n"
        text = str(value)
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, float | np.float32):
            size, bits = (">f", 32) if isinstance(value, np.float32) else (">d", 64)
            text = f"{int.from_bytes(struct.pack(size, value)):0{bits}b}"
        elif isinstance(value, datetime):
            text = str(
                (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            )
        elif isinstance(value, date):
            text = str((value - date(1970, 1, 1)).days)
        return b"v%d:%b" % (len(text.encode()), text.encode())

    lists = [
        [None if v is None else np.float32(v) for v in column.to_pylist()]
        if pa.types.is_float32(column.type)
        else column.to_pylist()
        for column in (table[name] for name in columns)
    ]
    hashes = sorted(hashlib.sha256(b"".join(map(cell, row))).hexdigest() for row in zip(*lists, strict=True))
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def _all_types() -> pa.Table:
    day = date(1969, 12, 30)
    moment = datetime(2024, 2, 29, 12, 30, 0, 1)
    return pa.table(
        {
            "text": pa.array(["ä;'\"", None, "", "ä;'\""]),
            "number": pa.array([-1, 2, None, 2**62], pa.int64()),
            "small": pa.array([1, None, 255, 0], pa.uint8()),
            "double": pa.array([0.1, float("inf"), -0.0, None]),
            "single": pa.array([0.1, -2.5, None, 0.0], pa.float32()),
            "truth": pa.array([True, False, None, True]),
            "day": pa.array([day, None, date(2024, 2, 29), day]),
            "moment": pa.array([moment, None, moment, moment], pa.timestamp("us")),
            "zoned": pa.array([moment, moment, None, moment], pa.timestamp("us", "UTC")),
            "exact": pa.array(
                [Decimal("1.50"), None, Decimal("-0.25"), Decimal("7.00")], pa.decimal128(9, 2)
            ),
            'a "name"': pa.array(["x", "y", "y", None]).dictionary_encode(),
        }
    )


def digest_of(files: list[Path], columns: list[str], folder: Path) -> tuple[str, int]:
    with hashing_database(folder, MEMORY) as database:
        return rows_digest(files, columns, database)


def test_the_hash_of_rows_is_what_plain_code_counts_for_every_type(tmp_path: Path) -> None:
    table = _all_types()
    pq.write_table(table, tmp_path / "t.parquet")
    digest, rows = digest_of([tmp_path / "t.parquet"], table.column_names, tmp_path)
    assert (digest, rows) == (_counted(table, table.column_names), 4)


def test_rows_are_hashed_in_half_of_the_memory(tmp_path: Path) -> None:
    with hashing_database(tmp_path, 200 * 2**20) as database:
        limits = database.sql("SELECT current_setting('memory_limit')").fetchall()
    assert limits == [("100.0 MiB",)]


def test_staged_and_published_rows_have_one_hash_for_every_type(lake: Lake, tmp_path: Path) -> None:
    """The lake keeps other types than the staged file has, for unsigned numbers and dictionaries."""
    table = _all_types()
    pq.write_table(table, tmp_path / "staged.parquet")
    (tmp_path / "report.html").write_text("")
    publish(
        lake.table(NAME),
        "w1",
        tmp_path / "staged.parquet",
        {},
        tmp_path / "report.html",
        expected_sha256=sha256_file(tmp_path / "staged.parquet"),
    )
    files = [Path(lake.root) / path for path in data_files(lake.table(NAME), ["w1"])]
    published = read_release(lake.table(NAME), "w1")
    names = table.column_names
    assert digest_of(files, names, tmp_path)[0] == _counted(published, names) == _counted(table, names)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.iloc[:-1],
        lambda f: pd.concat([f, f[:1]]),
        lambda f: f.assign(illness=f["illness"].where(f.index != 3, None)),
        lambda f: f.assign(age=f["zip"], zip=f["age"]),
        lambda f: f.assign(age=f["age"] + "1", zip=f["zip"].str[1:]),
    ],
    ids=["a row less", "a row twice", "a null", "columns changed over", "a border between cells"],
)
def test_the_hash_of_rows_tells_rows_apart_and_not_their_order(change: Any, tmp_path: Path) -> None:
    def of(frame: pd.DataFrame, parts: int = 1) -> str:
        files = []
        for number, part in enumerate(np.array_split(np.arange(len(frame)), parts)):
            files.append(tmp_path / f"{number}.parquet")
            frame.iloc[part].to_parquet(files[-1], index=False)
        return rows_digest(files, ["age", "zip", "illness"], database)[0]

    frame = people(4)
    with hashing_database(tmp_path, MEMORY) as database:
        assert of(frame) == of(frame.sample(frac=1, random_state=1), parts=3)
        assert of(change(frame)) != of(frame)


# The command line


def test_keys_are_made_shown_and_published_and_none_is_overwritten(
    tmp_path: Path, lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, keys = (tmp_path / name for name in ("old.pem", "new.pem", "keys.pem"))
    assert main(["key", "new", str(old)]) == main(["key", "new", str(new)]) == DONE
    assert old.stat().st_mode & 0o777 == 0o600
    before = old.read_bytes()
    assert main(["key", "new", str(old)]) == WRONG
    assert old.read_bytes() == before
    capsys.readouterr()
    assert main(["key", "public", str(old), str(new)]) == DONE
    keys.write_text(printed := capsys.readouterr().out)
    ids = [key.id for key in public_keys_in(keys)]
    assert [line[6:] for line in printed.splitlines() if line.startswith("# key ")] == ids
    publish = ["key", "publish", str(new), "--lake", lake.root, "--replaces", str(old)]
    assert main([*publish, "--since", "2026-01-01", "--until", "2099-12-31"]) == DONE
    assert (Path(lake.root) / "_keys" / f"{ids[1]}.json").is_file()
    assert "PRIVATE" not in printed


def test_the_check_says_that_differences_of_a_release_made_with_earlier_ones_were_not_judged(
    by: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(by, more={"history": {"releases": 1, "k": 4}}).publish(people(3), "w2")
    (found,) = checked(by).releases
    assert list(found.over_time) == [NOT_JUDGED]
    (tmp_path / "keys.pem").write_text(KEY.public.pem())
    assert main(["check", f"{by.lake.root}/{NAME}", "--key", str(tmp_path / "keys.pem")]) == DONE
    assert f"  over time {NOT_JUDGED}\n" in capsys.readouterr().out


def test_a_run_signs_with_the_key_of_the_settings_and_a_retraction_too(
    by: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRIVACY_SIGNING_KEY", str(tmp_path / "key.pem"))
    (tmp_path / "key.pem").write_bytes(KEY.pem())
    by.publish(people(3), "w1")
    by.publish(people(3), "w2")
    assert main(["retract", f"{by.lake.root}/{NAME}", "w1", "--reason", "asked to"]) == DONE
    assert checked(by).right
    (tmp_path / "key.pem").write_text("no key")
    capsys.readouterr()
    assert main(["retract", f"{by.lake.root}/{NAME}", "w2", "--reason", "asked to"]) == WRONG
    assert "must hold an Ed25519 private key" in capsys.readouterr().err


def test_the_arguments_of_a_table_need_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "lake/people", "--since", "2"]) == WRONG
    assert "add --key" in capsys.readouterr().err


@pytest.mark.slow  # only a separate process has not imported it already; the layers are tested quickly
@pytest.mark.usefixtures("w1")
def test_a_table_is_checked_where_airflow_cannot_be_imported(by: Publisher, tmp_path: Path) -> None:
    (tmp_path / "keys.pem").write_text(KEY.public.pem())
    code = (
        "import sys\n"
        "class Nowhere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('airflow', 'airflow_privacy_release'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Nowhere())\n"
        "from privacy_release.cli.main import main\n"
        f"sys.exit(main(['check', {by.lake.root + '/' + NAME!r}, '--key', {str(tmp_path / 'keys.pem')!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:3]) == (0, "yes"), done.stderr


@pytest.mark.usefixtures("w1")
def test_what_a_key_signed_outside_of_its_time_is_found(by: Publisher) -> None:
    publish_key(by.lake, KEY, until=datetime.now(UTC) - timedelta(hours=1))
    assert faults(checked(by)) == {Fault.KEY_NOT_VALID}
    publish_key(by.lake, KEY, since=datetime.now(UTC) + timedelta(hours=1))
    assert faults(checked(by)) == {Fault.KEY_NOT_VALID}
