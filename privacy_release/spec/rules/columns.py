"""Rules on columns, by their roles, the method and the policy."""

from collections.abc import Iterator

from privacy_engine.errors import Problem, SchemaError
from privacy_engine.registry import is_anonymizer, is_randomizer
from privacy_engine.verification.column_rules import UNSIGNED
from privacy_engine.vocabulary import (
    COUNTERFEITS,
    PARTITION,
    Intervals,
    Role,
    bounds_of,
    domains_missing,
    has_public_domain,
    other_types,
    taken_bounds,
    unfit_names,
)
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules
from privacy_release.spec.selects import RECORD, ROW_NUMBER

RULES = Rules()


@RULES.rule("pseudonyms.method", "columns", "method")
def _pseudonyms_need_an_anonymizer(facts: Facts) -> Iterator[str]:
    named = [name for name, column in facts.columns if column.pseudonym is not None]
    if named and not is_anonymizer(facts.method):
        yield (
            f"pseudonyms of {named} cannot be combined with a budget, a synthesizer or random answers: they "
            "would reveal about each person what these hide; remove `pseudonym`, or use an anonymizer"
        )


@RULES.rule("pseudonyms.person", "read", "person", "tables")
def _persons_have_no_pseudonym(facts: Facts) -> Iterator[str]:
    column = facts.read.get(facts.person or "")
    if not facts.tables and column is not None and column.pseudonym is not None:
        yield (
            "person must have no pseudonym: it would link the rows of a person; remove `pseudonym`, or "
            "aggregate the source to one row per person and remove `person`"
        )


@RULES.rule("columns.bounds", "columns", "spanned", "method", "parameters")
def _bounds_have_names_of_their_own(facts: Facts) -> Iterator[Problem]:
    form = facts.parameters.get("intervals") or Intervals.BOUNDS
    if not is_anonymizer(facts.method) or form != Intervals.BOUNDS:
        return
    if taken := taken_bounds(facts.spanned, [name for name, _ in facts.columns]):
        yield Problem(text=taken, path=("schema",))


@RULES.rule("columns.domains", "columns", "method")
def _domains_are_public(facts: Facts) -> Iterator[Problem]:
    """Random answers release insensitive columns unchanged; a synthesizer models every column."""
    if is_anonymizer(facts.method):
        return
    kept = ("identifier", "insensitive") if is_randomizer(facts.method) else ("identifier",)
    for name, column in facts.columns:
        if column.role not in kept and not has_public_domain(column):
            yield Problem(text=domains_missing([name]), path=("schema", name))


@RULES.rule("columns.scale", "columns", "method")
def _scales_are_of_synthesizers(facts: Facts) -> Iterator[Problem]:
    if not (is_anonymizer(facts.method) or is_randomizer(facts.method)):
        return
    for name, column in facts.columns:
        if column.scale in ("log", "quantiles"):
            text = f"scale: {column.scale} applies only to synthesizers. Remove it, or use a synthesizer"
            yield Problem(text=text, path=("schema", name))


@RULES.rule("columns.names", "columns", "spanned", "method", "parameters", "linked", "person")
def _released_columns_have_names_that_a_table_can_have(facts: Facts) -> Iterator[Problem]:
    if unfit := unfit_names(dict.fromkeys(_released(facts)), (PARTITION, COUNTERFEITS)):
        yield Problem(text=f"a release table cannot have all columns: {unfit}", path=("schema",))


def _released(facts: Facts) -> Iterator[str]:
    """Yield names of the released columns, as far as they follow from the names in the source."""
    form = facts.parameters.get("intervals") or Intervals.BOUNDS
    in_bounds = is_anonymizer(facts.method) and form == Intervals.BOUNDS
    for name, column in facts.columns:
        numbered = facts.linked and name == facts.person
        if in_bounds and name in facts.spanned:
            yield from bounds_of(name)[:2]
        elif column.role != Role.IDENTIFIER or column.pseudonym is not None or numbered:
            yield name


@RULES.rule("columns.transform", "read", "transformed")
def _steps_tell_columns_apart(facts: Facts) -> Iterator[Problem]:
    if facts.transformed and (unfit := unfit_names(facts.read, (RECORD, ROW_NUMBER))):
        yield Problem(text=f"a transform cannot read all columns: {unfit}", path=("schema",))


@RULES.rule("columns.types", "kept_types", "made_types", error=SchemaError)
def _columns_keep_their_types(facts: Facts) -> Iterator[Problem]:
    if other := other_types(facts.kept_types, facts.made_types):
        yield Problem(text=other, path=("schema",))


@RULES.rule("columns.policy", "schema", "policy")
def _columns_keep_the_policy(facts: Facts) -> Iterator[Problem]:
    from privacy_engine.verification.column_checks import broken_by_schema

    required = facts.policy.columns
    for broken in broken_by_schema(required, facts.schema) if required is not None else ():
        if broken.rule == "no_free_text":  # a separate rule, which also applies to DAGs
            continue
        yield Problem(
            text=f"the policy or the floor policy has rules for columns. {broken.column} must meet "
            f"{broken.rule}: {broken.remedy}",
            path=("schema", broken.column),
        )


@RULES.rule("columns.free_text", "columns", "policy")
def _free_text_is_signed_for(facts: Facts) -> Iterator[Problem]:
    required = facts.policy.columns
    if required is None or not required.no_free_text:
        return
    for name, column in facts.columns:
        signed = column.free_text is not None
        if required.refuses_text(free=column.is_free_text, signed=signed, about=column.meaning):
            yield Problem(
                text=f"the policy or the floor policy has rules for columns. {name} must meet no_free_text: "
                f"{UNSIGNED}",
                path=("schema", name),
            )


@RULES.rule("register.columns", "register", "read", "tables", "transformed")
def _registers_tell_quasi_identifiers(facts: Facts) -> Iterator[str]:
    if facts.register is None:
        return
    if facts.tables or facts.transformed:
        yield (
            "public_register cannot be combined with tables or a transform, whose columns it does not have; "
            "remove it"
        )
        return
    columns = facts.read.items()
    allowed = {name for name, a in columns if a.role == "quasi_identifier" and a.derive is None}
    allowed -= {name for name, a in columns if a.shift is not None}
    listed = facts.register
    if len(set(listed)) < len(listed) or not allowed.issuperset(listed):
        wrong = [name for name in listed if name not in allowed] or "repeated ones"
        yield (
            "public_register.columns must be distinct quasi-identifiers of schema that are neither derived "
            f"nor shifted, got {wrong}; remove them"
        )
