"""QMP, by which QEMU is asked and told things: JSON lines over a socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from edgesparse.errors import DeviceFailed

SILENT = "QEMU does not answer; stop the device and start it again"


class Qmp:
    """A conversation with one QEMU; it holds one at a time."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        """Raises OSError when nobody listens there, or no longer, DeviceFailed."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._connect(path)
            self._lines = self._socket.makefile("r", encoding="utf-8")
            self._read()
            self.ask("qmp_capabilities")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Qmp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def _connect(self, path: Path) -> None:
        try:
            self._socket.connect(str(path))
        except BlockingIOError as error:  # others wait there already
            raise DeviceFailed(SILENT) from error

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError as error:
            raise DeviceFailed(SILENT) from error
        if not line:
            raise ConnectionResetError("QEMU has ended")
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, command: str, **arguments: object) -> Any:
        """What QEMU returns. Raises DeviceFailed, OSError."""
        request = {"execute": command, "arguments": arguments}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            message = self._read()
            if "error" in message:
                raise DeviceFailed(f"QEMU refuses {command}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]
