"""Rules on the person of a row, and on people who are followed from release to release."""

from collections.abc import Iterator, Mapping

from privacy_engine.registry import is_anonymizer, is_randomizer
from privacy_release.spec.engine import problem_of_engine
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules
from privacy_release.spec.rules.text import unknown
from privacy_release.workarea.engines import FRAGMENTS, LOCAL

RULES = Rules()
INCREMENTAL = ("bottom_up", "ilp_l_diversity", "mondrian", "obpa")  # methods that can keep earlier classes
_COMPARED = frozenset({"t_closeness", "beta_likeness", "delta_disclosure"})  # with all released records
_BOUNDS = ("max_rows", "weight")  # parameters that limit what a person contributes


@RULES.rule("person.identifier", "read", "person", "tables")
def _persons_are_named_by_an_identifier(facts: Facts) -> Iterator[str]:
    if facts.tables or facts.person is None:
        return
    known = facts.read.get(facts.person)
    if known is None or known.role != "identifier":
        yield (
            "person must be a column of schema with the role identifier, got "
            f"{unknown([facts.person], _identifiers(facts))}; correct it"
        )


@RULES.rule("person.linked", "linked", "method", "history", "engine")
def _linked_rows_have_classes(facts: Facts) -> Iterator[str]:
    if not facts.linked:
        return
    other = {
        "a budget or random answers, which make no classes": not is_anonymizer(facts.method),
        "history, which is about one record per person": facts.history is not None,
        f"engine {facts.engine}, whose fragments have parts of persons": facts.engine != LOCAL,
    }
    for what in (what for what, given in other.items() if given):
        yield (
            f"person.rows cannot be linked with {what}: a class is of all rows of a person; remove one "
            "of both"
        )


@RULES.rule("person.answers", "person", "method")
def _answers_are_for_one_row(facts: Facts) -> Iterator[str]:
    if facts.person is not None and is_randomizer(facts.method):
        yield (
            "person cannot be combined with random answers: their loss is for one row, so a person with m "
            "rows has m times as much; aggregate the source to one row per person"
        )


@RULES.rule("person.bounded", "person", "budget", "method", "parameters")
def _losses_are_of_persons(facts: Facts) -> Iterator[str]:
    if facts.person is None or not facts.budget or is_randomizer(facts.method):
        return
    if all(facts.parameters.get(name) is None for name in _BOUNDS):
        yield (
            "person must be bounded if a budget pays: the loss would be for one row, so a person with m "
            "rows has m times as much; add `max_rows: m` or `weight: person` to release, or aggregate the "
            "source to one row per person"
        )


@RULES.rule("person.history", "person", "history", "identifier")
def _records_are_followed_by_another_identifier(facts: Facts) -> Iterator[str]:
    if facts.person is not None and facts.history is not None and facts.identifier == facts.person:
        yield (
            "history.identifier must be another identifier than person, got "
            f"{facts.person} for both: it identifies each of a person's records, such as a visit; if each "
            "person has one record, remove person, since history.identifier names them"
        )


@RULES.rule("person.subtracted", "person", "history", "policy")
def _several_records_are_kept_by_one_model(facts: Facts) -> Iterator[str]:
    from privacy_engine.verification.republication.model import Republication, subtracting

    history = facts.history
    if facts.person is None or history is None:
        return
    models = [model for model in facts.policy.across_people if isinstance(model, Republication)]
    if history.keep and not subtracting(models):
        yield (
            "person can only be combined with history if the policy names an attacker who subtracts: the "
            "other models follow one record per person; add `{model: republication, k: ..., m: ...}` to the "
            "policy, or aggregate the source to one row per person"
        )
    if any(model.groups for model in models):
        yield (
            "person cannot be combined with history and `groups` in the model republication: the owners of "
            "the values of departures are not recorded; remove groups"
        )


@RULES.rule("person.register", "person", "history", "register_identifier")
def _registers_have_one_record_a_person(facts: Facts) -> Iterator[str]:
    if facts.person is not None and facts.history is not None and facts.register_identifier is not None:
        yield (
            "person cannot be combined with history and public_register.identifier: a register has one "
            "record per person, but history.identifier identifies each of several; remove the register's"
        )


@RULES.rule("person.numbered", "person", "history", "numbered")
def _persons_are_known_again(facts: Facts) -> Iterator[str]:
    if facts.person is not None and facts.history is not None and not facts.numbered:
        yield (
            "person must be recognised for history: ingest the table with its identifier and key, "
            "and remove transforms, after which persons have other numbers"
        )


@RULES.rule("person.transformed", "person", "history", "transformed")
def _persons_keep_their_numbers(facts: Facts) -> Iterator[str]:
    if facts.person is not None and facts.history is not None and facts.transformed:
        yield (
            "person cannot be combined with history and transform, after which persons have other numbers; "
            "make the columns in the source, or remove one of them"
        )


@RULES.rule("history.identifier", "history", "identifier", "read")
def _history_has_an_identifier(facts: Facts) -> Iterator[str]:
    if facts.history is None or facts.identifier is None:
        return
    known = facts.read.get(facts.identifier)
    if known is None or known.role != "identifier":
        yield (
            "history.identifier must be a column of schema with the role identifier, got "
            f"{unknown([facts.identifier], _identifiers(facts))}; correct it"
        )


