"""Files of the command line, checked before the work starts."""

from __future__ import annotations

from pathlib import Path

from edgesparse.errors import BadInput, PlanInvalid
from edgesparse.plan.plan import Plan
from edgesparse.runtime.native import NativePlan


def open_plan(path: Path) -> Plan:
    """A plan that the C core has checked completely: nothing in it needs distrust any more.

    Raises BadInput when the file cannot be read, PlanInvalid when it is no sound plan.
    """
    try:
        plan = Plan.load(path)
        NativePlan(plan.data)
    except PlanInvalid as refused:
        raise PlanInvalid(f"{path}: {refused}") from refused
    return plan


def check_writable(path: Path, option: str, *inputs: Path) -> None:
    """Raises BadInput when a file could not be written at `path`, or is one of the inputs."""
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise BadInput(f"{option} {path}: this is the input {source}; give another name")
    if path.is_dir():
        raise BadInput(f"{option} {path}: this is a directory; give the name of a file in it")
    if not path.parent.is_dir():
        raise BadInput(f"{option} {path}: there is no directory {path.parent}; make it first")
