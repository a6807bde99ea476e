"""A release table in a Unity Catalog: a small server of its published contract takes it, or refuses."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator, ValidationError

from privacy_engine.errors import PublishError
from privacy_release.cli.main import DONE, WRONG, main
from privacy_release.lake.catalog import UnityCatalog, create_table, register
from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.workarea.area import sha256_file
from tests.reading import publish_people

TOKEN = "token-of-the-catalog"
API = "/api/2.1/unity-catalog"
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TYPES = [
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"),
    *("STRING", "BINARY", "DECIMAL"),
]
# What the catalog's API asks of `CreateTable` and `ColumnInfo`.
COLUMN = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "type_text", "type_json", "type_name", "position"],
    "properties": {
        **dict.fromkeys(("name", "type_text", "type_json", "comment"), TEXT),
        **dict.fromkeys(("position", "type_precision", "type_scale", "partition_index"), NUMBER),
        "type_name": {"enum": TYPES},
        "nullable": {"type": "boolean"},
    },
}
CREATE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "catalog_name", "schema_name", "table_type", "columns"],
    "properties": {
        **dict.fromkeys(("name", "catalog_name", "schema_name", "storage_location", "comment"), TEXT),
        "table_type": {"enum": ["MANAGED", "EXTERNAL"]},
        "data_source_format": {"enum": ["DELTA", "ICEBERG", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT"]},
        "columns": {"type": "array", "items": COLUMN},
    },
}


class Catalog(ThreadingHTTPServer):
    """A catalog with one schema, `main.open`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.tables: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Catalog

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _is_known(self) -> bool:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.headers["Authorization"] == f"Bearer {TOKEN}":
            return True
        self._send(401, {"error_code": "UNAUTHENTICATED", "message": "who are you?"})
        return False

    def do_GET(self) -> None:
        if self._is_known():
            found = self.server.tables.get(unquote(self.path.removeprefix(f"{API}/tables/")))
            self._send(*((200, found) if found else (404, {"error_code": "TABLE_NOT_FOUND"})))

    def do_POST(self) -> None:
        if not self._is_known():
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            Draft202012Validator(CREATE).validate(body)
        except ValidationError as error:
            self._send(400, {"error_code": "INVALID_ARGUMENT", "message": error.message})
            return
        if (body["catalog_name"], body["schema_name"]) != ("main", "open"):
            self._send(404, {"error_code": "SCHEMA_NOT_FOUND", "message": "secret of the server"})
            return
        self.server.tables[f"main.open.{body['name']}"] = body
        self._send(200, body)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def unity(catalog: Catalog, **given: Any) -> UnityCatalog:
    return UnityCatalog(**{"url": catalog.url, "token": TOKEN, "catalog": "main", "schema": "open"} | given)