@RULES.rule("history.m", "history", "columns")
def _m_is_of_sensitive_attributes(facts: Facts) -> Iterator[str]:
    sensitive = [name for name, column in facts.columns if column.role == "sensitive"]
    stated = facts.history.m if facts.history is not None else None
    if strangers := sorted(set(stated or {}) - set(sensitive)):
        yield (
            f"history.m [{unknown(strangers, sensitive)}] must be sensitive attributes of schema; correct it"
        )


@RULES.rule("history.method", "history", "method")
def _history_is_of_classes(facts: Facts) -> Iterator[str]:
    if facts.history is not None and not is_anonymizer(facts.method):
        yield (
            "history cannot be combined with a budget or random answers: they make no classes that people "
            "could share, and their losses add up in the budget; remove it"
        )


@RULES.rule("history.followed", "history", "followed")
def _history_knows_whose_records_they_are(facts: Facts) -> Iterator[str]:
    if facts.history is not None and not facts.followed:
        yield (
            "history needs to know whose records they are; ingest the table with person, the identifier of "
            "the people in the earlier releases"
        )


@RULES.rule("history.differences", "history", "policy", "method")
def _subtraction_is_kept_by_some_methods(facts: Facts) -> Iterator[str]:
    from privacy_engine.verification.republication.model import subtracting

    history = facts.history
    if history is None or not history.keep:
        return
    if not subtracting(facts.policy.across_people):
        if history.hold_back is not None:
            yield (
                "history.hold_back requires a policy that names an attacker who subtracts; add "
                "`{model: republication, k: ..., m: ...}` to the policy, or remove hold_back"
            )
        return
    if facts.method not in INCREMENTAL:
        yield (
            f"release.method must be one of {', '.join(INCREMENTAL)}, got {facts.method}, because the policy "
            "names an attacker who subtracts; choose one of these, or set history.keep: false"
        )
    for name in ("departures", "counterfeits"):
        if getattr(history, name) not in (None, "known"):
            yield (
                f"history.{name} cannot be combined with a policy that names an attacker who subtracts: "
                "classes stay as they are until enough persons change; remove it"
            )


@RULES.rule("history.unique", "history", "policy", "columns", "parameters")
def _classes_of_different_values_are_of_one_attribute(facts: Facts) -> Iterator[str]:
    from privacy_engine.verification.cross_release import CrossReleaseKAnonymity, MInvariance
    from privacy_engine.verification.republication.model import subtracting

    history, across = facts.history, facts.policy.across_people
    unique = [model for model in across if isinstance(model, MInvariance) and model.unique]
    if history is None or not history.keep or not unique:
        return
    sensitive = [(name, column) for name, column in facts.columns if column.role == "sensitive"]
    if len(sensitive) != 1:
        yield (
            "history must be of one sensitive attribute, because the policy has m_invariance with unique: "
            f"true, got {[name for name, _ in sensitive]}; keep one of them, or set history.keep: false"
        )
        return
    if subtracting(across):
        yield (
            "history cannot be combined with a policy that has both m_invariance with unique: true and an "
            "attacker who subtracts: classes that are published again do not stay unique; remove one of "
            "both, or set history.keep: false"
        )
    ((name, column),) = sensitive
    of_k = [model.k for model in across if isinstance(model, CrossReleaseKAnonymity)]
    least = [facts.parameters.get("k"), history.k, *of_k, *(history.m or {}).values()]
    k = max([*(model.m for model in unique), *(number for number in least if isinstance(number, int))])
    # Null counts as a value, too.
    if column.categories is not None and k > len(column.categories) + 1:
        yield (
            f"history needs classes of {k} records with different values of {name}, because the policy has "
            f"m_invariance with unique: true, but schema.{name} has {len(column.categories)} categories; "
            "lower k and m, or remove unique"
        )


@RULES.rule("history.fragments", "engine", "history", "policy", "person", "parameters")
def _fragments_are_safe_by_themselves(facts: Facts) -> Iterator[str]:
    from privacy_engine.verification.cross_release import MInvariance
    from privacy_engine.verification.republication.model import Republication, subtracting

    across = facts.policy.across_people
    if facts.engine != FRAGMENTS or facts.history is None or not facts.history.keep:
        return
    groups = [_model_name(own) for m in across if isinstance(m, Republication) for own in m.groups]
    required = [_model_name(model) for model in facts.parameters.get("require") or ()]
    compared = sorted({*groups, *required} & _COMPARED)
    other = {
        "a policy that names no attacker who subtracts, because its models are judged across fragments; add "
        "`{model: republication, k: ..., m: ...}` to the policy": not subtracting(across),
        "m_invariance, because classes of two fragments that look the same are one class with other values; "
        "use `{model: republication, k: ..., m: ...}` instead": any(
            isinstance(model, MInvariance) for model in across
        ),
        "person, because the records of a person may be in several fragments; aggregate the source to one "
        "row per person": facts.person is not None,
        f"{', '.join(compared)}, which compares with all records, because a fragment does not know whom the "
        "others withhold; remove it": bool(compared),
    }
    for what in (what for what, given in other.items() if given):
        yield f"history with engine {facts.engine} cannot be combined with {what}, or choose engine local"


def _model_name(model: object) -> str:
    name = model.get("model") if isinstance(model, Mapping) else getattr(model, "name", None)
    return str(name)


@RULES.rule("engine.method", "engine", "method", "history")
def _engines_can_do_it(facts: Facts) -> Iterator[str]:
    history = facts.history
    kept = history is not None and history.keep
    if problem := problem_of_engine(facts.engine, facts.method, history=history is not None, kept=kept):
        yield problem


def _identifiers(facts: Facts) -> list[str]:
    return [name for name, column in facts.read.items() if column.role == "identifier"]
