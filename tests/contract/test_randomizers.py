"""What every registered randomizer must keep beyond the contract of release methods."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, SchemaError, load_method
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import SecretError
from privacy_engine.randomizers.claims import check_randomization
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.randomizers.randomizer import RandomizedRelease, Randomizer
from privacy_engine.randomizers.randomness import Secret
from privacy_engine.registry import is_randomizer, method_names
from tests.contract.tables import PUBLIC_SCHEMA, SCHEMA, family, people, released

methods = pytest.mark.parametrize("name", family(Randomizer))
# Listed attributes alone, and all of them randomized: every randomizer makes a claim.
LISTED = PUBLIC_SCHEMA.select(["name", "grade", "city", "colour", "disease"])
SECRET = Secret(bytes(range(32)))


def memoised(name: str, table: pd.DataFrame, schema: DataSchema = PUBLIC_SCHEMA) -> RandomizedRelease:
    made = load_method(name, randomness="memoised").with_secret(SECRET)
    return made.release(table, schema, np.random.default_rng())


def listed(table: pd.DataFrame) -> pd.DataFrame:
    return table[list(LISTED.names)]


def test_the_registry_knows_its_randomizers_without_importing_one() -> None:
    assert [name for name in method_names() if is_randomizer(name)] == family(Randomizer)


@methods
def test_the_claim_is_the_sum_of_the_computed_epsilons(name: str) -> None:
    release = released(name, {}, listed(people()), schema=LISTED)
    parts = release.randomization.attribute_epsilons
    assert set(parts) == set(LISTED.names) - {"name"}
    assert release.loss == load_method(name).privacy_loss(LISTED)
    assert release.loss == PrivacyLoss(
        epsilon=release.randomization.person_epsilon, neighbours=Neighbours.REPLACE_ONE
    )
    assert release.loss.epsilon == pytest.approx(sum(parts.values()), rel=1e-12)


@methods
def test_the_books_balance_and_a_claim_that_is_too_small_does_not(name: str) -> None:
    release = released(name, {}, listed(people()), schema=LISTED)
    manifest = Randomization.of_manifest(json.loads(json.dumps(release.manifest(), allow_nan=False)))
    assert all(f.passed for f in check_randomization(release.loss, manifest, release.schema, release.loss))
    less = dataclasses.replace(release.loss, epsilon=release.loss.epsilon * 0.99)
    assert not all(f.passed for f in check_randomization(less, manifest, release.schema, release.loss))


@methods
def test_what_is_released_as_it_is_voids_the_claim_for_a_person(name: str) -> None:
    assert load_method(name).privacy_loss(PUBLIC_SCHEMA) is None
    assert released(name, {}, people()).randomization.released_as_is == ("visits",)


@methods
def test_a_domain_that_is_not_public_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="'colour'"):
        released(name, {}, people(), schema=SCHEMA)


@methods
def test_fresh_answers_differ_and_memoised_ones_repeat(name: str) -> None:
    fresh = [released(name, {}, people()).table for _ in range(2)]
    assert not fresh[0].equals(fresh[1])  # 120 records with 5 attributes would all have to be answered alike
    pd.testing.assert_frame_equal(
        memoised(name, people()).table, memoised(name, people().sample(frac=1, random_state=1)).table
    )


@methods
def test_memoised_answers_need_a_secret_which_is_never_reported(name: str) -> None:
    with pytest.raises(SecretError, match="need a secret"):
        released(name, {"randomness": "memoised"}, people())
    manifest = json.dumps(memoised(name, people()).manifest())
    assert SECRET.fingerprint in manifest
    assert SECRET.key.hex() not in manifest


@methods
def test_seeded_answers_repeat_and_claim_nothing(name: str) -> None:
    one, other = (released(name, {"randomness": "seeded"}, listed(people()), schema=LISTED) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, other.table)
    assert one.loss is None
    assert one.manifest()["randomization"]["private_randomness"] is False


@methods
def test_a_release_is_made_again_from_its_answers(name: str) -> None:
    release = released(name, {}, people())
    again = load_method(name).release_of(release.table, PUBLIC_SCHEMA)
    assert again.manifest() == release.manifest()
    assert again.schema == release.schema
