"""Each rule by the facts that it needs, and nothing else; that entry points judge it is tested with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from deploy.local.embedded import checkout
from privacy_engine.dp.loss import PrivacyLoss
from privacy_engine.errors import (
    BudgetExceededError,
    Problem,
    ProblemsError,
    SpecError,
    VerificationError,
)
from privacy_engine.registry import load_method
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.direct_identifiers import Signature
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, MInvariance
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity, TCloseness
from privacy_engine.verification.policy import ReleasePolicy
from privacy_engine.verification.republication.model import Republication
from privacy_engine.vocabulary import Meaning, PublishMode, ReleaseKind
from privacy_release.spec.classification import read_classification
from privacy_release.spec.floor import Floor
from privacy_release.spec.rules.facts import NAMES, UNKNOWN, Declared, Facts, HistoryFacts, Promised, group_of
from privacy_release.spec.rules.judge import RULES, judged, refuse
from privacy_release.spec.sections.alerts import AlertsSpec


@dataclass(frozen=True, kw_only=True)
class Column:
    """What rules look at of a column."""

    role: str = "quasi_identifier"
    pseudonym: Any = None
    derive: Any = None
    shift: Any = None
    categories: Any = None
    bounds: Any = None
    hierarchy: Any = None
    scale: Any = None


@dataclass(frozen=True)
class Pseudonym:
    """Of a column."""

    scope: str = "release"


@dataclass(frozen=True, kw_only=True)
class Read:
    """Where a table is read."""

    uri: str | None = "stays.parquet"
    format: str = "parquet"
    when_missing: str = "fail"


@dataclass(frozen=True, kw_only=True)
class Table:
    """One of several tables."""

    source: Read = Read()
    person: str | None = None
    attributes: Mapping[str, Column] = field(default_factory=lambda: {"name": Column(role="identifier")})


class Forbidden:
    """A fact that a rule did not ask for: any use of it fails the test."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a fact that the rule does not name among its needs")

    __bool__ = __iter__ = __len__ = __eq__ = __contains__ = __hash__ = __getattribute__  # type: ignore[assignment]


def refused(_: PrivacyLoss) -> None:
    raise SpecError("budget.promise: it is no part of the promise")


NAME, AGE, ILLNESS = Column(role="identifier"), Column(), Column(role="sensitive")
BOUNDED = Column(bounds=(0, 120))
READ = {"name": NAME, "age": AGE, "illness": ILLNESS}
COLUMNS = tuple(READ.items())
STAYS = {"stays": Table()}
SCHEMA = DataSchema.from_dict(
    {
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]},
        "illness": {"role": "sensitive", "kind": "categorical", "categories": ["flu", "none"]},
    }
)
LOSS = PrivacyLoss(epsilon=1.0, neighbours="replace_one")
MONDRIAN, LATENT = load_method("mondrian", k=5), load_method("latent_class")
PEOPLE, YEARLY = (Promised(regime=regime) for regime in ("participation", "yearly"))
FLOOR = Floor(
    path=Path("/etc/floor.yaml"),
    sha256="0",
    policy=ReleasePolicy(require=(KAnonymity(k=10),)),
    approval=True,
    signed=True,
)
CLASSES = "columns: {illness: quasi_identifier, age: quasi_identifier}"


def policy(**fields: Any) -> ReleasePolicy:
    return ReleasePolicy.from_dict({"require": [{"model": "k_anonymity", "k": 5}], **fields})


def attack(name: str, **more: Any) -> ReleasePolicy:
    requested = {"model": "attack_risk", "attack": name, "excess": 0.5, **more}
    return policy(require=[{"model": "k_anonymity", "k": 5}, requested])


