"""The keys of a run, wrapped with the deployment's secret. Without them its files cannot be read.

A key is stored with the run's files and removed with them, so that copies that a store keeps, in old versions
or backups, can no longer be read. Two tasks that begin a run at the same time make a key each: a file names
the key that it needs.
"""

import secrets
from dataclasses import dataclass

from privacy_engine.errors import SecretError
from privacy_release.workarea.remote.sealing import ID_BYTES, KEY_BYTES, derived

LEAST_BYTES = 32  # shortest secret
KEY_VARIABLE = "PRIVACY_WORK_AREA_KEY"
_PURPOSE = b"privacy-release work area: key of a run"


@dataclass(frozen=True)
class Wrapping:
    """The secret that wraps the keys of runs. It is never shown.

    Args:
        secret: At least 32 bytes that are hard to guess.
        place: Origin of the secret, for messages.

    Raises:
        SecretError: If the secret is too short.
    """

    secret: bytes
    place: str

    def __post_init__(self) -> None:
        if len(self.secret) < LEAST_BYTES:
            raise SecretError(
                f"{self.place} must hold a secret of at least {LEAST_BYTES} bytes for the keys of the work "
                f"area, got {len(self.secret)}; make one with `openssl rand -hex 32`"
            )

    def __repr__(self) -> str:
        return f"Wrapping({self.place!r})"

    def wrap(self, key: bytes, name: str) -> bytes:
        """Wrap a key, so that only the secret opens it, and only under this name of run and key."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(12)
        cipher = AESGCM(derived(self.secret, salt, _PURPOSE))
        return salt + nonce + cipher.encrypt(nonce, key, name.encode())

    def unwrap(self, wrapped: bytes, name: str) -> bytes:
        """Unwrap a key.

        Raises:
            SecretError: If this secret does not open it.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce, sealed = wrapped[:KEY_BYTES], wrapped[KEY_BYTES:][:12], wrapped[KEY_BYTES + 12 :]
        try:
            return AESGCM(derived(self.secret, salt, _PURPOSE)).decrypt(nonce, sealed, name.encode())
        except (InvalidTag, ValueError):
            raise SecretError(
                f"{self.place} must hold the secret that the run's key {name} was wrapped with, but it does "
                "not open the key: the secret was replaced since, or the key was changed; give all workers "
                "the same secret, and start a new run"
            ) from None


def new_key() -> tuple[bytes, bytes]:
    """Return ID and key for a run."""
    return secrets.token_bytes(ID_BYTES), secrets.token_bytes(KEY_BYTES)
