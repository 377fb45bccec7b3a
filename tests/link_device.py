"""The device of the link's tests: the C code as a process, over a pty or in lockstep with the test,
with a faulty line in between."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from edgesparse.link import Framing, Link
from edgesparse.link.client import Patience
from needs import require
from test_house import ROOT, only_one, run


def device_arguments(buffer: int, plan: Path | None, store: bool) -> list[str | Path]:
    return [*(["--store"] if store else []), str(buffer), *([plan] if plan else [])]


NO_WAIT = Patience(wait=0.0, tries=40)
"""In lockstep nothing more comes: a loss is known at once, and tries are cheap."""


@cache
def program(*options: str) -> Path:
    """native/tests/link/link_device.c, built with sanitizers and these options of CMake."""
    require("cmake")
    name = "-".join(("link-device", *(option.strip("-D=").lower() for option in options)))
    folder = ROOT / "build" / name
    with only_one(name):
        run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DES_SANITIZE=ON", *options)
        run("cmake", "--build", folder, "--target", "link_device")
    return folder / "native" / "tests" / "link_device"


@dataclass(frozen=True)
class Faults:
    """Of each byte: odds of a changed bit and of a loss. late: of a piece of replies, odds that it
    comes with the next; twice: of what is written, odds that it comes twice."""

    flip: float = 0.0
    drop: float = 0.0
    late: float = 0.0
    twice: float = 0.0

    def of(self, data: bytes, rng: np.random.Generator) -> bytes:
        line = np.frombuffer(data, np.uint8)
        if not (self.flip or self.drop) or not line.size:
            return data
        bits = np.left_shift(1, rng.integers(0, 8, line.size)).astype(np.uint8)
        line = np.where(rng.random(line.size) < self.flip, line ^ bits, line)
        return line[rng.random(line.size) >= self.drop].tobytes()


class LockstepPort:
    """A port to link_device --lockstep: what it has to say is there when write() returns."""

    def __init__(
        self, buffer: int, plan: Path | None = None, there: Faults = Faults(),
        back: Faults = Faults(), seed: int = 0, store: bool = False,
        options: tuple[str, ...] = (),
    ) -> None:
        """store: the real plan store, not the one in RAM. options: of CMake, for the device."""
        self.process = subprocess.Popen(
            [program(*options), "--lockstep", *device_arguments(buffer, plan, store)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.timeout: float | None = None
        self.there, self.back = there, back
        self.rng = np.random.default_rng(seed)
        self.held = b""
        self.late = b""

    @property
    def in_waiting(self) -> int:
        return len(self.held)

    def read(self, size: int = 1) -> bytes:
        data, self.held = self.held[:size], self.held[size:]
        return data

    def write(self, data: bytes) -> int:
        sent = data * 2 if self.there.twice and self.rng.random() < self.there.twice else data
        answer = self.back.of(self.exchange(self.there.of(sent, self.rng)), self.rng)
        answer, self.late = self.late + answer, b""
        if self.back.late and self.rng.random() < self.back.late:
            answer, self.late = b"", answer
        self.held += answer
        return len(data)

    def exchange(self, data: bytes) -> bytes:
        assert self.process.stdin is not None
        answer = b""
        for at in range(0, len(data), 60000):
            piece = data[at:at + 60000]
            self.process.stdin.write(struct.pack("<H", len(piece)) + piece)
            answer += self._get(struct.unpack("<I", self._get(4))[0])
        return answer

    def _get(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = b""
        while len(data) < size:
            piece = self.process.stdout.read(size - len(data))
            assert piece, "the device has ended"
            data += piece
        return data

    def reset_input_buffer(self) -> None:
        self.held = b""

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(10) == 0


def lockstep(
    buffer: int = 1024, plan: Path | None = None, framing: Framing = Framing.COBS,
    there: Faults = Faults(), back: Faults = Faults(), seed: int = 0, store: bool = False,
) -> Link:
    port = LockstepPort(buffer, plan, there, back, seed, store)
    return Link(port, framing, NO_WAIT, sequence=seed % 255)


@contextmanager
def on_a_pty(
    buffer: int = 1024, plan: Path | None = None, store: bool = False
) -> Iterator[str]:
    """Run the device in real time; the name of its port."""
    ours, theirs = pty.openpty()
    tty.setraw(ours)
    tty.setraw(theirs)
    process = subprocess.Popen(
        [program(), *device_arguments(buffer, plan, store)], stdin=ours, stdout=ours)
    try:
        yield os.ttyname(theirs)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)
        os.close(theirs)
