"""One secret for all memoised answers of a table: another one would answer every value again."""

import json
from pathlib import Path

import pytest

from privacy_engine.errors import SecretError
from privacy_engine.randomizers.randomness import Secret
from privacy_engine.registry import load_method
from privacy_release.budget.secrets import Memory, keyed, last_fingerprint, require_same_secret
from privacy_release.lake.retract import retract
from privacy_release.lake.store import Lake
from privacy_release.manifest.manifest import Manifest
from privacy_release.steps.publish import publish_staged
from privacy_release.steps.verify import verify_staged
from privacy_release.workarea.references import Published
from tests.privacy_release.proof.signed_tables import NAME, POLICY, people, staged_release

OWN, OTHER = Secret(b"o" * 32), Secret(b"p" * 32)


def published(lake: Lake, folder: Path, release: str, secret: str | None) -> Published:
    """A release by hand, whose manifest names the secret of its answers."""
    staged = staged_release(people(), folder, release)
    manifest = Path(staged.manifest)
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(fields | {"randomization": {"secret": secret}}))
    return publish_staged(staged, verify_staged(staged, POLICY), lake.table(NAME), release)


def test_a_series_keeps_to_its_secret_even_after_a_retraction(lake: Lake, tmp_path: Path) -> None:
    published(lake, tmp_path, "w1", OWN.fingerprint)
    published(lake, tmp_path, "w2", OWN.fingerprint)
    retract(lake.table(NAME), "w2", "a mistake")
    assert last_fingerprint(lake.table(NAME)) == OWN.fingerprint
    for secret in (OTHER.fingerprint, None):
        with pytest.raises(SecretError, match="every value would be answered again"):
            published(lake, tmp_path, f"w3 {secret}", secret)


def test_a_secret_is_given_up_once_and_by_name(lake: Lake, tmp_path: Path) -> None:
    published(lake, tmp_path, "w1", OWN.fingerprint)
    fields = {"randomization": {"secret": OTHER.fingerprint}}
    require_same_secret(lake.table(NAME), Manifest.from_dict(fields | {"replaces": OWN.fingerprint}))
    other = Manifest.from_dict(fields | {"replaces": OTHER.fingerprint[:-1]})
    with pytest.raises(SecretError, match=f"replaces: {OWN.fingerprint}"):
        require_same_secret(lake.table(NAME), other)
    require_same_secret(lake.table(NAME), Manifest.from_dict({"loss": None}))  # it has no random answers


def test_answers_are_not_drawn_with_another_secret_than_the_last_release_had() -> None:
    method = load_method("errph", p_0=0.5, randomness="memoised")
    keyed(method, Memory(secret=OWN, last=OWN.fingerprint), None)
    keyed(method, Memory(secret=OWN), None)
    keyed(method, Memory(secret=OTHER, last=OWN.fingerprint, replaces=OWN.fingerprint), None)
    with pytest.raises(SecretError, match="Restore the secret"):
        keyed(method, Memory(secret=OTHER, last=OWN.fingerprint), None)
    with pytest.raises(SecretError, match="need a secret"):
        keyed(method, None, None)