# id of a rule -> facts that break it, the change that fixes it, and words of the problem
CASES: Mapping[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "tables.beside": (
        {"described": STAYS, "sections": ["history"]},
        {"sections": []},
        "tables cannot be combined with history",
    ),
    "structure.records": (
        {
            "kind": ReleaseKind.STRUCTURE,
            "sections": ["source", "schema", "budget"],
            "described": {},
            "engine": "local",
            "register": None,
        },
        {"sections": ["source", "schema", "transform"]},
        "budget cannot be combined with the method structure",
    ),
    "tables.method": (
        {"described": STAYS, "method": "mondrian", "engine": "fragments"},
        {"engine": "local"},
        "by an anonymizer with the engine local",
    ),
    "tables.person": (
        {"described": STAYS, "person": "name", "independent": True},
        {"independent": False},
        "remove rows: independent",
    ),
    "tables.sources": (
        {"described": {"stays": Table(source=Read(format="delta"))}},
        {"described": STAYS},
        "tables.stays.source must be Parquet files",
    ),
    "tables.columns": (
        {"described": STAYS, "person": "patient"},
        {"person": "name"},
        "tables.stays.schema must have the column patient with the role identifier",
    ),
    "person.identifier": (
        {"read": READ, "person": "nane", "tables": ()},
        {"person": "name"},
        r"role identifier, got 'nane' \(did you mean name\?",
    ),
    "person.linked": (
        {"linked": True, "method": "mondrian", "history": HistoryFacts(), "engine": "local"},
        {"history": None},
        "cannot be linked with history",
    ),
    "person.answers": (
        {"person": "name", "method": "trr"},
        {"method": "mondrian"},
        "cannot be combined with random answers",
    ),
    "person.bounded": (
        {"person": "name", "budget": True, "method": "latent_class", "parameters": {"max_rows": None}},
        {"parameters": {"max_rows": 3}},
        "add `max_rows: m` or `weight: person`",
    ),
    "person.history": (
        {"person": "name", "history": HistoryFacts(), "identifier": "name"},
        {"identifier": "visit"},
        "if each person has one record, remove person",
    ),
    "person.subtracted": (
        {"person": "name", "history": HistoryFacts(), "policy": ReleasePolicy(require=(KAnonymity(k=2),))},
        {"policy": ReleasePolicy(across=(Republication(k=2),))},
        "aggregate the source to one row per person",
    ),
    "person.register": (
        {"person": "name", "history": HistoryFacts(), "register_identifier": "name"},
        {"register_identifier": None},
        "remove the register's",
    ),
    "person.numbered": (
        {"person": "name", "history": HistoryFacts(), "numbered": False},
        {"numbered": True},
        "remove transforms",
    ),
    "person.transformed": (
        {"person": "name", "history": HistoryFacts(), "transformed": True},
        {"transformed": False},
        "make the columns in the source",
    ),
    "history.identifier": (
        {"history": HistoryFacts(), "identifier": "age", "read": READ},
        {"identifier": "name"},
        "history.identifier must be a column of schema with the role identifier",
    ),
    "history.m": (
        {"history": HistoryFacts(m={"ilness": 2}), "columns": COLUMNS},
        {"history": HistoryFacts(m={"illness": 2})},
        r"'ilness' \(did you mean illness\?",
    ),
    "history.method": (
        {"history": HistoryFacts(), "method": "latent_class"},
        {"method": "mondrian"},
        "they make no classes",
    ),
    "history.followed": (
        {"history": HistoryFacts(), "followed": False},
        {"followed": True},
        "needs to know whose records they are",
    ),
    "history.differences": (
        {
            "history": HistoryFacts(),
            "policy": ReleasePolicy(across=(Republication(k=2),)),
            "method": "rfka",
        },
        {"method": "mondrian"},
        "release.method must be one of bottom_up, ilp_l_diversity, mondrian, obpa, got rfka",
    ),
    "history.unique": (
        {
            "history": HistoryFacts(k=5),
            "policy": ReleasePolicy(across=(MInvariance(m=2, unique=True),)),
            "columns": (*COLUMNS, ("drug", Column(role="sensitive"))),
            "parameters": {},
        },
        {"columns": COLUMNS},
        "must be of one sensitive attribute",
    ),
    "history.fragments": (
        {
            "engine": "fragments",
            "history": HistoryFacts(),
            "policy": ReleasePolicy(across=(Republication(k=2),)),
            "person": None,
            "parameters": {"require": [{"model": "t_closeness", "t": 0.2}]},
        },
        {"parameters": {}},
        "history with engine fragments cannot be combined with t_closeness, which compares with all records",
    ),
    "engine.method": (
        {"engine": "spark", "method": "mondrian", "history": HistoryFacts()},
        {"history": None},
        "engine local",
    ),
    "pseudonyms.method": (
        {"columns": (("name", Column(role="identifier", pseudonym=Pseudonym())),), "method": "latent_class"},
        {"method": "mondrian"},
        "they would reveal about each person what these hide",
    ),
    "pseudonyms.person": (
        {"read": {"name": Column(role="identifier", pseudonym=Pseudonym())}, "person": "name", "tables": ()},
        {"person": None},
        "person must have no pseudonym",
    ),
    "columns.bounds": (
        {
            "columns": (("age", AGE), ("age_from", AGE)),
            "spanned": ["age"],
            "method": "mondrian",
            "parameters": {},
        },
        {"parameters": {"intervals": "text"}},
        "'age_from' has the name of a bound of 'age'",
    ),
    "columns.domains": (
        {"columns": (("age", AGE), ("town", BOUNDED)), "method": "privbayes"},
        {"columns": (("name", NAME), ("town", BOUNDED))},
        r"attributes \['age'\] have no public domain.*give each categories, bounds",
    ),
    "columns.scale": (
        {"columns": (("pay", Column(scale="log")),), "method": "mondrian"},
        {"method": "latent_class"},
        "scale: log applies only to synthesizers",
    ),
    "columns.names": (
        {
            "columns": (("sf_gsp", Column(role="insensitive")), ("SF_GSP", Column(role="insensitive"))),
            "spanned": [],
            "method": "mondrian",
            "parameters": {},
            "linked": False,
            "person": None,
        },
        {"columns": (("sf_gsp", Column(role="insensitive")), ("SF_GSP", Column(role="identifier")))},
        "columns 'sf_gsp', 'SF_GSP' must differ in more than case",
    ),
    "columns.transform": (
        {"read": {"name": NAME, "_Record": AGE}, "transformed": True},
        {"transformed": False},
        "'_Record' must not have a reserved name",
    ),
    "columns.types": (
        {"kept_types": {"cost": "int64"}, "made_types": {"cost": "double", "age": "int64"}},
        {"kept_types": {}},
        r"got cost \(int64 in the table, double here\); cast them at the source",
    ),
    "columns.policy": (
        {"schema": SCHEMA, "policy": policy(columns={"roles": ["quasi_identifier"]})},
        {"policy": policy()},
        "illness",
    ),
    "columns.free_text": (
        {
            "columns": [("note", Attribute(name="note", meaning=Meaning.OTHER))],
            "policy": policy(columns={"no_free_text": True}),
        },
        {"columns": [("note", Attribute(name="note", free_text=Signature(signed_by="Jo", reason="terms")))]},
        "note must meet no_free_text",
    ),
    "register.columns": (
        {"register": ["illness"], "read": READ, "tables": (), "transformed": False},
        {"register": ["age"]},
        "must be distinct quasi-identifiers",
    ),
    "budget.loss": (
        {"budget": True, "method": "mondrian", "stated": ["k"]},
        {"budget": False},
        "release.epsilon requires a budget",
    ),
    "budget.none": (
        {"releaser": LATENT, "loss": LOSS, "budget": False},
        {"budget": True},
        "must name the budget that it spends",
    ),
    "budget.nulls": ({"budget": True, "nulls": "drop"}, {"nulls": "keep"}, "nulls must be fail or keep"),
    "budget.dropped": ({"budget": True, "dropped": 1}, {"dropped": 0}, "nulls must not be dropped"),
    "budget.types": ({"budget": True, "guessed": True}, {"guessed": False}, "must follow from the schema"),
    "budget.outliers": (
        {"budget": True, "outliers": ["suppress"]},
        {"outliers": ["report"]},
        "does not cover the choice of the outliers",
    ),
    "budget.looking": (
        {"method": "latent_class", "looking": ["top"]},
        {"method": "mondrian"},
        "the step top must make one record from each record",
    ),
    "promise.method": (
        {"promise": YEARLY, "method": "errph"},
        {"method": "latent_class"},
        "cannot hide who takes part",
    ),
    "promise.loss": ({"promise_for": refused, "loss": LOSS}, {"promise_for": None}, "no part of the promise"),
    "promise.person": (
        {"promise": PEOPLE, "person": None},
        {"promise": YEARLY},
        "budget.promise requires a person",
    ),
    "promise.engine": (
        {"promise": PEOPLE, "engine": "spark"},
        {"engine": "local"},
        "cannot be combined with engine spark",
    ),
    "promise.transform": (
        {"promise": PEOPLE, "transformed": True},
        {"transformed": False},
        "cannot be combined with a transform",
    ),
    "promise.numbered": ({"promise": PEOPLE, "numbered": False}, {"numbered": True}, "the same number"),
    "answers.schedule": (
        {"method": "trr", "parameters": {}, "schedule": True},
        {"parameters": {"randomness": "memoised"}},
        "must be memoised on a schedule",
    ),
    "answers.individual": (
        {"method": "trr", "parameters": {"randomness": "memoised"}, "read": {"age": AGE}},
        {"read": READ},
        "a single identifier by which answers are memoised",
    ),
    "alerts.budget": (
        {"alerts_of_budget": True, "budget": False},
        {"budget": True},
        "alerts.budget requires",
    ),
    "alerts.figures": (
        {"alerts": ["gcp_lca"], "method": "latent_class"},
        {"alerts": ["rows"]},
        "alerts.gcp_lca cannot be combined with latent_class",
    ),
    "ledger.budget": ({"shortage": "people cannot pay"}, {"shortage": None}, "people cannot pay"),
    "ledger.restored": (
        {"restored": True},
        {"restored": False},
        "but lacks one: it was replaced by an old copy",
    ),
    "policy.floor": (
        {"own_policy": (policy(), "policies/own.yaml"), "floor": FLOOR},
        {"floor": None},
        r"policies/own.yaml: k_anonymity\(k=5\) is weaker than k_anonymity\(k=10\)",
    ),
    "policy.kinds": (
        {"kind": ReleaseKind.ANONYMIZED, "policy": policy(kinds=["structure", "synthetic"])},
        {"kind": ReleaseKind.SYNTHETIC},
        "policy allows synthetic, structure releases, got a method for anonymized ones",
    ),
    "policy.attributes": (
        {
            "columns": COLUMNS,
            "policy": ReleasePolicy(require=(DistinctLDiversity(l=2, attribute="ilness"),)),
        },
        {"policy": ReleasePolicy(require=(DistinctLDiversity(l=2, attribute="illness"),))},
        r"schema has \['illness'\] \(did you mean illness\?",
    ),
    "policy.distances": (
        {
            "columns": tuple((a.name, a) for a in SCHEMA.attributes),
            "policy": ReleasePolicy(require=(TCloseness(t=0.3, distance="ordered"),)),
        },
        {"policy": ReleasePolicy(require=(TCloseness(t=0.3),))},
        "by the distance `ordered` requires values with",
    ),
    "policy.pseudonyms": (
        {
            "columns": (("name", Column(role="identifier", pseudonym=Pseudonym())),),
            "linked": False,
            "person": None,
            "policy": policy(pseudonyms="forbid"),
        },
        {"policy": policy()},
        "must meet `pseudonyms: forbid`",
    ),
    "policy.promises": (
        {
            "releaser": MONDRIAN,
            "schema": SCHEMA,
            "policy": policy(require=[{"model": "k_anonymity", "k": 6}]),
        },
        {"policy": policy()},
        "verification would refuse it",
    ),
    "policy.repeated_people": (
        {"schedule": True, "unfollowed": ["name"], "policy": policy(repeated_people="history")},
        {"schedule": False},
        "history must be declared for a schedule with name",
    ),
    "publish.append": (
        {"publish_mode": PublishMode.APPEND, "history": None, "unfollowed": (), "policy": policy()},
        {"publish_mode": PublishMode.SNAPSHOT},
        "publish.mode: append",
    ),
    "floor.approval": ({"approval": False, "floor": FLOOR}, {"approval": True}, "approval.required must be"),
    "floor.signature": ({"signed": False, "floor": FLOOR}, {"signed": True}, "requires signed releases"),
    "lake.unjudged": (
        {"history": HistoryFacts(), "unjudged": 2},
        {"history": HistoryFacts(accept_unjudged="a pilot of 20 people")},
        "2 earlier releases of the table were made before",
    ),
    "lake.earlier": ({"earlier": "has 1 earlier releases"}, {"earlier": None}, "1 earlier releases"),
    "attacks.register": (
        {"register": ["age"], "register_identifier": None, "policy": policy()},
        {"policy": attack("linkage")},
        "must be used by the policy or the floor policy: by attack_risk of linkage",
    ),
    "attacks.population": (
        {"register_identifier": "name", "history": HistoryFacts(), "identifier": "id"},
        {"identifier": "name"},
        "must be the column that history.identifier names",
    ),
    "attacks.table": (
        {"policy": attack("inference"), "engine": "spark", "linked": False},
        {"engine": "local"},
        "cannot be tried with an engine",
    ),
    "attacks.intersection": (
        {"policy": attack("intersection"), "history": None},
        {"history": HistoryFacts()},
        "for attack_risk of intersection: otherwise",
    ),
    "attacks.shadows": (
        {
            "policy": attack("membership", shadows=16),
            "history": HistoryFacts(keep=True),
            "promise": None,
        },
        {"history": HistoryFacts(keep=False)},
        "a shadow release has none",
    ),
    "attacks.minimality": (
        {"policy": attack("minimality"), "method": "latent_class"},
        {"policy": policy()},
        "makes no classes that it could reverse",
    ),
    "source.places": (
        {"addresses": ["ftp://host/people.parquet"]},
        {"addresses": ["/data/people.parquet"]},
        "must be a path, or begin with",
    ),
    "source.classes": (
        {
            "classes": CLASSES,
            "declared": (Declared(place="/data/a.parquet", connection=None, schema=SCHEMA, made=None),),
        },
        {"declared": ()},
        "illness",
    ),
    "approval.users": (
        {"assigned": ["anne"], "users": frozenset({"ann"})},
        {"assigned": ["ann"]},
        r"names anne, which is no user \(did you mean ann\?",
    ),
    "publish.evidence": ({"evidence": True, "signed": False}, {"signed": True}, "needs a key that signs"),
    "schedule.assets": (
        {"upstream": ["people"], "published": frozenset({"peoples"})},
        {"upstream": []},
        r"which no other release publishes \(did you mean peoples\?",
    ),
}


