"""Child process of `test_canaries`: runs DAGs one after the other, in a separate Airflow.

Everything that Airflow logs goes to the standard streams, which the parent keeps. `CHILD_SETTINGS` has
further environment variables of single DAGs, by DAG.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from deploy.local.embedded import embedded_environment
from tests.clock import Clock


def main(root: Path, names: list[str]) -> None:
    os.environ |= embedded_environment(root)
    settings = json.loads(os.environ.pop("CHILD_SETTINGS", "{}"))
    from airflow.dag_processing import dagbag
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils import db

    # Airflow's test loop sleeps a second whenever it passes a failure on to the tasks behind it.
    Clock(pytest.MonkeyPatch()).in_sleep()
    db.initdb()
    DagBundlesManager().sync_bundles_to_db()
    bag = dagbag.BundleDagBag(dag_folder=root / "dags", bundle_path=root / "dags", bundle_name="dags-folder")
    dagbag.sync_bag_to_db(bag, "dags-folder", None)
    # Each run would parse and write all of them once more, which takes longer than the run.
    dagbag.BundleDagBag = lambda **_: None
    dagbag.sync_bag_to_db = lambda *_: None
    ended = {}
    for name in names:
        os.environ |= settings.get(name, {})
        done = bag.dags[name].test()
        states = {task.task_id.rpartition(".")[2]: str(task.state) for task in done.get_task_instances()}
        ended[name] = {"run_id": done.run_id, "state": str(done.state), "tasks": states}
    (root / "ended.json").write_text(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
