"""Twenty-odd wrong files: one change of a right one each, and what `check` says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RELEASE = "releases/people.yaml"
POLICY = "policies/people.yaml"
HIERARCHY = "hierarchies/zip.csv"
SUITE = "expectations/people.json"

# What is right: a change of one line is one wrong file.
RIGHT = {
    RELEASE: """\
name: people
schedule: "@daily"
source:
  uri: people.parquet
  columns: [name, age, zip, illness, visits]
schema:
  name: {role: identifier, kind: categorical}
  age: {role: quasi_identifier, kind: numeric, bounds: [0, 120]}
  zip: {role: quasi_identifier, kind: categorical, hierarchy: hierarchies/zip.csv}
  illness:
    role: sensitive
    kind: categorical
  visits: {role: insensitive, kind: numeric}
expectations: expectations/people.json
release:
  method: mondrian
  k: 5
  l: 2
policy: policies/people.yaml
publish:
  lake: lake_default
  table: people
""",
    POLICY: """\
require:
  - {model: k_anonymity, k: 5}
  - model: distinct_l_diversity
    l: 2
    attribute: illness
max_suppressed: 0.1
""",
    HIERARCHY: """\
N1;north;*
N2;north;*
S1;south;*
S2;south;*
""",
    SUITE: """\
{
  "name": "people",
  "expectations": [
    {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}}
  ]
}
""",
}


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A wrong file.

    Attributes:
        about: what is wrong, in a few words.
        file: that is changed.
        old, new: text that stands there once, and what stands in its place.
        line: that `check` names.
        field: that it names.
        says: a part of the message.
        found: the file that it names, where it is another one.
        parsed: whether the import error of the DAGs says so, too; the rest needs the engine or the gate.
    """

    about: str
    file: str = RELEASE
    old: str
    new: str
    line: int
    field: str
    says: str
    found: str | None = None
    parsed: bool = True