def case(name: str, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    broken, fixed, words = CASES[name]
    if "classes" in broken:
        (file := tmp_path / "classes.yaml").write_text(CLASSES)
        broken = broken | {"classes": read_classification(file)}
    return broken, fixed, words


def test_each_rule_has_a_case() -> None:
    assert list(CASES) == [rule.id for rule in RULES]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_finds_what_it_is_about_by_the_facts_that_it_names(rule: Any, tmp_path: Path) -> None:
    broken, fixed, words = case(rule.id, tmp_path)
    assert set(broken) == set(rule.needs)
    others: dict[str, Any] = {name: Forbidden() for name in NAMES if name not in rule.needs}
    with pytest.raises(ProblemsError, match=words):
        raise ProblemsError(rule.problems(Facts(**others, **broken)))
    assert list(rule.problems(Facts(**others, **broken | fixed))) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_judged_where_its_facts_are_known_and_reported_where_not(rule: Any, tmp_path: Path) -> None:
    broken, _, words = case(rule.id, tmp_path)
    found = judged(Facts(**broken))
    assert rule.id not in found.unjudged
    with pytest.raises(rule.error, match=words):
        refuse(Facts(**broken))
    for name in rule.needs:
        assert name in judged(Facts(**broken | {name: UNKNOWN})).unjudged[rule.id]


def test_a_fact_that_must_be_known_is_a_problem_where_it_is_not() -> None:
    assert judged(Facts()).problems == ()
    assert len(judged(Facts()).unjudged) == len(RULES)
    with pytest.raises(ProblemsError, match="policy must be given if a budget pays"):
        refuse(Facts(), must=("policy",))
    refuse(Facts(policy=policy()), must=("policy",))


def test_only_figures_that_are_public_anyway_have_limits_if_the_guarantee_hides_the_source() -> None:
    figures = set(AlertsSpec.model_fields) - {"last", "budget"}
    allowed = {name for name in figures if not judged(Facts(alerts=[name], method="latent_class")).problems}
    assert allowed == {"rows", "k", "l", "t", "epsilon"}
    assert not judged(Facts(alerts=sorted(figures), method="mondrian")).problems


@pytest.mark.parametrize("option", [{"departures": "all"}, {"counterfeits": 0.1}])
def test_an_attacker_who_subtracts_meets_no_departures_or_counterfeits(option: dict[str, Any]) -> None:
    known = Facts(policy=ReleasePolicy(across=(Republication(k=2),)), method="mondrian")
    assert not judged(replace(known, history=HistoryFacts())).problems
    (problem,) = judged(replace(known, history=HistoryFacts(**option))).problems
    assert f"history.{next(iter(option))} cannot be combined" in problem.text


def test_another_error_than_of_a_file_is_raised_only_where_nothing_else_is_wrong() -> None:
    unsigned = Facts(signed=False, floor=FLOOR, approval=True)
    with pytest.raises(VerificationError, match="requires signed releases"):
        refuse(unsigned)
    for found in (judged(replace(unsigned, approval=False)), judged(unsigned)):
        with pytest.raises(ProblemsError, match="requires signed releases"):
            found.refuse([Problem(text="and more")])
    with pytest.raises(ProblemsError, match=r"approval\.required must be"):
        refuse(replace(unsigned, approval=False))


@pytest.mark.parametrize(
    ("method", "role", "refused"),
    [
        ("privbayes", "insensitive", True),
        ("errph", "sensitive", True),
        ("errph", "insensitive", False),
        ("mondrian", "sensitive", False),
        ("privbayes", "identifier", False),
    ],
)
def test_a_column_that_a_private_method_measures_needs_a_public_domain(
    method: str, role: str, refused: bool
) -> None:
    found = judged(Facts(columns=[("age", Column(role=role))], method=method)).problems
    assert [problem.path for problem in found] == [("schema", "age")] * refused


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({"table_name": Column()}, "must not have a column table_name"),
        ({"age": Column(pseudonym=Pseudonym())}, "must have no pseudonyms"),
        ({"day": Column(shift="person")}, "must shift no dates"),
    ],
)
def test_columns_that_no_table_of_several_may_have(column: dict[str, Column], expected: str) -> None:
    table = Table(attributes={"name": NAME, **column})
    with pytest.raises(ProblemsError, match=expected):
        refuse(Facts(described={"stays": table}, person="name"))
    with pytest.raises(ProblemsError, match="tables must share a person"):
        refuse(Facts(described=STAYS, person=None, independent=False))


