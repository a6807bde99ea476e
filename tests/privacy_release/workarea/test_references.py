"""The fields of references that lead to files are those that are checked to stay in the work area."""

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest

from privacy_engine.errors import IntegrityError
from privacy_release.workarea import references
from privacy_release.workarea.references import (
    NESTED,
    PATHS,
    PersonsRef,
    Reference,
    SourceRef,
    StagedRelease,
    Table,
    need,
    paths_inside,
    plain,
    read_as,
)


def is_kind(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, Reference) and member is not Reference


KINDS = [kind for _, kind in inspect.getmembers(references, is_kind) if kind is not SourceRef]


def inner(hint: Any) -> Iterator[Any]:
    """The references that a type is made of."""
    if is_kind(hint):
        yield hint
    for part in get_args(hint):
        yield from inner(part)


def leads_to_files(kind: Any) -> bool:
    """Whether a reference has a path, or one that has."""
    hints = get_type_hints(kind)
    further = [own for hint in hints.values() for own in inner(hint) if own not in (kind, SourceRef)]
    return bool(PATHS & {name for name, hint in hints.items() if str in (hint, *get_args(hint))}) or any(
        leads_to_files(own) for own in further
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_reference_within_another_is_looked_at(kind: Any) -> None:
    for name, hint in get_type_hints(kind).items():
        if any(leads_to_files(own) for own in inner(hint) if own is not SourceRef):
            assert name in NESTED, f"{kind.__name__}.{name}"


def test_paths_are_found_in_references_within_references() -> None:
    waiting = {"uri": "/tmp/who", "sha256": "0"}
    staged = {"uri": "/tmp/records", "waiting": waiting, "source": {"uri": "s3://elsewhere"}}
    assert set(paths_inside([staged])) == {("uri", "/tmp/records"), ("uri", "/tmp/who")}


SOURCE = SourceRef(uri="s3://people", files=1, fingerprint="0", rows=9, dropped=0, identifiers=["name"])
TABLE = Table(uri="area/t.parquet", rows=9, sha256="1", schema="area/t.json", source=SOURCE)
STAGED = StagedRelease(
    uri="area/r.parquet",
    rows=8,
    sha256="2",
    schema="area/r.json",
    source=replace(SOURCE, tables={"visits": SOURCE}, left_out=["_old.parquet"]),
    persons=PersonsRef(uri="area/p.parquet", sha256="3", key="k", form="written"),
    manifest="area/m.json",
    report="area/r.html",
    method="mondrian",
    guarantees=[],
    loss=None,
    figures={"gcp": 0.5},
    seconds=1.0,
)


@pytest.mark.parametrize("reference", [TABLE, STAGED], ids=["table", "staged"])
def test_a_reference_is_the_same_after_it_travelled_as_json(reference: Table) -> None:
    travelled = json.loads(json.dumps(reference.to_ref()))
    assert Table.from_ref(travelled) == reference
    assert type(Table.from_ref(travelled)) is type(reference)
    assert read_as(dict[str, Table], {"one": travelled}) == {"one": reference}
    assert read_as(Table | list[Table], [travelled]) == [reference]
    assert plain([reference]) == [travelled]


def test_what_has_its_default_does_not_travel_and_what_must_be_said_does() -> None:
    assert set(TABLE.to_ref()) == {"uri", "rows", "sha256", "schema", "source"}
    assert STAGED.to_ref()["loss"] is None


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"policy": {}}, "policy"),
        ({"rows": None, "row": 9}, "row"),
        ({"source": {"uri": "x"}}, "fingerprint"),
    ],
    ids=["unknown", "misspelt", "inside"],
)
def test_other_fields_than_those_of_a_reference_are_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(IntegrityError, match=rf"has other fields than were given: .*{named}"):
        Table.from_ref(TABLE.to_ref() | changed)
    with pytest.raises(IntegrityError, match="rows"):
        Table.from_ref({name: value for name, value in TABLE.to_ref().items() if name != "rows"})
    with pytest.raises(IntegrityError, match="must be given as a mapping, got str"):
        Table.from_ref("area/t.parquet")  # type: ignore[arg-type]


def test_a_step_that_needs_what_a_reference_lacks_says_so() -> None:
    assert need(STAGED.persons, "persons").key == "k"
    with pytest.raises(IntegrityError, match="must have persons"):
        need(TABLE.persons, "persons")


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda table: table["rows"], 9),
        (lambda table: "engine" in table, False),
        (lambda table: table.get("engine"), None),
        (lambda table: {**table, "rows": 5} == TABLE.to_ref() | {"rows": 5}, True),
        (lambda table: dict(table.items()) == table.copy() == TABLE.to_ref(), True),
    ],
)
def test_until_0_3_a_reference_is_read_like_a_dict_with_a_warning(
    read: Callable[[Any], Any], found: Any
) -> None:
    with pytest.warns(DeprecationWarning, match="no dict from 0.3 on: read its attributes"):
        assert read(TABLE) == found
