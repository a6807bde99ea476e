"""Encrypt files chunk by chunk with AES-256-GCM, so that a large file needs little memory.

Each file has a key that is derived from the run's by HKDF (RFC 5869) with a random salt. A chunk's nonce
is its number and whether it is the last one, as in STREAM (Hoang, Reyhanitabar, Rogaway, Vizar, 2015, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance"). Run and file name are authenticated with it.
So a chunk that was changed, omitted, moved, or taken from another file or run is refused, and so is a
truncated file. The recorded SHA-256 shows that it is not an older file of the same name.
"""

import hashlib
import secrets
import struct
from typing import IO, TYPE_CHECKING

from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK = 1 << 20  # unencrypted bytes of a chunk
KEY_BYTES = 32
ID_BYTES = 8
_TAG = 16  # bytes that GCM adds to a chunk
_MAGIC = b"PRWA\x01"  # of this layout: magic, ID of the run's key, salt, chunks
_HEADER = len(_MAGIC) + ID_BYTES + KEY_BYTES


def seal(plain: IO[bytes], sealed: IO[bytes], key: bytes, *, key_id: bytes, name: str) -> None:
    """Encrypt a stream to its end.

    Args:
        plain: Stream to read.
        sealed: Stream to write.
        key: Key of the run, 32 bytes.
        key_id: ID by which a reader finds the key, 8 bytes.
        name: Names of run and file, which are bound to the content.
    """
    header = _MAGIC + key_id + secrets.token_bytes(KEY_BYTES)
    sealed.write(header)
    cipher, bound = _cipher(key, header), header + name.encode()
    number, chunk = 0, plain.read(CHUNK)
    while True:
        following = plain.read(CHUNK)
        sealed.write(cipher.encrypt(_nonce(number, last=not following), chunk, bound))
        if not following:
            return
        number, chunk = number + 1, following


def key_id_of(sealed: IO[bytes], name: str) -> bytes:
    """Return the ID of the key of a sealed file, and rewind the stream.

    Raises:
        IntegrityError: If it is not a sealed file.
    """
    header = sealed.read(_HEADER)
    sealed.seek(0)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise IntegrityError(
            f"{name} in the work area must be a file that this software encrypted; run from ingest again"
        )
    return header[len(_MAGIC) :][:ID_BYTES]


def unseal(sealed: IO[bytes], plain: IO[bytes], key: bytes, *, name: str) -> str:
    """Decrypt a stream to its end, and return the SHA-256 of the decrypted bytes.

    If an error is raised, do not use the output.

    Args:
        sealed: Stream to read.
        plain: Stream to write.
        key: Key of the run.
        name: Names of run and file, as given to `seal`.

    Raises:
        IntegrityError: If it is not exactly what was sealed under this name with this key.
    """
    from cryptography.exceptions import InvalidTag

    header = sealed.read(_HEADER)
    cipher, bound = _cipher(key, header), header + name.encode()
    digest, number = hashlib.sha256(), 0
    chunk = sealed.read(CHUNK + _TAG)
    while True:
        following = sealed.read(CHUNK + _TAG)
        try:
            opened = cipher.decrypt(_nonce(number, last=not following), chunk, bound)
        except (InvalidTag, ValueError):
            raise IntegrityError(
                f"{name} in the work area must be as it was encrypted, but its chunk {number} is not: it was "
                "changed, truncated or replaced by another, or has another key; run from ingest again"
            ) from None
        digest.update(opened)
        plain.write(opened)
        if not following:
            return digest.hexdigest()
        number, chunk = number + 1, following


def _nonce(number: int, *, last: bool) -> bytes:
    """Return 12 bytes that no other chunk of the file has. The file's key is not used for anything else."""
    return struct.pack(">IQ", last, number)


def _cipher(key: bytes, header: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(derived(key, header[-KEY_BYTES:], b"privacy-release work area: file"))


def derived(key: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Derive a key of 32 bytes for one purpose from another key, by HKDF with SHA-256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=purpose).derive(key)
