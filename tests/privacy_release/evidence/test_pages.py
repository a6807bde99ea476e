"""The numbers of an evidence page, as people read them."""

from typing import Any

import pytest

from privacy_release.evidence.pages import _limit, _measured


@pytest.mark.parametrize(
    ("finding", "limit", "measured"),
    [
        ({"rule": "k_anonymity(k=5)", "threshold": 5.0, "measured": 6.0, "passed": True}, "5", "6"),
        (
            {"rule": "max_gcp", "threshold": 0.12, "measured": 0.0720689, "passed": True},
            "12 %",
            "7.21 %",
        ),
        (
            {"rule": "max_delta", "threshold": 1e-8, "measured": 1e-9, "passed": True},
            "1e-8",
            "1e-9",
        ),
        (
            {"rule": "attack_risk(inference)", "threshold": 0.1, "measured": None, "passed": True},
            "0.1",
            "kept apart",
        ),
        (
            {
                "rule": "k_anonymity(k=5)",
                "threshold": 5.0,
                "measured": None,
                "passed": True,
                "note": "Not applicable: the loss is 0",
            },
            "5",
            "not applicable",
        ),
    ],
)
def test_numbers_have_units_and_sensible_digits(finding: dict[str, Any], limit: str, measured: str) -> None:
    assert (_limit(finding), _measured(finding)) == (limit, measured)
