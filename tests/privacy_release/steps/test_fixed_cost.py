"""What a release of few records does whatever their number, in counts, which are steady where time is not."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pytest
import yaml
from deltalake import DeltaTable

from privacy_release.lake.store import Lake
from privacy_release.running.run import run_release
from privacy_release.spec.model import load_spec
from privacy_release.workarea.area import WorkArea


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what takes milliseconds was called."""
    counted: Counter[str] = Counter()

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counts(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return call(*arguments, **named)

        return counts

    monkeypatch.setattr(duckdb, "connect", counting("DuckDB", duckdb.connect))
    monkeypatch.setattr(DeltaTable, "__init__", counting("Delta", DeltaTable.__init__))
    compiled = jinja2.Environment.compile
    monkeypatch.setattr(jinja2.Environment, "compile", counting("pages compiled", compiled))
    return counted


def test_a_second_release_opens_the_table_four_times_duckdb_once_and_compiles_no_page(
    home: Path, work: WorkArea, lake: Lake, calls: Counter[str]
) -> None:
    path = home / "releases" / "people.yaml"
    fields = yaml.safe_load(path.read_text())
    del fields["expectations"]
    path.write_text(yaml.safe_dump(fields, sort_keys=False))
    spec = load_spec(path)
    run_release(spec, lake, "r1", work)
    calls.clear()
    run_release(spec, lake, "r2", work)
    assert calls["DuckDB"] == 1
    assert calls["Delta"] <= 4
    assert calls["pages compiled"] == 0
