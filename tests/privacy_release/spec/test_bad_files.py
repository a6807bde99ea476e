"""Whatever stands in a file is right, or one short error of the releases that name it."""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from privacy_engine.errors import Problem, SpecError
from privacy_release.spec.catalogue import catalogue, raise_if_any, readable_specs
from privacy_release.spec.lines import at_lines
from privacy_release.spec.model import load_spec
from tests import tables
from tests.bad_files import ANY_FILE, ANY_YAML, TARGETS, mutations, write_neighbour

MOST_COMPARED = 500  # times that a wrong word is compared with the right ones, for both releases
MOST_CHARACTERS = 6_000
EVERYWHERE = [(kind, name) for kind in TARGETS for name in ANY_FILE]
# The same reader reads a policy: one case each of a value, a key and a document.
OF_POLICY = {"no-such-date", "10000-brackets", "alias-bomb", "list-as-key", "doubled-key", "two-documents"}
IN_YAML = [
    pytest.param(kind, name, marks=[pytest.mark.slow] if kind == "policy" and name not in OF_POLICY else [])
    for kind in ("release", "policy")
    for name in ANY_YAML
]

Change = Callable[[Path], None]


@pytest.fixture
def two(home: Path) -> Path:
    """An include folder with the releases `people` and `steady`."""
    write_neighbour(home)
    return home


def faults_of(home: Path) -> tuple[str, ...]:
    """The faults, in few words and of few comparisons with right words; the neighbour is read."""
    with pytest.MonkeyPatch.context() as patch:
        compared, near = [], difflib.get_close_matches
        patch.setattr(difflib, "get_close_matches", lambda *a, **k: compared.append(a) or near(*a, **k))
        found = catalogue()
    assert len(compared) < MOST_COMPARED
    assert "steady" in {spec.name for spec in found.usable.values()}
    assert "steady" in {spec.name for spec in readable_specs()}
    assert all(len(fault) < MOST_CHARACTERS and fault.isprintable() for fault in found.faults)
    assert len(found.faults) + len(found.usable) == 2
    return found.faults


@pytest.mark.parametrize(("kind", "case"), EVERYWHERE, ids=str)
def test_what_can_be_in_place_of_any_file_is_one_error_of_one_release(
    two: Path, kind: str, case: str
) -> None:
    ANY_FILE[case](two / TARGETS[kind])
    (fault,) = faults_of(two)
    assert fault.startswith(str(two / TARGETS["release"]))


@pytest.mark.parametrize(("kind", "case"), IN_YAML, ids=str)
def test_what_can_stand_in_a_yaml_file_is_one_error_of_one_release(two: Path, kind: str, case: str) -> None:
    ANY_YAML[case](two / TARGETS[kind])
    (fault,) = faults_of(two)
    assert fault.startswith(str(two / TARGETS["release"]))


class Counted(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    __hash__ = str.__hash__
    times = 0

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("size", [100, 400])
def test_the_line_of_each_problem_is_found_without_going_through_the_file(home: Path, size: int) -> None:
    file = home / TARGETS["policy"]
    file.write_text("".join(f"unknown{i}: 1\n" for i in range(size)))
    Counted.times = 0
    error = at_lines(file, [Problem(text="is wrong", path=(Counted(f"unknown{i}"),)) for i in range(size)])
    assert [problem.line for problem in error.problems] == list(range(1, size + 1))
    assert Counted.times <= 2 * size


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        f'{{"a": {"9" * 5000}}}',
        '{"a": "\\ud800"}',
        '{"a": "\\u0000"}',
        f'{{"a": {"[" * 100_000}',
        f'{{"a": {"[" * 40}{"]" * 40}}}',
        '["a"]',
    ],
    ids=["nan", "infinity", "doubled", "digits", "surrogate", "nul", "brackets", "deep", "list"],
)
def test_what_can_stand_in_a_json_file_is_one_error_of_one_release(two: Path, text: str) -> None:
    (two / TARGETS["suite"]).write_text(text)
    assert len(faults_of(two)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("schema", "age", "bins"), True),
        (("schema", "age", "bounds"), [False, True]),
        (("release", "seed"), True),
        (("engine",), {"kind": "fragments", "rows": True}),
        (("engine",), {"kind": "fragments", "memory": f"{'9' * 400}GB"}),
        (("schedule",), "0 0 31 2 *"),
        (("schedule",), "* * * * * *"),
        (("schedule",), "1-999999999999 * * * *"),
        (("release", "start"), yaml.safe_load("2024-02-01")),
        (("tags",), ["x" * 101]),
        (("publish", "lake"), "x" * 5000),
        (("policy",), "policies/" + "x" * 5000),
        (("policy",), "policies/x\ny.yaml"),
        (("source", "columns"), [f"c{i}" for i in range(9_000)]),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, tuple) else "",
)
def test_what_a_field_cannot_be_is_one_error_of_one_release(
    two: Path, field: tuple[str, ...], value: object
) -> None:
    tables.rewrite(two / TARGETS["release"], at=field[:-1], **{field[-1]: value})
    (fault,) = faults_of(two)
    assert field[-1] in fault or "start" in field