def test_a_release_table_is_registered_once_with_its_comments(
    tmp_path: Path, lake: Lake, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    publish_people(tmp_path, lake)
    monkeypatch.setenv("PRIVACY_UNITY_TOKEN", TOKEN)
    command = ["register", f"{lake.root}/people", "--unity", catalog.url]
    command += ["--catalog", "main", "--schema", "open"]
    assert main(command) == DONE
    known = catalog.tables["main.open.people"]
    assert (known["table_type"], known["data_source_format"]) == ("EXTERNAL", "DELTA")
    assert known["storage_location"] == (Path(lake.root) / "people").as_uri()
    assert "k-anonymity (k=5)" in known["comment"]
    columns = {column["name"]: column for column in known["columns"]}
    assert columns["illness"]["comment"].startswith("Sensitive")
    assert columns["illness"]["type_name"] == "STRING"
    assert json.loads(columns["illness"]["type_json"])["type"] == "string"
    assert [column["position"] for column in known["columns"]] == list(range(len(columns)))
    assert main(command) == DONE
    assert [line.split()[0] for line in catalog.requests] == ["GET", "POST", "GET"]
    said = capsys.readouterr()
    assert "people is registered in main.open" in said.out
    assert "people was registered in main.open" in said.out
    assert TOKEN not in said.out + said.err


def test_a_table_of_the_same_name_elsewhere_is_not_taken_for_ours(
    tmp_path: Path, lake: Lake, catalog: Catalog
) -> None:
    publish_people(tmp_path, lake)
    catalog.tables["main.open.people"] = {"storage_location": "s3://elsewhere/people"}
    with pytest.raises(PublishError, match="at another address"):
        register(lake.table("people"), unity(catalog))
    assert register(lake.table("people"), unity(catalog), table="ours")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"token": "wrong"}, "answered 401 UNAUTHENTICATED"),
        ({"schema": "x"}, "answered 404 SCHEMA_NOT_FOUND"),
    ],
)
def test_what_the_catalog_refuses_is_reported_without_its_words_and_without_the_token(
    tmp_path: Path, lake: Lake, catalog: Catalog, given: dict[str, Any], expected: str
) -> None:
    publish_people(tmp_path, lake)
    with pytest.raises(PublishError, match=expected) as caught:
        register(lake.table("people"), unity(catalog, **given))
    assert not [word for word in (TOKEN, "wrong", "secret", "who are you") if word in str(caught.value)]
    assert catalog.tables == {}


def test_a_catalog_that_is_not_there_is_an_error(tmp_path: Path, lake: Lake, catalog: Catalog) -> None:
    publish_people(tmp_path, lake)
    unreachable = unity(catalog, url="http://127.0.0.1:9")
    with pytest.raises(PublishError, match="gave no readable answer"):
        register(lake.table("people"), unreachable)


def test_a_table_that_is_not_there_is_not_registered(lake: Lake, catalog: Catalog) -> None:
    with pytest.raises(PublishError, match="must exist"):
        register(lake.table("people"), unity(catalog))
    assert catalog.requests == []


@pytest.mark.parametrize("url", ["catalog", "ftp://host", "https://me@host", "http://catalog.example.com"])
def test_a_token_travels_to_a_server_alone_and_never_in_the_clear(url: str) -> None:
    with pytest.raises(ValueError, match="must"):
        UnityCatalog(url=url, token=TOKEN, catalog="main", schema="open")
    assert TOKEN not in repr(UnityCatalog(url="https://host", token=TOKEN, catalog="main", schema="open"))


def test_a_wrong_address_is_a_wrong_argument(lake: Lake, capsys: Any) -> None:
    command = ["register", f"{lake.root}/t", "--unity", "host", "--catalog", "c", "--schema", "s"]
    assert main(command) == WRONG
    assert "--unity: the catalog's address must be" in capsys.readouterr().err


def test_every_type_that_a_lake_keeps_has_its_name_in_the_catalog(
    tmp_path: Path, lake: Lake, catalog: Catalog
) -> None:
    kinds = {
        "BOOLEAN": pa.bool_(),
        "BYTE": pa.int8(),
        "SHORT": pa.int16(),
        "INT": pa.int32(),
        "LONG": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
        "DECIMAL": pa.decimal128(9, 2),
        "STRING": pa.string(),
    }
    table = pa.table({name.lower(): pa.nulls(1, kind) for name, kind in kinds.items()})
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "r.html").write_text("<p>")
    digest = sha256_file(tmp_path / "t.parquet")
    publish(lake.table("types"), "1", tmp_path / "t.parquet", {}, tmp_path / "r.html", expected_sha256=digest)
    reported = create_table(lake.table("types"), unity(catalog))
    Draft202012Validator(CREATE).validate(reported)
    found = {column["name"]: column for column in reported["columns"]}
    assert {name: found[name.lower()]["type_name"] for name in kinds} == {name: name for name in kinds}
    assert (found["decimal"]["type_precision"], found["decimal"]["type_scale"]) == (9, 2)
    assert found["release"]["partition_index"] == 0