@pytest.mark.parametrize(
    ("history", "others", "parameters", "text"),
    [
        (HistoryFacts(k=4), (), {}, "classes of 4 records .* but schema.illness has 2 categories"),
        (HistoryFacts(m={"illness": 4}), (), {}, "classes of 4 records"),
        (HistoryFacts(), (CrossReleaseKAnonymity(k=4),), {}, "classes of 4 records"),
        (HistoryFacts(), (), {"k": 4}, "classes of 4 records"),
        (HistoryFacts(k=2), (Republication(k=2),), {"k": 2}, "an attacker who subtracts"),
        (HistoryFacts(k=3), (), {"k": 3}, None),  # a null is a value, too
        (HistoryFacts(keep=False), (Republication(k=2),), {"k": 4}, None),
    ],
)
def test_unique_classes_are_as_large_as_there_are_values(
    history: HistoryFacts, others: tuple[Any, ...], parameters: dict[str, int], text: str | None
) -> None:
    column = ("illness", Column(role="sensitive", categories=("flu", "none")))
    unique = ReleasePolicy(across=(MInvariance(m=2, unique=True), *others))
    facts = Facts(
        history=history,
        policy=unique,
        columns=(("age", AGE), column),
        parameters=parameters,
        method="mondrian",
    )
    (rule,) = (rule for rule in RULES if rule.id == "history.unique")
    if text is None:
        assert not list(rule.problems(facts))
    else:
        with pytest.raises(ProblemsError, match=text):
            refuse(facts)


