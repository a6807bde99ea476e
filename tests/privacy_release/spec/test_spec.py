"""Specifications: what is read, and that each mistake is named by file, field and remedy."""

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from jsonschema import Draft202012Validator

from privacy_engine import vocabulary
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.measures.recoding import require_truthful
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import DistinctLDiversity, KAnonymity
from privacy_engine.vocabulary import Intervals, Kind, Role
from privacy_release.spec import fields as spec_fields
from privacy_release.spec.check import check_files
from privacy_release.spec.files import include_folder, load_policy, load_schema, load_suite
from privacy_release.spec.model import json_schema, load_spec
from privacy_release.spec.sections.attributes import AttributeSpec
from tests.privacy_engine.tables.test_schema import BAD_FIELDS, schemas

INCLUDE = Path(__file__).parents[3] / "include"
RELEASES = sorted((INCLUDE / "releases").rglob("*.yaml"))

Edit = Callable[[dict[str, Any]], None]


def edited(home: Path, edit: Edit) -> Path:
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text())
    edit(fields)
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    return path


def setter(*keys: str, value: Any) -> Edit:
    def edit(fields: dict[str, Any]) -> None:
        for key in keys[:-1]:
            fields = fields[key]
        fields[keys[-1]] = value

    return edit


def remover(*keys: str) -> Edit:
    def edit(fields: dict[str, Any]) -> None:
        for key in keys[:-1]:
            fields = fields[key]
        del fields[keys[-1]]

    return edit


@pytest.mark.parametrize("path", RELEASES, ids=lambda p: p.stem)
def test_shipped_releases_are_read_whole(path: Path) -> None:
    spec = load_spec(path)
    read = [column for source in spec.sources for column in source.columns]
    named = [table.person for table in (spec.tables or {}).values()]
    derived = [name for name, a in spec.every_attribute if a.derive is not None]
    assert set(spec.data_schema().names) - {"table_name", *derived} == set(read) - set(named)
    policy = spec.release_policy()
    bounded = policy.require or policy.columns or policy.kinds == ("structure",)
    assert bounded or policy.max_breach is not None or spec.budget is not None
    assert (
        isinstance(spec.schedule, str)
        or spec.schedule is None
        or spec.schedule.upstream
        or spec.schedule.partitions
    )


def test_files_are_found_beside_the_releases_folder_wherever_the_process_runs(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVACY_RELEASE_HOME")
    spec = load_spec(home / "releases" / "people.yaml")
    assert spec.policy == str(home / "policies" / "people.yaml")
    assert spec.source.uri == str(home / "people.parquet")
    assert spec.data_schema()["zip"].hierarchy is not None
    assert spec.release_policy().require == (KAnonymity(k=5), DistinctLDiversity(l=2, attribute="illness"))


def test_what_is_not_method_or_seed_is_a_parameter_of_the_method(home: Path) -> None:
    release = load_spec(home / "releases" / "people.yaml").release
    assert (release.method, release.seed, release.parameters) == ("mondrian", 7, {"k": 5, "l": 2})


def test_schema_survives_as_plain_values(home: Path) -> None:
    spec = load_spec(home / "releases" / "people.yaml")
    assert load_schema(json.loads(json.dumps(spec.schema_fields))) == spec.data_schema()


def test_roles_and_kinds_are_those_of_the_engine() -> None:
    properties = AttributeSpec.model_json_schema()["properties"]
    assert properties["role"]["enum"] == [role.value for role in Role]
    assert properties["kind"]["enum"] == [kind.value for kind in Kind]
    assert list(get_args(spec_fields.Period)) == [period.value for period in vocabulary.CalendarUnit]
    assert list(get_args(spec_fields.Meaning)) == [meaning.value for meaning in vocabulary.Meaning]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"top_code": "ninety"}, "top_code: must be a valid number"),
        ({"bottom_code": {"years": 90}}, "bottom_code"),
        ({"bottom_code": {"years_before_release": 0}}, "bottom_code"),
        ({"prefix": 0}, "prefix"),
        ({"rare": "us_zip3"}, "rare: must be a list of texts"),
        ({"meaning": "zip"}, "meaning: must be 'age', 'date', 'postcode'"),
    ],
)
def test_wrong_codes_and_meanings_are_reported_by_field(
    home: Path, fields: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SpecError, match=expected):
        load_spec(edited(home, lambda spec: spec["schema"]["visits"].update(fields)))


