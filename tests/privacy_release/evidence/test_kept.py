"""Evidence that is made beside a release: who may sign it, and every way in which it may be another."""

import io
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from privacy_engine.errors import IntegrityError, SecretError, SpecError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.evidence.archive import pack
from privacy_release.evidence.kept import has_evidence, keep_evidence, kept_evidence, signers_of
from privacy_release.evidence.pages import PDF_PACKAGES
from privacy_release.lake.log import Publication, publications
from privacy_release.lake.read import read_release
from privacy_release.lake.store import Lake
from privacy_release.proof.keys import SigningKey, write_new_key
from privacy_release.proof.published_keys import publish_key
from privacy_release.proof.statement import StatementSigner
from privacy_release.reports.curator import curator_file
from privacy_release.running import publishing
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.steps.publish import COMPLETED
from privacy_release.workarea.area import WorkArea
from tests.reading import publish_people

KEY, OTHER, SUCCESSOR = (SigningKey.new() for _ in range(3))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two signed releases and one that no one signed, each in a separate table."""
    folder = tmp_path_factory.mktemp("kept")
    lake = Lake(root=str(folder / "lake"))
    publish_people(folder / "a", lake, signer=StatementSigner(key=KEY))
    publish_people(folder / "b", lake, name="others", signer=StatementSigner(key=KEY))
    publish_people(folder / "c", lake, name="unsigned")
    publish_key(lake, SUCCESSOR, replaces=KEY)
    publish_key(lake, OTHER)  # by no one's word but its own
    return lake


@pytest.fixture(autouse=True)
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVACY_CURATOR", str(tmp_path / "curator"))
    return tmp_path / "curator"


@pytest.fixture
def without_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting a PDF takes longer than the rest of evidence."""
    monkeypatch.setitem(sys.modules, PDF_PACKAGES[0], None)


@pytest.fixture(scope="module")
def made(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A curator's folder with evidence that the key of the release signed, without a PDF."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, PDF_PACKAGES[0], None)
        patch.setenv("PRIVACY_CURATOR", str(folder))
        keep_evidence(lake.table("people"), "1", KEY)
    return folder


@pytest.fixture
def file(made: Path, curator: Path) -> Path:
    """The evidence in the test's own folder."""
    shutil.copytree(made, curator)
    (file,) = (path for path in curator.rglob("*") if path.is_file())
    return file


def entry(lake: Lake, name: str = "people") -> Publication:
    return publications(lake.table(name))[-1]


@pytest.mark.quick("its key")  # another release
@pytest.mark.parametrize("key", [KEY, SUCCESSOR], ids=["its key", "the successor of its key"])
def test_evidence_is_kept_for_the_service_user_and_read_again(lake: Lake, key: SigningKey) -> None:
    assert kept_evidence(lake.table("people"), entry(lake)) is None
    made = Path(keep_evidence(lake.table("people"), "1", key)["evidence"])
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert has_evidence("people", entry(lake))
    assert kept_evidence(lake.table("people"), entry(lake)) == pack(lake.table("people"), "1", [key])


@pytest.mark.parametrize("missing", PDF_PACKAGES)
def test_without_a_package_of_the_extra_evidence_has_no_pdf(
    lake: Lake, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    made = keep_evidence(lake.table("people"), "1", KEY)["evidence"]
    assert "evidence.pdf" not in zipfile.ZipFile(made).namelist()
    with pytest.raises(SpecError, match="a PDF needs the extra `pdf`"):
        pack(lake.table("people"), "1", [KEY], pdf=True)


def changed(data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (b" " if name == "evidence.html" else b""))
    return target.getvalue()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda lake, data: changed(data), "evidence.html was changed"),
        (lambda lake, data: data[:-100], "must be a complete evidence archive"),
        (lambda lake, data: b"", "must be a complete evidence archive"),
        (
            lambda lake, data: pack(lake.table("people"), "1", [OTHER], pdf=False),
            "cannot be trusted: it is signed by",
        ),
        (lambda lake, data: pack(lake.table("others"), "1", [KEY], pdf=False), "is about another"),
    ],
    ids=["changed", "cut", "empty", "signed by another key", "of another release"],
)
def test_evidence_that_is_not_what_the_signer_of_the_release_signed_is_refused(
    lake: Lake, file: Path, damage: Callable[[Lake, bytes], bytes], expected: str
) -> None:
    file.write_bytes(damage(lake, file.read_bytes()))
    with pytest.raises(IntegrityError, match=expected):
        kept_evidence(lake.table("people"), entry(lake))


