import json
import re
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import jsonschema

import airflow_privacy_release
from airflow_privacy_release.provider import OPERATOR_MODULES, get_provider_info
from privacy_release.config.settings import SECTION, VARIABLES


def test_the_provider_information_fits_airflows_schema() -> None:
    schema = json.loads((files("airflow") / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_every_module_with_an_operator_is_listed() -> None:
    folder = Path(airflow_privacy_release.__file__).parent / "operators"
    defining = {
        f"airflow_privacy_release.operators.{module.stem}"
        for module in folder.glob("*.py")
        if re.search(r"^class \w+Operator\(", module.read_text(), flags=re.MULTILINE)
    }
    assert defining == set(OPERATOR_MODULES)


def test_every_class_that_is_named_exists_and_hooks_know_their_connection_type() -> None:
    reported = get_provider_info()
    hooks = {kind["hook-class-name"]: kind["connection-type"] for kind in reported["connection-types"]}
    assert {path.rpartition(".")[0] for path in hooks} == set(reported["hooks"][0]["python-modules"])
    for path in [*hooks, *reported["extra-links"]]:
        module, _, name = path.rpartition(".")
        found = getattr(import_module(module), name)
        assert hooks.get(path) == getattr(found, "conn_type", None)


def test_whatever_is_secret_in_a_connection_is_entered_blindly() -> None:
    for kind in get_provider_info()["connection-types"]:
        for name, field in kind["conn-fields"].items():
            assert ("secret" in name) == (field["schema"].get("format") == "password")


def test_every_place_can_be_set_in_airflows_configuration() -> None:
    options = get_provider_info()["config"][SECTION]["options"]
    bounds = {f"query_{what}" for what in ("at_once", "waiting", "seconds", "rows", "bytes", "memory")}
    assert options.keys() == VARIABLES.keys() | {"lakes", "query_log"} | bounds
    for name in bounds:
        assert float(options[name]["default"]) > 0
    for name, variable in VARIABLES.items():
        assert variable in options[name]["description"]


def test_airflow_finds_the_pages() -> None:
    (found,) = entry_points(group="airflow.plugins", name="privacy_release")
    assert found.load().name == "privacy_release"
