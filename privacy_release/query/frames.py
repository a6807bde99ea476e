"""The protocol between a statement's process and its parent: frames with a kind and some bytes."""

import json
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import IO, Any

_HEAD = struct.Struct(">BQ")
LONGEST_WORDS = 64_000_000  # bytes of a frame that is not part of an answer; enough for a statement's tree


class Frame(IntEnum):
    """The kind of a frame: JSON, a part of the answer, a part of a release's file."""

    WORDS = 1
    ANSWER = 2
    FILE = 3


def send(stream: IO[bytes], kind: Frame, data: bytes) -> None:
    """Write a frame and flush it.

    Raises:
        OSError: If the other side is gone.
    """
    stream.write(_HEAD.pack(kind, len(data)))
    stream.write(data)
    stream.flush()


def send_words(stream: IO[bytes], words: Mapping[str, Any]) -> None:
    """Write a frame of JSON.

    Raises:
        OSError: If the other side is gone.
    """
    send(stream, Frame.WORDS, json.dumps(words).encode())


def next_head(stream: IO[bytes]) -> tuple[Frame, int]:
    """Read kind and length of the next frame.

    Raises:
        EOFError: If there is none.
    """
    return _kind_and_length(exactly(stream, _HEAD.size))


def exactly(stream: IO[bytes], length: int) -> bytes:
    """Read the next bytes.

    Raises:
        EOFError: If there are fewer.
    """
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _kind_and_length(head: bytes) -> tuple[Frame, int]:
    kind, length = _HEAD.unpack(head)
    try:
        return Frame(kind), length
    except ValueError:
        raise EOFError from None  # not a frame of this protocol, which counts as none
