"""Only the work area reads references by literal keys: everywhere else they are values with fields.

Other mappings have the same keys. Each place that reads one of them is listed, with what it reads.
"""

import re

import pytest

from tests.import_graph import ROOT, modules

HOME = "privacy_release.workarea"
KEY = r"""\[["'](?:uri|sha256|schema)["']\]"""
READ = re.compile(rf"""[\w.]+(?:\[["']\w+["']\])*{KEY}""")

LISTED = {
    "operators/airflow_privacy_release/operators/approve.py": {'pending["sha256"]': "a question"},
    "operators/airflow_privacy_release/operators/ingest.py": {
        'reached["uri"]': "an address and its credentials",
        'settings["uri"]': "the source of one of several tables",
    },
    "operators/airflow_privacy_release/step_tasks.py": {'settings["uri"]': "arguments of an operator"},
    "operators/airflow_privacy_release/plugin/routes/approval.py": {'question["sha256"]': "a question"},
    "operators/airflow_privacy_release/plugin/views/approvals.py": {'question["sha256"]': "a question"},
    "operators/airflow_privacy_release/plugin/views/run_reports.py": {
        'fields["sha256"]': "an XCom, which every user may have written"
    },
    "privacy_engine/fragments/plan.py": {'given["schema"]': "a stored plan"},
    "privacy_engine/fragments/whole.py": {'given["schema"]': "a stored table of fragments"},
    "privacy_release/evidence/archive.py": {'s["digest"]["sha256"]': "the subject of a statement"},
    "privacy_release/evidence/pages.py": {'facts["sha256"]': "the facts of an evidence pack"},
    "privacy_release/lake/publish.py": {
        'attempt_note["statement"]["sha256"]': "the note of a commit",
        'note["sha256"]': "the note of a commit",
        'note["statement"]["sha256"]': "the note of a commit",
    },
    "privacy_release/proof/chain.py": {'each["digest"]["sha256"]': "the subject of a statement"},
    "privacy_release/proof/check.py": {
        'file["sha256"]': "a file in the note of a commit",
        'note["sha256"]': "the note of a commit",
    },
    "privacy_release/proof/statement.py": {'note["sha256"]': "the note of a commit"},
    "privacy_release/running/preparing.py": {'step.settings["schema"]': "the settings of a step"},
    "privacy_release/spec/files.py": {'fields["schema"]': "a YAML file"},
    "privacy_release/steps/approval_text.py": {'posed["sha256"]': "a question"},
    "privacy_release/steps/attacks/earlier.py": {'kept["sha256"]': "a file of the curator"},
    "privacy_release/steps/attacks/shadows.py": {'entry["sha256"]': "a file next to a shadow release"},
    "privacy_release/steps/memberships/earlier.py": {'stated["sha256"]': "the figures of a commit"},
    "privacy_release/steps/publish.py": {'report.floor_policy["sha256"]': "the floor policy of a report"},
}


def reads(source: str) -> list[str]:
    """What a source reads by a literal key. Most lines have none, which is found much faster."""
    return [read for line in source.splitlines() if re.search(KEY, line) for read in READ.findall(line)]


def test_no_module_but_those_of_the_work_area_reads_a_reference_by_literal_keys() -> None:
    there = {
        str(path.relative_to(ROOT)): {read.replace("'", '"') for read in found}
        for module, path in modules().items()
        if not f"{module}.".startswith(f"{HOME}.")
        if (found := reads(path.read_text(encoding="utf-8")))
    }
    assert there == {path: set(listed) for path, listed in LISTED.items()}


@pytest.mark.parametrize("line", ['path = Path(table["uri"])', "same = run.staged['sha256'] == other"])
def test_a_read_by_a_literal_key_would_be_found(line: str) -> None:
    assert reads(f"one = 1\n{line}\n")
