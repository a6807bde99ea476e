"""A release's specification with all that it names: policy, suite, hierarchies, and the floor policy."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import Problem, ProblemsError, SchemaError, SpecError
from privacy_engine.registry import is_anonymizer
from privacy_engine.vocabulary import AttackName, Intervals, PublishMode, taken_bounds
from privacy_release.spec.files import read_hierarchy
from privacy_release.spec.floor import Floor, refuse_weaker, under_floor
from privacy_release.spec.model import ReleaseSpec, YearlySpec
from privacy_release.spec.reading import LARGEST_HIERARCHY
from privacy_release.work.places import require_allowed
from privacy_release.work.problems import gathered, raise_problems

if TYPE_CHECKING:
    from privacy_engine.judge.policy import ReleasePolicy

LARGEST_AT_PARSE = 1 << 20  # bytes of a hierarchy; a larger one is first read by the task that needs it


def check_files(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Read what a specification names, as far as that takes no more than a moment.

    What needs the engine (the parameters of the method), the libraries of the gate (the arguments of an
    expectation) or records is found by the tasks, and by `privacy-release check`.

    Raises:
        SpecError: naming the file, the field and what to do.
    """
    suites = [spec.expectation_suite, *(table.suite for table in (spec.tables or {}).values())]
    trees = dict.fromkeys(a.hierarchy for _, a in spec.every_attribute if a.hierarchy)
    found = gathered([*suites, *(partial(_read_if_small, Path(name)) for name in trees)])
    found += gathered([partial(check_rules, spec, floor), partial(require_approval, spec, floor)])
    raise_problems(found)


