"""What attacks gained on the earlier releases of a table, for whoever decides on the next one.

A manifest has the figures where the policy publishes them. Of other releases without a privacy loss they are
kept in the curator's folder, beside the report on the attacks; of a private release they are kept nowhere.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_release.config.settings import curator_folder
from privacy_release.lake.log import State
from privacy_release.lake.read import releases, standing_manifest
from privacy_release.reports.curator import read_for_curator, write_for_curator
from privacy_release.workarea.references import TrialRef

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable

MOST = 12  # releases that are looked at
_LARGEST = 1 << 20  # bytes of a file of figures
_TOLD = ("excess", "low", "high")

Figures = Mapping[tuple[str, str], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A published release, and what attacks gained on it: excess, low and high by attack and subject."""

    release_id: str
    committed: str
    figures: Figures


def keep_figures(trials: Sequence[TrialRef], sha256: str, *, title: str, release_id: str) -> None:
    """Keep what attacks gained, for the curator and for who decides on later releases.

    Args:
        trials: with their outcomes: never of a private release.
        sha256: of the bytes that were attacked.
        title: of the release, as of its report.
        release_id: of this one.

    Raises:
        IntegrityError, OSError: as `write_for_curator`.
    """
    told = {"sha256": sha256, "trials": [{"attack": t.attack, "outcomes": t.outcomes} for t in trials]}
    write_for_curator(json.dumps(told), title, _named(release_id), ending=".json")


def figures_of_earlier(table: "ReleaseTable", curator: str) -> list[Earlier]:
    """What attacks gained on the last releases of a table that are not retracted, oldest first.

    Args:
        table: The release table.
        curator: path of the report on the attacks on the release to decide on; the others lie beside it.

    Raises:
        PublishError: if the lake cannot be reached.
        IntegrityError: if a manifest was changed.
    """
    standing = [e for e in releases(table) if e["state"] in (State.CURRENT, State.SUPERSEDED)]
    found = []
    for entry in standing[-MOST:]:
        manifest = standing_manifest(table, entry["release_id"])
        kept = [] if manifest.loss is not None else _kept(curator, entry["release_id"], entry["sha256"])
        figures = _by_subject(kept) | _by_subject([attack.stored for attack in manifest.attacks])
        found.append(Earlier(release_id=entry["release_id"], committed=entry["committed"], figures=figures))
    return found


def _by_subject(told: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, float]]:
    return {
        (about["attack"], o["subject"]): {name: float(o[name]) for name in _TOLD}
        for about in told
        for o in about["outcomes"]
    }


def _kept(curator: str, release_id: str, sha256: str) -> list[dict[str, Any]]:
    """What is kept of the attacks on these bytes; empty where it is not on this machine, or not whole."""
    folder = Path(curator).parent
    if folder.parent != curator_folder() or folder.name == "..":  # a reference of another machine
        return []
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(read_for_curator(folder, _named(release_id), ".json", _LARGEST) or b"{}")
        _by_subject(kept["trials"])
        if kept["sha256"] == sha256:
            return list(kept["trials"])
    return []


def _named(release_id: str) -> str:
    return f"{release_id} attacks"
