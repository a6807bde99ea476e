"""Numbers are what they look like; every other form takes quotes."""

import pytest
import yaml

from privacy_engine import plain_yaml
from privacy_engine.errors import SchemaError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.policy import ReleasePolicy

UNCLEAR = ["010", "-010", "0120", "00", "0x1F", "0b11", "1_000", "12:30", "1:30.5", "01.5", "1_0.5"]


@pytest.mark.parametrize("text", UNCLEAR)
@pytest.mark.parametrize("form", ["x: {}", "x: [1, {}]", "{}: 1", "x: !!int '{}'"])
def test_a_number_that_readers_understand_differently_is_refused(text: str, form: str) -> None:
    if form.startswith("x: !!int") and "." in text:
        form = form.replace("int", "float")
    with pytest.raises(yaml.YAMLError, match="put quotes around a code"):
        plain_yaml.load(form.format(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("1.0", 1.0),
        ("0.50", 0.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("-1.0e+308", -1.0e308),
        ("1.0e-07", 1e-7),
        ("'010'", "010"),
        ('"12:30"', "12:30"),
        ("2A", "2A"),
        ("08", "08"),
        ("true", True),
        ("~", None),
    ],
)
def test_what_looks_the_same_to_every_reader_is_read(text: str, value: object) -> None:
    read = plain_yaml.load(f"[{text}]")[0]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "value", [0, -10, 2**100, 1.0, 1e-300, 1e16, -2.5, "010", "12:30", "1_000", True, None]
)
def test_what_pyyaml_writes_is_read_back(value: object) -> None:
    assert plain_yaml.load(yaml.safe_dump({"x": value})) == {"x": value}


def test_schemas_and_policies_refuse_it() -> None:
    with pytest.raises(SchemaError, match="decimal digits"):
        DataSchema.from_yaml("age: {role: quasi_identifier, kind: numeric, bounds: [0, 0120]}")
    with pytest.raises(SchemaError, match="decimal digits"):
        DataSchema.from_yaml("dep: {role: quasi_identifier, kind: categorical, categories: [01, 02, 2A]}")
    with pytest.raises(SpecError, match="decimal digits"):
        ReleasePolicy.from_yaml("require:\n  - {model: k_anonymity, k: 010}\n")
