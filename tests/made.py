"""One release of each example, made once in a run of the tests and read by all of its processes.

A process that wants an example holds a lock while it makes it; the others wait for the lock and read what
it left. No test may change a file here: copy it first.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex

import numpy as np
import pytest

from deploy.local.embedded import checkout
from deploy.local.samples import files as samples
from deploy.local.samples.synthetic_adult import synthetic_adult
from privacy_engine.dp.limits import Limit
from privacy_engine.dp.loss import Neighbours
from privacy_release.lake.store import Lake
from privacy_release.ledger.ledger import BudgetLedger
from privacy_release.running.run import Outcome, run_release
from privacy_release.spec.model import ReleaseSpec, load_spec
from privacy_release.workarea.area import WorkArea
from tests import tables
from tests.ledgers import new_ledger

PEOPLE = "people"  # the release of `tables.write_home`; the others are those of `include/releases`
RELEASE = "2026-11-23T00:00:00"
ADULTS, CUSTOMERS = 6_000, 12_000


@dataclass(frozen=True, kw_only=True)
class Made:
    """A published release, with the files that its run left.

    Attributes:
        root: Folder with the include folder, the lake, the work area and the curator's reports.
        spec: Its specification.
        outcome: What the steps of the run returned; the files that these name are there.
    """

    root: Path
    spec: ReleaseSpec
    outcome: Outcome
    release_id: str = RELEASE

    @property
    def lake(self) -> Lake:
        return Lake(root=str(self.root / "lake"))

    @property
    def ledger(self) -> BudgetLedger:
        return BudgetLedger(f"sqlite:///{self.root / 'ledger.db'}")


def made_release(shared: Path, example: str = PEOPLE) -> Made:
    """The release of an example, which the first process that wants it makes.

    Args:
        shared: A folder that all processes of the run have.
        example: The stem of a file in `include/releases`, or `people`.
    """
    root = shared / f"made-{example}"
    with locked(shared, f"made-{example}"):
        if not (root / "outcome.json").exists():
            shutil.rmtree(root, ignore_errors=True)
            home = tables.write_home(root / "include") if example == PEOPLE else examples(shared, root)
            outcome = _run(root, load_spec(home / "releases" / f"{example}.yaml"))
            (root / "outcome.json").write_text(json.dumps(asdict(outcome)))
    outcome = Outcome(**json.loads((root / "outcome.json").read_text()))
    return Made(root=root, spec=load_spec(root / "include" / "releases" / f"{example}.yaml"), outcome=outcome)


def examples(shared: Path, root: Path) -> Path:
    """Give a new folder the shipped include folder and small samples; return the include folder."""
    data = shared / "samples"
    with locked(shared, "samples"), pytest.MonkeyPatch.context() as patch:
        if not data.exists():
            patch.setattr(samples, "CUSTOMERS", CUSTOMERS)
            patch.setattr(samples, "VISITORS", 2 * CUSTOMERS)
            adults = synthetic_adult(ADULTS, rng=np.random.default_rng(1))
            samples.write_table(data / samples.ADULT, adults, "generated records")
            samples.write_samples(data, [RELEASE])
    (root / samples.SAMPLES).parent.mkdir(parents=True)
    (root / samples.SAMPLES).symlink_to(data)
    shutil.copytree(checkout() / "include", root / "include")
    return root / "include"


@contextmanager
def locked(shared: Path, name: str) -> Iterator[None]:
    """Hold a lock that only one process of the run can have."""
    with (shared / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(root: Path, spec: ReleaseSpec) -> Outcome:
    """Run a release with all that it may need: a budget, secrets, and someone who approves it."""
    ledger = new_ledger(root / "ledger.db")
    if spec.budget is not None:
        neighbours = Neighbours.REPLACE_PERSON if spec.person else Neighbours.REPLACE_ONE
        limit = Limit(epsilon=100.0, delta=1e-6, neighbours=neighbours)
        ledger.grant(spec.budget.dataset, limit, reason="a test", by="officer")
    with pytest.MonkeyPatch.context() as patch, WorkArea(root / "work", spec.name) as work:
        patch.setenv("PRIVACY_CURATOR", str(root / "curator"))
        for name in ("PRIVACY_SECRET", "PRIVACY_MEMBERSHIP_KEY", "PRIVACY_PSEUDONYM_KEY"):
            patch.setenv(name, token_hex(32))
        lake = Lake(root=str(root / "lake"))
        return run_release(spec, lake, RELEASE, work, ledger=ledger, approved_by="officer")