SUBTRACTED = Republication(k=2, m=2)


@pytest.mark.parametrize(
    ("across", "changed", "text"),
    [
        ((SUBTRACTED,), {}, None),
        ((SUBTRACTED,), {"engine": "local", "person": "name"}, None),
        ((), {}, "a policy that names no attacker who subtracts"),
        ((replace(SUBTRACTED, attackers=("identity", "membership")),), {}, "names no attacker who subtracts"),
        ((SUBTRACTED, MInvariance(m=2)), {}, "m_invariance, because classes of two fragments that look the"),
        ((replace(SUBTRACTED, groups=(TCloseness(t=0.2),)),), {}, "t_closeness, which compares with all"),
        ((replace(SUBTRACTED, groups=(DistinctLDiversity(l=2),)),), {}, None),
        (
            (SUBTRACTED,),
            {"parameters": {"require": [{"model": "beta_likeness", "beta": 1}]}},
            "beta_likeness",
        ),
        ((SUBTRACTED,), {"person": "name"}, "the records of a person may be in several fragments"),
    ],
)
def test_fragments_are_followed_where_each_is_safe_by_itself(
    across: tuple[Any, ...], changed: dict[str, Any], text: str | None
) -> None:
    known = {"engine": "fragments", "history": HistoryFacts(), "person": None, "parameters": {}} | changed
    facts = Facts(policy=ReleasePolicy(require=(KAnonymity(k=2),), across=across), **known)
    (rule,) = (rule for rule in RULES if rule.id == "history.fragments")
    if text is None:
        assert not list(rule.problems(facts))
    else:
        with pytest.raises(ProblemsError, match=f"history with engine fragments cannot .*{text}.* or choose"):
            raise ProblemsError(rule.problems(facts))


