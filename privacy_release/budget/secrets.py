"""The secret of memoised answers: where it comes from, and that a series of releases keeps to one.

With another secret every value would be answered afresh, as if nothing had been memoised: whoever reads two
releases could average over them. Each publication records the fingerprint of its secret in the commit itself,
where it outlives even a retraction; the next one in the same table must have the same.
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
    """What memoised answers go by.

    Attributes:
        secret: of the answers.
        last: fingerprint of the secret of the table's last release, where it is known.
        replaces: fingerprint of the secret that is given up on purpose.
    """

    secret: "Secret"
    last: str | None = None
    replaces: str | None = None


def default_secret() -> "Secret":
    """The secret outside of Airflow: `$PRIVACY_SECRET`, or the file that `$PRIVACY_SECRET_FILE` names.

    Raises:
        SecretError: if it is not set, or has fewer than 32 bytes.
    """
    from privacy_engine.randomizers.randomness import Secret

    found = secret(PLACE)
    if not found:
        raise SecretError(
            f"the secret of memoised answers must be in the environment variable {PLACE}, or in the file "
            f"that {PLACE}_FILE names, the same in every run; make one with {NEW_SECRET}"
        )
    return Secret(found.encode())


def keyed(method: Any, memory: Memory | None, seed: int | None) -> Any:
    """A release method with the secret of its answers where it memoises; any other as it is.

    Raises:
        SecretError: if it memoises and there is no secret, or another one than that of the last release.
        SpecError: if it has no use for the secret or the seed.
    """
    from privacy_engine.randomizers.randomizer import Randomizer
    from privacy_engine.randomizers.randomness import Randomness

    randomness = method.randomness if isinstance(method, Randomizer) else None
    if memory is not None and randomness is not Randomness.MEMOISED:
        raise SpecError(
            f"release: {method.key} takes a secret with randomness: memoised only; set it, or leave out the "
            "secret"
        )
    if seed is not None and randomness not in (None, Randomness.SEEDED):
        raise SpecError(
            f"release: the answers of {method.key} cannot be seeded with randomness: {randomness}; leave out "
            "the seed"
        )
    if randomness is not Randomness.MEMOISED:
        return method
    if memory is None:
        raise SecretError(
            f"release: the memoised answers of {method.key} need a secret; name the Airflow connection that "
            "holds it as `secret`"
        )
    _require(memory.secret.fingerprint, memory.last, memory.replaces)
    return method.with_secret(memory.secret)


def parameters_asked(method: "Randomizer | Memoised") -> dict[str, Any]:
    """The parameters of a method, and the fingerprint of its secret where it memoises."""
    from privacy_engine.randomizers.randomizer import Memoised
    from privacy_engine.release import parameters_of

    if isinstance(method, Memoised):
        return parameters_of(method.method) | {"secret": method.secret.fingerprint}
    return parameters_of(method)


def require_same_secret(table: "ReleaseTable", manifest: Manifest) -> None:
    """Refuse a randomized release whose answers do not repeat those of the series it goes to.

    Args:
        table: The release table.
        manifest: of the release. Its `replaces` names the one fingerprint whose secret is given up on
            purpose: that works once, because the next release follows the new secret.

    Raises:
        SecretError: if the last memoised release of the table, retracted or not, has another secret.
        PublishError: if the lake cannot be reached.
    """
    if manifest.randomization is not None:
        _require(manifest.randomization.secret, last_fingerprint(table), manifest.replaces)


def _require(given: str | None, last: str | None, replaces: str | None) -> None:
    """The rule: `last` is None where the table has no memoised release."""
    if last in (None, given, replaces):
        return
    found = f"another one, with the fingerprint {given}" if given else "no secret"
    raise SecretError(
        f"the answers must repeat those of the earlier releases of their table, whose secret has the "
        f"fingerprint {last}, and this release has {found}: every value would be answered afresh, which "
        f"tells more of everybody. Restore the secret; or give it up on purpose with replaces: {last}"
    )


def last_fingerprint(table: "ReleaseTable") -> str | None:
    """That of the secret of the last memoised publication of a table; None where there is none."""
    from privacy_release.lake.read import newest_releases

    kept = (entry["figures"].get("secret") for entry in newest_releases(table))
    return next((found for found in kept if found), None)
