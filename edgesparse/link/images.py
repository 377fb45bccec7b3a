"""The plans a device keeps: list, upload with resume, test, confirm, erase."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from edgesparse.errors import LinkError, LinkRefused, LinkTimeout
from edgesparse.link.client import Link
from edgesparse.link.smp import Command, Group, Map, Op

READ_STATE = Command(Group.IMAGE, 0, Op.READ, "list its plans")
TEST = Command(Group.IMAGE, 0, Op.WRITE, "try the plan")
CONFIRM = Command(Group.IMAGE, 0, Op.WRITE, "confirm the plan")
UPLOAD = Command(Group.IMAGE, 1, Op.WRITE, "take the plan")
ERASE = Command(Group.IMAGE, 5, Op.WRITE, "erase the slot")

RECORD_WAIT, ERASE_WAIT = 1.0, 2.0
"""Seconds: a record may cost two sector erases, a slot many."""
OVERHEAD = 32
"""Bytes of an upload's message that are not data; the first one has FIRST more."""
FIRST = 56
WRONG_HASH = 24
RESTARTS = 3
"""A CRC-16 lets one damaged frame in 65,536 through; the SHA-256 at the end finds it."""


@dataclass(frozen=True)
class Image:
    """A plan in a slot. pending: runs at the next start as a trial; confirmed: at every start."""

    slot: int
    version: str
    hash: bytes
    bootable: bool
    pending: bool
    confirmed: bool
    active: bool


def _images(reply: Map) -> tuple[Image, ...]:
    return tuple(
        Image(
            int(row["slot"]), str(row["version"]), bytes(row["hash"]),
            *(bool(row.get(flag)) for flag in ("bootable", "pending", "confirmed", "active")))
        for row in reply["images"])


def images(link: Link) -> tuple[Image, ...]:
    """What the device has, by slot."""
    return _images(link.request(READ_STATE, {}))


def try_out(link: Link, digest: bytes) -> tuple[Image, ...]:
    """Run the plan with this SHA-256 from the next reset on, as a trial."""
    return _images(link.request(TEST, {"hash": digest, "confirm": False}, wait=RECORD_WAIT))


def confirm(link: Link, digest: bytes) -> tuple[Image, ...]:
    """Keep the plan with this SHA-256, which has to be the one that runs."""
    return _images(link.request(CONFIRM, {"hash": digest, "confirm": True}, wait=RECORD_WAIT))


def erase(link: Link, slot: int | None = None) -> None:
    """Erase a slot that is not in use; None: whichever that is."""
    link.request(ERASE, {} if slot is None else {"slot": slot}, wait=ERASE_WAIT)


def upload(link: Link, plan: bytes, progress: Callable[[int], None] = lambda sent: None) -> bytes:
    """Bring a plan to the device, going on where an earlier try with the same plan stopped.

    progress: called with the bytes that the device has.
    Returns its SHA-256, under which the device lists it: what is in its flash has been hashed.
    Raises LinkRefused, LinkTimeout, LinkLost, and LinkError for a device that does not list it.
    """
    digest = hashlib.sha256(plan).digest()
    for attempt in range(RESTARTS):
        try:
            _send_all(link, plan, digest, progress)
            break
        except LinkRefused as refused:
            if refused.code != WRONG_HASH or attempt == RESTARTS - 1:
                raise
    if not _listed(link, digest):
        raise LinkError("the device took all of the plan and does not list it; upload it again")
    return digest


def _listed(link: Link, digest: bytes) -> bool:
    return any(image.hash == digest for image in images(link))


def _send_all(link: Link, plan: bytes, digest: bytes, progress: Callable[[int], None]) -> None:
    at = furthest = 0
    losses = 0
    while True:
        try:
            reply = _send_piece(link, plan, digest, at)
        except LinkTimeout:
            losses += 1
            if losses > link.patience.tries:
                raise
            link.halve()
            continue
        losses = 0
        off = reply.get("off")
        if not isinstance(off, int) or not 0 <= off <= len(plan):
            raise LinkError(f"the device asks for byte {off} of {len(plan)}")
        if reply.get("match"):
            progress(len(plan))
            return
        if off == 0 and furthest and _listed(link, digest):
            return  # it was finished, and the reply lost
        at, furthest = off, max(off, furthest)
        progress(at)


def _send_piece(link: Link, plan: bytes, digest: bytes, at: int) -> Map:
    """Two tries only: then a smaller piece has a better chance, and the device says where it is."""
    room = link.chunk - OVERHEAD - (FIRST if at == 0 else 0)
    entries: dict[str, object] = {"off": at, "data": plan[at:at + room]}
    if at == 0:
        entries |= {"len": len(plan), "sha": digest}
    first_or_last = at == 0 or at + room >= len(plan)
    return link.request(UPLOAD, entries, wait=RECORD_WAIT if first_or_last else None, tries=2)
