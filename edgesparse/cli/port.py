"""Options of the commands that talk to a device, and how its plans are named."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from edgesparse.device.registry import open_port
from edgesparse.link.client import Link
from edgesparse.link.images import Image
from edgesparse.link.info import DeviceInfo

PORT_HELP = ("Serial port of the device, a pty, socket://host:port, or the name of one that "
             "edgesparse device has started.")
Baud = Annotated[int, typer.Option(min=1, help="Of a real serial port.")]
BAUD = 115200
SHOWN = 12
"""Digits of a SHA-256; --json has the whole."""


def opened_link(port: str, baud: int) -> Link:
    """Raises LinkLost, LinkTimeout when no device answers."""
    return open_port(port, baud)


def hash_text(digest: bytes) -> str:
    return digest.hex()[:SHOWN]


def device_text(device: DeviceInfo) -> str:
    """ "dsp kernels, 4,000,000 bytes of RAM for a plan, slots of 65,536"."""
    parts = [f"{device.isa} kernels"]
    if device.ram_bytes is not None:
        parts.append(f"{device.ram_bytes:,} bytes of RAM for a plan")
    if device.slot_bytes is not None:
        parts.append(f"slots of {device.slot_bytes:,}")
    return ", ".join(parts)


def image_text(image: Image) -> str:
    """ "slot 1, plan 3f2a..., runs, confirmed"."""
    said = {"runs": image.active, "confirmed": image.confirmed,
            "tried at the next reset": image.pending}
    flags = [flag for flag, is_so in said.items() if is_so]
    return ", ".join([f"slot {image.slot}", f"plan {hash_text(image.hash)}", *flags])


def image_json(image: Image) -> dict[str, Any]:
    return {"slot": image.slot, "sha256": image.hash.hex(), "version": image.version,
            "active": image.active, "confirmed": image.confirmed, "pending": image.pending}
