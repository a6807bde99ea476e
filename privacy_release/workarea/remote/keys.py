"""The keys of a run, wrapped with the deployment's secret: without them its files are noise.

A key lies beside the run's files and goes with them, so that whatever a store keeps of the files, in old
versions or backups, can no longer be read. Two tasks that begin a run at once make a key each: a file says
which one it needs.
"""

import secrets
from dataclasses import dataclass

from privacy_engine.errors import SecretError
from privacy_release.workarea.remote.sealing import ID_BYTES, KEY_BYTES, derived

LEAST_BYTES = 32  # of the secret
KEY_VARIABLE = "PRIVACY_WORK_AREA_KEY"
_PURPOSE = b"privacy-release work area: key of a run"


@dataclass(frozen=True)
class Wrapping:
    """The secret that wraps the keys of runs; it is never shown.

    Args:
        secret: at least 32 bytes that are hard to guess.
        place: where it comes from, for people.

    Raises:
        SecretError: if the secret is too short.
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
        """A key that only the secret opens, and only under this name, of its run and its own."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(12)
        cipher = AESGCM(derived(self.secret, salt, _PURPOSE))
        return salt + nonce + cipher.encrypt(nonce, key, name.encode())

    def unwrap(self, wrapped: bytes, name: str) -> bytes:
        """The key.

        Raises:
            SecretError: if this secret does not open it.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        salt, nonce, sealed = wrapped[:KEY_BYTES], wrapped[KEY_BYTES:][:12], wrapped[KEY_BYTES + 12 :]
        try:
            return AESGCM(derived(self.secret, salt, _PURPOSE)).decrypt(nonce, sealed, name.encode())
        except (InvalidTag, ValueError):
            raise SecretError(
                f"{self.place} must hold the secret that the run's key {name} was wrapped with, and does "
                "not open it: it was replaced since, or the key was changed; give all workers the same "
                "secret, and start a new run"
            ) from None


def new_key() -> tuple[bytes, bytes]:
    """Id and key of a run."""
    return secrets.token_bytes(ID_BYTES), secrets.token_bytes(KEY_BYTES)
