"""Plans with a program for the NPU, put together by hand."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from edgesparse.npu.isa import Op, Space
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.npu_model import Npu, NpuBlob
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan

CONFIG = 1
"""esn-s."""
END = struct.pack("<BBBBIII", Op.END, 0, 0, 0, 0, 0, 0)


def code(op: Op, a: int = 0, b: int = 0, c: int = 0, i0: int = 0, i1: int = 0, i2: int = 0) -> bytes:
    return struct.pack("<BBBBIII", op, a, b, c, i0, i1, i2)


def with_program(
    model: pm.PlanModel, *body: bytes, blobs: tuple[NpuBlob, ...] = (), config: int = CONFIG
) -> pm.PlanModel:
    """The plan with a program that runs `body`; nothing happens at a reset."""
    commands = np.frombuffer(b"".join((END, *body, END)), np.uint8)
    npu = Npu(config=config, scratchpad_bytes=64, prologue=1, commands=commands, blobs=blobs)
    return replace(model, config=config, npu=npu)


def all_on_cpu(model: pm.PlanModel, **more: int) -> pm.PlanModel:
    """Every step by HOST."""
    return with_program(model, *(code(Op.HOST, i0=i) for i in range(len(model.steps))), **more)  # type: ignore[arg-type]


def through_scratchpad(outside: int, to: int, size: int) -> tuple[bytes, ...]:
    """Copy bytes of the arena from `outside` to `to`."""
    return (
        code(Op.DMA, b=Space.DRAM_READ, i0=outside, i2=size), code(Op.DWAIT),
        code(Op.DMA, b=Space.DRAM_WRITE, i0=to, i2=size), code(Op.DWAIT))


def golden(model: pm.PlanModel, seed: int = 5) -> pm.PlanModel:
    """The plan with its self test."""
    crc, outputs = Interpreter(write_plan(model)).self_test_values(seed)
    return replace(model, golden=pm.Golden(seed=seed, trace_crc=crc, outputs=outputs))


def plan_of(model: pm.PlanModel) -> Plan:
    return Plan.from_bytes(write_plan(model))
