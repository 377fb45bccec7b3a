"""Frames: how a message with its CRC-16 goes over a line (docs/LINK.md section 2)."""

from __future__ import annotations

import base64
import binascii
from enum import Enum

LINE = 93
"""Message bytes in one line of the console framing: 124 characters, 127 with all else."""
FIRST, NEXT = b"\x06\x09", b"\x04\x14"
LONGEST = 1 << 17
"""Received bytes without the end of a frame that are kept; a frame is shorter."""


class Framing(Enum):
    COBS = "cobs"
    CONSOLE = "console"


def crc16(message: bytes) -> int:
    """CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected."""
    return binascii.crc_hqx(message, 0)


def encode(framing: Framing, message: bytes) -> bytes:
    checked = message + crc16(message).to_bytes(2, "big")
    if framing is Framing.COBS:
        return encode_cobs(checked) + b"\0"
    stream = len(checked).to_bytes(2, "big") + checked
    lines = (stream[at:at + LINE] for at in range(0, len(stream), LINE))
    return b"".join(
        (NEXT if number else FIRST) + base64.b64encode(line) + b"\n"
        for number, line in enumerate(lines))


def encode_cobs(data: bytes) -> bytes:
    """Consistent overhead byte stuffing, without the zero at the end.

    Source: Cheshire and Baker, "Consistent Overhead Byte Stuffing", 1999.
    """
    out = bytearray()
    runs = data.split(b"\0")
    for number, run in enumerate(runs):
        while len(run) >= 254:
            out += b"\xff" + run[:254]
            run = run[254:]
            if not run and number == len(runs) - 1:
                return bytes(out)  # a full group stands for no zero
        out += bytes((len(run) + 1,)) + run
    return bytes(out)


def decode_cobs(coded: bytes) -> bytes | None:
    """None: not COBS. `coded` has no zeros."""
    out = bytearray()
    at = 0
    while at < len(coded):
        end = at + coded[at]
        if end > len(coded):
            return None
        out += coded[at + 1:end]
        if coded[at] != 255 and end < len(coded):
            out.append(0)
        at = end
    return bytes(out)


def _unchecked(checked: bytes | None) -> bytes | None:
    """The message, when its CRC is right."""
    if checked is None or len(checked) < 2:
        return None
    message, crc = checked[:-2], checked[-2:]
    return message if crc16(message) == int.from_bytes(crc, "big") else None


class Decoder:
    """Bytes as they come, messages out of them. What is no frame is dropped and counted."""

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.bad = 0
        self._held = bytearray()
        self._lines: bytearray | None = None

    def feed(self, data: bytes) -> list[bytes]:
        end = b"\0" if self.framing is Framing.COBS else b"\n"
        *pieces, rest = (bytes(self._held) + data).split(end)
        self._held = bytearray(rest[-LONGEST:])
        take = self._cobs if self.framing is Framing.COBS else self._line
        return [message for piece in pieces if piece and (message := take(piece)) is not None]

    def _cobs(self, coded: bytes) -> bytes | None:
        message = _unchecked(decode_cobs(coded))
        self.bad += message is None
        return message

    def _line(self, line: bytes) -> bytes | None:
        first, following = line.rfind(FIRST), line.rfind(NEXT)
        if max(first, following) < 0:
            return None  # text between frames
        if first > following:
            self.bad += self._lines is not None
            self._lines = bytearray()
        try:
            text = line[max(first, following) + 2:].rstrip(b"\r")
            decoded = base64.b64decode(text, validate=True)
        except binascii.Error:
            self._drop()
            return None
        if self._lines is None:
            self._drop()
            return None
        self._lines += decoded
        if len(self._lines) < 2:
            self._drop()
            return None
        stream = bytes(self._lines)
        missing = int.from_bytes(stream[:2], "big") + 2 - len(stream)
        if missing > 0:
            return None
        self._lines = None
        message = _unchecked(stream[2:]) if missing == 0 else None
        self.bad += message is None
        return message

    def _drop(self) -> None:
        self._lines = None
        self.bad += 1
