"""Decisions on optional fields of references have names, and the few that do not are listed.

`table.persons is not None` decides something without saying what. `table.follows_people` says it, and is
defined once, on the value.
"""

import ast
import re
import typing
from collections import Counter
from collections.abc import Iterator
from types import UnionType

import pytest

from privacy_release.workarea import references
from privacy_release.workarea.references import Reference
from tests.import_graph import ROOT, modules, tree

HOME = "privacy_release.workarea.references"
# The names by which references, and the values that are made from them, are passed on.
BASES = re.compile(
    r"(self\.)?(table|tables|staged|source|made|other|found|report|ref|published|left|raw|release|job|origin|s|t"
    r"|test|trial|register|persons|outcome\.staged|run\.(table|staged|report))\b"
)

# The decisions without a name: each is made at one place, which then works on the value it found.
LISTED = {
    "privacy_release/explore/cells.py: release.loss is not None": "asserts a private choice",
    "privacy_release/reports/data.py: release.loss is None": "chooses the described risks",
    "privacy_release/reports/data.py: release.model is not None": "chooses the described risks",
    "privacy_release/reports/release.py: release.loss is not None": "shows epsilon and delta",
    "privacy_release/reports/synthetic.py: release.model is None": "shows the shares of a model",
    "privacy_release/spec/sections/tables.py: self.source.columns is None": "a field of a specification",
    "privacy_release/steps/memberships/recording.py: staged.regions is not None": "keeps the regions",
    "privacy_release/steps/memberships/recording.py: staged.waiting is not None": "keeps the records",
    "privacy_release/steps/producers/fragments.py: release.persons is not None": "writes the persons",
    "privacy_release/steps/producers/randomized.py: job.loss is not None": "chooses who pays for the answers",
    "privacy_release/steps/producers/staging.py: made.claims.loss is None": "writes the loss as plain values",
    "privacy_release/steps/producers/staging.py: made.persons is None": "writes the persons",
    "privacy_release/steps/producers/whole.py: job.past is None": "continues earlier releases",
    "privacy_release/steps/publish.py: staged.columns is not None": "absent before an upgrade",
    "privacy_release/steps/verify.py: staged.source_schema is not None": "absent before an upgrade",
}

# Only a source with such a comparison is parsed: parsing all of them takes seconds.
PERHAPS_A_DECISION = re.compile(r"\.\w+\s+is\s+(?:not\s+)?None\b")


def optional_fields() -> set[str]:
    """Return the names of the fields of references that may be None."""
    kinds = [
        kind for kind in vars(references).values() if isinstance(kind, type) and issubclass(kind, Reference)
    ]
    return {
        name
        for kind in kinds
        for name, hint in kind.known().items()
        if typing.get_origin(hint) in (UnionType, typing.Union) and type(None) in typing.get_args(hint)
    }


def decisions(source: ast.AST, fields: set[str]) -> Iterator[str]:
    """Yield the text of each decision by `is None` or `is not None` on an optional field of a reference."""
    for node in ast.walk(source):
        match node:
            case ast.Compare(
                left=ast.Attribute(attr=name) as asked,
                ops=[ast.Is() | ast.IsNot()],
                comparators=[ast.Constant(value=None)],
            ) if name in fields and BASES.match(ast.unparse(asked)):
                yield ast.unparse(node)


def test_each_decision_on_an_optional_field_has_a_name_or_is_listed() -> None:
    fields = optional_fields()
    found = Counter(
        f"{path.relative_to(ROOT)}: {decision}"
        for module, path in modules().items()
        if module.startswith(("privacy_release.", "airflow_privacy_release.")) and not module.startswith(HOME)
        if PERHAPS_A_DECISION.search(path.read_text())
        for decision in decisions(tree(module), fields)
    )
    assert found == Counter(list(LISTED))
    assert len(LISTED) <= 15


@pytest.mark.parametrize(
    "source",
    [
        "if table.persons is None: pass",
        "x = staged.loss is not None",
        "y = [a for a in b if report.attacks is not None]",
        "z = run.staged.model is None or other",
        "def f(self): return self.table.engine is None",
        "q = tables[NAME].engine is not None",
    ],
)
def test_a_decision_without_a_name_would_be_seen(source: str) -> None:
    assert PERHAPS_A_DECISION.search(source)
    assert len(list(decisions(ast.parse(source), optional_fields()))) == 1


@pytest.mark.parametrize(
    "source", ["if table.follows_people: pass", "x = table.uri is None", "y = persons is None"]
)
def test_other_decisions_are_not_counted(source: str) -> None:
    assert not list(decisions(ast.parse(source), optional_fields()))
