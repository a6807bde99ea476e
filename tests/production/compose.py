"""The compose file as data, with its variables filled in."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.local.embedded import checkout

FILE = checkout() / "docker-compose.yaml"
VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?P<kind>:[?-])?(?P<rest>[^}]*)\})")


def services() -> dict[str, dict[str, Any]]:
    """Every service, with its variables as they are written."""
    return dict(yaml.safe_load(FILE.read_text())["services"])


def volumes() -> set[str]:
    """The names of all volumes."""
    return set(yaml.safe_load(FILE.read_text())["volumes"])


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


def environment(service: str) -> dict[str, str]:
    """The environment variables of a service, as they are without any in `.env`."""
    return {name: filled(text, {}) for name, text in services()[service].get("environment", {}).items()}


def secrets_in(folder: Path) -> dict[str, str]:
    """Each secret that was made, by the name of its file, or of the connection in it."""
    found = {path.name: path.read_text() for path in folder.iterdir()}
    connections = json.loads(found.pop("worker_connections.json"))
    return found | {name: connection["password"] for name, connection in connections.items()}
