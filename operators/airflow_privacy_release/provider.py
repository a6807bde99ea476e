"""What Airflow shows of this package under Admin > Providers, and with `airflow providers get`."""

from importlib.metadata import version
from typing import Any

from privacy_release.config.settings import SECTION, VARIABLES

PACKAGE = "airflow-privacy-release"
TITLE = "Privacy Release"

# Named by hand: Airflow asks at every start, and must not import an operator to get the answer.
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
        "Root of the lake, a folder or an address, where no connection lake_default exists. By default lake "
        "in AIRFLOW_HOME.",
        "/data/lake",
    ),
    "work_area": (
        "Absolute folder for raw and staged records while a run lasts, shared by all workers, closed to all "
        "others; or an address, s3://, abfss:// or gs://, where each file is encrypted with a key of its run "
        "and workers share no folder. By default work_area in AIRFLOW_HOME.",
        "/data/work",
    ),
    "work_area_connection": (
        "Where work_area is an address: the connection whose password wraps the keys of runs, and whose "
        "extra has the storage_options. By default work_default.",
        "work_default",
    ),
    "scratch": (
        "Where work_area is an address: absolute folder of each worker's own, for what a task has decrypted "
        "while it lasts. By default scratch in AIRFLOW_HOME.",
        "/var/tmp/privacy",
    ),
    "work_area_idle": (
        "For how long a work area must have shown no sign of life before a sweeper removes it; one of a "
        "command of the same host goes at once. By default 6 hours.",
        "2 days",
    ),
    "connections": (
        "Where connections may come from. `any`: also from Airflow's database, which users with the right to "
        "edit connections can change. `environment`: only from environment variables and secrets backends.",
        "environment",
    ),
    "context_plugins": (
        "Whether Great Expectations contexts may bring code of their own, in their folder of plugins or by a "
        "module that they name: `refuse` (by default) or `allow`.",
        "allow",
    ),
    "sources": (
        "Folders and buckets from which releases may read, separated by commas. By default all that the "
        "workers and the connections reach.",
        "/data/source, s3://deliveries/people",
    ),
    "http_sources": ("Whether releases may read from http:// and https:// addresses: `allow`.", "allow"),
    "text_recognizer": (
        "Function that finds identifiers in text in addition to the built-in patterns, as "
        "`package.module:function`. It runs in the workers and reads the text of the sources. "
        "By default none.",
        "our_models.text:find_names",
    ),
    "curator": (
        "Absolute folder for what only the curator may read, such as exact comparisons with the source. By "
        "default curator in AIRFLOW_HOME.",
        "/data/curator",
    ),
    "ledger": (
        "The budget ledger where no connection ledger_default exists: the absolute path of a SQLite file, or "
        "a database URL without password. By default ledger.db in AIRFLOW_HOME.",
        "postgresql://ledger@db.example/privacy",
    ),
    "floor_policy": (
        "Absolute path of a policy that every release must keep beside its own, whatever file that names. "
        "Where it cannot be read, nothing is released.",
        "/etc/privacy/floor.yaml",
    ),
    "classification": (
        "Absolute path of a file that says what the columns of the sources are; no release file may give "
        "one a weaker role. Where it cannot be read, nothing is released.",
        "/etc/privacy/classification.yaml",
    ),
    "signing_key": (
        "Absolute path of the file of the private key that signs releases where no connection "
        "signing_default exists, see `privacy-release key new`. By default none: nothing is signed.",
        "/etc/privacy/signing.pem",
    ),
}

# What an analyst's query over HTTP may take: option -> description, default and type.
_QUERIES = {
    "query_at_once": ("Queries that a process of the API server answers at once.", "2", "integer"),
    "query_waiting": ("Further queries that wait; one more is told to come again.", "8", "integer"),
    "query_seconds": ("Longest that a query may run.", "30", "float"),
    "query_rows": ("Most rows of an answer.", "10000", "integer"),
    "query_bytes": ("Most bytes of an answer.", "64000000", "integer"),
    "query_memory": ("Most bytes that the database of a query may use.", "700000000", "integer"),
    "query_log": (
        "Absolute path of a file that takes the text of each query, with who asked it and what came of it. "
        "Texts may name people: it is readable by the service user alone, and no other log has them. Empty: "
        "texts are kept nowhere, only their hashes in Airflow's audit log.",
        "",
        "string",
    ),
}  # fmt: skip


def get_provider_info() -> dict[str, Any]:
    """Describe the package in the terms of Airflow's provider schema."""
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
        "config": {SECTION: {"description": "Where releases go and come from.", "options": _options()}},
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
                "For an object store: what the library deltalake needs to reach it, as names and texts.",
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
            "path": _field(
                "SQLite file", "Instead of a PostgreSQL server, where one machine runs all tasks."
            ),
            # Airflow hides a field from whoever reads the connection if its name has `secret` in it.
            "signing_secret": _field(
                "Signing secret", "Signs the entries; at least 16 characters.", format="password"
            ),
            "sslmode": _field("TLS mode", "Of libpq: verify-full for a server on another machine."),
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
            "conf": _field("Settings", "Of Spark, as names and texts.", kind="object"),
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
        "Connection ids, separated by commas, of further lakes whose releases the pages show; lake_default "
        "and those that release specifications name are shown anyway.",
        "lake_partners",
        default="",
    )
    named = {
        name: _option(f"{text} The environment variable {VARIABLES[name]} goes before.", example)
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
