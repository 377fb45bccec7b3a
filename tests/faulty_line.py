"""A bad or slow line to a device that runs by itself: a socket between it and the client."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from types import TracebackType

import numpy as np

from link_device import Faults

PIECE = 4096


class FaultyLine:
    """Passes bytes on between clients, one after another, and the device at a port.

    there, back  what happens on the way, as of the next bytes
    pace         bytes a second on the way back, in pieces of 64; 0: as they come
    """

    def __init__(self, port: str, seed: int = 0) -> None:
        """port: socket://host:number."""
        host, number = port.removeprefix("socket://").split(":")
        self.device = socket.create_connection((host, int(number)))
        self.device.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.there = self.back = Faults()
        self.pace = 0.0
        self._rng = np.random.default_rng(seed)
        self._late = b""
        self._client: socket.socket | None = None
        self._server = socket.create_server(("127.0.0.1", 0))
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        for one in (self._server, self._woken, self.device):
            self._selector.register(one, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"socket://127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> FaultyLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake.send(b"e")
        self._thread.join(10)
        self._selector.close()
        for one in (self._server, self._wake, self._woken, self.device):
            one.close()

    def unplug(self) -> None:
        """Cut the client off; the device notices nothing. The next one may connect."""
        self._wake.send(b"u")

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one is self._server:
                    self._drop_client()
                    self._client, _ = self._server.accept()
                    self._selector.register(self._client, selectors.EVENT_READ)
                elif one is self._woken:
                    self._drop_client()
                    if one.recv(1) == b"e":
                        return
                elif one is self.device:
                    self._to_client(one.recv(PIECE))
                elif one is self._client:
                    self._to_device(one)

    def _drop_client(self) -> None:
        if self._client is not None:
            self._selector.unregister(self._client)
            self._client.close()
        self._client = None
        self._late = b""

    def _to_device(self, client: socket.socket) -> None:
        try:
            data = client.recv(PIECE)
        except ConnectionError:
            data = b""
        if not data:
            self._drop_client()
            return
        twice = self.there.twice and self._rng.random() < self.there.twice
        self.device.sendall(self.there.of(data * 2 if twice else data, self._rng))

    def _to_client(self, data: bytes) -> None:
        if not data:  # the device has ended
            self._selector.unregister(self.device)
            self._drop_client()
            return
        passed, self._late = self._late + self.back.of(data, self._rng), b""
        if self.back.late and self._rng.random() < self.back.late:
            passed, self._late = b"", passed
        if self._client is None:
            return
        try:
            self._send(self._client, passed)
        except ConnectionError:
            self._drop_client()

    def _send(self, client: socket.socket, data: bytes) -> None:
        size = 64 if self.pace else max(len(data), 1)
        for at in range(0, len(data), size):
            client.sendall(data[at:at + size])
            if self.pace:
                time.sleep(size / self.pace)