def test_codes_survive_as_plain_values(home: Path) -> None:
    """Also what YAML reads as a date."""
    born = {"role": "insensitive", "kind": "date", "precision": "year", "bottom_code": date(1935, 1, 1)}
    age = {"top_code": 90, "bottom_code": {"years_before_release": 90}, "meaning": "age"}

    def change(spec: Any) -> None:
        spec["schema"]["visits"].update(age)
        spec["schema"]["born"] = born
        spec["source"]["columns"].append("born")

    spec = load_spec(edited(home, change))
    assert load_schema(json.loads(json.dumps(spec.schema_fields))) == spec.data_schema()
    assert spec.data_schema().to_dict()["born"]["bottom_code"] == "1935-01-01"


def test_attribute_has_the_fields_of_the_engine() -> None:
    with pytest.raises(SchemaError, match=r"known are \[.*\]") as caught:
        DataSchema.from_dict({"age": {"rolle": "sensitive"}})
    engine = set(re.findall(r"'(\w+)'", str(caught.value).partition("known are")[2]))
    of_releases = {"unlisted"}  # only methods set it, in the schema of a release
    assert set(AttributeSpec.model_fields) == engine - of_releases


ATTRIBUTE = Draft202012Validator(AttributeSpec.model_json_schema(by_alias=True))
COLUMN = {"role": "quasi_identifier", "kind": "categorical"}
KEYED = {"connection": "keys", "scope": "series"}


@given(schemas)
def test_the_json_schema_accepts_every_attribute(schema: DataSchema) -> None:
    for name, fields in schema.to_dict().items():
        if schema[name].hierarchy is None:  # which a file names, where a schema has its rows
            ATTRIBUTE.validate(fields)


# Bounds of dates are texts, too, and a limit of a number is judged when the file is read.
@pytest.mark.parametrize("case", sorted(BAD_FIELDS.keys() - {"bounds of text", "no bin"}))
def test_the_json_schema_refuses_a_bad_field_too(case: str) -> None:
    assert not ATTRIBUTE.is_valid(COLUMN | BAD_FIELDS[case][0])


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (
            {"shift": KEYED | {"days": 30, "series": "hospital"}},
            [{"shift": {"days": 3}}, {"shift": KEYED | {"days": "many"}}],
        ),
        ({"derive": {"years_between": ["born", "at"]}}, [{"derive": {"years_between": ["born"]}}]),
        ({"derive": {"days_since_first": "at"}}, [{"derive": {"days_since_first": ["at"]}}]),
        ({"pseudonym": KEYED}, [{"pseudonym": {}}]),
        ({"text": "redact", "unique": {"allow": "r"}}, [{"text": "allow"}, {"unique": {}}]),
        ({"text": {"allow": "r"}}, [{"text": {}}]),
    ],
    ids=str,
)
def test_the_json_schema_knows_the_fields_of_dates_and_direct_identifiers(
    fields: dict[str, Any], wrong: list[dict[str, Any]]
) -> None:
    ATTRIBUTE.validate(COLUMN | fields)
    assert not [given for given in wrong if ATTRIBUTE.is_valid(COLUMN | given)]


@pytest.mark.parametrize(
    ("schedule", "upstream", "partitions"),
    [
        ({"asset": "adult"}, ("adult",), None),
        ({"assets": ["a", "b"]}, ("a", "b"), None),
        ({"partitions": "0 0 * * *"}, (), "0 0 * * *"),
    ],
)
def test_schedules_by_event(home: Path, schedule: Any, upstream: Any, partitions: Any) -> None:
    found = load_spec(edited(home, setter("schedule", value=schedule))).schedule
    assert found is not None
    assert not isinstance(found, str)
    assert (found.upstream, found.partitions) == (upstream, partitions)


@pytest.mark.parametrize("schedule", [None, "@weekly", "30 4 * * 1-5"])
def test_schedules_by_time(home: Path, schedule: str | None) -> None:
    assert load_spec(edited(home, setter("schedule", value=schedule))).schedule == schedule


