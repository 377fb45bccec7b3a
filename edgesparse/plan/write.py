"""A plan model becomes the bytes of a plan file: docs/PLAN_FORMAT.md section 1."""

from __future__ import annotations

import hashlib
import struct
import zlib

from edgesparse.plan.codec import encode
from edgesparse.plan.model import PlanModel
from edgesparse.plan.wire import round_up

FORMAT = 1
IDENTIFIER = b"ESPL"
MAGIC = b"ESPT"
TRAILER = struct.Struct("<4sIII32s16x")
"""Magic, format, bytes of the FlatBuffer, CRC-32, SHA-256, reserved."""


def write_plan(model: PlanModel) -> bytes:
    """Return the whole file; the same model gives the same bytes.

    Raises DoesNotFit when a number is too large for its field.
    """
    return seal(encode(model, IDENTIFIER))


def seal(flatbuffer: bytes) -> bytes:
    """Return a FlatBuffer with its padding and its integrity trailer."""
    padding = bytes(round_up(len(flatbuffer), 16) - len(flatbuffer))
    trailer = TRAILER.pack(
        MAGIC, FORMAT, len(flatbuffer), zlib.crc32(flatbuffer), sha256_of(flatbuffer))
    return flatbuffer + padding + trailer


def sha256_of(flatbuffer: bytes | memoryview) -> bytes:
    return hashlib.sha256(flatbuffer).digest()
