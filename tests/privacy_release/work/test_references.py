"""The fields of references that lead to files are those that are checked to stay in the work area."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest

from privacy_release.work import references
from privacy_release.work.references import NESTED, PATHS, SourceRef, paths_inside

KINDS = [kind for _, kind in inspect.getmembers(references, is_typeddict) if kind is not SourceRef]


def inner(hint: Any) -> Iterator[Any]:
    """The references that a type is made of."""
    if is_typeddict(hint):
        yield hint
    for part in get_args(hint):
        yield from inner(part)


def leads_to_files(kind: Any) -> bool:
    """Whether a reference has a path, or one that has."""
    hints = get_type_hints(kind)
    further = [own for hint in hints.values() for own in inner(hint) if own not in (kind, SourceRef)]
    return bool(PATHS & {name for name, hint in hints.items() if hint is str}) or any(
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
