"""ERRPH, TRR and LocalLaplace as release methods: claims, memoised answers, bad input."""

import dataclasses
import json
import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from privacy_engine import DataSchema, SchemaError
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.errors import SecretError
from privacy_engine.randomizers.claims import check_randomization
from privacy_engine.randomizers.errph import ERRPH
from privacy_engine.randomizers.local_laplace import LocalLaplace
from privacy_engine.randomizers.randomization import Randomization
from privacy_engine.randomizers.randomizer import RandomizedRelease, Randomizer
from privacy_engine.randomizers.randomness import Secret
from privacy_engine.randomizers.trr import TRR
from privacy_engine.release import parameters_of
from tests.privacy_engine.randomizers.tables import SCHEMA, people

METHODS = (ERRPH, TRR, LocalLaplace)
KEY = bytes(range(32))
methods = pytest.mark.parametrize("method", METHODS)


def seeded(method: Randomizer, table: pd.DataFrame | None = None, schema: DataSchema = SCHEMA):
    table = people() if table is None else table
    return dataclasses.replace(method, randomness="seeded").release(table, schema, np.random.default_rng(7))


def memoised(method: type[Randomizer], table: pd.DataFrame, key: bytes = KEY) -> RandomizedRelease:
    made = method(randomness="memoised").with_secret(Secret(key))
    return made.release(table, SCHEMA, np.random.default_rng())


@methods
def test_identifiers_are_dropped_and_every_value_stays_in_the_public_domain(method: type[Randomizer]) -> None:
    release = method().release(people(), SCHEMA, np.random.default_rng())
    assert list(release.table.columns) == list(release.schema.names) == list(SCHEMA.names[1:])
    assert len(release.table) == 300
    release.schema.check(release.table)


@methods
def test_rows_are_sorted_by_what_is_released(method: type[Randomizer]) -> None:
    table = method().release(people(), SCHEMA, np.random.default_rng()).table
    names = [name for name in table.columns if name != "disease"]  # pandas does not sort None beside texts
    pd.testing.assert_frame_equal(table[names], table[names].sort_values(names, ignore_index=True))


@methods
def test_inputs_are_not_changed(method: type[Randomizer]) -> None:
    table = people()
    before = table.copy(deep=True)
    method().release(table, SCHEMA, np.random.default_rng())
    pd.testing.assert_frame_equal(table, before)


@methods
def test_fresh_answers_do_not_follow_the_seed_and_seeded_ones_do(method: type[Randomizer]) -> None:
    one, other = (method().release(people(), SCHEMA, np.random.default_rng(7)).table for _ in range(2))
    assert not one.equals(other)  # 300 records would all have to be answered alike
    pd.testing.assert_frame_equal(seeded(method()).table, seeded(method()).table)


@methods
def test_a_seeded_release_claims_nothing_and_says_so(method: type[Randomizer]) -> None:
    release = seeded(method())
    manifest = release.manifest()["randomization"]
    assert release.loss is None
    assert manifest["randomness"] == "seeded"
    assert manifest["private_randomness"] is False


@methods
def test_parameters_survive_json_and_hold_no_secret(method: type[Randomizer]) -> None:
    release = memoised(method, people())
    text = json.dumps(release.manifest())
    assert method(**json.loads(json.dumps(release.parameters))) == method(randomness="memoised")
    assert KEY.hex() not in text
    assert "person 1" not in text


@methods
def test_a_manifest_tells_all_that_is_needed_to_reconstruct(method: type[Randomizer]) -> None:
    release = method().release(people(), SCHEMA, np.random.default_rng())
    again = Randomization.of_manifest(json.loads(json.dumps(release.manifest(), allow_nan=False)))
    assert again.to_dict() == release.randomization.to_dict()
    assert set(again.mechanisms) == set(SCHEMA.names[1:])


def test_the_loss_of_a_person_is_the_sum_over_attributes_and_both_are_reported() -> None:
    release = ERRPH(p_0=0.5).release(people(), SCHEMA, np.random.default_rng())
    manifest = release.manifest()["randomization"]["epsilon"]
    by_size = {"age": 16, "grade": 6, "size": 3, "city": 4, "disease": 4}  # null is a value of disease
    for name, k in by_size.items():
        assert manifest["attributes"][name] == pytest.approx(math.log(1 + k), rel=1e-12)
    assert manifest["person"] == pytest.approx(sum(math.log(1 + k) for k in by_size.values()))
    assert release.loss == PrivacyLoss(epsilon=manifest["person"], neighbours=Neighbours.REPLACE_ONE)