MISTAKES = [
    pytest.param(remover("policy"), "policy: is missing; add it", id="no-policy"),
    pytest.param(remover("schema", "age", "role"), r"schema\.age\.role: is missing; add it", id="no-role"),
    pytest.param(
        setter("schema", "age", "role", value="TODO"),
        r"schema\.age\.role: must be 'identifier', 'quasi_identifier', .*, got 'TODO'; correct",
        id="undecided-role",
    ),
    pytest.param(
        setter("schema", "age", "bound", value=[0, 1]),
        r"schema\.age\.bound: is not a known field; .*did you mean bounds\?",
        id="misspelt-attribute-field",
    ),
    pytest.param(
        setter("expectation", value="x.json"),
        r"expectation: is not a known field; .*did you mean expectations\?",
        id="misspelt-field",
    ),
    pytest.param(
        setter("approvals", value={"required": True}),
        r"approvals: is not a known field; .*did you mean approval\?",
        id="misspelt-approval",
    ),
    pytest.param(
        setter("approval", value={"assigned": ["officer"]}),
        r"approval\.assigned: is not a known field; .*did you mean assigned_to\?",
        id="misspelt-approval-field",
    ),
    pytest.param(
        setter("approval", value={"timeout": "soon"}),
        r"approval\.timeout: must be a whole number of minutes, hours, days or weeks, such as 2 days",
        id="approval-timeout",
    ),
    pytest.param(
        setter("approval", value={"timeout": "53 weeks"}),
        r"approval\.timeout: must .* up to a year",
        id="too-long",
    ),
    pytest.param(
        setter("history", value={"identifier": "age"}),
        r"history\.identifier must be a column of schema with the role identifier, got 'age'; correct it",
        id="history-of-no-identifier",
    ),
    pytest.param(
        setter("history", value={"identifier": "name", "keep": False, "k": 5}),
        r"history\.k cannot be combined with keep: false",
        id="history-that-keeps-nothing",
    ),
    pytest.param(
        setter("history", value={"identifier": "name", "m": {"age": 2}}),
        r"history\.m \['age'\] must be sensitive attributes of schema",
        id="history-of-no-sensitive-attribute",
    ),
    pytest.param(
        setter("history", value={"identifier": "name", "reserve": 0.5}),
        r"history\.reserve: .*1",
        id="history-with-less-than-no-reserve",
    ),
    pytest.param(
        setter("history", value={"identifier": "name", "departures": "some"}),
        r"history\.departures: .*known",
        id="history-with-unknown-departures",
    ),
    pytest.param(
        setter("history", value={"column": "name"}),
        r"history\.identifier: is missing; add it",
        id="no-identifier",
    ),
    pytest.param(
        setter("schema", "visits", "text", value="allow"),
        r"schema\.visits\.text: must be redact, or `\{allow: <reason>\}`; correct it",
        id="text-allowed-without-a-reason",
    ),
    pytest.param(
        setter("schema", "visits", "unique", value={"allow": " "}),
        r"schema\.visits\.unique\.allow: must be a reason, a text that is not blank",
        id="blank-reason",
    ),
    pytest.param(
        setter("schema", "age", "pseudonym", value={"connection": "c", "scope": "series"}),
        r"schema\.age: pseudonym requires a column with the role identifier",
        id="pseudonym-of-no-identifier",
    ),
    pytest.param(
        setter("schema", "name", "pseudonym", value={"connection": "c", "scope": "ever"}),
        r"schema\.name\.pseudonym\.scope: must be 'release' or 'series', got 'ever'; correct it",
        id="pseudonym-of-no-scope",
    ),
    pytest.param(
        setter("approval", value={"assigned_to": []}),
        r"approval\.assigned_to: .*at least 1 item",
        id="approval-of-no-one",
    ),
    pytest.param(
        setter("policy", value="policies/none.yaml"),
        r"policy: the file .*none\.yaml must exist",
        id="no-policy-file",
    ),
    pytest.param(
        setter("schema", "zip", "hierarchy", value="hierarchies/none.csv"),
        r"schema\.zip\.hierarchy: the file .*none\.csv must exist; correct the path",
        id="no-hierarchy-file",
    ),
    pytest.param(
        setter("expectations", value="none.json"), r"expectations: the file .* must exist", id="no-suite-file"
    ),
    pytest.param(
        setter("release", "method", value="anonymise"),
        r"release\.method: must be one of .*mondrian",
        id="method",
    ),
    pytest.param(remover("release", "method"), r"release\.method: is missing", id="no-method"),
    pytest.param(setter("release", "seed", value=-1), r"release\.seed: must be greater", id="seed"),
    pytest.param(
        setter("source", "nulls", value="omit"),
        r"source\.nulls: must be 'fail', 'drop' or 'keep'",
        id="nulls",
    ),
    pytest.param(
        setter("source", "columns", value=["age", "zip", "illness", "name"]),
        r"columns \['visits'\] of schema must be in source\.columns",
        id="column-not-read",
    ),
    pytest.param(
        remover("schema", "visits"),
        r"source\.columns \['visits'\] must be in schema",
        id="column-without-role",
    ),
    pytest.param(setter("schedule", value="61 * * * *"), "schedule: must be five cron fields", id="cron"),
    pytest.param(setter("schedule", value=5), "schedule: must be a valid string", id="schedule-number"),
    pytest.param(
        setter("schedule", value={"asset": "a", "partitions": "@daily"}),
        "schedule: must have exactly one",
        id="two",
    ),
    pytest.param(
        setter("schedule", value={"asst": "a"}),
        r"schedule\.asst: is not a known field.*mean asset",
        id="asset",
    ),
    pytest.param(
        setter("name", value="other"), "name must be 'people' like the file", id="name-of-another-file"
    ),
    pytest.param(
        setter("publish", "table", value="../people"),
        r"publish\.table: must be 1 to 100 letters",
        id="table-name",
    ),
    pytest.param(
        setter("schema", "zip", "categories", value=[True, "N1"]),
        r"schema\.zip\.categories\.0: must be text or a number; put quotes",
        id="yaml-truth-value",
    ),
    pytest.param(
        setter("source", value="people.parquet"), "source: must be a valid dictionary", id="no-mapping"
    ),
]


