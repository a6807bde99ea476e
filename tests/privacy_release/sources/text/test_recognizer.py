"""A recognizer of the deployment: what it finds counts, and nothing that it says shows a value."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from privacy_engine.errors import PrivacyEngineError, SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.text.scan import TextScan
from privacy_release.spec.methods import build_method
from privacy_release.spec.model import load_spec
from tests.wrong_files import RELEASE, RIGHT

SECRET = "Zebedee lives nearby"


def of_zebedee(texts: Sequence[str]) -> list[set[str]]:
    return [{"PERSON"} if "Zebedee" in text else set() for text in texts]


def of_values(texts: Sequence[str]) -> list[list[str]]:
    return [[text.split()[0]] for text in texts]


def too_few(_: Sequence[str]) -> list[set[str]]:
    return []


def of_texts(texts: Sequence[str]) -> list[str]:
    return list(texts)


def failing(texts: Sequence[str]) -> list[set[str]]:
    raise ValueError(texts[0])


NO_FUNCTION = 7


def scanned(text: Any = None) -> tuple[TextScan, pa.Table]:
    fields = {"role": "insensitive", "kind": "categorical"} | ({"text": text} if text else {})
    scan = TextScan(DataSchema.from_dict({"note": fields}))
    return scan, scan.cleaned(pa.table({"note": [SECRET, "well", SECRET, None, "mail a@b.org"]}))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda name: monkeypatch.setenv("PRIVACY_TEXT_RECOGNIZER", f"{__name__}:{name}")


def test_what_it_finds_adds_to_what_the_patterns_find(use: Callable[[str], None]) -> None:
    assert scanned()[0].found() == {"note": {"email": 1}}
    use("of_zebedee")
    scan, _ = scanned()
    assert scan.found() == {"note": {"email": 1, "person": 2}}
    with pytest.raises(SchemaError, match="note: email in 1 record, person in 2 records"):
        scan.require_clean()


def test_redaction_replaces_the_whole_cell_that_it_names(use: Callable[[str], None]) -> None:
    use("of_zebedee")
    cells = scanned("redact")[1]["note"].to_pylist()
    assert cells == ["[person]", "well", "[person]", None, "mail [email]"]


def test_a_kind_that_is_a_part_of_the_text_is_not_shown(use: Callable[[str], None]) -> None:
    use("of_values")
    assert set(scanned()[0].found()["note"]) == {"email", "recognized"}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("too_few", "gave 0 answers for 3 texts"),
        ("of_texts", "no collection of kinds"),
        ("failing", "failed with ValueError"),
        ("missing", r"cannot be loaded \(AttributeError\)"),
        ("NO_FUNCTION", "is no function"),
    ],
)
def test_a_recognizer_that_cannot_be_relied_on_is_refused(
    use: Callable[[str], None], name: str, fault: str
) -> None:
    use(name)
    with pytest.raises(SpecError, match=fault) as caught:
        scanned()
    assert "Zebedee" not in str(caught.value)
    assert caught.value.__cause__ is None


def method_of(path: Path) -> object:
    requested = load_spec(path).release
    return build_method(requested.method, requested.parameters)


@pytest.mark.parametrize("place", ["", "source", "release", "schema.age", "schema.age.text"])
def test_no_release_file_can_name_one(place: str, tmp_path: Path) -> None:
    for name, content in RIGHT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    fields = yaml.safe_load(RIGHT[RELEASE])
    at = fields
    for part in filter(None, place.split(".")):
        at = at.setdefault(part, {})
    at["text_recognizer"] = f"{__name__}:failing"
    (tmp_path / RELEASE).write_text(yaml.safe_dump(fields))
    with pytest.raises(PrivacyEngineError, match="text_recognizer"):
        method_of(tmp_path / RELEASE)