@pytest.mark.parametrize("kind", TARGETS)
def test_a_byte_order_mark_is_no_part_of_a_file(two: Path, kind: str) -> None:
    path = two / TARGETS[kind]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert faults_of(two) == ()
    hierarchy = load_spec(two / TARGETS["release"]).data_schema()["zip"].hierarchy
    assert hierarchy is not None
    assert hierarchy.values[0] == "N1"


def test_two_files_of_one_stem_are_one_error_and_neither_is_used(two: Path) -> None:
    path = two / TARGETS["release"]
    path.with_suffix(".yml").write_bytes(path.read_bytes())
    (fault,) = faults_of(two)
    assert "must be the only file of its name, there is people.yml" in fault


def test_a_file_with_the_name_of_another_release_is_its_own_error(two: Path) -> None:
    (two / "releases" / "other.yaml").write_bytes((two / TARGETS["release"]).read_bytes())
    found = catalogue()
    assert [spec.name for spec in found.usable.values()] == ["people", "steady"]
    (fault,) = found.faults
    assert "other.yaml: line 1: name must be 'other' like the file" in fault


def test_a_file_name_that_is_no_text_is_reported_in_text(two: Path) -> None:
    Path(os.fsdecode(os.fsencode(two) + b"/releases/\xff.yaml")).touch()
    (fault,) = catalogue().faults
    assert fault.encode()


def test_thousands_of_bad_files_are_counted_and_not_all_reported() -> None:
    with pytest.raises(SpecError, match="and 950 more") as caught:
        raise_if_any(f"{i}.yaml: is wrong" for i in range(1000))
    assert str(caught.value).count("\n") == 51


@pytest.mark.parametrize("field", ["policy", "expectations", "hierarchy"])
@pytest.mark.parametrize("way", ["absolute", "parent", "link", "linked-folder"])
def test_a_release_names_no_file_outside_of_the_include_folder(two: Path, field: str, way: str) -> None:
    outside = two.parent / "outside"
    outside.mkdir()
    inside = two / TARGETS[{"expectations": "suite"}.get(field, field)]
    file = outside / inside.name
    file.write_bytes(inside.read_bytes())
    (two / "linked").symlink_to(outside)
    (two / f"link{inside.suffix}").symlink_to(file)
    named = {
        "absolute": str(inside),
        "parent": f"policies/../{inside.parent.name}/{inside.name}",
        "link": f"link{inside.suffix}",
        "linked-folder": f"linked/{inside.name}",
    }[way]
    at = ["schema", "zip"] if field == "hierarchy" else []
    tables.rewrite(two / TARGETS["release"], at=at, **{field: named})
    (fault,) = faults_of(two)
    assert f"{field}: " in fault
    assert "below" in fault


def test_a_link_that_stays_in_the_include_folder_is_followed(two: Path) -> None:
    policy = two / TARGETS["policy"]
    policy.rename(policy.with_stem("version-1"))
    policy.symlink_to("version-1.yaml")
    assert faults_of(two) == ()


def outcomes(home: Path, count: int) -> dict[str, int]:
    """How many mutated files were a clear error, and how many were right."""
    right = {kind: (home / path).read_bytes() for kind, path in TARGETS.items()}
    found = {"error": 0, "accepted": 0}
    for kind, data in mutations(home, count):
        (home / TARGETS[kind]).write_bytes(data)
        try:
            spec = load_spec(home / TARGETS["release"])
            spec.data_schema(), spec.release_policy(), spec.expectation_suite()
        except SpecError:
            pass  # any other error fails the test
        found["error" if faults_of(home) else "accepted"] += 1
        (home / TARGETS[kind]).write_bytes(right[kind])
    return found


def test_every_mutated_file_is_a_clear_error_or_right(two: Path) -> None:
    assert sum(outcomes(two, 20).values()) == 20


@pytest.mark.slow
def test_1000_mutated_files_are_clear_errors_or_right(two: Path) -> None:
    found = outcomes(two, 1000)
    assert min(found.values()) > 100  # both happen
    assert sum(found.values()) == 1000
