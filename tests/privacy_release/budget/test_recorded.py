"""A ledger that was replaced by an old copy of itself, which the releases of a table know of."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_release.budget.budget import Budget
from privacy_release.budget.recorded import NEWEST, lacks_entries
from privacy_release.cli.main import DONE, REFUSED, main
from privacy_release.lake.publish import publish
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.workarea.area import sha256_file
from tests.ledgers import new_ledger

LOSS = PrivacyLoss(epsilon=0.1, delta=0.0, neighbours=Neighbours.REPLACE_ONE)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(root=f"file://{tmp_path}/lake")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A ledger with an epsilon of 1 for the data set `people`."""
    made = new_ledger(tmp_path / "ledger.db")
    made.grant("people", Limit(epsilon=1.0), reason="a test", by="officer")
    return tmp_path / "ledger.db"


def budget(file: Path, dataset: str = "people") -> Budget:
    return Budget(dataset=dataset, run="people/run 2", ledger=BudgetLedger(str(file)))


def paid_release(lake: Lake, file: Path, release_id: str) -> None:
    """A release whose manifest names the entry that reserved its loss."""
    entry = BudgetLedger(str(file)).reserve("people", release_id, LOSS).entry_hash
    staged = file.parent / f"{release_id}.parquet"
    pq.write_table(pa.table({"age": [1, 2, 3]}), staged)
    manifest = {"method": "latent_class", "booking": {"dataset": "people", "entry_hash": entry}}
    publish(
        lake.table("people"), release_id, staged, manifest, b"<p></p>", expected_sha256=sha256_file(staged)
    )


def test_an_old_copy_of_the_ledger_lacks_what_the_newest_releases_name(lake: Lake, file: Path) -> None:
    assert not lacks_entries(budget(file), lake.table("people"))
    paid_release(lake, file, "w1")
    shutil.copy(file, file.with_suffix(".backup"))
    paid_release(lake, file, "w2")
    assert not lacks_entries(budget(file), lake.table("people"))
    shutil.copy(file.with_suffix(".backup"), file)
    assert lacks_entries(budget(file), lake.table("people"))


def test_a_release_of_another_data_set_is_not_looked_for(lake: Lake, file: Path) -> None:
    paid_release(lake, file, "w1")
    assert not lacks_entries(budget(file, "others"), lake.table("people"))


def checked(lake: Lake, file: Path) -> int:
    return main(["budget", "check", "--ledger", str(file), "--lake", lake.root])


def test_the_ledger_is_compared_with_all_releases_of_all_tables_of_a_lake(
    lake: Lake, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(file, file.with_suffix(".backup"))
    for number in range(NEWEST + 1):
        paid_release(lake, file, f"w{number}")
        if number == 0:
            shutil.copy(file, file.with_suffix(".newer"))
    assert checked(lake, file) == DONE
    for older, missing in ((".newer", NEWEST), (".backup", NEWEST + 1)):
        shutil.copy(file.with_suffix(older), file)
        assert checked(lake, file) == REFUSED
        assert f"lacks {missing} of {NEWEST + 1} recorded entries" in capsys.readouterr().err


def test_a_ledger_that_has_never_heard_of_the_data_set_lacks_its_entries(
    lake: Lake, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paid_release(lake, file, "w1")
    new_ledger(tmp_path / "new.db")
    assert checked(lake, tmp_path / "new.db") == REFUSED
    assert "has no entries of data set people" in capsys.readouterr().err
