"""The fields of references that lead to files are those that are checked to stay in the work area."""

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest

from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import IntegrityError, SpecError
from privacy_release.spec.outliers import Action
from privacy_release.workarea import references
from privacy_release.workarea.references import (
    NESTED,
    PATHS,
    NumberedRef,
    OutlierRef,
    PersonsRef,
    Reference,
    ReportRef,
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


@pytest.mark.parametrize(
    "name",
    ["uri", "schema", "manifest", "report", "columns", "model", "source_schema"],
)
def test_every_path_of_a_release_is_found(name: str) -> None:
    assert name in get_type_hints(StagedRelease)
    assert list(paths_inside({name: "/tmp/x", "rows": 5})) == [(name, "/tmp/x")]


@pytest.mark.parametrize("name", ["scores", "aside"])
def test_every_path_of_a_search_for_outliers_is_found(name: str) -> None:
    assert name in get_type_hints(OutlierRef)
    assert list(paths_inside({"outliers": [{name: "/tmp/x", "flagged": 5}]})) == [(name, "/tmp/x")]


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


def test_the_figures_of_a_release_that_claims_a_loss_are_not_public() -> None:
    private = replace(
        STAGED, loss={"epsilon": 0.5, "delta": 0.0, "neighbours": "replace_one"}, model="m.json"
    )
    assert (STAGED.public_figures, STAGED.loss_figures, STAGED.privacy_loss) == ({"gcp": 0.5}, {}, None)
    assert (private.public_figures, private.loss_figures) == ({}, {"epsilon": 0.5})
    assert private.privacy_loss == PrivacyLoss(epsilon=0.5, neighbours="replace_one")
    assert (STAGED.is_synthetic, private.is_synthetic) == (False, True)


@pytest.mark.parametrize(("known", "unseen"), [(None, set()), ([], {3, 4}), ([3], {4}), ([3, 4, 5], set())])
def test_versions_are_unseen_only_if_a_comparison_was_required(known: Any, unseen: set[int]) -> None:
    assert replace(STAGED, earlier=known).unseen([3, 4]) == unseen
    report = ReportRef(passed=True, sha256="2", rows=8, classes=1, findings=[], policy={}, compared=known)
    assert report.unseen([3, 4]) == unseen
    assert report.was_compared == (known is not None)


def test_persons_have_one_number_in_all_runs_by_a_numbering_or_by_owners() -> None:
    owned = replace(need(STAGED.persons, "persons"), owners="written")
    numbering = NumberedRef(uri="area/n.parquet", sha256="4", key="k", form="written")
    tables = [TABLE, STAGED, replace(TABLE, persons=owned), replace(TABLE, numbered=numbering)]
    assert [table.numbers_people for table in tables] == [False, False, True, True]
    assert [table.follows_people for table in tables] == [False, True, True, False]


def test_only_outliers_that_are_suppressed_count_among_the_records_of_the_source() -> None:
    found = OutlierRef(
        method="okplof",
        action=Action.SUPPRESS.value,
        records=12,
        flagged=3,
        share=0.25,
        pruned=0.0,
        threshold=1.5,
        removed=3,
        scores="area/s.parquet",
    )
    aside = replace(found, action=Action.SET_ASIDE.value)
    assert replace(TABLE, outliers=[found, aside]).suppressed == 3
    assert replace(TABLE, outliers=[found, aside]).rows_with_suppressed == 12
    assert replace(TABLE, outliers=[aside]).rows_with_suppressed == TABLE.rows


def test_a_table_without_people_held_out_cannot_be_attacked() -> None:
    with pytest.raises(SpecError, match="attacks need people who were held out"):
        _ = TABLE.held_out
