"""Ed25519 keys as PEM files: private keys that sign, and public keys that are trusted.

The ID of a key is the SHA-256 of its public half in DER (SubjectPublicKeyInfo). `openssl pkey -pubin
-outform der | sha256sum` prints the same.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from privacy_engine.errors import SecretError, SpecError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NEW_KEY = "privacy-release key new FILE"
_LARGEST = 1 << 20  # largest size in bytes of a file of keys
_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key, which verifies signatures."""

    _key: "Ed25519PublicKey" = field(repr=False)

    @property
    def id(self) -> str:
        """SHA-256 of its DER form, in hexadecimal digits."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = self._key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def pem(self) -> str:
        """The key as a PEM text."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def verifies(self, data: bytes, signature: bytes) -> bool:
        """Return whether a signature is by this key and of these bytes."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """The private key of a publisher, which is never shown."""

    _key: "Ed25519PrivateKey" = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """A fresh one."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, data: bytes, place: str) -> Self:
        """Read a key. `place` is its origin, for messages.

        Raises:
            SecretError: If it is no unencrypted Ed25519 private key in PEM form.
        """
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(data, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError for an encrypted key
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise SecretError(
                f"{place} must hold an Ed25519 private key in PEM form, not encrypted; make one with "
                f"`{NEW_KEY}`"
            )
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """Its public half."""
        return PublicKey(self._key.public_key())

    def sign(self, data: bytes) -> bytes:
        """Return a signature of 64 bytes, always the same for the same bytes."""
        return bytes(self._key.sign(data))

    def pem(self) -> bytes:
        """Return the key as an unencrypted PEM text."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_new_key(path: Path) -> SigningKey:
    """Make a key in a new file that only this user can read.

    Raises:
        SpecError: If the file cannot be made, or already exists.
    """
    key = SigningKey.new()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.pem())
    except OSError as error:
        raise SpecError(
            f"{path} must be a new file in a folder that can be written, got {type(error).__name__}; a key "
            "is never overwritten"
        ) from None
    return key


def signing_key_in(path: Path) -> SigningKey:
    """Read the private key in a file.

    Raises:
        SecretError: If it cannot be read, or contains none.
    """
    return SigningKey.from_pem(_read(path), str(path))


def public_key_of(pem: bytes) -> PublicKey:
    """Parse the public key in a PEM text.

    Raises:
        ValueError: If it is no Ed25519 key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except UnsupportedAlgorithm:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("the key must be an Ed25519 key")
    return PublicKey(key)


def public_keys_in(path: Path) -> list[PublicKey]:
    """Read the public keys in a PEM file. Other text between them is ignored.

    Raises:
        SecretError: If it cannot be read, contains none, or one that is not Ed25519.
    """
    blocks = _PUBLIC.findall(_read(path))
    try:
        keys = [public_key_of(block) for block in blocks]
    except ValueError:
        keys = []
    if not keys:
        raise SecretError(
            f"{path} must hold public Ed25519 keys in PEM form, as `privacy-release key public` prints them"
        )
    return keys


def by_id(keys: Iterable[PublicKey]) -> dict[str, PublicKey]:
    """Return the keys by their IDs."""
    return {key.id: key for key in keys}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise SecretError(f"the key file {path} must be readable, got {type(error).__name__}") from None