@pytest.mark.parametrize("method", [ERRPH, LocalLaplace])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.3, 20.0])
def test_a_loss_never_exceeds_the_asked_epsilon(method: type[Randomizer], epsilon: float) -> None:
    loss = method(epsilon=epsilon).privacy_loss(SCHEMA)
    assert epsilon * 0.999 < loss.epsilon <= epsilon


def test_trr_claims_nothing_where_a_number_is_transformed_and_something_where_none_is() -> None:
    assert TRR().privacy_loss(SCHEMA) is None
    assert TRR().release(people(), SCHEMA, np.random.default_rng()).manifest()["loss"] is None
    listed = SCHEMA.select(["id", "size", "city"])
    assert TRR(p_0=0.5).privacy_loss(listed).epsilon == pytest.approx(math.log(4) + math.log(5))


@pytest.mark.parametrize("method", METHODS)
def test_an_attribute_released_as_it_is_leaves_no_claim_for_a_person(method: type[Randomizer]) -> None:
    fields = SCHEMA.to_dict()
    schema = DataSchema.from_dict({**fields, "city": {**fields["city"], "role": "insensitive"}})
    release = method().release(people(), schema, np.random.default_rng())
    assert release.loss is None
    assert release.manifest()["randomization"]["released_as_is"] == ["city"]
    assert sorted(release.table["city"]) == sorted(people()["city"])


def test_numbers_that_were_transformed_keep_to_no_bounds() -> None:
    schema = TRR().release(people(), SCHEMA, np.random.default_rng()).schema
    assert schema["age"].bounds is None
    assert schema["city"].hierarchy is not None


def test_given_probabilities_are_used() -> None:
    given = {"size": {"S": 0.1, "M": 0.15, "L": 0.25}}
    channel = ERRPH(p_0=0.5, probabilities=given).mechanisms(SCHEMA)["size"]
    assert channel.labels == ("S", "M", "L")
    assert channel.matrix[0] == pytest.approx([0.6, 0.15, 0.25])
    assert channel.epsilon == pytest.approx(math.log(6))


# Memoised answers


@methods
def test_memoised_answers_repeat_while_values_do_not_change(method: type[Randomizer]) -> None:
    table = people()
    shuffled = table.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(memoised(method, table).table, memoised(method, shuffled).table)


@methods
def test_a_changed_secret_answers_afresh(method: type[Randomizer]) -> None:
    assert not memoised(method, people()).table.equals(memoised(method, people(), bytes(32)).table)


@methods
def test_one_changed_value_changes_no_other_answer(method: type[Randomizer]) -> None:
    table = people().reset_index(drop=True)
    changed = table.assign(size=table["size"].where(table.index > 0, "S" if table["size"][0] != "S" else "M"))
    one, other = (memoised(method, t).table for t in (table, changed))
    rest = [name for name in one.columns if name != "size"]
    by = ["age", "grade", "city"]
    pd.testing.assert_frame_equal(
        one[rest].sort_values(by, ignore_index=True, kind="stable")[by],
        other[rest].sort_values(by, ignore_index=True, kind="stable")[by],
    )
    assert abs(one["size"].value_counts() - other["size"].value_counts()).sum() <= 2


@methods
def test_a_missing_secret_fails_closed(method: type[Randomizer]) -> None:
    with pytest.raises(SecretError, match="need a secret, and none was given"):
        method(randomness="memoised").release(people(), SCHEMA, np.random.default_rng())


@methods
def test_a_changed_secret_is_refused_unless_asked_for(method: type[Randomizer]) -> None:
    last = memoised(method, people()).manifest()["randomization"]["secret"]
    made = method(randomness="memoised")
    made.with_secret(Secret(KEY), last)
    with pytest.raises(SecretError, match="Restore the old secret"):
        made.with_secret(Secret(bytes(32)), last)
    made.with_secret(Secret(bytes(32)))


@methods
def test_a_secret_is_refused_where_nothing_is_memoised(method: type[Randomizer]) -> None:
    with pytest.raises(ValueError, match="randomness must be memoised"):
        method().with_secret(Secret(KEY))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign(id="x"), "id: 299 values occur more than once"),
        (lambda t: t.assign(id=t["id"].where(t["age"] > 30)), r"id: \d+ values are null"),
    ],
)
def test_individuals_must_be_known_and_different(spoil, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        memoised(ERRPH, spoil(people()))
    assert "person" not in str(caught.value)


def test_memoised_answers_need_an_identifier() -> None:
    made = ERRPH(randomness="memoised").with_secret(Secret(KEY))
    schema = SCHEMA.without_identifiers()
    with pytest.raises(SchemaError, match="identifier that names an individual"):
        made.release(people().drop(columns="id"), schema, np.random.default_rng())


def averaged(releases: list[pd.DataFrame]) -> pd.Series:
    """What an attacker who can link a person's answers takes for the true value: the commonest one."""
    answers = pd.concat([r.set_index("account")["disease"] for r in releases], axis=1)
    return answers.mode(axis=1)[0]


@pytest.mark.parametrize(("randomness", "succeeds"), [("system", True), ("memoised", False)])
def test_averaging_over_fifty_releases_works_without_memoised_answers_only(
    randomness: str, succeeds: bool
) -> None:
    # A column released as it is lets the attacker link. Fresh answers: a wrong majority of 50 at p_0 = 0.5
    # and k = 4 has a chance below 1e-5 a person, over 1 % of 500 people wrong below 1e-9. Memoised ones: the
    # truth is answered with 0.625; 7 standard deviations around it are 0.47 .. 0.78. They are the same
    # in any number of releases: of ten fresh answers, too, the commonest is nearly always true.
    releases = 50 if succeeds else 10
    n, rng = 500, np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "account": np.arange(n),
            "disease": rng.choice(["flu", "gout", "cold", "none"], n),
        }
    )
    schema = DataSchema.from_dict(
        {
            "id": {"role": "identifier"},
            "account": {"kind": "numeric"},
            "disease": {"role": "sensitive", "categories": ["flu", "gout", "cold", "none"]},
        }
    )
    made = ERRPH(p_0=0.5, randomness=randomness)
    method = made.with_secret(Secret(KEY)) if randomness == "memoised" else made
    guessed = averaged([method.release(table, schema, rng).table for _ in range(releases)])
    right = float((guessed.loc[np.arange(n)].to_numpy() == table["disease"].to_numpy()).mean())
    assert right > 0.99 if succeeds else 0.47 < right < 0.78


# Bad input


