"""Publishes a signed snapshot and clears up after it, in a process that kills itself before its n-th write.

The steps are real: nothing but the count of what is written, created or erased stands between them and the
store. It prints how many writes there were, where it lives to the end.
"""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
from fault_points import kill_me, say

from privacy_engine.vocabulary import PublishMode, Superseded
from privacy_release.lake import publish as publishing
from privacy_release.lake import superseded
from privacy_release.lake.layout import TableRules
from privacy_release.lake.store import Lake
from privacy_release.proof import statement
from privacy_release.proof.keys import signing_key_in
from privacy_release.proof.statement import StatementSigner


def main() -> None:
    task = json.loads(sys.argv[1])
    count = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == task["kill_before"]:
                kill_me()
            return function(*given, **options)

        return write

    publishing.put = superseded.put = statement.put = counted(publishing.put)
    superseded.remove = counted(superseded.remove)
    deltalake.write_deltalake = counted(deltalake.write_deltalake)
    deltalake.DeltaTable.create = counted(deltalake.DeltaTable.create)
    history = Lake(root=task["history"])
    rules = TableRules(
        mode=PublishMode.SNAPSHOT,
        superseded=Superseded.HISTORY,
        history=history,
        grace=timedelta(0),
    )
    publishing.publish(
        Lake(root=task["root"]),
        task["name"],
        task["release_id"],
        Path(task["staged"]),
        task["manifest"],
        Path(task["report"]),
        expected_sha256=task["sha256"],
        rules=rules,
        signer=StatementSigner(key=signing_key_in(Path(task["key"]))),
    )
    superseded.settle(Lake(root=task["root"]), task["name"], history=history)
    say(str(count))


if __name__ == "__main__":
    main()
