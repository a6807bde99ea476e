"""What ledgers, lakes and work areas of earlier versions hold is found again, see `tests.golden`."""

from pathlib import Path

import pytest

from tests import golden
from tests.made import made_release


def test_the_keys_of_bookings_and_the_schemas_in_them_are_those_of_before() -> None:
    assert golden.booking_keys() == golden.read()["booking_keys"]
    before, now = golden.read()["schemas"], golden.schemas()
    assert {name: now.get(name) for name in before} == before


def test_the_names_of_folders_and_entries_are_those_of_before() -> None:
    assert golden.names() == golden.read()["names"]


@pytest.mark.quick("adult_occupation", "bank_customers_randomized")  # a whole release each
@pytest.mark.parametrize("name", golden.EXAMPLES)
def test_no_field_of_a_published_release_is_renamed(shared: Path, name: str) -> None:
    before = golden.read()["fields"][name]
    now = golden.fields(made_release(shared, name))
    assert [field for kind, known in before.items() for field in known if field not in now[kind]] == []
