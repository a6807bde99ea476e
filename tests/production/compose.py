"""The compose file as data, with the variables of its secrets filled in."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from deploy.local.embedded import checkout

FILE = checkout() / "docker-compose.yaml"
VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?P<kind>:[?-])?(?P<rest>[^}]*)\})")


def services() -> dict[str, dict[str, Any]]:
    """Every service, with its variables as they are written."""
    return dict(yaml.safe_load(FILE.read_text())["services"])


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its variables, as Compose fills them in.

    Raises:
        KeyError: for a variable that has neither a value nor a default.
    """

    def value(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        if values.get(found["name"]):
            return values[found["name"]]
        if found["kind"] == ":-":
            return found["rest"]
        raise KeyError(found["name"])

    return VARIABLE.sub(value, text)


def environment(service: str, values: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a service."""
    return {name: filled(text, values) for name, text in services()[service].get("environment", {}).items()}


def secrets_of(text: str) -> dict[str, str]:
    """The variables in the text of an `.env` file."""
    return dict(line.split("=", 1) for line in text.splitlines())
