"""Plans with a program for the NPU, put together by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.npu.isa import Op, Space
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.npu_model import Npu, NpuBlob
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from npu_program import END, ins

CONFIG = 1
"""esn-s."""


def with_program(
    model: pm.PlanModel, *body: bytes, blobs: tuple[NpuBlob, ...] = (), config: int = CONFIG
) -> pm.PlanModel:
    """The plan with a program that runs `body`; nothing happens at a reset."""
    commands = np.frombuffer(b"".join((END, *body, END)), np.uint8)
    npu = Npu(config=config, scratchpad_bytes=64, prologue=1, commands=commands, blobs=blobs)
    return replace(model, config=config, npu=npu)


def all_on_cpu(model: pm.PlanModel, **more: int) -> pm.PlanModel:
    """Every step by HOST."""
    return with_program(model, *(ins(Op.HOST, step=i) for i in range(len(model.steps))), **more)  # type: ignore[arg-type]


def through_scratchpad(outside: int, to: int, size: int) -> tuple[bytes, ...]:
    """Copy bytes of the arena from `outside` to `to`."""
    return (
        ins(Op.DMA, space=Space.DRAM_READ, external=outside, bytes=size), ins(Op.DWAIT),
        ins(Op.DMA, space=Space.DRAM_WRITE, external=to, bytes=size), ins(Op.DWAIT))


def golden(model: pm.PlanModel, seed: int = 5) -> pm.PlanModel:
    """The plan with its self test."""
    crc, outputs = Interpreter(write_plan(model)).self_test_values(seed)
    return replace(model, golden=pm.Golden(seed=seed, trace_crc=crc, outputs=outputs))


def plan_of(model: pm.PlanModel) -> Plan:
    return Plan.from_bytes(write_plan(model))
