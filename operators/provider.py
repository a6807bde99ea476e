"""What Airflow shows of this package under Admin > Providers, and with `airflow providers get`."""

from importlib.metadata import version
from typing import Any

PACKAGE = "airflow-provider-privacy-release"

# Named by hand: Airflow asks at every start, and must not import an operator to get the answer.
OPERATOR_MODULES = (
    "operators.ingest",
    "operators.validate",
    "operators.outliers",
    "operators.release",
    "operators.anonymizers",
    "operators.verify",
    "operators.compare",
    "operators.publish",
    "operators.cleanup",
)


def get_provider_info() -> dict[str, Any]:
    """Describe the package in the terms of Airflow's provider schema."""
    return {
        "package-name": PACKAGE,
        "name": "Privacy Release",
        "description": "Publish tables about people safely: validate, anonymize, verify, approve, publish.",
        "versions": [version(PACKAGE)],
        "integrations": [{"integration-name": "Privacy Release", "tags": ["software"]}],
        "operators": [{"integration-name": "Privacy Release", "python-modules": list(OPERATOR_MODULES)}],
    }
