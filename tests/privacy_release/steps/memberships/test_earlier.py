"""Memberships of an earlier release as they are read from its file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine.verification.cross_release import Membership
from privacy_release.lake.log import Publication
from privacy_release.steps.memberships.earlier import MembershipFile
from privacy_release.steps.memberships.persons import KnownPersons
from privacy_release.steps.memberships.registers import write_population
from privacy_release.workarea.people import WRITTEN


@pytest.mark.parametrize(("form", "kept"), [("read", True), (WRITTEN, False)])
def test_a_register_with_another_form_of_the_identifiers_is_not_read(
    tmp_path: Path, publication: Publication, form: str, kept: bool
) -> None:
    """Its persons would be counted in addition to the same ones of the releases."""
    people = np.array(["Ada", "Ben"], dtype=object)
    register = Membership(persons=people, labels=np.arange(2), boxes={})
    persons = KnownPersons(
        key="a key", form="read", owners=None, hashes=np.array([people, people, [None] * 2]), secret=None
    )
    frame = pd.DataFrame({"person": people, "class": 0, "key": "a key", "records of the release": 2}).assign(
        **{
            "form of the identifiers": form,
            "sha256 of the release": publication.sha256,
            "sha256 of the register": write_population(register, tmp_path / "1.register.parquet"),
        }
    )
    file = MembershipFile(path=tmp_path / "1.parquet", table="people", publication=publication)
    found = file.membership(frame, persons, marked=False, register=True)
    assert found.persons.tolist() == ["Ada", "Ben"]
    assert (found.register is not None) == kept
