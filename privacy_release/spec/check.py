"""Check a release specification with all files that it names: policy, suite, hierarchies, floor policy."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from privacy_engine.errors import PrivacyEngineError, Problem
from privacy_engine.vocabulary import ReleaseKind
from privacy_release.config.problems import gathered, problems_in, raise_problems
from privacy_release.spec.files import read_hierarchy
from privacy_release.spec.floor import Floor, under_floor
from privacy_release.spec.model import ReleaseSpec
from privacy_release.spec.reading import LARGEST_HIERARCHY
from privacy_release.spec.rules.facts import UNKNOWN, Declared, Facts
from privacy_release.spec.rules.judge import judged

Learn = Callable[[Facts], Facts]
LARGEST_AT_PARSE = 1 << 20  # bytes of a hierarchy; a larger one is only read by the task that needs it


def check_files(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Read the files that a specification names, as far as that is fast, and judge it.

    Faults that need the engine (the parameters of the method), the libraries of the gate (the arguments of an
    expectation) or records are found by the tasks, and by `privacy-release check`.

    Raises:
        SpecError: Naming the file, the field and the remedy.
    """
    facts, found = learned(spec, policy_of(spec, floor), sources_of(spec))
    raise_problems([*gathered(files_of(spec)), *found, *judged(facts).problems])


def files_of(spec: ReleaseSpec) -> list[Callable[[], object]]:
    """Return functions that read each file that a specification names, except its policy."""
    suites = [spec.expectation_suite, *(table.suite for table in (spec.tables or {}).values())]
    trees = dict.fromkeys(a.hierarchy for _, a in spec.every_attribute if a.hierarchy)
    return [*suites, *(partial(_read_if_small, Path(name)) for name in trees)]


def _read_if_small(hierarchy: Path) -> None:
    if not LARGEST_AT_PARSE < hierarchy.stat().st_size <= LARGEST_HIERARCHY:
        read_hierarchy(hierarchy)


def learned(spec: ReleaseSpec, *further: Learn) -> tuple[Facts, list[Problem]]:
    """Return the facts about a release, from its file and further sources, and the problems found."""
    facts, found = spec.facts(), list[Problem]()
    for learn in further:
        try:
            facts = learn(facts)
        except PrivacyEngineError as error:
            found += problems_in(error)
    return facts, found


def policy_of(spec: ReleaseSpec, floor: Floor | None) -> Learn:
    """Return a function that learns the policy."""

    def learn(facts: Facts) -> Facts:
        own = spec.release_policy()
        combined = under_floor(own, floor)
        if facts.kind is ReleaseKind.STRUCTURE:
            combined = combined.of_invented_records()
        return replace(facts, own_policy=(own, spec.policy), policy=combined, floor=floor)

    return learn


def sources_of(spec: ReleaseSpec) -> Learn:
    """Return a function that learns where sources are, and how the deployment classifies their columns."""

    def learn(facts: Facts) -> Facts:
        from privacy_release.spec.classification import classification

        classes = classification()
        # A table of a catalog has no address here, only in the catalog's own configuration.
        addresses = [s.uri for s in spec.sources if s.uri is not None and not s.uri.startswith("iceberg://")]
        declared = () if classes is None else tuple(_declared(spec))
        return replace(facts, addresses=addresses, classes=classes, declared=declared)

    return learn


def _declared(spec: ReleaseSpec) -> Iterator[Declared]:
    from privacy_engine.tables.linked import renamed_person

    schema, step = spec.data_schema(), spec.transform
    if spec.tables is None:
        made = None if step is None else (step.sql, spec.method_schema())
        source = spec.only_source
        connection = (source.connection or "") if source.sql else None
        yield Declared(place=source.place, connection=connection, schema=schema, made=made)
    for name, table in (spec.tables or {}).items():
        own = schema.of_table(name)
        person = spec.person.column if spec.person is not None else None
        own = renamed_person(own, own.by, table.person or person or own.by)
        yield Declared(place=table.source.place, connection=None, schema=own, made=None)


def method_of(spec: ReleaseSpec) -> Learn:
    """Return a function that learns the method, which imports it."""

    def learn(facts: Facts) -> Facts:
        from privacy_release.spec.methods import build_method

        return replace(facts, releaser=build_method(spec.release.method, spec.release.parameters))

    return learn


def schema_of(spec: ReleaseSpec) -> Learn:
    """Return a function that learns the schema of the method's input, with hierarchies, and the loss."""

    def learn(facts: Facts) -> Facts:
        schema = spec.method_schema()
        loss = facts.releaser.privacy_loss(schema) if facts.knows("releaser") else UNKNOWN
        return replace(facts, schema=schema, loss=loss)

    return learn