WRONG: Sequence[Wrong] = (
    Wrong(
        about="a field that does not exist",
        old="expectations: ",
        new="expectatons: ",
        line=14,
        field="expectatons",
        says="expectatons: is not a known field; remove it or take one of",
    ),
    Wrong(
        about="an alert of a figure that does not exist",
        old="policy: ",
        new="alerts:\n  rows: {falls_by: 0.2}\n  prosecutor_mx: {above: 0.1}\npolicy: ",
        line=21,
        field="alerts.prosecutor_mx",
        says="(did you mean prosecutor_max?)",
    ),
    Wrong(
        about="an alert that is out of range",
        old="policy: ",
        new="alerts:\n  last: 3\n  gcp_lca:\n    above: 20\npolicy: ",
        line=22,
        field="alerts.gcp_lca.above",
        says="must be less than 1, got 20; correct it",
    ),
    Wrong(
        about="an alert of a budget that is not spent",
        old="policy: ",
        new="alerts: {budget: {left_below: 0.2}}\npolicy: ",
        line=19,
        field="alerts.budget",
        says="alerts.budget requires a budget; remove it",
    ),
    Wrong(
        about="a field that is missing",
        old="policy: policies/people.yaml\n",
        new="",
        line=1,
        field="policy",
        says="policy: is missing; add it",
    ),
    Wrong(
        about="a method that does not exist",
        old="mondrian",
        new="mondrain",
        line=16,
        field="release.method",
        says="got 'mondrain' (did you mean mondrian?)",
    ),
    Wrong(
        about="a parameter that the method does not have",
        old="  l: 2\n",
        new="  suppresion_limit: 0.1\n",
        line=18,
        field="release.suppresion_limit",
        says="(did you mean suppression_limit?)",
        parsed=False,
    ),
    Wrong(
        about="a parameter that cannot be",
        old="  k: 5",
        new="  k: 1",
        line=17,
        field="release.k",
        says="k must be >= 2, got 1",
        parsed=False,
    ),
    Wrong(
        about="a k below the policy's",
        old="  k: 5",
        new="  k: 3",
        line=17,
        field="release.k",
        says="k_anonymity(k=3) is weaker than k_anonymity(k=5), as the policy",
        parsed=False,
    ),
    Wrong(
        about="a role that does not exist",
        old="role: sensitive",
        new="role: sensible",
        line=11,
        field="schema.illness.role",
        says="got 'sensible'; correct it (did you mean sensitive?)",
    ),
    Wrong(
        about="a kind that does not exist",
        old="role: insensitive, kind: numeric",
        new="role: insensitive, kind: number",
        line=13,
        field="schema.visits.kind",
        says="got 'number'; correct it (did you mean numeric?)",
    ),
    Wrong(
        about="bounds the wrong way round",
        old="[0, 120]",
        new="[120, 0]",
        line=8,
        field="schema.age.bounds",
        says="attribute 'age': bounds must be",
        parsed=False,
    ),
    Wrong(
        about="a column that has no role",
        old="illness, visits]",
        new="ilness, visits]",
        line=5,
        field="source.columns",
        says="source.columns ['ilness' (did you mean illness?)] must be in schema",
    ),
    Wrong(
        about="a cron expression that no day meets",
        old='"@daily"',
        new='"0 0 31 2 *"',
        line=2,
        field="schedule",
        says="must be five cron fields that some day meets",
    ),
    Wrong(
        about="an asset that no release publishes",
        old='"@daily"',
        new="{asset: stedy}",
        line=2,
        field="schedule.asset",
        says="waits for the asset stedy, which no other release publishes (did you mean steady?)",
        parsed=False,
    ),
    Wrong(
        about="a file that is not there",
        old="policies/people.yaml",
        new="policies/peple.yaml",
        line=19,
        field="policy",
        says="(did you mean people.yaml?)",
    ),
    Wrong(
        about="a name that is not that of the file",
        old="name: people\n",
        new="name: persons\n",
        line=1,
        field="name",
        says="name must be 'people' like the file",
    ),
    Wrong(
        about="no YAML",
        old="[name, age, zip, illness, visits]",
        new="[name, age, zip",
        line=6,
        field="",
        says="must be YAML; correct it",
    ),
    Wrong(
        about="a field that is given twice",
        old="  l: 2\n",
        new="  k: 2\n",
        line=16,
        field="",
        says="must be YAML; correct it: a field appears twice here, remove one",
    ),
    Wrong(
        about="a number that YAML reads as octal",
        old="  l: 2\n",
        new="  l: 02\n",
        line=18,
        field="",
        says="a number must be written in decimal digits, without zeros in front",
    ),
    Wrong(
        about="a number of a policy that YAML reads as octal",
        file=POLICY,
        old="max_suppressed: 0.1",
        new="max_suppressed: 01",
        line=6,
        field="",
        says="a number must be written in decimal digits, without zeros in front",
    ),
    Wrong(
        about="people who are followed by an unknown identifier",
        old="publish:",
        new="history: {identifier: nam}\npublish:",
        line=20,
        field="history.identifier",
        says="with the role identifier, got 'nam' (did you mean name?)",
    ),
    Wrong(
        about="a model that does not exist",
        file=POLICY,
        old="k_anonymity",
        new="k_anonimity",
        line=2,
        field="require.0.model",
        says="policy require[0]: model must be one of",
    ),
    Wrong(
        about="a rule that does not exist",
        file=POLICY,
        old="max_suppressed",
        new="max_supressed",
        line=6,
        field="max_supressed",
        says="(did you mean max_suppressed?)",
    ),
    Wrong(
        about="a model of a column that is not sensitive",
        file=POLICY,
        old="attribute: illness",
        new="attribute: ilness",
        line=19,
        field="policy",
        says="asks for distinct_l_diversity(attribute=ilness, l=2) of a sensitive attribute ilness",
        found=RELEASE,
    ),
    Wrong(
        about="a limit that is no number",
        file=POLICY,
        old="max_suppressed: 0.1",
        new="max_suppressed: -0.1",
        line=6,
        field="max_suppressed",
        says="policy max_suppressed must be a finite number >= 0",
    ),
    Wrong(
        about="a hierarchy with a level too few",
        file=HIERARCHY,
        old="S1;south;*",
        new="S1;*",
        line=3,
        field="",
        says="all rows of a hierarchy must have the same number of levels, got [2, 3]",
    ),
    Wrong(
        about="a hierarchy whose labels do not nest",
        file=HIERARCHY,
        old="N2;north;*",
        new="N2;north;all",
        line=2,
        field="",
        says="labels must nest",
    ),
    Wrong(
        about="an expectation that does not exist",
        file=SUITE,
        old="not_be_null",
        new="not_be_nul",
        line=4,
        field="expectations.0",
        says="did you mean expect_column_values_to_not_be_null",
        parsed=False,
    ),
)


def row_of(case: Wrong) -> str:
    """What the documentation says of it."""
    given = case.new.strip().splitlines() or ["(left out)"]
    star = "" if case.parsed else " \\*"
    place = f"{case.found or case.file}:{case.line}"
    return f"| {case.about}{star} | `{given[0]}` | `{place}` | `{case.says}` |"


def write_right(home: Path) -> None:
    """The files of the release `people`, all of them right."""
    for file, text in RIGHT.items():
        (home / file).write_text(text)


def write_wrong(home: Path, case: Wrong) -> None:
    """The same with one wrong file."""
    write_right(home)
    assert RIGHT[case.file].count(case.old) == 1
    (home / case.file).write_text(RIGHT[case.file].replace(case.old, case.new))
