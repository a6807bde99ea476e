"""What Airflow shows about this package under Admin > Providers and with `airflow providers get`."""

from importlib.metadata import version
from typing import Any

from privacy_release.config.settings import SECTION, VARIABLES

PACKAGE = "airflow-privacy-release"
TITLE = "Privacy Release"

# Listed by hand: Airflow reads this at every start, which must not import an operator.
OPERATOR_MODULES = tuple(
    f"airflow_privacy_release.operators.{name}"
    for name in (
        *("ingest", "validate", "transform", "outliers", "release", "method", "methods"),
        *("learning", "budget", "verify", "approve", "compare", "publish", "step"),
    )
)
HOOK_MODULES = tuple(f"airflow_privacy_release.hooks.{name}" for name in ("lake", "ledger", "spark"))
EXTRA_LINKS = ("airflow_privacy_release.task.links.ReportLink",)

# Option of the configuration section -> description and example.
_PLACES = {
    "home": ("Folder that holds include/ with releases, policies and hierarchies.", "/opt/airflow"),
    "lake": (
        "Root of the lake, a folder or an address, used if no connection lake_default exists. By "
        "default lake in AIRFLOW_HOME.",
        "/data/lake",
    ),
    "work_area": (
        "Absolute folder for raw and staged records while a run lasts. All workers share it and no "
        "other user may read it. Or an address, s3://, abfss:// or gs://: then each file is "
        "encrypted with a key of its run, and workers share no folder. By default work_area in "
        "AIRFLOW_HOME.",
        "/data/work",
    ),
    "work_area_connection": (
        "If work_area is an address: the connection whose password encrypts the keys of runs, and whose "
        "extra has the storage_options. By default work_default.",
        "work_default",
    ),
    "scratch": (
        "If work_area is an address: absolute local folder on each worker for files that a running task has "
        "decrypted. By default scratch in AIRFLOW_HOME.",
        "/var/tmp/privacy",
    ),
    "work_area_idle": (
        "How long a work area must have been without a heartbeat before a sweeper removes it. The area of a "
        "command that was killed on the same host is removed at once. By default 6 hours.",
        "2 days",
    ),
    "connections": (
        "Where connections may come from. `any`: also Airflow's database, which users with the right to "
        "edit connections can change. `environment`: only from environment variables and secrets backends.",
        "environment",
    ),
    "context_plugins": (
        "Whether Great Expectations contexts may bring their own code, in their plugins folder or in a "
        "module that they name: `refuse` (by default) or `allow`.",
        "allow",
    ),
    "sources": (
        "Folders and buckets that releases may read from, separated by commas. By default everything "
        "that the workers and the connections can reach.",
        "/data/source, s3://deliveries/people",
    ),
    "http_sources": ("Whether releases may read from http:// and https:// addresses: `allow`.", "allow"),
    "text_recognizer": (
        "Function that finds identifiers in text in addition to the built-in patterns, as "
        "`package.module:function`. It runs in the workers and reads the text of the sources. "
        "By default none.",
        "our_models.text:find_names",
    ),
    "paper_releases": (
        "Whether the releases in releases/papers/ of the include folder, one for each method of the papers, "
        "have DAGs: `show` or `hide`. By default `hide`.",
        "show",
    ),
    "curator": (
        "Absolute folder for files that only the curator may read, such as exact comparisons with "
        "the source. By default curator in AIRFLOW_HOME.",
        "/data/curator",
    ),
    "ledger": (
        "The budget ledger if no connection ledger_default exists: the absolute path of a SQLite file, or "
        "a database URL without its password. By default ledger.db in AIRFLOW_HOME.",
        "postgresql://ledger@db.example/privacy",
    ),
    "floor_policy": (
        "Absolute path of a policy that every release must meet in addition to its own. "
        "If it cannot be read, nothing is released.",
        "/etc/privacy/floor.yaml",
    ),
    "classification": (
        "Absolute path of a file that sets the roles of the sources' columns. No release file may give "
        "a column a weaker role. If it cannot be read, nothing is released.",
        "/etc/privacy/classification.yaml",
    ),
    "signing_key": (
        "Absolute path of the private key file that signs releases if no connection "
        "signing_default exists, see `privacy-release key new`. By default none: nothing is signed.",
        "/etc/privacy/signing.pem",
    ),
}