@pytest.mark.parametrize(
    ("method", "bad", "message"),
    [
        (ERRPH, {"p_0": 0.0}, r"p_0 must be in \(0, 1\)"),
        (ERRPH, {"p_0": 1.0}, r"p_0 must be in \(0, 1\)"),
        (ERRPH, {"p_0": -0.1}, r"p_0 must be in \(0, 1\)"),
        (ERRPH, {"p_0": 0.5, "epsilon": 1.0}, "p_0 or epsilon, not both"),
        (ERRPH, {"epsilon": 0.0}, "epsilon must be > 0"),
        (ERRPH, {"p_0": 0.5, "probabilities": {"size": {"S": 0.1, "M": 0.1, "L": 0.1}}}, "sum to 1"),
        (ERRPH, {"p_0": 0.5, "probabilities": {"size": {"S": 0.5, "M": 0.1, "L": -0.1}}}, "> 0"),
        (ERRPH, {"epsilon": 1.0, "probabilities": {"size": {"S": 0.5}}}, "with p_0, not with epsilon"),
        (TRR, {"a_mean": 0.0}, "a_mean must not be 0"),
        (TRR, {"p_0": 1.5}, r"p_0 must be in \(0, 1\)"),
        (TRR, {"a_variance": -1.0}, ">= 0"),
        (LocalLaplace, {"epsilon": -1.0}, "epsilon must be > 0"),
        (LocalLaplace, {"steps": 0}, "steps must be a whole number"),
        (LocalLaplace, {"steps": 2.5}, "steps must be a whole number"),
        (LocalLaplace, {"randomness": "dice"}, "randomness must be one of"),
    ],
)
def test_a_bad_parameter_is_refused_at_construction(method, bad: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(**bad)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": {"role": "sensitive"}}, "no public domain"),
        ({"age": {"role": "sensitive", "kind": "numeric"}}, "age.*(bounds|public domain)"),
        ({"size": {"role": "sensitive", "categories": ["S"]}}, "2 to 512 public values"),
        (
            {"age": {"role": "sensitive", "kind": "numeric", "bounds": [0, 9], "nullable": True}},
            "must not be nullable",
        ),
        ({"size": {}}, "quasi-identifier or sensitive"),
    ],
)
@pytest.mark.parametrize("method", [ERRPH, LocalLaplace])
def test_a_domain_that_is_not_public_is_refused_without_data(
    method: type[Randomizer], fields: dict[str, dict[str, object]], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        method().privacy_loss(DataSchema.from_dict(fields))


@methods
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.assign(size="secret"), "size: the categories miss 1 distinct value in 300 rows"),
        (lambda t: t.assign(city="secret"), "city: the hierarchy misses 1 distinct value"),
        (lambda t: t.assign(age=t["age"] + 60), r"age: \d+ values are out of the bounds"),
        (lambda t: t.iloc[:0], "empty"),
    ],
    ids=["category", "hierarchy", "bounds", "empty"],
)
def test_a_value_outside_the_public_domain_is_refused_without_showing_it(
    method: type[Randomizer], spoil, message: str
) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        method().release(spoil(people()), SCHEMA, np.random.default_rng())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shoe": {"S": 0.25, "M": 0.25}}, r"\['shoe'\], which the schema does not randomize"),
        ({"size": {"S": 0.25, "XL": 0.25}}, "must name its public values: 3 differ"),
    ],
)
def test_probabilities_must_fit_the_schema(given: dict[str, dict[str, float]], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        ERRPH(p_0=0.5, probabilities=given).privacy_loss(SCHEMA)


@methods
def test_parameters_are_frozen_keyword_only_with_defaults(method: type[Randomizer]) -> None:
    assert all(f.kw_only for f in dataclasses.fields(method))
    assert method(**parameters_of(method())) == method()
    with pytest.raises(dataclasses.FrozenInstanceError):
        method().randomness = "seeded"


# What anybody can learn of one value


@cache
def answers_to_neighbours(name: str, n: int = 60_000) -> list[npt.NDArray[np.int64]]:
    """How often a method gives each answer to either of two neighbouring values, once for all claims."""
    schema = SCHEMA.select(["id", "grade"])
    counts = []
    for grade in (1, 6):
        table = pd.DataFrame({"id": np.arange(n), "grade": grade})
        released = AUDITED[name].release(table, schema, np.random.default_rng()).table["grade"]
        counts.append(np.bincount(released, minlength=7)[1:])
    return counts


def exceeded(name: str, epsilon: float) -> bool:
    """Whether two neighbouring values are distinguished better than e^epsilon, by over 7 standard errors."""
    one, other = answers_to_neighbours(name)
    often = (one > 50) & (other > 50)
    error = np.sqrt(1 / one[often] + 1 / other[often])
    return bool((np.abs(np.log(one[often] / other[often])) > epsilon + 7 * error).any())


AUDITED = {
    "errph": ERRPH(epsilon=1.5),
    "errph memoised": ERRPH(epsilon=1.5, randomness="memoised").with_secret(Secret(KEY)),
    "laplace": LocalLaplace(epsilon=1.5),
    "laplace memoised": LocalLaplace(epsilon=1.5, randomness="memoised").with_secret(Secret(KEY)),
}


@pytest.mark.parametrize("name", AUDITED)
def test_two_values_are_distinguished_by_no_more_than_epsilon(name: str) -> None:
    # Six ratios at 7 standard errors: false alarm < 2e-11.
    assert not exceeded(name, 1.5)


@pytest.mark.parametrize("name", AUDITED)
def test_the_audit_finds_a_claim_that_is_too_small(name: str) -> None:
    # Positive control: at 1.2 the excess of the largest ratio is over 10 standard errors.
    assert exceeded(name, 1.2)


# Bookkeeping


def findings(
    release: RandomizedRelease, claim: float, booked: PrivacyLoss | None, schema: DataSchema | None = None
) -> list[bool]:
    manifest = Randomization.of_manifest(json.loads(json.dumps(release.manifest())))
    loss = PrivacyLoss(epsilon=claim, neighbours="replace_one")
    return [f.passed for f in check_randomization(loss, manifest, schema or release.schema, booked)]


def test_a_claim_is_compared_with_probabilities_ledger_schema_and_source_of_bits() -> None:
    booked = PrivacyLoss(epsilon=2.0, neighbours="replace_one")
    release = ERRPH(epsilon=2.0).release(people(), SCHEMA, np.random.default_rng())
    assert findings(release, 2.0, booked) == [True] * 4
    assert findings(release, 1.9, booked) == [False, True, True, True]
    assert findings(release, 2.0, None) == [True, False, True, True]
    assert findings(release, 2.1, booked) == [True, False, True, True]
    other = PrivacyLoss(epsilon=9.0, neighbours="add_remove")
    assert findings(release, 2.0, other) == [True, False, True, True]
    more = DataSchema.from_dict({**SCHEMA.to_dict(), "shoe": {}})
    assert findings(release, 2.0, booked, more) == [True, True, False, True]
    assert findings(seeded(ERRPH(epsilon=2.0)), 2.0, booked) == [True, True, True, False]
    transformed = TRR().release(people(), SCHEMA, np.random.default_rng())
    assert findings(transformed, 2.0, booked)[0] is False
