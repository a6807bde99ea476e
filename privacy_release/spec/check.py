"""A release's specification with all that it names: policy, suite, hierarchies, and the floor policy."""

from pathlib import Path
from typing import TYPE_CHECKING

from privacy_engine.errors import SchemaError
from privacy_engine.vocabulary import PublishMode
from privacy_release.spec.files import read_hierarchy
from privacy_release.spec.floor import Floor, refuse_weaker, under_floor
from privacy_release.spec.model import ReleaseSpec
from privacy_release.spec.reading import LARGEST_HIERARCHY
from privacy_release.work.problems import wrong

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
    spec.expectation_suite()
    for table in (spec.tables or {}).values():
        table.suite()
    policy = spec.release_policy()
    refuse_weaker(policy, spec.policy, floor)
    require_approval(spec, floor)
    asked = under_floor(policy, floor)
    refuse_pseudonyms(spec, asked)
    refuse_distances(spec, asked)
    refuse_silence(spec, asked)
    refuse_append(spec, asked)
    for name in dict.fromkeys(a.hierarchy for _, a in spec.every_attribute if a.hierarchy):
        if not LARGEST_AT_PARSE < Path(name).stat().st_size <= LARGEST_HIERARCHY:
            read_hierarchy(Path(name))


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
        raise wrong(
            spec.name,
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
        raise wrong(spec.name, f"policy: {error}") from None


def refuse_silence(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse a schedule whose second release verification would refuse, for nothing follows its people.

    Raises:
        SpecError: naming the columns that identify them, and what to do.
    """
    if spec.schedule is not None and spec.unfollowed and policy.repeated_people == "history":
        raise wrong(
            spec.name,
            f"history must be declared beside a schedule and {', '.join(spec.unfollowed)}, for the policy or "
            "the floor policy has `repeated_people: history`: its second release would be refused; add "
            "`history: {identifier: <column>}`, or ask for a policy that allows it",
        )


def refuse_append(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse to leave releases side by side where nothing is known of people who are in several.

    Raises:
        SpecError: naming what to do.
    """
    followed = spec.history is not None or (policy.repeated_people == "history" and spec.unfollowed)
    if spec.publish_mode is PublishMode.APPEND and not followed:
        raise wrong(
            spec.name,
            "publish.mode: append leaves all releases in the table, and whoever is in several can be told by "
            "what they have in common; declare `history`, ask for a policy with `repeated_people: history`, "
            "or take mode: snapshot",
        )


def refuse_columns(spec: ReleaseSpec, policy: "ReleasePolicy") -> None:
    """Refuse a wrong schema, and columns that verification would refuse in the end, as far as it tells.

    Raises:
        SpecError: naming each column, the rule that it breaks, and what to do.
    """
    from privacy_engine.judge.column_checks import broken_by_schema

    schema = spec.data_schema()
    if policy.columns is not None and (broken := broken_by_schema(policy.columns, schema)):
        told = "; ".join(f"{b.column} must keep {b.rule}: {b.remedy}" for b in broken)
        raise wrong(spec.name, f"the policy or the floor policy has rules for columns. {told}")


def require_approval(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Refuse a release that nobody need approve, where the floor asks for it.

    Raises:
        SpecError: naming the field and the floor.
    """
    if floor is not None and floor.approval and not (spec.approval and spec.approval.required):
        raise wrong(
            spec.name,
            f"approval.required must be true, for the floor policy {floor.path} asks that somebody approves "
            "every release; add it",
        )
