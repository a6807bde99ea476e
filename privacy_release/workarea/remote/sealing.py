"""Files that are encrypted chunk by chunk with AES-256-GCM, so that a large one takes little memory.

Each file has a key of its own, derived from the run's by HKDF (RFC 5869) with a random salt. A chunk's nonce
is its number and whether it is the last one, as in STREAM (Hoang, Reyhanitabar, Rogaway, Vizar, 2015, "Online
Authenticated-Encryption and its Nonce-Reuse Misuse-Resistance"), and run and file name are authenticated
with it: a chunk that was changed, left out, moved, or taken from another file or run is refused, and so is a
file that was cut short. That it is not an older file of the same name, its recorded sha256 tells.
"""

import hashlib
import secrets
import struct
from typing import IO, TYPE_CHECKING

from privacy_engine.errors import IntegrityError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK = 1 << 20  # plain bytes of a chunk
KEY_BYTES = 32
ID_BYTES = 8
_TAG = 16  # bytes that GCM adds to a chunk
_MAGIC = b"PRWA\x01"  # of this layout: magic, id of the run's key, salt, chunks
_HEADER = len(_MAGIC) + ID_BYTES + KEY_BYTES


def seal(plain: IO[bytes], sealed: IO[bytes], key: bytes, *, key_id: bytes, name: str) -> None:
    """Encrypt a stream to its end.

    Args:
        plain: is read.
        sealed: is written.
        key: of the run, 32 bytes.
        key_id: by which whoever reads the file finds the key, 8 bytes.
        name: of run and file, which are bound to it.
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
    """Which key a sealed file is to be opened with; the stream stands at its beginning afterwards.

    Raises:
        IntegrityError: if it is no sealed file.
    """
    header = sealed.read(_HEADER)
    sealed.seek(0)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise IntegrityError(
            f"{name} in the work area must be a file that this software encrypted; run from ingest again"
        )
    return header[len(_MAGIC) :][:ID_BYTES]


def unseal(sealed: IO[bytes], plain: IO[bytes], key: bytes, *, name: str) -> str:
    """Decrypt a stream to its end; the sha256 of the plain bytes.

    What was written must not be used if an error is raised.

    Args:
        sealed: is read.
        plain: is written.
        key: of the run.
        name: of run and file, as they were given to `seal`.

    Raises:
        IntegrityError: if it is not, to the last bit, what was sealed under this name with this key.
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
                f"{name} in the work area must be as it was encrypted, its chunk {number} is not: it was "
                "changed, cut short or put in another's place, or has another key; run from ingest again"
            ) from None
        digest.update(opened)
        plain.write(opened)
        if not following:
            return digest.hexdigest()
        number, chunk = number + 1, following


def _nonce(number: int, *, last: bool) -> bytes:
    """12 bytes that no other chunk of a file has; the file's key is used for nothing else."""
    return struct.pack(">IQ", last, number)


def _cipher(key: bytes, header: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(derived(key, header[-KEY_BYTES:], b"privacy-release work area: file"))


def derived(key: bytes, salt: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose from another one, by HKDF with SHA-256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=purpose).derive(key)