@pytest.mark.parametrize(
    ("engine", "keep", "text"),
    [
        ("spark", True, "history cannot be combined with engine spark"),
        ("fragments", False, "history.keep: false cannot be combined with engine fragments"),
        ("fragments", True, None),
    ],
)
def test_releases_that_are_only_compared_are_in_one_piece(engine: str, keep: bool, text: str | None) -> None:
    facts = Facts(engine=engine, method="mondrian", history=HistoryFacts(keep=keep))
    found = [problem.text for problem in judged(facts).problems]
    assert len(found) == (text is not None)
    assert all(str(text) in problem for problem in found)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["Release"], "'Release' must not have a reserved name"),
        (["counterfeits"], "'counterfeits' must not have a reserved name"),
        (["__index_level_0__"], "must not have a reserved name"),
        (["a\x00b"], r"'a\\x00b' must have a name without control characters"),
        ([" "], "' ' must have a name"),
        (["n" * 256], "at most 255 characters, got 256"),
        (["age" * 84], "at most 255 characters, got 257"),
        (["age", "Age"], "'age_from', 'Age_from' must differ in more than case"),
    ],
)
def test_names_that_a_release_table_cannot_have(names: list[str], text: str) -> None:
    spanned = [name for name in names if name.casefold().startswith("age")]
    columns = tuple((name, AGE if name in spanned else Column(role="insensitive")) for name in names)
    known = Facts(
        columns=columns, spanned=spanned, method="mondrian", parameters={}, linked=False, person=None
    )
    with pytest.raises(ProblemsError, match=text):
        refuse(known)
    hidden = tuple((name, Column(role="identifier")) for name in names)
    refuse(replace(known, columns=hidden, spanned=[]))


