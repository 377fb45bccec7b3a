"""What a device says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.errors import LinkRefused
from edgesparse.link.client import Link
from edgesparse.link.inference import memory
from edgesparse.link.smp import Command, Group, Op

SLOTS = Command(Group.IMAGE, 6, Op.READ, "describe its slots")
NOT_SUPPORTED = 8


@dataclass(frozen=True)
class DeviceInfo:
    """Of the device at the other end of a link; None: it does not say.

    running     a plan runs; plan, steps, inputs, outputs, rate_hz, channels and hop are its
    plan        first 8 bytes of the SHA-256 of its model file
    hop         samples of a run; 0: it takes no samples
    isa         of the kernels: "c", "dsp", "mve"
    tick_hz     of the clock that times layers
    ram_bytes   what a plan may need
    slot_bytes  the largest plan
    """

    running: bool
    plan: bytes
    steps: int
    inputs: int
    outputs: int
    rate_hz: float
    channels: int
    hop: int
    isa: str
    tick_hz: int | None
    ram_bytes: int | None
    slot_bytes: int | None


def device_info(link: Link) -> DeviceInfo:
    """Ask it. Raises LinkRefused, LinkTimeout, LinkLost."""
    said = link.info()
    slots = link.request(SLOTS, {})["images"]
    return DeviceInfo(
        bool(said["run"]), bytes(said["plan"]), int(said["lay"]), int(said["in"]),
        int(said["out"]), int(said["mhz"]) / 1000, int(said["ch"]), int(said["hop"]),
        str(said["isa"]), said.get("tps") or None, _arena(link),
        int(slots[0]["max_image_size"]) if slots else None)


def _arena(link: Link) -> int | None:
    """A firmware may leave this command out."""
    try:
        return memory(link).arena
    except LinkRefused as refused:
        if refused.group is not None or refused.code != NOT_SUPPORTED:
            raise
        return None
