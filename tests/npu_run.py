"""Lower a plan, run it on the emulator, and hold every byte against the interpreter.

Each run also checks the identities of docs/NPU.md section 7 and the bound of section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from edgesparse.graph.ir import Array
from edgesparse.npu.blobs import blob_bytes
from edgesparse.npu.isa import Space
from edgesparse.npu.layout import Layout
from edgesparse.npu.lower import LoweredNpu, lower_npu
from edgesparse.npu.options import NpuOptions
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.write import write_plan
from edgesparse.runtime.native import NativePlan, NativeSession
from edgesparse.runtime.npu import Counters, NpuKnobs, NpuMachine, NpuProgram
from edgesparse.sparsity.formats import EvenLanes, Format, Lanes, decode_weights
from edgesparse.target import NpuConfig, load_target

Form = Callable[[Array], Format]
"""Weights [rows, K] -> how to store them."""
MAC_PARTS = ("mac_issued", "mac_skip_w", "mac_skip_a")
TIMES = ("launch_cyc", "issue", "mac_cyc", "req_cyc", "lut_cyc", "vec_cyc", "stall_dma",
         "stall_fetch")


def config(name: str = "esn-s", **changed: int) -> NpuConfig:
    found = load_target(name).npu
    assert found is not None
    return replace(found, **changed)


def dense(w: Array, lanes: int = 16) -> Format:
    del w
    return Lanes.dense(lanes)


def columns(share: int, lanes: int = 16) -> Form:
    return lambda w: Lanes.columns(lanes, share, w.shape[1])


def bitmask(w: Array, lanes: int = 16) -> Format:
    del w
    return Lanes.bitmask(lanes)


def n_of_m(n: int, m: int, lanes: int = 16) -> Form:
    return lambda w: Lanes.n_of_m(lanes, n, m)


def even(form: Form) -> Form:
    """As many steps in every slice."""

    def made(w: Array) -> Format:
        lanes = form(w)
        assert isinstance(lanes, Lanes)
        return EvenLanes.of(lanes)

    return made


def in_lanes(plan: pm.PlanModel, lanes: int = 16, form: Form | None = None) -> pm.PlanModel:
    """The plan with weights in slices of lanes and PLAIN bias, as a target with an NPU has it."""
    return replace(plan, steps=tuple(_step(plan, s, lanes, form) for s in plan.steps))


def _step(plan: pm.PlanModel, step: pm.Step, lanes: int, form: Form | None) -> pm.Step:
    if not isinstance(step.source, pm.Mac):
        return step
    mac = step.source
    w = decode_weights(mac.weights)
    bias = mac.bias.astype(np.int64)
    if mac.bias_form is pm.BiasForm.FOLDED:
        bias = bias + plan.tensors[step.input].place.zero_point * w.astype(np.int64).sum(axis=1)
    chosen: Format = Lanes.dense(lanes)
    if form is not None and mac.geometry.groups == 1 and not form(w).refusal(w):
        chosen = form(w)
    weights = pm.Weights(rows=w.shape[0], cols=w.shape[1], groups=(chosen.row_group(w),))
    return replace(step, source=replace(
        mac, weights=weights, bias=bias.astype(np.int32), bias_form=pm.BiasForm.PLAIN))


@dataclass(frozen=True, eq=False)
class Checked:
    """What lower_and_check looked at.

    tensors   results compared, run by run; `bytes` of them
    counters  of the last run
    """

    lowered: LoweredNpu
    machine: NpuMachine
    counters: Counters
    tensors: int
    bytes: int


def machine_of(plan: pm.PlanModel, lowered: LoweredNpu, npu: NpuConfig) -> NpuMachine:
    program = lowered.npu
    return NpuMachine(npu, NpuProgram(
        commands=program.commands.tobytes(), prologue=program.prologue, config=program.config,
        blobs=tuple(blob_bytes(plan, blob) for blob in program.blobs),
        dram_bytes=plan.arena_bytes, state_bytes=plan.state_bytes, steps=len(plan.steps)))


def lower_and_check(
    plan: pm.PlanModel, npu: NpuConfig | None = None, options: NpuOptions | None = None,
    runs: int = 2, seed: int = 0,
) -> Checked:
    """plan: weights in lanes. Steps of the CPU run in the C core, on the same arena."""
    npu = npu or config()
    lowered = lower_npu(plan, npu, options)
    machine = machine_of(plan, lowered, npu)
    portable = write_plan(replace(plan, npu=None, config=0, golden=None))
    interpreter, session = Interpreter(portable), NativeSession(NativePlan(portable))
    rng = np.random.default_rng(seed)
    counters: Counters = {}
    tensors = size = 0
    for _ in range(runs):
        inputs = [rng.integers(-128, 128, plan.tensors[io.tensor].shape).astype(np.int8)
                  for io in plan.inputs]
        expected = interpreter.run_traced(inputs)
        for buffer, values in zip(session.inputs, inputs, strict=True):
            buffer[:] = values.ravel()
        before = session.arena.copy(), machine.scratchpad.copy()
        counters = machine.run(session.arena, NpuKnobs(), session.run_step).counters
        check_identities(plan, lowered, machine, counters)
        for io, y in zip(plan.outputs, session.outputs, strict=True):
            np.testing.assert_array_equal(y, interpreter._read(io.tensor).ravel(), str(io))
        for tensor, values in survivors(machine, lowered):
            np.testing.assert_array_equal(
                values.ravel(), expected[tensor].ravel(), f"tensor {tensor}")
            tensors, size = tensors + 1, size + values.size
        if not plan.rings:
            _check_bound(machine, session, before, counters)
    return Checked(lowered, machine, counters, tensors, size)


def survivors(machine: NpuMachine, lowered: LoweredNpu) -> list[tuple[int, Array]]:
    """(tensor, [columns, channels]) of the results that are still in the scratchpad."""
    memory = machine.scratchpad.view(np.int8)
    return [(p.tensor, memory[_addresses(p.layout)]) for p in lowered.placements
            if p.survives and p.space == "scratchpad" and p.layout is not None]


def _addresses(v: Layout) -> Array:
    y, x = np.divmod(np.arange(v.rows * v.cols), v.cols)
    where: Array = (v.base + y * v.row_pitch + x * v.col_pitch)[:, None] + np.arange(v.channels)
    return where


def check_identities(
    plan: pm.PlanModel, lowered: LoweredNpu, machine: NpuMachine, counters: Counters
) -> None:
    """Cycles add up; products are those of the geometry; bytes are those the verifier knows."""
    assert counters["cycles"] == sum(counters[name] for name in TIMES)
    cpu = {step for step, _ in lowered.host}
    products = sum(dense_products(s) for i, s in enumerate(plan.steps) if i not in cpu)
    assert sum(counters[name] for name in MAC_PARTS) == products
    for space, name in ((Space.FLASH_READ, "dma_flash_rd_bytes"),
                        (Space.DRAM_READ, "dma_dram_rd_bytes"),
                        (Space.DRAM_WRITE, "dma_dram_wr_bytes")):
        assert counters[name] == machine.traffic.dma_bytes[space]
    assert counters["host_steps"] == len(cpu)


def dense_products(step: pm.Step) -> int:
    """As if no weight and no input were zero; only of positions that a fused pool looks at."""
    if not isinstance(step.source, pm.Mac):
        return 0
    g, weights = step.source.geometry, step.source.weights
    positions = g.out_h * g.out_w
    for stage in step.branches[0].stages:
        if isinstance(stage, pm.MaxPool):
            w = stage.window
            positions = w.out_h * w.out_w * w.kernel_h * w.kernel_w
    return weights.rows * weights.cols * positions


def _check_bound(
    machine: NpuMachine, session: NativeSession, before: tuple[Array, Array], counters: Counters
) -> None:
    """The same run with no zero seen takes as long or longer, and gives the same bytes."""
    after = session.arena.copy(), machine.scratchpad.copy()
    session.arena[:], machine.scratchpad[:] = before
    bound = machine.run(session.arena, NpuKnobs(bound=True), session.run_step).counters
    assert bound["cycles"] >= counters["cycles"]
    assert bound["mac_skip_a"] == 0
    np.testing.assert_array_equal(session.arena, after[0])
    np.testing.assert_array_equal(machine.scratchpad, after[1])