# Limits of an analyst's query over HTTP: option -> description, default and type.
_QUERIES = {
    "query_at_once": ("Number of queries that an API server process answers at a time.", "2", "integer"),
    "query_waiting": (
        "Number of further queries that may wait; any more are refused until a slot is free.",
        "8",
        "integer",
    ),
    "query_seconds": ("Longest time a query may run, in seconds.", "30", "float"),
    "query_rows": ("Largest number of rows in an answer.", "10000", "integer"),
    "query_bytes": ("Largest size of an answer, in bytes.", "64000000", "integer"),
    "query_memory": ("Most memory that the database of a query may use, in bytes.", "700000000", "integer"),
    "query_log": (
        "Absolute path of a file that logs the text of each query, who sent it and its outcome. "
        "Query texts may name people, so only the service user can read the file, and no other log "
        "has them. Empty: query texts are not kept, only their hashes in Airflow's audit log.",
        "",
        "string",
    ),
}  # fmt: skip


def get_provider_info() -> dict[str, Any]:
    """Describe the package in the format of Airflow's provider schema."""
    return {
        "package-name": PACKAGE,
        "name": TITLE,
        "description": "Publish tables about people safely: validate, anonymize, verify, approve, publish.",
        "versions": [version(PACKAGE)],
        "integrations": [{"integration-name": TITLE, "tags": ["software"]}],
        "operators": [{"integration-name": TITLE, "python-modules": list(OPERATOR_MODULES)}],
        "triggers": [
            {
                "integration-name": TITLE,
                "python-modules": ["airflow_privacy_release.triggers.source"],
            }
        ],
        "hooks": [{"integration-name": TITLE, "python-modules": list(HOOK_MODULES)}],
        "connection-types": [_lake_connection(), _ledger_connection(), _spark_connection()],
        "extra-links": list(EXTRA_LINKS),
        "config": {
            SECTION: {"description": "Where releases are read from and written to.", "options": _options()}
        },
    }


def _lake_connection() -> dict[str, Any]:
    return {
        "connection-type": "privacy_lake",
        "hook-class-name": "airflow_privacy_release.hooks.lake.LakeHook",
        "hook-name": "Privacy Release Lake",
        "conn-fields": {
            "path": _field("Root", "An absolute folder, or an address such as s3://bucket/folder."),
            "storage_options": _field(
                "Storage options",
                "For an object store: storage options of the deltalake library, as a mapping of strings.",
                kind="object",
            ),
        },
        "ui-field-behaviour": {"hidden-fields": ["host", "schema", "login", "password", "port"]},
    }


def _ledger_connection() -> dict[str, Any]:
    return {
        "connection-type": "privacy_ledger",
        "hook-class-name": "airflow_privacy_release.hooks.ledger.LedgerHook",
        "hook-name": "Privacy Budget Ledger",
        "conn-fields": {
            "path": _field("SQLite file", "Instead of a PostgreSQL server, if one machine runs all tasks."),
            # Airflow hides a field from users who read the connection if its name has `secret` in it.
            "signing_secret": _field(
                "Signing secret", "Signs the entries; at least 16 characters.", format="password"
            ),
            "sslmode": _field("TLS mode", "The libpq sslmode: verify-full for a server on another machine."),
        },
        "ui-field-behaviour": {"hidden-fields": [], "relabeling": {"schema": "Database"}},
    }


def _spark_connection() -> dict[str, Any]:
    return {
        "connection-type": "privacy_spark",
        "hook-class-name": "airflow_privacy_release.hooks.spark.SparkHook",
        "hook-name": "Privacy Release Spark",
        "conn-fields": {
            "master": _field("Master", "local[4], spark://HOST:7077, or sc://HOST:15002 for Spark Connect."),
            "conf": _field("Settings", "Spark settings, as a mapping of strings.", kind="object"),
        },
        "ui-field-behaviour": {
            "hidden-fields": ["host", "schema", "login", "port"],
            "relabeling": {"password": "Secret of the cluster, or token"},
        },
    }


def _field(label: str, description: str, kind: str = "string", **schema: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"]} | schema}


def _options() -> dict[str, Any]:
    lakes = _option(
        "Connection ids, separated by commas, of further lakes to show on the pages. lake_default "
        "and the lakes that release specifications name are always shown.",
        "lake_partners",
        default="",
    )
    named = {
        name: _option(f"{text} The environment variable {VARIABLES[name]} takes precedence.", example)
        for name, (text, example) in _PLACES.items()
    }
    queries = {
        name: _option(text, "/data/log/queries.jsonl" if kind == "string" else default, default, kind)
        for name, (text, default, kind) in _QUERIES.items()
    }
    return named | {"lakes": lakes} | queries


def _option(
    description: str, example: str, default: str | None = None, kind: str = "string"
) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }
