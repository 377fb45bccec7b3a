"""One emulated board, running."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from edgesparse.device import nvm
from edgesparse.device.boards import Board, board_of
from edgesparse.device.firmware import build_firmware, need
from edgesparse.device.qmp import Qmp
from edgesparse.errors import BadInput, DeviceFailed
from edgesparse.plan.plan import Plan

QEMU = "qemu-system-arm"
START_S = 60.0
"""Until a QEMU that starts answers, on a machine with much else to do."""
ICOUNT = 7
"""128 ns an instruction, more than two ticks of any board: the firmware counts exactly."""
ICOUNTS = range(11)
SAYS_SHIFT = 0x49434E00
"""In Board.host_word, with icount: firmware_sim/firmware/clock.c."""


@dataclass(frozen=True)
class DeviceOptions:
    """firmware     an ELF file to run instead of the one that is built
    pty          the port is a pseudo-terminal, not a TCP socket
    idle_skips   with icount: time in which the core sleeps is skipped
    semihosting  a fault ends the run with exit status 1, and is printed in `log`
    detached     goes on when this process ends
    """

    firmware: Path | None = None
    pty: bool = False
    idle_skips: bool = False
    semihosting: bool = False
    detached: bool = False


@dataclass(eq=False)
class Device:
    """A running board. Use Device.start(), best as a context manager.

    port    for open_link() and --port: socket://127.0.0.1:N, or a terminal's name
    flash   the file that its flash is; it survives the device unless it was a temporary one
    folder  of its control socket and log, removed by stop()
    icount  an instruction takes 2^icount ns of the device's time; None: time is real time
    """

    board: Board
    port: str
    flash: Path
    folder: Path
    icount: int | None
    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, cpu: str = "cortex-m4", flash: Path | None = None, icount: int | None = None,
        plan: Path | Plan | bytes | None = None, options: DeviceOptions = DeviceOptions(),
    ) -> Device:
        """Start a board and return when its port is there.

        flash  file of its flash, created when there is none; None: a temporary one
        plan   is installed beforehand and runs, confirmed; what the flash held is gone
        Raises BadInput, ToolMissing, SourcesMissing, BuildFailed, DeviceFailed, OSError.
        """
        board = board_of(cpu)
        need(QEMU, "qemu-system-arm", "run")
        elf = options.firmware or build_firmware(cpu)
        if not elf.is_file():
            raise BadInput(f"{elf}: no such firmware; leave it out and it is built")
        folder = Path(tempfile.mkdtemp(prefix="edgesparse-"))
        try:
            where = (flash or folder / "flash.bin").resolve()
            _prepare_flash(where, board, plan)
            command = _command(board, elf, where, folder, options) + _timing(board, icount, options)
            with log_of(folder).open("wb") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=options.detached)
            try:
                port = _port(folder, process)
            except BaseException:
                process.kill()
                process.wait()
                raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(board, port, where, folder, icount, process)

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """What QEMU has printed, and the firmware over semihosting."""
        return log_of(self.folder).read_text("utf-8", "replace")

    def wait(self, timeout: float | None = None) -> int:
        """QEMU's exit status once it has ended. Raises DeviceFailed when it has not in time."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise DeviceFailed(f"the device still runs after {timeout} s") from error

    def kill(self) -> None:
        """Cut its power, between two instructions. The flash stays as it is."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it and remove what was temporary."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def reset(self) -> None:
        """Press its reset button. Raises DeviceFailed, as the next two."""
        self._tell("system_reset")

    def freeze(self) -> None:
        """Stop its core between two instructions; the line still takes what it is sent."""
        self._tell("stop")

    def thaw(self) -> None:
        self._tell("cont")

    def _tell(self, command: str) -> None:
        try:
            with Qmp(control_of(self.folder)) as qmp:
                qmp.ask(command)
        except (FileNotFoundError, ConnectionError) as error:
            raise DeviceFailed("the device has ended") from error


def control_of(folder: Path) -> Path:
    return folder / "qmp"


def log_of(folder: Path) -> Path:
    return folder / "log"


def _prepare_flash(path: Path, board: Board, plan: Path | Plan | bytes | None) -> None:
    if path.exists():
        nvm.check(path, board)  # whatever else it is, it is not ours to overwrite
        if plan is None:
            return
    data = plan.data if isinstance(plan, Plan) else plan
    if isinstance(data, Path):
        data = Plan.load(data).data
    nvm.create(path, board, data)


def _quoted(path: Path) -> str:
    return str(path).replace(",", ",,")  # as QEMU wants it


def _command(
    board: Board, elf: Path, flash: Path, folder: Path, options: DeviceOptions
) -> list[str]:
    line = "pty,id=line" if options.pty else (
        "socket,id=line,host=127.0.0.1,port=0,server=on,wait=off,nodelay=on")
    return [
        need(QEMU, "qemu-system-arm", "run"), "-M", f"{board.machine},memory-backend=nvm",
        "-object", f"memory-backend-file,id=nvm,size={board.nvm_bytes},share=on,"
        f"mem-path={_quoted(flash)}",
        "-display", "none", "-monitor", "none", "-nic", "none", "-chardev", line,
        "-serial", "chardev:line", "-qmp", f"unix:{_quoted(control_of(folder))},server=on,wait=off",
        "-kernel", str(elf),
        *(("-semihosting-config", "enable=on,target=native") if options.semihosting else ())]


def _timing(board: Board, icount: int | None, options: DeviceOptions) -> list[str]:
    if icount is None:
        return []
    if icount not in ICOUNTS:
        raise BadInput(f"icount {icount}: {ICOUNTS[0]} to {ICOUNTS[-1]}, 2^icount ns an "
                       "instruction")
    word = f"loader,addr={board.host_word:#x},data={SAYS_SHIFT + icount:#x},data-len=4"
    sleep = "off" if options.idle_skips else "on"
    return ["-icount", f"shift={icount},sleep={sleep}", "-device", word]


def _port(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Ask QEMU where the line is, once it is up."""
    end = time.monotonic() + START_S
    while True:
        try:
            with Qmp(control_of(folder), START_S) as qmp:
                chardevs = qmp.ask("query-chardev")
            break
        except (FileNotFoundError, ConnectionError):  # not up yet, or gone again
            if process.poll() is not None or time.monotonic() > end:
                said = log_of(folder).read_text("utf-8", "replace").strip()
                raise DeviceFailed(f"QEMU does not start: {said}") from None
            time.sleep(0.005)
    [name] = [str(chardev["filename"]) for chardev in chardevs if chardev["label"] == "line"]
    return _url(name)


def _url(filename: str) -> str:
    """QEMU's "disconnected:tcp:127.0.0.1:4567,server=on" or "pty:/dev/pts/3"."""
    if filename.startswith("pty:"):
        return filename.removeprefix("pty:")
    found = re.search(r"tcp:([^,]+:\d+)", filename)
    if found is None:
        raise DeviceFailed(f"QEMU gives the device's line as {filename!r}, which is no port")
    return f"socket://{found[1]}"
