"""Rules on several tables that share the person: requirements, and unsupported combinations."""

from collections.abc import Iterator

from privacy_engine.errors import Problem
from privacy_engine.registry import is_anonymizer
from privacy_engine.vocabulary import ReleaseKind
from privacy_release.spec.rules.facts import Facts
from privacy_release.spec.rules.rule import Rules
from privacy_release.workarea.engines import LOCAL

RULES = Rules()
_BESIDE = {
    "a separate source, schema or expectations": {"source", "schema", "expectations"},
    "a budget": {"budget"},
    "history": {"history"},
    "outliers": {"outliers"},
    "a transform": {"transform"},
}


@RULES.rule("tables.beside", "described", "sections")
def _tables_stand_alone(facts: Facts) -> Iterator[Problem]:
    for what, names in _BESIDE.items():
        if facts.described and names & set(facts.sections):
            yield Problem(
                text=f"tables cannot be combined with {what}; remove it, or release each table separately",
                path=("tables",),
            )


@RULES.rule("structure.records", "kind", "sections", "described", "engine", "register")
def _structure_files_have_no_records(facts: Facts) -> Iterator[str]:
    if facts.kind is not ReleaseKind.STRUCTURE:
        return
    of_records = [name for name in facts.sections if name not in ("source", "schema", "transform")]
    of_records += ["engine"] if facts.engine != LOCAL else []
    of_records += [] if facts.register is None else ["public_register"]
    of_records += [f"tables.{name}.expectations" for name, own in facts.described.items() if own.expectations]
    if of_records:
        yield (
            f"{', '.join(of_records)} cannot be combined with the method structure, which reads no record; "
            "remove them"
        )


@RULES.rule("tables.method", "described", "method", "engine")
def _classes_are_of_all_tables(facts: Facts) -> Iterator[Problem]:
    if facts.described and (not is_anonymizer(facts.method) or facts.engine != LOCAL):
        yield Problem(
            text="tables must be released by an anonymizer with the engine local: a class is of all rows of "
            "a person in all tables; use another method, or release each table separately",
            path=("tables",),
        )


@RULES.rule("tables.person", "described", "person", "independent")
def _tables_share_a_person(facts: Facts) -> Iterator[Problem]:
    if facts.described and facts.person is None:
        yield Problem(
            text="tables must share a person; name the column that identifies the person of a row",
            path=("tables",),
        )
    elif facts.described and facts.independent:
        yield Problem(
            text="person.rows must be linked if tables share a pseudonym; remove rows: independent",
            path=("person", "rows"),
        )


@RULES.rule("tables.sources", "described")
def _tables_are_read_at_once(facts: Facts) -> Iterator[Problem]:
    for name, table in facts.described.items():
        source = table.source
        if source.uri is None or source.format != "parquet" or source.when_missing != "fail":
            yield Problem(
                text=f"tables.{name}.source must be Parquet files without when_missing: all tables of a "
                "person are read at once; export the query or version, or release each table separately",
                path=("tables", name, "source"),
            )


@RULES.rule("tables.columns", "described", "person")
def _tables_name_their_person(facts: Facts) -> Iterator[Problem]:
    for name, table in facts.described.items():
        by, columns = table.person or facts.person, table.attributes
        known = columns.get(by)
        found = []
        if by is not None and (known is None or known.role != "identifier"):
            found.append(
                f"must have the column {by} with the role identifier; add it, or name the table's own as "
                f"tables.{name}.person"
            )
        if "table_name" in columns:  # `persons.TABLE`, whose module loads pandas
            found.append("must not have a column table_name; rename it")
        if named := [n for n, a in columns.items() if a.pseudonym is not None]:
            found.append(
                f"must have no pseudonyms other than the person's, it has {named}; remove `pseudonym`"
            )
        if shifted := [n for n, a in columns.items() if a.shift is not None]:
            found.append(
                f"must shift no dates, it shifts {shifted}; remove `shift`, or release each table separately"
            )
        for problem in found:
            yield Problem(text=f"tables.{name}.schema {problem}", path=("tables", name, "schema"))
