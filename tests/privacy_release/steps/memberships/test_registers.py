"""The register of a population, whose persons are found in a release."""

from dataclasses import replace

import pytest

from privacy_engine.errors import SpecError
from privacy_release.steps.memberships.registers import population
from privacy_release.workarea.references import PersonsRef, SourceRef, Table

PERSONS = PersonsRef(uri="persons.parquet", sha256="1", key="a key", form="read")
SOURCE = SourceRef(uri="register.parquet", files=1, fingerprint="0", rows=2, dropped=0, identifiers=["name"])
REGISTER = Table(uri="t.parquet", rows=2, sha256="2", schema="t.json", source=SOURCE, persons=PERSONS)


@pytest.mark.parametrize("other", [{"key": "another key"}, {"form": "as written"}])
def test_a_register_with_another_key_or_form_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="ingested with the membership key of the release"):
        population(REGISTER, replace(PERSONS, **other))


def test_a_register_without_persons_is_no_population() -> None:
    assert population(None, PERSONS) is None
    assert population(replace(REGISTER, persons=None), PERSONS) is None