def test_braces_blanks_and_letters_of_any_script_are_names_of_columns() -> None:
    names = ["{{ ds }}", "{% raw", "größe, in m", "年齢", "_change_type", "n" * 255]
    columns = tuple((name, Column(role="insensitive")) for name in names)
    refuse(Facts(columns=columns, spanned=[], method="mondrian", parameters={}, linked=False, person=None))


def test_the_number_of_a_person_is_a_released_column() -> None:
    known = Facts(
        columns=(("Counterfeits", NAME),),
        spanned=[],
        method="mondrian",
        parameters={},
        linked=True,
        person="Counterfeits",
    )
    with pytest.raises(ProblemsError, match="reserved name"):
        refuse(known)
    refuse(replace(known, linked=False))


def test_what_may_pass_is_distinguished_and_refused_all_the_same() -> None:
    found = judged(Facts(shortage="people cannot pay"))
    assert found.problems == ()
    assert [problem.text for problem in found.for_now] == ["people cannot pay"]
    with pytest.raises(BudgetExceededError, match="people cannot pay"):
        found.refuse()


def test_each_fact_is_of_someone_and_some_rule_needs_it() -> None:
    needed = {name for rule in RULES for name in rule.needs}
    assert needed == {known.name for known in fields(Facts)}
    assert {group_of(name).value for name in NAMES} == {
        "file",
        "policy",
        "deployment",
        "other release files",
        "method",
        "ingested table",
        "lake",
        "ledger",
    }


def first_judged(needs: tuple[str, ...]) -> str:
    """What is the first to know all of these facts."""
    moments = ("DAG", "check", "run", "task")
    later = {"users": "check", "signed": "run"}
    of_group = dict.fromkeys(("method", "other release files", "lake", "ledger"), "check")
    of_group |= {"ingested table": "task"}
    known = [later.get(name, of_group.get(group_of(name).value, "DAG")) for name in needs]
    return max(known, key=moments.index)


def test_the_documentation_has_a_row_for_each_rule() -> None:
    text = (checkout() / "docs" / "rules.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `") and line.count("|") == 5]
    reported = [f"| `{r.id}` | {', '.join(r.needs)} | {first_judged(r.needs)} |" for r in RULES]
    assert [row[: len(said)] for row, said in zip(rows, reported, strict=True)] == reported
    before = (
        "file",
        "method",
        "check",
        "run",
        "ingest",
        "task",
        "after the booking",
        "verify",
        "publish",
        "-",
    )
    assert {place for row in rows for place in row.split("|")[4].strip().split(", ")} <= set(before)
