"""An emulated Cortex-M board as a device: build its firmware, start it, reach it over its port."""

from __future__ import annotations

from edgesparse.device.boards import BOARDS, Board, board_of, instructions
from edgesparse.device.firmware import build_firmware
from edgesparse.device.qemu import Device, DeviceOptions

__all__ = [
    "BOARDS",
    "Board",
    "Device",
    "DeviceOptions",
    "board_of",
    "build_firmware",
    "instructions",
]
