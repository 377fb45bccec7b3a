"""Compile pruned, quantized networks into plans for small machines, and run them.

    import edgesparse as es
    plan = es.convert("model.tflite", target="host")
    plan.save("model.esp")
    y = es.Session(es.load("model.esp")).run(x)
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from edgesparse.convert import Options, convert
from edgesparse.errors import (
    BadInput,
    CheckFailed,
    DeviceRefused,
    DoesNotFit,
    EdgeSparseError,
    GraphInvalid,
    ImportFailed,
    LinkError,
    NativeError,
    NpuRefused,
    NpuTrapped,
    PlanInvalid,
    Unsupported,
    UnsupportedModel,
    WrongMachine,
)
from edgesparse.plan.plan import Plan
from edgesparse.profiling.device import DeviceProfile
from edgesparse.profiling.profile import HostProfile, Profile
from edgesparse.profiling.run import ProfileOptions, profile
from edgesparse.runtime.session import Session
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Beat, Run, SignalState, StateChange
from edgesparse.streaming.plan import StreamOptions

__version__ = version("edgesparse")

__all__ = [
    "BadInput",
    "Beat",
    "CheckFailed",
    "DeviceProfile",
    "DeviceRefused",
    "DoesNotFit",
    "EdgeSparseError",
    "GraphInvalid",
    "HostProfile",
    "ImportFailed",
    "LinkError",
    "NativeError",
    "NpuRefused",
    "NpuTrapped",
    "Options",
    "Plan",
    "PlanInvalid",
    "Profile",
    "ProfileOptions",
    "Run",
    "Session",
    "SignalState",
    "StateChange",
    "Stream",
    "StreamOptions",
    "Unsupported",
    "UnsupportedModel",
    "WrongMachine",
    "convert",
    "load",
    "profile",
]


def load(path: str | Path) -> Plan:
    """Read a plan file. Raises BadInput when it cannot be read, PlanInvalid when it is no plan."""
    return Plan.load(path)
