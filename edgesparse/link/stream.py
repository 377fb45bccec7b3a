"""A stream plan on the device: samples go there, results come back.

Every request is safe to repeat: samples carry their number and are taken once, results stay on the
device until they are acknowledged.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Sequence
from math import prod

import numpy as np

from edgesparse.errors import BadInput, LinkError, LinkTimeout
from edgesparse.graph.ir import Array
from edgesparse.link.client import Link
from edgesparse.link.smp import Command, Group, Map, Op
from edgesparse.streaming.events import Beat, Event, Run, SignalState, StateChange

OPEN = Command(Group.EDGESPARSE, 1, Op.WRITE, "open a stream")
PUSH = Command(Group.EDGESPARSE, 2, Op.WRITE, "take samples")
POLL = Command(Group.EDGESPARSE, 3, Op.WRITE, "give results")
CLOSE = Command(Group.EDGESPARSE, 8, Op.WRITE, "close the stream")

RECORD = struct.Struct("<IIIIqq")
"""kind, value, strength, skip, sample, column of es_result."""
RUN, BEAT = 0, 1
OVERHEAD = 72
WRAP = 1 << 32


class DeviceStream:
    """The one stream of a device. Opening it ends the one before."""

    def __init__(
        self, link: Link, runs: bool = False, shapes: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        """runs: also report each run with its outputs; shapes: of the outputs, None: all as one
        row of int8.

        Raises LinkRefused when no plan runs there, or none that takes samples.
        """
        self.link = link
        self.shapes = shapes
        self.channels = int(link.info()["ch"])
        opened = link.request(OPEN, {"sid": secrets.randbelow(WRAP), "runs": runs})
        self._sid = int(opened["sid"])
        self._most = int(opened["max"])
        self._record = int(opened["rsz"])
        self._next = 0
        self._taken = 0
        self._losses = 0

    def push(self, samples: Array) -> list[Event]:
        """Push samples and return what the device has found by now.

        samples  [n] or [n, channels] int16; -32768 stands for a missing sample
        Raises BadInput for another shape or type, LinkRefused (the device was reset), LinkTimeout,
        LinkLost.
        """
        frames = samples.reshape(-1, 1) if samples.ndim == 1 else samples
        if frames.dtype != np.int16 or frames.ndim != 2 or frames.shape[1] != self.channels:
            raise BadInput(
                f"samples are {samples.dtype}{list(samples.shape)}; the device takes int16 "
                f"[n, {self.channels}]")
        events: list[Event] = []
        at = 0
        while at < len(frames):
            start = self._next
            reply = self._send(frames[at:at + self._room()])
            if reply is not None:
                at += (self._next - start) % WRAP
                events += self._events(reply)
        return events

    def poll(self) -> list[Event]:
        """What the device has found by now."""
        return self._events(
            self.link.request(POLL, {"sid": self._sid, "ack": self._taken}))

    def finish(self) -> list[Event]:
        """The record ends here: the results that were not final yet."""
        events: list[Event] = []
        while True:
            reply = self._send(np.zeros((0, self.channels), np.int16), end=True)
            if reply is None:
                continue
            events += self._events(reply)
            if reply["e"] and self._taken == int(reply["n"]):
                return events

    def close(self) -> None:
        self.link.request(CLOSE, {"sid": self._sid})

    def _room(self) -> int:
        """Frames of one push."""
        return max(min((self.link.chunk - OVERHEAD) // (2 * self.channels), self._most), 1)

    def _send(self, frames: Array, end: bool = False) -> Map | None:
        """None: lost twice, and less goes next time."""
        entries: dict[str, object] = {
            "sid": self._sid, "i": self._next, "ack": self._taken,
            "d": frames.astype("<i2").tobytes()}
        if end:
            entries["end"] = True
        try:
            reply = self.link.request(PUSH, entries, tries=2)
        except LinkTimeout:
            self._losses += 1
            if self._losses > self.link.patience.tries:
                raise
            self.link.halve()
            return None
        self._losses = 0
        self._next = int(reply["i"])
        return reply

    def _events(self, reply: Map) -> list[Event]:
        """The results that are new; the reply begins at the last acknowledgement it has seen."""
        data = bytes(reply["res"])
        count = len(data) // self._record
        known = (self._taken - int(reply["r"])) % WRAP
        if known > count:
            raise LinkError(
                f"the device gives results from number {reply['r']} on, {self._taken} is next: "
                "another client may use it")
        rows = [data[k * self._record:(k + 1) * self._record] for k in range(known, count)]
        self._taken = (self._taken + len(rows)) % WRAP
        return [self._event(row) for row in rows]

    def _event(self, row: bytes) -> Event:
        kind, value, strength, skip, sample, column = RECORD.unpack_from(row)
        if kind == BEAT:
            return Beat(sample, value, strength)
        if kind != RUN:
            return StateChange(sample, SignalState(value))
        flat = np.frombuffer(row, np.int8, offset=RECORD.size)
        shapes = self.shapes if self.shapes is not None else [(flat.size,)]
        cuts = np.cumsum([prod(shape) for shape in shapes])[:-1]
        outputs = (part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes))
        return Run(sample, column, skip, tuple(outputs))
