import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema

import operators
from operators.provider import OPERATOR_MODULES, get_provider_info


def test_the_provider_information_fits_airflows_schema() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_every_module_with_an_operator_is_listed() -> None:
    folder = Path(operators.__file__).parent
    defining = {
        f"operators.{module.stem}"
        for module in folder.glob("*.py")
        if re.search(r"^class \w+Operator\(", module.read_text(), flags=re.MULTILINE)
    }
    assert defining == set(OPERATOR_MODULES)
