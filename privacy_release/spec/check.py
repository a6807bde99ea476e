"""A release's specification with all that it names: policy, suite, hierarchies, and the floor policy."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from privacy_engine.errors import PrivacyEngineError, Problem
from privacy_release.config.problems import gathered, problems_in, raise_problems
from privacy_release.spec.files import read_hierarchy
from privacy_release.spec.floor import Floor, under_floor
from privacy_release.spec.model import ReleaseSpec
from privacy_release.spec.reading import LARGEST_HIERARCHY
from privacy_release.spec.rules.facts import UNKNOWN, Declared, Facts
from privacy_release.spec.rules.judge import judged

Learn = Callable[[Facts], Facts]
LARGEST_AT_PARSE = 1 << 20  # bytes of a hierarchy; a larger one is first read by the task that needs it


def check_files(spec: ReleaseSpec, floor: Floor | None) -> None:
    """Read what a specification names, as far as that takes no more than a moment, and judge it.

    What needs the engine (the parameters of the method), the libraries of the gate (the arguments of an
    expectation) or records is found by the tasks, and by `privacy-release check`.

    Raises:
        SpecError: naming the file, the field and what to do.
    """
    facts, found = learned(spec, policy_of(spec, floor), sources_of(spec))
    raise_problems([*gathered(files_of(spec)), *found, *judged(facts).problems])


def files_of(spec: ReleaseSpec) -> list[Callable[[], object]]:
    """What reads each file that a specification names beside its policy."""
    suites = [spec.expectation_suite, *(table.suite for table in (spec.tables or {}).values())]
    trees = dict.fromkeys(a.hierarchy for _, a in spec.every_attribute if a.hierarchy)
    return [*suites, *(partial(_read_if_small, Path(name)) for name in trees)]


def _read_if_small(hierarchy: Path) -> None:
    if not LARGEST_AT_PARSE < hierarchy.stat().st_size <= LARGEST_HIERARCHY:
        read_hierarchy(hierarchy)


def learned(spec: ReleaseSpec, *further: Learn) -> tuple[Facts, list[Problem]]:
    """What is known of a release by its file and by more; and what kept something from being known."""
    facts, found = spec.facts(), list[Problem]()
    for learn in further:
        try:
            facts = learn(facts)
        except PrivacyEngineError as error:
            found += problems_in(error)
    return facts, found


def policy_of(spec: ReleaseSpec, floor: Floor | None) -> Learn:
    """Learn what must hold."""

    def learn(facts: Facts) -> Facts:
        own = spec.release_policy()
        asked = under_floor(own, floor)
        return replace(facts, own_policy=(own, spec.policy), policy=asked, floor=floor)

    return learn


def sources_of(spec: ReleaseSpec) -> Learn:
    """Learn where sources are, and what the deployment says of their columns."""

    def learn(facts: Facts) -> Facts:
        from privacy_release.spec.classification import classification

        classes = classification()
        # A table of a catalog has no address here: the catalog's own configuration has it.
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
    """Learn the method, which loads it."""

    def learn(facts: Facts) -> Facts:
        from privacy_release.spec.methods import build_method

        return replace(facts, releaser=build_method(spec.release.method, spec.release.parameters))

    return learn


def schema_of(spec: ReleaseSpec) -> Learn:
    """Learn the schema of what the method is given, with its hierarchies, and what the method loses of it."""

    def learn(facts: Facts) -> Facts:
        schema = spec.method_schema()
        loss = facts.releaser.privacy_loss(schema) if facts.knows("releaser") else UNKNOWN
        return replace(facts, schema=schema, loss=loss)

    return learn
