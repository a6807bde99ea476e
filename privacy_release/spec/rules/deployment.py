"""Rules from the deployment and the other release files: places, classes of columns, users, assets."""

from collections.abc import Iterator

from privacy_engine.choice import did_you_mean
from privacy_engine.errors import PrivacyEngineError, Problem, SpecError
from privacy_release.config.places import require_allowed
from privacy_release.config.problems import problems_in
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules

RULES = Rules()


@RULES.rule("source.places", "addresses")
def _addresses_are_below_the_places(facts: Facts) -> Iterator[Problem]:
    for address in facts.addresses:
        try:
            require_allowed(address)
        except SpecError as error:
            yield Problem(text=str(error), path=("source", "uri"))


@RULES.rule("source.classes", "classes", "declared")
def _roles_keep_the_classification(facts: Facts) -> Iterator[Problem]:
    """For a glob, only the files show which source it belongs to, so `ingest` checks that."""
    from privacy_release.spec.selects import computed_of

    if (classes := facts.classes) is None:
        return
    for source in facts.declared:
        schema = source.schema
        try:
            of = (
                classes.of_query(source.connection, source.place)
                if source.connection is not None
                else classes.of_addresses([source.place])
            )
            classes.require(schema, of)
            if source.made is not None:
                sql, made = source.made
                columns = [a.name for a in schema.without_identifiers().attributes]
                classes.require_made(made, schema, computed_of(sql, columns))
        except PrivacyEngineError as error:
            yield from problems_in(error)


@RULES.rule("approval.users", "assigned", "users")
def _approvers_are_users(facts: Facts) -> Iterator[Problem]:
    for place, name in enumerate(facts.assigned):
        if name not in facts.users:
            yield Problem(
                text=f"approval.assigned_to names {name}, which is no user{did_you_mean(name, facts.users)}; "
                "correct it",
                path=("approval", "assigned_to", place),
            )


@RULES.rule("publish.evidence", "evidence", "signed")
def _evidence_is_signed(facts: Facts) -> Iterator[Problem]:
    if facts.evidence and not facts.signed:
        yield Problem(
            text="publish.evidence needs a key that signs the release; name its file as the option "
            "signing_key, or remove evidence",
            path=("publish", "evidence"),
        )


@RULES.rule("schedule.assets", "upstream", "published")
def _assets_are_published(facts: Facts) -> Iterator[Problem]:
    for name in facts.upstream:
        if name not in facts.published:
            yield Problem(
                text=f"schedule waits for the asset {name}, which no other release publishes"
                f"{did_you_mean(name, facts.published)}; correct it, or name it with --published if another "
                "DAG publishes it",
                path=("schedule", "asset" if len(facts.upstream) == 1 else "assets"),
            )
