"""One inference on given tensors, the self test, and times, on the device."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.link.client import Link
from edgesparse.link.smp import Command, Group, Op

SELF_TEST = Command(Group.EDGESPARSE, 5, Op.WRITE, "test itself")
PROFILE = Command(Group.EDGESPARSE, 6, Op.READ, "give its times per layer")
LATENCY = Command(Group.EDGESPARSE, 7, Op.READ, "give its times")
RUN = Command(Group.EDGESPARSE, 9, Op.WRITE, "run the plan")
MEMORY = Command(Group.EDGESPARSE, 10, Op.READ, "give its memory")

OVERHEAD = 48
RUN_WAIT = 5.0
"""Seconds one run or self test may take."""
ROW = struct.Struct("<QI")


@dataclass(frozen=True)
class StepTime:
    """ticks: of the device's clock, summed over the runs."""

    ticks: int
    runs: int


@dataclass(frozen=True)
class Latency:
    """Of runs and pushed hops, microseconds. bins[k] counts those in [2^k, 2^(k+1)); ticks: of the
    clock of StepTime in all, modulo 2^32."""

    count: int
    mean: int
    most: int
    ticks: int
    bins: tuple[int, ...]


class Cause(IntEnum):
    """Why the firmware started last."""

    POWER = 0
    ASKED = 1
    FAULT = 2
    WATCHDOG = 3


@dataclass(frozen=True)
class Memory:
    """RAM of the device, bytes. pc: of the fault or hang that `cause` names, else 0.

    stack_most  the deepest it has been since the start
    arena_used  what the plan takes of the arena, step counters included
    fixed       variables and buffers
    """

    stack: int
    stack_most: int
    arena: int
    arena_used: int
    fixed: int
    cause: Cause
    pc: int


def run(link: Link, inputs: Sequence[Array]) -> list[Array]:
    """Run the device's plan once.

    inputs  each int8 (or uint8 bytes), all of the plan's, in its order
    Returns its outputs, each as one row of int8. State of earlier runs is kept.
    Raises LinkRefused for an input of another size, while a stream is open, or without a plan.
    """
    outputs = int(link.info()["out"])
    for number, values in enumerate(inputs):
        _write_input(link, number, values.tobytes())
    link.request(RUN, {}, wait=RUN_WAIT)
    return [np.frombuffer(_read_output(link, number), np.int8) for number in range(outputs)]


def reset_state(link: Link) -> None:
    """Forget what earlier runs left."""
    link.request(RUN, {"rst": True})


def self_test(link: Link, tries: int | None = None) -> int:
    """Run the plan's built-in vector; microseconds it took. A stream ends by it.

    tries: to be answered; None: as many as any request has
    Raises LinkRefused when it gave other bytes.
    """
    return int(link.request(SELF_TEST, {}, wait=RUN_WAIT, tries=tries)["us"])


def _write_input(link: Link, number: int, data: bytes) -> None:
    at = 0
    while True:
        piece = data[at:at + link.chunk - OVERHEAD]
        at = int(link.request(RUN, {"t": number, "off": at, "d": piece})["off"])
        if at >= len(data):
            return


def _read_output(link: Link, number: int) -> bytes:
    data = b""
    while True:
        reply = link.request(RUN, {"o": number, "off": len(data)})
        data += bytes(reply["d"])
        if len(data) >= int(reply["n"]):
            return data


def profile(link: Link) -> list[StepTime]:
    """Per step of the plan."""
    rows: list[StepTime] = []
    while True:
        reply = link.request(PROFILE, {"l": len(rows)})
        rows += [StepTime(*fields) for fields in ROW.iter_unpack(bytes(reply["cyc"]))]
        if len(rows) >= int(reply["n"]):
            return rows


def latency(link: Link) -> Latency:
    reply = link.request(LATENCY, {})
    bins = np.frombuffer(bytes(reply["h"]), "<u4")
    return Latency(
        int(reply["n"]), int(reply["mean"]), int(reply["max"]), int(reply["t"]),
        tuple(int(b) for b in bins))


def memory(link: Link) -> Memory:
    """Raises LinkRefused by a firmware that does not measure it."""
    reply = link.request(MEMORY, {})
    stack, most, arena, used, fixed, pc = (
        int(reply[key])
        for key in ("stack", "stack_max", "arena", "arena_used", "static", "pc"))
    return Memory(stack, most, arena, used, fixed, Cause(int(reply["cause"])), pc)
