"""Policies: what they say, round trips, and errors that name the field."""

import json
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.errors import SpecError
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, MInvariance
from privacy_engine.verification.models import BetaLikeness, DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.model import Republication

limits = st.none() | st.floats(0, 10) | st.integers(0, 3)
policies = st.builds(
    ReleasePolicy,
    require=st.lists(
        st.sampled_from(
            [
                KAnonymity(k=5),
                DistinctLDiversity(l=2, attribute="disease"),
                TCloseness(t=0.3, distance="ordered"),
                BetaLikeness(beta=1, enhanced=True),
            ]
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
    max_suppressed=limits,
    max_gcp=limits,
    max_distorted=limits,
    max_epsilon=limits,
    max_delta=limits,
)


@given(policies)
def test_a_policy_survives_round_trips_through_json_and_yaml(policy: ReleasePolicy) -> None:
    assert ReleasePolicy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    assert ReleasePolicy.from_yaml(yaml.safe_dump(policy.to_dict())) == policy


def test_yaml_names_models_and_limits() -> None:
    policy = ReleasePolicy.from_yaml(
        """
        require:
          - {model: k_anonymity, k: 10}
          - {model: t_closeness, t: 0.3, distance: hierarchical, attribute: disease}
        max_suppressed: 0.05
        """
    )
    assert policy == ReleasePolicy(
        require=(KAnonymity(k=10), TCloseness(t=0.3, distance="hierarchical", attribute="disease")),
        max_suppressed=0.05,
    )


@pytest.mark.parametrize("text", ["{}", "require: []", "max_gcp: 0.5", "require:\nmax_suppressed: 0"])
def test_a_policy_that_would_let_everything_through_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="at least one model, an epsilon"):
        ReleasePolicy.from_yaml(text)


def test_a_largest_epsilon_is_policy_enough() -> None:
    assert ReleasePolicy.from_yaml("max_epsilon: 1").require == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a mapping"),
        ("- k_anonymity", "must be a mapping"),
        ("requires: []", r"unknown fields \['requires'\]; known are \['require', 'kinds', 'max_suppressed'"),
        ("require: k_anonymity", "require must be a list"),
        ("require: {model: k_anonymity, k: 5}", "require must be a list"),
        ("require: [k_anonymity]", r"require\[0\]: .* must be a mapping with `model`"),
        ("require: [{model: k_anonymity, k: 5}, {model: k}]", r"require\[1\]: model must be one of"),
        ("require: [{k: 5}]", r"require\[0\]: model must be one of"),
        ("require: [{model: k_anonymity}]", r"require\[0\]: model k_anonymity: missing .* 'k'"),
        ("require: [{model: k_anonymity, k: 5, kk: 3}]", r"require\[0\]: model k_anonymity: .* 'kk'"),
        ("require: [{model: k_anonymity, k: 1}]", r"require\[0\]: k must be >= 2, got 1"),
        ("require: [{model: k_anonymity, k: five}]", r"require\[0\]: k must be >= 2"),
        ("require: [{model: t_closeness, t: 0.1, distance: far}]", r"require\[0\]: distance must be one of"),
        ("max_epsilon: -1", "max_epsilon must be a finite number >= 0"),
        ("max_epsilon: .inf", "max_epsilon must be a finite number >= 0"),
        ("max_epsilon: .nan", "max_epsilon must be a finite number >= 0"),
        ("max_epsilon: yes", "max_epsilon must be a finite number >= 0"),
        ("{max_epsilon: 1, max_gcp: '0.5'}", "max_gcp must be a finite number >= 0"),
        ("require: [", "not valid YAML"),
    ],
)
def test_a_wrong_policy_is_a_spec_error_that_names_the_field(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        ReleasePolicy.from_yaml(text)


def test_limits_are_checked_however_the_policy_is_made() -> None:
    with pytest.raises(SpecError, match="max_delta"):
        ReleasePolicy(require=(KAnonymity(k=2),), max_delta=math.nan)


@pytest.mark.parametrize(
    ("own", "floor", "both"),
    [
        (None, None, None),
        ("any", None, "any"),
        (None, "release", "release"),
        ("any", "forbid", "forbid"),
        ("forbid", "release", "forbid"),
        ("release", "any", "release"),
        ("release", "random", "random"),
        ("random", "forbid", "forbid"),
    ],
)
def test_of_two_rules_on_pseudonyms_the_stricter_holds(
    own: str | None, floor: str | None, both: str | None
) -> None:
    policies = [ReleasePolicy(require=(KAnonymity(k=2),), pseudonyms=given) for given in (own, floor)]
    joined = policies[0].with_floor(policies[1])
    assert joined.pseudonyms == both
    assert ReleasePolicy.from_dict(joined.to_dict()) == joined
    weaker = {("any", "forbid"), ("any", "release"), ("release", "forbid")}
    weaker |= {("release", "random"), ("random", "forbid")}
    assert bool(policies[0].weaker_than(policies[1])) is ((own, floor) in weaker)


def test_a_misspelt_rule_on_pseudonyms_is_refused() -> None:
    with pytest.raises(SpecError, match="pseudonyms must be one of forbid, random, release, any"):
        ReleasePolicy(require=(KAnonymity(k=2),), pseudonyms="never")


@pytest.mark.parametrize(
    ("own", "floor", "both"),
    [
        (None, None, None),
        ("allow", None, "allow"),
        (None, "history", "history"),
        ("allow", "history", "history"),
    ],
)
def test_of_two_rules_on_repeated_people_the_stricter_holds(
    own: str | None, floor: str | None, both: str | None
) -> None:
    policies = [ReleasePolicy(require=(KAnonymity(k=2),), repeated_people=given) for given in (own, floor)]
    joined = policies[0].with_floor(policies[1])
    assert joined.repeated_people == both
    assert joined.about_earlier is (both == "history")
    assert ReleasePolicy.from_dict(joined.to_dict()) == joined
    assert bool(policies[0].weaker_than(policies[1])) is ((own, floor) == ("allow", "history"))


def test_repeated_people_are_kept_by_the_numbers_of_each_release_unless_a_model_is_named() -> None:
    of_each = (KAnonymity(k=4), DistinctLDiversity(l=3, attribute="illness"))
    policy = ReleasePolicy(require=of_each, repeated_people="history")
    assert policy.across_people == (Republication(k=4, m=3, attribute="illness"),)
    assert ReleasePolicy(require=of_each).across_people == ()
    named = CrossReleaseKAnonymity(k=9, departures="unknown")  # type: ignore[arg-type]
    named_policy = ReleasePolicy(require=of_each, across=(named,), repeated_people="history")
    assert named_policy.across_people == (named, MInvariance(m=3, attribute="illness"))
    of_values = ReleasePolicy(require=of_each[1:], repeated_people="history")
    assert of_values.across_people == (Republication(k=2, m=3, attribute="illness"),)


def test_a_misspelt_rule_on_repeated_people_is_refused() -> None:
    with pytest.raises(SpecError, match="repeated_people must be one of history, allow"):
        ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 2}], "repeated_people": True})


