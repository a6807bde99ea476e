"""Register a release table in a Unity Catalog as an external table. No data is copied.

The request is the catalog's `CreateTable` (`POST /api/2.1/unity-catalog/tables`): the address, the columns
with their types and comments, the description. Later publications and retractions are visible without another
request.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from privacy_engine.errors import PublishError
from privacy_release.lake.log import existing_table
from privacy_release.lake.store import ReleaseTable, reaching

_API = "/api/2.1/unity-catalog"
_SECONDS = 30.0
# Name of a type in Delta -> its names in the catalog and in SQL.
_TYPES: Mapping[str, tuple[str, str]] = {
    "string": ("STRING", "string"),
    "byte": ("BYTE", "tinyint"),
    "short": ("SHORT", "smallint"),
    "integer": ("INT", "int"),
    "long": ("LONG", "bigint"),
    "float": ("FLOAT", "float"),
    "double": ("DOUBLE", "double"),
    "boolean": ("BOOLEAN", "boolean"),
    "date": ("DATE", "date"),
    "timestamp": ("TIMESTAMP", "timestamp"),
    "timestamp_ntz": ("TIMESTAMP_NTZ", "timestamp_ntz"),
}


@dataclass(frozen=True, kw_only=True)
class UnityCatalog:
    """The address of a catalog.

    Args:
        url: Address of the server, such as `https://catalog.example.com`.
        token: Bearer token, a secret that `repr` does not show. None: the server requires none.
        catalog, schema: Names of the existing catalog and schema in which tables are registered.

    Raises:
        ValueError: If the address is not that of a server, or a token would be sent unencrypted.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    catalog: str
    schema: str

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname or address.username:
            raise ValueError("the catalog's address must be http(s)://host[:port], without a user")
        if self.token and address.scheme == "http" and address.hostname not in ("localhost", "127.0.0.1"):
            raise ValueError("a token must not be sent unencrypted: use the catalog's https:// address")


def register(release_table: ReleaseTable, unity: UnityCatalog, *, table: str | None = None) -> bool:
    """Register a release table. Return False if it is already registered at the same address.

    Args:
        release_table: The release table.
        unity: Address and token of the catalog.
        table: Name of the table in the catalog. None: its own name, with `_` for `-`.

    Raises:
        PublishError: If there is no such table, the catalog cannot be reached or refuses, or it has a table
            of that name at another address.
    """
    wanted = create_table(release_table, unity, table=table)
    full = ".".join(str(wanted[part]) for part in ("catalog_name", "schema_name", "name"))
    known = _ask(unity, "GET", f"/tables/{quote(full, safe='')}")
    if known is None:
        _ask(unity, "POST", "/tables", wanted)
        return True
    if str(known.get("storage_location", "")).rstrip("/") != wanted["storage_location"]:
        raise PublishError(
            f"the catalog has a table {full} at another address; give the release table another name there, "
            "or remove the other one"
        )
    return False


def create_table(
    release_table: ReleaseTable, unity: UnityCatalog, *, table: str | None = None
) -> dict[str, Any]:
    """Return the body of the request to the catalog."""
    held = existing_table(release_table)
    with reaching(release_table.lake, "read the table's schema"):
        fields, about = held.schema().fields, held.metadata()
    return {
        "name": table or release_table.name.replace("-", "_"),
        "catalog_name": unity.catalog,
        "schema_name": unity.schema,
        "table_type": "EXTERNAL",
        "data_source_format": "DELTA",
        "columns": [
            _column(position, column, about.partition_columns) for position, column in enumerate(fields)
        ],
        "storage_location": release_table.address
        if release_table.lake.folder is None
        else (release_table.lake.folder / release_table.name).as_uri(),
        "comment": about.description or "",
    }


def _column(position: int, column: Any, partitions: list[str]) -> dict[str, Any]:
    """Return a `ColumnInfo`. `type_json` is the column as Spark and Delta write it."""
    name = str(column.type.type)
    info: dict[str, Any] = {
        "name": column.name,
        "type_json": column.to_json(),
        "position": position,
        "nullable": column.nullable,
    }
    if decimal := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name):
        precision, scale = map(int, decimal.groups())
        info |= {"type_name": "DECIMAL", "type_text": f"decimal({precision},{scale})"}
        info |= {"type_precision": precision, "type_scale": scale}
    else:
        info["type_name"], info["type_text"] = _TYPES[name]
    if comment := column.metadata.get("comment"):
        info["comment"] = comment
    if column.name in partitions:
        info["partition_index"] = partitions.index(column.name)
    return info


def _ask(
    unity: UnityCatalog, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Send a request to the catalog. None if the object does not exist. No error quotes the token."""
    request = Request(
        f"{unity.url.rstrip('/')}{_API}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Accept": "application/json", "Content-Type": "application/json"},
    )
    if unity.token:
        request.add_unredirected_header("Authorization", f"Bearer {unity.token}")
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        if method == "GET" and error.code == 404:
            return None
        raise PublishError(
            f"the catalog at {unity.url} answered {error.code} {_code(error)}; check that "
            f"{unity.catalog}.{unity.schema} exists, and the rights of the token"
        ) from None
    except (URLError, OSError, ValueError) as error:
        raise PublishError(
            f"the catalog at {unity.url} gave no readable answer ({type(error).__name__}); check its address"
        ) from None


def _code(error: HTTPError) -> str:
    """Return the error code in the catalog's answer, and nothing else from it."""
    try:
        return re.sub(r"\W", "", str(json.load(error)["error_code"]))[:60]
    except (ValueError, KeyError, TypeError):
        return ""
