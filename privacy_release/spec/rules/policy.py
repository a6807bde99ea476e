"""Check a release against its policy and the floor policy, as far as that is possible before it is made."""

from collections.abc import Iterator

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import Problem, SchemaError, VerificationError
from privacy_engine.verification.republication.notes import unjudged_text
from privacy_engine.vocabulary import PublishMode
from privacy_release.spec.floor import require_signature, weaker_than_floor
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules

RULES = Rules()


@RULES.rule("policy.floor", "own_policy", "floor")
def _policies_keep_the_floor(facts: Facts) -> Iterator[Problem]:
    policy, place = facts.own_policy
    if weaker := weaker_than_floor(policy, facts.floor):
        yield Problem(text=f"{place}: {weaker}")


@RULES.rule("policy.kinds", "kind", "policy")
def _kinds_are_allowed(facts: Facts) -> Iterator[Problem]:
    if facts.policy.kinds is not None and facts.kind not in facts.policy.kinds:
        yield Problem(
            text=f"policy allows {', '.join(facts.policy.kinds)} releases, got a method for {facts.kind} "
            "ones; use a method that makes one of these, or another policy",
            path=("policy",),
        )


@RULES.rule("policy.attributes", "columns", "policy")
def _models_are_of_attributes_that_exist(facts: Facts) -> Iterator[Problem]:
    from privacy_engine.verification.models import rule_of

    sensitive = [name for name, column in facts.columns if column.role == "sensitive"]
    for rule in facts.policy.rules:
        attribute = getattr(rule, "attribute", None)
        if attribute is not None and attribute not in sensitive:
            hint = did_you_mean(attribute, sensitive)
            target = f"a sensitive attribute {attribute}, but schema has {sensitive}{hint}"
        elif hasattr(rule, "attribute") and rule not in facts.policy.across and not sensitive:
            target = "a sensitive attribute, but schema has none"
        else:
            continue
        yield Problem(
            text=f"policy asks for {rule_of(rule)} of {target}; give a column that role, or use another "
            "policy",
            path=("policy",),
        )


@RULES.rule("policy.distances", "columns", "policy")
def _attributes_have_the_distances(facts: Facts) -> Iterator[Problem]:
    from privacy_engine.verification.models import require_distances

    sensitive = {name: column for name, column in facts.columns if column.role == "sensitive"}
    try:
        require_distances(facts.policy.require, sensitive)
    except SchemaError as error:
        yield Problem(text=f"policy: {error}", path=("policy",))


@RULES.rule("policy.pseudonyms", "columns", "linked", "person", "policy")
def _pseudonyms_are_allowed(facts: Facts) -> Iterator[Problem]:
    scopes = {name: a.pseudonym.scope for name, a in facts.columns if a.pseudonym is not None}
    if facts.linked and facts.person is not None:
        scopes[facts.person] = "random"
    if refused := [name for name, scope in scopes.items() if facts.policy.refuses_pseudonyms(scope)]:
        yield Problem(
            text=f"the pseudonyms of {refused} must meet `pseudonyms: {facts.policy.pseudonyms}` of the "
            "policy or the floor policy; remove them, or narrow their scope",
            path=("schema", refused[0]),
        )


@RULES.rule("policy.promises", "releaser", "schema", "policy")
def _methods_promise_what_is_asked(facts: Facts) -> Iterator[Problem]:
    from privacy_release.spec.methods import weaker_than_policy

    for text in weaker_than_policy(facts.releaser, facts.schema, facts.policy, facts.releaser.key):
        yield Problem(
            text=f"release: {text}, as the policy or floor policy requires; verification would refuse it: "
            "correct one of both",
            path=("release",),
        )


@RULES.rule("policy.repeated_people", "schedule", "unfollowed", "policy")
def _schedules_follow_people(facts: Facts) -> Iterator[Problem]:
    if facts.schedule and facts.unfollowed and facts.policy.repeated_people == "history":
        yield Problem(
            text=f"history must be declared for a schedule with {', '.join(facts.unfollowed)}, because the "
            "policy or the floor policy has `repeated_people: history`: its second release would be refused; "
            "add `history: {identifier: <column>}`, or use a policy that allows it",
            path=("history",),
        )


@RULES.rule("publish.append", "publish_mode", "history", "unfollowed", "policy")
def _tables_of_all_releases_follow_people(facts: Facts) -> Iterator[Problem]:
    followed = facts.history is not None or (facts.policy.repeated_people == "history" and facts.unfollowed)
    if facts.publish_mode is PublishMode.APPEND and not followed:
        yield Problem(
            text="publish.mode: append keeps all releases in the table, and people in several of them can be "
            "identified by what these have in common; declare `history`, use a policy with `repeated_people: "
            "history`, or set mode: snapshot",
            path=("publish", "mode"),
        )


@RULES.rule("floor.approval", "approval", "floor")
def _floors_may_ask_for_an_approval(facts: Facts) -> Iterator[Problem]:
    if facts.floor is not None and facts.floor.approval and not facts.approval:
        yield Problem(
            text=f"approval.required must be true, because the floor policy {facts.floor.path} requires an "
            "approval of every release; add it",
            path=("approval", "required"),
        )


@RULES.rule("floor.signature", "signed", "floor", error=VerificationError)
def _floors_may_ask_for_a_signature(facts: Facts) -> Iterator[str]:
    try:
        require_signature(facts.floor, signed=facts.signed)
    except VerificationError as error:
        yield str(error)


@RULES.rule("lake.unjudged", "history", "unjudged")
def _earlier_releases_can_be_judged(facts: Facts) -> Iterator[Problem]:
    if facts.unjudged and (facts.history is None or facts.history.accept_unjudged is None):
        yield Problem(text=f"history: {unjudged_text(facts.unjudged)}", path=("history",))


@RULES.rule("lake.earlier", "earlier", error=VerificationError)
def _earlier_releases_allow_another(facts: Facts) -> Iterator[str]:
    if facts.earlier is not None:
        yield facts.earlier
