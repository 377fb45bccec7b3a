"""A synchronous client: one request at a time, repeated as it was until its own reply comes.

Lines lose, change and repeat bytes. So identical bytes are sent again, with the same sequence: the
device knows a write it has done by them. A reply counts only when sequence, group, command and
operation are the request's; everything else is dropped, and a bad frame is never an error.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol
from urllib.parse import urlsplit

import serial

from edgesparse.errors import BadInput, LinkLost, LinkRefused, LinkTimeout
from edgesparse.link import smp
from edgesparse.link.framing import Decoder, Framing, encode
from edgesparse.link.smp import Command, Group, Map, Op

ECHO = Command(Group.OS, 0, Op.WRITE, "echo")
RESET = Command(Group.OS, 5, Op.WRITE, "reset")
PARAMETERS = Command(Group.OS, 6, Op.READ, "say its buffer size")
INFO = Command(Group.EDGESPARSE, 0, Op.READ, "say what it runs")
STATS = Command(Group.EDGESPARSE, 4, Op.READ, "give its counters")

LEAST_BUFFER = 256
LEAST_CHUNK = 128
"""Bytes of a message below which chunks are never halved."""
CLEAN = 32
"""Requests without a loss after which chunks may grow again."""
SOCKET = "socket://"
REOPEN_S = 0.2
"""Between two tries to open a port that is gone."""


class Port(Protocol):
    """What is used of serial.Serial. read() may return less, and nothing after the timeout."""

    timeout: float | None

    @property
    def in_waiting(self) -> int: ...
    def read(self, size: int = 1) -> bytes: ...
    def write(self, data: bytes) -> int | None: ...
    def reset_input_buffer(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Patience:
    """wait: for a reply, seconds, times the number of the try; tries: of one request."""

    wait: float = 0.3
    tries: int = 8


@dataclass
class Counters:
    requests: int = 0
    repeats: int = 0
    stale: int = 0
    """Replies to other requests, dropped."""


class Link:
    """A device at the other end of a port. Use open_link()."""

    def __init__(
        self,
        port: Port,
        framing: Framing = Framing.COBS,
        patience: Patience = Patience(),
        sequence: int | None = None,
        reopen: Callable[[], Port] | None = None,
    ) -> None:
        """sequence: of the first request; None: any, so that a new process does not meet the
        device's memory of the last one's write. reopen: the port anew, when it is gone.

        Raises LinkTimeout when no device answers, LinkLost, LinkRefused.
        """
        self.port = port
        self.patience = patience
        self.counters = Counters()
        self._reopen = reopen
        self._decoder = Decoder(framing)
        self._framing = framing
        self._sequence = secrets.randbelow(smp.SEQUENCES) if sequence is None else sequence
        self._clean = 0
        self._guard(self._flush)
        self.buffer = int(self.request(PARAMETERS, {}, tries=3)["buf_size"])
        if self.buffer < LEAST_BUFFER:
            raise LinkTimeout(f"the device names a buffer of {self.buffer} bytes, which cannot be")
        self.chunk = self.buffer
        """Bytes of a message that carries data; less than `buffer` on a bad line."""

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.port.close()

    # ---- one request -----------------------------------------------------------------------------

    def request(
        self, command: Command, entries: Mapping[str, object], wait: float | None = None,
        tries: int | None = None,
    ) -> Map:
        """Ask, and return the reply's map.

        wait: at least so long, for a command that takes its time; tries: None is `patience`'s.
        Raises LinkRefused, LinkTimeout, LinkLost.
        """
        sequence = self._sequence
        self._sequence = (sequence + 1) % smp.SEQUENCES
        frame = encode(self._framing, smp.encode(command, sequence, entries))
        self.counters.requests += 1
        base = max(wait or 0.0, self.patience.wait)
        allowed = tries or self.patience.tries
        for attempt in range(1, allowed + 1):
            self.counters.repeats += attempt > 1
            self._guard(lambda: self.port.write(frame))
            reply = self._guard(lambda: self._await(command, sequence, base * attempt))  # noqa: B023
            if reply is not None:
                self._clean = self._clean + 1 if attempt == 1 else 0
                return self._accepted(command, reply)
        raise LinkTimeout(
            f"no answer when the device was asked to {command.what} ({allowed} tries); check that "
            "it runs, the port and the baud rate, and that no other program talks to it")

    def _accepted(self, command: Command, reply: Map) -> Map:
        refused = smp.refusal(reply)
        if refused is not None:
            raise LinkRefused(command.what, *refused)
        if self._clean >= CLEAN and self.chunk < self.buffer:
            self.chunk = min(2 * self.chunk, self.buffer)
            self._clean = 0
        return reply

    def _await(self, command: Command, sequence: int, wait: float) -> Map | None:
        """The reply, or None when it has not come in `wait` seconds."""
        wanted = (command.group, command.number, command.op)
        end = time.monotonic() + wait
        while True:
            self.port.timeout = max(end - time.monotonic(), 0.0)
            data = self.port.read(max(self.port.in_waiting, 1))
            for message in self._decoder.feed(data):
                reply = smp.decode(message)
                if reply is None:
                    self._decoder.bad += 1
                elif reply.sequence == sequence and reply.command == wanted:
                    return reply.map
                else:
                    self.counters.stale += 1
            if not data or time.monotonic() >= end:
                return None

    def _flush(self) -> None:
        """End what an earlier client may have left half sent, and forget what it did not read."""
        self.port.write(b"\0" if self._framing is Framing.COBS else b"\n")
        self.port.reset_input_buffer()

    def _guard(self, call: Callable[[], Map | int | None]) -> Map | None:
        try:
            result = call()
        except (serial.SerialException, OSError) as error:
            raise LinkLost(f"the port failed: {error}; is the device still connected?") from error
        return result if isinstance(result, dict) else None

    def halve(self) -> bool:
        """Send less at a time: two losses in a row. False: that is the least already."""
        self._clean = 0
        if self.chunk <= LEAST_CHUNK:
            return False
        self.chunk = max(self.chunk // 2, LEAST_CHUNK)
        return True

    # ---- commands --------------------------------------------------------------------------------

    def echo(self, text: str) -> str:
        return str(self.request(ECHO, {"d": text})["r"])

    def info(self) -> Map:
        """What the device runs; docs/LINK.md says what the keys mean."""
        return self.request(INFO, {})

    def stats(self) -> Map:
        """The device's counters since its start."""
        return self.request(STATS, {})

    def reset(self, settle: float = 0.0, timeout: float = 15.0) -> None:
        """Reset the device and return when it answers again.

        A reset that is repeated spends a try of a trial. So when the reply is lost, the device's
        counters say whether it has happened: they begin anew.
        settle: seconds after the reply in which nothing is asked; timeout: seconds to come back
        in. A port that goes with the device (USB) is opened again.
        """
        for _ in range(self.patience.tries):
            before = int(self.stats()["frames"])
            try:
                self.request(RESET, {}, tries=1)
                done = True
            except (LinkTimeout, LinkLost):
                done = False
            time.sleep(settle)
            if self._frames_once_back(timeout) <= before or done:
                return
        raise LinkTimeout("the device does not reset")

    def _frames_once_back(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while True:
            try:
                return int(self.request(STATS, {}, tries=2)["frames"])
            except LinkTimeout:
                if time.monotonic() >= end:
                    raise LinkTimeout(
                        f"the device is not back {timeout:g} s after its reset; look at it, or "
                        "wait longer with --timeout") from None
            except LinkLost:
                if time.monotonic() >= end or self._reopen is None:
                    raise
                time.sleep(REOPEN_S)
                self._open_again()

    def _open_again(self) -> None:
        """The port anew, where that is possible already."""
        assert self._reopen is not None
        self.port.close()
        try:
            self.port = self._reopen()
            self._decoder = Decoder(self._framing)
            self._guard(self._flush)
        except LinkLost:
            return


def _reason(error: Exception) -> str:
    """pyserial wraps what the system says in itself, with the port and the number, twice."""
    said = error.__context__ if isinstance(error.__context__, OSError) else error
    return getattr(said, "strerror", None) or str(said)


def open_link(
    url: str, framing: Framing = Framing.COBS, baud: int = 115200,
    patience: Patience = Patience(),
) -> Link:
    """url: a port's name, a pty, or what pyserial knows (socket://host:port, rfc2217://...).

    Raises BadInput for a socket without host and port, LinkLost when it cannot be opened, and as
    Link().
    """
    _check_url(url)

    def opened() -> Port:
        try:
            port: Port = serial.serial_for_url(url, baudrate=baud, write_timeout=5)
        except (serial.SerialException, OSError, ValueError) as error:
            raise LinkLost(f"{url} cannot be opened: {_reason(error)}") from error
        return port

    port = opened()
    try:
        return Link(port, framing, patience, reopen=opened)
    except BaseException:
        port.close()
        raise


def _check_url(url: str) -> None:
    """pyserial says of a wrong one what Python said inside of it."""
    if not url.startswith(SOCKET):
        return
    try:
        parts = urlsplit(url)
        right = bool(parts.hostname and parts.port)
    except ValueError:  # no number, or too large a one
        right = False
    if not right:
        raise BadInput(f"{url}: {SOCKET}HOST:PORT is needed, with a number of 1 to 65535 for PORT")
