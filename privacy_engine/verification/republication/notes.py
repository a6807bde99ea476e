"""Sentences for the readers of a release about attackers who also have the earlier releases of its table.

The findings of the policy model `republication` say in a note which attackers were judged and which were not.
Where releases follow people and no finding is of that model, differences were not judged, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NOT_JUDGED = (
    "differences between releases were not judged: the policy does not name the model republication, so it "
    "is not known whether values of newcomers follow by subtracting an earlier release from this one"
)


def unjudged_text(count: int) -> str:
    """What is wrong where earlier releases were made before differences could be judged, and what to do.

    Args:
        count: Number of such releases, at least 1.
    """
    were = "release of the table was" if count == 1 else "releases of the table were"
    return (
        f"{count} earlier {were} made before differences between releases could be judged, or with another "
        "`exact` of the identifier, so it is not known what follows by subtracting; retract what was made "
        "then, publish under a new table name, or state why that is acceptable as history.accept_unjudged"
    )


def notes_over_time(findings: Iterable[Mapping[str, Any]], *, followed: bool) -> list[str]:
    """Sentences about what was judged together with the earlier releases; none where nothing follows people.

    Args:
        findings: Of the verification, each as `Finding.to_dict` gives it.
        followed: Whether the release was made together with earlier ones of the same people, or people are
            followed through it.

    >>> notes_over_time([{"rule": "republication(k=2)", "note": "all judged"}], followed=True)
    ['republication(k=2): all judged']
    >>> notes_over_time([{"rule": "m_invariance(m=2)"}], followed=False) == [NOT_JUDGED]
    True
    >>> notes_over_time([{"rule": "k_anonymity(k=2)"}], followed=False)
    []
    """
    # They load numpy, which no command needs that shows no release.
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
