"""Rules on bounds of attacks, which require an attack that can be tried."""

from collections.abc import Iterator

from privacy_engine.errors import Problem
from privacy_engine.registry import is_anonymizer
from privacy_engine.vocabulary import OVER_TIME, AttackName
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules
from privacy_release.workarea.engines import LOCAL

RULES = Rules()


@RULES.rule("attacks.register", "register", "register_identifier", "policy")
def _registers_are_used(facts: Facts) -> Iterator[Problem]:
    from privacy_engine.verification.republication.model import Attacker, window_of

    if facts.register is None or _bounds(facts, AttackName.LINKAGE):
        return
    if facts.register_identifier is None or not window_of(facts.policy.across, Attacker.POPULATION):
        yield Problem(
            text="public_register must be used by the policy or the floor policy: by attack_risk of linkage, "
            "or by the attacker population of republication, which needs public_register.identifier; add "
            "the rule or the identifier, or remove public_register",
            path=("public_register",),
        )


@RULES.rule("attacks.population", "register_identifier", "history", "identifier")
def _registers_are_of_the_people_who_are_followed(facts: Facts) -> Iterator[Problem]:
    named = facts.register_identifier
    if named is not None and (facts.history is None or named != facts.identifier):
        yield Problem(
            text="public_register.identifier must be the column that history.identifier names, so that the "
            "persons of the register are found in the releases; correct it, declare history, or remove the "
            "identifier",
            path=("public_register", "identifier"),
        )


@RULES.rule("attacks.table", "policy", "engine", "linked")
def _attacks_need_the_table_in_memory(facts: Facts) -> Iterator[Problem]:
    scaled = facts.engine != LOCAL
    if facts.policy.attacks and (scaled or facts.linked):
        what = "an engine that never holds the table in memory" if scaled else "rows that are linked"
        yield Problem(
            text=f"policy bounds attacks, which cannot be tried with {what}; remove attack_risk from the "
            "policy and the floor policy, or release one table of rows that are not linked, with the engine "
            "local",
            path=("policy",),
        )


@RULES.rule("attacks.intersection", "policy", "history")
def _intersections_are_of_releases_of_known_people(facts: Facts) -> Iterator[Problem]:
    attacks = [attack for attack in AttackName if attack in OVER_TIME and _bounds(facts, attack)]
    if attacks and facts.history is None:
        yield Problem(
            text=f"history must be declared for attack_risk of {' and '.join(attacks)}: otherwise it is not "
            "known who is in several releases; add `history: {identifier: <column>}`, or remove the rule "
            "from the policy",
            path=("history",),
        )


@RULES.rule("attacks.shadows", "policy", "history", "promise")
def _shadows_are_made_by_the_method_alone(facts: Facts) -> Iterator[Problem]:
    if not any(rule.shadows for rule in facts.policy.attacks):
        return
    remedy = "remove shadows from attack_risk in the policy and the floor policy"
    if facts.history is not None and facts.history.keep:
        yield Problem(
            text="history makes a release together with the earlier ones, but a shadow release has none; "
            f"{remedy}, or set `keep: false`, so that only verification considers them",
            path=("history",),
        )
    promise = facts.promise
    if promise is None or (promise.regime == "yearly" and not promise.opening):
        return
    yield Problem(
        text=f"budget.promise {promise.regime} continues earlier releases, or counts who is in them, "
        f"but a shadow release has none; {remedy}, or use the regime yearly without an opening, or none",
        path=("budget", "promise"),
    )


@RULES.rule("attacks.minimality", "policy", "method")
def _minimality_is_of_classes_and_sensitive_values(facts: Facts) -> Iterator[Problem]:
    from privacy_engine.verification.models import SensitiveModel

    if not _bounds(facts, AttackName.MINIMALITY):
        return
    if not is_anonymizer(facts.method):
        yield Problem(
            text=f"policy bounds the attack minimality, but {facts.method} makes no classes that it could "
            "reverse; remove the rule from the policy and the floor policy, or use an anonymizer",
            path=("policy",),
        )
    elif not any(isinstance(model, SensitiveModel) for model in facts.policy.require):
        yield Problem(
            text="policy bounds the attack minimality, but requires no model of sensitive values; "
            "k-anonymity by itself is not exposed to it: remove the rule from the policy and the floor "
            "policy, or add the model that the release is made by, such as `{model: distinct_l_diversity, "
            "l: 3}`",
            path=("policy",),
        )


def _bounds(facts: Facts, attack: AttackName) -> bool:
    return any(rule.attack is attack for rule in facts.policy.attacks)
