"""A place where plans are run one after the other: an emulated board, or a device on a port."""

from __future__ import annotations

import hashlib
from typing import Protocol

from edgesparse.device.boards import board_of
from edgesparse.device.firmware import build_firmware, need
from edgesparse.device.qemu import QEMU, Device
from edgesparse.device.registry import open_port
from edgesparse.errors import CheckFailed, DeviceFailed
from edgesparse.link import open_link
from edgesparse.link.client import Link, Patience
from edgesparse.link.deploy import Outcome, deploy, running
from edgesparse.link.images import images
from edgesparse.link.info import device_info
from edgesparse.link.refusals import check_fit
from edgesparse.plan.plan import Plan

UNHURRIED = Patience(wait=20.0, tries=3)
"""The line of an emulated board loses nothing. A request that is repeated because this computer is
slow would interrupt the run that is counted, and cost it instructions."""


class Rig(Protocol):
    """on: for people and profiles."""

    on: str

    def bring(self, plan: Plan) -> Link:
        """Let the plan run, and be asked about. Raises what stands in the way."""

    def close(self) -> None: ...


class EmulatedRig:
    """A board that starts anew for each plan, with it in its flash. Time is instructions."""

    def __init__(self, cpu: str, icount: int) -> None:
        """Raises BadInput, ToolMissing, BuildFailed: all that is missing is said at once."""
        self.on = f"qemu:{board_of(cpu).cpu}"
        self.icount = icount
        need(QEMU, "qemu-system-arm", "run")
        build_firmware(cpu)
        self._cpu = cpu
        self._plan = b""
        self._board: Device | None = None
        self._link: Link | None = None

    def bring(self, plan: Plan) -> Link:
        """Raises DeviceRefused for a plan that does not fit, DeviceFailed, LinkError."""
        if self._link is None or self._plan != plan.data:
            self.close()
            self._board = Device.start(self._cpu, icount=self.icount, plan=plan)
            self._link = open_link(self._board.port, patience=UNHURRIED)
            info = device_info(self._link)
            check_fit(plan, info)
            if not info.running:
                raise DeviceFailed(f"{self.on}: the board does not start the plan")
            self._plan = plan.data
        return self._link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._board is not None:
            self._board.stop()
        self._link, self._board, self._plan = None, None, b""


class PortRig:
    """A device on a port. Plans run there on trial: close() brings back the one it had."""

    def __init__(self, port: str, baud: int) -> None:
        """Raises LinkLost, LinkTimeout."""
        self.on = port
        self._link = open_port(port, baud)
        self._on_trial = False

    def bring(self, plan: Plan) -> Link:
        """Raises CheckFailed when its self test fails there, DeviceRefused, LinkError."""
        now = running(images(self._link))
        if now is None or now.hash != hashlib.sha256(plan.data).digest():
            self._end_trial()
            done = deploy(self._link, plan, keep=False)
            self._on_trial = done.outcome is Outcome.ON_TRIAL
            if done.outcome is Outcome.REVERTED:
                raise CheckFailed(f"{self.on}: the plan does not run there: {done.why}")
        return self._link

    def _end_trial(self) -> None:
        if self._on_trial:
            self._link.reset()
            self._on_trial = False

    def close(self) -> None:
        self._end_trial()
        self._link.close()
