"""Sentences for the readers of a release about attackers who also have its earlier releases.

The findings of the policy model `republication` note which attackers were judged and which were not. If
releases follow people and no finding belongs to that model, a sentence says that differences were not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NOT_JUDGED = (
    "differences between releases were not judged, because the policy does not name the model republication: "
    "values of newcomers might follow from subtracting an earlier release from this one"
)


def unjudged_text(count: int) -> str:
    """Explain what is unknown if earlier releases could not be judged, and what to do about it.

    Args:
        count: Number of such releases, at least 1.
    """
    were = "release of the table was" if count == 1 else "releases of the table were"
    return (
        f"{count} earlier {were} made before differences between releases could be judged, or with another "
        "`exact` of the identifier, so what follows by subtracting is unknown. Retract what was made "
        "then, publish under a new table name, or give a reason to accept this as history.accept_unjudged"
    )


def notes_on_earlier(findings: Iterable[Mapping[str, Any]], *, followed: bool) -> list[str]:
    """Return sentences on what was judged together with the earlier releases; none if no one is followed.

    Args:
        findings: Findings of the verification, each from `Finding.to_dict`.
        followed: Whether the release was made together with earlier ones of the same people, or people are
            followed through it.

    >>> notes_on_earlier([{"rule": "republication(k=2)", "note": "all judged"}], followed=True)
    ['republication(k=2): all judged']
    >>> notes_on_earlier([{"rule": "m_invariance(m=2)"}], followed=False) == [NOT_JUDGED]
    True
    >>> notes_on_earlier([{"rule": "k_anonymity(k=2)"}], followed=False)
    []
    """
    # They load numpy, which commands that show no release do not need.
    from privacy_engine.verification.cross_release import CROSS_RELEASE_MODELS
    from privacy_engine.verification.republication.model import Republication

    notes, judged, across = [], False, followed
    for finding in findings:
        name = str(finding["rule"]).partition("(")[0]
        judged |= name == Republication.name
        across |= name in CROSS_RELEASE_MODELS
        if note := finding.get("note"):
            notes.append(f"{finding['rule']}: {note}")
    return notes if judged or not across else [*notes, NOT_JUDGED]
