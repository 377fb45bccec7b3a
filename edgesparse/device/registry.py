"""Devices that go on when the command that started them has ended: one JSON file each."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgesparse.device.boards import board_of
from edgesparse.device.qemu import Device, DeviceOptions, control_of
from edgesparse.device.qmp import Qmp
from edgesparse.errors import BadInput, DeviceFailed, DoesNotFit, LinkLost
from edgesparse.files import write_whole
from edgesparse.link import Link, open_link
from edgesparse.link.inference import memory
from edgesparse.plan.plan import Plan

STOP_S, ASK_S = 5.0, 2.0


@dataclass(frozen=True)
class Entry:
    """A device by name. icount as in Device; alive: it answered when it was looked at."""

    name: str
    cpu: str
    port: str
    pid: int
    flash: str
    folder: str
    icount: int | None
    alive: bool = True

    @property
    def keeps_flash(self) -> bool:
        """Whether its flash outlives it."""
        return Path(self.folder) not in Path(self.flash).parents


@dataclass(frozen=True)
class Wanted:
    """What Device.start() is to be told; firmware as in DeviceOptions."""

    cpu: str = "cortex-m4"
    flash: Path | None = None
    icount: int | None = None
    plan: Path | None = None
    firmware: Path | None = None


def state_folder() -> Path:
    """Where devices are recorded: XDG_STATE_HOME/edgesparse/devices."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "edgesparse" / "devices"


def start(wanted: Wanted, name: str | None = None) -> Entry:
    """Start a device that outlives this process; name None: its cpu's.

    Raises BadInput for a name or flash file in use, DoesNotFit for a plan that does not run
    there, and as Device.start().
    """
    cpu, flash = board_of(wanted.cpu).cpu, wanted.flash
    here = {entry.name: entry for entry in entries() if entry.alive}
    chosen = _free_name(cpu, set(here)) if name is None else name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", chosen):
        raise BadInput(f"--name {chosen!r}: letters, digits, '.', '_' and '-', 64 at most")
    if chosen in here:
        raise BadInput(
            f"--name {chosen}: such a device runs already, on {here[chosen].port}; stop it first "
            "or give another name")
    for other in here.values():
        if flash is not None and str(flash.resolve()) == other.flash:
            raise BadInput(f"--flash {flash}: this is the flash of {other.name}, which runs")
    device = Device.start(
        cpu, flash, wanted.icount, wanted.plan,
        DeviceOptions(firmware=wanted.firmware, detached=True))
    entry = Entry(chosen, cpu, device.port, device.process.pid, str(device.flash),
                  str(device.folder), wanted.icount)
    try:
        if wanted.plan is not None:
            _check_runs(device, Plan.load(wanted.plan))
        state_folder().mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(entry), indent=2).encode()
        write_whole(_file(chosen), lambda file: file.write(text))
    except BaseException:
        device.stop()
        raise
    return entry


def _check_runs(device: Device, plan: Plan) -> None:
    """A device refuses plans that are brought over the link; one in its flash it leaves alone."""
    with open_link(device.port) as link:
        if link.info()["run"]:
            return
        arena = memory(link).arena
    reason = (
        "it has a program for an NPU, which the board has not; convert it without one"
        if plan.model.config else
        f"it takes {plan.ram_bytes:,} bytes of RAM and a little more per step, and the board has "
        f"{arena:,}")
    raise DoesNotFit(f"the plan does not run on a {device.board.cpu}: {reason}")


def _free_name(cpu: str, taken: set[str]) -> str:
    number = 2
    name = cpu
    while name in taken:
        name, number = f"{cpu}-{number}", number + 1
    return name


def _file(name: str) -> Path:
    return state_folder() / f"{name}.json"


def entries() -> tuple[Entry, ...]:
    """All recorded devices, by name, each looked at."""
    recorded = sorted(_recorded(), key=lambda entry: entry.name)
    return tuple(replace(entry, alive=_answers(entry)) for entry in recorded)


def _recorded() -> Iterator[Entry]:
    for path in state_folder().glob("*.json"):
        try:
            yield Entry(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError) as error:
            raise BadInput(
                f"{path}: no record of a device ({error}); remove the file") from error


def _answers(entry: Entry) -> bool:
    """By its control socket, which no other process can have, as it can a pid."""
    try:
        Qmp(control_of(Path(entry.folder)), ASK_S).close()
    except (FileNotFoundError, ConnectionError):
        return False
    except DeviceFailed:  # it talks to somebody else
        return True
    return True


def forget(entry: Entry) -> None:
    """Remove what an ended device has left."""
    shutil.rmtree(entry.folder, ignore_errors=True)
    _file(entry.name).unlink(missing_ok=True)


def stop(entry: Entry) -> None:
    """End a device, which may have ended already, and forget it.

    Raises DeviceFailed when it goes on.
    """
    end = time.monotonic() + STOP_S
    while entry.alive and _told_to_quit(entry):
        if time.monotonic() > end:
            raise DeviceFailed(f"{entry.name} does not stop; end process {entry.pid}")
        time.sleep(0.01)
    forget(entry)


def _told_to_quit(entry: Entry) -> bool:
    """Whether it was still there; it may be gone before it has answered."""
    try:
        with Qmp(control_of(Path(entry.folder)), ASK_S) as qmp:
            qmp.ask("quit")
    except (FileNotFoundError, ConnectionError):
        return False
    except DeviceFailed:  # it talks to somebody else, or to nobody
        return True
    return True


def find(name: str) -> Entry:
    """Raises BadInput for an unknown name."""
    here = entries()
    for entry in here:
        if entry.name == name:
            return entry
    raise BadInput(f"{name}: no such device; {_known(entry.name for entry in here)}")


def open_port(name: str, baud: int) -> Link:
    """A device by the name it was started by, or by its port as open_link() takes it.

    Raises BadInput as open_link(), LinkLost, LinkTimeout when no device answers.
    """
    started = {entry.name: entry.port for entry in _recorded()}
    try:
        return open_link(started.get(name, name), baud=baud)
    except LinkLost as error:
        if name in started:
            hint = f"; device {name} has ended, start it again with edgesparse device start"
        elif re.search(r"[/:]|^COM\d", name):
            hint = ""
        else:
            hint = f"; and no device has been started by this name, {_known(started)}"
        raise LinkLost(f"{error}{hint}") from error


def _known(names: Iterable[str]) -> str:
    return f"there is {', '.join(sorted(names)) or 'none'}"