def test_numbers_among_categories_are_the_texts_of_a_column_of_doubles(home: Path) -> None:
    edit = setter("schema", "zip", "categories", value=[1, 2.0, 3.5, "010"])
    assert load_spec(edited(home, edit)).attributes["zip"].categories == ("1", "2", "3.5", "010")


@pytest.mark.parametrize(("edit", "message"), MISTAKES)
def test_each_mistake_is_named_by_file_field_and_remedy(home: Path, edit: Edit, message: str) -> None:
    path = edited(home, edit)
    with pytest.raises(SpecError, match=message) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_kept_nulls_are_in_the_schema_that_a_loss_is_worked_out_for(home: Path) -> None:
    failing = load_spec(edited(home, setter("source", "nulls", value="fail"))).data_schema()
    keeping = load_spec(edited(home, setter("source", "nulls", value="keep")))
    assert keeping.data_schema() == failing.keeping_nulls() != failing
    nullable = [name for name, reported in keeping.schema_fields.items() if reported["nullable"]]
    assert nullable == ["age", "zip", "illness", "visits"]


def test_all_mistakes_of_a_file_are_named_at_once(home: Path) -> None:
    def edit(fields: dict[str, Any]) -> None:
        del fields["policy"]
        fields["source"]["nulls"] = "omit"

    with pytest.raises(SpecError, match=r"line \d+: source\.nulls.*; line 1: policy: is missing"):
        load_spec(edited(home, edit))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: people\nname: again\n", "line 1: must be YAML; correct it: a field appears twice"),
        (
            "schema:\n  age: {role: sensitive}\n  age: {role: insensitive}\n",
            "line 2: must be YAML; correct it: a field appears twice",
        ),
        ("name: [people\n", r"line \d: must be YAML; correct it"),
        ("- people\n", "must be a mapping of fields, got list"),
        ("", "must be a mapping of fields, got NoneType"),
    ],
    ids=["field-twice", "column-twice", "open-bracket", "list", "empty"],
)
def test_file_that_is_no_mapping_is_refused(home: Path, text: str, message: str) -> None:
    path = home / "releases" / "people.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        load_spec(path)


