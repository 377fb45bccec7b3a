"""Files of the command line: checked before the work starts, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from edgesparse.errors import BadInput
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import NativePlan


def open_plan(path: Path) -> Plan:
    """A plan that the C core has checked completely: nothing in it needs distrust any more.

    Raises BadInput when the file cannot be read, PlanInvalid when it is no sound plan.
    """
    plan = Plan.load(path)
    NativePlan(plan.data)
    return plan


def check_writable(path: Path, option: str) -> None:
    """Raises BadInput when a file could not be written at `path`."""
    if path.is_dir():
        raise BadInput(f"{option} {path}: this is a directory; give the name of a file in it")
    if not path.parent.is_dir():
        raise BadInput(f"{option} {path}: there is no directory {path.parent}; make it first")


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its place, then move it there: a reader sees all of it or the old one.

    Raises OSError as the file system gives it.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
