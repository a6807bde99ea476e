"""Which tests `make test-change` runs."""

import pytest

from tests.changed import ALWAYS, files_for

SOURCES = {
    "privacy_engine/tables/schema.py": "",
    "privacy_engine/tables/codes.py": "from privacy_engine.tables import schema",
    "privacy_release/lake/publish.py": "def f():\n    from privacy_engine.tables.codes import encode",
    "privacy_release/reports/report.py": "",
    "operators/airflow_privacy_release/operators/verify.py": "import privacy_release.lake.publish",
    "privacy_engine/anonymizers/mondrian.py": "",
    "privacy_engine/registry.py": 'METHODS = {"mondrian": "privacy_engine.anonymizers.mondrian:Mondrian"}',
    "conftest.py": "",
    "tests/builders.py": "",
    "tests/lake_builders.py": "from tests.builders import people",
    "tests/privacy_engine/tables/test_schema.py": "",
    "tests/privacy_engine/tables/test_schema_dates.py": "",
    "tests/privacy_engine/tables/test_codes.py": "",
    "tests/privacy_release/lake/conftest.py": "from tests.lake_builders import lake",
    "tests/privacy_release/lake/test_publish.py": "",
    "tests/privacy_release/lake/test_retract.py": "import privacy_release.lake.publish",
    "tests/privacy_release/reports/test_report.py": "",
    "tests/airflow_privacy_release/operators/test_verify.py": "",
    "tests/contract/test_methods.py": "from privacy_engine.registry import METHODS",
    "tests/dags/test_runs.py": "",
    "tests/test_docs.py": "",
    ALWAYS: "",
}
TABLES, LAKE = "tests/privacy_engine/tables", "tests/privacy_release/lake"
VERIFY = "tests/airflow_privacy_release/operators/test_verify.py"


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        # All its mirrors, and those of its importer; not those of the importer's importers.
        (
            "privacy_engine/tables/schema.py",
            [f"{TABLES}/test_schema.py", f"{TABLES}/test_schema_dates.py", f"{TABLES}/test_codes.py"],
        ),
        # An import inside a function counts, and so does a test that imports a user of the changed module.
        (
            "privacy_engine/tables/codes.py",
            [f"{TABLES}/test_codes.py", f"{LAKE}/test_publish.py", f"{LAKE}/test_retract.py"],
        ),
        ("privacy_release/lake/publish.py", [f"{LAKE}/test_publish.py", f"{LAKE}/test_retract.py", VERIFY]),
        ("operators/airflow_privacy_release/operators/verify.py", [VERIFY]),
        # A template stands for the modules of its package.
        (
            "privacy_release/reports/templates/report.html.j2",
            ["tests/privacy_release/reports/test_report.py"],
        ),
        # A helper reaches tests through another helper and a conftest.py.
        ("tests/builders.py", [f"{LAKE}/test_publish.py", f"{LAKE}/test_retract.py"]),
        (f"{LAKE}/test_retract.py", [f"{LAKE}/test_retract.py"]),
        # A registry names its modules in text.
        ("privacy_engine/anonymizers/mondrian.py", ["tests/contract/test_methods.py"]),
        ("docs/ledger.md", ["tests/test_docs.py"]),
        ("include/policies/external.yaml", ["tests/dags/test_runs.py"]),
        ("privacy_engine/tables/removed.py", []),
        ("notes.txt", []),
    ],
)
def test_a_change_runs_its_mirrors_and_those_of_its_importers(changed: str, tests: list[str]) -> None:
    assert files_for([changed], SOURCES) == sorted([*tests, ALWAYS])


def test_the_conftest_of_the_root_runs_all() -> None:
    assert files_for(["conftest.py"], SOURCES) == sorted(
        path for path in SOURCES if path.rpartition("/")[2].startswith("test_")
    )
