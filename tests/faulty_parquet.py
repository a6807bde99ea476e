"""Parquet files that are damaged, encrypted or made to mislead: real ones, by pyarrow or byte by byte."""

import base64
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

ROWS = 300
PEOPLE = pa.table(
    {
        "zip": pa.array([f"N{i % 7}é" for i in range(ROWS)]),
        "illness": pa.array([i * i % 5 for i in range(ROWS)]),
        "weight": pa.array([50 + i / 7 for i in range(ROWS)]),
    }
)
DELTA = {"zip": "DELTA_BYTE_ARRAY", "illness": "DELTA_BINARY_PACKED", "weight": "BYTE_STREAM_SPLIT"}
WAYS: list[dict[str, Any]] = [
    {"compression": compression, "data_page_version": version, "write_page_checksum": checksum, **encoding}
    for compression in ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
    for encoding in ({}, {"use_dictionary": False}, {"use_dictionary": False, "column_encoding": DELTA})
    for version in ("1.0", "2.0")
    for checksum in (True, False)
]


def written(table: pa.Table, **way: Any) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **way)
    return sink.getvalue()


def flipped(number: int, seed: int) -> Iterator[tuple[dict[str, Any], bytes]]:
    """A number of files of `PEOPLE`, each with one random bit turned over, and how they were written."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        way = WAYS[i % len(WAYS)]
        data = bytearray(written(PEOPLE, **way))
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        yield way, bytes(data)


def with_broken_text(path: Path) -> None:
    """A file whose column `zip` has two records of text that is not UTF-8."""
    text = pa.array([b"N1", b"\xffcanary", "é".encode(), b"\xc3canary", b"N2"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"zip": text, "illness": range(5)}), path)


def with_number(data: bytes, old: int, new: int, times: int = -1) -> bytes:
    """A file in whose footer a number is another one, at its first places or wherever it stands."""
    length = struct.unpack("<I", data[-8:-4])[0]
    body, footer = data[: -8 - length], data[-8 - length : -8]
    assert _thrift(old) in footer
    footer = footer.replace(_thrift(old), _thrift(new), times)
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _thrift(number: int) -> bytes:
    """A whole number in Thrift's compact form."""
    rest, found = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


class _Keys(pe.KmsClient):
    """Keeps no key secret."""

    def __init__(self, config: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return base64.b64decode(wrapped_key)


def write_encrypted(path: Path, *, plaintext_footer: bool) -> None:
    """A file of `PEOPLE` whose column `zip` is encrypted, and the footer, too, if that is asked for."""
    keys = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"zips": ["zip"]}, plaintext_footer=plaintext_footer
    )
    encryption = pe.CryptoFactory(_Keys).file_encryption_properties(pe.KmsConnectionConfig(), keys)
    with pq.ParquetWriter(path, PEOPLE.schema, encryption_properties=encryption) as writer:
        writer.write_table(PEOPLE)
