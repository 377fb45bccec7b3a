"""What the lowering is for, in emulated cycles and bytes: loads hidden, fusion, skipping."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import Options, convert_model
from edgesparse.npu.options import NpuOptions
from edgesparse.runtime.npu import BARE, Counters, NpuKnobs
from edgesparse.streaming.plan import StreamOptions
from edgesparse.target import load_target
from npu_blocks import BLOCKS, Block, block
from npu_run import lower_and_check, machine_of

ECG = StreamOptions(hop=8, mode="continuous", frontend="ecg360", beats=True)


def dram(counters: Counters) -> int:
    return counters["dma_dram_rd_bytes"] + counters["dma_dram_wr_bytes"]


def test_loads_hide_behind_computing() -> None:
    """Pointwise 128 to 128, 24 columns, esn-s: at least 0.9 of the slower of the two."""
    checked = lower_and_check(block(Block(24, 128, 128, 1), None), options=NpuOptions(skip=False))
    c = checked.counters
    computing = c["issue"] + c["mac_cyc"] + c["req_cyc"] + c["vec_cyc"]
    assert max(c["dma_busy"], computing) >= 0.9 * (c["cycles"] - c["launch_cyc"])


@pytest.mark.parametrize("shape", BLOCKS, ids=str)
def test_fusion_saves_what_lies_between(shape: Block) -> None:
    """Weights resident; with the result of the convolution in DRAM, and in the scratchpad."""
    cycles = {}
    for where in ("dram", "sram"):
        options = NpuOptions(resident=True, skip=False, intermediates=where)
        one, two = (lower_and_check(block(shape, fused), options=options).counters
                    for fused in (True, False))
        cycles[where] = one["cycles"] / two["cycles"]
        if where == "dram":
            assert dram(two) >= 2.2 * dram(one)
        else:
            assert dram(two) == dram(one)
    assert cycles["dram"] <= 0.9
    # Eight columns are one group without the pool and two with it: that costs a few instructions.
    assert cycles["sram"] <= 1.05


def test_skipping_costs_a_cycle_at_most_where_there_is_nothing_to_skip() -> None:
    plan = block(Block(24, 64, 64, 1), None)
    plan = replace(plan, tensors=tuple(
        replace(t, place=replace(t.place, zero_point=-127)) for t in plan.tensors))
    found = [lower_and_check(plan, options=NpuOptions(skip=skip)).machine for skip in (True, False)]
    arena = np.full(plan.arena_bytes, 3, np.int8)
    skip, plain = (m.run(arena.copy(), BARE).counters for m in found)
    assert skip["mac_skip_a"] == 0
    assert plain["mac_cyc"] < skip["mac_cyc"] <= 1.01 * plain["mac_cyc"]


def hop(name: str, resident: bool, knobs: NpuKnobs) -> int:
    """Mean emulated cycles of an ECG hop on esn-s, input around the zero point."""
    path = Path(str(files("edgesparse.demo") / f"{name}.tflite"))
    options = Options(stream=ECG, golden=False, npu=NpuOptions(resident=resident))
    done = convert_model(path, "esn-s", options)
    npu = load_target("esn-s").npu
    assert done.npu is not None
    assert npu is not None
    machine = machine_of(done.plan.model, done.npu, npu)
    rng, total = np.random.default_rng(0), 0
    arena = np.zeros(done.plan.model.arena_bytes, np.int8)
    for _ in range(20):
        arena[done.plan.model.state_bytes :] = rng.integers(
            -40, 40, len(arena) - done.plan.model.state_bytes)
        total += machine.run(arena, knobs).counters["cycles"]
    return total // 20


def test_sparse_ecg_hops_take_fewer_cycles() -> None:
    """With everything counted, weights from flash in every hop; resident they take far less."""
    everything = NpuKnobs()
    dense, sparse = (hop(f"ecg_c48_{kind}", False, everything) for kind in ("dense", "16x1_75"))
    assert dense >= 2 * sparse
    resident = {kind: hop(f"ecg_c48_{kind}", True, everything)
                for kind in ("dense", "4x1_75", "16x1_75")}
    assert resident["dense"] < dense / 3
    assert resident["16x1_75"] < sparse / 3
    # All wait for instructions; slices of sparse weights are loops like those of dense ones.
    assert max(resident.values()) <= 1.06 * resident["dense"]
