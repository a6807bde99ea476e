"""A table of dates in fragments: cut by days, seconds and periods, in the files as in memory."""

import json

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema, ReleasePolicy, load_method, verify
from privacy_engine.engines.engine import Engine
from privacy_engine.fragments.plan import FragmentPlan
from privacy_engine.fragments.work import release_fragment
from privacy_engine.verification.models import TCloseness
from tests.dated import FIELDS, covers, stays
from tests.privacy_engine.fragments.tables import planned

ONE_BY_ONE = {
    name: {name: FIELDS[name], "illness": FIELDS["illness"], "died": FIELDS["died"]}
    for name in ("born", "admitted", "seen")
}


@pytest.mark.quick("admitted")  # releases in fragments
@pytest.mark.parametrize("fields", [FIELDS, *ONE_BY_ONE.values()], ids=["all", *ONE_BY_ONE])
def test_fragments_of_dates_are_one_release(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, fields: dict[str, dict[str, object]]
) -> None:
    schema = DataSchema.from_dict(fields)
    table = schema.normalized(stays(2_000).reset_index(drop=True)[list(fields)])
    require = (TCloseness(t=0.9, attribute="died"),)
    method = load_method("mondrian", k=5, l=2, require=require, intervals="text")
    plan = planned(engine, tmp_path_factory.mktemp("table"), table, method, schema, 400)
    plan = FragmentPlan.from_dict(json.loads(json.dumps(plan.to_dict())))  # as it travels
    assert plan.fragments > 3
    fragment_of = plan.tree.assign(table)
    sources, parts = [], []
    for fragment in range(plan.fragments):
        own = table[fragment_of == fragment]
        release = release_fragment(plan, fragment, own, method).release
        parts.append(release.table)
        sources.append(own.iloc[release.rows])
    joined, source = pd.concat(parts, ignore_index=True), pd.concat(sources, ignore_index=True)
    assert verify(joined, release.schema, ReleasePolicy(require=release.guarantees)).passed
    for name in set(ONE_BY_ONE) & set(fields):
        moments = source[name].astype("datetime64[us]").dt.to_pydatetime()
        assert all(map(covers, joined[name], moments))
    assert np.bincount(fragment_of).tolist() == list(plan.sizes)
