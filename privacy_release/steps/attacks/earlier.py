"""The results of attacks on the earlier releases of a table, for the reviewer of the next release.

A manifest contains the figures if the policy publishes them. For other releases without a privacy loss they
are kept in the curator's folder, next to the report on the attacks. For a private release they are not kept.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privacy_release.config.settings import curator_folder
from privacy_release.lake.log import State, publications
from privacy_release.lake.read import standing_manifest
from privacy_release.reports.curator import read_for_curator, write_for_curator
from privacy_release.workarea.references import TrialRef

if TYPE_CHECKING:
    from privacy_release.lake.store import ReleaseTable

MOST = 12  # number of releases that are read
_LARGEST = 1 << 20  # largest size in bytes of a file of figures
_FIGURES = ("excess", "low", "high")

Figures = Mapping[tuple[str, str], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A published release with the results of its attacks: excess, low and high by attack and subject."""

    release_id: str
    committed: str
    figures: Figures


def keep_figures(trials: Sequence[TrialRef], sha256: str, *, title: str, release_id: str) -> None:
    """Keep the results of attacks for the curator and for the reviewers of later releases.

    Args:
        trials: Attacks with their outcomes. Never those on a private release.
        sha256: SHA-256 of the attacked bytes.
        title: Title of the release and of its report.
        release_id: ID of the release.

    Raises:
        IntegrityError, OSError: As `write_for_curator`.
    """
    figures = {"sha256": sha256, "trials": [{"attack": t.attack, "outcomes": t.outcomes} for t in trials]}
    write_for_curator(json.dumps(figures), title, _named(release_id), ending=".json")


def figures_of_earlier(table: "ReleaseTable", curator: str) -> list[Earlier]:
    """Return the results of attacks on the last releases of a table that are not retracted, oldest first.

    Args:
        table: The release table.
        curator: Path of the report on the attacks on the new release. The other reports are next to it.

    Raises:
        PublishError: If the lake cannot be reached.
        IntegrityError: If a manifest was changed.
    """
    standing = [made for made in publications(table) if made.state in (State.CURRENT, State.SUPERSEDED)]
    found = []
    for made in standing[-MOST:]:
        manifest = standing_manifest(table, made.release_id)
        kept = [] if manifest.loss is not None else _kept(curator, made.release_id, made.sha256)
        figures = _by_subject(kept) | _by_subject([attack.stored for attack in manifest.attacks])
        found.append(Earlier(release_id=made.release_id, committed=made.committed, figures=figures))
    return found


def _by_subject(trials: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, float]]:
    return {
        (about["attack"], o["subject"]): {name: float(o[name]) for name in _FIGURES}
        for about in trials
        for o in about["outcomes"]
    }


def _kept(curator: str, release_id: str, sha256: str) -> list[dict[str, Any]]:
    """Return the kept results of attacks on these bytes. Empty if they are missing here or incomplete."""
    folder = Path(curator).parent
    if folder.parent != curator_folder() or folder.name == "..":  # the reference is from another machine
        return []
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(read_for_curator(folder, _named(release_id), ".json", _LARGEST) or b"{}")
        _by_subject(kept["trials"])
        if kept["sha256"] == sha256:
            return list(kept["trials"])
    return []


def _named(release_id: str) -> str:
    return f"{release_id} attacks"
