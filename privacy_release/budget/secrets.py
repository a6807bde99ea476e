"""The secret of memoised answers: its origin, and the check that a series of releases keeps to one.

With another secret, every value would be answered again, as if nothing had been memoised, and readers of two
releases could average over them. Each publication records the fingerprint of its secret in the commit itself,
where it survives even a retraction. The next one in the same table must have the same.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privacy_engine.errors import SecretError, SpecError
from privacy_release.config.settings import secret
from privacy_release.manifest.manifest import Manifest

if TYPE_CHECKING:
    from privacy_engine.randomizers.randomizer import Memoised, Randomizer
    from privacy_engine.randomizers.randomness import Secret
    from privacy_release.lake.store import ReleaseTable

PLACE = "PRIVACY_SECRET"
NEW_SECRET = "python -c 'import secrets; print(secrets.token_hex(32))'"


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The secrets of memoised answers.

    Attributes:
        secret: Secret of the answers.
        last: Fingerprint of the secret of the table's last release. None if it is unknown.
        replaces: Fingerprint of the secret that is replaced on purpose.
    """

    secret: "Secret"
    last: str | None = None
    replaces: str | None = None


def default_secret() -> "Secret":
    """Return the secret outside of Airflow: `$PRIVACY_SECRET`, or the file named by `$PRIVACY_SECRET_FILE`.

    Raises:
        SecretError: If it is not set, or has fewer than 32 bytes.
    """
    from privacy_engine.randomizers.randomness import Secret

    found = secret(PLACE)
    if not found:
        raise SecretError(
            f"the secret of memoised answers must be in the environment variable {PLACE}, or in the file "
            f"named by {PLACE}_FILE, the same in every run; make one with {NEW_SECRET}"
        )
    return Secret(found.encode())


def keyed(method: Any, memory: Memory | None, seed: int | None) -> Any:
    """Give a release method that memoises its secret. Other methods are returned unchanged.

    Raises:
        SecretError: If it memoises but there is no secret, or another one than for the last release.
        SpecError: If it does not use the secret or the seed.
    """
    from privacy_engine.randomizers.randomizer import Randomizer
    from privacy_engine.randomizers.randomness import Randomness

    randomness = method.randomness if isinstance(method, Randomizer) else None
    if memory is not None and randomness is not Randomness.MEMOISED:
        raise SpecError(
            f"release: {method.key} only takes a secret with randomness: memoised; set it, or remove the "
            "secret"
        )
    if seed is not None and randomness not in (None, Randomness.SEEDED):
        raise SpecError(
            f"release: the answers of {method.key} cannot be seeded with randomness: {randomness}; remove "
            "the seed"
        )
    if randomness is not Randomness.MEMOISED:
        return method
    if memory is None:
        raise SecretError(
            f"release: the memoised answers of {method.key} need a secret; name the Airflow connection that "
            "contains it as `secret`"
        )
    _require(memory.secret.fingerprint, memory.last, memory.replaces)
    return method.with_secret(memory.secret)


def described_parameters(method: "Randomizer | Memoised") -> dict[str, Any]:
    """Return the parameters of a method, with the fingerprint of its secret if it memoises."""
    from privacy_engine.randomizers.randomizer import Memoised
    from privacy_engine.release import parameters_of

    if isinstance(method, Memoised):
        return parameters_of(method.method) | {"secret": method.secret.fingerprint}
    return parameters_of(method)


def require_same_secret(table: "ReleaseTable", manifest: Manifest) -> None:
    """Raise if the answers of a randomized release do not repeat those of its series.

    Args:
        table: The release table.
        manifest: Manifest of the release. Its `replaces` names the fingerprint of a secret that is replaced
            on purpose. That works once, because the next release follows the new secret.

    Raises:
        SecretError: If the last memoised release of the table, retracted or not, has another secret.
        PublishError: If the lake cannot be reached.
    """
    if manifest.randomization is not None:
        _require(manifest.randomization.secret, last_fingerprint(table), manifest.replaces)


def _require(given: str | None, last: str | None, replaces: str | None) -> None:
    """Apply the rule. `last` is None if the table has no memoised release."""
    if last in (None, given, replaces):
        return
    found = f"another one, with the fingerprint {given}" if given else "no secret"
    raise SecretError(
        f"the answers must repeat those of the earlier releases of their table, whose secret has the "
        f"fingerprint {last}, but this release has {found}: every value would be answered again, which "
        f"reveals more about everyone. Restore the secret; or replace it on purpose with replaces: {last}"
    )


def last_fingerprint(table: "ReleaseTable") -> str | None:
    """Return the fingerprint of a table's last memoised publication's secret. None if there is none."""
    from privacy_release.lake.read import newest_releases

    kept = (entry["figures"].get("secret") for entry in newest_releases(table))
    return next((found for found in kept if found), None)
