"""The benchmarks of attacks: their tables, what is timed, and what they say of what was found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.dp_tables import ADULT_BOUNDS
from benchmarks.peers.attack_peers import PAIRS, TRIED, Found, _section, plain
from benchmarks.scale import attack_speed
from privacy_engine import DataSchema, VerificationError
from privacy_engine.vocabulary import AttackName, bounds_of
from privacy_release.steps.attacks import tries

SINGLING = "singling out, multivariate"
LEAKS, QUIET = Found(0.2, 0.1, 0.3, 1.0), Found(0.01, -0.02, 0.04, 1.0)


@pytest.fixture(autouse=True)
def without_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Adult where it is at hand; else generated records of its form."""
    monkeypatch.setattr("deploy.local.samples.adult.ADULT_URL", (tmp_path / "missing").as_uri())


def test_a_table_of_any_size_has_the_columns_and_bounds_of_adult() -> None:
    schema = attack_speed.schema()
    large = attack_speed.table_of(40_000, np.random.default_rng(1))
    assert len(large) == 40_000
    assert list(large.columns) == list(schema.names)
    assert len(schema.names) == 15
    assert len(schema.quasi_identifiers) == 10
    for name, (low, high) in ADULT_BOUNDS.items():
        assert large[name].between(low, high).all(), name
    assert large.duplicated().mean() < 0.01
    assert len(attack_speed.table_of(500, np.random.default_rng(1))) == 500


@pytest.mark.slow  # runs every attack
@pytest.mark.parametrize("name", [attack_speed.ANONYMIZED, attack_speed.RANDOMIZED])
def test_the_gate_that_is_timed_tries_every_attack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    whole = tries.attack_staged

    def reported(*given: object, **named: object) -> object:
        return whole(*given, **named, on_progress=tried.append)  # type: ignore[arg-type]

    monkeypatch.setattr(attack_speed, "attack_staged", reported)
    frame = attack_speed.table_of(600, np.random.default_rng(1))
    gate = attack_speed.gate_of(frame, attack_speed.schema(), name)
    anonymized = name == attack_speed.ANONYMIZED
    requested = [*attack_speed.GATE, *([AttackName.MINIMALITY] if anonymized else [])]
    assert [text.split(" by ")[0] for text in tried] == [str(attack) for attack in requested]
    assert gate.cpu > 0
    assert (gate.intersection is not None) == anonymized


def test_an_error_of_the_gate_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a bound that is not kept is passed over."""

    def failing(*given: object, **named: object) -> None:
        raise failure

    monkeypatch.setattr(attack_speed, "attack_staged", failing)
    frame = attack_speed.table_of(600, np.random.default_rng(1))
    failure: Exception = VerificationError("a bound is not kept")
    attack_speed.gate_of(frame, attack_speed.schema(), attack_speed.RANDOMIZED)
    failure = ValueError("a broken attack")
    with pytest.raises(ValueError, match="a broken attack"):
        attack_speed.gate_of(frame, attack_speed.schema(), attack_speed.RANDOMIZED)


def test_a_peer_gets_middles_of_intervals_in_the_columns_of_the_source() -> None:
    schema = DataSchema.from_dict(
        {
            "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
            "job": {"role": "sensitive"},
        }
    )
    released = pd.DataFrame(
        {**dict(zip(bounds_of("age"), ([20, 30], [30, 50]), strict=False)), "job": ["a", "b"]}
    )
    assert plain(released, schema).to_dict("list") == {"age": [25.0, 40.0], "job": ["a", "b"]}


def said(ours: dict[str, Found], theirs: dict[str, Found], noise: dict[str, Found]) -> str:
    """The section where both found something on a raw copy, and the other on noise."""
    blank: dict[str, dict[str, Found]] = {name: {} for name in TRIED}
    section = _section(
        {**blank, "raw copy": ours}, {**blank, "raw copy": theirs, "noise": noise}, {SINGLING: QUIET}, 10
    )
    return "\n".join(section.blocks)


def test_a_leak_that_the_peer_finds_alone_is_reported() -> None:
    reported = said({}, {SINGLING: LEAKS}, {})
    assert "- **Does not hold**: ours finds every leak that Anonymeter finds" in reported
    assert f"its alone: {SINGLING} on raw copy" in reported
    assert f"where as many of the people are looked for as are held out: {SINGLING} {QUIET}." in reported


def test_an_attack_that_accuses_noise_counts_for_no_leak() -> None:
    reported = said({}, {SINGLING: LEAKS}, {SINGLING: LEAKS})
    assert "- **Holds**: ours finds every leak that Anonymeter finds" in reported
    assert (
        f"- **Does not hold**: neither accuses noise of a leak (ours: none; theirs: {SINGLING})" in reported
    )


def test_a_leak_that_only_ours_finds_is_reported() -> None:
    reported = said(dict.fromkeys(PAIRS, LEAKS), {SINGLING: QUIET}, {})
    assert "- **Holds**: ours finds leaks that Anonymeter does not (" in reported
    assert "- **Holds**: neither accuses noise" in reported