def test_what_a_policy_demands_across_releases_goes_before_what_its_models_imply() -> None:
    requested = [
        {"model": "k_anonymity", "k": 5},
        {"model": "k_anonymity", "k": 10},
        {"model": "distinct_l_diversity", "l": 3, "attribute": "disease"},
        {"model": "distinct_l_diversity", "l": 2, "attribute": "ward"},
        {"model": "t_closeness", "t": 0.3},
    ]
    said = [
        {"model": "cross_release_k_anonymity", "k": 4},
        {"model": "m_invariance", "m": 2, "attribute": "ward"},
    ]
    implied = ReleasePolicy.from_dict({"require": requested}).across_of_each
    assert implied == (
        CrossReleaseKAnonymity(k=10),
        MInvariance(m=3, attribute="disease"),
        MInvariance(m=2, attribute="ward"),
    )
    assert ReleasePolicy.from_dict({"require": requested}).across_known == (
        Republication(k=10, m=3, attribute="disease"),
        Republication(k=10, m=2, attribute="ward"),
    )
    assert ReleasePolicy.from_dict({"require": requested + said}).across_known == (
        CrossReleaseKAnonymity(k=4),
        MInvariance(m=2, attribute="ward"),
        MInvariance(m=3, attribute="disease"),
    )


def test_a_limit_is_weaker_than_a_floor_of_nothing_at_all() -> None:
    own, floor = (ReleasePolicy(require=(KAnonymity(k=5),), max_suppressed=most) for most in (0.1, 0.0))
    assert own.weaker_than(floor) == ["max_suppressed 0.1 is weaker than max_suppressed 0.0"]
    assert floor.weaker_than(own) == []


def test_only_the_kinds_that_a_floor_allows_too_remain() -> None:
    own, floor, other = (
        ReleasePolicy.from_dict({"max_epsilon": 1, **({"kinds": kinds} if kinds else {})})
        for kinds in (["anonymized", "synthetic"], ["synthetic", "randomized"], ["structure"])
    )
    assert own.with_floor(floor).kinds == floor.with_floor(own).kinds == ("synthetic",)
    assert own.with_floor(ReleasePolicy(max_epsilon=1)).kinds == own.kinds
    assert ReleasePolicy(max_epsilon=1).with_floor(own).kinds == own.kinds
    assert own.weaker_than(floor) == ["kinds: anonymized must be among synthetic, randomized"]
    with pytest.raises(SpecError, match="must have one of those of the floor policy, structure"):
        own.with_floor(other)


def test_a_floor_adds_its_models_across_releases() -> None:
    own, floor = (
        ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}, *more]})
        for more in ([], [{"model": "cross_release_k_anonymity", "k": 3}, {"model": "m_invariance", "m": 2}])
    )
    assert own.with_floor(floor).across == floor.with_floor(own).across == floor.across
    assert len(floor.across) == 2
