"""The device's flash as a file: blank, or with a plan installed as a factory does it.

The layout is that of firmware_sim/firmware/nvm.c, the record that of docs/STORE.md section 2.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np

from edgesparse.device.boards import Board
from edgesparse.errors import BadInput

UNIT, SECTOR, SLOT = 8, 4096, 1 << 20
LOGS = 3
SLOT_AT = LOGS * SECTOR
STORE = SLOT_AT + 2 * SLOT
"""Bytes of the store; behind it stands a bit per unit: erased and not programmed since."""
UNITS = STORE // UNIT

_STATE = struct.Struct("<6B2xI" + "II32s" * 2)
_RECORD = struct.Struct(f"<4sI{_STATE.size}sII")
_MARK = bytes.fromhex("5a963cc369a50ff0")
_NONE, _CONFIRMED = 255, 6


def factory_image(plan: bytes) -> bytes:
    """The store with `plan` confirmed in slot 0, as after an update, and the bits behind it.

    Raises BadInput for a plan larger than a slot.
    """
    if not 0 < len(plan) <= SLOT:
        raise BadInput(f"a plan of {len(plan):,} bytes: the device's slots have {SLOT:,}")
    state = _STATE.pack(
        0, _NONE, 0, 0, _CONFIRMED, 1, 0, 0, len(plan), hashlib.sha256(plan).digest(), 0, 0, b"")
    first = 1
    body = _RECORD.pack(b"ESS1", first, state, 0, first)
    record = body + struct.pack("<I", zlib.crc32(body)) + _MARK
    store = np.full(STORE, 0xFF, np.uint8)
    erased = np.ones(UNITS, np.uint8)
    for at, data in ((0, record), (SLOT_AT, plan)):
        store[at:at + len(data)] = np.frombuffer(data, np.uint8)
        erased[at // UNIT:-(-(at + len(data)) // UNIT)] = 0
    return store.tobytes() + np.packbits(erased, bitorder="little").tobytes()


def blank_image() -> bytes:
    """Erased flash."""
    return b"\xff" * (STORE + UNITS // 8)


def create(path: Path, board: Board, plan: bytes | None = None) -> None:
    """Write the file of a new device: blank, or with `plan` running. Sparse outside the store.

    Raises BadInput for a plan larger than a slot, OSError.
    """
    image = blank_image() if plan is None else factory_image(plan)
    with path.open("wb") as file:
        file.truncate(board.nvm_bytes)
        file.seek(board.nvm_offset)
        file.write(image)


def check(path: Path, board: Board) -> None:
    """Raises BadInput when the file is not that board's flash."""
    size = path.stat().st_size
    if size != board.nvm_bytes:
        raise BadInput(
            f"{path}: a flash file of {board.cpu} has {board.nvm_bytes:,} bytes, this one has "
            f"{size:,}; give a new name, or the --cpu it was made with")
