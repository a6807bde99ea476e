"""An evidence archive: what is in it, and every way in which it may be another than what was signed."""

import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from privacy_engine.errors import IntegrityError, PublishError, SpecError
from privacy_release.cli.main import DONE, REFUSED, WRONG, main
from privacy_release.evidence.archive import INDEX, MOST, check, pack, require_of_release
from privacy_release.evidence.pages import pdf_of
from privacy_release.lake.log import publications
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.proof.envelope import sealed
from privacy_release.proof.keys import SigningKey, write_new_key
from tests.reading import publish_people, publish_synthetic


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with a k-anonymous and a private release, which no test changes."""
    folder = tmp_path_factory.mktemp("evidence")
    lake = Lake(root=str(folder / "lake"))
    publish_people(folder / "people", lake)
    publish_synthetic(folder / "private", lake, name="private")
    return lake


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return write_new_key(tmp_path_factory.mktemp("key") / "key.pem")


@pytest.fixture(scope="module")
def made(shared: Lake, key: SigningKey) -> bytes:
    return pack(shared.table("people"), "1", [key])


def files_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.slow  # a second archive; `test_kept` compares its bytes with those of another
def test_equal_releases_are_equal_bytes(shared: Lake, key: SigningKey, made: bytes) -> None:
    assert pack(shared.table("people"), "1", [key]) == made


def test_an_archive_tells_its_release_and_holds_what_is_published(
    shared: Lake, key: SigningKey, made: bytes
) -> None:
    found = check(made, [key.public])
    require_of_release(found, shared.table("people"))
    assert (found.table, found.release, found.opinion) == ("people", "1", False)
    files = files_of(made)
    assert set(found.files) == files.keys() - {INDEX}
    (entry,) = publications(shared.table("people"))
    folder = Path(shared.root) / shared.table("people").proofs
    assert files["release/manifest.json"] == (folder / f"{entry.manifest_sha256}.json").read_bytes()
    assert files["evidence.pdf"].startswith(b"%PDF")
    fields = json.loads(files["evidence.json"])
    assert sum(band["records"] for band in fields["classes"]) == 200
    assert min(band["from"] for band in fields["classes"] if band["records"]) == 5


@pytest.mark.slow  # sets a PDF for each number of lines
def test_no_heading_of_the_pdf_stands_alone_at_the_foot_of_a_page(made: bytes) -> None:
    """Wherever it falls: each further rule moves what follows by 7 mm, so five of them move it over 28 mm."""
    facts = json.loads(files_of(made)["evidence.json"])
    rule = facts["measured"][0]
    margin, room = 51, 70  # points: 18 mm, and a heading with a few lines
    for rules in (1, 3, 5):
        data = pdf_of(facts | {"measured": [rule] * rules}, "An opinion.")
        above_foot = [float(y) for y in re.findall(rb"/Dest \[\d+ 0 R /XYZ \S+ (\S+) null\]", data)]
        assert len(above_foot) >= 8
        assert min(above_foot) > margin + room, (rules, above_foot)


def test_of_a_private_release_no_class_is_reported(shared: Lake, key: SigningKey) -> None:
    fields = json.loads(files_of(pack(shared.table("private"), "1", [key], pdf=False))["evidence.json"])
    assert "classes" not in fields
    assert fields["risks"] == []
    assert fields["loss"]["epsilon"] == 1


def test_a_changed_missing_or_added_file_is_named(key: SigningKey, made: bytes) -> None:
    files = files_of(made)
    for name in sorted(files.keys() - {INDEX}):
        content = files[name]
        for changed, reported in ((content + b" ", f"{name} was changed"), (None, f"{name} is missing")):
            others = {n: c for n, c in files.items() if n != name}
            with pytest.raises(IntegrityError, match=reported):
                check(zipped(others if changed is None else others | {name: changed}), [key.public])
    with pytest.raises(IntegrityError, match=r"more\.txt was added"):
        check(zipped(files | {"more.txt": b""}), [key.public])
    with pytest.raises(IntegrityError, match="signed index"):
        check(zipped({n: c for n, c in files.items() if n != INDEX}), [key.public])


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("more", [["opinion.txt"], [f"{n}.txt" for n in range(MOST)]], ids=["twice", "many"])
def test_an_archive_has_few_files_and_each_name_once(key: SigningKey, made: bytes, more: list[str]) -> None:
    """Of two files of one name, a reader may open the one that was not signed."""
    target, signed = io.BytesIO(), files_of(made)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in [*((name, b"forged") for name in more), *signed.items()]:
            archive.writestr(name, content)
    with pytest.raises(IntegrityError, match="at most 100 files, each name once"):
        check(target.getvalue(), [key.public])


def test_an_index_of_another_key_or_kind_counts_for_nothing(
    tmp_path: Path, key: SigningKey, made: bytes
) -> None:
    other = write_new_key(tmp_path / "other.pem")
    with pytest.raises(IntegrityError, match="none of the trusted keys"):
        check(made, [other.public])
    files = files_of(made)
    forged = sealed({"subject": [], "predicateType": "urn:another", "predicate": {}}, [key])
    with pytest.raises(IntegrityError, match="of the kind"):
        check(zipped({INDEX: forged}), [key.public])
    envelope = json.loads(files[INDEX])
    envelope["signatures"][0]["sig"] = json.loads(forged)["signatures"][0]["sig"]
    with pytest.raises(IntegrityError, match="not of these bytes"):
        check(zipped(files | {INDEX: json.dumps(envelope).encode()}), [key.public])


@pytest.mark.parametrize("cut", [0, 10, 1_000, -1])
def test_a_cut_archive_is_refused(key: SigningKey, made: bytes, cut: int) -> None:
    with pytest.raises(IntegrityError, match="complete evidence archive"):
        check(made[:cut], [key.public])


def test_an_archive_of_another_table_or_of_an_older_publication_is_refused(
    tmp_path: Path, shared: Lake, key: SigningKey, made: bytes
) -> None:
    found = check(made, [key.public])
    with pytest.raises(IntegrityError, match="of table people, not of private"):
        require_of_release(found, shared.table("private"))
    lake = Lake(root=str(tmp_path / "lake"))
    publish_people(tmp_path / "people", lake)
    older = check(pack(lake.table("people"), "1", [key], pdf=False), [key.public])
    publish_people(tmp_path / "people", lake, k=7, run_key="another")
    with pytest.raises(IntegrityError, match="published again"):
        require_of_release(older, lake.table("people"))
    require_of_release(
        check(pack(lake.table("people"), "1", [key], pdf=False), [key.public]), lake.table("people")
    )
    retract(lake.table("people"), "1", "a test")
    with pytest.raises(PublishError, match="retracted"):
        require_of_release(found, lake.table("people"))
    with pytest.raises(PublishError, match="retracted"):
        pack(lake.table("people"), "1", [key])


def test_a_changed_proof_in_the_lake_makes_no_evidence(tmp_path: Path, key: SigningKey) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    publish_people(tmp_path / "people", lake)
    (entry,) = publications(lake.table("people"))
    report = Path(lake.root) / lake.table("people").proofs / f"{entry.report_sha256}.html"
    report.write_bytes(report.read_bytes() + b" ")
    with pytest.raises(IntegrityError, match=r"release/report\.html"):
        pack(lake.table("people"), "1", [key])
    report.unlink()
    with pytest.raises(IntegrityError, match=r"release/report\.html"):
        pack(lake.table("people"), "1", [key])


def test_the_opinion_is_signed_and_nothing_is_made_without_a_key(shared: Lake, key: SigningKey) -> None:
    said = "The risk is very small.\nA. Expert"
    data = pack(shared.table("people"), "1", [key], opinion=said, pdf=False)
    assert check(data, [key.public]).opinion
    assert files_of(data)["opinion.txt"].decode() == said
    assert "The risk is very small." in files_of(data)["evidence.html"].decode()
    with pytest.raises(SpecError, match="must be signed"):
        pack(shared.table("people"), "1", [])
    with pytest.raises(SpecError, match="opinion must have"):
        pack(shared.table("people"), "1", [key], opinion=" ")


def test_the_commands_write_and_check_an_archive(
    tmp_path: Path, shared: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public, file = tmp_path / "key.pem", tmp_path / "key.pub", tmp_path / "people.zip"
    write_new_key(private)
    assert main(["key", "public", str(private)]) == DONE
    public.write_text(capsys.readouterr().out)
    target = f"{shared.root}/people"
    assert main(["evidence", "make", target, "1", "-o", str(file)]) == WRONG
    assert "must be signed" in capsys.readouterr().err
    assert not file.exists()
    assert main(["evidence", "make", target, "1", "--sign", str(private), "-o", str(file)]) == DONE
    assert main(["evidence", "check", str(file), "--key", str(public), "--table", target]) == DONE
    assert "yes   release 1 of people" in capsys.readouterr().out
    file.write_bytes(file.read_bytes()[:-40])
    assert main(["evidence", "check", str(file), "--key", str(public)]) == REFUSED
    assert main(["evidence", "make", target, "2", "--sign", str(private)]) == WRONG
    assert main(["evidence", "check", str(tmp_path / "none.zip"), "--key", str(public)]) == WRONG
