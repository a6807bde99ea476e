"""Nulls in quasi-identifiers: they are cut like values, and the join keeps what each fragment kept."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine import ReleasePolicy, load_method, verify
from privacy_engine.engines.engine import Engine
from privacy_engine.fragments.cut_tree import CutTree
from privacy_engine.fragments.cutting import cut
from privacy_engine.fragments.plan import FragmentPlan
from privacy_engine.recoding.grouping.partitioning import CutRule
from tests.contract.released_cells import a_set, interval, node
from tests.privacy_engine.fragments.tables import CITIES, SCHEMA, people, planned, released

KEPT = SCHEMA.keeping_nulls()
QUASI = [a.name for a in KEPT.quasi_identifiers]


def with_nulls(n: int = 3000, share: float = 0.2) -> pd.DataFrame:
    table = people(n)
    rng = np.random.default_rng(8)
    for name in QUASI:
        table[name] = table[name].mask(rng.random(n) < share)
    return table


@pytest.mark.parametrize("name", ["mondrian", "bottom_up"])
def test_the_join_is_true_of_every_record_and_keeps_k_and_l(
    name: str, engine: Engine, tmp_path: Path
) -> None:
    table, method = with_nulls(), load_method(name, k=5, l=3, intervals="text")
    plan = planned(engine, tmp_path, table, method, KEPT, 500)
    together = released(FragmentPlan.from_dict(json.loads(json.dumps(plan.to_dict()))), table, method)
    assert plan.fragments > 3
    release, joined = together.parts[0].release, together.joined
    assert verify(joined, release.schema, ReleasePolicy(require=release.guarantees)).passed
    rows = joined.astype(object).where(joined.notna(), None)
    assert rows.groupby(QUASI, dropna=False)["record"].size().min() >= 5
    source = table.set_index("record").loc[joined["record"]]
    for column, read in (
        ("age", interval),
        ("salary", interval),
        ("city", lambda cell: node(cell, CITIES)),
        ("colour", a_set),
    ):
        for cell, value in zip(joined[column], source[column], strict=True):
            reported = read(cell)
            if pd.isna(value):
                assert reported.null, column
            elif read is interval:
                assert float(reported.values[0]) <= value <= float(reported.values[1])
            else:
                assert value in reported.values
    figures = together.parts[0].figures.total(part.figures for part in together.parts)
    for tally in figures.tallies:
        if tally.attribute in ("age", "grade", "city"):
            assert tally.groups[-1] == "null"
            assert tally.before[-1] == source[tally.attribute].isna().sum()
            assert sum(tally.after) == pytest.approx(len(table))


@pytest.mark.parametrize("rule", list(CutRule))
@pytest.mark.parametrize("column", ["age", "grade", "city", "colour"])
def test_a_cut_sends_nulls_where_its_sample_had_them(rule: CutRule, column: str) -> None:
    table = with_nulls(share=0.4)
    tree = cut(table, KEPT.select([column]), len(table), 1300, rule=rule)
    assert tree.fragments > 1
    sides = tree.assign(table)
    assert len(set(sides[table[column].isna()])) == 1
    assert np.bincount(sides).max() <= 1300
    assert CutTree.from_dict(json.loads(json.dumps(tree.to_dict()))).assign(table).tolist() == sides.tolist()
