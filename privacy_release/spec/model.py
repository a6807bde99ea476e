"""The model of a release file: source, schema, method, policy, and where to publish.

Reading one imports neither pandas nor an algorithm, because Airflow does it at every parse of the DAGs.
`ReleaseSpec.data_schema` and `ReleaseSpec.release_policy` do, and find faults that only the engine can find.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from privacy_engine.errors import Problem
from privacy_engine.registry import can_be_followed, is_anonymizer, kind_of, reads_records, shown_method
from privacy_engine.vocabulary import PublishMode
from privacy_release.config.problems import found_in
from privacy_release.spec.engine import EngineField, EngineSpec
from privacy_release.spec.fields import Label, in_keywords
from privacy_release.spec.files import load_policy, load_schema, load_suite, load_tables
from privacy_release.spec.lines import at_lines
from privacy_release.spec.parameters import part_of_promise
from privacy_release.spec.reading import read_mapping
from privacy_release.spec.rules.facts import UNKNOWN, Facts, HistoryFacts, Promised
from privacy_release.spec.rules.judge import judged
from privacy_release.spec.rules.text import unknown
from privacy_release.spec.sections.alerts import AlertsSpec
from privacy_release.spec.sections.attributes import AttributeSpec, check_read, fields_of
from privacy_release.spec.sections.budget import BudgetSpec, KnowsPeople, YearlySpec
from privacy_release.spec.sections.expectations import Expectations, suite_of
from privacy_release.spec.sections.history import HistorySpec
from privacy_release.spec.sections.method import MethodSpec
from privacy_release.spec.sections.person import PersonField, RegisterSpec
from privacy_release.spec.sections.preparation import OutliersSpec, TransformSpec
from privacy_release.spec.sections.publish import ApprovalSpec, LearnSpec, PublishSpec
from privacy_release.spec.sections.schedule import ScheduleField, ScheduleSpec
from privacy_release.spec.sections.section import IncludeFile, Name, Section
from privacy_release.spec.sections.source import SourceSpec
from privacy_release.spec.sections.tables import TableSpec
from privacy_release.workarea.engines import FRAGMENTS, LOCAL

if TYPE_CHECKING:
    from privacy_engine.tables.schema import DataSchema
    from privacy_engine.verification.policy import ReleasePolicy

# Sections that apply to one table -> their fields.
_SECTIONS = {
    **{name: name for name in ("source", "expectations", "budget", "history", "outliers", "transform")},
    "schema": "attributes",
}
PAPERS = "papers"  # folder in `releases` of the methods of papers, see the setting `paper_releases`


class ReleaseSpec(Section):
    """One release; see the files in `include/releases`.

    Attributes:
        name: Name of the DAG. The file must have the same name.
        description: One line for the list of DAGs.
        tags: Tags by which the list of DAGs can be filtered.
        schedule: Cron expression, preset such as `@weekly`, or mapping. None: runs are triggered.
        attributes: Field `schema` of the file: role and kind of each column, by its name.
        tables: Several tables that share the person, instead of source, schema and expectations.
        expectations: File of a Great Expectations suite, or a checkpoint of a context.
        policy: File of the policy.
        person: Person of each row. The guarantee is then about persons.
        engine: Engine for the table. With engines other than `local`, no step holds the table in memory.
        transform: Step of your own, after the expectations are met.
        public_register: Public records that attackers may use, for `attack_risk` of linkage or the
            attacker `population` of `republication` in the policy.
    """

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["source", "schema"]}, {"required": ["tables"]}]}
    )

    name: Name
    description: str = ""
    tags: tuple[Label, ...] = ()
    schedule: ScheduleField | None = None
    source: SourceSpec | None = None
    engine: EngineField = EngineSpec(kind="local")
    attributes: dict[str, AttributeSpec] = Field(default={}, alias="schema", min_length=1)
    tables: dict[Name, TableSpec] | None = Field(default=None, min_length=2)
    person: PersonField | None = None
    expectations: Expectations | None = None
    transform: TransformSpec | None = None
    outliers: OutliersSpec | None = None
    release: MethodSpec
    budget: BudgetSpec | None = None
    policy: IncludeFile
    public_register: RegisterSpec | None = None
    history: HistorySpec | None = None
    approval: ApprovalSpec | None = None
    publish: PublishSpec
    learn: LearnSpec | None = None
    alerts: AlertsSpec | None = None

    @model_validator(mode="after")
    def _columns_have_roles(self) -> Self:
        if self.tables is not None:
            return self
        given = {"source": self.source, "schema": self.attributes}
        if missing := [name for name, value in given.items() if not value]:
            raise ValueError(f"{missing[0]}: is missing; add it, or describe several tables as `tables`")
        check_read(self.only_source, self.attributes)
        return self

    @model_validator(mode="after")
    def _spends_a_part(self) -> Self:
        """Compute what a release under a guarantee for a standing population spends."""
        promise = None if self.budget is None else self.budget.promise
        if not isinstance(promise, YearlySpec):
            return self
        if self.release.random_answers:
            raise ValueError(
                f"budget.promise yearly cannot be combined with {self.release.method}: memoised answers "
                "repeat, and are not paid for in parts; use a synthesizer, or remove promise"
            )
        if promise.opening is not None and not can_be_followed(self.release.method):
            raise ValueError(
                f"budget.promise.opening cannot be combined with {self.release.method}, which chooses no "
                "tables that later releases could measure again; use latent_class, or remove it"
            )
        try:
            part = part_of_promise(
                self.release.method,
                epsilon=promise.epsilon,
                delta=promise.delta,
                releases=promise.releases,
            )
        except ValueError as error:
            raise ValueError(f"budget.promise: {error}; raise epsilon or lower releases") from None
        given = {name: self.release.parameters[name] for name in part if name in self.release.parameters}
        if any(value != part[name] for name, value in given.items()):
            raise ValueError(
                f"release.{', '.join(given)} must be omitted with budget.promise yearly: each of "
                f"{promise.releases} releases spends {part}, an equal part of the promise; remove it"
            )
        return self.model_copy(update={"release": self.release.model_copy(update=part)})

    @model_validator(mode="after")
    def _learns_from_answers(self) -> Self:
        """Refuse a model of a release that is not randomized, or of columns that are not released."""
        if self.learn is None:
            return self
        if not self.release.random_answers:
            raise ValueError(
                f"learn requires a release of random answers, and {self.release.method} makes none; use "
                "errph, local_laplace or trr, or remove learn"
            )
        released = {name: a for name, a in self.every_attribute if a.role != "identifier"}
        named = (self.learn.target, *(self.learn.features or ()))
        if strangers := [name for name in named if name not in released]:
            raise ValueError(f"learn: [{unknown(strangers, released)}] must be released columns; correct it")
        if len(set(named)) < len(named):
            raise ValueError("learn: target and features must be distinct; remove what repeats")
        if released[self.learn.target].kind not in ("categorical", "ordinal"):
            raise ValueError(
                f"learn.target must be a column with listed values, {self.learn.target} is a "
                f"{released[self.learn.target].kind} one; name another"
            )
        return self

    @property
    def only_source(self) -> SourceSpec:
        """The source of a release of one table."""
        assert self.source is not None
        return self.source

    @property
    def sources(self) -> tuple[SourceSpec, ...]:
        """The sources of all tables."""
        return tuple(table.source for table in (self.tables or {}).values()) or (self.only_source,)

    @property
    def reads_records(self) -> bool:
        """Whether the release is made of records of its sources. They need not exist otherwise."""
        return reads_records(self.release.method)

    @property
    def invented(self) -> dict[str, Any]:
        """The settings for a table without records, in the form of the source or of several tables."""
        person = self.person.column if self.person is not None else None
        return {
            "schema": self.schema_fields if self.tables is None else None,
            "tables": self.table_settings,
            "person": person or "",
            "types": dict(self.release.parameters.get("types") or {}),
        }

    @property
    def linked(self) -> bool:
        """Whether the release links the rows of a person by a pseudonym."""
        return self.tables is not None or (self.person is not None and self.person.rows == "linked")

    @property
    def every_attribute(self) -> tuple[tuple[str, AttributeSpec], ...]:
        """Name and description of each column of the method's input, of all tables."""
        if self.tables is None:
            made = self.transform.attributes if self.transform is not None else None
            named = {n: a for n, a in self.attributes.items() if made is None or a.role == "identifier"}
            return tuple((named | (made or {})).items())
        return tuple(pair for table in self.tables.values() for pair in table.attributes.items())

    @property
    def table_settings(self) -> dict[str, dict[str, Any]]:
        """Settings for reading each of several tables, see `TableSpec.settings`. Empty for one table."""
        return {name: table.settings for name, table in (self.tables or {}).items()}

    @property
    def scaled(self) -> bool:
        """Whether no step may hold the whole table in memory."""
        return self.engine.kind != LOCAL

    @property
    def mapped(self) -> bool:
        """Whether each fragment of the table is anonymized by a separate task."""
        fragments = self.engine.kind == FRAGMENTS and self.engine.mapped
        return fragments and is_anonymizer(self.release.method)

    @property
    def individual(self) -> str | None:
        """The identifier by which answers are memoised. None if they are not memoised, or there is none."""
        names = [name for name, a in self.attributes.items() if a.role == "identifier"]
        if not self.release.memoised:
            return None
        named = self.release.parameters.get("individual", names[0] if len(names) == 1 else None)
        return named if named in names else None

    @property
    def numbered(self) -> str | None:
        """The person's column, if a person has the same number in every run. Otherwise None."""
        bounded = self.budget is not None and isinstance(self.budget.promise, KnowsPeople)
        return self.person.column if bounded and self.person is not None else None

    @property
    def numbering_key(self) -> str | None:
        """The connection whose password is the key of person numbers. None if there is none."""
        promise = None if self.budget is None else self.budget.promise
        return promise.key if isinstance(promise, KnowsPeople) else None

    @property
    def publish_mode(self) -> PublishMode:
        """Releases that the table keeps."""
        by_partition = isinstance(self.schedule, ScheduleSpec) and self.schedule.partitions is not None
        return self.publish.mode or (PublishMode.PARTITIONS if by_partition else PublishMode.SNAPSHOT)

    @property
    def upstream(self) -> tuple[str, ...]:
        """The assets that the schedule waits for."""
        return self.schedule.upstream if isinstance(self.schedule, ScheduleSpec) else ()

    @property
    def unfollowed(self) -> tuple[str, ...]:
        """Columns that name people who are not recognised in later releases.

        Empty with a budget or random answers, because their losses add up in the ledger, and for invented
        records.
        """
        adds_up = self.budget is not None or self.release.random_answers
        if self.history is not None or adds_up or not self.reads_records:
            return ()
        return tuple(dict.fromkeys(name for name, a in self.every_attribute if a.role == "identifier"))

    @property
    def reports_to_curator(self) -> bool:
        """Whether a report compares the release with its source. Only for records drawn from a model."""
        if self.budget is None or self.release.random_answers:
            return False
        explicit = "curator_report" in self.budget.model_fields_set  # it needs both tables in memory
        return self.budget.curator_report and (explicit or not self.scaled)

    @property
    def schema_fields(self) -> dict[str, dict[str, Any]]:
        """The schema as plain values for `load_schema`."""
        return self._with_person(fields_of(self.attributes, self.only_source))

    @property
    def register_identifier(self) -> str | None:
        """The column that identifies the persons of the public register. None if there is none."""
        return None if self.public_register is None else self.public_register.identifier

    @property
    def register_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of the public register and of its identifier. Empty without a register."""
        names = self.public_register.columns if self.public_register is not None else ()
        if self.register_identifier in self.attributes:  # otherwise a rule reports it
            names = (*names, self.register_identifier)
        return fields_of({name: self.attributes[name] for name in names}, self.only_source)

    @property
    def transformed_fields(self) -> dict[str, dict[str, Any]] | None:
        """The schema of the result of `transform`, without identifiers. None: as the source."""
        own = self.transform.attributes if self.transform is not None else None
        return None if own is None else fields_of(own, self.only_source)

    @property
    def method_fields(self) -> dict[str, dict[str, Any]]:
        """The schema of the method's input: the source, or the result of `transform`."""
        made = self.transformed_fields
        if made is None:
            return self.schema_fields
        named = {name: a for name, a in self.attributes.items() if a.role == "identifier"}
        return self._with_person(fields_of(named, self.only_source) | made)

    def _with_person(self, fields: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if self.person is not None:  # a column of that name keeps its own fields, too
            fields["person"] = fields.get("person", {}) | self.person.model_dump(exclude_defaults=True)
        return fields

    @property
    def undeclared_types(self) -> Literal["values", "schema"]:
        """The origin of column types that a database does not declare, see `Query`."""
        return "schema" if self.budget is not None else "values"

    def facts(self) -> Facts:
        """Return the facts for rules. Nothing heavy is imported."""
        promise, history = None if self.budget is None else self.budget.promise, self.history
        method, shown = shown_method(self.release.method, self.release.parameters)
        return Facts(
            columns=self.every_attribute,
            read=self.attributes,
            spanned=[n for n, a in self.every_attribute if a.role == "quasi_identifier" and a.spanned],
            described=self.tables or {},
            sections=[name for name, field in _SECTIONS.items() if getattr(self, field)],
            independent=self.person is not None
            and self.person.rows == "independent"
            and "rows" in self.person.model_fields_set,
            tables=tuple(self.tables or ()),
            person=None if self.person is None else self.person.column,
            linked=self.linked,
            engine=self.engine.kind,
            transformed=self.transform is not None,
            register=None if self.public_register is None else self.public_register.columns,
            register_identifier=self.register_identifier,
            nulls=UNKNOWN if self.tables is not None else self.only_source.nulls,
            outliers=() if self.outliers is None else (self.outliers.action,),
            kind=kind_of(self.release.method),
            method=method,
            parameters=shown,
            stated=tuple(self.release.parameters),
            budget=self.budget is not None,
            promise=Promised.of(promise),
            history=None
            if history is None
            else HistoryFacts(
                keep=history.keep,
                k=history.k,
                m=history.m,
                departures=history.departures,
                counterfeits=history.counterfeits,
                hold_back=history.hold_back,
                accept_unjudged=history.accept_unjudged,
            ),
            identifier=None if history is None else history.identifier,
            schedule=self.schedule is not None,
            unfollowed=self.unfollowed,
            alerts=() if self.alerts is None else tuple(self.alerts.figures),
            alerts_of_budget=self.alerts is not None and self.alerts.budget is not None,
            publish_mode=self.publish_mode,
            approval=self.approval is not None and self.approval.required,
            assigned=(self.approval and self.approval.assigned_to) or (),
            evidence=self.publish.evidence,
            upstream=self.upstream,
        )

    def data_schema(self) -> "DataSchema":
        """Return the schema for the engine, with its hierarchies.

        Raises:
            SpecError: If the engine finds that its parts contradict each other.
        """
        if self.tables is None or self.person is None:
            return load_schema(self.schema_fields)
        return load_tables(self.table_settings, self.person.column or "")

    def method_schema(self) -> "DataSchema":
        """Return the schema of the method's input, see `method_fields`.

        Raises:
            SpecError: As `data_schema`.
        """
        return self.data_schema() if self.tables is not None else load_schema(self.method_fields)

    def release_policy(self) -> "ReleasePolicy":
        """Return the policy for the engine.

        Raises:
            SpecError: Naming the file and the field.
        """
        return load_policy(self.policy)

    @property
    def suite_given(self) -> str | dict[str, Any] | None:
        """The suite for `ValidateOperator`."""
        return suite_of(self.expectations)

    def expectation_suite(self) -> dict[str, Any] | None:
        """Return the Great Expectations suite, or the name of a checkpoint. None if there is neither."""
        return None if self.suite_given is None else load_suite(self.suite_given)


def _home_of(path: Path) -> Path:
    folder = path.parent
    if folder.name == PAPERS and folder.parent.name == "releases":
        folder = folder.parent
    return folder.parent if folder.name == "releases" else folder


def load_spec(path: str | Path, *, judge: bool = True) -> ReleaseSpec:
    """Read a specification. Other files are searched in the folder that contains `releases/`.

    A file in `releases/papers/` belongs to that folder, too.

    Args:
        path: Path of the file.
        judge: Whether to raise for rules that the file breaks by itself. Otherwise the caller judges them,
            together with those that need other files.

    Raises:
        SpecError: Naming the file, each wrong field and the remedy.
    """
    path = Path(path).absolute()
    home = _home_of(path)
    fields = read_mapping(path)
    try:
        spec = ReleaseSpec.model_validate(fields, context={"home": home})
    except ValidationError as error:
        raise at_lines(path, found_in(error, ReleaseSpec)) from None
    if judge and (found := judged(spec.facts()).problems):
        raise at_lines(path, found)
    if spec.name != path.stem:
        text = f"name must be {path.stem!r} like the file, so that names are unique; rename one"
        raise at_lines(path, [Problem(text=text, path=("name",))])
    if spec.tables is None:
        absolute: dict[str, Any] = {"source": _found_from(spec.only_source, home)}
        if (register := spec.public_register) is not None:
            uri = _address_from(register.uri, home)
            absolute["public_register"] = register.model_copy(update={"uri": uri})
        return spec.model_copy(update=absolute)
    tables = {
        name: table.model_copy(update={"source": _found_from(table.source, home)})
        for name, table in spec.tables.items()
    }
    return spec.model_copy(update={"tables": tables})


def _found_from(source: SourceSpec, home: Path) -> SourceSpec:
    """Return a source whose address does not depend on a folder."""
    if source.uri is None:
        return source
    return source.model_copy(update={"uri": _address_from(source.uri, home)})


def _address_from(uri: str, home: Path) -> str:
    """Return an address that does not depend on a folder."""
    return uri if re.match(r"[A-Za-z][\w+.-]*://|/", uri) else str(home / uri)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a specification, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **in_keywords(ReleaseSpec.model_json_schema(by_alias=True)),
    }