def check_rules(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Hold a specification against its policy and the deployment, before anything is read or booked.

    Raises:
        SpecError: naming each field, the rule and what to do.
    """
    # A table of a catalog has no address here: the catalog's own configuration has it.
    addresses = [s.uri for s in spec.sources if s.uri is not None and not s.uri.startswith("iceberg://")]
    rules = [partial(_check_policy, spec, floor), partial(refuse_other_classes, spec)]
    rules += [partial(_require_allowed, address) for address in addresses]
    raise_problems(gathered([*rules, partial(refuse_taken_bounds, spec)]))


def _require_allowed(address: str) -> None:
    """Refuse an address that no release of this deployment may read.

    Raises:
        SpecError: saying why.
    """
    try:
        require_allowed(address)
    except SpecError as error:
        raise _wrong(("source", "uri"), str(error)) from None


def refuse_other_classes(spec: ReleaseSpec) -> None:
    """Refuse roles of columns that the classification of the deployment does not allow.

    Of a glob only the files tell which source it is of, so `ingest` says that.

    Raises:
        SpecError: naming each column, its class, and what may stand for it.
    """
    from privacy_release.spec.classification import classification

    if (found := classification()) is None:
        return
    from privacy_engine.tables.linked import renamed_person
    from privacy_release.spec.selects import computed_of

    schema = spec.data_schema()
    tables = spec.tables or {}
    read = [(spec.only_source, schema)] if not tables else []
    for name, table in tables.items():
        own = schema.of_table(name)
        person = spec.person.column if spec.person is not None else None
        read.append((table.source, renamed_person(own, own.by, table.person or person or own.by)))
    for source, own in read:
        of = (
            found.of_query(source.connection or "", source.sql)
            if source.sql
            else found.of_addresses([source.place])
        )
        found.require(own, of)
        if spec.transform is not None:
            columns = [a.name for a in own.without_identifiers().attributes]
            made_of = computed_of(spec.transform.sql, columns)
            found.require_made(spec.method_schema(), own, made_of)


def _check_policy(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Read the policy, and hold the specification against it."""
    policy = spec.release_policy()
    found = gathered([partial(refuse_weaker, policy, spec.policy, floor)])
    asked = under_floor(policy, floor)
    rules = (
        *(refuse_attributes, refuse_pseudonyms, refuse_distances, refuse_silence, refuse_append),
        refuse_attacks,
    )
    raise_problems([*found, *gathered(partial(rule, spec, asked) for rule in rules)])


def _read_if_small(hierarchy: Path) -> None:
    if not LARGEST_AT_PARSE < hierarchy.stat().st_size <= LARGEST_HIERARCHY:
        read_hierarchy(hierarchy)


def refuse_attributes(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse models of a sensitive attribute that the release does not have.

    Raises:
        SpecError: naming each model, and the attribute that may be meant.
    """
    from privacy_engine.judge.models import rule_of

    sensitive = [name for name, a in spec.every_attribute if a.role == "sensitive"]
    found = []
    for rule in policy.rules:
        asked = getattr(rule, "attribute", None)
        if asked is not None and asked not in sensitive:
            told = (
                f"a sensitive attribute {asked}, and schema has {sensitive}{did_you_mean(asked, sensitive)}"
            )
        elif hasattr(rule, "attribute") and rule not in policy.across and not sensitive:
            told = "a sensitive attribute, and schema has none"
        else:
            continue
        text = f"policy asks for {rule_of(rule)} of {told}; give a column that role, or take another policy"
        found.append(Problem(text=text, path=("policy",)))
    raise_problems(found)


def refuse_pseudonyms(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse pseudonyms that verification would refuse in the end.

    Raises:
        SpecError: naming the columns, and what the policy or the floor allows.
    """
    scopes: dict[str, str] = {
        name: a.pseudonym.scope for name, a in spec.every_attribute if a.pseudonym is not None
    }
    if spec.linked and spec.person is not None and spec.person.column is not None:
        scopes[spec.person.column] = "random"
    if refused := [name for name, scope in scopes.items() if policy.refuses_pseudonyms(scope)]:
        raise _wrong(
            ("schema", refused[0]),
            f"the pseudonyms of {refused} must keep `pseudonyms: {policy.pseudonyms}` of the policy or the "
            "floor policy; remove them, or narrow their scope",
        )


def refuse_distances(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse t-closeness by a distance that a sensitive attribute does not have.

    Raises:
        SpecError: naming the attribute and the remedy.
    """
    from privacy_engine.judge.models import require_distances

    sensitive = {name: a for name, a in spec.every_attribute if a.role == "sensitive"}
    try:
        require_distances(policy.require, sensitive)
    except SchemaError as error:
        raise _wrong(("policy",), f"policy: {error}") from None


def refuse_silence(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse a schedule whose second release verification would refuse, for nothing follows its people.

    Raises:
        SpecError: naming the columns that identify them, and what to do.
    """
    if spec.schedule is not None and spec.unfollowed and policy.repeated_people == "history":
        raise _wrong(
            ("history",),
            f"history must be declared beside a schedule and {', '.join(spec.unfollowed)}, for the policy or "
            "the floor policy has `repeated_people: history`: its second release would be refused; add "
            "`history: {identifier: <column>}`, or ask for a policy that allows it",
        )


def refuse_attacks(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse bounds on attacks where none can be tried.

    Raises:
        SpecError: naming what stands against it, and what to do.
    """
    linked = any(rule.attack is AttackName.LINKAGE for rule in policy.attacks)
    if spec.public_register is not None and not linked:
        raise _wrong(
            ("public_register",),
            "public_register must stand beside attack_risk of linkage in the policy or the floor policy, "
            "which alone uses it; add the rule, or remove public_register",
        )
    if not policy.attacks:
        return
    if spec.scaled or spec.linked:
        what = "an engine that never holds the table in memory" if spec.scaled else "rows that are linked"
        raise _wrong(
            ("policy",),
            f"policy bounds attacks, which cannot be tried beside {what}; take attack_risk out of the policy "
            "and the floor policy, or release one table of rows that are not linked, with the engine local",
        )
    if any(rule.attack is AttackName.INTERSECTION for rule in policy.attacks) and spec.history is None:
        raise _wrong(
            ("history",),
            "history must be declared beside attack_risk of intersection: else nobody knows who is in "
            "several releases; add `history: {identifier: <column>}`, or take the rule out of the policy",
        )
    _refuse_shadows(spec, policy)
    if any(rule.attack is AttackName.MINIMALITY for rule in policy.attacks):
        _refuse_minimality(spec, policy)


def _refuse_shadows(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse shadow releases where the method alone does not make what is released.

    Raises:
        SpecError: naming what stands against it, and what to do.
    """
    if not any(rule.shadows for rule in policy.attacks):
        return
    remedy = "leave shadows out of attack_risk in the policy and the floor policy"
    if spec.history is not None and spec.history.keep:
        raise _wrong(
            ("history",),
            "history makes a release together with the earlier ones, and a shadow release has none; "
            f"{remedy}, or set `keep: false`, by which verification alone looks at them",
        )
    over_time = None if spec.budget is None else spec.budget.over_time
    if over_time is None or (isinstance(over_time, YearlySpec) and over_time.opening is None):
        return
    raise _wrong(
        ("budget", "over_time"),
        f"budget.over_time {over_time.regime} goes on from earlier releases, or counts who is in them, and "
        f"a shadow release has none; {remedy}, or take the regime yearly without an opening, or none",
    )


def _refuse_minimality(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse to ask why classes are not finer where there are none, or no rule on sensitive values."""
    from privacy_engine.judge.models import SensitiveModel

    if not is_anonymizer(spec.release.method):
        raise _wrong(
            ("policy",),
            f"policy bounds the attack minimality, and {spec.release.method} makes no classes that it could "
            "reverse; take the rule out of the policy and the floor policy, or take an anonymizer",
        )
    if not any(isinstance(model, SensitiveModel) for model in policy.require):
        raise _wrong(
            ("policy",),
            "policy bounds the attack minimality, and asks for no model of sensitive values; k-anonymity by "
            "itself is not exposed to it: take the rule out of the policy and the floor policy, or add the "
            "model that the release is made by, such as `{model: distinct_l_diversity, l: 3}`",
        )


def refuse_append(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse to leave releases side by side where nothing is known of people who are in several.

    Raises:
        SpecError: naming what to do.
    """
    followed = spec.history is not None or (policy.repeated_people == "history" and spec.unfollowed)
    if spec.publish_mode is PublishMode.APPEND and not followed:
        raise _wrong(
            ("publish", "mode"),
            "publish.mode: append leaves all releases in the table, and whoever is in several can be told by "
            "what they have in common; declare `history`, ask for a policy with `repeated_people: history`, "
            "or take mode: snapshot",
        )


def refuse_taken_bounds(spec: ReleaseSpec) -> None:
    """Refuse columns that have the name of a bound of an interval, under which it will be released.

    Raises:
        SpecError: naming each column, the quasi-identifier, and what to do.
    """
    form = spec.release.parameters.get("intervals", Intervals.BOUNDS)
    if not is_anonymizer(spec.release.method) or form != Intervals.BOUNDS:
        return
    spanned = [name for name, a in spec.every_attribute if a.role == "quasi_identifier" and a.spanned]
    if taken := taken_bounds(spanned, [name for name, _ in spec.every_attribute]):
        raise _wrong(("schema",), taken)


def refuse_columns(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse a wrong schema, and columns that verification would refuse in the end, as far as it tells.

    Raises:
        SpecError: naming each column, the rule that it breaks, and what to do.
    """
    from privacy_engine.judge.column_checks import broken_by_schema

    schema = spec.data_schema()
    if policy.columns is not None and (broken := broken_by_schema(policy.columns, schema)):
        rules = "the policy or the floor policy has rules for columns."
        raise_problems(
            Problem(text=f"{rules} {b.column} must keep {b.rule}: {b.remedy}", path=("schema", b.column))
            for b in broken
        )


def _wrong(path: tuple[str, ...], text: str) -> ProblemsError:
    return ProblemsError([Problem(text=text, path=path)])


def require_approval(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Refuse a release that nobody need approve, where the floor asks for it.

    Raises:
        SpecError: naming the field and the floor.
    """
    if floor is not None and floor.approval and not (spec.approval and spec.approval.required):
        raise _wrong(
            ("approval", "required"),
            f"approval.required must be true, for the floor policy {floor.path} asks that somebody approves "
            "every release; add it",
        )