def test_file_that_is_not_there_is_refused(home: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml must be a readable UTF-8 file, got FileNotFoundError"):
        load_spec(home / "releases" / "none.yaml")


def test_contradiction_that_only_the_engine_sees_names_the_column(home: Path) -> None:
    spec = load_spec(edited(home, setter("schema", "age", "bounds", value=[90, 17])))
    with pytest.raises(SpecError, match="'age': bounds must be two finite numbers, the lower first"):
        spec.data_schema()


def test_hierarchy_that_does_not_nest_is_named_by_column_and_file(home: Path) -> None:
    (home / "hierarchies" / "zip.csv").write_text("N1;north;*\nN2;north\n")
    with pytest.raises(SpecError, match=r"zip\.hierarchy: .*zip\.csv: line 2: all rows of a hierarchy"):
        load_spec(home / "releases" / "people.yaml").data_schema()


def test_policy_without_a_rule_is_refused_by_file(home: Path) -> None:
    (home / "policies" / "people.yaml").write_text("require: []\n")
    with pytest.raises(SpecError, match=r"people\.yaml: line 1: a policy must require at least one model"):
        load_spec(home / "releases" / "people.yaml").release_policy()


def test_schema_policy_and_suite_are_read_without_a_release(home: Path) -> None:
    (home / "schema.yaml").write_text("age: {role: quasi_identifier, kind: numeric}\n")
    assert load_schema("schema.yaml").names == ("age",)
    assert load_policy("policies/people.yaml").max_suppressed == 0.1
    assert load_suite("expectations/people.json")["name"] == "people"
    with pytest.raises(SpecError, match="at least one of expectations"):
        load_suite({"name": "none", "expectations": []})
    with pytest.raises(SpecError, match="a checkpoint must have its context and its name"):
        load_suite({"context": "gx", "checkpoint": "daily", "name": "ignored"})


def test_include_folder_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_RELEASE_HOME", str(tmp_path))
    with pytest.raises(SpecError, match="set PRIVACY_RELEASE_HOME"):
        include_folder()


def test_json_schema_describes_the_file_and_not_the_program() -> None:
    Draft202012Validator.check_schema(json_schema())
    found = json_schema()
    assert {"name", "schema", "source", "policy", "publish", "release", "schedule"} <= set(
        found["properties"]
    )
    assert "attributes" not in found["properties"]
    assert "mondrian" in json.dumps(found["$defs"]["MethodSpec"]["properties"]["method"])


def test_the_json_schema_refuses_a_number_out_of_its_limits() -> None:
    checked = Draft202012Validator(json_schema())
    least = yaml.safe_load(RELEASES[0].read_text())
    assert checked.is_valid(least)
    for wrong in (
        {"release": {"method": "mondrian", "seed": -1}},
        {"outliers": {"method": "okplof", "max_share": 1.5}},
        {"source": {"uri": "people.parquet", "max_expansion": 0}},
    ):
        assert not checked.is_valid({**least, **wrong}), wrong


def test_what_is_said_of_direct_identifiers_reaches_the_engine(home: Path) -> None:
    def change(spec: dict[str, Any]) -> None:
        requested = {"connection": "keys", "scope": "series", "series": "hospital"}
        spec["schema"]["name"]["pseudonym"] = requested
        spec["schema"]["illness"]["text"] = "redact"
        spec["schema"]["visits"]["unique"] = {"allow": "drawn"}

    schema = load_spec(edited(home, change)).data_schema()
    fields = {a.name: a.direct_identifiers() for a in schema.attributes if a.direct_identifiers()}
    assert fields == {
        "name": {"pseudonym": {"connection": "keys", "scope": "series", "series": "hospital"}},
        "illness": {"text": "redact"},
        "visits": {"unique": {"allow": "drawn"}},
    }


def test_a_person_has_no_pseudonym(home: Path) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["schema"]["name"]["pseudonym"] = {"connection": "keys", "scope": "release"}
        spec["person"] = "name"

    with pytest.raises(SpecError, match="person must have no pseudonym: it would link the rows"):
        load_spec(edited(home, change))


def test_a_distance_that_the_sensitive_attribute_does_not_have_is_found_before_a_run(home: Path) -> None:
    rule = {"model": "t_closeness", "t": 0.3, "distance": "ordered"}
    policy = home / "policies" / "close.yaml"
    policy.write_text(yaml.safe_dump({"require": [rule]}), encoding="utf-8")

    def change(spec: dict[str, Any]) -> None:
        spec["policy"] = "policies/close.yaml"

    with pytest.raises(
        SpecError, match="illness: t-closeness by the distance `ordered` requires values with"
    ):
        check_files(load_spec(edited(home, change)), None)


@pytest.mark.parametrize("taken", ["age_from", "age_to", "Age_Null"])
def test_a_column_that_has_the_name_of_a_bound_is_found_before_a_run(home: Path, taken: str) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["schema"][taken] = {"role": "insensitive", "kind": "categorical"}
        spec["source"]["columns"] = list(spec["schema"])

    file = edited(home, change)
    with pytest.raises(SpecError, match=rf"column '{taken}' .* bound of 'age': .*rename.*`intervals: text`"):
        load_spec(file)
    for form in ("text", "midpoint"):
        spec = load_spec(edited(home, setter("release", "intervals", value=form)))
    with pytest.raises(SchemaError, match=rf"column '{taken}' .* bound of 'age'"):
        require_truthful(spec.method_schema(), Intervals.BOUNDS)


def test_a_label_that_is_named_like_a_bound_of_another_label_is_none(home: Path) -> None:
    """Only what is released as an interval has bounds: no hierarchy, no calendar, no categories."""

    def change(spec: dict[str, Any]) -> None:
        quasi = {"role": "quasi_identifier"}
        spec["schema"] |= {
            "grade": {**quasi, "kind": "ordinal", "categories": ["low", "high"]},
            "month": {**quasi, "kind": "date", "calendar": ["month", "year"]},
        }
        for name in ("zip", "grade", "month", "illness"):
            spec["schema"][f"{name}_to"] = {"role": "insensitive", "kind": "categorical"}
        spec["source"]["columns"] = list(spec["schema"])

    spec = load_spec(edited(home, change))
    check_files(spec, None)
    require_truthful(spec.method_schema(), Intervals.BOUNDS)
