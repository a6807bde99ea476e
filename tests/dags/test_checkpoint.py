"""A real run with a named Checkpoint: what its context keeps, the page and the log hold no value."""

from typing import Any

import great_expectations as gx
import pandas as pd
import pytest
from great_expectations.checkpoint.actions import UpdateDataDocsAction

from tests.canaries import MARK, files_below, files_with, planted_everywhere

NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "age"}}
IN_SET = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "town", "value_set": ["none"]}}


def make_context(folder: Any, *expectations: Any) -> None:
    context = gx.get_context(mode="file", context_root_dir=str(folder))
    frame = context.data_sources.add_pandas("tables").add_dataframe_asset("people")
    suite = context.suites.add(gx.ExpectationSuite(**{"name": "people", "expectations": list(expectations)}))
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(
            name="people", data=frame.add_batch_definition_whole_dataframe("all"), suite=suite
        )
    )
    context.checkpoints.add(
        gx.Checkpoint(
            name="daily",
            validation_definitions=[validation],
            actions=[UpdateDataDocsAction(name="docs")],
            result_format="COMPLETE",
        )
    )


@pytest.mark.quick("further1-failed")  # a whole run each
@pytest.mark.parametrize(("further", "state"), [((), "success"), ((IN_SET,), "failed")])
def test_a_run_holds_its_table_against_a_checkpoint(
    home: Any,
    invented: pd.DataFrame,
    run: Any,
    further: tuple[Any, ...],
    state: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = home.folder / "gx"
    make_context(folder, NOT_NULL, *further)
    home.write(planted_everywhere(invented), expectations={"context": "gx", "checkpoint": "daily"})
    done = run("people")
    assert done.state == state, done.tasks
    assert done.tasks["validate"] == state
    pages = [path for path in files_below(folder) if "data_docs" in str(path) and path.suffix == ".html"]
    assert [path for path in pages if "validations" in path.parts]
    assert files_with(files_below(folder), MARK.encode(), b"fingerprint") == []
    assert MARK not in "".join(capfd.readouterr())