def test_evidence_of_an_earlier_publication_of_a_release_is_of_another(lake: Lake, file: Path) -> None:
    again = replace(entry(lake), manifest_sha256="0" * 64)
    file.rename(file.with_name(curator_file(f"{again.release_id} {again.manifest_sha256}", ".zip")))
    assert has_evidence("people", again)
    with pytest.raises(IntegrityError, match="is about another"):
        kept_evidence(lake.table("people"), again)


def test_a_link_in_the_place_of_evidence_is_not_followed(lake: Lake, file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")
    with pytest.raises(IntegrityError, match="must be a file that this server can read"):
        kept_evidence(lake.table("people"), entry(lake))


@pytest.mark.usefixtures("without_pdf")
@pytest.mark.quick("no one")  # another release
@pytest.mark.parametrize("key", [None, OTHER], ids=["no one", "another key"])
def test_without_the_key_of_the_release_nothing_is_kept_and_trying_again_helps(
    lake: Lake, key: SigningKey | None, curator: Path
) -> None:
    with pytest.raises(
        SecretError, match="release 1 of table people is published, but its evidence must be signed"
    ):
        keep_evidence(lake.table("people"), "1", key)
    assert not curator.exists()
    assert read_release(lake.table("people"), "1").num_rows == 200
    keep_evidence(lake.table("people"), "1", KEY)
    assert has_evidence("people", entry(lake))


def test_of_a_release_that_no_one_signed_there_is_no_evidence(lake: Lake) -> None:
    with pytest.raises(SecretError, match="must be signed"):
        keep_evidence(lake.table("unsigned"), "1", KEY)
    assert signers_of(lake.table("unsigned"), entry(lake, "unsigned")) == []


@pytest.mark.usefixtures("without_pdf")
def test_a_run_makes_evidence_and_without_a_key_reads_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = home / "releases" / "people.yaml"
    fields = yaml.safe_load(spec.read_text())
    spec.write_text(yaml.safe_dump(fields | {"publish": {"table": "people", "evidence": True}}))
    lake = Lake(root=str(tmp_path / "lake"))
    monkeypatch.setenv("PRIVACY_WORK_AREA", str(tmp_path / "work_area"))
    command = ["run", str(spec), "--lake", lake.root, "--release-id", "1"]
    assert main(command) == WRONG
    assert "publish.evidence needs a key that signs the release" in capsys.readouterr().err
    assert not publications(lake.table("people"))
    write_new_key(tmp_path / "key.pem")
    monkeypatch.setenv("PRIVACY_SIGNING_KEY", str(tmp_path / "key.pem"))
    assert main(command) == DONE
    assert "evidence  " in capsys.readouterr().out
    assert kept_evidence(lake.table("people"), entry(lake)) is not None


def test_evidence_that_cannot_be_made_is_a_warning_also_of_a_completed_publication(
    home: Path, tmp_path: Path, work: WorkArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = home / "releases" / "people.yaml"
    fields = yaml.safe_load(spec.read_text())
    spec.write_text(yaml.safe_dump(fields | {"publish": {"table": "people", "evidence": True}}))
    publish = publishing.publish_staged

    def fails(*given: object) -> None:
        raise OSError("the curator's folder is full")

    monkeypatch.setattr(
        publishing, "publish_staged", lambda *given, **more: replace(publish(*given, **more), completed=True)
    )
    monkeypatch.setattr(publishing, "keep_evidence", fails)
    lake, signer = Lake(root=str(tmp_path / "lake")), StatementSigner(key=KEY)
    outcome = run_release(load_spec(spec), lake, "1", work, signer=signer)
    assert outcome.evidence is None
    assert [*outcome.warnings] == [
        COMPLETED,
        "the evidence of the release is left out, because making it ended in OSError",
    ]
